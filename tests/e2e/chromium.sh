#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A browser inside: Chromium loads a page of 200 resources over HTTP/2 from nginx, through the gateway, whose CA it trusts by what the
# launcher put into the sandbox. Nothing of its own sandbox is used: it stands in ours.
NAME=chromium
. "$(dirname "$0")/lib.sh"
can_run
command -v chromium >/dev/null 2>&1 || { skip "chromium is not installed"; exit 0; }
command -v certutil >/dev/null 2>&1 || { skip "no certutil: the sandbox has no NSS database"; exit 0; }
if [ "${VARIANT:-${SP_VARIANT:-release}}" = san ]; then skip "not with sanitizers"; exit 0; fi
make_pki "DNS:page.test"
P=$(free_port)
mkdir -p "$T/ngx/site"
for i in $(seq 0 99); do
	printf '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="2"><rect width="1" height="1"/></svg>' $((i + 1)) >"$T/ngx/site/i$i.svg"
	printf 'window.n = (window.n || 0) + 1;\n' >"$T/ngx/site/s$i.js"
done
{
	printf '<!doctype html><meta charset="utf-8"><title>page</title><body>\n'
	for i in $(seq 0 99); do printf '<img src="/v1/i%d.svg">\n<script src="/v1/s%d.js"></script>\n' "$i" "$i"; done
	cat <<'H'
<script>
onload = () => { // all of it before the event is over: then the page is dumped
	const r = performance.getEntriesByType('resource'), img = [...document.images].filter((m, i) => m.naturalWidth === i + 1).length;
	let denied = '?';
	try { const x = new XMLHttpRequest(); x.open('POST', '/hidden', false); x.send('x'); denied = x.status + ' ' + JSON.parse(x.responseText).error; } catch (e) { denied = String(e); }
	document.body.textContent = `images ${img} scripts ${window.n} h2 ${r.filter(x => x.nextHopProtocol === 'h2').length} of ${r.length} denied ${denied}`;
};
</script>
H
} >"$T/ngx/site/page.html"
cat >"$T/ngx/conf" <<C
daemon off; master_process off; pid $T/ngx/pid; error_log $T/ngx/err.log;
events { worker_connections 512; }
http {
	client_body_temp_path $T/ngx/b; proxy_temp_path $T/ngx/p; fastcgi_temp_path $T/ngx/f; uwsgi_temp_path $T/ngx/u; scgi_temp_path $T/ngx/s;
	log_format seen '\$server_protocol \$uri \$status \$connection auth=\$http_authorization'; access_log $T/ngx/access.log seen;
	types { text/html html; image/svg+xml svg; text/javascript js; }
	server { listen 127.0.0.1:$P ssl http2; ssl_certificate $T/up.pem; ssl_certificate_key $T/up.key; keepalive_requests 10000; location /v1/ { alias $T/ngx/site/; } }
}
C
nginx -c "$T/ngx/conf" -e "$T/ngx/err.log" >"$T/ngx/out" 2>&1 &
PIDS+=($!)
wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$P" || { not_ok "nginx starts" "$(cat "$T/ngx/out" "$T/ngx/err.log")"; exit 1; }
cat >"$WORK/policy.yaml" <<C
version: 1
name: chromium
secrets:
  api: { env: E2E_SECRET, hosts: [page.test] }
destinations:
  - host: page.test
    connect: 127.0.0.1:$P
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ GET /v1/** ]
    inject: [ { secret: api, as: bearer, env: API_TOKEN } ]
C
cat >"$WORK/browse.sh" <<'C'
mkdir -p "$PWD/profile"
exec timeout 100 chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-extensions --disable-background-networking --disable-component-update --no-first-run \
	--user-data-dir="$PWD/profile" --timeout=60000 --dump-dom "$@"
C
(cd "$WORK" && E2E_SECRET=$SECRET timeout 120 "$SP" run --quiet --policy policy.yaml -- sh browse.sh https://page.test/v1/page.html) >"$T/out" 2>"$T/err"
has "a page of 200 resources: images and scripts, all of them" "$T/out" "images 100 scripts 100"
has "each over HTTP/2" "$T/out" "h2 200 of 200"
has "a refusal is readable for the page's own code" "$T/out" "denied 403 policy_denied"
[ "$(grep -c '^HTTP/2.0 /v1/[is].* 200 ' "$T/ngx/access.log")" -eq 200 ] && ok "nginx served 200, over HTTP/2" || not_ok "nginx served 200, over HTTP/2" "$(cut -d' ' -f1,3 "$T/ngx/access.log" | sort | uniq -c)"
n=$(awk '/ \/v1\/[is]/ {print $4}' "$T/ngx/access.log" | sort -u | wc -l)
[ "$n" -ge 1 ] && [ "$n" -le 4 ] && ok "on few connections ($n)" || not_ok "on few connections" "$n"
[ "$(grep -c "auth=Bearer $SECRET" "$T/ngx/access.log")" -ge 201 ] && ok "each with the credential" || not_ok "each with the credential" "$(head -n 3 "$T/ngx/access.log")"
[ "$(record_count '"path":"/v1/i' '"decision":"allow"' '"client_protocol":"HTTP/2"')" -eq 100 ] && ok "each is recorded" || not_ok "each is recorded" "$(record_lines | head -n 5)"
hasnt "no secret in what the browser shows" "$T/out" "$SECRET"
run sh -c 'grep -rlF "$0" . || true' "$SECRET" >"$T/found" 2>&1
[ ! -s "$T/found" ] && ok "nor in its profile" || not_ok "nor in its profile" "$(cat "$T/found")"
check_done
