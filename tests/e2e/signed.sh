#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Signed tables, a gateway that takes no others, folders of tables, and the way back to an older one.
NAME=signed
. "$(dirname "$0")/lib.sh"
can_run
P="$BIN/sallyport-policy"
cd "$T" || exit 1
for k in mine other; do openssl genpkey -algorithm ed25519 -out $k.pem 2>"$T/genpkey"; chmod 600 $k.pem; done
yaml() { printf 'version: 1\nname: agent\ndestinations:\n  - host: a.test\n    allow: [ "GET /%s" ]\n' "$1" >"$T/$1.yaml"; chmod 644 "$T/$1.yaml"; }
yaml one; yaml two; yaml three; yaml four

# --- keys and signatures
KEY=$("$P" pubkey mine.pem)
case $KEY in ed25519/*) ok "the public key of a secret one" ;; *) not_ok "the public key of a secret one" "$KEY" ;; esac
openssl pkey -in mine.pem -pubout -out mine.pub
[ "$("$P" pubkey mine.pub)" = "$KEY" ] && ok "and of a public one" || not_ok "and of a public one"
openssl ecparam -name prime256v1 -genkey -noout -out ec.pem; chmod 600 ec.pem
for f in ec.pem upca.pem one.yaml mine.pub; do
	if "$P" compile --sign $f one.yaml -o no.lmdb >out 2>&1; then not_ok "$f does not sign"; else ok "$f does not sign"; fi
done
chmod 644 other.pem
if "$P" compile --sign other.pem one.yaml -o no.lmdb >out 2>&1; then not_ok "a key that others can read does not sign"; else has "a key that others can read does not sign" out "chmod"; fi
chmod 600 other.pem
[ ! -e no.lmdb ] && ok "and nothing is written then" || not_ok "and nothing is written then"
"$P" compile one.yaml -o plain.lmdb
"$P" compile --sign mine.pem one.yaml -o signed.lmdb
"$P" compile --sign mine.pem one.yaml -o again.lmdb
"$P" compile --sign other.pem one.yaml -o strange.lmdb
check "the same octets twice" cmp signed.lmdb again.lmdb
check "a signature stands behind the table" cmp -n "$(stat -c %s plain.lmdb)" plain.lmdb signed.lmdb
python3 - <<'E'
import random
b = open("signed.lmdb", "rb").read()
n = len(b) - 104
r = random.Random(1)
for i, at in enumerate([n + 3, n + 8, n + 39, n + 40, n + 103, 4096 * 2 + 20, r.randrange(n)]):
    c = bytearray(b); c[at] ^= 1 << r.randrange(8)
    open("bad%d.lmdb" % i, "wb").write(c)
open("bad7.lmdb", "wb").write(b[:-1])
open("bad8.lmdb", "wb").write(b + b"\0")
open("bad9.lmdb", "wb").write(open("plain.lmdb", "rb").read() + b[n:n + 40] + bytes(64))
open("bad10.lmdb", "wb").write(b + b[n:])
E

# --- a gateway that wants it
printf 'require_signed: [ "%s" ]\npolicies: [ { dir: tables } ]\n' "$KEY" >gateway.yaml
chmod 644 gateway.yaml
mkdir -m 755 tables
"$BIN/sallyport-proxy" serve --state "$STATE" --config gateway.yaml >serve.log 2>&1 &
PIDS+=($!)
wait_for 15 test -S "$STATE/run/control.sock"
try() { (cd "$WORK" && timeout 60 "$SP" run --name box --quiet --policy "$1" -- true) >"$T/out" 2>&1; }
check "a policy with its signature is taken" try "$T/signed.lmdb"
if try "$T/plain.lmdb"; then not_ok "one without is refused"; else has "one without is refused, and why" out "is not signed"; fi
if try "$T/one.yaml"; then not_ok "one that is compiled on the spot is refused"; else has "one that is compiled on the spot is refused" out "is not signed"; fi
if try "$T/strange.lmdb"; then not_ok "one of another signer is refused"; else has "one of another signer is refused" out "signed by somebody else"; fi
for i in 0 1 2 3 4 5 6 7 8 9 10; do
	if try "$T/bad$i.lmdb"; then not_ok "damaged $i is refused"; else ok "damaged $i is refused"; fi
done
# past the launcher, which looks as well: the gateway itself
cat >direct.py <<'E'
import array, json, socket, sys
def listener():
    s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(1); return s
taken = []
for f in sys.argv[2:]:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(30); s.connect(sys.argv[1] + "/run/control.sock")
    l = listener()
    with open(f, "rb") as t:
        s.sendmsg([json.dumps({"id": 1, "op": "register", "name": "x", "policy": {"fd": 0}, "identify": {"sockets": [{"kind": "proxy4", "fd": 1}]}}).encode()],
                  [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [t.fileno(), l.fileno()]))])
    if "ok" in json.loads(s.recv(65536)): taken.append(f)
    s.close()
print(*taken)
E
is() { if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "is '$2', not '$3'"; fi; }
is "the gateway takes the one that is signed and no other" "$(python3 direct.py "$STATE" plain.lmdb strange.lmdb bad*.lmdb signed.lmdb)" signed.lmdb

# --- a folder of tables, followed by a run
ins() { "$P" compile --sign mine.pem --install tables "$1.yaml"; }
generation() { python3 -c '
import json, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(10)
s.connect(sys.argv[1] + "/run/control.sock"); s.send(b"{\"id\":1,\"op\":\"status\"}")
print(*[b["generation"] for b in json.loads(s.recv(65536))["ok"]["sandboxes"] if b["name"] == "box"])' "$STATE"; }
newer() { [ "$(generation)" -gt "$1" ]; }
check "a table is put into a folder" ins one
is "under its digest, with a link of its name" "$(readlink tables/agent.lmdb | wc -c) $(ls tables | wc -l)" "70 2"
(cd "$WORK" && exec "$SP" run --name box --policy "$T/tables/agent.lmdb" -- bash -c 'touch ready; while [ ! -e stop ]; do curl -sk -o /dev/null -w "%{http_code}" https://a.test/two >>codes; sleep 0.05; done') >run.out 2>run.err &
RUN=$!
PIDS+=($RUN)
wait_for 30 test -e "$WORK/ready" || not_ok "the sandbox starts" "$(cat run.err)"
g=$(generation)
ins two
check "the next table is in force when the link is turned" wait_for 20 newer "$g"
cp -a tables/agent.lmdb was; g=$(generation)
"$P" compile --install tables three.yaml
said() { grep -q 'is not signed.*stays in force' run.err; }
check "one that is not signed is not, and that is said" wait_for 20 said
is "and the one before stays" "$(generation)" "$g"
check "rollback" "$P" rollback tables agent
is "turns the link to the one before" "$(readlink tables/agent.lmdb)" "$(readlink was)"
check "and once more" "$P" rollback tables agent
check "which is followed" wait_for 20 newer "$g"
if "$P" rollback tables agent >out 2>&1; then not_ok "there is no way back behind the first"; else has "there is no way back behind the first" out "no older table"; fi
"$P" rollback --list tables agent >list
is "the list: newest first, the current one marked, with signers" "$(awk '{ print $1 == "*" ? "*" : "-", $NF == k ? "mine" : $NF }' k="$KEY" list | tr '\n' ' ')" "- - - mine * mine "
two=$(awk 'NR == 2 { print substr($1, 1, 12) }' list)
check "to one by name" "$P" rollback --to "$two" tables agent
is "it is current" "$(readlink tables/agent.lmdb | cut -c 1-12)" "$two"
if "$P" rollback --to ffff tables agent >out 2>&1; then not_ok "not to one that is not there"; else ok "not to one that is not there"; fi
if "$P" rollback tables nobody >out 2>&1; then not_ok "nor of a policy that is not there"; else ok "nor of a policy that is not there"; fi
touch "$WORK/stop"
wait $RUN

# --- a gateway that follows its folder
cat >named.py <<'E'
import array, json, os, signal, socket, subprocess, sys, time
state, policy, tables, pid = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
failed = False
def say(good, text, more=""):
    global failed
    failed = failed or not good
    print(("ok" if good else "not ok") + " signed: " + text + " (" + sys.argv[5] + ")" + ("" if good else "\n    %s" % (more,)))
def ask(fds=(), **m):
    s.sendmsg([json.dumps({"id": 1, **m}).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
    while True:
        a = json.loads(s.recv(65536))
        if "event" not in a: return a
def generation():
    return {b["name"]: b["generation"] for b in ask(op="status")["ok"]["sandboxes"]}["named"]
def newer(g, than=lambda now, g: now > g):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if than(generation(), g): return True
        time.sleep(0.02)
    return False
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(30); s.connect(state + "/run/control.sock")
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen(1)
ident = {"sockets": [{"kind": "proxy4", "fd": 0}]}
for name in ("nobody", "../tables/agent", "", "out"):
    if name == "out" and not os.path.lexists(tables + "/out.lmdb"): os.symlink("../signed.lmdb", tables + "/out.lmdb")
    a = ask([l.fileno()], op="register", name="named", policy={"name": name}, identify=ident)
    say(a.get("error", {}).get("code") == "no_policy", "there is no policy of the name '%s'" % name, a)
a = ask([l.fileno()], op="register", name="named", policy={"name": "agent"}, identify=ident)
say("ok" in a, "a sandbox gets the policy of a name", a)
g = generation()
sallyport = lambda *a: subprocess.run([policy, *a], check=True)
sallyport("compile", "--sign", "mine.pem", "--install", tables, "three.yaml")
say(newer(g), "and the next one when the link is turned")
g = generation()
sallyport("rollback", tables, "agent")
say(newer(g), "and the one before after a rollback")
g = generation()
was = os.readlink(tables + "/agent.lmdb")
sallyport("compile", "--install", tables, "four.yaml")  # not signed
def refused():
    return sum(1 for n in os.listdir(state + "/audit") if n.startswith("audit") for r in open(state + "/audit/" + n, "rb") if b'"src_endpoint":{"name":"named"}' in r and b"policy not replaced" in r and b"is not signed" in r)
say(newer(g, lambda now, g: refused() > 0) and generation() == g, "one that is refused leaves it as it is, and is recorded")
os.kill(pid, signal.SIGHUP)
os.unlink(tables + "/agent.lmdb")
os.symlink(was, tables + "/agent.lmdb")  # no event that is waited for
os.kill(pid, signal.SIGHUP)
say(newer(g) , "SIGHUP: looked at again, and the gateway goes on", open("serve.log").read()[-500:])
g = generation()
with open("strange.lmdb", "rb") as t, open("again.lmdb", "rb") as u:
    say(ask([t.fileno()], op="reload", sandbox="named", policy={"fd": 0})["error"]["code"] == "refused" and generation() == g, "a policy of another signer is not taken for it")
    sallyport("compile", "--install", tables, "two.yaml")  # which is there, signed
    say(newer(g), "and does not end the following")
    g = generation()
    say("ok" in ask([u.fileno()], op="reload", sandbox="named", policy={"fd": 0}), "one that is brought is")
g = generation()
sallyport("rollback", "--to", os.readlink(tables + "/agent.lmdb")[:12], tables, "agent")
os.kill(pid, signal.SIGHUP)
a = ask([], op="reload", sandbox="named", policy={"name": "agent"})
say("ok" in a and a["ok"]["generation"] == g + 1, "which ends the following, until it is asked for by name again", (a, g))
sys.exit(failed)
E
python3 named.py "$STATE" "$P" tables "$(role_pid supervisor)" "$MARK" || FAILED=1
chmod 777 tables
for bad in 'policies: [ { dir: tables } ]' 'policies: [ { dir: nowhere } ]'; do
	printf '%s\n' "$bad" >bad.yaml; chmod 644 bad.yaml
	if timeout 20 "$BIN/sallyport-proxy" serve --state "$T/none" --config bad.yaml >out 2>&1; then not_ok "no start with $bad"; else has "no start with $bad" out "policies: "; fi
done
for bad in 'policies: [ x ]' 'policies: [ { dir: [] } ]' 'policies: [ {} ]' 'require_signed: []' 'require_signed: [ "ed25519/x" ]' "require_signed: [ \"${KEY%?}\" ]" 'require_signed: yes'; do
	printf '%s\n' "$bad" >bad.yaml; chmod 644 bad.yaml
	if timeout 20 "$BIN/sallyport-proxy" serve --state "$T/none" --config bad.yaml >out 2>&1; then not_ok "no start with $bad"; else has "no start with $bad" out "bad.yaml:1:"; fi
done
check_done
