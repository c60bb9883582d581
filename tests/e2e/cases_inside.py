#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sandbox's end of cases.py: does what standard input says, tells on standard output what it sees.

Commands and events are JSON objects, one a line. It decides nothing: {"c": 7, "do": "open", "how": "connect", "host": ...},
(tls and connect speak HTTP/1.1 behind it, tls2 and connect2 HTTP/2),
"send" (slices in base64, each a segment or TLS record of its own), "shut", "close", "reset", "hold", "read". Events: "open",
"failed", "data", "end" (fin, notify, reset).
"""
import base64
import json
import os
import selectors
import socket
import ssl
import struct
import sys

PROXY = ("127.0.0.1", 3128)
sel = selectors.DefaultSelector()
addresses = {}
conns = {}
tls = ssl.create_default_context()
tls.set_alpn_protocols(["http/1.1"])
tls2 = ssl.create_default_context()
tls2.set_alpn_protocols(["h2"])


def tell(**event):
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def resolve(host):
    if host not in addresses:
        addresses[host] = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
    return addresses[host]


class Conn:
    def __init__(self, number, how, host):
        self.number, self.out, self.held, self.over = number, [], False, False
        self.s = socket.create_connection(PROXY if how in ("proxy", "connect", "connect2") else (resolve(host), 443 if how in ("tls", "tls2") else 80), timeout=10)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if how in ("connect", "connect2"):
            self.s.sendall(b"CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n\r\n" % (host.encode(), host.encode()))
            answer = b""
            while b"\r\n\r\n" not in answer:
                octet = self.s.recv(1)
                if not octet:
                    raise OSError("CONNECT: " + repr(answer))
                answer += octet
            if not answer.startswith(b"HTTP/1.1 200 "):
                raise OSError("CONNECT: " + repr(answer))
        if how in ("connect2", "tls2"):
            self.s = tls2.wrap_socket(self.s, server_hostname=host, suppress_ragged_eofs=False)
            if self.s.selected_alpn_protocol() != "h2":
                raise OSError("ALPN: %s" % self.s.selected_alpn_protocol())
        elif how in ("connect", "tls"):
            self.s = tls.wrap_socket(self.s, server_hostname=host, suppress_ragged_eofs=False)
        self.s.setblocking(False)
        self.mask()

    def mask(self):
        m = 0 if self.over else (0 if self.held else selectors.EVENT_READ) | (selectors.EVENT_WRITE if self.out else 0)
        try:
            sel.unregister(self.s)
        except (KeyError, ValueError):
            pass
        if m:
            sel.register(self.s, m, self)

    def ended(self, how):
        if not self.over:
            self.over = True
            tell(c=self.number, e="end", how=how)
        self.mask()

    def read(self):
        while not self.held and not self.over:
            try:
                data = self.s.recv(65536)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except ssl.SSLEOFError:
                return self.ended("fin")
            except OSError:
                return self.ended("reset")
            if not data:
                return self.ended("notify" if isinstance(self.s, ssl.SSLSocket) else "fin")
            tell(c=self.number, e="data", data=base64.b64encode(data).decode())

    def write(self):
        while self.out:
            what = self.out[0]
            try:
                if what is None:
                    if isinstance(self.s, ssl.SSLSocket):
                        try:
                            self.s.unwrap()
                        except (ssl.SSLWantReadError, ssl.SSLError):
                            pass
                    socket.socket.shutdown(self.s, socket.SHUT_WR)
                    n = 0
                else:
                    n = self.s.send(what)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError:
                self.out = []
                break
            if what is None or n == len(what):
                self.out.pop(0)
            else:
                self.out[0] = what[n:]
        self.mask()

    def close(self, reset):
        self.over = True
        self.mask()
        if reset:
            self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.s.close()


def obey(cmd):
    number, what = cmd["c"], cmd["do"]
    if what == "open":
        try:
            conns[number] = Conn(number, cmd["how"], cmd["host"])
            tell(c=number, e="open")
        except OSError as e:
            tell(c=number, e="failed", why=str(e))
        return
    c = conns.get(number)
    if c is None:
        return
    if what == "send":
        c.out += [base64.b64decode(x) for x in cmd["slices"]]
        c.write()
    elif what == "shut":
        c.out.append(None)
        c.write()
    elif what in ("hold", "read"):
        c.held = what == "hold"
        c.mask()
        c.read()
    elif what in ("close", "reset"):
        c.close(what == "reset")
        del conns[number]


tell(e="ready")
sel.register(0, selectors.EVENT_READ, None)
pending = b""
while True:
    for key, mask in sel.select():
        if key.data is None:
            got = os.read(0, 1 << 20)
            if not got:
                sys.exit(0)
            *lines, pending = (pending + got).split(b"\n")
            for line in lines:
                obey(json.loads(line))
            continue
        if mask & selectors.EVENT_WRITE:
            key.data.write()
        if mask & selectors.EVENT_READ:
            key.data.read()
