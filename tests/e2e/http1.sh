#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What HTTP/1.1 clients see between the head and the end: asked-first uploads, interim responses, trailers, the forms of a
# refusal, the line that counts them. The origin is scripted: it says exactly what a test needs, and tells what it saw.
NAME=http1
. "$(dirname "$0")/lib.sh"
can_run
make_pki
cat >"$T/origin.py" <<'P'
import re, socket, ssl, sys, threading, time
port, log = int(sys.argv[1]), open(sys.argv[2], "w", 1)
ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); ctx.load_cert_chain(sys.argv[3], sys.argv[4])
l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); l.bind(("127.0.0.1", port)); l.listen(50)
lock = threading.Lock()
def tell(*a):
    with lock: print(*a, file=log)
def serve(raw):
    try: s = ctx.wrap_socket(raw, server_side=True)
    except OSError: return
    s.settimeout(30); f = s.makefile("rb")
    while True:
        line = f.readline()
        if not line: return
        path = line.split()[1].decode(); head = {}
        while True:
            h = f.readline().decode("latin-1").rstrip("\r\n")
            if not h: break
            k, v = h.split(":", 1); head[k.lower()] = v.strip()
        expect = head.get("expect", "-"); n = int(head.get("content-length", 0))
        tell("head", path, "expect=" + expect, "te=" + head.get("te", "-"))
        if path.startswith("/v1/ask-no"):
            s.sendall(b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 3\r\n\r\nno\n")
            s.settimeout(2)
            try: d = f.read(1)
            except OSError: d = b""
            tell("content", path, len(d)); return
        if path.startswith("/v1/ask-slow"): pass # says nothing until it has the content
        elif expect != "-": s.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if path.startswith("/v1/stall-head"): time.sleep(30); return
        if path.startswith("/v1/drip"): # a head that never ends, an octet at a time
            try:
                s.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                for _ in range(90): s.sendall(b"x"); time.sleep(0.5)
            except OSError: pass
            return
        body = f.read(n) if n else b""
        if "transfer-encoding" in head:
            last = b""
            while True:
                try: l2 = f.readline()
                except OSError: return
                if not l2: return
                if l2 == b"\r\n" and last == b"0\r\n": break
                last = l2
        tell("content", path, len(body))
        if path.startswith("/v1/hints"):
            for st in ("103 Early Hints", "102 Processing", "103 Early Hints"): s.sendall(("HTTP/1.1 %s\r\nLink: </a.css>\r\n\r\n" % st).encode())
        if path.startswith("/v1/trailers"):
            s.sendall(("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5;n=\"v\"\r\nhello\r\n0\r\nX-Sum: 1\r\nX-Auth: %s\r\nContent-Length: 9\r\nSet-Cookie: a=b\r\n\r\n" % head.get("authorization", "")).encode())
        elif path.startswith("/v1/stall-body"): s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\nhello\n"); time.sleep(30); return
        elif path.startswith("/v1/long"): s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000)
        elif path.startswith("/v1/endless"):
            s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(200): s.sendall(b"64\r\n" + b"x" * 100 + b"\r\n")
        else: s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n")
tell("up")
while True:
    c, _ = l.accept(); threading.Thread(target=serve, args=(c,), daemon=True).start()
P
PORT=$(free_port) HTTP_PORT=1
python3 "$T/origin.py" "$PORT" "$T/origin.log" "$T/up.pem" "$T/up.key" >"$T/origin.out" 2>&1 &
PIDS+=($!)
wait_for 10 grep -q up "$T/origin.log" || not_ok "the origin starts" "$(cat "$T/origin.out")"
write_policy
sed -i 's|POST /v1/post|POST /v1/**\n      - PUT /v1/**|' "$WORK/policy.yaml"
head -c 300000 /dev/zero >"$WORK/up.bin"
cat >"$WORK/drip.py" <<'P'
# a request head that never ends, an octet at a time: what comes back
import socket
s = socket.create_connection(("127.0.0.1", 3128), 10); s.settimeout(0.5); s.sendall(b"GET http://plain.test/drip HTTP/1.1\r\nHost: plain.test\r\nX-Slow: "); got = b""
for _ in range(90):
    try: s.sendall(b"x")
    except OSError: break
    try:
        d = s.recv(1000); got += d
        if not d: break
    except TimeoutError: pass
print("drip", got.split(b"\r\n")[0].decode(), b"head_timeout" in got)
P
cat >"$WORK/all.sh" <<'S'
c() { curl --http1.1 -sS -m 30 "$@"; echo; }
python3 drip.py >drip.client & # both take the 20 s that a head may take, beside the rest
curl --http1.1 -sS -m 60 -w '%{http_code}\n' https://api.test/v1/drip >drip.origin &
echo "== hints"; c https://api.test/v1/hints https://api.test/v1/hints2 -w '%{http_code}\n'
echo "== ask-yes"; c --expect100-timeout 25 -H 'Expect: 100-continue' -T up.bin https://api.test/v1/ask-yes -w '%{http_code} %{size_upload}\n'
echo "== ask-no"; c --expect100-timeout 25 -H 'Expect: 100-continue' -T up.bin https://api.test/v1/ask-no -w '%{http_code} %{size_upload}\n'
echo "== ask-slow"; c --expect100-timeout 25 -H 'Expect: 100-continue' -T up.bin https://api.test/v1/ask-slow -w '%{http_code} %{size_upload}\n'
echo "== ask-denied"; c --expect100-timeout 25 -H 'Expect: 100-continue' -T up.bin https://api.test/v1/hidden/up -w '%{http_code} %{size_upload}\n'
echo "== trailers"; c --raw -H 'TE: trailers' https://api.test/v1/trailers1
echo "== no-trailers"; c --raw https://api.test/v1/trailers2
echo "== rpc"; c -i -H 'Content-Type: application/json' -d '{"jsonrpc":"2.0","id":41,"method":"m"}' https://api.test/v1/hidden/mcp
echo "== rpc-refused-host"; c -H 'Content-Type: application/json' -d '{"jsonrpc":"2.0","id":"x","method":"m"}' https://other.test/mcp
echo "== rpc-keeps"; curl --http1.1 -sS -m 30 -o /dev/null -o /dev/null -w '%{http_code} %{num_connects}\n' -H 'Content-Type: application/json' -d '{"jsonrpc":"2.0","id":1,"method":"m"}' https://api.test/v1/hidden/mcp https://api.test/v1/hidden/mcp2
echo "== graphql"; c -H 'Content-Type: application/json' -d '{"query":"{ a }"}' https://api.test/v1/hidden/graphql
echo "== override"; c -d x 'https://api.test/v1/x?a=b&%5Fmethod=DELETE'
echo "== no-override"; c -d x 'https://api.test/v1/x?a_method=DELETE&b=_method'
wait
S
(cd "$WORK" && E2E_SECRET=$SECRET timeout 200 "$SP" run --policy policy.yaml -- sh all.sh) >"$T/all" 2>"$T/err"
part() { sed -n "/^== $1\$/,/^== /p" "$T/all" >"$T/out"; }
part hints; has "UA01 interim responses are not the answer" "$T/out" "200"
[ "$(grep -c hello "$T/out")" -eq 2 ] && ok "UA01 nor do they disturb the next one" || not_ok "UA01 nor do they disturb the next one" "$(cat "$T/out")"
part ask-yes; has "UA02 I08 the origin's 100 lets the content come" "$T/out" "200 300000"
has "UA02 the origin was asked" "$T/origin.log" "head /v1/ask-yes expect=100-continue"
part ask-no; has "UA02 the origin's refusal reaches the client" "$T/out" "417 0"
has "UA02 and no content reached the origin" "$T/origin.log" "content /v1/ask-no 0"
part ask-slow; has "an origin that does not know Expect gets the content all the same" "$T/out" "200 300000"
part ask-denied; has "UA02 I09 refused at once, nothing sent" "$T/out" "403 0"
hasnt "UA02 nor did the origin see it" "$T/origin.log" "hidden"
part trailers; has "I14 UA18 trailers reach who asked for them" "$T/out" "X-Sum: 1"
has "UA18 the content is whole, extensions are gone" "$T/out" "hello"
hasnt "UA18 no extension" "$T/out" 'n="v"'
hasnt "I14 a trailer that frames is dropped" "$T/out" "Content-Length: 9"
hasnt "I14 a trailer that sets state is dropped" "$T/out" "Set-Cookie"
has "J09 a trailer that echoes arrives" "$T/out" "X-Auth: Bearer "
part no-trailers; hasnt "I14 who did not ask gets none" "$T/out" "X-Sum"
hasnt "B03 TE is not forwarded" "$T/origin.log" "te=trailers"
part rpc; has "a JSON-RPC call gets its error" "$T/out" '{"jsonrpc":"2.0","id":41,"error":{"code":-32001,"message":"sallyport policy_denied: '
has "with the status of a refusal" "$T/out" "HTTP/1.1 403 sallyport policy_denied"
part rpc-refused-host; has "also from a host that is refused" "$T/out" '{"jsonrpc":"2.0","id":"x","error":{'
part rpc-keeps; [ "$(sed -n 2,3p "$T/out" | tr '\n' ' ')" = "403 1 403 0 " ] && ok "the connection is kept: its content was read" || not_ok "the connection is kept: its content was read" "$(cat "$T/out")"
part graphql; has "a GraphQL query gets its errors" "$T/out" '{"data":null,"errors":[{"message":"sallyport policy_denied: '
part override; has "B06 a method in the query is refused" "$T/out" '"error":"policy_denied"'
part no-override; has "B06 what only looks like it is not" "$T/out" hello
hasnt "B06 the origin did not see it" "$T/origin.log" "5Fmethod"
has "K15 a response head that never ends" "$WORK/drip.origin" "504"
has "K15 and it says so" "$WORK/drip.origin" "did not finish its response head in time"
has "D11 a request head that never ends" "$WORK/drip.client" "drip HTTP/1.1 400 sallyport malformed_request True"
has "the line after the run counts the refusals" "$T/err" "8 of 17 requests were refused: sallyport logs --denied"
hasnt "no secret in any answer" "$T/all" "$SECRET"
# a push that cannot pass is refused before anything is packed
git init -q "$WORK/src" && (cd "$WORK/src" && echo x >f && git add f && git -c user.name=t -c user.email=t@t.invalid commit -qm one) >"$T/git.log" 2>&1
run sh -c 'cd src && git push https://api.test/v1/repo.git HEAD:refs/heads/x' >"$T/out" 2>&1
sed -i 's|POST /v1/\*\*|POST /v1/x|' "$WORK/policy.yaml"
run sh -c 'cd src && git push https://api.test/v1/repo.git HEAD:refs/heads/x' >"$T/out" 2>&1
has "a push in vain is refused at info/refs, readably" "$T/out" "allows fetching here, not pushing"
# what a destination limits for itself
sed -i 's|^    inject:|    limits: { request_body: 1000B, response_body: 1000B, head: 2s, idle: 3s }\n    inject:|; s|POST /v1/x|POST /v1/**|' "$WORK/policy.yaml"
head -c 1001 /dev/zero >"$WORK/over"; head -c 1000 /dev/zero >"$WORK/just"
cat >"$WORK/limits.sh" <<'S'
c() { curl --http1.1 -sS -m 30 -o body -w '%{http_code} %{exitcode}' "$@"; echo " $(head -c 300 body | tr -d '\n\0')"; rm -f body; }
echo "just $(c -T just https://api.test/v1/just)"
echo "over $(c -T over https://api.test/v1/over)"
echo "chunked $(c -H 'Transfer-Encoding: chunked' -T over https://api.test/v1/over-chunked)"
echo "long $(c https://api.test/v1/long)"
echo "endless $(c https://api.test/v1/endless)"
echo "head $(c https://api.test/v1/stall-head)"
echo "idle $(c https://api.test/v1/stall-body)"
S
run sh limits.sh >"$T/out" 2>&1
has "limits: content of just that size passes" "$T/out" "just 200 0 hello"
has "limits: more is refused" "$T/out" 'over 413 0 {"v":1,"error":"too_large"'
has "limits: also without a length" "$T/out" 'chunked 413 0 {"v":1,"error":"too_large"'
hasnt "limits: the origin never took it for the whole" "$T/origin.log" "content /v1/over"
has "limits: a response that is too long" "$T/out" 'long 502 0 {"v":1,"error":"too_large"'
if grep -q '^endless 200 \(18\|56\|92\)' "$T/out"; then ok "limits: one without a length is cut off, and the client can tell"; else not_ok "limits: one without a length is cut off, and the client can tell" "$(cat "$T/out")"; fi
has "limits: a head that does not come" "$T/out" 'head 504 0 {"v":1,"error":"upstream_timeout"'
if grep -q '^idle 200 \(18\|56\)' "$T/out"; then ok "limits: content that stops coming"; else not_ok "limits: content that stops coming" "$(cat "$T/out")"; fi
record_lines >"$T/log"
has "limits: recorded" "$T/log" "request deny too_large PUT api.test 443 /v1/over 413"
check_done
