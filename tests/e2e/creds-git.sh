#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# git over Basic, with the credential put there beforehand or only after a 401 (UF01), and gh, REST and GraphQL.
NAME=creds-git
. "$(dirname "$0")/creds-lib.sh"
can_run
make_pki DNS:pre.test,DNS:asks.test,DNS:api.github.com,DNS:github.com
REAL=ghp_pLaNtEdpLaNtEdpLaNtEdpLaNtEdpLaNtEd0
export GIT_CONFIG_GLOBAL=$T/gitconfig
git config --global user.name t && git config --global user.email t@t.test && git config --global init.defaultBranch main
git init -q --bare "$T/o/r.git" && git -C "$T/o/r.git" config http.receivepack true
(git init -q "$T/first" && cd "$T/first" && echo one >file && git add . && git commit -qm one && git push -q "$T/o/r.git" main) >"$T/git.log" 2>&1
cat >"$T/app.py" <<P
import base64, json, os, subprocess
REAL, ROOT = "$REAL", "$T"
def answer(r):
    auth = r.get_header("authorization")
    if r.host.endswith("github.com"):
        if auth not in ("token " + REAL, "Bearer " + REAL): return 401, [("Content-Type", "application/json")], b'{"message":"Bad credentials"}'
        if r.path == "/graphql": out = {"data": {"viewer": {"login": "agent"}}}
        else: out = {"full_name": "o/r", "path": r.path}
        return 200, [("Content-Type", "application/json"), ("X-OAuth-Scopes", "repo")], json.dumps(out).encode()
    try: ok = auth.startswith("Basic ") and base64.b64decode(auth[6:]).decode().endswith(":" + REAL)
    except ValueError: ok = False
    if not ok: return 401, [("WWW-Authenticate", 'Basic realm="git"'), ("Content-Type", "text/plain")], b"who are you"
    path, _, query = r.path.partition("?")
    env = dict(os.environ, GIT_PROJECT_ROOT=ROOT, GIT_HTTP_EXPORT_ALL="1", PATH_INFO=path, QUERY_STRING=query, REQUEST_METHOD=r.method, CONTENT_TYPE=r.get_header("content-type"),
        CONTENT_LENGTH=str(len(r.body)), REMOTE_USER="agent", REMOTE_ADDR="127.0.0.1", HTTP_CONTENT_ENCODING=r.get_header("content-encoding"), GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="safe.directory", GIT_CONFIG_VALUE_0="*")
    p = subprocess.run(["git", "http-backend"], input=r.body, env=env, capture_output=True)
    head, _, out = p.stdout.partition(b"\r\n\r\n")
    headers = [tuple(l.split(": ", 1)) for l in head.decode().split("\r\n")]
    status = [int(v.split()[0]) for k, v in headers if k == "Status"]
    return (status or [200])[0], [h for h in headers if h[0] != "Status"], out
P
cred_origin "$T/app.py"
git_rules='    allow: [ "GET /o/r.git/**", POST /o/r.git/git-upload-pack, POST /o/r.git/git-receive-pack ]'
cat >"$WORK/policy.yaml" <<P
version: 1
name: git
secrets:
  gh: { env: REAL, hosts: [pre.test, asks.test, api.github.com, github.com] }
destinations:
$(dest pre.test ', alpn: [http/1.1]')
$git_rules
    inject: [ { secret: gh, as: basic, username: x-access-token } ]
$(dest asks.test ', alpn: [http/1.1]')
$git_rules
    inject: [ { secret: gh, as: placeholder, in: [basic], env: GH_TOKEN } ]
$(dest api.github.com)
    allow: [ "GET /**", { method: POST, path: /graphql, body: { graphql: { type: query } } } ]
    inject: [ { secret: gh, as: bearer, env: GH_TOKEN } ]
P
cat >"$WORK/git.sh" <<'S'
export GIT_TERMINAL_PROMPT=0
git config --global user.name t; git config --global user.email t@t.test
say() { if "$@" >>log 2>&1; then echo "done $*"; else echo "failed $*"; fi | cut -c 1-60; }
change() { (cd $1 && echo $1 >>file && git commit -qam "$1"); }
say git clone -q https://pre.test/o/r.git pre
change pre; say git -C pre push -q
git config --global credential.helper "!f() { echo username=agent; echo password=$GH_TOKEN; }; f"
say git clone -q https://asks.test/o/r.git asks
change asks; say git -C asks push -q
git config --global --unset credential.helper
say git clone -q "https://x-access-token:$GH_TOKEN@asks.test/o/r.git" inurl
(cd inurl && head -c 3000000 /dev/urandom >blob && git add . && git commit -qm big); say git -C inurl push -q
say git clone -q https://asks.test/o/r.git nobody
say git clone -q "https://x:wrong@asks.test/o/r.git" wrong
cat log
S
(cd "$WORK" && REAL=$REAL timeout 120 "$SP" run --quiet --policy policy.yaml -- sh ./git.sh) >"$T/out" 2>&1
has "credential put there beforehand: clone, without any of its own" "$T/out" "done git clone -q https://pre.test/o/r.git pre"
has "and push" "$T/out" "done git -C pre push -q"
has "UF01 after a 401, from a helper: clone" "$T/out" "done git clone -q https://asks.test/o/r.git asks"
has "and push" "$T/out" "done git -C asks push -q"
has "in the URL: clone" "$T/out" "done git clone -q https://x-access-token:ghp_"
has "and a push of 3 MB, in chunks" "$T/out" "done git -C inurl push -q"
has "nobody is nobody" "$T/out" "failed git clone -q https://asks.test/o/r.git nobody"
has "a wrong password is not made right" "$T/out" "failed git clone -q https://x:wrong@asks.test/o/r.git wrong"
check "the pushes are there" test "$(git -C "$T/o/r.git" log --format=%s main | tr '\n' ' ')" = "big asks pre one "
nowhere "git: the value is nowhere that it must not be" "$REAL" "$T/out" "$WORK"/*/.git/config "$WORK/log"
if PATH=/usr/bin command -v gh >/dev/null 2>&1; then
	forget
	(cd "$WORK" && REAL=$REAL timeout 60 "$SP" run --quiet --policy policy.yaml -- sh -c '
		gh api /repos/o/r; echo; gh api graphql -f query="query { viewer { login } }"; echo; gh auth status 2>&1; gh api -X DELETE /repos/o/r; cat ~/.config/gh/*' ) >"$T/out" 2>&1
	has "gh: REST" "$T/out" '"full_name"'
	has "gh: GraphQL" "$T/out" '"login"'
	has "gh: what is refused says so" "$T/out" "policy_denied"
	comes "gh: the origin sees the credential" 1 "path == '/repos/o/r' and head('authorization') == 'Bearer $REAL'"
	comes "gh: and never the placeholder" 0 "'GH_TOKEN' in head('authorization') or (head('authorization') not in ('', 'Bearer $REAL'))"
	nowhere "gh: the value is nowhere that it must not be" "$REAL" "$T/out"
else
	skip "gh is not installed"
fi
check_done
