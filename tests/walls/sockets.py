# SPDX-License-Identifier: Apache-2.0
# sockets.py RUN TMP FOLDER: a host full of unix sockets, in every way that one gets a name; each greets who connects and passes a
# descriptor along. Prints the names, then waits to be ended.
import array, os, select, socket, subprocess, sys
run, tmp, folder = sys.argv[1:4]
listening, names = [], []
def at(bound, name=None, kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_UNIX, kind); s.bind(bound)
    if bound[0] != "\0": os.chmod(bound, 0o777)
    if kind != socket.SOCK_DGRAM: s.listen(8)
    listening.append(s); names.append(name or bound)
os.makedirs(folder + "/deep/er", exist_ok=True)
os.chmod(folder + "/deep", 0o777); os.chmod(folder + "/deep/er", 0o777)
at(run + "/docker.sock"); at(run + "/bus"); at(tmp + "/agent.sock"); at(tmp + "/dgram", kind=socket.SOCK_DGRAM)
at("\0walls-host", "@walls-host")
at(folder + "/absolute.sock"); at(folder + "/seqpacket.sock", kind=socket.SOCK_SEQPACKET); at(folder + "/dgram.sock", kind=socket.SOCK_DGRAM)
os.chdir(folder); at("relative.sock", folder + "/relative.sock"); at("./deep/er/dotted.sock", folder + "/deep/er/dotted.sock")
os.chdir("deep/er"); at("../../up.sock", folder + "/up.sock")
os.chdir("/"); os.symlink(folder, tmp + "/link"); at(tmp + "/link/through-a-link.sock", folder + "/through-a-link.sock")
at(tmp + "/before.sock", folder + "/moved.sock"); os.rename(tmp + "/before.sock", folder + "/moved.sock")
at(folder + "/deep/with space.sock")
# of a process in another network namespace, where /proc/net/unix of ours does not show it
other = subprocess.Popen(["unshare", "-Urn", sys.executable, "-c", """
import os, socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777); s.listen(8); print("up", flush=True)
sys.stdin.read() # until the one that started us ends
""", folder + "/elsewhere.sock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
if other.stdout.readline() == b"up\n": names.append(folder + "/elsewhere.sock")
print("\n".join(names)); print("end", flush=True)
secret = os.open("/etc/passwd", os.O_RDONLY)
while True:
    try: ready = select.select(listening, [], [], 60)[0]
    except KeyboardInterrupt: break
    for s in ready:
        if s.type == socket.SOCK_DGRAM: s.recv(100); continue
        c, _ = s.accept()
        try: c.sendmsg([b"host"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [secret]))])
        except OSError: pass
        c.close()
