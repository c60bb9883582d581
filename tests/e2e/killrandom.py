# SPDX-License-Identifier: Apache-2.0
"""Roles killed at random under load, in four parts; see killrandom.sh.

    origin   PORT CERT KEY LOG     the upstream: answers, and writes down every request that reaches it
    client   OUT                   inside the sandbox: many connections at once, and what became of each attempt
    kill     STATE N GAP SEED LOG  outside: N roles killed, one after the other
    count    STATE                 processes, descriptors and memory of every role, as JSON
    compare  ATTEMPTS ORIGIN KILLS (records on standard input)
"""
import collections, hashlib, http.client, json, os, random, signal, socket, ssl, sys, threading, time

CALL_S = 30  # no call takes longer than this, whatever is killed: roles come back within 5 s
ROLES = ("worker", "dialer", "ca", "secrets", "audit")


# --- the upstream ----------------------------------------------------------------------------------------------------
def origin(port, cert, key, log):
    out, lock = open(log, "a", 1), threading.Lock()

    def note(*words):
        with lock: out.write(" ".join(map(str, words)) + "\n")

    def serve(raw):
        try:
            raw.settimeout(60)
            s = ctx.wrap_socket(raw, server_side=True)
            f = s.makefile("rb")
            while True:
                line = f.readline()
                if not line: return
                method, path, _ = line.decode().split()
                head = {}
                while (h := f.readline().decode().strip()): k, v = h.split(":", 1); head[k.lower()] = v.strip()
                note("begin", method, path)
                if head.get("authorization") != "Bearer " + os.environ["E2E_SECRET"]: note("BARE", method, path)
                body = b""
                if "content-length" in head: body = f.read(int(head["content-length"]))
                elif head.get("transfer-encoding") == "chunked":
                    while (n := int(f.readline(), 16)): body += f.read(n); f.readline()
                    f.readline()
                if "content-length" in head and len(body) < int(head["content-length"]): return
                note("whole", method, path, len(body))
                if path.startswith("/v1/d"):
                    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
                    for i in range(40):
                        s.sendall(b"1000\r\n" + bytes([i]) * 4096 + b"\r\n"); time.sleep(0.01)
                    s.sendall(b"0\r\n\r\n")
                else:
                    t = ("%s %d" % (hashlib.sha256(body).hexdigest(), len(body))).encode()
                    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (len(t), t))
        except (OSError, ValueError): pass
        finally: raw.close()

    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ctx.load_cert_chain(cert, key)
    l = socket.create_server(("127.0.0.1", port), backlog=128)
    while True: threading.Thread(target=serve, args=(l.accept()[0],), daemon=True).start()


# --- the load --------------------------------------------------------------------------------------------------------
class Connection:
    """One connection of the load: through CONNECT, or to an address of nobody as programs do that know no proxy."""

    def __init__(self): self.c = self.host = None

    def open(self, host, direct, stage):
        if self.c is not None and self.host == host: return
        self.close()
        stage("connect")
        s = socket.create_connection(("203.0.113.7", 443) if direct else ("127.0.0.1", 3128), timeout=CALL_S)
        try:
            if not direct:
                s.sendall(("CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n\r\n" % (host, host)).encode())
                stage("tunnel")
                got = b""
                while b"\r\n\r\n" not in got:
                    d = s.recv(4096)
                    if not d: raise OSError("closed in CONNECT")
                    got += d
                if b" 200 " not in got.split(b"\r\n")[0]: raise OSError("CONNECT: " + got.split(b"\r\n")[0].decode())
            stage("tls")
            s = CTX.wrap_socket(s, server_hostname=host)
        except BaseException: s.close(); raise
        self.c, self.host = http.client.HTTPSConnection(host), host
        self.c.sock = s

    def close(self):
        if self.c is not None: self.c.close()
        self.c = None


def client(out_dir):
    global CTX
    CTX = ssl.create_default_context()
    stop, go, warm = out_dir + "/stop", out_dir + "/go", threading.Semaphore(0)

    def body(n): # slowly, as a program that makes what it sends
        for i in range(20): yield bytes([n % 251]) * 2048; time.sleep(0.01)

    def one(conn, kind, tag, n, out):
        path, method, host = "/v1/%s/%s-%d" % (kind, tag, n), "GET", "api.test"
        if kind == "n": host = "refused%d.test" % (n % 2)
        if kind in "pu": method = "POST"
        began, at = time.time(), ["none"]
        result, status = "error", "-"
        try:
            conn.open(host, tag.endswith("1"), lambda s: at.__setitem__(0, s))
            at[0] = "sent"
            data = None if method == "GET" else b"%d" % n * 100 if kind == "p" else body(n)
            conn.c.request(method, path, data, {} if kind != "u" else {"Transfer-Encoding": "chunked"}, encode_chunked=kind == "u")
            r = conn.c.getresponse()
            status, got = str(r.status), r.read()
            if r.status == 200:
                want = 40 * 4096 if kind == "d" else None
                if want is not None and len(got) != want: raise OSError("short: %d" % len(got))
                result = "whole"
            else: result = json.loads(got)["error"]
            if r.will_close: conn.close()
        except Exception as e:
            conn.close()
            result = "error:%s:%s" % (type(e).__name__, "".join(c if c.isalnum() else "_" for c in str(e))[:60])
        with out[1]: out[0].write(json.dumps(dict(path=path, kind=kind, method=method, stage=at[0], status=status, result=result, began=began, ended=time.time())) + "\n")

    def run(kind, tag):
        conn, n = Connection(), 0
        while not os.path.exists(stop):
            n += 1
            if n == 6: # what is warmed up is measured before anything is killed
                conn.close(); warm.release()
                while not os.path.exists(go): time.sleep(0.02)
            one(conn, kind, tag, n, out)
            time.sleep(0.02)
        conn.close()

    out = (open(out_dir + "/attempts", "w", 1), threading.Lock())
    load = [("g", "g0"), ("g", "g1"), ("g", "g2"), ("p", "p0"), ("p", "p1"), ("d", "d0"), ("u", "u0"), ("n", "n0"), ("x", "x0")]
    threads = [threading.Thread(target=run, args=x) for x in load]
    for t in threads: t.start()
    for _ in load: warm.acquire()
    open(out_dir + "/warm", "w").close()
    for t in threads: t.join()
    open(out_dir + "/quiet", "w").close() # every connection of the load is closed; the sandbox stays until it was measured
    while not os.path.exists(out_dir + "/end"): time.sleep(0.05)


# --- the killer ------------------------------------------------------------------------------------------------------
def roles(state):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(10)
    s.connect(state + "/run/control.sock")
    s.send(b'{"id":1,"op":"status"}')
    st = json.loads(s.recv(65536))["ok"]
    s.close()
    return st["pid"], [("spare" if r.get("spare") else r["role"], r["pid"]) for r in st["roles"] if r["running"]]


def kill(state, n, gap, seed, log):
    rnd, out, killed = random.Random(seed), open(log, "w", 1), collections.Counter()
    queue = [ROLES[i % len(ROLES)] for i in range(n)]
    rnd.shuffle(queue)
    for role in queue:
        time.sleep(rnd.random() * gap)
        end = time.time() + 20
        while not (pid := next((p for r, p in roles(state)[1] if r == role), None)):
            if time.time() > end: print("the %s did not come back within 20 s" % role); return 1
            time.sleep(0.02)
        at = time.time()
        os.kill(pid, signal.SIGKILL)
        out.write("%s %d %f\n" % (role, pid, at))
        killed[role] += 1
    print("killed: " + ", ".join("%s %d" % x for x in sorted(killed.items())))
    return 0


def count(state):
    sup, rs = roles(state)
    answer = {}
    for role, pid in [("supervisor", sup)] + rs:
        try: fds = len(os.listdir("/proc/%d/fd" % pid))
        except PermissionError: fds = None # another user's name space: only root looks there
        with open("/proc/%d/status" % pid) as f: rss = next(int(l.split()[1]) for l in f if l.startswith("VmRSS"))
        answer[role] = dict(pid=pid, fds=fds, rss_kib=rss)
    # the supervisor's children, zombies too
    answer["processes"] = sum(1 for p in os.listdir("/proc") if p.isdigit() and parent(p) == sup)
    print(json.dumps(answer))
    return 0


def parent(pid):
    try: return int(open("/proc/%s/stat" % pid).read().rsplit(")", 1)[1].split()[1])
    except OSError: return 0


# --- the accounts ----------------------------------------------------------------------------------------------------
def compare(attempts, origin_log, kills):
    recorded, statuses, begun, whole = collections.Counter(), {}, collections.Counter(), collections.Counter()
    bad, codes = [], collections.Counter()
    for line in sys.stdin:
        o = json.loads(line)
        s = o["unmapped"]["sallyport"]
        path = o.get("http_request", {}).get("url", {}).get("path", "")
        if s["kind"] != "request" or not path.startswith("/v1/"): continue
        recorded[path] += 1
        statuses[path] = (o.get("http_response", {}).get("code"), s.get("code"))
    for line in open(origin_log):
        w = line.split()
        if w[0] == "BARE": bad.append("%s %s reached the upstream without its credential" % (w[1], w[2]))
        if w[0] in ("begin", "whole"): (begun if w[0] == "begin" else whole)[w[2]] += 1
    killed = [(l.split()[0], float(l.split()[2])) for l in open(kills)]
    deaths = [at for role, at in killed if role == "worker"]
    died = lambda t: any(t["began"] - 0.1 <= d <= t["ended"] + 0.1 for d in deaths)
    tried = [json.loads(l) for l in open(attempts)]
    known = {t["path"] for t in tried}
    answered = cut = never_sent = unread = 0
    for t in tried:
        path, n = t["path"], recorded[t["path"]]
        say = lambda what: bad.append("%s: %s (%s)" % (path, what, json.dumps(t)))
        codes[t["status"] + " " + t["result"][:40] if t["stage"] == "sent" else "before the request: " + t["result"][:40]] += 1
        if t["ended"] - t["began"] > CALL_S or "imeout" in t["result"] or "timed_out" in t["result"]: say("hung")
        if n > 1: say("recorded %d times" % n)
        if begun[path] > 1: say("%d times upstream" % begun[path])
        if begun[path] and n != 1: say("upstream, recorded %d times" % n)
        if t["stage"] != "sent":
            never_sent += 1
            if n or begun[path]: say("never sent, and yet recorded or upstream")
            continue
        if t["status"] != "-" and not t["result"].startswith("error"):
            answered += 1
            if n != 1: say("answered, recorded %d times" % n)
            elif statuses[path][0] != int(t["status"]): say("recorded with status %s" % (statuses[path],))
            elif t["status"] == "200" and (whole[path] != 1 or statuses[path][1] is not None): say("served, but %d times whole upstream, code %s" % (whole[path], statuses[path][1]))
            right = {"n": "destination_denied", "x": "policy_denied"}.get(t["kind"])
            if t["status"] == "403" and t["result"] != right: say("refused as %s" % t["result"])
            if t["status"] == "200" and right: say("served")
            if t["status"] not in ("200", "403", "502", "503"): say("an answer of another kind")
            continue
        cut += 1
        # A head that a dying worker had not parsed was nobody's: only a worker's death in the time of the attempt excuses it
        if n == 0:
            unread += 1
            if not died(t): say("cut without a record, and no worker died")
        elif statuses[path][1] is None and not died(t): say("cut, but recorded as served whole")
    if unread > 9 * len(deaths): bad.append("%d requests unread, more than %d workers had connections" % (unread, len(deaths)))
    for path in recorded:
        if path not in known: bad.append("%s: recorded, never tried" % path)
    for path in begun:
        if path not in known: bad.append("%s: upstream, never tried" % path)
    print("%d attempts: %d answered, %d cut (%d of them unread by a worker that died), %d ended before the request; %d recorded, %d upstream" % (len(tried), answered, cut, unread, never_sent, sum(recorded.values()), sum(begun.values())))
    print("; ".join("%s: %d" % x for x in codes.most_common(25)))
    print("\n".join(bad[:25]))
    return 1 if bad or answered < 100 else 0


if __name__ == "__main__":
    a = sys.argv[2:]
    sys.exit({"origin": lambda: origin(int(a[0]), *a[1:]), "client": lambda: client(*a), "kill": lambda: kill(a[0], int(a[1]), float(a[2]), a[3], a[4]), "count": lambda: count(*a), "compare": lambda: compare(*a)}[sys.argv[1]]())
