# SPDX-License-Identifier: Apache-2.0
# What tests/e2e/clients-*.sh share: an origin with several hosts, a policy, the two ways out, tools. Sourced by bash, sources e2e/lib.sh.
PATH_WAS=$PATH HOME_WAS=$HOME
. "$(dirname "$0")/lib.sh"
HERE=$(cd "$(dirname "$0")/../clients" && pwd)
CLIENTS=${SP_CLIENTS:-${BUILD:-$BIN}/../clients} # what `make deps` made
SITE=$T/site
READ=() # folders with tools that a sandbox would not see
sha() { sha256sum "$@" | cut -d' ' -f1; }

# tool NAME: its path, on the PATH that the tests were called with, if we can execute it
tool() { (PATH=$PATH_WAS; type -P "$1"); }
# use_tool NAME: what was found is on the PATH inside too
use_tool() {
	local at prefix
	at=$(tool "$1") || return 1
	case $at in /usr/bin/* | /bin/*) return 0 ;; esac
	at=$(realpath "$at")
	case $at in
	/usr/* | /opt/* | /bin/*) ;;
	*)
		prefix=$(dirname "$(dirname "$at")")
		[ "$prefix" != / ] && READ+=("$prefix")
		;;
	esac
	PATH=$(dirname "$at"):$PATH
}
# missing NAME: skips, with the reason that `make deps` had, if it left one
missing() {
	local why
	why=$(cat "$CLIENTS/$1.skip" 2>/dev/null) || why="$1 is not installed or cannot be executed by this user"
	skip "$1: $why"
}

client_pki() { # up.pem of make_pki, for every host
	local h names=
	for h in api git push pypi npm cargo apt; do names=$names${names:+,}DNS:$h.test; done
	make_pki
	(
		cd "$T" || exit 1
		printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\nbasicConstraints=critical,CA:FALSE\n' "$names" >up.ext
		openssl x509 -req -in up.csr -CA upca.pem -CAkey upca.key -CAcreateserial -days 30 -sha256 -extfile up.ext -out up.pem
	) >>"$T/pki.log" 2>&1
}

git_location() { # $1: path below which $T is served
	echo "location $1 { fastcgi_pass unix:$T/cgi.sock; fastcgi_param SCRIPT_FILENAME $(git --exec-path)/git-http-backend; fastcgi_param GIT_PROJECT_ROOT $T; fastcgi_param GIT_HTTP_EXPORT_ALL 1;
		fastcgi_param PATH_INFO \$uri; fastcgi_param QUERY_STRING \$query_string; fastcgi_param REQUEST_METHOD \$request_method; fastcgi_param CONTENT_TYPE \$content_type;
		fastcgi_param HTTP_CONTENT_ENCODING \$http_content_encoding; fastcgi_param HTTP_GIT_PROTOCOL \$http_git_protocol; fastcgi_param GIT_CONFIG_COUNT 1;
		fastcgi_param GIT_CONFIG_KEY_0 safe.directory; fastcgi_param GIT_CONFIG_VALUE_0 *; }"
}

# start_origin: https for every host, plain http too; files of HOST lie in $SITE/HOST; uploads are answered by origin.py
start_origin() {
	PORT=$(free_port) HTTP_PORT=$(free_port)
	mkdir -p "$T/ngx" "$SITE/api.test/v1"
	head -c 5000000 /dev/urandom >"$SITE/api.test/v1/big"
	: >"$T/uploads"
	python3 "$HERE/origin.py" "$T/origin.sock" "$T/uploads" >"$T/origin.log" 2>&1 &
	PIDS+=($!)
	if command -v fcgiwrap >/dev/null 2>&1; then
		fcgiwrap -s "unix:$T/cgi.sock" >"$T/cgi.log" 2>&1 &
		PIDS+=($!)
		wait_for 10 test -S "$T/cgi.sock"
	fi
	wait_for 10 test -S "$T/origin.sock" || { not_ok "origin starts" "$(cat "$T/origin.log")"; exit 1; }
	cat >"$T/ngx/conf" <<C
daemon off; master_process off; pid $T/ngx/pid; error_log $T/ngx/err.log;
events { worker_connections 512; }
http {
	client_body_temp_path $T/ngx/b; proxy_temp_path $T/ngx/p; fastcgi_temp_path $T/ngx/f; uwsgi_temp_path $T/ngx/u; scgi_temp_path $T/ngx/s;
	log_format full '\$scheme://\$host \$request status=\$status auth=\$http_authorization te=\$http_transfer_encoding ce=\$http_content_encoding expect=\$http_expect ims=\$http_if_modified_since ua=\$http_user_agent';
	access_log $T/ngx/access.log full; client_max_body_size 100m; default_type application/octet-stream; proxy_set_header Host \$host;
	ssl_certificate $T/up.pem; ssl_certificate_key $T/up.key;
	server {
		listen 127.0.0.1:$PORT ssl default_server; listen 127.0.0.1:$HTTP_PORT default_server; server_name _; root $SITE/\$host;
		types { text/html html; application/json json; }
		index index.html;
		location /v1/hello { default_type text/plain; return 200 "hello, you sent \$http_authorization\n"; }
		location /v1/up { proxy_pass http://unix:$T/origin.sock; }
		$(git_location /repo.git)
	}
	server {
		listen 127.0.0.1:$PORT ssl; server_name npm.test; root $SITE/npm.test;
		error_page 418 = @up;
		location @up { proxy_pass http://unix:$T/origin.sock; }
		location / { default_type application/json; if (\$request_method ~ "^(PUT|POST)\$") { return 418; } try_files /packument\$uri.json =404; }
		location ~ /-/.*[.]tgz\$ { }
	}
}
C
	: >"$T/ngx/access.log"
	nginx -c "$T/ngx/conf" -e "$T/ngx/err.log" >"$T/ngx/out" 2>&1 &
	PIDS+=($!)
	wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT" || { not_ok "nginx starts" "$(cat "$T/ngx/out" "$T/ngx/err.log")"; exit 1; }
}

write_client_policy() {
	local d head
	head="connect: 127.0.0.1:$PORT
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }"
	cat >"$WORK/policy.yaml" <<P
version: 1
name: clients
secrets:
  api: { env: E2E_SECRET, hosts: [api.test, push.test, pypi.test, npm.test, cargo.test, apt.test] }
destinations:
  - host: api.test
    $head
    allow: [ "GET /v1/**", PUT /v1/up, PUT /v1/up/* ]
    inject: [ { secret: api, as: bearer } ]
  - host: git.test
    $head
    allow: [ "GET /repo.git/**", POST /repo.git/git-upload-pack ]
  - host: push.test
    $head
    allow: [ "GET /repo.git/**", POST /repo.git/git-upload-pack, POST /repo.git/git-receive-pack ]
    inject: [ { secret: api, as: basic, username: agent } ]
  - host: pypi.test
    $head
    allow: [ "GET /**" ]
    deny: [ "ANY /simple/spdenied/**", "ANY /files/spblocked*" ]
    inject: [ { secret: api, as: basic, username: agent } ]
  - host: npm.test
    $head
    paths: { encoded_slash: keep }
    allow: [ "GET /**", "PUT /*", "POST /-/npm/v1/security/**" ]
    deny: [ "ANY /spdenied" ]
    inject: [ { secret: api, as: bearer } ]
  - host: cargo.test
    $head
    allow: [ "GET /**" ]
    deny: [ "ANY /index/sp/de/spdenied" ]
    inject: [ { secret: api, as: bearer } ]
  - host: apt.test
    id: apt-https
    $head
    allow: [ "GET /**" ]
    deny: [ "ANY /denied/**" ]
    inject: [ { secret: api, as: basic, username: agent } ]
  - host: apt.test
    scheme: http
    connect: 127.0.0.1:$HTTP_PORT
    addresses: [127.0.0.0/8]
    allow: [ "GET /**" ]
    deny: [ "ANY /denied/**" ]
P
	if [ ${#READ[@]} -gt 0 ]; then
		printf 'sandbox:\n  filesystem:\n    read:\n' >>"$WORK/policy.yaml"
		for d in $(printf '%s\n' "${READ[@]}" | sort -u); do printf '      - %s\n' "$d" >>"$WORK/policy.yaml"; done
	fi
}

# via MODE COMMAND...: `run`, with the proxy variables (proxy) or with all of them unset (transparent). What a JVM has besides them is its trust
# store; one that reads the system's (Debian's) needs not even that.
via() {
	local mode=$1
	shift
	if [ "$mode" = proxy ]; then run "$@"; else run env "JAVA_SYSTEM_TRUST=${JAVA_SYSTEM_TRUST:-}" bash ./unset.sh "$@"; fi
}
write_unset() {
	cat >"$WORK/unset.sh" <<'S'
for v in $(env | grep -i -E '^[a-z_]*proxy[a-z_]*=' | cut -d= -f1) MAVEN_OPTS GRADLE_OPTS; do unset "$v"; done
trust=
for o in $JAVA_TOOL_OPTIONS; do case $o in *[pP]roxy*) ;; *) trust="$trust $o" ;; esac; done
if [ -n "${JAVA_SYSTEM_TRUST:-}" ]; then unset JAVA_TOOL_OPTIONS; else export JAVA_TOOL_OPTIONS="$trust"; fi
if env | grep -i '^[^=]*proxy[^=]*=' >&2; then echo "a proxy variable is still set" >&2; exit 99; fi
exec "$@"
S
}
fresh_log() { : >"$T/ngx/access.log"; : >"$T/uploads"; }
basic() { printf 'Basic %s' "$(printf 'agent:%s' "$SECRET" | base64 -w0)"; }
# logged TEXT PATTERN...: one line of the origin's log has them all
logged() {
	local t=$1 p
	shift
	cp "$T/ngx/access.log" "$T/match"
	for p in "$@"; do
		grep -F -- "$p" "$T/match" >"$T/match2"
		mv "$T/match2" "$T/match"
	done
	if [ -s "$T/match" ]; then ok "$t"; else not_ok "$t" "no line with '$*' in:" "$(tail -n 20 "$T/ngx/access.log")"; fi
}
