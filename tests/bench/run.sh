#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Figures beside peers of the same machine, interleaved round by round: CPU time per request of the whole process tree
# (user + system), and requests per second. The load generator runs inside `sallyport run` for us, and directly against the
# peers, which are plain re-encrypting reverse proxies (nginx, haproxy: no CONNECT, no policy per request and sandbox, no
# records; squid: an ssl-bump interceptor is measured elsewhere). Proxies are pinned to CPU 0, load and upstream to CPU 1.
# run.sh [ROUNDS] [SECONDS]   needs wrk; nginx and haproxy where installed. Bounded: ROUNDS x modes x peers x SECONDS.
set -u
NAME=bench
cd "$(dirname "$0")/../.."
. tests/e2e/lib.sh
ROUNDS=${1:-3} SECS=${2:-3}
command -v wrk >/dev/null 2>&1 || { echo "bench: wrk is not installed (apt-get install wrk)"; exit 1; }
can_run
make_pki
start_nginx
taskset -cp 1 "${PIDS[0]}" >/dev/null
head -c 16777216 /dev/urandom >"$T/ngx/file"
python3 -c 'print("x" * 1023)' >"$T/ngx/json"
sed -i "s#location /v1/big .*#location /v1/file { alias $T/ngx/file; } location /v1/json { default_type application/json; alias $T/ngx/json; }#; s#worker_connections 512#worker_connections 4096#; s#access_log $T/ngx/access.log auth;#access_log off; keepalive_requests 100000000;#" "$T/ngx/conf"
kill_wait "${PIDS[0]}"
taskset -c 1 nginx -c "$T/ngx/conf" -e "$T/ngx/err.log" & PIDS+=($!)
wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT"
write_policy
hz=$(getconf CLK_TCK)
tree() { local c; echo "$1"; for c in $(cat /proc/"$1"/task/*/children 2>/dev/null); do tree "$c"; done; }
ticks() { local p t=0; for p in $(tree "$1"); do t=$((t + $(awk '{sub(/.*\) /, ""); print $12 + $13}' /proc/"$p"/stat 2>/dev/null || echo 0))); done; echo $t; }
pin() { local p; for p in $(tree "$1"); do taskset -acp 0 "$p" >/dev/null 2>&1; done; }
# peers
NP=$(free_port) HP=$(free_port)
mkdir -p "$T/np"
cat >"$T/np/conf" <<C
daemon off; master_process off; pid $T/np/pid; error_log $T/np/err; events { worker_connections 4096; }
http { access_log off; client_body_temp_path $T/np/b; proxy_temp_path $T/np/p; fastcgi_temp_path $T/np/f; uwsgi_temp_path $T/np/u; scgi_temp_path $T/np/s; keepalive_requests 100000000;
 upstream u { server 127.0.0.1:$PORT; keepalive 256; keepalive_requests 100000000; }
 server { listen 127.0.0.1:$NP ssl; ssl_certificate $T/up.pem; ssl_certificate_key $T/up.key;
  location /v1/ { proxy_pass https://u; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host api.test; proxy_set_header Authorization "Bearer injected"; proxy_ssl_verify on;
   proxy_ssl_trusted_certificate $T/upca.pem; proxy_ssl_name api.test; proxy_ssl_server_name on; proxy_buffering off; proxy_buffers 4 64k; proxy_buffer_size 64k; proxy_busy_buffers_size 128k; } } }
C
taskset -c 0 nginx -c "$T/np/conf" -e "$T/np/err" & NPID=$!; PIDS+=($NPID)
HPID=
if command -v haproxy >/dev/null 2>&1; then
	cat "$T/up.key" "$T/up.pem" >"$T/hap.pem"
	cat >"$T/hap.cfg" <<C
global
 nbthread 1
 maxconn 4000
defaults
 mode http
 timeout connect 5s
 timeout client 60s
 timeout server 60s
 http-reuse always
frontend f
 bind 127.0.0.1:$HP ssl crt $T/hap.pem
 http-request set-header Authorization "Bearer injected"
 default_backend b
backend b
 server up 127.0.0.1:$PORT ssl verify required ca-file $T/upca.pem sni str(api.test) verifyhost api.test pool-max-conn 200
C
	taskset -c 0 haproxy -db -f "$T/hap.cfg" >"$T/hap.log" 2>&1 & HPID=$!; PIDS+=($HPID)
fi
# us: a sandbox that runs what it is handed in a file, so that the gateway stays warm
cat >"$WORK/serve.sh" <<'S'
n=0
while :; do
	[ -e quit ] && exit 0
	if [ -e "job$n" ]; then sh "./job$n" >"out$n" 2>&1; touch "done$n"; n=$((n + 1)); else sleep 0.02; fi
done
S
(cd "$WORK" && E2E_SECRET=$SECRET taskset -c 1 "$SP" run --quiet --policy policy.yaml --name bench -- bash ./serve.sh) >"$T/us.log" 2>&1 & PIDS+=($!)
wait_for 10 test -S "$STATE/run/control.sock"
UPID=$(python3 -c "
import json, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect('$STATE/run/control.sock'); s.send(b'{\"id\":1,\"op\":\"status\"}')
print(json.loads(s.recv(65536))['ok']['pid'])")
# called in subshells: the number of the next job is what is there already
inside() { local j; j=$(find "$WORK" -name 'done*' | wc -l); echo "$*" >"$WORK/tmpjob"; mv "$WORK/tmpjob" "$WORK/job$j"; wait_for $((SECS + 20)) test -e "$WORK/done$j"; cat "$WORK/out$j"; }
inside "curl -sS -o /dev/null https://api.test/v1/json" >/dev/null
pin "$UPID"
one() { # PEER MODE -> line "PEER MODE us_per_req rps"
	local peer=$1 mode=$2 pid url w out t0 t1 n
	case $peer in ours) pid=$UPID url=https://api.test ;; nginx) pid=$NPID url=https://127.0.0.1:$NP ;; haproxy) pid=$HPID url=https://127.0.0.1:$HP ;; esac
	case $mode in
	keepalive) w="wrk -t1 -c32 -d${SECS}s $url/v1/json" ;;
	latency) w="wrk -t1 -c1 -d${SECS}s $url/v1/json" ;;
	newconn) w="wrk -t1 -c8 -d${SECS}s -H 'Connection: close' $url/v1/json" ;;
	bulk) w="wrk -t1 -c2 -d${SECS}s $url/v1/file" ;;
	esac
	t0=$(ticks "$pid")
	if [ "$peer" = ours ]; then out=$(inside "taskset -c 1 $w"); else out=$(eval "taskset -c 1 $w -H 'Host: api.test'" 2>&1); fi
	t1=$(ticks "$pid")
	n=$(echo "$out" | sed -n 's/^ *\([0-9]*\) requests in.*/\1/p')
	echo "$out" | grep -q 'Non-2xx' && { echo "$peer $mode error error" >>"$T/lines"; return; }
	python3 -c "
n, t, s, m = ${n:-0}, $t1 - $t0, $SECS, '$mode'
print('$peer', m, 'none none') if not n else print('$peer', m, '%.2f' % (t / $hz * 1e9 / (n * 16777216)) if m == 'bulk' else '%.1f' % (t / $hz * 1e6 / n), '%.0f' % (n * 16.777216 / s if m == 'bulk' else n / s))" >>"$T/lines"
}
for i in $(seq "$ROUNDS"); do
	for mode in ${MODES:-keepalive latency newconn bulk}; do
		for peer in ours nginx ${HPID:+haproxy}; do one $peer $mode; done
	done
done
touch "$WORK/quit"
python3 - "$T/lines" <<'P'
import collections, statistics, sys
d = collections.defaultdict(list)
for l in open(sys.argv[1]):
    p, m, c, r = l.split()
    try: d[m, p].append((float(c), float(r)))
    except ValueError: print("invalid:", l.strip())
print("| mode | peer | CPU (us/request; bulk: s/GB), median (min-max) | requests/s (bulk: MB/s), median | CPU, ours : peer |\n|---|---|---|---|---|")
for m in ("keepalive", "latency", "newconn", "bulk"):
    for p in ("ours", "nginx", "haproxy"):
        v = d.get((m, p))
        if not v: continue
        c = [x[0] for x in v]; o = [x[0] for x in d.get((m, "ours"), [])]
        ratio = "" if p == "ours" or not o else "%.2f" % (statistics.median(o) / max(statistics.median(c), 1e-9))
        print("| %s | %s | %.2f (%.2f-%.2f) | %.0f | %s |" % (m, p, statistics.median(c), min(c), max(c), statistics.median(x[1] for x in v), ratio))
P
