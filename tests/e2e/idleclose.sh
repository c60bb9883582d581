#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# UA12: an origin that closes a connection after 200 ms without a request, and clients that come back just about then, each to a
# name (so a pool) of its own: ROUNDS of a GET and a POST each. No GET fails, no POST is executed twice, and one that fails says why.
# K05: a body without end is bounded by the destination's limit, and costs no memory.
NAME=idleclose
. "$(dirname "$0")/lib.sh"
: "${POOLS:=40}" "${ROUNDS:=25}"
can_run
make_pki 'DNS:*.idle.test'
PORT=$(free_port)
cat >"$WORK/origin.py" <<'P'
# closes what has been idle for 200 ms; counts what it executes; the answer to /endless never ends
import socket, ssl, sys, threading
port, cert, key, log = int(sys.argv[1]), *sys.argv[2:5]
ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); ctx.load_cert_chain(cert, key); ctx.set_alpn_protocols(["http/1.1"])
out, lock = open(log, "w", buffering=1), threading.Lock()
def serve(raw):
    try:
        raw.settimeout(30)
        s = ctx.wrap_socket(raw, server_side=True)
        data, idle = b"", 30 # the first request may take its time
        while True:
            s.settimeout(idle)
            idle = 0.2
            while b"\r\n\r\n" not in data:
                more = s.recv(65536)
                if not more: return
                data += more
            head, data = data.split(b"\r\n\r\n", 1)
            s.settimeout(30)
            n = [int(l.split(b":")[1]) for l in head.split(b"\r\n") if l.lower().startswith(b"content-length:")]
            while n and len(data) < n[0]: data += s.recv(65536)
            data = data[n[0]:] if n else data
            with lock: out.write(head.split(b"\r\n")[0].decode() + "\n")
            if b"/endless" in head.split(b"\r\n")[0]:
                s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                while True: s.sendall(b"4000\r\n" + b"x" * 16384 + b"\r\n")
            s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    except (OSError, IndexError): pass
    finally: raw.close()
l = socket.create_server(("127.0.0.1", port), backlog=256)
while True: threading.Thread(target=serve, args=(l.accept()[0],), daemon=True).start()
P
cat >"$WORK/client.py" <<'P'
# POOLS threads, each with connections to a name of its own, ROUNDS times a GET, a pause of 190 to 210 ms, a POST, a pause
import http.client, random, sys, threading, time
pools, rounds = int(sys.argv[1]), int(sys.argv[2])
lock, seen = threading.Lock(), []
def call(host, method, path):
    c = http.client.HTTPSConnection(host, timeout=30)
    try:
        c.request(method, path, body=b"unique" if method == "POST" else None)
        r = c.getresponse(); r.read()
        return "%d %s" % (r.status, r.reason)
    except Exception as e: return "0 %r" % e
    finally: c.close()
def loop(k):
    rnd = random.Random(k)
    for i in range(rounds):
        for method in "GET", "POST":
            path = "/v1/%s-%d-%d" % (method, k, i)
            got = call("p%d.idle.test" % k, method, path)
            with lock: seen.append("%s %s %s" % (method, path, got))
            time.sleep(rnd.uniform(0.19, 0.21))
ts = [threading.Thread(target=loop, args=(k,)) for k in range(pools)]
[t.start() for t in ts]; [t.join() for t in ts]
print("\n".join(seen))
P
python3 "$WORK/origin.py" "$PORT" "$T/up.pem" "$T/up.key" "$T/executed" 2>"$T/origin.err" &
PIDS+=($!)
wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT" || { not_ok "the origin starts" "$(cat "$T/origin.err")"; exit 1; }
cat >"$WORK/policy.yaml" <<P
version: 1
name: idleclose
destinations:
  - host: "*.idle.test"
    connect: 127.0.0.1:$PORT
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ "GET /v1/*", "POST /v1/*" ]
  - host: api.test
    connect: 127.0.0.1:$PORT
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ "GET /endless" ]
    limits: { response_body: 8MiB }
P
(cd "$WORK" && timeout 300 "$SP" run --quiet --policy policy.yaml -- python3 client.py "$POOLS" "$ROUNDS") >"$T/seen" 2>"$T/err"
n=$((POOLS * ROUNDS))
[ "$(wc -l <"$T/seen")" -eq $((2 * n)) ] && ok "UA12: $n GET and $n POST came to an end" || not_ok "UA12: $n GET and $n POST came to an end" "$(wc -l <"$T/seen")" "$(cat "$T/err")"
grep '^GET' "$T/seen" | grep -v ' 200 OK$' >"$T/bad"
[ ! -s "$T/bad" ] && ok "UA12: no GET fails" || not_ok "UA12: no GET fails" "$(cat "$T/bad")" "$(records | grep -F "$(cut -d" " -f2 "$T/bad" | head -n 3)")"
grep '^POST' "$T/seen" | grep -v ' 200 OK$' >"$T/bad"
grep -v ' 502 sallyport upstream_' "$T/bad" >"$T/worse"
[ ! -s "$T/worse" ] && ok "UA12: a POST passes, or fails with 502 ($(wc -l <"$T/bad") did)" || not_ok "UA12: a POST passes, or fails with 502" "$(cat "$T/worse")"
grep '^POST' "$T/executed" | sort | uniq -d >"$T/twice"
[ ! -s "$T/twice" ] && ok "UA12: no POST was executed twice" || not_ok "UA12: no POST was executed twice" "$(cat "$T/twice")"
[ "$(record_count '"http_method":"GET"')" -eq "$n" ] && [ "$(record_count '"http_method":"POST"')" -eq "$n" ] && ok "UA12: one record each" || not_ok "UA12: one record each" "$(record_count '"http_method":"GET"') and $(record_count '"http_method":"POST"')"
(cd "$WORK" && timeout 120 "$SP" run --quiet --policy policy.yaml -- curl -sS --no-progress-meter -o /dev/null -w '%{http_code} %{size_download}\n' https://api.test/endless) >"$T/out" 2>&1
read -r code size < <(tail -n 1 "$T/out")
[ "${code:-0}" = 200 ] && [ "${size:-0}" -le 8388608 ] && [ "${size:-0}" -gt 1000000 ] && ok "K05: a body without end is cut at the limit" || not_ok "K05: a body without end is cut at the limit" "$(cat "$T/out")"
[ "$(record_count '"path":"/endless"' '"code":"too_large"')" -eq 1 ] && ok "K05: and the record says so" || not_ok "K05: and the record says so" "$(records | grep endless)"
check_done
