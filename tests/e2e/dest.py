# SPDX-License-Identifier: Apache-2.0
"""Hosts, names and addresses, asked for from inside a sandbox. Prints "ok TEXT" or "not ok TEXT: what"."""
import json, os, socket, ssl, struct, sys
HTTP, COUNT, part = int(sys.argv[2]), int(sys.argv[3]), sys.argv[1]
def say(good, text, what=""): print(("ok %s" if good else "not ok %s: %s") % ((text,) if good else (text, what)), flush=True)
def raw(data, to=("127.0.0.1", 3128), skip=False):
    """(status, decoded refusal or None, all octets); skip: of the second answer"""
    try: s = socket.create_connection(to, 60); s.sendall(data)
    except OSError as e: return repr(e), None, b""
    b = b""
    try:
        while b.count(b"\r\n\r\n") < 1 + skip:
            x = s.recv(65536)
            if not x: break
            b += x
        if skip: b = b.partition(b"\r\n\r\n")[2]
        head, _, body = b.partition(b"\r\n\r\n")
        n = next((int(l.split(b":")[1]) for l in head.split(b"\r\n") if l.lower().startswith(b"content-length:")), 0)
        while len(body) < n:
            x = s.recv(65536)
            if not x: break
            body += x
        s.close()
    except OSError as e: return repr(e), None, b
    try: j = json.loads(body)
    except ValueError: j = None
    return head[9:12].decode(), j, b
def get(host, path="/", port=HTTP, host_header=None):
    a = host if port == 80 else b"%s:%d" % (host, port)
    return raw(b"GET http://%s%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (a, path.encode(), a if host_header is None else host_header))
def connect(authority): return raw(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (authority, authority))
def code(r): return (r[1] or {}).get("error")

if part == "grammar":
    # E01-E18: one grammar on every way in
    bad = [("E07", b"plain.test@evil.test"), ("E07", b"plain.test%40evil.test"), ("E08", b"plain.test\0.evil.test"), ("E08", b"plain.test%00.evil.test"), ("E08", b"plain%2etest"), ("E08", b"%70lain.test"), ("E08", b"plain.test\x01"),
           ("E09", b"plain.test#.evil.test"), ("E09", b"plain.test\\.evil.test"), ("E09", b"plain.test;a"), ("E09", b"plain.test,b"), ("E09", b"plain .test"), ("E09", b"plain.test\t"),
           ("E11", "pl\u00e4in.test".encode()), ("E11", "\uff50lain.test".encode()), ("E11", "plain\u3002test".encode()), ("E11", b"pl\xffin.test"),
           ("E14", b"2130706433"), ("E14", b"0x7f000001"), ("E14", b"0177.0.0.1"), ("E14", b"127.1"), ("E14", b"0"), ("E14", b"1.2.3.4.5"), ("E14", b"127.0.0.01"), ("E14", b"1.2.3"), ("E14", b"0x7f.1"), ("E14", b"a.0x1"), ("E14", b"256.1.1.1"),
           ("E15", b"[fe80::1%25eth0]"), ("E15", b"[fe80::1%eth0]"), ("E15", b"[v1.x]"), ("E15", b"[::1"), ("E15", b"::1]"), ("E15", b"[]"), ("E15", b"[1:2]"), ("E15", b"[::1]x"), ("E15", b"[127.0.0.1]"), ("E15", b"::1"),
           ("E16", b"a" * 64 + b".test"), ("E16", b"a." * 126 + b"aa"), ("E16", b"a..test"), ("E16", b".test"), ("E16", b"-a.test"), ("E16", b"a-.test"), ("E16", b"plain.test.."), ("E05", b"plain.test..")]
    for i, h in bad:
        t = h.decode("latin-1").encode("unicode_escape").decode()[:40]
        for way, r in (("absolute", get(h)), ("connect", connect(h + b":443")), ("Host of a transparent request", raw(b"GET / HTTP/1.1\r\nHost: " + h + b"\r\nConnection: close\r\n\r\n", ("plain.test", HTTP)))):
            say(r[0] in ("400", "421") and code(r) in ("malformed_request", "identity_mismatch"), "%s %s: %s" % (i, way, t), (r[0], code(r), r[2][:80]))
    for p in (b"", b"0", b"65536", b"443x", b"+443", b"0443", b"-1", b"99999999999"):
        r = connect(b"api.test:" + p); say(r[0] == "400", "E12 connect: port %r" % p.decode(), r[:2])
        r = raw(b"GET http://plain.test:" + p + b"/ HTTP/1.1\r\nHost: plain.test:" + p + b"\r\n\r\n"); say(r[0] == "400", "E12 absolute: port %r" % p.decode(), r[:2])
    for what, h in (("another host", b"evil.test:%d" % HTTP), ("another port", b"plain.test:1"), ("none", None), ("empty", b"")):
        line = b"" if h is None else b"Host: " + h + b"\r\n"
        r = raw(b"GET http://plain.test:%d/ HTTP/1.1\r\n%s\r\n" % (HTTP, line)); say(r[0] in ("400", "421"), "E01 E02 E18 Host: %s" % what, r[:2])
    r = raw(b"GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n"); say(r[0] == "400", "E03 origin-form on the proxy's port", r[:2])
    for i, h in (("E05", b"plain.test."), ("E06", b"PLAIN.Test"), ("E06", b"pLaIn.tEsT.")):
        r = get(h); say(r[0] == "200", "%s %s is plain.test" % (i, h.decode()), r[:2])
    for h in (b"notplain.test", b"plain.test.evil.test", b"evil-plain.test", b"xplain.test", b"w.test", b"a.w.test.evil.test", b"aw.test"):
        r = get(h); say(code(r) == "destination_denied", "E10 %s is refused" % h.decode(), r[:2])
    r = get(b"a.w.test"); say(r[0] == "200", "E10 a.w.test is of *.w.test", r[:2])
    r = get(b"a.b.w.test"); say(code(r) == "destination_denied", "E10 a.b.w.test is not", r[:2])
    for p in (22, 25, 6379, 8443, 80, COUNT):
        r = get(b"plain.test", port=p); say(code(r) == "destination_denied", "E13 port %d" % p, r[:2])
    for h in (b"127.0.0.1", b"[::1]", b"[::]", b"[::ffff:127.0.0.1]", b"[::ffff:7f00:1]", b"[::127.0.0.1]", b"[64:ff9b::7f00:1]", b"[2002:7f00:1::]", b"169.254.169.254", b"127.0.0.1."):
        r = get(h); say(code(r) in ("destination_denied", "malformed_request"), "E14 E15 UT09 %s needs a rule" % h.decode(), r[:2])
    for h in (b"localhost", b"foo.localhost", b"x.local", b"x.internal", b"intranet"):
        r = get(h); say(code(r) == "destination_denied", "E17 %s is refused" % h.decode(), r[:2])
    # whether CONNECT is answered depends on explain_denials; what is asked within never is
    r = raw(b"CONNECT 127.0.0.1:3128 HTTP/1.1\r\nHost: 127.0.0.1:3128\r\n\r\n"); say(code(r) == "destination_denied" or r[0] == "200" and code(raw(b"CONNECT 127.0.0.1:3128 HTTP/1.1\r\nHost: 127.0.0.1:3128\r\n\r\nGET / HTTP/1.1\r\nHost: 127.0.0.1:3128\r\n\r\n", skip=True)) == "destination_denied", "G21 CONNECT to the proxy itself", r)
    r = get(b"127.0.0.1", port=3128); say(code(r) == "destination_denied", "G21 the proxy itself", r[:2])
    r = get(b"[2001:db8:0:0:0:0:0:7]"); say(code(r) in ("address_denied", "upstream_unreachable"), "E15 a long spelling meets the rule of [2001:db8::7]", r[:2])
    r = get(b"[2001:DB8::7]"); say(code(r) in ("address_denied", "upstream_unreachable"), "E15 capitals meet the rule of [2001:db8::7]", r[:2])
elif part == "addresses":
    # H01-H05: what a name may not lead to
    for l in open("ranges"):
        i, name, address = l.split()
        r = get(name.encode(), port=COUNT); say(code(r) == "address_denied", "%s %s" % (i, address), (r[0], r[1] and r[1].get("reason")))
    for i, h, want in (("H05", b"mixed.test", "200"), ("H05", b"mixed6.test", "200"), ("H07", b"cname-ok.test", "200"), ("H13", b"both.test", "200"), ("H12", b"tcp.test", "200"), ("H12", b"many.test", "200"), ("H06", b"turn.test", "200")):
        r = get(h); say(r[0] == want, "%s %s is reached" % (i, h.decode()), r[:2])
    for i, h, want, says in (("H01", b"listed-meta.test", "address_denied", ""), ("H01", b"listed-meta6.test", "address_denied", ""), ("H05", b"mixed-closed.test", "upstream_unreachable", "127.0.0.9"), ("H07", b"cname-bad.test", "address_denied", ""),
                             ("H12", b"nx.test", "dns_failure", "does not exist"), ("H12", b"servfail.test", "dns_failure", "failed"), ("H12", b"refused.test", "dns_failure", "refused"), ("H12", b"nodata.test", "dns_failure", "no address"), ("H12", b"empty.test", "dns_failure", "")):
        r = get(h); t = (r[1] or {}).get("reason", ""); say(code(r) == want and says in t, "%s %s: %s" % (i, h.decode(), t), r[:2])
    r = get(b"silent.test"); say(code(r) in ("dns_failure", "upstream_timeout") and "time" in r[1]["reason"], "H12 silent.test: %s" % (r[1] or {}).get("reason"), r[:2])
    # H11: where the client goes is no matter; the name is asked for anew
    r = raw(b"GET / HTTP/1.1\r\nHost: plain.test:%d\r\nConnection: close\r\n\r\n" % HTTP, ("203.0.113.9", HTTP)); say(r[0] == "200", "H11 another address with an allowed Host: the name's own is dialled", r[:2])
    r = raw(b"GET / HTTP/1.1\r\nHost: evil.test:%d\r\nConnection: close\r\n\r\n" % HTTP, ("plain.test", HTTP)); say(r[0] in ("403", "421"), "H11 an allowed address with another Host", r[:2])
elif part == "failover":
    r = get(b"plain.test"); say(r[0] == "200", "UI03 a server whose port is closed is passed over", r[:2])
    r = get(b"nx.test"); say(code(r) == "dns_failure" and "does not exist" in r[1]["reason"], "UI03 the next one's word counts", r[:2])
    import threading, time
    got = {}
    t = threading.Thread(target=lambda: got.update(silent=get(b"silent.test"))); t.start()
    r = get(b"tcp.test"); say(r[0] == "200" and "silent" not in got, "UI03 a name that gets no answer holds up no other", r[:2])
    t.join(); say(code(got["silent"]) in ("dns_failure", "upstream_timeout"), "UI03 and ends by itself", got["silent"][:2])
elif part == "ipv4":
    r = get(b"both.test"); say(r[0] == "200", "H13 with IPv6 off a name with both is reached", r[:2])
    r = get(b"listed-meta6.test"); say(code(r) == "dns_failure" and "no address" in r[1]["reason"], "H13 one with IPv6 alone has no address", r[:2])
    r = get(b"[::1]", port=COUNT); say(code(r) == "address_denied", "H13 an address is refused, though the policy lists it", r[:2])
elif part == "changed":
    r = get(b"plain.test"); say(code(r) == "dns_failure", "UI04 no name server can be reached", r[:2])
    open("changed.now", "w").close()
    for i in range(60):
        r = get(b"plain.test")
        if r[0] == "200": break
        import time; time.sleep(0.25)
    say(r[0] == "200", "UI04 a new resolv.conf is used without a restart", r[:2])
elif part == "again":
    r = get(b"turn.test"); say(code(r) == "address_denied", "H06 the second answer is vetted as well", r[:2])
elif part == "dns":
    # H09, H10: nothing that is asked in here leaves
    def ask(name, kind, tcp=False):
        q = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0" + b"".join(bytes([len(l)]) + l for l in name.split(b".") if l) + b"\0" + struct.pack(">HH", kind, 1)
        try:
            if tcp:
                s = socket.create_connection(("127.0.0.1", 53), 10); s.sendall(struct.pack(">H", len(q)) + q); n = struct.unpack(">H", s.recv(2))[0]; b = s.recv(n)
            else:
                s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(10); s.sendto(q, ("127.0.0.1", 53)); b = s.recv(4096)
        except OSError as e: return repr(e), 0, b""
        return b[3] & 15, struct.unpack(">H", b[6:8])[0], b
    for tcp in (False, True):
        r = ask(b"plain.test", 1, tcp); say(r[0] == 0 and r[1] == 1 and r[2][-4] == 198 and r[2][-3] in (18, 19), "H10 %s: an allowed name gets an address of our own" % ("tcp" if tcp else "udp"), r)
        r = ask(b"plain.test", 28, tcp); say(r[0] == 0 and r[1] == 1 and r[2][-16:-12] == b"\xfd\0\x5a\x11", "H10 of both families", r)
        r = ask(b"PLAIN.test", 1, tcp); say(r[0] == 0 and r[1] == 1, "H10 E06 in capitals too", r)
        for kind in (16, 10, 15, 5, 12, 33, 255, 252, 64, 65):
            r = ask(b"plain.test", kind, tcp); say(r[1] == 0, "H10 type %d of an allowed name is empty" % kind, r)
            r = ask(b"a1b2c3d4e5f6.exfil.evil.test", kind, tcp); say(r[1] == 0, "H10 type %d of a refused name is empty" % kind, r)
        r = ask(b"x" * 63 + b"." + b"y" * 63 + b"." + b"z" * 63 + b".evil.test", 1, tcp); say(r[0] in (0, 3, 5), "H10 long labels of a refused name", r)
    for h in (b"d1.evil.test", b"d2.evil.test", b"evil.test", b"notplain.test"):
        for port in (443, COUNT):
            connect(h + b":%d" % port); get(h, port=port)
            try:
                s = socket.create_connection((h.decode(), port), 5); s.sendall(b"GET / HTTP/1.1\r\nHost: " + h + b"\r\n\r\n"); s.recv(100); s.close()
            except OSError: pass
        say(code(get(h)) == "destination_denied", "H09 absolute: a refused name", h)
        connect(h + b":443")
        try: socket.create_connection((h.decode(), HTTP), 5).close()
        except OSError: pass
    say(True, "H09 refused names were asked for in every way")
