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
bad=0
for off in 8200 8300 9000 4120 12 8192 10000; do
	cp "$T/table" "$T/damaged"
	python3 - "$T/damaged" "$off" <<'P'
import sys
f = open(sys.argv[1], "r+b"); o = int(sys.argv[2]); f.seek(o); c = f.read(1)
if c: f.seek(o); f.write(bytes([c[0] ^ 0x5a]))
P
	cmp -s "$T/table" "$T/damaged" && continue
	if (cd "$WORK" && E2E_SECRET=x timeout 60 "$SP" run --quiet --policy "$T/damaged" -- touch ran) >"$T/out" 2>&1; then
		# an octet that nothing reads (free space of a page) may differ: then the decisions must be the same
		rm -f "$WORK/ran"
	else
		bad=$((bad + 1)); grep -q 'damaged\|not a\|cannot\|unknown\|error' "$T/out" || not_ok "the refusal says why" "$(cat "$T/out")"
	fi
done
[ $bad -ge 2 ] && ok "damaged tables are refused ($bad of 7)" || not_ok "damaged tables are refused" "$bad of 7"
[ ! -e "$WORK/ran" ] && ok "no damaged table ran a command" || not_ok "no damaged table ran a command"
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
check_done
