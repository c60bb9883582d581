# SPDX-License-Identifier: Apache-2.0
# Responses with a secret in them, and the search for it in what came out of the gateway.
#	coded.py serve H1-PORT H2-PORT CERT KEY LOG    an origin that sends back the credential it was given: as the query says
#	coded.py search SECRET DIRECTORY               names every file in which it stands in any form; nothing: none
import base64, gzip, os, random, re, socket, ssl, sys, threading, urllib.parse, zlib


def forms(s):
    """name -> how an origin may write s, in a text of its own."""
    b = s.encode()
    every = lambda f: "".join(f(c) for c in b).encode()
    f = {"raw": b, "hex": b.hex().encode(), "HEX": b.hex().upper().encode(), "hExmixed": "".join(c.upper() if i % 3 else c for i, c in enumerate(b.hex())).encode(),
         "percent": every(lambda c: "%%%02x" % c), "PERCENT": every(lambda c: "%%%02X" % c), "percent-some": every(lambda c: "%%%02x" % c if c % 3 == 0 else chr(c)),
         "json": every(lambda c: "\\u%04x" % c), "JSON": every(lambda c: "\\u%04X" % c), "json-some": every(lambda c: "\\u%04x" % c if c % 5 == 0 else "%%%02X" % c if c % 5 == 1 else chr(c))}
    for skip in range(3):
        e = base64.b64encode(b"u:z"[:skip] + b + b"~~")
        f["base64-%d" % skip] = e
        f["base64url-%d" % skip] = e.replace(b"+", b"-").replace(b"/", b"_")
        f["base64-%d-percent" % skip] = b"".join(b"%%%02X" % c if i % 4 == 0 else bytes([c]) for i, c in enumerate(e))
        f["base64-%d-slashes" % skip] = e.replace(b"/", b"\\/")
    return f


def around(form, s):
    return b'{"you sent":"' + forms(s)[form] + b'","and":"\\n"} '


def expanded():
    r = random.Random(7)
    return b"".join(b"%016x%s\n" % (r.getrandbits(64), b"x" * 1500) for _ in range(25000))


# --- the search ----------------------------------------------------------------------------------------------------

def leaks(data, s):
    """Reads data in every way that a client could, and again what comes out of that."""
    b, found, seen, todo = s.encode(), [], set(), [("", data)]
    while todo:
        how, d = todo.pop()
        if d in seen or how.count(" ") > 3:
            continue
        seen.add(d)
        if b in d:
            found.append("as it is, after" + how)
        if b.hex().encode() in d.lower():
            found.append("hex, after" + how)
        for skip in range(3): # the characters that do not depend on neighbours
            x, y = (base64.b64encode(c * skip + b + c * 3) for c in (b"\0", b"\xff"))
            i = next(k for k in range(len(x)) if x[k] == y[k])
            j = next(k for k in range(i, len(x)) if x[k] != y[k])
            if x[i:j] in d.replace(b"-", b"+").replace(b"_", b"/"):
                found.append("base64, after" + how)
        todo.append((how + " percent", urllib.parse.unquote_to_bytes(d)))
        todo.append((how + " json", re.sub(rb"\\u00([0-9a-fA-F]{2})", lambda m: bytes([int(m[1], 16)]), d).replace(b"\\/", b"/")))
        for at in [m.start() for m in re.finditer(b"\x1f\x8b\x08", d)]:
            try: todo.append((how + " gzip", zlib.decompressobj(31).decompress(d[at:])))
            except zlib.error: pass
    return found


if sys.argv[1] == "search":
    for top, _, names in os.walk(sys.argv[3]):
        for n in names:
            with open(os.path.join(top, n), "rb") as f:
                for l in leaks(f.read(), sys.argv[2]):
                    print(n, l)
    sys.exit()

# --- the origin ----------------------------------------------------------------------------------------------------

import h2.config, h2.connection, h2.events, h2.settings
try: import brotli
except ImportError: brotli = None
try: import zstandard
except ImportError: zstandard = None
log, lock, last, gates = open(sys.argv[6], "w", 1), threading.Lock(), [""], {}


def gate(name):
    with lock: return gates.setdefault(name, threading.Semaphore(0))


class Coder:
    """One content coding, put on piece by piece; each piece can be read when it has come."""
    def __init__(self, name):
        if name in ("gzip", "deflate", "deflate-raw"):
            z = zlib.compressobj(6, zlib.DEFLATED, {"gzip": 31, "deflate": 15, "deflate-raw": -15}[name])
            self.add, self.end = lambda d: z.compress(d) + z.flush(zlib.Z_SYNC_FLUSH), z.flush
        elif name == "br":
            z = brotli.Compressor(quality=5)
            self.add, self.end = lambda d: z.process(d) + z.flush(), z.finish
        elif name == "zstd":
            z = zstandard.ZstdCompressor().compressobj()
            self.add, self.end = lambda d: z.compress(d) + z.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK), z.flush
        else:
            self.add, self.end = lambda d: d, lambda: b""


def response(method, path, fields):
    """status, fields, pieces of content (a generator), trailers"""
    q = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(path).query))
    token = fields.get("authorization", "").replace("Bearer ", "")
    if token: last[0] = token
    s, kind, coding, step = last[0], urllib.parse.urlsplit(path).path[4:], q.get("coding", ""), int(q.get("step", "0"))
    with lock: print(method, path, "ae=" + fields.get("accept-encoding", "-"), "range=" + fields.get("range", "-"), "if-range=" + fields.get("if-range", "-"), file=log)
    head = [("content-type", "application/json")]
    if coding:
        head += [("content-encoding", q.get("says", coding.replace("-raw", ""))), ("etag", '"e1"'), ("vary", "Accept-Encoding"), ("content-digest", "sha-256=:x:"), ("repr-digest", "sha-256=:y:"), ("digest", "sha-256=z"), ("content-md5", "m")]
    def pieces(d):
        return [d] if step == 0 else [d[i:i + step] for i in range(0, len(d), step)]
    def coded(plain):
        c = Coder(coding)
        for p in plain: yield c.add(p)
        yield c.end()
    if kind == "go":
        gate(q["gate"]).release()
        return 200, head, iter([b"gone on\n"]), None
    if kind == "forms": # every form, each in its own line
        return 200, head, (p for d in [b"".join(around(f, s) + b"\n" for f in forms(s))] for x in [b"".join(coded([d]))] for p in pieces(x)), None
    if kind == "pieces": # cut before it is coded
        return 200, head, coded(pieces(b"".join(around(f, s) for f in forms(s)))), None
    if kind == "head":
        return 200, head + [("x-%d" % i, v.decode()) for i, v in enumerate(forms(s).values())] + [("set-cookie", "s=" + forms(s)["base64-1"].decode()), ("location", "https://x.test/?k=" + forms(s)["percent"].decode())], iter([b"see the head\n"]), None
    if kind == "trailer":
        return 200, head, iter([b"see the trailer\n"]), [("x-%d" % i, v.decode()) for i, v in enumerate(forms(s).values())]
    if kind == "big":
        def big():
            for i in range(1600): yield b"0123456789abcdef" * 4096
            yield around("raw", s)
        return 200, head, big(), None
    if kind == "expand": # 100 octets for one; all of it has left here before a slow client has read much
        return 200, head, coded([expanded()]), [("x-sum", "1"), ("x-token", s)]
    if kind == "events":
        def events():
            c = Coder(coding)
            for i in range(5):
                yield c.add(b"data: %d %s\n\n" % (i, forms(s)[("raw", "base64-1", "json", "hex", "percent")[i]]))
                if not gate(q["gate"]).acquire(timeout=30): return
            yield c.end()
        return 200, head, events(), None
    if kind == "broken":
        d = {"stacked": gzip.compress(gzip.compress(around("raw", s))), "unknown": around("raw", s), "cut": gzip.compress(os.urandom(3000) + s.encode())[:-20], "behind": gzip.compress(s.encode()) + s.encode(),
             "false": b"<html>not compressed at all " + s.encode() + b"</html>", "bomb": b"", "part": gzip.compress(s.encode() * 50)[20:60], "empty": b""}[q["how"]]
        if q["how"] == "bomb":
            def bomb():
                c = zlib.compressobj(9, zlib.DEFLATED, 31)
                for i in range(2000): yield c.compress(bytes(1 << 20))
                yield c.flush() + s.encode()
            return 200, head + [("content-encoding", "gzip")], bomb(), None
        return 206 if q["how"] == "part" else 200, head + [("content-encoding", q.get("says", "gzip"))] + ([("content-range", "bytes 20-59/100")] if q["how"] == "part" else []), iter(pieces(d)), None
    if kind == "same":
        return 304, head, iter([]), None
    return 200, head, iter([b"fine\n"]), None


class One:
    """HTTP/1.1"""
    def __init__(self, s): self.s, self.f = s, s.makefile("rb")
    def run(self):
        while True:
            line = self.f.readline().split()
            if len(line) != 3: return
            fields = {}
            for l in iter(self.f.readline, b"\r\n"):
                n, v = l.decode("latin-1").split(":", 1)
                fields[n.lower()] = v.strip()
            method = line[0].decode()
            status, head, content, trailers = response(method, line[1].decode(), fields)
            none, query = method == "HEAD" or status == 304, line[1].decode()
            content = [] if none else content
            length = "length=1" in query
            if length:
                content = [b"".join(content)]
            out = "HTTP/1.1 %d x\r\n" % status + "".join("%s: %s\r\n" % f for f in head)
            out += "Content-Length: 77\r\n\r\n" if none else "Content-Length: %d\r\n\r\n" % len(content[0]) if length else "Connection: close\r\n\r\n" if "close=1" in query else "Transfer-Encoding: chunked\r\n\r\n"
            self.s.sendall(out.encode("latin-1"))
            for p in content:
                if p: self.s.sendall(p if length or "close=1" in query else b"%x\r\n%s\r\n" % (len(p), p))
            if not none and not length and "close=1" not in query:
                self.s.sendall(b"0\r\n" + "".join("%s: %s\r\n" % f for f in trailers or []).encode() + b"\r\n")
            if "close=1" in query: return


class Two:
    """HTTP/2; each stream's content is written by a thread of its own"""
    def __init__(self, s):
        self.s, self.can = s, threading.Condition()
        self.c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8", normalize_outbound_headers=False, validate_outbound_headers=False))
    def flush(self):
        d = self.c.data_to_send()
        if d: self.s.sendall(d)
    def send(self, sid, fields):
        method, path = fields[":method"], fields[":path"]
        status, head, content, trailers = response(method, path, fields)
        none = method == "HEAD" or status == 304
        with self.can:
            self.c.send_headers(sid, [(":status", str(status)), *head], end_stream=none); self.flush()
        if none: return
        try:
            for p in content:
                while p:
                    with self.can:
                        while (n := min(len(p), self.c.local_flow_control_window(sid), 16384)) <= 0:
                            if not self.can.wait(30): return
                        self.c.send_data(sid, p[:n]); p = p[n:]; self.flush()
            with self.can:
                if trailers: self.c.send_headers(sid, trailers, end_stream=True)
                else: self.c.end_stream(sid)
                self.flush()
        except Exception: pass # reset meanwhile
    def run(self):
        with self.can:
            self.c.initiate_connection(); self.flush()
        while True:
            d = self.s.recv(65536)
            if not d: return
            with self.can:
                for e in self.c.receive_data(d):
                    if isinstance(e, h2.events.RequestReceived): threading.Thread(target=self.send, args=(e.stream_id, dict(e.headers)), daemon=True).start()
                self.flush(); self.can.notify_all()


def serve(raw, ctx):
    try:
        s = ctx.wrap_socket(raw, server_side=True)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        (Two if s.selected_alpn_protocol() == "h2" else One)(s).run()
        s.unwrap()
    except Exception: pass
    finally: raw.close()


def listen(port, alpn):
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); ctx.load_cert_chain(sys.argv[4], sys.argv[5]); ctx.set_alpn_protocols(alpn)
    l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); l.bind(("127.0.0.1", port)); l.listen(100)
    while True:
        c, _ = l.accept()
        threading.Thread(target=serve, args=(c, ctx), daemon=True).start()


threading.Thread(target=listen, args=(int(sys.argv[2]), ["http/1.1"]), daemon=True).start()
print("codings", "gzip deflate deflate-raw", "br" if brotli else "", "zstd" if zstandard else "", file=log)
listen(int(sys.argv[3]), ["h2"])
