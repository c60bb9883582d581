#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `as: hmac` against an origin that computes every signature itself: over HTTP/1.1 and HTTP/2, with a key that neither the sandbox nor its worker has.
NAME=creds-sign
. "$(dirname "$0")/creds-lib.sh"
can_run
make_pki DNS:pay.test,DNS:bin.test,DNS:two.test
KEY=planted-hmac-key-71c0de55aa9e04f1 RAW=706c616e7465642d62696e6172792d6b65792d00ff10 OTHER=planted-hmac-other-3d11e9
B64=$(python3 -c 'import base64,sys; print(base64.b64encode(bytes.fromhex(sys.argv[1])).decode())' "$RAW")
cat >"$T/app.py" <<P
import base64, hashlib, hmac, json, time
KEY, RAW, OTHER = b"$KEY", bytes.fromhex("$RAW"), b"$OTHER"
seen = set()
def judge(r):
    h = r.get_header
    path, _, query = r.path.partition("?")
    if sum(k.lower() in ("x-signature", "x-stamp", "x-nonce", "authorization") for k, _ in r.headers) > 3: return "too many fields"
    if r.host.startswith("pay.test"): # as payment services have it: time and signature in one field, over the content
        parts = dict(p.split("=", 1) for p in h("x-signature").split(","))
        if abs(time.time() - int(parts["t"])) > 60: return "too old"
        want = hmac.new(KEY, parts["t"].encode() + b"." + r.method.encode() + b"." + r.path.encode() + b"." + r.body, hashlib.sha256).hexdigest()
        return "right" if hmac.compare_digest(parts["v1"], want) else "wrong"
    if r.host.startswith("bin.test"): # a binary key, line ends, a nonce, fields, the content's hash
        if h("x-nonce") in seen: return "replayed"
        seen.add(h("x-nonce"))
        lists = ", ".join(v for k, v in r.headers if k.lower() == "x-list")
        text = "\n".join([r.method, r.host, path, query, h("date"), h("x-nonce"), h("content-type"), lists, hashlib.sha256(r.body).hexdigest()])
        want = base64.b64encode(hmac.new(RAW, text.encode(), hashlib.sha512).digest()).decode()
        return "right" if h("authorization") == "HMAC id:" + want else "wrong " + text
    text = h("x-stamp") + "{" + h("authorization") + "}" # two signatures, one over what another injection puts there
    a = hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()
    b = base64.urlsafe_b64encode(hmac.new(OTHER, r.path.encode(), hashlib.sha1).digest()).decode().rstrip("=")
    return "right" if (h("x-signature"), h("x-second")) == (a, b) else "wrong"
def answer(r):
    try: why = judge(r)
    except Exception as e: why = repr(e)
    print(r.version, r.method, r.host, r.path, why, flush=True)
    return (200 if why == "right" else 403), [("Content-Type", "application/json")], json.dumps({"judged": why, "version": r.version, "length": len(r.body), "range": r.get_header("range")}).encode()
P
cred_origin "$T/app.py"
policy() { # FILE ALPN
	cat >"$WORK/$1" <<P
version: 1
name: signing
secrets:
  pay: { env: PAY_REAL, hosts: [pay.test, two.test] }
  raw: { file: $T/key, hosts: [bin.test] }
  other: { env: OTHER_REAL, hosts: [two.test] }
  plain: { env: PLAIN_REAL, hosts: [two.test] }
destinations:
$(dest pay.test ", alpn: [$2]")
    allow: [ "GET /v1/**", "POST /v1/**" ]
    inject: [ { secret: pay, as: hmac, name: X-Signature, format: "t={timestamp},v1={}", sign: "{timestamp}.{method}.{target}.{body}", env: PAY_KEY } ]
$(dest bin.test ", alpn: [$2]")
    allow: [ GET /x, POST /x ]
    inject:
      - secret: raw
        as: hmac
        name: Authorization
        format: "HMAC id:{}"
        sign: "{method}\n{host}\n{path}\n{query}\n{date}\n{nonce}\n{header:content-type}{lf}{header:X-List}\n{body_sha256}"
        hash: sha512
        encoding: base64
        key: base64
        timestamp: Date
        nonce: X-Nonce
$(dest two.test ", alpn: [$2]")
    allow: [ "GET /**" ]
    inject:
      - { secret: plain, as: bearer }
      - { secret: pay, as: hmac, name: X-Signature, sign: "{timestamp_ms}{{{header:authorization}}", timestamp: X-Stamp }
      - { secret: other, as: hmac, name: X-Second, sign: "{target}", hash: sha1, encoding: base64url }
P
}
printf '%s\n' "$B64" >"$T/key"
chmod 600 "$T/key"
in_box() { local p=$1; shift; (cd "$WORK" && PAY_REAL=$KEY OTHER_REAL=$OTHER PLAIN_REAL=planted-bearer-5f0e2d77 timeout 120 "$SP" run --quiet --policy "$p" -- "$@"); }
cat >"$WORK/go.sh" <<'S'
c() { curl -sS -m 60 "$@"; echo; }
echo "variable $PAY_KEY"
c https://pay.test/v1/a
c "https://pay.test/v1/a%20b?x=1&y=%2F"
c -d '{"amount":1}' https://pay.test/v1/pay
c -H 'X-Signature: t=1,v1=mine' -H 'x_signature: also mine' -d x https://pay.test/v1/own
c -H 'Range: bytes=0-3' https://pay.test/v1/range
c -H 'Transfer-Encoding: chunked' -T - -X POST https://pay.test/v1/chunked <large
c --data-binary @large https://pay.test/v1/large
c --data-binary @toolarge https://pay.test/v1/toolarge
for i in 1 2 3; do c -H 'X-List: a' -H 'X-List: b, c' -H 'Content-Type: text/odd' -H 'X-Nonce: 00' -H 'Date: yesterday' -d "content $i" "https://bin.test/x?q=$i"; done
c https://bin.test/x
c "https://two.test/a?b"
S
cat >"$WORK/many.py" <<'P'
import concurrent.futures, json, urllib.request
def one(i):
    return json.load(urllib.request.urlopen(urllib.request.Request("https://pay.test/v1/many?%d" % i, b"m" * (i * 9000)), timeout=60))
with concurrent.futures.ThreadPoolExecutor(24) as p: got = list(p.map(one, range(120)))
print("many", sum(g["judged"] == "right" and g["length"] == i * 9000 for i, g in enumerate(got)))
P
head -c 3000000 /dev/urandom >"$WORK/large"
head -c 4300000 /dev/urandom >"$WORK/toolarge"
for v in http/1.1 h2; do
	tag=h1
	[ $v = h2 ] && tag=h2
	policy $tag.yaml $v
	forget
	in_box $tag.yaml sh ./go.sh >"$T/out" 2>&1
	check "$v: every signature is right" test "$(grep -c "\"judged\": \"right\", \"version\": \"$tag\"" "$T/out")" = 12
	hasnt "$v: none is wrong" "$T/out" '"judged": "wrong'
	has "$v: 3 MB of content in many parts" "$T/out" '"length": 3000000'
	has "$v: more than can be held is refused" "$T/out" '"error":"too_large"'
	has "$v: nothing of the key is sent, so that ranges pass" "$T/out" 'bytes=0-3'
	comes "$v: what the sandbox sent in these fields is gone" 0 '"mine" in str(r["headers"]) or head("x-nonce") == "00" or head("date") == "yesterday"'
	if grep '^variable ' "$T/out" | grep -qv -e '^variable $' -e "$KEY"; then ok "$v: the variable holds a placeholder"; else not_ok "$v: the variable holds a placeholder" "$(head -3 "$T/out")"; fi
	in_box $tag.yaml /usr/bin/python3 many.py >"$T/out2" 2>&1
	has "$v: 120 requests, many at a time, of up to 1 MB" "$T/out2" "many 120"
	for w in "$KEY" "$B64" "$OTHER"; do nowhere "$v: ${w:0:19} is nowhere that it must not be" "$w" "$T/out" "$T/out2" "$LOG"; done
done
records >"$T/records"
grep '"kind":"secret"' "$T/records" >"$T/used"
has "the use of the key is recorded" "$T/used" "used as hmac"

# --- while a sandbox lives -----------------------------------------------------------------------------------------------
cat >"$WORK/lives.sh" <<'S'
curl -sS -m 20 -o first https://pay.test/v1/lives
curl -sS -m 20 -o second https://bin.test/x
touch lives
n=0
while [ ! -e stop ]; do
	[ ! -e go ] || { rm go; n=$((n + 1)); curl -sS -m 20 https://pay.test/v1/again >answer.new 2>&1; mv answer.new answer.$n; }
	sleep 0.05
done
S
in_box h1.yaml sh ./lives.sh >"$T/out" 2>&1 &
BOX=$!
PIDS+=($BOX)
wait_for 20 test -e "$WORK/lives" || not_ok "the sandbox starts" "$(cat "$T/out")"
if can_scan; then
	role_pids >"$T/pids"
	for w in "$KEY" "${B64:0:24}"; do
		# shellcheck disable=SC2046
		mem_scan "$w" $(awk '{print $2}' "$T/pids") >"$T/scan"
		awk 'NR == FNR {is[$1] = $2; next} {print $1 ": " is[$2]}' "$T/scan" "$T/pids" >"$T/roles"
		has "secrets holds ${w:0:10}: the search can find it" "$T/roles" "secrets: holds"
		if grep -v '^secrets' "$T/roles" | grep -q holds; then not_ok "no other role has ${w:0:10}, the worker neither" "$(cat "$T/roles")"; else ok "no other role has ${w:0:10}, the worker neither"; fi
	done
else
	skip "the memory of other processes can only be searched by root"
fi
again() { touch "$WORK/go"; wait_for 20 test -e "$WORK/answer.$1"; cp "$WORK/answer.$1" "$T/out"; }
again 1
has "signed again" "$T/out" '"judged": "right"'
check "revoked" "$SP" secret revoke pay
again 2
has "revoked: not signed from then on" "$T/out" '"error":"credential_unavailable"'
check "lifted" "$SP" secret forget pay
again 3
has "and again when that is lifted" "$T/out" '"judged": "right"'
touch "$WORK/stop"
wait "$BOX"
printf 'not base64!\n' >"$T/key"
in_box h1.yaml curl -sS -m 20 https://bin.test/x >"$T/out" 2>&1
has "a key in another form than the policy says: refused" "$T/out" '"error":"credential_unavailable"'
records >"$T/records"
has "and the record says why" "$T/records" "the key is not in base64"
check_done
