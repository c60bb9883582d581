# SPDX-License-Identifier: Apache-2.0
# theft.py: takes every port it can get, in every manner, over and over, and connects as a program beside it would. Whoever is
# answered by one of these listeners reads STOLEN. A line a round: PHASE ROUND, what was bound of the gateway's, how each connect ended.
import errno, itertools, os, socket, struct, sys, threading, time
S, D, V4, V6 = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.AF_INET, socket.AF_INET6
held = {}
ours4, ours6 = ["127.0.0.1", "0.0.0.0", "127.9.9.9", "10.0.2.15", "198.51.100.9", "198.18.0.7"], ["::1", "::", "fd00::15", "2001:db8::9", "::ffff:127.0.0.1", "::ffff:0.0.0.0", "::ffff:198.51.100.9"]
def serve(s, kind):
    while True:
        try:
            if kind == S:
                c, _ = s.accept(); c.sendall(b"STOLEN"); c.close()
            else: s.sendto(b"STOLEN", s.recvfrom(2048)[1])
        except OSError: pass
def bind(family, kind, address, port, options):
    s = socket.socket(family, kind)
    try:
        for o in options: s.setsockopt(socket.SOL_SOCKET, o, 1)
        if family == V6: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not address.startswith("::ffff"))
        s.bind((address, port))
        if kind == S: s.listen(16)
    except OSError:
        s.close(); return False
    threading.Thread(target=serve, args=(s, kind), daemon=True).start()
    held[family, kind, address, port] = s
    return True
# Bound where the gateway itself listens: that alone is a theft. Elsewhere it counts when somebody is served.
exact = {(S, 3128): {"127.0.0.1", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"}}
def bind_all():
    taken = []
    for port, kind, options in itertools.product((53, 3128, 80, 443, 8443), (S, D), ((), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT))):
        if kind == D and port != 53: continue # other datagrams are nobody's
        for family, addresses in ((V4, ours4), (V6, ours6)):
            for a in addresses:
                if (family, kind, a, port) in held: continue
                if bind(family, kind, a, port, options) and (port == 53 or a in exact.get((kind, port), ())):
                    taken.append("%s:%d/%s" % (a, port, "tcp" if kind == S else "udp"))
    return taken
QUESTION = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0\3api\4test\0\0\x01\0\1"
def connect(family, kind, address, port):
    s = socket.socket(family, kind); s.settimeout(1.0)
    try:
        s.connect((address, port))
        if kind == D: s.send(QUESTION)
        elif port == 53: s.send(struct.pack(">H", len(QUESTION)) + QUESTION)
        elif port == 3128: s.send(b"GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\nConnection: close\r\n\r\n")
        else: s.send(b"GET / HTTP/1.1\r\nHost: nobody.test\r\n\r\n")
        d = s.recv(6)
        return "STOLEN" if d == b"STOLEN" else "gateway" if d else "closed"
    except TimeoutError: return "silent"
    except OSError as e: return "refused" if e.errno in (errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE) else errno.errorcode.get(e.errno, "?")
    finally: s.close()
victims = [(V4, S, "198.51.100.9", 443), (V4, S, "198.51.100.9", 80), (V4, S, "198.51.100.9", 8443), (V4, S, "203.0.113.5", 443), (V4, S, "198.18.0.7", 443), (V6, S, "2001:db8::9", 443), (V6, S, "2001:db8::7", 8443), (V4, S, "127.0.0.1", 3128),
    (V4, S, "10.0.2.15", 3128), (V4, S, "127.9.9.9", 3128), (V4, S, "198.51.100.9", 3128), (V6, S, "::1", 3128), (V6, S, "fd00::15", 3128), (V6, S, "2001:db8::9", 3128), (V4, S, "10.0.2.15", 53), (V4, S, "127.0.0.1", 53), (V4, S, "198.51.100.9", 53), (V6, S, "::1", 53), (V6, S, "2001:db8::9", 53),
    (V4, D, "10.0.2.15", 53), (V4, D, "127.0.0.1", 53), (V4, D, "198.51.100.9", 53), (V6, D, "::1", 53), (V6, D, "2001:db8::9", 53)]
count = 0
while True:
    try: phase = open("phase").read().strip()
    except OSError: phase = "start"
    if phase == "stop": break
    count += 1
    taken = bind_all()
    ends = [None] * len(victims)
    def one(i): ends[i] = connect(*victims[i])
    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(victims))]
    for t in threads: t.start()
    for t in threads: t.join()
    print(phase, count, "bound", ",".join(taken) or "none", *("%s:%d/%s=%s" % (a, p, "tcp" if k == S else "udp", e) for (f, k, a, p), e in zip(victims, ends)), flush=True)
print("end", count, len(held), "listeners")
