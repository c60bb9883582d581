#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Who may do what on the control socket: users and groups of policy folders, their boundaries, and what a caller who is not the
# gateway's own user may bring.
NAME=callers
. "$(dirname "$0")/lib.sh"
can_run
HERE=$(cd "$(dirname "$0")" && pwd)
cd "$T" || exit 1
mkdir -m 755 team
while IFS='|' read -r bad words; do
	printf '%s\n' "$bad" >bad.yaml
	chmod 644 bad.yaml
	if timeout 20 "$BIN/sallyport-proxy" serve --state "$T/none" --config bad.yaml >out 2>&1; then not_ok "no start with $bad"; else has "no start with $bad" out "$words"; fi
done <<'B'
policies: [ { dir: team, users: [daemon, nobody-of-that-name] } ]|bad.yaml:1:42: error: there is no user `nobody-of-that-name` on this system: correct the name, make the user (useradd), or write a number
policies: [ { dir: team, groups: [no-such-group] } ]|bad.yaml:1:35: error: there is no group `no-such-group` on this system: correct the name, make the group (groupadd), or write a number
policies: [ { dir: team, users: [4294967295] } ]|bad.yaml:1:34: error: 4294967295 is no number of a user
policies: [ { dir: team, groups: ["99999999999999999999"] } ]|there is no group `99999999999999999999`
policies: [ { dir: team, users: daemon } ]|bad.yaml:1:33: error: `users`
policies: [ { dir: team, boundary: [x] } ]|bad.yaml:1:36: error: `boundary`
policies: [ { dir: team, boundary: nothing-here.yaml } ]|cannot open the boundary nothing-here.yaml
policies: [ { dir: team, boundary: bad.yaml } ]|the boundary bad.yaml
B
if [ "$(id -u)" -ne 0 ]; then
	skip "other callers need a gateway of root's and a second user"
	check_done
fi
make_pki
start_nginx
rm -rf team
mkdir -m 755 team crew open closed
chmod 711 "$T"
printf '%s' "$SECRET" >key
chmod 600 key
dest() { printf '  - host: api.test\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { ca: %s/upca.pem }\n' "$PORT" "$T"; }
cat >ceiling.yaml <<Y
version: 1
name: ceiling
destinations:
$(dest)
    allow: [ "ANY /v1/**" ]
    deny: [ "ANY /v1/top/**" ]
Y
cat >team.yaml <<Y
version: 1
name: team-ceiling
limits: { requests: 40/h }
destinations:
$(dest)
    allow: [ "GET /v1/**", "POST /v1/**" ]
    deny: [ "ANY /v1/kept/**" ]
Y
cat >agent.yaml <<Y
version: 1
name: agent
secrets: { key: { file: $T/key, hosts: [api.test] } }
destinations:
$(dest)
    allow: [ "GET /**", "POST /v1/echo" ]
    inject: [ { secret: key, as: bearer } ]
Y
cat >wide.yaml <<Y
version: 1
name: wide
destinations:
  - host: elsewhere.test
    addresses: [10.0.0.0/8]
    allow: [ "GET /**" ]
$(dest | sed 's/127.0.0.0\/8/127.0.0.0\/8, 10.0.0.0\/8/')
    allow: [ "GET /**" ]
Y
cat >plain.yaml <<Y
version: 1
name: plain
destinations:
$(dest)
    allow: [ "GET /v1/**" ]
Y
cat >narrow.yaml <<Y
version: 1
name: mine
destinations:
  - host: api.test
    allow: [ "GET /v1/hello", "GET /v1/kept/x", "GET /v1/top/x", "GET /outside" ]
Y
narrow_with() { # NAME LINE-OF-THE-DESTINATION [TOP]
	printf 'version: 1\nname: mine\n%sdestinations:\n  - host: api.test\n%s\n' "${3:-}" "$2" >"$1.yaml"
	"$BIN/sallyport-policy" compile "$1.yaml" -o "$1.lmdb" || not_ok "$1 compiles"
}
narrow_with n-secret '    allow: [ "GET /v1/hello" ]' "secrets: { s: { env: S, hosts: [api.test] } }
"
narrow_with n-addresses '    addresses: [10.0.0.0/8]
    allow: [ "GET /v1/hello" ]'
narrow_with n-connect '    connect: 192.0.2.1:443
    addresses: [192.0.2.0/24]
    allow: [ "GET /v1/hello" ]'
narrow_with n-ca "    tls: { ca: $T/upca.pem }
    allow: [ \"GET /v1/hello\" ]"
narrow_with n-tunnel '    tls: { passthrough: true }
    allow: tunnel'
narrow_with n-observe '    allow: [ "GET /v1/hello" ]' 'mode: observe
until: 2030-01-01
'
for p in agent wide plain narrow; do "$BIN/sallyport-policy" compile "$p.yaml" -o "$p.lmdb" || not_ok "$p compiles"; done
cp agent.lmdb team/agent.lmdb; cp wide.lmdb team/wide.lmdb; cp agent.lmdb team/second.lmdb; cp agent.lmdb team/moves.lmdb
cp plain.lmdb crew/crewed.lmdb; cp plain.lmdb open/opened.lmdb; cp plain.lmdb closed/shut.lmdb
chmod 644 ./*.lmdb
cat >gateway.yaml <<Y
boundary: ceiling.yaml
policies:
  - { dir: team, users: [daemon], boundary: team.yaml, sources: { file: [ $T/key ] } }
  - { dir: crew, groups: [games, 4242] }
  - { dir: open }
  - { dir: closed, users: [] }
Y
chmod 644 gateway.yaml
cp "$HERE/checks.py" "$HERE/callers.py" "$HERE/callers_ask.py" "$HERE/callers_linger.py" .
chmod 755 "$T"
python3 callers.py "$BIN" "$T" "$MARK" || FAILED=1
check_done
