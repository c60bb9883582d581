# SPDX-License-Identifier: Apache-2.0
# What vault.sh (the in-tree double) and vault-real.sh (a real server) share: a gateway that logs in, policies, a sandbox that asks when told. Sourced by bash.
# VADDR: the server; $T/vaultca.pem: its CA.
config() { # AUTH-YAML [address...]
	local a=$1; shift
	{
		echo "vault:"
		echo "  address: [$(IFS=,; echo "${*:-$VADDR}")]"
		echo "  ca: ./vaultca.pem"
		echo "  auth: $a"
	} >"$T/gateway.yaml"
	chmod 600 "$T/gateway.yaml"
}
serve() {
	[ -z "${GW:-}" ] || { "$SP" stop --all >/dev/null 2>&1; wait_for 15 gone "$GW"; wait "$GW" 2>/dev/null; }
	"$SP" serve --config "$T/gateway.yaml" --state "$STATE" >>"$T/gateway.log" 2>&1 &
	GW=$!
	PIDS+=($GW)
	wait_for 20 test -S "$STATE/run/control.sock" || { not_ok "the gateway starts" "$(cat "$T/gateway.log")"; exit 1; }
}
policy() { # FILE SECRET-YAML [inject]
	cat >"$WORK/$1" <<P
version: 1
name: vault
secrets:
  v: { $2, hosts: [api.test] }
destinations:
  - host: api.test
    connect: 127.0.0.1:$PORT
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ "GET /v1/**" ]
    inject:
      - { secret: v, as: ${3:-bearer} }
  - host: git.test
    connect: 127.0.0.1:$PORT
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ "GET /v1/**" ]
P
}
# the newest reasons that the record has: inside, only that it could not be had is said
why() { records | grep '"kind":"secret"' | tail -n 3 >"$T/why"; }
get() { (cd "$WORK" && timeout 60 "$SP" run --quiet --policy "$1" -- curl -sS -m 30 "https://api.test/v1/hello?$2") >"$T/out" 2>&1; why; }
# a sandbox that lives: `ask BOX TAG` makes it send one request, its output in $WORK/BOX.TAG
start_box() { # NAME POLICY
	mkdir -p "$WORK/$1"
	(cd "$WORK" && timeout 300 "$SP" run --quiet --policy "$2" --name "$1" -- bash -c "touch $1/up; while [ ! -e $1/stop ]; do for q in $1/*.ask; do [ -e \"\$q\" ] || continue; t=\${q%.ask}; rm \"\$q\"; curl -sS -m 30 \"https://api.test/v1/hello?\${t##*/}\" >\"\$t.new\" 2>&1; mv \"\$t.new\" \"\$t.out\"; done; sleep 0.05; done") >"$T/$1.box" 2>&1 &
	BOX=$!
	PIDS+=($BOX)
	wait_for 30 test -e "$WORK/$1/up" || not_ok "the sandbox $1 starts" "$(cat "$T/$1.box")"
}
ask() { : >"$WORK/$1/$2.ask"; wait_for 40 test -e "$WORK/$1/$2.out"; cp "$WORK/$1/$2.out" "$T/out"; why; }
stop_box() { touch "$WORK/$1/stop"; wait "$2"; }

