#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gateway.yaml's upstream_proxy (UI06): everything goes by it and nothing around it, who vets, what its refusals look like; against
# tinyproxy, squid, and one of our own that answers oddly.
NAME=proxy
. "$(dirname "$0")/lib.sh"
can_run
here=$(dirname "$0")
make_pki DNS:refused.test,DNS:auth.test,DNS:gone.test,DNS:late.test,DNS:garbage.test,DNS:nul.test,DNS:endless.test,DNS:closed.test,DNS:slow.test,DNS:bytes.test,DNS:private.test,DNS:token.test
TOKEN=planted-token-$RANDOM$RANDOM-of-24
start_nginx "location /oauth/token { default_type application/json; return 200 '{\"access_token\":\"$TOKEN\",\"token_type\":\"Bearer\",\"expires_in\":3600}'; }"
DNS=$(free_port)
printf 'api.test a 127.0.0.1\nplain.test a 127.0.0.1\nprivate.test a 10.9.9.9\nproxy.corp.test a 127.0.0.1\ntwo.test a 127.0.0.9 127.0.0.1\n' >"$T/zone"
python3 "$here/dnsd.py" "$DNS" "$T/asked" "$T/zone" >"$T/dnsd.log" 2>&1 &
PIDS+=($!)
OWN=$(free_port)
python3 "$here/proxyd.py" "$OWN" "$T/own.log" "$PORT" >"$T/own.err" 2>&1 &
OWN_PID=$!
PIDS+=("$OWN_PID")
wait_for 10 test -s "$T/asked" && wait_for 10 grep -q ready "$T/own.log" || { not_ok "the servers start" "$(cat "$T/dnsd.log" "$T/own.err")"; exit 1; }
CRED="corp-user:planted-$RANDOM$RANDOM-pass"
printf '%s\n' "$CRED" >"$T/credentials"
chmod 600 "$T/credentials"
d() { printf '  - host: %s\n    ports: [%s]\n%s    tls: { ca: ./upca.pem }\n    allow: [ "GET /v1/**" ]\n' "$1" "$PORT" "${2:+    $2
}"; }
{
	printf 'version: 1\nname: proxy\nsecrets:\n  api: { env: E2E_SECRET, hosts: [api.test] }\ndestinations:\n'
	d api.test 'addresses: [127.0.0.0/8]'
	printf '    inject: [ { secret: api, as: bearer } ]\n'
	d private.test
	printf '  - host: plain.test\n    scheme: http\n    ports: [%s]\n    addresses: [127.0.0.0/8]\n    allow: [ "GET /**" ]\n' "$HTTP_PORT"
	printf '  - host: two.test\n    scheme: http\n    ports: [%s]\n    addresses: [127.0.0.0/8]\n    allow: [ "GET /**" ]\n' "$HTTP_PORT"
	printf '  - host: 127.0.0.1\n    scheme: http\n    ports: [%s]\n    addresses: [127.0.0.0/8]\n    allow: [ "GET /**" ]\n' "$HTTP_PORT"
	printf '  - host: meta.test\n    scheme: http\n    connect: 169.254.169.254:80\n    addresses: [169.254.0.0/16]\n    allow: [ "GET /**" ]\n'
} >"$WORK/policy.yaml"
{
	printf 'version: 1\nname: names\ndestinations:\n'
	for h in refused auth gone late garbage nul endless closed slow bytes private; do d $h.test; done
	d api.test
	printf '  - host: listed.test\n    addresses: [192.0.2.0/24]\n    allow: [ "GET /**" ]\n'
	printf '  - host: banner.test\n    protocol: tcp\n    ports: [2222]\n    allow: tunnel\n'
	printf '  - host: plain.test\n    scheme: http\n    allow: [ "GET /**" ]\n'
} >"$WORK/names.yaml"
{ # a token that secrets obtains, on a connection of its own
	printf "version: 1\nname: token\nsecrets:\n  t: { env: E2E_SECRET, hosts: [api.test], oauth2: { client_id: robot, token_url: 'https://token.test:%s/oauth/token', ca: ./upca.pem } }\ndestinations:\n" "$PORT"
	d api.test
	printf '    inject: [ { secret: t, as: bearer } ]\n'
} >"$WORK/token.yaml"
token() { # NAME: by our own proxy, which is given the names
	(cd "$WORK" && E2E_SECRET=$SECRET timeout 60 "$SP" run --quiet --policy token.yaml -- curl -sS -m 30 "https://api.test:$PORT/v1/hello?token-$1") >"$T/out" 2>&1
	check "$1: a token is obtained by it too" bash -c "grep -q 'CONNECT token.test:$PORT' '$T/own.log' && grep -qF 'hello?token-$1 HTTP/1.1 status=200 auth=Bearer $TOKEN' '$T/ngx/access.log'"
}
gateway() { # lines of upstream_proxy
	[ ! -S "$STATE/run/control.sock" ] || "$SP" stop --all >/dev/null 2>&1
	wait_for 10 bash -c "! [ -S '$STATE/run/control.sock' ]"
	{ printf 'dns: { servers: ["127.0.0.1:%s"] }\nupstream_proxy:\n' "$DNS"; printf '  %s\n' "$@"; } >"$T/gateway.yaml"
	# the variables of the host are no configuration
	HTTPS_PROXY=http://127.0.0.1:1 https_proxy=http://127.0.0.1:1 http_proxy=http://127.0.0.1:1 ALL_PROXY=http://127.0.0.1:1 NO_PROXY='*' \
		"$SP" serve --config "$T/gateway.yaml" --state "$STATE" >"$T/gateway.log" 2>&1 &
	PIDS+=($!)
	wait_for 20 test -S "$STATE/run/control.sock" || { not_ok "the gateway starts" "$(cat "$T/gateway.log")"; exit 1; }
}
get() { run curl -sS -m 60 "$@"; }
named() { (cd "$WORK" && timeout 60 "$SP" run --quiet --policy names.yaml -- "$@"); }
hits() { grep -c 'HTTP/1' "$T/ngx/access.log"; }
says() { check "$1" grep -qF -- "$3" "$2"; }
basics() { # NAME LOG PATTERN: by a real proxy, names vetted here
	local before
	before=$(hits)
	get "https://api.test:$PORT/v1/hello" "https://api.test:$PORT/v1/big" -o hello -o big >"$T/out" 2>&1
	check "$1: https, with what is injected" bash -c "grep -q '$SECRET' '$T/ngx/access.log' && cmp '$WORK/big' '$T/ngx/big'"
	hasnt "$1: which the sandbox does not see" "$WORK/hello" "$SECRET"
	get --noproxy "" -x http://127.0.0.1:3128 "http://plain.test:$HTTP_PORT/x" "http://127.0.0.1:$HTTP_PORT/y" >"$T/out" 2>&1
	check "$1: http, a name and an address" test "$(grep -c '^plain$' "$T/out")" = 2
	check "$1: each connection is in its log" wait_for 10 bash -c "[ \$(grep -c '$3' '$2') -ge 3 ]" # of squid: when it ends
	get "https://private.test:$PORT/v1/x" >"$T/out" 2>&1
	says "$1: UI06 destinations are vetted all the same" "$T/out" '"error":"address_denied"'
	get "http://meta.test/" >"$T/out" 2>&1
	says "$1: UI06 metadata addresses too" "$T/out" '"error":"address_denied"'
	check "$1: neither was asked of it" bash -c "! grep -E '10\.9\.9\.9|169\.254' '$2'"
	check "$1: the origin had what was asked" test $(($(hits) - before)) = 4
}
if command -v tinyproxy >/dev/null; then
	TP=$(free_port)
	printf 'Port %s\nListen 127.0.0.1\nAllow 127.0.0.1\nTimeout 60\nLogLevel Connect\nBasicAuth %s %s\nMaxClients 50\n' "$TP" "${CRED%%:*}" "${CRED#*:}" >"$T/tiny.conf"
	tinyproxy -d -c "$T/tiny.conf" >"$T/tiny.log" 2>&1 &
	TINY=$!
	PIDS+=("$TINY")
	wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$TP"
	gateway "url: http://proxy.corp.test:$TP" "credentials: ./credentials"
	basics tinyproxy "$T/tiny.log" 'CONNECT 127.0.0.1'
	before=$(hits)
	kill_wait "$TINY"
	run curl -sS -m 60 "https://api.test:$PORT/v1/hello?new" >"$T/out" 2>&1
	says "there is no way around a proxy that is gone" "$T/out" '"error":"upstream_unreachable"'
	says "and the refusal says that it is the proxy" "$T/out" "upstream proxy 127.0.0.1 port $TP: Connection refused"
	check "the origin saw nothing" test "$(hits)" = "$before"
	printf 'corp-user:wrong\n' >"$T/other"
	chmod 600 "$T/other"
	tinyproxy -d -c "$T/tiny.conf" >>"$T/tiny.log" 2>&1 &
	PIDS+=($!)
	wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$TP"
	gateway "url: http://127.0.0.1:$TP" "credentials: $T/other"
	get "https://api.test:$PORT/v1/hello" >"$T/out" 2>&1
	check "UI06 wrong credentials are told from a denial" bash -c "grep -q '\"error\":\"upstream_unreachable\"' '$T/out' && grep -q 'answered 40[17]' '$T/out'"
else
	skip "tinyproxy is not installed"
fi
if command -v squid >/dev/null; then
	SQ=$(free_port)
	chmod 711 "$T"
	mkdir "$T/squid"
	chmod 777 "$T/squid"
	printf 'http_port 127.0.0.1:%s\nacl all_ports port 1-65535\nhttp_access allow all_ports\ncache deny all\naccess_log stdio:%s\ncache_log %s\npid_filename none\nshutdown_lifetime 0 seconds\n' "$SQ" "$T/squid/access" "$T/squid/cache" >"$T/squid.conf"
	squid -N -f "$T/squid.conf" >"$T/squid.out" 2>&1 &
	PIDS+=($!)
	if wait_for 20 bash -c "exec 3<>/dev/tcp/127.0.0.1/$SQ"; then
		gateway "url: http://127.0.0.1:$SQ/" "names: gateway"
		basics squid "$T/squid/access" 'CONNECT 127.0.0.1'
	else
		skip "squid does not start here: $(tail -n 1 "$T/squid.out" "$T/squid/cache" 2>/dev/null | tr '\n' ' ')"
	fi
else
	skip "squid is not installed"
fi
# --- under TLS: verified, and then as in clear
(
	cd "$T" || exit 1
	openssl ecparam -name prime256v1 -genkey -noout -out pca.key
	openssl req -x509 -new -key pca.key -sha256 -days 30 -subj "/CN=corporate CA" -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign -out pca.pem
	openssl ecparam -name prime256v1 -genkey -noout -out front.key
	openssl req -new -key front.key -subj "/CN=proxy.corp.test" -out front.csr
	printf 'subjectAltName=DNS:proxy.corp.test\nextendedKeyUsage=serverAuth\nbasicConstraints=critical,CA:FALSE\n' >front.ext
	openssl x509 -req -in front.csr -CA pca.pem -CAkey pca.key -CAcreateserial -days 30 -sha256 -extfile front.ext -out front.pem
	chmod 644 pca.pem
) >"$T/front.pki" 2>&1
if [ -n "${SQ:-}" ] && squid -v 2>/dev/null | grep -q with-openssl; then
	SQT=$(free_port)
	cat "$T/front.pem" "$T/front.key" >"$T/squid/front.pem"
	chmod 644 "$T/squid/front.pem"
	printf 'https_port 127.0.0.1:%s tls-cert=%s\nacl all_ports port 1-65535\nhttp_access allow all_ports\ncache deny all\naccess_log stdio:%s\ncache_log %s\npid_filename none\nshutdown_lifetime 0 seconds\n' "$SQT" "$T/squid/front.pem" "$T/squid/access-tls" "$T/squid/cache-tls" >"$T/squid-tls.conf"
	squid -N -f "$T/squid-tls.conf" >"$T/squid-tls.out" 2>&1 &
	PIDS+=($!)
	if wait_for 20 bash -c "exec 3<>/dev/tcp/127.0.0.1/$SQT"; then
		gateway "url: https://proxy.corp.test:$SQT" "ca: ./pca.pem"
		basics "squid under TLS" "$T/squid/access-tls" 'CONNECT 127.0.0.1'
	else
		skip "squid with TLS does not start here: $(tail -n 1 "$T/squid-tls.out" "$T/squid/cache-tls" 2>/dev/null | tr '\n' ' ')"
	fi
else
	skip "squid with OpenSSL is not installed"
fi
front() { # PORT [MAX-VERSION]: ours, under TLS
	python3 "$here/tlsfront.py" "$1" "$T/front.pem" "$T/front.key" "$OWN" "$T/front.log" ${2:-} >"$T/front.err" 2>&1 &
	FRONT_PID=$!
	PIDS+=("$FRONT_PID")
	wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$1" || not_ok "the TLS in front starts" "$(cat "$T/front.err")"
}
FRONT=$(free_port) FRONT12=$(free_port)
front "$FRONT12" 1.2
front "$FRONT"
before=$(wc -l <"$T/own.log")
for row in "https://proxy.corp.test:$FRONT|./upca.pem|unable to get local issuer certificate" "https://proxy.corp.test:$FRONT||unable to get local issuer certificate" "https://127.0.0.1:$FRONT|./pca.pem|IP address mismatch" ${SQ:+"https://proxy.corp.test:$SQ|./pca.pem|wrong version number"}; do
	IFS='|' read -r url ca why <<<"$row"
	[ "$ca" != ./upca.pem ] || chmod 644 "$T/upca.pem"
	gateway "url: $url" "credentials: ./credentials" ${ca:+"ca: $ca"}
	run curl -sS -m 60 "https://api.test:$PORT/v1/x" "http://127.0.0.1:$HTTP_PORT/y" --noproxy "" -x http://127.0.0.1:3128 >"$T/out" 2>&1
	check "UI06 a proxy that is not verified is not used: $why" bash -c "[ \$(grep -o '\"error\":\"upstream_unreachable\"' '$T/out' | wc -l) = 2 ] && grep -qF 'does not speak TLS that is acceptable: $why' '$T/out'"
done
check "it was asked for nothing, and told no credentials" bash -c "! tail -n +$((before + 1)) '$T/own.log' | grep -q CONNECT"
for port in "$FRONT12" "$FRONT"; do
	v=TLSv1.$([ "$port" = "$FRONT" ] && echo 3 || echo 2)
	gateway "url: https://proxy.corp.test:$port" "credentials: ./credentials" "names: proxy" "ca: $T/pca.pem"
	named curl -sS -m 30 "https://api.test:$PORT/v1/x" "https://bytes.test:$PORT/v1/y" >"$T/out" 2>&1
	check "$v: it answers whole, or octet by octet" test "$(grep -c '^fine$' "$T/out")" = 2
	says "$v: spoken" "$T/front.log" "handshake $v"
	: >"$T/own.log"
	token "$v"
	named curl -sS -m 30 "https://api.test:$PORT/v1/x" >"$T/out" 2>&1
	says "$v: with credentials" "$T/own.log" "CONNECT api.test:$PORT host=api.test:$PORT auth=Basic $(printf '%s' "$CRED" | base64 -w0) behind=0"
	for row in 'refused answered 403' 'auth answered 407' 'garbage an answer to CONNECT that is none' 'nul an answer to CONNECT that is none' 'endless an answer to CONNECT that is none' 'closed without an answer' 'slow does not answer'; do
		h=${row%% *}
		[ "$h$v" != slowTLSv1.2 ] || continue
		named curl -sS -m 50 "https://$h.test:$PORT/v1/x" >"$T/out" 2>&1
		check "$v: UI06 $h: the refusal says: ${row#* }" bash -c "grep -qE '\"error\":\"upstream_(unreachable|timeout)\"' '$T/out' && grep -qF '${row#* }' '$T/out'"
	done
	named python3 -c 'import socket; s = socket.create_connection(("banner.test", 2222), 20); print(s.recv(100).decode().strip()); s.sendall(b"ping"); print(s.recv(4).decode())' >"$T/out" 2>&1
	check "$v: tcp goes by it too, and octets right behind its answer are kept" bash -c "grep -q SSH-2.0-behind '$T/out' && grep -q ping '$T/out'"
	named curl -sS -m 30 https://evil.test/ https://refused.example/ >"$T/out" 2>&1
	check "$v: what the policy refuses is not asked of it" bash -c "! grep -E 'evil.test|refused.example' '$T/own.log'"
done
named sh -c "for i in 1 2 3 4 5 6 7 8; do curl -sS -m 100 https://api.test:$PORT/v1/big https://api.test:$PORT/v1/big https://api.test:$PORT/v1/big -o big.\$i -o big2.\$i -o big3.\$i & done; wait; cat big.? big2.? big3.? | wc -c; for f in big.? big2.? big3.?; do cmp \$f big.1; done; cmp big.1 - <big.8" >"$T/out" 2>&1
check "24 MiB in eight streams arrive whole" bash -c "grep -qx $((24 * 1048576)) '$T/out' && ! grep -q differ '$T/out' && cmp '$WORK/big.1' '$T/ngx/big'"
named python3 -c '
import socket, hashlib, threading
s = socket.create_connection(("banner.test", 2222), 60); assert s.recv(16); sent, got = hashlib.sha256(), hashlib.sha256()
def write():
    for i in range(400): b = bytes([i % 251]) * 50000; sent.update(b); s.sendall(b)
t = threading.Thread(target=write); t.start(); n = 0
import time; time.sleep(1) # nobody reads: what comes back waits, and so does what goes
while n < 20000000:
    x = s.recv(65536)
    if not x: break
    got.update(x); n += len(x)
t.join(); print("same" if n == 20000000 and sent.digest() == got.digest() else "%d octets" % n)' >"$T/out" 2>&1
says "20 MB go through a tunnel and back, and a reader that waits loses nothing" "$T/out" same
kill_wait "$FRONT_PID"
named curl -sS -m 60 "https://api.test:$PORT/v1/hello?new" >"$T/out" 2>&1
says "there is no way around one under TLS that is gone" "$T/out" '"error":"upstream_unreachable"'
check "the dialer survived all of it" bash -c "! grep -q 'ended by signal' '$T/gateway.log'"
gateway "url: http://127.0.0.1:$OWN" "credentials: ./credentials"
get "http://two.test:$HTTP_PORT/" >"$T/out" 2>&1
check "each vetted address is asked for in turn" bash -c "grep -q 'CONNECT 127.0.0.9:' '$T/own.log'"
gateway "url: http://127.0.0.1:$OWN" "credentials: ./credentials" "names: proxy"
before=$(wc -l <"$T/asked")
named curl -sS -m 30 "https://api.test:$PORT/v1/x" "https://bytes.test:$PORT/v1/y" >"$T/out" 2>&1
check "names are given to the proxy: it answers whole, or octet by octet" test "$(grep -c '^fine$' "$T/out")" = 2
token clear
says "with credentials" "$T/own.log" "CONNECT api.test:$PORT host=api.test:$PORT auth=Basic $(printf '%s' "$CRED" | base64 -w0) behind=0"
for row in 'refused answered 403' 'auth answered 407' 'gone answered 502' 'late answered 504' 'garbage an answer to CONNECT that is none' 'nul an answer to CONNECT that is none' 'endless an answer to CONNECT that is none' 'closed without an answer' 'slow does not answer'; do
	h=${row%% *}
	named curl -sS -m 50 "https://$h.test:$PORT/v1/x" >"$T/out" 2>&1
	check "UI06 $h: the refusal says: ${row#* }" bash -c "grep -qE '\"error\":\"upstream_(unreachable|timeout)\"' '$T/out' && grep -qF '${row#* }' '$T/out'"
done
named curl -sS -m 30 "https://listed.test/" >"$T/out" 2>&1
says "where \`addresses\` are listed and cannot be looked at, nothing is let through" "$T/out" '"error":"address_denied"'
named python3 -c 'import socket; s = socket.create_connection(("banner.test", 2222), 20); print(s.recv(100).decode().strip()); s.sendall(b"ping"); print(s.recv(4).decode())' >"$T/out" 2>&1
check "tcp goes by it too, and octets right behind its answer are kept" bash -c "grep -q SSH-2.0-behind '$T/out' && grep -q ping '$T/out'"
named curl -sS -m 30 https://evil.test/ https://refused.example/ >"$T/out" 2>&1
check "what the policy refuses is not asked of it" bash -c "! grep -E 'evil.test|refused.example' '$T/own.log'"
check "no name was resolved here" test "$(wc -l <"$T/asked")" = "$before"
"$SP" stop --all >/dev/null 2>&1
records >"$T/all"
check "records name the proxy and who vetted" bash -c "grep '\"upstream_proxy\":\"127.0.0.1:$OWN\",\"vetted_by\":\"proxy\"' '$T/all' | grep -q api.test && grep '\"vetted_by\":\"gateway\"' '$T/all' | grep -q '\"ip\":\"127.0.0.1\"'"
check "a tunnel's record too" bash -c "grep '\"kind\":\"connection\"' '$T/all' | grep banner.test | grep -q '\"vetted_by\":\"proxy\"'"
for f in "$T/all" "$T/gateway.log"; do hasnt "the proxy's password is not in ${f##*/}" "$f" "${CRED#*:}"; done
hasnt "nor its encoded form" "$T/all" "$(printf '%s' "$CRED" | base64 -w0)"
wait_for 10 bash -c "! [ -S '$STATE/run/control.sock' ]"
bad() { # TEXT SAYS LINE...
	local t=$1 s=$2
	shift 2
	{ printf 'upstream_proxy:\n'; printf '  %s\n' "$@"; } >"$T/gateway.yaml"
	timeout 20 "$SP" serve --config "$T/gateway.yaml" --state "$STATE" >"$T/out" 2>&1
	check "$t" bash -c "[ $? != 0 ] && grep -qF -- '$s' '$T/out'"
}
bad "credentials in the URL are an error" "no credentials in the URL" "url: http://u:p@127.0.0.1:3128"
bad "a URL without a port is an error" "is http://HOST:PORT" "url: http://127.0.0.1"
bad "a CA for a proxy in clear is an error" "verifies an upstream proxy under TLS" "url: http://127.0.0.1:3128" "ca: ./pca.pem"
bad "a CA that is not there is an error" "s ca" "url: https://127.0.0.1:3128" "ca: ./nothing"
bad "an unknown key is an error" "no_proxy" "url: http://127.0.0.1:3128" "no_proxy: [x.test]"
chmod 644 "$T/credentials"
bad "credentials that others may read are an error" "mode 0600" "url: http://127.0.0.1:3128" "credentials: ./credentials"
bad "credentials that are not there are an error" "s credentials" "url: http://127.0.0.1:3128" "credentials: ./nothing"
check_done
