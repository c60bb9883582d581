#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same policy is the same table, octet by octet, also on another Debian: the digests of what the compiler makes of the ready
# policies and of the catalogue's are those that stand in tests/cases/octets.sha256 (WRITE=1 writes them anew, for a change of the
# compiler or of the format). tests/fresh/run.sh SUITE 'make -s bin/sallyport-policy && bash tests/e2e/policy-octets.sh' is the other Debian.
NAME=policy-octets
. "$(dirname "$0")/lib.sh"
want=tests/cases/octets.sha256
for f in configs/policies/*.yaml tests/cases/policies/*.yaml; do
	"$BIN/sallyport-policy" compile "$f" -o "$T/table" 2>"$T/err" || { not_ok "$f is compiled" "$(cat "$T/err")"; continue; }
	echo "$(sha256sum <"$T/table" | cut -d' ' -f1)  $f"
done >"$T/have"
if [ -n "${WRITE:-}" ]; then cp "$T/have" "$want"; fi
[ "$(wc -l <"$T/have")" -ge 11 ] && ok "there are policies" || not_ok "there are policies"
if cmp -s "$T/have" "$want"; then ok "their tables have the octets that are expected, on this $(sed -n 's/^PRETTY_NAME=//p' /etc/os-release)"; else not_ok "their tables have the octets that are expected" "$(diff "$want" "$T/have" | head -n 20)"; fi
check_done
