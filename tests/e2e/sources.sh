#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Where secrets come from beside Vault (vault.sh) and the environment (secrets.sh): files that are replaced, links, systemd
# credentials, programs; and the tokens that are obtained with a secret. UF06, UG05, J21.
NAME=sources
. "$(dirname "$0")/lib.sh"
can_run
make_pki DNS:token.test,IP:127.0.0.1
start_nginx
HERE=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$T/s" && chmod 700 "$T/s"
policy() { # FILE SECRET-YAML [as...]
	cat >"$WORK/$1" <<P
version: 1
name: sources
secrets:
  v: { $2, hosts: [api.test] }
destinations:
  - host: api.test
    connect: 127.0.0.1:$PORT
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ "GET /v1/**" ]
    inject:
      - { secret: v, as: ${3:-bearer} }
P
}
get() { (cd "$WORK" && timeout 60 "$SP" run --quiet --policy "$1" -- curl -sS -m 30 "https://api.test/v1/hello?$2") >"$T/out" 2>&1; why; }
why() { records | grep '"kind":"secret"' | tail -n 3 >"$T/why"; }
sent() { has "$1" "$T/ngx/access.log" "hello?$2 HTTP/1.1 status=200 auth=$3 key="; }
start_box() { # NAME POLICY
	mkdir -p "$WORK/$1"
	(cd "$WORK" && timeout 300 "$SP" run --quiet --policy "$2" --name "$1" -- bash -c "touch $1/up; while [ ! -e $1/stop ]; do for q in $1/*.ask; do [ -e \"\$q\" ] || continue; t=\${q%.ask}; rm \"\$q\"; curl -sS -m 30 \"https://api.test/v1/hello?\${t##*/}\" >\"\$t.new\" 2>&1; mv \"\$t.new\" \"\$t.out\"; done; sleep 0.05; done") >"$T/$1.box" 2>&1 &
	BOX=$!
	PIDS+=($BOX)
	wait_for 30 test -e "$WORK/$1/up" || not_ok "the sandbox $1 starts" "$(cat "$T/$1.box")"
}
ask() { : >"$WORK/$1/$2.ask"; wait_for 40 test -e "$WORK/$1/$2.out"; cp "$WORK/$1/$2.out" "$T/out"; why; }
stop_box() { touch "$WORK/$1/stop"; wait "$BOX"; }
# until BOX TAG VALUE: asked until that value arrives
until_sent() { local i; for i in $(seq 1 60); do ask "$1" "$2$i"; grep -qF "hello?$2$i HTTP/1.1 status=200 auth=Bearer $3 " "$T/ngx/access.log" && return 0; sleep 0.1; done; return 1; }
until_why() { local i; for i in $(seq 1 60); do ask "$1" "$2$i"; grep -qF -- "$3" "$T/why" && return 0; sleep 0.1; done; return 1; }

# --- files -------------------------------------------------------------------------------------------------------------
printf 'planted-file-one-11aa22bb33\n' >"$T/s/key"
chmod 600 "$T/s/key"
policy file.yaml "file: $T/s/key"
start_box file file.yaml
ask file first
sent "a file" first "Bearer planted-file-one-11aa22bb33"
printf 'planted-file-two-44cc55dd66\n' >"$T/s/key.new"
chmod 600 "$T/s/key.new"
mv "$T/s/key.new" "$T/s/key"
check "another renamed over it is read (J21)" until_sent file renamed planted-file-two-44cc55dd66
printf 'planted-file-tri-77ee88ff99\n' >"$T/s/key"
check "written in place, it is read again" until_sent file inplace planted-file-tri-77ee88ff99
rm "$T/s/key"
check "removed: it is refused, and said" until_why file removed "was removed"
printf 'planted-file-for-00aa11bb22\n' >"$T/s/key"
chmod 600 "$T/s/key"
check "back again, it is read" until_sent file again planted-file-for-00aa11bb22
ln -s "$T/s/elsewhere" "$T/s/link" && printf 'planted-elsewhere-33cc44\n' >"$T/s/elsewhere" && chmod 600 "$T/s/elsewhere"
mv -T "$T/s/link" "$T/s/key"
check "a link in its place is not followed" until_why file linked "symbolic link"
rm "$T/s/key"
printf 'planted-open-to-all-55dd66\n' >"$T/s/key"
chmod 666 "$T/s/key"
check "one that others can write is not read" until_why file open "can be written by others"
stop_box file
hasnt "neither went upstream" "$T/ngx/access.log" planted-elsewhere
hasnt "nor that" "$T/ngx/access.log" planted-open
# a Kubernetes volume: the name is a link to ..data/NAME, ..data a link to the folder of now
mkdir -m 755 "$T/k8s" "$T/k8s/..one" "$T/k8s/..two"
printf planted-k8s-one-aabbcc >"$T/k8s/..one/token"
printf planted-k8s-two-ddeeff >"$T/k8s/..two/token"
chmod 600 "$T"/k8s/..*/token
ln -s ..one "$T/k8s/..data"
ln -s ..data/token "$T/k8s/token"
policy nofollow.yaml "file: $T/k8s/token"
get nofollow.yaml nofollow
has "without follow a link is an error at the start" "$T/out" "symbolic link"
policy follow.yaml "file: $T/k8s/token, follow: true"
start_box follow follow.yaml
ask follow f1
sent "follow: true" f1 "Bearer planted-k8s-one-aabbcc"
ln -s ..two "$T/k8s/..tmp" && mv -T "$T/k8s/..tmp" "$T/k8s/..data"
check "and the next volume is found" until_sent follow swapped planted-k8s-two-ddeeff
stop_box follow
# --- systemd credentials, as the unit that `sallyport run` is in has them ----------------------------------------------
mkdir -m 700 "$T/creds"
printf planted-credential-0a1b2c >"$T/creds/api.key"
chmod 400 "$T/creds/api.key"
policy cred.yaml "credential: api.key"
(cd "$WORK" && CREDENTIALS_DIRECTORY=$T/creds timeout 60 "$SP" run --quiet --policy cred.yaml -- curl -sS -m 30 "https://api.test/v1/hello?cred") >"$T/out" 2>&1
sent "a systemd credential" cred "Bearer planted-credential-0a1b2c"
get cred.yaml nocred
has "outside of a unit it is said" "$T/out" "CREDENTIALS_DIRECTORY is not set"
# --- programs ----------------------------------------------------------------------------------------------------------
cat >"$T/s/program" <<'P'
#!/bin/sh
case $1 in
give) printf 'planted-program-%s-9f8e7d\n' "$2"; id -u >/dev/null ;;
fail) echo planted-stderr >&2; exit 3 ;;
hang) exec sleep 100 ;;
shut) echo planted-shut; exec sleep 100 >&- ;;
much) head -c 40000 /dev/zero | tr '\0' x ;;
env) env | tr '\n' ' '; ls -1 /proc/self/fd | tr '\n' ' ' ;;
esac
P
chmod 700 "$T/s/program"
policy exec.yaml "exec: [$T/s/program, give, word]"
get exec.yaml forbidden
has "a program that gateway.yaml does not name is not run" "$T/why" "does not let policies run"
"$SP" stop --all >/dev/null 2>&1
printf 'sources: { exec: [%s] }\n' "$T/s/program" >"$T/gateway.yaml"
chmod 600 "$T/gateway.yaml"
wait_for 15 test ! -S "$STATE/run/control.sock"
PLANTED_ENV=planted-in-the-environment "$SP" serve --config "$T/gateway.yaml" --state "$STATE" >"$T/gateway.log" 2>&1 &
GW=$!
PIDS+=($GW)
wait_for 20 test -S "$STATE/run/control.sock" || not_ok "the gateway starts" "$(cat "$T/gateway.log")"
get exec.yaml program
sent "a program's words" program "Bearer planted-program-word-9f8e7d"
policy execenv.yaml "exec: [$T/s/program, env]"
get execenv.yaml programenv
check "its environment is clean" grep -q 'hello?programenv HTTP/1.1 status=200 auth=Bearer .*PATH=' "$T/ngx/access.log"
hasnt "of everything" "$T/ngx/access.log" planted-in-the-environment
check "and it has no descriptor of ours" grep -qE 'hello\?programenv .* 0 1 2 3 key=' "$T/ngx/access.log"
for w in "fail:ended with status 3" "much:writes more than 16384 octets" "hang:has not ended after 10 s" "shut:has not ended after 10 s"; do
	policy exec.yaml "exec: [$T/s/program, ${w%%:*}]"
	get exec.yaml "${w%%:*}"
	has "a program that does not: ${w%%:*}" "$T/why" "${w#*:}"
	hasnt "nothing was sent for it" "$T/ngx/access.log" "hello?${w%%:*} "
done
if can_scan; then
	policy exec.yaml "exec: [$T/s/program, give, scan]"
	start_box scan exec.yaml
	ask scan s
	role_pids >"$T/pids"
	# shellcheck disable=SC2046
	mem_scan planted-program-scan-9f8e7d $(awk '{print $2}' "$T/pids") $(cat /proc/"$GW"/task/*/children) >"$T/scan"
	awk 'NR == FNR {is[$1] = $2; next} {print $1 ": " is[$2]}' "$T/scan" "$T/pids" >"$T/roles"
	for r in supervisor dialer ca audit spare; do has "memory of the $r is clean of what a program said" "$T/roles" "$r: clean"; done
	has "secrets has it" "$T/roles" "secrets: holds"
	stop_box scan
fi
# --- tokens ------------------------------------------------------------------------------------------------------------
TPORT=$(free_port)
openssl genrsa -out "$T/s/app.key" 2048 2>/dev/null && openssl rsa -in "$T/s/app.key" -pubout -out "$T/s/app.pub" 2>/dev/null
chmod 600 "$T/s/app.key"
: >"$T/token.log"
python3 "$HERE/token_double.py" "$TPORT" "$T/up.pem" "$T/up.key" "$T/s/app.pub" "$T/token.log" >"$T/token.out" 2>&1 &
PIDS+=($!)
wait_for 10 grep -q ready "$T/token.out" || { not_ok "the token end-point starts" "$(cat "$T/token.out")"; check_done; }
END="connect: 127.0.0.1:$TPORT, addresses: [127.0.0.0/8], ca: ./upca.pem"
printf 'planted client/secret' >"$T/s/client"
printf planted-refresh-0 >"$T/s/refresh"
python3 - "$T/s/app.key" >"$T/s/google" <<'P'
import json, sys
print(json.dumps({"type": "service_account", "client_email": "robot@acme.test", "private_key_id": "key-1", "private_key": open(sys.argv[1]).read(), "token_uri": "https://evil.test/"}))
P
chmod 600 "$T/s/client" "$T/s/refresh" "$T/s/google"
policy oauth.yaml "file: $T/s/client, oauth2: { client_id: 'acme:robot', scope: 'read write', token_url: 'https://token.test/oauth/token', $END }"
get oauth.yaml oauth
sent "OAuth client credentials" oauth "Bearer planted-access-basic-1"
hasnt "the token is not told inside" "$T/out" planted-access
policy oauth.yaml "file: $T/s/client, oauth2: { client_id: 'acme:robot', client_auth: post, scope: 'read write', token_url: 'https://token.test/oauth/token', $END }" "basic, username: robot"
get oauth.yaml oauthpost
sent "by post, used in Basic" oauthpost "Basic $(printf robot:planted-access-post-1 | base64 -w 0)"
policy oauth.yaml "file: $T/s/client, oauth2: { client_id: nobody, scope: 'read write', token_url: 'https://token.test/oauth/token', $END }"
get oauth.yaml oauthbad
has "a refusal of the end-point is told" "$T/why" "answers 401: invalid_client: who is that?"
policy oauth.yaml "file: $T/s/client, oauth2: { client_id: 'acme:robot', token_url: 'https://token.test:$TPORT/oauth/token', connect: 127.0.0.1:$TPORT, ca: ./upca.pem }"
get oauth.yaml oauthaddr
has "an address that is not listed is refused" "$T/why" "is refused"
policy oauth.yaml "file: $T/s/client, oauth2: { client_id: 'acme:robot', token_url: 'https://wrong.test/oauth/token', $END }"
get oauth.yaml oauthname
has "an end-point whose certificate has another name is refused" "$T/why" "its certificate is refused"
policy github.yaml "file: $T/s/app.key, github_app: { app: 12345, installation: 678, repositories: [widgets], permissions: { contents: read, issues: write }, api: 'https://token.test', $END }"
get github.yaml github
sent "a GitHub App" github "Bearer ghs_planted-installation-1"
policy google.yaml "file: $T/s/google, gcp_service_account: { scope: 'https://scope.test/a', token_url: 'https://token.test/google', $END }"
get google.yaml google
sent "a Google service account" google "Bearer planted-google-1"
policy google.yaml "file: $T/s/google, gcp_service_account: { audience: 'https://run.test', token_url: 'https://token.test/google', $END }"
get google.yaml identity
sent "and its identity token" identity "Bearer planted-identity-1"
curl -sS --noproxy '*' --cacert "$T/upca.pem" -d 8 "https://127.0.0.1:$TPORT/life" >/dev/null
policy refresh.yaml "file: $T/s/refresh, oauth2: { client_id: public, grant: refresh_token, token_url: 'https://token.test/oauth/token', $END }"
start_box refresh refresh.yaml
ask refresh r0
sent "a refresh token" r0 "Bearer planted-refreshed-1"
again() { local i; for i in $(seq 1 120); do ask refresh "a$i"; grep -q 'auth=Bearer planted-refreshed-3 ' "$T/ngx/access.log" && return 0; sleep 0.1; done; return 1; }
check "each next one is the one that was given" again
check "and was had before the old one ended: no request was refused" test "$(grep -l credential_unavailable "$WORK"/refresh/*.out | wc -l)" = 0
refreshed() { grep -qE "hello\?$1 HTTP/1.1 status=200 auth=Bearer planted-refreshed-[0-9]+ " "$T/ngx/access.log"; }
echo 'description: the next generation' >>"$WORK/refresh.yaml"
check "a policy takes the place of another" "$SP" sandbox reload --policy "$WORK/refresh.yaml" refresh
ask refresh reloaded
check "what followed the refresh token outlives a reload" refreshed reloaded
first=$BOX
start_box sister refresh.yaml
ask sister s0
check "and serves another sandbox that has the same one" refreshed s0
exchanged() { grep -c '^/oauth/token 200' "$T/token.log"; }
n=$(exchanged)
both() { local i; for i in $(seq 1 120); do : >"$WORK/refresh/b$i.ask"; ask sister "b$i"; wait_for 40 test -e "$WORK/refresh/b$i.out"; [ "$(exchanged)" -ge $((n + 3)) ] && return 0; sleep 0.1; done; return 1; }
check "both go on with it" both
check "after a revocation" "$SP" secret revoke v
check "and its end" "$SP" secret forget v
ask sister s1
check "it still follows" refreshed s1
stop_box sister
BOX=$first
stop_box refresh
# a sandbox that ends while its refresh token is being exchanged: the one that follows is not lost
tell() { curl -sS --noproxy '*' --cacert "$T/upca.pem" -d "$2" "https://127.0.0.1:$TPORT/$1" >/dev/null; }
tell wait 4
start_box hasty refresh.yaml
: >"$WORK/hasty/h0.ask"
check "an exchange is under way" wait_for 20 grep -q 'exchange under way' "$T/token.log"
# shellcheck disable=SC2046
kill $(cat /proc/"$BOX"/task/*/children)
wait "$BOX"
hasnt "when its sandbox ends" "$T/ngx/access.log" "hello?h0 "
tell wait 0
start_box heir refresh.yaml
ask heir h1
check "what follows serves the next one" refreshed h1
stop_box heir
check "nobody came with one that had been used" test "$(grep -c '^/oauth/token 400' "$T/token.log")" = 0
curl -sS --noproxy '*' --cacert "$T/upca.pem" -d 3600 "https://127.0.0.1:$TPORT/life" >/dev/null
(cd "$WORK" && timeout 90 "$SP" run --quiet --policy github.yaml -- bash -c 'for i in $(seq 1 30); do curl -sS -m 30 -o /dev/null "https://api.test/v1/hello?burst$i" & done; wait') >"$T/out" 2>&1
check "thirty requests at once are answered" test "$(grep -c 'hello?burst[0-9]* HTTP/1.1 status=200 auth=Bearer ghs_' "$T/ngx/access.log")" = 30
check "with one question to the end-point" test "$(grep -c access_tokens "$T/token.log")" = 2
find "$STATE" -type f -exec grep -lE -- "planted|PRIVATE KEY-----$(printf '\n')MII" {} + 2>/dev/null | grep -v "/ca/" >"$T/files"
if [ -s "$T/files" ]; then not_ok "no file of the state has a value" "$(cat "$T/files")"; else ok "no file of the state has a value"; fi
hasnt "the gateway's log has none" "$T/gateway.log" planted
check_done
