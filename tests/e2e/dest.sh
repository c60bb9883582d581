#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Which host is meant, and which address it leads to (groups E and H), against a name server of our own that counts what it is asked.
NAME=dest
. "$(dirname "$0")/lib.sh"
can_run
make_pki
start_nginx
DNS=$(free_port) COUNT=$(free_port)
here=$(dirname "$0")
cp "$here/dest.py" "$WORK/"
python3 - >"$WORK/ranges" <<'P'
n = 0
def out(i, *l):
    global n
    for a in l: print(i, "r%d.h.test" % n, a); n += 1
out("H01", "169.254.169.254", "169.254.170.2", "169.254.169.253", "fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16", "fd20:ce::254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1")
out("H02", "0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.254", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.255.255", "100.64.0.1", "100.127.255.255", "169.254.0.1", "192.0.0.1", "192.0.2.1", "192.88.99.1",
    "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255")
out("H03", "::", "::1", "fe80::1", "febf::1", "fec0::1", "fc00::1", "fdff::1", "ff02::1", "2001:db8::1", "100::1", "5f00::1", "3fff::1", "4000::1", "8000::1", "::ffff:0:10.0.0.1")
out("H04", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::10.0.0.1", "2002:7f00:1::1", "2002:a00:1::1", "2001:0:4136:e378:8000:63bf:f5ff:fffe", "2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:127.0.0.1")
P
{
	awk '{ print $2, ($3 ~ /:/ ? "aaaa" : "a"), $3 }' "$WORK/ranges"
	cat <<Z
plain.test a 127.0.0.1
a.w.test a 127.0.0.1
listed-meta.test a 169.254.169.254
listed-meta6.test aaaa fd00:ec2::254
mixed.test a 10.9.9.9 127.0.0.1
mixed6.test a 127.0.0.1
mixed6.test aaaa fd00::9
mixed-closed.test a 127.0.0.9 10.9.9.9
cname-ok.test cname inner.corp.test
inner.corp.test a 127.0.0.1
cname-bad.test cname secret.corp.test
secret.corp.test a 10.0.0.5
both.test a 127.0.0.1
both.test aaaa ::1
tcp.test tcponly 127.0.0.1
many.test many 127.0.0.1 1000
turn.test turn 127.0.0.1 10.0.0.1
servfail.test rcode 2
refused.test rcode 5
nodata.test none
empty.test empty
silent.test silent
localhost a 127.0.0.1
intranet a 127.0.0.1
evil.test a 127.0.0.1
d1.evil.test a 127.0.0.1
d2.evil.test a 127.0.0.1
a1b2c3d4e5f6.exfil.evil.test a 127.0.0.1
notplain.test a 127.0.0.1
plain.test.evil.test a 127.0.0.1
w.test a 127.0.0.1
a.b.w.test a 127.0.0.1
Z
} >"$T/zone"
python3 "$here/dnsd.py" "$DNS" "$T/asked" "$T/zone" >"$T/dnsd.log" 2>&1 &
PIDS+=($!)
# nobody who is refused gets as far as this one, on whatever address of this host
python3 -c '
import socket, sys
s = socket.create_server(("", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512); print("up", flush=True)
while True: c, a = s.accept(); print("connect", a, flush=True); c.close()' "$COUNT" >"$T/connects" 2>&1 &
PIDS+=($!)
wait_for 10 grep -q up "$T/connects" && wait_for 10 test -s "$T/asked" || { not_ok "the name server starts" "$(cat "$T/dnsd.log")"; exit 1; }
printf 'dns: { servers: ["127.0.0.1:%s"] }\n' "$DNS" >"$T/gateway.yaml"
"$SP" serve --config "$T/gateway.yaml" --state "$STATE" >"$T/gateway.log" 2>&1 &
PIDS+=($!)
wait_for 20 test -S "$STATE/run/control.sock" || { not_ok "the gateway starts" "$(cat "$T/gateway.log")"; exit 1; }
d() { # HOST [ADDRESSES]
	printf '  - host: "%s"\n    scheme: http\n    ports: [%s]\n%s    allow: [ "GET /**" ]\n' "$1" "${3:-$HTTP_PORT}" "${2:+    addresses: [ $2 ]
}"
}
{
	printf 'version: 1\nname: dest\ndestinations:\n'
	for h in plain.test '*.w.test' mixed.test cname-ok.test tcp.test many.test turn.test mixed-closed.test cname-bad.test nx.test servfail.test refused.test nodata.test empty.test silent.test; do d "$h" 127.0.0.0/8; done
	d both.test '127.0.0.0/8, "::1/128"'
	d mixed6.test '127.0.0.0/8, "fd01::/16"'
	d listed-meta.test 169.254.0.0/16
	d listed-meta6.test '"fd00::/8"'
	d '*.h.test' '' "$COUNT"
	d '[2001:db8::7]' '"2001:db8::/32"'
} >"$WORK/policy.yaml"
part() {
	(cd "$WORK" && timeout 200 "$SP" run --quiet --policy policy.yaml -- python3 -W ignore dest.py "$1" "$HTTP_PORT" "$COUNT") >"$T/said.$1" 2>"$T/err.$1"
	check "$1: the client ends well" test $? = 0
	[ ! -s "$T/err.$1" ] || head -20 "$T/err.$1"
	local line
	while read -r line; do
		case $line in ok\ *) ok "${line#ok }" ;; not\ ok\ *) not_ok "${line#not ok }" ;; esac
	done <"$T/said.$1"
}
lines() { wc -l <"$T/asked"; }
part grammar
check "E05 E06 the canonical name is what is asked for, and nothing that was refused is" bash -c "! grep -v '^up' '$T/asked' | grep -vE '^(udp|tcp) (plain\.test|a\.w\.test) (A|AAAA)$'"
before=$(lines)
part dns
check "H09 H10 no question of these left" test "$(lines)" = "$before"
part addresses
check "H06 one dial asks once for each family" test "$(grep -c ' turn.test ' "$T/asked")" = 2
check "H12 TCP is used for what was truncated" grep -q '^tcp tcp.test A' "$T/asked"
check "H07 E17 H14 no search list, nothing of the CNAME's target asked apart" bash -c "! grep -E ' (nx|plain)\.test\.|corp\.test' '$T/asked'"
part again
hits() { grep -c "HTTP/1" "$T/ngx/access.log"; }
check "H05 what was refused was never dialled: the origin saw only what was allowed" bash -c "[ \"\$(grep -c . '$T/ngx/access.log')\" -le 40 ]"
check "E13 E17 G01 H01 H02 H03 H04 H09 no connection of what was refused arrived anywhere" test "$(grep -c connect "$T/connects")" = 0
"$SP" stop --all --state "$STATE" >/dev/null 2>&1
record_lines >"$T/lines"
check "E05 E06 all spellings are one name in the record" bash -c "! grep -iE ' (PLAIN\.Test|pLaIn\.tEsT|plain\.test\.) ' '$T/lines' | grep -v ' plain.test '"
record_says() { records | grep -F "\"hostname\":\"$1\"" | grep -qF "$2"; }
check "H01 a metadata address is refused though it is listed, says the record" record_says listed-meta.test "metadata service 169.254.169.254"
check "H01 of IPv6 too" record_says listed-meta6.test "metadata service"
check "H07 the record names the address behind a CNAME" record_says cname-bad.test 10.0.0.5
check "H12 the records tell the failures apart" bash -c "[ \"\$(cat '$STATE'/audit/audit*.jsonl | grep -o 'the name does not exist\|the name server failed\|the name server refused\|the name has no address' | sort -u | wc -l)\" = 4 ]"

# --- other servers
wait_for 10 bash -c "! [ -S '$STATE/run/control.sock' ]"
CLOSED=$(free_port)
printf 'dns: { servers: ["127.0.0.1:%s", "127.0.0.1:%s"] }\n' "$CLOSED" "$DNS" >"$T/gateway.yaml"
"$SP" serve --config "$T/gateway.yaml" --state "$STATE" >"$T/gateway.log" 2>&1 &
PIDS+=($!)
wait_for 20 test -S "$STATE/run/control.sock"
part failover
"$SP" stop --all --state "$STATE" >/dev/null 2>&1
wait_for 10 bash -c "! [ -S '$STATE/run/control.sock' ]"
printf 'ipv6: false\ndns: { servers: ["127.0.0.1:%s"] }\n' "$DNS" >"$T/gateway.yaml"
"$SP" serve --config "$T/gateway.yaml" --state "$STATE" >"$T/gateway.log" 2>&1 &
PIDS+=($!)
wait_for 20 test -S "$STATE/run/control.sock"
before=$(lines)
printf '  - host: "[::1]"\n    scheme: http\n    ports: [%s]\n    addresses: [ "::1/128" ]\n    allow: [ "GET /**" ]\n' "$COUNT" >>"$WORK/policy.yaml"
part ipv4
check "H13 with IPv6 off no IPv6 address is asked for" bash -c "tail -n +$((before + 1)) '$T/asked' | grep -q ' both.test A$' && ! tail -n +$((before + 1)) '$T/asked' | grep -q AAAA"
check "H13 the record says why" record_says ::1 "turns IPv6 off"
check "H13 nor connected to" test "$(grep -c connect "$T/connects")" = 0
"$SP" stop --all --state "$STATE" >/dev/null 2>&1
wait_for 10 bash -c "! [ -S '$STATE/run/control.sock' ]"
if [ "$(id -u)" -eq 0 ]; then
	python3 "$here/dnsd.py" 53 "$T/asked53" "$T/zone" 127.77.0.1 >"$T/dnsd53.log" 2>&1 &
	PIDS+=($!)
	wait_for 5 test -s "$T/asked53"
fi
if [ -s "$T/asked53" ]; then
	printf 'search corp.example\noptions ndots:5\nnameserver 127.77.0.99\n' >"$T/resolv.conf"
	unshare -m sh -c "mount --bind '$T/resolv.conf' /etc/resolv.conf && exec '$SP' serve --state '$STATE'" >"$T/gateway.log" 2>&1 &
	PIDS+=($!)
	wait_for 20 test -S "$STATE/run/control.sock"
	(wait_for 30 test -e "$WORK/changed.now" && printf 'search corp.example\noptions ndots:5\nnameserver 127.77.0.1\n' >"$T/resolv.conf") &
	status() { python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(sys.argv[1]); s.send(b"{\"id\":1,\"op\":\"status\"}"); print(s.recv(65536).decode())' "$STATE/run/control.sock" >"$T/status"; }
	status
	has "UI04 the status names the servers in use" "$T/status" '"name_servers":["127.77.0.99 53"]'
	part changed
	status
	has "UI04 and those that took their place" "$T/status" '"name_servers":["127.77.0.1 53"]'
	check "UI05 the host's search list is not used" bash -c "! grep -q corp.example '$T/asked53'"
	check "UI04 the gateway said so" grep -q "name servers have changed" "$T/gateway.log"
else
	skip "UI04 a changed resolv.conf: port 53 cannot be had here"
fi
check_done
