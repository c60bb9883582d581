# SPDX-License-Identifier: Apache-2.0
# WebSocket frames by hand (RFC 6455 5), good ones and others, over anything that has send(bytes) and recv() -> bytes.
import base64, hashlib, os, struct
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
def accept(key): return base64.b64encode(hashlib.sha1(key.encode() + GUID).digest()).decode()
def mask(data, key): # as one number: a MiB takes no time
    n = len(data); k = (key * (n // 4 + 1))[:n]
    return (int.from_bytes(data, "little") ^ int.from_bytes(k, "little")).to_bytes(n, "little")
def frame(op, data=b"", fin=True, masked=False, rsv=0, form=None): # form: octets of the length, when not the shortest
    n = len(data); form = form if form is not None else 0 if n < 126 else 2 if n < 65536 else 8
    h = bytes([(0x80 if fin else 0) | rsv << 4 | op, (0x80 if masked else 0) | (n if form == 0 else 126 if form == 2 else 127)])
    h += n.to_bytes(form, "big") if form else b""
    if not masked: return h + data
    key = os.urandom(4)
    return h + key + mask(data, key)
def close(code=None, reason=b"", **k): return frame(CLOSE, b"" if code is None else struct.pack(">H", code) + reason, **k)
class Ended(Exception): pass
class Reader:
    def __init__(self, recv): self.recv, self.buf = recv, b""
    def take(self, n):
        while len(self.buf) < n:
            d = self.recv()
            if not d: raise Ended(len(self.buf))
            self.buf += d
        d, self.buf = self.buf[:n], self.buf[n:]
        return d
    def frame(self): # fin, opcode, payload, masked, first octet
        a, b = self.take(2)
        n = b & 127
        if n > 125: n = int.from_bytes(self.take(2 if n == 126 else 8), "big")
        key = self.take(4) if b & 128 else None
        d = self.take(n)
        return bool(a & 128), a & 15, mask(d, key) if key else d, bool(key), a
    def message(self, control=None): # opcode, payload; control frames go to the list
        op, data = None, b""
        while True:
            fin, o, d, _, _ = self.frame()
            if o >= CLOSE:
                if control is None: return o, d
                control.append((o, d))
                if o == CLOSE: return o, d
                continue
            op = o if op is None else op; data += d
            if fin: return op, data
# What an endpoint must not send, by name; masked for the client's side. The answer is a Close frame with that code.
def hostile(name, masked):
    f = lambda *a, **k: frame(*a, masked=k.pop("masked", masked), **k)
    return {
        "mask": lambda: f(TEXT, b"x", masked=not masked), "ping-mask": lambda: f(PING, b"x", masked=not masked),
        "rsv1": lambda: f(TEXT, b"x", rsv=4), "rsv2": lambda: f(TEXT, b"x", rsv=2), "rsv3": lambda: f(PING, b"x", rsv=1),
        "opcode3": lambda: f(3, b"x"), "opcode11": lambda: f(11, b"x"),
        "control-fragmented": lambda: f(PING, b"x", fin=False), "control-long": lambda: f(PING, b"x" * 126),
        "length16": lambda: f(TEXT, b"x" * 9, form=2), "length64": lambda: f(TEXT, b"x" * 300, form=8),
        "length-sign": lambda: bytes([0x82, 0xff if masked else 0x7f, 0x80, 0, 0, 0, 0, 0, 0, 0]) + (b"abcd" if masked else b""),
        "continuation": lambda: f(0, b"x"), "interleaved": lambda: f(TEXT, b"a", fin=False) + f(TEXT, b"b"),
        "close1": lambda: f(CLOSE, b"x"), "close-code": lambda: f(CLOSE, b"\x03\xee"), "close-utf8": lambda: f(CLOSE, b"\x03\xe8\xc3("),
        "text-utf8": lambda: f(TEXT, b"\xc3", fin=False) + f(0, b""), "text-utf8-within": lambda: f(TEXT, b"a\xc3("),
    }[name]()
HOSTILE = ["mask", "ping-mask", "rsv1", "rsv2", "rsv3", "opcode3", "opcode11", "control-fragmented", "control-long", "length16", "length64", "length-sign", "continuation", "interleaved", "close1", "close-code", "close-utf8", "text-utf8", "text-utf8-within"]
