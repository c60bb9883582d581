# SPDX-License-Identifier: Apache-2.0
# A WebSocket server that does what the path says, also what no good server does, over HTTP/1.1 or HTTP/2 (RFC 8441).
#	origin.py h1|h2|h2plain|clear PORT LOG CERT KEY     h2plain: HTTP/2 without RFC 8441, and HTTP/1.1 for who asks; clear: no TLS
import hashlib, os, queue, socket, ssl, sys, threading
import h2.config, h2.connection, h2.events, h2.exceptions, h2.settings
from frames import *
kind, port, log = sys.argv[1], int(sys.argv[2]), open(sys.argv[3], "w", 1)
ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); ctx.load_cert_chain(sys.argv[4], sys.argv[5])
ctx.set_alpn_protocols({"h1": ["http/1.1"], "clear": ["http/1.1"], "h2": ["h2"], "h2plain": ["h2", "http/1.1"]}[kind])
l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); l.bind(("127.0.0.1", port)); l.listen(100)
lock, progress, go = threading.Lock(), {}, {}
def tell(*a):
    with lock: print(*a, file=log)
def session(s, path, head): # the protocol is switched
    r = Reader(s.recv); auth = head.get("authorization", "-").encode(); p = path.split("?")[0].split("/")[2:]
    what, arg = p[0], p[1] if len(p) > 1 else ""
    if what == "echo":
        while True:
            fin, op, d, masked, first = r.frame(); assert masked, "not masked"
            if op == PING: s.send(frame(PONG, d)); continue
            if op == CLOSE: tell("closed", path, d.hex())
            s.send(frame(op, d, fin=fin))
            if op == CLOSE: return
    elif what == "hear": # frames as they come; a message that ends is answered with what arrived of it
        m = b""
        while True:
            fin, op, d, masked, first = r.frame(); assert masked and first & 0x70 == 0, "not masked, or reserved bits"
            tell("heard", path, op, "fin" if fin else "more", len(d), d[:300])
            if op == PING: s.send(frame(PONG, d)); continue
            if op == CLOSE: s.send(frame(CLOSE, d)); return
            m += d
            if fin: tell("message", path, len(m), hashlib.sha256(m).hexdigest()); s.send(frame(TEXT, b"you said %d: " % len(m) + m[:300].hex().encode() if op == BINARY else b"you said " + m[:300])); m = b""
    elif what == "first": pass # was sent with the answer
    elif what == "auth":
        s.send(frame(TEXT, b"whole " + auth))
        for i in range(0, len(auth), 3): s.send(frame(TEXT if i == 0 else 0, auth[i:i + 3], fin=False) + frame(PING, b"p"))
        s.send(frame(0, b"", fin=True))
        for c in frame(BINARY, b"octets " + auth): s.send(bytes([c]))
        s.send(frame(PING, auth) + close(4001, auth[:123]))
    elif what == "hostile": s.send(hostile(arg, False))
    elif what == "part": s.send(frame(TEXT, b"x" * 1000)[:500]); return
    elif what == "code": s.send(close(int(arg), b"as you wish"))
    elif what == "eof": return
    elif what == "reset": s.reset(); return
    elif what == "big": s.send(frame(TEXT, b"a" * int(arg)))
    elif what == "flood": # as fast as it is taken; the log tells how far it came
        block = frame(BINARY, b"0123456789abcdef" * 4096); h = hashlib.sha256()
        for i in range(int(arg)):
            s.send(block); h.update(block[10:]); progress[path] = i
        tell("flooded", h.hexdigest()); s.send(frame(TEXT, h.hexdigest().encode()))
    elif what == "sink":
        h, n = hashlib.sha256(), 0
        if arg == "wait": go.setdefault(p[2], threading.Event()).wait(25) # reads nothing until the client says so, by /get/go/NAME
        while True:
            op, d = r.message()
            if op == CLOSE: s.send(close(1000)); return
            h.update(d); n += len(d)
            if d == b"end": s.send(frame(TEXT, b"%d %s" % (n, h.hexdigest().encode()))); h, n = hashlib.sha256(), 0
    elif what == "events": # one for each word of the client's
        while True:
            op, d = r.message()
            s.send(frame(TEXT, b"event " + d))
    elif what == "late": # reads on behind the client's Close frame
        try:
            while True:
                fin, op, d, _, _ = r.frame(); tell("late", op, d)
                if op == CLOSE: s.send(close(1000))
        except Ended: return
    elif what == "half": # the client says no more: it is still told
        try:
            while True: r.message()
        except Ended: pass
        tell("half", "client ended"); s.send(frame(TEXT, b"still here") + close(1000)); return
    try:
        while True: # until the other side says goodbye, or goes
            fin, op, d, _, _ = r.frame(); tell("got", path, op, d[:2].hex() if op == CLOSE else d[:40])
            if op == CLOSE: return
    except Ended: tell("gone", path)
def plain_answer(path, p, head):
    if p[0] == "go": go.setdefault(p[1], threading.Event()).set()
    if p[0] == "progress": return b"%d" % progress.get("/ws/" + "/".join(p[1:]), -1)
    return b"no WebSocket here, you sent " + head.get("authorization", "-").encode()
def fields(path, head): # of the answer: what the path asks for
    p = path.split("?")[0].split("/")[2:]; f = []
    if p[0] == "sub": f.append(("sec-websocket-protocol", p[1]))
    if p[0] == "ext": f.append(("sec-websocket-extensions", "permessage-deflate"))
    return f
class H1:
    def __init__(self, s): self.s = s
    def recv(self): return self.s.recv(65536)
    def send(self, d): self.s.sendall(d)
    def reset(self): self.s.close()
    def run(self):
        f = self.s.makefile("rb", buffering=0); buf = b""
        while True:
            while b"\r\n\r\n" not in buf:
                d = self.recv()
                if not d: return
                buf += d
            lines, buf = buf.split(b"\r\n\r\n", 1)
            lines = lines.decode("latin-1").split("\r\n"); line = lines[0].split(); head = {}
            for x in lines[1:]: head.setdefault(x.split(":", 1)[0].lower(), x.split(":", 1)[1].strip())
            tell("head", "HTTP/1.1", line[0], line[1], *sorted("%s=%s" % kv for kv in head.items()))
            path = line[1]; p = path.split("?")[0].split("/")[2:]
            if p[0] == "status" or "upgrade" not in head and p[0] != "unasked":
                code = p[1] if p[0] == "status" else "200"
                body = plain_answer(path, p, head)
                self.send(b"HTTP/1.1 %s Whatever\r\nContent-Length: %d\r\nX-More: 1\r\n\r\n" % (code.encode(), len(body)) + body); continue
            a = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept(head.get("sec-websocket-key", "")))] + fields(path, head)
            bad = p[1] if p[0] == "bad" else ""
            if bad == "no-upgrade": a = a[1:]
            if bad == "other-upgrade": a[0] = ("Upgrade", "h2c")
            if bad == "no-connection": del a[1]
            if bad == "no-accept": del a[2]
            if bad == "other-accept": a[2] = ("Sec-WebSocket-Accept", accept("dGhlIHNhbXBsZSBub25jZQ=="))
            if bad == "two-accepts": a.append(a[2])
            if bad == "chunked": a.append(("Transfer-Encoding", "chunked"))
            if bad == "length": a.append(("Content-Length", "5"))
            version = "HTTP/1.0" if bad == "1.0" else "HTTP/1.1"
            d = "".join(["%s 101 Switching Protocols\r\n" % version] + ["%s: %s\r\n" % x for x in a] + ["Set-Cookie: seen=%s\r\n\r\n" % head.get("authorization", "-")]).encode()
            self.send(d + frame(TEXT, b"first words") if p[0] == "first" else d) # in one segment
            session(self, path, head)
            if kind != "clear": self.s.unwrap()
            return
class Stream:
    def __init__(self, conn, sid): self.conn, self.sid, self.q, self.room = conn, sid, queue.Queue(), threading.Condition(conn.lock)
    def recv(self):
        d = self.q.get()
        if d:
            with self.conn.lock:
                try: self.conn.c.increment_flow_control_window(len(d), self.sid); self.conn.c.increment_flow_control_window(len(d))
                except h2.exceptions.ProtocolError: pass # ended meanwhile
                self.conn.flush()
        return d
    def send(self, d):
        at = 0
        while at < len(d):
            with self.conn.lock:
                n = min(len(d) - at, self.conn.c.local_flow_control_window(self.sid), self.conn.c.max_outbound_frame_size)
                if n <= 0: self.room.wait(); continue
                self.conn.c.send_data(self.sid, d[at:at + n]); self.conn.flush(); at += n
    def reset(self):
        with self.conn.lock: self.conn.c.reset_stream(self.sid, 2); self.conn.flush()
    def run(self, path, head):
        try: session(self, path, head)
        except Exception as e: tell("ended", path, type(e).__name__, e)
        with self.conn.lock:
            try: self.conn.c.end_stream(self.sid); self.conn.flush()
            except Exception: pass
class H2:
    def __init__(self, s):
        self.s, self.lock, self.streams = s, threading.RLock(), {}
        self.c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8", validate_inbound_headers=False))
    def flush(self): self.s.sendall(self.c.data_to_send())
    def answer(self, sid, head):
        path = head[":path"]; p = path.split("?")[0].split("/")[2:]
        tell("head", "HTTP/2", head[":method"], path, *sorted("%s=%s" % kv for kv in head.items()))
        if p[0] == "status" or head.get(":protocol") != "websocket":
            body = plain_answer(path, p, head)
            self.c.send_headers(sid, [(":status", p[1] if p[0] == "status" else "200"), ("x-more", "1"), ("content-length", str(len(body)))]); self.c.send_data(sid, body, end_stream=True); return
        self.c.send_headers(sid, [(":status", "200"), *fields(path, head), ("set-cookie", "seen=" + head.get("authorization", "-"))])
        if p[0] == "first": self.c.send_data(sid, frame(TEXT, b"first words"))
        st = self.streams[sid] = Stream(self, sid); threading.Thread(target=st.run, args=(path, head), daemon=True).start()
    def run(self):
        self.c.initiate_connection()
        self.c.update_settings({h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL: 1} if kind == "h2" else {h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 50})
        self.flush(); tell("connection h2")
        while True:
            d = self.s.recv(65536)
            if not d: break
            with self.lock:
                for e in self.c.receive_data(d):
                    sid = getattr(e, "stream_id", None); st = self.streams.get(sid)
                    if isinstance(e, h2.events.RequestReceived): self.answer(sid, dict(e.headers))
                    elif isinstance(e, h2.events.DataReceived) and st is not None: st.q.put(e.data)
                    elif isinstance(e, (h2.events.StreamEnded, h2.events.StreamReset)) and st is not None:
                        if isinstance(e, h2.events.StreamReset): tell("reset", int(e.error_code))
                        st.q.put(b"")
                for st in self.streams.values(): st.room.notify_all()
                self.flush()
        for st in self.streams.values(): st.q.put(b"")
def serve(raw):
    try:
        if kind == "clear": return H1(raw).run()
        s = ctx.wrap_socket(raw, server_side=True)
        (H2(s) if s.selected_alpn_protocol() == "h2" else H1(s)).run()
    except Exception as e: tell("ended", type(e).__name__, e)
    finally: raw.close()
tell("up")
while True:
    c, _ = l.accept(); threading.Thread(target=serve, args=(c,), daemon=True).start()
