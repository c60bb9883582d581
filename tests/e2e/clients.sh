#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ordinary clients, unmodified, with proxy variables and with all of them unset.
NAME=clients
. "$(dirname "$0")/lib.sh"
can_run
make_pki
git init -q --bare "$T/repo.git" && git -C "$T/repo.git" config http.receivepack true
git init -q "$T/src" && (cd "$T/src" && echo content >file && git add file && git -c user.name=t -c user.email=t@t.invalid commit -qm first && git push -q "$T/repo.git" HEAD:refs/heads/master) >"$T/git.log" 2>&1
backend=$(git --exec-path)/git-http-backend
cgi=
if command -v fcgiwrap >/dev/null 2>&1; then
	fcgiwrap -s "unix:$T/cgi.sock" >"$T/cgi.log" 2>&1 &
	PIDS+=($!)
	wait_for 10 test -S "$T/cgi.sock"
	cgi="location /repo.git { fastcgi_pass unix:$T/cgi.sock; fastcgi_param SCRIPT_FILENAME $backend; fastcgi_param GIT_PROJECT_ROOT $T; fastcgi_param GIT_HTTP_EXPORT_ALL 1;
		fastcgi_param PATH_INFO \$uri; fastcgi_param QUERY_STRING \$query_string; fastcgi_param REQUEST_METHOD \$request_method; fastcgi_param CONTENT_TYPE \$content_type; fastcgi_param HTTP_CONTENT_ENCODING \$http_content_encoding;
		fastcgi_param HTTP_GIT_PROTOCOL \$http_git_protocol; fastcgi_param GIT_CONFIG_COUNT 1; fastcgi_param GIT_CONFIG_KEY_0 safe.directory; fastcgi_param GIT_CONFIG_VALUE_0 *; }"
fi
start_nginx "$cgi"
write_policy
cat >"$WORK/unset.sh" <<'S'
for v in $(env | grep -i -E '^[a-z_]*proxy[a-z_]*=' | cut -d= -f1) JAVA_TOOL_OPTIONS MAVEN_OPTS GRADLE_OPTS; do unset "$v"; done
exec "$@"
S
for mode in proxy transparent; do
	if [ $mode = proxy ]; then via=(); else via=(bash ./unset.sh); fi
	run "${via[@]}" curl -sS -m 20 https://api.test/v1/hello >"$T/out" 2>&1
	has "curl, $mode: allowed" "$T/out" "hello, you sent Bearer"
	run "${via[@]}" curl -sS -m 20 -X DELETE https://api.test/v1/hello >"$T/out" 2>&1
	has "curl, $mode: readable refusal" "$T/out" '"error":"policy_denied"'
	run "${via[@]}" curl -sS -m 20 https://elsewhere.test/ >"$T/out" 2>&1
	has "curl, $mode: refused host is explained" "$T/out" '"error":"destination_denied"'
	run "${via[@]}" curl -sS -m 20 http://plain.test/x >"$T/out" 2>&1
	has "curl, $mode: plain http" "$T/out" "plain"
	run "${via[@]}" sh -c 'curl -sS -m 30 https://api.test/v1/big | sha256sum' >"$T/out" 2>&1
	has "curl, $mode: a MiB arrives whole" "$T/out" "$(sha256sum <"$T/ngx/big" | cut -d' ' -f1)"
	run "${via[@]}" python3 -c 'import urllib.request as u; print(u.urlopen("https://api.test/v1/hello", timeout=20).read().decode())' >"$T/out" 2>&1
	has "python urllib, $mode: allowed" "$T/out" "hello, you sent Bearer"
	run "${via[@]}" python3 -c '
import urllib.request as u, urllib.error
try: u.urlopen(u.Request("https://api.test/v1/hidden/x"), timeout=20)
except urllib.error.HTTPError as e: print(e.code, e.reason, e.read().decode())' >"$T/out" 2>&1
	has "python urllib, $mode: refused readably" "$T/out" "403 sallyport policy_denied"
	if command -v node >/dev/null 2>&1; then
		run "${via[@]}" node -e 'fetch("https://api.test/v1/hello").then(r=>r.text()).then(console.log)' >"$T/out" 2>&1
		has "node fetch, $mode: allowed" "$T/out" "hello, you sent Bearer"
		run "${via[@]}" node -e 'fetch("https://api.test/nope",{method:"PUT"}).then(async r=>console.log(r.status, await r.text()))' >"$T/out" 2>&1
		has "node fetch, $mode: refused readably" "$T/out" '403 {"v":1,"error":"policy_denied"'
	else
		skip "node is not installed"
	fi
	if [ -n "$cgi" ]; then
		rm -rf "$WORK/clone"
		run "${via[@]}" git clone -q https://git.test/repo.git clone >"$T/out" 2>&1
		check "git clone, $mode" test -f "$WORK/clone/file"
		run "${via[@]}" sh -c 'cd clone && git push -q origin HEAD:refs/heads/new' >"$T/out" 2>&1
		if [ $? -ne 0 ] && ! git -C "$T/repo.git" rev-parse -q --verify refs/heads/new >/dev/null; then ok "git push refused, $mode"; else not_ok "git push refused, $mode" "$(cat "$T/out")"; fi
		run "${via[@]}" git clone -q https://git.test/other.git other >"$T/out" 2>&1
		has "git, $mode: the refusal is readable" "$T/out" "remote: sallyport: policy_denied"
	else
		skip "fcgiwrap is not installed"
	fi
done
has "nginx saw the credential" "$T/ngx/access.log" "auth=Bearer $SECRET"
run curl -sS -m 20 -H 'Authorization: Bearer mine' -H 'X-Api-Key: mine' -H 'Cookie: mine=1' -H 'Accept-Encoding: compress, gzip' https://api.test/v1/hello?own >/dev/null 2>&1
grep 'hello?own' "$T/ngx/access.log" >"$T/out"
hasnt "B04 own credentials are replaced" "$T/out" "mine"
has "content codings are narrowed where echoes must be found" "$T/out" "ae=gzip"
run curl -sS -m 20 -d 'a=b' https://api.test/v1/post >"$T/out" 2>&1
has "POST with content" "$T/out" "fine"
run sh -c 'echo to-stdout; echo to-stderr >&2; exit 7' >"$T/out" 2>"$T/err"
rc=$?
[ $rc -eq 7 ] && ok "exit status passes through" || not_ok "exit status passes through" "$rc"
has "standard output is the command's" "$T/out" to-stdout
check_done
