# SPDX-License-Identifier: Apache-2.0
"""Inside a sandbox: what is too much, slowly or at once. floods_inside.py WHAT [SLOW]; prints lines for floods.sh, which has the other end."""
import os, re, resource, select, socket, ssl, sys, threading, time

what, SLOW = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 1
CA = os.environ.get("SSL_CERT_FILE") or "/run/sallyport/ca.pem"
TLS = ssl.create_default_context(cafile=CA)
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def said(*words): print(*words, flush=True)


def connect(host, port=443, timeout=60):
    s = socket.create_connection(("127.0.0.1", 3128), timeout * SLOW)
    s.sendall(b"CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n" % (host.encode(), port, host.encode(), port))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        got = s.recv(1)
        if not got:
            break
        head += got
    return s, int(head.split()[1]) if head else 0


def tls(host):
    s, status = connect(host)
    return TLS.wrap_socket(s, server_hostname=host) if status == 200 else None


def answer(s):
    """Status and content of one answer."""
    head = b""
    while b"\r\n\r\n" not in head:
        got = s.recv(65536)
        if not got:
            return 0, head
        head += got
    head, rest = head.split(b"\r\n\r\n", 1)
    n = int(re.search(rb"(?i)content-length: *(\d+)", head)[1])
    while len(rest) < n:
        rest += s.recv(65536)
    return int(head.split()[1]), rest[:n]


def get(host, path="/v1/hello"):
    with tls(host) as s:
        s.sendall(b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (path.encode(), host.encode()))
        return answer(s)[0]


def hello():
    """The octets of a ClientHello."""
    i, o = ssl.MemoryBIO(), ssl.MemoryBIO()
    c = ssl.create_default_context().wrap_bio(i, o, server_hostname="api.test")
    try:
        c.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return o.read()


def end_of(s, seconds):
    """How it ended: closed, reset, or not."""
    s.settimeout(seconds * SLOW)
    try:
        while s.recv(65536):
            pass
        return "closed"
    except TimeoutError:
        return "open"
    except OSError:
        return "closed"


if what == "hellos":  # D12
    half = connect("api.test")[0]
    half.sendall(hello()[:60])
    said("half", end_of(half, 30))
    s = connect("api.test")[0]
    sent, state = 0, "taken"
    try:  # 16 MB, says the message; records of 16 KiB
        s.sendall(b"\x16\x03\x01\x40\x00" + b"\x01\xff\xff\xff\x03\x03" + bytes(16378))
        for _ in range(600):
            sent += s.send(b"\x16\x03\x01\x40\x00" + bytes(16384))
            if select.select([s], [], [], 0.005)[0] and not s.recv(65536, socket.MSG_PEEK | socket.MSG_DONTWAIT).startswith(b"\x16"):
                state = "refused"
                break
    except OSError:
        state = "refused"
    said("huge", state)
    s, h = connect("api.test")[0], hello()
    try:  # the message in records of one octet
        for at in range(5, len(h)):
            s.sendall(b"\x16\x03\x01\x00\x01" + h[at:at + 1])
    except OSError:
        pass
    s.settimeout(30 * SLOW)
    try:
        got = s.recv(5)
    except OSError:
        got = b""
    said("crumbs", "handshake" if got[:1] == b"\x16" else "alert" if got[:1] == b"\x15" else "closed" if not got else got)
    s = connect("api.test")[0]
    s.sendall(hello())
    began, state = time.monotonic(), "open"
    try:  # records that mean nothing, as long as they are taken
        while time.monotonic() - began < 30 * SLOW:
            s.sendall(b"\x14\x03\x03\x00\x01\x01" * 1000)
    except OSError:
        state = "closed"
    said("nothings", state)
    said("after", get("api.test"))
elif what == "names":  # D13
    bad, n = 0, int(sys.argv[3])
    for i in range(n):
        try:
            bad += get("n%d.many.test" % i) != 200
        except OSError:
            bad += 1
    said("names", n, "refused", bad)
    explained, none, other = 0, 0, 0
    for i in range(300):  # names that no rule has: a certificate for the words that say so, up to a bound, then none
        try:
            r = get("n%d.other.test" % i, "/")
            explained, other = explained + (r == 403), other + (r != 403)
        except (OSError, AttributeError):
            none += 1
    said("denied", explained, "without", none, "else", other)
    said("after", get("api.test"))
elif what == "connections":  # D14, D18
    held, refused = [], 0
    for i in range(int(sys.argv[3])):
        try:
            s = socket.create_connection(("127.0.0.1", 3128), 10 * SLOW)
            held.append(s)
        except OSError:
            refused += 1
            if refused > 50:
                break
    said("held", len(held))
    open("full", "w").close()
    while not os.path.exists("seen"):
        time.sleep(0.05)
    gone = 0
    for s in held:
        s.setblocking(False)
        try:
            gone += s.recv(1) == b""
        except BlockingIOError:
            pass
        except OSError:
            gone += 1
    said("beyond", gone + refused)
    for s in held:
        s.close()
    for i in range(100):
        try:
            r = get("api.test")
        except (OSError, AttributeError):
            r = 0
        if r == 200:
            break
        time.sleep(0.2)
    said("after", r)
elif what == "denied":  # D16
    n, s = int(sys.argv[3]), tls("api.test")
    took = threading.Thread(target=lambda: [s.sendall(b"GET /hidden/%d HTTP/1.1\r\nHost: api.test\r\n\r\n" % i) for i in range(n)])
    took.start()
    data = b""
    while data.count(b"HTTP/1.1 403") < n:
        got = s.recv(1 << 20)
        if not got:
            break
        data += got
    took.join()
    said("denied", data.count(b"HTTP/1.1 403"))
elif what == "regex":  # D17
    began = time.monotonic()
    said("regex", get("api.test", "/re/" + "a" * 8000 + "!"), get("api.test", "/re/" + "ab" * 4000 + "!"), get("api.test", "/v1/" + "x/" * 3000 + "y"))
    said("meanwhile", get("api.test"))
elif what == "chunks":  # D19
    n, s = int(sys.argv[3]), tls("api.test")
    s.sendall(b"POST /v1/up HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n")
    part = b"1\r\nx\r\n" * 5000
    for _ in range(n // 5000):
        s.sendall(part)
    s.sendall(b"0\r\n\r\n")
    said("chunks", *[x.decode() if isinstance(x, bytes) else x for x in answer(s)])
