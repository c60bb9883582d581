# SPDX-License-Identifier: Apache-2.0
# An origin for tests of credentials: HTTP/1.1 and HTTP/2 over TLS; every request that arrives is a line of JSON in the log.
#	credorigin.py PORT LOG CERT KEY [APP]     APP: a Python file with answer(request) -> (status, [(name, value)], content)
# A request: version, method, host, path (with its query), headers [[name, value]], body (bytes; in the log as latin-1).
import http.server, json, runpy, socketserver, ssl, sys, threading
import h2.config, h2.connection, h2.events, h2.exceptions

lock = threading.Lock()
class Request(dict):
    def __getattr__(self, k): return self[k]
    def get_header(self, name, otherwise=""):
        for k, v in self.headers:
            if k.lower() == name: return v
        return otherwise
def echo(r):
    return 200, [("Content-Type", "application/json")], json.dumps({"path": r.path, "headers": r.headers, "body": r.body[:4000].decode("latin-1")}).encode()
answer = echo
def handle(version, method, host, path, headers, body):
    r = Request(version=version, method=method, host=host, path=path, headers=headers, body=body)
    with lock: print(json.dumps({**r, "body": body.decode("latin-1")}), file=log, flush=True)
    return answer(r)
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *a): pass
    def content(self):
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            out = b""
            while True:
                n = int(self.rfile.readline().split(b";")[0], 16)
                out += self.rfile.read(n); self.rfile.readline()
                if n == 0: return out
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))
    def do(self):
        body = self.content()
        status, headers, out = handle("h1", self.command, self.headers.get("Host", ""), self.path, [[k, v] for k, v in self.headers.items()], body)
        self.send_response(status)
        for k, v in headers: self.send_header(k, v)
        if isinstance(out, bytes):
            if not any(k.lower() == "content-length" for k, _ in headers): self.send_header("Content-Length", str(len(out)))
            self.end_headers()
            if self.command != "HEAD": self.wfile.write(out)
            return
        self.send_header("Transfer-Encoding", "chunked"); self.end_headers() # pieces, one by one
        for piece in out: self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece)); self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
    def __getattr__(self, name):
        if name.startswith("do_"): return self.do
        raise AttributeError(name)
def serve_h2(s):
    c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8", validate_inbound_headers=False))
    c.initiate_connection(); s.sendall(c.data_to_send())
    heads, bodies = {}, {}
    while True:
        d = s.recv(65536)
        if not d: return
        for e in c.receive_data(d):
            sid = getattr(e, "stream_id", None)
            if isinstance(e, h2.events.RequestReceived): heads[sid] = e.headers; bodies[sid] = b""
            elif isinstance(e, h2.events.DataReceived):
                bodies[sid] += e.data
                if e.flow_controlled_length:
                    try: c.acknowledge_received_data(e.flow_controlled_length, sid)
                    except h2.exceptions.ProtocolError: pass
            elif isinstance(e, h2.events.StreamEnded):
                p = dict(heads[sid])
                status, headers, out = handle("h2", p[":method"], p[":authority"], p[":path"], [[k, v] for k, v in heads[sid] if not k.startswith(":")], bodies.pop(sid))
                out = out if isinstance(out, bytes) else b"".join(out)
                c.send_headers(sid, [(":status", str(status))] + [(k.lower(), v) for k, v in headers], end_stream=not out)
                for i in range(0, len(out), 16000): c.send_data(sid, out[i:i + 16000], end_stream=i + 16000 >= len(out)) # not more than a window
        s.sendall(c.data_to_send())
class S(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = allow_reuse_address = True
    request_queue_size = 64
    def finish_request(self, raw, addr):
        try:
            s = ctx.wrap_socket(raw, server_side=True)
            if s.selected_alpn_protocol() == "h2": serve_h2(s)
            else: H(s, addr, self)
        except OSError: pass
    def handle_error(self, request, addr):
        if not isinstance(sys.exc_info()[1], OSError): super().handle_error(request, addr)
if __name__ == "__main__":
    port, log = int(sys.argv[1]), open(sys.argv[2], "a", 1)
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); ctx.load_cert_chain(sys.argv[3], sys.argv[4]); ctx.set_alpn_protocols(["h2", "http/1.1"])
    if len(sys.argv) > 5: answer = runpy.run_path(sys.argv[5])["answer"]
    s = S(("127.0.0.1", port), H)
    print("up", file=log, flush=True); s.serve_forever()
