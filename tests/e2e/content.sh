#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Rules with conditions, through the gateway: query, headers, and content that is looked at before the origin is asked.
# A refused request leaves no trace there; one that passes arrives whole. Pushes are made by git itself.
NAME=content
. "$(dirname "$0")/lib.sh"
can_run
make_pki
PORT=$(free_port) HTTP_PORT=1
export GIT_CONFIG_GLOBAL=$T/gitconfig
git config --global user.name t && git config --global user.email t@t.test && git config --global init.defaultBranch main
git init -q --bare "$T/repo.git" && git -C "$T/repo.git" config http.receivepack true
cat >"$T/origin.py" <<'P'
import http.server, hashlib, os, socketserver, ssl, subprocess, sys
root, port = sys.argv[1], int(sys.argv[2])
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *a): pass
    def content(self):
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            out = b""
            while True:
                n = int(self.rfile.readline(), 16)
                out += self.rfile.read(n); self.rfile.readline()
                if n == 0: return out
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))
    def do(self):
        body = self.content()
        print(self.command, self.path, len(body), hashlib.sha256(body).hexdigest(), flush=True)
        status, headers, out = 200, [("Content-Type", "text/plain")], hashlib.sha256(body).hexdigest().encode()
        if self.path.startswith("/repo.git"):
            path, _, query = self.path.partition("?")
            env = dict(os.environ, GIT_PROJECT_ROOT=root, GIT_HTTP_EXPORT_ALL="1", PATH_INFO=path, QUERY_STRING=query, REQUEST_METHOD=self.command,
                CONTENT_TYPE=self.headers.get("Content-Type", ""), CONTENT_LENGTH=str(len(body)), REMOTE_USER="x", REMOTE_ADDR="127.0.0.1", HTTP_CONTENT_ENCODING=self.headers.get("Content-Encoding", ""))
            r = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True).stdout
            head, _, out = r.partition(b"\r\n\r\n")
            headers = [tuple(l.split(": ", 1)) for l in head.decode().split("\r\n")]
            for k, v in headers:
                if k == "Status": status = int(v.split()[0])
        self.send_response(status)
        for k, v in headers:
            if k != "Status": self.send_header(k, v)
        self.send_header("Content-Length", str(len(out))); self.end_headers(); self.wfile.write(out)
    do_GET = do_POST = do_PUT = do
class S(socketserver.ThreadingMixIn, http.server.HTTPServer): daemon_threads = True
s = S(("127.0.0.1", port), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[3], sys.argv[4]); s.socket = c.wrap_socket(s.socket, server_side=True)
print("ready", flush=True); s.serve_forever()
P
python3 "$T/origin.py" "$T" "$PORT" "$T/up.pem" "$T/up.key" >"$T/origin.log" 2>"$T/origin.err" &
PIDS+=($!)
wait_for 10 grep -q ready "$T/origin.log" || not_ok "the origin starts" "$(cat "$T/origin.err")"
cat >"$WORK/policy.yaml" <<P
version: 1
name: conditions
destinations:
  - host: api.test
    connect: 127.0.0.1:$PORT
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow:
      - GET /search?q=*&state=open|closed
      - { method: GET, path: /versioned, headers: { X-Api-Version: "2022-*" } }
      - { method: GET, regex: "/users/[a-z]{1,8}" }
      - { method: POST, path: /graphql, body: { graphql: { type: mutation, fields: [createPullRequest] } }, id: open-pr }
      - { method: POST, path: /mcp, body: { mcp: { tools: ["read_*"] } } }
      - { method: PUT, path: /put, body: none }
      - GET /repo.git/info/refs?service=git-receive-pack|git-upload-pack
      - POST /repo.git/git-upload-pack
      - { method: POST, path: /repo.git/git-receive-pack, body: { git_push: { refs: ["refs/heads/agent/*"] } } }
    deny:
      - { method: GET, path: /search, query: { q: "*secret*" } }
P
cat >"$WORK/ask.sh" <<'P'
# NAME CURL-ARGUMENTS...: status, and what came
ask() { local n=$1; shift; printf '%s ' "$n"; curl -sS -m 30 -o "out.$n" -w '%{http_code} %{num_connects}\n' "$@"; }
J='Content-Type: application/json'
U=https://api.test
ask query "$U/search?q=a%20b&state=open"
ask query-other "$U/search?q=a&state=open&x=1"
ask query-case "$U/search?q=a&state=Open"
ask query-denied "$U/search?state=open&q=my-SECRET-x"
ask header -H 'X-Api-Version: 2022-11-28' $U/versioned
ask header-none $U/versioned
ask header-alias -H 'X-Api-Version: 2022-11-28' -H 'X_Api_Version: 1999' $U/versioned
ask regex $U/users/bob
ask regex-not $U/users/bob/keys
printf '{"query":"mutation { x: createPullRequest(input: {a: 1}) { id } }"}' >good.json
printf '{"query":"mutation { createPullRequest: deleteRef(input: {a: 1}) { id } }"}' >alias.json
printf '[{"query":"mutation { createPullRequest { id } }"},{"query":"mutation { deleteRef { id } }"}]' >batch.json
ask gql -H "$J" --data-binary @good.json $U/graphql
ask gql-chunked -H "$J" -H 'Transfer-Encoding: chunked' --data-binary @good.json $U/graphql
ask gql-expect -H "$J" -H 'Expect: 100-continue' --data-binary @good.json $U/graphql
ask gql-alias -H "$J" --data-binary @alias.json $U/graphql
ask gql-batch -H "$J" --data-binary @batch.json $U/graphql
gzip -k good.json
ask gql-gzip -H "$J" -H 'Content-Encoding: gzip' --data-binary @good.json.gz $U/graphql
ask gql-type -H 'Content-Type: text/plain' --data-binary @good.json $U/graphql
ask gql-none -X POST $U/graphql
{ printf '{"query":"mutation { createPullRequest(b: \\"'; head -c 60000 /dev/zero | tr '\0' x; printf '\\") { id } }"}'; } >near.json
{ printf '{"query":"mutation { createPullRequest(b: \\"'; head -c 70000 /dev/zero | tr '\0' x; printf '\\") { id } }"}'; } >large.json
ask gql-near -H "$J" --data-binary @near.json $U/graphql
ask gql-large -H "$J" --data-binary @large.json $U/graphql
ask gql-large-chunked -H "$J" -H 'Transfer-Encoding: chunked' --data-binary @large.json $U/graphql
ask mcp -H "$J" --data-binary '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_x","arguments":{}}}' $U/mcp
ask mcp-not -H "$J" --data-binary '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"write_x","arguments":{}}}' $U/mcp
ask put-none -X PUT $U/put
ask put-some -X PUT --data x $U/put
# a refusal of content that was read leaves the connection good for the next request
curl -sS -m 30 -o out.k1 -o out.k2 -w 'kept %{http_code} %{num_connects}\n' -H "$J" --data-binary @alias.json $U/graphql --next -sS -m 30 -o out.k2 -w 'kept %{http_code} %{num_connects}\n' -H "$J" --data-binary @good.json $U/graphql
P
run bash ask.sh >"$T/asked" 2>"$T/asked.err" || not_ok "the requests are made" "$(tail "$T/asked.err")"
is() { has "$1" "$T/asked" "$2 $3"; } # TEXT NAME STATUS
is "F16 a closed query passes" query 200
is "F16 a further key does not" query-other 403
is "F16 values are case-sensitive" query-case 403
is "F16 in a deny case does not matter" query-denied 403
is "a header that must be there" header 200
is "and is not" header-none 403
is "B09 its alias is looked at too" header-alias 403
is "a regular expression" regex 200
is "is for the whole path" regex-not 403
is "F17 a mutation that may" gql 200
is "F17 also in chunks" gql-chunked 200
is "F17 also when the client asks first" gql-expect 200
is "F17 an alias hides nothing" gql-alias 403
is "F17 each operation of a batch counts" gql-batch 403
is "F17 compressed content is not guessed at" gql-gzip 403
is "F17 another type neither" gql-type 403
is "F17 no content at all" gql-none 403
is "content just below the limit" gql-near 200
is "content over the limit is too large" gql-large 413
is "also in chunks" gql-large-chunked 413
is "a tool that may be called" mcp 200
is "one that may not" mcp-not 403
is "body: none without content" put-none 200
is "body: none with content" put-some 403
[ "$(grep '^kept' "$T/asked" | tr '\n' ' ')" = "kept 403 1 kept 200 0 " ] && ok "a refusal of held content keeps the connection" || not_ok "a refusal of held content keeps the connection" "$(grep '^kept' "$T/asked")"
has "the refused call has its error form and id" "$WORK/out.mcp-not" '"id":7'
for n in gql gql-chunked gql-expect; do [ "$(cat "$WORK/out.$n")" = "$(sha256sum <"$WORK/good.json" | cut -d' ' -f1)" ] && ok "held content arrives whole ($n)" || not_ok "held content arrives whole ($n)" "$(cat "$WORK/out.$n")"; done
[ "$(cat "$WORK/out.gql-near")" = "$(sha256sum <"$WORK/near.json" | cut -d' ' -f1)" ] && ok "held content arrives whole (60 KB)" || not_ok "held content arrives whole (60 KB)"
[ "$(grep -c ' /graphql ' "$T/origin.log")" -eq 5 ] && ok "nothing of a refused request reaches the origin" || not_ok "nothing of a refused request reaches the origin" "$(cat "$T/origin.log")"
# git
cat >"$WORK/push.sh" <<'P'
set -u
git init -q repo && cd repo && git config user.name t && git config user.email t@t.test
head -c 400000 /dev/urandom >big && git add big && git commit -qm one
git push -q https://api.test/repo.git HEAD:refs/heads/agent/one 2>../push1; echo "agent $?" >>../pushed
git -c http.postBuffer=4096 push -q https://api.test/repo.git HEAD:refs/heads/agent/two 2>../push2; echo "small $?" >>../pushed
git push -q https://api.test/repo.git HEAD:refs/heads/main 2>../push3; echo "main $?" >>../pushed
git push -q https://api.test/repo.git HEAD:refs/heads/agent/three HEAD:refs/heads/main 2>../push4; echo "both $?" >>../pushed
git push -q https://api.test/repo.git :refs/heads/agent/one 2>../push5; echo "delete $?" >>../pushed
P
rm -f "$WORK/pushed"
run bash push.sh >"$T/push.out" 2>&1
refs=$(git -C "$T/repo.git" for-each-ref --format='%(refname)' | tr '\n' ' ')
[ "$refs" = "refs/heads/agent/one refs/heads/agent/two " ] && ok "F18 git pushes what may be pushed, and nothing else" || not_ok "F18 git pushes what may be pushed, and nothing else" "refs: $refs" "$(cat "$WORK"/push[0-9] "$WORK/pushed" "$T/push.out")"
has "F18 a push to another branch is refused" "$WORK/push3" "403"
[ "$(record_count '"kind":"request"' too_large)" -eq 2 ] && ok "too_large is recorded" || not_ok "too_large is recorded" "$(record_count too_large)"
has "the rule that looked is recorded" <(record_lines; records | grep -o '"uid":"open-pr"') open-pr
check_done
