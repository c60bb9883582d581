# SPDX-License-Identifier: Apache-2.0
"""What a sandbox may try: groups C and D of the catalogue."""
import os
import resource
import subprocess
import threading
import time

import wire as W
from cases import record_line as C_line
from cases import split_head
from h2cases import Answer, Failed, case, want
from wire import END, HEAD_END, Client, frame, head, literal, number

# --- C: semantics ---------------------------------------------------------------------------------------------------------


@case("C01", "CR, LF or NUL in a value", ["a\rb", "a\nb", "a\0b", "a\r\nx: y", "\r", "\0"])
def c01(t, value):
    t.refused(t.client(), t.client().base(t.path) + [("x-a", value)])


@case("C02", "names that are none", ["X-A", "a:b", "a b", "a\x01b", "", "a\x7f", "a\xff", "a\n", "a\0", "Content-Length", "a(", "transfer-encoding "])
def c02(t, name):
    t.refused(t.client(), t.client().base(t.path) + [(name, "v")])


@case("C03", "white space around a value", [" a", "a ", "\ta", "a\t", " "])
def c03(t, value):
    t.refused(t.client(), t.client().base(t.path) + [("x-a", value)])


@case("C04", "fields of the connection", [("transfer-encoding", "chunked"), ("connection", "close"), ("connection", "x-a"), ("keep-alive", "1"), ("proxy-connection", "close"), ("upgrade", "h2c")])
def c04(t, name, value):
    t.refused(t.client(), t.client().base(t.path) + [(name, value)])


@case("C05", "TE other than trailers", ["gzip", "trailers, gzip", "", "chunked"])
def c05(t, value):
    t.refused(t.client(), t.client().base(t.path) + [("te", value)])


@case("C05", "TE: trailers")
def c05_trailers(t):
    k = t.client()
    want("the answer", k.wait(k.open(k.base(t.path) + [("te", "trailers")])).status, 200)
    t.seen, t.records = 1, [["allow", "none", "none", "200"]]


@case("C06", "a length that is not one, or two", [["5", "5"], ["5", "6"], ["+5"], ["-1"], ["5, 5"], ["0x5"], ["99999999999999999999"], [""], ["05"]])
def c06(t, values):
    k = t.client()
    t.refused(k, k.base(t.path, "POST") + [("content-length", v) for v in values], data=b"hello")


@case("C06", "a length, and no content at all")
def c06_end(t):
    k = t.client()
    t.refused(k, k.base(t.path, "POST") + [("content-length", "5")])


@case("C06", "content that is more or less than its length", [b"hel", b"hello!", b"hello" * 4000])
def c06_sum(t, data):
    k = t.client()
    st = k.wait(k.open(k.base(t.path, "POST") + [("content-length", "5")], data=data))
    want("the stream", (st.status, st.reset), (None, W.PROTOCOL))
    t.records.append(["deny", "malformed_request", "content_length_sum", "-"])
    t.get(k)
    t.seen, t.whole = None, 1  # the head may have gone out; a whole request has not


@case("C07", "methods that are none", ["GET / HTTP/1.1\r\nHost: x", "G ET", "", "GET\0", "GET\r\n", "G\tT", "(GET)", "get"])
def c07(t, method):
    t.refused(t.client(), t.client().base(t.path, method))


@case("C07", "a method that is one, and no rule allows")
def c07_unknown(t):
    t.refused(t.client(), t.client().base(t.path, "PURGE"), 403, code="policy_denied")


@case("C08", "paths that are none", ["/v1/a b", "/v1/a\tb", "/v1/a\r\nb", "/v1/a#b", "", "v1/a", "http://x/v1/a", "*", "/v1/a\0", "/v1/a HTTP/1.1\r\nx: y", "/v1/\x7f"])
def c08(t, path):
    t.refused(t.client(), t.client().base(path))


@case("C08", "* with OPTIONS is a target, which no rule allows")
def c08_options(t):
    t.refused(t.client(), t.client().base("*", "OPTIONS"), 403, code="policy_denied")


@case("C08 C13", "a pseudo-field that is missing", [":method", ":path", ":scheme"])
def c08_missing(t, name):
    k = t.client()
    t.refused(k, [f for f in k.base(t.path) if f[0] != name])


@case("C09", "another scheme than the connection's", ["http", "http://evil/", "", "ftp", "https ", "https://" + "x"])
def c09(t, scheme):
    t.refused(t.client(), t.client().base(t.path, scheme=scheme))


@case("C10", "authorities that are none", ["u@{h}", "u:p@{h}", "{h}/x", "{h} ", "", "{h}:443:1", "{h}:", "{h}:99999", "{h},x", "[::1", "{h}\\x", "{h}?x", "{h}%2e"])
def c10(t, authority):
    k = t.client()
    st = k.wait(k.open(k.base(t.path, authority=authority.format(h=t.host))))
    if st.status not in (400, None) or (st.status is None and st.reset != W.PROTOCOL):
        raise Failed("%r" % st)
    t.records.append(["deny", "malformed_request", "-", "-"])
    t.get(t.client())


@case("C10", "two authorities")
def c10_two(t):
    k = t.client()
    t.refused(k, k.base(t.path) + [(":authority", t.host)])


@case("C11 UB10", "Host that says something else", ["evil.test", "{h}:444", "{h}, evil.test", "", "u@{h}"])
def c11(t, host):
    k = t.client()
    t.refused(k, k.base(t.path) + [("host", host.format(h=t.host))])


@case("C11", "two Hosts, or one beside the same authority twice", [2])
def c11_two(t, n):
    k = t.client()
    t.refused(k, k.base(t.path) + [("host", t.host)] * n)


@case("C12 UB10", "Host in place of :authority, and beside it", [None, 1])
def c12(t, both=None):
    k = t.client()
    st = k.wait(k.open(k.base(t.path, **({} if both else {"authority": None})) + [("host", t.host)]))
    want("the answer", st.status, 200)
    want("host at the origin", t.origin.requests[0].host, t.host)
    want("Host beside it", t.origin.requests[0].field("host"), [])
    t.seen, t.records = 1, [["allow", "none", "none", "200"]]


@case("C12", "neither Host nor :authority")
def c12_none(t):
    k = t.client()
    st = k.wait(k.open(k.base(t.path, authority=None)))
    want("the stream", (st.status, st.reset), (None, W.PROTOCOL))
    t.records = [["deny", "malformed_request", "-", "-"]]


@case("C13", "pseudo-fields behind others, unknown, twice, or of responses", [[("x-a", "1"), (":path", "/v1/x")], [(":foo", "x")], [(":path", "/v1/hidden")], [(":method", "DELETE")], [(":scheme", "https")], [(":status", "200")], [("x-a", "1"), (":status", "200")], [(":", "x")]])
def c13(t, fields):
    t.refused(t.client(), t.client().base(t.path) + fields)


@case("C14", "a stream for another name than the connection's", ["h1-0.test", "elsewhere.test", "{h}:8443"])
def c14(t, name):
    name = name.format(h=t.host)
    if name == t.host:
        name = "h1-1.test"
    t.refused(t.client(), t.client().base(t.path, authority=name), 421, code="identity_mismatch", reason="host_mismatch")


@case("C15 UB09", "crumbs of a Cookie are one field at the origin")
def c15(t):
    t.other("n")
    k = t.client()
    want("the answer", k.wait(k.open(k.base(t.path) + [("cookie", "a=1"), ("x-b", "c"), ("cookie", "b=2"), ("cookie", "c=3")])).status, 200)
    want("Cookie at the origin", b"; ".join(t.origin.requests[0].field("cookie")), b"a=1; b=2; c=3")
    want("how many, toward HTTP/1.1", len(t.origin.requests[0].field("cookie")), *((1,) if t.up == "h1" else (1, 2, 3)))
    t.seen, t.records = 1, [["allow", "none", "none", "200"]]


@case("C15 D05", "crumbs without end", [101, 4000])
def c15_many(t, n):
    k = t.client()
    # one in the dynamic table, then an octet each
    b = W.block(k.base(t.path)) + b"\x60" + number(3, 7, 0) + b"a=1" + b"\xbe" * n
    t.refused(k, b, 431, code="too_large")


@case("C16", "CONNECT, and protocols that are not WebSocket", [("CONNECT", None, None), ("CONNECT", "path", None), ("CONNECT", "path", "connect-udp"), ("CONNECT", "path", ""), ("GET", "path", "websocket"), ("CONNECT", None, "websocket")])
def c16(t, method, path, protocol):
    k = t.client()
    fields = k.base(t.path, method) + ([(":protocol", protocol)] if protocol is not None else [])
    if path is None:
        fields = [f for f in fields if f[0] not in (":path", ":scheme")]
    st = k.wait(k.open(fields))
    if st.status not in (400, 403, 501, None) or (st.status is None and st.reset != W.PROTOCOL):
        raise Failed("%r" % st)
    t.records.append(["deny", "-", "-", "-"])
    t.get(k)


@case("C17", "trailers that may not be", [[(":path", "/v1/x")], [("connection", "close")], [("transfer-encoding", "chunked")], [("X-A", "b")], [("x-a", "b\r\nc")], [("te", "gzip")]])
def c17(t, fields):
    k = t.client()
    sid = k.open(k.base(t.path, "POST"), False)
    k.write(frame(W.DATA, 0, sid, b"hello") + head(sid, fields, True))
    st = k.wait(sid)
    want("the stream", (st.status, st.reset), (None, W.PROTOCOL))
    t.records.append(["deny", "malformed_request", "-", "-"])
    t.get(k)
    t.seen, t.whole = None, 1


@case("C17", "trailers without the stream's end")
def c17_no_end(t):
    k = t.client()
    sid = k.open(k.base(t.path, "POST"), False)
    k.write(head(sid, [("x-a", "b")], False))
    want("the stream", k.wait(sid).reset, W.PROTOCOL)
    t.records.append(["deny", "malformed_request", "-", "-"])
    t.get(k)
    t.seen, t.whole = None, 1


@case("C18", "stream ids that may not be", ["even", "lower", "zero", "data on an idle one", "window of an idle one", "reset of an idle one", "continuation alone"])
def c18(t, what):
    k = t.client()
    t.get(k)
    if what == "lower":
        t.get(k, sid=99)
        k.write(head(51, k.base(t.path)))
    else:
        k.write({"even": head(2, k.base(t.path)), "zero": head(0, k.base(t.path)), "data on an idle one": frame(W.DATA, END, 5, b"x"), "window of an idle one": frame(W.WINDOW, 0, 5, b"\0\0\0\1"),
                 "reset of an idle one": frame(W.RST, 0, 5, b"\0\0\0\x08"), "continuation alone": frame(W.CONT, HEAD_END, 5, b"")}[what])
    t.fatal(k, W.PROTOCOL)
    t.connections = [("malformed_request", "-")]
    t.seen += 0


@case("C19", "PUSH_PROMISE from a client")
def c19(t):
    k = t.client()
    k.write(frame(W.PUSH, HEAD_END, 1, b"\0\0\0\2" + W.block(k.base(t.path))))
    t.fatal(k, W.PROTOCOL)
    t.connections = [("malformed_request", "-")]


@case("C19", "an upstream is told that nothing may be pushed", ups=("h2",))
def c19_settings(t):
    t.other("f")
    t.get(t.client())
    want("ENABLE_PUSH toward the upstream", t.origin.conns[0].settings.get(2), 0)
    want("connections for one request", len(t.origin.conns), 1)


@case("C20", "no preface", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX" + b"x" * 40, b"PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n" + b"x" * 40, W.MAGIC + frame(W.PING, 0, 0, b"12345678"), b"\x16\x03\x01\0\5" * 10])
def c20(t, octets):
    k = t.client(octets)
    k.ended()
    if any(st.status for st in k.streams.values()):
        raise Failed("answered")
    t.connections = [("malformed_request", "-")]


@case("C20 UB11", "the preface of HTTP/2 where HTTP/1.1 was agreed", clients=("h1",))
def c20_h1(t):
    c = t.conn("tls")
    c.send([W.MAGIC + W.settings() + head(1, [(":method", "GET"), (":scheme", "https"), (":authority", t.host), (":path", t.path)])])
    line, _ = split_head(c.upto(b"\r\n\r\n", "answer"))
    want("the answer", line[:13], b"HTTP/1.1 400 ")
    t.records = [["deny", "malformed_request", "-", "400"]]


@case("C21 UB11", "prior knowledge, in the clear", ["plain", "proxy"], ups=("h1",))
def c21(t, how):
    t.host = "plain.test"
    c = t.conn(how)
    c.send([W.MAGIC + W.settings()])
    line, _ = split_head(c.upto(b"\r\n\r\n", "answer"))
    want("the answer", line[:13], b"HTTP/1.1 400 ")
    t.records = [["deny", "malformed_request", "-", "400"]]


@case("C23", "field compression that is broken", [b"\x80", b"\xff\xff\xff\x7f", b"\xbf", b"\x40\x01a\x82\x00\x00", b"\x40\x01a\x84\xff\xff\xff\xff", b"\x3f\xe1\xff\x7f", b"\x82\x20", b"\x40\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x00\x05ab"])
def c23(t, octets):
    k = t.client()
    k.write(frame(W.HEADERS, HEAD_END | END, 1, W.block(k.base(t.path)) + octets))
    t.fatal(k, W.COMPRESSION)
    t.connections = [("malformed_request", "-")]


@case("C25", "a download is cancelled", clients=("h2",))
def c25_down(t):
    t.origin.late = lambda r: r.conn.begin(r) or r.conn.piece(r, b"x" * 1000) if r.path == t.path + "/slow" else Answer()
    k = t.client()
    sid = k.open(k.base(t.path + "/slow"))
    k.until(lambda: len(k.streams[sid].data) == 1000)
    k.write(frame(W.RST, 0, sid, b"\0\0\0\x08"))
    t.seen, t.records = 1, [["allow", "client_closed", "the client cancelled the request", "200"]]
    t.get(k)
    if t.up == "h2":
        wait_for(lambda: t.origin.reset and t.origin.reset[0].reset == W.CANCEL, "a reset at the origin")


@case("C25", "an upload is cancelled", clients=("h2",))
def c25_up(t):
    k = t.client()
    sid = k.open(k.base(t.path + "/up", "POST"), False)
    k.write(frame(W.DATA, 0, sid, b"x" * 1000))
    wait_for(lambda: t.origin.requests and t.origin.requests[0].data, "content at the origin")
    k.write(frame(W.RST, 0, sid, b"\0\0\0\x08"))
    t.records = [["allow", "client_closed", "the client cancelled the request", "-"]]
    t.seen = 1
    wait_for(lambda: t.origin.reset, "the origin notices")
    t.get(k)
    t.whole = 1


def wait_for(what, text):
    end = time.monotonic() + 15
    while not what():
        if time.monotonic() > end:
            raise Failed("in vain: " + text)
        time.sleep(0.005)


# --- D: denial of service -------------------------------------------------------------------------------------------------

def flood(t, k, octets, times, slice_=100, codes=(W.CALM,), requests=False):
    """The connection ends, long before all of it was taken; the worker goes on."""
    for i in range(0, times, slice_):
        k.write(octets if isinstance(octets, bytes) and slice_ == 1 else b"".join(octets(j) for j in range(i, i + slice_)) if callable(octets) else octets * slice_)
        if k.c.over or any(e for e in [k.goaway]):
            break
    got = k.ended()
    want("GOAWAY", got, *codes, *(() if got is not None else (None,)))
    if not requests:
        t.connections = [("malformed_request", "-")]
    t.get(t.client())


@case("D01", "rapid reset")
def d01(t):
    k = t.client()
    t.origin.late = lambda r: Answer() if "ok" in r.path else None
    t.path += "/ok"
    flood(t, k, lambda i: head(2 * i + 1, k.base("/v1/r")) + frame(W.RST, 0, 2 * i + 1, b"\0\0\0\x08"), 5000)
    t.seen = None
    n = len([r for r in t.origin.requests if r.path == "/v1/r"])
    if n > 450:
        raise Failed("%d requests went to the origin" % n)
    drain(t)


def drain(t):
    """Records of a flood: all denials or cancels, one for each request; how many depends on when the flood was noticed."""
    last = -1
    while last != len(t.world.audit.queue):
        last = len(t.world.audit.queue)
        time.sleep(0.3)
        t.world.audit.read()
    q = list(t.world.audit.queue)
    if len(q) > 1000:
        raise Failed("%d records" % len(q))
    t.records = [[o["unmapped"]["sallyport"].get("decision"), o["unmapped"]["sallyport"].get("code") or "none", "-", "-"] for o in q]


@case("D02", "resets of our own are provoked", ["window of nothing", "window too large", "malformed", "over the streams"])
def d02(t, how):
    k = t.client()
    t.origin.late = lambda r: Answer() if "ok" in r.path else None
    t.path += "/ok"
    one = {"window of nothing": lambda i: head(2 * i + 1, k.base("/v1/r")) + frame(W.WINDOW, 0, 2 * i + 1, b"\0\0\0\0"),
           "window too large": lambda i: head(2 * i + 1, k.base("/v1/r")) + frame(W.WINDOW, 0, 2 * i + 1, b"\x7f\xff\xff\xff"),
           "malformed": lambda i: head(2 * i + 1, k.base("/v1/r") + [("x", "\r")]),
           "over the streams": lambda i: head(2 * i + 1, k.base("/v1/r"), False)}[how]
    flood(t, k, one, 5000, codes=(W.CALM, W.PROTOCOL))  # PROTOCOL_ERROR: more at a time than the limit, before our resets have gone out
    t.seen = None
    drain(t)


@case("D03 D04", "CONTINUATION without end", [b"", b"x" * 10, literal("x-a", "b" * 100)])
def d03(t, part):
    k = t.client()
    k.write(frame(W.HEADERS, END, 1, W.block(k.base(t.path))))
    flood(t, k, frame(W.CONT, 0, 1, part), 2000, codes=(W.CALM, W.COMPRESSION))


@case("D04", "empty frames", ["data", "headers", "padding"])
def d04(t, how):
    k = t.client()
    if how != "headers":
        k.write(head(1, k.base("/v1/r", "POST"), False))
    flood(t, k, {"data": frame(W.DATA, 0, 1), "padding": frame(W.DATA, W.PADDED, 1, b"\0"), "headers": lambda i: frame(W.HEADERS, HEAD_END | END, 2 * i + 1)}[how], 5000, codes=(W.CALM, W.PROTOCOL))
    drain(t)
    t.seen = None


@case("D05", "a small block, many fields", [200, 4000, 16000])
def d05(t, n):
    k = t.client()
    b = W.block(k.base(t.path)) + b"\x40" + number(3, 7, 0) + b"x-a" + number(1, 7, 0) + b"b" + b"\xbe" * n
    t.refused(k, b, 431, code="too_large")


@case("D06", "a large entry, referred to many times", [40, 16000])
def d06(t, n):
    k = t.client()
    before = rss(t)
    b = W.block(k.base(t.path)) + b"\x40" + number(3, 7, 0) + b"x-a" + number(4000, 7, 0) + b"b" * 4000 + b"\xbe" * n
    t.refused(k, b, 431, code="too_large")
    if rss(t) > before + 8192:
        raise Failed("memory grew from %d to %d kB" % (before, rss(t)))


def rss(t):
    if "san" in (os.environ.get("VARIANT"), os.environ.get("SP_VARIANT")):
        return 0  # a sanitizer's own memory would be measured
    pid = subprocess.run(["bash", "-c", ". %s/lib.sh >/dev/null; trap - EXIT; STATE=%s role_pid worker" % (os.path.join(os.path.dirname(__file__), ".."), os.environ["STATE"])], capture_output=True, text=True, env=dict(os.environ)).stdout.split()[-1:]
    if not pid:
        raise Failed("no worker found")
    with open("/proc/%s/status" % pid[0]) as f:
        return int(next(l for l in f if l.startswith("VmRSS")).split()[1])


@case("D07", "floods of control frames", ["settings", "ping", "priority", "window", "settings ack", "unknown"])
def d07(t, how):
    k = t.client()
    flood(t, k, {"settings": W.settings(), "ping": frame(W.PING, 0, 0, b"12345678"), "priority": frame(W.PRIORITY, 0, 3, b"\0\0\0\1\x10"), "window": frame(W.WINDOW, 0, 0, b"\0\0\0\1"),
                 "settings ack": frame(W.SETTINGS, W.ACK, 0), "unknown": frame(99, 0, 0, b"x")}[how], 20000, 500, (W.CALM, W.PROTOCOL))


@case("D09", "settings that ask for much", [[(1, 0xffffffff)], [(1, 0)], [(4, 0x7fffffff), (4, 0), (4, 65535)], [(3, 0)], [(6, 1)], [(5, 0xffffff)], [(99, 7)]])
def d09(t, pairs):
    k = t.client()
    before = rss(t)
    k.write(W.settings(*pairs))
    t.get(k)
    k.write(W.settings((4, 65535)) * 10)
    t.get(k)
    if rss(t) > before + 8192:
        raise Failed("memory grew from %d to %d kB" % (before, rss(t)))


@case("D09", "settings that are none", [(4, 0x80000000, W.FLOW), (5, 1, W.PROTOCOL), (5, 0x1000000, W.PROTOCOL), (2, 2, W.PROTOCOL)])
def d09_wrong(t, name, value, code):
    k = t.client()
    k.write(W.settings((name, value)))
    t.fatal(k, code)
    t.connections = [("malformed_request", "-")]


@case("D10", "broken frames behind our GOAWAY", [b"\xff" * 40, frame(W.HEADERS, HEAD_END | END, 1, b"\x80"), frame(W.SETTINGS, 0, 0, b"x"), frame(W.RST, 0, 0, b"")])
def d10(t, octets):
    k = t.client()
    k.write(frame(W.DATA, 0, 0, b"x"))
    k.write(octets * 50)
    t.fatal(k, W.PROTOCOL)
    t.connections = [("malformed_request", "-")]
    t.get(t.client())


@case("D11", "half a head, and no more of it", slow=25)
def d11(t):
    k = t.client()
    k.c.seconds = 40
    k.write(frame(W.HEADERS, END, 1, W.block(k.base(t.path))[:30]))
    k.ended()
    t.connections = [("malformed_request", "head_timeout")]


@case("D08 D05 UB06", "a window of nothing while there is content: the stream is given up, memory is bounded", [0, 1], ups=("h1",), slow=150)
def d08(t, window):
    t.origin.late = lambda r: Answer(data=b"x" * 4000000)
    k = t.client(W.MAGIC + W.settings((4, window)), credit=False)
    k.c.seconds = 200
    before = rss(t)
    sids = [k.open(k.base(t.path)) for _ in range(50)]
    st = k.wait(*sids)
    want("the streams", set(k.streams[i].reset for i in sids), {W.CANCEL})
    t.seen, t.records = 50, [["allow", "client_closed", "-", "200"]] * 50
    if rss(t) > before + 50 * 700:
        raise Failed("memory grew from %d to %d kB" % (before, rss(t)))


@case("D15", "an upload that no upstream reads is stopped, and memory is bounded")
def d15(t):
    stop = threading.Event()
    if t.up == "h2":
        def early(r):
            r.conn.credit = False
        t.origin.early = early
    else:
        t.origin.early = lambda r: stop.wait(30)
    k = t.client()
    before = rss(t)
    sid = k.open(k.base(t.path, "POST"), False)
    wait_for(lambda: t.origin.requests, "the request at the origin")
    sent, room = 0, {0: k.window, sid: k.settings.get(4, 65535)}

    class Ends(Exception):
        pass

    old = k.frame

    def on_frame(kind, flags, s, p):
        if kind == W.WINDOW and s in (0, sid):
            room[s] += int.from_bytes(p, "big") if s == sid or room.get("seen") else int.from_bytes(p, "big")
        old(kind, flags, s, p)

    k.frame = on_frame
    k.c.seconds = 2
    most = 64 << 20
    while sent < most:
        n = min(16384, room[0], room[sid])
        if n <= 0:
            try:
                if not k.turn():
                    raise Failed("the connection ended")
            except Failed:
                break  # nothing comes any more: we may not send
            continue
        k.write(frame(W.DATA, 0, sid, b"x" * n))
        room[0] -= n
        room[sid] -= n
        sent += n
    if sent >= 16 << 20:
        raise Failed("%d octets were taken" % sent)
    if rss(t) > before + 16384:
        raise Failed("memory grew from %d to %d kB" % (before, rss(t)))
    stop.set()
    t.records, t.seen = [["allow", "client_closed", "-", "-"]], 1


# --- content that rules look at -------------------------------------------------------------------------------------------

J = [("content-type", "application/json")]
QUERY, MUTATION = b'{"query":"query { a }"}', b'{"query":"mutation { a }"}'


@case("C24 F16", "content that a rule looks at: allowed, and whole at the origin", [1, 7, 10000])
def held(t, step):
    k = t.client()
    sid = k.open(k.base("/graphql/x", "POST") + J, False)
    for i in range(0, len(QUERY), step):
        k.write(frame(W.DATA, END if i + step >= len(QUERY) else 0, sid, QUERY[i:i + step]))
    want("the answer", k.wait(sid).status, 200)
    want("content at the origin", t.origin.requests[0].data, QUERY)
    t.seen, t.records = 1, [["allow", "none", "none", "200"]]


@case("C24 F16", "content that a rule looks at: refused, in the form of its call", [(QUERY.replace(b"query {", b"mutation {"), "/graphql/x"), (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"write_x"}}', "/mcp/x"), (b"{", "/graphql/x"), (b"", "/graphql/x")])
def held_refused(t, data, path):
    k = t.client()
    st = k.wait(k.open(k.base(path, "POST") + J, data=data))
    t.records.append(["deny", "policy_denied", "-", "-"])
    if not st.ended or st.status not in (200, 403) or b"policy_denied" not in st.data:
        raise Failed("%r %r" % (st, st.data))
    t.get(k)


@case("C24 F16", "more content than can be looked at", [None, 1 << 20])
def held_large(t, length=None):
    k = t.client()
    sid = k.open(k.base("/graphql/x", "POST") + J + ([("content-length", str(length))] if length else []), False)
    if not length:
        for _ in range(5):
            k.write(frame(W.DATA, 0, sid, b" " * 16000))
    st = k.wait(sid)
    want("the answer", st.status, 413)
    t.records = [["deny", "too_large", "-", "413"]]
    t.get(k)


@case("C24 F16", "content that a rule looks at does not come: 408", slow=40)
def held_never(t):
    k = t.client()
    k.c.seconds = 60
    st = k.wait(k.open(k.base("/graphql/x", "POST") + J, False))
    want("the answer", st.status, 408)
    t.records = [["deny", "malformed_request", "-", "408"]]


@case("C24 C25", "a request whose content is looked at is cancelled")
def held_cancelled(t):
    k = t.client()
    sid = k.open(k.base("/graphql/x", "POST") + J, False)
    k.write(frame(W.DATA, 0, sid, b'{"query"') + frame(W.RST, 0, sid, b"\0\0\0\x08"))
    t.records = [["-", "client_closed", "-", "-"]]
    t.get(k)


@case("C24 I08", "who waits for 100 before the content that a rule looks at is told to send it")
def held_expect(t):
    k = t.client()
    sid = k.open(k.base("/graphql/x", "POST") + J + [("expect", "100-continue")], False)
    if not k.until(lambda: k.streams[sid].interim):
        raise Failed("no 100")
    k.write(frame(W.DATA, END, sid, QUERY))
    want("the answer", k.wait(sid).status, 200)
    t.seen, t.records = 1, [["allow", "none", "none", "200"]]


@case("L01 D02", "streams over the limit, before the limit was acknowledged: refused, and recorded")
def refused_streams(t):
    t.origin.late = lambda r: None
    k = Client(t.conn(), t.host, b"", t.world.canaries)
    out = W.MAGIC + W.settings()
    for i in range(120):
        k.streams[2 * i + 1] = W.Stream()
        out += head(2 * i + 1, k.base(t.path))
    k.write(out)
    k.until(lambda: len([st for st in k.streams.values() if st.over()]) >= 20)
    want("streams that were refused", len([st for st in k.streams.values() if st.reset == W.REFUSED]), 20)
    t.records = [["deny", "limit_exceeded", "streams", "-"]] * 20 + [["allow", "client_closed", "-", "-"]] * 100
    wait_for(lambda: len(t.origin.requests) == 100, "100 requests at the origin")
    t.seen = 100


@case("D08 UB06", "1,000 streams (400 before HTTP/1.1) whose clients do not read", ups=("h1", "h2"))
def thousand(t):
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 4000:
        print("# fewer descriptors are allowed here than the origin needs")
        return
    data = b"x" * 1000000
    t.origin.late = lambda r: Answer(data=data)
    before = rss(t)
    ks, most = [], 10 if t.up == "h2" else 4  # of HTTP/1.1 the origin has a connection, and a handshake, for each
    for _ in range(most):
        k = t.client(W.MAGIC + W.settings((4, 0)), credit=False)
        k.sids = [k.open(k.base(t.path)) for _ in range(100)]
        ks.append(k)
    for k in ks:
        k.c.seconds = 30
        k.until(lambda: all(k.streams[i].head for i in k.sids))
        n = len([1 for i in k.sids if k.streams[i].status == 200])
        if n != 100:
            t.world.audit.read()
            raise Failed("%d heads, GOAWAY %s, the connection ended (%s), %s; %r" % (n, k.goaway, k.c.over, [o["unmapped"]["sallyport"].get("reason") for o in t.world.audit.connections], sorted(set(str(C_line(o)) for o in t.world.audit.queue))))
    t.get(t.client(), record=False)
    after = rss(t)
    while True:  # what the windows let in, comes in
        time.sleep(0.5)
        last, after = after, rss(t)
        if after <= last:
            break
    print("# %d stalled streams before an %s upstream: %d kB more in the worker" % (most * 100, t.up, after - before))
    if after - before > 500 * 1024:
        raise Failed("memory grew from %d to %d kB" % (before, after))
    t.seen, t.records = most * 100 + 1, [["allow", "client_closed", "-", "200"]] * most * 100 + [["allow", "none", "none", "200"]]
