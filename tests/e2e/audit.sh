#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One record per request, chained; tampering shows; not writable means no request.
NAME=audit
. "$(dirname "$0")/lib.sh"
can_run
make_pki
start_nginx
write_policy
if [ "${1:-}" = --full-disk ]; then
	STATE=$T/small/state SALLYPORT_STATE=$T/small/state
	mkdir "$T/small" && mount -t tmpfs -o size=8m,mode=755 tmpfs "$T/small" 2>/dev/null || { skip "cannot mount a small disk"; exit 0; }
	cat >"$WORK/fill.sh" <<'S'
code() { curl -sS -m 20 -o "$1" -w '%{http_code}\n' "http://plain.test/$2"; }
wait_for_file() { while [ ! -e "$1" ]; do sleep 0.05; done; }
code out before
touch full; wait_for_file filled
for i in $(seq 2000); do [ "$(code out after$i)" = 200 ] || break; done
cat out
for i in 1 2 3 4 5; do code out closed$i; done
touch refused; wait_for_file emptied
for i in $(seq 200); do [ "$(code out again$i)" = 200 ] && echo "passes again" && break; sleep 0.1; done
S
	run sh fill.sh >"$T/out" 2>&1 &
	p=$!
	PIDS+=($p)
	wait_for 20 test -e "$WORK/full" || not_ok "a sandbox on a small disk" "$(cat "$T/out")"
	dd if=/dev/zero of="$T/small/fill" bs=4096 >/dev/null 2>&1
	touch "$WORK/filled" # what the log has allocated ahead is used up by records
	wait_for 60 test -e "$WORK/refused" || not_ok "requests are refused at last" "$(tail -n 5 "$T/out")"
	has "a full disk: 503, and why" "$T/out" '"error":"audit_unavailable"'
	[ "$(grep -c '^503$' "$T/out")" -eq 5 ] && ok "and it stays so while it is full" || not_ok "and it stays so while it is full" "$(tail -n 12 "$T/out")"
	rm "$T/small/fill"
	touch "$WORK/emptied"
	wait $p
	has "with space again, requests pass" "$T/out" "passes again"
	"$SP" stop --all >/dev/null 2>&1
	records >"$T/all"
	python3 - "$T/all" "$T/ngx/access.log" >"$T/cmp" 2>&1 <<'P'
import collections, json, re, sys
recorded, allowed = collections.Counter(), 0
for line in open(sys.argv[1]):
    o = json.loads(line); s = o["unmapped"]["sallyport"]
    if s["kind"] == "request" and s["decision"] == "allow": recorded[o["http_request"]["url"]["path"]] += 1
seen = collections.Counter(re.search(r"GET (\S+)", l).group(1) for l in open(sys.argv[2]) if "GET /" in l)
print("upstream", sum(seen.values()), "recorded", sum(recorded.values()), "differ", list((seen - recorded) + (recorded - seen))[:5])
sys.exit(seen != recorded or sum(seen.values()) < 3)
P
	[ $? -eq 0 ] && ok "what went upstream is recorded, all of it: $(cat "$T/cmp")" || not_ok "what went upstream is recorded, all of it" "$(cat "$T/cmp")"
	check "the chain verifies" "$SP" logs verify
	umount "$T/small"
	check_done
fi
run sh -c 'for i in 1 2 3 4 5; do curl -sS -m 20 -o /dev/null https://api.test/v1/n$i; done; curl -sS -m 20 -o /dev/null -X PUT https://api.test/v1/denied' >"$T/out" 2>&1
"$SP" stop --all >/dev/null 2>&1
n=$(record_count '"kind":"request"' '"path":"/v1/n' '"decision":"allow"')
[ "$n" -eq 5 ] && ok "one record for each allowed request" || not_ok "one record for each allowed request" "$n of 5" "$(cat "$T/out")"
n=$(record_count '"kind":"request"' '"path":"/v1/denied"' '"code":"policy_denied"' '"http_method":"PUT"')
[ "$n" -eq 1 ] && ok "one for the refused one, with its code" || not_ok "one for the refused one, with its code" "$n"
records | python3 -c '
import json, sys
for l in sys.stdin:
    o = json.loads(l)
    for k in ("class_uid", "category_uid", "activity_id", "type_uid", "time", "severity_id", "status_id", "metadata"): assert k in o, (k, l)
    assert o["type_uid"] == o["class_uid"] * 100 + o["activity_id"]; assert o["unmapped"]["sallyport"]["chain"]["hash"]' >"$T/out" 2>&1 && ok "every line is JSON with the required fields" || not_ok "every line is JSON with the required fields" "$(cat "$T/out")"
check "the chain verifies" "$SP" logs verify
has "the readable form names rule and line" <("$SP" logs) "policy.yaml:"
log=$STATE/audit/audit.jsonl
cp "$log" "$T/log"
tamper() { # TEXT, python on list "l"
	cp "$T/log" "$log"
	python3 - "$log" "$2" <<'P'
import sys
l = open(sys.argv[1]).readlines(); exec(sys.argv[2]); open(sys.argv[1], "w").writelines(l)
P
	if "$SP" logs verify >"$T/out" 2>&1; then not_ok "$1" "$(cat "$T/out")"; else ok "$1"; fi
}
tamper "a changed record shows" 'l[3] = l[3].replace("allow", "allqw", 1) if "allow" in l[3] else l[3].replace("time", "tima", 1)'
tamper "a removed record shows" 'del l[2]'
tamper "two swapped records show" 'l[2], l[3] = l[3], l[2]'
tamper "an added record shows" 'l.insert(2, l[2])'
cp "$T/log" "$log"
check "the untouched log verifies again" "$SP" logs verify
# the disk fills up: in a mount namespace of its own, so that an ordinary user can do it too
inner=--mount
[ "$(id -u)" -eq 0 ] || inner="--user --mount --map-current-user --keep-caps"
# shellcheck disable=SC2086
if unshare $inner true 2>/dev/null; then
	unshare $inner bash "$0" --full-disk || FAILED=1
else
	skip "no mount namespace to make a small disk in"
fi
# the longest target that is let through stands in its record, and nothing that is allowed can hide behind its length
cat >"$WORK/long.py" <<'P'
import http.client
c = http.client.HTTPSConnection("api.test", timeout=20); c.request("GET", "/v1/" + "p" * 8100 + "?" + "q" * 8100 + "=1"); c.getresponse().read()
P
run python3 long.py >"$T/out" 2>&1
"$SP" stop --all >/dev/null 2>&1
records | python3 -c '
import json, sys
n = 0
for l in sys.stdin:
    o = json.loads(l)
    if o["unmapped"]["sallyport"]["kind"] != "request": continue
    u = o["http_request"]["url"]
    if len(u.get("path", "")) == 8104:
        assert o["unmapped"]["sallyport"]["decision"] == "allow" and u["hostname"] == "api.test" and u["query_string"] == "q" * 8100 + "=*"; n += 1
assert n == 1, n' >"$T/out" 2>&1 && ok "a target of 16 KiB is recorded whole" || not_ok "a target of 16 KiB is recorded whole" "$(cat "$T/out")"
# a slow audit is waited for: more requests than there are in-flight slots, none refused, each recorded once
cat >"$WORK/many.py" <<'P'
import collections, http.client, os, time
c = http.client.HTTPSConnection("api.test", timeout=50); codes = collections.Counter()
for i in range(1300):
    c.request("GET", "/v1/slot%d" % i); r = c.getresponse(); r.read(); codes[r.status] += 1
    if i in (0, 900): open("at%d" % i, "w").close()
    while i == 0 and not os.path.exists("go"): time.sleep(0.02)
print(dict(codes))
P
rm -f "$WORK"/at* "$WORK/go"
(cd "$WORK" && E2E_SECRET=$SECRET timeout 100 "$SP" run --quiet --policy policy.yaml --name slots -- python3 many.py) >"$T/many" 2>&1 &
many=$!
PIDS+=($many)
if wait_for 20 test -e "$WORK/at0"; then
	ap=$(python3 -c "
import json, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect('$STATE/run/control.sock'); s.send(b'{\"id\":1,\"op\":\"status\"}')
print([r['pid'] for r in json.loads(s.recv(65536))['ok']['roles'] if r['role'] == 'audit'][0])")
	kill -STOP "$ap"
	touch "$WORK/go"
	wait_for 40 test -e "$WORK/at900"
	# it runs dry of slots by itself; what shows is that the client stands still
	n=-1
	for _ in $(seq 100); do m=$(grep -c slot "$T/ngx/access.log"); [ "$m" = "$n" ] && break; n=$m; sleep 0.2; done
	kill -CONT "$ap"
fi
wait $many
has "1300 requests while audit stood still: all served" "$T/many" "{200: 1300}"
n=$(grep -c slot "$T/ngx/access.log")
[ "$n" -eq 1300 ] && ok "each went upstream once" || not_ok "each went upstream once" "$n"
"$SP" stop --all >/dev/null 2>&1
n=$(record_count '"kind":"request"' '"path":"/v1/slot')
[ "$n" -eq 1300 ] && ok "each has one record" || not_ok "each has one record" "$n of 1300"
check_done
