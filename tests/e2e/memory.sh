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
# over HTTP/2 each stream has a window of its own: enough uploads that the origin does not take pass the limit, and some are shed
if ! /usr/bin/python3 -c 'import h2' 2>/dev/null; then skip "python3-h2 is not installed"; check_done; fi
# what an idle connection holds in all, TLS and the account of what it did included
cat >"$WORK/idle.py" <<'P'
# COUNT connections of HTTP/2, a request on each; then they are held until told to let go
import os, socket, ssl, sys, time
import h2.config, h2.connection, h2.events
ctx = ssl.create_default_context(); ctx.set_alpn_protocols(["h2"]); held = []
def one():
    s = ctx.wrap_socket(socket.create_connection(("api.test", 443), 30), server_hostname="api.test"); s.settimeout(30)
    c = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None)); c.initiate_connection()
    c.send_headers(1, [(":method", "GET"), (":scheme", "https"), (":authority", "api.test"), (":path", "/v1/hello")], end_stream=True); s.sendall(c.data_to_send())
    while True:
        d = s.recv(65536)
        if not d: raise SystemExit("closed")
        e = c.receive_data(d); s.sendall(c.data_to_send())
        if any(isinstance(x, h2.events.StreamEnded) for x in e): break
    held.append(s)
for n in sys.argv[1:]:
    while len(held) < int(n): one()
    open("held" + n, "w").close()
    while not os.path.exists("go" + n): time.sleep(0.05)
P
(cd "$WORK" && E2E_SECRET=$SECRET timeout 120 "$SP" run --quiet --policy policy.yaml --name idle -- /usr/bin/python3 idle.py 100 900) >"$T/idle" 2>&1 &
idle=$!
PIDS+=($idle)
settled() { # the same for three seconds: what was needed for traffic went
	local a b=0 i
	for ((i = 0; i < 20; i++)); do a=$b; sleep 3; b=$(awk '/VmRSS/ { print $2 }' "/proc/$w/status"); [ "$a" != "$b" ] || break; done
	echo "$b"
}
if wait_for 60 test -e "$WORK/held100"; then
	w=$(role_pids | awk '$1 == "worker" && $3 == "idle" {print $2}')
	before=$(settled)
	touch "$WORK/go100"
	wait_for 60 test -e "$WORK/held900" || not_ok "900 idle connections" "$(cat "$T/idle")"
	after=$(settled)
	room=32
	case $(openssl version) in "OpenSSL 3."[0-4].*) ;; *) room=40 ;; esac # those of OpenSSL 3.5 hold 8 KiB more
	[ $((after - before)) -le $((800 * room)) ] && ok "an idle connection of HTTP/2 holds no more than $room KiB ($(((after - before) * 1024 / 800)) octets)" || not_ok "an idle connection of HTTP/2 holds no more than $room KiB" "$before KiB with 100, $after KiB with 900"
else
	not_ok "100 idle connections" "$(cat "$T/idle")"
fi
touch "$WORK/go100" "$WORK/go900"
wait $idle
STUCK=$(free_port)
cat >"$T/stuck.py" <<'P'
# speaks HTTP/2, gives out its first windows and no more
import socket, ssl, sys, threading
import h2.config, h2.connection, h2.settings
ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); ctx.load_cert_chain(sys.argv[2], sys.argv[3]); ctx.set_alpn_protocols(["h2"])
def serve(raw):
    try:
        s = ctx.wrap_socket(raw, server_side=True); c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        c.initiate_connection(); c.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 100}); s.sendall(c.data_to_send())
        while True:
            d = s.recv(65536)
            if not d: return
            c.receive_data(d); s.sendall(c.data_to_send())
    except Exception: pass
l = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=100)
while True: threading.Thread(target=serve, args=(l.accept()[0],), daemon=True).start()
P
/usr/bin/python3 "$T/stuck.py" "$STUCK" "$T/up.pem" "$T/up.key" >"$T/stuck.out" 2>&1 &
PIDS+=($!)
wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$STUCK"
sed "s/^name: .*/name: streams/; s/127.0.0.1:$PORT/127.0.0.1:$STUCK/" "$WORK/policy.yaml" >"$WORK/streams.yaml"
rm -f "$WORK/full" "$WORK/stop"
cat >"$WORK/streams.py" <<'P'
# 34 connections of 95 uploads, each until its window is used up; counts the connections that were taken away
import os, socket, ssl, threading, time
import h2.config, h2.connection, h2.events
ctx = ssl.create_default_context(); ctx.set_alpn_protocols(["h2"]); lost = []; done = []
def one(i):
    try:
        s = ctx.wrap_socket(socket.create_connection(("api.test", 443), 30), server_hostname="api.test"); s.settimeout(60)
        c = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None)); c.initiate_connection(); s.sendall(c.data_to_send())
        while c.remote_settings.max_concurrent_streams > 1000 or c.outbound_flow_control_window <= 65535: # its SETTINGS, and the connection's window
            d = s.recv(65536)
            if not d: raise OSError("closed")
            c.receive_data(d); s.sendall(c.data_to_send())
        piece = bytes(16000)
        for k in range(95):
            sid = c.get_next_available_stream_id()
            c.send_headers(sid, [(":method", "POST"), (":scheme", "https"), (":authority", "api.test"), (":path", "/v1/post")])
            while c.local_flow_control_window(sid) > 0:
                n = min(c.local_flow_control_window(sid), 16000)
                c.send_data(sid, piece[:n]); s.sendall(c.data_to_send())
                if c.outbound_flow_control_window < 200000:
                    d = s.recv(65536)
                    if not d: raise OSError("closed")
                    c.receive_data(d)
        done.append(i)
        while not os.path.exists("stop"): time.sleep(0.1)
    except Exception as e: lost.append(repr(e))
t = [threading.Thread(target=one, args=(i,)) for i in range(34)]
for x in t: x.start()
while len(done) + len(lost) < 34 and not os.path.exists("stop"): time.sleep(0.1)
open("full", "w").close()
for x in t: x.join()
print("whole", len(done), "lost", len(lost), lost[:2])
P
(cd "$WORK" && E2E_SECRET=$SECRET timeout 120 "$SP" run --quiet --policy streams.yaml --name streams -- /usr/bin/python3 streams.py) >"$T/streams" 2>&1 &
greedy=$!
PIDS+=($greedy)
shed() { [ "$(record_count '"name":"streams"' '"status_detail":"memory"')" -gt 0 ]; }
wait_for 90 shed && ok "over the limit connections are shed, and it is recorded" || not_ok "over the limit connections are shed, and it is recorded" "$(cat "$T/streams"; record_lines | tail -n 3)"
wait_for 60 test -e "$WORK/full" || not_ok "the uploads come to a stop" "$(cat "$T/streams")"
w=$(role_pids | awk '$1 == "worker" && $3 == "streams" {print $2}')
rss=$(awk '/VmHWM/ { print $2 }' "/proc/$w/status")
[ "$rss" -lt 716800 ] && ok "nor do streams take it above 700 MiB ($((rss / 1024)) MiB at most)" || not_ok "nor do streams take it above 700 MiB" "$rss KiB"
touch "$WORK/stop"
wait $greedy
if [ "$(awk '/^whole/ {print $2}' "$T/streams")" -ge 10 ]; then ok "most of them stay"; else not_ok "most of them stay" "$(cat "$T/streams")"; fi
"$SP" stop --all >/dev/null 2>&1
check "the chain verifies" "$SP" logs verify
check_done
