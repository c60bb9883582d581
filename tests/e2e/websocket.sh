#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# WebSocket in all four pairings: a client of frames by hand (ws/client.py) over HTTP/1.1 and HTTP/2 against servers that do what
# the path says (ws/origin.py) over both; then ordinary libraries against ordinary servers.
NAME=websocket
. "$(dirname "$0")/lib.sh"
can_run
python3 -c 'import h2' 2>/dev/null || { skip "no python3-h2: the scripted client and server"; exit 0; }
HERE=$(cd "$(dirname "$0")" && pwd)
make_pki "DNS:o1.test,DNS:o2.test,DNS:op.test,DNS:lim1.test,DNS:lim2.test,DNS:idle1.test,DNS:idle2.test,DNS:until1.test,DNS:until2.test,DNS:real.test,DNS:node.test,DNS:ngx.test"
O1=$(free_port) O2=$(free_port) OP=$(free_port)
export PYTHONPATH=$HERE/ws
origin() { # KIND PORT
	python3 "$HERE/ws/origin.py" "$1" "$2" "$T/$1.log" "$T/up.pem" "$T/up.key" >"$T/$1.out" 2>&1 &
	PIDS+=($!)
	wait_for 10 grep -q up "$T/$1.log" || { not_ok "the $1 origin starts" "$(cat "$T/$1.out")"; exit 1; }
}
WP=$(free_port)
origin clear "$WP"; origin h1 "$O1"; origin h2 "$O2"; origin h2plain "$OP"
UNTIL=$(date -u -d '+1 hour' +%Y-%m-%dT%H:%M:%SZ)
dest() { # HOST PORT [more lines]
	printf '  - host: %s\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { ca: ./upca.pem }\n' "$1" "$2"
	printf '    allow: [ GET /get/**, ANY /any/**, WEBSOCKET /ws/**, { method: WEBSOCKET, path: /until/**, valid: { until: %s } } ]\n    deny: [ ANY /ws/denied/** ]\n' "$UNTIL"
	[ -z "${3:-}" ] || printf '    %s\n' "$3"
}
inject='inject: [ { secret: api, as: bearer, env: API_TOKEN } ]'
policy() {
	printf 'version: 1\nname: ws\nsecrets:\n  api: { env: E2E_SECRET, hosts: [o1.test, o2.test] }\ndestinations:\n'
	dest o1.test "$O1" "$inject"; dest o2.test "$O2" "$inject"; dest op.test "$OP"
	dest lim1.test "$O1" 'limits: { request_body: 64KiB, response_body: 64KiB }'; dest lim2.test "$O2" 'limits: { request_body: 64KiB, response_body: 64KiB }'
	dest idle1.test "$O1" 'limits: { idle: 2s }'; dest idle2.test "$O2" 'limits: { idle: 2s }'
	[ -n "${1:-}" ] || return 0
	printf '  - host: plain.test\n    scheme: http\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    allow: [ WEBSOCKET /ws/** ]\n' "$WP"
}
policy all >"$WORK/policy.yaml"
cp "$HERE/h2/client.py" "$WORK/h2c.py"
cp "$HERE/ws/frames.py" "$WORK/"
cp "$HERE/ws/client.py" "$WORK/wsc.py"
part() { awk -v n="== $1" '/^== / { on = $0 == n; next } on' "$T/all" >"$T/out"; }
# said TEXT NAME LINE: the part of that name is this line
said() { part "$2"; [ "$(cat "$T/out")" = "$3" ] && ok "$1" || not_ok "$1" "wanted: $3" "$(cat "$T/out")" "$(tail -n 3 "$T/all")"; }
logged() { has "$1" "$T/$2.log" "$3"; }

# --- what passes -----------------------------------------------------------------------------------------------------------
cat >"$WORK/pass.py" <<'P'
from wsc import *
import hashlib
for up in ("1", "2"):
    for cl in ("h1", "h2"):
        host, open = "o%s.test" % up, KINDS[cl]; n = "%s-%s " % (cl, up)
        w = open(host, "/ws/echo/%s?a=b" % cl, more=[("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits"), ("Authorization", "Bearer mine"), ("X-Hop", "1"), ("Origin", "https://o.test")])
        w.text("grüße".encode()); w.binary(b"\0\xff" * 3); w.text(b""); w.text(b"one ", fin=False); w.ping(b"now"); w.send(frame(0, b"two ", fin=False, masked=True)); w.send(frame(0, b"", masked=True))
        c = []; say(n + "echo", *(w.message(c)[1] for _ in range(4)), c)
        big = os.urandom(1 << 20); w.binary(big); op, d = w.message(c); say(n + "large", op, d == big)
        for n2 in (125, 126, 65535, 65536): w.binary(b"x" * n2); assert w.message(c)[1] == b"x" * n2
        w.close(1000, b"bye"); say(n + "close", w.ended())
        say(n + "head", w.status, dict(w.head).get("set-cookie"), dict(w.head).get("sec-websocket-extensions"), dict(w.head).get("sec-websocket-protocol"))
        w = open(host, "/ws/first"); say(n + "first", *w.message()); w.close(); 
        w = open(host, "/ws/sub/chat.v2", more=[("Sec-WebSocket-Protocol", "chat.v1, chat.v2")]); say(n + "sub", dict(w.head)["sec-websocket-protocol"]); w.close(3000)
        c = []; w = open(host, "/ws/auth"); m = [w.message(c) for _ in range(3)]; say(n + "auth", *m); w.goodbye(w.message(c)[1]); say(n + "auth-control", c, w.ended())
        w = open(host, "/ws/code/4711"); say(n + "code", w.ended())
        w = open(host, "/ws/eof"); say(n + "eof", w.ended())
        w = open(host, "/ws/part"); say(n + "part", w.ended())
        w = open(host, "/ws/half"); w.text(b"last"); w.finish(); say(n + "half", *w.message(), w.ended())
        w = open(host, "/ws/events")
        for i in range(5): w.text(b"%d" % i); assert w.message() == (TEXT, b"event %d" % i), i
        say(n + "events", "one by one"); w.drop()
        w = open(host, "/ws/flood/256"); h = hashlib.sha256()
        for i in range(256): h.update(w.message()[1])
        say(n + "flood", w.message()[1].decode() == h.hexdigest()); w.close(1000)
        w = open(host, "/ws/sink"); h = hashlib.sha256(); d = os.urandom(1 << 16)
        for i in range(128): w.binary(d); h.update(d)
        w.text(b"end"); h.update(b"end"); say(n + "sink", w.message()[1].decode() == "%d %s" % (128 * 65536 + 3, h.hexdigest())); w.close(1000)
P
run python3 pass.py >"$T/all" 2>&1
stars=$(printf '%*s' ${#SECRET} '' | tr ' ' '*')
for up in 1 2; do for cl in h1 h2; do
	n="$cl to h$up" p="$cl-$up"
	said "UC02 $n: text, binary, fragments and control frames come back" "$p echo" "b'gr\\xc3\\xbc\\xc3\\x9fe' b'\\x00\\xff\\x00\\xff\\x00\\xff' b'' b'one two ' [(10, b'now')]"
	said "UC02 $n: a MiB in a frame" "$p large" "2 True"
	said "UC02 $n: a close comes back, then the end" "$p close" "close 1000 end"
	[ $cl = h1 ] && st=101 || st=200
	said "$n: the answer's head, its secret overwritten, no extension" "$p head" "$st seen=Bearer $stars None None"
	said "UC02 $n: who speaks first, in the segment of the answer, is heard" "$p first" "1 b'first words'"
	said "$n: the chosen subprotocol" "$p sub" "chat.v2"
	said "J09,J10 $n: secrets in messages, whole, in fragments, octet by octet" "$p auth" "(1, b'whole Bearer $stars') (1, b'Bearer $stars') (2, b'octets Bearer $stars')"
	part "$p auth-control"; has "J09 $n: and in control frames" "$T/out" "(9, b'Bearer $stars'), (8, b'\\x0f\\xa1Bearer $stars')] end"
	said "UC02 $n: other codes pass" "$p code" "close 4711 end"
	said "UC02 $n: an end without a Close frame stays one" "$p eof" "end"
	part "$p part"; grep -qx 'cut\|reset' "$T/out" && ok "$n: an end within a frame is noticed" || not_ok "$n: an end within a frame is noticed" "$(cat "$T/out")"
	said "$n: who says no more is still told" "$p half" "1 b'still here' close 1000 end"
	said "$n: each message arrives before the next is sent" "$p events" "one by one"
	said "$n: 16 MiB down" "$p flood" True
	said "$n: 8 MiB up" "$p sink" True
	[ $up = 1 ] && line="head HTTP/1.1 GET /ws/echo/$cl?a=b accept-encoding=identity authorization=Bearer $SECRET" || line="head HTTP/2 CONNECT /ws/echo/$cl?a=b :authority=o2.test :method=CONNECT :path=/ws/echo/$cl?a=b :protocol=websocket :scheme=https"
	logged "I07 $n: the credential is in the handshake" h$up "$line"
	grep -F "/ws/echo/$cl?" "$T/h$up.log" >"$T/seen"
	has "I07 $n: it replaces what the sandbox sent" "$T/seen" "authorization=Bearer $SECRET"
	hasnt "I07 $n: no extension is offered" "$T/seen" permessage
	has "$n: Origin passes" "$T/seen" "origin=https://o.test"
	has "$n: the version" "$T/seen" "sec-websocket-version=13"
done; done
has "UA16,B02 toward HTTP/1.1 the handshake has its two fields, and no more of them" "$T/h1.log" "connection=Upgrade"
hasnt "toward HTTP/2 there is no key" "$T/h2.log" "sec-websocket-key"
hasnt "no secret in any frame" "$T/all" "$SECRET"

# --- what is refused, and what is no answer ------------------------------------------------------------------------------------
cat >"$WORK/refuse.py" <<'P'
from wsc import *
import json
def show(e): 
    try: j = json.loads(e.body); return e.status, j["error"], j["method"], j.get("allowed")
    except ValueError: return e.status, e.body.decode("latin-1")[:90], e.head.get("x-more")
for up in ("1", "2"):
    for cl in ("h1", "h2"):
        host = "o%s.test" % up; n = "%s-%s " % (cl, up)
        for path in ("/any/x", "/get/x", "/ws/denied/x", "/nowhere"): say(n + "denied " + path, *show(refused(cl, host, path)))
        for code in ("200", "301", "401", "426", "503")[int(up) - 1:]: say(n + "status " + code, *show(refused(cl, host, "/ws/status/" + code)))
        for path in ("ext", "sub/unasked"): say(n + "bad " + path, *show(refused(cl, host, "/ws/" + path)))
        say(n + "bad offer", *show(refused(cl, host, "/ws/echo", more=[("Sec-WebSocket-Protocol", 'a, "b"')])))
    for what in ("no-upgrade", "other-upgrade", "no-connection", "no-accept", "other-accept", "two-accepts", "chunked", "1.0"):
        if up == "1":
            for cl in ("h1", "h2"): say("%s-1 bad %s" % (cl, what), *show(refused(cl, "o1.test", "/ws/bad/" + what)))
w = WS1("o1.test", "/ws/bad/length"); w.ping(); say("length", "101"); w.drop()
try: WS1("o1.test", "/get/unasked", raw=["X: y"])
except Refused as e: say("plain", *show(e))
F = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]; K = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
for i, raw in enumerate((F, F + ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZR=="], F[:2] + [K], F[:2] + [K, "Sec-WebSocket-Version: 8"], F + [K, "Content-Length: 5"], F + [K, "Transfer-Encoding: chunked"], ["Connection: Upgrade, Sec-WebSocket-Key"] + F[1:] + [K])):
    try: WS1("o1.test", "/ws/echo", raw=raw)
    except Refused as e: say("handshake %d" % i, *show(e)[:2])
for i, raw in enumerate((["Connection: keep-alive, UPGRADE", "Upgrade: WebSocket", F[2]], ["Connection: Upgrade, X-Internal", "X-Internal: secretive", *F[1:]])):
    w = WS1("o1.test", "/ws/echo/fields", raw=raw + ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="], key="AAAAAAAAAAAAAAAAAAAAAA=="); w.text(b"x"); say("fields %d" % i, w.message()); w.close()
# a refused handshake leaves the connection as it was, and what came behind it is HTTP
s = ssl.create_default_context().wrap_socket(socket.create_connection(("o1.test", 443)), server_hostname="o1.test"); s.settimeout(20)
hs = "GET %s HTTP/1.1\r\nHost: o1.test\r\n" + "\r\n".join(F + [K]) + "\r\n\r\n"
s.sendall((hs % "/ws/status/401" + hs % "/nowhere" + "GET /get/after HTTP/1.1\r\nHost: o1.test\r\nConnection: close\r\n\r\n").encode()); d = b""
while True:
    x = s.recv(65536); d += x
    if not x: break
say("stays", [x.split(b" ")[1].decode() for x in d.split(b"HTTP/1.1 ") and [b"x " + y[:3] for y in d.split(b"HTTP/1.1 ")[1:]]])
# frames before the answer are frames, if it switches
w = WS1("o1.test", "/ws/echo", early=frame(TEXT, b"early", masked=True)); say("early", w.message()); w.close()
w = WS1("op.test", "/ws/echo"); w.text(b"over one"); say("op h1", w.message()); w.close()
w = WS2("op.test", "/ws/echo"); w.text(b"over one"); say("op h2", w.message()); w.close()
k = Client("op.test"); st = k.get("/get/x"); say("op get", st.status()); w = WS2("op.test", "/ws/echo/again", conn=k); w.text(b"again"); say("op again", w.message()); st = k.get("/get/y"); say("op still", st.status()); w.close()
k = Client("o1.test"); sid = k.request("/ws/echo", "CONNECT", end=False, more=[(":protocol", "h2c")]); say("protocol", k.wait(sid).reset)
k = Client("o1.test"); sid = k.request("/ws/echo", "CONNECT", end=True, more=[(":protocol", "websocket"), ("sec-websocket-version", "13")]); say("no stream", k.wait(sid).reset)
k = Client("o1.test"); ws = [WS2("o1.test", "/ws/echo", conn=k) for _ in range(20)]
for i, w in enumerate(ws): w.text(b"%d" % i)
say("many", all(w.message() == (TEXT, b"%d" % i) for i, w in enumerate(ws)))
P
run python3 refuse.py >"$T/all" 2>&1
for up in 1 2; do for cl in h1 h2; do
	n="$cl to h$up" p="$cl-$up"
	for path in /any/x /get/x /nowhere; do
		part "$p denied $path"; has "I02 $n: $path has no WEBSOCKET rule" "$T/out" "403 policy_denied WEBSOCKET"
	done
	part "$p denied /ws/denied/x"; has "I02 $n: a deny of ANY denies it" "$T/out" "403 policy_denied WEBSOCKET"
	[ $up$cl = 1h2 ] && said "I03 $n: content is no answer to it" "$p status 200" "502 upstream_protocol WEBSOCKET []"
	[ $cl = h1 ] && [ $up = 1 ] && said "I03 $n: 200 stays HTTP" "$p status 200" "200 no WebSocket here, you sent Bearer $stars 1"
	for code in 301 401 426 503; do said "I03 $n: $code stays HTTP" "$p status $code" "$code no WebSocket here, you sent Bearer $stars 1"; done
	for b in ext sub/unasked; do said "I04 $n: an answer with $b" "$p bad $b" "502 upstream_protocol WEBSOCKET []"; done
	part "$p bad offer"; has "I04 $n: subprotocols that are no names" "$T/out" "400 malformed_request"
done; done
for b in no-upgrade other-upgrade no-connection no-accept other-accept two-accepts chunked 1.0; do for cl in h1 h2; do
	said "I04 $cl: an answer with $b" "$cl-1 bad $b" "502 upstream_protocol WEBSOCKET []"
done; done
said "K13 a length in the answer is dropped" length 101
said "I10 a 101 that nobody asked for" plain "502 upstream_protocol GET []"
for i in 0 1 2 3 4 5 6; do said "I04 broken handshake $i" "handshake $i" "400 malformed_request"; done
for i in 0 1; do said "UA16,B02 the two fields in other forms ($i)" "fields $i" "(1, b'x')"; done
hasnt "UA16,B02 nominated fields do not pass" "$T/h1.log" "secretive"
said "I03 what follows an answer is HTTP" stays "['401', '403', '200']"
said "UC02 early frames are not lost" early "(1, b'early')"
for i in h1 h2; do said "an upstream without RFC 8441 is asked over HTTP/1.1, unnoticed ($i)" "op $i" "(1, b'over one')"; done
said "requests go over its HTTP/2" "op get" 200
said "beside which a WebSocket has a connection of its own" "op again" "(1, b'again')"
said "and the first one goes on" "op still" 200
logged "HTTP/1.1 was spoken there" h2plain "head HTTP/1.1 GET /ws/echo/again"
logged "HTTP/2 too" h2plain "head HTTP/2 GET /get/y"
said "C16 another protocol" protocol 1
said "C16 without a stream" "no stream" 1
said "20 on one connection" many True

# --- hostile frames (I06) ---------------------------------------------------------------------------------------------------------
cat >"$WORK/hostile.py" <<'P'
from wsc import *
for up in ("1", "2"):
    for cl in ("h1", "h2"):
        host = "o%s.test" % up; n = "%s-%s " % (cl, up)
        for what in HOSTILE:
            w = KINDS[cl](host, "/ws/sink/client-" + what); w.send(hostile(what, True)); say(n + "client " + what, w.ended())
            w = KINDS[cl](host, "/ws/hostile/" + what); say(n + "server " + what, w.ended())
        w = KINDS[cl]("lim%s.test" % up, "/ws/sink"); w.binary(b"x" * 65536); w.text(b"end"); assert w.message()[1].startswith(b"65539 "); w.binary(b"x" * 40000, fin=False); w.send(frame(0, b"y" * 40000, masked=True)); say(n + "large up", w.ended())
        w = KINDS[cl]("lim%s.test" % up, "/ws/big/65536"); assert len(w.message()[1]) == 65536; w.close(); w = KINDS[cl]("lim%s.test" % up, "/ws/big/65537"); say(n + "large down", w.ended())
        w = KINDS[cl]("idle%s.test" % up, "/ws/sink"); w.ping(b"x"); say(n + "idle", w.ended())
        w = KINDS[cl](host, "/ws/late"); w.close(1000); w.text(b"too late"); say(n + "late", w.ended())
P
run python3 hostile.py >"$T/all" 2>&1
for up in 1 2; do for cl in h1 h2; do
	n="$cl to h$up" p="$cl-$up"
	for what in mask ping-mask rsv1 rsv2 rsv3 opcode3 opcode11 control-fragmented control-long length16 length64 length-sign continuation interleaved close1 close-code close-utf8 text-utf8 text-utf8-within; do
		case $what in *-utf8*) code=1007 ;; *) code=1002 ;; esac
		said "I06 $n: the client's $what ends both" "$p client $what" "close $code end"
		want='\(op1 \)*close 1014 end'
		[ $what != text-utf8-within ] || want=reset # within a frame that has begun no Close can stand
		part "$p server $what"; grep -qx "$want" "$T/out" && ok "I06 $n: the server's $what ends both" || not_ok "I06 $n: the server's $what ends both" "$(cat "$T/out")"
	done
	said "I06 $n: a message over the limit, in fragments" "$p large up" "close 1009 end"
	said "I06 $n: one of the server's" "$p large down" "close 1009 end"
	said "I05 $n: the idle limit" "$p idle" "close 1001 end"
	said "$n: a Close frame is answered" "$p late" "close 1000 end"
done; done
for up in 1 2; do
	[ "$(grep -c '^late 8' "$T/h$up.log")" -eq 2 ] && ok "h$up: Close frames arrive" || not_ok "h$up: Close frames arrive" "$(grep late "$T/h$up.log")"
	hasnt "h$up: behind them nothing is heard" "$T/h$up.log" "too late"
done
wait_for 10 eval '[ "$(record_count "\"code\":\"malformed_request\"" "\"reason\":\"ws_mask\"" "\"closed_by\":\"gateway\"")" -ge 8 ]'
[ "$(record_count '"code":"malformed_request"' '"reason":"ws_mask"' '"closed_by":"gateway"' '"decision":"deny"')" -eq 8 ] && ok "I06 recorded with the fault" || not_ok "I06 recorded with the fault" "$(records | grep ws_ | head -n 3)"
[ "$(record_count '"code":"upstream_protocol"' '"reason":"ws_mask"')" -eq 8 ] && ok "I06 the server's too" || not_ok "I06 the server's too"
[ "$(record_count '"code":"upstream_timeout"' '"reason":"limits.idle"' '"close_code":1001')" -eq 4 ] && ok "I05 the idle limit is recorded" || not_ok "I05 the idle limit is recorded"
grep -c 'got /ws/sink' "$T/h1.log" "$T/h2.log" >"$T/out" || true
hasnt "I06 nothing of a faulty frame reaches the other side" "$T/h1.log" "AssertionError"

# --- other ways in, back-pressure -------------------------------------------------------------------------------------------------
cat >"$WORK/ways.py" <<'P'
from wsc import *
import hashlib, http.client, json, time
for name, host, k in (("transparent", "plain.test", {"port": 80}), ("absolute", "plain.test", {"port": 80, "proxy": "absolute"}), ("connect 80", "plain.test", {"port": 80, "proxy": "connect"}), ("connect 443", "o1.test", {"proxy": "connect"})):
    w = WS1(host, "/ws/echo", **k); w.text(b"hello"); m = w.message(); w.close(1000); say("way " + name, *m, w.ended())
    e = refused("h1", host, "/nowhere", **k); say("no way " + name, e.status, json.loads(e.body)["error"])
def get(host, path):
    c = http.client.HTTPSConnection(host, context=ssl.create_default_context(), timeout=30); c.request("GET", path); return c.getresponse().read().decode()
for up in "12":
    for cl in ("h1", "h2"):
        host = "o%s.test" % up; name = "flood/1024/" + cl
        w = KINDS[cl](host, "/ws/" + name)
        if cl == "h2": w.k.slow.add(w.id)
        same, last = 0, None
        while same < 20: # until it does not come further
            now = get(host, "/get/progress/" + name); same, last = same + 1 if now == last else 0, now; time.sleep(0.05)
        said = int(last) < 512
        if cl == "h2": w.k.slow.clear(); w.k.c.increment_flow_control_window(1 << 24, w.id); w.k.flush()
        h = hashlib.sha256()
        for i in range(1024): h.update(w.message()[1])
        say("%s-%s down" % (cl, up), said, w.message()[1].decode() == h.hexdigest()); w.close(1000)
        w = KINDS[cl](host, "/ws/sink/wait/" + cl); d = os.urandom(1 << 16); f = frame(BINARY, d, masked=True); n = 0
        # an upstream that does not read is heard of: we cannot write for ever
        if cl == "h1":
            w.s.settimeout(2)
            try:
                while n < 1024: w.send(f); n += 1
            except TimeoutError: pass
            say("%s-%s up" % (cl, up), n < 1024)
        else:
            k = w.k; k.s.settimeout(2); data = f * 1024; at = 0
            try:
                while at < len(data):
                    m = min(len(data) - at, k.c.local_flow_control_window(w.id), k.c.max_outbound_frame_size)
                    if m > 0: k.c.send_data(w.id, data[at:at + m]); at += m; k.flush()
                    else: k.turn()
            except TimeoutError: pass
            say("%s-%s up" % (cl, up), at < len(data))
        w.drop(); get(host, "/get/go/" + cl)
P
run python3 ways.py >"$T/all" 2>&1
for w in transparent absolute "connect 80" "connect 443"; do
	said "I05 $w" "way $w" "1 b'hello' close 1000 end"
	said "I05 $w: decided" "no way $w" "403 policy_denied"
done
for up in 1 2; do for cl in h1 h2; do
	said "UB06 $cl to h$up: a client that does not read stops the upstream, and loses nothing" "$cl-$up down" "True True"
	said "UB06 $cl to h$up: an upstream that does not read stops the client" "$cl-$up up" "True"
done; done

# --- rules that go away --------------------------------------------------------------------------------------------------------------
cat >"$WORK/withdraw.py" <<'P'
from wsc import *
path = sys.argv[1]
ws = [("%s-%s" % (cl, up), KINDS[cl]("o%s.test" % up, path), KINDS[cl]("o%s.test" % up, "/ws/sink/kept")) for up in "12" for cl in ("h1", "h2")]
for n, gone, kept in ws: gone.text(b"a"); gone.message()
ws[0][1].text(b"half", fin=False); open("open", "w").close()
for n, gone, kept in ws: say(n + " gone", gone.ended().replace("op1 ", "")); kept.text(b"end"); say(n + " kept", kept.message()[1][:2]); kept.close(1000)
P
mkdir "$T/pol"; cp "$T/upca.pem" "$T/pol/"; chmod 755 "$T/pol"; chmod 644 "$T/pol/upca.pem"
withdraw() { # NAME PATH, then what withdraws
	rm -f "$WORK/open"; chmod 777 "$WORK"
	(cd "$WORK" && E2E_SECRET=$SECRET exec timeout 60 "$SP" run --quiet --policy "$T/pol/ws.yaml" -- python3 withdraw.py "$2") >"$T/all" 2>&1 &
	local pid=$!
	PIDS+=($pid)
	wait_for 30 test -e "$WORK/open" || not_ok "$1: the WebSockets open" "$(cat "$T/all")"
	"$3"
	wait $pid
	for up in 1 2; do for cl in h1 h2; do
		said "$1, $cl to h$up: ended with it" "$cl-$up gone" "close 1008 end"
		said "$1, $cl to h$up: the other goes on" "$cl-$up kept" "b'3 '"
	done; done
}
another() { policy | sed 's#WEBSOCKET /ws/\*\*,#WEBSOCKET /ws/sink/**,#' >"$T/pol/new"; mv "$T/pol/new" "$T/pol/ws.yaml"; }
policy >"$T/pol/ws.yaml"
withdraw "a policy without the rule" /ws/echo/withdrawn another
UNTIL=$(date -u -d '+12 seconds' +%Y-%m-%dT%H:%M:%SZ)
policy | sed 's#path: /until/\*\*#path: /ws/echo/until#; s#WEBSOCKET /ws/\*\*,#WEBSOCKET /ws/sink/**,#' >"$T/pol/ws.yaml"
withdraw "a rule whose time is over" /ws/echo/until true
for p in withdrawn until; do
	[ "$(record_count '"path":"/ws/echo/'$p'"' '"code":"policy_denied"' '"reason":"policy_changed"' '"close_code":1008' '"closed_by":"gateway"')" -eq 4 ] && ok "$p: recorded so" || not_ok "$p: recorded so" "$(records | grep -F "/ws/echo/$p" | tail -n 2)"
	[ "$(cat "$T/h1.log" "$T/h2.log" | grep -c "^closed /ws/echo/$p 03e9")" -eq 4 ] && ok "$p: the upstreams are told" || not_ok "$p: the upstreams are told" "$(grep "$p" "$T/h1.log" "$T/h2.log")"
done

# --- budgets -------------------------------------------------------------------------------------------------------------------
policy | sed 's#WEBSOCKET /ws/\*\*,#{ method: WEBSOCKET, path: /ws/**, limits: { upload: 4KiB/h } },#' >"$WORK/policy.yaml"
cat >"$WORK/budget.py" <<'P'
from wsc import *
for up, cl in (("1", "h1"), ("2", "h2")):
    w = KINDS[cl]("o%s.test" % up, "/ws/echo/budget"); n = "%s-%s " % (cl, up)
    w.binary(b"x" * 600); say(n + "within", w.message()[1] == b"x" * 600)
    w.binary(b"x" * 5000); say(n + "over", w.ended())
P
run python3 budget.py >"$T/all" 2>&1
for n in h1-1 h2-2; do
	said "$n: within the budget" "$n within" True
	said "$n: beyond it the WebSocket ends" "$n over" "close 1008 end"
done
[ "$(record_count '"path":"/ws/echo/budget"' '"code":"limit_exceeded"' '"reason":"limits.upload 4096/h"')" -eq 2 ] && ok "a budget of a WebSocket is recorded" || not_ok "a budget of a WebSocket is recorded" "$(records | grep -F /ws/echo/budget)"

# --- the record ---------------------------------------------------------------------------------------------------------------------
records | python3 -c '
import json, sys
for l in sys.stdin:
    o = json.loads(l); s = o["unmapped"]["sallyport"]; h = o.get("http_request", {})
    if "websocket" in s and h["url"].get("path") == "/ws/code/4711":
        w = s["websocket"]; print(s["client_protocol"], s["upstream_protocol"], h["http_method"], o["http_response"]["code"], s["decision"], w["close_code"], w["closed_by"], w["messages_in"], w["messages_out"], o["traffic"]["bytes_out"])
    if "websocket" in s and h["url"].get("path") == "/ws/sub/chat.v2": print("sub", s["websocket"]["subprotocol"], s["websocket"]["closed_by"], s["websocket"]["close_code"])' | sort >"$T/out"
for c in 1.1 2; do for u in 1.1 2; do has "I05 one record at the end, with its code, HTTP/$c to HTTP/$u" "$T/out" "HTTP/$c HTTP/$u WEBSOCKET 101 allow 4711 upstream 0 0 15"; done; done
has "I05 with the subprotocol, and who closed" "$T/out" "sub chat.v2 client 3000"
[ "$(record_count '"path":"/ws/code/4711"')" -eq 4 ] && ok "I05 one each" || not_ok "I05 one each"
hasnt "no secret in the records" <(records) "$SECRET"
check_done
