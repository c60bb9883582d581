#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""table.py RAW HEAD: the markdown of tests/bench/run.sh from its raw lines (one JSON object per peer, mode and round)."""
import json
import statistics
import sys

rows, notes = {}, []
for line in open(sys.argv[1]):
    r = json.loads(line)
    rows.setdefault(r["label"], {}).setdefault(r["peer"], []).append(r)


def valid(r):
    """What would make a figure mean something else than the table says."""
    where = f"{r['peer']}, {r['label']}, round {r['round']}"
    if r["errors"] + r["bad_status"] > 0.001 * max(r["requests"], r["held"], 1):
        notes.append(f"{where}: {r['errors']} errors, {r['bad_status']} refusals ({r['first_error']}): left out")
        return False
    if r["changed"]:
        notes.append(f"{where}: processes came or went during the window: left out")
        return False
    if r["unpinned"]:
        notes.append(f"{where}: {r['unpinned']} processes were not pinned to one processor: left out")
        return False
    return True


def med(values, form):
    if not values:
        return "-"
    m, a, b = statistics.median(values), min(values), max(values)
    return form.format(m) + (f" ({form.format(a)}–{form.format(b)})" if len(values) > 1 else "")


def per(r, k, scale=1.0):
    return scale * r[k] / r["requests"] if r["requests"] else float("nan")


def table(label, title, columns):
    peers = rows.get(label)
    if not peers:
        return
    print(f"\n### {title}\n")
    print("| | " + " | ".join(c[0] for c in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    good = {p: [r for r in rs if valid(r)] for p, rs in peers.items()}
    for p, rs in good.items():
        cells = []
        for name, f, form in columns:
            if name.startswith("beside "):  # round by round, so that drift cancels
                other = {r["round"]: r for r in good.get(name[7:], [])}
                q = [f(r) / f(other[r["round"]]) for r in rs if r["round"] in other and f(other[r["round"]]) > 0]
                cells.append(f"{statistics.median(q):.2f}" if q else "-")
            else:
                cells.append(med([f(r) for r in rs], form))
        print(f"| {p} | " + " | ".join(cells) + " |")


def cpu_us(r):
    return per(r, "cpu_s", 1e6)


def cpu_gb(r):
    return r["cpu_s"] / (r["bytes"] / 1e9) if r["bytes"] else float("nan")


print(open(sys.argv[2]).read().strip())
common = [
    ("CPU µs/request", cpu_us, "{:.0f}"), ("beside nginx", cpu_us, ""), ("beside haproxy", cpu_us, ""),
    ("requests/s", lambda r: r["requests"] / r["seconds"], "{:.0f}"), ("proxy busy %", lambda r: 100 * r["cpu_s"] / r["seconds"], "{:.0f}"),
    ("p50 ms", lambda r: r["p50_us"] / 1000, "{:.2f}"), ("p99 ms", lambda r: r["p99_us"] / 1000, "{:.2f}"),
    ("client CPU µs/request", lambda r: per(r, "client_cpu_us"), "{:.0f}"),
]
table("h1", "Keep-alive: GET of 1 KiB, 32 connections", common)
table("lat", "Keep-alive: the same with one connection", common)
table("post", "Keep-alive: POST of 1 KiB, 32 connections", common)
table("newconn", "New connection for each request: (CONNECT,) full TLS handshake, GET, close; 8 in flight", common)
table("bulk", "Bulk: 64 MiB downloads, 2 connections", [
    ("CPU s/GB", cpu_gb, "{:.2f}"), ("beside nginx", cpu_gb, ""), ("beside haproxy", cpu_gb, ""),
    ("MB/s", lambda r: r["bytes"] / 1e6 / r["seconds"], "{:.0f}"), ("proxy busy %", lambda r: 100 * r["cpu_s"] / r["seconds"], "{:.0f}")])
table("h2", "HTTP/2 on both sides: GET of 1 KiB, 4 connections with 8 streams each", common)
table("h2bulk", "HTTP/2 on both sides: 64 MiB downloads, 2 connections", [
    ("CPU s/GB", cpu_gb, "{:.2f}"), ("beside haproxy", cpu_gb, ""),
    ("MB/s", lambda r: r["bytes"] / 1e6 / r["seconds"], "{:.0f}"), ("proxy busy %", lambda r: 100 * r["cpu_s"] / r["seconds"], "{:.0f}")])
idle = [
    ("KB/connection", lambda r: (r["rss_end_kb"] - r["rss_begin_kb"]) / r["held"] if r["held"] else float("nan"), "{:.1f}"),
    ("connections", lambda r: r["held"], "{:.0f}"), ("all processes before, MB", lambda r: r["rss_begin_kb"] / 1024, "{:.1f}"), ("processes", lambda r: r["procs"], "{:.0f}")]
table("idle", "Idle: open connections after one request each, held", idle)
table("h2idle", "Idle connections of HTTP/2, after one request each, held", idle)
print("\nsallyport: CONNECT, policy by method and path, credential injected, responses scrubbed, one chained record per request. sallyport-plain: the same without")
print("a credential (nothing to scrub). squid: CONNECT, ssl-bump, access rules, header added, no record. nginx, haproxy: reverse proxies that re-encrypt, no CONNECT, no record:")
print("the ceiling, not the same job. client CPU is the load generator's own: the same work for all, so it shows how the machine drifted.")
if notes:
    print("\nLeft out:\n")
    for n in dict.fromkeys(notes):
        print(f"- {n}")
