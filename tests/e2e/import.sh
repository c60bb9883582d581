#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Imports from OpenShell, sandbox-runtime, squid, smokescreen and iron-proxy: the same decisions, request by request; what cannot be said is told.
NAME=import
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
P="$SP policy"
exits() { local t=$1 want=$2 rc; shift 2; "$@" >"$T/out" 2>"$T/err"; rc=$?; [ $rc -eq "$want" ] && ok "$t" || not_ok "$t" "exit $rc, not $want" "$(cat "$T/out" "$T/err")"; }
if /usr/bin/python3 -c 'import yaml' 2>/dev/null; then
	/usr/bin/python3 "$here/import.py" "$SP" "$here/../cases/import" >"$T/compared" 2>"$T/err" || not_ok "the comparison runs" "$(cat "$T/err")"
	sed "s/\$/ ($MARK)/" "$T/compared"
	! grep -q '^not ok' "$T/compared" || FAILED=1
	[ "$(grep -c '^ok' "$T/compared")" -ge 17 ] && ok "three files of each, and more" || not_ok "three files of each, and more" "$(cat "$T/compared" "$T/err")"
else
	skip "no yaml for python here"
fi
cd "$WORK" || exit 1
printf 'acl a dstdomain .a.example\nhttp_access deny a\nhttp_access allow all\n' >open.conf
exits "what lets every other name pass cannot be said" 1 $P import squid open.conf
has "at its line" "$T/err" "open.conf:3:1: error: a name that no list has is allowed there"
printf 'acl a dstdomain "/etc/squid/list"\nhttp_access allow a\nhttp_access deny all\n' >file.conf
exits "a list in another file" 1 $P import squid file.conf
has "is told" "$T/err" "file.conf:1:1: error: a list in a file of its own"
printf 'http_access allow nothing\n' >none.conf
exits "a list that is not there" 1 $P import squid none.conf
printf 'acl a dstdomain a.example\nhttp_access allow a\nhttp_access deny all\nhttp_reply_access deny all\n' >reply.conf
exits "what restricts and is not known" 1 $P import squid reply.conf
exits "a service that only reports" 1 $P import --service reports smokescreen "$here/../cases/import/smokescreen/enforce.yaml"
has "lets everything pass" "$T/err" "action report lets every other host pass"
printf 'version: v1\nservices: []\nip_ranges: []\n' >odd.yaml
exits "a key that is not known" 1 $P import smokescreen odd.yaml
printf 'transforms:\n  - { name: judge, config: {} }\n  - { name: allowlist, config: { domains: [a.example] } }\n' >judge.yaml
exits "a transform that restricts" 1 $P import iron-proxy judge.yaml
has "is told" "$T/err" "judge.yaml:2:5: error: the transform \`judge\` is not known here"
printf 'transforms:\n  - { name: allowlist, config: { domains: ["*"], rules: [ { host: a.example, paths: ["/x?"] } ] } }\n' >glob.yaml
exits "a path that cannot be said" 1 $P import iron-proxy glob.yaml
# --json
for k in "openshell --any-program" sandbox-runtime squid smokescreen iron-proxy; do
	for f in "$here/../cases/import/${k%% *}"/*; do
		$P import $k "$f" >"$T/plain" 2>"$T/plain.err"; a=$?
		$P import --json $k "$f" >"$T/out" 2>"$T/err"; b=$?
		echo "$k" >>"$T/kinds.$a"
		check "$k $(basename "$f") says the same as JSON" python3 - "$f" "$T" $a $b <<'Y'
import json, sys
f, t, a, b = sys.argv[1:]
(d,) = (json.loads(l) for l in open(t + "/out"))
said = [l for l in open(t + "/plain.err").read().split("\n") if l]
assert a == b and d["file"] == f and d["ok"] is (a == "0") and open(t + "/err").read() == ""
assert d.get("policy", "") == open(t + "/plain").read() and ("policy" in d) is d["ok"]
assert len(d["messages"]) == len(said) and all(m["text"] in l and m["severity"] in l for m, l in zip(d["messages"], said)), d
Y
	done
done
[ "$(sort -u "$T/kinds.0" | wc -l)" = 5 ] && ok "of each kind" || not_ok "of each kind" "$(cat "$T"/kinds.*)"
exits "what cannot be said, as JSON" 1 $P import --json squid open.conf
check "has its place" python3 -c "import json; d = json.load(open('$T/out')); m = d['messages'][0]; assert not d['ok'] and 'policy' not in d and (m['severity'], m['file'], m['line'], m['column']) == ('error', 'open.conf', 3, 1) and m['text'].startswith('a name that no list has'), d"
exits "a file that is not there, as JSON" 1 $P import --json squid absent.conf
check "is a message" python3 -c "import json; d = json.load(open('$T/out')); assert not d['ok'] and 'No such file' in d['messages'][0]['text'], d"
check_done
