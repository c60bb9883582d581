# SPDX-License-Identifier: Apache-2.0
# What creds*.sh share: an origin that writes down what arrives, a search for planted values in all forms. Sourced by bash.
[ -n "${T:-}" ] || . "$(dirname "$0")/lib.sh" # not twice: tests/clients/lib.sh has it too
E2E=$(cd "$(dirname "$0")" && pwd)
LOG=$T/arrived.jsonl
# cred_origin [APP]: on $PORT, for every name of the certificate
cred_origin() {
	PORT=$(free_port)
	: >"$LOG"
	python3 "$E2E/credorigin.py" "$PORT" "$LOG" "$T/up.pem" "$T/up.key" "$@" >"$T/origin.out" 2>&1 &
	PIDS+=($!)
	wait_for 10 grep -q up "$LOG" || { not_ok "the origin starts" "$(cat "$T/origin.out")"; exit 1; }
}
# dest HOST [more lines]: the head of a destination on the origin
dest() { printf '  - host: %s\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { ca: ./upca.pem%s }\n' "$1" "$PORT" "${2:-}"; }
# arrived PYTHON: of the requests that arrived, r, how many are so
arrived() { python3 - "$LOG" "$1" <<'P'
import json, sys, base64, urllib.parse
n = 0
for l in open(sys.argv[1]):
    if not l.startswith("{"): continue
    r = json.loads(l); h = {}
    for k, v in r["headers"]: h.setdefault(k.lower(), []).append(v)
    head = lambda k: ", ".join(h.get(k, []))
    path, _, query = r["path"].partition("?"); body = r["body"].encode("latin-1"); method = r["method"]; host = r["host"]; version = r["version"]
    if eval(sys.argv[2]): n += 1
print(n)
P
}
# comes TEXT N PYTHON: just N requests that are so arrived
comes() { local n; n=$(arrived "$3"); if [ "$n" = "$2" ]; then ok "$1"; else not_ok "$1" "$n instead of $2: $3" "$(tail -n 6 "$LOG" | cut -c -1500)"; fi; }
forget() { : >"$LOG"; }
# planted VALUE FILE...: prints the files that have it, in the forms of memscan.py
planted() { python3 "$E2E/memscan.py" --files "$@"; }
# nowhere TEXT VALUE FILE...: neither in these, nor in any file of the state, nor in the memory of roles that must not hold it
nowhere() {
	local t=$1 v=$2 hits; shift 2
	hits=$(planted "$v" "$@" $(find "$STATE" -type f 2>/dev/null))
	if [ -z "$hits" ]; then ok "$t"; else not_ok "$t" "it is in: $hits"; fi
}
# roles_clean TEXT VALUE: while a sandbox lives; secrets and workers may hold it
roles_clean() {
	local t=$1 v=$2
	if ! can_scan; then skip "$t: the memory of other processes can only be searched by root"; return; fi
	role_pids >"$T/pids"
	# shellcheck disable=SC2046
	mem_scan "$v" $(awk '{print $2}' "$T/pids") >"$T/scan"
	awk 'NR == FNR {is[$1] = $2; next} is[$2] == "holds" && $1 != "secrets" && $1 != "worker" {print $1}' "$T/scan" "$T/pids" >"$T/dirty"
	if [ -s "$T/dirty" ]; then not_ok "$t" "$(cat "$T/dirty")"; else ok "$t"; fi
}
