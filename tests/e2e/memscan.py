#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""memscan.py VALUE PID...: does a process hold a value? One line each: PID holds|clean|unreadable|gone.
memscan.py --files VALUE FILE...: the names of the files that do.

As it is, in hex, in base64 of any alignment, percent-encoded and as JSON has it. Of processes every readable mapping is searched, across
the borders of what is read at a time. Run by root: the roles are not dumpable."""
import base64
import json
import os
import sys
import urllib.parse

STEP = 4 << 20
HUGE = 1 << 30  # a sanitizer's shadow is sparse and larger than any real mapping here


def forms(v):
    f = {v, v.hex().encode(), v.hex().upper().encode(), urllib.parse.quote_from_bytes(v, safe="").encode(), b"".join(b"%%%02X" % c for c in v)}
    if v.isascii():
        f |= {json.dumps(v.decode())[1:-1].encode(), b"".join(b"\\u%04x" % c for c in v)}
    for k in range(3):  # what the value alone determines
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            f.add(encode(b"\0" * k + v)[(k * 8 + 5) // 6:(k + len(v)) * 8 // 6])
    return f


def holds(pid, needles):
    longest = max(map(len, needles))
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
                start += len(data)
                data = tail + data
                if any(n in data for n in needles):
                    return "holds"
                tail = data[-(longest - 1):]
    return "clean" if read > 100000 else "unreadable"  # nothing read proves nothing


if sys.argv[1] == "--files":
    needles = forms(os.fsencode(sys.argv[2]))
    for name in sys.argv[3:]:
        try:
            with open(name, "rb") as f:
                data = f.read()
        except OSError:
            continue
        if any(n in data for n in needles):
            print(name)
    sys.exit()
needles = forms(os.fsencode(sys.argv[1]))
for pid in sys.argv[2:]:
    try:
        print(pid, holds(int(pid), needles))
    except FileNotFoundError:
        print(pid, "gone")
    except OSError as e:
        print(pid, "gone" if e.errno == 3 else "unreadable")
