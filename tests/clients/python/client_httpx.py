# SPDX-License-Identifier: Apache-2.0
import hashlib, sys
import httpx

base, mark, path = sys.argv[1:]
c = httpx.Client(timeout=30)


def show(word, call):
    try:
        r = call()
        print(word, r.status_code, r.text.strip())
    except httpx.HTTPError as e:
        print(word, "error", e)


def chunks():
    with open(path, "rb") as f:
        while b := f.read(50000):
            yield b


show("allowed", lambda: c.get(f"{base}/v1/hello?{mark}"))
show("refused", lambda: c.delete(f"{base}/v1/hello?{mark}"))
show("elsewhere", lambda: c.get("https://elsewhere.test/"))
print("down", hashlib.sha256(c.get(f"{base}/v1/big?{mark}").content).hexdigest())
with open(path, "rb") as f:
    blob = f.read()
show("up", lambda: c.put(f"{base}/v1/up?{mark}", content=blob))
show("chunked", lambda: c.put(f"{base}/v1/up?{mark}", content=chunks()))
