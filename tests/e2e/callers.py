# SPDX-License-Identifier: Apache-2.0
"""Checks of callers of the control socket who are not the gateway's own user; see callers.sh. Arguments: programs, scratch directory, mark."""
import atexit, glob, json, os, shutil, stat, subprocess, sys, time

from checks import BIN, SLOW, T, failures, say, wait_for


class Gateway:
    def __init__(self, name, config, before=()):
        self.state = T + "/" + name
        os.makedirs(self.state, mode=0o700, exist_ok=True)
        self.log = open(self.state + ".log", "ab")
        self.before = list(before)
        self.p = subprocess.Popen(self.before + [BIN + "/sallyport-proxy", "serve", "--state", self.state, "--config", config], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        atexit.register(lambda: self.p.poll() is None and self.p.terminate())
        self.sock = self.state + "/run/control.sock"
        wait_for(20, lambda: os.path.exists(self.sock) or self.p.poll() is not None)

    def words(self):
        return open(self.state + ".log").read()

    def messages(self):
        out = []
        for name in sorted(glob.glob(self.state + "/audit/audit*.jsonl")):
            for line in open(name):
                r = json.loads(line)
                if r["unmapped"]["sallyport"]["kind"] == "admin":
                    out.append(r.get("message", r["unmapped"]["sallyport"].get("message", "")))
        return out

    def end(self):
        self.p.terminate()
        return self.p.wait(20 * SLOW)


class Caller:
    """A connection of a user's: uid, then gids, the first of which is the primary one."""

    def __init__(self, g, uid=0, gids=(0,), more=()):
        as_whom = ["setpriv", "--reuid", str(uid), "--regid", str(gids[0])] + (["--groups", ",".join(map(str, gids[1:]))] if gids[1:] else ["--clear-groups"])
        self.p = subprocess.Popen(as_whom + list(more) + ["python3", T + "/callers_ask.py", g.sock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        atexit.register(lambda: self.p.poll() is None and self.p.kill())

    def ask(self, op, more=None, **files):
        self.p.stdin.write(json.dumps([op, more or {}, files]) + "\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        try:
            return json.loads(line)
        except ValueError:
            return {"error": {"code": "died", "message": line + self.p.stdout.read()}}

    def register(self, box, name=None, more=None, **files):
        m = {"name": box, **(more or {})}
        if name:
            m["policy"] = {"name": name}
        return self.ask("register", m, **files)

    def close(self):
        self.p.stdin.close()
        self.p.wait(20)


def code(a):
    return a.get("error", {}).get("code", "ok" if "ok" in a else a)


def refused(a, want, words, text):
    say(code(a) == want and words in a["error"]["message"], text, a)


def get(at, path, *more):
    r = subprocess.run(["curl", "-sS", "-m", "20", "-x", "http://%s:3128" % at, "--cacert", g.state + "/ca/ca.pem", "-w", "\n%{http_code}", *more, "https://api.test" + path],
                       capture_output=True, text=True)
    return r.stdout.strip().rsplit("\n", 1)[-1], r.stdout + r.stderr


DAEMON = (1, (1,))
# --- nobody else --------------------------------------------------------------------------------------------------------
with open(T + "/own.yaml", "w") as f:
    f.write("policies: [ { dir: closed, users: [] } ]\n")
g = Gateway("own", T + "/own.yaml")
m = [stat.S_IMODE(os.stat(p).st_mode) for p in (g.state, g.state + "/run", g.sock)]
if subprocess.run("getent group sallyport sallyport-admin >/dev/null", shell=True).returncode == 2:
    say(m == [0o700, 0o700, 0o600], "where nobody else may call, the socket and its folder are for nobody else", list(map(oct, m)))
g.end()

# --- who ----------------------------------------------------------------------------------------------------------------
g = Gateway("st", T + "/gateway.yaml")
say("cannot reach %s/run/control.sock: chmod 711 %s" % (g.state, g.state) in g.words(), "the operator is told that others cannot reach it", g.words())
os.chmod(g.state, 0o711)
m = [stat.S_IMODE(os.stat(p).st_mode) for p in (g.state + "/run", g.sock)]
say(m == [0o711, 0o666], "where others may, who they are decides", list(map(oct, m)))
c = Caller(g, 65534, (65534,))
refused(c.ask("hello"), "not_allowed", "this gateway does not serve user 65534", "a user whom no folder lets is refused, and told why")
say(wait_for(10, lambda: any("user 65534 was refused: this gateway does not serve" in x for x in g.messages())), "and the record has it", g.messages())
say("user 65534 was refused" in g.words(), "and the log", g.words())
c.close()
c = Caller(g, 65534, (65534,), ["unshare", "-Ur"])
refused(c.ask("hello"), "not_allowed", "does not serve user 65534", "nor one who is root in a user namespace of his own")
c.close()
d = Caller(g, *DAEMON)
say(d.ask("hello").get("v") == 1, "a user of a folder's is served")
a = d.register("one", "agent")
say(code(a) == "ok", "and starts a sandbox with a policy of it", a)
AT = a["at"]
words = "user 1 may not use policy `crewed`: its folder lets neither this user nor a group of it (gateway.yaml:4, policies: users, groups)"
refused(d.register("two", "crewed"), "not_allowed", words, "not with one of another folder")
say(wait_for(10, lambda: "user 1 was refused: " + words in g.messages()), "the record has it", g.messages())
refused(d.register("two", "opened"), "not_allowed", "may not use policy `opened`", "nor of one that names nobody: that is for a group")
refused(d.register("two", "shut"), "not_allowed", "may not use policy `shut`", "nor of one that lets nobody")
refused(d.register("two", "nothing"), "no_policy", "no policy folder", "one that is not there")
for text, who in (("a supplementary group", (1234, (1234, 60))), ("the primary group", (1234, (60,))), ("a number of a group", (1234, (1234, 5, 4242)))):
    c = Caller(g, *who)
    a = c.register("crew", "crewed")
    say(code(a) == "ok", "a group of a folder's: " + text, a)
    refused(c.register("crew2", "agent"), "not_allowed", "user 1234 may not use policy `agent`", "and no other folder: " + text)
    c.close()
r = Caller(g)
a = [r.register("root-shut", "shut"), r.register("root-crew", "crewed")]
say([code(x) for x in a] == ["ok", "ok"], "root needs no leave", a)

# --- what others do not see -------------------------------------------------------------------------------------------
st = d.ask("status")["ok"]
say([b["name"] for b in st["sandboxes"]] == ["one"] and st["roles"][0]["sandbox"] == "one" and len(st["roles"]) == 1, "a user sees his own sandboxes, and no role but their workers", st)
theirs = r.ask("status")["ok"]
other = [b["sandbox"] for b in theirs["sandboxes"] if b["name"] == "root-shut"][0]
mine = st["sandboxes"][0]["sandbox"]
for op in ("revoke", "finish"):
    say(code(d.ask(op, {"sandbox": other})) == "no_sandbox", "another's is not there: " + op)
for which in (other, "root-shut"):
    say(code(d.ask("reload", {"sandbox": which, "policy": {"name": "agent"}})) == "no_sandbox", "another's is not there: reload of %s" % which)
    say(code(d.ask("reload", {"sandbox": which, "failed": "x"})) == "no_sandbox", "nor can a failure be said of %s" % which)
say(len(r.ask("status")["ok"]["sandboxes"]) == 3, "and all are still there")
refused(d.ask("stop"), "not_allowed", "administrators", "he does not stop the gateway")
refused(d.ask("secret", {"verb": "revoke", "name": "key"}), "not_allowed", "administrators", "nor revoke a secret")
say(g.p.poll() is None and get(AT, "/v1/echo")[0] == "200", "and it serves on")

# --- what others bring -------------------------------------------------------------------------------------------------
refused(d.register("own", policy=T + "/narrow.lmdb"), "not_allowed", "name an installed one", "a policy of his own is not taken")
for kind, words in (("secret", "it names the secret `s`"), ("addresses", "api.test has `addresses`"), ("connect", "api.test has `connect`"), ("ca", "api.test has `tls.ca`"), ("tunnel", "api.test has a tunnel"), ("observe", "it has `mode: observe`")):
    refused(d.register("n", "agent", policy=T + "/n-%s.lmdb" % kind), "refused", words, "what narrows has no more than that: " + kind)
refused(d.register("n", "agent", policy=T + "/callers.py"), "refused", "damaged", "nor is it something else")
refused(d.register("n", "crewed", policy=T + "/narrow.lmdb"), "not_allowed", "may not use policy `crewed`", "nor does it narrow what he may not use")
refused(d.register("n", "agent", {"files": []}, files=T + "/narrow.lmdb"), "not_allowed", "files", "files for its secrets are not his to bring")
refused(d.register("n", "agent", {"vault": {"address": "https://127.0.0.1:8200"}}), "not_allowed", "Vault", "nor is a Vault")
refused(d.register("n", "agent", boundary=T + "/narrow.lmdb"), "not_allowed", "a boundary is for", "nor is a boundary, which would tell him what stands in the installed policy")
refused(r.register("n", "agent", {"boundary": {"fd": 7}}), "bad_fd", "boundary: ", "root's boundary that was not sent is not taken for none")
refused(d.register("n", "agent", {"observe": True}), "not_allowed", "observe", "nor that it observes")

# --- what passes -------------------------------------------------------------------------------------------------------
status, body = get(AT, "/v1/echo")
say("auth=Bearer" in body and open(T + "/ngx/access.log").read().count("auth=Bearer " + open(T + "/key").read()) >= 1, "the installed policy's secret comes from the gateway's own file, which its caller cannot read", body)
say(get(AT, "/v1/kept/x")[0] == "403" and "boundary" in get(AT, "/v1/kept/x")[1], "the folder's boundary holds", get(AT, "/v1/kept/x"))
say(get(AT, "/v1/top/x")[0] == "403" and "boundary" in get(AT, "/v1/top/x")[1], "the gateway's too", get(AT, "/v1/top/x"))
say(get(AT, "/outside")[0] == "403", "and what neither has a rule for", get(AT, "/outside"))
say(get(AT, "/v1/hello", "-X", "DELETE")[0] == "403", "what the gateway's would let through and the folder's would not", get(AT, "/v1/hello", "-X", "DELETE"))
refused(d.register("w", "wide"), "refused", "goes beyond the boundary", "a policy that goes beyond its folder's boundary is refused")
a = d.register("narrowed", "agent", policy=T + "/narrow.lmdb")
say(code(a) == "ok", "an installed policy, narrowed", a)
p = a["at"]
s, body = get(p, "/v1/hello")
say(s == "200" and "hello, you sent Bearer" in body, "what both let through passes, with the secret", (s, body))
for path in ("/v1/echo", "/v1/kept/x", "/v1/top/x", "/outside"):
    say(get(p, path)[0] == "403", "narrowed: %s does not" % path, get(p, path))
# limits of a boundary are counted for each sandbox; both of its levels count apart
used = [get(AT, "/v1/hello")[0] for _ in range(45)]
say("429" in used and used[0] == "200", "the limits of the folder's boundary hold", used)

# --- another policy ----------------------------------------------------------------------------------------------------
a = d.ask("reload", {"sandbox": "one", "policy": {"name": "second"}})
say(code(a) == "ok", "another policy of the folder for a sandbox of his own", a)
refused(d.ask("reload", {"sandbox": "one", "policy": {"name": "crewed"}}), "not_allowed", "may not use policy `crewed`", "not one of another folder")
refused(d.ask("reload", {"sandbox": mine, "policy": {}}, policy=T + "/narrow.lmdb"), "not_allowed", "name an installed one", "nor one of his own")
a = d.ask("reload", {"sandbox": "one", "policy": {"name": "agent"}}, policy=T + "/narrow.lmdb")
say(code(a) == "ok" and get(AT, "/v1/echo")[0] == "403", "he can narrow it while it runs", (a, get(AT, "/v1/echo")))
# the installed one changes: what narrows it stays
gen = [b["generation"] for b in d.ask("status")["ok"]["sandboxes"] if b["name"] == "narrowed"][0]
with open(T + "/agent.yaml") as f:
    text = f.read()
with open(T + "/agent2.yaml", "w") as f:
    f.write(text.replace('"GET /**"', '"GET /v1/echo"'))
subprocess.run([BIN + "/sallyport-policy", "compile", T + "/agent2.yaml", "-o", T + "/team/.new"], check=True)
os.chmod(T + "/team/.new", 0o644)
os.rename(T + "/team/.new", T + "/team/agent.lmdb")
now = wait_for(10, lambda: (lambda n: n != gen and n)([b["generation"] for b in d.ask("status")["ok"]["sandboxes"] if b["name"] == "narrowed"][0]))
say(now and get(p, "/v1/hello")[0] == "403" and get(p, "/v1/echo")[0] == "403", "a new table of the name comes into force beneath what narrows it", (gen, now, get(p, "/v1/hello"), get(p, "/v1/echo")))
# a policy that is found in a folder that does not let him any more
a = d.register("moving", "moves")
gen = [b["generation"] for b in d.ask("status")["ok"]["sandboxes"] if b["name"] == "moving"][0]
shutil.copy(T + "/plain.lmdb", T + "/closed/moves.lmdb")
os.unlink(T + "/team/moves.lmdb")
os.kill(g.p.pid, 1)
say(wait_for(10, lambda: any(x.startswith("policy not replaced: user 1 may not use policy `moves`") for x in g.messages())), "a policy that moved to a folder that does not let its user is not taken", g.messages()[-3:])
say([b["generation"] for b in d.ask("status")["ok"]["sandboxes"] if b["name"] == "moving"] == [gen] and get(a["at"], "/v1/echo")[0] == "200", "the one before stays in force")
# what is said to be there and is not is never taken for none
for key in ("policy", "env"):
    for at in (7, -1, "1"):
        m = {"policy": {"name": "agent"}}
        m.setdefault(key, {})["fd"] = at
        refused(d.register("n", None, m), "no_policy" if key == "policy" else "bad_fd", "no index of a descriptor", "%s: a descriptor %r that was not sent" % (key, at))
    m = {"policy": {"name": "agent"}, "unsealed": True}
    refused(d.register("n", None, m, **{key: T + "/narrow.lmdb"}), "no_policy" if key == "policy" else "bad_fd", "memory", "%s: what he could have us wait for, or change" % key)
for bad in ("Not A Name", "", ".", "a/b", "../agent", "x" * 64):  # which names nothing: what stands beside it would be a policy of his own
    refused(d.register("n", None, {"policy": {"name": bad}}, policy=T + "/narrow.lmdb"), "no_policy", 'policy: "name" is', "a name that is none, with a policy beside it: %r" % bad)
    refused(d.ask("reload", {"sandbox": "narrowed", "policy": {"name": bad}}, policy=T + "/narrow.lmdb"), "no_policy", 'policy: "name" is', "nor by a reload")
# as many records as he likes are not his to make
a = [d.ask("reload", {"sandbox": "narrowed", "failed": "no %d" % i}) for i in range(60)]
refused(a[59], "refused", "no 59", "a failure that he tells of is answered")
n = [x for x in g.messages() if "policy not replaced: no " in x]
say(len(n) <= 30, "and recorded up to a number", len(n))
# descriptors whose closing takes long: from a user of a folder's, and from one who is refused (with what he sent before we looked at him)
slow = []
for uid in (1, 65534):
    os.kill(g.p.pid, 19)
    slow.append(subprocess.Popen(["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "python3", T + "/callers_linger.py", g.sock], stdout=subprocess.PIPE, text=True))
    atexit.register(slow[-1].kill)
    said = slow[-1].stdout.readline()
    os.kill(g.p.pid, 18)
    c = Caller(g)
    for _ in range(3):
        a = c.ask("status")
    say(said == "sent\n" and code(a) == "ok", "a descriptor of user %d whose closing waits holds up nobody" % uid, (said, a))
    c.close()
a = d.register("after", "agent")
say(code(a) == "ok" and get(a["at"], "/v1/echo")[0] == "200", "and sandboxes start", a)
# all users together leave room for administrators; 16 of 256 connections each are more than they may have
many = """import socket, sys, time
l = []
for i in range(256):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(sys.argv[1])
    try:
        s.send(b"{}")
    except BrokenPipeError:
        pass
    try:
        l.append((s, s.recv(4096)))
    except ConnectionResetError:
        l.append((s, s.recv(4096)))
print(sum(b"not_allowed" in x for _, x in l), flush=True)
time.sleep(600)
"""
crowd = []
for uid in range(5000, 5017):
    crowd.append(subprocess.Popen(["setpriv", "--reuid", str(uid), "--regid", "60", "--clear-groups", "python3", "-c", many, g.sock], stdout=subprocess.PIPE, text=True))
    atexit.register(crowd[-1].kill)
    said = crowd[-1].stdout.readline()
say(said.strip() not in ("", "0"), "a crowd of users does not get all connections that there are", said)
c = Caller(g)
say(code(c.ask("status")) == "ok", "and leaves room for administrators")
c.close()
for p in crowd:
    p.kill()
# one who does not let go: bounded
more = [Caller(g, *DAEMON) for _ in range(3)]
say(all(code(x.ask("hello")) != "not_allowed" for x in more), "several connections of one user")
for x in more + [d, r]:
    x.close()
say(wait_for(10, lambda: len(Caller(g).ask("status")["ok"]["sandboxes"]) == 0), "all end with their callers")
os.makedirs(T + "/nobody")
os.chown(T + "/nobody", 65534, 65534)
# refusals are recorded, and do not fill the record
for i in range(40):
    c = Caller(g, 65534, (65534,))
    c.ask("hello")
    c.close()
n = sum("was refused" in x for x in g.messages())
say(20 <= n <= 60, "refusals are recorded up to a number", n)
run = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "env", "-u", "SALLYPORT_STATE", "HOME=" + T + "/nobody", "XDG_STATE_HOME=" + T + "/nobody", BIN + "/sallyport", "run", "--state", T + "/nobody/state", "--gateway", g.sock, "--", "true"],
                     cwd=T + "/nobody", capture_output=True, text=True)
say(run.returncode == 125 and "the gateway refuses this caller: this gateway does not serve user 65534" in run.stderr, "a run of his is told why", run.stderr)
g.end()

# --- the groups of the system -------------------------------------------------------------------------------------------
with open("/etc/group") as f:
    groups = [x for x in f if not x.startswith(("sallyport:", "sallyport-admin:"))]
with open(T + "/group", "w") as f:
    f.writelines(groups + ["sallyport:x:7001:\n", "sallyport-admin:x:7002:\n"])
os.chmod(T + "/group", 0o644)
g = Gateway("st", T + "/gateway.yaml", ["unshare", "-m", "sh", "-c", "mount --bind %s/group /etc/group && exec \"$@\"" % T, "sh"])
c = Caller(g, 4000, (4000, 7001))
say(code(c.register("m", "opened")) == "ok", "a member of the group sallyport: a folder that names nobody")
refused(c.register("n", "agent"), "not_allowed", "may not use policy `agent`", "not one that names somebody")
refused(c.register("n", policy=T + "/narrow.lmdb"), "not_allowed", "name an installed one", "nor a policy of his own")
refused(c.ask("stop"), "not_allowed", "administrators", "nor the gateway's end")
b = Caller(g, 4001, (4001, 7002))
say(code(b.register("adm", policy=T + "/agent.lmdb")) in ("ok", "refused"), "a member of sallyport-admin brings policies of his own")
say(code(b.register("adm2", "shut")) == "ok" and len(b.ask("status")["ok"]["roles"]) > 3, "uses all folders, and sees all")
box = [x["sandbox"] for x in b.ask("status")["ok"]["sandboxes"] if x["name"] == "m"][0]
say(code(b.ask("revoke", {"sandbox": box})) == "ok", "ends another's sandbox")
say(code(b.ask("stop")) == "ok", "and the gateway")
c.close(), b.close()
sys.exit(1 if failures else 0)
