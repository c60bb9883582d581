#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The planted secret is nowhere: environment, memory, files, responses, DNS, logs, processes that must not hold it.
NAME=secrets
ulimit -c unlimited # a core would be written, were there one
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
HERE=$(cd "$(dirname "$0")" && pwd)
# nowhere TEXT FILE...: in none of the forms that memscan.py knows
nowhere() { local t=$1 hits; shift; hits=$(python3 "$HERE/memscan.py" --files "$SECRET" "$@"); if [ -z "$hits" ]; then ok "$t"; else not_ok "$t" "it is in: $hits"; fi; }
# the roles, and what runs inside, while two sandboxes live: one that uses the secret, one whose policy names no secret
cat >"$WORK/other.yaml" <<Y
version: 1
name: other
destinations:
  - host: git.test
    connect: 127.0.0.1:$PORT
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ "GET /v1/**" ]
Y
live() { # NAME POLICY HOST
	(cd "$WORK" && E2E_SECRET=$SECRET timeout 120 "$SP" run --quiet --policy "$2" --name "$1" -- sh -c "curl -sS -o /dev/null https://$3/v1/hello; touch ready-$1; while [ ! -e stop ]; do sleep 0.1; done") >"$T/$1.out" 2>&1 &
	PIDS+=($!)
	wait_for 20 test -e "$WORK/ready-$1" || not_ok "a sandbox lives" "$(cat "$T/$1.out")"
}
live lives policy.yaml api.test
lives=${PIDS[-1]}
live other other.yaml git.test
other=${PIDS[-1]}
if can_scan; then
	role_pids >"$T/pids"
	inside=$(inside_pids "$lives")
	# shellcheck disable=SC2046,SC2086
	mem_scan "$SECRET" $(awk '{print $2}' "$T/pids") $inside >"$T/scan"
	awk 'NR == FNR {is[$1] = $2; next} {print $1 ($3 == "other" ? " of another sandbox" : "") ": " is[$2]}' "$T/scan" "$T/pids" >"$T/roles"
	for r in supervisor dialer ca audit spare "worker of another sandbox"; do has "memory of the $r is clean" "$T/roles" "$r: clean"; done
	has "the search can find it: secrets holds it" "$T/roles" "secrets: holds"
	has "the search can find it: the worker holds it" "$T/roles" "worker: holds"
	# the search finds its other forms, too: in a process that holds one of them and nothing else of it
	for f in 'v.hex()' 'v.hex().upper()' 'base64.b64encode(b"-" + v).decode()' 'base64.urlsafe_b64encode(v).decode()' '"".join("%%%02X" % c for c in v)' '"".join("\\u%04x" % c for c in v)' '"nothing of it" * 9'; do
		python3 -c "import base64, sys; v = sys.argv[1].encode(); open(sys.argv[2], 'w').write('(' + $f + ')')" "$SECRET" "$T/form"
		python3 -c "import sys, time; held = open(sys.argv[1]).read(); open(sys.argv[2], 'w').close(); time.sleep(60)" "$T/form" "$T/held" &
		holder=$!
		PIDS+=($holder)
		wait_for 10 test -e "$T/held"
		rm -f "$T/form" "$T/held"
		mem_scan "$SECRET" $holder >"$T/one"
		kill $holder
		[ "${f#*nothing}" != "$f" ] && want=clean || want=holds
		has "the search tells of $f that it $want" "$T/one" "$holder $want"
	done
	n=0 bad=
	for p in $inside; do
		if [ "${SP_VARIANT:-${VARIANT:-release}}" = san ] && [ "$(cat /proc/"$p"/comm 2>/dev/null)" = sallyport-init ]; then
			skip "pid 1 of a sanitizer build: the sanitizer keeps a copy of the environment of its own"
			n=$((n + 1))
			continue
		fi
		case $(awk -v p="$p" '$1 == p {print $2}' "$T/scan") in
		clean) n=$((n + 1)) ;;
		gone | "") ;;
		*) bad="$bad $p" ;;
		esac
	done
	if [ -z "$bad" ] && [ $n -ge 2 ]; then ok "memory of all that runs inside is clean, pid 1 too"; else not_ok "memory of all that runs inside is clean, pid 1 too" "clean: $n, not:$bad" "$(cat "$T/scan")"; fi
else
	skip "the memory of other processes can only be searched by root"
fi
# cores: none is written
role_pids >"$T/pids"
bad=
while read -r role pid _; do
	[ "$(awk '$1 == "Max" && $2 == "core" {print $5 $6}' "/proc/$pid/limits")" = 00 ] || bad="$bad $role"
done <"$T/pids"
if [ -z "$bad" ] && [ -s "$T/pids" ]; then ok "no role may write a core"; else not_ok "no role may write a core" "$bad"; fi
for role in secrets worker; do
	pid=$(role_pid $role)
	dir=$(readlink "/proc/$pid/cwd" 2>/dev/null)
	if kill -SEGV "$pid" 2>/dev/null; then
		wait_for 10 gone "$pid"
		find "$T" / "${dir:-/}" /var/lib/systemd/coredump /var/crash -xdev -maxdepth 3 -newer "$T/pids" -name '*core*' -type f -size +0 2>/dev/null >"$T/cores"
		if [ -s "$T/cores" ]; then not_ok "a $role that crashes leaves no core" "$(cat "$T/cores")"; else ok "a $role that crashes leaves no core"; fi
	else
		skip "the $role is another user's: it cannot be made to crash"
	fi
done
touch "$WORK/stop"
wait "$lives" "$other"
# shellcheck disable=SC2046
nowhere "no file of the state has it, in no form" $(find "$STATE" -type f) "$T/out" "$T/lives.out" "$T/other.out"
hasnt "no DNS question or answer has it" <(records | grep '"kind":"dns"') "$SECRET"
# the other two kinds; the echo of basic is base64 text
sed 's/as: bearer,/as: basic, username: robot,/' "$WORK/policy.yaml" >"$WORK/basic.yaml"
(cd "$WORK" && E2E_SECRET=$SECRET timeout 60 "$SP" run --quiet --policy basic.yaml -- curl -sS -m 20 -i https://api.test/v1/echo?basic) >"$T/out" 2>&1
basic=$(printf 'robot:%s' "$SECRET" | base64 -w 0)
has "basic: the upstream got it" "$T/ngx/access.log" "auth=Basic $basic"
has "basic: the answer came" "$T/out" "auth=Basic ***"
hasnt "basic: its text does not come back" "$T/out" "$basic"
sed 's/as: bearer,/as: header, name: X-Api-Key,/' "$WORK/policy.yaml" >"$WORK/header.yaml"
(cd "$WORK" && E2E_SECRET=$SECRET timeout 60 "$SP" run --quiet --policy header.yaml -- curl -sS -m 20 -i https://api.test/v1/echo?header) >"$T/out" 2>&1
has "header: the upstream got it" "$T/ngx/access.log" "key=$SECRET"
has "header: the answer came" "$T/out" "key=***"
hasnt "header: the value does not come back" "$T/out" "$SECRET"
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
