# SPDX-License-Identifier: Apache-2.0
"""Sends the control socket a descriptor whose closing waits for 1000 seconds: the last one of a connection that lingers, whose peer
takes nothing, in the queue of the socket that is sent. Argument: the control socket. Says `sent`, and stays."""
import array, os, socket, struct, sys, time


def hand(over, fd):
    over.sendmsg([b'{"id":1,"op":"status"}'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])


s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
peer = socket.socket()
peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
peer.bind(("127.0.0.1", 0))
peer.listen(1)
c = socket.socket()
c.connect(peer.getsockname())
other = peer.accept()[0]
c.setblocking(False)
try:
    while True:
        c.send(b"x" * 65536)
except BlockingIOError:
    pass
a, b = socket.socketpair()
hand(a, c.fileno())
c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 1000))
c.close()  # not the last one: it is under way
a.close()
hand(s, b.fileno())
b.close()
print("sent", flush=True)
time.sleep(600)
