# SPDX-License-Identifier: Apache-2.0
"""What an upstream may send: I and K of the catalogue over HTTP/2, UB and UC; and that all pairings decide and forward alike."""
import threading
import time
import zlib

import wire as W
from cases import split_head
from client_cases import wait_for
from h2cases import Answer, Failed, case, field, want
from wire import END, HEAD_END, frame, head

BOTH = ("h1", "h2")
ALLOWED = ["allow", "none", "none", "200"]


def raw(t, answer, more=None):
    """The origin says these frames (a function of the stream's id) and nothing else."""
    def late(r):
        if "/ok" in r.path:
            return Answer()
        r.conn.write(answer(r.sid))
        if more:
            more(r)
    t.origin.late = late


def bad_gateway(t, reason="-", ends=False):
    """502, and the next request is served."""
    status, fields, body, _, whole = t.ask()
    want("the answer", (status, whole), (502, True))
    if b"upstream_protocol" not in body:
        raise Failed("%r" % body)
    t.records.append(["allow", "upstream_protocol", reason, "502"])
    t.seen = 1
    more(t)


def more(t):
    status, *_ = t.ask(path="/v1/ok")
    want("the next one", status, 200)
    t.records.append(ALLOWED)
    t.seen += 1


def broken(t, status=200):
    """The answer has begun; the client must notice that it is no whole."""
    got, _, body, _, whole = t.ask()
    want("the answer", (got, whole), (status, False))
    t.records.append(["allow", "-", "-", str(status)])
    t.seen = 1
    more(t)


# --- I: upgrades, Expect, streams -----------------------------------------------------------------------------------------

@case("I08 UA02", "Expect: the upstream's word is waited for", clients=("h2",))
def i08(t):
    if t.up == "h2":
        t.origin.early = lambda r: r.conn.write(head(r.sid, [(":status", "100")], False)) if r.method == "POST" else None
    else:
        t.origin.early = lambda r: r.conn.write(b"HTTP/1.1 100 Continue\r\n\r\n") if r.method == "POST" else None
    k = t.client()
    sid = k.open(k.base(t.path, "POST") + [("expect", "100-continue"), ("content-length", "3")], False)
    if not k.until(lambda: k.streams[sid].interim):
        raise Failed("no 100")
    want("interim", k.streams[sid].interim, [100])
    k.write(frame(W.DATA, END, sid, b"abc"))
    want("the answer", k.wait(sid).status, 200)
    want("content", t.origin.requests[0].data, b"abc")
    t.seen, t.records = 1, [ALLOWED]


@case("I09 UA02", "Expect where the policy denies: no 100", clients=("h2",))
def i09(t):
    k = t.client()
    st = k.wait(k.open(k.base("/v1/hidden/x", "POST") + [("expect", "100-continue"), ("content-length", "3")], False))
    want("the answer", (st.status, st.interim), (403, []))
    t.records.append(["deny", "policy_denied", "-", "403"])
    t.get(k)


@case("I10 UA01", "103 and 102 are not the answer", clients=BOTH)
def i10(t):
    t.origin.late = lambda r: Answer(interim=[(103, [("link", "</a>")]), (102, []), (103, [])])
    status, _, body, _, whole = t.ask()
    want("the answer", (status, body, whole), (200, b"ok", True))
    t.seen, t.records = 1, [ALLOWED]


@case("I10 K05", "interim responses without end", clients=BOTH, ups=("h2",))
def i10_flood(t):
    raw(t, lambda sid: b"".join(head(sid, [(":status", "103")], False) for _ in range(50)))
    bad_gateway(t)


@case("I10 I04", "101 over HTTP/2", clients=BOTH, ups=("h2",))
def i10_101(t):
    raw(t, lambda sid: head(sid, [(":status", "101")], False))
    bad_gateway(t)


def events(t, encode=lambda d, last: d, fields=()):
    """Each event must have arrived before the next is sent."""
    go = threading.Semaphore(0)

    def late(r):
        if "/ok" in r.path:
            return Answer()
        r.conn.begin(r, [("content-type", "text/event-stream")] + list(fields))
        for i in range(5):
            r.conn.piece(r, encode(b"data: %d\n\n" % i, False))
            if not go.acquire(timeout=20):
                return
        r.conn.piece(r, encode(b"", True), True)
    t.origin.late = late
    got = []
    if t.cl == "h2":
        k = t.client()
        sid = k.open(k.base(t.path))
        for i in range(5):
            n = len(k.streams[sid].data)
            if not k.until(lambda: len(k.streams[sid].data) > n):
                raise Failed("the connection ended")
            got.append(k.streams[sid].data[n:])
            go.release()
        want("its end", k.wait(sid).ended, True)
    else:
        c = t.conn()
        c.send([b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (t.path.encode(), t.host.encode())])
        c.upto(b"\r\n\r\n", "head")
        for i in range(5):
            n = int(c.upto(b"\r\n", "chunk"), 16)
            got.append(c.exactly(n, "chunk"))
            c.exactly(2, "chunk")
            go.release()
        want("its end", c.upto(b"0\r\n\r\n", "end")[-5:], b"0\r\n\r\n")
    t.seen, t.records = 1, [ALLOWED]
    return got


@case("I11 UC01", "events arrive one by one, where answers are scrubbed", clients=BOTH)
def i11(t):
    want("events", events(t), [b"data: %d\n\n" % i for i in range(5)])


@case("I11 UC01", "events in gzip, flushed one by one, in whatever coding they come", clients=BOTH)
def i11_gzip(t):
    t.other("n")
    z = zlib.compressobj(wbits=31)
    got = events(t, lambda d, last: z.flush(zlib.Z_FINISH) if last else z.compress(d) + z.flush(zlib.Z_SYNC_FLUSH), [("content-encoding", "gzip")])
    if got[0][:2] == b"\x1f\x8b":
        d = zlib.decompressobj(wbits=31)
        got = [d.decompress(x) for x in got]
    want("events", got, [b"data: %d\n\n" % i for i in range(5)])


@case("I14 I12", "trailers of an answer", clients=BOTH)
def i14(t):
    t.origin.late = lambda r: Answer(trailers=[("x-sum", "1"), ("content-length", "9") if t.up == "h1" else ("x-b", "2")])
    status, _, body, trailers, whole = t.ask(fields=[("te", "trailers")] if t.cl == "h2" else [("TE", "trailers"), ("Connection", "TE")])
    want("the answer", (status, body, whole), (200, b"ok", True))
    want("its trailers", [(n.lower(), v) for n, v in trailers or []], [(b"x-sum", b"1")] + ([(b"x-b", b"2")] if t.up == "h2" else []))
    t.seen, t.records = 1, [ALLOWED]


@case("I14 J09", "the secret in a trailer is overwritten", clients=BOTH)
def i14_secret(t):
    t.origin.late = lambda r: Answer(trailers=[("x-auth", r.field("authorization")[0])])
    *_, trailers, whole = t.ask(fields=[("te", "trailers")] if t.cl == "h2" else [("TE", "trailers"), ("Connection", "TE")])
    want("its trailer", (trailers[0][1], whole), (b"Bearer " + b"*" * len(t.world.secret), True))
    t.seen, t.records = 1, [ALLOWED]


@case("I15", "answers without content", [("HEAD", 200), ("GET", 204), ("GET", 304), ("GET", 205)], clients=BOTH)
def i15(t, method, status):
    t.origin.late = lambda r: Answer(status, [("content-length", "500")] if (status == 304 or method == "HEAD") and t.up == "h2" else [], data=b"")
    got, fields, body, _, whole = t.ask(method)
    want("the answer", (got, body, whole), (status, b"", True))
    t.seen, t.records = 1, [["allow", "none", "none", str(status)]]
    t.origin.late = None
    more(t)


# --- K: broken upstreams --------------------------------------------------------------------------------------------------

HEADS = [
    [], [(":status", "")], [(":status", "20")], [(":status", "2000")], [(":status", "abc")], [(":status", "099")], [(":status", "200"), (":status", "200")], [("x-a", "b"), (":status", "200")],
    [(":status", "200"), (":path", "/")], [(":status", "200"), ("X-A", "b")], [(":status", "200"), ("x a", "b")], [(":status", "200"), ("x-a", "b\r\nc: d")], [(":status", "200"), ("x-a", "b\0c")],
    [(":status", "200"), ("", "b")], [(":status", "200"), ("content-length", "5"), ("content-length", "6")], [(":status", "200"), ("content-length", "x")], [(":status", "200"), ("location", "/a\nb")]]


@case("K01 K06 K10 K12", "response heads that have no one reading", HEADS, clients=BOTH, ups=("h2",))
def k01(t, *fields):
    raw(t, lambda sid: head(sid, list(fields[0]) if len(fields) == 1 and isinstance(fields[0], list) else list(fields), True))
    bad_gateway(t)


@case("K06 K12 UB10", "fields of the connection in a response are left out, or it is refused", [("connection", "close"), ("transfer-encoding", "chunked"), ("keep-alive", "timeout=5"), ("upgrade", "h2c"), ("proxy-connection", "close")], clients=BOTH, ups=("h2",))
def k06(t, name, value):
    raw(t, lambda sid: head(sid, [(":status", "200"), (name, value)], False) + frame(W.DATA, END, sid, b"ok"))
    status, fields, body, _, whole = t.ask()
    if status == 502:
        t.records.append(["allow", "upstream_protocol", "-", "502"])
    else:
        want("the answer", (status, body, whole), (200, b"ok", True))
        if t.cl == "h2" or value not in ("close",):
            want("the field", [v for v in field(fields, name) if v != b"chunked" or t.cl == "h2"], [])
        t.records.append(ALLOWED)
    t.seen = 1
    more(t)


@case("K06 C03", "white space around values of a response", [" a", "a ", "\ta\t"], clients=BOTH, ups=("h2",))
def k06_space(t, value):
    raw(t, lambda sid: head(sid, [(":status", "200"), ("x-a", value)], False) + frame(W.DATA, END, sid, b"ok"))
    status, fields, body, _, whole = t.ask()
    want("the answer", (status, body, whole, field(fields, "x-a")), (200, b"ok", True, [b"a"]))
    t.seen, t.records = 1, [ALLOWED]


@case("K02", "a second response on a stream that ended, and on one that was never opened", ["ended", "idle", "even"], clients=BOTH, ups=("h2",))
def k02(t, how):
    raw(t, lambda sid: head(sid, [(":status", "200")], False) + frame(W.DATA, END, sid, b"ok") + head({"ended": sid, "idle": sid + 200, "even": 2}[how], [(":status", "200"), ("x-a", "evil")], True))
    status, fields, body, _, whole = t.ask()
    want("the answer", (status, body, whole), (200, b"ok", True))
    t.seen, t.records = 1, [ALLOWED]
    more(t)


@case("K03 A14", "an answer before the request's end", clients=BOTH)
def k03(t):
    def early(r):
        if "/ok" not in r.path:
            r.conn.answer(r, Answer(status=400, data=b"early"))
    t.origin.early = early
    t.origin.late = lambda r: Answer() if "/ok" in r.path else None
    if t.cl == "h2":
        k = t.client()
        st = k.wait(k.open(k.base(t.path, "POST") + [("content-length", "100")], False, data=b"some"))
        want("the answer", (st.status, st.data), (400, b"early"))
    else:
        c = t.conn()
        c.send([b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 100\r\n\r\nsome" % (t.path.encode(), t.host.encode())])
        line, fields = split_head(c.upto(b"\r\n\r\n", "answer"))
        want("the answer", (line[9:12], c.content(fields, "answer")), (b"400", b"early"))
    t.records.append(["allow", "none", "none", "400"])
    t.seen = 1
    more(t)
    if t.up == "h1":
        want("connections", len(set(id(r.conn) for r in t.origin.requests)), 2)


@case("K04", "content that is less or more than its length, or cut", ["less", "more", "reset", "gone"], clients=BOTH, ups=("h2",))
def k04(t, how):
    n = 5 if how in ("less", "more") else None
    end = {"less": lambda sid: frame(W.DATA, END, sid, b"abc"), "more": lambda sid: frame(W.DATA, END, sid, b"abcdefgh"), "reset": lambda sid: frame(W.DATA, 0, sid, b"abc") + frame(W.RST, 0, sid, b"\0\0\0\2"),
           "gone": lambda sid: frame(W.DATA, 0, sid, b"abc")}[how]
    raw(t, lambda sid: head(sid, [(":status", "200")] + ([("content-length", "5")] if n else []), False) + end(sid), (lambda r: r.conn.s.shutdown(2)) if how == "gone" else None)
    broken(t)


@case("K05", "heads that are too large", [("one value", 1, 100000), ("many fields", 5000, 10), ("a megabyte", 16, 65000)], clients=BOTH, ups=("h2",))
def k05(t, what, n, size):
    raw(t, lambda sid: head(sid, [(":status", "200")] + [("x-a", "b" * size)] * n, True))
    status, _, body, _, _ = t.ask()
    want("the answer", status, 502)
    t.records.append(["allow", "upstream_protocol", "-", "502"])
    t.seen = 1
    more(t)


@case("K05", "content without end is passed on as it comes, and stops with its reader", clients=BOTH, ups=("h2",))
def k05_body(t):
    sent = [0]

    def late(r):
        if "/ok" in r.path:
            return Answer()
        r.conn.begin(r)

        def pour():
            try:
                while not r.reset and sent[0] < 256 << 20:
                    time.sleep(0.001)  # the sandbox's end shall keep up
                    if r.conn.waiting(r) > 1 << 20:
                        continue
                    r.conn.piece(r, b"x" * 16384)
                    sent[0] += 16384
            except OSError:
                pass
        threading.Thread(target=pour, daemon=True).start()
    t.origin.late = late
    c = t.conn()
    if t.cl == "h2":
        k = W.Client(c, t.host, None, t.world.canaries)
        sid = k.open(k.base(t.path))
        k.until(lambda: len(k.streams[sid].data) > 1 << 20)
    else:
        c.send([b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (t.path.encode(), t.host.encode())])
        while len(c.seen) < 1 << 20:
            c.more()
            c.buf = b""
    c.do("reset")
    wait_for(lambda: t.origin.reset or t.origin.errors, "the upstream is told")
    if sent[0] >= 256 << 20:
        raise Failed("all of it was taken")
    t.seen, t.records = 1, [["allow", "-", "-", "200"]]
    t.origin.late = None
    more(t)


@case("K07 G19", "Alt-Svc, as a field and as a frame, is not passed on; others are", clients=BOTH, ups=("h2",))
def k07(t):
    raw(t, lambda sid: frame(W.ALTSVC, 0, sid, b"\0\0h3=\":443\"") + frame(W.ALTSVC, 0, 0, b"\0\x06" + b"a.test" + b"h3=\":443\"") + head(sid, [(":status", "200"), ("alt-svc", "h3=\":443\""), ("strict-transport-security", "max-age=1"), ("nel", "{}")], False) + frame(W.DATA, END, sid, b"ok"))
    status, fields, body, _, whole = t.ask()
    want("the answer", (status, body, whole), (200, b"ok", True))
    want("fields", (field(fields, "alt-svc"), [v for n, v in fields if n.lower() == b"strict-transport-security"], [v for n, v in fields if n.lower() == b"nel"]), ([], [b"max-age=1"], [b"{}"]))
    t.seen, t.records = 1, [ALLOWED]


@case("K08", "GOAWAY while streams are open: those that were seen end well, others go to another connection", clients=("h2",), ups=("h2",))
def k08(t):
    t.other("f")
    held = []

    def late(r):
        if "/ok" in r.path:
            return Answer()
        held.append(r)
        if len(held) == 2:
            a, b = held
            a.conn.write(frame(W.GOAWAY, 0, 0, a.sid.to_bytes(4, "big") + b"\0\0\0\0"))
            a.conn.answer(a, Answer())
        if len(held) == 3:
            return Answer()
    t.origin.late = late
    k = t.client()
    a, b = k.open(k.base(t.path + "/a")), k.open(k.base(t.path + "/b"))
    k.wait(a, b)
    want("both", [(k.streams[i].status, k.streams[i].ended) for i in (a, b)], [(200, True)] * 2)
    want("connections", len(set(id(r.conn) for r in t.origin.requests)), 2)
    t.seen, t.records = 3, [ALLOWED] * 2


@case("K08", "no stream is allowed: the request waits until one is, or 504", clients=BOTH, ups=("h2",), slow=40)
def k08_none(t):
    t.other("f")
    t.origin.hello = ((3, 0),)
    status, *_ = t.ask()
    want("the answer", status, 504)
    t.records, t.seen = [["allow", "upstream_timeout", "-", "504"]], None


@case("K09", "a connection that is reset as it is used again: once more, where that is safe", [("GET", 200), ("POST", 502)], clients=BOTH, ups=("h2",))
def k09(t, method, status):
    t.other("f")
    t.ask(path="/v1/ok")
    n = []

    def early(r):
        n.append(r)
        if len(n) == 1:
            r.conn.s.shutdown(2)
    t.origin.early = early
    got, *_ = t.ask(method, data=b"x" if method == "POST" else None)
    want("the answer", got, status)
    t.records = [ALLOWED, ["allow", "none" if status == 200 else "upstream_protocol", "-", str(status)]]
    t.seen = 3 if status == 200 else 2
    want("times", len(n), t.seen - 1)


@case("K13", "lengths and content where there can be none", [("GET", 204, b""), ("HEAD", 200, b"x"), ("GET", 304, b"x")], clients=BOTH, ups=("h2",))
def k13(t, method, status, data):
    raw(t, lambda sid: head(sid, [(":status", str(status)), ("content-length", "5")], not data) + (frame(W.DATA, END, sid, b"hello") if data else b""))
    got, fields, body, _, whole = t.ask(method)
    if data:
        if got not in (status, 502, None) or body:
            raise Failed("%r %r" % (got, body))
    else:
        want("the answer", (got, body, [v for n, v in fields if n.lower() == b"content-length"]), (status, b"", []))
    t.seen, t.records = 1, [["allow", "-", "-", "-"]]
    more(t)


@case("K15", "a response head that is never finished", clients=BOTH, ups=("h2",), slow=30)
def k15(t):
    raw(t, lambda sid: frame(W.HEADERS, END, sid, W.block([(":status", "200")])))
    t.conn_seconds = 40
    status, *_ = t.ask()
    want("the answer", status, 504, 502)
    t.records = [["allow", "-", "-", str(status)]]
    t.seen = 1


FATAL = {
    "push": lambda sid: frame(W.PUSH, HEAD_END, sid, b"\0\0\0\2" + W.block([(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", "/")])),
    "window too large": lambda sid: frame(W.WINDOW, 0, 0, b"\x7f\xff\xff\xff") * 2,
    "broken compression": lambda sid: frame(W.HEADERS, HEAD_END, sid, b"\x80"),
    "frame too large": lambda sid: frame(W.DATA, 0, sid, b"x" * 16385),
    "settings of the wrong size": lambda sid: frame(W.SETTINGS, 0, 0, b"x" * 7),
    "continuation without a head": lambda sid: frame(W.CONT, 0, sid, b""),
    "continuations without end": lambda sid: frame(W.HEADERS, 0, sid, W.block([(":status", "200")])) + frame(W.CONT, 0, sid, b"") * 200,
    "settings without end": lambda sid: W.settings() * 5000,
    "pings without end": lambda sid: frame(W.PING, 0, 0, b"12345678") * 20000,
    "not HTTP/2": lambda sid: b"HTTP/1.1 200 OK\r\n\r\n" * 10,
    "data before the head": lambda sid: frame(W.DATA, END, sid, b"x"),
}


@case("K16 C19 D07", "upstreams that break the rules, or flood", sorted(FATAL), clients=BOTH, ups=("h2",))
def k16(t, how):
    def late(r):
        if "/ok" in r.path:
            return Answer()
        try:
            r.conn.write(FATAL[how](r.sid))
        except OSError:
            pass
    t.origin.late = late
    bad_gateway(t)


@case("K16", "much that an upstream may say is ignored", clients=BOTH, ups=("h2",))
def k16_ignored(t):
    raw(t, lambda sid: frame(99, 255, sid, b"x" * 1000) + W.settings((99, 1), (1, 0xffffffff), (6, 10), (5, 0xffffff)) + frame(W.PRIORITY, 0, sid, b"\0\0\0\0\x10") + frame(W.PING, 0, 0, b"12345678") + head(sid, [(":status", "200")], False) + frame(W.DATA, END | W.PADDED, sid, b"\x05ok" + b"\0" * 5))
    status, _, body, _, whole = t.ask()
    want("the answer", (status, body, whole), (200, b"ok", True))
    t.seen, t.records = 1, [ALLOWED]
    more(t)


@case("K16 D08", "an upstream's stream that sends beyond its window", clients=("h2",), ups=("h2",))
def k16_window(t):
    raw(t, lambda sid: head(sid, [(":status", "200")], False) + frame(W.DATA, 0, sid, b"x" * 16384) * 40)
    k = t.client()
    st = k.wait(k.open(k.base(t.path)))
    want("the stream", (st.status, st.ended), (200, False))
    t.seen, t.records = 1, [["allow", "-", "-", "200"]]
    more(t)


# --- UB, UC ---------------------------------------------------------------------------------------------------------------

@case("UB02", "gRPC answers without a message", ["one head", "head and trailers"], clients=("h2",), ups=("h2",))
def ub02(t, how):
    raw(t, lambda sid: head(sid, [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "5")], True) if how == "one head" else head(sid, [(":status", "200"), ("content-type", "application/grpc")], False) + head(sid, [("grpc-status", "0")], True))
    k = t.client()
    st = k.wait(k.open(k.base(t.path, "POST") + [("content-type", "application/grpc"), ("te", "trailers")], data=b"\0\0\0\0\0"))
    want("the answer", (st.status, st.data, st.ended), (200, b"", True))
    want("its status", dict(st.trailers or st.head).get(b"grpc-status"), b"5" if how == "one head" else b"0")
    t.seen, t.records = 1, [ALLOWED]


@case("UB09", "Set-Cookie stays as many fields as it was", clients=BOTH)
def ub09(t):
    t.origin.late = lambda r: Answer(fields=[("set-cookie", "a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT"), ("set-cookie", "b=2")])
    _, fields, *_ = t.ask()
    want("Set-Cookie", [v for n, v in fields if n.lower() == b"set-cookie"], [b"a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT", b"b=2"])
    t.seen, t.records = 1, [ALLOWED]


@case("UC05", "no coding is asked for in the client's name", clients=BOTH)
def uc05(t):
    t.other("n")
    t.origin.late = lambda r: Answer(data=b"{}")
    status, fields, body, _, whole = t.ask()
    want("the answer", (status, body, whole), (200, b"{}", True))
    want("Accept-Encoding at the origin", t.origin.requests[0].field("accept-encoding"), [])
    t.seen, t.records = 1, [ALLOWED]
    more(t)


@case("UB06", "a stream that is not read does not stop the others", clients=("h2",))
def ub06(t):
    t.origin.late = lambda r: Answer(data=b"x" * (3000000 if "/big" in r.path else 1000))
    k = t.client(W.MAGIC + W.settings((4, 65535)) + frame(W.WINDOW, 0, 0, b"\x7f\0\0\0"), credit=False)
    slow = k.open(k.base(t.path + "/big"))
    k.until(lambda: len(k.streams[slow].data) == 65535)
    small = [k.open(k.base(t.path + "/small")) for _ in range(39)]
    k.wait(*small)
    want("small ones", [len(k.streams[i].data) for i in small], [1000] * 39)
    want("the slow one", len(k.streams[slow].data), 65535)
    k.write(frame(W.WINDOW, 0, slow, b"\x7f\0\0\0"))
    want("the slow one, read", (len(k.wait(slow).data), k.streams[slow].ended), (3000000, True))
    t.seen, t.records = 40, [ALLOWED] * 40


# --- all pairings alike ---------------------------------------------------------------------------------------------------

SAME = [
    ("GET", "/v1/a", [], None), ("GET", "/v1/a?x=1&y=%20z", [], None), ("GET", "/v1/%7Euser/a", [], None), ("GET", "/v1/a%2Fb", [], None), ("GET", "/v1/../hidden", [], None), ("GET", "/v1//a", [], None),
    ("GET", "/v1/hidden/x", [], None), ("GET", "/v1/%68idden/x", [], None), ("POST", "/v1/a", [], b"hello"), ("POST", "/v1/a", [], b""), ("PUT", "/v1/a", [("content-type", "text/plain")], b"x" * 100000),
    ("DELETE", "/v1/a", [], None), ("PATCH", "/v1/a", [], b"x"), ("HEAD", "/v1/a", [], None), ("TRACE", "/v1/a", [], None), ("GET", "/other", [], None), ("OPTIONS", "/v1/a", [], None),
    ("GET", "/v1/a", [("x-http-method-override", "DELETE")], None), ("GET", "/v1/a", [("x-original-url", "/v1/hidden/x")], None), ("GET", "/v1/a", [("x-forwarded-for", "1.2.3.4"), ("forwarded", "for=1.2.3.4")], None),
    ("GET", "/v1/a", [("authorization", "Bearer mine"), ("x-api-key", "k"), ("cookie", "a=b")], None), ("GET", "/v1/a", [("via", "1.1 sallyport")], None), ("GET", "/v1/a", [("max-forwards", "0")], None),
    ("GET", "/v1/a", [("range", "bytes=0-1"), ("accept-encoding", "gzip")], None), ("POST", "/v1/a?_method=DELETE", [], b"x"), ("GET", "/v1/a", [("x_api_key", "1")], None), ("GET", "/v1/a", [("content_length", "1")], None),
    ("GET", "/v1/" + "a" * 17000, [], None), ("GET", "/v1/a", [("x-%d" % i, "b") for i in range(120)], None), ("GET", "/v1/a", [("x-a", "b" * 17000)], None), ("GET", "/v1/a", [("x-a", "\xff\xfe")], None),
    ("GET", "/v1/a", [("host", "evil.test")], None), ("GET", "/v1/a", [("x-a", "a\x01b")], None), ("GET", "/v1/a", [("expect", "nonsense")], None), ("GET", "/v1/a", [("proxy-authorization", "Basic eDp5")], None),
    ("POST", "/graphql/x", [("content-type", "application/json")], b'{"query":"query { a }"}'), ("POST", "/graphql/x", [("content-type", "application/json")], b'{"query":"mutation { a }"}'),
    ("GET", "/v1/a", [("date", "Wed, 21 Oct 2026 07:28:00 GMT"), ("if-none-match", "\"x\""), ("cache-control", "no-cache")], None), ("GET", "/v1/a\\b", [], None), ("GET", "/v1/a;b=c", [], None), ("GET", "/v1/%00", [], None)]
outcomes = {}


@case("C24 B01 B04 B06 B07 B13", "the same request in all four pairings: decided, forwarded and answered alike", list(enumerate(SAME)), clients=BOTH)
def c24(t, n, request):
    method, path, fields, data = request
    if t.cl == "h2" and any(n == "host" for n, _ in fields):
        k = t.client()
        st = k.wait(k.open(k.base(path, method, authority=dict(fields)["host"])))
        status = st.status
    elif t.cl == "h1" and any(n == "host" for n, _ in fields):
        c = t.conn()
        c.send([("%s %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (method, path, dict(fields)["host"])).encode()])
        status = int(split_head(c.upto(b"\r\n\r\n", "answer"))[0][9:12])
    else:
        status = t.ask(method, fields, path, data)[0]
    got = t.world.audit.take(1)
    t.records, t.seen = [], None
    want("records", len(got), 1)
    s = got[0]["unmapped"]["sallyport"]
    if status is None and s.get("code") == "malformed_request":
        status = 400  # a reset is how HTTP/2 says it
    seen = [(r.method, r.path, r.data, sorted(f for f in r.fields if f[0] not in (b"content-length", b"transfer-encoding", b"te", b"cookie"))) for r in t.origin.requests]
    outcome = (status, s["decision"], s.get("code"), seen, got[0]["http_request"]["url"].get("path"), got[0]["http_request"].get("http_method"))
    if s.get("code") == "malformed_request":  # how much of it could be read differs
        outcome = outcome[:4]
    first = outcomes.setdefault(n, outcome)
    for what, a, b in zip(("status", "decision", "code", "request at the origin", "recorded path", "recorded method"), first, outcome):
        want("%s, unlike in another pairing" % what, b, a)
