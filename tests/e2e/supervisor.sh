#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The supervisor by itself: start-up and its refusals, its own walls, the control socket against bad callers, sandboxes
# by the hundred, roles that die, the orderly end and the other one.
NAME=supervisor
. "$(dirname "$0")/lib.sh"
can_run
cat >"$WORK/policy.yaml" <<P
version: 1
name: supervisor-test
secrets:
  one: { env: E2E_SECRET, hosts: [api.test] }
destinations:
  - host: api.test
    allow: [ "GET /**" ]
    inject: [ { secret: one, as: bearer, env: TOKEN } ]
P
"$BIN/sallyport-policy" compile "$WORK/policy.yaml" -o "$WORK/table" >"$T/compile" 2>&1 || not_ok "a policy compiles" "$(cat "$T/compile")"
python3 "$(dirname "$0")/supervisor.py" "$BIN" "$T" "$MARK" || FAILED=1
check_done
