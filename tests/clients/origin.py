# SPDX-License-Identifier: Apache-2.0
"""Takes uploads behind nginx: origin.py SOCKET LOG. Answers with length and SHA-256 of what came, and logs one line for each:
HOST METHOD PATH LENGTH SHA256 ATTACHMENT, the last being the SHA-256 of what an npm publish carries, or -."""
import base64, gzip, hashlib, http.server, json, os, socketserver, sys


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        digest, inner = hashlib.sha256(body).hexdigest(), "-"
        if self.headers.get("Content-Type", "").startswith("application/json"):
            plain = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            for a in json.loads(plain).get("_attachments", {}).values():
                inner = hashlib.sha256(base64.b64decode(a["data"])).hexdigest()
        with open(sys.argv[2], "a") as f:
            f.write(f"{self.headers.get('Host')} {self.command} {self.path} {len(body)} {digest} {inner}\n")
        answer = b"{}" if "/-/npm/" in self.path else json.dumps({"ok": True, "length": len(body), "sha256": digest}).encode()  # npm: nothing to report
        self.send_response(201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_PUT

    def address_string(self):
        return "nginx"

    def log_message(self, *a):
        pass


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


Server(sys.argv[1], Handler).serve_forever()
