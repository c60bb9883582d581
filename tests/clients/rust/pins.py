# SPDX-License-Identifier: Apache-2.0
"""Compares the crates of a lock file (Cargo.lock, and `cargo tree`'s list in ./tree) with crates.txt."""
import re, sys

entry = re.compile(r'name = "([^"]+)"\nversion = "([^"]+)"\nsource = [^\n]+\nchecksum = "([0-9a-f]+)"')
lock = {(n, v): c for n, v, c in entry.findall(open("Cargo.lock").read())}
pins = {tuple(l.split()[:2]): l.split()[2] for l in open("crates.txt") if not l.startswith("#")}
used = {(l.split()[0], l.split()[1][1:]) for l in open("tree") if l.strip() and not l.startswith("client ")}
bad = [f"{n} {v}" for n, v in sorted(used) if (n, v) not in pins or pins[n, v] != lock.get((n, v))]
if bad or not used:
    sys.exit("crates that crates.txt does not pin: " + ", ".join(bad))
