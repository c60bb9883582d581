#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Roles killed at random moments under load: one record for each request, none executed twice, nothing hangs, nothing leaks.
# KILLS and GAP (seconds, the longest pause before a kill) make it longer (tests/soak/kill200.sh); SEED repeats the order and the pauses.
NAME=killrandom
. "$(dirname "$0")/lib.sh"
: "${KILLS:=20}" "${GAP:=0.6}" "${SEED:=$RANDOM}" "${POOLED:=9}" "${SETTLE:=20}"
KR=$(cd "$(dirname "$0")" && pwd)/killrandom.py
can_run
make_pki
echo "# seed $SEED, $KILLS kills"
PORT=$(free_port)
E2E_SECRET=$SECRET python3 "$KR" origin "$PORT" "$T/up.pem" "$T/up.key" "$T/origin" >"$T/origin.out" 2>&1 &
PIDS+=($!)
wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT" || { not_ok "the origin starts" "$(cat "$T/origin.out")"; exit 1; }
cat >"$WORK/policy.yaml" <<P
version: 1
name: killrandom
secrets:
  api: { env: E2E_SECRET, hosts: [api.test] }
destinations:
  - host: api.test
    connect: 127.0.0.1:$PORT
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ "GET /v1/g/*", "GET /v1/d/*", "POST /v1/p/*", "POST /v1/u/*" ]
    inject:
      - { secret: api, as: bearer, env: API_TOKEN }
P
cp "$KR" "$WORK/client.py"
mkdir "$WORK/out"
(cd "$WORK" && E2E_SECRET=$SECRET timeout $((KILLS * 10 + 120)) "$SP" run --quiet --policy policy.yaml --name killed -- python3 client.py client out) >"$T/run.out" 2>&1 &
run=$!
PIDS+=($run)
wait_for 60 test -e "$WORK/out/warm" || { not_ok "traffic flows" "$(cat "$T/run.out")" "$(tail -n 5 "$WORK/out/attempts")"; exit 1; }
tally() { python3 "$KR" count "$STATE" >"$T/$1.json"; }
tally before || not_ok "the roles are counted"
touch "$WORK/out/go"
if python3 "$KR" kill "$STATE" "$KILLS" "$GAP" "$SEED" "$T/kills" >"$T/kill.out" 2>&1; then ok "seed $SEED: $(tail -n 1 "$T/kill.out")"; else not_ok "every role comes back each time" "$(cat "$T/kill.out")"; fi
good() { grep -c '"result": "whole"' "$WORK/out/attempts"; }
more() { [ "$(good)" -gt "$1" ]; }
n=$(good)
wait_for 30 more $((n + 30)) && ok "requests pass again after the last kill" || not_ok "requests pass again after the last kill" "$(tail -n 9 "$WORK/out/attempts")" "$(cat "$T/run.out")"
touch "$WORK/out/stop"
wait_for 60 test -e "$WORK/out/quiet" && ok "every call of the clients came to an end" || not_ok "every call of the clients came to an end" "$(tail -n 9 "$WORK/out/attempts")"
cat >"$T/leak.py" <<'P'
# before against after: the same processes by role, no descriptor more (but connections that a worker keeps for the next
# request, POOLED), memory within what two lives of one role differ by
import json, sys
pooled = {"worker": int(sys.argv[3])}
b, a = (json.load(open(f)) for f in sys.argv[1:3])
bad = ["%s processes, %s before" % (a["processes"], b["processes"])] if a["processes"] != b["processes"] else []
for role in b:
    if role == "processes": continue
    if role not in a: bad.append("no %s" % role); continue
    x, y = b[role], a[role]
    if x["fds"] is not None and y["fds"] > x["fds"] + pooled.get(role, 0): bad.append("%s: %d descriptors, %d before" % (role, y["fds"], x["fds"]))
    if y["rss_kib"] > x["rss_kib"] + 6144: bad.append("%s: %d KiB resident, %d before" % (role, y["rss_kib"], x["rss_kib"]))
if bad: print("; ".join(bad))
print(", ".join("%s %s->%s fds %d->%d KiB" % (r, b[r]["fds"], a[r]["fds"], b[r]["rss_kib"], a[r]["rss_kib"]) for r in b if r != "processes" and r in a))
sys.exit(1 if bad else 0)
P
flat() { tally after && python3 "$T/leak.py" "$T/before.json" "$T/after.json" "$POOLED" >"$T/leak.out"; }
flat_by() { while ! flat; do [ $SECONDS -lt "$1" ] || return 1; sleep 0.5; done; }
if flat_by $((SECONDS + SETTLE)); then ok "processes, descriptors and memory are back where they were: $(tail -n 1 "$T/leak.out")"; else not_ok "processes, descriptors and memory are back where they were" "$(cat "$T/leak.out")"; fi
touch "$WORK/out/end"
wait $run
rc=$?
[ $rc -eq 0 ] && ok "the sandbox outlived it all" || not_ok "the sandbox outlived it all" "$rc" "$(cat "$T/run.out")"
role_pids >"$T/pids" 2>/dev/null || tally after
python3 -c 'import json,sys; [print(v["pid"]) for v in json.load(open(sys.argv[1])).values() if isinstance(v, dict)]' "$T/after.json" >"$T/last"
"$SP" stop --all >"$T/stop.out" 2>&1
none_left() { local p; while read -r p; do [ ! -e "/proc/$p" ] || grep -q '^State:.*Z' "/proc/$p/status" || return 1; done <"$T/last"; }
wait_for 10 none_left && ok "nothing is left after stop --all" || not_ok "nothing is left after stop --all" "$(cat "$T/last")"
if records | python3 "$KR" compare "$WORK/out/attempts" "$T/origin" "$T/kills" >"$T/out" 2>&1; then ok "the accounts agree: $(head -n 1 "$T/out")"; sed -n '2s/^/# /p' "$T/out"; else not_ok "the accounts agree (seed $SEED)" "$(cat "$T/out")"; fi
check "the chain verifies across all of it" "$SP" logs verify
records >"$T/all"
hasnt "no record shows the secret" "$T/all" "$SECRET"
hasnt "no attempt shows the secret" "$WORK/out/attempts" "$SECRET"
check_done
