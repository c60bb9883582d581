#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs an end-to-end script as an ordinary user, on a copy of the programs that this user can read. As root only.
set -eu
user=sallyport-test
id "$user" >/dev/null 2>&1 || useradd --system --create-home --shell /bin/bash "$user" >/dev/null 2>&1 || { echo "skip $1: cannot make the user $user"; exit 0; }
work=$(mktemp -d /tmp/sp-user.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/build" "$work/tests"
cp "$BIN"/sallyport* "$work/bin/"
cp -r tests/e2e tests/cases "$work/tests/"
for f in "$BUILD"/sallyport-proxy-selftest; do [ ! -e "$f" ] || cp "$f" "$work/build/"; done
chown -R "$user" "$work"
chmod 755 "$work"
cd "$work"
runuser -u "$user" -- env -i PATH="$PATH" HOME="$work" TMPDIR=/tmp LANG=C.UTF-8 BIN="$work/bin" BUILD="$work/build" SP_VARIANT="${VARIANT:-release}" bash "$work/$1"
