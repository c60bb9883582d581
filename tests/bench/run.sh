#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sallyport beside nginx, haproxy and squid on the same machine: run.sh [ROUNDS] prints markdown (docs/PERFORMANCE.md).
#
# The proxy under test, with all its processes, is pinned to processor 0; its time (user and system of the whole tree) over
# the requests of the window is the figure. Load generator and upstream nginx share processor 1. For Sallyport the load
# generator runs inside `sallyport run`, towards 127.0.0.1:3128. Peers take turns within each round, so that drift of the
# machine hits all alike. Nothing is installed; a peer that is not there is left out, and this is said.
#
# Environment: ROUNDS (3), SECS (3; the window), WARM (1), MODES, PEERS, IDLE_N (1000), KEEP=FILE (raw lines).
set -u
cd "$(dirname "$0")/../.."
: "${BIN:=$PWD/bin}"
ROUNDS=${1:-${ROUNDS:-3}} SECS=${SECS:-3} WARM=${WARM:-1} IDLE_N=${IDLE_N:-1000}
MODES=${MODES:-h1 lat post newconn bulk idle h2 h2bulk h2idle}
# h2*: HTTP/2 on both sides, 32 streams on 4 connections; nginx and squid do not speak it to upstreams and are left out there
PEERS=${PEERS:-sallyport sallyport-plain nginx haproxy squid}
HOST=api.bench.test PLAIN=plain.bench.test SECRET=bench-9f2c41d07be84a55a3106dcb27e8f4d1
export PATH=$PATH:/usr/sbin:/sbin
T=$(mktemp -d "${TMPDIR:-/tmp}/sp-bench.XXXXXX")
chmod 755 "$T"
RAW=$T/raw.jsonl WORK=$T/work
mkdir -p "$WORK" "$T/home" "$T/peer"
: >"$RAW"
STARTED=()
say() { echo "bench: $*" >&2; }
gone() { ! kill -0 "$1" 2>/dev/null; }
wait_for() { local n=$(($1 * 20)) i; shift; for ((i = 0; i < n; i++)); do "$@" >/dev/null 2>&1 && return 0; sleep 0.05; done; return 1; }
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
end() { # a process that this script started, politely, then firmly
	gone "$1" && return
	kill "$1" 2>/dev/null
	wait_for 10 gone "$1" || kill -9 "$1" 2>/dev/null
	wait "$1" 2>/dev/null
}
cleanup() {
	local p
	peer_stop
	for p in "${STARTED[@]:-}"; do [ -z "$p" ] || end "$p"; done
	[ -z "${KEEP:-}" ] || cp "$RAW" "$KEEP"
	rm -rf "$T"
}
PEER_PID=
peer_stop() { [ -z "$PEER_PID" ] || end "$PEER_PID"; PEER_PID=; }
trap cleanup EXIT
trap 'exit 130' INT TERM
if [ "$(nproc)" -lt 2 ]; then say "two processors are needed: one for the proxy, one for the rest"; exit 1; fi
ulimit -n "$(ulimit -Hn)"
free_port() { python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])'; }

# ---- what is needed: two small programs, a PKI, the upstream
build=build/bench
mkdir -p $build
for p in loadgen meter; do
	[ $build/$p -nt tests/bench/$p.c ] && continue
	${CC:-cc} -std=gnu17 -D_GNU_SOURCE -O2 -g -Wall -Wextra -o $build/$p tests/bench/$p.c $([ $p = meter ] || echo -lssl -lcrypto -lnghttp2) || exit 1
done
METER=$PWD/$build/meter
cp $build/loadgen "$WORK/loadgen"
(
	cd "$T" || exit 1
	ca() { # NAME
		openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
		openssl req -x509 -new -key "$1.key" -sha256 -days 30 -subj "/CN=bench $1" -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign -out "$1.pem"
	}
	ca upca && ca ca
	openssl ecparam -name prime256v1 -genkey -noout -out up.key
	openssl req -new -key up.key -subj "/CN=$HOST" -out up.csr
	printf 'subjectAltName=DNS:%s,DNS:%s\nextendedKeyUsage=serverAuth\nbasicConstraints=critical,CA:FALSE\n' $HOST $PLAIN >up.ext
	openssl x509 -req -in up.csr -CA upca.pem -CAkey upca.key -CAcreateserial -days 30 -sha256 -extfile up.ext -out up.pem
	openssl x509 -req -in up.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -sha256 -extfile up.ext -out fixed.pem
	cat up.key >>fixed.pem
	cat ca.key ca.pem >hap-ca.pem
) >"$T/pki.log" 2>&1 || { cat "$T/pki.log" >&2; exit 1; }
cp "$T/upca.pem" "$WORK/"
UP=$(free_port) UP2=$(free_port) PORT=$UP
mkdir -p "$T/www" "$T/up"
head -c 67108864 /dev/urandom >"$T/www/file64m"
python3 -c 'import json; print(json.dumps({"id": 1, "object": "chat.completion", "data": "x" * 960}).ljust(1023))' >"$T/www/json1k"
chmod -R a+rX "$T/www"
temp_paths() { printf 'client_body_temp_path %s/b; proxy_temp_path %s/p; fastcgi_temp_path %s/f; uwsgi_temp_path %s/u; scgi_temp_path %s/s;\n' "$1" "$1" "$1" "$1" "$1"; }
user_line() { [ "$(id -u)" -ne 0 ] || echo "user root;"; }
cat >"$T/up/conf" <<C
$(user_line)
daemon off; master_process off; worker_rlimit_nofile 20000; pid $T/up/pid; error_log $T/up/err warn;
events { worker_connections 8000; }
http {
	$(temp_paths "$T/up")
	access_log off; sendfile on; tcp_nodelay on; keepalive_timeout 600s; keepalive_requests 100000000; client_max_body_size 1g; client_body_buffer_size 64k;
	ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:S:10m; ssl_session_tickets on; ssl_buffer_size 16k;
	server {
		listen 127.0.0.1:$UP ssl backlog=4096; listen 127.0.0.1:$UP2 ssl http2 backlog=4096; ssl_certificate $T/up.pem; ssl_certificate_key $T/up.key; root $T/www;
		location = /v1/json { default_type application/json; add_header X-Saw-Auth \$http_authorization; try_files /json1k =404; }
		location = /v1/post { default_type text/plain; return 200 "ok\n"; }
		location = /v1/file { try_files /file64m =404; }
	}
}
C
taskset -c 1 nginx -c "$T/up/conf" -e "$T/up/err" &
STARTED+=($!)
wait_for 10 listens "$UP" || { say "the upstream nginx does not start"; cat "$T/up/err" >&2; exit 1; }

# ---- peers: start_NAME sets PEER_PID and how the load generator reaches it (HOW); all on processor 0
start_sallyport() {
	cat >"$WORK/policy.yaml" <<P
version: 1
name: bench
secrets:
  api: { env: BENCH_SECRET, hosts: [$HOST] }
destinations:
  - host: $HOST
    ports: [$UP]
    connect: 127.0.0.1:$UP
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ "GET /v1/**", "POST /v1/**" ]
    inject:
      - { secret: api, as: bearer, env: API_TOKEN }
  - host: $PLAIN
    ports: [$UP]
    connect: 127.0.0.1:$UP
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ "GET /v1/**", "POST /v1/**" ]
  - host: $HOST
    ports: [$UP2]
    connect: 127.0.0.1:$UP2
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ "GET /v1/**" ]
    inject:
      - { secret: api, as: bearer, env: API_TOKEN }
  - host: $PLAIN
    ports: [$UP2]
    connect: 127.0.0.1:$UP2
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ "GET /v1/**" ]
sandbox:
  resources: { open_files: 8192 }
P
	rm -rf "$T/state"
	HOME=$T/home taskset -c 0 "$BIN/sallyport" serve --state "$T/state" >"$T/peer/sallyport.log" 2>&1 &
	PEER_PID=$!
	wait_for 10 test -S "$T/state/run/control.sock"
}
start_sallyport-plain() { start_sallyport; }
start_nginx() {
	local p
	p=$(free_port)
	mkdir -p "$T/peer/nginx"
	cat >"$T/peer/nginx.conf" <<C
$(user_line)
daemon off; master_process off; worker_rlimit_nofile 20000; pid $T/peer/nginx/pid; error_log $T/peer/nginx/err warn;
events { worker_connections 8000; }
http {
	$(temp_paths "$T/peer/nginx")
	access_log off; tcp_nodelay on; keepalive_timeout 600s; keepalive_requests 100000000; client_max_body_size 1g;
	upstream u { server 127.0.0.1:$UP; keepalive 256; keepalive_requests 100000000; keepalive_timeout 600s; }
	server {
		listen 127.0.0.1:$p ssl backlog=4096; ssl_certificate $T/fixed.pem; ssl_certificate_key $T/fixed.pem;
		location /v1/ {
			proxy_pass https://u; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host \$http_host; proxy_set_header Authorization "Bearer injected";
			proxy_ssl_verify on; proxy_ssl_trusted_certificate $T/upca.pem; proxy_ssl_name $HOST; proxy_ssl_server_name on; proxy_ssl_session_reuse on;
			proxy_buffering off; proxy_request_buffering off; proxy_buffer_size 64k; proxy_buffers 8 64k;
		}
		location / { return 403; }
	}
}
C
	taskset -c 0 nginx -c "$T/peer/nginx.conf" -e "$T/peer/nginx/err" &
	PEER_PID=$!
	HOW="-d 127.0.0.1:$p -C $T/ca.pem"
	wait_for 10 listens "$p"
}
start_haproxy() {
	local p q
	p=$(free_port) q=$(free_port)
	cat >"$T/peer/haproxy.cfg" <<C
global
	nbthread 1
	maxconn 6000
defaults
	mode http
	timeout connect 5s
	timeout client 600s
	timeout server 600s
	timeout http-keep-alive 600s
	option http-keep-alive
	http-reuse always
frontend f
	bind 127.0.0.1:$p ssl crt $T/fixed.pem ca-sign-file $T/hap-ca.pem generate-certificates alpn http/1.1
	http-request deny unless { method GET POST } { path_beg /v1/ }
	http-request set-header Authorization "Bearer injected"
	default_backend b
backend b
	server up 127.0.0.1:$UP ssl verify required ca-file $T/upca.pem sni str($HOST) verifyhost $HOST alpn http/1.1 pool-max-conn 300
frontend f2
	bind 127.0.0.1:$q ssl crt $T/fixed.pem ca-sign-file $T/hap-ca.pem generate-certificates alpn h2
	http-request deny unless { method GET POST } { path_beg /v1/ }
	http-request set-header Authorization "Bearer injected"
	default_backend b2
backend b2
	server up 127.0.0.1:$UP2 ssl verify required ca-file $T/upca.pem sni str($HOST) verifyhost $HOST alpn h2 pool-max-conn 300
C
	taskset -c 0 haproxy -db -f "$T/peer/haproxy.cfg" >"$T/peer/haproxy.log" 2>&1 &
	PEER_PID=$!
	HOW="-d 127.0.0.1:$p -C $T/ca.pem" HOW2="-d 127.0.0.1:$q -C $T/ca.pem"
	wait_for 10 listens "$p"
}
certgen=/usr/lib/squid/security_file_certgen
start_squid() {
	local p d=$T/peer/squid
	p=$(free_port)
	rm -rf "$d"
	mkdir -p "$d"
	$certgen -c -s "$d/ssl_db" -M 64MB >/dev/null
	printf '127.0.0.1 %s %s\n' $HOST $PLAIN >"$d/hosts"
	cat >"$d/conf" <<C
http_port 127.0.0.1:$p ssl-bump tls-cert=$T/ca.pem tls-key=$T/ca.key generate-host-certificates=on dynamic_cert_mem_cache_size=64MB
sslcrtd_program $certgen -s $d/ssl_db -M 64MB
sslcrtd_children 1 startup=1 idle=1
tls_outgoing_options cafile=$T/upca.pem min-version=1.2
hosts_file $d/hosts
acl okdom dstdomain .bench.test
acl okport port $UP
acl CONNECT method CONNECT
acl okmeth method GET POST
acl okpath urlpath_regex ^/v1/
ssl_bump bump all
http_access allow CONNECT okdom okport
http_access allow okdom okport okmeth okpath
http_access deny all
request_header_access Authorization deny all
request_header_add Authorization "Bearer injected" okdom
cache deny all
cache_mem 0
memory_pools off
access_log none
cache_log $d/cache.log
pid_filename $d/pid
coredump_dir $d
pinger_enable off
max_filedescriptors 8000
client_idle_pconn_timeout 10 minutes
server_idle_pconn_timeout 10 minutes
request_timeout 10 minutes
netdb_filename none
shutdown_lifetime 1 second
C
	if [ "$(id -u)" -eq 0 ]; then chown -R proxy "$d"; chmod 644 "$T/ca.key"; fi
	taskset -c 0 squid -N -f "$d/conf" >"$d/out" 2>&1 &
	PEER_PID=$!
	HOW="-x 127.0.0.1:$p -C $T/ca.pem"
	wait_for 20 listens "$p"
}

lg() { # PEER LOADGEN-ARGUMENTS...: one window; a JSON line of loadgen and meter together
	local peer=$1
	shift
	case $peer in
	sallyport | sallyport-plain)
		local h=$HOST
		[ "$peer" = sallyport ] || h=$PLAIN
		(cd "$WORK" && HOME=$T/home BENCH_SECRET=$SECRET timeout 180 taskset -c 1 "$BIN/sallyport" run --quiet --state "$T/state" --policy policy.yaml -- ./loadgen -x 127.0.0.1:3128 -u "$h:$PORT" "$@") 2>>"$T/lg.err"
		;;
	*)
		# shellcheck disable=SC2086
		timeout 180 taskset -c 1 "$WORK/loadgen" $USE -u "$HOST:$PORT" "$@" 2>>"$T/lg.err"
		;;
	esac | taskset -c 1 "$METER" "$PEER_PID" 2>>"$T/lg.err"
}
run_mode() { # PEER MODE ROUND
	local out
	PORT=$UP
	case $2 in
	h2*)
		case $1 in nginx | squid) return 0 ;; esac
		PORT=$UP2
		;;
	esac
	case $2 in
	h1) set -- "$@" -p /v1/json -m keepalive -c 32 -t "$SECS" -w "$WARM" ;;
	lat) set -- "$@" -p /v1/json -m keepalive -c 1 -t "$SECS" -w "$WARM" ;;
	post) set -- "$@" -p /v1/post -m keepalive -b 1024 -c 32 -t "$SECS" -w "$WARM" ;;
	newconn) set -- "$@" -p /v1/json -m newconn -c 8 -t "$SECS" -w "$WARM" ;;
	bulk) set -- "$@" -p /v1/file -m keepalive -c 2 -t "$SECS" -w "$WARM" ;;
	idle)
		peer_stop # from a fresh process: memory that an allocator keeps would hide what a tunnel needs
		"start_$1" || return 1
		set -- "$@" -p /v1/json -m idle -c "$IDLE_N" -t 4 -w 0.5
		;;
	h2) set -- "$@" -p /v1/json -m keepalive -2 8 -c 4 -t "$SECS" -w "$WARM" ;;
	h2bulk) set -- "$@" -p /v1/file -m keepalive -2 1 -c 2 -t "$SECS" -w "$WARM" ;;
	h2idle)
		peer_stop
		"start_$1" || return 1
		set -- "$@" -p /v1/json -m idle -2 1 -c "$IDLE_N" -t 4 -w 0.5
		;;
	esac
	local peer=$1 mode=$2 round=$3
	USE=${HOW:-}
	[ $PORT = "$UP" ] || USE=${HOW2:-}
	shift 3
	out=$(lg "$peer" "$@") || { say "$peer, $mode, round $round gave no figure"; tail -n 3 "$T/lg.err" >&2; return 1; }
	echo "{\"peer\":\"$peer\",\"label\":\"$mode\",\"round\":$round,${out#\{}" >>"$RAW"
}
have() {
	case $1 in
	sallyport*) [ -x "$BIN/sallyport" ] ;;
	squid) command -v squid >/dev/null && [ -x $certgen ] ;;
	*) command -v "$1" >/dev/null ;;
	esac
}
present=
for p in $PEERS; do
	if have "$p"; then present="$present $p"; else say "$p is not installed: left out"; fi
done
for ((round = 1; round <= ROUNDS; round++)); do
	for p in $present; do
		say "round $round of $ROUNDS: $p"
		"start_$p" || { say "$p does not start"; tail -n 5 "$T"/peer/*.log >&2; peer_stop; continue; }
		for m in $MODES; do run_mode "$p" "$m" "$round"; done
		peer_stop
	done
done
version() {
	case $1 in
	nginx) nginx -v 2>&1 | sed 's/.*nginx\///' ;;
	haproxy) haproxy -v | sed -n '1s/.*version \([^ ]*\).*/\1/p' ;;
	squid) squid -v | sed -n '1s/.*Version //p' ;;
	sallyport*) "$BIN/sallyport" --version | sed 's/sallyport //' ;;
	esac
}
{
	. /etc/os-release
	echo "$PRETTY_NAME, Linux $(uname -r), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) processors; $(openssl version | cut -d' ' -f1,2)."
	printf 'Versions:'
	for p in $present; do printf ' %s %s;' "$p" "$(version "$p")"; done
	echo
	echo "Median of $ROUNDS rounds (least to most), $SECS s each, taken in turn."
} >"$T/head"
python3 tests/bench/table.py "$RAW" "$T/head"
