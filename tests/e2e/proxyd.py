# SPDX-License-Identifier: Apache-2.0
"""A proxy of our own behind the gateway: CONNECT only; what it does depends on the host. Notes each request: proxyd.py PORT LOG ORIGIN-PORT"""
import socket, sys, threading, time
port, log, origin = int(sys.argv[1]), open(sys.argv[2], "a", buffering=1), int(sys.argv[3])


def pump(a, b):
    try:
        while x := a.recv(65536): b.sendall(x)
        b.shutdown(socket.SHUT_WR)
    except OSError: pass


def one(s):
    head = b""
    while b"\r\n\r\n" not in head:
        x = s.recv(4096)
        if not x: return
        head += x
    head, _, rest = head.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    method, target, version = lines[0].split(" ")
    auth = next((l.split(": ", 1)[1] for l in lines[1:] if l.lower().startswith("proxy-authorization:")), "-")
    log.write("%s %s host=%s auth=%s behind=%d\n" % (method, target, next(l[6:] for l in lines if l.startswith("Host: ")), auth, len(rest)))
    host = target.rpartition(":")[0]
    say = lambda t: s.sendall(t.encode())
    if host == "refused.test": say("HTTP/1.1 403 Forbidden\r\nContent-Type: text/html\r\nContent-Length: 12\r\n\r\n<h1>no</h1>\n"); return
    if host == "auth.test": say("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: NTLM\r\nContent-Length: 0\r\n\r\n"); return
    if host == "gone.test": say("HTTP/1.0 502 Bad Gateway\r\n\r\n"); return
    if host == "late.test": say("HTTP/1.1 504 Gateway Timeout\r\n\r\n"); return
    if host == "garbage.test": say("SSH-2.0-nonsense\r\n\r\n"); return
    if host == "nul.test": s.sendall(b"HTTP/1.1 200 \0\r\n\r\n"); return
    if host == "endless.test":
        say("HTTP/1.1 200 OK\r\n")
        while True: say("X-More: %s\r\n" % ("x" * 1000))
    if host == "closed.test": return
    if host == "slow.test": time.sleep(120); return
    if host == "banner.test": say("HTTP/1.1 200 OK\r\nX-Via: test\r\n\r\nSSH-2.0-behind\r\n"); pump(s, s); return
    if host == "bytes.test":
        for c in "HTTP/1.1 200 Connection established\r\nVia: 1.1 x\r\n\r\n": say(c); time.sleep(0.002)
    else: say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")  # of a 2xx to CONNECT it says nothing
    o = socket.create_connection(("127.0.0.1", origin)); o.sendall(rest)
    threading.Thread(target=pump, args=(o, s), daemon=True).start(); pump(s, o)


def run(s):
    try: one(s)
    except OSError: pass
    finally: s.close()


l = socket.create_server(("127.0.0.1", port), backlog=64); log.write("ready\n")
while True: threading.Thread(target=run, args=(l.accept()[0],), daemon=True).start()
