#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `as: placeholder, in: [websocket]`: messages of a client of frames by hand (ws/client.py) over HTTP/1.1 and HTTP/2 toward servers of
# both (UC03), cut at every octet; values of another length, that are not there yet, not any more, rotated; the tripwire in messages.
NAME=creds-websocket
. "$(dirname "$0")/creds-lib.sh"
can_run
python3 -c 'import h2' 2>/dev/null || { skip "no python3-h2: the scripted client and server"; exit 0; }
HERE=$(cd "$(dirname "$0")" && pwd)
make_pki "DNS:o1.test,DNS:o2.test,DNS:other.test"
O1=$(free_port) O2=$(free_port)
export PYTHONPATH=$HERE/ws
for k in h1 h2; do
	[ $k = h1 ] && p=$O1 || p=$O2
	python3 "$HERE/ws/origin.py" $k "$p" "$T/$k.log" "$T/up.pem" "$T/up.key" >"$T/$k.out" 2>&1 &
	PIDS+=($!)
	wait_for 10 grep -q up "$T/$k.log" || { not_ok "the $k origin starts" "$(cat "$T/$k.out")"; exit 1; }
done
REAL=planted-websocket-2f61c0aa97d4e38b LONG='planted"with\quotes and words, and longer than what stands for it: 77f1' STRICT=planted-strict-1b7ce0d95a24f86c
RAW=$T/raw.secret TURN=$T/turn.secret
umask 077
printf 'planted-binary-\377\376-00112233' >"$RAW"
printf 'planted-first-8842c1aa' >"$TURN"
umask 022
d() { printf '  - host: %s\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { ca: ./upca.pem }\n' "$1" "$2"; }
policy() { # more rules
	cat <<P
version: 1
name: messages
secrets:
  api: { env: API_REAL, hosts: [o1.test, o2.test] }
  long: { env: LONG_REAL, hosts: [o1.test, o2.test] }
  strict: { env: STRICT_REAL, hosts: [o1.test, o2.test], body: deny }
  raw: { file: $RAW, hosts: [o1.test] }
  turn: { file: $TURN, hosts: [o1.test, o2.test] }
destinations:
P
	for h in o1:$O1 o2:$O2; do
		k=${h%:*}
		d "$k.test" "${h#*:}"
		cat <<P
    allow: [ { id: $k-in, method: WEBSOCKET, path: /ws/hear/in/** }, { id: $k-out, method: WEBSOCKET, path: /ws/hear/out/** }, { id: $k-turn, method: WEBSOCKET, path: /ws/hear/turn/** }${1:+, { id: $k-$1, method: GET, path: /$1 \}} ]
    inject:
      - { secret: api, as: placeholder, in: [websocket], when: [$k-in], env: API_TOKEN }
      - { secret: long, as: placeholder, in: [websocket, header], name: X-Long, when: [$k-in], env: LONG_TOKEN }
      - { secret: turn, as: placeholder, in: [websocket], when: [$k-turn], env: TURN_TOKEN }
      - { secret: strict, as: bearer, env: STRICT_TOKEN }
P
		[ "${h%:*}" != o1 ] || echo '      - { secret: raw, as: placeholder, in: [websocket], when: [o1-turn], env: RAW_TOKEN }'
	done
	d other.test "$O1"
	echo '    allow: [ WEBSOCKET /ws/** ]'
}
mkdir "$T/policy" # not where the sandbox writes: it is followed
cp "$T/upca.pem" "$T/policy/"
policy >"$T/policy/policy.yaml"
cp "$HERE/h2/client.py" "$WORK/h2c.py"
cp "$HERE/ws/frames.py" "$WORK/"
cp "$HERE/ws/client.py" "$WORK/wsc.py"
start() { (cd "$WORK" && API_REAL=$REAL LONG_REAL=$LONG STRICT_REAL=$STRICT timeout 120 "$SP" run --quiet --policy "$T/policy/policy.yaml" -- python3 "$@"); }
part() { awk -v n="== $1" '/^== / { on = $0 == n; next } on' "$T/all" >"$T/out"; }
said() { part "$2"; [ "$(cat "$T/out")" = "$3" ] && ok "$1" || not_ok "$1" "wanted: $3" "$(cat "$T/out")" "$(tail -n 3 "$T/all")"; }
# heard TEXT h1|h2 PATH LINE...: just these frames came, in this order
heard() {
	local t=$1 log=$T/$2.log p=$3
	shift 3
	grep -F "heard $p " "$log" | sed "s|^heard $p ||" >"$T/frames"
	printf '%s\n' "$@" | diff - "$T/frames" >"$T/diff" && ok "$t" || not_ok "$t" "$(cat "$T/diff")"
}
stars() { printf '%*s' ${#1} '' | tr ' ' '*'; }

# --- filled ----------------------------------------------------------------------------------------------------------------
cat >"$WORK/fill.py" <<'P'
from wsc import *
import hashlib
A, L, S, R = (os.environ[x + "_TOKEN"].encode() for x in ("API", "LONG", "STRICT", "RAW"))
print("== lengths"); print(len(A), len(L))
for up in ("1", "2"):
    for cl in ("h1", "h2"):
        host, open, n = "o%s.test" % up, KINDS[cl], "%s-%s" % (cl, up)
        w = open(host, "/ws/hear/in/whole/" + n, more=[("Sec-WebSocket-Extensions", "permessage-deflate")])
        w.text(b'{"op":2,"token":"' + A + b'","again":"' + A + b'"}'); say(n + " whole", w.message()[1].decode())
        w.text(b'42["auth","' + L + b'"]'); w.message(); w.text(b"login " + L); w.message(); w.binary(b"\xff" + A + b"\0"); w.message()
        w.text(b"gr\xc3\xbc\xc3\x9fe " + A[:-1]); w.message(); w.text(b""); w.message(); w.ping(b"now"); assert w.message() == (PONG, b"now"); w.close(1000, b"bye"); say(n + " close", w.ended())
        # every octet: two fragments; frames, headers and masks of one octet each
        w = open(host, "/ws/hear/in/cut/" + n); m = b"<" + A + b">"
        for i in range(len(m) + 1):
            w.send(frame(TEXT, m[:i], fin=False, masked=True) + frame(PING, b"p", masked=True) + frame(0, m[i:], masked=True))
            assert w.message() == (PONG, b"p") and w.message() == (TEXT, b"you said <" + b"*" * len(A) + b">"), i
        for c in frame(TEXT, m, masked=True): w.send(bytes([c]))
        say(n + " octets", w.message()[1].decode())
        for k in range(len(m)): w.send(frame(0 if k else TEXT, m[k:k + 1], fin=k == len(m) - 1, masked=True))
        say(n + " fragments", w.message()[1].decode()); w.close(1000); w.ended()
        # large: of one frame, many in it, and two messages do not make one
        w = open(host, "/ws/hear/in/large/" + n); big = (b"x" * 997 + L) * 600; w.text(big); w.message()
        print("== " + n + " large"); print(len(big.replace(L, b"")), big.count(L))
        w.text(b"<" + A[:9]); w.message(); w.text(A[9:] + b">"); w.message(); w.text(A.upper()); w.message(); w.close(1000); w.ended()
# what the rule does not name, and what stands in the handshake
for cl in ("h1", "h2"):
    for where, k in (("path", dict(path="/ws/hear/in/" + A.decode())), ("query", dict(path="/ws/hear/in/x?a=" + A.decode())), ("field", dict(path="/ws/hear/in/x", more=[("X-Other", A.decode())]))):
        say(cl + " head " + where, refused(cl, "o1.test", **k).status)
    w = KINDS[cl]("o1.test", "/ws/hear/in/head-" + cl, more=[("X-Long", L.decode())]); w.text(b"x"); w.message(); w.close(1000); w.ended()
    w = KINDS[cl]("o1.test", "/ws/hear/out/" + cl); w.text(b"out " + A); say(cl + " out", w.message()[1].decode() == "you said out " + A.decode()); w.ping(L); w.message(); w.close(1000); w.ended()
    w = KINDS[cl]("other.test", "/ws/hear/other/" + cl); w.text(b"other " + A.hex().encode()); w.message(); w.close(1000, A[:100]); w.ended()
    for kind, d in (("message", frame(TEXT, b"strict " + S + b" more", masked=True)), ("ping", frame(PING, S, masked=True)), ("close", close(4000, S[:120], masked=True)), ("base64", frame(TEXT, b"strict " + base64.b64encode(S), masked=True)), ("escaped", frame(TEXT, b"".join(b"\\u%04x" % c for c in S), masked=True))):
        w = KINDS[cl]("other.test", "/ws/hear/strict/%s-%s" % (kind, cl)); w.send(d); say("%s strict %s" % (cl, kind), w.ended())
    w = KINDS[cl]("o1.test", "/ws/hear/in/strict-" + cl); w.text(b"both " + A + b" " + S); say(cl + " strict both", w.ended())
    # what is no UTF-8 cannot stand in a text
    w = KINDS[cl]("o1.test", "/ws/hear/turn/raw-" + cl); w.binary(b"raw " + R); w.message(); w.text(b"raw " + R); say(cl + " raw", w.ended())
P
start fill.py >"$T/all" 2>&1
LJ='planted"with\\quotes and words, and longer than what stands for it: 77f1' # as bytes are printed
part lengths
read -r la _ <"$T/out" || { not_ok "the sandbox runs" "$(tail -n 5 "$T/all")"; exit 1; }
check "the placeholder has the value's length" test "$la" = ${#REAL}
for up in 1 2; do for cl in h1 h2; do
	n="$cl to h$up" p="$cl-$up"
	said "J03 $n: what comes back is overwritten" "$p whole" "you said {\"op\":2,\"token\":\"$(stars "$REAL")\",\"again\":\"$(stars "$REAL")\"}"
	J='42["auth","planted\"with\\quotes and words, and longer than what stands for it: 77f1"]' X="login $LONG"
	heard "J03 $n: frames are those of the client, filled, with their new lengths; in JSON escaped" h$up "/ws/hear/in/whole/$p" \
		"1 fin $((30 + 2 * ${#REAL})) b'{\"op\":2,\"token\":\"$REAL\",\"again\":\"$REAL\"}'" "1 fin ${#J} b'$(sed 's/\\/\\\\/g' <<<"$J")'" "1 fin ${#X} b'login $LJ'" \
		"2 fin $((2 + ${#REAL})) b'\\xff$REAL\\x00'" "$(grep -F "heard /ws/hear/in/whole/$p 1 fin" "$T/h$up.log" | grep -F "b'gr\\xc3\\xbc\\xc3\\x9fe " | sed 's/.* 1 fin/1 fin/')" "1 fin 0 b''" "9 fin 3 b'now'" "8 fin 5 b'\\x03\\xe8bye'"
	hasnt "$n: what only begins like a placeholder is not one" "$T/frames" "e $REAL"
	said "$n: a close comes back" "$p close" "close 1000 end"
	check "J05 $n: cut at every octet" test "$(grep -cF "message /ws/hear/in/cut/$p $((2 + ${#REAL})) $(printf '<%s>' "$REAL" | sha256sum | cut -d' ' -f1)" "$T/h$up.log")" = $((la + 5))
	said "J05 $n: octet by octet" "$p octets" "you said <$(stars "$REAL")>"
	said "J05 $n: each octet a fragment" "$p fragments" "you said <$(stars "$REAL")>"
	part "$p large"
	read -r rest count <"$T/out"
	big=$(python3 -c 'import hashlib, sys; b = (b"x" * 997 + sys.argv[1].encode()) * 600; print(len(b), hashlib.sha256(b).hexdigest())' "$LONG")
	check "$n: a large message, many in it" test "$rest,$count" = 598200,600
	has "$n: all of it" "$T/h$up.log" "message /ws/hear/in/large/$p $big"
	grep -F "heard /ws/hear/in/large/$p" "$T/h$up.log" >"$T/seen"
	hasnt "$n: two messages do not make one, nor does another case" "$T/seen" "$REAL"
done; done
for cl in h1 h2; do
	for w in path query field; do said "J04 $cl: in the handshake's $w it is a misuse" "$cl head $w" 403; done
	has "$cl: a field that is a place is filled beside it" "$T/h1.log" "head HTTP/1.1 GET /ws/hear/in/head-$cl"
	grep -F "/ws/hear/in/head-$cl" "$T/h1.log" >"$T/seen"
	has "$cl: with the value" "$T/seen" "x-long=$LONG"
	said "J04 $cl: by another rule nothing is filled" "$cl out" True
	for w in message ping close base64 escaped; do
		said "J04 $cl: body: deny ends it at a $w" "$cl strict $w" "close 1008 end"
		grep -F "heard /ws/hear/strict/$w-$cl" "$T/h1.log" >"$T/seen"
		check "J04 $cl: and the server has nothing of the $w" test "$(grep -vc ' 8 fin 2 ' "$T/seen")" = 0
	done
	said "J04 $cl: also beside one that is filled" "$cl strict both" "close 1008 end"
	has "$cl: octets in a binary message" "$T/h1.log" "heard /ws/hear/turn/raw-$cl 2 fin $((4 + $(wc -c <"$RAW"))) b'raw planted-binary-\\xff\\xfe-00112233'"
	said "$cl: a value that is no UTF-8 ends it in a text" "$cl raw" "close 1008 end"
done
records >"$T/records"
has "J04: a finding for a placeholder in a message of another rule" "$T/records" "the placeholder of the secret api stands in the message of a WebSocket"
has "J04: and in a control frame" "$T/records" "the placeholder of the secret long stands in the control frame of a WebSocket"
has "J04: the end is recorded with its reason" "$T/records" "strict in a message"
has "the value that cannot stand there" "$T/records" "raw: the value is not UTF-8, and cannot stand in a text message"
for v in "$REAL" "$LONG" "$STRICT"; do nowhere "${v:0:15} is nowhere that it must not be" "$v" "$T/all"; done

# --- values come and go --------------------------------------------------------------------------------------------------------
cat >"$WORK/lives.py" <<'P'
from wsc import *
import time
P = os.environ["TURN_TOKEN"].encode()
def step(name):
    open(name + ".asks", "w").close()
    while not os.path.exists(name + ".go"): time.sleep(0.02)
def one(w, m): # what becomes of it
    try: w.text(m); op, d = w.message(); return d.decode("latin-1") if op == TEXT else "close %d %s" % (int.from_bytes(d[:2], "big"), d[2:].decode())
    except Ended: return "end"
    except (OSError, ssl.SSLError): return "reset"
for cl in ("h1", "h2"):
    for up in ("1", "2"):
        n = "%s-%s" % (cl, up); new = lambda what: KINDS[cl]("o%s.test" % up, "/ws/hear/turn/%s-%s" % (what, n))
        w = new("turn"); say(n + " first", one(w, b"A " + P))
        step(n + "-rotated"); say(n + " second", one(w, b"B " + P))
        step(n + "-revoked")
        say(n + " none", one(w, b"C, nothing in it")); say(n + " revoked", one(w, b"D " + P))
        step(n + "-lifted"); w = new("lifted"); say(n + " lifted", one(w, b"E " + P))
        step(n + "-reloaded"); say(n + " goes on", one(w, b"F, nothing in it")); say(n + " reloaded", one(w, b"G " + P))
        w = new("again"); say(n + " again", one(w, b"H " + P))
        step(n + "-stopped"); w.text(b"I " + P); w.text(b"behind"); w.ping(b"p")
        step(n + "-goes"); c = []; say(n + " waited", w.message(c)[1].decode(), w.message(c)[1].decode(), w.message())
        step(n + "-stopped2"); w.text(b"J " + P)
        step(n + "-dies"); say(n + " died", w.ended())
        for i in range(200): # the role is started anew
            try: w = new("back"); break
            except Refused: time.sleep(0.05)
        say(n + " back", one(w, b"K " + P)); w.text(b"last " + P); w.finish(); say(n + " half", w.message()[1].decode())
P
start lives.py >"$T/all" 2>&1 &
BOX=$!
PIDS+=($BOX)
n=0
asks() { wait_for 40 test -e "$WORK/$1.asks" || { not_ok "the sandbox comes to $1" "$(tail -n 5 "$T/all")"; exit 1; }; }
go() { touch "$WORK/$1.go"; }
turn() { (umask 077 && printf '%s' "$1" >"$TURN.new" && mv "$TURN.new" "$TURN"); }
replaced_since() { [ "$(record_count 'policy replaced')" -gt "$1" ]; }
for cl in h1 h2; do for up in 1 2; do
	p=$cl-$up
	asks $p-rotated
	turn "planted-rotated-and-longer-$p-5500aa"
	"$SP" secret forget turn >/dev/null
	go $p-rotated
	asks $p-revoked
	if [ $p = h1-1 ]; then
		roles_clean "no role but secrets and the worker has the value" "planted-rotated-and-longer"
	fi
	"$SP" secret revoke turn >/dev/null
	go $p-revoked
	asks $p-lifted
	"$SP" secret forget turn >/dev/null
	go $p-lifted
	asks $p-reloaded
	n=$((n + 1))
	before=$(record_count 'policy replaced')
	policy "n$n" >"$T/policy/next"
	mv "$T/policy/next" "$T/policy/policy.yaml"
	wait_for 20 replaced_since "$before" || not_ok "a reload" "$(records | tail -n 2)"
	go $p-reloaded
	asks $p-stopped
	"$SP" secret forget turn >/dev/null # what the worker has of it goes
	secrets_pid=$(role_pid secrets)
	if kill -STOP "$secrets_pid" 2>/dev/null; then stopped=1; else stopped=; fi
	go $p-stopped
	asks $p-goes
	if [ -n "$stopped" ]; then
		sleep 0.3
		if grep -qF "/turn/again-$p 1 fin" <(grep -F "I planted" "$T/h$up.log"); then not_ok "$p: nothing goes while the value is not there"; else ok "$p: nothing goes while the value is not there"; fi
		kill -CONT "$secrets_pid"
	fi
	go $p-goes
	asks $p-stopped2
	"$SP" secret forget turn >/dev/null
	[ -z "$stopped" ] || kill -STOP "$secrets_pid"
	go $p-stopped2
	asks $p-dies
	[ -z "$stopped" ] || kill -KILL "$secrets_pid"
	go $p-dies
done; done
wait "$BOX"
for cl in h1 h2; do for up in 1 2; do
	p=$cl-$up n="$cl to h$up" long="planted-rotated-and-longer-$cl-$up-5500aa"
	[ $p = h1-1 ] && first=planted-first-8842c1aa || first=$last
	last=$long
	said "$n: filled, and overwritten in the answer" "$p first" "you said A $(stars "$first")"
	said "J21 $n: a rotated value from the next message on" "$p second" "you said B $(stars "$long")"
	has "J21 $n: it arrives" "$T/h$up.log" "heard /ws/hear/turn/turn-$p 1 fin $((2 + ${#long})) b'B $long'"
	said "$n: after a revocation what needs it not goes on" "$p none" "you said C, nothing in it"
	said "$n: and what does ends it: try again later" "$p revoked" "close 1013 credential_unavailable"
	said "$n: lifted" "$p lifted" "you said E $(stars "$long")"
	said "$n: after a reload it goes on" "$p goes on" "you said F, nothing in it"
	said "$n: but what needs a value of the old policy ends it: connect again" "$p reloaded" "close 1012 credential_unavailable"
	said "$n: a new one is filled" "$p again" "you said H $(stars "$long")"
	said "$n: what waited for its value, and all behind it, in order" "$p waited" "you said I $(stars "$long") you said behind (10, b'p')"
	if [ -n "$stopped" ]; then said "$n: the role died while it waited" "$p died" "close 1013 end"; fi
	said "$n: and is back" "$p back" "you said K $(stars "$long")"
	said "$n: who says no more is filled, and told" "$p half" "you said last $(stars "$long")"
done; done
records >"$T/records"
has "the record says why: revoked" "$T/records" "turn: it was revoked by the operator"
has "the record says why: the policy" "$T/records" '"reason":"policy_changed'
for v in planted-first-8842c1aa planted-rotated-and-longer; do nowhere "$v is nowhere that it must not be" "$v" "$T/all"; done
check_done
