#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every role killed under traffic: the right refusal or no network, one record per request still, and it works again.
NAME=kill
. "$(dirname "$0")/lib.sh"
can_run
make_pki
start_nginx
write_policy
cat >"$WORK/loop.py" <<'P'
# Requests until told to stop, each on a connection of its own, numbered; what became of them goes to a file.
import os, ssl, sys, time, urllib.request, urllib.error
n = 0
out = open("results", "w", 1)
while not os.path.exists("stop"):
    n += 1
    try:
        r = urllib.request.urlopen("https://api.test/v1/k%d" % n, timeout=20); out.write("%d %d\n" % (n, r.status)); r.read()
    except urllib.error.HTTPError as e: out.write("%d %d\n" % (n, e.code))
    except Exception as e: out.write("%d error %s\n" % (n, str(e)[:80]))
    time.sleep(0.01)
print(n)
P
role_pid() {
	python3 - "$STATE" "$1" <<'P'
import json, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(5)
s.connect(sys.argv[1] + "/run/control.sock"); s.send(b'{"id":1,"op":"status"}')
st = json.loads(s.recv(65536))["ok"]
if sys.argv[2] == "supervisor": print(st["pid"])
for r in st["roles"]:
    if r["role"] == sys.argv[2] and not r.get("spare") and r["running"]: print(r["pid"]); break
P
}
more() { [ "$(grep -c ' 200$' "$WORK/results")" -gt "$1" ]; }
rm -f "$WORK/stop"
(cd "$WORK" && E2E_SECRET=$SECRET timeout 120 "$SP" run --quiet --policy policy.yaml --name killed -- python3 loop.py) >"$T/loop.out" 2>&1 &
loop=$!
PIDS+=($loop)
wait_for 20 test -s "$WORK/results" || not_ok "traffic flows" "$(cat "$T/loop.out")"
for role in worker dialer ca secrets audit worker audit; do
	pid=$(role_pid $role)
	[ -n "$pid" ] && kill -9 "$pid" || { not_ok "$role is there" "$(cat "$T/loop.out")"; continue; }
	before=$(grep -c ' 200$' "$WORK/results")
	if wait_for 20 more $((before + 5)); then ok "after the $role was killed, it works again"; else not_ok "after the $role was killed, it works again" "$(tail -n 5 "$WORK/results")"; fi
	[ "$(role_pid $role)" != "$pid" ] && ok "the $role is another process" || not_ok "the $role is another process"
done
touch "$WORK/stop"
wait $loop
[ $? -eq 0 ] && ok "the command ended by itself" || not_ok "the command ended by itself" "$(cat "$T/loop.out")"
"$SP" stop --all >/dev/null 2>&1
records >"$T/all"
python3 - "$WORK/results" "$T/all" >"$T/out" 2>&1 <<'P'
import collections, json, sys
seen = collections.Counter(); codes = collections.Counter()
for l in open(sys.argv[2]):
    o = json.loads(l)
    if o["unmapped"]["sallyport"]["kind"] == "request": seen[o["http_request"]["url"].get("path", "")] += 1
bad = []; answered = 0
for l in open(sys.argv[1]):
    f = l.split(); k = seen["/v1/k" + f[0]]; codes[f[1]] += 1
    if f[1] != "error":
        answered += 1
        if k != 1: bad.append((l.strip(), k))
    elif k > 1: bad.append((l.strip(), k))
print("answers", dict(codes), "answered", answered, "bad", bad[:10])
sys.exit(1 if bad or answered < 20 else 0)
P
[ $? -eq 0 ] && ok "one record for each answered request, never two: $(cat "$T/out")" || not_ok "one record for each answered request, never two" "$(cat "$T/out")"
check "the chain verifies across all of it" "$SP" logs verify
# the supervisor: no network, and nobody inside can take the ports
rm -f "$WORK/stop" "$WORK/results" "$WORK/go"
cat >"$WORK/orphan.py" <<'P'
import os, socket, time
def tcp():
    s = socket.socket(); s.settimeout(5)
    try: s.connect(("127.0.0.1", 3128)); s.send(b"GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n"); return "answered" if s.recv(10) else "closed"
    except OSError as e: return "refused"
def bind(p):
    try: s = socket.socket(); s.bind(("127.0.0.1", p)); return "BOUND"
    except OSError: return "refused"
print("before", tcp(), flush=True); open("up", "w").close()
while not os.path.exists("go"): time.sleep(0.05)
for i in range(100):
    if tcp() == "refused": break
    time.sleep(0.05)
print("after", tcp(), "bind 3128", bind(3128), "bind 53", bind(53), flush=True)
P
(cd "$WORK" && E2E_SECRET=$SECRET timeout 60 "$SP" run --quiet --policy policy.yaml --name orphan -- python3 orphan.py) >"$T/orphan.out" 2>&1 &
orphan=$!
PIDS+=($orphan)
wait_for 20 test -e "$WORK/up"
pid=$(role_pid supervisor)
kill -9 "$pid"
touch "$WORK/go"
wait $orphan
has "with the gateway gone: no network, no port to take" "$T/orphan.out" "after refused bind 3128 refused bind 53 refused"
wait_for 10 bash -c "! pgrep -f 'sallyport.* --role' -u $(id -u) | xargs -r -n1 sh -c 'tr \"\\0\" \" \" </proc/\$0/environ' >/dev/null"
check "a new gateway serves the same state" bash -c "cd '$WORK' && E2E_SECRET=x timeout 60 '$SP' run --quiet --policy policy.yaml -- curl -sS -m 20 -o /dev/null https://api.test/v1/again"
check "the chain verifies after the crash" "$SP" logs verify
check_done
