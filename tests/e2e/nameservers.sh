#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Name servers that are closed, silent, killed and back again (UI03), and hosts whose resolv.conf has IPv6 servers alone, a search list
# and options, or a stub (UI05): the latter in a network namespace of their own, where port 53 can be had by anybody.
NAME=nameservers
here=$(dirname "$0")
. "$here/lib.sh"
can_run
cp "$here/nameservers.py" "$WORK/"
cat >"$T/zone" <<'Z'
plain.test a 127.0.0.1
*.p.test a 127.0.0.1
*.six.test aaaa ::1
tcp.test tcponly 127.0.0.1
many.test many 127.0.0.1 100
silent.test silent
*.back.test silent
Z
cat >"$T/origin.py" <<'P'
import asyncio, sys
async def one(r, w):
    try:
        await r.readuntil(b"\r\n\r\n"); w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nplain\n"); await w.drain(); w.close()
    except (OSError, asyncio.IncompleteReadError): w.close()
async def main():
    s = await asyncio.start_server(one, "127.0.0.1", 0, backlog=1024); print(s.sockets[0].getsockname()[1], flush=True); await s.serve_forever()
asyncio.run(main())
P
start() { # FILE COMMAND...: in the background, until it has written to FILE; its pid is in STARTED
	local f=$1
	shift
	"$@" &
	STARTED=$!
	PIDS+=("$STARTED")
	wait_for 20 test -s "$f" || { not_ok "$1 starts" "$*"; exit 1; }
}
: >"$T/origin.port"
start "$T/origin.port" python3 "$T/origin.py" >"$T/origin.port" 2>"$T/origin.log"
PORT=$(cat "$T/origin.port")
{
	printf 'version: 1\nname: nameservers\ndestinations:\n'
	for h in plain.test '*.p.test' '*.six.test' tcp.test many.test silent.test '*.back.test' nx.test; do
		printf '  - host: "%s"\n    scheme: http\n    ports: [%s]\n    addresses: [127.0.0.0/8, "::1/128"]\n    allow: [ "GET /**" ]\n' "$h" "$PORT"
	done
} >"$WORK/policy.yaml"
gateway() { # its configuration is on standard input
	cat >"$T/gateway.yaml"
	"$SP" serve --config "$T/gateway.yaml" --state "$STATE" >"$T/gateway.log" 2>&1 &
	PIDS+=($!)
	wait_for 30 test -S "$STATE/run/control.sock" || { not_ok "the gateway starts" "$(cat "$T/gateway.log")"; exit 1; }
}
stop() {
	"$SP" stop --all --state "$STATE" >/dev/null 2>&1
	wait_for 20 bash -c "! [ -S '$STATE/run/control.sock' ]"
}
part() { # PART [AS]
	local line n=${2:-$1}
	rm -f "$WORK"/*.now
	(cd "$WORK" && timeout 300 "$SP" run --quiet --policy policy.yaml -- python3 -W ignore nameservers.py "$1" "$PORT") >"$T/said.$n" 2>"$T/err.$n"
	check "$n: the client ends well" test $? = 0
	[ ! -s "$T/err.$n" ] || head -20 "$T/err.$n"
	while read -r line; do
		case $line in ok\ *) ok "${2:+$2: }${line#ok }" ;; not\ ok\ *) not_ok "${2:+$2: }${line#not ok }" ;; esac
	done <"$T/said.$n"
}
record_says() { records | grep -F "\"hostname\":\"$1\"" | grep -qF "$2"; }

if [ "${1:-}" = in-namespace ]; then # $2: the file that is bound over /etc/resolv.conf
	at() { start "$T/asked.$1" python3 "$here/dnsd.py" 53 "$T/asked.$1" "$T/zone" "$1" 2>"$T/dnsd.log"; }
	asked() { cat "$T"/asked.* | grep -v '^up'; }
	at fd53::2
	# rotate must not make it ask fd53::1 first and wait; timeout, attempts and the rest are not ours either
	printf 'nameserver fe80::1%%lo\nnameserver fd53::1\nnameserver fd53::2\nsearch a.example b.example c.example\noptions ndots:5 rotate edns0 use-vc timeout:1\n' >"$2"
	gateway <<<'{}'
	part inside "IPv6 servers alone"
	check "UI05 they were asked" grep -q ' plain.test A$' "$T/asked.fd53::2"
	check "UI05 with a search list and ndots:5 no question but for the names themselves leaves" bash -c "! grep -vE '^up|^(udp|tcp) (plain|tcp|many|nx)\.test (A|AAAA)$' '$T/asked.fd53::2'"
	check "UI05 use-vc is the host's, not ours: UDP is asked first" grep -q '^udp plain.test A$' "$T/asked.fd53::2"
	check "UI05 what was truncated is asked for by TCP" bash -c "grep -q '^tcp tcp.test A$' '$T/asked.fd53::2' && grep -q '^tcp many.test A$' '$T/asked.fd53::2'"
	check "UI05 and nothing else is" bash -c "! grep '^tcp' '$T/asked.fd53::2' | grep -v ' \(tcp\|many\).test '"
	rm -f "$T"/asked.*
	at 127.0.0.53
	printf 'nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch .\n' >"$2"
	check "UI05 the gateway sees that resolv.conf changed" wait_for 20 grep -q "name servers have changed" "$T/gateway.log"
	part inside "a stub on 127.0.0.53"
	check "UI05 the stub was asked, and by its names alone" bash -c "grep -q ' plain.test A$' '$T/asked.127.0.0.53' && ! grep -vE '^up|^(udp|tcp) (plain|tcp|many|nx)\.test (A|AAAA)$' '$T/asked.127.0.0.53'"
	stop
	check_done
fi

# --- closed, silent and good, in that order
DNS=$(free_port) CLOSED=$(free_port)
good() { start "$T/asked" python3 "$here/dnsd.py" "$DNS" "$T/asked" "$T/zone" 2>>"$T/dnsd.log"; GOOD=$STARTED; }
good
: >"$T/silent.port"
start "$T/silent.port" python3 -c '
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1], flush=True)
while True: time.sleep(1000)' >"$T/silent.port"
SILENT=$(cat "$T/silent.port")
gateway <<<"dns: { servers: [\"127.0.0.1:$CLOSED\", \"127.0.0.1:$SILENT\", \"127.0.0.1:$DNS\"] }"
DIALER=$(role_pid dialer)
now() { python3 -c 'import time; print(int(time.monotonic() * 1000))'; }
spent() { python3 -c 'import os, sys; f = open("/proc/%s/stat" % sys.argv[1]).read().rsplit(")", 1)[1].split(); print((int(f[11]) + int(f[12])) * 1000 // os.sysconf("SC_CLK_TCK"))' "$DIALER"; }
# calm TEXT: since mark the dialer used a processor for less than half of the time: it waits for datagrams, and one that spins takes all it gets
calm() { echo "    the dialer: $(($(spent) - had)) ms of processor time in $(($(now) - began)) ms"; check "$1" test $((2 * ($(spent) - had))) -lt $(($(now) - began)); }
mark() { began=$(now) had=$(spent); }
mark
part after
calm "UI03 the dialer does not spin while a server is closed and the others are silent"
mark
part many
calm "UI03 nor with 1000 names at a time"
check "UI03 each name was asked for" test "$(grep -c '^udp n[0-9]*\.p\.test A$' "$T/asked" | head -1)" -ge 1000
(
	wait_for 100 test -e "$WORK/kill.now" || exit 1
	kill "$GOOD"
	wait_for 5 gone "$GOOD"
) &
KILLER=$!
mark
(
	wait "$KILLER" 2>/dev/null
	wait_for 100 gone "$GOOD"
	sleep 1 # long enough for questions to find it closed
	rm -f "$T/asked"
	exec python3 "$here/dnsd.py" "$DNS" "$T/asked" "$T/zone"
) 2>>"$T/dnsd.log" &
PIDS+=($!)
(
	wait_for 100 gone "$GOOD" && wait_for 100 grep -q '^up' "$T/asked" && : >"$WORK/returned.now"
) &
part killed
calm "UI03 nor while a name server goes and returns"
check "UI03 the same dialer all the time" test "$(role_pid dialer)" = "$DIALER"
stop
check "UI03 the record says it as well" record_says silent.test "no name server"
gateway <<<"dns: { servers: [\"127.0.0.1:$DNS\"] }"
(
	wait_for 100 test -e "$WORK/back.now" || exit 1
	sed 's/^\*.back.test .*/*.back.test a 127.0.0.1/' "$T/zone" >"$T/zone.new" && mv "$T/zone.new" "$T/zone" && : >"$WORK/backis.now"
) &
part back
stop
gateway <<<"dns: { servers: [\"127.0.0.1:$CLOSED\"] }"
part one
stop
gateway <<<"dns: { servers: [\"127.0.0.1:$SILENT\"] }"
DIALER=$(role_pid dialer)
mark
part silent
calm "UI03 nor with questions that nobody answers"
stop
gateway <<<"dns: { servers: [\"127.0.0.1:$CLOSED\", \"127.0.0.1:$DNS\"] }"
part closed
stop

# --- resolv.conf of other hosts
resolv=$T/resolv.conf
: >"$resolv"
if ! command -v ip >/dev/null; then
	skip "UI05 ip (iproute2) is not installed"
else
	cat >"$T/lan" <<'L'
ip link set lo up && ip -6 addr add fd53::1/128 dev lo nodad && ip -6 addr add fd53::2/128 dev lo nodad && mount --bind "$1" /etc/resolv.conf && echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start
L
	# who is not root is himself again in a namespace below, as on a host of his
	if [ "$(id -u)" -eq 0 ]; then
		unshare -nm sh -c '. "$0" "$1" && : >"$0.made" && exec bash "$2" in-namespace "$1"' "$T/lan" "$resolv" "$0" >"$T/inside" 2>&1
	else
		unshare -Urnm sh -c '. "$0" "$1" && : >"$0.made" && exec unshare -U --map-user="$3" --map-group="$4" bash "$2" in-namespace "$1"' "$T/lan" "$resolv" "$0" "$(id -u)" "$(id -g)" >"$T/inside" 2>&1
	fi
	rc=$?
	if [ -e "$T/lan.made" ]; then
		cat "$T/inside"
		check "UI05 all of it" test $rc = 0
	else
		skip "UI05 a network namespace with IPv6 cannot be made here: $(head -1 "$T/inside")"
	fi
fi
check_done
