#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is too much: hellos without end, names by the thousand, connections up to the bound and beyond, denied requests by the
# thousand, patterns and chunks that cost (D12 to D14, D16 to D19). A gateway goes on, other sandboxes are served meanwhile,
# each request has its record, and no role has died.
NAME=floods
. "$(dirname "$0")/lib.sh"
can_run
HERE=$(cd "$(dirname "$0")" && pwd)
make_pki 'DNS:*.many.test'
start_nginx 'location /v1/up { client_max_body_size 10m; client_body_buffer_size 4m; proxy_pass http://127.0.0.1:1; error_page 502 =200 /took; } location = /took { default_type text/plain; return 200 "$request_length\n"; }'
where() { printf '    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { ca: ./upca.pem }\n' "$PORT"; }
cat >"$WORK/policy.yaml" <<P
version: 1
name: floods
destinations:
  - host: api.test
$(where)
    allow:
      - GET /v1/**
      - POST /v1/up
      - { method: GET, regex: '/re/(a+)+b', id: costly }
      - { method: GET, regex: '/re/((a|b|ab)*)*c', id: costlier }
  - host: "*.many.test"
$(where)
    allow: [ "GET /v1/**" ]
P
cp "$HERE/floods_inside.py" "$WORK/"
SLOWLY=$([ "${VARIANT:-}" = san ] && echo 4 || echo 1)
FEWER=$([ "${VARIANT:-}" = san ] && echo 4 || echo 1)
"$SP" serve --state "$STATE" >"$T/gateway.log" 2>&1 &
GW=$!
PIDS+=($GW)
wait_for 20 test -S "$STATE/run/control.sock" || not_ok "the gateway starts" "$(cat "$T/gateway.log")"
box() { (cd "$WORK" && E2E_SECRET=$SECRET timeout 300 "$SP" run --quiet --policy policy.yaml --name "$1" -- python3 floods_inside.py "$1" "$SLOWLY" "${@:2}") >"$T/$1.out" 2>"$T/$1.err"; }
four() { [ "$(roles | wc -l)" = 4 ]; }
roles() { role_pids | awk '$1 ~ /^(secrets|ca|dialer|audit)$/ {print $1, $2}'; }
wait_for 20 four
before=$(roles)

box hellos & # which waits for limits of time
hellos=$!
said_of_hellos() {
	for w in "half closed:half a ClientHello and then silence" "huge refused:a ClientHello of 16 MB" "crumbs handshake:a ClientHello in records of one octet" "nothings closed:records without a meaning" "after 200:a request afterwards"; do
		has "D12 ${w#*:}" "$T/hellos.out" "${w%%:*}"
	done
}
n=$((1200 / FEWER))
box names "$n"
has "D13 a name each, $n of them" "$T/names.out" "names $n refused 0"
has "D13 of names that no rule has 200 get a certificate for the refusal, the others none" "$T/names.out" "denied 200 without 100 else 0"
has "D13 a request afterwards" "$T/names.out" "after 200"
box denied 5000
has "D16 5000 refusals are answered" "$T/denied.out" "denied 5000"
check "D16 and recorded, each of them" test "$(record_lines | grep -c '^denied request deny policy_denied GET api.test 443 /hidden/')" = 5000
box regex
has "D17 patterns that cost are refused" "$T/regex.out" "regex 403 403 200"
has "D17 and hold nobody up" "$T/regex.out" "meanwhile 200"
n=$((400000 / FEWER))
box chunks "$n"
has "D19 $n chunks of one octet" "$T/chunks.out" "chunks 200"
took=$(awk '/^chunks/ {print $3}' "$T/chunks.out")
check "D19 which go on in larger ones ($took octets)" test "${took:-0}" -ge "$n" -a "${took:-9999999}" -lt $((n + n / 4 + 1000))
wait "$hellos"
said_of_hellos
# the bound of connections: one sandbox is at it, another one is served
if [ "$(ulimit -Hn)" -ge 20000 ]; then
	rm -f "$WORK/full" "$WORK/seen"
	box connections 9000 &
	flood=$!
	wait_for 120 test -e "$WORK/full" || not_ok "D14 the connections are there" "$(cat "$T/connections.out" "$T/connections.err")"
	(cd "$WORK" && timeout 60 "$SP" run --quiet --policy policy.yaml --name other -- curl -sS -m 30 -o /dev/null -w '%{http_code}' https://api.test/v1/hello) >"$T/other.out" 2>&1
	has "D14 another sandbox is served meanwhile" "$T/other.out" "200"
	if [ "$(id -u)" -eq 0 ]; then
		n=$(find "/proc/$(role_pids | awk '$1 == "worker" && $3 == "connections" {print $2}')/fd" -lname 'socket:*' | wc -l)
		check "D14 a sandbox has 8192 connections and no more ($n sockets)" test "$n" -ge 8192 -a "$n" -le 8250
	fi
	touch "$WORK/seen"
	wait "$flood"
	has "D14 and it is served again when they are gone" "$T/connections.out" "after 200"
else
	skip "D14 8192 connections: no more than $(ulimit -Hn) descriptors can be had here"
fi
if [ "$before" = "$(roles)" ]; then ok "no role has died"; else not_ok "no role has died" "$before" "$(roles)" "$(tail -n 5 "$T/gateway.log")"; fi
check "its log says nothing of an end" bash -c "! grep -E 'ended by signal|is started again' '$T/gateway.log'"
"$SP" stop --all --state "$STATE" >/dev/null 2>&1
wait_for 20 bash -c "! kill -0 $GW 2>/dev/null"

# --- descriptors that run out: the gateway may have 256 a process
(ulimit -Sn 256 && ulimit -Hn 256 && exec "$SP" serve --state "$STATE") >"$T/gateway.log" 2>&1 &
GW=$!
PIDS+=($GW)
wait_for 20 test -S "$STATE/run/control.sock" || not_ok "D18 a gateway with few descriptors starts" "$(cat "$T/gateway.log")"
wait_for 20 four
before=$(roles)
rm -f "$WORK/full" "$WORK/seen"
box connections 600 &
flood=$!
wait_for 60 test -e "$WORK/full" || not_ok "D18 the connections are there" "$(cat "$T/connections.out" "$T/connections.err")"
if [ "$(id -u)" -eq 0 ]; then
	n=$(find "/proc/$(role_pids | awk '$1 == "worker" && $3 == "connections" {print $2}')/fd" -mindepth 1 | wc -l)
	check "D18 its worker has all the descriptors that it may have ($n)" test "$n" -ge 250 -a "$n" -le 256
fi
touch "$WORK/seen"
wait "$flood"
has "D18 when descriptors ran out and are there again, it is served" "$T/connections.out" "after 200"
if [ "$before" = "$(roles)" ]; then ok "D18 no role has died"; else not_ok "D18 no role has died" "$before" "$(roles)" "$(tail -n 5 "$T/gateway.log")"; fi
check "D18 nor a worker" bash -c "! grep -E 'ended by signal|is started again' '$T/gateway.log'"
check "the secret is nowhere" bash -c "! grep -rF -- '$SECRET' '$T/gateway.log' '$STATE/audit' '$T'/*.out '$T'/*.err"
check_done
