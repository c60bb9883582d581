#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Secrets from Vault: a faithful double (vault_double.py) over TLS, a real gateway, real requests to a real upstream.
# UG02 UG04 UG05 UF12.
NAME=vault
. "$(dirname "$0")/lib.sh"
can_run
make_pki DNS:vault.test,IP:127.0.0.1
start_nginx
HERE=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$T/v" && chmod 700 "$T/v"
VPORT=$(free_port) VPORT2=1 # nobody listens there
python3 "$HERE/vault_double.py" "$VPORT" "$T/up.pem" "$T/up.key" "$T/upca.pem" "$T/vault.log" >"$T/vault.out" 2>"$T/vault.err" &
PIDS+=($!)
VPID=$!
: >"$T/vault.log"
wait_for 10 grep -q root "$T/vault.out" || { not_ok "the double starts" "$(cat "$T/vault.err")"; exit 1; }
vset() { curl -sS --noproxy '*' --cacert "$T/upca.pem" -H 'Content-Type: application/json' -d "$1" "https://127.0.0.1:$VPORT/test/set"; }
vstate() { curl -sS --noproxy '*' --cacert "$T/upca.pem" "https://127.0.0.1:$VPORT/test/state"; }
# vq EXPRESSION: of the state, as `s`
vq() { vstate | python3 -c "import json,sys; s=json.load(sys.stdin); print($1)"; }
KV=planted-kv2-8c1f0e6a55-secret KV1=planted-kv1-1d9b7724ae-secret NEW=planted-kv2-b2c3d4e5f6-rotated
vset '{"policies":{"agents":[["secret/data/agents/*",["read"]],["kv/agents/*",["read"]],["aws/creds/agent",["read"]],["auth/token/create",["update"]],["auth/token/revoke-accessor",["update"]],["sys/leases/revoke",["update"]]],
 "narrow":[["secret/data/agents/*",["read"]],["aws/creds/agent",["read"]],["sys/leases/revoke",["update"]]]},
 "kv":{"secret/agents/github":{"token":"'$KV'","other":"x"},"kv/agents/github":{"token":"'$KV1'"},"secret/agents/gone":{"a":"b"}},
 "approle":{"gw":{"role_id":"role-1","secret_id":"planted-secret-id-5544","policies":["default","agents"],"ttl":3600}}}' >/dev/null
vset '{"kv":{"secret/agents/gone":null}}' >/dev/null
printf 'planted-secret-id-5544\n' >"$T/v/secret_id"
chmod 600 "$T/v/secret_id"
VADDR=https://127.0.0.1:$VPORT
cp "$T/upca.pem" "$T/vaultca.pem"
chmod go-w "$T/vaultca.pem"
. "$HERE/vault-lib.sh"

# --- the ways to log in, both versions of KV ---------------------------------------------------------------------------
policy kv2.yaml "vault: secret/data/agents/github, field: token"
policy kv1.yaml "vault: kv/agents/github"
config "{ method: approle, role_id: role-1, secret_id_file: $T/v/secret_id }"
serve
get kv2.yaml approle
has "AppRole, KV v2: the upstream got the value" "$T/ngx/access.log" "hello?approle HTTP/1.1 status=200 auth=Bearer $KV"
hasnt "and the sandbox did not" "$T/out" "$KV"
get kv1.yaml kv1
has "KV v1" "$T/ngx/access.log" "hello?kv1 HTTP/1.1 status=200 auth=Bearer $KV1"
no_children() { [ "$(vq 'sum(t["meta"].get("sallyport_sandbox") is not None for t in s["tokens"])')" = 0 ]; }
check "a sandbox reads with a token of its own, which is revoked with it" wait_for 10 no_children
check "and it was one for each" test "$(grep -c 'POST /v1/auth/token/create .* 200' "$T/vault.log")" = 2
check "one login was enough for both" test "$(grep -c 'auth/approle/login .* 200' "$T/vault.log")" = 1
has "a revocation by the sandbox's token" "$T/vault.log" "POST /v1/auth/token/revoke-self"
if can_scan; then
	start_box mem kv2.yaml
	ask mem one
	role_pids >"$T/pids"
	# shellcheck disable=SC2046
	for w in "$KV" planted-secret-id-5544; do
		mem_scan "$w" $(awk '{print $2}' "$T/pids") >"$T/scan"
		awk 'NR == FNR {is[$1] = $2; next} {print $1 ": " is[$2]}' "$T/scan" "$T/pids" >"$T/roles"
		for r in supervisor dialer ca audit spare; do has "memory of the $r is clean of ${w:8:9}" "$T/roles" "$r: clean"; done
		has "the search can find it: secrets holds ${w:8:9}" "$T/roles" "secrets: holds"
	done
	has "the worker has no secret_id" "$T/roles" "worker: clean"
	stop_box mem "$BOX"
else
	skip "the memory of other processes can only be searched by root"
fi
ID=$(vset '{"make_token":{"policies":["default","agents"],"ttl":3600}}' | sed 's/.*"token": "\([^"]*\)".*/\1/')
printf '%s\n' "$ID" >"$T/v/token"
chmod 600 "$T/v/token"
config "{ method: token, token_file: $T/v/token }"
serve
check "the end of the gateway revokes its login" test "$(vq 'sum(t["display"] == "approle" for t in s["tokens"])')" = 0
get kv2.yaml tokenfile
has "a token's file" "$T/ngx/access.log" "hello?tokenfile HTTP/1.1 status=200 auth=Bearer $KV"
W=$(vset '{"wrap":{"path":"auth/approle/role/gw/secret-id","data":{"secret_id":"planted-secret-id-5544"}}}' | sed 's/.*"token": "\([^"]*\)".*/\1/')
printf '%s\n' "$W" >"$T/v/wrapped"
chmod 600 "$T/v/wrapped"
config "{ method: approle, role_id: role-1, secret_id_file: $T/v/wrapped, wrapped: true }"
serve
check "a token that was given is not revoked" test "$(vq "sum(t['display'] == 'token' for t in s['tokens'])")" = 1
get kv2.yaml wrapped
has "a response-wrapped secret_id" "$T/ngx/access.log" "hello?wrapped HTTP/1.1 status=200 auth=Bearer $KV"
serve
get kv2.yaml wrapped-again
has "one that was unwrapped already says so" "$T/why" "SOMEBODY ELSE HAS UNWRAPPED IT"
W=$(vset '{"wrap":{"path":"secret/data/evil","data":{"secret_id":"planted-secret-id-5544"}}}' | sed 's/.*"token": "\([^"]*\)".*/\1/')
printf '%s\n' "$W" >"$T/v/wrapped"
serve
get kv2.yaml wrapped-evil
has "one that AppRole did not wrap is not used" "$T/why" "was not wrapped by AppRole"
vset '{"k8s":{"agents":{"jwt":"planted-k8s-jwt","policies":["default","agents"]}},"jwt":{"ci":{"jwt":"planted-ci-jwt","policies":["default","agents"]}},"certs":{"api.test":{"policies":["default","agents"]}}}' >/dev/null
mkdir -p "$T/v/..data"
printf planted-k8s-jwt >"$T/v/..data/token"
chmod 600 "$T/v/..data/token"
ln -sfn ..data/token "$T/v/k8s"
config "{ method: kubernetes, role: agents, jwt_file: $T/v/k8s }"
serve
get kv2.yaml k8s
has "Kubernetes, its token behind a link" "$T/ngx/access.log" "hello?k8s HTTP/1.1 status=200 auth=Bearer $KV"
printf planted-ci-jwt >"$T/v/jwt"
chmod 600 "$T/v/jwt"
config "{ method: jwt, role: ci, jwt_file: $T/v/jwt }"
serve
get kv2.yaml jwt
has "JWT" "$T/ngx/access.log" "hello?jwt HTTP/1.1 status=200 auth=Bearer $KV"
cp "$T/up.pem" "$T/v/cert" && cp "$T/up.key" "$T/v/key" && chmod 600 "$T/v/cert" "$T/v/key"
(cd "$T" && printf 'extendedKeyUsage=serverAuth,clientAuth\nbasicConstraints=critical,CA:FALSE\n' >cl.ext && openssl x509 -req -in up.csr -CA upca.pem -CAkey upca.key -CAcreateserial -days 30 -sha256 -extfile cl.ext -out v/cert) >>"$T/pki.log" 2>&1
config "{ method: cert, cert_file: $T/v/cert, key_file: $T/v/key }"
serve
get kv2.yaml cert
has "a client certificate" "$T/ngx/access.log" "hello?cert HTTP/1.1 status=200 auth=Bearer $KV"

# --- what is wrong, and is said ----------------------------------------------------------------------------------------
config "{ method: approle, role_id: role-1, secret_id_file: $T/v/secret_id }"
serve
wrong() { # TEXT POLICY WORDS
	policy wrong.yaml "$2"
	get wrong.yaml "wrong"
	has "$1" "$T/why" "$3"
	has "$1: and it is 503 credential_unavailable" "$T/out" '"error":"credential_unavailable"'
}
wrong "a KV v1 path on version 2" "vault: secret/agents/github, field: token" "write \`vault: secret/data/agents/github\`"
wrong "a KV v2 path on version 1" "vault: kv/data/agents/github" "write \`vault: kv/agents/github\`"
wrong "a field that there is not" "vault: secret/data/agents/github, field: tokne" "has no field tokne (it has: token, other)"
wrong "several fields" "vault: secret/data/agents/github" "has several fields (token, other)"
wrong "no such secret" "vault: secret/data/agents/nothing" "there is no secret at secret/data/agents/nothing"
wrong "a deleted one" "vault: secret/data/agents/gone" "was deleted"
wrong "denied" "vault: secret/data/others/x" "a policy of our login has to grant"
wrong "KV as dynamic" "vault_dynamic: secret/data/agents/github" "gives no lease"
hasnt "nothing of all that went upstream" "$T/ngx/access.log" "hello?wrong"
has "the reason is in the record" <(records | grep '"kind":"secret"') "KV version 1, whose paths have no data"
start_box live kv2.yaml
LIVE=$BOX
ask live before
has "a sandbox has its value" "$T/ngx/access.log" "hello?before HTTP/1.1 status=200 auth=Bearer $KV"
vset '{"sealed":true}' >/dev/null
ask live sealed
has "sealed: what is held goes on" "$T/ngx/access.log" "hello?sealed HTTP/1.1 status=200 auth=Bearer $KV"
"$SP" secret forget --state "$STATE" v >"$T/forget" 2>&1
ask live sealed2
has "sealed: without a value it is said" "$T/why" "Vault is sealed"
n=$(wc -l <"$T/vault.log")
for i in 1 2 3 4 5 6; do ask live "sealed-$i"; done
check "and Vault is not asked again for each request" test $(($(wc -l <"$T/vault.log") - n)) -le 8
"$SP" secret check --state "$STATE" >"$T/check" 2>&1
st=$?
check "secret check fails while it is sealed" test $st = 1
has "secret check says why" "$T/check" "NOT AVAILABLE: Vault is sealed"
vset '{"sealed":false,"fault":{"status":307,"headers":{"Location":"https://evil.test:8200/v1/x"}}}' >/dev/null
again() { # TAG WORDS: asked until Vault is asked again
	local i
	"$SP" secret forget --state "$STATE" v
	for i in $(seq 1 60); do ask live "$1$i"; grep -qF -- "$2" "$T/why" && return 0; sleep 0.1; done
	return 1
}
check "a redirect elsewhere is not followed" again redirect "gateway.yaml does not name"
vset '{"fault":{"status":429,"headers":{"Retry-After":"1"}}}' >/dev/null
check "over-loaded" again busy "over its rate limit"
vset '{"fault":{"status":473}}' >/dev/null
check "a standby" again standby "standby"
vset '{"fault":{"status":200,"raw":"{nonsense"}}' >/dev/null
check "an answer that is no JSON" again nonsense "cannot be read"
vset '{"fault":{"status":200,"raw":"'"$(head -c 1200000 /dev/zero | tr '\0' x)"'"}}' >/dev/null 2>&1 || python3 - "$T/upca.pem" "$VPORT" <<'P'
import json, ssl, sys, urllib.request
c = ssl.create_default_context(cafile=sys.argv[1])
r = urllib.request.Request(f"https://127.0.0.1:{sys.argv[2]}/test/set", json.dumps({"fault": {"status": 200, "raw": "x" * 1200000}}).encode())
urllib.request.urlopen(r, context=c).read()
P
check "an answer without end" again large "larger than 1 MiB"
vset '{"fault":null}' >/dev/null
back() { local i; "$SP" secret forget --state "$STATE" v; for i in $(seq 1 80); do ask live "$1$i"; grep -qF "hello?$1$i HTTP/1.1 status=200 auth=Bearer" "$T/ngx/access.log" && return 0; sleep 0.1; done; return 1; }
check "and when it is well again, so are we" back well
"$SP" secret check --state "$STATE" v >"$T/check" 2>&1
has "secret check" "$T/check" "live: v: vault secret/data/agents/github, field token: available"
has "secret check knows how long" "$T/check" ", for "
hasnt "secret check shows no value" "$T/check" "$KV"

# --- rotation, revocation ----------------------------------------------------------------------------------------------
vset '{"kv":{"secret/agents/github":{"token":"'$NEW'","other":"x"}}}' >/dev/null
"$SP" secret forget --state "$STATE" v
ask live rotated
has "forgotten, it is read anew" "$T/ngx/access.log" "hello?rotated HTTP/1.1 status=200 auth=Bearer $NEW"
"$SP" secret revoke --state "$STATE" v
ask live revoked
has "revoked: refused at once" "$T/why" "revoked by the operator"
hasnt "and nothing goes upstream" "$T/ngx/access.log" "hello?revoked HTTP"
"$SP" secret check --state "$STATE" v >"$T/check" 2>&1
has "secret check says revoked" "$T/check" "revoked by the operator"
has "it is in the record" <(records) "secret v revoked"
"$SP" secret forget --state "$STATE" v
ask live lifted
has "and can be lifted" "$T/ngx/access.log" "hello?lifted HTTP/1.1 status=200 auth=Bearer $NEW"
vset '{"revoke_all":true}' >/dev/null
"$SP" secret forget --state "$STATE" v
ask live restart
has "a Vault that knows none of our tokens: logged in again, at once" "$T/ngx/access.log" "hello?restart HTTP/1.1 status=200 auth=Bearer $NEW"
n=$(grep -c 'auth/approle/login' "$T/vault.log")
stop_box live "$LIVE"
policy fast.yaml "vault: secret/data/agents/github, field: token, refresh: 1s"
start_box fast fast.yaml
ask fast one
vset '{"kv":{"secret/agents/github":{"token":"'$KV'","other":"x"}}}' >/dev/null
rotated() { local i; for i in $(seq 1 40); do ask fast "r$i"; grep -q "hello?r$i HTTP/1.1 status=200 auth=Bearer $KV" "$T/ngx/access.log" && return 0; sleep 0.1; done; return 1; }
check "a rotated value is in use within its refresh" rotated
stop_box fast "$BOX"
c=$(vq 's["counts"]["secret/data/agents/github"]')
(cd "$WORK" && timeout 90 "$SP" run --quiet --policy kv2.yaml -- bash -c 'for i in $(seq 1 40); do curl -sS -m 30 -o /dev/null "https://api.test/v1/hello?burst$i" & done; wait') >"$T/out" 2>&1
check "forty requests on a cold cache are forty" test "$(grep -c 'hello?burst[0-9]* HTTP/1.1 status=200 auth=Bearer' "$T/ngx/access.log")" = 40
check "and one question to Vault" test $(($(vq 's["counts"]["secret/data/agents/github"]') - c)) = 1

# --- dynamic secrets ---------------------------------------------------------------------------------------------------
policy dyn.yaml "vault_dynamic: aws/creds/agent, field: secret_key"
vset '{"dynamic":{"ttl":4,"max_ttl":12}}' >/dev/null
start_box dyn dyn.yaml
ask dyn d0
check "a dynamic secret" grep -q 'hello?d0 HTTP/1.1 status=200 auth=Bearer planted-dynamic-' "$T/ngx/access.log"
"$SP" secret check --state "$STATE" --json >"$T/check" 2>&1
check "secret check tells its lease" grep -q '"lease":"aws/creds/agent/' "$T/check"
dynamic() { local i; for i in $(seq 1 140); do ask dyn "d$i"; [ "$(vq 's["made"]')" -ge 2 ] && [ "$(vq "s['counts'].get('sys/leases/renew',0)")" -ge 1 ] && return 0; sleep 0.1; done; return 1; }
check "its lease is renewed, and near its maximum another is had" dynamic
refused=$(grep -c 'credential_unavailable' "$WORK"/dyn/*.out | grep -vc ':0$')
check "no request met the change" test "$refused" = 0
used=$(grep -o 'hello?d[0-9]* HTTP/1.1 status=200 auth=Bearer planted-dynamic-[0-9]*' "$T/ngx/access.log" | sed 's/.*dynamic-//' | sort -u | wc -l)
check "the one that is there is not renewed for ever" test "$used" -ge 1
stop_box dyn "$BOX"
ended() { [ "$(vq 'len(s["leases"])')" = 0 ]; }
check "the end of the sandbox ends its leases" wait_for 10 ended
vset '{"dynamic":{"ttl":60,"max_ttl":240},"approle":{"gw":{"role_id":"role-1","secret_id":"planted-secret-id-5544","policies":["default","narrow"],"ttl":3600}}}' >/dev/null
serve
start_box narrow dyn.yaml
ask narrow n0
check "a login that may make no tokens serves too" grep -q 'hello?n0 HTTP/1.1 status=200 auth=Bearer planted-dynamic-' "$T/ngx/access.log"
stop_box narrow "$BOX"
check "and its leases are revoked one by one" wait_for 10 ended

# --- renewal to the maximum, sleep, orphans ----------------------------------------------------------------------------
vset '{"approle":{"gw":{"role_id":"role-1","secret_id":"planted-secret-id-5544","policies":["default","agents"],"ttl":3,"max_ttl":8}}}' >/dev/null
serve
start_box renew fast.yaml
ask renew s0
logins=$(grep -c 'auth/approle/login .* 200' "$T/vault.log")
relogin() { local i; for i in $(seq 1 120); do ask renew "s$i"; [ "$(grep -c 'auth/approle/login .* 200' "$T/vault.log")" -gt "$logins" ] && return 0; sleep 0.1; done; return 1; }
check "at the maximal TTL it logs in again" relogin
check "after it had renewed" test "$(vq "s['counts'].get('auth/token/renew-self',0)")" -ge 1
check "and no request was refused" test "$(grep -l credential_unavailable "$WORK"/renew/*.out 2>/dev/null | wc -l)" = 0
secrets_pid=$(role_pid secrets)
if kill -STOP "$secrets_pid" 2>/dev/null; then
	sleep 9 # twice its TTL and more: every token is dead
	kill -CONT "$secrets_pid"
	ask renew woken
	has "stopped for longer than its tokens live: logged in again (UG02)" "$T/ngx/access.log" "hello?woken HTTP/1.1 status=200 auth=Bearer $KV"
else
	skip "the role is another user's: it cannot be stopped"
fi
stop_box renew "$BOX"
vset '{"approle":{"gw":{"role_id":"role-1","secret_id":"planted-secret-id-5544","policies":["default","agents"],"ttl":3600}}}' >/dev/null
serve
start_box orphan dyn.yaml
ask orphan o0
kill -9 "$GW"
wait "$GW" 2>/dev/null
stop_box orphan "$BOX"
rm -f "$STATE/run/control.sock" # what it left: else `serve` below would look ready before it is, and a run start another one
left() { vq 'sum(t["meta"].get("sallyport_sandbox") == "orphan" for t in s["tokens"])'; }
check "a gateway that is killed leaves a token" test "$(left)" = 1
GW=
serve
get kv2.yaml sweep
none_left() { [ "$(left)" = 0 ]; }
check "the next one sweeps it up, with its leases" wait_for 15 none_left
check "and the leases" wait_for 5 ended

# --- several addresses; TLS --------------------------------------------------------------------------------------------
config "{ method: approle, role_id: role-1, secret_id_file: $T/v/secret_id }" "https://127.0.0.1:$VPORT2" "https://127.0.0.1:$VPORT"
serve
get kv2.yaml failover
has "the first address is dead: the second serves" "$T/ngx/access.log" "hello?failover HTTP/1.1 status=200 auth=Bearer $KV"
config "{ method: approle, role_id: role-1, secret_id_file: $T/v/secret_id }" "https://127.0.0.2:$VPORT"
serve
get kv2.yaml tlsname
has "a certificate of another name is refused" "$T/why" "its certificate is refused"
config "{ method: approle, role_id: role-1, secret_id_file: $T/v/secret_id }"
sed -i '/ca:/d' "$T/gateway.yaml"
serve
get kv2.yaml tlsca
has "a certificate of an unknown authority is refused" "$T/why" "its certificate is refused"
config "{ method: approle, role_id: role-1, secret_id_file: $T/v/secret_id }" "https://127.0.0.1:$VPORT2"
serve
get kv2.yaml unreachable
has "unreachable" "$T/why" "cannot be reached"
hasnt "UF12: never without its credential" "$T/ngx/access.log" "hello?unreachable"
(cd "$WORK" && timeout 60 "$SP" run --quiet --policy kv2.yaml -- curl -sS -m 30 "https://git.test/v1/hello?none") >"$T/out" 2>&1
has "what needs no secret is not kept waiting" "$T/out" "hello"
vset '{"fault":{"sleep":20}}' >/dev/null
config "{ method: approle, role_id: role-1, secret_id_file: $T/v/secret_id }"
serve
(cd "$WORK" && timeout 60 "$SP" run --quiet --policy kv2.yaml -- bash -c 'curl -sS -m 40 -o slow.out "https://api.test/v1/hello?slow" & curl -sS -m 5 "https://git.test/v1/hello?fast"; wait; cat slow.out') >"$T/out" 2>&1
has "a slow Vault does not stop what needs it not" "$T/out" "hello"
has "a slow Vault is given up" "$T/out" "credential_unavailable"
vset '{"fault":null}' >/dev/null
"$SP" stop --all >/dev/null 2>&1
wait_for 15 gone "$GW"

# --- the caller's own Vault, in a run of his own -----------------------------------------------------------------------
own() { # TAG [VARIABLE=VALUE...]
	local tag=$1; shift
	(cd "$WORK" && env "$@" timeout 60 "$SP" run --quiet --policy kv2.yaml -- sh -c "env; curl -sS -m 30 'https://api.test/v1/hello?$tag'") >"$T/out" 2>&1
	why
}
MINE=$(vset '{"make_token":{"policies":["default","agents"],"ttl":3600}}' | sed 's/.*"token": "\([^"]*\)".*/\1/')
own own VAULT_ADDR="https://127.0.0.1:$VPORT" VAULT_TOKEN="$MINE" VAULT_CACERT="$T/upca.pem"
has "VAULT_ADDR and VAULT_TOKEN of the caller" "$T/ngx/access.log" "hello?own HTTP/1.1 status=200 auth=Bearer $KV"
hasnt "which do not get in" "$T/out" "$MINE"
own ownbad VAULT_ADDR="https://127.0.0.1:$VPORT" VAULT_TOKEN=hvs.wrong VAULT_CACERT="$T/upca.pem"
has "a token that Vault does not know" "$T/why" "does not know the token that was given"
own none
has "no Vault at all" "$T/why" "no Vault is configured"
find "$STATE" -type f -exec grep -lE -- "planted-|hvs\\." {} + >"$T/files" 2>/dev/null
if [ -s "$T/files" ]; then not_ok "no file of the state has a value or a token" "$(cat "$T/files")"; else ok "no file of the state has a value or a token"; fi
hasnt "no record has one" <(records) "planted-"
hasnt "no record has a token" <(records) "hvs."
hasnt "the gateway's log has none" "$T/gateway.log" "planted-"
check "the double still stands" kill -0 "$VPID"
check_done
