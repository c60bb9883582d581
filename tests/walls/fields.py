# SPDX-License-Identifier: Apache-2.0
# fields.py SALLYPORT DIRECTORY CASE...: field cases of the launcher that need a terminal, signals or odd streams. A line each:
# ok TEXT, not ok TEXT: WHAT.
import errno, fcntl, hashlib, os, pty, select, signal, struct, subprocess, sys, termios, threading, time
SP, DIR = sys.argv[1:3]
RUN = [SP, "run", "--quiet"]
def verdict(good, text, what=""): print("ok" if good else "not ok", text + ("" if good else ": %r" % (what,)), flush=True)
def wait(what, seconds=10):
    end = time.time() + seconds
    while time.time() < end:
        if what(): return True
        time.sleep(0.02)
    return False
def cmdlines():
    for p in os.listdir("/proc"):
        if p.isdigit():
            try: yield int(p), open("/proc/%s/cmdline" % p, "rb").read().replace(b"\0", b" ").decode(errors="replace")
            except OSError: pass
def living(tag): return [(p, c) for p, c in cmdlines() if tag in c and p != os.getpid() and "fields.py" not in c]
class Terminal: # a command on a terminal of its own, in a session of its own
    def __init__(self, argv, size=(30, 100)):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.modes, self.slave, self.out = termios.tcgetattr(slave), slave, b""
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid(); fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for fd in range(3): os.dup2(slave, fd)
            os.closerange(3, 256); os.execv(argv[0], argv)
    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            try: d = os.read(self.master, 65536)
            except OSError: return
            if not d: return
            self.out += d
    def until(self, text, seconds=15): return wait(lambda: (self.read(), text in self.out)[1], seconds)
    def type(self, text): os.write(self.master, text)
    def size(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    def end(self, seconds=15):
        status = []
        def reaped():
            self.read(); p, st = os.waitpid(self.pid, os.WNOHANG)
            if p: status.append(os.waitstatus_to_exitcode(st))
            return bool(p)
        return status[0] if wait(reaped, seconds) else "hangs"
    def restored(self): return wait(lambda: termios.tcgetattr(self.slave)[:4] == self.modes[:4], 5)
def start(script, options=(), **kw):
    return subprocess.Popen([*RUN, *options, "--", *script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kw)

def UL01():
    for script, want in (("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("kill -SEGV $$", 139)):
        t = Terminal([*RUN, "--", "sh", "-c", script]); got = t.end()
        verdict(got == want and t.restored(), "UL01: on a terminal too: %s: %d" % (script, want), (got, t.out))
        p = subprocess.run([*RUN, "--", "sh", "-c", script], capture_output=True, timeout=30)
        verdict(p.returncode == want, "UL01: without one: %s: %d" % (script, want), (p.returncode, p.stderr))
    for argv, want in ((["no-such-command"], 127), (["/etc/passwd"], 126)):
        t = Terminal([*RUN, "--", *argv]); got = t.end()
        verdict(got == want, "UL01: on a terminal too: %s: %d" % (argv[0], want), (got, t.out))
    t = Terminal([*RUN, "--timeout", "300ms", "--", "sleep", "50"]); got = t.end()
    verdict(got == 124 and t.restored(), "UL01: on a terminal too: time is up: 124", (got, t.out))

TREE = r'''
import os, signal, subprocess, sys, time
tag = sys.argv[1]
for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    if "deaf" in tag: signal.signal(s, signal.SIG_IGN)
subprocess.Popen(["sleep", "9%s" % sys.argv[2]], start_new_session=True)
subprocess.Popen(["nohup", "sleep", "8%s" % sys.argv[2]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
if os.fork() == 0: # a daemon: two forks, a session, deaf to everything
    os.setsid()
    for s in range(1, 32):
        try: signal.signal(s, signal.SIG_IGN)
        except OSError: pass
    if os.fork() == 0:
        open("up-" + tag, "w").close()
        while True: time.sleep(60)
    os._exit(0)
while True: time.sleep(60)
'''
def UL02():
    runs, n = [], 70000 + os.getpid() % 10000
    open(DIR + "/tree.py", "w").write(TREE)
    for i, (sig, deaf) in enumerate(((signal.SIGTERM, 0), (signal.SIGTERM, 1), (signal.SIGINT, 0), (signal.SIGHUP, 0), (signal.SIGKILL, 0), (signal.SIGKILL, 1), ("close", 0), ("close", 1))):
        tag = "tree%d-%d%s" % (os.getpid(), i, "deaf" if deaf else "")
        argv = ["python3", "tree.py", tag, str(n + i)]
        if sig == "close": t = Terminal([*RUN, "--", *argv]); runs.append((tag, n + i, sig, t.pid, t))
        else: p = subprocess.Popen([*RUN, "--", *argv], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); runs.append((tag, n + i, sig, p.pid, p))
    for tag, number, sig, pid, p in runs:
        if not wait(lambda: os.path.exists(DIR + "/up-" + tag), 20) or len(living(tag)) < 2 or not living("sleep 9%d" % number): verdict(False, "UL02: the tree %s grows" % tag, living(tag))
    for tag, number, sig, pid, p in runs:
        if sig == "close": os.close(p.master); os.close(p.slave)
        else: os.kill(pid, sig)
    for tag, number, sig, pid, p in runs:
        left = lambda: living(tag) + living("sleep 9%d" % number) + living("sleep 8%d" % number)
        name = "the terminal closed" if sig == "close" else sig.name
        verdict(wait(lambda: not left(), 7), "UL02: %s%s to the launcher: daemons, sessions and nohup all end" % (name, ", ignored inside," if "deaf" in tag else ""), left())
        if left(): os.kill(pid, signal.SIGKILL)
        p.wait() if isinstance(p, subprocess.Popen) else os.waitpid(pid, 0)

def UL04():
    t = Terminal([*RUN, "--", "bash", "--norc", "-i"], (31, 101))
    good = t.until(b"$ "); t.type(b"PS1='<\\#>'; trap 'stty size' WINCH; stty size\n"); good &= t.until(b"31 101") and t.until(b"<2>")
    t.size(41, 111); good &= t.until(b"41 111")
    t.type(b"sleep 50 & jobs; fg\n"); good &= t.until(b"Running"); t.type(b"\x1a"); good &= t.until(b"Stopped")
    t.type(b"kill -9 %%; while jobs | grep -q Stopped; do :; done; exit 5\n"); got = t.end()
    verdict(good and got == 5 and t.restored(), "UL04: size, its change, background, foreground and stop; the terminal as before", (good, got, t.out))
    t = Terminal([*RUN, "--", "sh", "-c", "stty raw -echo; echo up; sleep 50"]); good = t.until(b"up")
    raw = termios.tcgetattr(t.slave)[3] != t.modes[3]
    os.kill(t.pid, signal.SIGKILL); got = t.end()
    verdict(good and raw and got == -9 and t.restored(), "UL04: the terminal is as before after kill -9 of the launcher", (good, raw, got, termios.tcgetattr(t.slave), t.modes))
    t = Terminal([*RUN, "--", "sh", "-c", "stty raw -echo; echo up; kill -9 $$"]); good = t.until(b"up"); got = t.end()
    verdict(good and got == 137 and t.restored(), "UL04: and after a command that died in raw mode", (good, got))
    # what is injected inside must not arrive at a shell outside
    code = "import fcntl,sys\nfor r, a in ((0x5412, b'X'), (0x541c, b'\\3'), (0x100005412, b'X')):\n for fd in (0, 1, 2):\n  try: fcntl.ioctl(fd, r & 0xffffffff, a); print('INJECTED')\n  except OSError as e: print('refused', e.errno)\nprint('done')"
    open(DIR + "/inject.py", "w").write(code)
    t = Terminal(["/bin/sh", "-c", "%s run --quiet -- python3 inject.py; echo after; stty -icanon min 0 time 3; dd bs=1 count=1 2>/dev/null | wc -c | sed 's/^/left /'" % SP])
    good = t.until(b"left "); t.end()
    verdict(good and b"INJECTED" not in t.out and b"done" in t.out and b"left 0" in t.out, "UL04: nothing is typed into the caller's terminal (TIOCSTI, TIOCLINUX)", t.out)
    # only one of the streams is a terminal: it is the caller's own, and still takes nothing
    t = Terminal(["/bin/sh", "-c", "%s run --quiet -- python3 inject.py | cat; echo after; stty -icanon min 0 time 3; dd bs=1 count=1 2>/dev/null | wc -c | sed 's/^/left /'" % SP])
    good = t.until(b"left "); t.end()
    verdict(good and b"INJECTED" not in t.out and b"done" in t.out and b"left 0" in t.out, "UL04: nor when only standard input is the terminal", t.out)

def UL06():
    feeder = subprocess.Popen(["sleep", "1000"], stdout=subprocess.PIPE)
    try:
        p = subprocess.run([*RUN, "--timeout", "10s", "--", "echo", "hi"], stdin=feeder.stdout, capture_output=True, timeout=9)
        verdict(p.returncode == 0 and p.stdout == b"hi\n", "UL06: ends with the command while standard input stays open", p)
        p = subprocess.run([*RUN, "--timeout", "300ms", "--", "cat"], stdin=feeder.stdout, capture_output=True, timeout=20)
        verdict(p.returncode == 124, "UL06: the time limit fires while it waits for input", p)
    finally: feeder.kill(); feeder.wait()
    p = subprocess.run([*RUN, "--", "cat"], input=b"x\n", capture_output=True, timeout=20)
    verdict(p.returncode == 0 and p.stdout == b"x\n", "UL06: the end of input arrives", p)
    p = subprocess.run([*RUN, "--", "cat"], stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    verdict(p.returncode == 0 and p.stdout == b"", "UL06: no input at all", p)
    p = subprocess.run(["bash", "-c", "set -o pipefail; '%s' run --quiet -- yes | head -n 1; echo ${PIPESTATUS[0]}" % SP], capture_output=True, timeout=20)
    verdict(p.stdout == b"y\n141\n", "UL06: SIGPIPE as without a sandbox: 141", p)
    p = subprocess.Popen([*RUN, "--", "sh", "-c", "exec 0<&- 1>&-; exec sleep 50"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    got = select.select([p.stdout], [], [], 15)[0] and p.stdout.read()
    verdict(got == b"" and p.poll() is None, "UL06: the end of output arrives before the command's end", (got, p.poll()))
    def closed():
        try: os.write(p.stdin.fileno(), b"x" * 65536); return False
        except BrokenPipeError: return True
    os.set_blocking(p.stdin.fileno(), False)
    try: got = wait(closed, 5)
    except BlockingIOError: got = False
    verdict(got and p.poll() is None, "UL06: and the writer of its input learns that nobody reads", (got, p.poll()))
    p.kill(); p.wait()
    data = os.urandom(1 << 20)
    for name, flags in (("a pipe", 0), ("a non-blocking pipe", os.O_NONBLOCK)):
        r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETFL, flags)
        wanted = hashlib.sha256()
        p = start(["sh", "-c", "cat" if not flags else "python3 -c 'import os,select,sys\nwhile True:\n select.select([0],[],[])\n d=os.read(0,65536)\n if not d: break\n sys.stdout.buffer.write(d)'"], stdin=r); os.close(r)
        def feed():
            for i in range(64): os.write(w, data); wanted.update(data)
            os.close(w)
        th = threading.Thread(target=feed); th.start()
        got = hashlib.sha256()
        for d in iter(lambda: p.stdout.read(1 << 16), b""): got.update(d)
        th.join()
        verdict(p.wait() == 0 and got.digest() == wanted.digest(), "UL06: 64 MiB through %s are the same" % name)
    p = start(["sh", "-c", "yes | head -c 3000000"], stdin=subprocess.DEVNULL)
    first = p.stdout.read(10)
    # a slow reader: the launcher takes no part in it and burns no time
    ticks = lambda: sum(int(x) for x in open("/proc/%d/stat" % p.pid).read().rsplit(")", 1)[1].split()[11:13])
    before = ticks(); time.sleep(0.3); used = ticks() - before
    verdict(used <= 3 and len(first + p.stdout.read()) == 3000000 and p.wait() == 0, "UL06: a slow reader gets it all, and nobody spins", used)

for sig in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP): signal.signal(sig, signal.SIG_DFL) # a background job's shell ignores some
os.chdir(DIR)
for case in sys.argv[3:]: globals()[case]()
print("end")
