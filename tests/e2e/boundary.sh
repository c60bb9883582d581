#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The operator's ceiling: what passes passes both, what goes beyond starts nothing. And `mode: observe`, which the operator has to allow.
NAME=boundary
. "$(dirname "$0")/lib.sh"
can_run
make_pki
start_nginx
write_policy
cd "$WORK" || exit 1
cat >op.yaml <<P
version: 1
name: operator
limits: { requests: 6/h }
destinations:
  - host: api.test
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ GET /v1/**, { method: POST, path: /v1/**, body: { json: { /kind: good } } } ]
    deny: [ ANY /v1/kept/** ]
  - host: git.test
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ { method: ANY, path: /**, body: any } ]
P
within() { E2E_SECRET=$SECRET timeout 60 "$SP" run --quiet --policy policy.yaml --boundary op.yaml -- "$@"; }
sed -i '0,/127.0.0.0\/8/s//127.0.0.0\/8, 10.0.0.0\/8/' policy.yaml
within true >"$T/out" 2>&1
rc=$?
sed -i 's/, 10.0.0.0\/8//' policy.yaml
[ $rc -ne 0 ] && ok "a policy that goes beyond starts nothing" || not_ok "a policy that goes beyond starts nothing" "$rc"
has "it is told what" "$T/out" "goes beyond the boundary: "
sed -i '/host: plain.test/,$d; s/hosts: \[api.test\]/hosts: [api.test, more.test]/' policy.yaml
within true >"$T/out" 2>&1
has "a secret that may go further" "$T/out" "secret \`api\` may go to more.test, which the boundary has no destination for"
"$SP" policy check --boundary op.yaml policy.yaml >"$T/out" 2>&1
has "the compiler says so before" "$T/out" "secret \`api\` may go to more.test"
# of the sandbox: an empty list is none, and ./ the working directory; neither holds what is absolute
ceiling() { # SANDBOX OF THE BOUNDARY, OF THE POLICY, within OR beyond
	printf 'version: 1\nname: c\nsandbox: { %s }\n' "$1" >c.yaml
	printf 'version: 1\nname: p\nsandbox: { %s }\n' "$2" >p.yaml
	"$SP" policy check --boundary c.yaml p.yaml >"$T/out" 2>&1
	[ "$3 $?" = "within 0" ] || { [ "$3" = beyond ] && grep -q 'goes beyond the boundary' "$T/out"; } && ok "$2 is $3 $1" || not_ok "$2 is $3 $1" "$(cat "$T/out")"
}
for k in write read; do
	ceiling "filesystem: { $k: [] }" "filesystem: { $k: [/srv] }" beyond
	ceiling "filesystem: { $k: [] }" "filesystem: { $k: [src] }" beyond
	ceiling "filesystem: { $k: [] }" "filesystem: { $k: [] }" within
	ceiling "filesystem: { $k: [./] }" "filesystem: { $k: [/srv] }" beyond
	ceiling "filesystem: { $k: [./] }" "filesystem: { $k: [src, ./src, .//src, ., ./] }" within
	ceiling "filesystem: { $k: [/srv] }" "filesystem: { $k: [.//srv] }" beyond
done
ceiling "filesystem: { write: [] }" "filesystem: { home: empty }" beyond
for k in hide protect; do
	ceiling "filesystem: { $k: [/srv/keys] }" "filesystem: { $k: [] }" beyond
	ceiling "filesystem: { $k: [/srv/keys] }" "filesystem: { $k: [./] }" beyond
	ceiling "filesystem: { $k: [/srv/keys] }" "filesystem: { $k: [.//srv] }" beyond
	ceiling "filesystem: { $k: [/srv/keys] }" "filesystem: { $k: [/srv] }" within
	ceiling "filesystem: { $k: [] }" "filesystem: { home: empty }" within
done
ceiling "process: { environment: { keep: [] } }" "process: { environment: { keep: [LANG] } }" beyond
ceiling "process: { environment: { keep: [] } }" "process: { environment: { keep: [] } }" within
ceiling "process: { environment: { keep: [LANG] } }" "process: { environment: { keep: [LANG] } }" within
sed -i 's/, more.test//; s/      - POST \/v1\/post/      - POST \/v1\/**\n      - DELETE \/v1\/**/' policy.yaml
cat >>policy.yaml <<P
  - host: other.test
    allow: [ "GET /**" ]
P
cat >inside.sh <<'S'
code() { curl -sS -o body -m 20 -w '%{http_code}' "$@" 2>err; }
say() { echo "$1 $2"; }
say get "$(code https://api.test/v1/x)"
say delete "$(code -X DELETE https://api.test/v1/x)"; cat body
say kept "$(code https://api.test/v1/kept/x)"; cat body
say own "$(code https://api.test/v1/hidden/x)"
say other "$(code https://other.test/x)"; cat body
say good "$(code --json '{"kind":"good"}' https://api.test/v1/x)"
say bad "$(code --json '{"kind":"bad"}' https://api.test/v1/x)"
for i in 1 2 3 4 5 6 7 8; do say rate "$(code https://api.test/v1/x)"; done
cat body
S
within sh inside.sh >"$T/out" 2>"$T/err"
for w in "get 200" "delete 403" "kept 403" "own 403" "other 403" "good 200" "bad 403" "rate 200" "rate 429"; do has "$w" "$T/out" "$w"; done
has "no rule of the boundary" "$T/out" "no rule of the boundary of this sandbox allows DELETE"
has "a deny of the boundary" "$T/out" "a deny rule of the boundary of this sandbox"
has "no destination of the boundary" "$T/out" "no destination of the boundary of this sandbox is other.test"
has "its rate" "$T/out" "requests: 6/h\` of the boundary"
[ "$(grep -c "rate 200" "$T/out")" = 4 ] && ok "six in all" || not_ok "six in all" "$(cat "$T/out")"
records >"$T/records"
check "records say when it was the boundary, with its rule and place" python3 - "$T/records" <<'Y'
import json, sys
r = [json.loads(l) for l in open(sys.argv[1])]
r = {(o["http_request"]["http_method"], o["http_request"]["url"]["path"]): o for o in r if o["unmapped"]["sallyport"]["kind"] == "request"}
s = lambda m, p: r[m, p]["unmapped"]["sallyport"]
assert s("DELETE", "/v1/x")["boundary"] is True and s("DELETE", "/v1/x")["source"].endswith("op.yaml:5"), s("DELETE", "/v1/x")
assert r["GET", "/v1/kept/x"]["firewall_rule"]["uid"] == "api.test:deny:ANY /v1/kept/**" and s("GET", "/v1/kept/x")["source"].endswith("op.yaml:9")
assert "boundary" not in s("GET", "/v1/hidden/x") and s("GET", "/v1/hidden/x")["source"].endswith("policy.yaml:15"), s("GET", "/v1/hidden/x")
Y
# a gateway with a boundary of its own
"$SP" stop --all >/dev/null 2>&1
wait_for 10 bash -c "[ ! -S '$STATE/run/control.sock' ]"
mkdir -p "$HOME/.config/sallyport"
conf=$HOME/.config/sallyport/gateway.yaml
[ "$(id -u)" -ne 0 ] || conf=$T/gateway.yaml
printf 'boundary: %s/op.yaml\n' "$WORK" >"$conf"
serve() { "$BIN/sallyport-proxy" serve --state "$STATE" ${conf:+--config "$conf"} >"$T/gw.out" 2>&1 & PIDS+=($!); wait_for 20 test -S "$STATE/run/control.sock"; }
serve || not_ok "a gateway with a boundary starts" "$(cat "$T/gw.out")"
run sh -c 'curl -sS -o /dev/null -m 20 -w "%{http_code}\n" -X DELETE https://api.test/v1/x; curl -sS -o /dev/null -m 20 -w "%{http_code}\n" https://api.test/v1/x' >"$T/out" 2>&1
[ "$(tr '\n' ' ' <"$T/out")" = "403 200 " ] && ok "gateway.yaml's boundary holds for every run" || not_ok "gateway.yaml's boundary holds for every run" "$(cat "$T/out" "$T/gw.out")"
within true >"$T/out" 2>&1
has "a run brings no other" "$T/out" "this gateway has a boundary of its own"
sed 's/addresses: \[127.0.0.0\/8\]/addresses: [127.0.0.0\/8, 10.0.0.0\/8]/' policy.yaml >wide.yaml
(E2E_SECRET=x timeout 60 "$SP" run --quiet --policy wide.yaml -- touch ran) >"$T/out" 2>&1
has "what goes beyond it is refused by the gateway itself" "$T/out" "\`addresses\` (10.0.0.0/8) of api.test goes beyond the boundary"
[ ! -e ran ] && ok "nothing ran" || not_ok "nothing ran"
"$SP" stop --all >/dev/null 2>&1
wait_for 10 bash -c "[ ! -S '$STATE/run/control.sock' ]"
sed -i 's/allow: \[ GET/alow: [ GET/' op.yaml
"$BIN/sallyport-proxy" serve --state "$STATE" --config "$conf" >"$T/gw.out" 2>&1
[ $? -ne 0 ] && ok "a boundary with an error starts no gateway" || not_ok "a boundary with an error starts no gateway"
has "it is told" "$T/gw.out" "op.yaml:8:5: error: unknown key"
rm -f "$conf"
# observing
write_policy
sed -i 's/^name: e2e/name: e2e\nmode: observe\nuntil: 2099-01-01/; s/tls: { ca: ./&/' policy.yaml
sed -i 's/      - ANY \/v1\/hidden\/\*\*/&\n      - { method: POST, path: \/**, body: { json: { \/kind: bad } } }/' policy.yaml
cat >watch.sh <<'S'
code() { curl -sS -o body -m 20 -w '%{http_code}' "$@" 2>err; }
say() { echo "$1 $2"; }
say listed "$(code -X PUT -H 'Authorization: Bearer mine' --data x https://api.test/v1/echo)"
say ruled "$(code https://api.test/v1/echo)"
say denied "$(code https://api.test/v1/hidden/x)"
say elsewhere "$(code https://unlisted.test/)"
say content "$(code --json '{"kind":"bad"}' https://api.test/v1/echo)"
say other "$(code --json '{"kind":"x"}' https://api.test/v1/echo)"
say dots "$(code --path-as-is https://api.test/v1/%2e%2e/x)"
S
run sh watch.sh >"$T/out" 2>&1
has "without the operator's word it enforces" "$T/out" "listed 403"
: >"$T/ngx/access.log"
(E2E_SECRET=$SECRET timeout 60 "$SP" run --quiet --observe --policy policy.yaml -- sh watch.sh) >"$T/out" 2>"$T/err"
for w in "listed 200" "ruled 200" "denied 403" "elsewhere 403" "content 403" "other 200" "dots 400"; do has "observing: $w" "$T/out" "$w"; done
grep 'PUT /v1/echo' "$T/ngx/access.log" >"$T/put"
hasnt "nothing is injected into what no rule allows" "$T/put" "$SECRET"
hasnt "and what the sandbox sent in that place does not go on" "$T/put" "mine"
has "it did go" "$T/put" "auth=-"
grep 'GET /v1/echo' "$T/ngx/access.log" >"$T/get"
has "what a rule allows is as ever" "$T/get" "$SECRET"
records >"$T/records"
check "it is marked" python3 - "$T/records" <<'Y'
import json, sys
r = [json.loads(l) for l in open(sys.argv[1])]
r = [(o["http_request"]["http_method"], o["http_request"]["url"]["path"], o["unmapped"]["sallyport"]) for o in r if o["unmapped"]["sallyport"]["kind"] == "request"]
marked = [(m, p) for m, p, s in r if s.get("observed")]
assert sorted(marked) == [("POST", "/v1/echo"), ("PUT", "/v1/echo")], marked
assert all(s["decision"] == "allow" for m, p, s in r if s.get("observed"))
Y
sed 's/2099-01-01/2020-01-01/' policy.yaml >past.yaml
(E2E_SECRET=$SECRET timeout 60 "$SP" run --quiet --observe --policy past.yaml -- sh watch.sh) >"$T/out" 2>"$T/err"
has "behind its date it enforces" "$T/out" "listed 403"
printf 'version: 1\nextends: [policy.yaml]\n' >extends.yaml
"$SP" policy check extends.yaml >"$T/out" 2>&1
has "a policy that others extend does not observe" "$T/out" "policy.yaml:3:1: error: a policy that others extend does not observe"
check_done
