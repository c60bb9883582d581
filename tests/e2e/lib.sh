# SPDX-License-Identifier: Apache-2.0
# What the end-to-end scripts share: a scratch directory, an own PKI, a real nginx, a policy, checks. Sourced by bash.
# Every script ends with check_done. Only processes that a script started are ended, by pid.
set -u
: "${BIN:?where the programs are}"
SP=$BIN/sallyport
T=$(mktemp -d "${TMPDIR:-/tmp}/sp-e2e.XXXXXX")
chmod 755 "$T"
FAILED=0
SECRET=planted-0f9a7c51d2e84b6a93c1-secret
STATE=$T/state
WORK=$T/work
mkdir -p "$WORK" "$T/home"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=$T/home SALLYPORT_STATE=$STATE
PIDS=()
MARK=$(id -un)

ok() { echo "ok $NAME: $1 ($MARK)"; }
not_ok() { echo "not ok $NAME: $1 ($MARK)"; FAILED=1; shift; printf '    %s\n' "$@" | head -n 40; }
skip() { echo "skip $NAME: $1 ($MARK)"; }
# check TEXT COMMAND...: ok if the command succeeds
check() { local t=$1; shift; if "$@" >"$T/check.out" 2>&1; then ok "$t"; else not_ok "$t" "$(cat "$T/check.out")"; fi; }
# has TEXT FILE PATTERN, hasnt: fixed strings
has() { if grep -qF -- "$3" "$2"; then ok "$1"; else not_ok "$1" "no '$3' in:" "$(tail -n 30 "$2")"; fi; }
hasnt() { if grep -qF -- "$3" "$2"; then not_ok "$1" "'$3' is in:" "$(grep -nF -- "$3" "$2" | head)"; else ok "$1"; fi; }
# wait_for SECONDS COMMAND...: polls, bounded
wait_for() { local n=$(($1 * 20)) i; shift; for ((i = 0; i < n; i++)); do "$@" >/dev/null 2>&1 && return 0; sleep 0.05; done; return 1; }
kill_wait() { kill "$1" 2>/dev/null; wait_for 5 gone "$1" || kill -9 "$1" 2>/dev/null; }
gone() { ! kill -0 "$1" 2>/dev/null; }
cleanup() {
	local p
	[ ! -S "$STATE/run/control.sock" ] || "$SP" stop --all >/dev/null 2>&1
	for p in "${PIDS[@]:-}"; do [ -z "$p" ] || kill_wait "$p"; done
	rm -rf "$T"
}
trap cleanup EXIT
check_done() { exit $FAILED; }

free_port() { python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])'; }

make_pki() { # [more names, as in subjectAltName]: upca.pem, up.pem/up.key for api.test, git.test and those
	(
		cd "$T" || exit 1
		openssl ecparam -name prime256v1 -genkey -noout -out upca.key
		openssl req -x509 -new -key upca.key -sha256 -days 30 -subj "/CN=test upstream CA" -addext basicConstraints=critical,CA:TRUE \
			-addext keyUsage=critical,keyCertSign -out upca.pem
		openssl ecparam -name prime256v1 -genkey -noout -out up.key
		openssl req -new -key up.key -subj "/CN=api.test" -out up.csr
		printf 'subjectAltName=DNS:api.test,DNS:git.test%s,DNS:slow.test\nextendedKeyUsage=serverAuth\nbasicConstraints=critical,CA:FALSE\n' "${1:+,$1}" >up.ext
		openssl x509 -req -in up.csr -CA upca.pem -CAkey upca.key -CAcreateserial -days 30 -sha256 -extfile up.ext -out up.pem
	) >"$T/pki.log" 2>&1
	cp "$T/upca.pem" "$WORK/upca.pem"
	chmod 644 "$WORK/upca.pem"
}

start_nginx() { # $1: more location blocks
	PORT=$(free_port) HTTP_PORT=$(free_port)
	mkdir -p "$T/ngx"
	head -c 1048576 /dev/urandom >"$T/ngx/big"
	cat >"$T/ngx/conf" <<C
daemon off; master_process off; pid $T/ngx/pid; error_log $T/ngx/err.log;
events { worker_connections 512; }
http {
	client_body_temp_path $T/ngx/b; proxy_temp_path $T/ngx/p; fastcgi_temp_path $T/ngx/f; uwsgi_temp_path $T/ngx/u; scgi_temp_path $T/ngx/s;
	log_format auth '\$request status=\$status auth=\$http_authorization key=\$http_x_api_key cookie=\$http_cookie ae=\$http_accept_encoding';
	access_log $T/ngx/access.log auth; client_max_body_size 100m;
	server {
		listen 127.0.0.1:$PORT ssl; server_name api.test git.test; ssl_certificate $T/up.pem; ssl_certificate_key $T/up.key;
		location /v1/hello { add_header X-Saw-Auth \$http_authorization; default_type text/plain; return 200 "hello, you sent \$http_authorization\n"; }
		location /v1/big { alias $T/ngx/big; }
		location /v1/slow { limit_rate 2k; root $T/ngx; rewrite ^ /big break; }
		location /v1/echo { add_header X-Saw-Auth \$http_authorization; default_type text/plain; return 200 "auth=\$http_authorization key=\$http_x_api_key\n"; }
		location /v1/ { default_type text/plain; return 200 "fine\n"; }
		${1:-}
	}
	server { listen 127.0.0.1:$HTTP_PORT; location / { default_type text/plain; return 200 "plain\n"; } }
}
C
	: >"$T/ngx/access.log"
	nginx -c "$T/ngx/conf" -e "$T/ngx/err.log" >"$T/ngx/out" 2>&1 &
	PIDS+=($!)
	wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT" || { not_ok "nginx starts" "$(cat "$T/ngx/out" "$T/ngx/err.log")"; exit 1; }
}

write_policy() {
	cat >"$WORK/policy.yaml" <<P
version: 1
name: e2e
secrets:
  api: { env: E2E_SECRET, hosts: [api.test] }
destinations:
  - host: api.test
    connect: 127.0.0.1:$PORT
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow:
      - GET /v1/**
      - POST /v1/post
    deny:
      - ANY /v1/hidden/**
    inject:
      - { secret: api, as: bearer, env: API_TOKEN }
  - host: git.test
    connect: 127.0.0.1:$PORT
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow:
      - GET /repo.git/**
      - POST /repo.git/git-upload-pack
  - host: plain.test
    scheme: http
    connect: 127.0.0.1:$HTTP_PORT
    addresses: [127.0.0.0/8]
    allow: [ "GET /**" ]
P
}
# run COMMAND...: inside a sandbox, in $WORK
run() { (cd "$WORK" && E2E_SECRET=$SECRET timeout 60 "$SP" run --quiet --policy policy.yaml -- "$@"); }
records() { cat "$STATE"/audit/audit*.jsonl 2>/dev/null; }
# one line a record, for checks that shall not depend on the wording of `sallyport logs`:
# SANDBOX KIND DECISION CODE METHOD HOST PORT PATH STATUS, - where there is none
record_lines() {
	records | python3 -c '
import json, sys
for l in sys.stdin:
    o = json.loads(l); s = o["unmapped"]["sallyport"]; h = o.get("http_request", {}); u = h.get("url", {}); d = o.get("dst_endpoint", {})
    f = (o.get("src_endpoint", {}).get("name"), s["kind"], s.get("decision"), s.get("code"), h.get("http_method"), u.get("hostname") or d.get("hostname") or d.get("ip") or o.get("query", {}).get("hostname"),
         u.get("port") or d.get("port"), u.get("path"), o.get("http_response", {}).get("code"))
    print(*("-" if x in (None, "") else x for x in f))'
}
# count of records that match all patterns
record_count() { records >"$T/records"; local p; for p in "$@"; do grep -F -- "$p" "$T/records" >"$T/records2"; mv "$T/records2" "$T/records"; done; wc -l <"$T/records"; }
role_pids() { # lines "ROLE PID SANDBOX": the gateway's processes, by its own account; a spare worker is called spare
	python3 - "$STATE" <<'P'
import json, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(5)
s.connect(sys.argv[1] + "/run/control.sock"); s.send(b'{"id":1,"op":"status"}')
st = json.loads(s.recv(65536))["ok"]
print("supervisor", st["pid"], "-")
for r in st["roles"]:
    if r["running"]: print("spare" if r.get("spare") else r["role"], r["pid"], r.get("sandbox", "-"))
P
}
role_pid() { role_pids | awk -v r="$1" '$1 == r {print $2; exit}'; }
# all processes below PID that live in another pid namespace than this script: what runs inside a sandbox
inside_pids() {
	local p c n
	n=$(readlink /proc/self/ns/pid)
	for c in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
		[ "$(grep '^NSpid:' /proc/"$c"/status 2>/dev/null | wc -w)" -le 2 ] || echo "$c"
		inside_pids "$c"
	done
}
can_scan() { [ "$(id -u)" -eq 0 ] || [ -d "${SP_SCAN:-/nonexistent}" ]; }
mem_scan() { # VALUE PID...: "PID holds|clean|unreadable|gone", by root (as-user.sh does it for an ordinary user)
	if [ "$(id -u)" -eq 0 ]; then python3 "$(dirname "${BASH_SOURCE[0]}")/memscan.py" "$@"; return; fi
	rm -f "$SP_SCAN/answer"
	echo "$*" >"$SP_SCAN/ask.new"
	mv "$SP_SCAN/ask.new" "$SP_SCAN/ask"
	wait_for 60 test -e "$SP_SCAN/answer" && cat "$SP_SCAN/answer"
}
can_run() { # user namespaces at all?
	if ! unshare -Ur true 2>/dev/null; then skip "user namespaces cannot be made here"; exit 0; fi
}
