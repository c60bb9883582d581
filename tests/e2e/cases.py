#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the case files of tests/cases/http1 over sockets (tests/cases/README.md says what they mean).

	cases.py run     the origins here, one sandbox whose payload is cases_inside.py; T, WORK, STATE, SECRET, SP from cases.sh
	cases.py seeds   the octets of clients and origins as seeds of the fuzz targets h1_head and h1_body

One thing at a time goes through the gateway, so that what arrives at an origin and what is recorded belongs to it. The
hosts are taken in turn: a connection that the gateway still holds from before is not used in the next run.
"""
import base64
import collections
import glob
import hashlib
import itertools
import json
import os
import queue
import re
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = os.path.join(HERE, "..", "cases", "http1")
PATHS = ("proxy", "connect", "tls", "plain")
BOUND = 8  # seconds for what is to happen at once, on a slow machine
MARK = b"\0trailers\0"
MAY_ADD = (b"Via: 1.1 sallyport", b"Expect: 100-continue")  # in requests, at most once
POLICY = ("allow:", "  - GET|POST|PUT|DELETE|OPTIONS /v1/**", "deny:", "  - ANY /v1/hidden/**")
POLICY_TLS = ("inject:", "  - { secret: api, as: bearer, env: API_TOKEN }")


class Failed(Exception):
    pass


class Hung(Exception):
    """The gateway answers nothing any more: what would follow says nothing."""


# --- case files -----------------------------------------------------------------------------------------------------

class Case:
    def __init__(self, ids, title, where):
        self.ids, self.title, self.where = ids, title, where
        self.paths, self.splits, self.slow, self.spread = PATHS, "every", 0, False
        self.policy = self.policy_tls = None
        self.variants, self.steps, self.end, self.records, self.logged = [{}], [], None, None, []

    def inject(self, path):
        """The field that the gateway adds there, or None."""
        if path not in ("connect", "tls"):
            return None
        for l in self.policy_tls:
            m = re.search(r"as: (bearer|header)(?:, name: ([A-Za-z-]+))?", l)
            if m:
                return b"Authorization: Bearer " if m[1] == "bearer" else m[2].encode() + b": "
        return None


def load(name):
    case, cases, block = None, [], None
    for number, line in enumerate(open(name, encoding="ascii"), 1):
        line = line.rstrip("\n")
        where = "%s:%d" % (os.path.basename(name), number)
        if line.startswith("\t"):
            block.append(line[1:])
            continue
        block = None
        if not line.strip() or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if word == "==":
            ids, _, title = rest.partition(" ")
            case = Case(ids.split(","), title, where)
            cases.append(case)
        elif word == "paths:":
            case.paths = tuple(rest.split())
            assert set(case.paths) <= set(PATHS), where
        elif word == "splits:":
            case.splits = rest
        elif word == "spread":
            case.spread = True
        elif word == "slow:":
            case.slow = int(rest)
        elif word == "policy:":
            block = case.policy = []
        elif word == "policy-tls:":
            block = case.policy_tls = []
        elif word == "each":
            block = Each(case, rest.rstrip(":").split())
        elif word == "each-octet":
            name_, _, ranges = rest.partition(": ")
            octets = []
            for r in ranges.split():
                a, _, b = r.partition("-")
                octets += range(int(a, 16), int(b or a, 16) + 1)
            case.variants = [{name_: "\\x%02x" % o} for o in octets]
        elif word == "end":
            assert rest in ("kept", "closed", "any"), where
            case.end = rest
        elif word == "record":
            case.records = case.records or []
            if rest.startswith(("has ", "lacks ")):
                case.logged.append(rest.split(" ", 1))
                case.records = case.records or None
            elif rest != "none":
                case.records.append(rest.split())
        elif word.rstrip(":") in ("client", "origin", "expect", "refuse"):
            party, verb = word.rstrip(":"), rest.rstrip(":") if line.endswith(":") else rest
            step = [party, verb, None]
            if line.endswith(":"):
                step[2] = block = []
            case.steps.append(step)
        else:
            raise SystemExit("%s: what is %r?" % (where, line))
    for c in cases:
        if c.policy is None and c.policy_tls is None:
            c.policy, c.policy_tls = POLICY, POLICY_TLS
        c.policy, c.policy_tls = tuple(c.policy or POLICY), tuple(c.policy_tls or ())
    return cases


class Each(list):
    def __init__(self, case, names):
        super().__init__()
        self.case, self.names = case, names
        case.variants = []

    def append(self, line):
        columns = line.split("\t") if len(self.names) > 1 else [line]
        assert len(columns) == len(self.names), (self.case.where, line)
        self.case.variants.append(dict(zip(self.names, columns)))


def load_all():
    only = os.environ.get("CASES")
    cases = [c for f in sorted(glob.glob(os.path.join(FILES, "*.case"))) for c in load(f)]
    return [c for c in cases if not only or any(re.fullmatch(only, i) for i in c.ids)]


OK = "HTTP/1.1 200 OK\\r\\n%sContent-Length: 2\\r\\n\\r\\nok"
SHORT = {"ok": OK % "", "okclose": OK % "Connection: close\\r\\n"}  # a whole response, and how it comes when the connection ends with it
ESCAPES = {"r": b"\r", "n": b"\n", "t": b"\t", "0": b"\0", "s": b" ", "\\": b"\\", "{": b"{", "}": b"}"}


def expand(text, values):
    """One pass over escapes and placeholders; what a placeholder stands for is expanded likewise."""
    out, i = [], 0
    while i < len(text):
        c = text[i]
        if c == "\\":
            if text[i + 1] == "x":
                out.append(bytes([int(text[i + 2:i + 4], 16)]))
                i += 4
            else:
                out.append(ESCAPES[text[i + 1]])
                i += 2
        elif c == "{":
            j, depth = i + 1, 1
            while depth:
                depth += {"{": 1, "}": -1}.get(text[j], 0)
                j += 2 if text[j] == "\\" else 1
            j -= 1
            name = text[i + 1:j]
            if name.startswith("repeat "):
                _, n, what = name.split(" ", 2)
                out.append(expand(what, values) * int(n))
            elif name == "trailers":
                out.append(MARK)
            else:
                out.append(expand(values[name] if name in values else SHORT[name], values))
            i = j + 1
        else:
            out.append(c.encode("ascii"))
            i += 1
    return b"".join(out)


def block_bytes(lines, values):
    text = ""
    for line in lines:
        tail = len(line) - len(line.rstrip("\\"))
        text += line[:-1] if tail % 2 else line + "\\r\\n"
    return expand(text, values)


# --- messages -------------------------------------------------------------------------------------------------------

def split_head(head):
    lines = head[:-4].split(b"\r\n")
    fields = []
    for l in lines[1:]:
        name, colon, value = l.partition(b": ")
        if not colon:
            if not l.endswith(b":"):
                raise Failed("a field line without a colon: %r" % l)
            name, value = l[:-1], b""
        fields.append((name.lower(), value))
    return lines[0], fields


class Reader:
    """Messages from a source of octets: more() appends to self.buf, False at the end."""

    def __init__(self):
        self.buf, self.over = b"", None

    def upto(self, sep, what):
        while sep not in self.buf:
            if not self.more():
                raise Failed("%s: the connection ended (%s) after %r" % (what, self.over, self.buf[:200]))
        got, _, self.buf = self.buf.partition(sep)
        return got + sep

    def exactly(self, n, what):
        while len(self.buf) < n:
            if not self.more():
                raise Failed("%s: the connection ended (%s) with %d of %d octets: %r" % (what, self.over, len(self.buf), n, self.buf[:200]))
        got, self.buf = self.buf[:n], self.buf[n:]
        return got

    def content(self, fields, what, close_delimited=False):
        te = [v for n, v in fields if n == b"transfer-encoding"]
        cl = [v for n, v in fields if n == b"content-length"]
        if len(te) + len(cl) > 1 or (te and te != [b"chunked"]):
            raise Failed("%s: framing %r" % (what, fields))
        if cl:
            return self.exactly(int(cl[0]), what)
        if te:
            body = b""
            while True:
                line = self.upto(b"\r\n", what)
                if not re.fullmatch(rb"[0-9a-f]{1,16}\r\n", line):
                    raise Failed("%s: a chunk size line of ours %r" % (what, line))
                n = int(line, 16)
                if n == 0:
                    break
                body += self.exactly(n, what)
                if self.exactly(2, what) != b"\r\n":
                    raise Failed("%s: a chunk without CRLF" % what)
            trailers = b""
            while True:
                line = self.upto(b"\r\n", what)
                if line == b"\r\n":
                    return body + (MARK + trailers if trailers else b"")
                trailers += line
        if close_delimited:
            while self.more():
                pass
            if self.over == "reset":
                raise Failed("%s: reset instead of an end" % what)
            got, self.buf = self.buf, b""
            return got
        return b""


def differ(what, got, wanted):
    if got == wanted:
        return
    at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
    lo = max(0, at - 30)
    raise Failed("%s differs at %d of %d/%d: got ...%r, wanted ...%r" % (what, at, len(got), len(wanted), got[lo:at + 120], wanted[lo:at + 120]))


def as_decoded(message):
    """Chunked content may also be written as it was sent."""
    head, sep, body = message.partition(b"\r\n\r\n")
    if b"chunked" not in head or not body.endswith(b"0\r\n\r\n"):
        return message
    r = Reader()
    r.buf, r.more = body, lambda: False
    return head + sep + r.content([(b"transfer-encoding", b"chunked")], "case")


def without_added(head, inject, secret):
    """The head as the case has it: without what the gateway adds, which is checked here."""
    added = [inject + secret, b"Accept-Encoding: identity"] if inject else []
    lines = head.split(b"\r\n")
    for a in MAY_ADD:
        if a in lines:
            lines.remove(a)
    for a in added:
        name = a.split(b":")[0].lower().replace(b"_", b"-")
        same = [l for l in lines[1:] if l.split(b":")[0].lower().replace(b"_", b"-") == name]
        if same != [a]:
            if len(same) == 1 and a.startswith(b"Accept-Encoding"):
                continue # narrowed: the case says what is left
            raise Failed("of what the gateway adds there is %r instead of one %r" % (same, a))
        lines.remove(a)
    if not inject and secret in head:
        raise Failed("the secret went where it does not belong: %r" % head)
    return b"\r\n".join(lines)


# --- origins --------------------------------------------------------------------------------------------------------

class OriginConn(Reader):
    def __init__(self, s, tls):
        super().__init__()
        self.s, self.tls, self.fields = s, tls, None

    def more(self):
        if self.over:
            return False
        try:
            got = self.s.recv(65536)
        except socket.timeout:
            raise Failed("origin: nothing came, after %r" % self.buf[:200])
        except ssl.SSLEOFError:
            got, self.over = b"", "fin"
        except OSError:
            got, self.over = b"", "reset"
        self.over = self.over or (None if got else "fin")
        self.buf += got
        return bool(got)

    def finish(self, how):
        try:
            if how == "reset":
                self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.s.close()
                return
            if how == "close" and self.tls:
                self.s.setblocking(False)
                try:
                    self.s.unwrap()
                except (OSError, ValueError):
                    pass
                self.s.setblocking(True)
            socket.socket.shutdown(self.s, socket.SHUT_WR)
        except OSError:
            pass


class Origin:
    """Listens for https and http; each connection plays the next part of the run in progress."""

    def __init__(self, cert, key):
        self.ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ctx.load_cert_chain(cert, key)
        self.runs = {}

    def listen(self, hosts, tls):
        """A port for these hosts; those of one policy never share one, so that what comes late belongs to no later run."""
        s = socket.create_server(("127.0.0.1", 0), backlog=512)
        for h in hosts:
            self.runs[h] = None
        threading.Thread(target=self.serve, args=(s, hosts, tls), daemon=True).start()
        return s.getsockname()[1]

    def serve(self, s, hosts, tls):
        while True:
            c, _ = s.accept()
            run = next((self.runs[h] for h in hosts if self.runs[h] is not None), None)
            if run is None:
                c.close()
                continue
            threading.Thread(target=run.accepted, args=(c, tls, self.ctx, run.count()), daemon=True).start()


class Run:
    def __init__(self, case, values, inject, secret):
        self.case, self.values, self.inject, self.secret = case, values, inject, secret
        self.parts, self.either, self.syncs = [[]], None, collections.defaultdict(threading.Event)
        for step in case.steps:
            if step[0] != "origin":
                continue
            if step[1] in ("next", "either"):
                if self.parts[-1]:
                    self.parts.append([])
                if step[1] == "either":
                    self.either = len(self.parts) - 1
            else:
                self.parts[-1].append(step)
        if not self.parts[0]:
            self.parts = []
        self.finished = [threading.Event() for _ in self.parts]
        self.n, self.lock, self.errors, self.socks, self.over = 0, threading.Lock(), [], [], False

    def count(self):
        with self.lock:
            self.n += 1
            return self.n - 1

    def fail(self, text):
        if not self.over:
            self.errors.append(text)

    def sync(self, me, name):
        self.syncs[me + name].set()
        if not self.syncs[("o" if me == "c" else "c") + name].wait(BOUND):
            raise Failed("%s waits in vain for the other at %s" % ("client" if me == "c" else "origin", name))

    def accepted(self, s, tls, ctx, k):
        if k >= len(self.parts):
            s.close()
            return self.fail("a connection to the origin that is not in the case (number %d)" % (k + 1))
        try:
            s.settimeout(max(BOUND, self.case.slow))
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls and self.parts[k][0][1] == "aborted":
                try:
                    s = ctx.wrap_socket(s, server_side=True, suppress_ragged_eofs=False)
                except OSError:
                    return
            elif tls:
                s = ctx.wrap_socket(s, server_side=True, suppress_ragged_eofs=False)
            self.socks.append(s)
            c = OriginConn(s, tls)
            for step in self.parts[k]:
                self.play(c, step)
            self.finished[k].set()
            if s.fileno() < 0:
                return
            s.settimeout(None)
            if c.buf or c.more():
                self.fail("origin: octets that are not in the case: %r" % c.buf[:300])
        except (Failed, OSError, ValueError) as e:
            self.fail("origin connection %d: %s" % (k + 1, e))
        finally:
            self.finished[k].set()

    def play(self, c, step):
        verb, lines = step[1], step[2]
        verb = expand(verb, self.values).decode("latin-1")
        if lines is not None:
            wanted = block_bytes(lines, self.values)
        if verb in ("", "head"):
            head = c.upto(b"\r\n\r\n", "request at the origin")
            _, c.fields = split_head(head)
            got = without_added(head, self.inject, self.secret)
            if verb == "":
                wanted = as_decoded(wanted)
                got += c.content(c.fields, "request at the origin")
            else:
                wanted = wanted.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
            differ("request at the origin", got, wanted)
        elif verb == "body":
            differ("content at the origin", c.content(c.fields, "content at the origin"), wanted)
        elif verb == "aborted":
            while c.more():
                pass
            if c.fields:
                whole = Reader()
                whole.buf, whole.more = c.buf, lambda: False
                try:
                    whole.content(c.fields, "")
                except Failed:
                    c.buf = b""
                    return
                raise Failed("the origin got a whole request: %r" % c.buf[:300])
            head, sep, body = c.buf.partition(b"\r\n\r\n")
            if sep:
                _, fields = split_head(head + sep)
                whole = Reader()
                whole.buf, whole.more = body, lambda: False
                head = without_added(head + sep, self.inject, self.secret)
                differ("head at the origin", head, wanted.partition(b"\r\n\r\n")[0] + sep)
                try:
                    whole.content(fields, "")
                except Failed:
                    pass
                else:
                    raise Failed("the origin got a whole request: %r" % c.buf[:300])
            c.buf = b""
        elif verb == "answer":
            try:
                c.s.sendall(wanted)
            except OSError:
                pass  # the gateway may have had enough; what must be seen is asked for elsewhere
        elif verb == "gone":
            while c.more():
                pass
            c.buf = b""
        elif verb in ("close", "cut", "reset"):
            c.finish(verb)
        elif verb.startswith("sync "):
            self.sync("o", verb[5:])
        else:
            raise Failed("what is origin %s?" % verb)

    def check(self):
        need = len(self.parts) if self.either is None else self.either
        for k in range(need):
            if self.n <= k:
                raise Failed("connection %d to the origin did not come" % (k + 1) + ("; " + self.errors[0] if self.errors else ""))
            self.finished[k].wait(max(BOUND, self.case.slow))
        for k in range(need, min(self.n, len(self.parts))):
            self.finished[k].wait(BOUND)
        if self.errors:
            raise Failed("; ".join(self.errors))

    def close(self):
        self.over = True
        for e in self.syncs.values():
            e.set()
        for s in self.socks:
            try:
                socket.socket.shutdown(s, socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()


# --- the sandbox's end ----------------------------------------------------------------------------------------------

class Inside:
    def __init__(self, command, cwd, log):
        self.p = subprocess.Popen(command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self.events, self.lock, self.numbers = {0: queue.Queue()}, threading.Lock(), itertools.count(1)
        threading.Thread(target=self.listen, daemon=True).start()
        self.event(0, 60)

    def listen(self):
        for line in self.p.stdout:
            e = json.loads(line)
            q = self.events.get(e.get("c", 0))
            if q is not None:
                q.put(e)
        for q in list(self.events.values()):
            q.put({"e": "lost"})

    def event(self, number, seconds=BOUND):
        try:
            e = self.events[number].get(timeout=seconds)
        except queue.Empty:
            return None
        if e["e"] == "lost":
            raise SystemExit("not ok cases: the sandbox ended")
        return e

    def tell(self, **cmd):
        with self.lock:
            self.p.stdin.write(json.dumps(cmd).encode() + b"\n")
            self.p.stdin.flush()


class ClientConn(Reader):
    def __init__(self, inside, how, host, canaries):
        super().__init__()
        self.inside, self.number, self.seen, self.canaries, self.seconds, self.run = inside, next(inside.numbers), b"", canaries, BOUND, None
        inside.events[self.number] = queue.Queue()
        inside.tell(c=self.number, do="open", how=how, host=host)
        e = inside.event(self.number)
        if e is None:
            raise Hung
        if e["e"] != "open":
            raise Failed("the client could not connect: %s" % e["why"])

    def more(self):
        if self.over:
            return False
        e, until = None, time.monotonic() + self.seconds
        while e is None and time.monotonic() < until and not (self.run and self.run.errors):
            e = self.inside.event(self.number, 0.2)
        if e is None:
            raise Failed("client: nothing came, after %r" % self.buf[:300])
        if e["e"] == "end":
            self.over = e["how"]
            return False
        got = base64.b64decode(e["data"])
        self.buf += got
        self.seen = (self.seen + got)[-(1 << 20):]
        for c in self.canaries:
            if c in self.seen:
                raise Failed("the client can see the secret: %r" % self.seen[-300:])
        return True

    def send(self, slices):
        self.inside.tell(c=self.number, do="send", slices=[base64.b64encode(x).decode() for x in slices if x])

    def do(self, what):
        self.inside.tell(c=self.number, do=what)

    def close(self):
        self.do("close")
        del self.inside.events[self.number]


class Audit:
    """Records of kind `request`, in the order of the log; those of connections beside them."""

    def __init__(self, state):
        self.name, self.f, self.rest, self.queue, self.total = os.path.join(state, "audit", "audit.jsonl"), None, b"", collections.deque(), 0
        self.connections = collections.deque()

    def read(self):
        if self.f is None:
            if not os.path.exists(self.name):
                return
            self.f = open(self.name, "rb")
        while True:
            data = self.f.read()
            *lines, self.rest = (self.rest + data).split(b"\n")
            for l in lines:
                o = json.loads(l.decode("utf-8"))  # J18: valid JSON and UTF-8, always
                if any(c < 32 or c == 127 for c in l):
                    raise Failed("a control octet in the log: %r" % l)
                if o["unmapped"]["sallyport"]["kind"] == "request":
                    self.queue.append(o)
                elif o["unmapped"]["sallyport"]["kind"] == "connection":
                    self.connections.append(o)
            if not data:
                if os.path.exists(self.name) and os.stat(self.name).st_ino != os.fstat(self.f.fileno()).st_ino:
                    self.f = open(self.name, "rb")
                    continue
                return

    def take(self, n):
        end = time.monotonic() + BOUND
        self.read()
        while len(self.queue) < n and time.monotonic() < end:
            time.sleep(0.0005)
            self.read()
        got = list(self.queue)
        self.queue.clear()
        self.total += len(got)
        return got


def record_line(o):
    s = o["unmapped"]["sallyport"]
    return [s.get("decision"), s.get("code"), s.get("reason"), o.get("http_response", {}).get("code")]


def one_of(pattern, value):
    return pattern == "-" or ("" if value is None else str(value)) in [("" if p == "none" else p) for p in pattern.split("/")]


# --- one run --------------------------------------------------------------------------------------------------------

class Runner:
    def __init__(self, inside, origin, audit, secret):
        self.inside, self.origin, self.audit, self.secret = inside, origin, audit, secret
        self.canaries = [secret, base64.b64encode(secret)[:-4]]

    def one(self, case, variant, path, host, cut):
        """cut: None whole, 0 one octet at a time, else the offset."""
        url = "http://" + host if path == "proxy" else ""
        values = dict(variant, host=host, url=url, secret=self.secret.decode(), filler="*" * len(self.secret))
        run = Run(case, values, case.inject(path), self.secret)
        wanted_records, ids = [], []
        self.origin.runs[host] = run
        c = None
        try:
            c = ClientConn(self.inside, path, host, self.canaries)
            c.seconds, c.run = max(BOUND, case.slow), run
            closing = self.steps(case, values, run, c, cut, wanted_records, ids)
            self.end(case, values, c, closing, wanted_records, ids)
            run.check()
            self.records(case, values, wanted_records, ids)
        except Failed as e:
            why = str(e)
            if c is not None:
                c.close()
                c = None
            self.origin.runs[host] = None
            run.close()
            time.sleep(0.3)  # what is still under way shall not be taken for part of the next
            self.audit.take(0)
            return why + "".join("; " + x for x in run.errors if x not in why)
        finally:
            if c is not None:
                c.close()
            self.origin.runs[host] = None
            run.close()
        return None

    def steps(self, case, values, run, c, cut, records, ids):
        sent, closing, heads, deadline = 0, False, False, None
        for party, verb, lines in case.steps:
            if party == "client":
                verb = expand(verb, values).decode("latin-1") if "{" in verb else verb
                if lines is not None:
                    data = block_bytes(lines, values)
                    if cut == 0:
                        slices = [data[i:i + 1] for i in range(len(data))]
                    else:
                        k = (cut or 0) - sent
                        slices = [data[:k], data[k:]] if 0 < k < len(data) else [data]
                    sent += len(data)
                    c.send(slices)
                elif verb.startswith("await "):
                    text = expand(verb[6:], values)
                    while text not in c.buf:
                        if not c.more():
                            raise Failed("client: the connection ended without %r: %r" % (text, c.buf[:300]))
                elif verb.startswith("sync "):
                    run.sync("c", verb[5:])
                else:
                    c.do(verb)
                    if verb in ("close", "reset"):
                        closing = None
            elif party == "expect":
                self.expect(c, verb, block_bytes(lines, values), records)
                closing = verb == "broken"
            elif party == "refuse":
                closing = self.refuse(c, expand(verb, values).decode(), records, ids)
        return closing

    def expect(self, c, verb, wanted, records):
        if verb == "broken":
            while c.more():
                pass
            head, sep, body = c.buf.partition(b"\r\n\r\n")
            if not sep:
                if c.buf or c.over not in ("reset", "fin"):
                    raise Failed("client: %r (%s) instead of a broken response" % (c.buf, c.over))
                return
            differ("response head", head + sep, wanted.partition(b"\r\n\r\n")[0] + sep)
            r = Reader()
            r.buf, r.more = body, lambda: False
            fields = split_head(head + sep)[1]
            try:
                r.content(fields, "")
                if c.over in ("fin", "notify") and (c.over == "notify" or [1 for n, _ in fields if n in (b"content-length", b"transfer-encoding")]):
                    raise ValueError
                if c.over != "reset":
                    raise ValueError
            except Failed:
                pass
            except ValueError:
                raise Failed("the client takes the broken response for whole (%s): %r" % (c.over, c.buf[-200:]))
            c.buf = b""
            records.append(["allow", "upstream_protocol", "-", head[9:12].decode()])
            return
        if verb == "maybe":
            head = c.upto(b"\r\n\r\n", "response")
            if head != wanted:
                c.buf = head + c.buf
            return
        head = c.upto(b"\r\n\r\n", "response")
        line, fields = split_head(head)
        status = line[9:12].decode()
        got = head
        if verb != "head" and status[0] != "1" and status not in ("204", "304"):
            got += c.content(fields, "response", True)
        differ("response", got, as_decoded(wanted))
        if status[0] != "1":
            records.append(["allow", "none", "none", status])

    def refuse(self, c, text, records, ids):
        words = text.split()
        status, code, reason = words[:3]
        times = int(words[words.index("times") + 1]) if "times" in words else 1
        keep = "keep" in words
        for _ in range(times):
            head = c.upto(b"\r\n\r\n", "refusal")
            line, fields = split_head(head)
            got = line.split(b" ", 2)
            if got[0] != b"HTTP/1.1" or not one_of(status, got[1].decode()) or not any(got[2] == b"sallyport " + x.encode() for x in code.split("/")):
                raise Failed("the answer is %r%r, not %s" % (head, c.buf[:400], text))
            body = c.content(fields, "refusal") if "head" not in words else b""
            f = dict(fields)
            if len(f) != len(fields) or f.get(b"content-type") != b"application/json" or f.get(b"cache-control") != b"no-store" or not f.get(b"proxy-status", b"").startswith(b"sallyport; error="):
                raise Failed("fields of the refusal: %r" % head)
            if "any" not in words and (f.get(b"connection") == b"close") == keep:
                raise Failed("Connection in the refusal: %r, wanted %s" % (f.get(b"connection"), "kept" if keep else "close"))
            if "head" not in words:
                o = json.loads(body.decode("utf-8"))
                if o["v"] != 1 or o["error"] not in code.split("/") or not o["reason"] or not o["request_id"]:
                    raise Failed("content of the refusal: %r" % body)
                ids.append(o["request_id"])
            records.append(["allow" if status[0] == "5" else "deny", code, reason, status])
        return not keep

    def end(self, case, values, c, closing, records, ids):
        want = case.end or ("any" if closing is None else "closed" if closing else "kept")
        if c.buf:
            raise Failed("client: more than is in the case: %r" % c.buf[:300])
        if want == "closed":
            while c.more():
                raise Failed("client: more than is in the case: %r" % c.buf[:300])
        elif want == "kept":
            c.send([expand("GET {url}/denied HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n", values)])
            records_probe = []
            try:
                self.refuse(c, "403 policy_denied - keep", records_probe, ids)
            except Failed as e:
                raise Failed("the connection is not kept: %s" % e)
            records += records_probe

    def records(self, case, values, wanted, ids):
        if case.records is not None:
            probes = [w for w in wanted if w[1] == "policy_denied" and w[3] == "403"] if case.end == "kept" else []
            wanted = [[expand(x, values).decode() for x in r] for r in case.records] + probes
        got = self.audit.take(len(wanted))
        lines = [record_line(o) for o in got]
        text = json.dumps(got, ensure_ascii=False)
        for how, what in case.logged:
            what = expand(what, values).decode("latin-1")
            if (what in text) != (how == "has"):
                raise Failed("%r %s the records: %s" % (what, "is not in" if how == "has" else "is in", text))
        if len(got) != len(wanted):
            raise Failed("%d records for %d requests: %r" % (len(got), len(wanted), lines))
        for g, w in zip(lines, wanted):
            if not all(one_of(p, v) for p, v in zip(w, g)):
                raise Failed("recorded %r, wanted %r" % (g, w))
        uids = [o["http_request"]["uid"] for o in got]
        if len(set(uids)) != len(uids) or not set(ids) <= set(uids):
            raise Failed("request ids: %r in answers, %r recorded" % (ids, uids))


# --- all of them ----------------------------------------------------------------------------------------------------

def client_octets(case, variant, path, host):
    url = "http://" + host if path == "proxy" else ""
    values = dict(variant, host=host, url=url, secret="s" * 35, filler="*" * 35)
    return b"".join(block_bytes(s[2], values) for s in case.steps if s[0] == "client" and s[2] is not None)


def plan(case, host_of):
    """What is tried: (variant, path, cut)."""
    for v, variant in enumerate(case.variants):
        for path in case.paths if not case.spread else (case.paths[v % len(case.paths)],):
            yield variant, path, None
            if case.splits in ("every", "some") and len(client_octets(case, variant, path, "host.test")) < 3000:
                yield variant, path, 0
    if case.splits == "every" and os.environ.get("SPLITS") != "few" and any(i.startswith("A") for i in case.ids):
        longest = max(len(client_octets(case, v, case.paths[0], host_of(case, case.paths[0], False))) for v in case.variants)
        if longest < 3000:
            for k in range(1, longest):
                yield case.variants[k % len(case.variants)], case.paths[0], k


def main():
    T, work, state, secret, sp = (os.environ[x] for x in ("T", "WORK", "STATE", "SECRET", "SP"))
    cases = load_all()
    origin = Origin(T + "/up.pem", T + "/up.key")
    profiles, counters = {}, collections.Counter()
    for c in cases:
        profiles.setdefault((c.policy, c.policy_tls), len(profiles))
    many = {k: 6 if i == 0 else 3 for k, i in profiles.items()}

    def host_of(case, path, advance=True):
        key = (case.policy, case.policy_tls)
        tls = path in ("connect", "tls")
        if advance:
            counters[key, tls] += 1
        return "%s%d-%d.test" % ("s" if tls else "p", profiles[key], counters[key, tls] % many[key])

    ports = {(tls, j): origin.listen(["%s%d-%d.test" % ("s" if tls else "p", i, j) for k, i in profiles.items() if j < many[k]], tls) for tls in (True, False) for j in range(6)}
    with open(work + "/policy.yaml", "w") as f:
        f.write("version: 1\nname: cases\nsecrets:\n  api: { env: E2E_SECRET, hosts: [%s] }\ndestinations:\n" % ", ".join(
            "s%d-%d.test" % (i, j) for k, i in profiles.items() for j in range(many[k])))
        for (policy, policy_tls), i in profiles.items():
            for tls, j in itertools.product((True, False), range(many[policy, policy_tls])):
                f.write("  - host: %s%d-%d.test\n    connect: 127.0.0.1:%d\n    addresses: [127.0.0.0/8]\n" % ("s" if tls else "p", i, j, ports[tls, j]))
                f.write("    tls: { ca: ./upca.pem }\n" if tls else "    scheme: http\n")
                f.writelines("    %s\n" % l for l in policy + (policy_tls if tls else ()))
    log = open(T + "/run.log", "wb")
    inside = Inside([sp, "run", "--quiet", "--policy", "policy.yaml", "--", "/usr/bin/python3", "inside.py"], work, log)
    runner = Runner(inside, origin, Audit(state), secret.encode())
    tally, bad, by_id, began, hung = collections.Counter(), 0, collections.OrderedDict(), time.monotonic(), None
    for case in cases:
        row = [case, collections.Counter(), []]
        for i in case.ids:
            by_id.setdefault(i, []).append(row)
        name = "%s %s" % ("/".join(case.ids), case.title)
        if case.slow and os.environ.get("SLOW") != "1":
            print("skip cases: %s: takes %d s, with SLOW=1" % (name, case.slow))
            row[2].append("skipped")
            continue
        began_case = time.monotonic()
        for variant, path, cut in plan(case, host_of):
            try:
                why = runner.one(case, variant, path, host_of(case, path), cut)
            except Hung:
                hung = why = "a new connection is not answered any more; nothing after this is tried"
            row[1][path] += 1
            tally[path] += 1
            if why is not None:
                row[2].append("%s, %s, %s: %s" % (" ".join("%s=%s" % kv for kv in variant.items()), path, "whole" if cut is None else "cut at %d" % cut if cut else "one octet at a time", why))
                if len(row[2]) > 4 or hung:
                    break
        if row[2]:
            bad += 1
            print("not ok cases: %s (%s)" % (name, case.where))
            for w in row[2][:3]:
                print("    " + w)
        else:
            print("ok cases: %s" % name)
        if os.environ.get("TIMES"):
            print("    %.1f s, %d runs" % (time.monotonic() - began_case, sum(row[1].values())))
        sys.stdout.flush()
        if hung:
            break
    left = [record_line(o) for o in runner.audit.take(0)]
    print("not ok cases: records of no request %r" % left if left else "ok cases: no record too many, %d in all" % runner.audit.total)
    inside.p.stdin.close()
    try:
        status = inside.p.wait(30)
    except subprocess.TimeoutExpired:
        inside.p.kill()
        status = inside.p.wait()
    print("ok cases: the sandbox ends" if status == 0 else "not ok cases: the sandbox ends with %d" % status)
    for where, dirs, names in os.walk(state):
        for n in names:
            path = os.path.join(where, n)
            if os.path.isfile(path) and secret.encode() in open(path, "rb").read():
                print("not ok cases: the secret is in " + path)
                bad += 1
    bad += secret.encode() in open(T + "/run.log", "rb").read()
    print("# %d runs: %s, %.0f s" % (sum(tally.values()), ", ".join("%s %d" % x for x in sorted(tally.items())), time.monotonic() - began), file=sys.stderr)
    if os.environ.get("CONFORMANCE"):
        conformance(by_id, os.environ["CONFORMANCE"])
    return bad or bool(left) or status


def conformance(by_id, name):
    with open(name) as f:
        more = f.read().partition("\n## HTTP/2\n")  # h2cases.py writes that
    with open(name, "w") as f:
        f.write("# Conformance\n\nWritten by `WRITE=1 bash tests/e2e/cases.sh` from tests/cases/http1: each id of the catalogue of attacks and field cases that has a case, what was tried, on which\n"
                "entry paths, and what came of it. `values` counts the spellings of the case. Cases of group A are cut at every offset, the others sent whole and one octet at a time; `tests/unit/cases_test.c`\n"
                "cuts all of them at every offset. `tests/cases/README.md` says more.\n\n"
                "| id | what is tried | values | paths | result |\n|---|---|---|---|---|\n")
        for i in sorted(by_id, key=lambda x: (len(re.match("[A-Z]+", x)[0]), x)):
            for case, runs, bad in by_id[i]:
                result = "passes" if not bad else "not run (`SLOW=1`)" if bad == ["skipped"] else "**fails**"
                f.write("| %s | %s | %d | %s | %s |\n" % (i, case.title.replace("|", "\\|"), len(case.variants), " ".join(case.paths), result))
        f.write("".join(more[1:]))


def seeds():
    """First octet as the fuzz targets read it; one file for each content."""
    def write(target, case, data):
        d = os.path.join(HERE, "..", "fuzz", "corpus", target)
        if len(data) < 3000:
            with open(os.path.join(d, "case-%s-%s" % (case.ids[0].lower(), hashlib.sha256(data).hexdigest()[:8])), "wb") as f:
                f.write(data)

    for case in load_all():
        for variant in case.variants[:3]:
            values = dict(variant, host="h.test", url="", secret="s" * 35, filler="*" * 35)
            for party, first in (("client", b"\0"), ("origin", b"\x08")):
                blocks = [block_bytes(s[2], values) for s in case.steps if s[0] == party and s[2] is not None and s[1] in ("", "answer") and (party == "client" or s[1] == "answer")]
                for b in blocks:
                    write("h1_head", case, b"\0" + b)
                    head, sep, body = b.partition(b"\r\n\r\n")
                    if sep and body and b"chunked" in head:
                        write("h1_body", case, first + b"\1" + body)


if __name__ == "__main__":
    if sys.argv[1] == "seeds":
        seeds()
    else:
        sys.exit(1 if main() else 0)
