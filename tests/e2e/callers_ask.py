# SPDX-License-Identifier: Apache-2.0
"""One caller of the control socket, as whoever runs it. Standard input: lines of [op, {more}, {JSON key: file}, keep]; each is
answered by a line. Files come as sealed memory. A register brings a listening socket, an explicit proxy, whose address is the answer's `at`."""
import array, errno, fcntl, json, os, random, socket, sys

s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(60)
s.connect(sys.argv[1])
listeners = []
for n, line in enumerate(sys.stdin):
    op, more, files = json.loads(line)
    fds, msg = [], {"id": n + 1, "op": op}
    if op == "hello":
        msg = {"v": 1, "hello": "test"}
    msg.update(more)
    if op == "register":
        while True:  # as in a sandbox, but for the address: all of them share this network here
            l = socket.socket()
            try:
                l.bind(("127.%d.%d.%d" % (random.randint(2, 250), random.randint(2, 250), random.randint(2, 250)), 3128))
                break
            except OSError as e:
                if e.errno != errno.EADDRINUSE:
                    raise
        l.listen(8)
        listeners.append(l)
        msg["identify"] = {"sockets": [{"kind": "proxy4", "fd": 0}]}
        fds.append(l.fileno())
    for key, name in files.items():
        with open(name, "rb") as file:
            f = os.fdopen(os.memfd_create("given", os.MFD_ALLOW_SEALING), "r+b", 0)
            f.write(file.read())
        if not more.get("unsealed"):
            fcntl.fcntl(f, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
        listeners.append(f)
        msg.setdefault(key, {})
        if isinstance(msg[key], list):
            msg[key].append({"path": "/some/where", "fd": len(fds)})
        else:
            msg[key]["fd"] = len(fds)
        fds.append(f.fileno())
    try:
        s.sendmsg([json.dumps(msg).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
    except BrokenPipeError:
        pass  # what was said before is still there
    while True:
        try:
            got = s.recv(1 << 20)
        except ConnectionResetError:
            got = s.recv(1 << 20)  # it is told first that the other side is gone, then what that had said
        a = json.loads(got) if got else {"closed": True}
        if "event" not in a:
            break
    if op == "register":
        a["at"] = listeners[-1 - len(files)].getsockname()[0]
    print(json.dumps(a), flush=True)
