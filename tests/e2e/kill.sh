#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every role killed under traffic: the right refusal or no network, one record per request still, and it works again.
NAME=kill
. "$(dirname "$0")/lib.sh"
can_run
make_pki
# the upstream closes after each answer of /v1/k, so that every request needs the dialer
start_nginx 'location /v1/k { keepalive_timeout 0; default_type text/plain; return 200 "fine\n"; }'
write_policy
cat >"$WORK/loop.py" <<'P'
# loop.py TAG: requests until told to stop, each on a connection of its own and numbered; one line a request:
# NUMBER STATUS CODE, or NUMBER error TEXT. Every fourth asks for a name that is refused: the ca has to mint for it.
import json, os, sys, time, urllib.request, urllib.error
tag, n = sys.argv[1], 0
out = open("results-" + tag, "w", 1)
while not os.path.exists("stop"):
    n += 1
    host = "r%d-%s.test" % (n, tag) if n % 4 == 0 else "api.test"
    try:
        with urllib.request.urlopen("https://%s/v1/k%s%d" % (host, tag, n), timeout=20) as r: r.read(); out.write("%d %d -\n" % (n, r.status))
    except urllib.error.HTTPError as e:
        try: code = json.loads(e.read())["error"]
        except Exception: code = "unreadable"
        out.write("%d %d %s\n" % (n, e.code, code))
    except Exception as e: out.write("%d error %s\n" % (n, str(e).replace("\n", " ")[:80]))
    time.sleep(0.005)
P
good() { cat "$WORK"/results-* | grep -c ' 200 '; }
more() { [ "$(good)" -gt "$1" ]; }
# the ROLE's process is there and another one than PID; prints it
another() { local p; p=$(role_pid "$1"); [ -n "$p" ] && [ "$p" != "$2" ] && echo "$p" >"$T/pid"; }
rm -f "$WORK/stop"
(cd "$WORK" && E2E_SECRET=$SECRET timeout 240 "$SP" run --quiet --policy policy.yaml --name killed -- sh -c 'python3 loop.py a & python3 loop.py b & python3 loop.py c & wait') >"$T/loop.out" 2>&1 &
loop=$!
PIDS+=($loop)
touch "$WORK/results-a"
wait_for 20 more 5 || not_ok "traffic flows" "$(cat "$T/loop.out")"
for role in worker dialer ca secrets audit; do
	pid=none
	for _ in 1 2 3; do # three times: each restart waits longer, so that requests do meet the gap
		wait_for 20 another $role "$pid" || { not_ok "the $role is there" "$(role_pids)" "$(cat "$T/loop.out")"; break; }
		pid=$(cat "$T/pid")
		kill -9 "$pid"
	done
	if wait_for 20 another $role "$pid"; then ok "the $role is started again"; else not_ok "the $role is started again" "$(role_pids)"; fi
	before=$(good)
	if wait_for 20 more $((before + 10)); then ok "after the $role was killed, requests pass again"; else not_ok "after the $role was killed, requests pass again" "$(tail -qn 3 "$WORK"/results-*)"; fi
done
touch "$WORK/stop"
wait $loop
rc=$?
[ $rc -eq 0 ] && ok "the sandbox outlived it all" || not_ok "the sandbox outlived it all" "$rc" "$(cat "$T/loop.out")"
"$SP" stop --all >/dev/null 2>&1
records >"$T/all"
cat >"$T/compare.py" <<'P'
# Three accounts of the same requests: what the clients saw, what nginx saw, what was recorded.
import collections, glob, json, re, sys
recorded, codes, bad = collections.Counter(), collections.Counter(), []
for line in open(sys.argv[2]):
    o = json.loads(line)
    if o["unmapped"]["sallyport"]["kind"] == "request": recorded[o["http_request"]["url"].get("path", "")] += 1
upstream = collections.Counter(re.search(r"GET (\S+)", l).group(1) for l in open(sys.argv[3]) if "GET /v1/k" in l)
right = {("200", "-"), ("403", "destination_denied"), ("503", "gateway_unavailable"), ("503", "audit_unavailable"), ("503", "credential_unavailable")}
answered = 0
for name in glob.glob(sys.argv[1] + "/results-*"):
    tag = name[-1]
    for line in open(name):
        n, status, code = line.split(None, 2); path = "/v1/k%s%s" % (tag, n); code = code.strip()
        codes[status + " " + (code if status != "error" else re.sub(r"[^a-zA-Z_ ]", "", code)[:60])] += 1
        if status == "error":
            if recorded[path] > 1: bad.append("%s: recorded %d times" % (path, recorded[path]))
            continue
        answered += 1
        if (status, code) not in right: bad.append("%s: answered %s %s" % (path, status, code))
        if recorded[path] != 1: bad.append("%s: answered %s %s, recorded %d times" % (path, status, code, recorded[path]))
        if (status == "200") != (upstream[path] == 1): bad.append("%s: answered %s %s, but %d times upstream" % (path, status, code, upstream[path]))
for path, n in upstream.items():
    if recorded[path] != 1: bad.append("%s: %d times upstream, recorded %d times" % (path, n, recorded[path]))
print("%d answered, %d upstream; %s" % (answered, sum(upstream.values()), ", ".join("%s: %d" % x for x in codes.most_common())))
print("\n".join(bad[:15]))
sys.exit(1 if bad or answered < 50 else 0)
P
if python3 "$T/compare.py" "$WORK" "$T/all" "$T/ngx/access.log" >"$T/out" 2>&1; then ok "every answer is right, and recorded once: $(head -n 1 "$T/out")"; else not_ok "every answer is right, and recorded once" "$(cat "$T/out")"; fi
check "the chain verifies across all of it" "$SP" logs verify

# one request in the middle of its answer while processes die: one record, which says so
slow_record() { # NAME PIDS-TO-KILL-FROM-ROLES...: kills them, then compares
	local name=$1 pids
	shift
	rm -f "$WORK/slow.out" "$WORK/go-on"
	(cd "$WORK" && E2E_SECRET=$SECRET timeout 60 "$SP" run --quiet --policy policy.yaml --name "$name" -- sh -c "curl -sS -o slow.out https://api.test/v1/slow-$name; echo curl \$?; curl -sS -m 20 https://api.test/v1/after") >"$T/slow.txt" 2>&1 &
	local p=$!
	PIDS+=($p)
	if ! wait_for 20 test -s "$WORK/slow.out"; then not_ok "$name: an answer is on its way" "$(cat "$T/slow.txt")"; return; fi
	role_pids >"$T/pids"
	pids=$(awk -v want=" $* " 'index(want, " " $1 " ") {print $2}' "$T/pids")
	# audit must not see the others' end first and close the slots: a crash of the machine gives it no time either
	case " $* " in *" audit "*) kill -STOP "$(awk '$1 == "audit" {print $2}' "$T/pids")" ;; esac
	# shellcheck disable=SC2086
	kill -9 $pids
	wait $p
	hasnt "$name: the client does not take a part for the whole" "$T/slow.txt" "curl 0"
}
recorded_once() { # NAME CODE
	local n
	records | grep -F '"kind":"request"' | grep -F "\"path\":\"/v1/slow-$1\"" >"$T/one"
	n=$(wc -l <"$T/one")
	if [ "$n" -eq 1 ] && grep -qF "\"code\":\"$2\"" "$T/one"; then ok "$1: recorded once, as $2"; else not_ok "$1: recorded once, as $2" "$n records" "$(cat "$T/one")" "$(cat "$T/slow.txt")"; fi
	has "$1: the record names the sandbox" "$T/one" "\"src_endpoint\":{\"name\":\"$1\"}"
}
all_gone() { local p; for p in $(awk '{print $2}' "$T/pids"); do gone "$p" || return 1; done; }
slow_record lost-worker worker
has "lost-worker: the next request is served" "$T/slow.txt" fine
"$SP" stop --all >/dev/null 2>&1
recorded_once lost-worker worker_lost
slow_record lost-supervisor supervisor
wait_for 10 all_gone && ok "no role outlives its supervisor" || not_ok "no role outlives its supervisor" "$(cat "$T/pids")"
recorded_once lost-supervisor worker_lost
slow_record lost-everything supervisor worker spare dialer ca secrets audit
run true >"$T/out" 2>&1 # the next gateway of this state directory records what the crash left open
"$SP" stop --all >/dev/null 2>&1
recorded_once lost-everything worker_lost
check "the chain verifies after the crashes" "$SP" logs verify

# the supervisor gone: no network, and nobody inside can take the ports
rm -f "$WORK/go"
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
wait_for 20 test -e "$WORK/up" || not_ok "a sandbox to be orphaned" "$(cat "$T/orphan.out")"
has "before: the gateway answers" "$T/orphan.out" "before answered"
role_pids >"$T/pids"
kill -9 "$(role_pid supervisor)"
touch "$WORK/go"
wait $orphan
has "with the gateway gone: no network, no port to take" "$T/orphan.out" "after refused bind 3128 refused bind 53 refused"
wait_for 10 all_gone
check "a new gateway serves the same state" bash -c "cd '$WORK' && E2E_SECRET=x timeout 60 '$SP' run --quiet --policy policy.yaml -- curl -sS -m 20 -o /dev/null https://api.test/v1/again"
check "the chain verifies after the crash" "$SP" logs verify
check_done
