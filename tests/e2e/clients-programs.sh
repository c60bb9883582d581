#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# HTTP libraries, each in a small program (tests/clients/README.md), with proxy variables and with all of them unset.
NAME=clients-programs
. "$(dirname "$0")/../clients/lib.sh"
can_run
have_node= have_java=
use_tool node && have_node=1
use_tool java && have_java=1
client_pki
start_origin
write_client_policy
write_unset
head -c 5000000 /dev/urandom >"$WORK/blob"
DOWN=$(sha "$SITE/api.test/v1/big") UP=$(sha "$WORK/blob")
cp "$HERE"/python/*.py "$HERE/node/client.mjs" "$HERE/java/Client.java" "$WORK/"
for f in go-client rust-client; do [ ! -x "$CLIENTS/$f" ] || cp "$CLIENTS/$f" "$WORK/"; done
[ ! -d "$CLIENTS/node_modules" ] || cp -r "$CLIENTS/node_modules" "$WORK/"

# said TEXT PREFIX PATTERN: a line of the output that begins with the prefix has the pattern
said() { if grep -F -- "$3" "$T/out" | grep -q "^$2"; then ok "$1"; else not_ok "$1" "no line '$2...$3' in:" "$(cut -c -400 "$T/out")"; fi; }
judge() { # CLIENT MODE MARK PREFIX: what the program printed to $T/out, and what the origin saw
	local c="$1, $2" p=${4:-}
	said "$c: allowed" "${p}allowed 200" hello
	said "$c: refused readably" "${p}refused 403" '"error":"policy_denied"'
	said "$c: refused host is explained" "${p}elsewhere 403" '"error":"destination_denied"'
	said "$c: 5 MB arrive whole" "${p}down" "$DOWN"
	said "$c: 5 MB are sent whole" "${p}up 201" "$UP"
	said "$c: chunks are sent whole" "${p}chunked 201" "$UP"
	logged "$c: the origin sees the credential" "GET /v1/hello?$3 " "status=200 auth=Bearer $SECRET "
	logged "$c: chunks are chunks" "PUT /v1/up?$3 " "te=chunked"
	hasnt "$c: no secret inside" "$T/out" "$SECRET"
}
try() { # CLIENT COMMAND...
	local c=$1 mode mark
	mark=$(tr -cs "a-z0-9\n" - <<<"$c")
	shift
	for mode in proxy transparent; do
		fresh_log
		via $mode "$@" https://api.test "$mark-$mode" blob >"$T/out" 2>&1
		judge "$c" $mode "$mark-$mode"
	done
}

for m in requests httpx; do
	if python3 -c "import $m" 2>/dev/null; then try "python $m" python3 -u "client_$m.py"; else skip "python $m: python3-$m is not installed"; fi
done
if [ -n "$have_node" ]; then
	if node -e 'process.exit(typeof fetch === "function" ? 0 : 1)' 2>/dev/null; then try "node fetch" node client.mjs fetch; else skip "node fetch: this Node has none"; fi
	if [ -d "$WORK/node_modules/undici" ]; then
		try "undici" node client.mjs undici
		# A ProxyAgent has a use only where there is a proxy to name.
		fresh_log
		via proxy node client.mjs agent https://api.test undici-agent blob >"$T/out" 2>&1
		judge "undici ProxyAgent" proxy undici-agent
	else
		missing undici
	fi
else
	missing node
fi
if [ -x "$WORK/go-client" ]; then try "go net/http" ./go-client; else missing go; fi
if [ -x "$WORK/rust-client" ]; then try "rustls (ureq)" ./rust-client; else missing rust; fi
if [ -n "$have_java" ] && java --list-modules 2>/dev/null | grep -q '^jdk.compiler@'; then
	home=$(dirname "$(dirname "$(realpath "$(command -v java)")")")
	[ "$(realpath "$home/lib/security/cacerts" 2>/dev/null)" != /etc/ssl/certs/java/cacerts ] || export JAVA_SYSTEM_TRUST=1
	for mode in proxy transparent; do
		fresh_log
		via $mode java -XX:TieredStopAtLevel=1 Client.java https://api.test "java-$mode" blob >"$T/out" 2>&1
		judge "java HttpClient" $mode "java-$mode" "httpclient "
		judge "java HttpURLConnection" $mode "java-$mode" "urlconnection "
	done
else
	missing java
fi
check_done
