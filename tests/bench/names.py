# SPDX-License-Identifier: Apache-2.0
"""What a name costs, seen from inside a sandbox. names.py hello FIRST COUNT ROUNDS: CONNECT and a TLS handshake for each name;
names.py get PORT NAME...: one request for each name, prints its milliseconds and status."""
import socket, ssl, sys, time


def connect(host, port):
    s = socket.create_connection(("127.0.0.1", 3128), 60)
    s.sendall(b"CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n" % (host.encode(), port, host.encode(), port))
    b = b""
    while b"\r\n\r\n" not in b: b += s.recv(4096) or exit("closed: %r" % b)
    return s


if sys.argv[1] == "hello":
    first, count, rounds = map(int, sys.argv[2:5])
    c = ssl.create_default_context()
    for _ in range(rounds):
        for i in range(first, first + count):
            h = "n%d.names.test" % i
            c.wrap_socket(connect(h, 443), server_hostname=h).close()
else:
    port = int(sys.argv[2])
    for h in sys.argv[3:]:
        t = time.monotonic()
        s = socket.create_connection(("127.0.0.1", 3128), 60)
        s.sendall(b"GET http://%s:%d/ HTTP/1.1\r\nHost: %s:%d\r\nConnection: close\r\n\r\n" % (h.encode(), port, h.encode(), port)); b = b""
        while x := s.recv(65536): b += x
        print("%.3f %s" % ((time.monotonic() - t) * 1000, b[9:12].decode()))
