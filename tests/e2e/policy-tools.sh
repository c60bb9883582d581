#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tools of the people who edit policies, from the command line: test, fmt, diff, replay, suggest, init. No sandbox is started.
NAME=policy-tools
. "$(dirname "$0")/lib.sh"
P="$SP policy"
exits() { local t=$1 want=$2 rc; shift 2; "$@" >"$T/out" 2>"$T/err"; rc=$?; [ $rc -eq "$want" ] && ok "$t" || not_ok "$t" "exit $rc, not $want" "$(cat "$T/out" "$T/err")"; }
cat >"$WORK/old.yaml" <<'Y'
version: 1
secrets: { s: { env: S, hosts: [a.test] } }
limits: { request_body: 1MiB }
destinations:
  - host: a.test
    allow:
      - GET /repos/acme/**
      - GET /s?state=open
      - { method: POST, path: /graphql, body: { graphql: { type: query } } }
      - { method: GET, path: /t, valid: { until: 2026-01-01 } }
    deny:
      - ANY /repos/acme/secrets/**
    inject: [ { secret: s, as: bearer } ]
  - host: same.test
    allow: [ "GET /**" ]
tests:
  - { allow: GET https://a.test/repos/acme/x, inject: [s] }
  - deny: GET https://a.test/repos/acme/secrets/x
Y
sed -e 's/GET \/repos\/acme/GET|DELETE \/repos/; s/state=open/state=open|all/; s/type: query/type: [query, mutation]/; s/hosts: \[a.test\]/hosts: [a.test, b.test]/; s/1MiB/2MiB/; s/until: 2026/until: 2027/' "$WORK/old.yaml" >"$WORK/new.yaml"
TOP=$PWD
cd "$WORK" || exit 1
# test
exits "its tests pass" 0 $P test old.yaml
has "as TAP" "$T/out" "ok 2 - deny GET https://a.test/repos/acme/secrets/x"
sed 's/  - deny: GET/  - allow: GET/' old.yaml >wrong.yaml
exits "a test that fails is found" 1 $P test wrong.yaml
has "with its place and the rule" "$T/out" "source: wrong.yaml:12"
exits "JUnit too" 1 $P test --junit wrong.yaml
check "which is XML" python3 -c "import xml.etree.ElementTree as e; r = e.parse('$T/out').getroot(); assert r.get('tests') == '2' and r.get('failures') == '1' and len(r.findall('.//failure')) == 1"
exits "no table is made of a policy that fails its tests" 1 $P compile wrong.yaml -o table
[ ! -e table ] && ok "none is there" || not_ok "none is there"
has "the message is one of the file's" "$T/err" "wrong.yaml:18:5: error: the test \`allow GET https://a.test/repos/acme/secrets/x\` fails: got deny"
chmod go-w "$TOP"/tests/cases/policies/lists.* 2>/dev/null
for f in "$TOP"/tests/cases/policies/*.yaml; do exits "$(sed -n '1s/^# //p' "$f")" 0 $P test "$f"; done
# UP07: what is no policy is none
for f in missing.yaml empty.yaml comments.yaml .; do
	: >empty.yaml
	echo '# nothing' >comments.yaml
	exits "UP07 $f is no policy" 1 $P check "$f"
done
# explain with what conditions ask for
printf '{"query":"mutation { x }"}' >m.json
exits "explain without the content: a question" 1 $P explain --content old.yaml POST https://a.test/graphql
has "which it says" "$T/out" "depends on the content"
exits "explain with content" 1 $P explain --data m.json -H 'Content-Type: application/json' old.yaml POST https://a.test/graphql
has "names what does not hold" "$T/out" "its condition on content does not hold"
exits "the same is allowed by the other" 0 $P explain --data m.json -H 'Content-Type: application/json' new.yaml POST https://a.test/graphql
exits "explain at another time" 0 $P explain --at 2025-06-01 old.yaml GET https://a.test/t
exits "and now" 1 $P explain --at 2026-06-01 old.yaml GET https://a.test/t
# diff
exits "a diff of equals is empty" 0 $P diff old.yaml old.yaml
has "and says so" "$T/out" "0 wider, 0 narrower"
exits "a diff that widens can fail" 1 $P diff --fail-on widen old.yaml new.yaml
for w in '+ allow DELETE https://a.test/repos/' '+ allow GET https://a.test/s?state=all' '{"query":"mutation { zz }"}' 'allow GET https://a.test/t' '+ new: secret s may go to b.test' 'limits.request_body: from 1048576 to 2097152'; do has "the diff has: $w" "$T/out" "$w"; done
hasnt "what did not change is not in it" "$T/out" "same.test"
exits "narrowing does not fail" 0 $P diff --fail-on widen new.yaml old.yaml
has "it is told" "$T/out" "- deny DELETE https://a.test/repos/"
exits "as JSON" 0 $P diff --json old.yaml new.yaml
check "which is JSON" python3 -c "import json; d = json.load(open('$T/out')); assert d['complete'] and d['widened'] >= 6 and d['narrowed'] == 0 and all(c['effect'] == 'wider' for c in d['changes'])"
exits "as Markdown" 0 $P diff --markdown old.yaml new.yaml
has "a table" "$T/out" "| **wider** |"
sed 's/^limits: .*/limits: { request_body: 1MiB, requests: 100\/h }\nsandbox: { resources: { memory: 1GiB }, filesystem: { write: [.], hide: [x] } }/; s/    inject:/    foreign: pass\n    scrub: off\n    tls: { min: "1.3", pin: ["sha256\/AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="] }\n&/; s/GET \/s?state=open/{ method: GET, path: \/s, uses: 3, id: s }/' old.yaml >care.yaml
exits "authority beside requests" 0 $P diff old.yaml care.yaml
for w in "- new: the policy: limits.requests per h: 100" "+ new: https://a.test:443: foreign pass" "+ new: https://a.test:443: scrub off" "- new: https://a.test:443: tls.min 1.3" "- new: https://a.test:443: the chain holds one of the keys" "- new: rule s: uses: 3" "- new: sandbox: resources.memory: 1073741824" "+ new: sandbox: filesystem.write ." "- new: sandbox: filesystem.hide x"; do has "the diff has: $w" "$T/out" "$w"; done
sed 's/requests: 100/requests: 200/; s/memory: 1GiB/memory: 2GiB/; s/uses: 3/uses: 2/' care.yaml >care2.yaml
exits "other bounds widen" 1 $P diff --fail-on widen care.yaml care2.yaml
for w in "+ the policy: limits.requests per h: from 100 to 200" "+ sandbox: resources.memory: from 1073741824 to 2147483648" "- rule s: uses: from 3 to 2"; do has "the diff has: $w" "$T/out" "$w"; done
sed 's/^version: 1/version: 1\nmode: observe\nuntil: 2099-01-01/' old.yaml >observe.yaml
exits "to observe widens" 1 $P diff --fail-on widen old.yaml observe.yaml
# revisions
if git --version >"$T/out" 2>&1; then
	mkdir -p repo/sub
	(
		cd repo || exit 1
		git init -q . && git config user.email a@a.test && git config user.name a
		printf 'version: 1\nextends: [parts/base.yaml]\ndestinations:\n  - host: a.test\n    allow: [ GET /a ]\n' >sub/agent.yaml
		mkdir sub/parts
		printf 'version: 1\ndestinations:\n  - host: a.test\n    allow: [ GET /base ]\n' >sub/parts/base.yaml
		git add -A && git commit -qm one
		sed -i 's/GET \/base/GET|POST \/base/' sub/parts/base.yaml
	)
	cd repo || exit 1
	exits "a revision of git against what lies there" 1 $P diff --fail-on widen HEAD:sub/agent.yaml sub/agent.yaml
	has "the file beside it is of that revision too" "$T/out" "+ allow POST https://a.test/base"
	has "it is called so" "$T/out" "is:  a.test:allow:GET|POST /base (sub/parts/base.yaml:4)"
	cd sub || exit 1
	exits "from a folder below" 0 $P diff HEAD:agent.yaml HEAD:agent.yaml
	exits "a revision that is not there" 2 $P diff nothing:agent.yaml agent.yaml
	exits "an option is no revision" 2 $P diff --output=x:agent.yaml agent.yaml
	cd ../..
	printf '#!/bin/sh\ntouch %s/ran\n' "$WORK" >hook && chmod 755 hook
	git -C repo config core.fsmonitor "$WORK/hook"
	(cd repo/sub && $P diff HEAD:agent.yaml agent.yaml) >"$T/out" 2>&1
	[ ! -e ran ] && ok "nothing of the repository's is executed" || not_ok "nothing of the repository's is executed"
else
	skip "no git here"
fi
# replay and suggest
python3 - >log.jsonl <<'Y'
import json
from urllib.parse import urlsplit
def r(method, url, decision, code=None, rule=None):
    u = urlsplit(url)
    o = {"time": 1798700000000, "http_request": {"http_method": method, "url": {"scheme": u.scheme, "hostname": u.hostname, "port": u.port or 443, "path": u.path}}, "unmapped": {"sallyport": {"kind": "request", "decision": decision}}}
    if u.query: o["http_request"]["url"]["query_string"] = u.query
    if code: o["unmapped"]["sallyport"]["code"] = code
    if rule: o["firewall_rule"] = {"uid": rule}
    print(json.dumps(o))
r("GET", "https://a.test/repos/acme/x", "allow")
r("GET", "https://a.test/gone", "allow"); r("GET", "https://a.test/gone", "allow")
r("GET", "https://a.test/s?state=*", "allow")
r("GET", "https://a.test/repos/acme/secrets/x", "deny", "policy_denied", "a.test:deny:x")
r("HEAD", "https://a.test/n/x*y?b=*&a=*", "deny", "policy_denied"); r("GET", "https://a.test/n/x*y?a=*&b=*", "deny", "policy_denied")
r("POST", "https://c.test:8443/x", "deny", "destination_denied")
r("CONNECT", "https://d.test", "deny", "destination_denied")
r("GET", "https://a.test/repos/acme/y", "deny", "limit_exceeded")
r("GET", "https://a.test/\x1b[31m", "deny", "policy_denied")
print("not a record")
Y
exits "replay finds what changes" 1 $P replay old.yaml log.jsonl
has "how often" "$T/out" "now denied       2  GET https://a.test/gone"
has "what cannot be known is counted" "$T/out" "1 not known"
hasnt "no control of a record reaches the terminal" "$T/out" $'\x1b'
exits "suggest" 0 $P suggest log.jsonl
cp "$T/out" suggested.yaml
has "one rule of a path and its keys" suggested.yaml '- "GET /n/x%2Ay?a=*&b=*" # 2 times'
has "what a deny rule refused is a comment" suggested.yaml "# not by an allow rule: GET /repos/acme/secrets/x"
hasnt "no control either" suggested.yaml $'\x1b'
exits "suggest --json" 0 $P suggest --json log.jsonl
python3 - "$T/out" <<'Y' && ok "rules, and what no rule can do, as JSON" || not_ok "rules, and what no rule can do, as JSON"
import json, sys
d = json.load(open(sys.argv[1]))
by = {(s["method"], s["host"], s.get("path")): s for s in d["suggestions"]}
assert d["refused"] == 6, d["refused"]
assert by["GET", "a.test", "/n/x*y"]["rule"] == "GET /n/x%2Ay?a=*&b=*" and by["GET", "a.test", "/n/x*y"]["times"] == 1, by
assert by["GET", "a.test", "/repos/acme/secrets/x"]["refused_by"] == "a.test:deny:x" and "rule" not in by["GET", "a.test", "/repos/acme/secrets/x"], by
assert by["POST", "c.test", "/x"]["new_destination"] and by["POST", "c.test", "/x"]["port"] == 8443, by
assert "rule" not in by["CONNECT", "d.test", None], by
Y
sed -i '/\[31m/d' suggested.yaml
exits "what is suggested is a policy" 0 $P check suggested.yaml
exits "which lets just that through" 0 $P explain suggested.yaml GET 'https://a.test/n/x%2Ay?a=1&b=2'
exits "and not more" 1 $P explain suggested.yaml GET 'https://a.test/n/x%2Ay?a=1&b=2&c=3'
# fmt
printf '\n\nversion: 1   \ndestinations:\n# why\n- host: a.test\n  allow:\n  - "*,GET /x"  # both\n  -   method: "GET,PUT"\n      path: /y\n\n\n  deny: []\n' >messy.yaml
cat >neat.yaml <<'Y'
version: 1
destinations:
  # why
  - host: a.test
    allow:
      - "ANY|GET /x"  # both
      - method: "GET|PUT"
        path: /y

    deny: []
Y
exits "fmt" 0 $P fmt messy.yaml
check "it is laid out, its comments are kept" cmp "$T/out" neat.yaml
exits "fmt --check finds it" 1 $P fmt --check messy.yaml
chmod 640 messy.yaml
exits "fmt -w" 0 $P fmt -w messy.yaml
check "it is written" cmp messy.yaml neat.yaml
[ "$(stat -c %a messy.yaml)" = 640 ] && ok "with its mode" || not_ok "with its mode"
exits "what is laid out stays" 0 $P fmt --check messy.yaml
printf 'version: 1\n\tx: 1\n' >bad.yaml
exits "what is not YAML is left alone" 1 $P fmt -w bad.yaml
check "the ready policies are laid out" $P fmt --check "$TOP"/configs/policies/*.yaml
# check --json
printf 'version: 1\nsecrets: { s: { env: S, hosts: [good.test] } }\ndestinations:\n  - host: good.test\n    allow: [ GET /a ]\n' >good.yaml
printf 'version: 1\ndestinations:\n  - host: bad.test\n    alow: [ GET /a ]\n    allow: [ "GET /a: error: b" , "GET b"]\n' >bad2.yaml
printf 'version: 1\ndestinations:\n  - host: other.test\n    allow: [ GET /a ]\n' >top.yaml
exits "check --json" 1 $P check --json good.yaml bad2.yaml
check "is a line for each, with all that was said and where" python3 - "$T/out" "$T/err" <<'Y'
import json, sys
good, bad = (json.loads(l) for l in open(sys.argv[1]))
assert good["ok"] is True and (good["destinations"], good["rules"], good["secrets"]) == (1, 1, 1), good
assert good["messages"] == [{"severity": "warning", "file": "good.yaml", "line": 2, "column": 12, "text": "secret `s` is not injected anywhere"}], good
assert bad["ok"] is False and [(m["severity"], m["file"], m["line"], m["column"]) for m in bad["messages"]] == [("error", "bad2.yaml", 4, 5), ("error", "bad2.yaml", 5, 14), ("error", "bad2.yaml", 5, 35)], bad
assert bad["messages"][0]["text"].startswith("unknown key `alow`") and "`/a: error: b`" in bad["messages"][1]["text"] and open(sys.argv[2]).read() == ""
Y
exits "check --json with a boundary" 1 $P check --json --boundary top.yaml good.yaml
check "says what goes beyond it" python3 -c "import json; m = json.loads(open('$T/out').read())['messages']; assert any(x['severity'] == 'error' and 'which the boundary has no destination for' in x['text'] for x in m), m"
# compile --json: what was written, or every reason why nothing was
exits "compile --json" 0 $P compile --json good.yaml -o json.table
check "tells what it wrote, its size and the warnings, and nothing beside" python3 - "$T/out" "$T/err" <<'Y'
import json, os, sys
(d,) = (json.loads(l) for l in open(sys.argv[1]))
assert d == {"file": "good.yaml", "ok": True, "table": "json.table", "destinations": 1, "rules": 1, "secrets": 1, "messages": [{"severity": "warning", "file": "good.yaml", "line": 2, "column": 12, "text": "secret `s` is not injected anywhere"}]}, d
assert os.path.getsize("json.table") > 0 and open(sys.argv[2]).read() == ""
Y
exits "compile without --json" 0 $P compile good.yaml -o plain.table
check "writes the same table" cmp json.table plain.table
mkdir json.d
exits "compile --json --install" 0 $P compile --json --install json.d good.yaml
has "names the folder" "$T/out" '"ok":true,"folder":"json.d"'
printf 'tests:\n  - allow: GET https://good.test/b\n' | cat good.yaml - >wrong2.yaml
refused() { # title, text, options of compile...
	local t=$1 text=$2; shift 2
	exits "compile --json: $t" 1 $P compile --json "$@" -o no.table
	check "it is a message on one line: $t" python3 - "$T/out" "$T/err" "$text" <<'Y'
import json, os, sys
(d,) = (json.loads(l) for l in open(sys.argv[1]))
assert d["ok"] is False and "table" not in d and "rules" not in d and any(m["severity"] == "error" and sys.argv[3] in m["text"] for m in d["messages"]), d
assert open(sys.argv[2]).read() == "" and not os.path.exists("no.table")
Y
}
refused "an error in the file" "unknown key \`alow\`" bad2.yaml
refused "a file that is not there" "No such file" absent.yaml
refused "a test that fails" "GET https://good.test/b" wrong2.yaml
refused "no consent" "is not trusted; read it" --trusted --state "$T/state.json" good.yaml
refused "beyond the boundary" "which the boundary has no destination for" --boundary top.yaml good.yaml
refused "a key that is not there" "No such file" --sign absent.pem good.yaml
# explain --json says as much as the text
printf 'version: 1\ndestinations:\n  - host: near.test\n    allow: [ GET /a ]\n' >near.yaml
exits "explain --json" 1 $P explain --json near.yaml DELETE https://near.test/a
has "names the method that a near rule lacks" "$T/out" '"why":"its methods do not include DELETE"'
# a secret of a file that one builds on, from elsewhere
printf 'version: 1\nname: own\nextends: [std/github-read]\nsecrets: { github: { vault: secret/data/agents/github, field: token, hosts: [api.github.com, github.com]%s } }\n' '' >own.yaml
exits "a secret of std/ defined anew" 1 $P check own.yaml
has "needs to be said" "$T/err" "once in the whole, or with \`override: true\` in the file that builds on the other"
sed -i 's/github.com\] }/github.com], override: true }/' own.yaml
exits "with override: true" 0 $P test own.yaml
exits "it is what is injected" 0 $P diff --json own.yaml "$TOP/configs/policies/github-read.yaml"
has "from the other source" "$T/out" "secret github"
# import
cat >os.yaml <<'Y'
version: 1
filesystem_policy: { include_workdir: true, read_only: [/usr], read_write: [/tmp] }
network_policies:
  one:
    endpoints:
      - host: api.example.com
        port: 443
        protocol: rest
        access: read-write
        deny_rules: [ { method: PUT, path: "/repos/*/protection" } ]
      - { host: git.example.com, port: 8443, protocol: rest, rules: [ { allow: { method: GET, path: "/**/info/refs*", query: { service: "git-*" } } } ] }
      - { host: mcp.example.com, port: 443, path: /mcp, protocol: mcp, rules: [ { allow: { method: tools/call, tool: { any: [a, b] } } } ] }
    binaries: [ { path: /usr/bin/curl } ]
Y
exits "import: what would be wider is an error" 1 $P import openshell os.yaml
has "which says what" "$T/err" "os.yaml:13:15: error: which program asks is not looked at here"
exits "import openshell" 0 $P import --any-program openshell os.yaml
cp "$T/out" imported.yaml
exits "read-write" 0 $P explain --content imported.yaml POST https://api.example.com/repos/a
exits "their stars cross slashes in a deny" 1 $P explain --content imported.yaml PUT https://api.example.com/repos/a/b/protection
exits "and in an allow, with a query" 0 $P explain imported.yaml GET 'https://git.example.com:8443/t/a.git/info/refs?service=git-upload-pack'
exits "the query holds" 1 $P explain imported.yaml GET 'https://git.example.com:8443/t/a.git/info/refs?service=x'
printf '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"c"}}' >c.json
exits "a tool that is not listed" 1 $P explain --data c.json -H 'Content-Type: application/json' imported.yaml POST https://mcp.example.com/mcp
sed -i 's/access: read-write/credential_signing: sigv4/' os.yaml
exits "what is not known is an error" 1 $P import --any-program openshell os.yaml
printf '{ "network": { "allowedDomains": ["a.test", "*.a.test"], "deniedDomains": ["no.a.test"] }, "filesystem": { "denyRead": ["~/.ssh"], "allowWrite": ["."], "denyWrite": [".env"] } }' >srt.json
exits "import sandbox-runtime" 0 $P import sandbox-runtime srt.json
cp "$T/out" imported.yaml
exits "a domain below" 0 $P explain --content imported.yaml POST https://x.y.a.test/p
exits "a denied one" 1 $P explain imported.yaml GET https://no.a.test/p
has "what is hidden" imported.yaml 'hide: ["~/.ssh"]'
# schema
exits "schema" 0 $P schema
cp "$T/out" schema.json
check "which is JSON, and knows what can be written" python3 -c "import json; d = json.load(open('schema.json'))['\$defs']; assert 'regex' in d['rule']['properties'] and 'ask' not in d['rule']['properties'] and d['destination']['required'] == ['host'] and not d['tls']['additionalProperties']"
if /usr/bin/python3 -c 'import jsonschema, yaml' 2>/dev/null; then # the distribution's
	check "ready policies are what the schema says, one with a wrong key is not" /usr/bin/python3 - "$TOP"/configs/policies/*.yaml <<'Y'
import json, jsonschema, sys, yaml
v = jsonschema.Draft202012Validator(json.load(open("schema.json")))
load = lambda t: json.loads(json.dumps(yaml.safe_load(t), default=str))
for f in sys.argv[1:]:
    e = list(v.iter_errors(load(open(f).read())))
    assert not e, (f, e[0].message)
for good in ("tunnel", "{ tunnel: true, valid: { until: 2030-01-01 } }", "[ GET /x, { method: GET, path: /y } ]"):
    assert v.is_valid(load("version: 1\ndestinations: [ { host: a.test, allow: %s } ]" % good)), good
for bad in ("version: 1\ndestinations: [ { host: a.test, allow: { valid: { until: 2030-01-01 } } } ]", "version: 1\ndestinations: [ { host: a.test, deny: tunnel } ]", "version: 1\ndestinations: [ { host: a.test, allow: everything } ]", "version: 1\ndestinations: [ { host: a.test, alow: [] } ]", "version: 1\ndestinations: [ { allow: [ GET /x ] } ]", "version: 1\ndestinations: [ { host: a.test, allow: [ /x ] } ]", "version: 1\nlimits: { idle: 5 }"):
    assert not v.is_valid(load(bad)), bad
Y
else
	skip "no jsonschema for python here"
fi
# init
printf 'registry=https://npm.example.test:8443/mirror/\n@a:registry = https://npm.example.test:8443/a\n' >"$HOME/.npmrc"
exits "init npm" 0 "$SP" init -o npm.yaml npm
exits "is a policy" 0 $P check npm.yaml
exits "packages can be read" 0 $P explain npm.yaml GET 'https://npm.example.test:8443/mirror/@s%2fname'
exits "not published" 1 $P explain --content npm.yaml PUT 'https://npm.example.test:8443/mirror/name'
exits "what is there is not overwritten" 1 "$SP" init -o npm.yaml npm
exits "a client without a registry is told so" 1 env -u GOPROXY -u GOSUMDB "$SP" init -o go.yaml go
has "how to say it" "$T/err" "sallyport init go https://..."
exits "a registry that is said" 0 "$SP" init -o go.yaml go https://go.example.test/p
# as each of the others is configured in the field
hosts() { env -u GOPROXY -u GOSUMDB -u PIP_INDEX_URL -u PIP_EXTRA_INDEX_URL "$SP" init -o - "$@" 2>"$T/err" | sed -n 's/^  - host: "\(.*\)"/\1/p' | tr '\n' ' '; }
is() { [ "$2" = "$3" ] && ok "init $1" || not_ok "init $1" "$2, not $3" "$(cat "$T/err")"; }
mkdir -p "$HOME/.config/pip" "$HOME/.config/go" "$HOME/.cargo" "$HOME/.m2"
printf '[global]\nindex-url = https://pypi.example.test/simple\nextra-index-url =\n    https://two.example.test/simple\n    # https://no.example.test/simple\n\thttps://three.example.test/simple\n[install]\nfind-links =\n    https://links.example.test/\n' >"$HOME/.config/pip/pip.conf"
is "pip: a list in lines of its own" "$(hosts pip)" "pypi.example.test two.example.test three.example.test "
printf 'GOPROXY=https://go.example.test,direct\nGOSUMDB=sum.example.test+0123abcd\n' >"$HOME/.config/go/env"
is "go: the proxy and the checksum database" "$(hosts go)" "go.example.test sum.example.test "
printf 'GOPROXY=https://go.example.test\nGOSUMDB="sum.example.test https://mirror.example.test/sum"\n' | tr -d '"' >"$HOME/.config/go/env"
is "go: a database at another URL" "$(hosts go)" "go.example.test mirror.example.test "
printf 'GOPROXY=https://go.example.test\nGOSUMDB=off\n' >"$HOME/.config/go/env"
is "go: none" "$(hosts go)" "go.example.test "
printf '[source.crates-io]\nreplace-with = "corp"\n[source.corp]\n  registry = "sparse+https://crates.example.test/index/" # ours\n' >"$HOME/.cargo/config.toml"
is "cargo" "$(hosts cargo)" "crates.example.test "
printf '<settings><!-- <url>https://old.example.test/</url> -->\n<mirrors><mirror><url>https://mvn.example.test/repo</url></mirror></mirrors><!-- <url>https://end.example.test/</url>' >"$HOME/.m2/settings.xml"
is "maven: not what stands in a comment" "$(hosts maven)" "mvn.example.test "
exits "a ready policy" 0 "$SP" init github-read
exits "its tests" 0 $P test sallyport.yaml
exits "no way out of the folder of policies" 1 "$SP" init -o x.yaml ../github-read
check_done
