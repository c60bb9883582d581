#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Placeholders in a path, percent-encoded or with their slashes; a redirect carries nothing along.
NAME=creds-path
. "$(dirname "$0")/creds-lib.sh"
can_run
make_pki DNS:a.test,DNS:b.test
cat >"$T/app.py" <<'P'
def answer(r):
    if r.path.startswith("/redir"): return 302, [("Location", "https://b.test/next")], b""
    return 200, [("Content-Type","text/plain")], b"fine\n"
P
cred_origin "$T/app.py"
cat >"$WORK/p.yaml" <<P
version: 1
name: try
secrets: { s: { env: S, hosts: [a.test] } }
destinations:
$(dest a.test)
    allow: [ { id: r, method: GET, path: /redir }, { id: k, method: GET, path: "/keep/**" }, { id: e, method: GET, path: "/enc/*" } ]
    inject:
      - { secret: s, as: bearer, env: TOK, when: [r] }
      - { secret: s, as: placeholder, in: [path], slashes: keep, when: [k] }
      - { secret: s, as: placeholder, in: [path], when: [e] }
$(dest b.test)
    allow: [ "GET /**" ]
P
(cd "$WORK" && S=planted/with/slashes-77aa timeout 60 "$SP" run --quiet --policy p.yaml -- sh -c 'curl -sS -L https://a.test/redir; curl -sS https://a.test/keep/$TOK; curl -sS https://a.test/enc/$TOK') >"$T/out" 2>&1
comes "with slashes: keep a value stands in the path with them" 1 "path == '/keep/planted/with/slashes-77aa'"
comes "else they are encoded" 1 "path == '/enc/planted%2Fwith%2Fslashes-77aa'"
comes "J07: a redirect is asked for with the credential" 1 "path == '/redir' and head('authorization') == 'Bearer planted/with/slashes-77aa'"
comes "J07: and carries nothing along to where it leads" 1 "host == 'b.test' and head('authorization') == ''"
# more entries than anybody needs: what stands for the last ones is filled too, and does not go out as it is
N=70
umask 077
for ((i = 0; i < N; i++)); do printf "planted-many-$i-5521aa" >"$T/many.$i"; export "M$i=planted-many-$i-5521aa"; done
umask 022
{
	printf 'version: 1\nname: many\nsecrets:\n'
	for ((i = 0; i < 30; i++)); do printf '  m%d: { file: %s, hosts: [a.test] }\n' $i "$T/many.$i"; done
	for ((i = 30; i < N; i++)); do printf '  m%d: { env: M%d, hosts: [a.test] }\n' $i $i; done
	printf 'destinations:\n'
	dest a.test
	printf '    allow: [ POST /many ]\n    inject:\n'
	for ((i = 0; i < N; i++)); do printf '      - { secret: m%d, as: placeholder, in: [json]%s }\n' $i "$([ $i -lt 65 ] || echo ", env: T$i")"; done
} >"$WORK/many.yaml"
(cd "$WORK" && timeout 60 "$SP" run --quiet --policy many.yaml -- python3 -c '
import json, os, urllib.request as u
print(u.urlopen(u.Request("https://a.test/many", json.dumps([os.environ["T%d" % i] for i in range(65, '$N')]).encode(), {"Content-Type": "application/json"})).status)') >"$T/many.out" 2>&1
has "a request of a policy with $N entries passes" "$T/many.out" "200"
comes "those of the last entries are filled" 1 "path == '/many' and json.loads(body) == ['planted-many-%d-5521aa' % i for i in range(65, $N)]"
nowhere "the value is nowhere that it must not be" planted/with/slashes-77aa "$T/out"
check_done
