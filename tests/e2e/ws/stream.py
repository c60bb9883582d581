# SPDX-License-Identifier: Apache-2.0
# An origin of slow streams: /s/KIND/NAME sends five pieces, each when /s/next/NAME was asked for since the one before.
#	stream.py h1|h2 PORT - LOG CERT KEY
import socket, ssl, sys, threading
import h2.config, h2.connection, h2.events
kind, port, log = sys.argv[1], int(sys.argv[2]), open(sys.argv[4], "w", 1)
ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); ctx.load_cert_chain(sys.argv[5], sys.argv[6]); ctx.set_alpn_protocols(["h2"] if kind == "h2" else ["http/1.1"])
l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); l.bind(("127.0.0.1", port)); l.listen(100)
steps, guard = {}, threading.Lock()
def step(name):
    with guard: return steps.setdefault(name, threading.Semaphore(1))
def pieces(what, name, auth):
    for i in range(5):
        assert step(name).acquire(timeout=25)
        d = b"data: event %d you sent %s\n\n" % (i, auth.encode())
        if what == "bytes":
            for c in d: yield bytes([c])
        else: yield d
HEAD = [("content-type", "text/event-stream"), ("alt-svc", 'h3=":443"'), ("strict-transport-security", "max-age=1")]
def length(what, name, auth): return sum(len(b"data: event %d you sent %s\n\n" % (i, auth.encode())) for i in range(5)) if what == "length" else None
def h1(s):
    buf = b""
    while True:
        while b"\r\n\r\n" not in buf:
            d = s.recv(65536)
            if not d: return
            buf += d
        head, buf = buf.split(b"\r\n\r\n", 1); lines = head.decode().split("\r\n"); path = lines[0].split()[1]
        f = {x.split(":", 1)[0].lower(): x.split(":", 1)[1].strip() for x in lines[1:]}
        while len(buf) < int(f.get("content-length", 0)): buf += s.recv(65536)
        buf = buf[int(f.get("content-length", 0)):]; _, _, what, name = path.split("/"); auth = f.get("authorization", "-")
        if what == "next": step(name).release(); s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nnext\n"); continue
        n = length(what, name, auth)
        s.sendall(("HTTP/1.1 200 OK\r\n" + "".join("%s: %s\r\n" % x for x in HEAD) + ("Content-Length: %d" % n if n else "Transfer-Encoding: chunked") + "\r\n\r\n").encode()); print("alt-svc sent", file=log)
        for d in pieces(what, name, auth): s.sendall(d if n else b"%x\r\n%s\r\n" % (len(d), d))
        if not n: s.sendall(b"0\r\n\r\n")
def h2c(s):
    c, lock = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8")), threading.Lock()
    def put(f):
        with lock: f(); s.sendall(c.data_to_send())
    def serve(sid, f):
        _, _, what, name = f[":path"].split("/"); auth = f.get("authorization", "-")
        if what == "next": step(name).release(); put(lambda: (c.send_headers(sid, [(":status", "200")]), c.send_data(sid, b"next\n", end_stream=True))); return
        n = length(what, name, auth)
        put(lambda: c.send_headers(sid, [(":status", "200"), *HEAD, *([("content-length", str(n))] if n else [])])); print("alt-svc sent", file=log)
        for d in pieces(what, name, auth): put(lambda: c.send_data(sid, d))
        put(lambda: c.end_stream(sid))
    put(c.initiate_connection); heads = {}
    while True:
        d = s.recv(65536)
        if not d: return
        with lock: events = c.receive_data(d)
        for e in events:
            if isinstance(e, h2.events.RequestReceived): heads[e.stream_id] = dict(e.headers)
            elif isinstance(e, h2.events.StreamEnded): threading.Thread(target=serve, args=(e.stream_id, heads[e.stream_id]), daemon=True).start()
        put(lambda: None)
def serve(raw):
    try:
        s = ctx.wrap_socket(raw, server_side=True); (h2c if kind == "h2" else h1)(s)
    except Exception as e: print("ended", type(e).__name__, e, file=log)
    finally: raw.close()
print("up", file=log)
while True:
    c, _ = l.accept(); threading.Thread(target=serve, args=(c,), daemon=True).start()
