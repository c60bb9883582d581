#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the ca mints is accepted by every TLS library that programs come with, as a sandbox finds it, strict flags on: for a name, a
# name too long for a subject, and an address. Real programs, real requests, which the origin sees.
NAME=leaves
. "$(dirname "$0")/../clients/lib.sh"
can_run
have_node= have_java=
use_tool node && have_node=1
use_tool java && have_java=1
LONG=$(printf 'a%.0s' $(seq 60)).$(printf 'b%.0s' $(seq 60)).test
ADDR=203.0.113.7
make_pki "DNS:$LONG,IP:$ADDR"
start_nginx
{
	printf 'version: 1\nname: leaves\nsecrets:\n  api: { env: E2E_SECRET, hosts: [api.test] }\ndestinations:\n'
	for h in api.test "$LONG" $ADDR; do
		printf '  - host: %s\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { ca: ./upca.pem }\n    allow: [ "GET /v1/**" ]\n' "$h" "$PORT"
		[ "$h" != api.test ] || printf '    inject: [ { secret: api, as: bearer } ]\n'
	done
} >"$WORK/policy.yaml"
cp "$HERE/java/Client.java" "$WORK/"
for f in go-client rust-client; do [ ! -x "$CLIENTS/$f" ] || cp "$CLIENTS/$f" "$WORK/"; done
: >"$WORK/blob"
cat >"$WORK/strict.py" <<'P'
import socket, ssl, sys
host = sys.argv[1]
c = ssl.create_default_context()
c.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
s = c.wrap_socket(socket.create_connection((host, 443), 20), server_hostname=host)
s.sendall(b"GET /v1/hello?python HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host.encode())
b = b""
while x := s.recv(65536): b += x
print(b.decode())
P
# open COMMAND...: asks over its standard input, which stays open until it ends by itself
cat >"$WORK/open" <<'O'
#!/bin/sh
request=$1
shift
rm -f ask
mkfifo ask
timeout 20 "$@" <ask &
exec 3>ask
printf "$request" >&3
wait $!
O
get() { printf 'GET /v1/hello?%s HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n' "$1" "$2"; }
inside() { # as run, with the tools' folders to be seen
	(cd "$WORK" && E2E_SECRET=$SECRET timeout 90 "$SP" run --quiet --policy policy.yaml -- "$@")
}
accepted() { # CLIENT MARK COMMAND...: the origin got the request, the program the answer
	local c=$1 mark=$2
	shift 2
	: >"$T/ngx/access.log"
	inside "$@" >"$T/out" 2>&1
	if grep -aq "hello, you sent\|allowed 200" "$T/out" && grep -q "GET /v1/hello?$mark" "$T/ngx/access.log"; then ok "$c"; else not_ok "$c" "$(tail -n 8 "$T/out" | cut -c -300)"; fi
	! grep -aq "$SECRET" "$T/out" || not_ok "$c: the secret is seen inside"
}
for h in api.test "$LONG" $ADDR; do
	case $h in api.test) what="a name" ;; "$LONG") what="a long name" ;; *) what="an address" ;; esac
	[ "$h" = $ADDR ] && name="-noservername -verify_ip $h" || name="-servername $h -verify_hostname $h"
	accepted "OpenSSL, strict: $what" openssl sh open "$(get openssl "$h")" openssl s_client -quiet -verify_return_error -x509_strict -verify 5 $name -connect "$h:443"
	accepted "Python, strict: $what" python python3 strict.py "$h"
	accepted "curl: $what" curl curl -sS -m 20 "https://$h/v1/hello?curl"
	if command -v gnutls-cli >/dev/null; then
		accepted "GnuTLS: $what" gnutls sh open "$(get gnutls "$h")" gnutls-cli --logfile=/dev/null --x509cafile /run/sallyport/ca.pem -p 443 "$h"
	else
		skip "GnuTLS: gnutls-bin is not installed"
	fi
	if [ -n "$have_node" ]; then
		accepted "Node: $what" node node -e 'const h = process.argv[1]; require("https").get({ host: h, path: "/v1/hello?node" }, r => r.pipe(process.stdout)).on("error", e => console.log(e))' "$h"
	else
		missing node
	fi
	[ $h = api.test ] || continue # tstclnt does not end by itself
	if command -v tstclnt >/dev/null && command -v certutil >/dev/null; then
		accepted "NSS (tstclnt): $what" nss sh open "$(get nss "$h")" tstclnt -h "$h" -p 443 -d "sql:$HOME/.pki/nssdb"
	else
		skip "NSS: libnss3-tools is not installed"
	fi
done
if [ -x "$WORK/go-client" ]; then accepted "Go" go ./go-client https://api.test go blob; else missing go; fi
if [ -x "$WORK/rust-client" ]; then accepted "rustls" rust ./rust-client https://api.test rust blob; else missing rust; fi
if [ -n "$have_java" ] && java --list-modules 2>/dev/null | grep -q '^jdk.compiler@'; then
	accepted "Java $(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')" java java -XX:TieredStopAtLevel=1 Client.java https://api.test java blob
else
	missing java
fi
# Both bring a sandbox of their own, which this one has no room for: off. Chromium is BoringSSL with the NSS database, and offers
# GREASE, ECH and a post-quantum share by itself.
if command -v chromium >/dev/null; then
	accepted "G10 G11 Chromium (BoringSSL)" chromium sh -c 'timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-background-networking --disable-component-update --user-data-dir=$PWD/chromium --dump-dom "https://api.test/v1/hello?chromium"'
else
	skip "Chromium: it is not installed"
fi
if command -v firefox-esr >/dev/null; then
	: >"$T/ngx/access.log"
	inside sh -c 'mkdir -p firefox && MOZ_DISABLE_CONTENT_SANDBOX=1 timeout 60 firefox-esr --headless --no-remote --profile $PWD/firefox --screenshot $PWD/shot.png "https://api.test/v1/hello?firefox"' >"$T/out" 2>&1
	check "Firefox ESR (NSS)" bash -c "grep -q 'hello?firefox' '$T/ngx/access.log' && [ -s '$WORK/shot.png' ]"
else
	skip "Firefox: firefox-esr is not installed"
fi
# no session of a sandbox is ever taken up again, in either version
for v in 1_2 1_3; do
	# with a request and its answer: a ticket of TLS 1.3 comes behind the handshake
	inside sh -c "openssl s_client -reconnect -tls$v -servername api.test -connect api.test:443 </dev/null; printf 'GET /v1/hello HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n' | openssl s_client -ign_eof -tls$v -sess_out session -servername api.test -connect api.test:443; [ ! -s session ] || openssl s_client -tls$v -sess_in session -servername api.test -connect api.test:443 </dev/null" >"$T/out" 2>&1
	check "G15 TLS ${v/_/.}: each handshake is a whole one" bash -c "[ \$(grep -c '^New, TLS' '$T/out') -ge 2 ] && ! grep -q '^Reused' '$T/out'"
done
head -c 100 /dev/zero | tr '\0' x >"$WORK/early"
inside sh -c "openssl s_client -tls1_3 -sess_out session -servername api.test -connect api.test:443 </dev/null; openssl s_client -tls1_3 -sess_in session -early_data early -servername api.test -connect api.test:443 </dev/null" >"$T/out" 2>&1
check "G14 no early data is taken" bash -c "! grep -q 'Early data was accepted' '$T/out'"
"$SP" stop --all >/dev/null 2>&1
records >"$T/all"
check "nobody refused our certificate" bash -c "! grep -q client_rejected_ca '$T/all'"
hasnt "the planted secret is in no record" "$T/all" "$SECRET"
check_done
