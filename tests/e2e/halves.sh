#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What comes in pieces, and upstreams that answer and go while content is still on its way: nothing waits for ever, nothing runs hot.
NAME=halves
. "$(dirname "$0")/lib.sh"
can_run
make_pki
start_nginx
EARLY=$(free_port)
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
sed -i "/host: git.test/,/ca:/s/127.0.0.1:$PORT/127.0.0.1:$EARLY/; s#POST /repo.git/git-upload-pack#POST /early/**#" "$WORK/policy.yaml"
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
import collections; tell("early answers", lambda: dict(collections.Counter(early(n) for n in range(12))))
P
run python3 halves.py >"$T/out" 2>&1
has "a head in two halves of a record" "$T/out" "head in halves: HTTP/1.1 200"
has "content in two halves of a record" "$T/out" "content in halves: HTTP/1.1 200"
if [ "$(grep -c 'another meanwhile: HTTP/1.1 200' "$T/out")" -eq 2 ]; then ok "others are served meanwhile"; else not_ok "others are served meanwhile" "$(cat "$T/out")"; fi
has "A14 an upstream that answers early and goes: its answer arrives" "$T/out" "early answers: {'HTTP/1.1 413': 12}"
check_done
