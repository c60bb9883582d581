#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# C22: h2spec (generic, http2 and hpack, strict) against what a sandbox finds where it dials a name: every test passes, none is
# waived. The upstream, which some tests need an answer from, speaks HTTP/2 once and HTTP/1.1 once. It answers what it has read
# whole: behind an answer that came earlier the rest of a request is not looked at (RFC 9113 8.1), and h2spec wants it to be.
NAME=h2spec
. "$(dirname "$0")/lib.sh"
can_run
CLIENTS=${SP_CLIENTS:-${BUILD:-$BIN}/../clients} # what `make deps` made
[ -x "$CLIENTS/h2spec" ] || { skip "C22: $(cat "$CLIENTS/h2spec.skip" 2>/dev/null || echo "h2spec was not built (make deps)")"; exit 0; }
make_pki "DNS:h1.test,DNS:h2.test"
H1=$(free_port) H2=$(free_port) BEHIND=$(free_port)
mkdir -p "$T/ngx"
site() { echo "server { listen 127.0.0.1:$1 ssl $2; ssl_certificate $T/up.pem; ssl_certificate_key $T/up.key; keepalive_requests 100000; location / { proxy_pass http://127.0.0.1:$BEHIND; } }"; }
cat >"$T/ngx/conf" <<C
daemon off; master_process off; pid $T/ngx/pid; error_log $T/ngx/err.log;
events { worker_connections 1024; }
http {
	client_body_temp_path $T/ngx/b; proxy_temp_path $T/ngx/p; fastcgi_temp_path $T/ngx/f; uwsgi_temp_path $T/ngx/u; scgi_temp_path $T/ngx/s; access_log off;
	$(site "$H1" "")
	$(site "$H2" http2)
	server { listen 127.0.0.1:$BEHIND; location / { default_type text/plain; return 200 "from an origin"; } }
}
C
nginx -c "$T/ngx/conf" -e "$T/ngx/err.log" >"$T/ngx/out" 2>&1 &
PIDS+=($!)
wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$H2" || { not_ok "nginx starts" "$(cat "$T/ngx/out" "$T/ngx/err.log")"; exit 1; }
{
	printf 'version: 1\nname: h2spec\ndestinations:\n'
	for h in "h1 $H1" "h2 $H2"; do printf '  - host: %s.test\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { ca: ./upca.pem }\n    allow: [ { method: [GET, HEAD, POST, OPTIONS], path: /**, body: any } ]\n' $h; done
} >"$WORK/policy.yaml"
cp "$CLIENTS/h2spec" "$WORK/h2spec"
for h in h1 h2; do
	run ./h2spec -t -S -h $h.test -p 443 -o 5 -j "$h.xml" >"$T/out.$h" 2>&1
	sum=$(grep -E '^[0-9]+ tests, ' "$T/out.$h")
	case $sum in
	"$(sed 's/ tests.*//' <<<"$sum") tests, $(sed 's/ tests.*//' <<<"$sum") passed, 0 skipped, 0 failed") ok "C22 h2spec, strict, before an $h upstream: $sum" ;;
	*) not_ok "C22 h2spec, strict, before an $h upstream: ${sum:-no result}" "$(sed -n '/^Failures/,$p' "$T/out.$h" | head -60)" "$(tail -n 5 "$T/out.$h")" ;;
	esac
done
has "C22 hpack, too" "$T/out.h2" "HPACK"
[ "$(record_count '"kind":"connection"' '"code":"malformed_request"' '"hostname":"h2.test"')" -ge 20 ] && ok "C22 what broke a connection is recorded" || not_ok "C22 what broke a connection is recorded" "$(record_lines | tail -n 5)"
check_done
