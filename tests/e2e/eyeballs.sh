#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Happy eyeballs (H13, RFC 8305) where packets vanish: addresses of one family or of both whose connects are answered by nothing, beside
# one that answers. In a network namespace with a global IPv6 address, so that IPv6 goes first, and a packet filter that drops and counts.
NAME=eyeballs
here=$(dirname "$0")
. "$here/lib.sh"
can_run
if [ "${1:-}" != in-namespace ]; then
	if ! command -v ip >/dev/null || ! command -v nft >/dev/null; then skip "H13 ip or nft is not installed"; exit 0; fi
	cat >"$T/lan" <<'L'
ip link set lo up && ip -6 addr add 2606:4700:77::1/128 dev lo nodad || exit 1
for i in 2 3 4 5 6 7 8 9; do ip -6 addr add 2606:4700:77::$i/128 dev lo nodad || exit 1; done
{
	echo 'add table inet hole; add chain inet hole in { type filter hook input priority 0; }'
	for i in 2 3 4 5 6 7 8 9; do echo "add rule inet hole in ip6 daddr 2606:4700:77::$i tcp flags & (syn | ack) == syn counter drop"; done
	echo 'add rule inet hole in ip daddr 127.0.0.66 tcp flags & (syn | ack) == syn counter drop'
} | nft -f -
L
	# who is not root is himself again in a namespace below, and nft answers to the one above: the counters are read there
	cat >"$T/watch" <<'W'
. "$1" || exit 1
: >"$1.made"
while [ ! -e "$1.done" ]; do nft list table inet hole >"$1.new" && mv "$1.new" "$1.counts"; sleep 0.1; done &
if [ "$3" = 0 ]; then bash "$2" in-namespace "$1"; else unshare -U --map-user="$3" --map-group="$4" bash "$2" in-namespace "$1"; fi
rc=$?
: >"$1.done"
wait
exit $rc
W
	[ "$(id -u)" -eq 0 ] && how=-nm || how=-Urnm
	unshare $how sh "$T/watch" "$T/lan" "$0" "$(id -u)" "$(id -g)" >"$T/inside" 2>&1
	rc=$?
	if [ -e "$T/lan.made" ]; then
		cat "$T/inside"
		check "H13 all of it" test $rc = 0
	else
		skip "H13 a network namespace with IPv6 and a packet filter cannot be made here: $(head -1 "$T/inside")"
	fi
	check_done
fi
lan=$2
DNS=$(free_port)
{
	cat <<'Z'
both.test aaaa 2606:4700:77::2
both.test a 127.0.0.1
most.test a 127.0.0.1
six.test aaaa 2606:4700:77::1
six.test a 127.0.0.66
none.test aaaa 2606:4700:77::2
none.test a 127.0.0.66
Z
	echo "most.test aaaa 2606:4700:77::3 2606:4700:77::4 2606:4700:77::5 2606:4700:77::6 2606:4700:77::7 2606:4700:77::8 2606:4700:77::9"
} >"$T/zone"
python3 "$here/dnsd.py" "$DNS" "$T/asked" "$T/zone" >"$T/dnsd.log" 2>&1 &
PIDS+=($!)
# says which of its addresses was come to
python3 -c '
import socket
s = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64); print(s.getsockname()[1], flush=True)
while True:
    c, _ = s.accept(); at = c.getsockname()[0]
    try:
        c.settimeout(10); b = b""
        while b"\r\n\r\n" not in b:
            x = c.recv(4096)
            if not x: break
            b += x
        if b: c.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s\n" % (len(at) + 1, at.encode()))
    except OSError: pass
    c.close()' >"$T/port" 2>"$T/origin.log" &
PIDS+=($!)
wait_for 10 test -s "$T/port" && wait_for 10 test -s "$T/asked" || { not_ok "the origin and the name server start" "$(cat "$T/origin.log" "$T/dnsd.log")"; exit 1; }
PORT=$(cat "$T/port")
{
	printf 'version: 1\nname: eyeballs\ndestinations:\n'
	for h in both most six none; do
		printf '  - host: %s.test\n    scheme: http\n    ports: [%s]\n    addresses: [127.0.0.0/8, "2606:4700:77::/64"]\n    allow: [ "GET /**" ]\n' $h "$PORT"
	done
} >"$WORK/policy.yaml"
printf 'dns: { servers: ["127.0.0.1:%s"] }\n' "$DNS" >"$T/gateway.yaml"
"$SP" serve --config "$T/gateway.yaml" --state "$STATE" >"$T/gateway.log" 2>&1 &
PIDS+=($!)
wait_for 30 test -S "$STATE/run/control.sock" || { not_ok "the gateway starts" "$(cat "$T/gateway.log")"; exit 1; }
get() { # HOST: its answer is in $T/HOST, its status in STATUS
	STATUS=$(cd "$WORK" && timeout 60 "$SP" run --quiet --policy policy.yaml -- curl -s -m 40 -o "$1" -w '%{http_code}' "http://$1.test:$PORT/" 2>>"$T/run.err")
	mv "$WORK/$1" "$T/$1" 2>/dev/null || : >"$T/$1"
}
count() { sed -n "s/^.*ip6* daddr $1 .*counter packets \([0-9]*\) .*/\1/p" "$lan.counts"; }
was_any() { [ "$(tried)" -gt 0 ]; }
tried() { # how many of the seven of most.test
	local i n=0
	for i in 3 4 5 6 7 8 9; do [ "$(count 2606:4700:77::$i)" = 0 ] || n=$((n + 1)); done
	echo $n
}
was() { [ "$(count "$1")" -gt 0 ]; }
counts() { [ "$(count 2606:4700:77::2)" = 0 ] && [ "$(count 127.0.0.66)" = 0 ] && [ "$(tried)" = 0 ]; }
check "H13 the filter counts, from 0" wait_for 5 counts
get both
check "H13 an IPv6 address whose connects vanish beside an IPv4 one that answers: the request succeeds" test "$STATUS" = 200
has "H13 by IPv4" "$T/both" 127.0.0.1
check "H13 though IPv6 was tried, and first" wait_for 5 was 2606:4700:77::2
get most
check "H13 seven such addresses: the request succeeds" test "$STATUS" = 200
wait_for 5 was_any
sleep 0.3 # the counters are read ten times a second
# families take turns (RFC 8305 section 4): seven in a row would be seven head starts
echo "    tried of seven: $(tried)"
check "H13 after one of the seven was tried, and not after all" bash -c "[ $(tried) -ge 1 ] && [ $(tried) -le 3 ]"
get six
check "H13 an IPv4 address whose connects vanish beside an IPv6 one that answers: the request succeeds" test "$STATUS" = 200
has "H13 by IPv6" "$T/six" 2606:4700:77::1
get none
check "H13 nothing answers: 504" test "$STATUS" = 504
has "H13 whose reason says so" "$T/none" "does not answer"
"$SP" stop --all --state "$STATE" >/dev/null 2>&1
check "H13 though IPv4 was tried as well" wait_for 5 was 127.0.0.66
# not a measure of this machine: the head start is in no connect time that is shorter
records | python3 -c '
import json, sys
for l in sys.stdin:
    o = json.loads(l); s = o["unmapped"]["sallyport"]
    if s["kind"] == "request": print(o["http_request"]["url"]["hostname"], s.get("code"), json.dumps(s.get("timing", {})))' >"$T/times"
sed 's/^/    /' "$T/times"
check "H13 the head start of 250 ms is in the record's connect time" python3 -c '
import json, sys
t = {l.split()[0]: json.loads(l.split(None, 2)[2]) for l in open(sys.argv[1])}
assert all(t[h + ".test"]["connect_us"] >= 240000 for h in ("both", "most")), t' "$T/times"
check_done
