#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The planted secret is nowhere: environment, memory, files, responses, DNS, logs, processes that must not hold it.
NAME=secrets
. "$(dirname "$0")/lib.sh"
can_run
make_pki
start_nginx
write_policy
cat >"$WORK/search.py" <<'P'
# Looks for a value, given in two halves so that this file does not hold it, in all that a payload can read.
import os, sys
needle = (sys.argv[1] + sys.argv[2]).encode()
hits = []
for k, v in os.environ.items():
    if needle in v.encode(): hits.append("environment " + k)
for pid in os.listdir("/proc"):
    if not pid.isdigit(): continue
    for name in ("environ", "cmdline"):
        try:
            if needle in open(f"/proc/{pid}/{name}", "rb").read(): hits.append(f"/proc/{pid}/{name}")
        except OSError: pass
    try: maps = open(f"/proc/{pid}/maps").read().splitlines()
    except OSError: continue
    if int(pid) == os.getpid(): continue
    try: mem = open(f"/proc/{pid}/mem", "rb", 0)
    except OSError: continue
    for m in maps:
        a, b = (int(x, 16) for x in m.split()[0].split("-"))
        if b - a > 1 << 30: continue # a sanitizer's shadow
        try:
            mem.seek(a)
            if needle in mem.read(b - a): hits.append(f"/proc/{pid}/mem {m}")
        except (OSError, ValueError, OverflowError): pass
for top in ("/tmp", "/run", "/etc", "/home", "/root", "/var", "/dev/shm", os.getcwd(), os.environ.get("HOME", "/")):
    for d, _, fs in os.walk(top):
        for f in fs:
            p = os.path.join(d, f)
            try:
                if os.path.isfile(p) and os.path.getsize(p) < 50 << 20 and needle in open(p, "rb").read(): hits.append(p)
            except OSError: pass
print("hits:", hits)
P
half=${#SECRET}; half=$((half / 2))
run sh -c "curl -sS -m 20 -D head -o body https://api.test/v1/hello; curl -sS -o /dev/null https://api.test/v1/big; python3 search.py '${SECRET:0:$half}' '${SECRET:$half}'; cat head body; env" >"$T/out" 2>&1
has "the search inside finds nothing" "$T/out" "hits: []"
has "the echo is overwritten, same length" "$T/out" "hello, you sent Bearer $(printf '%*s' ${#SECRET} '' | tr ' ' '*')"
hasnt "nothing that the sandbox printed has it" "$T/out" "$SECRET"
has "a placeholder stands in the variable" "$T/out" "API_TOKEN="
has "the upstream did get it" "$T/ngx/access.log" "auth=Bearer $SECRET"
hasnt "records do not have it" <(records) "$SECRET"
# the roles, while a sandbox lives
(cd "$WORK" && E2E_SECRET=$SECRET timeout 60 "$SP" run --quiet --policy policy.yaml --name lives -- sh -c 'curl -sS -o /dev/null https://api.test/v1/hello; touch ready; while [ ! -e stop ]; do sleep 0.1; done') >"$T/lives.out" 2>&1 &
lives=$!
PIDS+=($lives)
wait_for 20 test -e "$WORK/ready" || not_ok "a sandbox lives" "$(cat "$T/lives.out")"
if [ "$(id -u)" -eq 0 ]; then
	python3 - "$SECRET" "$STATE" >"$T/roles" 2>&1 <<'P'
import json, os, socket, sys
needle = sys.argv[1].encode()
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[2] + "/run/control.sock")
s.send(b'{"id":1,"op":"status"}')
st = json.loads(s.recv(65536))["ok"]
roles = [(r["role"], r["pid"]) for r in st["roles"]] + [("supervisor", st["pid"])]
for role, pid in roles:
    n = 0
    try: mem = open(f"/proc/{pid}/mem", "rb", 0)
    except OSError as e: print("cannot", role, e); continue
    for m in open(f"/proc/{pid}/maps").read().splitlines():
        a, b = (int(x, 16) for x in m.split()[0].split("-"))
        if b - a > 1 << 30: continue # a sanitizer's shadow
        try:
            mem.seek(a); n += mem.read(b - a).count(needle)
        except (OSError, ValueError, OverflowError): pass
    print(role, "holds" if n else "clean")
P
	cat "$T/roles"
	for r in supervisor dialer ca audit; do
		if grep -q "^$r clean" "$T/roles" && ! grep -q "^$r holds" "$T/roles"; then ok "$r does not hold the value"; else not_ok "$r does not hold the value" "$(cat "$T/roles")"; fi
	done
	has "the search can find it: secrets holds it" "$T/roles" "secrets holds"
	has "the search can find it: the worker holds it" "$T/roles" "worker holds"
else
	skip "an ordinary user cannot read the memory of confined roles (which is as it should be)"
fi
touch "$WORK/stop"
wait "$lives"
find "$STATE" -type f -exec grep -lF -- "$SECRET" {} + >"$T/files" 2>/dev/null
if [ -s "$T/files" ]; then not_ok "no file of the state has it" "$(cat "$T/files")"; else ok "no file of the state has it"; fi
# from a file, and a missing value
printf '%s\n' "$SECRET-file" >"$T/home/key"; chmod 600 "$T/home/key"
sed "s#env: E2E_SECRET#file: $T/home/key#" "$WORK/policy.yaml" >"$WORK/file.yaml"
(cd "$WORK" && timeout 60 "$SP" run --quiet --policy file.yaml -- curl -sS -m 20 https://api.test/v1/hello?file) >"$T/out" 2>&1
hasnt "a file's value is scrubbed too" "$T/out" "$SECRET"
has "a file's value is injected" "$T/ngx/access.log" "auth=Bearer $SECRET-file"
(cd "$WORK" && env -u E2E_SECRET timeout 60 "$SP" run --quiet --policy policy.yaml -- curl -sS -m 20 https://api.test/v1/hello?none) >"$T/out" 2>&1
if grep -q 'credential_unavailable' "$T/out" || grep -q 'E2E_SECRET' "$T/out"; then ok "no value, no request"; else not_ok "no value, no request" "$(cat "$T/out")"; fi
hasnt "nothing went upstream without it" "$T/ngx/access.log" "hello?none"
check_done
