#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# HTTP/2 toward the sandbox and toward upstreams: every pairing with HTTP/1.1, with ordinary clients and servers; then what
# only a scripted client or upstream shows (h2/client.py, h2/origin.py).
NAME=http2
. "$(dirname "$0")/lib.sh"
can_run
HERE=$(cd "$(dirname "$0")" && pwd)
sans="DNS:h1.test,DNS:h2.test,DNS:cookie1.test,DNS:cookie2.test,DNS:scr.test,DNS:want.test,DNS:grpc.test"
make_pki "$sans"
H1=$(free_port) H2=$(free_port) SCR=$(free_port) GRPC=$(free_port) PLAIN=$(free_port)
mkdir -p "$T/ngx/b"
head -c 8388608 /dev/urandom >"$T/ngx/big"
head -c 1024 /dev/urandom >"$T/ngx/small"
site() { # one server: port, word behind ssl, directory of uploads
	cat <<C
	server {
		listen 127.0.0.1:$1 ssl $2; ssl_certificate $T/up.pem; ssl_certificate_key $T/up.key; server_name _; keepalive_requests 100000;
		location /v1/hello { add_header X-Saw-Auth \$http_authorization; default_type text/plain; return 200 "hello, you sent \$http_authorization over \$server_protocol\n"; }
		location /v1/big { alias $T/ngx/big; }
		location /v1/small { alias $T/ngx/small; }
		location /v1/close { keepalive_timeout 0; add_header Upgrade h2c; add_header Keep-Alive timeout=9; default_type text/plain; return 200 "closing\n"; }
		location /v1/cookies { add_header Set-Cookie "a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT"; add_header Set-Cookie "b=2"; default_type text/plain; return 200 "cookie=\$http_cookie\n"; }
		location /v1/put { client_body_in_file_only on; add_header X-File \$request_body_file; proxy_http_version 1.1; proxy_pass http://127.0.0.1:$PLAIN/; }
		location /pkg { default_type application/grpc; return 200 ""; }
	}
C
}
cat >"$T/ngx/conf" <<C
daemon off; master_process off; pid $T/ngx/pid; error_log $T/ngx/err.log;
events { worker_connections 1024; }
http {
	client_body_temp_path $T/ngx/b; proxy_temp_path $T/ngx/p; fastcgi_temp_path $T/ngx/f; uwsgi_temp_path $T/ngx/u; scgi_temp_path $T/ngx/s;
	log_format seen '\$server_protocol \$host \$request_method \$request_uri auth=\$http_authorization cookie=\$http_cookie upgrade=\$http_upgrade settings=\$http_http2_settings';
	access_log $T/ngx/access.log seen; client_max_body_size 100m;
$(site "$H1" "")
$(site "$H2" http2)
	server { listen 127.0.0.1:$PLAIN; location / { default_type text/plain; return 200 "plain\n"; } }
}
C
nginx -c "$T/ngx/conf" -e "$T/ngx/err.log" >"$T/ngx/out" 2>&1 &
PIDS+=($!)
wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$H2" || { not_ok "nginx starts" "$(cat "$T/ngx/out" "$T/ngx/err.log")"; exit 1; }
dest() { # host, port, and more lines
	printf '  - host: %s\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { ca: ./upca.pem }\n    allow: [ GET /v1/**, POST /v1/**, PUT /v1/**, POST /pkg.Echo/* ]\n    deny: [ ANY /v1/hidden/**, POST /pkg.Echo/Denied ]\n' "$1" "$2"
	[ -z "${3:-}" ] || printf '    inject: [ { secret: api, as: bearer, env: API_TOKEN } ]\n'
}
{
	printf 'version: 1\nname: h2\nsecrets:\n  api: { env: E2E_SECRET, hosts: [h1.test, h2.test, scr.test, grpc.test] }\ndestinations:\n'
	dest h1.test "$H1" inject; dest h2.test "$H2" inject; dest cookie1.test "$H1"; dest cookie2.test "$H2"; dest scr.test "$SCR" inject; dest want.test "$SCR"; dest grpc.test "$GRPC" inject
	printf '  - host: plain.test\n    scheme: http\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    allow: [ "GET /**" ]\n' "$PLAIN"
} >"$WORK/policy.yaml"
cp "$HERE/h2/client.py" "$WORK/h2c.py"
part() { sed -n "/^== $1\$/,/^== /p" "$T/all" | sed '1d;/^== /d' >"$T/out"; }
lines() { [ "$(cat "$2")" = "$3" ] && ok "$1" || not_ok "$1" "wanted: $3" "$(cat "$2")"; }

# --- every pairing, with curl and nginx ------------------------------------------------------------------------------
big=$(sha256sum <"$T/ngx/big" | cut -d' ' -f1)
cp "$T/ngx/big" "$WORK/up.bin"
cat >"$WORK/pairs.sh" <<'P'
for up in h1 h2; do for cl in http1.1 http2; do
	echo "== $cl-$up"
	curl -sS -m 60 --$cl -w 'version=%{http_version} code=%{http_code}\n' https://$up.test/v1/hello https://$up.test/v1/hidden/x
	curl -sS -m 60 --$cl https://$up.test/v1/big | sha256sum
	curl -sS -m 60 --$cl -D head -T up.bin https://$up.test/v1/put; tr -d '\r' <head | sed -n 's/^x-file: /file=/Ip'
	curl -sS -m 60 --$cl -T up.bin -w 'denied=%{http_code}\n' https://$up.test/v1/hidden/up
	curl -sS -m 60 --$cl -H 'Transfer-Encoding: chunked' -D head -T - https://$up.test/v1/put <up.bin; tr -d '\r' <head | sed -n 's/^x-file: /unsized=/Ip'
	curl -sS -m 60 --$cl -I -o /dev/null -w 'head=%{http_code}\n' https://$up.test/v1/big
done; done
P
run sh pairs.sh >"$T/all" 2>&1
for up in h1 h2; do for cl in http1.1 http2; do
	part "$cl-$up"; cp "$T/out" "$T/pair"
	[ $cl = http2 ] && v=2 || v=1.1
	has "$cl to $up: allowed, over $cl" "$T/pair" "version=$v code=200"
	[ $up = h2 ] && p=HTTP/2.0 || p=HTTP/1.1
	has "$cl to $up: the upstream speaks $p" "$T/pair" "over $p"
	has "$cl to $up: the echo of the secret is overwritten" "$T/pair" "you sent Bearer ********"
	has "$cl to $up: the upstream got it" "$T/ngx/access.log" "$p $up.test GET /v1/hello auth=Bearer $SECRET"
	has "$cl to $up: refused" "$T/pair" "version=$v code=403"
	has "$cl to $up: readably" "$T/pair" '"error":"policy_denied"'
	has "$cl to $up: 8 MiB down" "$T/pair" "$big"
	f=$(sed -n 's/^file=//p' "$T/pair")
	[ -n "$f" ] && [ "$(sha256sum <"$f" | cut -d' ' -f1)" = "$big" ] && ok "$cl to $up: 8 MiB up" || not_ok "$cl to $up: 8 MiB up" "$(cat "$T/pair")"
	f=$(sed -n 's/^unsized=//p' "$T/pair")
	[ -n "$f" ] && [ "$(sha256sum <"$f" | cut -d' ' -f1)" = "$big" ] && ok "$cl to $up: 8 MiB up without a length" || not_ok "$cl to $up: 8 MiB up without a length" "$(cat "$T/pair")"
	has "UA02 $cl to $up: a refused upload is answered readably" "$T/pair" "denied=403"
	has "$cl to $up: HEAD" "$T/pair" "head=200"
	n=$(record_count '"hostname":"'$up.test'"' '"path":"/v1/hello"' '"client_protocol":"HTTP/'$v'"' '"upstream_protocol":"HTTP/'"${p#HTTP/}")
	[ $up = h2 ] && n=$(record_count '"path":"/v1/hello"' '"client_protocol":"HTTP/'$v'"' '"upstream_protocol":"HTTP/2"')
	[ "$n" -eq 1 ] && ok "$cl to $up: the record names both versions" || not_ok "$cl to $up: the record names both versions" "$n"
done; done
hasnt "no secret in any answer" "$T/all" "$SECRET"

# --- ALPN (UB03) and what is no HTTP/2 (UB11) --------------------------------------------------------------------------
cat >"$WORK/alpn.sh" <<'P'
offer() { openssl s_client -connect h1.test:443 -servername h1.test "$@" </dev/null 2>&1 | grep -aE 'ALPN|alert'; }
echo "== h2"; offer -alpn h2
echo "== both"; offer -alpn http/1.1,h2
echo "== one"; offer -alpn http/1.1
echo "== none"; offer
echo "== foo"; offer -alpn foo
echo "== h1only"; curl -sS --no-alpn https://h2.test/v1/hello
pri() { python3 -c '
import os, socket, sys, urllib.parse
s = socket.create_connection(sys.argv[1].split("/")[0].split(":")); s.settimeout(20)
if "/" in sys.argv[1]: s.sendall(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % ((sys.argv[1].split("/")[1].encode(),) * 2)); print(s.recv(4096).split(b"\r\n")[0])
s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
d = b""
while True:
    try: k = s.recv(4096)
    except OSError: break
    if not k: break
    d += k
print(d.split(b"\r\n")[0])' "$1"; }
proxy=${http_proxy#http://}; proxy=${proxy%/}
echo "== pri80"; pri "$proxy/plain.test:80"
echo "== pri443"; pri "$proxy/h2.test:443"
echo "== pri"; pri "$proxy"
echo "== pritransparent"; pri plain.test:80
echo "== knowledge"; curl --noproxy '*' -sS -m 20 --http2-prior-knowledge http://plain.test/ 2>&1
echo "== upgrade"; curl -sS -m 20 --http2 -w 'version=%{http_version}\n' http://plain.test/x 2>&1
P
run sh alpn.sh >"$T/all" 2>&1
part h2; has "UB03 h2 alone is taken, whatever the upstream speaks" "$T/out" "ALPN protocol: h2"
part both; has "UB03 h2 out of both" "$T/out" "ALPN protocol: h2"
part one; has "UB03 http/1.1 alone" "$T/out" "ALPN protocol: http/1.1"
part none; has "G13 no offer, none chosen" "$T/out" "No ALPN negotiated"
part foo; has "G13 no overlap is an alert" "$T/out" "no application protocol"
part h1only; has "G13 without an offer HTTP/1.1 is spoken" "$T/out" "hello, you sent"
part pri80; hasnt "UB11 prior knowledge in a tunnel is not HTTP/2" "$T/out" "SM"
has "UB11 it is refused" "$T/out" "HTTP/1.1 400"
part pri443; has "UB11 nor in one to port 443" "$T/out" "400"
part pri; has "C21 nor on the proxy's port" "$T/out" "HTTP/1.1 400"
part pritransparent; has "C21 nor on a transparent connection" "$T/out" "HTTP/1.1 400"
part knowledge; hasnt "UB11 curl does not get through with it" "$T/out" "plain"
[ "$(record_count '"decision":"deny"' '"code":"malformed_request"' PRI)" -ge 4 ] && ok "UB11 recorded" || not_ok "UB11 recorded" "$(records | grep -c PRI)"
part upgrade; has "UB11 Upgrade: h2c is stripped" "$T/out" "version=1.1"
hasnt "UB11 the upstream did not see it" "$T/ngx/access.log" "upgrade=h2c"

# --- bridging: cookies, connection fields, authority --------------------------------------------------------------------
python3 -c 'import h2' 2>/dev/null || { skip "no python3-h2: the scripted client and upstream"; check_done; }
python3 "$HERE/h2/origin.py" "$SCR" "$T/origin.log" "$T/up.pem" "$T/up.key" >"$T/origin.out" 2>&1 &
PIDS+=($!)
wait_for 10 grep -q up "$T/origin.log" || not_ok "the origin starts" "$(cat "$T/origin.out")"
cat >"$WORK/bridge.py" <<'P'
from h2c import *
def say(name, st, *more): print("== " + name); print(st, *more)
for h in ("cookie1.test", "cookie2.test"):
    k = Client(h)
    st = k.get("/v1/cookies", more=[("cookie", "a=1"), ("cookie", "b=2")])
    say(h, st, st.data.decode().strip(), [v for n, v in st.head if n == "set-cookie"])
k = Client("h1.test")
st = k.get("/v1/close"); say("close", st, sorted(n for n, v in st.head)); say("afterclose", k.get("/v1/hello"))
say("wrong-authority", k.get("/v1/hello", authority="h2.test"))
say("host-agrees", k.get("/v1/hello", more=[("host", "h1.test")]))
say("host-differs", k.get("/v1/hello", more=[("host", "h2.test")]))
say("goes-on", k.get("/v1/hello"))
say("te", k.get("/v1/hello", more=[("te", "gzip")]))
say("connection", k.get("/v1/hello", more=[("connection", "close")]))
say("414", k.get("/v1/" + "a" * 17000))
say("431", k.get("/v1/hello", more=[("x-%d" % i, "v") for i in range(120)]))
say("denied-post", k.post("/v1/hidden/x", b"x" * 100000))
say("last", k.get("/v1/hello"), "goaway=%s" % k.goaway)
for h in ("h1.test", "h2.test"):
    k = Client(h); sid = k.request("/v1/put", "PUT", end=False, more=[("expect", "100-continue"), ("content-length", "3")])
    while not k.streams[sid].interim: k.turn()
    k.send(sid, b"abc"); say("expect-" + h, k.wait(sid), k.streams[sid].interim)
k = Client("h1.test")
try:
    for _ in range(3000): k.cancel(k.request("/v1/small"))
except OSError: pass # it has ended meanwhile
while k.goaway is None: k.turn()
print("== rapid"); print("goaway", k.goaway)
x = ssl.create_default_context(); x.set_alpn_protocols(["h2"]); s = x.wrap_socket(socket.create_connection(("h1.test", 443)), server_hostname="h1.test")
s.sendall(b"GET /v1/hello HTTP/1.1\r\nHost: h1.test\r\n\r\n"); d = b""
while True:
    r = s.recv(4096); d += r
    if not r: break
print("== preface"); print("hello" in d.decode("latin-1"), d[-17:-8].hex())
k = Client("want.test"); say("want11", k.get("/v1/want11")); say("want11-again", k.post("/v1/want11", b"abc"))
k = Client("scr.test")
st = k.get("/v1/hints"); say("hints", st, st.interim)
st = k.get("/v1/trailers", more=[("te", "trailers")]); say("trailers", st, st.trailers)
st = k.get("/v1/only"); say("only", st, st.head)
st = k.get("/v1/nomessage"); say("nomessage", st, st.trailers)
st = k.get("/v1/split"); say("split", st, st.data, dict(st.head).get("x-auth"))
st = k.post("/v1/echo", b"q" * 300000, trailers=[("x-end", "1"), ("private-token", "mine")]); say("echo", st, st.sha.hexdigest())
st = k.post("/v1/echo-empty", b"", trailers=[("x-end", "1")]); say("echo-empty", st)
say("refused", k.get("/v1/refused"))
say("refused-always", k.get("/v1/refused-always"))
say("refused-post", k.post("/v1/refused-post", b"content"))
say("goaway", k.get("/v1/goaway"))
say("dropped", k.get("/v1/dropped"))
say("broken", k.get("/v1/broken"))
st = k.get("/v1/cut"); say("cut", st, st.data)
sid = k.request("/v1/early", "POST", end=False); say("early", k.wait(sid))
sid = k.request("/v1/hang"); k.get("/v1/fine"); k.cancel(sid); say("cancelled", k.get("/v1/fine"))
sid = k.request("/v1/hang2"); k.get("/v1/fine")
print("== end", flush=True)
P
run python3 bridge.py >"$T/all" 2>"$T/err"
has "the scripted client comes to its end" "$T/all" "== end"
is() { part "$1"; has "$2" "$T/out" "$3"; }
is cookie1.test "UB09 crumbs of a Cookie are one field toward HTTP/1.1" "cookie=a=1; b=2"
is cookie1.test "UB09 Set-Cookie stays two fields, in order" "['a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT', 'b=2']"
is cookie2.test "UB09 so it is toward HTTP/2" "cookie=a=1; b=2"
is close "UB10 fields of the connection do not reach HTTP/2" "status=200 octets=8 reset=None ended=True"
hasnt "UB10 none of them" "$T/out" "'connection'"; hasnt "UB10 nor Upgrade" "$T/out" "upgrade"; hasnt "UB10 nor Keep-Alive" "$T/out" "keep-alive"
is afterclose "UB10 the client's connection goes on" "status=200"
is wrong-authority "C14 another authority is 421" "status=421"
is host-agrees "UB10 Host that agrees" "status=200"
is host-differs "UB10 Host that differs is reset" "status=None octets=0 reset=1"
is goes-on "C14 the connection goes on" "status=200"
is te "RFC 9113 8.2.2: TE other than trailers is reset" "reset=1"
is connection "RFC 9113 8.2.2: Connection is reset" "reset=1"
is 414 "a target that is too long is 414" "status=414"
is 431 "too many fields are 431" "status=431"
is denied-post "a refused upload is answered" "status=403"
is last "and nothing of it ended the connection" "status=200 octets=73 reset=None ended=True goaway=None"
is expect-h1.test "UA02 100 of an HTTP/1.1 upstream" "status=200 octets=6 reset=None ended=True ['100']"
is expect-h2.test "UA02 100, whatever an HTTP/2 upstream says" "status=200 octets=6 reset=None ended=True ['100']"
is rapid "D01 rapid reset ends the connection" "goaway 11"
is preface "C20 HTTP/1.1 where HTTP/2 was agreed" "False"
[ "$(record_count '"kind":"connection"' '"code":"malformed_request"' h2_preface)" -eq 1 ] && [ "$(record_count '"kind":"connection"' '"code":"malformed_request"' h2_flood)" -eq 1 ] &&
	ok "D01 C20 both are recorded" || not_ok "D01 C20 both are recorded" "$(records | grep '"connection"' | grep malformed)"
is want11 "HTTP_1_1_REQUIRED is obeyed" "status=200 octets=4"
is want11-again "and remembered" "status=200 octets=4"
[ "$(grep -c 'head .* /v1/want11' "$T/origin.log")" -eq 1 ] && ok "it was asked over HTTP/2 once" || not_ok "it was asked over HTTP/2 once" "$(grep want11 "$T/origin.log")"
is hints "UA01 103 reaches HTTP/2" "status=200 octets=5 reset=None ended=True ['103']"
is trailers "I12 trailers, secrets in them overwritten" "[('x-sum', '1'), ('x-auth', 'Bearer ********"
has "I12 te: trailers is kept" "$T/origin.log" "head GET /v1/trailers n=1 te=trailers"
is only "UB02 trailers-only is one head" "status=200 octets=0 reset=None ended=True"
has "UB02 with its status" "$T/out" "('grpc-status', '5')"; hasnt "UB02 and no length" "$T/out" "content-length"
is nomessage "UB02 head, then trailers" "[('grpc-status', '0')]"
is split "J09 a secret in pieces of one octet is overwritten" "you sent Bearer *****"
is echo "300 kB both ways" "status=200 octets=300000"
has "request trailers arrive, credentials do not" "$T/origin.log" "whole /v1/echo 300000 trailers=x-end"
is echo-empty "trailers without content" "status=200"
has "they arrive" "$T/origin.log" "whole /v1/echo-empty 0 trailers=x-end"
is refused "K08 REFUSED_STREAM is tried again" "status=200"
is refused-always "K08 once" "status=502"
is refused-post "K08 what was sent in vain is not" "status=502"
[ "$(grep -c 'head POST /v1/refused-post' "$T/origin.log")" -eq 1 ] && ok "K08 a POST goes out once" || not_ok "K08 a POST goes out once" "$(grep refused-post "$T/origin.log")"
is goaway "K08 GOAWAY without the stream: another connection" "status=200"
is dropped "K04 a connection that ends before the answer is 502" "status=502"
is broken "K04 a length that is not kept is no clean end" "ended=False"
is cut "K04 nor is a stream cut in the middle" "status=200 octets=4 reset=8 ended=False"
is early "an answer before the request's end" "status=200 octets=6"
is cancelled "a cancelled stream leaves the others alone" "status=200"
wait_for 10 grep -q 'reset /v1/hang 8' "$T/origin.log" && ok "I12 a client's cancel reaches the upstream" || not_ok "I12 a client's cancel reaches the upstream" "$(cat "$T/origin.log")"
wait_for 10 grep -q 'reset /v1/hang2 8' "$T/origin.log" && ok "I12 so does its disconnect" || not_ok "I12 so does its disconnect" "$(cat "$T/origin.log")"
[ "$(record_count '"path":"/v1/hang"' '"code":"client_closed"')" -eq 1 ] && ok "a cancel is recorded" || not_ok "a cancel is recorded" "$(records | grep hang)"
[ "$(record_count '"path":"/v1/cut"' '"code":"upstream_protocol"')" -eq 1 ] && ok "a cut response is recorded" || not_ok "a cut response is recorded" "$(records | grep cut)"
[ "$(record_count '"code":"identity_mismatch"' '"code":421')" -eq 1 ] && ok "C14 recorded" || not_ok "C14 recorded" "$(records | grep mismatch)"
[ "$(record_count '"kind":"request"' '"code":"malformed_request"' '"client_protocol":"HTTP/2"')" -eq 3 ] && ok "malformed heads are recorded" || not_ok "malformed heads are recorded" "$(record_lines | grep malformed)"
[ "$(grep -c 'hpack authorization' "$T/origin.log")" -ge 10 ] && [ "$(grep 'hpack authorization' "$T/origin.log" | sort -u)" = "hpack authorization never" ] &&
	ok "J15 the credential is a never-indexed literal" || not_ok "J15 the credential is a never-indexed literal" "$(grep hpack "$T/origin.log" | sort | uniq -c)"
hasnt "no secret in any answer" "$T/all" "$SECRET"

# --- many streams, one slow ---------------------------------------------------------------------------------------------
cat >"$WORK/slow.py" <<'P'
from h2c import *
for host in sys.argv[1:]:
    k = Client(host, window=65535)
    slow = k.request("/v1/big"); k.slow.add(slow)
    while k.streams[slow].n < 65535: k.turn() # its window is used up: the rest waits where it is
    ids = []
    for _ in range(40): ids.append(k.request("/v1/small"))
    k.wait(*ids)
    print(host, "small", sum(k.streams[i].n for i in ids), "slow", k.streams[slow].n)
    k.slow.clear(); k.c.increment_flow_control_window(1 << 24, slow); k.flush()
    st = k.wait(slow); print(host, "whole", st.sha.hexdigest(), st)
ks = [Client("scr.test") for _ in range(11)] # more requests than there are slots for records in flight
for k in ks: k.ids = [k.request("/v1/hang/%d" % i) for i in range(99)]
for k in ks: [k.cancel(i) for i in k.ids]
print("all", sum(k.get("/v1/after").status() == "200" for k in ks))
k = Client("scr.test")
ids = [k.request("/v1/many/%d" % i) for i in range(100)]
k.wait(*ids); print("many", sum(k.streams[i].status() == "200" for i in ids))
P
run python3 slow.py h1.test h2.test >"$T/out" 2>&1
for h in h1 h2; do
	has "UB06 small streams pass a slow one ($h upstream)" "$T/out" "$h.test small 40960 slow 65535"
	has "UB06 which comes whole when it reads on ($h upstream)" "$T/out" "$h.test whole $big"
done
has "more requests at a time than can be recorded wait, and are served" "$T/out" "all 11"
[ "$(record_count '"code":"audit_unavailable"')" -eq 0 ] && ok "none of them is refused for it" || not_ok "none of them is refused for it" "$(records | grep -c audit_unavailable)"
[ "$(record_count '"path":"/v1/hang/' '"code":"client_closed"')" -eq 1089 ] && ok "each has its record" || not_ok "each has its record" "$(record_count '"path":"/v1/hang/')"
has "100 streams at a time" "$T/out" "many 100"
c=$(grep -c '^connection' "$T/origin.log")
[ "$c" -le 20 ] && ok "an origin of HTTP/2 gets few connections" || not_ok "an origin of HTTP/2 gets few connections" "$c"
if command -v h2load >/dev/null 2>&1; then
	cat >"$WORK/load.sh" <<'P'
set -e
h2load -c 3 -m 100 -n 3000 https://h2.test/v1/small
h2load -c 3 -m 100 -n 3000 https://h1.test/v1/small
nghttp -nv https://h2.test/v1/small | grep -c 'END_STREAM'
h2load -c 1 -m 1 -n 2000 https://h2.test/v1/small >/dev/null
touch warm; while [ ! -e go ]; do sleep 0.05; done
h2load -c 1 -m 1 -n 6000 https://h2.test/v1/small >/dev/null
touch hot; while [ ! -e end ]; do sleep 0.05; done
P
	run sh load.sh >"$T/out" 2>&1 &
	load=$!
	PIDS+=($load)
	rss() { awk '/^VmRSS/ {print $2}' "/proc/$(role_pid worker)/status"; }
	wait_for 50 test -e "$WORK/warm"; a=$(rss); touch "$WORK/go"
	wait_for 50 test -e "$WORK/hot"; b=$(rss); touch "$WORK/end"
	wait $load
	[ "$(grep -c '3000 done, 3000 succeeded, 0 failed' "$T/out")" -eq 2 ] && ok "300 parallel streams, 6000 requests" || not_ok "300 parallel streams, 6000 requests" "$(cat "$T/out")"
	[ -n "$a" ] && [ -n "$b" ] && [ "$b" -le $((a + a / 10 + 1024)) ] && ok "UB08 a connection that lives keeps nothing of its streams" || not_ok "UB08 a connection that lives keeps nothing of its streams" "$a kB, later $b kB"
else
	skip "no h2load (nghttp2-client)"
fi

# --- other clients --------------------------------------------------------------------------------------------------------
if command -v node >/dev/null 2>&1; then
	cat >"$WORK/n.js" <<'P'
const h2 = require('http2'), tls = require('tls'), fs = require('fs');
const ca = [...tls.rootCertificates, fs.readFileSync(process.env.SSL_CERT_FILE)];
const s = h2.connect('https://h1.test', { ca });
let n = 0, ok = 0;
s.on('error', e => { console.log('error', e.message); process.exit(1); });
for (let i = 0; i < 300; i++) {
	const r = s.request({ ':path': '/v1/small' }); let k = 0;
	r.on('data', d => k += d.length); r.on('error', e => console.log(e.message));
	r.on('close', () => { if (k === 1024) ok++; if (++n === 300) { console.log('node', ok); s.close(); } });
}
P
	run node n.js >"$T/out" 2>&1
	has "node http2: 300 requests at once on one session" "$T/out" "node 300"
else
	skip "no node"
fi
if python3 -c 'import httpx, h2' 2>/dev/null; then
	run python3 -c '
import httpx, ssl
c = httpx.Client(http2=True, verify=ssl.create_default_context(), timeout=20)
for u in ("h1", "h2"): r = c.get("https://%s.test/v1/hello" % u); print(r.http_version, r.status_code, r.text)' >"$T/out" 2>&1
	[ "$(grep -c '^HTTP/2 200 hello' "$T/out")" -eq 2 ] && ok "httpx over HTTP/2" || not_ok "httpx over HTTP/2" "$(cat "$T/out")"
else
	skip "no httpx with HTTP/2"
fi
go=$(command -v go || echo /usr/local/go/bin/go)
if [ -x "$go" ]; then
	mkdir -p "$T/go"
	cat >"$T/go/main.go" <<'P'
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	for _, u := range os.Args[1:] {
		r, err := http.Get(u)
		if err != nil {
			fmt.Println(err)
			continue
		}
		b, _ := io.ReadAll(r.Body)
		fmt.Println("go", r.Proto, r.StatusCode, len(b))
	}
}
P
	(cd "$T/go" && GOCACHE=$T/go/cache HOME=$T/go GO111MODULE=off GOTOOLCHAIN=local CGO_ENABLED=0 "$go" build -o "$WORK/goget" main.go) >"$T/go.log" 2>&1
	run ./goget https://h1.test/v1/small https://h2.test/v1/small >"$T/out" 2>&1
	[ "$(grep -c '^go HTTP/2.0 200 1024' "$T/out")" -eq 2 ] && ok "go net/http over HTTP/2" || not_ok "go net/http over HTTP/2" "$(cat "$T/out" "$T/go.log")"
else
	skip "no go"
fi

# --- gRPC (I12, I13) ------------------------------------------------------------------------------------------------------
python3 -c 'import grpc' 2>/dev/null || { skip "no python3-grpcio: gRPC"; check_done; }
cat >"$T/server.py" <<'P'
import grpc, sys, time, threading
from concurrent import futures
def unary(q, c): return dict(c.invocation_metadata()).get("authorization", "-").encode() + b" " + q
def missing(q, c): c.abort(grpc.StatusCode.NOT_FOUND, "no such thing")
def down(q, c):
    for i in range(5): yield b"%d" % i
def up(qs, c): return b"%d" % sum(len(q) for q in qs)
def both(qs, c):
    for q in qs: yield b"re " + q
def hang(q, c):
    e = threading.Event(); c.add_callback(e.set) or e.set(); open(sys.argv[4], "a").write("begun\n"); e.wait(30); open(sys.argv[4], "a").write("ended\n"); return b""
r = grpc
h = {"Unary": r.unary_unary_rpc_method_handler(unary), "Missing": r.unary_unary_rpc_method_handler(missing), "Down": r.unary_stream_rpc_method_handler(down),
     "Up": r.stream_unary_rpc_method_handler(up), "Both": r.stream_stream_rpc_method_handler(both), "Hang": r.unary_unary_rpc_method_handler(hang)}
s = grpc.server(futures.ThreadPoolExecutor(8)); s.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("pkg.Echo", h),))
rd = lambda p: open(p, "rb").read()
s.add_secure_port("127.0.0.1:" + sys.argv[1], grpc.ssl_server_credentials([(rd(sys.argv[3]), rd(sys.argv[2]))])); s.start(); print("up", flush=True); s.wait_for_termination()
P
python3 "$T/server.py" "$GRPC" "$T/up.pem" "$T/up.key" "$T/grpc.hang" >"$T/grpc.out" 2>&1 &
PIDS+=($!)
wait_for 20 grep -q up "$T/grpc.out" || not_ok "the gRPC server starts" "$(cat "$T/grpc.out")"
: >"$T/grpc.hang"
cat >"$WORK/g.py" <<'P'
import grpc, os, sys, queue
cred = grpc.ssl_channel_credentials(open(os.environ["SSL_CERT_FILE"], "rb").read())
def tell(name, f):
    try: print(name, f(), flush=True)
    except grpc.RpcError as e: print(name, e.code().name, e.details(), flush=True)
c = grpc.secure_channel("grpc.test:443", cred)
m = lambda kind, n: getattr(c, kind)("/pkg.Echo/" + n)
tell("unary", lambda: m("unary_unary", "Unary")(b"x" * 100000, timeout=20)[:30])
tell("missing", lambda: m("unary_unary", "Missing")(b"x", timeout=20))
tell("down", lambda: list(m("unary_stream", "Down")(b"x", timeout=20)))
tell("up", lambda: m("stream_unary", "Up")(iter([b"ab"] * 50), timeout=20))
def both(): # one question at a time: each answer comes before the next question, and the half-close last
    q = queue.Queue(); it = m("stream_stream", "Both")(iter(q.get, None), timeout=20); out = []
    for w in (b"one", b"two", b"three"): q.put(w); out.append(next(it))
    q.put(None); return out + list(it)
tell("both", both)
tell("deadline", lambda: m("unary_unary", "Hang")(b"", timeout=1))
f = m("unary_unary", "Hang").future(b"", timeout=20)
tell("denied", lambda: m("unary_unary", "Denied")(b"", timeout=20))
f.cancel(); print("cancelled", f.cancelled())
tell("after", lambda: m("unary_unary", "Unary")(b"again", timeout=20)[-5:])
c = grpc.secure_channel("h1.test:443", cred)
tell("h1only", lambda: c.unary_unary("/pkg.Echo/Unary")(b"x", timeout=20))
P
run python3 g.py >"$T/out" 2>&1
has "I12 unary, the secret's echo overwritten" "$T/out" "unary b'Bearer ********"
has "I12 trailers-only" "$T/out" "missing NOT_FOUND no such thing"
has "I12 server streaming" "$T/out" "down [b'0', b'1', b'2', b'3', b'4']"
has "I12 client streaming" "$T/out" "up b'100'"
has "I12 both ways, turn by turn, half-closed" "$T/out" "both [b're one', b're two', b're three']"
has "I12 a deadline" "$T/out" "deadline DEADLINE_EXCEEDED"
has "a refusal that gRPC clients can read" "$T/out" "denied PERMISSION_DENIED sallyport policy_denied: "
has "I12 cancel" "$T/out" "cancelled True"
has "the channel goes on" "$T/out" "after b'again'"
has "I13 an upstream without HTTP/2 is UNAVAILABLE, and why" "$T/out" "h1only UNAVAILABLE sallyport upstream_protocol: gRPC needs HTTP/2"
wait_for 10 bash -c "[ \$(grep -c ended '$T/grpc.hang') -eq \$(grep -c begun '$T/grpc.hang') ]" && [ "$(grep -c begun "$T/grpc.hang")" -ge 1 ] && ok "I12 deadline and cancel reach the server" || not_ok "I12 deadline and cancel reach the server" "$(cat "$T/grpc.hang")"
hasnt "no secret in any answer" "$T/out" "$SECRET"
CLIENTS=${SP_CLIENTS:-${BUILD:-$BIN}/../clients} # what `make deps` made
if [ -x "$CLIENTS/grpc-client" ]; then
	cp "$CLIENTS/grpc-client" "$WORK/"
	run ./grpc-client grpc.test:443 >"$T/out" 2>&1
	has "I12 gRPC in Go: unary" "$T/out" 'unary "Bearer ********'
	has "I12 in Go: trailers-only" "$T/out" "missing NotFound no such thing"
	has "in Go: a refusal is readable" "$T/out" "denied PermissionDenied sallyport policy_denied: "
	has "I12 in Go: a deadline" "$T/out" "deadline DeadlineExceeded"
	lines "I12 in Go: both ways, turn by turn, half-closed" <(grep -E '^(both|end)' "$T/out") "$(printf 'both "re one"\nboth "re two"\nboth "re three"\nend true')"
	hasnt "no secret in any answer to Go" "$T/out" "$SECRET"
else
	skip "gRPC in Go: $(cat "$CLIENTS/grpc.skip" 2>/dev/null || echo "grpc-client was not built (make deps)")"
fi
run sh -c 'grep -rl "$0" . || true' "$SECRET" >"$T/out" 2>&1
lines "no secret in any file of the sandbox" "$T/out" ""
check_done
