# SPDX-License-Identifier: Apache-2.0
"""Clients that abort and upstreams that misbehave, for as long as wanted; see soak.sh.

    origin   PORT CERT KEY [PORT2] an upstream that does what the path says: /v1/m/KIND/ID; on PORT2 one of HTTP/2
    client   OUT [H2]              inside the sandbox: abuses the gateway until OUT/stop is there, then writes OUT/tally; H2: over HTTP/2 too
    sample   STATE FILE STOP       descriptors and memory of every role, every few seconds, a JSON line each
    flat     FILE                  whether the samples are flat, and the figures
"""
import collections, json, os, random, socket, ssl, statistics, struct, subprocess, sys, threading, time

CALL_S = 60
LINGER = struct.pack("ii", 1, 0)


def reset(s):
    """Ends the connection under a TLS object, or a plain socket, by RST."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
    os.close(s.detach())


# --- the upstream ----------------------------------------------------------------------------------------------------
def origin_h2(port, cert, key):
    import wire as W

    class Origin(W.Origin):
        def came(self, r): pass # nothing is kept

        def whole(self, r):
            kind = (r.path.split("/") + [""] * 4)[3]
            w, sid = r.conn.write, r.sid
            begin = W.head(sid, [(":status", "200")], False)
            if kind in ("ok", "gql", "early"): r.conn.answer(r, W.Answer(data=b"fine\n"))
            elif kind == "big": r.conn.answer(r, W.Answer(data=b"b" * 1048576))
            elif kind == "chunks": r.conn.answer(r, W.Answer(data=b"fine\n" * 300, trailers=[("x-t", "1")]))
            elif kind in ("hints", "flood"): r.conn.answer(r, W.Answer(data=b"fine\n", interim=[(103, [("link", "</x>")])] * (5 if kind == "hints" else 500)))
            elif kind == "trunc": w(begin + W.frame(W.DATA, 0, sid, b"t" * 4000) + W.frame(W.RST, 0, sid, b"\0\0\0\2"))
            elif kind == "garbage": w(os.urandom(3000))
            elif kind == "badhead": w(W.head(sid, random.choice([[], [(":status", "2000")], [(":status", "200"), ("A", "b")], [(":status", "200"), ("a", "b\r\nc")]])))
            elif kind == "hugehead": w(W.head(sid, [(":status", "200")] + [("x-%d" % i, "h" * 1000) for i in range(400)]))
            elif kind == "rst": w(W.frame(W.RST, 0, sid, random.choice([b"\0\0\0\7", b"\0\0\0\x08", b"\0\0\0\x0b", b"\0\0\0\1"])))
            elif kind in ("rstnow", "earlyclose"): r.conn.s.shutdown(2)
            elif kind == "nonotify": w(W.frame(W.GOAWAY, 0, 0, sid.to_bytes(4, "big") + b"\0\0\0\0")); r.conn.answer(r, W.Answer())
            elif kind == "excess": w(W.frame(W.PING, 0, 0, b"12345678") * 2000)
            elif kind == "badchunk": w(begin + W.frame(W.DATA, W.PADDED, sid, b"\xffx"))
            elif kind == "cutchunk": w(begin + W.frame(W.DATA, 0, sid, b"x" * 1000)); r.conn.s.shutdown(2)
            # stall, stallbody: nothing more

    o = Origin(cert, key, 2, port)
    o.reset, o.conns, o.errors = (collections.deque(maxlen=4) for _ in range(3))


def origin(port, cert, key, port2=None):
    if port2: origin_h2(int(port2), cert, key)

    def answer(s, f, kind, head):
        """What KIND does. True: the connection goes on."""
        ok = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfine\n"
        if kind not in ("early", "earlyclose"): read_body(f, head)
        if kind == "ok": s.sendall(ok); return True
        if kind == "big": s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n" + b"b" * 1048576); return True
        if kind == "trunc": s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"t" * 40000); s.unwrap(); return False
        if kind == "garbage": s.sendall(os.urandom(3000)); return False
        if kind == "badhead": s.sendall(random.choice([b"HTTP/1.1 2000 x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nfine\n", b"HTTP/1.1 200 OK\r\nA b: c\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nfine\n", b"HTTP/9.9 200 OK\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nxx"])); return False
        if kind == "hugehead": s.sendall(b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"h" * 1000) for i in range(400)) + b"Content-Length: 0\r\n\r\n"); return False
        if kind == "stall": s.settimeout(5); s.recv(1); return False
        if kind == "stallbody": s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhalf"); s.settimeout(5); s.recv(1); return False
        if kind == "rst": s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"r" * 20000); reset(s); return False
        if kind == "rstnow": reset(s); return False
        if kind == "flood": s.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 500 + ok); return True
        if kind == "hints": s.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 5 + ok); return True
        if kind == "badchunk": s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfine\n\r\nzz\r\n"); return False
        if kind == "cutchunk": s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfine\n\r\n1000\r\nabc"); return False
        if kind == "chunks": s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n" + b"5\r\nfine\n\r\n" * 300 + b"0\r\nX-T: 1\r\n\r\n"); return True
        if kind == "nonotify": s.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + b"n" * 3000); os.close(s.detach()); return False # no length, no close_notify
        if kind == "early": s.sendall(b"HTTP/1.1 413 no\r\nContent-Length: 0\r\n\r\n"); read_body(f, head); return True
        if kind == "earlyclose": s.sendall(b"HTTP/1.1 413 no\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"); return False
        if kind == "excess": s.sendall(ok + ok + b"more"); return False # answers that nobody asked for
        s.sendall(ok); return True

    def read_body(f, head):
        if "content-length" in head: f.read(int(head["content-length"]))
        elif "transfer-encoding" in head:
            while (n := int(f.readline() or b"0", 16)): f.read(n + 2)
            f.readline()

    def serve(raw):
        s = raw
        try:
            raw.settimeout(30)
            s = ctx.wrap_socket(raw, server_side=True)
            f = s.makefile("rb")
            while True:
                line = f.readline()
                if not line: return
                head = {}
                while (h := f.readline().decode("latin-1").strip()): k, v = h.split(":", 1); head[k.lower()] = v.strip()
                if not answer(s, f, line.decode().split()[1].split("/")[3], head): return
        except (OSError, ValueError, IndexError): pass
        finally:
            try: s.close()
            except OSError: pass

    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ctx.load_cert_chain(cert, key)
    l = socket.create_server(("127.0.0.1", port), backlog=128)
    while True: threading.Thread(target=serve, args=(l.accept()[0],), daemon=True).start()


# --- the clients -----------------------------------------------------------------------------------------------------
RIGHT = {"ok": 200, "big": 200, "chunks": 200, "hints": 200, "flood": 502}
KINDS = ["ok", "ok", "big", "trunc", "garbage", "badhead", "hugehead", "stall", "stallbody", "rst", "rstnow", "hints", "flood", "badchunk", "cutchunk", "chunks", "nonotify", "early", "earlyclose", "excess"]


def client(out, h2=None):
    ctx = ssl.create_default_context()
    tally, lock, numbers = collections.Counter(), threading.Lock(), iter(range(1, 1 << 60))
    bad, asked = [], open(out + "/asked", "w")

    def count(what):
        with lock: tally[what] += 1

    def plain(rnd):
        if rnd.random() < 0.5: return socket.create_connection(("203.0.113.9", 443), CALL_S)
        s = socket.create_connection(("127.0.0.1", 3128), CALL_S)
        s.sendall(b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
        got = b""
        while b"\r\n\r\n" not in got:
            d = s.recv(1000)
            if not d: s.close(); raise OSError("closed in CONNECT")
            got += d
        if b" 200 " not in got[:20]: s.close(); raise OSError(got[:40])
        return s

    def tls(rnd):
        s = plain(rnd)
        try: return ctx.wrap_socket(s, server_hostname="api.test")
        except BaseException: s.close(); raise

    def head(kind, method="GET", more=b""):
        with lock: n = next(numbers)
        return b"%s /v1/m/%s/%d HTTP/1.1\r\nHost: api.test\r\n%s\r\n" % (method.encode(), kind.encode(), n, more), "/v1/m/%s/%d" % (kind, n)

    def read_all(s, slow=0, upto=1 << 30):
        """Status and what came until the answer's end or the connection's."""
        got, end = b"", time.time() + CALL_S
        while len(got) < upto:
            if time.time() > end: raise TimeoutError("an answer without end")
            try: d = s.recv(512 if slow else 65536)
            except ssl.SSLEOFError: d = b""
            if not d: break
            got += d
            if slow and len(got) < 20000: time.sleep(slow)
            if whole(got): break
        return got

    def whole(got):
        while (at := got.find(b"\r\n\r\n")) >= 0:
            h = got[:at].lower()
            if h.startswith(b"http/1.1 1"): got = got[at + 4:]; continue
            if b"content-length:" in h: return len(got) - at - 4 >= int(h.split(b"content-length:")[1].split(b"\r\n")[0])
            return b"chunked" in h and got.endswith(b"\r\n\r\n") and b"\r\n0\r\n" in got[-40:]
        return False

    def status(got):
        while got.startswith(b"HTTP/1.1 1"): got = got[got.find(b"\r\n\r\n") + 4:]
        return int(got[9:12]) if got.startswith(b"HTTP/1.1 ") else 0

    # each of these is one way to treat the gateway badly, or well
    def good(rnd):
        s = tls(rnd)
        with s:
            for kind in rnd.choices(["ok", "big", "chunks", "hints", "flood"], [4, 2, 2, 2, 1], k=4):
                h, path = head(kind)
                s.sendall(h)
                got = read_all(s)
                with lock: asked.write(path + "\n")
                if status(got) != RIGHT[kind] or not whole(got): bad.append("%s: %r" % (path, got[:60])); return
                if kind == "flood": return # refused, and the connection with it

    def misbehaving(rnd):
        kind = rnd.choice(KINDS)
        with tls(rnd) as s:
            body = kind.startswith("early")
            h, path = head(kind, "POST" if body else "GET", b"Content-Length: 300000\r\n" if body else b"")
            s.sendall(h)
            if body:
                try: s.sendall(b"e" * 300000)
                except OSError: pass # an early answer may close
            if kind.startswith("stall") and rnd.random() < 0.7: s.settimeout(0.3)
            try: got = read_all(s)
            except TimeoutError as e:
                if kind.startswith("stall"): return
                e.what = kind
                raise
            count("upstream %s: %d" % (kind, status(got)))

    def rst(rnd):
        stage = rnd.choice(["connect", "line", "tunnel", "hello", "tls", "head", "body", "wait", "answer"])
        if stage == "connect": return reset(socket.create_connection(("203.0.113.9", 443), CALL_S))
        if stage == "line":
            s = socket.create_connection(("127.0.0.1", 3128), CALL_S); s.sendall(b"CONNECT api.te"); return reset(s)
        if stage in ("tunnel", "hello"):
            s = plain(rnd)
            if stage == "hello": s.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(rnd.randrange(200)))
            return reset(s)
        s = tls(rnd)
        if stage == "head": s.sendall(head("ok")[0][:rnd.randrange(1, 60)])
        if stage == "body": s.sendall(head("ok", "POST", b"Content-Length: 100000\r\n")[0] + b"x" * rnd.randrange(60000))
        if stage == "wait": s.sendall(head("stall")[0]); time.sleep(rnd.random() * 0.1)
        if stage == "answer": s.sendall(head("big")[0]); read_all(s, upto=rnd.randrange(1, 200000))
        reset(s)

    def half_close(rnd):
        """A program that has said all it wants: some shut their side and still read."""
        s = tls(rnd)
        try:
            s.sendall(head(rnd.choice(["ok", "big", "stall"]))[0])
            socket.socket.shutdown(s, socket.SHUT_WR)
            s.settimeout(6)
            while s.recv(65536): pass
        except OSError: pass
        finally: s.close()

    def slow_reader(rnd):
        raw = plain(rnd)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with ctx.wrap_socket(raw, server_hostname="api.test") as s:
            h, path = head("big")
            s.sendall(h)
            if rnd.random() < 0.4: time.sleep(1 + rnd.random()); return reset(s)
            got = read_all(s, slow=0.02)
            if not whole(got): bad.append("%s, read slowly: %d octets" % (path, len(got)))

    def slow_writer(rnd):
        with tls(rnd) as s:
            h, path = head("ok", "POST", b"Content-Length: 200\r\n")
            data = h + b"w" * 200
            cut = rnd.randrange(len(data)) if rnd.random() < 0.4 else len(data)
            for i in range(0, cut, 7): s.sendall(data[i:min(i + 7, cut)]); time.sleep(0.01)
            if cut < len(data): return
            got = read_all(s)
            if status(got) != 200: bad.append("%s, written slowly: %r" % (path, got[:60]))

    def pipeline(rnd):
        with tls(rnd) as s:
            data = b"".join(head(rnd.choice(["ok", "chunks", "big"]))[0] for _ in range(6))
            s.sendall(data[:rnd.randrange(len(data))])
            s.settimeout(2)
            try: read_all(s, upto=rnd.randrange(1, 300000))
            except TimeoutError: pass # the cut one has no answer
            if rnd.random() < 0.5: return reset(s)

    def malformed(rnd):
        with tls(rnd) as s:
            s.sendall(rnd.choice([b"GET /v1/../x HTTP/1.1\r\nHost: api.test\r\n\r\n", b"\0" * 300, b"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n", b"POST /v1/m/ok/0 HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"A" * 70000]))
            try: s.settimeout(10); read_all(s)
            except OSError: pass

    class Pipe:
        """A TLS connection as wire.Client wants it."""
        def __init__(self, host):
            self.buf, self.over = b"", None
            self.s = socket.create_connection(("203.0.113.9", 443), CALL_S)
            try: self.s = ctx2.wrap_socket(self.s, server_hostname=host)
            except BaseException: self.s.close(); raise

        def send(self, slices):
            for x in slices: self.s.sendall(x)

        def more(self):
            if self.over: return False
            d = self.s.recv(65536)
            self.buf += d
            if not d: self.over = "fin"
            return bool(d)

    def h2_open(host):
        p = Pipe(host)
        try: return p, W.Client(p, host)
        except BaseException: p.s.close(); raise

    def number():
        with lock: return next(numbers)

    def h2_good(rnd):
        # to the upstream of HTTP/1.1 alone: that of HTTP/2 has one connection for all, which others' misbehaviour ends
        host = "api.test"
        p, k = h2_open(host)
        with p.s:
            paths = {}
            for kind in rnd.choices(["ok", "big", "chunks", "hints"], [6, 1, 2, 2], k=rnd.randrange(1, 30)):
                path = "/v1/m/%s/%d" % (kind, number())
                paths[k.open(k.base(path))] = path
            k.wait(*paths)
            for sid, path in paths.items():
                st = k.streams[sid]
                with lock: asked.write(path + "\n")
                if st.status != 200 or not st.ended: bad.append("%s over HTTP/2: %r" % (path, st))

    def h2_abuse(rnd):
        p, k = h2_open(rnd.choice(["api.test", "h2.test", "h2.test"]))
        with p.s:
            sids = [k.open(k.base("/v1/m/%s/%d" % (rnd.choice(KINDS), number()), rnd.choice(["GET", "POST"])), rnd.random() < 0.7) for _ in range(rnd.randrange(1, 40))]
            how = rnd.choice(["none", "cancel", "reset", "garbage", "window", "flood", "settings", "malformed", "slow"])
            if how == "cancel":
                for sid in sids: k.write(W.frame(W.RST, 0, sid, b"\0\0\0\x08"))
            elif how == "garbage": k.write(os.urandom(2000))
            elif how == "window": k.write(W.settings((4, 0)) + W.frame(W.WINDOW, 0, sids[0], b"\0\0\0\0"))
            elif how == "flood": k.write(W.frame(W.PING, 0, 0, b"12345678") * 2000)
            elif how == "settings": k.write(W.settings((1, rnd.randrange(1 << 20)), (4, rnd.randrange(1 << 20))) * 5)
            elif how == "malformed": k.write(W.head(k.next, k.base("/v1/m/ok/0") + [("x", "\r")]))
            elif how == "slow": k.credit = False
            p.s.settimeout(1)
            try:
                for _ in range(rnd.randrange(20)):
                    if not k.turn(): break
            except TimeoutError: pass
            if how == "reset" or rnd.random() < 0.3: reset(p.s)

    def conditions(rnd):
        """Content that a rule looks at, over either version."""
        for q, right in ((b'{"query":"query { a }"}', 200), (b'{"query":"mutation { a }"}', 403)):
            path = "/v1/m/gql/%d" % number()
            cut = rnd.random() < 0.2
            if rnd.random() < 0.5 and h2:
                p, k = h2_open("api.test")
                with p.s:
                    sid = k.open(k.base(path, "POST") + [("content-type", "application/json")], False)
                    k.write(W.frame(W.DATA, 0 if cut else W.END, sid, q[:5] if cut else q))
                    if cut: continue
                    got = k.wait(sid).status
            else:
                with tls(rnd) as s:
                    s.sendall(b"POST %s HTTP/1.1\r\nHost: api.test\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(q)) + (q[:5] if cut else q))
                    if cut: continue
                    got = status(read_all(s))
            with lock: asked.write(path + "\n")
            if got != right: bad.append("%s: %s" % (path, got))

    more = []
    if h2:
        import wire as W
        ctx2 = ssl.create_default_context()
        ctx2.set_alpn_protocols(["h2"])
        more = [h2_good, h2_good, h2_abuse, h2_abuse, h2_abuse]
    acts = more + [conditions, good, good, misbehaving, misbehaving, misbehaving, misbehaving, rst, rst, rst, half_close, slow_reader, slow_writer, pipeline, malformed]

    def run(i):
        rnd = random.Random(i)
        while not os.path.exists(out + "/stop"):
            act = rnd.choice(acts)
            try: act(rnd); count(act.__name__)
            except TimeoutError as e:
                with lock: bad.append("%s hung: %s %s" % (act.__name__, e, getattr(e, "what", "")))
            except Exception as e:
                if not isinstance(e, OSError): bad.append("%s: %r" % (act.__name__, e))
                count("%s: %s" % (act.__name__, type(e).__name__))
            time.sleep(0.02)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(12)]
    for t in threads: t.start()
    for t in threads: t.join()
    asked.close()
    with open(out + "/tally.new", "w") as f: json.dump(dict(tally=tally, bad=bad), f)
    os.rename(out + "/tally.new", out + "/tally")
    while not os.path.exists(out + "/end"): time.sleep(0.05)


# --- flat or not -----------------------------------------------------------------------------------------------------
def sample(state, file, stop):
    kr = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e", "killrandom.py")
    with open(file, "w", 1) as f:
        while not os.path.exists(stop):
            p = subprocess.run([sys.executable, kr, "count", state], capture_output=True, text=True)
            f.write(p.stdout if p.returncode == 0 else "")
            time.sleep(2)
    return 0


def flat(file):
    """After the first third, in which caches, pools and the sanitizer's quarantine fill: the median of the last quarter of the samples is at
    most a tenth and 4 MiB over the median of the quarter behind that third, for memory; for descriptors at most a tenth and 8. No role died."""
    rows = [json.loads(l) for l in open(file)]
    rows = rows[len(rows) // 3:]
    if len(rows) < 12: print("only %d samples" % len(rows)); return 1
    q, bad, words = len(rows) // 4, [], []
    for role in rows[0]:
        if role == "processes": continue
        if any(role not in r or r[role]["pid"] != rows[0][role]["pid"] for r in rows): bad.append("the %s ended" % role); continue
        for key, spare in (("rss_kib", 6144), ("fds", 8)):
            v = [r[role][key] for r in rows]
            if v[0] is None: continue
            a, b = statistics.median(v[:q]), statistics.median(v[-q:])
            words.append("%s %s %d->%d (max %d)" % (role, key, a, b, max(v)))
            if b > a * 1.1 + spare: bad.append("%s: %s grew from %d to %d" % (role, key, a, b))
    print("; ".join(bad + ["%d samples" % len(rows)] + words))
    return 1 if bad else 0


if __name__ == "__main__":
    a = sys.argv[2:]
    sys.exit({"origin": lambda: origin(int(a[0]), *a[1:]), "client": lambda: client(*a), "sample": lambda: sample(*a), "flat": lambda: flat(*a)}[sys.argv[1]]())
