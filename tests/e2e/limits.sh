#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Rates, budgets and counted grants: each is kept, told with 429 and Retry-After, recorded, and outlives its worker.
NAME=limits
. "$(dirname "$0")/lib.sh"
can_run
make_pki
# answers when it has the content, not before: nobody listens on port 1
start_nginx 'location /v1/up { client_max_body_size 10m; client_body_buffer_size 1m; proxy_pass http://127.0.0.1:1; error_page 502 =200 /v1/x; }'
cat >"$WORK/policy.yaml" <<P
version: 1
name: limited
limits: { requests: 40/h }
destinations:
  - host: api.test
    connect: 127.0.0.1:$PORT
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    limits: { concurrent: 2 }
    allow:
      - { method: GET, path: /v1/three, limits: { requests: 3/h }, id: three }
      - { method: GET, path: /v1/once, uses: 1, id: once }
      - { method: GET, path: /v1/small, limits: { response_body: 2B }, id: small }
      - { method: POST, path: /v1/up, limits: { upload: 100KiB/d }, id: up }
      - { method: GET, path: /v1/big, limits: { download: 1536KiB/d }, id: big }
      - { method: GET, path: /v1/slow, limits: { download: 8KiB/h }, id: slow }
      - GET /v1/**
P
cd "$WORK" || exit 1
head -c 60000 /dev/zero >"$T/60k"
# one sandbox does it all: counters are a sandbox's
cat >inside.sh <<'S'
code() { curl -sS -o body -D head -m 20 -w '%{http_code}' "$@" 2>err; }
say() { echo "$1 $2"; }
for i in 1 2 3 4; do say "three$i" "$(code https://api.test/v1/three)"; done
grep -i '^retry-after:' head | tr -d '\r'
cat body
say other "$(code https://api.test/v1/x)"
say once1 "$(code https://api.test/v1/once)"
cat body
say once2 "$(code https://api.test/v1/once)"
say small "$(code https://api.test/v1/small)"
say up1 "$(code --data-binary @up60k https://api.test/v1/up)"
say up2 "$(code --data-binary @up60k https://api.test/v1/up)"
say up3 "$(code -H 'Transfer-Encoding: chunked' --http1.1 --data-binary @up60k https://api.test/v1/up)"
say big1 "$(code https://api.test/v1/big)"
say big2 "$(code https://api.test/v1/big)"
touch ready
while [ ! -e killed ]; do sleep 0.05; done
for i in 1 2 3 4 5 6 7 8 9 10; do say again "$(code https://api.test/v1/three)"; done | grep -v ' 000$' | tail -n 1
say once3 "$(code https://api.test/v1/once)"
for i in $(seq 40); do say "rest" "$(code https://api.test/v1/x)"; done | sort | uniq -c
S
cp "$T/60k" up60k
# `once` falls back on the rule behind it: what is used up does not match any more
run sh inside.sh >"$T/out" 2>"$T/err" &
pid=$!
wait_for 40 test -e ready || not_ok "the first half" "$(cat "$T/out" "$T/err")"
worker=$(role_pids | awk '$1 == "worker" {print $2; exit}')
kill -9 "$worker"
wait_for 10 bash -c "! kill -0 $worker 2>/dev/null"
touch killed
wait $pid
for w in "three1 200" "three2 200" "three3 200" "three4 429" "other 200" "small 502" "up1 200" "up2 429" "up3 429" "big1 200" "big2 429"; do has "$w" "$T/out" "$w"; done
check "Retry-After is within the hour" python3 - "$T/out" <<'Y'
import re, sys
n = int(re.search(r"(?i)retry-after: (\d+)", open(sys.argv[1]).read())[1])
assert 0 < n <= 3900, n
Y
has "the answer says which" "$T/out" '"error":"limit_exceeded"'
has "and when to come again" "$T/out" '"retry":"after"'
has "a counted grant counts once; behind it stands the next rule" "$T/out" "once2 200"
has "the next worker goes on counting" "$T/out" "again 429"
hasnt "nothing was given back" "$T/out" "again 200"
check "the rate of the whole sandbox" python3 - "$T/out" <<'Y'
import re, sys
n = {c: int(k) for k, c in re.findall(r"^ *(\d+) rest (\d+)", open(sys.argv[1]).read(), re.M)}
assert n.get("429", 0) >= 10 and n.get("200", 0) >= 1 and set(n) == {"200", "429"}, n
Y
records >"$T/records"
has "records name the limit" "$T/records" '"reason":"limits.requests 3/h"'
has "of a budget" "$T/records" '"reason":"limits.upload 102400/d"'
has "the rule that was used" "$T/records" '"uid":"once"'
[ "$(grep -c '"uid":"once"' "$T/records")" = 1 ] && ok "once, and no more" || not_ok "once, and no more" "$(grep -c '"uid":"once"' "$T/records")"
# at the origin nothing came that was over
[ "$(grep -c 'POST /v1/up HTTP/1.1 status=200' "$T/ngx/access.log")" = 1 ] && ok "one upload reached the origin" || not_ok "one upload reached the origin" "$(grep /v1/up "$T/ngx/access.log")"
# concurrent
cat >many.sh <<'S'
for i in 1 2 3 4; do curl -sS -o /dev/null --limit-rate 1k -m 6 -w '%{http_code}\n' https://api.test/v1/slow2 & done
wait
S
sed -i 's/GET, path: \/v1\/slow, limits: { download: 8KiB\/h }/GET, path: \/v1\/slow2, limits: { concurrent: 1 }/' policy.yaml
sed -i "s#location /v1/slow {#location /v1/slow2 { limit_rate 2k; root $T/ngx; rewrite ^ /big break; } &#" "$T/ngx/conf"
kill_wait "${PIDS[0]}"
nginx -c "$T/ngx/conf" -e "$T/ngx/err.log" >"$T/ngx/out" 2>&1 &
PIDS+=($!)
wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT"
run sh many.sh >"$T/out" 2>"$T/err"
[ "$(grep -c 429 "$T/out")" = 3 ] && ok "one at a time" || not_ok "one at a time" "$(cat "$T/out" "$T/err")"
# a download in the middle: the client sees that it is not whole
cat >cut.yaml <<P
version: 1
destinations:
  - host: api.test
    connect: 127.0.0.1:$PORT
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ { method: GET, path: /v1/chunked, limits: { download: 100KiB/d } }, { method: GET, path: /v1/big, limits: { download: 100KiB/d } } ]
P
(timeout 60 "$SP" run --quiet --policy cut.yaml -- sh -c 'curl -sS -o body -m 20 -w "%{http_code}" https://api.test/v1/big') >"$T/out" 2>&1
has "one that says its length is refused before it begins" "$T/out" "429"
check_done
