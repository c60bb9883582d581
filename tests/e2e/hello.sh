#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ClientHellos of any size and split, names that are none, old versions, other protocols (group G), from inside a sandbox.
NAME=hello
. "$(dirname "$0")/lib.sh"
can_run
make_pki
start_nginx
write_policy
cp "$(dirname "$0")/hello.py" "$WORK/"
(cd "$WORK" && E2E_SECRET=$SECRET timeout 300 "$SP" run --quiet --name hello --policy policy.yaml -- python3 -W ignore hello.py) >"$T/said" 2>"$T/err"
check "the client ends well" test $? = 0
[ ! -s "$T/err" ] || head -20 "$T/err"
while read -r line; do
	case $line in ok\ *) ok "${line#ok }" ;; not\ ok\ *) not_ok "${line#not ok }" ;; esac
done <"$T/said"
check "everything was tried" bash -c "[ \"\$(grep -c '^ok\|^not ok' '$T/said')\" -ge 210 ]"
"$SP" stop --all >/dev/null 2>&1
records >"$T/all"
for r in client_rejected_ca sni_mismatch; do has "a record says $r" "$T/all" "$r"; done
check "G06 the record has both names" bash -c "grep sni_mismatch '$T/all' | grep 'api.test' | grep -q 'git.test'"
check "G23 every record is of this sandbox" bash -c "! grep '\"kind\":\"\(request\|connection\|dns\)\"' '$T/all' | grep -v '\"src_endpoint\":{\"name\":\"hello\"'"
check "G24 the worker was never replaced" bash -c "! grep -E 'worker.*(ended|restart)|worker_lost' '$T/all'"
check "no request of a refused hello reached the origin" bash -c "! grep -v 'GET /v1/hello' '$T/ngx/access.log' | grep -q ."
hasnt "the planted secret is in no record" "$T/all" "$SECRET"
hasnt "nor seen inside" "$T/said" "$SECRET"
check_done
