#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The case files of tests/cases/http1 over sockets (tests/cases/README.md). CASES=A0[1-9] picks ids, SPLITS=few leaves out
# the cuts at every offset, SLOW=1 adds what waits for time-outs, WRITE=1 writes docs/CONFORMANCE.md.
NAME=cases
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
can_run
(
	cd "$T" || exit 1
	openssl ecparam -name prime256v1 -genkey -noout -out upca.key
	openssl req -x509 -new -key upca.key -sha256 -days 30 -subj "/CN=test upstream CA" -addext basicConstraints=critical,CA:TRUE \
		-addext keyUsage=critical,keyCertSign -out upca.pem
	openssl ecparam -name prime256v1 -genkey -noout -out up.key
	openssl req -new -key up.key -subj "/CN=cases" -out up.csr
	printf 'subjectAltName=DNS:*.test\nextendedKeyUsage=serverAuth\nbasicConstraints=critical,CA:FALSE\n' >up.ext
	for i in $(seq 0 40); do for j in $(seq 0 5); do printf ',DNS:s%d-%d.test' "$i" "$j"; done; done >sans
	sed -i "s/DNS:\*\.test/DNS:s.test$(cat sans)/" up.ext
	openssl x509 -req -in up.csr -CA upca.pem -CAkey upca.key -CAcreateserial -days 30 -sha256 -extfile up.ext -out up.pem
) >"$T/pki.log" 2>&1 || { not_ok "certificates" "$(cat "$T/pki.log")"; exit 1; }
cp "$T/upca.pem" "$here/cases_inside.py" "$WORK/"
mv "$WORK/cases_inside.py" "$WORK/inside.py"
chmod 644 "$WORK"/*
[ -z "${WRITE:-}" ] || export CONFORMANCE="$here/../../docs/CONFORMANCE.md"
[ -z "${SP_SCAN:-}" ] || export SPLITS=few # beside the run as root, which has done it
export T WORK STATE SECRET SP E2E_SECRET=$SECRET
/usr/bin/python3 "$here/cases.py" run || { FAILED=1; tail -n 20 "$T/run.log"; }
check_done
