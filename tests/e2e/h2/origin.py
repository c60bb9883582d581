# SPDX-License-Identifier: Apache-2.0
# An upstream that speaks HTTP/2 and does what the path says, also what no good server does; writes down what it saw.
#	origin.py PORT LOG CERT KEY
import collections, socket, ssl, sys, threading
import h2.config, h2.connection, h2.errors, h2.events, h2.exceptions, h2.settings
port, log = int(sys.argv[1]), open(sys.argv[2], "w", 1)
ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); ctx.load_cert_chain(sys.argv[3], sys.argv[4]); ctx.set_alpn_protocols(["h2", "http/1.1"])
l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); l.bind(("127.0.0.1", port)); l.listen(100)
lock, seen = threading.Lock(), collections.Counter()
def tell(*a):
    with lock: print(*a, file=log)
def hpack_int(b, i, bits):
    v = b[i] & ((1 << bits) - 1); i += 1
    if v == (1 << bits) - 1:
        m = 0
        while True:
            v += (b[i] & 127) << m; m += 7; i += 1
            if not b[i - 1] & 128: break
    return v, i
def representations(b): # of a header block: how each field is written, and its name's index
    i = 0
    while i < len(b):
        f = b[i]
        if f & 0x80: n, i = hpack_int(b, i, 7); yield "indexed", n; continue
        if f & 0xe0 == 0x20: n, i = hpack_int(b, i, 5); continue
        kind, bits = ("incremental", 6) if f & 0x40 else ("never", 4) if f & 0x10 else ("without", 4)
        n, i = hpack_int(b, i, bits)
        for _ in range(2 if n == 0 else 1):
            k, i = hpack_int(b, i, 7); i += k
        yield kind, n
class Conn:
    def __init__(self, raw):
        self.s = ctx.wrap_socket(raw, server_side=True)
        self.c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8", validate_inbound_headers=False, normalize_outbound_headers=False))
        self.head, self.body, self.out, self.raw, self.trailers = {}, {}, {}, b"", {}
    def flush(self): self.s.sendall(self.c.data_to_send())
    def frames(self, d): # the injected field as it was written (J15)
        self.raw += d
        if not hasattr(self, "preface"): self.preface, self.raw = True, self.raw[24:]
        while len(self.raw) >= 9 and len(self.raw) >= 9 + int.from_bytes(self.raw[:3], "big"):
            n, kind, flags = int.from_bytes(self.raw[:3], "big"), self.raw[3], self.raw[4]
            if kind == 1 and flags & 4: # authorization is 23 in the static table
                for how, i in representations(self.raw[9 + (5 if flags & 0x20 else 0):9 + n]):
                    if i == 23: tell("hpack authorization", how)
            self.raw = self.raw[9 + n:]
    def pump(self, sid): # as far as the windows allow
        q, end = self.out[sid]
        while q:
            n = min(len(q), self.c.local_flow_control_window(sid), self.c.max_outbound_frame_size)
            if n <= 0: return
            self.c.send_data(sid, bytes(q[:n])); del q[:n]
        del self.out[sid]
        if end is None: self.c.end_stream(sid)
        else: self.c.send_headers(sid, end, end_stream=True)
    def answer(self, sid, body=b"", trailers=None, more=()):
        self.c.send_headers(sid, [(":status", "200"), ("content-type", "text/plain"), *more])
        self.out[sid] = (bytearray(body), trailers); self.pump(sid)
    def early(self, sid): # at the head of the request; True: nothing more to do
        h, c = self.head[sid], self.c; p = h[":path"]; auth = h.get("authorization", "-")
        seen[p] += 1
        tell("head", h[":method"], p, "n=%d" % seen[p], "te=" + h.get("te", "-"), "cookie=" + h.get("cookie", "-"), "host=" + h.get("host", "-"))
        if p.startswith("/v1/want11"): c.reset_stream(sid, h2.errors.ErrorCodes.HTTP_1_1_REQUIRED)
        elif p.startswith("/v1/refused") and (seen[p] == 1 or "always" in p): c.reset_stream(sid, h2.errors.ErrorCodes.REFUSED_STREAM)
        elif p.startswith("/v1/goaway") and seen[p] == 1: c.close_connection(last_stream_id=max(sid - 2, 0))
        elif p.startswith("/v1/hang"): pass
        elif p.startswith("/v1/dropped"): self.flush(); self.s.shutdown(socket.SHUT_RDWR)
        elif p.startswith("/v1/broken"): c.send_headers(sid, [(":status", "200"), ("content-length", "5")]); c.send_data(sid, b"abc", end_stream=True)
        elif p.startswith("/v1/cut"): c.send_headers(sid, [(":status", "200")]); c.send_data(sid, b"part"); c.reset_stream(sid, h2.errors.ErrorCodes.CANCEL)
        elif p.startswith("/v1/only"): c.send_headers(sid, [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "5"), ("grpc-message", auth)], end_stream=True)
        elif p.startswith("/v1/nomessage"): c.send_headers(sid, [(":status", "200"), ("content-type", "application/grpc")]); c.send_headers(sid, [("grpc-status", "0")], end_stream=True)
        elif p.startswith("/v1/early"): self.answer(sid, b"early\n")
        elif p.startswith("/v1/hints"):
            c.send_headers(sid, [(":status", "103"), ("link", "</a.css>")]); return False
        else: return False
        return True
    def whole(self, sid):
        h = self.head[sid]; p = h[":path"]; auth = h.get("authorization", "-"); body = bytes(self.body.get(sid, b""))
        tell("whole", p, len(body), "trailers=" + ",".join(sorted(k for k, _ in self.trailers.get(sid, []))))
        if p.startswith("/v1/trailers"): self.answer(sid, b"hello", [("x-sum", "1"), ("x-auth", auth)])
        elif p.startswith("/v1/split"):
            self.c.send_headers(sid, [(":status", "200"), ("x-auth", auth)]); d = ("you sent %s." % auth).encode()
            for i in range(len(d)): self.c.send_data(sid, d[i:i + 1])
            self.c.end_stream(sid)
        elif p.startswith("/v1/echo"): self.answer(sid, body)
        elif p.startswith("/v1/large"): self.answer(sid, (b"0123456789abcdef" * 65536) * 16)
        else: self.answer(sid, b"fine\n")
    def one(self): # HTTP/1.1, for who was told to speak it
        f = self.s.makefile("rb"); line = f.readline().split()
        while f.readline().strip(): pass
        if line[0] == b"POST": # in chunks
            while f.readline() != b"0\r\n": pass
        tell("one", *(x.decode() for x in line)); self.s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\none\n")
    def run(self):
        if self.s.selected_alpn_protocol() != "h2": return self.one()
        self.c.initiate_connection()
        self.c.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 100, h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20})
        self.flush(); tell("connection")
        done = set()
        while True:
            d = self.s.recv(65536)
            if not d: return
            self.frames(d)
            for e in self.c.receive_data(d):
                sid = getattr(e, "stream_id", None)
                if isinstance(e, h2.events.RequestReceived):
                    self.head[sid] = dict(e.headers)
                    if self.early(sid): done.add(sid)
                elif isinstance(e, h2.events.DataReceived):
                    self.body.setdefault(sid, bytearray()).extend(e.data)
                    if e.flow_controlled_length: self.c.increment_flow_control_window(e.flow_controlled_length)
                    if e.flow_controlled_length:
                        try: self.c.increment_flow_control_window(e.flow_controlled_length, sid)
                        except h2.exceptions.ProtocolError: pass # ended meanwhile
                elif isinstance(e, h2.events.TrailersReceived): self.trailers[sid] = e.headers
                elif isinstance(e, h2.events.StreamEnded):
                    if sid not in done: self.whole(sid)
                elif isinstance(e, h2.events.StreamReset):
                    self.out.pop(sid, None); tell("reset", self.head.get(sid, {}).get(":path"), int(e.error_code))
                elif isinstance(e, (h2.events.WindowUpdated, h2.events.RemoteSettingsChanged)):
                    for k in list(self.out): self.pump(k)
            self.flush()
def serve(raw):
    try: Conn(raw).run()
    except Exception as e: tell("gone", type(e).__name__, e)
    finally: raw.close(); tell("closed")
tell("up")
while True:
    c, _ = l.accept(); threading.Thread(target=serve, args=(c,), daemon=True).start()
