#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Streams: what is sent arrives before the next piece is, in all four pairings, with a secret bound; the Connect protocol.
NAME=streams
. "$(dirname "$0")/lib.sh"
can_run
python3 -c 'import h2' 2>/dev/null || { skip "no python3-h2: the scripted client and server"; exit 0; }
HERE=$(cd "$(dirname "$0")" && pwd)
CLIENTS=${SP_CLIENTS:-${BUILD:-$BIN}/../clients}
make_pki "DNS:s1.test,DNS:s2.test,DNS:c1.test,DNS:c2.test,DNS:free1.test,DNS:free2.test"
S1=$(free_port) S2=$(free_port) C1=$(free_port) C2=$(free_port)
for v in 1 2; do
	port=S$v
	python3 "$HERE/ws/stream.py" "h$v" "${!port}" - "$T/s$v.log" "$T/up.pem" "$T/up.key" >"$T/s$v.out" 2>&1 &
	PIDS+=($!)
	wait_for 10 grep -q up "$T/s$v.log" || { not_ok "the origin starts" "$(cat "$T/s$v.out")"; exit 1; }
	[ ! -x "$CLIENTS/connect-client" ] || { port=C$v; "$CLIENTS/connect-client" serve "127.0.0.1:${!port}" "$T/c$v.log" "$T/up.pem" "$T/up.key" "h$v" >"$T/c$v.out" 2>&1 & PIDS+=($!); }
done
d() { # HOST PORT [inject]
	printf '  - host: %s.test\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { ca: ./upca.pem }\n    allow: [ GET /s/**, POST /s/**, POST /t.S/*, GET /t.S/Unary ]\n    deny: [ ANY /t.S/Denied/** ]\n' "$1" "$2"
	[ -z "${3:-}" ] || printf '    inject: [ { secret: api, as: bearer, env: API_TOKEN } ]\n'
}
{
	printf 'version: 1\nname: streams\nsecrets:\n  api: { env: E2E_SECRET, hosts: [s1.test, s2.test, c1.test, c2.test] }\ndestinations:\n'
	d s1 "$S1" inject; d s2 "$S2" inject; d c1 "$C1" inject; d c2 "$C2" inject; d free1 "$S1"; d free2 "$S2"
} | sed 's#ANY /t.S/Denied/\*\*#ANY /t.S/Denied, ANY /t.S/Denied/**#' >"$WORK/policy.yaml"
cp "$HERE/h2/client.py" "$WORK/h2c.py"
part() { awk -v n="== $1" '/^== / { on = $0 == n; next } on' "$T/all" >"$T/out"; }
said() { part "$2"; [ "$(cat "$T/out")" = "$3" ] && ok "$1" || not_ok "$1" "wanted: $3" "$(cat "$T/out")" "$(tail -n 3 "$T/all")"; }

# --- events --------------------------------------------------------------------------------------------------------------------
# The origin sends the next piece when the client has asked for it by another request, which it does only when it has the piece before.
cat >"$WORK/events.py" <<'P'
from h2c import *
import http.client, ssl
class One: # a stream over HTTP/1.1, as it comes
    def __init__(self, host, path, body=None):
        self.c = http.client.HTTPSConnection(host, context=ssl.create_default_context(), timeout=30)
        self.c.request("POST" if body else "GET", path, body=body, headers={"Accept": "text/event-stream"}); self.r = self.c.getresponse()
        self.head = {k.lower(): v for k, v in self.r.getheaders()}; self.buf = b""
    def more(self): return self.r.read1(65536)
class Two:
    def __init__(self, host, path, body=None):
        self.k = Client(host); self.id = self.k.request(path, "POST" if body else "GET", end=not body); self.st = self.k.streams[self.id]; self.st.log = bytearray()
        if body: self.k.send(self.id, body)
        while self.st.head is None: self.k.turn()
        self.head = dict(self.st.head)
    def more(self):
        while not self.st.log and not self.st.over(): self.k.turn()
        d = bytes(self.st.log); self.st.log.clear(); return d
def go_on(host, name): # on a connection of its own
    c = http.client.HTTPSConnection(host, context=ssl.create_default_context(), timeout=30); c.request("GET", "/s/next/" + name); assert c.getresponse().read() == b"next\n"
for up in "12":
    for cl, K in (("h1", One), ("h2", Two)):
        for bound in ("s", "free"):
            for kind in ("events", "bytes", "length", "post"):
                host = bound + up + ".test"; name = "%s-%s-%s-%s" % (cl, up, bound, kind)
                s = K(host, "/s/%s/%s" % (kind, name), b"question" if kind == "post" else None); got = b""; n = 0
                while True:
                    want = b"event %d" % n
                    while want not in got:
                        d = s.more()
                        if not d: break
                        got += d
                    if want not in got: break
                    n += 1; go_on(host, name)
                print("== " + name); print(n, got.count(b"Bearer"), "alt-svc=%s" % s.head.get("alt-svc"), s.head.get("strict-transport-security"), b"".join(sorted(set(got.split(b"you sent ")[1:2]))).split(b"\n")[0].decode(), flush=True)
P
run python3 events.py >"$T/all" 2>&1
stars=$(printf '%*s' ${#SECRET} '' | tr ' ' '*')
for up in 1 2; do for cl in h1 h2; do
	for kind in events bytes length post; do
		said "UC01,I11 $cl to h$up: $kind, each before the next, with a secret" "$cl-$up-s-$kind" "5 5 alt-svc=None max-age=1 Bearer $stars"
		said "UC01,I11 $cl to h$up: $kind, without" "$cl-$up-free-$kind" "5 0 alt-svc=None max-age=1 -"
	done
done; done
hasnt "no secret in any stream" "$T/all" "$SECRET"
has "K07,G19 the origins did say Alt-Svc" "$T/s1.log" "alt-svc sent"

# --- Connect -------------------------------------------------------------------------------------------------------------------
if [ ! -x "$CLIENTS/connect-client" ]; then
	skip "connect: $(cat "$CLIENTS/connect.skip" 2>/dev/null || echo 'its client is not built')"
	check_done
fi
cp "$CLIENTS/connect-client" "$WORK/"
for up in 1 2; do for cl in h1 h2; do
	wait_for 10 grep -q up "$T/c$up.log" || not_ok "the Connect server starts" "$(cat "$T/c$up.out")"
	run ./connect-client call "https://c$up.test" $cl >"$T/out" 2>&1
	n="connect $cl to h$up"
	for c in proto json get; do
		has "$n: $c, unary, with a trailer" "$T/out" "$c unary you sent Bearer $stars trailer Bearer $stars"
		has "$n: $c, an error of the server's" "$T/out" "$c fail aborted aborted: sent Bearer $stars"
		has "$n: $c, refused" "$T/out" "$c denied permission_denied permission_denied: sallyport policy_denied: "
		for i in 0 1 2; do has "$n: $c, server stream, message $i" "$T/out" "$c down $i Bearer $stars"; done
		has "$n: $c, its end" "$T/out" "$c down-end aborted aborted: end Bearer $stars"
		has "$n: $c, refused as a stream" "$T/out" "$c down-denied permission_denied permission_denied: sallyport policy_denied: "
		has "$n: $c, client stream" "$T/out" "$c up 100"
		[ $cl$up != h22 ] || for i in 0 1 2; do has "$n: $c, both ways, $i" "$T/out" "$c both echo $i"; done
	done
	hasnt "$n: no secret" "$T/out" "$SECRET"
	has "$n: the server has the credential" "$T/c$up.log" "unary connect Bearer $SECRET"
done; done
[ "$(record_count '"code":"policy_denied"' '"path":"/t.S/Denied"' '"code":403')" -eq 12 ] && ok "connect: refusals are recorded as such" || not_ok "connect: refusals are recorded as such" "$(records | grep -c Denied)"
check_done
