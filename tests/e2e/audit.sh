#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One record per request, chained; tampering shows; not writable means no request.
NAME=audit
. "$(dirname "$0")/lib.sh"
can_run
make_pki
start_nginx
write_policy
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
if [ "$(id -u)" -eq 0 ]; then
	mkdir -p "$T/small" && if mount -t tmpfs -o size=3584k tmpfs "$T/small" 2>/dev/null; then
		mkdir "$T/small/state"; chmod 700 "$T/small/state"
		(cd "$WORK" && E2E_SECRET=$SECRET SALLYPORT_STATE=$T/small/state timeout 60 "$SP" run --quiet --policy policy.yaml -- sh -c 'curl -sS -m 20 -o /dev/null -w "%{http_code}\n" https://api.test/v1/before; touch full; while [ ! -e filled ]; do sleep 0.1; done; for i in $(seq 400); do c=$(curl -sS -m 20 -o out -w "%{http_code}" http://plain.test/after); [ "$c" = 503 ] && break; done; cat out') >"$T/out" 2>&1 &
		p=$!
		PIDS+=($p)
		wait_for 20 test -e "$WORK/full"
		dd if=/dev/zero of="$T/small/fill" bs=4096 count=2000 >/dev/null 2>&1
		# what was allocated ahead is used up by records until none is left
		python3 -c "
import os
f=os.open('$T/small/state/audit/audit.jsonl', os.O_RDWR); s=os.fstat(f).st_size; os.ftruncate(f, s)" 2>/dev/null
		dd if=/dev/zero of="$T/small/fill2" bs=4096 count=2000 >/dev/null 2>&1
		touch "$WORK/filled"
		wait $p
		has "a full disk: 503 audit_unavailable" "$T/out" '"error":"audit_unavailable"'
		umount "$T/small" 2>/dev/null || { SALLYPORT_STATE=$T/small/state "$SP" stop --all >/dev/null 2>&1; wait_for 5 umount "$T/small"; }
	else
		skip "cannot mount a small file system here"
	fi
else
	skip "an ordinary user cannot make a small disk"
fi
check_done
