#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the secrets of a policy may come from is the operator's to say: of each policy folder, and of what callers bring.
NAME=folder-sources
. "$(dirname "$0")/lib.sh"
can_run
cd "$T" || exit 1
mkdir -m 755 tables more files
policy() { # NAME SOURCE
	printf 'version: 1\nname: anything\nsecrets:\n  s: { %s, hosts: [a.test] }\ndestinations:\n  - host: a.test\n    allow: [ "GET /a" ]\n    inject: [ { secret: s, as: bearer } ]\n' "$2" >"$1.yaml"
	chmod 644 "$1.yaml"
	"$BIN/sallyport-policy" compile "$1.yaml" -o "tables/$1.lmdb" && cp "tables/$1.lmdb" "$1.lmdb"
	cp "tables/$1.lmdb" "more/more-$1.lmdb"
}
policy env-good 'env: AGENT_KEY'
policy env-bad 'env: ROOT_KEY'
policy vault-good 'vault: secret/data/agents/vault-good/token, field: f'
policy vault-other 'vault: secret/data/agents/vault-good/token, field: f'
policy vault-deep 'vault: secret/data/agents/vault-deep/a/b, field: f'
policy vault-shared 'vault: secret/data/shared/x, field: f'
policy vault-dynamic 'vault_dynamic: aws/sts/agent, field: f'
policy vault-dynamic-bad 'vault_dynamic: aws/creds/agent, field: f'
policy file-good "file: $T/files/a"
policy file-bad "file: $T/other"
policy exec-bad 'exec: [/bin/true]'
policy credential-bad 'credential: token'
cat >gateway.yaml <<Y
sources:
  vault: [ "secret/data/shared/*" ]
  file: [ $T/files/ ]
policies:
  - dir: tables
    sources:
      env: [ "AGENT_*" ]
      file: [ $T/files/ ]
      vault: [ "secret/data/agents/{policy}/*", "aws/sts/**" ]
  - dir: more
Y
chmod 644 gateway.yaml
"$BIN/sallyport-proxy" serve --state "$STATE" --config gateway.yaml >serve.log 2>&1 &
PIDS+=($!)
wait_for 15 test -S "$STATE/run/control.sock"
cat >ask.py <<'P'
import array, json, socket, sys
state, how, name = sys.argv[1:]
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(30); s.connect(state + "/run/control.sock")
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen(1)
fds = [l.fileno()]
o = {"id": 1, "op": "register", "name": "x", "policy": {"name": name}, "identify": {"sockets": [{"kind": "proxy4", "fd": 0}]}}
if how == "bring":
    f = open(name + ".lmdb", "rb"); fds.append(f.fileno())
    o["policy"] = {"fd": 1}
s.sendmsg([json.dumps(o).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
a = json.loads(s.recv(65536))
print("taken" if "ok" in a else a["error"]["message"])
P
taken() { [ "$(python3 ask.py "$STATE" "$2" "$3" 2>&1)" = taken ] && ok "$1" || not_ok "$1" "$(python3 ask.py "$STATE" "$2" "$3" 2>&1)"; }
refused() { python3 ask.py "$STATE" "$2" "$3" >out 2>&1; has "$1" out "the gateway's configuration does not let this policy have its secrets (gateway.yaml: sources): secret \`s\` comes from $4"; }
taken "a variable of the folder's" name env-good
refused "another" name env-bad "env \`ROOT_KEY\`"
taken "Vault's path with the policy's own name" name vault-good
refused "another policy's" name vault-other "vault \`secret/data/agents/vault-good/token\`"
refused "a star is one segment" name vault-deep "vault \`secret/data/agents/vault-deep/a/b\`"
refused "what callers may bring is not the folder's" name vault-shared "vault \`secret/data/shared/x\`"
taken "two stars are more" name vault-dynamic
refused "not beside them" name vault-dynamic-bad "vault \`aws/creds/agent\`"
taken "a file of the folder's" name file-good
refused "another file" name file-bad "file \`$T/other\`"
refused "a program, which is not listed" name exec-bad "exec \`/bin/true\`"
refused "nor is a credential" name credential-bad "credential \`token\`"
refused "a folder that says nothing has no sources" name more-env-good "env \`AGENT_KEY\`"
taken "what is brought: a path that is listed" bring vault-shared
refused "one that is not" bring vault-good "vault \`secret/data/agents/vault-good/token\`"
taken "a kind that is not spoken of is as before" bring env-bad
taken "a file that is listed" bring file-good
refused "and one that is not" bring file-bad "file \`$T/other\`"
# what the launcher brings is no other matter
if (cd "$WORK" && timeout 60 "$SP" run --name box --quiet --policy "$T/vault-good.yaml" -- true) >"$T/out" 2>&1; then not_ok "run: refused"; else has "run: refused, and why" out "sources): secret \`s\` comes from vault"; fi
while IFS= read -r bad; do
	printf '%s\n' "$bad" >bad.yaml; chmod 644 bad.yaml
	if timeout 20 "$BIN/sallyport-proxy" serve --state "$T/none" --config bad.yaml >out 2>&1; then not_ok "no start with $bad"; else has "no start with $bad" out "bad.yaml:1:"; fi
done <<'B'
sources: { vault: [ "secret/../x" ] }
sources: { vault: [ "secret/data/{policy}/*" ] }
sources: { vault: [ "secret/**/x" ] }
sources: { file: [ relative/ ] }
sources: { ftp: [ x ] }
policies: [ { dir: tables, sources: all } ]
policies: [ { dir: tables, sources: { vault: [ "{policy}/{policy}" ] } } ]
policies: [ { dir: tables, sources: { exec: [ relative ] } } ]
B
check_done
