#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `protocol: tcp` and `tls: {passthrough: true}`: octets that pass unread, to exact names, vetted and recorded (UC08, UT08, G17).
NAME=tunnel
. "$(dirname "$0")/lib.sh"
can_run
make_pki DNS:pinned.test
start_nginx
cp "$(dirname "$0")/tunnel.py" "$WORK/"
python3 "$WORK/tunnel.py" serve "$T/seen" >"$T/serve.log" 2>&1 &
PIDS+=($!)
wait_for 10 grep -q ready "$T/seen" || { not_ok "the origins start" "$(cat "$T/serve.log")"; exit 1; }
PINNED=$(free_port) CLOSED=$(free_port)
openssl s_server -accept "127.0.0.1:$PINNED" -cert "$T/up.pem" -key "$T/up.key" -www -quiet >"$T/pinned.log" 2>&1 &
PIDS+=($!)
wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$PINNED"
openssl x509 -in "$T/up.pem" -outform DER | sha256sum | cut -d' ' -f1 >"$WORK/leaf.sha256"
PIN=$(openssl x509 -in "$T/up.pem" -pubkey -noout | openssl pkey -pubin -outform DER | openssl dgst -sha256 -binary | base64)
have_redis=
if command -v redis-server >/dev/null; then
	REDIS=$(free_port)
	redis-server --port "$REDIS" --bind 127.0.0.1 --save '' --dir "$T" >"$T/redis.log" 2>&1 &
	PIDS+=($!)
	wait_for 10 redis-cli -p "$REDIS" ping && have_redis=1
fi
port() { awk -v k="$1" '$1 == "port" && $2 == k {print $3}' "$T/seen"; }
t() { # HOST PORT-INSIDE ORIGIN-PORT [MORE]
	printf '  - host: %s\n    protocol: tcp\n    ports: [%s]\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n%s    allow: tunnel\n' "$1" "$2" "$3" "${4:+    $4
}"
}
{
	printf 'version: 1\nname: tunnel\nexplain_denials: false\ndestinations:\n'
	t banner.test 2222 "$(port banner)"
	t count.test 2223 "$(port count)"
	t first.test 2224 "$(port first)"
	t words.test 2225 "$(port words)"
	t resets.test 2226 "$(port resets)"
	t blast.test 2227 "$(port blast)"
	t sink.test 2228 "$(port sink)"
	t stuck.test 2229 "$(port stuck)"
	t far.test 2230 "$CLOSED"
	printf '  - host: far.test\n    protocol: tcp\n    ports: [2231]\n    connect: 169.254.169.254:80\n    addresses: [169.254.0.0/16]\n    allow: tunnel\n'
	t keep.test 2234 "$(port banner)"
	t idle.test 2232 "$(port closed)" 'limits: { idle: 1s }'
	t total.test 2233 "$(port banner)" 'limits: { total: 2s }'
	t redis.test 6379 "${REDIS:-1}"
	printf '  - host: plain.test\n    scheme: http\n    ports: [2240]\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    allow: [ "GET /**" ]\n' "$HTTP_PORT"
	printf '  - host: pinned.test\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { passthrough: true }\n    allow: tunnel\n' "$PINNED"
	printf '  - host: api.test\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { ca: ./upca.pem }\n    allow: [ "GET /v1/**" ]\n' "$PORT"
} >"$WORK/policy.yaml"
part() {
	run python3 -W ignore tunnel.py "$1" >"$T/said.$1" 2>"$T/err.$1"
	check "$1: the client ends well" test $? = 0
	[ ! -s "$T/err.$1" ] || head -20 "$T/err.$1"
	local line
	while read -r line; do
		case $line in ok\ *) ok "${line#ok }" ;; not\ ok\ *) not_ok "${line#not ok }" ;; esac
	done <"$T/said.$1"
}
part tcp
check "what was refused connected to nothing" test "$(grep -c '^connect banner$' "$T/seen") $(grep -c '^connect count$' "$T/seen")" = "3 2"
check "half-close: the server had all, twice" test "$(grep -c '^counted 100000$' "$T/seen")" = 2
check "half-close the other way: what the client sent behind arrived" wait_for 10 bash -c "[ \$(grep -c '^after 5000\$' '$T/seen') = 2 ]"
check "what was sent up arrived whole, twice" wait_for 20 bash -c "[ \$(grep '^sink' '$T/seen' | sort | uniq -c | awk '{print \$1}') = 2 ]"
part tls
run curl -sS -m 20 --cacert upca.pem --pinnedpubkey "sha256//$PIN" https://pinned.test/ >"$T/out" 2>&1
check "UT08 curl with a pinned key" grep -q "Protocol *: TLS\|Cipher" "$T/out"
run curl -sS -m 20 -p -x http://127.0.0.1:3128 --cacert upca.pem --pinnedpubkey "sha256//$PIN" https://pinned.test/ >"$T/out" 2>&1
check "UT08 and by the proxy" grep -q "Protocol *: TLS\|Cipher" "$T/out"
run curl -sS -m 20 --pinnedpubkey "sha256//$PIN" https://api.test/v1/x >"$T/out" 2>&1
check "UT08 a pinned client breaks where it is intercepted" grep -q "public key" "$T/out"
run sh -c 'openssl s_client -connect pinned.test:443 -servername pinned.test -CAfile upca.pem -verify_return_error </dev/null' >"$T/out" 2>&1
has "UT08 openssl s_client verifies the origin" "$T/out" "Verify return code: 0"
if [ -n "$have_redis" ]; then
	{ seq 1 2000 | sed 's/.*/SET k& v&/'; echo "GET k1777"; echo "DBSIZE"; } >"$WORK/redis.in"
	run sh -c 'redis-cli -h redis.test -p 6379 <redis.in | tail -2; redis-cli -h redis.test -p 6379 --raw -x set big <tunnel.py; redis-cli -h redis.test --raw get big | cmp - tunnel.py >&2; redis-benchmark -h redis.test -p 6379 -n 2000 -c 20 -q -t get' >"$T/out" 2>&1
	check "a real redis through tcp" bash -c "grep -q '^v1777\$' '$T/out' && grep -q '^2000\$' '$T/out' && grep -q 'GET:.*requests per second' '$T/out'"
else
	skip "redis is not installed"
fi
if command -v ssh >/dev/null; then
	run ssh -F none -v -o BatchMode=yes -o StrictHostKeyChecking=no -o ConnectTimeout=5 -p 2222 x@banner.test >"$T/out" 2>&1
	has "a real ssh hears the banner" "$T/out" "remote software version test_1.0"
else
	skip "ssh is not installed"
fi
part idle
{ printf 'version: 1\nname: ceiling\ndestinations:\n'; t idle.test 2232 "$(port closed)" 'limits: { idle: 1s }'; t total.test 2233 "$(port banner)" 'limits: { total: 2s }'; } >"$WORK/ceiling.yaml"
sed '/^ *limits: /d' "$WORK/ceiling.yaml" >"$WORK/free.yaml"
(cd "$WORK" && timeout 60 "$SP" run --quiet --policy free.yaml --boundary ceiling.yaml -- python3 -W ignore tunnel.py idle) >"$T/said.bound" 2>"$T/err.bound"
check "a boundary's limits end a tunnel that the policy sets none" test "$? $(grep -c '^ok' "$T/said.bound")" = "0 2"
check "the origin saw the end" wait_for 5 grep -q '^ended clean' "$T/seen"
# --- the policy changes while they are open
mkdir "$T/pol"
chmod 777 "$WORK" # root's sandbox has a user of its own
cp "$WORK/policy.yaml" "$T/pol/agent.yaml"
cp "$T/upca.pem" "$T/pol/"
chmod 644 "$T"/pol/*
(cd "$WORK" && timeout 100 "$SP" run --policy "$T/pol/agent.yaml" -- python3 -W ignore tunnel.py watch) >"$T/said.watch" 2>"$T/err.watch" &
watcher=$!
wait_for 30 test -e "$WORK/watching" || not_ok "the tunnels open" "$(cat "$T/err.watch")"
python3 - "$T/pol/agent.yaml" <<'P'
import os, re, sys
s = open(sys.argv[1]).read()
s = re.sub(r"  - host: banner\.test\n(    .*\n)*", "", s)
s = s.replace("    tls: { passthrough: true }\n    allow: tunnel\n", "    tls: { ca: ./upca.pem }\n    allow: [ \"GET /**\" ]\n")
open(sys.argv[1] + ".new", "w").write(s); os.chmod(sys.argv[1] + ".new", 0o644)
P
touch "$WORK/changed"
mv "$T/pol/agent.yaml.new" "$T/pol/agent.yaml"
wait "$watcher"
check "watch: the client ends well" test $? = 0
while read -r line; do
	case $line in ok\ *) ok "${line#ok }" ;; not\ ok\ *) not_ok "${line#not ok }" ;; esac
done <"$T/said.watch"
check "four things were said" test "$(grep -c '^ok\|^not ok' "$T/said.watch")" = 4
# --- and its time ends: nothing is reloaded
UNTIL=$(($(date +%s) + 8))
{ grep -v '^tests' "$WORK/policy.yaml"; t until.test 2242 "$(port banner)"; } | sed "\$ s/tunnel/{ tunnel: true, valid: { until: $(date -u -d "@$UNTIL" +%Y-%m-%dT%H:%M:%SZ) } }/" >"$WORK/until.yaml"
(cd "$WORK" && timeout 60 "$SP" run --quiet --policy until.yaml -- python3 -W ignore tunnel.py until "$UNTIL") >"$T/said.until" 2>"$T/err.until"
check "until: the client ends well" test $? = 0
while read -r line; do
	case $line in ok\ *) ok "${line#ok }" ;; not\ ok\ *) not_ok "${line#not ok }" ;; esac
done <"$T/said.until"
check "until: four things were said" test "$(grep -c '^ok\|^not ok' "$T/said.until")" = 4
run grep -c BEGIN /run/sallyport/ca.pem >"$T/roots"
check "who verifies by itself finds the public roots inside" test "$(cat "$T/roots")" -gt 20
run python3 -W ignore tunnel.py hold >"$T/out" 2>&1 &
holder=$!
wait_for 20 test -e "$WORK/held"
kill -9 "$(role_pid worker)"
wait "$holder"
"$SP" stop --all >/dev/null 2>&1
check "a tunnel that was open when its worker died is recorded" bash -c "cat '$STATE'/audit/audit*.jsonl | grep worker_lost | grep '\"kind\":\"connection\"' | grep -q banner.test"
records | grep '"kind":"connection"' >"$T/conn"
rec() { grep -F "\"hostname\":\"$1\"" "$T/conn" | grep -F "$2"; }
check "a record for each tunnel, with its rule and address" bash -c "grep banner.test '$T/conn' | grep '\"uid\":\"banner.test:2222:allow:tunnel\"' | grep '\"decision\":\"allow\"' | grep '\"inspected\":false' | grep -q '\"ip\":\"127.0.0.1\"'"
check "with its octets" bash -c "grep count.test '$T/conn' | grep -q '\"bytes_in\":100000,\"bytes_out\":10'"
for r in idle:idle.test total:total.test policy_changed:banner.test policy_changed:pinned.test upstream_reset:resets.test closed:count.test; do check "a record says ${r%%:*}" bash -c "grep '${r#*:}' '$T/conn' | grep -q '\"reason\":\"${r%%:*}\"'"; done
check "UT08 passed-through TLS: host, SNI, octets, not inspected" bash -c "grep '\"hostname\":\"pinned.test\"' '$T/conn' | grep '\"sni\":\"pinned.test\"' | grep '\"inspected\":false' | grep -q '\"bytes_out\":[1-9]'"
check "G06 UT08 a mismatch is a finding" bash -c "cat '$STATE'/audit/audit*.jsonl | grep identity_mismatch | grep pinned.test | grep -q other.test"
check "a refused dial is recorded with its cause" bash -c "grep far.test '$T/conn' | grep -q 'upstream_unreachable' && grep far.test '$T/conn' | grep -q '169.254.169.254'"
check "no leaf was minted for what is passed through" bash -c "! grep -q 'CN *= *pinned.test.*sallyport' '$T/pinned.log'"
check "the chain holds" "$SP" logs verify "$STATE/audit"
check_done
