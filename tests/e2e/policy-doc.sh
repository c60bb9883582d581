#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The examples of docs/POLICY.md: each policy is good, is laid out, and says what its tests say; each command answers as it is written.
NAME=policy-doc
. "$(dirname "$0")/lib.sh"
python3 - "$WORK" <<'P'
import re, sys
text = open("docs/POLICY.md").read()
for n, block in enumerate(re.findall(r"```yaml\n(.*?)```", text, re.S)):
    name = re.search(r"^name: (\S+)", block, re.M)
    open(f"{sys.argv[1]}/{name[1] if name else 'least'}.yaml", "w").write(block)
for n, block in enumerate(re.findall(r"```console\n\$ (.*?)```", text, re.S)):
    command, _, answer = block.partition("\n")
    open(f"{sys.argv[1]}/command{n}", "w").write(command + "\n")
    open(f"{sys.argv[1]}/answer{n}", "w").write(answer)
P
if [ -d policy-compiler ]; then # not in the copy that an ordinary user gets
	python3 tests/e2e/policy-texts.py >"$T/texts"
	[ "$(grep -c 'no test has' "$T/texts")" -eq 0 ] && [ "$(sed -n 's/ kinds$//p' "$T/texts")" -gt 200 ] && ok "each error and warning of a policy has an example with its text" || not_ok "each error and warning of a policy has an example with its text" "$(cat "$T/texts")"
fi
cd "$WORK" || exit 1
[ "$(ls ./*.yaml | wc -l)" -ge 5 ] && ok "there are examples" || not_ok "there are examples" "$(ls)"
for f in *.yaml; do
	check "$f: check" "$SP" policy check "$f"
	check "$f: test" "$SP" policy test "$f"
	check "$f: fmt" "$SP" policy fmt --check "$f"
done
for f in command*; do
	PATH=$BIN:$PATH bash "$f" >"$T/out" 2>&1
	check "$(cat "$f")" cmp "$T/out" "answer${f#command}"
done
check_done
