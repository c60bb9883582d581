# SPDX-License-Identifier: Apache-2.0
"""Each text of an error or a warning about a policy file stands in some test. Prints those that do not."""
import glob
import re

# what no test can bring about
UNTESTED = [
    "a policy of the library extends others of the library only",  # none that is installed does
    "no wildcard can be judged here: this libpsl has no list of public suffixes",  # Debian's has
]
CALLS = r"\b(ERROR_AT|WARN_AT|load_error|load_warning|diag_error_file|diag_error|diag_warning)\("


def call_at(text, start):
    """From behind the bracket to the one that closes it."""
    depth, quoted, i = 1, False, start
    while depth:
        c = text[i]
        if quoted:
            if c == "\\":
                i += 1
            elif c == '"':
                quoted = False
        elif c == '"':
            quoted = True
        elif c == "(":
            depth += 1
        elif c == ")":
            depth -= 1
        i += 1
    return text[start:i]


def pieces(literal):
    """What of a format is always there."""
    literal = literal.replace('\\"', '"').replace("%%", "%")
    return [p for p in re.split(r"%(?:\.\*)?[a-z]+", literal) if p.strip()]


tests = ""
for name in glob.glob("tests/**/*", recursive=True):
    if name.endswith((".txt", ".c", ".sh", ".py")) and not name.endswith("policy-texts.py"):
        with open(name, errors="replace") as f:
            tests += f.read()
tests = tests.replace('\\"', '"').replace("\\`", "`")
kinds = 0
for name in sorted(glob.glob("policy-compiler/load*.c") + glob.glob("common/conf/*.c")):
    with open(name) as f:
        source = f.read()
    for m in re.finditer(CALLS, source):
        literals = re.findall(r'"((?:[^"\\]|\\.)*)"', call_at(source, m.end()))
        if not literals or not pieces(literals[0]) or literals[0] in UNTESTED:
            continue
        kinds += 1
        if max(pieces(literals[0]), key=len) not in tests:
            print(f"{name}:{source.count(chr(10), 0, m.start()) + 1}: no test has `{literals[0]}`")
print(f"{kinds} kinds")
