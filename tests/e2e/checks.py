# SPDX-License-Identifier: Apache-2.0
"""What scripts of checks share: lines as lib.sh prints them, and waiting for what comes about. Arguments of theirs: programs, scratch directory, mark."""
import os, sys, time

BIN, T, MARK = sys.argv[1:4]
SLOW = 4 if os.environ.get("SP_VARIANT", os.environ.get("VARIANT", "")) == "san" else 1
NAME = os.path.basename(sys.argv[0])[:-3]
failures = []


def say(good, text, more=""):
    print("%sok %s: %s (%s)" % ("" if good else "not ", NAME, text, MARK), flush=True)
    if not good:
        failures.append(text)
        print("    " + str(more)[:2000].replace("\n", "\n    "), flush=True)


def wait_for(seconds, fn):
    end = time.monotonic() + seconds * SLOW
    while True:
        v = fn()
        if v or time.monotonic() > end:
            return v
        time.sleep(0.02)
