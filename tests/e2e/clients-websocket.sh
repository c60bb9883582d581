#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# WebSocket libraries against WebSocket servers, over HTTP/1.1 and HTTP/2, straight and behind nginx (UC02).
NAME=clients-websocket
. "$(dirname "$0")/../clients/lib.sh"
can_run
have_node=
use_tool node && [ -d "$CLIENTS/node_modules/ws" ] && have_node=1
make_pki "DNS:py.test,DNS:node.test,DNS:ngx.test"
PY=$(free_port) PYP=$(free_port) NODE=$(free_port) PORT=$(free_port)
up() { wait_for 10 grep -q '^up' "$T/$1.log" || { not_ok "the server $1 starts" "$(cat "$T/$1.out")"; exit 1; }; }
if python3 -c 'import websockets' 2>/dev/null; then
	python3 "$HERE/websocket/server.py" "$PY" "$T/py.log" "$T/up.pem" "$T/up.key" >"$T/py.out" 2>&1 & PIDS+=($!)
	python3 "$HERE/websocket/server.py" "$PYP" "$T/pyp.log" >"$T/pyp.out" 2>&1 & PIDS+=($!)
	up py; up pyp
	servers="py ngx"
	# HTTP/2 toward clients, without RFC 8441; HTTP/1.1 behind it
	mkdir -p "$T/ngx"
	cat >"$T/ngx/conf" <<C
daemon off; master_process off; pid $T/ngx/pid; error_log $T/ngx/err.log; events { }
http {
	client_body_temp_path $T/ngx/b; proxy_temp_path $T/ngx/p; fastcgi_temp_path $T/ngx/f; uwsgi_temp_path $T/ngx/u; scgi_temp_path $T/ngx/s; access_log off;
	server {
		listen 127.0.0.1:$PORT ssl http2; ssl_certificate $T/up.pem; ssl_certificate_key $T/up.key;
		location / { proxy_pass http://127.0.0.1:$PYP; proxy_http_version 1.1; proxy_set_header Upgrade \$http_upgrade; proxy_set_header Connection upgrade; }
	}
}
C
	nginx -c "$T/ngx/conf" -e "$T/ngx/err.log" >"$T/ngx/out" 2>&1 & PIDS+=($!)
	wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT" || { not_ok "nginx starts" "$(cat "$T/ngx/out" "$T/ngx/err.log")"; exit 1; }
else
	skip "python3-websockets is not installed"; servers=
fi
if [ -n "$have_node" ]; then
	mkdir "$T/server"; cp "$HERE/websocket/server.mjs" "$T/server/"; cp -r "$CLIENTS/node_modules" "$T/server/"
	node "$T/server/server.mjs" "$NODE" "$T/node.log" "$T/up.pem" "$T/up.key" >"$T/node.out" 2>&1 & PIDS+=($!)
	up node; servers="$servers node"
	cp "$HERE/node/websocket.mjs" "$WORK/"; cp -r "$CLIENTS/node_modules" "$WORK/"
else
	missing ws
fi
cp "$HERE/python/client_websockets.py" "$WORK/"
[ ! -x "$CLIENTS/go-client" ] || cp "$CLIENTS/go-client" "$WORK/"
write_unset
d() { printf '  - host: %s.test\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { ca: ./upca.pem }\n    allow: [ WEBSOCKET /v1/ws ]\n    inject: [ { secret: api, as: bearer, env: API_TOKEN }, { secret: api, as: placeholder, in: [websocket] } ]\n' "$1" "$2"; }
{
	printf 'version: 1\nname: ws\nsecrets:\n  api: { env: E2E_SECRET, hosts: [py.test, node.test, ngx.test] }\ndestinations:\n'
	d py "$PY"; d ngx "$PORT"; d node "$NODE"
	if [ ${#READ[@]} -gt 0 ]; then printf 'sandbox:\n  filesystem:\n    read:\n'; printf '      - %s\n' "${READ[@]}" | sort -u; fi
} >"$WORK/policy.yaml"
# judge CLIENT SERVER MODE LOG LINE...: what the client said, and what the server saw
judge() {
	local c="$1 to $2, $3" log=$T/$4.log l
	shift 4
	for l in "me you sent Bearer $(printf '%*s' ${#SECRET} '' | tr ' ' '*')" "subprotocol chat.v2" "text grüße" "large true" "close 4711" "$@"; do has "UC02 $c: ${l%% *}" "$T/out" "$l"; done
	grep -F "$MARKED" "$log" >"$T/seen"
	has "I07 $c: the server has the credential" "$T/seen" "auth=Bearer $SECRET"
	has "$c: no compression is offered" "$T/seen" "extensions=-"
	if [[ $c != go* ]]; then
		has "$c: in a message the placeholder is filled" "$T/seen" "login $SECRET"
		has "$c: and what comes back of it is overwritten" "$T/out" "login login $(printf '%*s' ${#SECRET} '' | tr ' ' '*')"
	fi
	wait_for 5 grep -qF "closed /v1/ws?$MARKED 4711" "$log" && ok "UC02 $c: the server has the code too" || not_ok "UC02 $c: the server has the code too" "$(tail -n 5 "$log")"
	hasnt "$c: no secret inside" "$T/out" "$SECRET"
}
# try CLIENT MODES LINES COMMAND...
try() {
	local c=$1 modes=$2 lines=$3 mode s log
	shift 3
	for mode in $modes; do for s in $servers; do
		MARKED=$c-$mode-$s
		via "$mode" "$@" "wss://$s.test" "$MARKED" >"$T/out" 2>&1
		log=$s; [ "$s" != ngx ] || log=pyp
		IFS='|' read -ra more <<<"$lines"
		judge "$c" "$s" "$mode" "$log" "${more[@]}"
	done; done
}
if python3 -c 'import websockets' 2>/dev/null; then try python transparent "pong now|fragments in fragments|refused 403" python3 -u client_websockets.py; fi
if [ -n "$have_node" ]; then
	try node-ws transparent "pong now|refused 403" node websocket.mjs ws
	try undici transparent "refused" node websocket.mjs undici
	try undici-agent proxy "refused" node websocket.mjs agent
	try node-http2 transparent "pong now|refused 403" node websocket.mjs h2
	has "over HTTP/2 where the server has it" "$T/node.log" "handshake /v1/ws?node-http2-transparent-node HTTP/2"
	has "RFC 8441 is used for clients of HTTP/1.1 too" "$T/node.log" "handshake /v1/ws?node-ws-transparent-node HTTP/2"
fi
if [ -x "$WORK/go-client" ]; then try go "proxy transparent" "pong <nil>|refused 403" ./go-client ws; else missing go; fi
check_done
