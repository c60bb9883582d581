#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Nothing else gets out of a sandbox: real attempts from inside (tests/walls), in a network namespace of the test's own with an
# uplink, where every packet that leaves is seen; other sandboxes; the gateway's ports when parts of it are gone; the launcher's
# field cases.
walls=$(cd "$(dirname "$0")/../walls" && pwd)
case ${WALLS_STAGE:-0} in
0) # a network of the test's own; an ordinary user has one only in a user namespace
	unshare -Ur true 2>/dev/null || { echo "skip walls: user namespaces cannot be made here"; exit 0; }
	WALLS_UID=$(id -u) WALLS_GID=$(id -g) WALLS_STAGE=1
	export WALLS_UID WALLS_GID WALLS_STAGE
	if [ "$WALLS_UID" -eq 0 ]; then exec unshare -n bash "$0"; fi
	exec unshare -Urn bash "$0"
	;;
1) # root over that network: an uplink, and who looks at it
	set -e
	WALLS_DIR=$(mktemp -d "${TMPDIR:-/tmp}/sp-walls.XXXXXX")
	export WALLS_DIR
	ip link set lo up
	ip link add uplink type veth peer name far
	ip addr add 192.0.2.2/24 dev uplink
	ip addr add 2001:db8::2/64 dev uplink nodad
	ip link set uplink up
	ip link set far up
	ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev uplink nud permanent
	ip neigh add 2001:db8::1 lladdr 02:00:00:00:00:01 dev uplink nud permanent
	ip route add default via 192.0.2.1
	ip -6 route add default via 2001:db8::1
	python3 "$walls/sniff.py" "$WALLS_DIR/packets" &
	sniffer=$!
	trap 'kill $sniffer 2>/dev/null || :; rm -rf "$WALLS_DIR"' EXIT
	set +e
	export WALLS_STAGE=2 WALLS_SNIFFER=$sniffer
	for _ in $(seq 100); do grep -q ready "$WALLS_DIR/packets" 2>/dev/null && break; sleep 0.05; done
	if [ "$WALLS_UID" -eq 0 ]; then bash "$0"; exit; fi
	unshare -U --map-user="$WALLS_UID" --map-group="$WALLS_GID" bash "$0"
	exit
	;;
esac
NAME=walls
. "$(dirname "$0")/lib.sh"
make_pki
start_nginx
write_policy
cp "$walls"/*.py "$WORK/"
if ! "${CC:-cc}" -Wall -Wextra -O1 -o "$WORK/probe" "$walls/probe.c" >"$T/out" 2>&1; then not_ok "the probe builds" "$(cat "$T/out")"; exit 1; fi

# --- from inside, everything; outside, the same as a control
# judge GROUP FILE: ok when the group ran to its end and nothing of it was anything but refused
judge() {
	local n bad
	n=$(awk -v g="$1" '$1 == g && $2 == "end" {print $3}' "$2")
	bad=$(awk -v g="$1" '$1 == g && $2 != "end" && $3 != "refused"' "$2")
	if [ -n "$n" ] && [ "$n" -gt 0 ] && [ -z "$bad" ] && [ "$(awk -v g="$1" '$1 == g && $3 == "refused"' "$2" | wc -l)" -ge "$n" ]; then ok "$1: $n attempts, each refused"; else not_ok "$1: each attempt is refused" "${bad:-ended early: $(tail -n 3 "$2")}"; fi
}
# opens GROUP FILE NAME...: the control did get through, so the attempt is a real one
opens() {
	local g=$1 f=$2 name missing=; shift 2
	for name in "$@"; do grep -q "^$g $name OPEN" "$f" || missing="$missing $name"; done
	if [ -z "$missing" ]; then ok "control: outside, $# attempts of $g succeed"; else not_ok "control: outside, attempts of $g succeed" "not:$missing"; fi
}
for g in sockets network kernel; do unshare -Urnmpif --mount-proc env WALLS_CONTROL=1 "$WORK/probe" $g; done >"$T/control" 2>&1
opens sockets "$T/control" family-packet raw raw6 inet-type2-protocol136 udplite
opens netlink "$T/control" protocol-4 protocol-6 protocol-9 protocol-12 protocol-15 protocol-16 protocol-4-by-its-upper-half
opens network "$T/control" new-address delete-address new-rule new-link so-mark ip-transparent ip-transparent-tcp ipv6-transparent tcp-repair interfaces
opens kernel "$T/control" pidfd-getfd-of-a-child ptrace-traceme ptrace-seize-child process-vm-readv-child process-vm-writev-child name-to-handle-at
opens namespaces "$T/control" unshare-user unshare-net unshare-mount clone-user clone3-user setns-own
opens mounts "$T/control" mount-tmpfs fsopen open-tree chroot
echo "$SECRET" >"$T/host-file"; chmod 644 "$T/host-file"
mkdir -p "$T/run"; chmod 755 "$T/run"
python3 "$walls/sockets.py" "$T/run" "$T" "$WORK" >"$T/names" 2>"$T/sockets.err" &
PIDS+=($!)
wait_for 10 grep -q '^end$' "$T/names" || not_ok "sockets on the host" "$(cat "$T/sockets.err")"
mapfile -t NAMES < <(grep -v '^end$' "$T/names")
"$WORK/probe" unix "${NAMES[@]}" >"$T/control" 2>&1
[ "$(grep -c ' OPEN$' "$T/control")" -eq "${#NAMES[@]}" ] && ok "control: outside, all ${#NAMES[@]} unix sockets are connected to" || not_ok "control: outside, the unix sockets are connected to" "$(cat "$T/control")"
counters() { awk '/^(Udp|Icmp|UdpLite):/ {if (h[$1] == "") h[$1] = $0; else {split(h[$1], k); for (i = 2; i <= NF; i++) if (k[i] == "OutDatagrams" || k[i] == "OutMsgs") print $1, $i}}' /proc/net/snmp; grep -E '^(Udp6OutDatagrams|UdpLite6OutDatagrams)' /proc/net/snmp6; }
counters >"$T/before"
PORTS="1 22 25 53 80 110 143 443 465 587 853 993 1080 2375 3000 3128 3306 5432 5671 6379 6443 8080 8443 9418 11211 27017 $PORT $HTTP_PORT 65535"
# shellcheck disable=SC2086,SC2016
E2E_SECRET=$SECRET run sh -c './probe sockets; ./probe network; ./probe kernel; ./probe files "$@"' sh "$T/host-file" /etc/shadow /root/.ssh/id_rsa "$STATE/ca/ca.key" "$STATE/audit/chain.key" "$HOME/.bashrc" /var/log/dpkg.log /var/lib/dpkg/status >"$T/in" 2>&1
for g in sockets netlink network kernel namespaces mounts files; do judge $g "$T/in"; done
has "netlink protocol 0 alone opens" "$T/in" "netlink-routing opens"
run ./probe unix "${NAMES[@]}" /run/docker.sock /var/run/docker.sock /run/dbus/system_bus_socket "/run/user/$(id -u)/bus" /run/systemd/private "$STATE/run/control.sock" >"$T/in" 2>&1
judge unix "$T/in"
# shellcheck disable=SC2086
run ./probe packets $PORTS >"$T/in" 2>&1
for g in datagrams streams; do judge $g "$T/in"; done
n=$(awk '$1 == "datagrams-sent" {print $2}' "$T/in")
[ "${n:-0}" -gt 1000 ] && ok "$n datagrams were sent inside" || not_ok "datagrams were sent inside" "$(tail "$T/in")"
n=$(awk '$1 == "streams-tried" {print $2}' "$T/in")
[ "${n:-0}" -gt 500 ] && ok "$n connections were tried inside" || not_ok "connections were tried inside" "$(tail "$T/in")"
run curl -sS -m 20 https://api.test/v1/hello >"$T/out" 2>&1
has "what the policy allows passes meanwhile" "$T/out" "hello, you sent"
counters >"$T/after"
cmp -s "$T/before" "$T/after" && [ -s "$T/before" ] && ok "no UDP and no ICMP left by the kernel's own count" || not_ok "no UDP and no ICMP left by the kernel's own count" "$(diff "$T/before" "$T/after")"
cp "$WALLS_DIR/packets" "$T/packets"
# on any interface only TCP between the gateway and the origin's two ports, on loopback
grep -v '^ready' "$T/packets" | awk -v a="$PORT" -v b="$HTTP_PORT" '!($1 == "lo" && $2 == "tcp" && $3 == "127.0.0.1" && $5 == "127.0.0.1" && ($4 == a || $4 == b || $6 == a || $6 == b))' >"$T/strange"
grep -q "^lo tcp 127.0.0.1 $PORT " "$T/packets" && [ ! -s "$T/strange" ] && ok "on the wire: nothing but the gateway's own connections to the origin ($(wc -l <"$T/packets") packets seen)" ||
	not_ok "on the wire: nothing but the gateway's own connections to the origin" "$(sort "$T/strange" | uniq -c | sort -rn | head -n 20)"
python3 -c '
import socket
for f, a in ((socket.AF_INET, "198.51.100.9"), (socket.AF_INET6, "2001:db8:1::9")):
    socket.socket(f, socket.SOCK_DGRAM).sendto(b"walls-control", (a, 9))
    s = socket.socket(f); s.setblocking(False); s.connect_ex((a, 22))'
seen() { grep -q "^uplink $1 .* $2 $3\$" "$WALLS_DIR/packets"; }
control() { seen udp 198.51.100.9 9 && seen udp 2001:db8:1::9 9 && seen tcp 198.51.100.9 22 && seen tcp 2001:db8:1::9 22; }
wait_for 5 control && ok "control: a packet that leaves is seen" || not_ok "control: a packet that leaves is seen" "$(tail "$WALLS_DIR/packets")"

# --- set-user-id programs and file capabilities do nothing
cp "$(command -v cat)" "$WORK/suid-cat" && chmod 4755 "$WORK/suid-cat"
[ "$(id -u)" -ne 0 ] || ! command -v setcap >/dev/null || { cp "$(command -v cat)" "$WORK/cap-cat" && setcap cap_dac_override,cap_net_raw,cap_sys_admin+ep "$WORK/cap-cat" 2>/dev/null; }
# shellcheck disable=SC2016
run sh -c 'for p in ./suid-cat ./cap-cat; do [ -x $p ] || continue; echo "$p ran as $($p /proc/self/status | grep -E "^(Uid|CapEff|CapPrm)" | tr -s "\n\t" "  ")"; $p /etc/shadow; done; su -c id 2>&1 | head -n 1; echo end; id -u' >"$T/out" 2>&1
if grep -q '^./suid-cat ran as CapPrm: 0000000000000000 CapEff: 0000000000000000\|^./suid-cat ran as Uid: \([1-9][0-9]*\) \1 \1 ' "$T/out" && ! grep -q '^root:' "$T/out" && ! grep -q 'uid=0' "$T/out" && ! grep -q 'ran as .*Cap[PE][a-z]*: 0*[1-9a-f]' "$T/out" && grep -q '^end$' "$T/out"; then ok "set-user-id programs and file capabilities give nothing"; else not_ok "set-user-id programs and file capabilities give nothing" "$(cat "$T/out")"; fi
rm -f "$WORK/suid-cat" "$WORK/cap-cat"
# a directory as a standard stream is a way to the host's tree, by ".." and by unix sockets
(cd "$WORK" && timeout 20 "$SP" run --quiet -- /bin/sh -c 'exec 3<&0 </dev/null; exec python3 -c "
import os, socket
try: print(\"NAMES\", os.listdir(\"/proc/self/fd/3/..\"))
except OSError as e: print(\"refused\", e)
s = socket.socket(socket.AF_UNIX)
try: s.connect(\"/proc/self/fd/3/run/docker.sock\"); print(\"CONNECTED\")
except OSError as e: print(\"refused\", e)"' <"$T") >"$T/out" 2>&1
if ! grep -q 'NAMES\|CONNECTED' "$T/out" && grep -q 'is a directory' "$T/out"; then ok "a directory as standard input is refused"; else not_ok "a directory as standard input is refused" "$(cat "$T/out")"; fi
(cd "$WORK" && timeout 20 "$SP" run --quiet -- sh -c 'cat >/dev/null; echo x >/proc/self/fd/0; echo $? ended' <"$T/host-file") >"$T/out" 2>&1
[ "$(cat "$T/host-file")" = "$SECRET" ] && grep -q '[12] ended' "$T/out" && ok "a file as standard input cannot be opened again for writing" || not_ok "a file as standard input cannot be opened again for writing" "$(cat "$T/out" "$T/host-file")"

# the launcher's field cases, meanwhile and with a gateway of their own
mkdir -p "$T/fields" && chmod 755 "$T/fields"
SALLYPORT_STATE=$T/state2 python3 "$walls/fields.py" "$SP" "$T/fields" UL01 UL02 UL04 UL06 >"$T/fields.out" 2>&1 &
fields=$!

# --- two sandboxes at once
mkdir -p "$T/a" "$T/b" && chmod 755 "$T/a" "$T/b" && cp "$walls/neighbour.py" "$T/a/" && cp "$walls/neighbour.py" "$T/b/"
(cd "$T/a" && timeout 60 "$SP" run --quiet --name neighbour-a -- sh -c 'python3 neighbour.py hold & while [ ! -e ready ]; do sleep 0.02; done; python3 neighbour.py try >at-home; touch tried; wait') >"$T/a.out" 2>&1 &
p=$!
PIDS+=($p)
wait_for 20 test -e "$T/a/tried" || not_ok "a neighbour is there" "$(cat "$T/a.out")"
# shellcheck disable=SC2046
(cd "$T/b" && timeout 60 "$SP" run --quiet --name neighbour-b -- python3 neighbour.py try $(role_pids | awk '{print $2}') $(inside_pids $p)) >"$T/b.out" 2>&1
touch "$T/a/go-on"
wait $p
read -r _ n _ < <(grep '^end' "$T/a/at-home")
[ "${n:-0}" -gt 10 ] && [ "$(grep -c ' OPEN$' "$T/a/at-home")" -eq "$n" ] && ok "control: at home all $n things of a neighbour are reached" || not_ok "control: at home a neighbour's things are reached" "$(cat "$T/a/at-home")"
if grep -q "^end $n " "$T/b.out" && ! grep -q ' OPEN$' "$T/b.out"; then ok "G22 G23 from another sandbox none is, nor a process of the gateway ($(grep -c refused "$T/b.out") attempts)"; else not_ok "from another sandbox none is" "$(grep -v refused "$T/b.out")"; fi

# --- the gateway's ports while parts of it are gone
(cd "$WORK" && E2E_SECRET=$SECRET timeout 120 "$SP" run --quiet --policy policy.yaml --name theft -- python3 theft.py) >"$T/theft.out" 2>&1 &
theft=$!
PIDS+=($theft)
rounds() { [ "$(grep -c "^$1 " "$T/theft.out")" -ge "$2" ]; }
phase() { echo "$1" >"$WORK/phase.new"; mv "$WORK/phase.new" "$WORK/phase"; }
# nobody PHASE: in no round of it was a port of the gateway's bound or a connection served by the payload
nobody() {
	grep "^$1 " "$T/theft.out" >"$T/rounds"
	if [ -s "$T/rounds" ] && ! grep -q 'STOLEN' "$T/rounds" && ! grep -qv ' bound none ' "$T/rounds"; then ok "$1: no port is taken over, nobody is served by the payload ($(wc -l <"$T/rounds") rounds)"; else
		not_ok "$1: no port is taken over, nobody is served by the payload" "$(tr ' ' '\n' <"$T/rounds" | grep 'STOLEN\|[0-9]/tcp$\|[0-9]/udp$\|,' | sort | uniq -c)" "$(tail -n 2 "$T/theft.out")"; fi
}
wait_for 20 rounds start 1 || not_ok "the payload holds ports" "$(cat "$T/theft.out")"
phase alive; wait_for 30 rounds alive 1
grep '^alive ' "$T/theft.out" | grep -q '127.0.0.1:3128/tcp=gateway' && ok "while all is well the gateway answers" || not_ok "while all is well the gateway answers" "$(tail -n 1 "$T/theft.out")"
nobody alive
for r in worker dialer ca supervisor; do
	pid=$(role_pid $r)
	phase "$r-ending"
	wait_for 20 rounds "$r-ending" 1
	kill -9 "$pid"
	phase "$r-gone"
	wait_for 40 rounds "$r-gone" 4
	nobody "$r-ending"
	nobody "$r-gone"
done
# the first rounds may still have met its end
tail -n 1 "$T/rounds" | tr ' ' '\n' | grep '/tcp=' | grep -v '=refused$' >"$T/out"
[ -s "$T/rounds" ] && [ ! -s "$T/out" ] && ok "with the gateway gone every connect is refused" || not_ok "with the gateway gone every connect is refused" "$(cat "$T/out")"
phase coming-back
rm -f "$WORK/over"
(cd "$WORK" && E2E_SECRET=x timeout 30 "$SP" run --quiet --policy policy.yaml -- sh -c 'while [ ! -e over ]; do sleep 0.05; done') >"$T/holder.out" 2>&1 &
holder=$!
PIDS+=($holder)
served() { tail -n 1 "$T/theft.out" | grep -q '^coming-back .* 127.0.0.1:3128/tcp=gateway.*[0-9]:53/udp=gateway'; }
wait_for 20 served && ok "another gateway serves the sandbox again" || not_ok "another gateway serves the sandbox again" "$(tail -n 1 "$T/theft.out")"
nobody coming-back
phase returned
wait_for 20 rounds returned 2
nobody returned
phase stop
touch "$WORK/over"
wait $theft
grep -q '^end ' "$T/theft.out" && ok "the payload held $(awk '/^end/ {print $3}' "$T/theft.out") listeners all the while" || not_ok "the payload ran to its end" "$(tail -n 3 "$T/theft.out")"
wait $holder

# --- field cases of the launcher (those of exit statuses, streams and protected names that launcher.sh does not have)
wait $fields
while read -r verdict text; do
	case $verdict in ok) ok "$text" ;; not) not_ok "${text#ok }" ;; esac
done <"$T/fields.out"
SALLYPORT_STATE=$T/state2 "$SP" stop --all >/dev/null 2>&1
grep -q '^end$' "$T/fields.out" || not_ok "the launcher's field cases ran to their end" "$(tail "$T/fields.out")"
cd "$WORK" || exit 1
plain() { timeout 60 "$SP" run --quiet "$@"; }
printf 'version: 1\nname: stop\nsandbox: { on_gateway_loss: stop }\n' >"$T/stop.yaml"
plain --policy "$T/stop.yaml" -- sh -c 'touch up; exec sleep 50' >"$T/out" 2>&1 &
p=$!
PIDS+=($p)
wait_for 20 test -e "$WORK/up"
kill -9 "$(role_pid supervisor)"
wait $p
[ $? -eq 125 ] && grep -q 'gateway is gone' "$T/out" && ok "UL01: the gateway died, on_gateway_loss: stop: 125" || not_ok "UL01: the gateway died, on_gateway_loss: stop: 125" "$(cat "$T/out")"

# UM01: threads, spawns and newer calls; UM02: what answers ENOSYS falls back
plain -- python3 calls.py >"$T/out" 2>&1
[ "$(grep -c 'as it should be' "$T/out")" -eq 9 ] && grep -q '^thread$' "$T/out" && grep -q '^spawned$' "$T/out" && grep -q '^run$' "$T/out" && ok "UM01 UM02: threads and spawns work, unknown and blocked calls answer ENOSYS" || not_ok "UM01 UM02: threads and spawns work, unknown and blocked calls answer ENOSYS" "$(cat "$T/out")"
if [ -x /usr/bin/node ]; then
	[ "$(plain -- /usr/bin/node -e 'require("dns").lookup("localhost", () => require("fs").readFile("/etc/hosts", () => console.log("read")))' 2>&1)" = read ] && ok "UM02: node runs" || not_ok "UM02: node runs"
fi
if [ "$(uname -m)" = x86_64 ]; then
	printf 'int main(void) { int r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory"); return 0; }\n' >"$T/i386.c"
	"${CC:-cc}" -o "$WORK/i386" "$T/i386.c" 2>/dev/null
	plain -- ./i386 >"$T/out" 2>&1; s=$?
	case $s in 159 | 139) ok "UM02: a foreign call convention ends the program: $s" ;; *) not_ok "UM02: a foreign call convention ends the program" "$s" ;; esac
fi

# UM04: a wall that cannot be put up is no sandbox
"${CC:-cc}" -Wall -Wextra -o "$T/less" "$walls/less.c" >"$T/out" 2>&1 || not_ok "less builds" "$(cat "$T/out")"
lacks() { # TEXT CALL ERRNO ARGUMENT...
	local text=$1 nr=$2 e=$3 s; shift 3
	rm -f "$WORK/started"
	"$T/less" "$nr" "$e" timeout 30 "$SP" run --quiet "$@" -- touch started >"$T/out" 2>&1; s=$?
	[ $s -eq 125 ] && [ ! -e "$WORK/started" ] && [ -s "$T/out" ] && ok "UM04: $text: 125, nothing starts" || not_ok "UM04: $text: 125, nothing starts" "$s $(cat "$T/out")"
}
case $(uname -m) in x86_64) NR_SECCOMP=317 NR_CAPSET=126 NR_PIVOT=155 ;; *) NR_SECCOMP=277 NR_CAPSET=91 NR_PIVOT=41 ;; esac
plain -- sh -c 'touch up2; while [ ! -e over2 ]; do sleep 0.05; done' & # holds a gateway that was started on the whole kernel
holder=$!
PIDS+=($holder)
wait_for 20 test -e up2
lacks "no seccomp filter" $NR_SECCOMP 1
lacks "capabilities cannot be dropped" $NR_CAPSET 1
lacks "the root cannot be changed" $NR_PIVOT 1
lacks "Landlock is there and fails" 446 1
lacks "mount flags cannot be set" 442 1
printf 'version: 1\nname: l\nsandbox: { require: [landlock] }\n' >"$T/landlock.yaml"
lacks "no Landlock, which the policy requires" 444 38 --policy "$T/landlock.yaml"
"$T/less" 444 38 timeout 30 "$SP" run -- true >"$T/out" 2>&1
has "UM04: no Landlock is said" "$T/out" "no Landlock"
printf 'version: 1\nname: r\nsandbox: { filesystem: { read: [ %s/none, /etc/hostname ], hide: [ none/there ], write: [ . ] } }\n' "$T" >"$T/missing.yaml"
timeout 30 "$SP" run --policy "$T/missing.yaml" -- sh -c 'touch started && echo wrote' >"$T/out" 2>&1
grep -q "read: $T/none does not exist" "$T/out" && grep -q 'hide: none/there does not exist' "$T/out" && grep -q wrote "$T/out" && ok "UM04: a path that does not exist is said, the other rules hold" || not_ok "UM04: a path that does not exist is said" "$(cat "$T/out")"
printf 'version: 1\nname: w\nsandbox: { filesystem: { write: [ %s/none ] } }\n' "$T" >"$T/missing.yaml"
plain --policy "$T/missing.yaml" -- true >"$T/out" 2>&1
[ $? -eq 125 ] && grep -q "$T/none" "$T/out" && ok "UM04: a writable one that does not exist is an error" || not_ok "UM04: a writable one that does not exist is an error" "$(cat "$T/out")"
printf 'version: 1\nname: n\nsandbox: { filesystem: { write: [] } }\n' >"$T/nothing.yaml"
rm -f started
plain --policy "$T/nothing.yaml" -- sh -c 'touch started; ls -A; echo ended' >"$T/out" 2>&1
[ ! -e started ] && grep -q ended "$T/out" && ! grep -q policy.yaml "$T/out" && ok "write: [] shares nothing" || not_ok "write: [] shares nothing" "$(cat "$T/out")"
touch over2
wait $holder

# UM05: read-only things in a writable folder stay what they are; nothing is left behind
mkdir -p "$T/ws/.git" "$T/ws/sub/deep" && cd "$T/ws" || exit 1
echo agents >AGENTS.md; echo deep >sub/deep/keep; echo ok >plain
printf 'version: 1\nname: p\nsandbox: { filesystem: { write: [ . ], protect: [ AGENTS.md, sub/deep/keep, not/there/yet ] } }\n' >"$T/protect.yaml"
find . | sort >"$T/tree.before"
plain --policy "$T/protect.yaml" -- bash -c '
	echo x >>AGENTS.md; mv AGENTS.md a; rm -f AGENTS.md; echo y >y; ln -f y AGENTS.md; mv -f y AGENTS.md; cp --remove-destination plain AGENTS.md; ln AGENTS.md b && echo z >>b; chmod 777 AGENTS.md; truncate -s 0 AGENTS.md
	python3 -c "import ctypes; print(ctypes.CDLL(None).renameat2(-100, b\"plain\", -100, b\"AGENTS.md\", 2))"
	rm -rf .git/hooks; mv .git g; mkdir .git/hooks; echo evil >.git/hooks/pre-commit; mv sub s2; mv sub/deep d2; echo x >sub/deep/keep; rm -rf sub; mkdir -p not/there/yet; echo x >not; rmdir not; rm -rf not; touch not/x
	rm -rf y b d2; echo ended' >"$T/out" 2>&1 # a directory that cannot be moved is copied by mv
find . | sort >"$T/tree.after"
cmp -s "$T/tree.before" "$T/tree.after" && grep -q '^ended$' "$T/out" && [ "$(cat AGENTS.md sub/deep/keep plain)" = "agents
deep
ok" ] && [ "$(stat -c %a AGENTS.md)" != 777 ] && ok "UM05: protected files and their folders cannot be changed, renamed, linked or made; nothing stays" || not_ok "UM05: protected files and their folders cannot be changed, renamed, linked or made; nothing stays" "$(diff "$T/tree.before" "$T/tree.after"; head -v AGENTS.md sub/deep/keep plain; cat "$T/out")"
ln -s "$T/ws/sub" "$T/ws/rooted"
printf 'version: 1\nname: p\nsandbox: { filesystem: { write: [ rooted/deep ] } }\n' >"$T/protect.yaml"
plain --policy "$T/protect.yaml" -- touch sub/deep/made >"$T/out" 2>&1
[ $? -eq 125 ] && [ ! -e sub/deep/made ] && ok "UM05: a shared folder behind a link is refused" || not_ok "UM05: a shared folder behind a link is refused" "$(cat "$T/out")"
check_done
