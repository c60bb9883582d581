#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What comes in pieces, and upstreams that answer and go while content is still on its way: nothing waits for ever, nothing runs hot.
NAME=halves
. "$(dirname "$0")/lib.sh"
can_run
make_pki
head -c 67108864 /dev/zero >"$T/huge"
start_nginx "location /v1/huge { alias $T/huge; }"
EARLY=$(free_port) SLOW=$(free_port)
cat >"$T/early.py" <<'P'
# reads a head, answers 413 and closes with the content unread, so that a reset goes out
import socket, ssl, sys
ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); ctx.load_cert_chain(sys.argv[2], sys.argv[3])
l = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    try:
        c = l.accept()[0]; c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1); s = ctx.wrap_socket(c, server_side=True); got = b""
        while b"\r\n\r\n" not in got: got += s.recv(1000)
        s.sendall(b"HTTP/1.1 413 no\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"); s.close()
    except OSError: pass
P
python3 "$T/early.py" "$EARLY" "$T/up.pem" "$T/up.key" >"$T/early.out" 2>&1 &
PIDS+=($!)
wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$EARLY"
write_policy
cat >>"$WORK/policy.yaml" <<P
  - host: slow.test
    connect: 127.0.0.1:$SLOW
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ "PUT /**" ]
P
sed -i "/host: git.test/,/ca:/s/127.0.0.1:$PORT/127.0.0.1:$EARLY/; s#POST /repo.git/git-upload-pack#POST /early/**#" "$WORK/policy.yaml"
cat >"$T/slow.py" <<'P'
# takes an upload slowly, so that it is always the gateway that waits for it
import re, socket, ssl, sys, threading, time
ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); ctx.load_cert_chain(sys.argv[2], sys.argv[3])
l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind(("127.0.0.1", int(sys.argv[1]))); l.listen(20)
def serve(c):
    try:
        s = ctx.wrap_socket(c, server_side=True); got = b""
        while b"\r\n\r\n" not in got: got += s.recv(4096)
        head, rest = got.split(b"\r\n\r\n", 1); left = int(re.search(rb"(?i)content-length: (\d+)", head).group(1)) - len(rest)
        while left > 0:
            d = s.recv(65536); left -= len(d)
            if not d: return
            time.sleep(0.0005)
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nall\n"); s.close()
    except OSError: pass
while True: threading.Thread(target=serve, args=(l.accept()[0],), daemon=True).start()
P
python3 "$T/slow.py" "$SLOW" "$T/up.pem" "$T/up.key" >"$T/slow.out" 2>&1 &
PIDS+=($!)
wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$SLOW"
cat >"$WORK/halves.py" <<'P'
import socket, ssl, sys, time
def open_tls(host):
    s, i, o = socket.create_connection(("203.0.113.9", 443), 10), ssl.MemoryBIO(), ssl.MemoryBIO()
    t = ssl.create_default_context().wrap_bio(i, o, server_hostname=host)
    while True:
        try: t.do_handshake(); break
        except ssl.SSLWantReadError: s.sendall(o.read()); i.write(s.recv(65536))
    s.sendall(o.read())
    return s, i, o, t
def answer(s, i, o, t):
    s.settimeout(10)
    while True:
        try: return t.read(100)[:12].decode()
        except ssl.SSLWantReadError:
            d = s.recv(65536)
            if not d: return "closed"
            i.write(d)
def pieces(c, text):
    c[3].write(text); d = c[2].read()
    c[0].sendall(d[:len(d) // 2])
    # another client is served meanwhile: the half has been looked at by then
    e = open_tls("api.test"); e[3].write(b"GET /v1/hello HTTP/1.1\r\nHost: api.test\r\n\r\n"); e[0].sendall(e[2].read())
    print("another meanwhile:", answer(*e)); e[0].close()
    c[0].sendall(d[len(d) // 2:])
def tell(what, fn):
    try: print(what + ":", fn(), flush=True)
    except Exception as e: print(what + ":", repr(e), flush=True)
def head():
    c = open_tls("api.test"); pieces(c, b"GET /v1/hello HTTP/1.1\r\nHost: api.test\r\n\r\n"); return answer(*c)
def body():
    c = open_tls("api.test"); c[3].write(b"POST /v1/post HTTP/1.1\r\nHost: api.test\r\nContent-Length: 9000\r\n\r\n"); c[0].sendall(c[2].read())
    pieces(c, b"x" * 9000); return answer(*c)
def early(n):
    c = open_tls("git.test")
    try: c[3].write(b"POST /early/%d HTTP/1.1\r\nHost: git.test\r\nContent-Length: 300000\r\n\r\n" % n + b"e" * 300000); c[0].sendall(c[2].read())
    except OSError: pass
    return answer(*c)
tell("head in halves", head); tell("content in halves", body)
def slow(n):
    import http.client
    c = http.client.HTTPSConnection("slow.test", timeout=20); c.putrequest("PUT", "/%d" % n); c.putheader("Content-Length", str(16384 * 640)); c.endheaders()
    for k in range(640): c.send(b"x" * 16384)
    return c.getresponse().read() == b"all\n"
tell("slow uploads", lambda: sum(slow(n) for n in range(8)))
import collections; tell("early answers", lambda: dict(collections.Counter(early(n) for n in range(12))))
P
run python3 halves.py >"$T/out" 2>&1
has "a head in two halves of a record" "$T/out" "head in halves: HTTP/1.1 200"
has "content in two halves of a record" "$T/out" "content in halves: HTTP/1.1 200"
if [ "$(grep -c 'another meanwhile: HTTP/1.1 200' "$T/out")" -eq 2 ]; then ok "others are served meanwhile"; else not_ok "others are served meanwhile" "$(cat "$T/out")"; fi
has "A14 an upstream that answers early and goes: its answer arrives" "$T/out" "early answers: {'HTTP/1.1 413': 12}"
has "an origin that takes an upload slowly gets all of it" "$T/out" "slow uploads: 8"
# a reader that is now slower, now faster than the upstream: nobody forgets that somebody waits
run sh -c 'for i in 1 2 3 4 5 6; do curl -sS -m 50 -o /dev/null -w "%{size_download}\n" https://api.test/v1/huge & done; wait' >"$T/out" 2>&1
[ "$(grep -c '^67108864$' "$T/out")" -eq 6 ] && ok "large downloads side by side arrive whole" || not_ok "large downloads side by side arrive whole" "$(cat "$T/out")"
check_done
