# SPDX-License-Identifier: Apache-2.0
import hashlib, sys
import requests

base, mark, path = sys.argv[1:]
s = requests.Session()


def show(word, call):
    try:
        r = call()
        print(word, r.status_code, r.text.strip())
    except requests.RequestException as e:
        print(word, "error", e)


show("allowed", lambda: s.get(f"{base}/v1/hello?{mark}"))
show("refused", lambda: s.delete(f"{base}/v1/hello?{mark}"))
show("elsewhere", lambda: s.get("https://elsewhere.test/"))
print("down", hashlib.sha256(s.get(f"{base}/v1/big?{mark}").content).hexdigest())
with open(path, "rb") as f:
    show("up", lambda: s.put(f"{base}/v1/up?{mark}", data=f))
with open(path, "rb") as f:
    show("chunked", lambda: s.put(f"{base}/v1/up?{mark}", data=iter(lambda: f.read(50000), b"")))
