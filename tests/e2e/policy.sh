#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A policy with an error starts nothing and names the line; a damaged table is refused; consent.
NAME=policy
. "$(dirname "$0")/lib.sh"
can_run
make_pki
start_nginx
write_policy
sed 's/GET \/v1/get \/v1/' "$WORK/policy.yaml" >"$WORK/bad.yaml"
(cd "$WORK" && timeout 60 "$SP" run --policy bad.yaml -- touch ran) >"$T/out" 2>&1
rc=$?
[ $rc -eq 125 ] && ok "exit 125" || not_ok "exit 125" "$rc"
has "file, line and column" "$T/out" "bad.yaml:11:9: error:"
[ ! -e "$WORK/ran" ] && ok "nothing was started" || not_ok "nothing was started"
"$SP" policy compile "$WORK/policy.yaml" -o "$T/table" && "$SP" policy compile "$WORK/policy.yaml" -o "$T/table2"
check "same input, same octets" cmp "$T/table" "$T/table2"
check "a table is as good as its text" bash -c "cd '$WORK' && E2E_SECRET=x '$SP' run --quiet --policy '$T/table' -- curl -sS -m 20 -o /dev/null https://api.test/v1/x"
bad=0 offs=$(python3 -c "
d = open('$T/table', 'rb').read()
n = [i for i in range(8192, len(d)) if d[i]]
print(*[n[k * len(n) // 12] for k in range(12)])")
for off in $offs; do
	python3 - "$T/table" "$T/damaged" "$off" <<'P'
import sys
d = bytearray(open(sys.argv[1], "rb").read()); d[int(sys.argv[3])] ^= 0x5a; open(sys.argv[2], "wb").write(d)
P
	if (cd "$WORK" && E2E_SECRET=x timeout 60 "$SP" run --quiet --policy "$T/damaged" -- touch ran) >"$T/out" 2>&1; then
		not_ok "damage at $off is refused" "$(cat "$T/out")"
	else
		bad=$((bad + 1)); grep -q 'damaged\|table' "$T/out" || not_ok "the refusal says why" "$(cat "$T/out")"
	fi
done
[ $bad -eq 12 ] && ok "damaged tables are refused, 12 of 12" || not_ok "damaged tables are refused" "$bad of 12"
[ ! -e "$WORK/ran" ] && ok "no damaged table ran a command" || not_ok "no damaged table ran a command"
run curl -sS -m 20 -o /dev/null --path-as-is https://api.test/%76%31/%41dmin%7E/a%2ab >"$T/out" 2>&1
has "F10 escapes of unreserved characters are decoded on the wire too, nothing else" "$T/ngx/access.log" "GET /v1/Admin~/a%2ab HTTP/1.1 status=200"
cp "$WORK/policy.yaml" "$WORK/sallyport.yaml"
(cd "$WORK" && timeout 60 "$SP" run -- true) >"$T/out" 2>&1
rc=$?
[ $rc -eq 125 ] && ok "an untrusted ./sallyport.yaml starts nothing" || not_ok "an untrusted ./sallyport.yaml starts nothing" "$rc" "$(cat "$T/out")"
has "the command to type" "$T/out" "sallyport trust"
(cd "$WORK" && "$SP" trust) >"$T/out" 2>&1
check "trusted, it runs" bash -c "cd '$WORK' && E2E_SECRET=x timeout 60 '$SP' run --quiet -- true"
echo '# changed' >>"$WORK/sallyport.yaml"
(cd "$WORK" && timeout 60 "$SP" run -- true) >"$T/out" 2>&1
[ $? -eq 125 ] && ok "changed, it does not" || not_ok "changed, it does not" "$(cat "$T/out")"
rm -f "$WORK/sallyport.yaml"
(cd "$WORK" && timeout 60 "$SP" run -- curl -sS -m 20 https://api.test/v1/x) >"$T/out" 2>&1
has "without a policy everything is denied" "$T/out" '"error":"destination_denied"'
"$SP" policy explain "$WORK/policy.yaml" DELETE https://api.test/v1/x >"$T/out" 2>&1
has "explain names the rule that nearly matched" "$T/out" "its methods do not include DELETE"
for f in tests/cases/policy-errors/*.yaml; do
	[ -e "$f" ] || continue
	"$SP" policy check "$f" >"$T/out" 2>&1
	rc=$?
	if [ $rc -eq 1 ] && grep -qF -- "$(sed -n 's/^# expect: //p' "$f" | head -n 1)" "$T/out"; then ok "$(basename "$f")"; else not_ok "$(basename "$f")" "exit $rc" "$(cat "$T/out")"; fi
done
check "doctor finds what sandboxes need here" "$SP" doctor
"$SP" doctor --json >"$T/out" 2>&1
check "doctor speaks JSON" python3 -c "import json; d = json.load(open('$T/out')); assert len(d) >= 6 and d[0]['ok']"
check_done
