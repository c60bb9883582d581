#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same policy is the same table, octet by octet, also on another Debian: the digests of what the compiler makes of the ready
# policies and of the catalogue's are those that stand in tests/cases/octets.sha256 (WRITE=1 writes them anew, for a change of the
# compiler or of the format). The catalogue's are also what the fuzzers of tables begin with: seeds of an older format would be
# turned away at the header, and find nothing. tests/fresh/run.sh SUITE 'make -s bin/sallyport-policy && BIN=$PWD/bin BUILD=$PWD/build/release bash tests/e2e/policy-octets.sh' is the other Debian.
NAME=policy-octets
. "$(dirname "$0")/lib.sh"
chmod go-w tests/cases/policies/lists.* 2>/dev/null # as git leaves them under a umask of 002 they are not read
want=tests/cases/octets.sha256 seeds=tests/fuzz/corpus/table_check
for f in configs/policies/*.yaml tests/cases/policies/*.yaml; do
	"$BIN/sallyport-policy" compile "$f" -o "$T/table" 2>"$T/err" || { not_ok "$f is compiled" "$(cat "$T/err")"; continue; }
	if [ "${f#tests}" != "$f" ] && [ -d "$seeds" ]; then # not in the copy that an ordinary user gets
		seed=$seeds/$(basename "$f" .yaml)
		if [ -n "${WRITE:-}" ]; then cp "$T/table" "$seed"; fi
		cmp -s "$T/table" "$seed" && ok "$seed is a table of today" || not_ok "$seed is a table of today" "WRITE=1 bash tests/e2e/policy-octets.sh writes it anew"
	fi
	echo "$(sha256sum <"$T/table" | cut -d' ' -f1)  $f" >>"$T/have"
done
if [ -n "${WRITE:-}" ]; then cp "$T/have" "$want"; fi
[ "$(wc -l <"$T/have")" -ge 11 ] && ok "there are policies" || not_ok "there are policies"
if cmp -s "$T/have" "$want"; then ok "their tables have the octets that are expected, on this $(sed -n 's/^PRETTY_NAME=//p' /etc/os-release)"; else not_ok "their tables have the octets that are expected" "$(diff "$want" "$T/have" | head -n 20)"; fi
check_done
