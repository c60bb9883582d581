#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Vault of our own for the tests, after the published HTTP API: TLS, tokens with parents, accessors and TTLs, KV of both
versions, leases that can be renewed up to a maximum and are revoked with their token, AppRole (also response-wrapped),
Kubernetes, JWT and certificate logins, policies by path, seal, and faults to be switched on.

	vault_double.py PORT CERT KEY CLIENT-CA LOG

The first line on standard output is `root TOKEN`. What is not Vault's API stands under /test/: POST /test/set with a JSON
object changes its state (see State.set), GET /test/state shows it. Requests are logged as `METHOD PATH TOKEN-ACCESSOR STATUS`.
"""
import base64, json, secrets, socket, ssl, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, CERT, KEY, CLIENT_CA, LOG = sys.argv[1:6]
LOCK = threading.RLock()


class Refused(Exception):
    def __init__(self, status, *errors, body=None, headers=None):
        self.status, self.body, self.headers = status, body if body is not None else {"errors": list(errors)}, headers or {}


class Token:
    def __init__(self, policies, ttl, max_ttl=0, renewable=True, parent=None, kind="service", uses=0, meta=None, display="token"):
        self.id, self.accessor = "hvs." + secrets.token_urlsafe(32), secrets.token_urlsafe(18)
        self.policies, self.renewable, self.parent, self.kind, self.uses = policies, renewable, parent, kind, uses
        self.born, self.max_ttl, self.meta, self.display = time.time(), max_ttl, meta or {}, display
        self.first = ttl
        self.until = self.cap(ttl)

    def cap(self, ttl):
        if ttl == 0:
            return 0
        until = time.time() + ttl
        return min(until, self.born + self.max_ttl) if self.max_ttl else until

    def ttl(self): return 0 if self.until == 0 else max(0, int(self.until - time.time() + 0.5))

    def auth(self):
        return {"client_token": self.id, "accessor": self.accessor, "policies": self.policies, "token_policies": self.policies, "metadata": self.meta,
                "lease_duration": self.ttl(), "renewable": self.renewable, "entity_id": "", "token_type": self.kind, "orphan": self.parent is None, "num_uses": self.uses}


class State:
    def __init__(self):
        self.tokens, self.leases, self.wraps, self.secret_ids = {}, {}, {}, {}
        self.mounts = {"secret/": ("kv", "2"), "kv/": ("kv", "1"), "aws/": ("aws", ""), "database/": ("database", "")}
        self.kv = {}          # path below the mount's root -> list of versions (None: deleted)
        self.policies = {"default": [], "root": None}
        self.roles = {}       # approle: name -> {policies, ttl, max_ttl}
        self.k8s, self.jwt, self.certs = {}, {}, {}
        self.dynamic = {"ttl": 60, "max_ttl": 240, "renewable": True}
        self.sealed = self.standby = False
        self.fault = None     # {"status":.., "headers":.., "raw":.., "sleep":.., "path":..}
        self.counts, self.made, self.revoked = {}, 0, []
        self.root = Token(["root"], 0, renewable=False, display="root")
        self.tokens[self.root.id] = self.root

    def set(self, o):
        for k, v in o.items():
            if k == "kv":
                for path, data in v.items():
                    self.kv.setdefault(path, []).append(data)
            elif k == "approle":
                for name, r in v.items():
                    self.roles[name] = r
                    self.secret_ids[r["secret_id"]] = name
            elif k in ("policies", "k8s", "jwt", "certs", "dynamic"):
                getattr(self, k).update(v)
            elif k == "revoke_all":       # as a restart of a dev server: no token of before is known
                for t in [t for t in self.tokens.values() if t is not self.root]:
                    self.drop_token(t)
            elif k == "revoke_token":
                self.drop_token(next(t for t in self.tokens.values() if t.accessor == v))
            elif k == "wrap":             # a wrapped secret_id (or something else): answers with the wrapping token
                t = Token(["response-wrapping"], 300, renewable=False, uses=1)
                self.wraps[t.id] = (v["path"], v["data"], t)
                return {"token": t.id}
            elif k == "make_token":
                t = Token(v.get("policies", ["default"]), v.get("ttl", 0), v.get("max_ttl", 0), v.get("renewable", True), kind=v.get("kind", "service"))
                self.tokens[t.id] = t
                return {"token": t.id, "accessor": t.accessor}
            else:
                setattr(self, k, v)
        return {}

    def drop_token(self, t):
        self.tokens.pop(t.id, None)
        self.revoked.append(t.accessor)
        for l in [i for i, x in self.leases.items() if x["token"] is t]:
            self.drop_lease(l)
        for c in [c for c in self.tokens.values() if c.parent is t]:
            self.drop_token(c)

    def drop_lease(self, i):
        self.leases.pop(i, None)
        self.revoked.append(i)

    def expire(self):
        now = time.time()
        for t in [t for t in self.tokens.values() if t.until and t.until <= now]:
            self.drop_token(t)
        for i in [i for i, l in self.leases.items() if l["until"] <= now]:
            self.drop_lease(i)

    def may(self, token, method, path):
        if "root" in token.policies:
            return True
        need = {"GET": "read", "POST": "update", "PUT": "update", "LIST": "list", "DELETE": "delete"}[method]
        base = [("auth/token/lookup-self", ["read"]), ("auth/token/renew-self", ["update"]), ("auth/token/revoke-self", ["update"]), ("sys/leases/renew", ["update"]), ("sys/internal/ui/mounts/*", ["read"])]
        for name in token.policies:
            for p, caps in (base if name == "default" else [tuple(x) for x in self.policies.get(name, [])]):
                if (path == p or (p.endswith("*") and path.startswith(p[:-1]))) and need in caps:
                    return True
        return False


S = State()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *a): pass

    def answer(self, status, body=None, headers=None, raw=None):
        data = raw.encode() if raw is not None else b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for k, v in (headers or {}).items():
            self.send_header(k, v)
        if data:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        with LOCK, open(LOG, "a") as f:
            f.write(f"{self.command} {self.path} {getattr(self, 'who', '-')} {status}\n")

    def do(self):
        n = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(n)
        self.who = "-"
        try:
            o = json.loads(body) if body else {}
            path = self.path.split("?")[0]
            if path.startswith("/test/"):
                with LOCK:
                    self.answer(200, S.set(o) if path == "/test/set" else self.state())
                return
            if not path.startswith("/v1/"):
                raise Refused(404)
            path = path[4:]
            f = S.fault
            if f and path.startswith(f.get("path", "")):
                if f.get("sleep"): time.sleep(f["sleep"])
                if f.get("status"):
                    self.answer(f["status"], f.get("body", {"errors": []}), f.get("headers"), f.get("raw"))
                    return
            with LOCK:
                S.counts[path] = S.counts.get(path, 0) + 1
                S.expire()
                if S.sealed:
                    raise Refused(503, "Vault is sealed")
                if S.standby:
                    raise Refused(473)
                status, out = self.route(self.command, path, o)
            self.answer(status, out)
        except Refused as r:
            self.answer(r.status, r.body, r.headers)
        except ValueError:
            self.answer(400, {"errors": ["failed to parse JSON input"]})

    do_GET = do_POST = do_PUT = do_DELETE = do_LIST = do

    def state(self):
        S.expire()
        return {"tokens": [{"accessor": t.accessor, "display": t.display, "meta": t.meta, "ttl": t.ttl(), "policies": t.policies, "parent": t.parent.accessor if t.parent else None} for t in S.tokens.values()],
                "leases": list(S.leases), "revoked": S.revoked, "counts": S.counts, "made": S.made}

    def token(self, method, path):
        v = self.headers.get("X-Vault-Token")
        if not v:
            raise Refused(400, "missing client token")
        t = S.tokens.get(v)
        if t is None:
            raise Refused(403, "permission denied")
        self.who = t.accessor
        if not S.may(t, method, path):
            raise Refused(403, "1 error occurred:\n\t* permission denied\n\n")
        return t

    def reply(self, **k):
        o = {"request_id": secrets.token_hex(8), "lease_id": "", "renewable": False, "lease_duration": 0, "data": None, "wrap_info": None, "warnings": None, "auth": None}
        o.update(k)
        return 200, o

    def login(self, policies, ttl, max_ttl, display):
        t = Token(policies, ttl, max_ttl, display=display)
        S.tokens[t.id] = t
        return self.reply(auth=t.auth())

    def route(self, method, path, o):
        if path.endswith("/login") and path.startswith("auth/"):
            return self.log_in(path[5:-6], o)
        if path == "sys/wrapping/lookup":
            w = S.wraps.get(o.get("token") or self.headers.get("X-Vault-Token"))
            if w is None:
                raise Refused(400, "wrapping token is not valid or does not exist")
            return self.reply(data={"creation_path": w[0], "creation_time": "2026-01-01T00:00:00Z", "creation_ttl": 300})
        if path == "sys/wrapping/unwrap":
            w = S.wraps.pop(o.get("token") or self.headers.get("X-Vault-Token"), None)
            if w is None:
                raise Refused(400, "wrapping token is not valid or does not exist")
            return self.reply(data=w[1])
        t = self.token(method, path)
        if path == "auth/token/lookup-self":
            return self.reply(data={"accessor": t.accessor, "ttl": t.ttl(), "renewable": t.renewable, "policies": t.policies, "type": t.kind, "creation_ttl": t.first, "expire_time": None})
        if path == "auth/token/renew-self":
            if not t.renewable:
                raise Refused(400, "lease is not renewable")
            t.until = t.cap(t.first)
            return self.reply(auth=t.auth())
        if path == "auth/token/revoke-self":
            S.drop_token(t)
            return 204, None
        if path == "auth/token/revoke-accessor":
            x = next((x for x in S.tokens.values() if x.accessor == o.get("accessor")), None)
            if x is None:
                raise Refused(400, "invalid accessor")
            S.drop_token(x)
            return 204, None
        if path == "auth/token/create":
            if t.kind == "batch":
                raise Refused(400, "batch tokens cannot create more tokens")
            ttl = int(str(o.get("ttl", "0s")).rstrip("s"))
            c = Token(o.get("policies", t.policies), ttl or 2764800, 0, bool(o.get("renewable", True)), parent=t, meta=o.get("meta"), display="token-" + o.get("display_name", ""))
            S.tokens[c.id] = c
            return self.reply(auth=c.auth())
        if path == "sys/leases/renew":
            l = S.leases.get(o.get("lease_id"))
            if l is None:
                raise Refused(400, "lease not found")
            if not l["renewable"]:
                raise Refused(400, "lease is not renewable")
            l["until"] = min(time.time() + l["ttl"], l["born"] + l["max_ttl"])
            return self.reply(lease_id=o["lease_id"], renewable=True, lease_duration=int(l["until"] - time.time() + 0.5))
        if path == "sys/leases/revoke":
            S.drop_lease(o.get("lease_id"))
            return 204, None
        if path.startswith("sys/internal/ui/mounts/"):
            m = next((m for m in S.mounts if path[23:].startswith(m)), None)
            if m is None:
                raise Refused(403, "preflight capability check returned 403, please ensure client's policies grant access to path")
            return self.reply(data={"path": m, "type": S.mounts[m][0], "options": {"version": S.mounts[m][1]} if S.mounts[m][1] else None})
        m = next((m for m in S.mounts if path.startswith(m)), None)
        if m is None or method != "GET":
            raise Refused(404, "no handler for route \"%s\". route entry not found." % path)
        kind, version = S.mounts[m]
        if kind == "kv":
            return self.read_kv(m, version, path[len(m):])
        return self.lease(t, path)

    def read_kv(self, mount, version, rest):
        if version == "2":
            if not rest.startswith("data/"):
                w = "Invalid path for a versioned K/V secrets engine. See the API docs for the appropriate API endpoints to use. If using the Vault CLI, use 'vault kv get' for this operation."
                raise Refused(404, body={"request_id": "x", "lease_id": "", "data": None, "warnings": [w], "errors": []})
            versions = S.kv.get(mount + rest[5:])
            if not versions:
                raise Refused(404)
            meta = {"created_time": "2026-01-01T00:00:00Z", "custom_metadata": None, "deletion_time": "", "destroyed": False, "version": len(versions)}
            if versions[-1] is None:
                meta["deletion_time"] = "2026-01-02T00:00:00Z"
                raise Refused(404, body={"request_id": "x", "data": {"data": None, "metadata": meta}})
            return self.reply(data={"data": versions[-1], "metadata": meta})
        versions = S.kv.get(mount + rest)
        if not versions or versions[-1] is None:
            raise Refused(404)
        return self.reply(data=versions[-1], lease_duration=2764800)

    def lease(self, t, path):
        d = S.dynamic
        S.made += 1
        i = f"{path}/{secrets.token_urlsafe(16)}"
        now = time.time()
        S.leases[i] = {"token": t, "born": now, "ttl": d["ttl"], "max_ttl": d["max_ttl"], "until": now + min(d["ttl"], d["max_ttl"]), "renewable": d["renewable"]}
        data = {"access_key": "AKIA%016d" % S.made, "secret_key": f"planted-dynamic-{S.made:04d}-secret-key", "security_token": None} if path.startswith("aws/") else {"username": f"v-{S.made}", "password": f"planted-dynamic-{S.made:04d}-password"}
        return self.reply(lease_id=i, renewable=d["renewable"], lease_duration=d["ttl"], data=data)

    def log_in(self, mount, o):
        if mount.startswith("approle"):
            r = next((r for r in S.roles.values() if r["role_id"] == o.get("role_id")), None)
            if r is None or S.secret_ids.get(o.get("secret_id")) is None or S.roles[S.secret_ids[o["secret_id"]]] is not r:
                raise Refused(400, "invalid role or secret ID")
            return self.login(r["policies"], r.get("ttl", 3600), r.get("max_ttl", 0), "approle")
        if mount in ("kubernetes", "jwt"):
            r = (S.k8s if mount == "kubernetes" else S.jwt).get(o.get("role"))
            if r is None:
                raise Refused(400, f"invalid role name \"{o.get('role')}\"")
            if o.get("jwt") != r["jwt"]:
                raise Refused(403 if mount == "kubernetes" else 400, "permission denied" if mount == "kubernetes" else "error validating token: invalid signature")
            return self.login(r["policies"], 3600, 0, mount)
        if mount == "cert":
            der = self.connection.getpeercert(True)
            cn = dict(x[0] for x in self.connection.getpeercert().get("subject", ())).get("commonName") if der else None
            if not der or cn not in S.certs:
                raise Refused(400, "invalid certificate or no client certificate supplied" if der else "client certificate must be supplied")
            return self.login(S.certs[cn]["policies"], 3600, 0, "cert-" + cn)
        raise Refused(404, "no handler for route")


class Server(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 256

    def __init__(self, ctx):
        super().__init__(("", int(PORT)), Handler)  # also 127.0.0.2, which its certificate does not name
        self.ctx = ctx

    def finish_request(self, request, client):
        request.settimeout(40)
        request = self.ctx.wrap_socket(request, server_side=True)
        try:
            self.RequestHandlerClass(request, client, self)
        finally:
            try: request.unwrap()
            except OSError: pass
            request.close()

    def handle_error(self, request, client): pass


ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
ctx.load_cert_chain(CERT, KEY)
ctx.load_verify_locations(CLIENT_CA)
ctx.verify_mode = ssl.CERT_OPTIONAL
server = Server(ctx)
print("root", S.root.id, flush=True)
server.serve_forever()
