#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The life of the interception CA: made once, shown, exported, constrained, rotated while sandboxes run, lost, leaked, expired.
NAME=ca
. "$(dirname "$0")/lib.sh"
can_run
make_pki
start_nginx
write_policy

CA=$STATE/ca/ca.pem
sp() { "$SP" ca "$@" --state "$STATE"; }
certs() { grep -c 'BEGIN CERT' "$1"; }
subject() { openssl x509 -in "$1" -noout -subject -nameopt RFC2253 | sed 's/^subject=//'; }
issuer='curl -sv --max-time 20 https://api.test/v1/hello 2>&1 | sed -n "s/^\* *issuer: *//p"'

# --- made
check "init makes it" sp init
cp "$CA" "$T/first.pem"
check "it is a CA to a strict verifier" openssl verify -x509_strict -CAfile "$CA" "$CA"
if sp init >"$T/out" 2>&1; then not_ok "init does not replace it"; else has "init does not replace it" "$T/out" "not replaced"; fi
check "two deployments have two subjects" bash -c "'$SP' ca init --state '$T/other' && [ '$(subject "$CA")' != \"\$(openssl x509 -in '$T/other/ca/ca.pem' -noout -subject -nameopt RFC2253 | sed 's/^subject=//')\" ]"
sp show >"$T/out"
has "show tells the subject" "$T/out" "$(subject "$CA")"
has "show tells the fingerprint" "$T/out" "$(openssl x509 -in "$CA" -noout -fingerprint -sha256 | sed 's/.*=//')"

# --- exported
check "export as PEM" bash -c "'$SP' ca export --state '$STATE' | cmp - '$CA'"
check "export as DER" bash -c "'$SP' ca export --der --state '$STATE' | openssl x509 -inform DER | cmp - <(openssl x509 -in '$CA')"
sp export --pkcs12 -o "$T/ca.p12"
check "export as PKCS #12" bash -c "openssl pkcs12 -in '$T/ca.p12' -passin pass:changeit -nokeys | openssl x509 | cmp - <(openssl x509 -in '$CA')"
if command -v keytool >/dev/null 2>&1; then
	check "which Java reads as a trusted entry" bash -c "keytool -list -keystore '$T/ca.p12' -storepass changeit -storetype PKCS12 | grep -q trustedCertEntry"
else skip "Java reads the PKCS #12 store: there is no keytool"; fi
if command -v certutil >/dev/null 2>&1; then
	mkdir "$T/nss"
	certutil -N --empty-password -d "sql:$T/nss"
	check "DER goes into an NSS database as the manual says" bash -c "'$SP' ca export --der --state '$STATE' | certutil -A -d 'sql:$T/nss' -n sallyport -t C,, && certutil -L -d 'sql:$T/nss' | grep -q sallyport"
else skip "NSS takes the DER form: there is no certutil"; fi

run bash -c "cat '$STATE/ca/ca.key' '$STATE/ca/ca.pem'; ls '$STATE/ca'" >"$T/inside.out" 2>&1
check "G22 the key is not to be seen inside" bash -c "! grep -q 'PRIVATE KEY\|ca.key\$' <(grep -v '^cat\|^ls' '$T/inside.out')"

# --- rotated while a sandbox runs
run bash -c "$issuer >a.first; cp /run/sallyport/ca.pem a.trust; cat a.trust >a.ready; while [ ! -e a.go ]; do sleep 0.05; done; $issuer >a.second
	openssl s_client -connect api.test:443 -servername api.test </dev/null 2>/dev/null | openssl x509 >a.leaf; echo done >a.done" >"$T/a.out" 2>&1 &
A=$!
PIDS+=("$A")
wait_for 20 test -s "$WORK/a.ready"
check "rotate with a gateway at work" sp rotate
check "the new one has another subject and key" bash -c "[ '$(subject "$T/first.pem")' != '$(subject "$CA")' ] && ! cmp -s <(openssl x509 -in '$CA' -noout -ext subjectKeyIdentifier) <(openssl x509 -in '$T/first.pem' -noout -ext subjectKeyIdentifier)"
check "ca.pem holds the new one and then the old one" bash -c "[ $(certs "$CA") = 2 ] && openssl crl2pkcs7 -nocrl -certfile '$CA' | openssl pkcs7 -print_certs | grep -qF '$(openssl x509 -in "$T/first.pem" -noout -subject)'"
check "the key is the new one's, for its owner alone" bash -c "[ \"\$(stat -c %a '$STATE/ca/ca.key')\" = 600 ] && cmp <(openssl pkey -in '$STATE/ca/ca.key' -pubout) <(openssl x509 -in '$CA' -noout -pubkey)"
check "the old key lies nowhere" bash -c "[ \"\$(find '$STATE' -name '*.key' -path '*ca*' | wc -l)\" = 1 ] && ! ls -d '$STATE'/.ca-* 2>/dev/null"
run bash -c "$issuer >b.issuer; cp /run/sallyport/ca.pem b.trust; certutil -L -n sallyport -a -d sql:\$HOME/.pki/nssdb >b.nss" >"$T/b.out" 2>&1
if command -v certutil >/dev/null 2>&1; then
	check "a new sandbox's NSS database trusts the CA that its leaves come from" bash -c "openssl x509 -in '$WORK/b.nss' | cmp - <(openssl x509 -in '$CA')"
fi
touch "$WORK/a.go"
wait_for 30 test -s "$WORK/a.done"
old=$(openssl x509 -in "$T/first.pem" -noout -subject -nameopt sep_multiline,sname | sed -n 's/^ *CN=//p')
new=$(openssl x509 -in "$CA" -noout -subject -nameopt sep_multiline,sname | sed -n 's/^ *CN=//p')
has "UT04 before: leaves of the old CA" "$WORK/a.first" "$old"
has "UT04 a sandbox that runs keeps the CA that it trusts" "$WORK/a.second" "$old"
has "UT04 a sandbox from now on gets leaves of the new CA" "$WORK/b.issuer" "$new"
check "and trusts both" test "$(certs "$WORK/b.trust")" = 2
check "so that a leaf of the old CA is accepted there" openssl verify -x509_strict -purpose sslserver -verify_hostname api.test -CAfile "$WORK/b.trust" "$WORK/a.leaf"
span() { # notBefore to notAfter in days
	echo $((($(date -d "$(openssl x509 -in "$1" -noout -enddate | sed 's/.*=//')" +%s) - $(date -d "$(openssl x509 -in "$1" -noout -startdate | sed 's/.*=//')" +%s)) / 86400))
}
check "UT03 a leaf spans nine days with its back-dating" test "$(span "$WORK/a.leaf")" = 9
# --- rotated under fifty that hold connections
cat >"$WORK/hold.py" <<'P'
import os, socket, ssl, sys, time
me, ctx = sys.argv[1], ssl.create_default_context()
def open_one(host):
    s = ctx.wrap_socket(socket.create_connection((host, 443), 60), server_hostname=host)
    return s, dict(x[0] for x in s.getpeercert()["issuer"])["commonName"]
def ask(s):
    s.sendall(b"GET /v1/hello HTTP/1.1\r\nHost: api.test\r\n\r\n"); b = b""
    while b"hello, you sent" not in b:
        x = s.recv(65536)
        if not x: break
        b += x
    return b[9:12].decode()
held, first = open_one("api.test")
before = ask(held)
open("hold.%s.ready" % me, "w").close()
while not os.path.exists("hold.go"): time.sleep(0.1)
after = ask(held) # on the connection from before
_, second = open_one("git.test") # a leaf that is not in the worker's cache yet
print(before, after, first == second, first, sep="\t", file=open("hold.%s.new" % me, "w")); os.rename("hold.%s.new" % me, "hold.%s.done" % me)
P
was=$new # the CA of now
held() { [ "$(find "$WORK" -name "hold.*.$1" | wc -l)" = 50 ]; }
for i in $(seq 50); do
	(cd "$WORK" && E2E_SECRET=$SECRET exec timeout 200 "$SP" run --quiet --policy policy.yaml -- python3 -W ignore hold.py "$i") >"$T/hold.$i.out" 2>&1 &
	PIDS+=($!)
done
wait_for 150 held ready
check "fifty sandboxes hold a connection" held ready
check "UT04 rotate under them" sp rotate
run bash -c "$issuer >after.issuer" >"$T/after.out" 2>&1
check "UT04 a new one gets the new CA's leaves meanwhile" bash -c "[ -s '$WORK/after.issuer' ] && ! grep -qF '$was' '$WORK/after.issuer'"
touch "$WORK/hold.go"
wait_for 100 held done
check "UT04 each of the fifty goes on, on its connection and to a new name, by the CA that it trusts" test "$(cat "$WORK"/hold.*.done | sort | uniq -c | sed 's/^ *//')" = "$(printf '50 200\t200\tTrue\t%s' "$was")"
cat "$T"/hold.*.out | sort | uniq -c | head -5
run bash -c "$issuer >c.first; echo x >c.ready; while [ ! -e c.go ]; do sleep 0.05; done; $issuer >c.second; echo done >c.done" >"$T/c.out" 2>&1 &
PIDS+=($!)
wait_for 20 test -s "$WORK/c.ready"
sp rotate
run bash -c "$issuer >d.first; echo x >d.ready; while [ ! -e c.go ]; do sleep 0.05; done; $issuer >d.second; echo done >d.done" >"$T/d.out" 2>&1 &
PIDS+=($!)
wait_for 20 test -s "$WORK/d.ready"
ca=$(role_pid ca)
kill -9 "$ca"
wait_for 10 bash -c "[ -n '$ca' ] && ! kill -0 '$ca' 2>/dev/null"
touch "$WORK/c.go"
wait_for 30 test -s "$WORK/c.done"
wait_for 30 test -s "$WORK/d.done"
check "after the role died each sandbox has its own CA again" bash -c "[ -s '$WORK/c.second' ] && [ -s '$WORK/d.second' ] && cmp '$WORK/c.first' '$WORK/c.second' && cmp '$WORK/d.first' '$WORK/d.second' && ! cmp -s '$WORK/c.first' '$WORK/d.first'"
check "rotate --finish ends the overlap" bash -c "'$SP' ca rotate --finish --state '$STATE' && [ \"\$(grep -c 'BEGIN CERT' '$CA')\" = 1 ]"
run bash -c "$issuer >e.issuer" >"$T/e.out" 2>&1
check "and interception goes on" test -s "$WORK/e.issuer"

# --- constrained
check "rotate --permit" sp rotate --permit api.test
check "constraints are critical" bash -c "openssl x509 -in '$CA' -noout -ext nameConstraints | grep -q critical"
run bash -c "curl -s --max-time 20 -o /dev/null -w '%{http_code} ' https://api.test/v1/hello; curl -s --max-time 20 -o /dev/null -w '%{http_code}' https://git.test/repo.git/x" >"$T/out" 2>"$T/err"
has "a permitted name works, another one fails closed" "$T/out" "200 000"
sp rotate --drop-old
check "constraints stay through a rotation" bash -c "openssl x509 -in '$CA' -noout -ext nameConstraints | grep -q DNS:api.test"
check "--permit-any lifts them" bash -c "'$SP' ca rotate --permit-any --drop-old --state '$STATE' && ! openssl x509 -in '$CA' -noout -text | grep -q 'Name Constraints'"
if sp rotate --permit 'a b' >"$T/out" 2>&1; then not_ok "a name that is none is refused"; else has "a name that is none is refused" "$T/out" "neither a domain"; fi

# --- lost, leaked, expired
"$SP" stop --all >/dev/null 2>&1
wait_for 10 bash -c "! [ -S '$STATE/run/control.sock' ]"
mv "$STATE/ca/ca.key" "$T/lost.key"
cp "$CA" "$T/before.pem"
run true >"$T/out" 2>&1
check "without its key nothing starts" test $? = 125
check "and no new CA is made" cmp "$CA" "$T/before.pem"
for v in init rotate; do
	if sp $v >"$T/out" 2>&1; then not_ok "$v refuses beside a missing key"; else has "$v refuses beside a missing key" "$T/out" "rotate --drop-old"; fi
done
check "rotate --drop-old is the way out" sp rotate --drop-old
check "nothing trusts the old one any more" bash -c "[ \"\$(grep -c 'BEGIN CERT' '$CA')\" = 1 ] && ! cmp -s '$CA' '$T/before.pem'"
run bash -c "$issuer >f.issuer" >"$T/f.out" 2>&1
check "and interception works with the new one" test -s "$WORK/f.issuer"
"$SP" stop --all >/dev/null 2>&1
wait_for 10 bash -c "! [ -S '$STATE/run/control.sock' ]"
# an expired one, of the same form
(
	cd "$T" || exit 1
	mkdir -p exp && : >exp/index && echo 01 >exp/serial
	printf '[ca]\ndefault_ca=d\n[d]\ndir=exp\ndatabase=exp/index\nserial=exp/serial\nnew_certs_dir=exp\ndefault_md=sha256\npolicy=p\nx509_extensions=e\n[p]\ncommonName=supplied\n[e]\nbasicConstraints=critical,CA:TRUE,pathlen:0\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n' >exp/conf
	openssl req -new -key "$STATE/ca/ca.key" -subj "/CN=an expired CA" -out exp/csr &&
		openssl ca -batch -config exp/conf -selfsign -keyfile "$STATE/ca/ca.key" -in exp/csr -out exp/ca.pem -notext -startdate 20200101000000Z -enddate 20210101000000Z
) >"$T/exp.log" 2>&1
cp "$T/exp/ca.pem" "$CA"
run true >"$T/out" 2>&1
check "UT04 with an expired CA nothing starts" test $? = 125
timeout 20 "$SP" serve --state "$STATE" >"$T/serve.out" 2>&1
has "UT04 and the gateway says why and what to do" "$T/serve.out" "has expired"
has "UT04 with the command" "$T/serve.out" "sallyport ca rotate"
check "UT04 which works" sp rotate
run bash -c "$issuer >g.issuer" >"$T/g.out" 2>&1
check "UT04 and everything goes on" test -s "$WORK/g.issuer"
check "an expired one is not trusted beside it" test "$(certs "$CA")" = 1

# --- three days before its end, and an hour before
make_short() { # NAME END: a CA of that end in the place of the one that is there
	(
		cd "$T" && : >exp/index || exit 1
		openssl req -new -key "$STATE/ca/ca.key" -subj "/CN=$1" -out exp/csr2 &&
			openssl ca -batch -config exp/conf -selfsign -keyfile "$STATE/ca/ca.key" -in exp/csr2 -out exp/short.pem -notext -startdate "$(date -u -d -3days +%Y%m%d%H%M%SZ)" -enddate "$(date -u -d "$2" +%Y%m%d%H%M%SZ)"
	) >>"$T/exp.log" 2>&1 && cp "$T/exp/short.pem" "$CA" || not_ok "$1 is made" "$(tail -3 "$T/exp.log")"
}
told() { # TEXT FILE PATTERN (extended)
	if grep -qE -- "$3" "$2"; then ok "$1"; else not_ok "$1" "no '$3' in:" "$(tail -n 30 "$2")"; fi
}
ended() {
	"$SP" stop --all >/dev/null 2>&1
	wait_for 10 bash -c "! [ -S '$STATE/run/control.sock' ]"
}
serve() { # its words are in $1
	"$SP" serve --state "$STATE" >"$1" 2>&1 &
	PIDS+=($!)
	wait_for 20 test -S "$STATE/run/control.sock"
}
end_of() { openssl x509 -in "$1" -noout -enddate; }
for w in "80 hours:in 3 days" "62 minutes:in 61 minutes|in 62 minutes"; do
	says=${w#*:}
	ended
	make_short "a CA near its end" "+${w%%:*}"
	sp show >"$T/out"
	told "UT04 show, with ${w%%:*} left" "$T/out" "expires ($says): .sallyport ca rotate"
	serve "$T/near.out"
	told "UT04 the gateway's start" "$T/near.out" "warning: the CA expires ($says): .sallyport ca rotate"
	run bash -c "$issuer >near.issuer; openssl s_client -connect api.test:443 -servername api.test -CAfile /run/sallyport/ca.pem -x509_strict -verify_return_error </dev/null 2>/dev/null | openssl x509 >near.leaf" >"$T/near.run" 2>&1
	has "UT04 interception goes on until then" "$WORK/near.issuer" "a CA near its end"
	check "UT04 and no leaf outlives the CA" test "$(end_of "$WORK/near.leaf")" = "$(end_of "$CA")"
	told "UT04 the ca says so as it mints" "$T/near.out" "sallyport.ca.: warning: the CA expires ($says), and with it .*sallyport ca rotate"
done
ended

# --- it ends while a gateway and a sandbox are at work
make_short "a CA that ends at work" "+20 seconds"
serve "$T/end.out"
refused=$(records | grep -c mint_refused)
try='curl -s -o /dev/null -w "%{http_code} " --max-time 20 https://api.test/v1/hello'
run bash -c "$try >end.before; cat /run/sallyport/ca.pem >end.ca; for i in \$(seq 300); do openssl x509 -in end.ca -checkend 0 -noout >/dev/null || break; sleep 0.1; done; sleep 1.1; $try >end.after; $try >>end.after" >"$T/end.run" 2>&1
has "UT04 before its end it serves" "$WORK/end.before" "200"
has "UT04 from then on nothing is served, cached leaves neither" "$WORK/end.after" "000 000"
has "UT04 the gateway says why and what to do" "$T/end.out" "has expired (or the clock is wrong): nothing can be intercepted. \`sallyport ca rotate\`"
records | grep '"kind":"connection"' | grep -F '"code":"gateway_unavailable"' >"$T/end.records"
check "UT04 so do the records" grep -q ca_expired "$T/end.records"
check "UT04 which put it down to no policy" test "$(records | grep -c mint_refused)" = "$refused"
has "UT04 show says so" <(sp show) "EXPIRED"
check "UT04 rotate is the remedy, with the gateway at work" sp rotate
run bash -c "$issuer >end.issuer" >"$T/end.run2" 2>&1
check "UT04 and a new sandbox is served" test -s "$WORK/end.issuer"

# --- a short life: the CA ends in half a minute, its leaves with it; half-way each is minted anew, and no handshake fails
ended
make_short "a short CA" "+30 seconds"
sp show >"$T/out"
has "UT04 show warns of the end" "$T/out" "expires in"
run bash -c 'leaf() { openssl s_client -connect api.test:443 -servername api.test -CAfile /run/sallyport/ca.pem -verify_return_error </dev/null 2>/dev/null | openssl x509 -noout -serial; }
	first=$(leaf); n=0; for i in $(seq 300); do now=$(leaf) || { echo failed; break; }; n=$((n + 1)); [ "$now" = "$first" ] || { echo "another after $n"; break; }; sleep 0.1; done' >"$T/short.out" 2>&1
has "UT03 a leaf is minted anew before it ends, without a failed handshake" "$T/short.out" "another after"
hasnt "the planted secret is in no output" <(cat "$T"/*.out "$WORK"/*.second 2>/dev/null) "$SECRET"
check_done
