# SPDX-License-Identifier: Apache-2.0
# sniff.py FILE: one line for each packet on any interface of this network namespace, until told to end:
# INTERFACE PROTOCOL SOURCE SPORT DESTINATION DPORT. The last line tells how many the kernel had to drop.
import os, signal, socket, struct, sys
out = open(sys.argv[1], "w", 1)
s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
s.settimeout(0.2)
quiet = {133, 134, 135, 136, 143, 130, 131, 132}  # what a kernel sends on a new link by itself
print("ready", file=out)
while True:
    try: data, (name, ether, *_rest) = s.recvfrom(2048)
    except TimeoutError:
        if ended: break
        continue
    if ether == 0x0800:
        at, proto = (data[0] & 15) * 4, data[9]
        src, dst = socket.inet_ntoa(data[12:16]), socket.inet_ntoa(data[16:20])
    elif ether == 0x86dd:
        at, proto = 40, data[6]
        src, dst = socket.inet_ntop(10, data[8:24]), socket.inet_ntop(10, data[24:40])
        if proto == 0: at, proto = 48, data[40]
        if proto == 58 and data[at] in quiet: continue
    else:
        print(name, "ether-%x" % ether, "- 0 - 0", file=out)
        continue
    ports = struct.unpack(">HH", data[at:at + 4]) if proto in (6, 17) and len(data) >= at + 4 else (0, 0)
    print(name, {6: "tcp", 17: "udp", 1: "icmp", 58: "icmp6"}.get(proto, "ip-%d" % proto), src, ports[0], dst, ports[1], file=out)
print("dropped", struct.unpack("II", s.getsockopt(263, 6, 8))[1], file=out)
