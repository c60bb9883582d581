#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The launcher: exit status, streams, signals, terminal, the file view, protected names, what is left behind.
NAME=launcher
. "$(dirname "$0")/lib.sh"
can_run
cd "$WORK" || exit 1
SP_RUN=("$SP" run --quiet)
status() { # WANTED TEXT ARGUMENT...
	local want=$1 text=$2 got; shift 2
	timeout 60 "${SP_RUN[@]}" "$@" >"$T/out" 2>&1 </dev/null; got=$?
	if [ $got -eq "$want" ]; then ok "$text: $want"; else not_ok "$text: $got, not $want" "$(cat "$T/out")"; fi
}
inside() { timeout 60 "${SP_RUN[@]}" -- "$@"; }

# --- exit status
status 0 "true" -- true
status 1 "false" -- false
status 77 "the command's own status" -- sh -c 'exit 77'
status 137 "killed by signal 9" -- sh -c 'kill -9 $$'
status 143 "killed by signal 15" -- sh -c 'kill -15 $$'
status 127 "not found" -- no-such-command
status 127 "not found, with a path" -- ./no-such-command
printf 'x' >"$WORK/plain" && chmod 644 "$WORK/plain"
status 126 "not executable" -- ./plain
status 126 "a directory" -- /usr
printf '#!/no/such/interpreter\n' >"$WORK/script" && chmod 755 "$WORK/script"
status 126 "its interpreter is missing" -- ./script
status 124 "time is up" --timeout 300ms -- sleep 20
status 124 "time is up, and it will not end by itself" --timeout 300ms -- sh -c 'trap "" TERM; sleep 20; sleep 20'
status 125 "unknown option" --nonsense -- true
status 125 "no command"
status 125 "detach is for a later version" -d -- true
status 125 "a missing policy" --policy "$T/none.yaml" -- touch started
status 125 "a missing working directory" -w "$T/none" -- touch started
printf 'version: 1\nname: x\ndestinations:\n  - hosst: a\n' >"$T/bad.yaml"
status 125 "a policy with an error" --policy "$T/bad.yaml" -- touch started
has "the error names file and line" "$T/out" "bad.yaml:4:"
[ ! -e started ] && ok "and nothing was started" || not_ok "and nothing was started"
printf 'version: 1\nname: here\n' >"$WORK/sallyport.yaml"
status 125 "an untrusted sallyport.yaml" -- true
has "says the command to type" "$T/out" "sallyport trust"
"$SP" trust sallyport.yaml >"$T/out" 2>&1
status 0 "a trusted sallyport.yaml" -- true
echo '# changed' >>"$WORK/sallyport.yaml"
status 125 "a changed sallyport.yaml" -- true
# the first runs of a state directory at the same time: each makes what it trusts, and none waits for ever
first=$T/first
printf 'version: 1\nname: first\n' >"$WORK/first.yaml"
mkdir -m 700 "$first"
pids=
for i in 1 2 3 4; do (cd "$WORK" && exec timeout 60 "$SP" run --quiet --state "$first" --policy "$WORK/first.yaml" --name "first-$i" -- true) >"$T/first.$i" 2>&1 & pids="$pids $!"; done
bad=
for i in $pids; do wait "$i" || bad="$bad $?"; done
if [ -z "$bad" ]; then ok "four first runs at the same time"; else not_ok "four first runs at the same time" "$bad" "$(cat "$T"/first.[1-4])"; fi
"$SP" stop --all --state "$first" >/dev/null 2>&1
# whoever can write here does not choose among what was trusted elsewhere
mkdir -p "$T/elsewhere"
printf 'version: 1\nname: elsewhere\n' >"$T/elsewhere/sallyport.yaml"
"$SP" trust "$T/elsewhere/sallyport.yaml" >"$T/out" 2>&1
ln -sf "$T/elsewhere/sallyport.yaml" "$WORK/sallyport.yaml"
status 125 "a link to a policy that was trusted elsewhere" -- true
has "and says that it is not used" "$T/out" "sallyport.yaml is not used"
"$SP" trust sallyport.yaml >"$T/out" 2>&1
status 0 "a link that was trusted where it is" -- true
rm -f "$WORK/sallyport.yaml"
mkfifo "$WORK/sallyport.yaml"
status 125 "a pipe in the place of sallyport.yaml" -- true
rm -f "$WORK/sallyport.yaml"
"$SP" run -- true >"$T/out" 2>"$T/err"
has "without a policy one line says so" "$T/err" "no policy"
[ "$(wc -l <"$T/err")" -eq 1 ] && [ ! -s "$T/out" ] && ok "and nothing else" || not_ok "and nothing else" "$(cat "$T/out" "$T/err")"

# --- streams, events
[ "$(echo hello | inside cat)" = hello ] && ok "standard input and output" || not_ok "standard input and output"
[ "$(inside sh -c 'yes | head -c 30000000' | wc -c)" -eq 30000000 ] && ok "30 MB through a pipe" || not_ok "30 MB through a pipe"
inside sh -c 'echo err >&2; echo out' >"$T/out" 2>"$T/err"
[ "$(cat "$T/out" "$T/err")" = "out
err" ] && ok "standard error apart" || not_ok "standard error apart" "$(cat "$T/out" "$T/err")"
inside sh -c 'ls /proc/self/fd' 7</etc/passwd >"$T/out" 2>&1
grep -q '^7$' "$T/out" && not_ok "no other descriptor comes in" "$(cat "$T/out")" || ok "no other descriptor comes in"
"$SP" run --json --name events --status-fd 8 -- sh -c 'exit 3' >"$T/out" 2>"$T/err" 8>"$T/events"
python3 - "$T/err" "$T/events" >"$T/out" 2>&1 <<'P' && ok "events as JSON lines" || not_ok "events as JSON lines" "$(cat "$T/out" "$T/err")"
import json, sys
for f in sys.argv[1:]:
    a, b = [json.loads(l) for l in open(f)]
    assert a["event"] == "started" and a["name"] == "events" and a["pid"] > 1, a
    assert b["event"] == "exited" and b["status"] == 3 and b["reason"] == "exit" and "refused" in b, b
P

# --- signals
"${SP_RUN[@]}" -- sh -c 'trap "echo got it; exit 5" TERM; echo ready; while :; do sleep 0.05; done' >"$T/out" 2>&1 &
p=$!
wait_for 10 grep -q ready "$T/out"
kill -TERM $p
wait $p
[ $? -eq 5 ] && grep -q 'got it' "$T/out" && ok "SIGTERM reaches the command" || not_ok "SIGTERM reaches the command" "$(cat "$T/out")"
"${SP_RUN[@]}" -- sh -c 'echo ready; sleep 987' >"$T/out" 2>&1 &
p=$!
wait_for 10 grep -q ready "$T/out"
kill -9 $p; wait $p 2>/dev/null
wait_for 5 bash -c '! pgrep -x sleep -a | grep -q 987' && ok "a killed launcher takes all of it along" || not_ok "a killed launcher takes all of it along"
wait_for 5 bash -c "[ -z \"\$(ls -A '$WORK' | grep -E '^\.(git|envrc|vscode|idea|husky|claude)$')\" ]" && ok "and nothing stays in the folder" || not_ok "and nothing stays in the folder" "$(ls -la "$WORK")"
inside sh -c 'sleep 986 & exec true'
pgrep -x sleep -a | grep -q 986 && not_ok "background processes end with the command" || ok "background processes end with the command"

# --- a terminal
cat >"$T/term.py" <<'P'
import os, pty, select, sys, time
def run(argv, script, limit=20):
    pid, fd = pty.fork()
    if pid == 0: os.execv(argv[0], argv)
    out, step, end = b"", 0, time.time() + limit
    while time.time() < end:
        r, _, _ = select.select([fd], [], [], 0.1)
        if r:
            try: d = os.read(fd, 4096)
            except OSError: break
            if not d: break
            out += d
        if step < len(script) and script[step][0] in out:
            os.write(fd, script[step][1]); step += 1
    for i in range(50):
        p, st = os.waitpid(pid, os.WNOHANG)
        if p: return os.waitstatus_to_exitcode(st), out.decode(errors="replace")
        time.sleep(0.1)
    os.kill(pid, 9); os.waitpid(pid, 0)
    return "hangs", out.decode(errors="replace")
sp = [sys.argv[1], "run", "--quiet", "--"]
def check(text, good, out): print("ok" if good else "not ok", text); good or print(out)
# Every step waits for what the one before has led to: a signal that comes between a fork and an exec is somebody else's race.
st, out = run(sp + ["bash", "--norc", "-i"], [(b"$ ", b"PS1='<\\#>'\n"), (b"<2>", b"tty; cat\n"), (b"/dev/pts/", b"x\n"), (b"x\r\nx", b"\x03"), (b"<3>", b"echo st=$?; sleep 984 & jobs; exit 6\n")])
check("job control, Ctrl-C ends the program and not the shell", st == 6 and "st=130" in out and "Running" in out, (st, out))
st, out = run(sp + ["cat"], [(b"", b"x\n"), (b"x\r\nx", b"\x03")])
check("Ctrl-C ends a plain command: 130", st == 130, (st, out))
st, out = run(sp + ["sh", "-c", "echo go; cat; echo eof"], [(b"go", b"typed\n"), (b"typed\r\ntyped", b"\x04")])
check("typed text and its end arrive", st == 0 and out.count("typed") == 2 and "eof" in out, (st, out))
st, out = run(sp + ["sh", "-c", "echo a; kill -9 $$"], [])
check("the last words are shown", st == 137 and "a" in out, (st, out))
st, out = run(sp + ["python3", "-c", "import fcntl,sys\ntry: fcntl.ioctl(0,0x5412,b'x'); print('TYPED')\nexcept OSError as e: print('refused',e.errno)"], [])
check("nothing can be typed into the terminal (TIOCSTI)", "refused 1" in out, out)
P
python3 "$T/term.py" "$SP" >"$T/out" 2>&1
while read -r verdict text; do
	case $verdict in ok) ok "terminal: $text" ;; not) not_ok "terminal: ${text#ok }" "$(cat "$T/out")" ;; esac
done <"$T/out"
grep -q '^ok' "$T/out" || not_ok "terminal tests ran" "$(cat "$T/out")"

# --- the file view
mkdir -p "$HOME/.ssh" "$HOME/.local/bin" "$HOME/bin" && echo private >"$HOME/.ssh/id" && printf '#!/bin/sh\necho tool\n' >"$HOME/.local/bin/mytool" && cp "$HOME/.local/bin/mytool" "$HOME/bin/other" && chmod 755 "$HOME/.local/bin/mytool" "$HOME/bin/other"
inside sh -c 'ls -A "$HOME" "$HOME/.ssh"; cat "$HOME/.ssh/id"; find /home /root /srv /mnt /media /var/log /var/lib -type f 2>/dev/null' >"$T/out" 2>&1
hasnt "the home folder is empty" "$T/out" private
hasnt "no file of other folders" "$T/out" "/var/lib/dpkg"
PATH=$HOME/.local/bin:$PATH inside mytool >"$T/out" 2>&1; has "a tool folder is there" "$T/out" tool
PATH=$HOME/bin:$PATH inside other >"$T/out" 2>&1; has "the command's own file is there" "$T/out" tool
inside sh -c 'cat /etc/resolv.conf /etc/machine-id; hostname; id -u; touch /usr/bin/x /etc/x "$HOME/x" /tmp/x; echo done $?; ls /tmp' >"$T/out" 2>&1
has "resolv.conf names an address that is not loopback" "$T/out" "nameserver 10.0.2.15"
hasnt "another machine id" "$T/out" "$(cat /etc/machine-id 2>/dev/null || echo none-here)"
grep -q '^0$' "$T/out" && not_ok "never root" "$(cat "$T/out")" || ok "never root"
has "the system is read-only" "$T/out" "cannot touch '/usr/bin/x'"
[ ! -e /tmp/x ] && [ ! -e "$HOME/x" ] && ok "what is written there is thrown away" || not_ok "what is written there is thrown away"
inside sh -c 'echo new >made; mkdir d; echo x >d/y' && [ "$(cat made)" = new ] && [ "$(stat -c %u made d/y | sort -u)" = "$(stat -c %u .)" ] && ok "the working directory is written, its owner stays" || not_ok "the working directory is written, its owner stays" "$(ls -la)"
inside sh -c 'grep -E "^(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):" /proc/self/status; cat /proc/sys/user/max_user_namespaces' >"$T/out" 2>&1
[ "$(grep -c '0000000000000000' "$T/out")" -eq 4 ] && grep -q 'NoNewPrivs:	1' "$T/out" && grep -q 'Seccomp:	2' "$T/out" && [ "$(tail -n 1 "$T/out")" = 0 ] && ok "no capability, no_new_privs, seccomp, no user namespaces" || not_ok "no capability, no_new_privs, seccomp, no user namespaces" "$(cat "$T/out")"
inside sh -c 'cp /bin/true s; chmod 4755 s; chmod 755 s; ls -l s' >"$T/out" 2>&1
[ ! -u s ] && ok "no set-user-id file is left in a shared folder" || not_ok "no set-user-id file is left in a shared folder" "$(ls -l s)"
python3 - <<P &
import socket, time
s = socket.socket(socket.AF_UNIX); s.bind("$WORK/host.sock"); s.listen(1); time.sleep(30)
P
p=$!
PIDS+=($p)
wait_for 5 test -S host.sock
inside python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.connect("host.sock"); print("CONN" + "ECTED")' >"$T/out" 2>&1
hasnt "a host's socket in the folder cannot be reached" "$T/out" CONNECTED
kill_wait $p; rm -f host.sock
ln -s /etc "$WORK/link" 2>/dev/null
printf 'version: 1\nname: x\nsandbox: { filesystem: { write: [., link] } }\n' >"$T/link.yaml"
status 125 "a shared path that is a symbolic link is refused" --policy "$T/link.yaml" -- true
(cd "$HOME" && status 125 "the home folder is not shared by accident" -- true)
(cd / && status 125 "nor is /" --allow-home -- true)
(cd "$HOME" && timeout 30 "${SP_RUN[@]}" --allow-home -- ls .ssh) >"$T/out" 2>&1; has "but may be" "$T/out" id
status 125 "the state directory is not shared" -w "$STATE" -- true

# --- secrets' places and variables
mkdir -p sub && echo "$SECRET" >sub/key && chmod 600 sub/key
cat >"$T/secret.yaml" <<P
version: 1
name: files
secrets:
  a: { file: $WORK/sub/key, hosts: [api.test] }
  b: { env: E2E_SECRET, hosts: [api.test] }
destinations:
  - host: api.test
    allow: [ "GET /**" ]
    inject: [ { secret: a, as: bearer, env: A_TOKEN }, { secret: b, as: header, name: X-B, env: B_TOKEN } ]
P
E2E_SECRET=$SECRET timeout 60 "${SP_RUN[@]}" --policy "$T/secret.yaml" -- sh -c 'cat sub/key; mv sub sub2; env; tr "\0" "\n" </proc/1/environ; cat /proc/1/cmdline' >"$T/out" 2>&1
hasnt "neither secret is inside" "$T/out" "$SECRET"
check "a placeholder is, as long as the value" grep -qE "^A_TOKEN=[A-Za-z0-9_-]{${#SECRET}}$" "$T/out"
has "the folder of a secret cannot be moved away" "$T/out" "Device or resource busy"
E2E_SECRET=$SECRET status 125 "-e of a secret's variable is refused" --policy "$T/secret.yaml" -e E2E_SECRET -- true
chmod 666 sub/key; E2E_SECRET=x status 125 "a secret file that others can write is refused" --policy "$T/secret.yaml" -- true
mv sub/key sub/real; ln -s real sub/key; E2E_SECRET=x status 125 "a secret file behind a link is refused" --policy "$T/secret.yaml" -- true
rm -rf sub

# --- protected names
if command -v git >/dev/null; then
	mkdir repo && cd repo && git init -q . && git config user.email a@b.c && git config user.name n
	cp .git/config "$T/config.before"
	inside sh -c 'echo evil >.git/hooks/pre-commit; git config core.fsmonitor evil; mv .git g2; mv .git/hooks h2 2>/dev/null; rm -rf h2; rm -f .git/config; echo x >.envrc; mkdir -p .vscode/x; mkdir .claude; echo x >.claude/settings.json
		echo x >sallyport.yaml; ln -s /etc/passwd .idea; rmdir .husky; echo ../evil >.git/commondir; i=0; while [ -e .git/commondir ] && [ $i -lt 200 ]; do i=$((i + 1)); sleep 0.05; done; echo a >a; git add a && git commit -qm one && git branch b && git gc -q && git log --oneline' >"$T/out" 2>&1
	cmp -s .git/config "$T/config.before" && [ ! -e .git/hooks/pre-commit ] && [ ! -e .git/commondir ] && ok "git's configuration and hooks are as before" || not_ok "git's configuration and hooks are as before" "$(cat "$T/out"; ls -la .git)"
	[ "$(git log --oneline | wc -l)" -eq 1 ] && ok "commit, branch and gc work" || not_ok "commit, branch and gc work" "$(cat "$T/out")"
	[ "$(ls -A)" = ".git
a" ] && ok "names that were missing are missing" || not_ok "names that were missing are missing" "$(ls -la; cat "$T/out")"
	inside sh -c 'sleep 2' & p=$!
	wait_for 5 test -d .envrc
	inside sh -c 'echo x >.envrc; true' >"$T/out" 2>&1
	[ -d .envrc ] && ok "one that ends first leaves the other's placeholders" || not_ok "one that ends first leaves the other's placeholders" "$(ls -la)"
	wait $p
	[ "$(ls -A)" = ".git
a" ] && ok "the last one takes them away" || not_ok "the last one takes them away" "$(ls -la)"
	echo 'use flake' >.envrc
	inside sh -c 'echo evil >.envrc; rm -f .envrc; cat .envrc' >"$T/out" 2>&1
	[ "$(cat .envrc)" = "use flake" ] && has "an existing one can be read and not written" "$T/out" "use flake"
	cd ..
else
	skip "git is not installed"
fi

# --- the environment of others
if [ "$(id -u)" -eq 0 ]; then
	mkdir owned && chown 4711:4711 owned && (cd owned && inside sh -c 'id -u; echo x >f') >"$T/out" 2>&1
	[ "$(cat "$T/out")" = 4711 ] && [ "$(stat -c %u:%g owned/f)" = 4711:4711 ] && ok "root becomes the owner of the folder" || not_ok "root becomes the owner of the folder" "$(cat "$T/out"; ls -ln owned)"
	printf 'version: 1\nname: x\nsandbox: { process: { user: 0 } }\n' >"$T/root.yaml"
	status 125 "root is never let in" --policy "$T/root.yaml" -- true
fi
before=$(grep -c . /proc/self/mountinfo)
inside true
[ "$(grep -c . /proc/self/mountinfo)" -eq "$before" ] && ok "no mount is left" || not_ok "no mount is left"
wait_for 3 bash -c '! pgrep -f "sallyport-(sweep|init|conn)"' && ok "no process is left" || not_ok "no process is left" "$(ps -ef | grep sallyport)"

# --- a long state path, and two at once
long=$T/$(printf 'l%.0s' $(seq 1 120))
SALLYPORT_STATE=$long timeout 60 "$SP" run --quiet -- true && SALLYPORT_STATE=$long "$SP" stop --all && ok "a state path longer than a socket address" || not_ok "a state path longer than a socket address"
"$SP" stop --all >/dev/null 2>&1
for i in 1 2 3 4; do inside true & pids[i]=$!; done
bad=0; for i in 1 2 3 4; do wait ${pids[i]} || bad=1; done
[ $bad -eq 0 ] && ok "four starts at once share one gateway" || not_ok "four starts at once share one gateway"
check_done
