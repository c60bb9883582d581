#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Placeholders in a path, percent-encoded or with their slashes; a redirect carries nothing along, also not to the same host in clear;
# nothing goes to who cannot prove his name, nor what would break a head; many entries.
NAME=creds-path
. "$(dirname "$0")/creds-lib.sh"
can_run
make_pki DNS:a.test,DNS:b.test,DNS:c.test
CLEAR=$(free_port)
cat >"$T/app.py" <<P
def answer(r):
    if r.path == "/to-clear": return 302, [("Location", "http://a.test:$CLEAR/in-clear")], b""
    if r.path.startswith("/redir"): return 302, [("Location", "https://b.test/next")], b""
    return 200, [("Content-Type","text/plain")], b"fine"
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
# a host whose certificate does not hold: its name is right, who vouches for it is not
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$T/stranger.key" -out "$WORK/stranger.pem" -subj "/CN=a stranger" -days 2 2>/dev/null
# a server in clear, that writes down all it gets
cat >"$T/clear.py" <<'P'
import socket, sys
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
open(sys.argv[2], "a").write("up\n")
while True:
    c, _ = s.accept(); c.settimeout(5); d = b""
    try:
        while b"\r\n\r\n" not in d: d += c.recv(4096) or b"\r\n\r\n"
    except OSError: pass
    open(sys.argv[2], "ab").write(d); c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nclear"); c.close()
P
python3 "$T/clear.py" "$CLEAR" "$T/clear.log" >/dev/null 2>&1 &
PIDS+=($!)
wait_for 10 grep -q up "$T/clear.log"
cat >"$WORK/bound.yaml" <<P
version: 1
name: bound
secrets: { s: { env: S, hosts: [a.test, c.test] }, broken: { env: BROKEN, hosts: [b.test] } }
destinations:
$(dest a.test)
    allow: [ "GET /**" ]
    inject: [ { secret: s, as: bearer } ]
$(dest b.test)
    allow: [ "GET /**" ]
    inject: [ { secret: broken, as: bearer } ]
$(dest c.test | sed 's/upca/stranger/')
    allow: [ "GET /**" ]
    inject: [ { secret: s, as: bearer } ]
  - host: a.test
    scheme: http
    ports: [$CLEAR]
    connect: 127.0.0.1:$CLEAR
    addresses: [127.0.0.0/8]
    allow: [ "GET /**" ]
P
cat >"$WORK/bound.sh" <<'B'
say() { curl -sS -o "$1.body" -w "$1 %{http_code}\n" "$2" $3 2>>err; }
say trusted https://a.test/trusted
say stranger https://c.test/stranger
say broken https://b.test/broken
say clear https://a.test/to-clear -L
B
forget
(cd "$WORK" && S=planted-bound-33c1f0 BROKEN=$'planted-bro\nken: 91' timeout 60 "$SP" run --quiet --policy bound.yaml -- sh bound.sh) >"$T/bound.out" 2>&1
has "the others work: a request with its credential" "$T/bound.out" "trusted 200"
comes "and it arrives" 1 "path == '/trusted' and head('authorization') == 'Bearer planted-bound-33c1f0'"
has "J02: who cannot prove his name gets nothing, and this is said" "$T/bound.out" "stranger 502"
comes "J02: no request came there" 0 "path == '/stranger'"
has "J06: a value with a line break goes nowhere" "$T/bound.out" "broken 503"
comes "J06: no request came with it" 0 "path == '/broken'"
has "J08: a redirect to the same host in clear is a request of its own" "$T/bound.out" "clear 200"
check "J08: it came" grep -q "GET /in-clear " "$T/clear.log"
hasnt "J08: without the credential" "$T/clear.log" planted-bound
check "J08: and without any" bash -c "! grep -qi authorization '$T/clear.log'"
for v in planted-bound-33c1f0 planted-bro; do nowhere "J26: $v is nowhere that it must not be" "$v" "$T/bound.out" "$WORK"/*.body "$WORK/err"; done
sed -e '/scheme: http$/,$ { s/    allow: .*/&\n    inject: [ { secret: s, as: bearer } ]/ }' "$WORK/bound.yaml" >"$WORK/clear.yaml"
"$SP" policy check "$WORK/clear.yaml" >"$T/check.out" 2>&1 && not_ok "J01: no policy sends a secret in clear" || has "J01: no policy sends a secret in clear" "$T/check.out" "no secret goes over scheme http"
nowhere "the value is nowhere that it must not be" planted/with/slashes-77aa "$T/out"
check_done
