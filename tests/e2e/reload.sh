#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A policy is replaced while it is in use: its file changes, somebody says so, roles die meanwhile. What begins is decided by
# the new one, what goes on finishes on the old one, what is wrong leaves the old one in force and is said.
NAME=reload
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/lib.sh"
can_run
make_pki
start_nginx
POL=$T/pol # outside of what the sandbox can write
mkdir -p "$POL"
cp "$T/upca.pem" "$POL/upca.pem"
chmod 644 "$POL/upca.pem"
cp "$HERE/reload_inside.py" "$WORK/inside.py"
cp "$HERE/h2/client.py" "$WORK/h2c.py"

policy() { # FILE, ALLOW... | no-secret | tunnel: written whole, then in place at once
	local f=$1 a inject=1 tunnel=0; shift
	{
		printf 'version: 1\nname: reload\n'
		for a; do [ "$a" != no-secret ] || inject=0; [ "$a" != tunnel ] || tunnel=1; done
		[ $inject = 0 ] || printf 'secrets:\n  api: { env: E2E_SECRET, hosts: [api.test] }\n'
		printf 'destinations:\n  - host: api.test\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { ca: %s/upca.pem }\n    allow:\n' "$PORT" "$POL"
		for a; do [ "$a" = no-secret ] || [ "$a" = tunnel ] || printf '      - %s\n' "$a"; done
		[ $inject = 0 ] || printf '    inject: [ { secret: api, as: bearer, env: API_TOKEN } ]\n'
		[ $tunnel = 0 ] || printf '  - host: db.test\n    protocol: tcp\n    ports: [5432]\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    allow: tunnel\n' "$ECHO"
	} >"$f.new"
	chmod 644 "$f.new"
	mv "$f.new" "$f"
}
say() { # COMMAND...: the answer from inside
	local n=$(($(find "$WORK" -name 'ask.[0-9]*' | wc -l) + 1))
	echo "$*" >"$WORK/ask.new"; chmod 644 "$WORK/ask.new"; mv "$WORK/ask.new" "$WORK/ask.$n"
	wait_for 60 test -e "$WORK/answer.$n" && cat "$WORK/answer.$n" || echo "no answer"
}
is() { if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "is '$2', not '$3'" "$(tail -n 5 "$T/run.err")"; fi; }
generation() { python3 - "$STATE" <<'P'
import json, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(10)
s.connect(sys.argv[1] + "/run/control.sock"); s.send(b'{"id":1,"op":"status"}')
print(*[b["generation"] for b in json.loads(s.recv(65536))["ok"]["sandboxes"] if b["name"] == "box"])
P
}
newer() { [ "$(generation)" -gt "$1" ]; }
change() { local g; g=$(generation); policy "$@"; wait_for 20 newer "$g"; }
failures() { grep -c 'stays in force' "$T/run.err"; }
more_failures() { [ "$(failures)" -gt "$1" ]; }

ECHO=$(free_port)
python3 -c '
import socketserver, sys
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while (d := self.request.recv(100)): self.request.sendall(d)
class Server(socketserver.ThreadingTCPServer): allow_reuse_address = daemon_threads = True
Server(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()' "$ECHO" 2>/dev/null &
PIDS+=($!)

chmod 777 "$WORK" # root's sandbox has a user of its own
policy "$POL/agent.yaml" "GET /v1/**"
(cd "$WORK" && E2E_SECRET=$SECRET exec "$SP" run --name box --policy "$POL/agent.yaml" -- python3 inside.py) >"$T/run.out" 2>"$T/run.err" &
RUN=$!
PIDS+=($RUN)
wait_for 30 test -e "$WORK/ready" || { not_ok "the sandbox starts" "$(cat "$T/run.err")"; exit 1; }

# --- the next request of an open connection
say connect >/dev/null
is "before: allowed on both versions" "$(say get /v1/echo)" "200 200"
is "a long response has begun" "$(say begin /v1/big)" 1000
check "a changed file comes into force" change "$POL/agent.yaml" "GET /v1/hello"
has "run says so" "$T/run.err" "the policy has changed: reload is in force"
is "the next request of each open connection is decided by it" "$(say get /v1/echo)" "403 403"
is "and what it allows passes there" "$(say get /v1/hello)" "200 200"
is "what went on finishes" "$(say end)" 1047576
check "and back" change "$POL/agent.yaml" "GET /v1/**"
is "the same connections go on" "$(say get /v1/echo)" "200 200"

# --- what has no end of its own
check "a policy with a tunnel" change "$POL/agent.yaml" "GET /v1/**" tunnel
is "a tunnel is open" "$(say tunnel) $(say ping one)" "open one"
check "a policy that has it too" change "$POL/agent.yaml" "GET /v1/hello" tunnel
is "it stays open" "$(say ping two)" two
check "a policy without it" change "$POL/agent.yaml" "GET /v1/**"
is "it is closed" "$(say wait)" reset
ended() { records | grep '"port":5432' | grep -q 'policy_changed'; }
check "and recorded" wait_for 10 ended

# --- what is wrong changes nothing
for what in "garbage: [" "version: 1
destinations: [ { host: api.test, allow: [ GET /x y ] } ]" ""; do
	f=$(failures) g=$(generation)
	printf '%s\n' "$what" >"$POL/agent.yaml"
	check "a bad file is said" wait_for 20 more_failures "$f"
	is "and leaves the policy in force" "$(say get /v1/echo) $(generation)" "200 200 $g"
done
f=$(failures)
rm "$POL/agent.yaml"
check "a file that is gone is said" wait_for 20 more_failures "$f"
is "and leaves the policy in force (2)" "$(say get /v1/echo)" "200 200"
records >"$T/rec"
check "an admin record says what was wrong" grep -q '"message":"policy not replaced: [^"]*agent.yaml:[0-9]*:[0-9]*: error' "$T/rec"
check "and one that it was replaced, with digest and generation" python3 - "$T/rec" <<'P'
import json, sys
r = [json.loads(l) for l in open(sys.argv[1])]
done = [x["unmapped"]["sallyport"]["policy"] for x in r if x["unmapped"]["sallyport"]["kind"] == "admin" and x.get("message") == "policy replaced"]
assert len(done) == 5 and all(len(p["digest"]) == 64 for p in done), done
seen = [(x["http_response"]["code"], x["unmapped"]["sallyport"]["policy"]) for x in r if x["unmapped"]["sallyport"]["kind"] == "request"]
by = {p["generation"]: p["digest"] for _, p in seen}
assert len(by) == 4 and all(p["name"] == "reload" and by[p["generation"]] == p["digest"] for _, p in seen), seen
assert {p["generation"] for c, p in seen if c == 403} == {done[0]["generation"]}, seen
P

for i in 1 2 3 4 5 6 7 8 9; do policy "$POL/agent.yaml" "GET /v1/$i"; done
policy "$POL/agent.yaml" "GET /v1/echo"
last() { [ "$(say get /v1/echo)" = "200 200" ]; }
check "of many changes at once the last one counts" wait_for 20 last
is "as it is" "$(say get /v1/hello)" "403 403"

# --- under load
policy "$POL/agent.yaml" "GET /v1/**" "GET /a"
say load >/dev/null
good=1
for i in 1 2 3 4 5 6 7 8 9 10; do change "$POL/agent.yaml" "GET /v1/**" "GET /a$i" || good=0; done
is "ten reloads came into force under load" $good 1
is "no request failed" "$(say unload | sed 's/"requests": [1-9][0-9]*/"requests": N/')" '{"requests": N, "bad": 0, "which": []}'

# --- roles that die
for role in dialer ca secrets audit worker; do
	g=$(generation)
	policy "$POL/agent.yaml" "GET /v1/**" "GET /$role"
	kill -9 "$(role_pid $role)"
	check "a reload while the $role dies comes into force" wait_for 30 newer "$g"
	alive() { [ "$(say fresh api.test /v1/hello)" = 200 ]; }
	check "and requests pass" wait_for 20 alive
done
g=$(generation)
stuck=$(role_pid worker)
kill -STOP "$stuck"
policy "$POL/agent.yaml" "GET /v1/**" "GET /stuck"
check "a worker that does not switch does not keep the old policy in force" wait_for 40 newer "$g"
check "it was ended" test ! -e "/proc/$stuck"
check "and requests pass" wait_for 20 alive
g=$(generation)
kill -9 "$(role_pid dialer)"
policy "$POL/agent.yaml" "GET /v1/hello"
check "while a role is down a reload comes into force" wait_for 30 newer "$g"
say connect >/dev/null
is "and decides" "$(say get /v1/echo)" "403 403"

# --- by hand, and what becomes of secrets
policy "$T/other.yaml" "GET /v1/echo" no-secret
g=$(generation)
check "sandbox reload" "$SP" sandbox reload --policy "$T/other.yaml" box
check "is in force" newer "$g"
is "and decides (2)" "$(say get /v1/echo)" "200 200"
check "without the secret" bash -c "tail -n 1 '$T/ngx/access.log' | grep -q 'auth=- '"
if can_scan; then
	dropped() { mem_scan "$SECRET" "$(role_pid secrets)" | grep -q clean; }
	check "a secret that is not bound any more is not held by secrets" wait_for 60 dropped
else
	skip "memory cannot be looked at here"
fi
printf 'broken' >"$T/table"
if "$SP" sandbox reload --policy "$T/table" box >"$T/out" 2>&1; then not_ok "a broken table is refused"; else ok "a broken table is refused"; fi
if "$SP" sandbox reload --policy "$T/other.yaml" nobody >"$T/out" 2>&1; then not_ok "an unknown sandbox is an error"; else has "an unknown sandbox is an error" "$T/out" "no such sandbox"; fi

sed -e 's/^destinations:/secrets: { late: { env: LATE_SECRET, hosts: [api.test] } }\ndestinations:/' -e "s/^    allow:/    inject: [ { secret: late, as: header, name: X-Late } ]\n    allow:/" "$T/other.yaml" >"$T/late.yaml"
g=$(generation)
if LATE_SECRET=planted-too-late "$SP" sandbox reload --policy "$T/late.yaml" box >"$T/out" 2>&1; then not_ok "a policy with a variable that was not handed over is refused" "$(cat "$T/late.yaml")"; else has "a policy with a variable that was not handed over is refused, and it is said" "$T/out" "its variable LATE_SECRET was not handed over when the sandbox was started"; fi
is "and the one before is in force" "$(generation) $(say get /v1/echo)" "$g 200 200"

# --- a hundred in a row
fds() { role_pids | while read -r r p _; do n=$(ls "/proc/$p/fd" 2>/dev/null | wc -l); [ "$n" -eq 0 ] || echo "$r $n"; done | sort; }
rss() { role_pids | while read -r r p _; do echo "$r $(awk '/^VmRSS/ { print $2 }' "/proc/$p/status")"; done | sort; }
cat >"$T/many.py" <<'P'
import array, json, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(60)
s.connect(sys.argv[1] + "/run/control.sock")
for i in range(int(sys.argv[2])):
    with open(sys.argv[3 + i % 2], "rb") as f:
        s.sendmsg([json.dumps({"id": i, "op": "reload", "sandbox": "box", "policy": {"fd": 0}}).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [f.fileno()]))])
    a = json.loads(s.recv(65536))
    assert "ok" in a and a["id"] == i, a
P
"$BIN/sallyport-policy" compile "$T/other.yaml" -o "$T/a.lmdb"
policy "$T/b.yaml" "GET /v1/**"
"$BIN/sallyport-policy" compile "$T/b.yaml" -o "$T/b.lmdb"
check "reloads in a row" python3 "$T/many.py" "$STATE" 20 "$T/a.lmdb" "$T/b.lmdb"
say get /v1/echo >/dev/null
settled() { fds >"$T/fds.1"; cmp -s "$T/fds.1" "$T/fds.0" || { cp "$T/fds.1" "$T/fds.0"; return 1; }; }
wait_for 10 settled
before=$(fds) mem=$(rss)
check "a hundred" python3 "$T/many.py" "$STATE" 100 "$T/a.lmdb" "$T/b.lmdb"
is "the last one decides" "$(say get /v1/hello)" "200 200"
same_fds() { # by role; fewer is an idle connection that has ended meanwhile
	fds >"$T/fds.after"
	[ "$(wc -l <"$T/fds.after")" -le "$(wc -l <<<"$before")" ] && [ -z "$(join <(echo "$before") "$T/fds.after" | awk '$3 > $2')" ]
}
wait_for 40 same_fds && ok "nobody holds more descriptors than before" || not_ok "nobody holds more descriptors than before" "$before" "$(cat "$T/fds.after")"
after=$(rss)
if python3 - "$mem" "$after" "${SP_VARIANT:-${VARIANT:-}}" <<'P'; then ok "nor more memory"; else not_ok "nor more memory" "$mem" "$after"; fi
import sys
a, b = ({l.split()[0]: int(l.split()[1]) for l in t.splitlines()} for t in sys.argv[1:3])
sys.exit(any(b[r] > a[r] + (20000 if sys.argv[3] == "san" else 1024) for r in a if r in b))
P

# --- what the sandbox could write is not followed
say bye >/dev/null
wait $RUN
policy "$WORK/mine.yaml" "GET /v1/**"
rm -f "$WORK"/ask.* "$WORK"/answer.* "$WORK/ready"
(cd "$WORK" && E2E_SECRET=$SECRET exec "$SP" run --name box --policy mine.yaml -- python3 inside.py) >"$T/run.out" 2>"$T/run.err" &
RUN=$!
PIDS+=($RUN)
wait_for 30 test -e "$WORK/ready"
g=$(generation)
policy "$WORK/mine.yaml" "GET /nothing"
check "a policy in a folder that the sandbox can write is not followed" bash -c "! cat /proc/$RUN/task/*/children | tr ' ' '\n' | while read -r p; do cat /proc/\$p/comm; done | grep -q sallyport-reld"
is "its sandbox goes on with the one that it was started with" "$(say fresh api.test /v1/echo) $(generation)" "200 $g"
check "unless somebody says so" "$SP" sandbox reload --policy "$WORK/mine.yaml" box
is "and then it is in force" "$(say fresh api.test /v1/echo)" 403
kill -9 "$(role_pid supervisor)"
back() { [ -n "$(generation 2>/dev/null)" ]; }
"$BIN/sallyport-proxy" serve --state "$STATE" >"$T/serve2" 2>&1 &
PIDS+=($!)
check "after a loss of the gateway" wait_for 30 back
is "the policy that was in force is in force again" "$(say fresh api.test /v1/echo)" 403
say bye >/dev/null
check_done
