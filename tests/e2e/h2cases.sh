#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Groups C and D, I and K over HTTP/2, UB and UC, with frames of our own (h2cases.py). CASES=C0[1-9] picks ids, SLOW=1 adds what
# waits for time-outs, WRITE=1 writes that part of docs/CONFORMANCE.md.
NAME=h2cases
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
can_run
/usr/bin/python3 -c 'import hpack' 2>/dev/null || { skip "no python3-hpack"; exit 0; }
names=
for k in "" f n; do for i in 0 1 2 3 4 5 6 7 8 9; do names="$names${names:+,}DNS:${k}h1-$i.test,DNS:${k}h2-$i.test"; done; done
make_pki "$names"
cp "$here/cases_inside.py" "$WORK/inside.py"
chmod 644 "$WORK"/*
[ -z "${WRITE:-}" ] || export CONFORMANCE="$here/../../docs/CONFORMANCE.md"
export T WORK STATE SECRET SP E2E_SECRET=$SECRET
/usr/bin/python3 "$here/h2cases.py" || { FAILED=1; tail -n 20 "$T/run.log"; }
check_done
