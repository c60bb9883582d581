#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Destinations with wildcard hosts, through every role: answered by name inside, minted, resolved, dialled, injected,
# decided; and what must not happen on them.
NAME=wildcard
. "$(dirname "$0")/lib.sh"
can_run
make_pki
(
	cd "$T" || exit 1
	printf 'subjectAltName=DNS:*.wild.test,DNS:x.y.wild.test,DNS:*.conn.test\nextendedKeyUsage=serverAuth\nbasicConstraints=critical,CA:FALSE\n' >up.ext
	openssl x509 -req -in up.csr -CA upca.pem -CAkey upca.key -CAcreateserial -days 30 -sha256 -extfile up.ext -out up.pem
) >>"$T/pki.log" 2>&1 || not_ok "the origin has a certificate" "$(cat "$T/pki.log")"
start_nginx
# a name server that knows everything below wild.test and says what it was asked
cat >"$T/dns.py" <<'P'
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
while True:
    q, who = s.recvfrom(512)
    at, labels = 12, []
    while q[at]:
        labels.append(q[at + 1:at + 1 + q[at]].decode("latin1").lower()); at += 1 + q[at]
    kind = struct.unpack(">H", q[at + 1:at + 3])[0]
    name = ".".join(labels)
    print("asked", name, flush=True)
    known = name.endswith(".wild.test")
    n = 1 if known and kind == 1 else 0
    r = q[:2] + struct.pack(">HHHHH", 0x8180 if known else 0x8183, 1, n, 0, 0) + q[12:at + 5]
    if n: r += struct.pack(">HHHIH", 0xc00c, 1, 1, 60, 4) + socket.inet_aton("127.0.0.1")
    s.sendto(r, who)
P
DNS_PORT=$(python3 -c 'import socket; s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])')
python3 "$T/dns.py" "$DNS_PORT" >"$T/dns.log" 2>&1 &
PIDS+=($!)
wait_for 10 grep -q ready "$T/dns.log" || not_ok "a name server starts" "$(cat "$T/dns.log")"
(umask 077; echo "dns: {servers: ['127.0.0.1:$DNS_PORT']}" >"$T/gateway.yaml")
"$SP" serve --config "$T/gateway.yaml" --state "$STATE" >"$T/serve.log" 2>&1 &
PIDS+=($!)
wait_for 20 test -S "$STATE/run/control.sock" || not_ok "the gateway starts" "$(cat "$T/serve.log")"
cat >"$WORK/policy.yaml" <<P
version: 1
name: wildcards
secrets:
  wild: { env: E2E_SECRET, hosts: ["*.wild.test"] }
destinations:
  - host: "**.wild.test"
    ports: [$PORT]
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ GET /v1/** ]
    deny: [ ANY /v1/hidden/** ]
  - host: "*.wild.test"
    ports: [$PORT]
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ GET /v1/** ]
    inject: [ { secret: wild, as: bearer, env: WILD_TOKEN } ]
  - host: "pref*.wild.test"
    ports: [$PORT]
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ GET /v1/echo ]
  - host: exact.wild.test
    ports: [$PORT]
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ GET /v1/**, POST /v1/** ]
  - host: "*.public.wild.test"
    ports: [$PORT]
    tls: { ca: ./upca.pem }
    allow: [ GET /** ]
  - host: "*.conn.test"
    connect: 127.0.0.1:$PORT
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ GET /v1/** ]
  - host: "*.plain.test"
    scheme: http
    connect: 127.0.0.1:$HTTP_PORT
    addresses: [127.0.0.0/8]
    allow: [ "GET /**" ]
P
cat >"$WORK/inside.sh" <<S
get() { echo "== \$1"; shift; curl -sS -m 20 -i --suppress-connect-headers "\$@"; echo; }
get one https://a.wild.test:$PORT/v1/echo?one
get again https://b-1.wild.test:$PORT/v1/echo?again
get deep https://x.y.wild.test:$PORT/v1/echo?deep
get prefix https://pref-1.wild.test:$PORT/v1/echo?prefix
get prefix-other https://pref-1.wild.test:$PORT/v1/hello?prefix-other
get exact https://exact.wild.test:$PORT/v1/echo?exact
get broad-deny https://exact.wild.test:$PORT/v1/HIDDEN/x
get broad-method -X PUT https://exact.wild.test:$PORT/v1/x
get parent https://wild.test:$PORT/v1/echo?parent
get beside https://xwild.test:$PORT/v1/echo?beside
get confusion https://a.wild.test.evil.test:$PORT/v1/echo?confusion
get default-port https://a.wild.test/v1/echo?default-port
get private https://a.public.wild.test:$PORT/v1/echo?private
get transparent --noproxy '*' https://a.conn.test/v1/echo?transparent
get transparent-parent --noproxy '*' https://conn.test/v1/echo?transparent-parent
get plain --noproxy '*' http://a.plain.test/
get leaf -v https://c.wild.test:$PORT/v1/echo?leaf 2>&1 | grep -i 'subjectAltName\|== '
S
run sh inside.sh >"$T/out" 2>&1
part() { awk -v p="== $1" '$0 == p {on = 1; next} /^== / {on = 0} on' "$T/out" >"$T/part"; }
status() { part "$1"; if grep '^HTTP/' "$T/part" | tail -n 1 | grep -q " $2"; then ok "$3"; else not_ok "$3" "$(cat "$T/part")" "$(tail -n 5 "$T/serve.log")"; fi; }
sent() { if grep -F -- "?$1 " "$T/ngx/access.log" | grep -qF -- "$2"; then ok "$3"; else not_ok "$3" "$(cat "$T/ngx/access.log")"; fi; }
status one 200 "a host of *.wild.test: named, minted, resolved, dialled"
has "its own name was resolved" "$T/dns.log" "asked a.wild.test"
sent one "auth=Bearer $SECRET" "the credential of the wildcard is injected"
has "and overwritten in the answer" <(part one; cat "$T/part") "auth=Bearer ***"
status again 200 "another host of it"
has "resolved by its own name too" "$T/dns.log" "asked b-1.wild.test"
sent again "auth=Bearer $SECRET" "the credential is injected there too"
status deep 200 "**.wild.test decides for more labels"
sent deep "auth=- " "without the credential of *.wild.test"
status prefix 200 "pref*.wild.test decides for its hosts"
sent prefix "auth=- " "without the credential of *.wild.test there"
status prefix-other 403 "what a broader destination allows does not count"
status exact 200 "an exact host decides"
sent exact "auth=- " "without the credential there"
status broad-deny 403 "a deny of a broader destination counts"
has "the refusal names its rule" "$T/part" "**.wild.test:$PORT:deny:ANY /v1/hidden/**"
status broad-method 403 "a method that nothing allows"
status parent 403 "E10 UP01: the bare parent is no host of it"
status beside 403 "E10 UP01: a name that only ends alike"
status confusion 403 "E10 UP01: the domain inside another one"
status default-port 403 "another port is another destination"
status private 403 "a private address behind a wildcard is not dialled"
part private; has "and the refusal says so" "$T/part" "address_denied"
status transparent 200 "without the proxy's variables: by the name's address, transparently"
status transparent-parent 403 "transparently, the bare parent is refused"
status plain 200 "a wildcard of scheme http"
has "the leaf is for the host that was asked, not for the wildcard" <(part leaf; cat "$T/part") "c.wild.test"
hasnt "no wildcard stands in a leaf" <(part leaf; cat "$T/part") "*.wild.test"
if grep -qxF -e "asked wild.test" -e "asked xwild.test" -e "asked a.wild.test.evil.test" -e "asked conn.test" "$T/dns.log"; then not_ok "policy before DNS: refused names are not looked up" "$(cat "$T/dns.log")"; else ok "policy before DNS: refused names are not looked up"; fi
hasnt "refused requests did not go out" "$T/ngx/access.log" "HIDDEN"
hasnt "the sandbox never had the value" "$T/out" "$SECRET"
hasnt "records do not have it" <(records) "$SECRET"
record_lines >"$T/lines"
if grep ' request deny policy_denied GET exact.wild.test ' "$T/lines" | grep -q HIDDEN; then ok "the refusal is recorded with the host that was asked"; else not_ok "the refusal is recorded with the host that was asked" "$(cat "$T/lines")"; fi
[ "$(record_count exact.wild.test "**.wild.test:$PORT:deny:ANY /v1/hidden/**")" -ge 1 ] && ok "and with the rule of the broader destination" || not_ok "and with the rule of the broader destination" "$(records | tail -n 5)"
"$SP" policy explain "$WORK/policy.yaml" GET "https://exact.wild.test:$PORT/v1/hidden/x" >"$T/explain" 2>&1
has "explain says the same" "$T/explain" "rule: **.wild.test:$PORT:deny:ANY /v1/hidden/**"
"$SP" policy explain "$WORK/policy.yaml" GET "https://pref-1.wild.test:$PORT/v1/hello" >"$T/explain" 2>&1
has "explain says which broader rule does not count" "$T/explain" "its destination is not the one that decides"
check_done
