# SPDX-License-Identifier: Apache-2.0
"""Connections whose octets pass unread. `serve`: the origins, one port each, which note what they saw; else a part of the test
from inside a sandbox, printing "ok TEXT" or "not ok TEXT: what"."""
import hashlib, os, random, socket, ssl, struct, sys, threading, time
BIG = 24 << 20
LAST = b"FATAL: too many connections\n"


def blob(n): return random.Random(7).randbytes(n)
def reset(s): s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)); s.close()


def upto_end(s):
    b = b""
    while x := s.recv(65536): b += x
    return b


def banner(s, note):
    s.sendall(b"SSH-2.0-test_1.0\r\n")
    while x := s.recv(65536): s.sendall(x)


def count(s, note):  # half-close: the answer comes behind the client's end
    n = len(upto_end(s)); s.sendall(b"had %d" % n); note("counted %d" % n)


def first(s, note):  # the server ends first and still listens
    s.sendall(b"bye"); s.shutdown(socket.SHUT_WR); note("after %d" % len(upto_end(s)))


def words(s, note):  # last words, with octets of the client unread
    s.recv(1); s.sendall(LAST); time.sleep(0.1); s.close()


def resets(s, note): s.recv(4); reset(s)
def blast(s, note): s.sendall(blob(BIG)); s.close()
def sink(s, note): note("sink %s" % hashlib.sha256(upto_end(s)).hexdigest())


def stuck(s, note):
    try: s.settimeout(60); hold.append(s)
    except OSError: pass


def closed(s, note):  # tells when the gateway ends it
    s.sendall(b"here")
    try: x = s.recv(10); note("ended %s" % ("clean" if x == b"" else x))
    except OSError as e: note("ended %s" % type(e).__name__)


hold = []
KINDS = (banner, count, first, words, resets, blast, sink, stuck, closed)
if sys.argv[1] == "serve":
    log = open(sys.argv[2], "a", buffering=1)
    def serve(kind, listener):
        while True:
            s, _ = listener.accept()
            log.write("connect %s\n" % kind.__name__)
            threading.Thread(target=run, args=(kind, s), daemon=True).start()
    def run(kind, s):
        try: kind(s, lambda t: log.write(t + "\n"))
        except OSError as e: log.write("error %s %r\n" % (kind.__name__, e))
        finally:
            if kind is not stuck: s.close()
    for kind in KINDS:
        l = socket.create_server(("127.0.0.1", 0)); log.write("port %s %d\n" % (kind.__name__, l.getsockname()[1]))
        threading.Thread(target=serve, args=(kind, l), daemon=True).start()
    log.write("ready\n")
    while True: time.sleep(1000)


def say(good, text, what=""): print(("ok %s" if good else "not ok %s: %s") % ((text,) if good else (text, repr(what)[:300])), flush=True)


def direct(host, port): return socket.create_connection((host, port), 30)


def connect(host, port, more=b""):
    s = socket.create_connection(("127.0.0.1", 3128), 30)
    s.sendall(b"CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n" % (host.encode(), port, host.encode(), port) + more)
    head = b""
    while b"\r\n\r\n" not in head:
        x = s.recv(1)
        if not x: break
        head += x
    if b" 200 " in head.split(b"\r\n")[0] + b" ": return s
    body = upto_end(s)
    raise PermissionError((head + body).decode("latin-1"))


WAYS = (("dialled", direct), ("CONNECT", connect))


def got(f, *a):
    try: return f(*a)
    except OSError as e: return type(e).__name__


def records(*fragments, name="a.test"):  # a ClientHello for name, split at these places into records
    c = ssl.create_default_context(); i, o = ssl.MemoryBIO(), ssl.MemoryBIO()
    try: c.wrap_bio(i, o, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError: pass
    body = o.read()[5:]; at = [0] + list(fragments) + [len(body)]
    return b"".join(b"\x16\x03\x01" + struct.pack(">H", b - a) + body[a:b] for a, b in zip(at, at[1:]))


part = sys.argv[1]
if part == "tcp":
    for way, to in WAYS:
        s = to("banner.test", 2222); x = s.recv(100); say(x == b"SSH-2.0-test_1.0\r\n", "UC08 %s: a server that speaks first is heard" % way, x)
        s.sendall(b"\0\xff\x16\x03\x01GET / HTTP/1.1\r\n\r\n"); x = b""
        while len(x) < 23: x += s.recv(100)
        say(x == b"\0\xff\x16\x03\x01GET / HTTP/1.1\r\n\r\n", "%s: octets come back as they went, whatever they look like" % way, x); s.close()
        s = to("count.test", 2223); s.sendall(b"x" * 100000); s.shutdown(socket.SHUT_WR); x = upto_end(s); say(x == b"had 100000", "%s: half-close from the client" % way, x)
        s = to("first.test", 2224); x = upto_end(s); s.sendall(b"y" * 5000); s.close(); say(x == b"bye", "%s: half-close from the server" % way, x)
        s = to("words.test", 2225); x = b""
        try: s.sendall(b"z" * 200000)
        except OSError: pass
        try: x = s.recv(1000)
        except OSError as e: x = type(e).__name__
        say(x == LAST, "%s: the last words of a server that resets are delivered" % way, x); s.close()
        s = to("resets.test", 2226); s.sendall(b"quit"); x = got(upto_end, s); say(x == "ConnectionResetError", "%s: a reset is a reset" % way, x)
        s = to("blast.test", 2227); x = upto_end(s); say(hashlib.sha256(x).digest() == hashlib.sha256(blob(BIG)).digest(), "%s: %d MiB down are whole" % (way, BIG >> 20), len(x))
        s = to("sink.test", 2228); s.sendall(blob(BIG)); s.shutdown(socket.SHUT_WR); x = got(upto_end, s); say(x == b"", "%s: %d MiB up are taken to the end" % (way, BIG >> 20), x)
    s = connect("banner.test", 2222, b"early"); x = b""
    while len(x) < 23: x += s.recv(100)
    say(x == b"SSH-2.0-test_1.0\r\nearly", "G02 what came with CONNECT is passed on behind the 200", x)
    s = direct("stuck.test", 2229); s.settimeout(3); n = 0
    try:
        while True: n += s.send(b"s" * 65536)
    except OSError: pass
    say(0 < n < 64 << 20, "what is not taken stops the writer: %d KiB went" % (n >> 10), n)
    for port, want in ((2230, "upstream_unreachable"), (2231, "address_denied")):
        x = None
        try: connect("far.test", port)
        except PermissionError as e: x = str(e)
        say(x is not None and want in x, "CONNECT, port %d: the refusal says %s" % (port, want), x)
        x = got(lambda: upto_end(direct("far.test", port))); say(x in ("ConnectionResetError", b""), "dialled, port %d: the connection ends" % port, x)
    # refused: the host on another port, another host on the port, an address, a name that is only like it
    for host, port in (("banner.test", 2223), ("count.test", 2222), ("127.0.0.1", 2222), ("xbanner.test", 2222), ("banner.test.evil.test", 2222), ("banner.test", 22)):
        x = None
        try: connect(host, port)
        except PermissionError as e: x = str(e)
        say(x is not None and "destination_denied" in x, "E13 UC08 CONNECT %s:%d is refused" % (host, port), x)
        def raw():
            s = direct(host, port); s.sendall(b"\0\0"); return upto_end(s)
        x = got(raw); say(x in ("ConnectionResetError", b"", "ConnectionRefusedError", "gaierror", "BrokenPipeError"), "E13 UC08 %s:%d dialled ends" % (host, port), x)
    # G01, G02: nothing behind a refused CONNECT is looked at
    for what, more in (("a request", b"GET http://plain.test:2240/ HTTP/1.1\r\nHost: plain.test:2240\r\n\r\n"), ("a ClientHello", records(name="evil.test")), ("another CONNECT", b"CONNECT banner.test:2222 HTTP/1.1\r\nHost: banner.test:2222\r\n\r\n")):
        s = socket.create_connection(("127.0.0.1", 3128), 10); s.sendall(b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n" + more); x = got(upto_end, s)
        say(isinstance(x, bytes) and x.startswith(b"HTTP/1.1 403") and x.count(b"HTTP/1.1 ") == 1 and b"Connection: close" in x, "G01 G02 %s behind a refused CONNECT is thrown away, and the connection ends" % what, x)
    for h in ("evil.test", "xbanner.test"):
        say(got(socket.getaddrinfo, h, 443) == "gaierror", "H10 %s: no such name" % h)
    s = connect("plain.test", 2240); s.sendall(b"SSH-2.0-x\r\n\r\n"); x = got(upto_end, s)
    say(not x.startswith(b"SSH") if isinstance(x, bytes) else True, "G05 UC08 another protocol where HTTP is allowed is refused", x)
elif part == "tls":
    for way, to in WAYS:
        s = to("pinned.test", 443); c = ssl.create_default_context(cafile="upca.pem"); t = c.wrap_socket(s, server_hostname="pinned.test")
        cert = t.getpeercert(True); say(hashlib.sha256(cert).hexdigest() == open("leaf.sha256").read().strip(), "UT08 G17 %s: the origin's own certificate is seen" % way)
        t.sendall(b"GET / HTTP/1.0\r\n\r\n"); x = upto_end(t); say(b"200 ok" in x, "UT08 %s: and it answers" % way, x[:100]); t.close()
    s = direct("198.51.100.77", 443); c = ssl.create_default_context(cafile="upca.pem")
    t = c.wrap_socket(s, server_hostname="pinned.test"); say(t.version() is not None, "UT08 H11 another address dialled: the name in the ClientHello counts"); t.close()
    hello = records(name="pinned.test")
    for what, data in (("whole", hello), ("in two records, each place", None), ("in 60 records", records(*range(1, 60), name="pinned.test"))):
        places = [data] if data else [records(k, name="pinned.test") for k in range(1, len(hello) - 6, 17)]
        bad = []
        for d in places:
            s = connect("pinned.test", 443); s.sendall(d[:7]); s.sendall(d[7:]); s.settimeout(10)
            x = got(s.recv, 5)
            if x[:2] != b"\x16\x03": bad.append((len(d), x))
            s.close()
        say(not bad, "G10 ClientHello %s is passed on" % what, bad)
    s = connect("pinned.test", 443); x = b""
    for i in range(len(hello)): s.sendall(hello[i:i + 1])
    x = got(s.recv, 5); say(x[:2] == b"\x16\x03", "G10 ClientHello octet by octet is passed on", x)
    for i, what, data, alert in (("G06 UT08", "another name", records(name="other.test"), 112), ("G06 UT08", "an intercepted destination's name", records(name="api.test"), 112),
                                 ("G09", "a name that is none", hello.replace(b"pinned.test", b"pinned\0test"), 50), ("G09", "half a ClientHello in a whole message", b"\x16\x03\x01\0\x06\x01\0\0\2\3\3", 50),
                                 ("G09", "a length that lies", hello[:7] + (hello[7] * 256 + hello[8] + 1).to_bytes(2, "big") + hello[9:] + b"\x16\x03\x01\0\x01\0", 50), ("G12", "octets that are no record", b"\x16\x02\0\0\x05hello", 50)):
        s = connect("pinned.test", 443); s.sendall(data); x = got(upto_end, s)
        say(isinstance(x, bytes) and x[:1] == b"\x15" and x[6:7] == bytes([alert]), "%s %s: alert %d" % (i, what, alert), x)
    s = connect("pinned.test", 443); c = ssl.create_default_context(cafile="upca.pem"); c.check_hostname = False; t = c.wrap_socket(s)
    say(True, "G07 without a name the CONNECT host is who is meant"); t.close()
    s = connect("api.test", 443); s.sendall(records(name="pinned.test")); x = got(upto_end, s); say(isinstance(x, bytes) and x[:1] == b"\x15", "G06 the passed-through name on another host's connection", x)
    s = connect("pinned.test", 443); s.sendall(b"GET / HTTP/1.1\r\nHost: pinned.test\r\n\r\n"); s.settimeout(10); x = got(s.recv, 100); say(b" 403 " in x or b" 400 " in x, "G05 plain HTTP there is not passed through", x)
    s = socket.create_connection(("127.0.0.1", 3128)); s.sendall(b"GET http://pinned.test:443/ HTTP/1.1\r\nHost: pinned.test:443\r\nConnection: close\r\n\r\n"); x = upto_end(s); say(b"destination_denied" in x, "I7 absolute-form finds no way there either", x[:200])
elif part == "hold":
    s = direct("banner.test", 2222); s.recv(10); open("held", "w").close(); got(s.recv, 1000); got(s.recv, 10)
elif part == "watch": # its policy changes meanwhile
    s, k, p = direct("banner.test", 2222), connect("keep.test", 2234), connect("pinned.test", 443); s.recv(100); k.recv(100)
    t = ssl.create_default_context(cafile="upca.pem").wrap_socket(p, server_hostname="pinned.test")
    open("watching", "w").close(); s.settimeout(60); t.settimeout(60)
    x = got(s.recv, 10); at = time.time(); late = at - os.stat("changed").st_mtime; say(x == "ConnectionResetError" and late < 3, "a tunnel whose rule is gone is reset within a second or so: %.2f s" % late, x)
    x = got(t.recv, 10); say(x in ("ConnectionResetError", "SSLEOFError", b""), "so is TLS that is no longer passed through", x)
    k.sendall(b"ping"); x = got(k.recv, 10); say(x == b"ping", "one that is still allowed goes on", x)
    k.close(); x = None
    try: connect("banner.test", 2222)
    except PermissionError as e: x = str(e)
    say(x is not None and "destination_denied" in x, "a new one is refused", x)
elif part == "until":  # its time ends meanwhile; another's goes on
    end = float(sys.argv[2]); s, k = direct("until.test", 2242), connect("keep.test", 2234); s.recv(100); k.recv(100); s.settimeout(60)
    s.sendall(b"ping"); x = got(s.recv, 10); say(x == b"ping", "within its window a tunnel passes", x)
    x = got(s.recv, 10); late = time.time() - end; say(x == "ConnectionResetError" and 0 <= late < 3, "a tunnel whose time is over is reset within a second or so: %.2f s" % late, x)
    k.sendall(b"ping"); x = got(k.recv, 10); say(x == b"ping", "one without a window goes on", x); x = None
    try: connect("until.test", 2242)
    except PermissionError as e: x = str(e)
    say(x is not None and "policy_denied" in x, "a new one is refused", x)
elif part == "idle":
    s = direct("idle.test", 2232); s.settimeout(30); x = s.recv(10), got(s.recv, 10); say(x == (b"here", b""), "an idle tunnel ends", x)
    s = direct("total.test", 2233); s.settimeout(30); x = s.recv(10); n = 0
    try:
        while s.send(b"."): n += 1; time.sleep(0.2)
    except OSError: pass
    say(x[:3] == b"SSH" and n > 0, "one that is busy ends after its total time", n)
