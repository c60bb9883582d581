#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How long it takes until a policy is in force: reload.sh [CONNECTIONS] prints markdown (docs/PERFORMANCE.md). The time of
# the worker is its processor time for a whole reload, with that many idle connections; the rest is from the question on
# the control socket to its answer, and from a file's change to `run` saying that it is in force.
NAME=bench
here=$(cd "$(dirname "$0")" && pwd)
: "${BIN:=$here/../../bin}" "${BUILD:=$here/../../build/release}"
BIN=$(cd "$BIN" && pwd)
export BIN
. "$here/../e2e/lib.sh"
ulimit -n "$(ulimit -Hn)"
N=${1:-500}
make_pki
start_nginx
sed -i "s/worker_connections 512/worker_connections 4096/" "$T/ngx/conf"
mkdir -p "$T/pol"
yaml() { printf 'version: 1\nname: bench-%s\ndestinations:\n  - host: api.test\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { ca: %s/upca.pem }\n    allow: [ "GET /v1/**", "GET /%s" ]\n' "$1" "$PORT" "$T" "$1" >"$T/pol/$1.yaml"; chmod 644 "$T/pol/$1.yaml"; }
chmod 644 "$T/upca.pem"
yaml a; yaml b
cp "$T/pol/a.yaml" "$T/pol/now.yaml"
cat >"$WORK/hold.py" <<'P'
import http.client, os, ssl, sys, time
x = ssl.create_default_context(); held = []
for i in range(int(sys.argv[1])):
    c = http.client.HTTPSConnection("api.test", timeout=60, context=x); c.request("GET", "/v1/hello"); c.getresponse().read(); held.append(c)
open("ready", "w").close()
while not os.path.exists("stop"): time.sleep(0.1)
bad = 0
for c in held:
    c.request("GET", "/v1/hello"); bad += c.getresponse().status != 200
open("bad.%d" % bad, "w").close()
P
chmod 777 "$WORK"
(cd "$WORK" && exec "$SP" run --name box --policy "$T/pol/now.yaml" -- python3 hold.py "$N") 2>"$T/run.err" &
RUN=$!
PIDS+=($RUN)
wait_for 120 test -e "$WORK/ready" || { cat "$T/run.err"; exit 1; }
for n in 100 2500 25000 100000; do "$BUILD/bench/policy" write $n "$T/big.$n.lmdb"; done
"$BIN/sallyport-policy" compile "$T/pol/a.yaml" -o "$T/a.lmdb"
"$BIN/sallyport-policy" compile "$T/pol/b.yaml" -o "$T/b.lmdb"
worker=$(role_pids | awk '$1 == "worker" && $3 == "box" { print $2 }')
python3 - "$STATE" "$T" "$worker" "$N" <<'P'
import array, json, os, shutil, socket, sys, time
state, T, worker, n = sys.argv[1:5]
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(60); s.connect(state + "/run/control.sock")
cpu = lambda: int(open("/proc/%s/schedstat" % worker).read().split()[0])
def reload(f):
    with open(f, "rb") as t:
        a = time.monotonic()
        s.sendmsg([json.dumps({"id": 1, "op": "reload", "sandbox": "box", "policy": {"fd": 0}}).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [t.fileno()]))])
        r = json.loads(s.recv(65536))
        assert "ok" in r, r
        return time.monotonic() - a
def row(what, goal, v, scale, unit): v.sort(); print("| %s | %s | %.2f | %.2f %s |" % (what, goal, v[0] * scale, v[len(v) // 2] * scale, unit), flush=True)
print("| | goal | best | median |\n|---|---|---|---|")
used = []
for i in range(30):
    before = cpu(); reload(T + "/" + "ba"[i % 2] + ".lmdb"); used.append(cpu() - before); time.sleep(0.02)
row("processor time of the worker for a reload, %s open connections" % n, "1 ms", used, 1e-6, "ms")
for size in ("a", "big.100", "big.2500", "big.25000", "big.100000"):
    f = T + "/" + size + ".lmdb"; mb = os.path.getsize(f) / 1e6; v = []
    for i in range(10):
        v.append(reload(f)); reload(T + "/b.lmdb")
    row("table to in force, %.1f MB" % mb, "%.0f ms" % (10 + 2 * mb), v, 1e3, "ms")
def all_cpu():
    st = json.loads((s.send(b'{"id":1,"op":"status"}'), s.recv(65536))[1])["ok"]
    j = open("/proc/%d/stat" % st["pid"]).read().rsplit(")", 1)[1].split()
    return sum(int(x) for x in j[11:15]) * 1e7 + sum(int(open("/proc/%d/schedstat" % r["pid"]).read().split()[0]) for r in st["roles"])
before = all_cpu()
for i in range(10):
    reload(T + "/big.100000.lmdb")
print("| processor time of all processes for a reload of %.1f MB | | | %.0f ms |" % (mb, (all_cpu() - before) / 10 / 1e6))
reload(T + "/a.lmdb")
v = []
for i in range(10):
    shutil.copy(T + "/pol/" + "ba"[i % 2] + ".yaml", T + "/pol/next"); os.chmod(T + "/pol/next", 0o644)
    seen = open(T + "/run.err").read().count("has changed")
    a = time.monotonic(); os.rename(T + "/pol/next", T + "/pol/now.yaml")
    while open(T + "/run.err").read().count("has changed") == seen and time.monotonic() < a + 20: time.sleep(0.0005)
    v.append(time.monotonic() - a)
row("changed YAML file of a run to in force, compiler and all", "", v, 1e3, "ms")
P
touch "$WORK/stop"
wait $RUN
[ -e "$WORK/bad.0" ] || { echo "requests failed afterwards: $(ls "$WORK")"; exit 1; }
