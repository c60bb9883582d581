#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `make demo`: the main job in front of your eyes. A real nginx on this machine plays the API; nothing else is reached.
NAME=demo
. "$(dirname "$0")/lib.sh"
if ! unshare -Ur true 2>/dev/null; then echo "demo: user namespaces cannot be made here, so there are no sandboxes; see: sallyport doctor"; exit 1; fi
b=$'\033[1m' r=$'\033[0m'
[ -t 1 ] || b= r=
say() { printf '\n%s== %s%s\n' "$b" "$*" "$r"; }
show() { printf '   $ %s\n' "$*"; }
make_pki
start_nginx
write_policy
say "The policy (what the sandbox may do)"
sed 's/^/   /' "$WORK/policy.yaml" | sed -n '3,16p'
say "1. An allowed call. The credential is added by the gateway; the sandbox never has it."
show 'sallyport run --policy policy.yaml -- sh -c "curl https://api.test/v1/hello; echo \$API_TOKEN"'
run sh -c 'printf "   the answer inside:   "; curl -sS -m 20 https://api.test/v1/hello; echo "   the variable inside: API_TOKEN=$API_TOKEN"'
printf '   what nginx saw:      %s\n' "$(grep -o 'auth=.* key' "$T/ngx/access.log" | head -n 1 | sed 's/ key//')"
echo "   nginx echoed the credential; the gateway overwrote the echo."
say "2. Refused: a method, a path, a host. Each refusal says why."
run sh -c 'for a in "-X DELETE https://api.test/v1/hello" "https://api.test/v1/hidden/x" "https://elsewhere.test/"; do echo "   \$ curl $a"; curl -sS -m 20 $a | cut -c1-150 | sed "s/^/     /"; done'
say "3. Attempts to go around."
cat >"$WORK/around.py" <<'P'
import os, socket
for k in [k for k in os.environ if "proxy" in k.lower()]: del os.environ[k]
def t(what, fn):
    try: r = fn()
    except OSError as e: r = "refused: " + str(e)
    print("   %-52s %s" % (what, r))
def tcp(a, p):
    s = socket.create_connection((a, p), 5); s.send(b"hello\r\n"); return "closed, nothing came back" if not s.recv(10) else "ANSWERED"
def udp(a, p):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); s.connect((a, p)); s.send(b"x"); s.recv(1); return "ANSWERED"
def dns():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3)
    s.sendto(b"\0\1\1\0\0\1\0\0\0\0\0\0\6secret\4evil\4test\0\0\x10\0\1", ("8.8.8.8", 53)); r = s.recvfrom(512)[0]
    return "answered by the gateway itself, %d records" % r[7]
t("a TCP connection to 1.1.1.1:22, by address", lambda: tcp("1.1.1.1", 22))
t("a name server of its own (8.8.8.8), data in the name", dns)
t("UDP to 8.8.8.8:443", lambda: udp("8.8.8.8", 443))
P
run python3 around.py
run sh -c 'for v in $(env | grep -i -E "^[a-z_]*proxy" | cut -d= -f1); do unset $v; done; printf "   %-52s " "curl with all proxy variables unset"; curl -sS -m 20 -o /dev/null -w "HTTP %{http_code}, through the gateway all the same\n" https://api.test/v1/hello'
say "4. The search for the secret inside: files, and the environment of every process."
half=$((${#SECRET} / 2))
cat >"$WORK/search.py" <<'P'
import os, sys
n = (sys.argv[1] + sys.argv[2]).encode(); hits = 0; looked = 0
for top in ("/proc/self/environ", "/etc", "/run", "/tmp", "/home", "/root", "/var", os.getcwd()):
    for d, _, fs in (os.walk(top) if os.path.isdir(top) else [("/proc/self", [], ["environ"])]):
        for f in fs:
            try:
                p = os.path.join(d, f)
                if os.path.isfile(p) and os.path.getsize(p) < 1 << 24: looked += 1; hits += n in open(p, "rb").read()
            except OSError: pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    for f in ("environ", "cmdline"):
        try: looked += 1; hits += f == "environ" and n in open("/proc/%s/%s" % (pid, f), "rb").read()
        except OSError: pass
print("   looked at %d places: %d hits" % (looked, hits))
P
run python3 search.py "${SECRET:0:$half}" "${SECRET:$half}"
say "5. The record of all of it (sallyport logs), and its chain (sallyport logs verify)."
"$SP" stop --all >/dev/null 2>&1
"$SP" logs | grep -E ' (allow|deny) ' | grep -v ' connection ' | cut -c1-190 | sed 's/^/   /'
"$SP" logs verify | sed 's/^/   /'
