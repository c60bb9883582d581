#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What names cost: a certificate for a new one (ca and worker together) beside a plain mint in one process of the same run, and
# connections to a name that was resolved already, to a new one, to what cannot be reached. Prints markdown. The machine is shared and
# its speed drifts: so many small windows, each of PER plain mints, new names, and the same names again; medians of what is found in each.
# WINDOWS (60) times PER (16) names: the ca mints 1,024 for a sandbox at once, then 8 a second.
set -u
cd "$(dirname "$0")/../.."
PER=${PER:-16} WINDOWS=${WINDOWS:-60}
NAME=names
. tests/e2e/lib.sh
HERE=$PWD/tests
mkdir -p build/bench
[ build/bench/mint -nt tests/bench/mint.c ] || ${CC:-cc} -std=gnu17 -D_GNU_SOURCE -O2 -Wall -Wextra -o build/bench/mint tests/bench/mint.c -lssl -lcrypto || exit 1
cp tests/bench/names.py "$WORK/"
DNS=$(free_port) HTTP=$(free_port) CLOSED=$(free_port) SILENT=$(free_port)
for i in $(seq 0 199); do echo "d$i.names.test a 127.0.0.1"; done >"$T/zone"
python3 "$HERE/e2e/dnsd.py" "$DNS" "$T/asked" "$T/zone" >"$T/dnsd.log" 2>&1 &
PIDS+=($!)
# an origin that closes each connection, and one whose backlog is full: it never answers a SYN
python3 -c '
import socket, sys, threading
full = socket.socket(); full.bind(("127.0.0.1", int(sys.argv[2]))); full.listen(0); keep = []
for _ in range(4):
    s = socket.socket(); s.setblocking(False); s.connect_ex(full.getsockname()); keep.append(s)
l = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=200); print("up", flush=True)
while True: s, _ = l.accept(); s.recv(4096); s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"); s.close()' "$HTTP" "$SILENT" >"$T/origin" 2>&1 &
PIDS+=($!)
wait_for 10 grep -q up "$T/origin" && wait_for 10 test -s "$T/asked" || { echo "names: the servers do not start" >&2; exit 1; }
{
	printf 'version: 1\nname: names\ndestinations:\n  - host: "*.names.test"\n    allow: [ "GET /**" ]\n'
	for p in "$HTTP" "$CLOSED" "$SILENT"; do printf '  - host: "*.names.test"\n    scheme: http\n    ports: [%s]\n    addresses: [127.0.0.0/8]\n    allow: [ "GET /**" ]\n' "$p"; done
} >"$WORK/policy.yaml"
printf 'dns: { servers: ["127.0.0.1:%s"] }\n' "$DNS" >"$T/gateway.yaml"
"$SP" serve --config "$T/gateway.yaml" --state "$STATE" >"$T/gateway.log" 2>&1 &
PIDS+=($!)
wait_for 20 test -S "$STATE/run/control.sock" || { echo "names: the gateway does not start" >&2; exit 1; }
mkfifo "$WORK/todo" "$WORK/done"
exec 8<>"$WORK/todo" 9<>"$WORK/done" # open from now on: nobody sees an end of them
(cd "$WORK" && exec "$SP" run --quiet --policy policy.yaml -- python3 names.py todo done out) &
PIDS+=($!)
ask() { echo "$*" >&8; read -r rc <&9; [ "$rc" = 0 ] || { echo "names: $*: $rc" >&2; exit 1; }; }
cpu_us() { local a _; read -r a _ <"/proc/$1/schedstat"; echo $((a / 1000)); }
coproc MINT { exec build/bench/mint; }
PIDS+=("$MINT_PID")
ask hello 100000 20 # everything is loaded
WORKER=$(role_pids | awk '$1 == "worker" {print $2; exit}') CA=$(role_pid ca)
for ((r = 0; r < WINDOWS; r++)); do
	first=$((1 + r * PER))
	echo "$PER" >&"${MINT[1]}" && read -r plain <&"${MINT[0]}"
	a=$(cpu_us "$WORKER") b=$(cpu_us "$CA")
	ask hello "$first" "$PER"
	c=$(cpu_us "$WORKER") d=$(cpu_us "$CA")
	ask hello "$first" "$PER" # they are in the cache now
	e=$(cpu_us "$WORKER") f=$(cpu_us "$CA")
	echo "$plain $((c - a)) $((d - b)) $((e - c)) $((f - d))"
done >"$T/mints"
dials() { ask get "$1" $2; cut -d' ' -f1 "$WORK/out" >"$T/$3"; echo "$3 $(cut -d' ' -f2 "$WORK/out" | sort | uniq -c | awk '{printf "%s x %s ", $1, $2}')" >>"$T/statuses"; }
all=$(for i in $(seq 0 199); do echo "d$i.names.test"; done)
dials "$HTTP" "$all" new
dials "$HTTP" "$all" cached
dials "$CLOSED" "$all" closed
dials "$SILENT" "d0.names.test" silent
echo end >&8
python3 - "$T" "$PER" "$(nproc)" <<'P'
import statistics, sys
d, n = sys.argv[1], int(sys.argv[2])
rows = [list(map(float, l.split())) for l in open(d + "/mints")]
med = statistics.median
print("\n### A certificate for a new name (%d windows of %d names; CPU µs each)\n\n| | median (10 to 90 %% of the windows) |\n|---|---|" % (len(rows), n))
def row(t, v, f="%.0f"):
    v = sorted(v)
    print("| %s | %s (%s–%s) |" % (t, f % med(v), f % v[len(v) // 10], f % v[-1 - len(v) // 10]))
row("plain mint in one process", [r[0] for r in rows])
row("ca, new names", [r[2] / n for r in rows])
row("worker, what a new name costs more than a cached one", [(r[1] - r[3]) / n for r in rows])
row("ca and worker together", [(r[2] - r[4] + r[1] - r[3]) / n for r in rows])
row("beside the plain mint", [(r[2] - r[4] + r[1] - r[3]) / n / r[0] for r in rows], "%.2f")
print("\n### A request over a connection made for it (ms, as the client sees it)\n\n| | median | 95 % | answers |\n|---|---|---|---|")
s = dict(l.split(" ", 1) for l in open(d + "/statuses").read().splitlines())
for k, t in (("cached", "a name that was resolved already"), ("new", "a new name: two questions to a name server on this host"), ("closed", "nobody listens there"), ("silent", "nobody answers there")):
    v = sorted(float(x) for x in open(d + "/" + k))
    print("| %s | %.2f | %.2f | %s |" % (t, med(v), v[int(len(v) * 0.95) if len(v) > 1 else 0], s[k].strip()))
P
