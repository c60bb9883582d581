#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From inside each role, what its row forbids is impossible (proxy/selftest.c), as root and as an ordinary user.
set -u
: "${BUILD:?where the test build is}"
if ! unshare -Ur true 2>/dev/null; then echo "skip roles: user namespaces cannot be made here"; exit 0; fi
exec "$BUILD/sallyport-proxy-selftest"
