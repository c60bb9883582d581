# SPDX-License-Identifier: Apache-2.0
"""Checks of the supervisor over its control socket; see supervisor.sh. Arguments: programs, scratch directory, mark."""
import array, atexit, contextlib, ctypes, errno, fcntl, json, os, signal, socket, subprocess, sys, threading, time

from checks import BIN, MARK, SLOW, T, failures, say, wait_for

ROOT = os.geteuid() == 0
PROXY = BIN + "/sallyport-proxy"
TABLE = T + "/work/table"


class Caller:
    """One connection to the control socket."""

    def __init__(self, state):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.s.settimeout(20 * SLOW)
        self.s.connect(state + "/run/control.sock")
        self.id = 0

    def raw(self, data, fds=()):
        anc = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.s.sendmsg([data], anc)
        got = self.s.recv(1 << 20)
        return json.loads(got) if got else None

    def ask(self, op, fds=(), **more):
        self.id += 1
        return self.raw(json.dumps({"id": self.id, "op": op, **more}).encode(), fds)

    def close(self):
        self.s.close()


def listeners():
    """What a launcher hands over; on free ports of loopback here."""
    out = []
    for kind, family, kind_type in (("proxy4", socket.AF_INET, socket.SOCK_STREAM), ("dns_udp4", socket.AF_INET, socket.SOCK_DGRAM)):
        s = socket.socket(family, kind_type)
        s.bind(("127.0.0.1", 0))
        if kind_type == socket.SOCK_STREAM:
            s.listen(8)
        out.append((kind, s))
    return out


def register(caller, name, table=TABLE, files=0, env=b"E2E_SECRET=x\0", **more):
    socks = listeners()
    with open(table, "rb") as t, contextlib.ExitStack() as stack:
        fds = [t.fileno()]
        msg = {"name": name, "policy": {"fd": 0}, "files": [], "identify": {"sockets": []}}
        if env is not None:
            m = os.memfd_create("env")
            stack.callback(os.close, m)
            os.write(m, env)
            msg["env"] = {"fd": len(fds)}
            fds.append(m)
        for i in range(files):
            f = stack.enter_context(open(TABLE, "rb"))
            msg["files"].append({"path": "/some/where/%d" % i, "fd": len(fds)})
            fds.append(f.fileno())
        for kind, s in socks:
            msg["identify"]["sockets"].append({"kind": kind, "fd": len(fds)})
            fds.append(s.fileno())
        msg.update(more)
        answer = caller.ask("register", fds, **msg)
    ports = [s.getsockname()[1] for _, s in socks]
    for _, s in socks:
        s.close()
    return answer, ports


class Gateway:
    def __init__(self, name, *args, config=None):
        self.state = T + "/" + name
        os.makedirs(self.state, mode=0o700, exist_ok=True)
        self.log = open(self.state + ".log", "ab")
        argv = [PROXY, "serve", "--state", self.state, *args]
        if config:
            argv += ["--config", config]
        self.p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        atexit.register(lambda: self.p.poll() is None and self.p.kill())  # whatever becomes of the checks

    def up(self):
        def reachable():
            if self.p.poll() is not None:
                return True
            try:
                Caller(self.state).close()
                return True
            except OSError:
                return False
        wait_for(15, reachable)
        return self

    def words(self):
        return open(self.state + ".log").read()

    def status(self):
        c = Caller(self.state)
        st = c.ask("status")["ok"]
        c.close()
        return st

    def role(self, name, sandbox=None):
        for r in self.status()["roles"]:
            if r["role"] == name and (r.get("sandbox") == sandbox):
                return r

    def ready(self):
        def all_ready():
            st = self.status()
            return all(r["ready"] for r in st["roles"]) and st
        return wait_for(15, all_ready)

    def end(self, sig=signal.SIGTERM):
        self.p.send_signal(sig)
        try:
            return self.p.wait(15 * SLOW)
        except subprocess.TimeoutExpired:
            self.p.kill()
            return "did not end"

    def records(self):
        try:
            with open(self.state + "/audit/audit.jsonl") as f:
                return [json.loads(line) for line in f]
        except FileNotFoundError:
            return []

    def messages(self):
        out = []
        for r in self.records():
            if r["unmapped"]["sallyport"]["kind"] == "lifecycle":
                out.append(r.get("message", r["unmapped"]["sallyport"].get("message", "")))
        return out


def refused(name, text, words, prepare=None, config=None):
    """A start that must not succeed, and what it says."""
    g = Gateway.__new__(Gateway)
    g.state = T + "/" + name
    os.makedirs(g.state, mode=0o700, exist_ok=True)
    if prepare:
        prepare(g.state)
    argv = [PROXY, "serve", "--state", g.state] + (["--config", config] if config else [])
    try:
        r = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20 * SLOW)
    except subprocess.TimeoutExpired:
        return say(False, text, "it runs")
    say(r.returncode == 125 and words in r.stderr, text, "%d %s" % (r.returncode, r.stderr))


def proc_status(pid):
    with open("/proc/%d/status" % pid) as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def alive(pid):
    try:
        return proc_status(pid)["State"][0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def write(path, text, mode=0o600):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


# --- start --------------------------------------------------------------------------------------------------------------
g = Gateway("one").up()
st = g.ready()
say(st and {r["role"] for r in st["roles"]} == {"audit", "secrets", "ca", "dialer", "worker"}, "all roles and a spare worker are ready", g.words())
pids = [r["pid"] for r in st["roles"]]
mine = proc_status(st["pid"])
say(mine["Seccomp"] == "2" and mine["NoNewPrivs"] == "1", "the supervisor has a filter and gets no new privileges", mine)
if ROOT:
    say(int(mine["CapEff"], 16) == int(mine["CapPrm"], 16) == int(mine["CapBnd"], 16) == 0x2000E0, "the supervisor keeps SETUID, SETGID, KILL and SYS_ADMIN only", mine["CapEff"])
    say(mine["Groups"].strip() == "", "the supervisor has no supplementary groups", mine["Groups"])
    uids = {r["role"]: proc_status(r["pid"])["Uid"].split()[0] for r in st["roles"]}
    say(uids == {"audit": "61005", "secrets": "61004", "ca": "61003", "dialer": "61002", "worker": "61100"}, "each role has a user of its own", uids)
for f, mode in ((".", 0o700), ("ca", 0o700), ("ca/ca.key", 0o600), ("audit", 0o700), ("audit/chain.key", 0o600), ("run", 0o700), ("run/control.sock", 0o700)):
    m = os.stat(g.state + "/" + f).st_mode & 0o777
    say(m & ~mode == 0, "%s is for nobody else" % f, oct(m))
r = subprocess.run([PROXY, "serve", "--state", g.state], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30 * SLOW)
say(r.returncode == 125 and "another gateway serves" in r.stderr, "a second gateway does not take the same state", r.stderr)

# --- callers ------------------------------------------------------------------------------------------------------------
c = Caller(g.state)
hello = c.raw(b'{"v":1,"hello":"test"}')
say(hello.get("v") == 1 and "register" in hello["features"], "hello is answered", hello)
for text, data, fds, code in (
    ("no JSON", b"\0\xff{", (), "bad_json"), ("no object", b"[1]", (), "bad_json"), ("a key twice", b'{"op":"status","op":"stop"}', (), "bad_json"),
    ("no op", b'{"id":7}', (), "bad_request"), ("an unknown op", b'{"id":7,"op":"dance"}', (), "unknown_op"), ("an op of another type", b'{"id":7,"op":{}}', (), "bad_request"),
    ("revoke of nothing", b'{"id":7,"op":"revoke","sandbox":99}', (), "no_sandbox"), ("revoke by text", b'{"id":7,"op":"revoke","sandbox":"1"}', (), "no_sandbox"),
    ("register without a name", b'{"id":7,"op":"register"}', (), "bad_name"), ("a bad name", b'{"id":7,"op":"register","name":"../x"}', (), "bad_name"),
    ("no policy", b'{"id":7,"op":"register","name":"x"}', (), "no_policy"), ("a descriptor that was not sent", b'{"id":7,"op":"register","name":"x","policy":{"fd":5}}', (0,), "no_policy"),
    ("a negative descriptor", b'{"id":7,"op":"register","name":"x","policy":{"fd":-1}}', (0,), "no_policy"),
    ("no sockets", b'{"id":7,"op":"register","name":"x","policy":{"fd":0}}', (0,), "bad_sockets"),
    ("a descriptor twice", b'{"id":7,"op":"register","name":"x","policy":{"fd":0},"identify":{"sockets":[{"kind":"proxy4","fd":0}]}}', (0,), "bad_sockets"),
    ("a file for a socket", b'{"id":7,"op":"register","name":"x","policy":{"fd":0},"identify":{"sockets":[{"kind":"proxy4","fd":1}]}}', (0, 0), "bad_sockets"),
    ("an unknown kind", b'{"id":7,"op":"register","name":"x","policy":{"fd":0},"identify":{"sockets":[{"kind":"proxy9","fd":1}]}}', (0, 0), "bad_sockets"),
    ("a file without a path", b'{"id":7,"op":"register","name":"x","policy":{"fd":0},"files":[{"path":"","fd":1}]}', (0, 0), "bad_files"),
    ("a relative path", b'{"id":7,"op":"register","name":"x","policy":{"fd":0},"files":[{"path":"a/b","fd":1}]}', (0, 0), "bad_files"),
    ("reload of nothing", b'{"id":7,"op":"reload","sandbox":99,"policy":{"fd":0}}', (0,), "no_sandbox"), ("reload of nobody", b'{"id":7,"op":"reload","sandbox":"box","policy":{"fd":0}}', (0,), "no_sandbox"),
    ("reload of what is no name", b'{"id":7,"op":"reload","sandbox":[]}', (), "no_sandbox"), ("too long", b'{"x":"' + b"y" * 70000 + b'"}', (), "too_large"),
):
    a = c.raw(data, fds)
    say(a and a.get("error", {}).get("code") == code, "%s: %s" % (text, code), a)
for what, kind, make in (("a TCP socket for UDP", "dns_udp4", lambda: socket.create_server(("127.0.0.1", 0))), ("a socket that does not listen", "proxy4", lambda: socket.socket())):
    with make() as s, open(TABLE, "rb") as t:
        a = c.ask("register", [t.fileno(), s.fileno()], name="x", policy={"fd": 0}, identify={"sockets": [{"kind": kind, "fd": 1}]})
    say(a["error"]["code"] == "bad_sockets", "%s: bad_sockets" % what, a)
many = [os.dup(0) for _ in range(70)]
a = c.raw(b'{"id":7,"op":"status"}', many)
say(a and a.get("error", {}).get("code") == "too_large", "more descriptors than 64: too_large", a)
for fd in many:
    os.close(fd)
say("ok" in c.ask("status"), "and the connection still serves")
c.close()
probe = "import socket,sys\ns=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET);s.settimeout(5)\ntry:\n s.connect(sys.argv[1]);s.send(b'{\"v\":1,\"hello\":\"x\"}');print('answered' if b'features' in s.recv(1000) else 'closed')\nexcept OSError as e: print('closed',e)"
sock = g.state + "/run/control.sock"
r = subprocess.run(["unshare", "-n"] + ([] if ROOT else ["-Ur"]) + ["python3", "-c", probe, sock], capture_output=True, text=True)
say(r.stdout.startswith("closed"), "a caller from another network namespace is refused", r.stdout + r.stderr)
say(subprocess.run(["python3", "-c", probe, sock], capture_output=True, text=True).stdout.startswith("answered"), "and one from this one is not")
if ROOT:
    os.chmod(g.state, 0o711), os.chmod(g.state + "/run", 0o711), os.chmod(sock, 0o777)  # as if modes did not keep it away
    r = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "python3", "-c", probe, sock], capture_output=True, text=True)
    say(r.stdout.startswith("closed"), "another user is refused", r.stdout + r.stderr)
    os.chmod(g.state, 0o700), os.chmod(g.state + "/run", 0o700), os.chmod(sock, 0o700)

# --- sandboxes ----------------------------------------------------------------------------------------------------------
fds_before = len(os.listdir("/proc/%d/fd" % st["pid"]))
c = Caller(g.state)
a, ports = register(c, "box", files=3)
say("ok" in a, "register is answered when all have its table in force", a)
for text, more, code in (("without a policy", {}, "no_policy"), ("with files that were not sent", {"policy": {"fd": 0}, "files": [{"path": "/x", "fd": 4}]}, "bad_files"), ("with no table", {"policy": {"fd": 0}}, "refused"), ("that failed elsewhere", {"failed": "x\n\x1b[1m"}, "refused")):
    with open("/dev/null" if code == "refused" else TABLE, "rb") as t:
        b = c.ask("reload", [t.fileno()], sandbox="box", **more)
    say(b.get("error", {}).get("code") == code, "a reload %s: %s" % (text, code), b)
w = g.role("worker", "box")
say(w and w["ready"] and w["pid"] in pids, "its worker is the spare that was warm", w)
say(g.ready() and g.role("worker"), "and there is a new spare")


def sends_descriptors(pid):
    """What comes of a descriptor that is sent on each link of that process, which has none to send."""
    libc, out = ctypes.CDLL(None, use_errno=True), []
    pidfd = os.pidfd_open(pid)
    for n in sorted(map(int, os.listdir("/proc/%d/fd" % pid))):
        fd = libc.syscall(438, pidfd, n, 0)  # pidfd_getfd
        if fd < 0 or not os.readlink("/proc/self/fd/%d" % fd).startswith("socket:"):
            continue
        s = socket.socket(fileno=fd)
        if s.family == socket.AF_UNIX and s.type == socket.SOCK_SEQPACKET:
            try:
                s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])
                out.append("sent")
            except OSError as err:
                out.append(err.errno)
    os.close(pidfd)
    return out


if ROOT:
    try:
        socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, 83, 0)
        out = sends_descriptors(w["pid"])
        say(out == [errno.EPERM] * 5, "a worker sends nobody a descriptor, whose closing could take as long as it likes", out)
    except OSError:
        print("skip supervisor: this kernel passes descriptors to everybody (SO_PASSRIGHTS, Linux 6.16) (%s)" % MARK)
d = Caller(g.state)
a, _ = register(d, "box")
say(a.get("error", {}).get("code") == "name_in_use", "a name is used once", a)
with open(TABLE, "rb") as f:
    table = f.read()
open(T + "/bad", "wb").write(table[:len(table) // 2])
open(T + "/none", "wb").close()
open(T + "/text", "w").write("version: 1\n" * 2000)
for what in ("bad", "none", "text"):
    a, _ = register(d, what, table=T + "/" + what)
    say("error" in a and ("damaged" in a["error"]["message"] or "regular file" in a["error"]["message"]), "a table that is %s is refused" % {"bad": "cut short", "none": "empty", "text": "no table"}[what], a)
r, wr = os.pipe()
a = d.ask("register", [r], name="pipe", policy={"fd": 0}, identify={"sockets": []})
os.close(r), os.close(wr)
say("error" in a, "a pipe for a table is refused", a)
say([b["name"] for b in g.status()["sandboxes"]] == ["box"], "and nothing is left of them", g.status()["sandboxes"])
try:
    socket.create_connection(("127.0.0.1", ports[0]), 5).close()
    served = True
except OSError as e:
    served = isinstance(e, ConnectionResetError)  # the worker's answer to a port that no destination has
say(served, "its listening socket is served")
# a table in memory: what its maker can still change is copied, whatever else he has sealed
for what, seals in (("nothing", 0), ("its size", fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL), ("all", fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL)):
    fd = os.memfd_create("table", os.MFD_ALLOW_SEALING)
    os.write(fd, table)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    e = Caller(g.state)
    a, _ = register(e, "in-memory", table="/proc/self/fd/%d" % fd)
    if not seals & fcntl.F_SEAL_WRITE:
        os.pwrite(fd, b"\0" * len(table), 0)
    before, said = g.role("worker", "in-memory"), len(g.words())
    os.kill(before["pid"], signal.SIGKILL)  # the next one reads it anew
    again = wait_for(8, lambda: (lambda r: r and r["ready"] and r["pid"] != before["pid"] and r)(g.role("worker", "in-memory")))
    f = e.ask("finish", sandbox=a["ok"]["sandbox"])  # asked of that worker, behind the table that it was given
    say(again and f.get("ok", {}).get("refused") == 0 and "[worker]" not in g.words()[said:], "a table in memory of which %s is sealed" % what, g.words()[-600:])
    e.close()
    os.close(fd)
    wait_for(5, lambda: "in-memory" not in [b["name"] for b in g.status()["sandboxes"]])
c.close()  # its life
t0 = time.monotonic()
gone = wait_for(3, lambda: not alive(w["pid"]) and not g.status()["sandboxes"])
say(gone and time.monotonic() - t0 < 1.0 * SLOW, "when its connection is closed, its worker is gone within a second", "%.2f s" % (time.monotonic() - t0))
try:
    socket.create_connection(("127.0.0.1", ports[0]), 2).close()
    say(False, "and its sockets are closed")
except OSError:
    say(True, "and its sockets are closed")
a, _ = register(d, "kept", keep=True)
kept = a["ok"]["sandbox"]
d.close()
time.sleep(0.3)
say([b["name"] for b in g.status()["sandboxes"]] == ["kept"], "one that is kept outlives its connection")
d = Caller(g.state)
say("ok" in d.ask("revoke", sandbox=kept) and not g.status()["sandboxes"], "and ends by revoke")
d.s.send(json.dumps({"id": 1, "op": "register"}).encode())
d.close()  # without waiting for an answer
d = Caller(g.state)
d.s.sendmsg([b""], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 40))])  # looks like the end, but brings descriptors
d.close()
d = Caller(g.state)
socks = listeners()
with open(TABLE, "rb") as f:  # gone while the checker is at work
    d.s.sendmsg([json.dumps({"id": 1, "op": "register", "name": "quick", "policy": {"fd": 0}, "identify": {"sockets": [{"kind": "proxy4", "fd": 1}]}}).encode()],
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [f.fileno(), socks[0][1].fileno()]))])
d.close()
say(wait_for(5, lambda: not g.status()["sandboxes"]), "one whose caller left before the answer is gone")

# --- the checker that waits ----------------------------------------------------------------------------------------------
def checkers():
    """Those of this gateway: its children."""
    out = []
    for p in os.listdir("/proc"):
        try:
            if p.isdigit() and proc_status(int(p))["PPid"] == str(g.p.pid) and open("/proc/%s/cmdline" % p).read().split("\0")[1:3] == ["--role", "checker"] and alive(int(p)):
                out.append(int(p))
        except (FileNotFoundError, ProcessLookupError, KeyError):
            pass
    return out


def waiting(but=None):
    return wait_for(5, lambda: (lambda c: len(c) == 1 and c[0] != but and c)(checkers()))


one = waiting()
say(one, "a checker waits for the next table, and no more than one", checkers())
c = Caller(g.state)
a, _ = register(c, "checked")
say("ok" in a and waiting(but=one[0]), "each serves one table, and another one takes its place", (a, one, checkers()))
one = waiting()
os.kill(one[0], signal.SIGKILL)
wait_for(5, lambda: not checkers())
a, _ = register(c, "checked-too")
say("ok" in a and waiting(), "one that died while it waited is not missed", (a, checkers()))
# as a crash in the middle of the work: it stands still until it is killed
one = waiting()
os.kill(one[0], signal.SIGSTOP)
d = Caller(g.state)
killer = threading.Timer(0.5, lambda: os.kill(one[0], signal.SIGKILL))
killer.start()
a, _ = register(d, "unchecked")
say("damaged" in json.dumps(a) and "unchecked" not in [b["name"] for b in g.status()["sandboxes"]] and "the checker of sandbox unchecked ended by signal 9" in g.words(),
    "one that dies at its work is a refusal", a)
d.close()
one = waiting(but=one[0])
os.kill(one[0], signal.SIGSTOP)
d = Caller(g.state)
socks = listeners()
with open(TABLE, "rb") as f:
    d.s.sendmsg([json.dumps({"id": 1, "op": "register", "name": "left", "policy": {"fd": 0}, "identify": {"sockets": [{"kind": "proxy4", "fd": 1}]}}).encode()],
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [f.fileno(), socks[0][1].fileno()]))])
wait_for(5, lambda: "left" in [b["name"] for b in g.status()["sandboxes"]])
d.close()
say(wait_for(5, lambda: "left" not in [b["name"] for b in g.status()["sandboxes"]] and not alive(one[0])), "who leaves meanwhile takes his sandbox and its checker along", checkers())
say(waiting(but=one[0]), "and the next one waits")
c.close()
wait_for(5, lambda: not g.status()["sandboxes"])

# --- roles that die -----------------------------------------------------------------------------------------------------
c = Caller(g.state)
register(c, "victim", files=1)
for role in ("worker", "dialer", "ca", "secrets", "audit"):
    box = "victim" if role == "worker" else None
    old = g.role(role, box)["pid"]
    os.kill(old, signal.SIGKILL)
    new = wait_for(8, lambda: (lambda r: r and r["ready"] and r["pid"] != old and r)(g.role(role, box)))
    say(new, "the %s is started again" % role, g.words()[-500:])
say(wait_for(5, lambda: {"worker ended by signal 9", "dialer ended by signal 9", "dialer started again", "audit ended by signal 9", "audit started again", "sandbox started"} <= set(g.messages())),
    "deaths and new starts are recorded, audit's own too", g.messages())
# a role that keeps dying is started ever more slowly
starts, end = set(), time.monotonic() + 1.5
while time.monotonic() < end:
    r = g.role("dialer")
    if r["pid"] and r["pid"] not in starts:
        starts.add(r["pid"])
        os.kill(r["pid"], signal.SIGKILL)
    time.sleep(0.005)
say(2 <= len(starts) <= 7, "a role that keeps dying is held back", len(starts))
say(wait_for(10, g.ready), "and comes back all the same")
c.close()

# --- many ---------------------------------------------------------------------------------------------------------------
N = 60 if SLOW > 1 else 150
callers, bad = [], []
for i in range(N):
    c = Caller(g.state)
    a, _ = register(c, "many-%d" % i, files=4)
    if "ok" not in a:
        bad.append(a)
    callers.append(c)
say(not bad and len(g.status()["sandboxes"]) == N, "%d sandboxes with sources" % N, bad[:2])
for role in ("secrets", "audit", "ca", "dialer"):
    os.kill(g.role(role)["pid"], signal.SIGKILL)
say(wait_for(20, g.ready), "all shared roles die at once and come back", g.words()[-800:])
c = Caller(g.state)
a, _ = register(c, "one-more")
say("ok" in a, "and the next sandbox is served", a)
say("does not take its messages" not in g.words(), "nobody was told faster than it reads", g.words()[-800:])
for x in callers + [c]:
    x.close()
say(wait_for(20, lambda: not g.status()["sandboxes"]), "all end with their callers")
say(g.ready() is not None and wait_for(5, lambda: len(os.listdir("/proc/%d/fd" % st["pid"])) <= fds_before), "the supervisor keeps no descriptor of what is gone",
    "%d, %d before" % (len(os.listdir("/proc/%d/fd" % st["pid"])), fds_before))

# --- the end ------------------------------------------------------------------------------------------------------------
c = Caller(g.state)
register(c, "last")
pids = [r["pid"] for r in g.status()["roles"]]
rc = g.end()
say(rc == 0, "SIGTERM ends it in order", "%s %s" % (rc, g.words()[-500:]))
say(not any(alive(p) for p in pids) and not os.path.exists(g.state + "/run/control.sock"), "no role and no socket is left", [p for p in pids if alive(p)])
m = g.messages()
last = g.records()[-1]["unmapped"]["sallyport"]["kind"]
say("gateway stopped" in m and last == "checkpoint" and m.index("gateway started") < m.index("sandbox started"), "audit is last, with a checkpoint", [last] + m[-5:])
say(not [f for f in os.listdir(g.state + "/audit") if f.startswith("inflight")], "no slot file is left", os.listdir(g.state + "/audit"))
r = subprocess.run([BIN + "/sallyport", "logs", "verify", g.state + "/audit"], capture_output=True, text=True, env={**os.environ, "SALLYPORT_STATE": g.state})
say(r.returncode == 0, "and the chain verifies", r.stdout + r.stderr)
c.close()

g = Gateway("one").up()
st = g.ready()
say(st, "it starts again on the same state", g.words()[-500:])
c = Caller(g.state)
register(c, "orphan")
pids = [r["pid"] for r in g.status()["roles"]]
g.end(signal.SIGKILL)
say(wait_for(5, lambda: not any(alive(p) for p in pids)), "a supervisor that is killed takes all roles with it", [p for p in pids if alive(p)])
c.close()

g = Gateway("auto", "--auto").up()
c = Caller(g.state)
register(c, "only")
time.sleep(2.5)
say(g.p.poll() is None, "--auto: it stays while there is a sandbox")
c.close()
try:
    rc = g.p.wait(10 * SLOW)
except subprocess.TimeoutExpired:
    rc = "still runs"
    g.end(signal.SIGKILL)
say(rc == 0, "--auto: it ends after the last", rc)

# --- configuration ------------------------------------------------------------------------------------------------------
y = T + "/gateway.yaml"
refused("conf", "an unknown key is refused with its place", "gateway.yaml:2:1: error: unknown key `trusst` in the gateway's configuration; did you mean `trust`?", config=write(y, "dns: {servers: [127.0.0.1]}\ntrusst: /x\n"))
refused("conf", "a key of a later version is refused", "gateway.yaml:1:1: error: `listen`", config=write(y, "listen: 0.0.0.0:3128\n"))
refused("conf", "a name for a name server is refused", "gateway.yaml:1:17: error: a name server is ADDRESS", config=write(y, "dns: {servers: [localhost]}\n"))
refused("conf", "port 0 for a name server is refused", "error: a name server is ADDRESS", config=write(y, "dns: {servers: ['127.0.0.1:0']}\n"))
refused("conf", "a user number that is somebody's is refused", "`uid_base` is", config=write(y, "uid_base: 0\n"))
refused("conf", "trust anchors that are not there are an error", "cannot open the trust anchors", config=write(y, "trust: nothing-here.pem\n"))
refused("conf", "a configuration that others can write is refused", "nobody else may write it", config=write(y, "dns: {}\n", 0o666))
refused("conf", "a configuration that was named must be there", "cannot open the configuration", config=T + "/nowhere.yaml")
refused("conf", "what is no YAML is refused", "gateway.yaml:2:1: error: ", config=write(y, "dns: [\n"))
write(T + "/anchors.pem", open("/etc/ssl/certs/ca-certificates.crt").read() if os.path.exists("/etc/ssl/certs/ca-certificates.crt") else "")
g = Gateway("conf", config=write(y, "# all keys\ndns: { servers: [127.0.0.1, '127.0.0.2:5353', '[::1]:5300', '::1'] }\ntrust: anchors.pem\nuid_base: 62000\n")).up()
st = g.ready()
say(st, "every key of the configuration is taken", g.words())
if ROOT and st:
    say(proc_status(g.role("audit")["pid"])["Uid"].split()[0] == "62005", "uid_base is obeyed")
g.end()
g = Gateway("conf").up()
say(g.ready(), "another uid_base takes the log over", g.words())
g.end()
r = subprocess.run([BIN + "/sallyport", "logs", "verify", g.state + "/audit"], capture_output=True, text=True, env={**os.environ, "SALLYPORT_STATE": g.state})
say(r.returncode == 0, "and its chain goes on", r.stdout + r.stderr)

# --- a boundary that is named ------------------------------------------------------------------------------------------
roofs = T + "/roofs"
os.makedirs(roofs, mode=0o755)
with open(TABLE, "rb") as a, open(roofs + "/roof.lmdb", "wb") as b:
    b.write(a.read())
wider = write(T + "/wider.yaml", "version: 1\nname: wider\nsecrets: { one: { env: E2E_SECRET, hosts: [api.test] } }\ndestinations: [ { host: api.test, addresses: [10.0.0.0/8], allow: [ 'GET /**' ] } ]\n")
say(subprocess.run([BIN + "/sallyport-policy", "compile", wider, "-o", T + "/wider"]).returncode == 0, "a wider policy compiles")
g = Gateway("roof", config=write(T + "/roof.yaml", "policies: [ { dir: %s, sources: { env: [ E2E_SECRET ] } } ]\n" % roofs)).up()
c = Caller(g.state)
a, _ = register(c, "within", boundary={"name": "roof"})
say("ok" in a, "a boundary may be the name of an installed policy", a)
a, _ = register(c, "beyond", table=T + "/wider", boundary={"name": "roof"})
say("goes beyond the boundary" in json.dumps(a) and "10.0.0.0/8" in json.dumps(a), "which is one", a)
a, _ = register(c, "free", table=T + "/wider")
say("ok" in a, "as nothing else stands in its way", a)
for what in ({"name": "none"}, {"name": "No Name"}, {"name": ""}, {"name": None}, {"name": 7}, {"name": "roof", "fd": 0}, {}, [], "roof", None, 7, {"fd": 9}, {"fd": None}):
    a, _ = register(c, "unbound", boundary=what)
    say(a.get("error", {}).get("code") in ("bad_fd", "no_policy") and len(a["error"]["message"]) > 20, "what is no boundary is never taken for none: %s" % json.dumps(what), a)
for what in ({}, [], None, 7, {"fd": None}, {"fd": "0"}, {"name": "No Name", "fd": 0}, {"name": "", "fd": 0}, {"name": None, "fd": 0}, {"name": 7, "fd": 0}):
    a, _ = register(c, "unbound", policy=what)
    say(a.get("error", {}).get("code") == "no_policy", "nor is a policy: %s" % json.dumps(what), a)
for what in ({}, [], None, 7, {"fd": None}, {"fd": "0"}, {"name": "x"}):
    with open(TABLE, "rb") as t:
        s = listeners()[0][1]
        a = c.ask("register", [t.fileno(), s.fileno()], name="unbound", policy={"fd": 0}, env=what, identify={"sockets": [{"kind": "proxy4", "fd": 1}]})
    say(a.get("error", {}).get("code") == "bad_fd", "nor are variables: %s" % json.dumps(what), a)
for text, more, want in (("how long it may live", {"ttl": 60}, "bad_message"), ("another way to be known", {"identify": {"sockets": [{"kind": "proxy4", "fd": 2}], "token": "x"}}, "bad_sockets")):
    a, _ = register(c, "unbound", **more)
    say(a.get("error", {}).get("code") == want and {"bad_message": '"ttl" is not known', "bad_sockets": "by nothing else"}[want] in a["error"]["message"], "nor is what is not known here: %s" % text, a)
for what in (7, {}, {"address": "http://vault.test"}, {"address": "https://vault.test", "namespace": 7}, {"address": "https://vault.test", "namespace": None},
             {"address": "https://vault.test", "ca": {}}, {"address": "https://vault.test", "ca": {"fd": 40}}, {"address": "https://vault.test", "ca": 2}):
    a, _ = register(c, "unbound", vault=what)
    say(a.get("error", {}).get("code") == "bad_vault", "nor a Vault: %s" % json.dumps(what), a)
with open(TABLE, "rb") as t:
    a = c.ask("reload", [t.fileno()], sandbox="free", policy={"fd": 0}, boundary={"name": "roof"})
say(a.get("error", {}).get("code") == "bad_message", "nor a boundary that comes later", a)
say(sorted(b["name"] for b in g.status()["sandboxes"]) == ["free", "within"], "none of them is at work")
c.close()
g.end()

# --- state that is not as it should be ----------------------------------------------------------------------------------
key = T + "/one/ca/ca.key"
os.chmod(key, 0o640)
refused("one", "a CA key that others can read is refused", "mode 0600")
os.rename(key, key + ".away")
refused("one", "a CA key that is missing is not made anew", "no new CA is made silently")
os.symlink(key + ".away", key)
refused("one", "a CA key that is a link is refused", "ca.key")
os.unlink(key)
os.rename(key + ".away", key)
os.chmod(key, 0o600)
os.rename(T + "/one/audit/chain.key", T + "/one/chain.away")
refused("one", "a chain key that is missing is not made anew", "chain.key is missing beside existing records")
os.rename(T + "/one/chain.away", T + "/one/audit/chain.key")
os.truncate(T + "/one/audit/chain.key", 31)
refused("one", "a chain key that was cut short is refused", "must be 32 octets")
refused("open", "a state directory that others can write is refused", "nobody else can write", prepare=lambda d: os.chmod(d, 0o777))
if ROOT:
    refused("alien", "a state directory of another user is refused", "must be a directory that belongs to", prepare=lambda d: os.chown(d, 12345, 12345))
r = subprocess.run([PROXY, "serve", "--state", T + "/x", "surplus"], capture_output=True, text=True)
say(r.returncode == 2, "surplus arguments are wrong usage")
sys.exit(1 if failures else 0)
