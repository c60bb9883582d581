#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Large transfers, down and up, in all pairings of versions: whole, and the worker's memory does not grow with them. TRANSFER_MB: of the
# longest one, 1024; `make transfer10g` makes it 10240.
NAME=transfer
. "$(dirname "$0")/lib.sh"
can_run
: "${TRANSFER_MB:=1024}"
if [ "${VARIANT:-${SP_VARIANT:-release}}" = san ]; then skip "a sanitizer's own memory would be measured"; exit 0; fi
[ -z "${SP_SCAN:-}" ] || TRANSFER_MB=256 # beside the run as root, which has done it
make_pki "DNS:h1.test,DNS:h2.test"
H1=$(free_port) H2=$(free_port)
mkdir -p "$T/ngx"
truncate -s "${TRANSFER_MB}M" "$T/ngx/long"
truncate -s 128M "$T/ngx/short"
cat >"$T/sink.py" <<'P'
# Takes a request's content, tells how much it was and what came first and last.
import http.server, os, socket, socketserver, sys
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *a): pass
    def address_string(self): return ""
    def do_PUT(self):
        n = 0
        if "Content-Length" in self.headers:
            left = int(self.headers["Content-Length"])
            while left:
                d = self.rfile.read(min(left, 1 << 20))
                if not d: return
                n += len(d); left -= len(d)
        else:
            while True:
                k = int(self.rfile.readline(), 16); left = k
                while left: d = self.rfile.read(min(left, 1 << 20)); left -= len(d); n += len(d)
                self.rfile.readline()
                if k == 0: break
        out = b"%d octets\n" % n
        self.send_response(200); self.send_header("Content-Length", str(len(out))); self.end_headers(); self.wfile.write(out)
class S(socketserver.ThreadingMixIn, socketserver.UnixStreamServer): daemon_threads = True
S(sys.argv[1], H).serve_forever()
P
python3 "$T/sink.py" "$T/sink" >"$T/sink.log" 2>&1 &
PIDS+=($!)
site() { echo "server { listen 127.0.0.1:$1 ssl $2; ssl_certificate $T/up.pem; ssl_certificate_key $T/up.key; location /v1/ { alias $T/ngx/; } location /v1/put { proxy_http_version 1.1; proxy_request_buffering off; proxy_pass http://unix:$T/sink; } }"; }
cat >"$T/ngx/conf" <<C
daemon off; master_process off; pid $T/ngx/pid; error_log $T/ngx/err.log;
events { worker_connections 512; }
http {
	client_body_temp_path $T/ngx/b; proxy_temp_path $T/ngx/p; fastcgi_temp_path $T/ngx/f; uwsgi_temp_path $T/ngx/u; scgi_temp_path $T/ngx/s; access_log off; client_max_body_size 0;
	$(site "$H1" "")
	$(site "$H2" http2)
}
C
nginx -c "$T/ngx/conf" -e "$T/ngx/err.log" >"$T/ngx/out" 2>&1 &
PIDS+=($!)
wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$H2" || { not_ok "nginx starts" "$(cat "$T/ngx/out" "$T/ngx/err.log")"; exit 1; }
wait_for 10 test -S "$T/sink" || not_ok "the sink starts" "$(cat "$T/sink.log")"
{
	printf 'version: 1\nname: transfer\nsecrets:\n  api: { env: E2E_SECRET, hosts: [h1.test, h2.test] }\ndestinations:\n'
	for h in "h1 $H1" "h2 $H2"; do printf '  - host: %s.test\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { ca: ./upca.pem }\n    allow: [ GET /v1/**, PUT /v1/put ]\n    inject: [ { secret: api, as: bearer, env: API_TOKEN } ]\n' $h; done
} >"$WORK/policy.yaml"
# one sandbox; it does what comes on the pipe, a line each
mkfifo "$WORK/ask" "$WORK/said"
cat >"$WORK/in.sh" <<'P'
exec 3<ask 4>said
while read -r how host what n <&3; do
	case $what in
	down) curl -sS --$how -m 1500 -o /dev/null -w '%{http_version} %{http_code} %{size_download}\n' "https://$host.test/v1/$n" >&4 2>&1 ;;
	up) head -c "$n" /dev/zero | curl -sS --$how -m 1500 -H Expect: -T - "https://$host.test/v1/put" >&4 2>&1 ;;
	esac
done
P
(cd "$WORK" && E2E_SECRET=$SECRET timeout 3500 "$SP" run --quiet --policy policy.yaml -- sh in.sh) >"$T/run.log" 2>&1 &
PIDS+=($!)
exec 3>"$WORK/ask" 4<"$WORK/said"
do_it() { echo "$*" >&3 && read -r -t 1600 answer <&4; }
worker() { role_pids | awk '$1 == "worker" {print $2; exit}'; }
peak() { awk '/^VmHWM/ {print $2}' "/proc/$1/status"; }
for h in h1 h2; do for how in http1.1 http2; do do_it $how $h down short || not_ok "a first transfer" "$(cat "$T/run.log")"; done; done
W=$(worker)
[ -n "$W" ] || { not_ok "the worker" "$(role_pids)"; exit 1; }
before=$(peak "$W")
for h in h1 h2; do for how in http1.1 http2; do
	n=short size=134217728
	[ "$how-$h" != http2-h2 ] || n=long size=$((TRANSFER_MB * 1048576))
	v=${how#http}
	do_it $how $h down $n
	[ "$answer" = "$v 200 $size" ] && ok "down, $how to an $h upstream: $((size >> 20)) MiB" || not_ok "down, $how to an $h upstream" "$answer"
	size=134217728
	[ "$how-$h" != http2-h2 ] || size=$((TRANSFER_MB * 262144))
	do_it $how $h up $size
	[ "$answer" = "$size octets" ] && ok "up, $how to an $h upstream: $((size >> 20)) MiB" || not_ok "up, $how to an $h upstream" "$answer"
done; done
after=$(peak "$W")
[ $((after - before)) -le 8192 ] && ok "memory does not grow with it: at most $before kB in short ones, $after kB in all" || not_ok "memory grows with it" "at most $before kB in short ones, $after kB in all"
exec 3>&- 4<&-
check_done
