#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `as: client_certificate` toward a real nginx that insists on one: EC, RSA and Ed25519, with an issuer between, TLS 1.2 and 1.3, HTTP/1.1 and HTTP/2. The key signs in secrets;
# connections and sessions are kept apart by certificate.
NAME=creds-mtls
. "$(dirname "$0")/creds-lib.sh"
can_run
make_pki DNS:m13.test,DNS:m12.test,DNS:rsa.test,DNS:none.test,DNS:free.test,DNS:other.test,DNS:stop.test,DNS:ed13.test,DNS:ed12.test,DNS:gone.test
(
	cd "$T" || exit 1
	openssl ecparam -name prime256v1 -genkey -noout -out cca.key
	openssl req -x509 -new -key cca.key -sha256 -days 30 -subj "/CN=agents CA" -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign -out cca.pem
	openssl ecparam -name prime256v1 -genkey -noout -out mid.key
	openssl req -new -key mid.key -subj "/CN=agents issuer" -out mid.csr
	printf 'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n' >mid.ext
	openssl x509 -req -in mid.csr -CA cca.pem -CAkey cca.key -CAcreateserial -days 30 -sha256 -extfile mid.ext -out mid.pem
	printf 'extendedKeyUsage=clientAuth\nbasicConstraints=critical,CA:FALSE\n' >client.ext
	for n in ec second; do openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out $n.key; done
	openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa.key
	openssl genpkey -algorithm ED25519 -out ed.key
	openssl ecparam -name prime256v1 -genkey -noout -out alien.key
	for n in ec second rsa ed; do
		openssl req -new -key $n.key -subj "/CN=agent-$n" -out $n.csr
		openssl x509 -req -in $n.csr -CA mid.pem -CAkey mid.key -CAcreateserial -days 30 -sha256 -extfile client.ext -out $n.pem
		cat $n.pem mid.pem $n.key >$n.bundle
	done
	openssl req -x509 -new -key alien.key -sha256 -days 30 -subj "/CN=agent-alien" -addext extendedKeyUsage=clientAuth -out alien.pem
	cat alien.key alien.pem >alien.bundle # in any order
) >"$T/pki2.log" 2>&1
P13=$(free_port) P12=$(free_port) PFREE=$(free_port) PFULL=$(free_port) PGONE=$(free_port)
mkdir -p "$T/ngx"
say='default_type text/plain; return 200 "dn=$ssl_client_s_dn verify=$ssl_client_verify tls=$ssl_protocol reused=$ssl_session_reused http=$server_protocol\n";'
server() { # PORT PROTOCOLS VERIFY more [off: sessions are not resumed]
	cat <<C
	server { listen 127.0.0.1:$1 ssl http2; ssl_protocols $2; ssl_certificate $T/up.pem; ssl_certificate_key $T/up.key; ssl_client_certificate $T/cca.pem; ssl_verify_client $3; ssl_verify_depth 3;
		ssl_session_cache ${5:-shared:s$1:1m}; ssl_session_tickets ${5:-on}; $4
		location / { $say } }
C
}
cat >"$T/ngx/conf" <<C
daemon off; master_process off; pid $T/ngx/pid; error_log $T/ngx/err.log;
events { worker_connections 512; }
http {
	client_body_temp_path $T/ngx/b; proxy_temp_path $T/ngx/p; fastcgi_temp_path $T/ngx/f; uwsgi_temp_path $T/ngx/u; scgi_temp_path $T/ngx/s;
	log_format mtls '\$host \$uri dn=\$ssl_client_s_dn tls=\$ssl_protocol reused=\$ssl_session_reused connection=\$connection http=\$server_protocol status=\$status';
	access_log $T/ngx/access.log mtls;
$(server "$P13" TLSv1.3 on "")
$(server "$P12" TLSv1.2 on "keepalive_requests 1;")
$(server "$PFULL" "TLSv1.2 TLSv1.3" on "keepalive_requests 1;" off)
$(server "$PFREE" "TLSv1.2 TLSv1.3" optional_no_ca "keepalive_requests 1;")
}
C
: >"$T/ngx/access.log"
nginx -c "$T/ngx/conf" -e "$T/ngx/err.log" >"$T/ngx/out" 2>&1 &
PIDS+=($!)
wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$P13" || { not_ok "nginx starts" "$(cat "$T/ngx/out" "$T/ngx/err.log")"; exit 1; }
at() { printf '  - host: %s\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { ca: ./upca.pem%s }\n    allow: [ "GET /**" ]\n' "$1" "$2" "${3:+, alpn: [$3]}"; }
policy() { # FILE ALPN
	cat >"$WORK/$1" <<P
version: 1
name: mtls
secrets:
  ec: { env: EC_REAL, hosts: [m13.test, stop.test, gone.test] }
  rsa: { file: $T/rsa.secret, hosts: [m12.test, rsa.test] }
  turn: { file: $T/turn.secret, hosts: [free.test] }
  ed: { env: ED_REAL, hosts: [ed13.test, ed12.test] }
  api: { env: API_REAL, hosts: [m13.test] }
destinations:
$(at m13.test "$P13" "$2")
    inject: [ { secret: ec, as: client_certificate }, { secret: api, as: bearer } ]
$(at m12.test "$P12" "$2")
    inject: [ { secret: rsa, as: client_certificate } ]
$(at rsa.test "$P13" "$2")
    inject: [ { secret: rsa, as: client_certificate } ]
$(at free.test "$PFREE" "$2")
    inject: [ { secret: turn, as: client_certificate } ]
$(at stop.test "$PFULL" "$2")
    inject: [ { secret: ec, as: client_certificate } ]
$(at ed13.test "$P13" "$2")
    inject: [ { secret: ed, as: client_certificate } ]
$(at ed12.test "$P12" "$2")
    inject: [ { secret: ed, as: client_certificate } ]
$(at gone.test "$PGONE" "$2")
    inject: [ { secret: ec, as: client_certificate } ]
$(at none.test "$P13" "$2")
$(at other.test "$PFREE" "$2")
P
}
umask 077
cp "$T/rsa.bundle" "$T/rsa.secret"
cp "$T/ec.bundle" "$T/turn.secret"
umask 022
in_box() { local p=$1; shift; (cd "$WORK" && EC_REAL="$(cat "$T/ec.bundle")" ED_REAL="$(cat "$T/ed.bundle")" API_REAL=planted-api-value-77aa01 timeout 120 "$SP" run --quiet --policy "$p" -- "$@"); }
cat >"$WORK/go.sh" <<'S'
for u in m13.test/a m13.test/b m12.test/a m12.test/b rsa.test/a ed13.test/a ed12.test/a ed12.test/b none.test/a other.test/a free.test/a free.test/b; do echo "$u $(curl -sS -m 30 "https://$u" 2>&1 | tr '\n' ' ')"; done
S
for v in http/1.1 h2; do
	tag=h1 http=HTTP/1.1
	[ $v = h2 ] && tag=h2 http=HTTP/2.0
	policy $tag.yaml $v
	: >"$T/ngx/access.log"
	in_box $tag.yaml sh ./go.sh >"$T/out" 2>&1
	has "$v: TLS 1.3, an EC key, its issuer sent along" "$T/out" "m13.test/a dn=CN=agent-ec verify=SUCCESS tls=TLSv1.3 reused=. http=$http"
	has "$v: TLS 1.2, an RSA key" "$T/out" "m12.test/a dn=CN=agent-rsa verify=SUCCESS tls=TLSv1.2 reused=. http=$http"
	has "$v: TLS 1.2, resumed, is the same one" "$T/out" "m12.test/b dn=CN=agent-rsa verify=SUCCESS tls=TLSv1.2 reused=r http=$http"
	has "$v: TLS 1.3, an RSA key (PSS)" "$T/out" "rsa.test/a dn=CN=agent-rsa verify=SUCCESS tls=TLSv1.3 reused=. http=$http"
	has "$v: TLS 1.3, an Ed25519 key" "$T/out" "ed13.test/a dn=CN=agent-ed verify=SUCCESS tls=TLSv1.3 reused=. http=$http"
	has "$v: TLS 1.2, an Ed25519 key" "$T/out" "ed12.test/a dn=CN=agent-ed verify=SUCCESS tls=TLSv1.2 reused=. http=$http"
	has "$v: TLS 1.2, an Ed25519 key, resumed" "$T/out" "ed12.test/b dn=CN=agent-ed verify=SUCCESS tls=TLSv1.2 reused=r http=$http"
	check "$v: a destination without one shows none, though others of the same server have one" grep -q 'none.test/a .*No required SSL certificate was sent' "$T/out"
	has "$v: and where it is free to" "$T/out" "other.test/a dn= verify=NONE"
	has "$v: shown where it is asked for" "$T/out" "free.test/a dn=CN=agent-ec"
	has "$v: resumed" "$T/out" "free.test/b dn=CN=agent-ec verify=SUCCESS tls=TLSv1.3 reused=r"
	check "$v: one connection for both requests" test "$(grep '^m13.test' "$T/ngx/access.log" | sed 's/.*connection=\([0-9]*\).*/\1/' | sort -u | wc -l)" = 1
done

# --- while a sandbox lives -----------------------------------------------------------------------------------------------
cat >"$WORK/lives.sh" <<'S'
n=0
touch lives
while [ ! -e stop ]; do
	for q in *.ask; do [ -e "$q" ] || continue; read -r u <"$q"; rm "$q"; (curl -sS -m 30 "https://$u" >"${q%.ask}.new" 2>&1; mv "${q%.ask}.new" "${q%.ask}.out") & done
	sleep 0.05
done
wait
S
policy live.yaml http/1.1
in_box live.yaml sh ./lives.sh >"$T/box" 2>&1 &
BOX=$!
PIDS+=($BOX)
wait_for 20 test -e "$WORK/lives" || not_ok "the sandbox starts" "$(cat "$T/box")"
ask() { echo "$2" >"$WORK/$1.tmp"; mv "$WORK/$1.tmp" "$WORK/$1.ask"; }
got() { wait_for 40 test -e "$WORK/$1.out"; cp "$WORK/$1.out" "$T/out"; }
get() { ask "$1" "$2"; got "$1"; }
get f1 free.test/1
get f2 free.test/2
has "its session is resumed" "$T/out" "dn=CN=agent-ec verify=SUCCESS tls=TLSv1.3 reused=r"
(umask 077 && cp "$T/second.bundle" "$T/turn.secret")
check "another certificate" "$SP" secret forget turn
get f3 free.test/3
has "does not go on in the session of the first" "$T/out" "dn=CN=agent-second verify=SUCCESS tls=TLSv1.3 reused=."
check "revoked" "$SP" secret revoke turn
get f4 free.test/4
has "then nothing is asked there" "$T/out" '"error":"credential_unavailable"'
check "lifted" "$SP" secret forget turn
get f5 free.test/5
has "and again" "$T/out" "dn=CN=agent-second"
(umask 077 && cp "$T/alien.bundle" "$T/rsa.secret")
"$SP" secret forget rsa >/dev/null
get r1 rsa.test/1
if grep -q 'agent-rsa' "$T/out"; then not_ok "one that the server does not take" "$(cat "$T/out")"; else has "one that the server does not take: its own answer" "$T/out" "400 The SSL certificate error"; fi
for w in "no key:$T/ec.pem:there is no private key in it" "no certificate:$T/ec.key:there is no certificate in it" "of another key:$T/mixed:none of its certificates is for its key"; do
	cat "$T/ec.pem" "$T/second.key" >"$T/mixed"
	IFS=: read -r what file why <<<"$w"
	(umask 077 && cp "$file" "$T/rsa.secret")
	"$SP" secret forget rsa >/dev/null
	get "w${file##*/}" rsa.test/w
	has "a value with $what: refused" "$T/out" '"error":"credential_unavailable"'
	records >"$T/records"
	has "a value with $what: and the record says why" "$T/records" "$why"
done
has "the use of the certificate is recorded" "$T/records" "used as client_certificate"
get m1 m13.test/1
LINE=$(sed -n 3p "$T/ec.key" | cut -c 1-24) # of the private number
if can_scan; then
	role_pids >"$T/pids"
	# shellcheck disable=SC2046
	mem_scan "$LINE" $(awk '{print $2}' "$T/pids") >"$T/scan"
	awk 'NR == FNR {is[$1] = $2; next} {print $1 ": " is[$2]}' "$T/scan" "$T/pids" >"$T/roles"
	has "secrets holds the key: the search can find it" "$T/roles" "secrets: holds"
	if grep -v '^secrets' "$T/roles" | grep -q holds; then not_ok "no other role has it, the worker neither" "$(cat "$T/roles")"; else ok "no other role has it, the worker neither"; fi
else
	skip "the memory of other processes can only be searched by root"
fi
# a handshake waits for the role that signs; what needs it not goes on. Each request there has a connection and a session of its own.
secrets_pid=$(role_pid secrets) worker_pid=$(role_pid worker)
# speaks TLS as far as it asks for a certificate, then goes
cat >"$T/gone.py" <<'P'
import socket, ssl, sys
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[2], sys.argv[3]); c.load_verify_locations(sys.argv[4]); c.verify_mode = ssl.CERT_REQUIRED
l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); l.bind(("127.0.0.1", int(sys.argv[1]))); l.listen(9); print("up", flush=True)
while True:
    s, _ = l.accept(); i, o = ssl.MemoryBIO(), ssl.MemoryBIO(); t = c.wrap_bio(i, o, server_side=True)
    while not o.pending:
        i.write(s.recv(65536))
        try: t.do_handshake()
        except ssl.SSLWantReadError: pass
    s.sendall(o.read()); s.shutdown(socket.SHUT_WR)
    s.settimeout(0.5) # time to ask for the signature
    try: s.recv(1)
    except OSError: pass
    s.close(); print("gone", flush=True)
P
python3 "$T/gone.py" "$PGONE" "$T/up.pem" "$T/up.key" "$T/cca.pem" >"$T/gone.log" 2>"$T/gone.out" &
PIDS+=($!)
wait_for 10 grep -q up "$T/gone.log"
went() { [ "$(grep -c gone "$T/gone.log")" -ge "$1" ]; }
full() { grep -c '^stop.test.*reused=\. ' "$T/ngx/access.log"; }
get m2 stop.test/2
if kill -STOP "$secrets_pid" 2>/dev/null; then
	n=$(full)
	for i in 1 2 3 4 5 6; do ask "s$i" "stop.test/s$i"; done
	get o1 other.test/1
	has "while secrets stands still, others are served" "$T/out" "dn= verify=NONE"
	check "and no handshake came about that needs it" test "$(full)" = "$n"
	kill -CONT "$secrets_pid"
	for i in 1 2 3 4 5 6; do got "s$i"; grep -q 'dn=CN=agent-ec' "$T/out" || not_ok "what waited was signed ($i)" "$(cat "$T/out")"; done
	check "what waited was signed" test "$(full)" = $((n + 6))
	"$SP" secret forget ec >/dev/null
	get m3 stop.test/3
	get g0 gone.test/0 # what is shown there is had
	has "an upstream that asks for it and goes" "$T/out" '"error":"upstream_tls"'
	kill -STOP "$secrets_pid"
	for i in 1 2 3; do ask "t$i" "stop.test/t$i"; done
	for i in 1 2 3; do got "t$i"; done
	check "a handshake that waits for too long is given up" test "$(cat "$WORK"/t[123].out | grep -c '"error":"credential_unavailable"')" = 3
	records >"$T/records"
	has "and its record says what it waited for" "$T/records" "the client certificate's signature did not come in time"
	# an upstream that goes while its signature is being made
	ask g1 gone.test/1
	wait_for 10 went 2 || not_ok "it asks for a certificate, and goes" "$(cat "$T/gone.log" "$T/gone.out")"
	get o2 other.test/2
	has "meanwhile others are served" "$T/out" "dn= verify=NONE"
	kill -CONT "$secrets_pid"
	got g1
	has "an upstream that went in the middle of it is at fault" "$T/out" '"error":"upstream_tls"'
	get m4 stop.test/4
	get m5 stop.test/5
	has "and the next one is signed" "$T/out" "dn=CN=agent-ec"
	# the role that signs dies in the middle of it
	"$SP" secret forget ec >/dev/null
	get m6 stop.test/6
	get g2 gone.test/3
	kill -STOP "$secrets_pid"
	for i in 1 2 3; do ask "d$i" "stop.test/d$i"; done
	ask dg gone.test/2
	wait_for 10 went 4 || not_ok "it goes again" "$(cat "$T/gone.log")"
	kill -KILL "$secrets_pid"
	for i in 1 2 3; do got "d$i"; done
	check "a role that dies meanwhile is a credential that cannot be had" test "$(cat "$WORK"/d[123].out | grep -c '"error":"credential_unavailable"')" = 3
	got dg
	signed_again() { again=$((again + 1)); get "k$again" stop.test/k; grep -q 'dn=CN=agent-ec' "$T/out"; }
	again=0
	wait_for 10 signed_again && ok "the role is back, and signs" || not_ok "the role is back, and signs" "$(cat "$T/out")"
	check "by the same worker" test "$(role_pid worker)" = "$worker_pid"
else
	skip "the role is another user's: it cannot be stopped"
fi
touch "$WORK/stop"
wait "$BOX"
cat >"$WORK/many.py" <<'P'
import concurrent.futures, urllib.request
def one(i): return urllib.request.urlopen("https://m12.test/many?%d" % i, timeout=60).read().decode()
with concurrent.futures.ThreadPoolExecutor(30) as p: got = list(p.map(one, range(90)))
print("many", sum("dn=CN=agent-rsa verify=SUCCESS" in g for g in got))
P
(umask 077 && cp "$T/rsa.bundle" "$T/rsa.secret")
in_box h1.yaml /usr/bin/python3 many.py >"$T/out" 2>&1
has "ninety connections" "$T/out" "many 90"
for w in "$LINE" planted-api-value-77aa01; do nowhere "${w:0:12} is nowhere that it must not be" "$w" "$T/out" "$T/box"; done
check_done
