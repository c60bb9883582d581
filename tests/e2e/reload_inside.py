# SPDX-License-Identifier: Apache-2.0
"""Inside the sandbox of reload.sh: does what the files ask.N say, one after the other, and writes answer.N. Its connections stay open."""
import http.client, json, os, socket, ssl, sys, threading, time

sys.path.insert(0, ".")
sys.argv[1:] = []
import h2c

H1, H2 = 8, 4


def h1(host="api.test"):
    c = http.client.HTTPSConnection(host, timeout=30, context=ssl.create_default_context())
    c.connect()
    return c


def get1(c, path):
    c.request("GET", path)
    r = c.getresponse()
    r.read()
    if r.will_close:
        return "closed"
    return str(r.status)


def get2(c, path):
    sid = c.request(path)
    while not c.streams[sid].over():
        c.turn()
    st = c.streams.pop(sid)
    return str(st.status() or "reset")


class Load:
    def __init__(self):
        self.end = threading.Event()
        self.n, self.bad, self.lock = 0, [], threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(h1, get1)) for _ in range(H1)] + [threading.Thread(target=self.run, args=(lambda: h2c.Client("api.test"), get2)) for _ in range(H2)]
        for t in self.threads:
            t.start()

    def run(self, connect, get):
        n, bad, c = 0, [], connect()
        while not self.end.is_set():
            try:
                s = get(c, "/v1/echo?n=%d" % n)
            except Exception as e:  # a connection that was open must stay so
                s = repr(e)
                c = connect()
            n += 1
            if s != "200":
                bad.append(s)
        with self.lock:
            self.n += n
            self.bad += bad

    def stop(self):
        self.end.set()
        for t in self.threads:
            t.join()
        return {"requests": self.n, "bad": len(self.bad), "which": self.bad[:5]}


load = slow = tunnel = None
one = two = None
n = 0
open("ready", "w").close()
while True:
    n += 1
    while not os.path.exists("ask.%d" % n):
        time.sleep(0.01)
    what, *args = open("ask.%d" % n).read().split()
    try:
        if what == "load":
            load, out = Load(), "loading"
        elif what == "unload":
            out = json.dumps(load.stop())
        elif what == "connect":
            one, two, out = h1(), h2c.Client("api.test"), "connected"
        elif what == "get":
            out = get1(one, args[0]) + " " + get2(two, args[0])
        elif what == "fresh":
            out = get1(h1(args[0]), args[1])
        elif what == "begin":
            slow = h1()
            slow.request("GET", args[0])
            slow = slow.getresponse()
            out = str(len(slow.read(1000)))
        elif what == "end":
            out = str(len(slow.read()))
        elif what == "tunnel":
            tunnel = socket.create_connection(("db.test", 5432), 30)
            out = "open"
        elif what == "ping":
            tunnel.sendall(args[0].encode())
            out = tunnel.recv(100).decode() or "closed"
        elif what == "wait":
            try:
                out = "%d octets" % len(tunnel.recv(100))
            except ConnectionResetError:
                out = "reset"
        else:
            out = "bye"
    except Exception as e:
        out = "failed: %r" % e
    with open("answer.new", "w") as f:
        f.write(out)
    os.rename("answer.new", "answer.%d" % n)
    if out == "bye":
        break
