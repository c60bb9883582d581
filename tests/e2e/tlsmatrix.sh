#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Upstreams with every kind of certificate, chain, protocol and staple (tlsmatrix.py): accepted or refused, and the refusal says
# what was wrong. One sandbox asks them all.
NAME=tlsmatrix
. "$(dirname "$0")/lib.sh"
can_run
"$SP" ca init --state "$STATE" >/dev/null || { not_ok "a CA"; exit 1; }
M=$T/matrix
mkdir "$M"
python3 "$(dirname "$0")/tlsmatrix.py" make "$M" "$STATE" >"$T/make.log" 2>&1 || { not_ok "the matrix is made" "$(tail -5 "$T/make.log")"; exit 1; }
TLS=$(free_port) RAW=$(free_port)
python3 "$(dirname "$0")/tlsmatrix.py" serve "$M" "$TLS" "$RAW" >"$T/serve.log" 2>&1 &
PIDS+=($!)
cp "$M/roots.pem" "$M/own.pem" "$M/inter.pem" "$M/listed.pem" "$M"/*.crl "$WORK/"
declare -A STAPLE
for l in good revoked unknown other late stranger self delegated garbage must; do
	STAPLE[$l]=$(free_port)
	openssl s_server -accept "127.0.0.1:${STAPLE[$l]}" -cert "$M/ocsp-$l.pem" -key "$M/ocsp-$l.pem" -cert_chain "$M/inter.pem" -status_file "$M/ocsp-$l.der" -www -quiet >"$T/staple.$l" 2>&1 &
	PIDS+=($!)
done
RENEG=$(free_port)
python3 "$(dirname "$0")/tlsmatrix.py" reneg "$M" "$RENEG" >"$T/reneg.out" 2>&1 &
PIDS+=($!)
wait_for 10 test -s "$M/seen" || { not_ok "the origins start" "$(cat "$T/serve.log")"; exit 1; }
for l in "${!STAPLE[@]}"; do wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/${STAPLE[$l]}"; done
printf 'trust: %s\n' "$M/public.pem" >"$T/gateway.yaml"
export PYTHONPATH=
pin() { python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$M/matrix.json" "$1"; }
dest() { # HOST TLS-KEYS [PORT]
	printf '  - host: "%s"\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n%s    allow: [ "GET /**" ]\n' "$1" "${3:-$TLS}" "${2:+    tls: { $2 \}
}"
}
{
	printf 'version: 1\nname: matrix\nsecrets:\n  api: { env: E2E_SECRET, hosts: ["*.m.test"] }\ndestinations:\n'
	dest '*.m.test' 'ca: ./roots.pem'
	printf '    inject:\n      - { secret: api, as: bearer }\n'
	dest reneg.m.test 'ca: ./roots.pem' "$RENEG"
	dest wildtld.test 'ca: ./roots.pem'
	dest '*.raw.test' 'ca: ./roots.pem' "$RAW"
	for l in "${!STAPLE[@]}"; do dest "ocsp-$l.m.test" 'ca: ./roots.pem' "${STAPLE[$l]}"; done
	for a in 5 6 7 8; do printf '  - host: 127.0.0.%s\n    ports: [%s]\n    addresses: [127.0.0.0/8]\n    tls: { ca: ./roots.pem }\n    allow: [ "GET /**" ]\n' $a "$TLS"; done
	dest min13.test 'ca: ./roots.pem, min: "1.3"'
	dest pin-ok.test "ca: ./roots.pem, pin: [\"$(pin pin_other)\", \"$(pin pin_leaf)\"]"
	dest pin-inter.test "pin: [\"$(pin pin_inter)\"]"
	dest pin-bad.test "ca: ./roots.pem, pin: [\"$(pin pin_other)\"]"
	dest alpn-h2.test 'ca: ./roots.pem, alpn: [h2]'
	dest inter-listed.test 'ca: ./inter.pem'
	dest leaf-listed.test 'ca: ./listed.pem'
	for l in good revoked inter none no-root stranger late early forged unfit; do dest "crl-$l.m.test" "ca: ./roots.pem, crl: ./crl-$l.crl"; done
	for l in anchor anchor-revoked; do dest "crl-$l.m.test" "ca: ./inter.pem, crl: ./crl-$l.crl"; done
	for l in public public-revoked; do dest "crl-$l.m.test" "crl: ./crl-$l.crl"; done
	dest ownca.test 'ca: ./own.pem'
	dest 'public-ownca.test' ''
	dest 'public-eku-none.test' ''
	dest 'public-plain.test' ''
	dest 'public-not-there.test' ''
} >"$WORK/policy.yaml"
"$SP" serve --config "$T/gateway.yaml" --state "$STATE" >"$T/gateway.log" 2>&1 &
GW=$!
PIDS+=("$GW")
wait_for 20 test -S "$STATE/run/control.sock" || { not_ok "the gateway starts" "$(cat "$T/gateway.log")"; exit 1; }
python3 - "$M/matrix.json" "$TLS" >"$WORK/urls" <<'P'
import json, sys
m = json.load(open(sys.argv[1]))
for c in m["cases"]:
    port = ":" + sys.argv[2] if c["host"].startswith("127.") else ""
    n = 3 if c["label"].startswith("resume") else 1
    for i in range(n): print('url = "https://%s%s/"\noutput = "out/%s%s"' % (c["host"], port, c["label"], "" if i == 0 else ".%d" % i))
for l in "http ssh garbage truncated alerts sslv3 ssl2 heartbeat huge downgrade alpn legacy suite-0003 suite-0005 suite-0004 suite-000a suite-0001 suite-0014 suite-0030 suite-0033 suite-1301".split(): print('url = "https://%s.raw.test/"\noutput = "out/raw-%s"' % (l, l))
P
mkdir -p "$WORK/out"
run curl -s --max-time 30 -K urls -w '%{url} %{http_code}\n' >"$T/codes" 2>"$T/curl.err"
python3 - "$M" "$WORK/out" "$T/codes" >"$T/verdicts" <<'P'
import json, os, sys
d, out, codes = sys.argv[1:]
m = json.load(open(d + "/matrix.json"))
status = {}
for l in open(codes):
    u, c = l.split(); status[u.split("/")[2].split(":")[0]] = c
def body(l):
    try: return open(os.path.join(out, l), errors="replace").read()
    except OSError: return ""
def verdict(good, what, host, b): print("ok" if good else "not ok", what, "" if good else "(%s %s)" % (status.get(host), b[:300].strip()))
IDS = {"ownca": "L10 ", "public-ownca": "L10 ", "client-optional": "UT07 G16 ", "client-required": "UT07 G16 ", "client-required13": "UT07 G16 ", "resume12": "I8 ", "resume13": "I8 "}
tag = lambda c: IDS.get(c["label"], "")
for c in m["cases"]:
    b, s = body(c["label"]), status.get(c["host"])
    if c["want"] == "any": verdict(s in ("200", "502"), "UT06 a renegotiation in the middle: an answer, %s, and no hanging" % s, c["host"], b); continue
    if c["want"] == "ok": verdict(s == "200", "%s%s is accepted" % (tag(c), c["label"]), c["host"], b); continue
    try: r = json.loads(b)
    except ValueError: r = {}
    verdict(s == "502" and r.get("error") == "upstream_tls" and c["says"].lower() in r.get("reason", "").lower(), "%s%s is refused: %s" % (tag(c), c["label"], r.get("reason")), c["host"], b)
for l in "http ssh garbage truncated alerts sslv3 ssl2 heartbeat huge downgrade alpn legacy suite-0003 suite-0005 suite-0004 suite-000a suite-0001 suite-0014 suite-0030 suite-0033 suite-1301".split():
    b = body("raw-" + l)
    try: r = json.loads(b)
    except ValueError: r = {}
    says = {"legacy": "legacy renegotiation", "downgrade": "fallback", "http": "version", "silent": "time"}.get(l, "")
    verdict(r.get("error") == "upstream_tls" and says in r.get("reason", ""), ("UT06 " if l == "legacy" else "") + "raw %s is refused: %s" % (l, r.get("reason")), l + ".raw.test", b)
for l in ("resume12", "resume13"):
    verdict("reused=1" in body(l + ".1") + body(l + ".2") and "reused=0" in body(l), "%s: the session is resumed, says the origin" % l, l + ".m.test", body(l + ".1"))
P
while read -r verdict rest; do
	case $verdict in ok) ok "$rest" ;; not) not_ok "${rest#ok }" ;; esac
done <"$T/verdicts"
check "every case was looked at" bash -c "[ $(wc -l <"$T/verdicts") -ge 149 ]"
# what was refused got nothing: the origin saw requests of accepted ones only
check "no refused origin saw a request" python3 - "$M" <<'P'
import json, sys
m = json.load(open(sys.argv[1] + "/matrix.json"))
no = {c["host"] for c in m["cases"] if c["want"] == "no" and c["label"] != "client-required13"}
bad = [l for l in open(sys.argv[1] + "/seen") if l.startswith("request") and l.split()[1] in no]
print(bad); sys.exit(bool(bad))
P
check "each refusal has one record" bash -c "[ \"\$(cat '$STATE'/audit/audit*.jsonl | grep -c '\"hostname\":\"wrong-host.m.test\".*upstream_tls')\" = 1 ]"
check "the record tells the upstream's TLS" python3 - "$STATE" <<'P'
import glob, json, sys
o = [json.loads(l) for f in glob.glob(sys.argv[1] + "/audit/audit*.jsonl") for l in open(f)]
def of(host): return [x for x in o if x.get("http_request", {}).get("url", {}).get("hostname") == host]
u = lambda x: x["unmapped"]["sallyport"]["upstream_tls"]
r = of("tls12.m.test")[0]
assert u(r)["version"] == "TLSv1.2" and u(r)["group"] and len(u(r)["spki_sha256"]) == 64 and r["tls"]["certificate"]["expiration_time"] > 1e12, u(r)
assert u(of("ocsp-good.m.test")[0])["staple"] == "good" and "staple" not in u(r)
assert any(u(x)["resumed"] for x in of("resume13.m.test")) and not u(r)["resumed"]
P
check "the worker survived all of it" bash -c "! grep -q 'ended by signal' '$T/gateway.log'"
# a list that is renewed: files of a policy are followed where no sandbox can write, and what the new one revokes is refused from then on
POL=$T/pol
mkdir "$POL"
cp "$M/roots.pem" "$POL/"
cat >"$POL/lists.yaml" <<P
version: 1
name: lists
destinations:
  - host: crl-good.m.test
    connect: 127.0.0.1:$TLS
    addresses: [127.0.0.0/8]
    tls: { ca: ./roots.pem, crl: ./list.crl }
    allow: [ "GET /**" ]
P
cp "$M/crl-good.crl" "$POL/list.crl"
cat >"$WORK/lists.sh" <<'S'
for i in $(seq 300); do
	curl -s -m 20 https://crl-good.m.test/ >answer
	case $(cat answer) in *reused*) : >before ;; *"revoked, says the policy's list"*) [ ! -e before ] || exit 0 ;; esac
	sleep 0.1
done
exit 1
S
(cd "$WORK" && timeout 90 "$SP" run --quiet --policy "$POL/lists.yaml" -- sh lists.sh) >"$T/lists.out" 2>&1 &
LISTS=$!
wait_for 30 test -e "$WORK/before" || not_ok "a list that revokes others lets pass" "$(cat "$T/lists.out" "$WORK/answer")"
cp "$M/renewed.crl" "$POL/list.new" && mv "$POL/list.new" "$POL/list.crl"
wait "$LISTS" && ok "a renewed list is taken while the sandbox runs" || not_ok "a renewed list is taken while the sandbox runs" "$(cat "$T/lists.out" "$WORK/answer")"
# what the boundary's lists revoke no policy can take back
cd "$POL" || exit 1
cp lists.yaml ceiling.yaml
cp "$M/crl-good.crl" old.crl
sed 's/list.crl/old.crl/' lists.yaml >other.yaml
sed 's/, crl: [^ ]* }/ }/' lists.yaml >none.yaml
check "a policy with the boundary's lists is within it" "$SP" policy check --boundary ceiling.yaml lists.yaml
for p in other none; do
	"$SP" policy check --boundary ceiling.yaml $p.yaml >"$T/out" 2>&1
	has "one with $p of them is not" "$T/out" '`tls.crl` of crl-good.m.test goes beyond the boundary'
done
"$SP" policy diff --fail-on widen lists.yaml none.yaml >"$T/out" 2>&1
rc=$?
has "policy diff says that lists went" "$T/out" "+ gone: https://crl-good.m.test:443: takes only certificates that the lists under tls.crl cover"
[ "$rc" -ne 0 ] && ok "and that this is wider" || not_ok "and that this is wider" "$rc"
cd - >/dev/null || exit 1
hasnt "the planted secret is in no answer" <(cat "$WORK"/out/*) "$SECRET"
hasnt "and in no record" <(records) "$SECRET"
check_done
