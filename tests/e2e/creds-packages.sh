#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# npm publish and install with a token, pip with credentials for its index.
NAME=creds-packages
. "$(dirname "$0")/../clients/lib.sh"
. "$(dirname "$0")/creds-lib.sh"
can_run
make_pki DNS:npm.test,DNS:pip.test
NPM=npm_plantedPlantedplantedPlantedplan00 PIP=planted/index:pass\&word
python3 - "$T/demo-1.0-py3-none-any.whl" <<'P'
import sys, zipfile
z = zipfile.ZipFile(sys.argv[1], "w"); z.writestr("spdemo.py", "print('imported')\n"); d = "spdemo-1.0.dist-info/"
z.writestr(d + "METADATA", "Metadata-Version: 2.1\nName: spdemo\nVersion: 1.0\n"); z.writestr(d + "WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"); z.writestr(d + "RECORD", "")
P
cat >"$T/app.py" <<P
import base64, json, urllib.parse
NPM, PIP, packages, tarballs = "$NPM", "$PIP", {}, {}
def answer(r):
    path = urllib.parse.unquote(r.path.partition("?")[0]); auth = r.get_header("authorization")
    if r.host == "npm.test":
        if auth != "Bearer " + NPM: return 401, [("Content-Type", "application/json"), ("WWW-Authenticate", "Bearer")], b'{"error":"you must be logged in"}'
        if path == "/-/whoami": return 200, [("Content-Type", "application/json")], b'{"username":"robot"}'
        if r.method == "PUT":
            p = json.loads(r.body)
            for name, a in p.pop("_attachments").items(): tarballs[name] = base64.b64decode(a["data"])
            packages[path] = p; return 201, [("Content-Type", "application/json")], b'{"ok":true}'
        if path in packages: return 200, [("Content-Type", "application/json")], json.dumps(packages[path]).encode()
        name = path.rpartition("/-/")[2]; name = [n for n in tarballs if n.endswith(name)]
        return (200, [("Content-Type", "application/octet-stream")], tarballs[name[0]]) if name else (404, [("Content-Type", "application/json")], b'{"error":"not found"}')
    try: ok = base64.b64decode(auth[6:]).decode() == "robot:" + PIP
    except ValueError: ok = False
    if not ok: return 401, [("WWW-Authenticate", 'Basic realm="index"')], b"who are you"
    if path == "/simple/spdemo/": return 200, [("Content-Type", "text/html")], b'<a href="/files/spdemo-1.0-py3-none-any.whl">spdemo-1.0-py3-none-any.whl</a>'
    if path.startswith("/files/"): return 200, [("Content-Type", "application/octet-stream")], open("$T/demo-1.0-py3-none-any.whl", "rb").read()
    return 404, [], b""
P
cred_origin "$T/app.py"
NPM_BIN=$(tool npm)
cat >"$WORK/policy.yaml" <<P
version: 1
name: packages
secrets:
  npm: { env: NPM, hosts: [npm.test] }
  pip: { env: PIP, hosts: [pip.test] }
destinations:
$(dest npm.test)
    paths: { encoded_slash: keep }
    allow: [ "GET /**", "PUT /*" ]
    inject: [ { secret: npm, as: bearer, env: NPM_TOKEN } ]
$(dest pip.test)
    allow: [ "GET /**" ]
    inject: [ { secret: pip, as: placeholder, in: [basic], env: { PIP_INDEX_URL: "https://robot:{}@pip.test/simple/" } } ]
P
in_box() { (cd "$WORK" && NPM=$NPM PIP=$PIP timeout 150 "$SP" run --quiet --policy policy.yaml -- "$@"); }
if [ -n "$NPM_BIN" ] && use_tool npm; then
	for d in "${READ[@]:-}"; do [ -z "$d" ] || READS="${READS:+$READS, }$d"; done
	[ -z "${READS:-}" ] || printf 'sandbox: { filesystem: { write: [.], read: [%s] } }\n' "$READS" >>"$WORK/policy.yaml"
	mkdir -p "$WORK/pkg" "$WORK/app"
	echo '{"name":"@acme/demo","version":"1.0.0","main":"index.js","files":["index.js"]}' >"$WORK/pkg/package.json"
	echo 'module.exports = "a module";' >"$WORK/pkg/index.js"
	echo '{"name":"app","version":"1.0.0","private":true}' >"$WORK/app/package.json"
	# shellcheck disable=SC2016
	printf 'registry=https://npm.test/\n//npm.test/:_authToken=${NPM_TOKEN}\naudit=false\nfund=false\nupdate-notifier=false\nfetch-retries=0\n' >"$WORK/.npmrc"
	in_box sh -c 'cp .npmrc ~/.npmrc; npm whoami; cd pkg && npm publish --access public && echo published; cd ../app && npm install @acme/demo && node -e "console.log(require(\"@acme/demo\"))"; NPM_TOKEN= npm whoami' >"$T/out" 2>&1
	has "npm whoami" "$T/out" "robot"
	has "npm publish" "$T/out" "published"
	has "npm install, a module in a scope" "$T/out" "a module"
	comes "npm: the package arrives whole, its token with it" 1 "method == 'PUT' and head('authorization') == 'Bearer $NPM' and b'@acme/demo' in body"
	comes "npm: none without" 0 "host == 'npm.test' and head('authorization') != 'Bearer $NPM'"
	nowhere "npm: the token is nowhere that it must not be" "$NPM" "$T/out" "$WORK/app/package-lock.json"
else
	skip "npm is not installed or cannot be executed by this user"
fi
if /usr/bin/python3 -m pip --version >/dev/null 2>&1; then
	forget
	in_box sh -c '/usr/bin/python3 -m pip install -q --disable-pip-version-check --no-cache-dir --target site spdemo && PYTHONPATH=site /usr/bin/python3 -c "import spdemo"; PIP_INDEX_URL=https://robot:wrong@pip.test/simple/ /usr/bin/python3 -m pip download -q --disable-pip-version-check --no-input spdemo || echo wrong is wrong' >"$T/out" 2>&1
	has "pip install" "$T/out" "imported"
	has "pip: a wrong password is not made right" "$T/out" "wrong is wrong"
	check "pip: index and file see the credential" test "$(arrived "host == 'pip.test' and base64.b64decode(head('authorization')[6:]) == b'robot:$PIP'")" -ge 2
	nowhere "pip: the value is nowhere that it must not be" "$PIP" "$T/out"
else
	skip "pip is not installed"
fi
check_done
