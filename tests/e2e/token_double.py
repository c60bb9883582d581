#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Token end-points for the tests: OAuth 2.0 (RFC 6749 4.4, 6), GitHub App installation tokens, Google service accounts
(RFC 7523). What is asked with is checked: the client's authentication, signatures (by openssl), claims and their times.

	token_double.py PORT CERT KEY PUBLIC-KEY LOG
"""
import base64, json, ssl, subprocess, sys, tempfile, threading, time, urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, CERT, KEY, PUBLIC, LOG = sys.argv[1:6]
COUNT, LOCK, LIFE = {}, threading.Lock(), {"s": 3600, "wait": 0}
REFRESH = ["planted-refresh-0"]


def unb64(s): return base64.urlsafe_b64decode(s + "=" * (-len(s) % 4))


def claims(jwt):
    head, body, sig = jwt.split(".")
    assert json.loads(unb64(head))["alg"] == "RS256"
    with tempfile.NamedTemporaryFile() as f:
        f.write(unb64(sig))
        f.flush()
        subprocess.run(["openssl", "dgst", "-sha256", "-verify", PUBLIC, "-signature", f.name], input=(head + "." + body).encode(), check=True, capture_output=True)
    c = json.loads(unb64(body))
    assert c["iat"] <= time.time() + 1 and time.time() < c["exp"]
    return json.loads(unb64(head)), c


def number(kind):
    with LOCK:
        COUNT[kind] = COUNT.get(kind, 0) + 1
        return COUNT[kind]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *a): pass

    def answer(self, status, o):
        data = json.dumps(o).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        with LOCK, open(LOG, "a") as f:
            f.write(f"{self.path} {status}\n")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        try:
            self.answer(*self.route(body))
        except Exception as e:
            self.answer(400, {"error": "invalid_request", "error_description": repr(e)[:80]})

    def route(self, body):
        auth = self.headers.get("Authorization", "")
        if self.path == "/life":
            LIFE["s"] = int(body)
            return 200, {}
        if self.path == "/wait":  # how long an exchange takes, which has been made by then
            LIFE["wait"] = int(body)
            return 200, {}
        if self.path.startswith("/app/installations/"):
            assert self.path == "/app/installations/678/access_tokens" and auth.startswith("Bearer ")
            c = claims(auth[7:])[1]
            assert c["iss"] == "12345" and c["exp"] - c["iat"] <= 600, c
            o = json.loads(body)
            assert o == {"repositories": ["widgets"], "permissions": {"contents": "read", "issues": "write"}}, o
            return 201, {"token": "ghs_planted-installation-%d" % number("github"), "expires_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + LIFE["s"]))}
        f = dict(urllib.parse.parse_qsl(body, strict_parsing=True))
        if self.path == "/google":
            assert f["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
            h, c = claims(f["assertion"])
            assert h["kid"] == "key-1" and c["iss"] == "robot@acme.test" and c["aud"].endswith("/google") and c["exp"] - c["iat"] == 3600, c
            if "target_audience" in c:
                return 200, {"id_token": "planted-identity-%d" % number("identity")}
            assert c["scope"] == "https://scope.test/a", c
            return 200, {"access_token": "planted-google-%d" % number("google"), "expires_in": LIFE["s"], "token_type": "Bearer"}
        if self.path == "/oauth/token":
            if f["grant_type"] == "client_credentials":
                if auth.startswith("Basic "):
                    who = [urllib.parse.unquote(x) for x in base64.b64decode(auth[6:]).decode().split(":")]
                else:
                    who = [f.get("client_id"), f.get("client_secret")]
                if who != ["acme:robot", "planted client/secret"]:
                    return 401, {"error": "invalid_client", "error_description": "who is that?"}
                assert f.get("scope") == "read write", f
                n = number("post" if not auth else "basic")
                return 200, {"access_token": "planted-access-%s-%d" % ("basic" if auth else "post", n), "expires_in": LIFE["s"], "token_type": "bearer"}
            with LOCK:
                if f["grant_type"] != "refresh_token" or f["refresh_token"] != REFRESH[-1] or f["client_id"] != "public":
                    return 400, {"error": "invalid_grant"}
                REFRESH.append("planted-refresh-%d" % len(REFRESH))
                next = REFRESH[-1]
            if LIFE["wait"]:
                with open(LOG, "a") as log:
                    log.write("exchange under way\n")
                time.sleep(LIFE["wait"])
            return 200, {"access_token": "planted-refreshed-%d" % number("refresh"), "expires_in": LIFE["s"], "token_type": "Bearer", "refresh_token": next}
        return 404, {}


class Server(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 64

    def finish_request(self, request, client):
        request.settimeout(30)
        request = ctx.wrap_socket(request, server_side=True)
        self.RequestHandlerClass(request, client, self)

    def handle_error(self, request, client): pass


ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
ctx.load_cert_chain(CERT, KEY)
s = Server(("127.0.0.1", int(PORT)), Handler)
print("ready", flush=True)
s.serve_forever()
