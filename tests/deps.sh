#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What building and testing need from the distribution (Debian 12, 13), as root or through sudo. Says what it does.
# deps.sh --check: only tells, by its exit status, whether something is missing.
set -eu
packages="build-essential pkg-config libssl-dev libnghttp2-dev libc-ares-dev libpcre2-dev libyaml-dev liblmdb-dev libseccomp-dev libcmocka-dev
 libjansson-dev nginx-light fcgiwrap git curl python3 openssl ca-certificates iproute2 procps util-linux"
missing=
for p in $packages; do
	dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q '^install ok installed$' || missing="$missing $p"
done
command -v node >/dev/null 2>&1 || missing="$missing nodejs"
if [ "${1:-}" = --check ]; then
	[ -z "$missing" ]
	exit
fi
if [ -z "$missing" ]; then
	echo "deps: nothing is missing"
	exit 0
fi
sudo=
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null 2>&1 || { echo "deps: not root, and there is no sudo; as root: apt-get install$missing" >&2; exit 1; }
	sudo=sudo
fi
echo "deps: installing the distribution's packages:$missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq || true
# shellcheck disable=SC2086
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
echo "deps: done"
