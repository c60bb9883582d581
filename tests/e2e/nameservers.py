# SPDX-License-Identifier: Apache-2.0
"""Names asked for from inside a sandbox, many at a time, while name servers come and go. nameservers.py PART PORT.
Prints "ok TEXT" or "not ok TEXT: what". A file that it makes ("NAME.now") is what the script outside waits for."""
import json, os, selectors, socket, struct, sys, threading, time
part, PORT = sys.argv[1], int(sys.argv[2])
def say(good, text, what=""): print(("ok %s" if good else "not ok %s: %s") % ((text,) if good else (text, what)), flush=True)
def tell(what): open(what + ".now", "w").close()
def heard(what, seconds):
    end = time.monotonic() + seconds
    while not os.path.exists(what + ".now") and time.monotonic() < end: time.sleep(0.02)
def burst(names, seconds=120):
    """Asks for all of them at the same time: {name: (status, code, reason, seconds)}; what does not end has the status "none"."""
    sel, got, begin = selectors.DefaultSelector(), {n: ("none", None, None, None) for n in names}, time.monotonic()
    for n in names:
        s = socket.socket(); s.setblocking(False); s.connect_ex(("127.0.0.1", 3128)); sel.register(s, selectors.EVENT_WRITE, [n, b""])
    while sel.get_map() and time.monotonic() - begin < seconds:
        for key, _ in sel.select(1):
            s, d, end = key.fileobj, key.data, False
            try:
                if key.events == selectors.EVENT_WRITE:
                    s.send(b"GET http://%s:%d/ HTTP/1.1\r\nHost: %s:%d\r\nConnection: close\r\n\r\n" % (d[0].encode(), PORT, d[0].encode(), PORT)); sel.modify(s, selectors.EVENT_READ, d); continue
                x = s.recv(65536); d[1] += x; end = not x
            except OSError as e: end = True; d[1] = d[1] or repr(e).encode()
            if not end: continue
            sel.unregister(s); s.close()
            head, _, body = d[1].partition(b"\r\n\r\n")
            try: j = json.loads(body)
            except ValueError: j = {}
            got[d[0]] = (head[9:12].decode("latin-1"), j.get("error"), j.get("reason"), time.monotonic() - begin)
    return got
def get(name, seconds=60): return burst([name], seconds)[name]
def others(got): # what was not answered by 200
    return {n: r for n, r in got.items() if r[0] != "200"}
def told(r): # what a name server did not do is in the reason, or that it was not its turn yet
    return (r[1] == "dns_failure" and "no name server" in (r[2] or "")) or (r[1] == "upstream_timeout" and "no connection was begun in time" in (r[2] or ""))
def few(got): return (len(got), list(got.items())[:3])

if part == "after":
    # closed, silent, good: what a name without an answer leaves behind
    tell("quiet"); a = get("silent.test"); tell("noise")
    b = get("plain.test"); say(b[0] == "200", "UI03 a name asked for right after another timed out is answered", b)
    say(a[1] == "dns_failure" and a[0] in ("502", "504"), "UI03 a name that no server answers ends by itself, as a failure of DNS", a)
    say("no name server" in (a[2] or "") and "time" in a[2], "UI03 whose reason says what the name servers did: %s" % a[2], a)
elif part == "many":
    names = ["n%d.p.test" % i for i in range(1000)]
    bad = others(burst(names)); say(not bad, "UI03 1000 names at the same time, behind a closed and a silent server, are all answered", few(bad))
elif part == "killed":
    # the good one goes while they are asked for, and returns
    names = ["k%d.p.test" % i for i in range(1000)]
    threading.Timer(0.5, tell, ("kill",)).start()
    got = burst(names); bad = others(got)
    say(os.path.exists("returned.now"), "UI03 the name server was ended and started again meanwhile")
    strange = {n: r for n, r in bad.items() if not told(r)}
    say(not strange, "UI03 each of 1000 names ends, answered or saying what the name servers did (%d refused)" % len(bad), few(strange))
    say(len(bad) < 1000, "UI03 some were answered", few(bad))
    bad = others(burst(["m%d.p.test" % i for i in range(100)])); say(not bad, "UI03 new names are answered at once when it is there again", few(bad))
    time.sleep(2) # a failure is remembered for a second
    again = [n for n in names if got[n][0] != "200"][:128] or names[:1]
    bad = others(burst(again)); say(not bad, "UI03 and so are those that were not", few(bad))
elif part == "back":
    # the same names, when the server that did not answer does so again. Twenty: how long each question is tried is left to chance
    names, got = ["b%d.back.test" % i for i in range(20)], {}
    t = threading.Thread(target=lambda: got.update(burst(names))); t.start()
    time.sleep(7); tell("back"); heard("backis", 20)
    t.join(); say(all(r[0] == "200" or r[1] == "dns_failure" for r in got.values()), "UI03 names of a server that is silent at first end", few(got))
    time.sleep(1.2) # a failure is remembered for a second
    bad = others(burst(names)); say(not bad, "UI03 and are asked for again when it answers, whatever became of the questions before", few(bad))
elif part == "one": # the only server is not there
    r = get("plain.test"); say(r[1] == "dns_failure" and "no name server can be reached" in (r[2] or ""), "UI03 with no server at its port the reason says so: %s" % r[2], r)
elif part == "silent": # more than are dialled at a time, and than can be one after the other before they waited for too long
    got = burst(["s%d.p.test" % i for i in range(700)]); strange = {n: r for n, r in got.items() if not told(r)}
    say(not strange, "UI03 with a silent server alone each of 700 names ends, and says why", few(strange))
    say({r[1] for r in got.values()} == {"dns_failure", "upstream_timeout"}, "UI03 and those that were not asked for say another thing than those that were", few(got))
elif part == "closed":
    # one after the other, behind a closed one: a server that refuses costs no waiting, which would be 2 s for each. Of both families: the two questions of a name share a socket
    for what, zone, want in (("IPv4", "p", None), ("IPv6 (where nobody listens)", "six", "upstream_unreachable")):
        begin = time.monotonic(); got = {}
        for i in range(20): got.update(burst(["c%d.%s.test" % (i, zone)]))
        bad = {n: r for n, r in got.items() if r[1] != want}
        say(not bad, "UI03 names behind a closed server are answered: %s" % what, few(bad))
        say(time.monotonic() - begin < 20, "UI03 without waiting for it: %s" % what, time.monotonic() - begin)
elif part == "inside":
    conf = open("/etc/resolv.conf").read(); servers = [l.split()[1] for l in conf.splitlines() if l.startswith("nameserver")]
    say(servers and "search" not in conf and "domain" not in conf and "ndots" not in conf, "UI05 the sandbox's resolv.conf is its own", conf)
    q = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0" + b"\5plain\4test\0" + struct.pack(">HH", 1, 1)
    for a in servers:
        s = socket.socket(socket.AF_INET6 if ":" in a else socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20); s.sendto(q, (a, 53))
        try: r = s.recv(4096)
        except OSError as e: r = repr(e).encode()
        say(r[:2] == q[:2] and r[3] & 15 == 0 and r[7] == 1, "UI05 each server in it answers: %s" % a, r)
    try: r = [x[4][0] for x in socket.getaddrinfo("plain.test", 80, socket.AF_INET, socket.SOCK_STREAM)]
    except OSError as e: r = [repr(e)]
    say(r[0].startswith(("198.18.", "198.19.")), "UI05 libc resolves an allowed name by it", r)
    for n in ("plain.test", "tcp.test", "many.test"):
        r = get(n); say(r[0] == "200", "UI05 %s is reached" % n, r)
    for n in ("nx.test", "x.y.p.test"): # one with fewer dots than ndots, and one that no rule knows
        r = get(n); say(r[1] == ("dns_failure" if n == "nx.test" else "destination_denied"), "UI05 %s is not" % n, r)
