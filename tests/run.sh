#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs all tests of one build: unit tests, corpus replays, end-to-end scripts (as root also as an ordinary user).
# Ends with a line "N passed, N failed, N skipped"; the exit status tells whether all passed.
set -u
cd "$(dirname "$0")/.."
: "${BUILD:=$PWD/build/release}" "${BIN:=$PWD/bin}"
export BUILD BIN
passed=0 failed=0 skipped=0
log=$BUILD/check.log
: >"$log"

count() { # a script's output: ok, not ok, skip
	local p f s
	p=$(grep -c '^ok ' "$1") f=$(grep -c '^not ok ' "$1") s=$(grep -c '^skip ' "$1")
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	grep -E '^(not ok|skip) ' "$1"
}

echo "== unit tests"
for t in "$BUILD"/tests/*_test; do
	[ -x "$t" ] || continue
	out=$BUILD/out.$$
	if CMOCKA_MESSAGE_OUTPUT=STDOUT timeout 300 "$t" >"$out" 2>&1; then :; else echo "(exit $?)" >>"$out"; fi
	cat "$out" >>"$log"
	p=$(grep -c '^\[       OK \]' "$out") f=$(grep -c '^\[  FAILED  \] [a-z]' "$out")
	if ! tail -n 3 "$out" | grep -q 'PASSED\|passed'; then
		[ "$f" -gt 0 ] || f=1
	fi
	if grep -q '^(exit' "$out" && [ "$f" -eq 0 ]; then f=1; fi
	if [ "$f" -gt 0 ]; then echo "not ok unit $(basename "$t")"; cat "$out"; fi
	passed=$((passed + p)) failed=$((failed + f))
	rm -f "$out"
done
echo "== corpus replays"
for t in "$BUILD"/replay/*_fuzz; do
	[ -x "$t" ] || continue
	name=$(basename "$t" _fuzz)
	if timeout 300 "$t" "tests/fuzz/corpus/$name" >>"$log" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1)); echo "not ok replay $name"; tail -n 20 "$log"
	fi
done
run_e2e() { # name, command...
	local name=$1 out=$BUILD/e2e.$1.log; shift
	echo "== $name"
	timeout 900 "$@" >"$out" 2>&1 </dev/null
	local rc=$?
	count "$out"
	if [ $rc -ne 0 ] && ! grep -q '^not ok ' "$out"; then
		failed=$((failed + 1)); echo "not ok $name (exit $rc)"
	fi
	if [ $rc -ne 0 ]; then tail -n 60 "$out"; fi
	cat "$out" >>"$log"
}
for t in tests/e2e/*.sh; do
	case $(basename "$t") in lib.sh | creds-lib.sh | vault-lib.sh | demo.sh | as-user.sh) continue ;; esac
	if [ -n "${ONLY:-}" ] && [ "$ONLY" != "$(basename "$t" .sh)" ]; then continue; fi
	if [ "$(id -u)" -eq 0 ]; then
		run_e2e "$(basename "$t" .sh).root" bash "$t"
		run_e2e "$(basename "$t" .sh).user" bash tests/e2e/as-user.sh "$t"
	else
		run_e2e "$(basename "$t" .sh).user" bash "$t"
	fi
done
run_demo() { # name, command...: the demo checks what it shows, and counts as one
	local out=$BUILD/e2e.$1.log
	if [ -n "${ONLY:-}" ] && [ "$ONLY" != demo ]; then return; fi
	echo "== $1"
	if timeout 300 "${@:2}" >"$out" 2>&1 </dev/null; then
		passed=$((passed + 1))
	elif grep -q 'user namespaces cannot be made here' "$out"; then
		skipped=$((skipped + 1)); echo "skip $1: user namespaces cannot be made here"
	else
		failed=$((failed + 1)); echo "not ok $1"; cat "$out"
	fi
	cat "$out" >>"$log"
}
if [ "$(id -u)" -eq 0 ]; then
	run_demo demo.root bash tests/e2e/demo.sh
	run_demo demo.user bash tests/e2e/as-user.sh tests/e2e/demo.sh
else
	run_demo demo.user bash tests/e2e/demo.sh
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
