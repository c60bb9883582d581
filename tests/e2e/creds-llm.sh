#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The OpenAI and Anthropic SDKs with a placeholder for a key, answers in a stream; echoes in it are overwritten.
NAME=creds-llm
. "$(dirname "$0")/creds-lib.sh"
can_run
SDK=${SP_CLIENTS:-${BUILD:-$BIN}/../clients}/sdk
if ! PYTHONPATH=$SDK /usr/bin/python3 -c 'import openai, anthropic' 2>/dev/null; then skip "the SDKs: $(cat "$SDK.skip" 2>/dev/null || echo "they are not there, or not for this Python")"; exit 0; fi
make_pki DNS:api.openai.com,DNS:api.anthropic.com,DNS:other.test
OA=sk-proj-plantedPlantedplantedPlantedplantedPlanted00 AN=sk-ant-api03-plantedPlantedplantedPlantedplantedPlanted00-AA
cat >"$T/app.py" <<P
import json
OA, AN = "$OA", "$AN"
def events(pieces):
    for p in pieces: yield p
def answer(r):
    q = json.loads(r.body or b"{}")
    if r.host == "api.openai.com":
        if r.get_header("authorization") != "Bearer " + OA: return 401, [("Content-Type", "application/json")], b'{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}'
        said = q["messages"][0]["content"]
        words = ["You ", "said ", said, " with ", OA[:9], OA[9:], "."]
        if not q.get("stream"):
            return 200, [("Content-Type", "application/json")], json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "".join(words)}}]}).encode()
        out = ["data: " + json.dumps({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": {"content": w}, "finish_reason": None}]}) + "\n\n" for w in words] + ["data: [DONE]\n\n"]
        return 200, [("Content-Type", "text/event-stream"), ("X-Key", OA)], events([o.encode() for o in out])
    if r.host == "api.anthropic.com":
        if r.get_header("x-api-key") != AN or r.get_header("authorization"): return 401, [("Content-Type", "application/json")], b'{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}'
        def ev(kind, **k): return ("event: %s\ndata: %s\n\n" % (kind, json.dumps({"type": kind, **k}))).encode()
        said = q["messages"][0]["content"]
        return 200, [("Content-Type", "text/event-stream")], events([ev("message_start", message={"id": "1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}),
            ev("content_block_start", index=0, content_block={"type": "text", "text": ""})] + [ev("content_block_delta", index=0, delta={"type": "text_delta", "text": w}) for w in ("You said ", said, " with " + AN)] +
            [ev("content_block_stop", index=0), ev("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": 2}), ev("message_stop")])
    return 200, [("Content-Type", "application/json")], b"{}"
P
cred_origin "$T/app.py"
cat >"$WORK/policy.yaml" <<P
version: 1
name: llm
secrets:
  openai: { env: OA, hosts: [api.openai.com] }
  anthropic: { env: AN, hosts: [api.anthropic.com] }
destinations:
$(dest api.openai.com ', alpn: [http/1.1]')
    allow: [ POST /v1/chat/completions ]
    inject: [ { secret: openai, as: bearer, env: OPENAI_API_KEY } ]
$(dest api.anthropic.com ', alpn: [http/1.1]')
    allow: [ POST /v1/messages ]
    inject: [ { secret: anthropic, as: header, name: x-api-key, env: ANTHROPIC_API_KEY } ]
$(dest other.test)
    allow: [ "ANY /**", { method: POST, path: "/**" } ]
sandbox:
  filesystem: { write: [.], read: [$(realpath "$SDK")] }
  process: { environment: { set: { PYTHONPATH: "$(realpath "$SDK")", PYTHONDONTWRITEBYTECODE: "1" } } }
P
cat >"$WORK/llm.py" <<'P'
import anthropic, openai, os
said = "good morning"
c = openai.OpenAI(max_retries=0)
print("openai", c.chat.completions.create(model="m", messages=[{"role": "user", "content": said}]).choices[0].message.content)
print("openai stream", "|".join(e.choices[0].delta.content for e in c.chat.completions.create(model="m", stream=True, messages=[{"role": "user", "content": said}])))
a = anthropic.Anthropic(max_retries=0)
with a.messages.stream(model="m", max_tokens=10, messages=[{"role": "user", "content": said}]) as s: print("anthropic stream", "|".join(s.text_stream))
try: openai.OpenAI(max_retries=0).models.list()
except openai.PermissionDeniedError as e: print("refused", e.body if isinstance(e.body, dict) else e)
try: openai.OpenAI(max_retries=0, base_url="https://other.test/v1").chat.completions.create(model="m", messages=[])
except openai.PermissionDeniedError as e: print("elsewhere", e)
try: anthropic.Anthropic(max_retries=0, base_url="https://other.test").messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": os.environ["OPENAI_API_KEY"]}])
except anthropic.PermissionDeniedError as e: print("elsewhere too", e)
P
(cd "$WORK" && OA=$OA AN=$AN timeout 120 "$SP" run --quiet --policy policy.yaml -- /usr/bin/python3 llm.py) >"$T/out" 2>&1
stars() { printf '%*s' "$1" '' | tr ' ' '*'; }
has "OpenAI: an answer" "$T/out" "openai You said good morning with $(stars ${#OA})."
has "OpenAI: in a stream" "$T/out" "openai stream You |said |good morning| with |"
has "Anthropic: in a stream" "$T/out" "anthropic stream You said |good morning| with $(stars ${#AN})"
has "what policy refuses is an error of the SDK's" "$T/out" "refused Error code: 403"
has "a key elsewhere is refused" "$T/out" "elsewhere Error code: 403"
has "and another" "$T/out" "elsewhere too Error code: 403"
comes "OpenAI sees its key" 2 "host == 'api.openai.com' and head('authorization') == 'Bearer $OA'"
comes "Anthropic sees its own" 1 "host == 'api.anthropic.com' and head('x-api-key') == '$AN' and 'authorization' not in h"
comes "nobody else sees anything" 0 "host == 'other.test'"
for v in "$OA" "$AN"; do nowhere "the key is nowhere that it must not be" "$v" "$T/out"; done
check_done
