# SPDX-License-Identifier: Apache-2.0
"""A name server of a test's own: UDP and TCP on one port. It writes every question to a file, and answers by the name.
dnsd.py PORT LOG ZONE [ADDRESS]; ZONE: lines "NAME KIND VALUE...", read anew for each question; NAME "*.REST" is for what has no line of its own."""
import socket, struct, sys, threading
port, log, zone = int(sys.argv[1]), open(sys.argv[2], "a", 1), sys.argv[3]
at = sys.argv[4] if len(sys.argv) > 4 else "127.0.0.1"
lock, seen = threading.Lock(), {}
def parse(q):
    at, labels = 12, []
    while q[at]: labels.append(q[at + 1:at + 1 + q[at]].decode("latin-1")); at += 1 + q[at]
    return ".".join(labels), struct.unpack(">H", q[at + 1:at + 3])[0], q[12:at + 5]
def encode(n): return b"".join(bytes([len(l)]) + l.encode() for l in n.split(".")) + b"\0"
def reply(q, tcp):
    name, kind, question = parse(q)
    with lock: print("tcp" if tcp else "udp", name, {1: "A", 28: "AAAA"}.get(kind, kind), file=log)
    rows = [l.split() for l in open(zone)]
    rows = [r for r in rows if r and r[0] == name.lower()] or [r for r in rows if r and r[0] == "*." + name.lower().partition(".")[2]]
    rcode, tc, out = 0 if rows else 3, False, []
    def rr(owner, t, ttl, data): out.append(owner + struct.pack(">HHIH", t, 1, ttl, len(data)) + data)
    def addresses(owner, rows):
        for r in rows:
            ttl = 60
            if r[1] == "a" and kind == 1:
                for a in r[2:]: rr(owner, 1, ttl, socket.inet_aton(a))
            if r[1] == "aaaa" and kind == 28:
                for a in r[2:]: rr(owner, 28, ttl, socket.inet_pton(socket.AF_INET6, a))
            if r[1] == "turn" and kind == 1: # another address each time, with a time to live of 0
                with lock: seen[name] = seen.get(name, 0) + 1; n = seen[name]
                rr(owner, 1, 0, socket.inet_aton(r[2:][min(n, len(r) - 2) - 1]))
            if r[1] == "many" and kind == 1:
                for i in range(int(r[3])): rr(owner, 1, ttl, socket.inet_aton(r[2]))
    for r in rows:
        if r[1] == "silent": return None
        if r[1] == "rcode": rcode = int(r[2])
        if r[1] == "empty": return q[:2] + b"\x81\x80" + b"\0" * 8
        if r[1] == "cname":
            at, owner = r[2], b"\xc0\x0c"
            rr(owner, 5, 60, encode(at)); addresses(encode(at), [x for x in (l.split() for l in open(zone)) if x and x[0] == at])
        if r[1] == "tcponly" and not tcp: tc = True
        if r[1] == "tcponly" and tcp and kind == 1: rr(b"\xc0\x0c", 1, 60, socket.inet_aton(r[2]))
    addresses(b"\xc0\x0c", rows)
    body = b"".join(out)
    if not tcp and len(body) > 450: tc = True
    n = 0 if tc else len(out)
    return q[:2] + struct.pack(">HHHHH", 0x8180 | (0x200 if tc else 0) | rcode, 1, n, 0, 0) + question + (b"" if tc else body)
family = socket.AF_INET6 if ":" in at else socket.AF_INET
u = socket.socket(family, socket.SOCK_DGRAM); u.bind((at, port))
t = socket.socket(family); t.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); t.bind((at, port)); t.listen(50)
def tcp_one(c):
    try:
        f = c.makefile("rb")
        while True:
            h = f.read(2)
            if len(h) < 2: return
            a = reply(f.read(struct.unpack(">H", h)[0]), True)
            if a is not None: c.sendall(struct.pack(">H", len(a)) + a)
    except OSError: pass
def tcp():
    while True: threading.Thread(target=tcp_one, args=(t.accept()[0],), daemon=True).start()
threading.Thread(target=tcp, daemon=True).start()
print("up", file=log)
while True:
    q, a = u.recvfrom(4096)
    r = reply(q, False)
    if r is not None: u.sendto(r, a)
