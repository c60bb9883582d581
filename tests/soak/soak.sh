#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Aborting clients and misbehaving upstreams for SOAK_MINUTES, on a build with ASan and UBSan: no report, no role dies, nothing grows, nothing
# hangs, what is good passes. What "grows" means: soak.py, flat.
NAME=soak
. "$(dirname "$0")/../e2e/lib.sh"
: "${SOAK_MINUTES:=30}"
SOAK=$(cd "$(dirname "$0")" && pwd)/soak.py
can_run
make_pki DNS:h2.test
PORT=$(free_port) PORT2=$(free_port)
H2=1
/usr/bin/python3 -c 'import hpack' 2>/dev/null || { H2=; skip "no python3-hpack: without HTTP/2"; }
WIRE=$(dirname "$SOAK")/../e2e/h2
PYTHONPATH=$WIRE python3 "$SOAK" origin "$PORT" "$T/up.pem" "$T/up.key" ${H2:+$PORT2} >"$T/origin.out" 2>&1 &
PIDS+=($!)
wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT" || { not_ok "the origin starts" "$(cat "$T/origin.out")"; exit 1; }
cat >"$WORK/policy.yaml" <<P
version: 1
name: soak
secrets:
  api: { env: E2E_SECRET, hosts: [api.test, h2.test] }
destinations:
$(for h in "api $PORT" "h2 $PORT2"; do printf '  - host: %s.test\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { ca: ./upca.pem }\n    allow: [ "GET /v1/m/**", "POST /v1/m/**" ]\n    deny: [ { method: POST, path: /v1/m/gql/**, body: { graphql: { type: mutation } } } ]\n    inject:\n      - { secret: api, as: bearer, env: API_TOKEN }\n' $h; done)
P
cp "$SOAK" "$WORK/client.py"
cp "$WIRE/wire.py" "$WORK/"
mkdir "$WORK/out"
(cd "$WORK" && E2E_SECRET=$SECRET timeout $((SOAK_MINUTES * 60 + 300)) "$SP" run --quiet --policy policy.yaml --name soak -- python3 client.py client out $H2) >"$T/run.out" 2>&1 &
run=$!
PIDS+=($run)
wait_for 60 test -e "$WORK/out/asked" || { not_ok "traffic flows" "$(cat "$T/run.out")"; exit 1; }
python3 "$SOAK" sample "$STATE" "$T/samples" "$WORK/out/stop" >"$T/sample.out" 2>&1 &
sampler=$!
PIDS+=($sampler)
end=$((SECONDS + SOAK_MINUTES * 60))
while [ $SECONDS -lt $end ] && ! gone $run; do sleep 1; done
touch "$WORK/out/stop"
wait $sampler
wait_for 120 test -e "$WORK/out/tally" && ok "every client came to an end" || not_ok "every client came to an end" "$(cat "$T/run.out")"
python3 - "$WORK/out/tally" $H2 >"$T/out" 2>&1 <<'P' && ok "what is good passed, nothing hung: $(tail -n 1 "$T/out")" || not_ok "what is good passed, nothing hung" "$(cat "$T/out")"
import json, sys
t = json.load(open(sys.argv[1]))
print("\n".join(t["bad"][:20]))
print(", ".join("%s %d" % x for x in sorted(t["tally"].items())))
sys.exit(1 if t["bad"] or t["tally"].get("good", 0) < 20 or (len(sys.argv) > 2 and min(t["tally"].get(x, 0) for x in ("h2_good", "h2_abuse", "conditions")) < 20) else 0)
P
if python3 "$SOAK" flat "$T/samples" >"$T/out" 2>&1; then ok "flat: $(cat "$T/out")"; else not_ok "flat" "$(cat "$T/out")"; fi
touch "$WORK/out/end"
wait $run
rc=$?
[ $rc -eq 0 ] && ok "the sandbox lived on" || not_ok "the sandbox lived on" "$rc" "$(cat "$T/run.out")"
"$SP" stop --all >"$T/stop.out" 2>&1
cp "$STATE/gateway.log" "$T/log"
if grep -aE 'AddressSanitizer|runtime error|LeakSanitizer|ended by signal|ended with status|assert|MUST' "$T/log" "$T/run.out" >"$T/out"; then not_ok "no sanitizer reports, no role dies" "$(head -n 40 "$T/out")"; else ok "no sanitizer reports, no role dies"; fi
records >"$T/all"
python3 - "$T/all" "$WORK/out/asked" >"$T/out" 2>&1 <<'P' && ok "$(cat "$T/out")" || not_ok "one record for each request" "$(cat "$T/out")"
import collections, json, sys
n, codes = collections.Counter(), collections.Counter()
for line in open(sys.argv[1]):
    o = json.loads(line)
    if o["unmapped"]["sallyport"]["kind"] != "request": continue
    p = o["http_request"]["url"].get("path", "")
    codes[o["unmapped"]["sallyport"].get("code", "served")] += 1
    if p.startswith("/v1/m/") and p != "/v1/m/ok/0": n[p] += 1
bad = ["%s recorded %d times" % x for x in n.items() if x[1] != 1] + ["%s answered, not recorded" % p for p in open(sys.argv[2]).read().split() if p not in n]
print("\n".join(bad[:20]) if bad else "one record for each of %d requests: %s" % (len(n), ", ".join("%s %d" % x for x in codes.most_common())))
sys.exit(1 if bad else 0)
P
check "the chain verifies" "$SP" logs verify
hasnt "no record shows the secret" "$T/all" "$SECRET"
hasnt "the log does not show the secret" "$T/log" "$SECRET"
check_done
