# SPDX-License-Identifier: Apache-2.0
# A WebSocket client with its hands on every octet, over HTTP/1.1 and HTTP/2 (h2/client.py).
import base64, os, socket, ssl, sys, urllib.parse
from frames import *
from h2c import Client
class Refused(Exception):
    def __init__(self, status, head, body): super().__init__(status); self.status, self.head, self.body = status, head, body
class WS:
    def __init__(self): self.r, self.waved = Reader(self.recv), False
    def text(self, d, **k): self.send(frame(TEXT, d, masked=True, **k))
    def binary(self, d, **k): self.send(frame(BINARY, d, masked=True, **k))
    def ping(self, d=b""): self.send(frame(PING, d, masked=True))
    def close(self, *a): self.waved = True; self.send(close(*a, masked=True))
    def frame(self):
        fin, op, d, masked, first = self.r.frame(); assert not masked and first & 0x70 == 0
        return fin, op, d
    def message(self, control=None): return self.r.message(control)
    def ended(self): # how: "close CODE" of a last frame, which is answered, then "end" or what went wrong
        said = []
        try:
            while True:
                fin, op, d = self.frame()
                if op == CLOSE and not self.waved: self.goodbye(d)
                said.append("close %d" % int.from_bytes(d[:2], "big") if op == CLOSE and len(d) > 1 else "close" if op == CLOSE else "op%d" % op)
        except Ended as e: said.append("end" if e.args[0] == 0 else "cut")
        except TimeoutError: said.append("nothing")
        except (OSError, ssl.SSLError): said.append("reset")
        return " ".join(said)
    def goodbye(self, d):
        self.waved = True
        try: self.send(frame(CLOSE, d[:2], masked=True))
        except (OSError, ssl.SSLError): pass
class Tls: # a socket's own unwrap reads, and loses what comes
    def __init__(self, s, host):
        self.s, self.i, self.o = s, ssl.MemoryBIO(), ssl.MemoryBIO()
        self.t = ssl.create_default_context().wrap_bio(self.i, self.o, server_hostname=host); self.do(self.t.do_handshake)
    def flush(self):
        d = self.o.read()
        if d: self.s.sendall(d)
    def do(self, f, *a):
        while True:
            try: r = f(*a); self.flush(); return r
            except ssl.SSLWantReadError:
                self.flush(); d = self.s.recv(65536)
                if d: self.i.write(d)
                else: self.i.write_eof()
    def recv(self, n): return self.do(self.t.read, n)
    def sendall(self, d):
        for i in range(0, len(d), 16384): self.do(self.t.write, d[i:i + 16384])
    def finish(self):
        try: self.t.unwrap()
        except ssl.SSLWantReadError: pass
        self.flush()
    def settimeout(self, n): self.s.settimeout(n)
    def close(self): self.s.close()
class WS1(WS):
    def __init__(self, host, path, more=(), raw=None, port=443, early=b"", key=None, proxy=None): # proxy: "absolute", "connect"
        super().__init__()
        self.s = socket.create_connection(urllib.parse.urlsplit(os.environ["http_proxy"]).netloc.split(":") if proxy else (host, port), 20); self.s.settimeout(30)
        if proxy == "connect":
            self.s.sendall(b"CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n" % ((host.encode(), port) * 2)); head = b""
            while not head.endswith(b"\r\n\r\n"): head += self.s.recv(1)
        if proxy == "absolute": path = "http://" + host + path
        if port == 443: self.s = Tls(self.s, host)
        key = key or base64.b64encode(os.urandom(16)).decode()
        fields = raw if raw is not None else ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + key]
        self.s.sendall(("GET %s HTTP/1.1\r\nHost: %s\r\n" % (path, host) + "".join(x + "\r\n" for x in [*fields, *("%s: %s" % x for x in more)]) + "\r\n").encode() + early)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            d = self.s.recv(1)
            if not d: raise Refused("none", {}, head)
            head += d
        lines = head.decode("latin-1").split("\r\n"); self.status = lines[0].split()[1]
        self.head = [(x.split(":", 1)[0].lower(), x.split(":", 1)[1].strip()) for x in lines[1:] if x]; h = dict(self.head)
        if self.status != "101":
            body = b""
            while len(body) < int(h.get("content-length", 0)): body += self.s.recv(65536)
            raise Refused(self.status, h, body)
        assert h["upgrade"] == "websocket" and h["connection"].lower() == "upgrade" and h["sec-websocket-accept"] == accept(key), h
        assert "content-length" not in h and "transfer-encoding" not in h
    def recv(self):
        try: return self.s.recv(65536)
        except ssl.SSLZeroReturnError: return b"" # the end, after one of ours
    def send(self, d): self.s.sendall(d)
    def finish(self): # no more from us, without waiting for the other side's end
        self.waved = True; self.s.finish()
    def drop(self): self.s.close()
class WS2(WS):
    def __init__(self, host, path, more=(), conn=None):
        super().__init__()
        self.k = conn or Client(host, window=65535)
        assert self.k.c.remote_settings.enable_connect_protocol == 1, "extended CONNECT is not offered"
        self.id = self.k.request(path, "CONNECT", end=False, more=[(":protocol", "websocket"), ("sec-websocket-version", "13"), *((n.lower(), v) for n, v in more)])
        self.st = st = self.k.streams[self.id]; st.log = bytearray()
        while st.head is None and not st.over(): self.k.turn()
        if st.head is None: raise Refused("reset %s" % st.reset, {}, b"")
        self.head = st.head; self.status = st.status()
        if self.status != "200":
            self.k.wait(self.id); raise Refused(self.status, dict(st.head), st.data)
        assert "sec-websocket-accept" not in dict(self.head) and "upgrade" not in dict(self.head)
    def recv(self):
        while not self.st.log and not self.st.over(): self.k.turn()
        if self.st.log: d = bytes(self.st.log); self.st.log.clear(); return d
        if self.st.reset is not None: raise OSError("reset %s" % self.st.reset)
        return b""
    def send(self, d): self.k.send(self.id, d, end=False)
    def finish(self): self.waved = True; self.k.send(self.id, b"", end=True)
    def drop(self): self.k.cancel(self.id)
KINDS = {"h1": WS1, "h2": WS2}
def refused(kind, host, path, **k): # status, code
    try: KINDS[kind](host, path, **k)
    except Refused as e: return e
    raise AssertionError("not refused")
def say(name, *a): print("== " + name); print(*a, flush=True)
