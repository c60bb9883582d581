#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# skopeo against a registry whose tokens come from another host, after a 401; blobs from a third, by redirect (J07).
NAME=creds-registry
. "$(dirname "$0")/creds-lib.sh"
can_run
make_pki DNS:reg.test,DNS:auth.test,DNS:cdn.test,DNS:from.test,DNS:to.test
REAL=dckr_pat_plantedPlantedplantedPla
cat >"$T/app.py" <<P
import base64, hashlib, json, urllib.parse
REAL, blobs, manifests, ups = "$REAL", {}, {}, {}
def answer(r):
    path, _, query = r.path.partition("?"); q = urllib.parse.parse_qs(query); auth = r.get_header("authorization")
    if r.host == "auth.test":
        try: ok = base64.b64decode(auth[6:]).decode() == "robot:" + REAL
        except ValueError: ok = False
        if not ok: return 401, [("WWW-Authenticate", 'Basic realm="auth"')], b"{}"
        return 200, [("Content-Type", "application/json")], json.dumps({"token": "issued-to-robot", "expires_in": 300}).encode()
    if r.host == "cdn.test":
        if auth: return 400, [], b"a credential came along"
        return 200, [("Content-Type", "application/octet-stream")], blobs[path[1:]]
    if r.host == "from.test": return 302, [("Location", "https://to.test/got")], b""
    if r.host == "to.test": return 200, [], b"arrived"
    if auth != "Bearer issued-to-robot": return 401, [("WWW-Authenticate", 'Bearer realm="https://auth.test/token",service="reg.test",scope="repository:app:pull,push"')], b'{"errors":[{"code":"UNAUTHORIZED"}]}'
    p = path.split("/")
    if path == "/v2/": return 200, [], b"{}"
    if p[3] == "blobs" and p[4] == "uploads":
        if r.method == "POST": ups["u"] = b""; return 202, [("Location", "/v2/app/blobs/uploads/u"), ("Range", "0-0")], b""
        ups["u"] = ups["u"] + r.body
        if r.method == "PATCH": return 202, [("Location", "/v2/app/blobs/uploads/u"), ("Range", "0-%d" % (len(ups["u"]) - 1))], b""
        d = "sha256:" + hashlib.sha256(ups["u"]).hexdigest()
        if q["digest"][0] != d: return 400, [], b'{"errors":[{"code":"DIGEST_INVALID"}]}'
        blobs[d] = ups["u"]; return 201, [("Docker-Content-Digest", d), ("Location", "/v2/app/blobs/" + d)], b""
    if p[3] == "blobs":
        if p[4] not in blobs: return 404, [], b'{"errors":[{"code":"BLOB_UNKNOWN"}]}'
        if r.method == "HEAD": return 200, [("Content-Length", str(len(blobs[p[4]])))], b""
        return 307, [("Location", "https://cdn.test/" + p[4])], b""
    if r.method == "PUT":
        d = "sha256:" + hashlib.sha256(r.body).hexdigest(); manifests[p[4]] = manifests[d] = (r.get_header("content-type"), r.body)
        return 201, [("Docker-Content-Digest", d)], b""
    if p[4] not in manifests: return 404, [], b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}'
    return 200, [("Content-Type", manifests[p[4]][0]), ("Docker-Content-Digest", "sha256:" + hashlib.sha256(manifests[p[4]][1]).hexdigest())], manifests[p[4]][1]
P
cred_origin "$T/app.py"
cat >"$WORK/policy.yaml" <<P
version: 1
name: registry
secrets:
  reg: { env: REG, hosts: [auth.test, from.test] }
destinations:
$(dest reg.test)
    allow: [ "GET /v2/**", "POST|PUT|PATCH /v2/app/**" ]
$(dest auth.test)
    allow: [ GET /token ]
    inject: [ { secret: reg, as: placeholder, in: [basic], env: REG } ]
$(dest cdn.test ', alpn: [http/1.1]')
    allow: [ "GET /**" ]
$(dest from.test)
    allow: [ "GET /**" ]
    inject: [ { secret: reg, as: bearer, env: REG } ]
$(dest to.test)
    allow: [ "GET /**" ]
P
in_box() { (cd "$WORK" && REG=$REAL timeout 120 "$SP" run --quiet --policy policy.yaml -- "$@"); }
# J07: a redirect is a request of its own
in_box sh -c 'curl -sS -m 20 -L -H "Authorization: Bearer $REG" https://from.test/; echo; curl -sS -m 20 -L --location-trusted -u "x:$REG" https://from.test/; curl -sS -m 20 -L -H "X-Api-Key: $REG" https://from.test/' >"$T/out" 2>&1
has "J07 a redirect is followed by the client" "$T/out" "arrived"
comes "J07 and carries nothing along" 1 "host == 'to.test' and 'authorization' not in h"
comes "J07 not even a placeholder, when the client would" 0 "host == 'to.test' and ('authorization' in h or 'x-api-key' in h)"
comes "the first of each had the credential" 3 "host == 'from.test' and head('authorization') == 'Bearer $REAL'"
nowhere "J07 the value is nowhere that it must not be" "$REAL" "$T/out"
if ! command -v skopeo >/dev/null 2>&1; then skip "skopeo is not installed"; check_done; fi
forget
# an image: one layer, made here
python3 - "$WORK/image" <<'P'
import gzip, hashlib, io, json, os, sys, tarfile
d = sys.argv[1]; os.makedirs(d)
b = io.BytesIO(); t = tarfile.open(fileobj=b, mode="w"); i = tarfile.TarInfo("file"); i.size = 2000000; t.addfile(i, io.BytesIO(os.urandom(2000000))); t.close()
layer = gzip.compress(b.getvalue()); config = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(b.getvalue()).hexdigest()]}, "config": {}}).encode()
def put(x): h = hashlib.sha256(x).hexdigest(); open(d + "/" + h, "wb").write(x); return {"size": len(x), "digest": "sha256:" + h}
m = {"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json", "config": {"mediaType": "application/vnd.docker.container.image.v1+json", **put(config)}, "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", **put(layer)}]}
open(d + "/manifest.json", "w").write(json.dumps(m)); open(d + "/version", "w").write("Directory Transport Version: 1.1\n")
P
in_box sh -c '
	s() { skopeo --insecure-policy --tmpdir . "$@" 2>&1; }
	s copy --dest-creds "robot:$REG" dir:image docker://reg.test/app:1 && echo pushed
	s copy --src-creds "robot:$REG" docker://reg.test/app:1 dir:back && cmp image/manifest.json back/manifest.json && echo pulled
	s copy --src-creds "robot:wrong" docker://reg.test/app:1 dir:none || echo wrong is wrong
	s inspect docker://reg.test/app:1 || echo nobody is nobody' >"$T/out" 2>&1
has "push, token from another host" "$T/out" "pushed"
has "pull, blobs by redirect" "$T/out" "pulled"
has "a wrong password is not made right" "$T/out" "wrong is wrong"
has "nobody is nobody" "$T/out" "nobody is nobody"
comes "blobs come without any credential" 0 "host == 'cdn.test' and 'authorization' in h"
check "the token's host sees the credential" test "$(arrived "host == 'auth.test' and base64.b64decode(head('authorization')[6:]) == b'robot:$REAL'")" -ge 2
comes "the registry sees what was issued, not what it was issued for" 0 "host == 'reg.test' and '$REAL' in str(h)"
nowhere "the value is nowhere that it must not be" "$REAL" "$T/out" "$WORK"/back/*
check_done
