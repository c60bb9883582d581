#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The queues of one sandbox are bounded: of thousands of clients that do not read none holds much, and another sandbox does not feel it.
NAME=memory
. "$(dirname "$0")/lib.sh"
can_run
if [ "${VARIANT:-${SP_VARIANT:-release}}" = san ]; then skip "a sanitizer's own memory would be measured"; exit 0; fi
if [ "$(ulimit -Hn)" -lt 9000 ]; then skip "fewer than 9000 descriptors are allowed here"; exit 0; fi
ulimit -n 9000
make_pki
start_nginx
kill_wait "${PIDS[0]}"
sed -i 's/worker_connections 512/worker_connections 8000/' "$T/ngx/conf"
head -c 8388608 /dev/urandom >"$T/ngx/big"
nginx -c "$T/ngx/conf" -e "$T/ngx/err.log" >"$T/ngx/out" 2>&1 &
PIDS+=($!)
wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT"
write_policy
echo 'sandbox: { resources: { open_files: 8192 } }' >>"$WORK/policy.yaml"
cat >"$WORK/hold.py" <<'P'
# Opens connections, asks for 8 MiB on each and reads nothing, until told to stop.
import os, socket, ssl, time
ctx = ssl.create_default_context(); held = []
for i in range(3500):
    s = socket.create_connection(("api.test", 443), 20); s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    try: t = ctx.wrap_socket(s, server_hostname="api.test"); t.send(b"GET /v1/big HTTP/1.1\r\nHost: api.test\r\n\r\n"); held.append(t)
    except OSError: pass
open("full", "w").close()
while not os.path.exists("stop"): time.sleep(0.1)
print("held", len(held))
P
(cd "$WORK" && E2E_SECRET=$SECRET timeout 120 "$SP" run --quiet --policy policy.yaml --name greedy -- python3 hold.py) >"$T/greedy" 2>&1 &
greedy=$!
PIDS+=($greedy)
wait_for 90 test -e "$WORK/full" || not_ok "3500 clients" "$(cat "$T/greedy")"
w=$(python3 -c "
import json, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect('$STATE/run/control.sock'); s.send(b'{\"id\":1,\"op\":\"status\"}')
print([r['pid'] for r in json.loads(s.recv(65536))['ok']['roles'] if r.get('sandbox') == 'greedy'][0])")
# at most 512 MiB of queues (from half of that on each may hold less), and TLS state for each of up to 7000 connections
rss=$(awk '/VmRSS/ { print $2 }' "/proc/$w/status")
[ "$rss" -lt 716800 ] && ok "the worker stays below 700 MiB ($((rss / 1024)) MiB)" || not_ok "the worker stays below 700 MiB" "$rss KiB"
sed 's/^name: .*/name: other/' "$WORK/policy.yaml" >"$WORK/other.yaml"
(cd "$WORK" && E2E_SECRET=$SECRET timeout 60 "$SP" run --quiet --policy other.yaml --name other -- curl -sS -m 20 https://api.test/v1/hello) >"$T/out" 2>&1
has "another sandbox is served meanwhile" "$T/out" "hello, you sent Bearer"
touch "$WORK/stop"
wait $greedy
"$SP" stop --all >/dev/null 2>&1
check "the chain verifies" "$SP" logs verify
check_done
