#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Static checks: cppcheck and mandoc where they are installed, and rules of the house.
set -u
cd "$(dirname "$0")/../.."
bad=0
if command -v cppcheck >/dev/null 2>&1; then
	# ctunullpointer, ctuuninitvar: take a check behind a call that may have cleared the pointer, and a place to write into, for doubts
	cppcheck --quiet --error-exitcode=1 --enable=warning,portability --inline-suppr --suppress=missingIncludeSystem --suppress=nullPointerOutOfMemory --suppress=ctunullpointer --suppress=ctuuninitvar -D__x86_64__ -I. -D_GNU_SOURCE -DSP_VERSION='"0"' \
		common proxy ca cli policy-compiler sandbox-launcher || bad=1
else
	echo "lint: cppcheck is not installed"
fi
if command -v mandoc >/dev/null 2>&1; then mandoc -Tlint -W error docs/man/* || bad=1; fi
# layers: proxy/http and common/base include nothing above them; roles do not include each other
grep -rnE '#include "(\.\./)*(common/)?(sys|policy|conf)/' proxy/http common/base && { echo "lint: a lower layer includes a higher one"; bad=1; }
grep -rLn 'SPDX-License-Identifier' --include='*.c' --include='*.h' common proxy ca cli policy-compiler sandbox-launcher tests | grep . && { echo "lint: SPDX line missing"; bad=1; }
# the part of docs/CONFORMANCE.md that is written by hand: every id of groups E, G and H has its row, and each test that it names has the id
part=$(sed -n '/^## Identity/,$p' docs/CONFORMANCE.md)
for id in $(seq -f E%02g 18) $(seq -f G%02g 24) $(seq -f H%02g 14) UT03 UT04 UT06 UT07 UT08 UT09 UI03 UI04 UI05 UI06; do
	row=$(grep "^| $id | " <<<"$part") || { echo "lint: docs/CONFORMANCE.md has no row for $id"; bad=1; continue; }
	for f in $(sed 's/.* | \(.*\) |$/\1/' <<<"$row"); do
		[ "$f" = - ] || grep -qw "$id" "tests/$f" || { echo "lint: docs/CONFORMANCE.md says that tests/$f tries $id"; bad=1; }
	done
done
exit $bad
