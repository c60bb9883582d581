#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs an end-to-end script as an ordinary user, on a copy of the programs that this user can read. As root only.
# The script may ask for one thing that only root can do, and which proves something: to search the memory of processes
# of this user (lib.sh, mem_scan): it writes "VALUE PID..." to $SP_SCAN/ask and waits for $SP_SCAN/answer.
set -eu
user=sallyport-test
id "$user" >/dev/null 2>&1 || useradd --system --create-home --shell /bin/bash "$user" >/dev/null 2>&1 || { echo "skip $1: cannot make the user $user"; exit 0; }
here=$PWD
work=$(mktemp -d /tmp/sp-user.XXXXXX)
cleanup() {
	[ -z "${scanner:-}" ] || kill "$scanner" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
mkdir -p "$work/bin" "$work/build" "$work/tests" "$work/scan"
cp "$BIN"/sallyport* "$work/bin/"
cp -r tests/e2e "$work/tests/"
[ ! -d tests/walls ] || cp -r tests/walls "$work/tests/"
cp -r tests/clients "$work/tests/"
cp -r configs "$work/"
mkdir "$work/docs"
cp docs/POLICY.md "$work/docs/"
mkdir "$work/clients"
for f in "$BUILD"/../clients/{node_modules,go-client,connect-client,grpc-client,rust-client,h2spec,*.skip}; do [ ! -e "$f" ] || cp -r "$f" "$work/clients/"; done
[ ! -d tests/cases ] || cp -r tests/cases "$work/tests/"
for f in "$BUILD"/sallyport-proxy-selftest; do [ ! -e "$f" ] || cp "$f" "$work/build/"; done
chown -R "$user" "$work"
chmod 755 "$work"
uid=$(id -u "$user")
(
	while sleep 0.1; do
		[ -f "$work/scan/ask" ] || continue
		read -r value pids <"$work/scan/ask" || true
		mine=
		for p in $pids; do
			case $p in *[!0-9]*) continue ;; esac
			[ "$(awk '/^Uid:/ {print $2}' "/proc/$p/status" 2>/dev/null)" != "$uid" ] || mine="$mine $p"
		done
		rm -f "$work/scan/ask"
		# shellcheck disable=SC2086
		python3 "$here/tests/e2e/memscan.py" "$value" $mine >"$work/scan/part" 2>&1 || true
		mv "$work/scan/part" "$work/scan/answer"
	done
) &
scanner=$!
cd "$work"
rc=0
runuser -u "$user" -- env -i PATH="$PATH" HOME="$work" TMPDIR=/tmp LANG=C.UTF-8 BIN="$work/bin" BUILD="$work/build" SP_VARIANT="${VARIANT:-release}" SP_SCAN="$work/scan" \
	bash "$work/$1" || rc=$?
exit $rc
