#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Groups C and D of the catalogue, I and K over HTTP/2, UB and UC: frames as no library writes them, from a sandbox and from origins,
over both entry paths and before both kinds of upstream. The machinery of sandbox and log is that of cases.py.

For each case: the origin sees the requests that the case says and no other; there is exactly one record for each request; the planted
secret is in nothing that the client sees (cases.py and wire.py look at every octet and field).
"""
import base64
import collections
import itertools
import json
import os
import re
import resource
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "h2"))
import cases as C  # noqa: E402
import wire as W  # noqa: E402
from wire import Answer, Client  # noqa: E402

Failed = C.Failed
ALL = []


def case(ids, title, each=(None,), clients=("h2",), ups=("h1", "h2"), slow=0):
    def add(f):
        ALL.append((ids.split(), title, list(each), clients, ups, slow, f))
        return f
    return add


def want(what, got, *wanted):
    if got not in wanted:
        raise Failed("%s: %r, not %s" % (what, got, " or ".join(map(repr, wanted))))


class Trial:
    """One run of a case. seen: how many requests the origin is to see; records: what is to be logged, [decision, code, reason, status]."""

    def __init__(self, world, client, up, how, token):
        self.world, self.cl, self.up, self.how = world, client, up, how
        self.host, self.origin = world.take(up)
        self.path = "/v1/" + token
        self.seen, self.records, self.open, self.whole = 0, [], [], None
        self.connections = []

    def other(self, kind):
        """f: a host that nobody has asked yet; n: one where nothing is injected."""
        self.host, self.origin = self.world.take(kind + self.up)

    def conn(self, how=None):
        how = how or self.how + ("" if self.cl == "h1" else "2")
        c = C.ClientConn(self.world.inside, how, self.host, self.world.canaries)
        c.seconds = 15
        self.open.append(c)
        return c

    def client(self, hello=None, credit=True):
        k = Client(self.conn(), self.host, hello, self.world.canaries)
        k.credit = credit
        if hello is None and not k.until(lambda: k.acks):
            raise Failed("no answer to SETTINGS")
        return k

    def get(self, k, path=None, record=True, **more):
        """One ordinary request that is served."""
        st = k.wait(k.open(k.base(path or self.path), **more))
        want("an ordinary request", (st.status, st.ended), (200, True))
        self.seen += 1
        if record:
            self.records.append(["allow", "none", "none", "200"])
        return st

    def refused(self, k, fields, status=None, reason="-", code="malformed_request", rst=W.PROTOCOL, **more):
        """A request that is no request: reset, or answered with status; recorded, and the connection goes on."""
        st = k.wait(k.open(fields, **more))
        if status is None:
            want("the stream", (st.status, st.reset), (None, rst))
        else:
            want("the answer", (st.status, st.ended or st.reset is not None), (status, True))
        self.records.append(["deny", code, reason, "-"])
        self.get(k)

    def fatal(self, k, *codes):
        got = k.ended()
        want("GOAWAY", got, *codes)

    # one request, of whichever version the case's client speaks
    def ask(self, method="GET", fields=(), path=None, data=None):
        """status, fields, content, trailers, whole."""
        if self.cl == "h2":
            k = self.client()
            st = k.wait(k.open(k.base(path or self.path, method) + list(fields), data=data))
            return st.status, st.head or [], st.data, st.trailers, st.ended
        c = self.conn()
        head = "%s %s HTTP/1.1\r\nHost: %s\r\n%s%s\r\n" % (method, path or self.path, self.host, "".join("%s: %s\r\n" % f for f in fields), "" if data is None else "Content-Length: %d\r\n" % len(data))
        c.send([head.encode("latin-1") + (data or b"")])
        while True:
            try:
                line, got = C.split_head(c.upto(b"\r\n\r\n", "response"))
            except Failed:
                return None, [], b"", None, False
            status = int(line[9:12])
            if status >= 200:
                break
        if method == "HEAD" or status in (204, 304):
            return status, got, b"", None, True
        try:
            body, mark, trailers = c.content(got, "response", True).partition(C.MARK)
        except Failed:
            return status, got, c.buf, None, False
        return status, got, body, [tuple(l.split(b": ", 1)) for l in trailers.split(b"\r\n") if l] if mark else None, True


def field(fields, name):
    return [v for n, v in fields if n == name.encode()]


class World:
    def __init__(self, T, work, state, secret, sp):
        self.hosts, self.turn = {}, collections.Counter()
        for up, version in (("h1", 1), ("h2", 2)):  # f: of each only one request is asked at a time of its own; n: nothing is injected
            for kind, n in ("", 8), ("f", 10), ("n", 2):
                self.hosts[kind + up] = [("%s%s-%d.test" % (kind, up, i), W.Origin(T + "/up.pem", T + "/up.key", version)) for i in range(n)]
        with open(work + "/policy.yaml", "w") as f:
            f.write("version: 1\nname: h2\nsecrets:\n  api: { env: E2E_SECRET, hosts: [%s] }\ndestinations:\n" % ", ".join(h for x in self.hosts.values() for h, _ in x))
            for kind, x in self.hosts.items():
                for h, o in x:
                    f.write("  - host: %s\n    connect: 127.0.0.1:%d\n    addresses: [127.0.0.0/8]\n    tls: { ca: ./upca.pem }\n"
                            "    allow:\n      - { method: [GET, HEAD, POST, PUT, DELETE, OPTIONS], path: /v1/**, body: any }\n"
                            "      - { method: POST, path: /graphql/**, body: { graphql: { type: query } } }\n      - { method: POST, path: /mcp/**, body: { mcp: { tools: [\"read_*\"] } } }\n"
                            "    deny: [ ANY /v1/hidden/** ]\n%s" % (h, o.port, "" if kind[0] == "n" else "    inject: [ { secret: api, as: bearer, env: API_TOKEN } ]\n"))
            f.write("  - host: plain.test\n    scheme: http\n    connect: 127.0.0.1:1\n    addresses: [127.0.0.0/8]\n    allow: [ \"GET /**\" ]\n")
        self.secret = secret.encode()
        self.canaries = [self.secret, base64.b64encode(self.secret)[:-4]]
        self.log = open(T + "/run.log", "wb")
        self.inside = C.Inside([sp, "run", "--quiet", "--policy", "policy.yaml", "--", "/usr/bin/python3", "inside.py"], work, self.log)
        self.audit = C.Audit(state)

    def take(self, up):
        host, origin = self.hosts[up][self.turn[up] % len(self.hosts[up])]
        self.turn[up] += 1
        origin.clear()
        return host, origin

    def one(self, f, variant, client, up, how, token):
        t = Trial(self, client, up, how, token)
        self.audit.read()
        self.audit.connections.clear()
        why = None
        try:
            f(t, *(() if variant is None else variant if isinstance(variant, tuple) else (variant,)))
        except Failed as e:
            why = str(e)
        except C.Hung:
            raise
        except Exception as e:  # of the case, which fails by it
            why = "%s: %s" % (type(e).__name__, e)
        for c in t.open:
            c.close()
        try:
            if why is None:
                self.check(t)
        except Failed as e:
            why = str(e)
        if why is not None:
            time.sleep(0.3)
            self.audit.take(0)
        return why

    def check(self, t):
        got = self.audit.take(len(t.records))
        lines = [C.record_line(o) for o in got]
        if self.secret.decode() in json.dumps(got):
            raise Failed("the secret is recorded")
        left = list(t.records)
        for l in lines:
            w = next((w for w in left if all(C.one_of(p, v) for p, v in zip(w, l))), None)
            if w is None:
                raise Failed("recorded %r, of %d; wanted %s" % (l, len(lines), sorted(set(map(str, t.records)))))
            left.remove(w)
        if left:
            raise Failed("not recorded: %s, %d; only %s" % (sorted(set(map(str, left))), len(left), sorted(set(map(str, lines)))))
        uids = [o["http_request"]["uid"] for o in got]
        if len(set(uids)) != len(uids):
            raise Failed("request ids twice: %r" % uids)
        if t.seen is not None:
            want("requests at the origin", len(t.origin.requests), t.seen)
        if t.whole is not None:
            want("whole requests at the origin", len(t.origin.wholes), t.whole)
        for r in t.origin.requests:
            want("credentials at the origin", r.field("authorization"), [] if t.host[0] == "n" else [b"Bearer " + self.secret])
        for code, reason in t.connections:
            end = time.monotonic() + C.BOUND
            while not any(o["unmapped"]["sallyport"].get("code") == code and C.one_of(reason, o["unmapped"]["sallyport"].get("reason")) for o in self.audit.connections):
                if time.monotonic() > end:
                    raise Failed("no record of the connection, %s %s: %r" % (code, reason, [(o["unmapped"]["sallyport"].get("code"), o["unmapped"]["sallyport"].get("reason")) for o in self.audit.connections]))
                time.sleep(0.01)
                self.audit.read()


sys.modules["h2cases"] = sys.modules[__name__]
import client_cases  # noqa: E402,F401
import upstream_cases  # noqa: E402,F401


def main():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    world = World(*(os.environ[x] for x in ("T", "WORK", "STATE", "SECRET", "SP")))
    picked, rows, bad, n = os.environ.get("CASES", ""), [], 0, 0
    for ids, title, each, clients, ups, slow, f in ALL:
        name = "%s %s" % (" ".join(ids), title)
        if picked and not any(re.fullmatch(picked, i) for i in ids):
            continue
        if slow and os.environ.get("SLOW") != "1":
            print("skip h2cases: %s: takes %d s, with SLOW=1" % (name, slow))
            rows.append((ids, title, len(each), clients, ups, "not run (`SLOW=1`)"))
            continue
        why, began = [], time.monotonic()
        for i, (variant, client, up) in enumerate(itertools.product(each, clients, ups)):
            n += 1
            hows = ("tls", "connect") if len(each) == 1 and client == "h2" else (("tls", "connect")[i // max(1, len(ups)) % 2],)
            for how in hows:
                try:
                    w = world.one(f, variant, client, up, how, "c%d%s" % (n, how))
                except C.Hung:
                    print("not ok h2cases: %s: a new connection is not answered any more; nothing after this is tried" % name)
                    return 1
                if w is not None:
                    why.append("%s%s client (%s), %s upstream: %s" % ("" if variant is None else "%r, " % (variant,), client, how, up, w))
            if len(why) > 4:
                break
        print("ok h2cases: %s" % name if not why else "not ok h2cases: %s" % name)
        for w in why[:4]:
            print("    " + w[:600])
        if os.environ.get("TIMES"):
            print("    %.1f s" % (time.monotonic() - began))
        sys.stdout.flush()
        bad += bool(why)
        rows.append((ids, title, len(each), clients, ups, "passes" if not why else "**fails**"))
    left = [C.record_line(o) for o in world.audit.take(0)]
    if left:
        print("not ok h2cases: records of no request %r" % left)
    world.inside.p.stdin.close()
    status = world.inside.p.wait(30)
    print("ok h2cases: the sandbox ends" if status == 0 else "not ok h2cases: the sandbox ends with %d" % status)
    if world.secret in open(os.environ["T"] + "/run.log", "rb").read():
        print("not ok h2cases: the secret is in the gateway's own output")
        bad += 1
    if os.environ.get("CONFORMANCE"):
        conformance(rows, os.environ["CONFORMANCE"])
    return 1 if bad or left or status else 0


MARK = "## HTTP/2\n"


def conformance(rows, name):
    with open(name) as f:
        text, _, old = f.read().partition("\n" + MARK)
    text, more = text.rstrip("\n"), old.partition("\n## ")  # what comes after is written by hand
    by_id = sorted(((i, r) for r in rows for i in r[0]), key=lambda x: (len(re.match("[A-Z]+", x[0])[0]), x[0]))
    with open(name, "w") as f:
        f.write(text + "\n\n" + MARK + "\nWritten by `WRITE=1 bash tests/e2e/h2cases.sh`: what is tried with frames of our own, from the sandbox over TLS and through CONNECT, or from upstreams. `pairings`:\n"
                "the versions of client and upstream.\n\n| id | what is tried | values | pairings | result |\n|---|---|---|---|---|\n")
        for i, (ids, title, n, clients, ups, result) in by_id:
            f.write("| %s | %s | %d | %s | %s |\n" % (i, title.replace("|", "\\|"), n, " ".join("%s-%s" % x for x in itertools.product(clients, ups)), result))
        f.write("".join(more[1:]))


if __name__ == "__main__":
    sys.exit(main())
