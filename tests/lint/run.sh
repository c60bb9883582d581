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
exit $bad
