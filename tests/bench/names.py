# SPDX-License-Identifier: Apache-2.0
"""What a name costs, seen from inside a sandbox. names.py TODO DONE OUT: does what the lines of one fifo say, and tells the other.
hello FIRST COUNT: CONNECT and a TLS handshake for each name; get PORT NAME...: one request for each name, its milliseconds and status
go to OUT."""
import socket, ssl, sys, time


def connect(host, port):
    s = socket.create_connection(("127.0.0.1", 3128), 60)
    s.sendall(b"CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n" % (host.encode(), port, host.encode(), port))
    b = b""
    while b"\r\n\r\n" not in b: b += s.recv(4096) or exit("closed: %r" % b)
    return s


context = ssl.create_default_context()


def hello(first, count):
    for i in range(int(first), int(first) + int(count)):
        h = "n%d.names.test" % i
        context.wrap_socket(connect(h, 443), server_hostname=h).close()


def get(port, *names):
    out = open(sys.argv[3], "w")
    for h in names:
        t = time.monotonic()
        s = socket.create_connection(("127.0.0.1", 3128), 60)
        s.sendall(b"GET http://%s:%d/ HTTP/1.1\r\nHost: %s:%d\r\nConnection: close\r\n\r\n" % (h.encode(), int(port), h.encode(), int(port))); b = b""
        while x := s.recv(65536): b += x
        out.write("%.3f %s\n" % ((time.monotonic() - t) * 1000, b[9:12].decode()))
    out.close()


done = open(sys.argv[2], "w", 1)
for line in open(sys.argv[1]):
    what, *rest = line.split()
    if what == "end": break
    try: (hello if what == "hello" else get)(*rest)
    except Exception as e: print(repr(e), file=done)
    else: print("0", file=done)
