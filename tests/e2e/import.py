#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Imported policies against what their own programs say, request by request.

What a file means there is told here a second time, from those programs' documentation, in their own terms: lists that are
gone through in order, each host anew. The requests are appended to the imported policy as its `tests`.
"""
import fnmatch
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

import yaml

SP, FILES = sys.argv[1], sys.argv[2]
METHODS = ("GET", "POST", "DELETE", "PUT")
PATHS = ("/", "/login", "/v1", "/v1/models", "/v1/chat/completions", "/v2/x", "/v1/files/f1/content", "/v1/files/a/b/content", "/public", "/public/a/b")


SHELL_PATHS = ("/", "/a/b", "/acme/app.git/info/refs", "/acme/app.git/git-upload-pack", "/acme/app.git/git-receive-pack", "/releases/v1/x.tar", "/repos/a/b/protection", "/repos/protection", "/repos/a/assets", "/repos/a/locks",
               "/admin/x", "/mine/y/z", "/packages/ab/c.whl", "/config.json", "/se/rd/serde", "/se/rd/0de")


def squid(text, names):
    """acl and http_access of squid.conf; a CONNECT to port 443 from 10.1.2.3, at no known time."""
    acls, lines = {"all": lambda h: True, "manager": lambda h: False, "localhost": lambda h: None, "CONNECT": lambda h: True}, []

    def dstdomain(values):
        def match(host):
            return any(host == v.lstrip(".") or (v[0] == "." and host.endswith(v)) for v in values)
        return match

    known = {}
    for line in re.sub(r"\\\n", " ", text).splitlines():
        w = line.split("#")[0].split()
        if w[:1] == ["acl"]:
            name, kind, values = w[1], w[2], w[3:]
            known.setdefault(name, []).extend(values)
            values = known[name]
            if kind == "dstdomain":
                names.update(v.lstrip(".") for v in values)
                acls[name] = dstdomain(values)
            elif kind == "port":
                acls[name] = (lambda r: lambda h: any(int(a) <= 443 <= int(b or a) for a, _, b in r))([v.partition("-") for v in values])
            elif kind == "method":
                acls[name] = (lambda v: lambda h: "CONNECT" in v)(values)
            else:
                acls[name] = lambda h: None  # who asks, when: not known
        elif w[:1] == ["http_access"]:
            lines.append((w[1], w[2:]))

    def decide(host, method, path):
        """None: it depends."""
        for verdict, conditions in lines:
            results = [(acls[c.lstrip("!")](host), c[0] == "!") for c in conditions]
            if any(r is not None and r == negated for r, negated in results):
                continue
            if any(r is None for r, _ in results):
                client = all(c.lstrip("!") in ("localnet", "office", "localhost") for c, (r, _) in zip(conditions, results) if r is None)
                if not client:
                    return None
                # the sandbox is one of those who may ask
                if any((c[0] == "!") == (verdict == "allow") for c, (r, _) in zip(conditions, results) if r is None):
                    continue
                if verdict == "deny":
                    continue
            return verdict == "allow"
        return lines[-1][0] == "deny"
    return decide


def smokescreen(acl, service, names):
    def matches(host, globs):
        return any(host.endswith(g[1:]) if g.startswith("*.") else host == g for g in globs or [])

    rule = next((s for s in acl["services"] if s["name"] == service), acl.get("default"))
    for g in (rule or {}).get("allowed_domains", []) + acl.get("global_allow_list", []) + acl.get("global_deny_list", []):
        names.add(g.replace("*.", ""))

    def decide(host, method, path):
        if rule is None:
            return False
        if matches(host, rule.get("allowed_domains")):
            return True
        if matches(host, acl.get("global_deny_list")):
            return False
        return matches(host, acl.get("global_allow_list")) or rule["action"] != "enforce"
    return decide


def iron(config, names):
    if "domains" in config:
        rules = [{"host": d} for d in config["domains"]]
    else:
        c = next(t["config"] for t in config["transforms"] if t["name"] == "allowlist")
        rules = [{"host": d} for d in c.get("domains", [])] + c.get("rules", [])
    names.update(r["host"].replace("*.", "") for r in rules if "host" in r)

    def host_ok(pattern, host):
        return host.endswith(pattern[1:]) or host == pattern[2:] if pattern.startswith("*.") else fnmatch.fnmatchcase(host, pattern)

    def path_ok(pattern, path):
        if pattern.endswith("/*"):
            return path.startswith(pattern[:-1]) or path == pattern[:-2]
        return re.fullmatch("".join("[^/]*" if c == "*" else re.escape(c) for c in pattern), path) is not None

    def decide(host, method, path):
        return any("host" in r and host_ok(r["host"], host) and (not r.get("methods") or method in [m.upper() for m in r["methods"]]) and (not r.get("paths") or any(path_ok(p, path) for p in r["paths"])) for r in rules)
    return decide


def openshell(policy, names):
    """Each entry of network_policies by itself, for its programs; a request passes when one of them lets it. Here: any program.
    A deny of an entry was of that entry alone; the import says that it makes it one of the host."""
    ends = [e for p in policy["network_policies"].values() for e in p["endpoints"] if e["port"] == 443 and e.get("tls") != "skip"]
    names.update(e["host"].lower() for e in ends)
    presets = {"read-only": ("GET", "HEAD", "OPTIONS"), "read-write": ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH")}

    def fits(rule, method, path):
        return rule["method"] in ("*", method) and re.fullmatch(re.sub(r"\\\*+", ".*", re.escape(rule["path"])).replace(r"\[a\-z\]", "[a-z]"), path) is not None

    def decide(host, method, path):
        mine = [e for e in ends if e["host"].lower() == host]
        if any(fits(d, method, path) for e in mine for d in e.get("deny_rules", [])):
            return False
        for e in mine:
            if "rules" in e:
                if any(fits(r["allow"], method, path) for r in e["rules"]):
                    return True
            elif e.get("access", "full") == "full" or method in presets[e["access"]]:
                return True
        return False
    return decide


def sandbox_runtime(settings, names):
    net = settings["network"]
    names.update(d.lower().replace("*.", "") for d in net["allowedDomains"] + net["deniedDomains"])

    def listed(host, patterns):
        return any(host.endswith(d.lower()[1:]) and host != d.lower()[2:] if d.startswith("*.") else host == d.lower() for d in patterns)

    def decide(host, method, path):
        return not listed(host, net["deniedDomains"]) and listed(host, net["allowedDomains"])
    return decide


def tried(kind, path, args, decide, names):
    r = subprocess.run([SP, "policy", "import", *args, kind, path], capture_output=True, text=True)
    title = " ".join([kind, os.path.basename(path), *args])
    if r.returncode != 0:
        print("not ok import: %s\n    %s" % (title, r.stderr))
        return
    hosts = sorted({h for n in names for h in (n, "a." + n, "b.a." + n, "x" + n, n + ".other.example")} | {"nowhere.example"})
    policy, n, open_ = r.stdout + "tests:\n", [0, 0], 0
    for host in hosts:
        for method in METHODS:
            for p in PATHS if kind == "iron-proxy" else SHELL_PATHS if kind == "openshell" else ("/", "/a/b"):
                verdict = decide(host, method, p)
                if verdict is None:  # it depends there; here it is not let through
                    open_ += 1
                    verdict = False
                n[verdict] += 1
                policy += "  - %s: %s https://%s%s\n" % ("allow" if verdict else "deny", method, host, p)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(policy)
        f.flush()
        r = subprocess.run([SP, "policy", "test", f.name], capture_output=True, text=True)
    if r.returncode == 0 and n[0] > 10 and n[1] > 5:
        print("ok import: %s: %d requests are denied and %d allowed by both, %d depend there" % (title, n[0], n[1], open_))
    else:
        print("not ok import: %s" % title)
        print("    " + r.stderr + "\n    ".join(l for l in r.stdout.splitlines() if l.startswith("not ok"))[:2000])


for path in sorted(glob.glob(FILES + "/openshell/*")):
    found = set()
    d = openshell(yaml.safe_load(open(path)), found)
    tried("openshell", path, ["--any-program"], d, found)
for path in sorted(glob.glob(FILES + "/sandbox-runtime/*")):
    found = set()
    d = sandbox_runtime(json.load(open(path)), found)
    tried("sandbox-runtime", path, [], d, found)
for path in sorted(glob.glob(FILES + "/squid/*")):
    found = set()
    d = squid(open(path).read(), found)
    tried("squid", path, [], d, found)
for path, service in (("enforce", "webhooks"), ("enforce", None), ("nested", "agent"), ("default", None), ("default", "nobody")):
    path = "%s/smokescreen/%s.yaml" % (FILES, path)
    found = set()
    d = smokescreen(yaml.safe_load(open(path)), service, found)
    tried("smokescreen", path, ["--service", service] if service else [], d, found)
for path in sorted(glob.glob(FILES + "/iron-proxy/*")):
    found = set()
    d = iron(yaml.safe_load(open(path)), found)
    tried("iron-proxy", path, [], d, found)
