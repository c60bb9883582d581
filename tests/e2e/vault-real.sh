#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The checks of vault.sh against a real server: KV v1 and v2, AppRole (also wrapped), client certificate, leases, renewal to the maximal TTL, revocation, denied,
# sealed, wrong paths. It makes mounts and policies of its own, and takes them away. Where it is:
#   SALLYPORT_TEST_VAULT_ADDR=https://HOST:PORT  SALLYPORT_TEST_VAULT_TOKEN=... (may do all that)  SALLYPORT_TEST_VAULT_CACERT=FILE
#   SALLYPORT_TEST_VAULT_UNSEAL=KEY (optional: it is sealed, and opened with this)
#   SALLYPORT_TEST_VAULT_ENGINE=TYPE (optional: a secrets engine as tests/vault/main.go has it, whose creds/ROLE gives leases)
# `make vault-real` builds such a server and runs this.
NAME=vault-real
. "$(dirname "$0")/lib.sh"
if [ -z "${SALLYPORT_TEST_VAULT_ADDR:-}" ] || [ -z "${SALLYPORT_TEST_VAULT_TOKEN:-}" ]; then
	skip "SALLYPORT_TEST_VAULT_ADDR and SALLYPORT_TEST_VAULT_TOKEN are not set (make vault-real)"
	exit 0
fi
can_run
make_pki DNS:vault.test,IP:127.0.0.1
start_nginx
HERE=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$T/v" && chmod 700 "$T/v"
VADDR=$SALLYPORT_TEST_VAULT_ADDR
cp "$SALLYPORT_TEST_VAULT_CACERT" "$T/vaultca.pem" || exit 1
chmod 644 "$T/vaultca.pem"
. "$HERE/vault-lib.sh"
# v METHOD PATH [JSON]: with the token that was given
v() {
	curl -sS -m 30 --noproxy '*' --cacert "$T/vaultca.pem" -H @"$T/v/head" -X "$1" "${@:4}" ${3:+-d "$3"} "$VADDR/v1/$2"
}
(umask 077 && printf 'X-Vault-Token: %s\n' "$SALLYPORT_TEST_VAULT_TOKEN" >"$T/v/head")
# of EXPRESSION: of the JSON that comes in, as j
of() { python3 -c "import json,sys; j=json.load(sys.stdin); print($1)"; }
ID=sp$$x$RANDOM
done_here() { for p in "sys/mounts/$ID-kv2" "sys/mounts/$ID-kv1" "sys/mounts/$ID-creds" "sys/auth/$ID-role" "sys/auth/$ID-cert" "sys/auth/$ID-jwt" "sys/auth/$ID-k8s" "sys/policies/acl/$ID" "sys/policies/acl/$ID-narrow"; do v DELETE "$p" >/dev/null 2>&1; done; }
trap 'done_here; cleanup' EXIT
v GET sys/health >"$T/health"
has "the server is there" "$T/health" '"initialized":true'
echo "# $(of 'j["version"]' <"$T/health")"
KV=planted-kv2-8c1f0e6a55-secret KV1=planted-kv1-1d9b7724ae-secret NEW=planted-kv2-b2c3d4e5f6-rotated
common='path "auth/token/create" {capabilities=["update"]} path "auth/token/revoke-accessor" {capabilities=["update"]}'
leases='path "sys/leases/revoke" {capabilities=["update"]}'
reads="path \"$ID-kv2/data/agents/*\" {capabilities=[\"read\"]} path \"$ID-kv1/agents/*\" {capabilities=[\"read\"]} path \"$ID-creds/creds/agent\" {capabilities=[\"read\"]}"
acl() { v PUT "sys/policies/acl/$1" "$(python3 -c 'import json,sys; print(json.dumps({"policy": sys.argv[1]}))' "$2")"; }
{
	v POST "sys/mounts/$ID-kv2" '{"type":"kv","options":{"version":"2"}}'
	v POST "sys/mounts/$ID-kv1" '{"type":"kv","options":{"version":"1"}}'
	v POST "sys/auth/$ID-role" '{"type":"approle"}'
	acl "$ID" "$reads $common $leases"
	acl "$ID-narrow" "$reads $leases"
	v POST "auth/$ID-role/role/gw" "{\"token_policies\":[\"$ID\"],\"token_ttl\":3600}"
	v POST "auth/$ID-role/role/narrow" "{\"token_policies\":[\"$ID-narrow\"],\"token_ttl\":3600}"
	v POST "auth/$ID-role/role/brief" "{\"token_policies\":[\"$ID\"],\"token_ttl\":4,\"token_max_ttl\":11}"
} >"$T/setup" 2>&1
put2() { v POST "$ID-kv2/data/agents/$1" "{\"data\":$2}"; }
ready() { put2 github '{"token":"'$KV'","other":"x"}' | grep -q '"version"'; } # a new mount of version 2 is upgraded for a moment
check "mounts, roles and policies are made" wait_for 20 ready
cat "$T/setup"
put2 gone '{"a":"b"}' >/dev/null
v DELETE "$ID-kv2/data/agents/gone"
v POST "$ID-kv1/agents/github" '{"token":"'$KV1'"}'
role_of() { v GET "auth/$ID-role/role/$1/role-id" | of 'j["data"]["role_id"]'; }
new_secret_id() { (umask 077 && v POST "auth/$ID-role/role/$1/secret-id" '{}' | of 'j["data"]["secret_id"]' >"$T/v/$1.id"); }
login() { # ROLE [address]: by AppRole
	local r=$1; shift
	[ -s "$T/v/$r.id" ] || new_secret_id "$r"
	config "{ method: approle, mount: $ID-role, role_id: $(role_of "$r"), secret_id_file: $T/v/$r.id }" "$@"
	serve
}
accessors() { v LIST auth/token/accessors | of 'len(j["data"]["keys"])'; }
# how many tokens carry our mark
children() { v LIST auth/token/accessors | of '"\n".join(j["data"]["keys"])' | while read -r a; do v POST auth/token/lookup-accessor "{\"accessor\":\"$a\"}" | of '(j.get("data") or {}).get("meta") and "sallyport_sandbox" in j["data"]["meta"]'; done | grep -c True; }

# --- logging in, both versions of KV -----------------------------------------------------------------------------------
policy kv2.yaml "vault: $ID-kv2/data/agents/github, field: token"
policy kv1.yaml "vault: $ID-kv1/agents/github"
before=$(accessors)
login gw
get kv2.yaml approle
has "AppRole, KV v2: the upstream got the value" "$T/ngx/access.log" "hello?approle HTTP/1.1 status=200 auth=Bearer $KV"
hasnt "and the sandbox did not" "$T/out" "$KV"
get kv1.yaml kv1
has "KV v1" "$T/ngx/access.log" "hello?kv1 HTTP/1.1 status=200 auth=Bearer $KV1"
start_box one kv2.yaml
ask one mem
check "a sandbox that lives reads with a token of its own" test "$(children)" = 1
if can_scan; then
	role_pids >"$T/pids"
	# shellcheck disable=SC2046
	mem_scan "$KV" $(awk '{print $2}' "$T/pids") >"$T/scan"
	awk 'NR == FNR {is[$1] = $2; next} is[$2] == "holds" {print $1}' "$T/scan" "$T/pids" | sort -u >"$T/holders"
	check "only secrets and its worker hold the value" test "$(grep -v '^worker' "$T/holders" | tr '\n' ' ')" = "secrets "
fi
stop_box one "$BOX"
no_children() { [ "$(children)" = 0 ]; }
check "which is revoked with it" wait_for 10 no_children
v POST auth/token/create "{\"policies\":[\"$ID\"],\"ttl\":\"1h\"}" | of 'j["auth"]["client_token"]' >"$T/v/token"
chmod 600 "$T/v/token"
config "{ method: token, token_file: $T/v/token }"
serve
check "the end of the gateway revoked its login" test "$(accessors)" = $((before + 1))
get kv2.yaml tokenfile
has "a token's file" "$T/ngx/access.log" "hello?tokenfile HTTP/1.1 status=200 auth=Bearer $KV"
wrap() { (umask 077 && v POST "$1" '{}' -H 'X-Vault-Wrap-TTL: 120' | of 'j["wrap_info"]["token"]' >"$T/v/wrapped"); }
wrap "auth/$ID-role/role/gw/secret-id"
config "{ method: approle, mount: $ID-role, role_id: $(role_of gw), secret_id_file: $T/v/wrapped, wrapped: true }"
serve
get kv2.yaml wrapped
has "a response-wrapped secret_id" "$T/ngx/access.log" "hello?wrapped HTTP/1.1 status=200 auth=Bearer $KV"
serve
get kv2.yaml wrapped-again
has "one that was unwrapped already says so" "$T/why" "SOMEBODY ELSE HAS UNWRAPPED IT"
wrap sys/wrapping/wrap
serve
get kv2.yaml wrapped-evil
has "one that AppRole did not wrap is not used" "$T/why" "was not wrapped by AppRole"
if v POST "sys/auth/$ID-cert" '{"type":"cert"}' | grep -q errors; then
	skip "the server has no login by certificate"
else
	(cd "$T" && printf 'subjectAltName=DNS:agents.test\nextendedKeyUsage=clientAuth\nbasicConstraints=critical,CA:FALSE\n' >cl.ext && openssl x509 -req -in up.csr -CA upca.pem -CAkey upca.key -CAcreateserial -days 30 -sha256 -extfile cl.ext -out v/cert) >>"$T/pki.log" 2>&1
	cp "$T/up.key" "$T/v/key"
	chmod 600 "$T/v/cert" "$T/v/key"
	v POST "auth/$ID-cert/certs/agents" "$(python3 -c 'import json,sys; print(json.dumps({"certificate": open(sys.argv[1]).read(), "token_policies": [sys.argv[2]]}))' "$T/upca.pem" "$ID")"
	config "{ method: cert, mount: $ID-cert, cert_file: $T/v/cert, key_file: $T/v/key }"
	serve
	get kv2.yaml cert
	has "a client certificate" "$T/ngx/access.log" "hello?cert HTTP/1.1 status=200 auth=Bearer $KV"
fi

if v POST "sys/auth/$ID-jwt" '{"type":"jwt"}' | grep -q errors; then
	skip "the server has no login by JWT"
else
	openssl ecparam -name prime256v1 -genkey -noout -out "$T/v/jwt.key" && openssl pkey -in "$T/v/jwt.key" -pubout -out "$T/v/jwt.pub"
	cat >"$T/v/jwt.py" <<'P'
import base64, json, subprocess, sys, time
def b(x): return base64.urlsafe_b64encode(x).rstrip(b"=").decode()
text = b(b'{"alg":"ES256","typ":"JWT"}') + "." + b(json.dumps({"iss": "ci", "sub": "job", "aud": "vault", "iat": int(time.time()), "exp": int(time.time()) + 600}).encode())
der = subprocess.run(["openssl", "dgst", "-sha256", "-sign", sys.argv[1]], input=text.encode(), capture_output=True, check=True).stdout
n = der[3]; r = der[4:4 + n]; s = der[6 + n:] # two integers; JOSE has them with 32 octets each
print(text + "." + b(b"".join(x.lstrip(b"\0").rjust(32, b"\0") for x in (r, s))), end="")
P
	(umask 077 && python3 "$T/v/jwt.py" "$T/v/jwt.key" >"$T/v/jwt")
	v POST "auth/$ID-jwt/config" "$(python3 -c 'import json,sys; print(json.dumps({"jwt_validation_pubkeys": [open(sys.argv[1]).read()], "bound_issuer": "ci"}))' "$T/v/jwt.pub")"
	v POST "auth/$ID-jwt/role/ci" "{\"role_type\":\"jwt\",\"user_claim\":\"sub\",\"bound_audiences\":[\"vault\"],\"token_policies\":[\"$ID\"]}"
	config "{ method: jwt, mount: $ID-jwt, role: ci, jwt_file: $T/v/jwt }"
	serve
	get kv2.yaml jwt
	has "JWT" "$T/ngx/access.log" "hello?jwt HTTP/1.1 status=200 auth=Bearer $KV"
fi

if v POST "sys/auth/$ID-k8s" '{"type":"kubernetes"}' | grep -q errors; then
	skip "the server has no login by Kubernetes"
else
	# an API server that reviews tokens, and takes one of them for what it says
	KPORT=$(free_port)
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$T/v/k8s.key" -out "$T/v/k8s.pem" -subj /CN=kubernetes -addext subjectAltName=IP:127.0.0.1 -days 2 2>/dev/null
	openssl ecparam -name prime256v1 -genkey -noout -out "$T/v/sa.key"
	cat >"$T/v/sa.py" <<'P'
import base64, json, subprocess, sys, time
def b(x): return base64.urlsafe_b64encode(x).rstrip(b"=").decode()
sa = {"namespace": "agents", "serviceaccount": {"name": sys.argv[2], "uid": "7d1f"}}
text = b(b'{"alg":"ES256","typ":"JWT"}') + "." + b(json.dumps({"iss": "https://kubernetes", "sub": "system:serviceaccount:agents:" + sys.argv[2], "aud": ["vault"], "iat": int(time.time()), "nbf": int(time.time()), "exp": int(time.time()) + 600, "kubernetes.io": sa}).encode())
der = subprocess.run(["openssl", "dgst", "-sha256", "-sign", sys.argv[1]], input=text.encode(), capture_output=True, check=True).stdout
n = der[3]; r = der[4:4 + n]; s = der[6 + n:]
print(text + "." + b(b"".join(x.lstrip(b"\0").rjust(32, b"\0") for x in (r, s))), end="")
P
	cat >"$T/v/k8s.py" <<'P'
import json, ssl, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
good = open(sys.argv[4]).read()
class H(BaseHTTPRequestHandler):
    def log_message(self, *a): pass
    def do_POST(self):
        q = json.loads(self.rfile.read(int(self.headers["Content-Length"]))); ok = q["spec"]["token"] == good and self.headers["Authorization"] == "Bearer reviewer"
        print(self.path, ok, flush=True); q["kind"], q["apiVersion"] = "TokenReview", "authentication.k8s.io/v1"
        q["status"] = {"authenticated": True, "audiences": ["vault"], "user": {"username": "system:serviceaccount:agents:gateway", "uid": "7d1f", "groups": ["system:serviceaccounts", "system:serviceaccounts:agents"]}} if ok else {"authenticated": False, "error": "no such token"}
        d = json.dumps(q).encode(); self.send_response(201); self.send_header("Content-Type", "application/json"); self.send_header("Content-Length", str(len(d))); self.end_headers(); self.wfile.write(d)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[2], sys.argv[3])
s = HTTPServer(("127.0.0.1", int(sys.argv[1])), H); s.socket = c.wrap_socket(s.socket, server_side=True); print("up", flush=True); s.serve_forever()
P
	(umask 077 && python3 "$T/v/sa.py" "$T/v/sa.key" gateway >"$T/v/sa" && python3 "$T/v/sa.py" "$T/v/sa.key" other >"$T/v/sa-other")
	python3 "$T/v/k8s.py" "$KPORT" "$T/v/k8s.pem" "$T/v/k8s.key" "$T/v/sa" >"$T/k8s.log" 2>&1 &
	PIDS+=($!)
	wait_for 10 grep -q up "$T/k8s.log" || not_ok "the reviewer of tokens starts" "$(cat "$T/k8s.log")"
	v POST "auth/$ID-k8s/config" "$(python3 -c 'import json,sys; print(json.dumps({"kubernetes_host": sys.argv[1], "kubernetes_ca_cert": open(sys.argv[2]).read(), "token_reviewer_jwt": "reviewer", "disable_local_ca_jwt": True}))' "https://127.0.0.1:$KPORT" "$T/v/k8s.pem")"
	v POST "auth/$ID-k8s/role/gw" "{\"bound_service_account_names\":[\"gateway\"],\"bound_service_account_namespaces\":[\"agents\"],\"audience\":\"vault\",\"token_policies\":[\"$ID\"]}"
	config "{ method: kubernetes, mount: $ID-k8s, role: gw, jwt_file: $T/v/sa }"
	serve
	get kv2.yaml kubernetes
	has "Kubernetes" "$T/ngx/access.log" "hello?kubernetes HTTP/1.1 status=200 auth=Bearer $KV"
	has "Kubernetes: the token was reviewed" "$T/k8s.log" "/apis/authentication.k8s.io/v1/tokenreviews True"
	config "{ method: kubernetes, mount: $ID-k8s, role: gw, jwt_file: $T/v/sa-other }"
	serve
	get kv2.yaml kubernetes-other
	has "Kubernetes: a service account that the role does not name is refused, and it is said" "$T/why" "Vault"
	hasnt "Kubernetes: and nothing is sent" "$T/ngx/access.log" "hello?kubernetes-other"
fi

# --- what is wrong, and is said ----------------------------------------------------------------------------------------
login gw
wrong() { # TEXT POLICY WORDS
	policy wrong.yaml "$2"
	get wrong.yaml "wrong"
	has "$1" "$T/why" "$3"
	has "$1: and it is 503 credential_unavailable" "$T/out" '"error":"credential_unavailable"'
}
wrong "a KV v1 path on version 2" "vault: $ID-kv2/agents/github, field: token" "write \`vault: $ID-kv2/data/agents/github\`"
wrong "a KV v2 path on version 1" "vault: $ID-kv1/data/agents/github" "write \`vault: $ID-kv1/agents/github\`"
wrong "a field that there is not" "vault: $ID-kv2/data/agents/github, field: tokne" "has no field tokne (it has: "
wrong "several fields" "vault: $ID-kv2/data/agents/github" "has several fields ("
wrong "no such secret" "vault: $ID-kv2/data/agents/nothing" "there is no secret at $ID-kv2/data/agents/nothing"
wrong "a deleted one" "vault: $ID-kv2/data/agents/gone" "was deleted"
wrong "denied" "vault: $ID-kv2/data/others/x" "a policy of our login has to grant"
wrong "KV as dynamic" "vault_dynamic: $ID-kv2/data/agents/github" "gives no lease"
wrong "a mount that there is not" "vault: $ID-none/data/agents/github" "$ID-none/data/agents/github"
hasnt "nothing of all that went upstream" "$T/ngx/access.log" "hello?wrong"

# --- rotation, revocation ----------------------------------------------------------------------------------------------
start_box live kv2.yaml
ask live before
put2 github '{"token":"'$NEW'","other":"x"}' >/dev/null
"$SP" secret forget --state "$STATE" v
ask live rotated
has "forgotten, it is read anew" "$T/ngx/access.log" "hello?rotated HTTP/1.1 status=200 auth=Bearer $NEW"
"$SP" secret revoke --state "$STATE" v
ask live revoked
has "revoked: refused at once" "$T/why" "revoked by the operator"
"$SP" secret forget --state "$STATE" v
ask live lifted
has "and can be lifted" "$T/ngx/access.log" "hello?lifted HTTP/1.1 status=200 auth=Bearer $NEW"
v LIST auth/token/accessors | of '"\n".join(j["data"]["keys"])' | while read -r a; do v POST auth/token/lookup-accessor "{\"accessor\":\"$a\"}" | grep -q "auth/$ID-role/login" && v POST auth/token/revoke-accessor "{\"accessor\":\"$a\"}"; done
check "its login, and with it the sandbox's token, is revoked behind its back" no_children
"$SP" secret forget --state "$STATE" v
ask live restart
has "logged in again, at once" "$T/ngx/access.log" "hello?restart HTTP/1.1 status=200 auth=Bearer $NEW"
if [ -n "${SALLYPORT_TEST_VAULT_UNSEAL:-}" ]; then
	v PUT sys/seal
	ask live sealed
	has "sealed: what is held goes on" "$T/ngx/access.log" "hello?sealed HTTP/1.1 status=200 auth=Bearer $NEW"
	"$SP" secret forget --state "$STATE" v
	ask live sealed2
	has "sealed: without a value it is said" "$T/why" "Vault is sealed"
	v PUT sys/unseal "{\"key\":\"$SALLYPORT_TEST_VAULT_UNSEAL\"}" | of '"# sealed: " + str(j["sealed"])'
	back() { local i; for i in $(seq 1 200); do ask live "w$i"; grep -qF "hello?w$i HTTP/1.1 status=200 auth=Bearer" "$T/ngx/access.log" && return 0; sleep 0.1; done; return 1; }
	check "and when it is opened, it is had again" back
else
	skip "SALLYPORT_TEST_VAULT_UNSEAL is not set: it is not sealed"
fi
stop_box live "$BOX"
put2 github '{"token":"'$KV'","other":"x"}' >/dev/null

# --- leases ------------------------------------------------------------------------------------------------------------
lease_n() { v LIST "sys/leases/lookup/$ID-creds/creds/agent/" | of 'len((j.get("data") or {}).get("keys") or [])'; }
no_leases() { [ "$(lease_n)" = 0 ]; }
if [ -n "${SALLYPORT_TEST_VAULT_ENGINE:-}" ] && ! v POST "sys/mounts/$ID-creds" "{\"type\":\"$SALLYPORT_TEST_VAULT_ENGINE\"}" | grep -q errors; then
	v POST "$ID-creds/role/agent" '{"ttl":4,"max_ttl":12}'
	policy dyn.yaml "vault_dynamic: $ID-creds/creds/agent, field: secret_key"
	start_box dyn dyn.yaml
	ask dyn d0
	check "a dynamic secret" grep -qE 'hello\?d0 HTTP/1.1 status=200 auth=Bearer [0-9a-f]{40}' "$T/ngx/access.log"
	check "it has a lease" test "$(lease_n)" = 1
	kinds() { grep -oE 'hello\?d[0-9]+ HTTP/1.1 status=200 auth=Bearer [0-9a-f]{40}' "$T/ngx/access.log" | sed 's/.*Bearer //' | sort -u | wc -l; }
	another() { local i; for i in $(seq 1 200); do ask dyn "d$i"; [ "$(kinds)" -ge 2 ] && return 0; sleep 0.1; done; return 1; }
	began=$(date +%s)
	check "it is renewed, and near its maximum another is had" another
	check "not before it was renewed: the first lived for longer than its TTL" test $(($(date +%s) - began)) -gt 4
	check "no request met the change" test "$(cat "$WORK"/dyn/*.out | grep -c credential_unavailable)" = 0
	stop_box dyn "$BOX"
	check "the end of the sandbox ends its leases" wait_for 10 no_leases
	v POST "$ID-creds/role/agent" '{"ttl":60,"max_ttl":240}'
	login narrow
	start_box narrow dyn.yaml
	ask narrow n0
	check "a login that may make no tokens serves too" grep -qE 'hello\?n0 HTTP/1.1 status=200 auth=Bearer [0-9a-f]{40}' "$T/ngx/access.log"
	stop_box narrow "$BOX"
	check "and its leases are revoked one by one" wait_for 10 no_leases
	login gw
	start_box orphan dyn.yaml
	ask orphan o0
	kill -9 "$GW"
	wait "$GW" 2>/dev/null
	stop_box orphan "$BOX"
	rm -f "$STATE/run/control.sock"
	check "a gateway that is killed leaves a token, and its lease" test "$(children) $(lease_n)" = "1 1"
	GW=
	serve
	get kv2.yaml sweep
	check "the next one sweeps it up" wait_for 15 no_children
	check "with its lease" wait_for 10 no_leases
else
	skip "SALLYPORT_TEST_VAULT_ENGINE is not set, or not there: no leases"
fi

# --- renewal to the maximum --------------------------------------------------------------------------------------------
policy fast.yaml "vault: $ID-kv2/data/agents/github, field: token, refresh: 1s"
login brief
start_box renew fast.yaml
renewed() { # for twice its longest life
	local i until=$(($(date +%s) + 24))
	for ((i = 0; $(date +%s) < until; i++)); do ask renew "s$i"; sleep 0.2; done
	ask renew last
}
renewed
has "a login of four seconds, eleven at most, serves for twenty-four" "$T/ngx/access.log" "hello?last HTTP/1.1 status=200 auth=Bearer $KV"
check "and no request was refused" test "$(grep -l credential_unavailable "$WORK"/renew/*.out 2>/dev/null | wc -l)" = 0
stop_box renew "$BOX"
login gw "https://127.0.0.1:1"
get kv2.yaml unreachable
has "unreachable" "$T/why" "cannot be reached"
hasnt "never without its credential" "$T/ngx/access.log" "hello?unreachable"
"$SP" stop --all >/dev/null 2>&1
wait_for 15 gone "$GW"
records >"$T/records"
for w in planted- "$SALLYPORT_TEST_VAULT_TOKEN" "$(cat "$T/v/gw.id")" hvs.; do
	if grep -qF -- "$w" "$T/records" "$T/gateway.log"; then not_ok "neither record nor log has ${w:0:6}..." "it is there"; else ok "neither record nor log has ${w:0:6}..."; fi
done
check_done
