#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""memscan.py VALUE PID...: does a process hold a value? One line each: PID holds|clean|unreadable|gone.

Every readable mapping is searched, across the borders of what is read at a time. Run by root: the roles are not dumpable."""
import os
import sys

STEP = 4 << 20
HUGE = 1 << 30  # a sanitizer's shadow is sparse and larger than any real mapping here


def holds(pid, needle):
    with open(f"/proc/{pid}/maps") as f:
        maps = f.read().splitlines()
    read = 0
    with open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            span, mode = line.split()[:2]
            start, end = (int(x, 16) for x in span.split("-"))
            if not mode.startswith("r") or end - start > HUGE or start >= 1 << 63:
                continue
            tail = b""
            while start < end:
                try:
                    mem.seek(start)
                    data = mem.read(min(STEP, end - start))
                except OSError:
                    break
                if not data:
                    break
                read += len(data)
                if needle in tail + data:
                    return "holds"
                tail = data[-(len(needle) - 1):]
                start += len(data)
    return "clean" if read > 100000 else "unreadable"  # nothing read proves nothing


for pid in sys.argv[2:]:
    try:
        print(pid, holds(int(pid), os.fsencode(sys.argv[1])))
    except FileNotFoundError:
        print(pid, "gone")
    except OSError as e:
        print(pid, "gone" if e.errno == 3 else "unreadable")
