#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/e2e/killrandom.sh at length: 200 kills, long enough apart that roles come back, close enough that their delays grow.
# Afterwards the worker's kept connections are waited for, so that not one descriptor may be more than before. About seven minutes.
cd "$(dirname "$0")/../.." || exit 1
KILLS=${KILLS:-200} GAP=${GAP:-4} POOLED=0 SETTLE=90 exec bash tests/e2e/killrandom.sh
