# SPDX-License-Identifier: Apache-2.0
"""ClientHellos of every kind, from inside a sandbox. Prints "ok TEXT" or "not ok TEXT: what"."""
import os, re, socket, ssl, struct, sys
CA = "/run/sallyport/ca.pem"
def say(good, text, what=""): print(("ok %s" if good else "not ok %s: %s") % ((text,) if good else (text, what)), flush=True)
ALERTS = {10: "unexpected_message", 20: "bad_record_mac", 22: "record_overflow", 51: "decrypt_error", 86: "inappropriate_fallback", 109: "missing_extension", 40: "handshake_failure", 42: "bad_certificate", 47: "illegal_parameter", 50: "decode_error", 70: "protocol_version", 80: "internal_error", 112: "unrecognized_name", 120: "no_application_protocol"}

def explicit(host="api.test", port=443):
    s = socket.create_connection(("127.0.0.1", 3128), 20)
    s.sendall(b"CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n" % (host.encode(), port, host.encode(), port))
    b = b""
    while b"\r\n\r\n" not in b:
        x = s.recv(1)
        if not x: raise OSError("closed")
        b += x
    if not b.startswith(b"HTTP/1.1 200"): raise OSError(b.split(b"\r\n")[0].decode())
    return s
def transparent(host="api.test", port=443): return socket.create_connection((host, port), 20)

def context(**k):
    c = ssl.create_default_context(cafile=CA)
    c.check_hostname = k.get("check", True)
    if "alpn" in k: c.set_alpn_protocols(k["alpn"])
    if "max" in k: c.minimum_version, c.maximum_version = ssl.TLSVersion.TLSv1, k["max"]; c.set_ciphers("DEFAULT:@SECLEVEL=0")
    return c
class Hello:
    """A handshake whose octets are ours to send."""
    def __init__(self, c, name="api.test"):
        self.i, self.o = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl = c.wrap_bio(self.i, self.o, server_hostname=name)
        try: self.ssl.do_handshake()
        except ssl.SSLWantReadError: pass
        self.first = self.o.read()
    def finish(self, s):
        while True:
            try: self.ssl.do_handshake(); break
            except ssl.SSLWantReadError: pass
            out = self.o.read()
            if out: s.sendall(out)
            x = s.recv(65536)
            if not x: raise OSError("closed")
            self.i.write(x)
        s.sendall(self.o.read())
    def get(self, s, path="/v1/hello"):
        self.ssl.write(b"GET %s HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n" % path.encode())
        s.sendall(self.o.read())
        b = b""
        while b"\r\n" not in b:
            try: b += self.ssl.read(65536)
            except ssl.SSLWantReadError:
                x = s.recv(65536)
                if not x: raise OSError("closed")
                self.i.write(x)
        return b.split(b"\r\n")[0]
def records(b):
    out = []
    while b: n = struct.unpack(">H", b[3:5])[0]; out.append(b[:5 + n]); b = b[5 + n:]
    return out
def message(first): return b"".join(r[5:] for r in records(first))
def reframe(msg, cut): # one handshake message in two records
    return b"".join(b"\x16\x03\x01" + struct.pack(">H", len(p)) + p for p in (msg[:cut], msg[cut:]) if p)
def attempt(text, dial, send, c=None, name="api.test"):
    try:
        h = Hello(c or context(), name); s = dial()
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        send(s, h.first); h.finish(s)
        line = h.get(s)
        say(line.startswith(b"HTTP/1.1 200"), text, line); return h
    except (OSError, ssl.SSLError) as e: say(False, text, repr(e))
def every(text, dial, offsets, send, c=None):
    bad = []
    for at in offsets:
        try:
            h = Hello(c or context()); s = dial(); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            send(s, h.first, at); h.finish(s)
            if not h.get(s).startswith(b"HTTP/1.1 200"): bad.append((at, "status"))
            s.close()
        except (OSError, ssl.SSLError) as e: bad.append((at, repr(e)))
    say(not bad, "%s (%d offsets)" % (text, len(offsets)), bad[:5])

# --- a hello as a list of parts
class Parts:
    def __init__(self, msg):
        b = msg[4:]; self.head = b[:34]; at = 34
        n = b[at]; self.sid = b[at + 1:at + 1 + n]; at += 1 + n
        n = struct.unpack(">H", b[at:at + 2])[0]; self.suites = b[at + 2:at + 2 + n]; at += 2 + n
        n = b[at]; self.comp = b[at + 1:at + 1 + n]; at += 1 + n
        self.ext = []; at += 2
        while at < len(b):
            t, n = struct.unpack(">HH", b[at:at + 4]); self.ext.append([t, b[at + 4:at + 4 + n]]); at += 4 + n
    def msg(self):
        e = b"".join(struct.pack(">HH", t, len(v)) + v for t, v in self.ext)
        b = self.head + bytes([len(self.sid)]) + self.sid + struct.pack(">H", len(self.suites)) + self.suites + bytes([len(self.comp)]) + self.comp + struct.pack(">H", len(e)) + e
        return b"\x01" + len(b).to_bytes(3, "big") + b
    def set(self, t, v):
        for e in self.ext:
            if e[0] == t: e[1] = v; return
        self.ext.append([t, v])
    def drop(self, t): self.ext = [e for e in self.ext if e[0] != t]
def wire(msg):
    out = b""
    for at in range(0, len(msg), 16384): out += b"\x16\x03\x01" + struct.pack(">H", len(msg[at:at + 16384])) + msg[at:at + 16384]
    return out
def answer(dial, data):
    """What the first record says: "hello", an alert's name, "closed", or the beginning of other octets."""
    try:
        s = dial(); s.sendall(data); b = b""
        while len(b) < 7:
            x = s.recv(7 - len(b))
            if not x: return "closed"
            b += x
        s.close()
    except OSError as e: return "closed" if isinstance(e, (ConnectionResetError, BrokenPipeError)) else repr(e)
    if b[0] == 22 and b[5] == 2: return "hello"
    if b[0] == 21: return ALERTS.get(b[6], str(b[6]))
    return repr(b)
def mutated(text, want, change, dial=explicit, name="api.test", **k):
    p = Parts(message(Hello(context(**k), name).first)); change(p)
    got = answer(dial, wire(p.msg()))
    say(got in want, text, got)
def server_name(*entries): # (type, octets)
    l = b"".join(bytes([t]) + struct.pack(">H", len(v)) + v for t, v in entries)
    return struct.pack(">H", len(l)) + l

WAYS = (("explicit", explicit), ("transparent", transparent))
for way, dial in WAYS:
    attempt("G07 %s: a plain handshake" % way, dial, lambda s, b: s.sendall(b))
    n = len(Hello(context()).first)
    every("G10 %s: in two segments" % way, dial, range(1, n, 7), lambda s, b, at: (s.sendall(b[:at]), s.sendall(b[at:])))
    every("G10 %s: in two records" % way, dial, range(1, n - 5, 7), lambda s, b, at: s.sendall(reframe(message(b), at)))
    attempt("G10 %s: octet by octet" % way, dial, lambda s, b: [s.sendall(b[i:i + 1]) for i in range(len(b))])
    attempt("G10 %s: a record for each octet" % way, dial, lambda s, b: s.sendall(b"".join(b"\x16\x03\x01\x00\x01" + message(b)[i:i + 1] for i in range(len(message(b))))))
    for size, count in ((1100, 4), (4000, 16), (16000, 63), (60000, 236)):
        names = ["x" * 240 + "%010d" % i for i in range(count)] + ["http/1.1"]
        attempt("G10 %s: a hello of more than %d octets" % (way, size), dial, lambda s, b: s.sendall(wire(message(b))), context(alpn=names))
    h = attempt("G14 %s: a session" % way, dial, lambda s, b: s.sendall(b))
    if h is not None:
        x = h.ssl.session
        say(x is None or not x.has_ticket, "G14 %s: no ticket, so no 0-RTT and no resumption" % way, x)
    c12 = context(); c12.maximum_version = ssl.TLSVersion.TLSv1_2
    h = attempt("G15 %s: a session of TLS 1.2" % way, dial, lambda s, b: s.sendall(b), c12)
    if h is not None: say(not h.ssl.session.has_ticket and h.ssl.session.id == b"", "G15 %s: cannot be resumed" % way, h.ssl.session.id)
    mutated("G11 %s: GREASE everywhere" % way, ["hello"], lambda p: (setattr(p, "suites", b"\x0a\x0a" + p.suites), p.ext.insert(0, [0x1a1a, b""]), p.ext.append([0x2a2a, b"\0"])), dial)
    def post_quantum(p): # of a group that nobody has any more (Kyber's draft), as large as that of X25519MLKEM768
        share = dict(map(tuple, p.ext))[51][2:]
        share = b"\x63\x99" + struct.pack(">H", 1216) + os.urandom(1216) + share
        groups = b"\x63\x99" + dict(map(tuple, p.ext))[10][2:]
        p.drop(51); p.ext.insert(0, [51, struct.pack(">H", len(share)) + share]); p.set(10, struct.pack(">H", len(groups)) + groups)
    mutated("G10 %s: a post-quantum key share before the name" % way, ["hello"], post_quantum, dial)
    ech = b"\0" + b"\0\1\0\1" + b"\7" + struct.pack(">H", 32) + os.urandom(32) + struct.pack(">H", 160) + os.urandom(160)
    mutated("G11 %s: ECH: the outer name counts" % way, ["hello"], lambda p: p.ext.append([0xfe0d, ech]), dial)
    mutated("G09 %s: a name in capitals" % way, ["hello"], lambda p: p.set(0, server_name((0, b"API.Test"))), dial)
    for what, e, want in (("two names", server_name((0, b"api.test"), (0, b"git.test")), ["decode_error", "unrecognized_name"]), ("a name of another type", server_name((1, b"api.test")), ["decode_error", "unrecognized_name"]),
                          ("a NUL in it", server_name((0, b"api.test\0.evil.test")), ["decode_error", "unrecognized_name"]), ("an address", server_name((0, b"127.0.0.1")), ["unrecognized_name"]),
                          ("an empty name", server_name((0, b"")), ["decode_error", "unrecognized_name"]), ("an empty list", server_name(), ["decode_error", "unrecognized_name"]), ("an empty extension", b"", ["decode_error", "unrecognized_name"]),
                          ("a length that lies", b"\0\x20\0\0\x08api.test", ["decode_error"]), ("a label of 64", server_name((0, b"a" * 64 + b".test")), ["unrecognized_name"]), ("percent", server_name((0, b"api%2etest")), ["unrecognized_name"]),
                          ("two dots at the end", server_name((0, b"api.test..")), ["unrecognized_name"]), ("not ASCII", server_name((0, "äpi.test".encode())), ["unrecognized_name"])):
        mutated("G09 %s: SNI with %s" % (way, what), want, lambda p: p.set(0, e), dial)
    mutated("G09 %s: SNI twice" % way, ["decode_error", "illegal_parameter", "unrecognized_name"], lambda p: p.ext.append([0, server_name((0, b"git.test"))]), dial)
    for v in ("TLSv1_1", "TLSv1"):
        h = Hello(context(max=getattr(ssl.TLSVersion, v)))
        got = answer(dial, h.first)
        say(got == "protocol_version", "G12 %s: %s" % (way, v), got)
    p = Parts(message(Hello(context(max=ssl.TLSVersion.TLSv1_1)).first)); p.head = b"\x03\x00" + p.head[2:]
    got = answer(dial, wire(p.msg()))
    say(got in ("protocol_version", "handshake_failure", "closed"), "G12 %s: SSLv3" % way, got)
    got = answer(dial, b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + b"\x01\x00\x80\x02\x00\x80\x03\x00\x80\x04\x00\x80\x05\x00\x80\x06\x00\x40\x07\x00\xc0" + os.urandom(16))
    say(got == "closed" or "HTTP/1.1 4" in got, "G12 %s: an SSLv2 hello" % way, got)
    for offer, want in ((None, None), (["http/1.1"], "http/1.1"), (["h2", "http/1.1"], ("h2", "http/1.1")), (["http/1.1", "foo"], "http/1.1")):
        try:
            h = Hello(context(alpn=offer) if offer else context()); s = dial(); s.sendall(h.first); h.finish(s); got = h.ssl.selected_alpn_protocol()
        except (OSError, ssl.SSLError) as e: got = repr(e)
        say(got == want or (isinstance(want, tuple) and got in want), "G13 %s: ALPN %s" % (way, offer), got)
    for offer in (["h3"], ["acme-tls/1"], ["foo"]):
        got = answer(dial, Hello(context(alpn=offer)).first)
        say(got == "no_application_protocol", "G13 %s: ALPN %s" % (way, offer), got)
    for what, data in (("an SSH banner", b"SSH-2.0-OpenSSH_9.2\r\n"), ("SMTP", b"EHLO x\r\n"), ("SOCKS5", b"\x05\x01\x00"), ("SOCKS4", b"\x04\x01\x00\x50\x7f\0\0\1\0"), ("noise", bytes(range(200, 256)) * 4), ("a TLS record that is no handshake", b"\x17\x03\x03\x00\x04abcd"), ("an alert", b"\x15\x03\x03\x00\x02\x02\x28"), ("an endless record", b"\x16\x03\x01\xff\xff" + b"\x01" * 100)):
        try:
            s = dial(); s.sendall(data); s.shutdown(socket.SHUT_WR); b = b""
            while len(b) < 4096:
                x = s.recv(4096)
                if not x: break
                b += x
        except OSError: pass
        say(b"" == b or b.startswith(b"\x15") or b.startswith(b"HTTP/1.1 4"), "G05 G20 %s: %s" % (way, what), b[:60])
mutated("G06 explicit: another name than CONNECT has", ["unrecognized_name"], lambda p: p.set(0, server_name((0, b"git.test"))))
mutated("G11 explicit: ECH with another outer name", ["unrecognized_name"], lambda p: (p.set(0, server_name((0, b"git.test"))), p.ext.append([0xfe0d, ech])))
mutated("G06 explicit: a dot at the end is the same name", ["hello", "unrecognized_name"], lambda p: p.set(0, server_name((0, b"api.test."))))
mutated("G07 explicit: no SNI: the name of CONNECT counts", ["hello"], lambda p: p.drop(0))
attempt("G07 explicit: and the leaf is for it", explicit, lambda s, b: s.sendall(b), context(check=False), None)
mutated("G08 transparent: no SNI: the address stands for the name that was asked", ["hello", "unrecognized_name"], lambda p: p.drop(0), transparent)
mutated("G08 transparent: no SNI to an address that stands for none", ["unrecognized_name", "closed"], lambda p: p.drop(0), lambda: socket.create_connection(("192.0.2.99", 443), 20))
# G02: the hello in the same segment as CONNECT
h = Hello(context()); s = socket.create_connection(("127.0.0.1", 3128), 20)
s.sendall(b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n" + h.first); b = b""
while b"\r\n\r\n" not in b: b += s.recv(1)
h.finish(s); line = h.get(s)
say(b.startswith(b"HTTP/1.1 200") and line.startswith(b"HTTP/1.1 200"), "G02 the hello comes with CONNECT", (b, line))
# G04: CONNECT within
h = Hello(context()); s = explicit(); s.sendall(h.first); h.finish(s)
h.ssl.write(b"CONNECT git.test:443 HTTP/1.1\r\nHost: git.test:443\r\n\r\n"); s.sendall(h.o.read()); b = b""
while b"\r\n" not in b:
    try: b += h.ssl.read(65536)
    except ssl.SSLWantReadError:
        x = s.recv(65536)
        if not x: break
        h.i.write(x)
say(re.match(rb"HTTP/1.1 4\d\d", b), "G04 CONNECT inside of CONNECT is refused", b[:60])
# E04: another host inside; UT09: another name at an allowed address
def inside(text, dial, name, host, want):
    try:
        c = context(); h = Hello(c, name); s = dial(); s.sendall(h.first); h.finish(s)
        h.ssl.write(b"GET /v1/hello HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"); s.sendall(h.o.read()); b = b""
        while b"\r\n" not in b:
            try: b += h.ssl.read(65536)
            except ssl.SSLWantReadError:
                x = s.recv(65536)
                if not x: break
                h.i.write(x)
        say(b[9:12].decode() in want, text, b[:60])
    except (OSError, ssl.SSLError) as e: say("closed" in want, text, repr(e))
for way, dial in WAYS:
    inside("E04 %s: Host of another destination in the tunnel" % way, dial, "api.test", b"git.test", ("421", "403"))
    inside("E04 %s: Host of nobody" % way, dial, "api.test", b"evil.test", ("421", "403"))
    inside("E18 %s: Host with another port" % way, dial, "api.test", b"api.test:8443", ("400", "421"))
    inside("E05 E06 %s: Host in another spelling" % way, dial, "api.test", b"API.test.", ("200",))
inside("UT09 transparent: a refused name at an allowed address", transparent, "evil.test", b"evil.test", ("403", "closed"))
inside("UT09 H11 transparent: an allowed name at any address", lambda: socket.create_connection(("203.0.113.9", 443), 20), "api.test", b"api.test", ("200",))
# G03, G21: what CONNECT may look like
def status(text):
    s = socket.create_connection(("127.0.0.1", 3128), 20); s.sendall(text); b = b""
    while b"\r\n" not in b:
        x = s.recv(4096)
        if not x: break
        b += x
    return b[9:12].decode()
for what, line, more in (("a path", b"api.test:443/x", b""), ("a scheme", b"https://api.test:443", b""), ("no port", b"api.test", b""), ("a star", b"*", b""), ("userinfo", b"u@api.test:443", b""), ("an empty port", b"api.test:", b""), ("port 0", b"api.test:0", b""), ("port 65536", b"api.test:65536", b""), ("a sign", b"api.test:+443", b""), ("a leading zero", b"api.test:0443", b""),
                         ("a body", b"api.test:443", b"Content-Length: 3\r\n"), ("a coding", b"api.test:443", b"Transfer-Encoding: chunked\r\n"), ("an IPv6 address without brackets", b"::1:443", b"")):
    got = status(b"CONNECT " + line + b" HTTP/1.1\r\nHost: " + (line if b"/" not in line and b"*" not in line and b"@" not in line else b"api.test:443") + b"\r\n" + more + b"\r\n")
    say(got == "400", "G03 CONNECT with %s" % what, got)
# G17: a client that trusts somebody else
c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
try: c.wrap_socket(explicit(), server_hostname="api.test"); say(False, "G17 a pinned client", "it accepted")
except ssl.SSLError as e: say("verify failed" in str(e), "G17 a client that does not trust the CA ends it", e)

# G23: who one is comes from where the connection is made, and no field changes it
for line in (b"Proxy-Authorization: Basic b3RoZXI6b3RoZXI=", b"X-Forwarded-For: 10.0.0.9", b"Forwarded: for=other", b"X-Sallyport-Sandbox: other", b"Via: 1.1 other"):
    s = socket.create_connection(("127.0.0.1", 3128), 20); s.sendall(b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n" + line + b"\r\n\r\n"); b = b""
    while b"\r\n\r\n" not in b:
        x = s.recv(1)
        if not x: break
        b += x
    say(b.startswith(b"HTTP/1.1 200") or b.startswith(b"HTTP/1.1 4"), "G23 %s changes nothing" % line.split(b":")[0].decode(), b); s.close()
# G24: ClientHellos with octets that are wrong, from a seed: each is answered by TLS or by the end, and afterwards all is as before
import random
rnd, odd = random.Random(24), {}
for n in range(400):
    m = bytearray(Hello(context()).first)
    for _ in range(rnd.choice((1, 1, 2, 8))):
        at = rnd.randrange(5 if n % 4 else 0, len(m)); kind = rnd.randrange(4)
        if kind == 0: m[at] = rnd.randrange(256)
        elif kind == 1: m[at] ^= 1 << rnd.randrange(8)
        elif kind == 2: del m[at:at + rnd.randrange(1, 9)]
        else: m[at:at] = rnd.randbytes(rnd.randrange(1, 9))
    try:
        s = explicit(); s.settimeout(20); s.sendall(bytes(m)); s.shutdown(socket.SHUT_WR); b = s.recv(7); s.close()
    except OSError: b = b""
    if b[:1] not in (b"", b"\x15", b"\x16") and not b.startswith(b"HTTP/1"): odd[n] = b
say(not odd, "G24 400 damaged ClientHellos: an alert, a handshake or the end", odd)
for what, data in (("records of nothing", b"\x16\x03\x01\0\0" * 50), ("a record that is too long", b"\x16\x03\x01\x48\x01" + bytes(18433)), ("a change of cipher first", b"\x14\x03\x03\0\1\1" * 40), ("content first", b"\x17\x03\x03\0\x10" + bytes(16)),
                   ("a message of 16 MiB announced", b"\x16\x03\x01\0\4\1\xff\xff\xff"), ("a ServerHello", b"\x16\x03\x01\0\4\2\0\0\0"), ("a KeyUpdate", b"\x16\x03\x01\0\5\x18\0\0\1\0"), ("a Finished", b"\x16\x03\x01\0\x10\x14\0\0\x0c" + bytes(12))):
    try:
        s = explicit(); s.settimeout(20); s.sendall(data); s.shutdown(socket.SHUT_WR); b = s.recv(7); s.close()
    except OSError: b = b""
    say(b[:1] in (b"", b"\x15") or b.startswith(b"HTTP/1.1 4"), "G24 %s" % what, b)
# G24: what tlsfuzzer's scripts for TLS 1.3 and 1.2 servers ask for, where we answer at all: hellos that are well-formed but wrong, with the alert that RFC 8446 names
def shares(*entries): # (group, octets)
    l = b"".join(struct.pack(">HH", g, len(v)) + v for g, v in entries)
    return struct.pack(">H", len(l)) + l
def pairs(*values): return struct.pack(">H", 2 * len(values)) + b"".join(struct.pack(">H", v) for v in values)
X, P256 = os.urandom(32), b"\4" + bytes(64)
psk = struct.pack(">H", 14) + struct.pack(">H", 8) + b"stranger" + bytes(4) + struct.pack(">H", 33) + b"\x20" + bytes(32)
for what, want, change in (
    ("a compression method", ["illegal_parameter"], lambda p: setattr(p, "comp", b"\0\1")),
    ("compression alone", ["illegal_parameter", "decode_error"], lambda p: setattr(p, "comp", b"\1")),
    ("no list of compression methods", ["decode_error", "illegal_parameter"], lambda p: setattr(p, "comp", b"")),
    ("no cipher suite", ["decode_error", "illegal_parameter", "handshake_failure"], lambda p: setattr(p, "suites", b"")),
    ("half a cipher suite", ["decode_error"], lambda p: setattr(p, "suites", p.suites + b"\0")),
    ("suites that nobody knows", ["handshake_failure"], lambda p: setattr(p, "suites", b"\x0a\x0a\xfe\xfe")),
    ("a session id of 33 octets", ["decode_error", "illegal_parameter"], lambda p: setattr(p, "sid", bytes(33))),
    ("versions that nobody knows", ["protocol_version"], lambda p: p.set(43, b"\4\x0a\x0a\x7f\x1c")),
    ("a list of versions of odd length", ["decode_error", "protocol_version"], lambda p: p.set(43, b"\3\3\4\3")),
    ("TLS 1.1 alone in the list of versions", ["protocol_version"], lambda p: p.set(43, b"\2\3\2")),
    ("no groups", ["missing_extension"], lambda p: p.drop(10)),
    ("no key shares", ["missing_extension"], lambda p: p.drop(51)),
    ("an empty list of groups", ["decode_error", "illegal_parameter", "handshake_failure"], lambda p: p.set(10, pairs())),
    ("groups that nobody knows", ["handshake_failure", "illegal_parameter"], lambda p: (p.set(10, pairs(0x0a0a)), p.set(51, shares((0x0a0a, X))))),
    ("no signature algorithms", ["missing_extension"], lambda p: p.drop(13)),
    ("an empty list of signature algorithms", ["decode_error"], lambda p: p.set(13, pairs())),
    ("signature algorithms that no leaf of ours has", ["handshake_failure"], lambda p: p.set(13, pairs(0x0804, 0x0807))),
    ("SHA-1 alone", ["handshake_failure"], lambda p: p.set(13, pairs(0x0203, 0x0201))),
    ("no share at first: another hello is asked for", ["hello"], lambda p: p.set(51, shares())),
    ("two shares of one group", ["illegal_parameter", "hello"], lambda p: (p.set(10, pairs(29)), p.set(51, shares((29, X), (29, X))))),
    ("a share of a group that was not offered", ["illegal_parameter"], lambda p: (p.set(10, pairs(23)), p.set(51, shares((29, X))))),
    ("a share that is too short", ["illegal_parameter", "decode_error"], lambda p: p.set(51, shares((29, X[1:])))),
    ("a share of nothing", ["illegal_parameter", "decode_error"], lambda p: p.set(51, shares((29, b"")))),
    ("a share of order 1", ["illegal_parameter", "handshake_failure"], lambda p: p.set(51, shares((29, bytes(32))))),
    ("a point that is not on its curve", ["illegal_parameter"], lambda p: (p.set(10, pairs(23)), p.set(51, shares((23, P256))))),
    ("shares behind a length that lies", ["decode_error"], lambda p: p.set(51, b"\xff\xff" + shares((29, X))[2:])),
    ("a session of a stranger: a whole handshake", ["hello"], lambda p: p.ext.append([41, psk])),
    ("a session that is not the last extension", ["illegal_parameter"], lambda p: p.ext.insert(0, [41, psk])),
    ("a session without its modes", ["missing_extension"], lambda p: (p.drop(45), p.ext.append([41, psk]))),
    ("a session behind a length that lies", ["decode_error", "illegal_parameter"], lambda p: p.ext.append([41, b"\xff" + psk[1:]])),
    ("an extension twice", ["illegal_parameter", "decode_error"], lambda p: p.ext.append(list(p.ext[0]))),
    ("a maximum length of fragments that is none", ["illegal_parameter"], lambda p: p.set(1, b"\x63")),
    ("renegotiation that nothing went before", ["handshake_failure", "illegal_parameter", "decode_error"], lambda p: (p.drop(43), p.set(0xff01, b"\4abcd")))):
    mutated("G24 a hello with %s" % what, want, change)
c12 = dict(max=ssl.TLSVersion.TLSv1_2)
mutated("G24 TLS 1.2 as a fallback", ["inappropriate_fallback"], lambda p: setattr(p, "suites", p.suites + b"\x56\0"), **c12)
for what, suites in (("RSA key transport", b"\0\x9c\0\x2f\0\x35"), ("CBC", b"\xc0\x09\xc0\x0a\xc0\x23"), ("export, RC4, 3DES and no encryption", b"\0\3\0\5\0\x0a\0\1\0\2"), ("no authentication", b"\0\x34\xc0\x19")):
    mutated("G24 TLS 1.2 with %s alone" % what, ["handshake_failure"], lambda p: setattr(p, "suites", suites), **c12)
# the mark that a client which can do 1.3 looks for (RFC 8446 4.1.3)
s = explicit(); s.sendall(Hello(context(**c12)).first); b = b""
while len(b) < 43:
    x = s.recv(4096)
    if not x: break
    b += x
say(b[5:6] == b"\2" and b[35:43] == b"DOWNGRD\1", "G24 TLS 1.2 is marked as less than could be", b[:50])
# what comes where the end of a handshake is due: the gateway ends it, and serves nothing. Each is otherwise the handshake that is good above
def ends(text, version, change, data=False):
    """change: what is sent in place of the client's last flight, or (data) of its request"""
    c = context(); c.minimum_version = c.maximum_version = version
    try:
        h = Hello(c); s = explicit(); s.settimeout(20); s.sendall(h.first); b = b""
        while True:
            try: h.ssl.do_handshake()
            except ssl.SSLWantReadError: pass
            out = h.o.read()
            if out: break
            x = s.recv(65536)
            if not x: raise OSError("closed too early")
            h.i.write(x)
        if data:
            s.sendall(out)
            while True:
                try: h.ssl.do_handshake(); break
                except ssl.SSLWantReadError: h.i.write(s.recv(65536))
            h.ssl.write(b"GET /v1/hello HTTP/1.1\r\nHost: api.test\r\n\r\n"); out = h.o.read()
        s.sendall(change(out))
        try:
            while x := s.recv(65536): b += x
        except ConnectionResetError: pass
        h.i.write(b)
        try: got = h.ssl.read(65536)
        except (OSError, ssl.SSLError): got = b""
        say(b"HTTP/1.1" not in got, text, got)
    except (OSError, ssl.SSLError) as e: say(False, text, repr(e))
flip = lambda b: b[:-1] + bytes([b[-1] ^ 1])
for v, name in ((ssl.TLSVersion.TLSv1_3, "1.3"), (ssl.TLSVersion.TLSv1_2, "1.2")):
    for what, change in (("whose Finished is damaged", flip), ("with content in clear", lambda b: b"\x17\x03\x03\0\x05GET /"), ("with another hello", lambda b: Hello(context()).first), ("with a record of an unknown type", lambda b: b"\x63\x03\x03\0\1\0"),
                         ("with a change of cipher that is none", lambda b: b"\x14\x03\x03\0\1\2" + b), ("with a heartbeat", lambda b: b"\x18\x03\x03\0\3\1\x40\0"), ("with a record that is too long", lambda b: b"\x17\x03\x03\x41\x01" + bytes(0x4101)),
                         ("with a Finished in clear", lambda b: b"\x16\x03\x03\0\x24\x14\0\0\x20" + bytes(32)), ("with a warning a thousand times", lambda b: b"\x15\x03\x03\0\2\1\x5a" * 1000)):
        ends("G24 TLS %s: a handshake %s" % (name, what), v, change)
    for what, change in (("is damaged", flip), ("has a damaged length", lambda b: b[:3] + b"\0\x10" + b[5:21]), ("is sent in clear", lambda b: b"\x17\x03\x03\0\x30" + b"GET /v1/hello HTTP/1.1\r\nHost: api.test\r\n\r\n".ljust(48))):
        ends("G24 TLS %s: a request that %s" % (name, what), v, change, True)
# s_client's commands: keys are changed as often as one likes in 1.3, and a handshake cannot be had again in 1.2
import selectors, subprocess, time
def client(version, *steps):
    """steps: (what is typed, what is waited for). All that it printed, its error output too, and whether the last came"""
    p = subprocess.Popen(["openssl", "s_client", "-" + version, "-CAfile", CA, "-servername", "api.test", "-connect", "api.test:443"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)
    out, sel, good = b"", selectors.DefaultSelector(), True
    sel.register(p.stdout, selectors.EVENT_READ)
    for typed, awaited in steps:
        at, end = len(out), time.monotonic() + 30
        try: p.stdin.write(typed)
        except OSError: pass
        while awaited not in out[at:] and time.monotonic() < end:
            if not sel.select(1): continue
            x = p.stdout.read(65536)
            if not x: break
            out += x
        good = awaited in out[at:]
        if not good: break
    p.kill(); p.wait(); p.stdin.close(); p.stdout.close()
    return out, good
GET = b"GET /v1/hello HTTP/1.1\r\nHost: api.test\r\n\r\n"
out, good = client("tls1_3", (b"", b"Verify return code: 0"), (GET, b"hello, you sent"), *[(k, b"KEYUPDATE") for k in (b"K\n", b"k\n") * 20], (GET, b"hello, you sent"))
say(good, "G24 TLS 1.3: keys are changed forty times between two requests", out[-300:])
out, good = client("tls1_2", (b"", b"Verify return code: 0"), (GET, b"hello, you sent"), (b"R\n", b"no renegotiation"))
say(good, "G24 TLS 1.2: no renegotiation", out[-300:])
attempt("G24 and afterwards all is as before", explicit, lambda s, b: s.sendall(b))
