# SPDX-License-Identifier: Apache-2.0
# Threads, spawns and younger system calls, as a libc of today makes them: work, or answer what makes it fall back.
import ctypes, os, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
t = threading.Thread(target=lambda: print("thread", flush=True)); t.start(); t.join()
os.waitpid(os.posix_spawn("/bin/echo", ["echo", "spawned"], os.environ), 0)
print(subprocess.run(["echo", "run"], capture_output=True, text=True).stdout.strip())
room = ctypes.create_string_buffer(256)
for name, nr, args, wanted in (("openat2", 437, (-100, b"/etc", (ctypes.c_uint64 * 3)(0, 0, 0), 24), {0, 38}), ("faccessat2", 439, (-100, b"/etc", 4, 0), {0}), ("close_range", 436, (900, 999, 0), {0}),
        ("statx", 332 if os.uname().machine == "x86_64" else 291, (-100, b"/etc", 0, 0x7ff, room), {0}), ("pidfd_open", 434, (os.getpid(), 0), {0}), ("futex_waitv", 449, (None, 0, 0, None, 0), {22}),
        ("io_uring_setup", 425, (8, room), {38}), ("clone3", 435, (None, 0), {38}), ("a call of the future", 1000, (), {38})):
    ctypes.set_errno(0); r = libc.syscall(nr, *args); e = ctypes.get_errno() if r < 0 else 0
    print(name, "as it should be" if e in wanted else "answers %d" % e)
