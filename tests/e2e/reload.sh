#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A policy is replaced while it is in use: over the control socket, by a changed file, from a policy folder. What begins is
# decided by the new one, what goes on finishes on the old one, what is wrong leaves the old one in force and is said.
NAME=reload
. "$(dirname "$0")/lib.sh"
can_run
python3 "$(dirname "$0")/reload.py" "$BIN" "$T" "$MARK" || FAILED=1
check_done
