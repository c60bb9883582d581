#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Nothing gets out but through the gateway; nobody inside takes its ports over.
NAME=around
. "$(dirname "$0")/lib.sh"
can_run
make_pki
start_nginx
write_policy
cat >"$WORK/try.py" <<'P'
import errno, os, socket, struct
def say(what, fn):
    try: r = fn()
    except OSError as e: r = "refused " + errno.errorcode.get(e.errno, str(e.errno))
    print(what + ":", r)
def udp(addr, port, fam=socket.AF_INET):
    s = socket.socket(fam, socket.SOCK_DGRAM); s.settimeout(3); s.connect((addr, port)); s.send(b"x"); s.recv(10); return "ANSWERED"
def tcp(addr, port, fam=socket.AF_INET):
    s = socket.socket(fam); s.settimeout(5); s.connect((addr, port)); s.send(b"SSH-2.0-x\r\n"); d = s.recv(100); return "closed" if not d else repr(d)
def bind(addr, port, kind=socket.SOCK_STREAM, fam=socket.AF_INET):
    s = socket.socket(fam, kind); s.bind((addr, port)); s.listen(1) if kind == socket.SOCK_STREAM else None; return "BOUND"
def make(fam, kind, proto=0):
    socket.socket(fam, kind, proto); return "MADE"
say("udp 443", lambda: udp("8.8.8.8", 443))
say("udp6 443", lambda: udp("2001:4860:4860::8888", 443, socket.AF_INET6))
say("tcp 22", lambda: tcp("1.1.1.1", 22))
say("tcp6 22", lambda: tcp("2606:4700::1111", 22, socket.AF_INET6))
say("tls port 853", lambda: tcp("1.1.1.1", 853))
say("upstream directly", lambda: tcp("127.0.0.1", int(os.environ["UPPORT"])))
for a in ("127.0.0.1", "0.0.0.0", "10.0.2.15"):
    say("bind %s 3128" % a, lambda: bind(a, 3128)); say("bind %s 53" % a, lambda: bind(a, 53)); say("bind udp %s 53" % a, lambda: bind(a, 53, socket.SOCK_DGRAM))
say("bind ::1 3128", lambda: bind("::1", 3128, fam=socket.AF_INET6))
say("raw", lambda: make(socket.AF_INET, socket.SOCK_RAW, 1)); say("ping", lambda: make(socket.AF_INET, socket.SOCK_DGRAM, 1))
say("packet", lambda: make(socket.AF_PACKET, socket.SOCK_RAW)); say("vsock", lambda: make(40, socket.SOCK_STREAM)); say("netfilter", lambda: make(socket.AF_NETLINK, socket.SOCK_RAW, 12))
say("mptcp", lambda: make(socket.AF_INET, socket.SOCK_STREAM, 262)); say("udplite", lambda: make(socket.AF_INET, socket.SOCK_DGRAM, 136)); say("bluetooth", lambda: make(31, socket.SOCK_RAW, 1))
def own(addr): # a listener of the payload where the sandbox's proxy port is: what connects must reach the gateway all the same
    s = socket.socket(); s.bind((addr, 3128)); s.listen(1); s.settimeout(0.5)
    c = socket.create_connection((addr, 3128), 5); c.settimeout(5); c.send(b"GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n"); d = c.recv(12)
    try: s.accept(); return "TAKEN"
    except TimeoutError: return "the gateway's" if d == b"HTTP/1.1 200" else repr(d)
say("port 3128 of 10.0.2.15", lambda: own("10.0.2.15"))
q = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0\4leak\4test\0\0\x10\0\1"
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); s.sendto(q, ("9.9.9.9", 53)); r = s.recvfrom(512)
t = socket.create_connection(("9.9.9.9", 53), 5); t.send(struct.pack(">H", len(q)) + q); d = t.recv(512)
print("own dns over tcp: answers", struct.unpack(">H", d[8:10])[0])
print("own dns: answers", struct.unpack(">H", r[0][6:8])[0], "from", r[1][0])
P
UPPORT=$PORT
(cd "$WORK" && E2E_SECRET=x timeout 60 "$SP" run --quiet -e UPPORT="$PORT" --policy policy.yaml -- python3 try.py) >"$T/out" 2>&1
cat "$T/out"
for what in "udp 443: refused" "udp6 443: refused" "tcp 22: refused" "tcp6 22: refused" "raw: refused" "packet: refused" "vsock: refused" "netfilter: refused" "mptcp: refused" "udplite: refused" "bluetooth: refused" \
	"bind 127.0.0.1 3128: refused" "bind 127.0.0.1 53: refused" "bind udp 127.0.0.1 53: refused" "bind ::1 3128: refused" "tls port 853: refused" "own dns: answers 0 from 9.9.9.9" "own dns over tcp: answers 0"; do
	has "G19 $what" "$T/out" "$what"
done
if grep -q 'upstream directly: refused\|upstream directly: closed' "$T/out"; then ok "the upstream's own port is not reachable"; else not_ok "the upstream's own port is not reachable" "$(cat "$T/out")"; fi
hasnt "nothing answered over UDP" "$T/out" ANSWERED
if grep -q "^port 3128 of 10.0.2.15: \(the gateway's\|refused\)" "$T/out"; then ok "nobody inside takes over 10.0.2.15:3128"; else not_ok "nobody inside takes over 10.0.2.15:3128" "$(cat "$T/out")"; fi
record_lines >"$T/log"
has "the attempt at port 22 is recorded" "$T/log" "connection deny destination_denied - 1.1.1.1 22"
has "the DNS question is recorded" "$T/log" "dns deny destination_denied - leak.test"
# names: what a connection was made for, what TLS says and what the request says must be one
run curl -sS -m 20 --noproxy '*' --resolve api.test:443:203.0.113.9 https://api.test/v1/hello >"$T/out" 2>&1
has "an address that the program chose is ignored: the name decides" "$T/out" "hello, you sent"
# without a name in TLS there is nothing to answer for: an alert, and a record
for to in 'https://203.0.113.9/' 'https://[2001:db8::9]/'; do
	run curl -sS -m 20 --noproxy '*' -g -k "$to" >"$T/out" 2>&1
	if grep -q 'unrecognized name\|"error":"destination_denied"' "$T/out"; then ok "a bare address is no way in: $to"; else not_ok "a bare address is no way in: $to" "$(cat "$T/out")"; fi
done
run curl -sS -m 20 --noproxy '' -x http://127.0.0.1:3128 -k "https://127.0.0.1:$PORT/v1/hello" >"$T/out" 2>&1
has "nor is the upstream's own address, through the proxy" "$T/out" '"error":"destination_denied"'
run curl -sS -m 20 -w 'status=%{http_code}' -H 'Host: git.test' https://api.test/v1/hello >"$T/out" 2>&1
has "Host differs from the connection's name: 421" "$T/out" "status=421"
run curl -sS -m 20 --connect-to api.test:443:git.test:443 https://api.test/v1/hello >"$T/out" 2>&1
has "the name in TLS differs from that of CONNECT: unrecognized_name" "$T/out" "unrecognized name"
record_lines >"$T/log"
has "a finding says so" "$T/log" " finding "
has "the mismatch of Host is recorded" "$T/log" "request deny identity_mismatch GET git.test"
has "the bare address is recorded" "$T/log" "203.0.113.9"
run sh -c 'cat /etc/shadow /root/.ssh/id_rsa /proc/1/environ; ls -A /home /var/lib /srv /mnt; mount -t tmpfs x /mnt; unshare -Ur true; cat /proc/sys/kernel/core_pattern >/dev/null; echo x >/proc/sys/kernel/core_pattern' >"$T/out" 2>&1
hasnt "no host file shows" "$T/out" "root:"
has "no user namespaces inside" "$T/out" "unshare"
run sh -c 'ls -la /proc/1/root "$SALLYPORT_STATE" 2>&1; ls '"$STATE" >"$T/out" 2>&1
hasnt "the state directory is not visible" "$T/out" "ca.key"
run sh -c 'echo changed >policy.yaml; rm -f policy.yaml; mv policy.yaml p2; ls' >"$T/out" 2>&1
check "the policy file cannot be changed from inside" grep -q '^version: 1' "$WORK/policy.yaml"
check_done
