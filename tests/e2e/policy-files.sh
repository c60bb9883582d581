#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Policies of several files: what they say together at the gateway, what is not read, what consent covers.
NAME=policy-files
. "$(dirname "$0")/lib.sh"
can_run
make_pki
start_nginx
P="$SP policy"
TOP=$(cd "$(dirname "$0")/../.." && pwd) # of the sources: where a build keeps its programs is its own business
cd "$WORK" || exit 1
exits() { local t=$1 want=$2 rc; shift 2; "$@" >"$T/out" 2>"$T/err"; rc=$?; [ $rc -eq "$want" ] && ok "$t" || not_ok "$t" "exit $rc, not $want" "$(cat "$T/out" "$T/err")"; }
mkdir -p parts
cat >parts/api.yaml <<Y
version: 1
name: api
secrets:
  api: { env: E2E_SECRET, hosts: [api.test] }
destinations:
  - host: api.test
    connect: 127.0.0.1:$PORT
    addresses: [127.0.0.0/8]
    tls: { ca: ../upca.pem }
    allow: [ GET /v1/hello, GET /v1/both/** ]
    limits: { response_body: 1KiB }
    inject:
      - { secret: api, as: bearer, env: API_TOKEN }
tests:
  - deny: GET https://api.test/v1/own
Y
cat >denies.yaml <<'Y'
version: 1
destinations:
  - host: api.test
    deny: [ ANY /v1/both/hidden/** ]
Y
cat >policy.yaml <<'Y'
version: 1
name: of-three
extends: [std/openai, parts/api.yaml, denies.yaml]
destinations:
  - host: api.test
    allow: [ GET /v1/own, GET /v1/big ]
    limits: { response_body: 1MiB }
tests:
  - allow: GET https://api.test/v1/own
    inject: [api]
Y
exits "tls.ca does not lead out of the folder of its file" 1 $P check policy.yaml
has "the message is about that file" "$T/err" "parts/api.yaml:9:16: error: tls.ca does not lead out"
cp upca.pem parts/upca.pem
sed -i 's/\.\.\/upca/upca/' parts/api.yaml
exits "three files and one of the library are a policy" 0 $P check policy.yaml
exits "the tests of the first file are its tests, those of others are theirs" 0 $P test policy.yaml
OPENAI_TESTS=$($P test "$TOP/configs/policies/openai.yaml" 2>/dev/null | grep -c '^ok')
has "all are run" "$T/out" "1..$((2 + OPENAI_TESTS))"
has "each of its own file: what the first allows the second denies" "$T/out" "- deny GET https://api.test/v1/own"
sed 's/deny: GET https:..api.test.v1.own/allow: GET https:\/\/api.test\/v1\/own/' parts/api.yaml >parts/wrong.yaml
sed 's/parts.api/parts\/wrong/' policy.yaml >wrong.yaml
exits "a test of another file that fails" 1 $P test wrong.yaml
has "is told with its file" "$T/out" "  at: parts/wrong.yaml:"
exits "and nothing is compiled" 1 $P compile wrong.yaml -o "$T/wrong"
has "that is told too" "$T/err" "parts/wrong.yaml:15:5: error: the test \`allow GET https://api.test/v1/own\` fails: got deny"
printf 'version: 1\ndestinations:\n  - host: api.test\n    allow: [ GET /v1/part ]\n    inject: [ { secret: api, as: bearer } ]\ntests:\n  - allow: GET https://api.test/v1/part\n' >part.yaml
sed -n '/^secrets/,/^  api/p' parts/api.yaml >>with-part.yaml
sed -i '1i version: 1\nname: with-part\nextends: [part.yaml]' with-part.yaml
exits "a file that is no policy by itself" 0 $P test with-part.yaml
has "has its tests left out, and that is said" "$T/out" "# part.yaml: its tests are not run: by itself it is no policy: part.yaml:5:25: error: there is no secret \`api\` under \`secrets\`"
exits "also when it is compiled" 0 $P compile with-part.yaml -o "$T/part"
has "there it is a warning" "$T/err" "part.yaml: warning: its tests are not run"
code() { run curl -sS -o /dev/null -m 20 -w '%{http_code}' "https://api.test$1" 2>/dev/null; }
[ "$(code /v1/own)" = 200 ] && ok "a rule of the first file" || not_ok "a rule of the first file"
[ "$(code /v1/hello)" = 200 ] && ok "a rule of the second" || not_ok "a rule of the second"
[ "$(code /v1/both/x)" = 200 ] && ok "what the third does not deny" || not_ok "what the third does not deny"
[ "$(code /v1/both/hidden/x)" = 403 ] && ok "what the third denies" || not_ok "what the third denies"
run sh -c 'for f in policy.yaml denies.yaml parts/api.yaml parts/upca.pem; do echo "# more" >>$f; mv $f $f.away; rm -f $f; ln -sf /etc/passwd $f; done; mv parts away; echo tried' >"$T/out" 2>&1
has "a sandbox that shares the folder tried to change them all" "$T/out" tried
whole() { local f; for f in policy.yaml denies.yaml parts/api.yaml parts/upca.pem; do [ -f "$f" ] && [ ! -L "$f" ] && ! grep -q '^# more' "$f" || return 1; done; }
check "the files that a policy is made of cannot be changed from inside" whole
grep -qF "auth=Bearer $SECRET" "$T/ngx/access.log" && ok "an injection of the second" || not_ok "an injection of the second"
[ "$(code /v1/big)" = 502 ] && ok "the smaller limit" || not_ok "the smaller limit"
records >"$T/records"
has "records name the file of the rule" "$T/records" 'work/parts/api.yaml:10"'
has "and of the deny" "$T/records" 'work/denies.yaml:4"'
# what is not read
ln -s /etc/passwd linked.yaml
printf 'version: 1\nextends: [linked.yaml]\n' >links.yaml
exits "a link is not followed" 1 $P check links.yaml
has "it is told" "$T/err" "links.yaml:2:11: error: extends: cannot read linked.yaml: there is a symbolic link in its name"
hasnt "nothing of its target is" "$T/err" "root"
ln -s .. up
printf 'version: 1\nextends: [up/x.yaml]\n' >links.yaml
exits "nor one on the way" 1 $P check links.yaml
cp denies.yaml open.yaml
chmod 666 open.yaml
printf 'version: 1\nextends: [open.yaml]\n' >links.yaml
exits "a file that others can write is not relied on" 1 $P check links.yaml
has "it is told how to" "$T/err" "chmod go-w it"
chmod 664 parts/upca.pem
exits "a certificate that a group can write neither" 1 $P check policy.yaml
has "that is told as well" "$T/err" "parts/upca.pem can be written by its group or by others: chmod go-w it"
chmod 644 parts/upca.pem
mkdir many
for i in $(seq 65); do echo 'version: 1' >"many/$i.yaml"; done
{ echo 'version: 1'; echo "extends: [$(seq -f 'many/%g.yaml' -s ', ' 65)]"; } >links.yaml
exits "too many files" 1 $P check links.yaml
has "are told" "$T/err" "extends: more than 64 files"
{ echo 'version: 1'; head -c 17000000 /dev/zero | tr '\0' '#'; } >large.yaml
exits "a file that is too large" 1 $P check large.yaml
has "is told" "$T/err" "larger than a policy may be"
mkfifo pipe.yaml
printf 'version: 1\nextends: [pipe.yaml]\n' >links.yaml
exits "a pipe is not waited for" 1 timeout 10 $P check links.yaml
if [ "$(id -u)" -ne 0 ]; then
	printf 'version: 1\nplanted-line: x\n' >private.yaml
	chmod 0 private.yaml
	printf 'version: 1\nextends: [private.yaml]\n' >links.yaml
	exits "what the caller cannot read" 1 $P check links.yaml
	hasnt "is not quoted" "$T/err" "planted"
fi
# consent
cp policy.yaml sallyport.yaml
exits "consent" 0 "$SP" trust
exits "is there" 0 "$SP" trust --check
echo '# other' >>denies.yaml
exits "it covers every file" 1 "$SP" trust --check
exits "given again" 0 "$SP" trust
echo '# other' >>parts/api.yaml
exits "each of them" 1 "$SP" trust --check
# same octets
exits "compile" 0 $P compile policy.yaml -o "$T/a"
exits "again" 0 $P compile policy.yaml -o "$T/b"
check "same files, same octets" cmp "$T/a" "$T/b"
check_done
