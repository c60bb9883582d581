# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 frames as they are wanted, right or wrong: a client's end and an origin's. Of HPACK only the decoder is a library's."""
import socket
import ssl
import threading

import hpack

DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONT, ALTSVC = range(11)
END, ACK, HEAD_END, PADDED = 1, 1, 4, 8
MAGIC = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PROTOCOL, INTERNAL, FLOW, CLOSED, SIZE, REFUSED, CANCEL, COMPRESSION, CALM, USE_H1 = 1, 2, 3, 5, 6, 7, 8, 9, 11, 13


def frame(kind, flags, sid, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + sid.to_bytes(4, "big") + payload


def number(n, bits, first):
    top = (1 << bits) - 1
    if n < top:
        return bytes([first | n])
    out, n = bytes([first | top]), n - top
    while n >= 128:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def octets(x):
    return x if isinstance(x, bytes) else x.encode("latin-1")


def literal(name, value):
    """Without indexing, nothing compressed."""
    name, value = octets(name), octets(value)
    return b"\0" + number(len(name), 7, 0) + name + number(len(value), 7, 0) + value


def block(fields):
    return b"".join(literal(n, v) for n, v in fields)


def settings(*pairs):
    return frame(SETTINGS, 0, 0, b"".join(k.to_bytes(2, "big") + v.to_bytes(4, "big") for k, v in pairs))


def head(sid, fields, end=True, flags=HEAD_END):
    """In as many frames as it takes."""
    b = fields if isinstance(fields, bytes) else block(fields)
    if len(b) <= 16384:
        return frame(HEADERS, flags | (END if end else 0), sid, b)
    out, at = frame(HEADERS, END if end else 0, sid, b[:16384]), 16384
    while at < len(b):
        out += frame(CONT, HEAD_END if at + 16384 >= len(b) else 0, sid, b[at:at + 16384])
        at += 16384
    return out


class Stream:
    def __init__(self):
        self.head, self.interim, self.data, self.trailers, self.reset, self.ended = None, [], b"", None, None, False

    @property
    def status(self):
        return int(dict(self.head)[b":status"]) if self.head else None

    def field(self, name):
        return [v for n, v in self.head or [] if n == name.encode()]

    def over(self):
        return self.ended or self.reset is not None

    def __repr__(self):
        return "status %s, %d octets, reset %s, ended %s" % (self.status, len(self.data), self.reset, self.ended)


class End:
    """What either end of a connection does with the frames that come: feed() takes octets, write() is the owner's."""

    def __init__(self):
        self.raw, self.hd, self.streams, self.goaway, self.settings, self.acks, self.part, self.credit = b"", hpack.Decoder(max_header_list_size=1 << 24), {}, None, {}, 0, None, True
        self.window = 65535

    def fields(self, b):
        # octets, just as they are, also where they are no text
        return [(bytes(n), bytes(v)) for n, v in self.hd.decode(b, raw=True)]

    def feed(self, d):
        self.raw += d
        while len(self.raw) >= 9:
            n = int.from_bytes(self.raw[:3], "big")
            if len(self.raw) < 9 + n:
                return
            kind, flags, sid, p = self.raw[3], self.raw[4], int.from_bytes(self.raw[5:9], "big") & 0x7fffffff, self.raw[9:9 + n]
            self.raw = self.raw[9 + n:]
            self.frame(kind, flags, sid, p)

    def frame(self, kind, flags, sid, p):
        st = self.streams.get(sid)
        if kind == SETTINGS and not flags & ACK:
            for i in range(0, len(p), 6):
                self.settings[int.from_bytes(p[i:i + 2], "big")] = int.from_bytes(p[i + 2:i + 6], "big")
            self.write(frame(SETTINGS, ACK, 0))
        elif kind == SETTINGS:
            self.acks += 1
        elif kind == PING and not flags & ACK:
            self.write(frame(PING, ACK, 0, p))
        elif kind == GOAWAY:
            self.goaway = int.from_bytes(p[4:8], "big")
        elif kind == RST and st is not None:
            st.reset = int.from_bytes(p, "big")
            self.stream_reset(sid, st)
        elif kind == HEADERS:
            self.part = (sid, flags, p[5:] if flags & 0x20 else p)
        elif kind == CONT and self.part:
            self.part = (self.part[0], self.part[1] | flags, self.part[2] + p)
        elif kind == DATA:
            if p and self.credit:
                self.write(frame(WINDOW, 0, 0, len(p).to_bytes(4, "big")))
                if not flags & END:
                    self.write(frame(WINDOW, 0, sid, len(p).to_bytes(4, "big")))
            if st is not None:
                st.data += p
                self.stream_data(sid, st)
                if flags & END:
                    st.ended = True
                    self.stream_end(sid, st)
        elif kind == WINDOW and sid == 0:
            self.window += int.from_bytes(p, "big")
        if kind in (HEADERS, CONT) and self.part and self.part[1] & HEAD_END:
            sid, flags, b = self.part
            self.part = None
            self.stream_head(sid, self.fields(b), bool(flags & END))

    def stream_reset(self, sid, st):
        pass

    def stream_data(self, sid, st):
        pass

    def stream_end(self, sid, st):
        pass


class Client(End):
    """c: a connection of cases.py that is open, TLS and all."""

    def __init__(self, c, host, hello=None, canaries=()):
        super().__init__()
        self.c, self.host, self.next, self.canaries = c, host, 1, canaries
        self.write(MAGIC + settings() if hello is None else hello)

    def write(self, d):
        self.c.send([d])

    def base(self, path="/v1/ok", method="GET", **change):
        f = {":method": method, ":scheme": "https", ":authority": self.host, ":path": path}
        for k, v in change.items():
            f[":" + k] = v
        return [(k, v) for k, v in f.items() if v is not None]

    def open(self, fields, end=True, sid=None, flags=HEAD_END, data=None):
        """data: the whole content, sent at once with the head; end goes behind it."""
        sid = sid or self.next
        self.next = max(self.next, sid + 2)
        self.streams[sid] = Stream()
        out = head(sid, fields, end and data is None, flags)
        if data is not None:
            for i in range(0, max(1, len(data)), 16384):
                out += frame(DATA, END if end and i + 16384 >= len(data) else 0, sid, data[i:i + 16384])
        self.write(out)
        return sid

    def stream_head(self, sid, fields, end):
        st = self.streams.get(sid)
        if st is None:
            return
        for c in self.canaries:
            if any(c in n or c in v for n, v in fields):
                raise AssertionError("the client can see the secret: %r" % fields)
        if st.head is not None:
            st.trailers = fields
        elif dict(fields).get(b":status", b"")[:1] == b"1":
            st.interim.append(int(dict(fields)[b":status"]))
            return
        else:
            st.head = fields
        if end:
            st.ended = True

    def stream_data(self, sid, st):
        for c in self.canaries:
            if c in st.data[-65536:]:
                raise AssertionError("the client can see the secret: %r" % st.data[-300:])

    def turn(self):
        """False: the connection has ended."""
        if self.c.buf or self.c.more():
            d, self.c.buf = self.c.buf, b""
            self.feed(d)
            return True
        for st in self.streams.values():
            if not st.over():
                st.reset = -1
        return False

    def wait(self, *sids):
        while not all(self.streams[i].over() for i in sids):
            if not self.turn():
                break
        return self.streams[sids[0]]

    def until(self, what):
        while not what():
            if not self.turn():
                return False
        return True

    def ended(self):
        """Reads to the end of the connection: the code of GOAWAY, None without one."""
        while self.turn():
            pass
        return self.goaway


class Request:
    def __init__(self, version, conn, sid, method, path, host, fields):
        self.version, self.conn, self.sid, self.method, self.path, self.host, self.fields = version, conn, sid, method, path, host, fields
        self.data, self.trailers, self.ended, self.reset = b"", None, False, None

    def field(self, name):
        return [v for n, v in self.fields if n == name.encode()]


class Answer:
    """What an ordinary origin says; more is a list of slices of content, sent one by one."""

    def __init__(self, status=200, fields=(), data=b"ok", trailers=None, interim=(), length=True):
        self.status, self.fields, self.data, self.trailers, self.interim, self.length = status, list(fields), data, trailers, list(interim), length


class OriginH2(End):
    def __init__(self, s, origin):
        super().__init__()
        self.s, self.origin, self.lock, self.magic = s, origin, threading.RLock(), 0
        self.room, self.first, self.out = {0: 65535}, 65535, {}  # what may be sent: in all, on streams; what waits for it: content, end, trailers

    def write(self, d):
        with self.lock:
            self.s.sendall(d)

    def stream_head(self, sid, fields, end):
        st = self.streams.get(sid)
        if st is not None:
            st.trailers = st.request.trailers = fields
            if end:
                st.ended = True
                self.stream_end(sid, st)
            return
        f = dict(fields)
        st = self.streams[sid] = Stream()
        st.request = Request(2, self, sid, f.get(b":method", b"").decode(), f.get(b":path", b"").decode(), f.get(b":authority", b"").decode(), [x for x in fields if not x[0].startswith(b":")])
        self.origin.came(st.request)
        if end:
            st.ended = True
            self.stream_end(sid, st)

    def stream_data(self, sid, st):
        st.request.data = st.data

    def stream_end(self, sid, st):
        st.request.ended = True
        self.origin.whole(st.request)

    def stream_reset(self, sid, st):
        st.request.reset = st.reset
        self.origin.reset.append(st.request)

    def frame(self, kind, flags, sid, p):
        with self.lock:
            if kind == SETTINGS and not flags & ACK:
                for i in range(0, len(p), 6):
                    if p[i:i + 2] == b"\0\4":
                        n = int.from_bytes(p[i + 2:i + 6], "big")
                        for k in self.room:
                            self.room[k] += n - self.first if k else 0
                        self.first = n
            elif kind == WINDOW:
                self.room[sid] = self.room.get(sid, self.first) + int.from_bytes(p, "big")
            elif kind == RST:
                self.out.pop(sid, None)
            if kind in (SETTINGS, WINDOW):
                for k in list(self.out):
                    self.pump(k)
        super().frame(kind, flags, sid, p)

    def pump(self, sid):
        data, end, trailers = self.out[sid]
        self.room.setdefault(sid, self.first)
        while data:
            n = min(len(data), 16384, self.room[0], self.room[sid])
            if n <= 0:
                return
            last = end and n == len(data) and trailers is None
            self.write(frame(DATA, END if last else 0, sid, bytes(data[:n])))
            del data[:n]
            self.room[0] -= n
            self.room[sid] -= n
            if last:
                del self.out[sid]
                return
        if trailers is not None:
            self.write(head(sid, trailers, True))
        elif end:
            self.write(frame(DATA, END, sid))
        else:
            return
        del self.out[sid]

    def content(self, sid, data, end, trailers=None):
        with self.lock:
            o = self.out.setdefault(sid, [bytearray(), False, None])
            o[0] += data
            o[1], o[2] = end, trailers
            self.pump(sid)

    def answer(self, r, a):
        for status, fields in a.interim:
            self.write(head(r.sid, [(":status", str(status))] + list(fields), False))
        fields = [(":status", str(a.status))] + a.fields
        if a.length and a.data and a.trailers is None:
            fields.append(("content-length", str(len(a.data))))
        data = b"" if r.method == "HEAD" or a.status in (204, 304) else a.data
        with self.lock:
            self.write(head(r.sid, fields, not data and a.trailers is None))
            if data or a.trailers is not None:
                self.content(r.sid, data, True, a.trailers)

    def begin(self, r, fields=()):
        self.write(head(r.sid, [(":status", "200")] + list(fields), False))

    def piece(self, r, d, end=False):
        self.content(r.sid, d, end)

    def waiting(self, r):
        with self.lock:
            return len(self.out[r.sid][0]) if r.sid in self.out else 0

    def run(self):
        self.write(settings(*self.origin.hello))
        while True:
            d = self.s.recv(65536)
            if not d:
                return
            self.feed(self.without_magic(d))

    def without_magic(self, d):
        if self.magic >= len(MAGIC):
            return d
        n = min(len(d), len(MAGIC) - self.magic)
        self.magic += n
        return d[n:]


class OriginH1:
    def __init__(self, s, origin):
        self.s, self.origin, self.buf = s, origin, b""

    def write(self, d):
        self.s.sendall(d)

    def more(self):
        d = self.s.recv(65536)
        self.buf += d
        return bool(d)

    def line(self):
        while b"\r\n" not in self.buf:
            if not self.more():
                raise EOFError
        l, _, self.buf = self.buf.partition(b"\r\n")
        return l

    def exactly(self, r, n):
        while n > 0:
            if not self.buf and not self.more():
                r.reset = -1
                self.origin.reset.append(r)
                raise EOFError
            d, self.buf = self.buf[:n], self.buf[n:]
            r.data += d
            n -= len(d)

    def answer(self, r, a):
        for status, fields in a.interim:
            self.write(b"HTTP/1.1 %d X\r\n%s\r\n" % (status, b"".join(octets(n) + b": " + octets(v) + b"\r\n" for n, v in fields)))
        chunked = a.trailers is not None or not a.length
        bodyless = r.method == "HEAD" or a.status in (204, 304)
        framing = b"" if a.status in (204, 304) else b"Transfer-Encoding: chunked\r\n" if chunked else b"Content-Length: %d\r\n" % len(a.data)
        out = b"HTTP/1.1 %d X\r\n%s%s\r\n" % (a.status, framing, b"".join(octets(n) + b": " + octets(v) + b"\r\n" for n, v in a.fields))
        if not bodyless:
            out += (b"%x\r\n%s\r\n0\r\n" % (len(a.data), a.data) if a.data else b"0\r\n") + b"".join(octets(n) + b": " + octets(v) + b"\r\n" for n, v in a.trailers or []) + b"\r\n" if chunked else a.data
        self.write(out)

    def begin(self, r, fields=()):
        self.write(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n%s\r\n" % b"".join(octets(n) + b": " + octets(v) + b"\r\n" for n, v in fields))

    def piece(self, r, d, end=False):
        self.write((b"%x\r\n%s\r\n" % (len(d), d) if d else b"") + (b"0\r\n\r\n" if end else b""))

    def waiting(self, r):
        return 0

    def run(self):
        while True:
            try:
                method, path, _ = self.line().decode("latin-1").split(" ")
                fields = []
                while True:
                    l = self.line()
                    if not l:
                        break
                    n, _, v = l.partition(b": ")
                    fields.append((n.lower(), v))
            except (EOFError, OSError):
                return
            f = dict(fields)
            r = Request(1, self, 0, method, path, f.get(b"host", b"").decode(), [x for x in fields if x[0] not in (b"host",)])
            self.origin.came(r)
            try:
                if b"content-length" in f:
                    self.exactly(r, int(f[b"content-length"]))
                elif b"transfer-encoding" in f:
                    while True:
                        n = int(self.line(), 16)
                        if n == 0:
                            while self.line():
                                pass
                            break
                        self.exactly(r, n)
                        self.line()
            except (EOFError, OSError):
                if r not in self.origin.reset:
                    r.reset = -1
                    self.origin.reset.append(r)
                return
            r.ended = True
            self.origin.whole(r)


class Origin:
    """One host's. early and late are the case's: called at a request's head, and when it is whole; late may return an Answer."""

    def __init__(self, cert, key, version, port=0):
        self.version, self.ctx = version, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ctx.load_cert_chain(cert, key)
        self.ctx.set_alpn_protocols(["h2"] if version == 2 else ["http/1.1"])
        s = socket.create_server(("127.0.0.1", port), backlog=128)
        self.port = s.getsockname()[1]
        self.clear()
        threading.Thread(target=self.accept, args=(s,), daemon=True).start()

    def clear(self):
        self.requests, self.reset, self.wholes, self.conns, self.early, self.late, self.hello, self.errors = [], [], [], [], None, None, (), []

    def accept(self, s):
        while True:
            c, _ = s.accept()
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, raw):
        try:
            s = self.ctx.wrap_socket(raw, server_side=True)
            c = (OriginH2 if self.version == 2 else OriginH1)(s, self)
            self.conns.append(c)
            c.run()
        except OSError as e:
            self.errors.append(repr(e))
        finally:
            raw.close()

    def came(self, r):
        self.requests.append(r)
        if self.early:
            self.early(r)

    def whole(self, r):
        self.wholes.append(r)
        if self.late is None:
            r.conn.answer(r, Answer())
        else:
            a = self.late(r)
            if a is not None:
                r.conn.answer(r, a)
