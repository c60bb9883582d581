#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What building and testing need from the distribution (Debian 12, 13), as root or through sudo. Says what it does.
#	deps.sh [--check] [SET...]
# Sets: core (the default: build, check, demo), fuzz (clang with its run-time), bench (the peers), lint. --check only tells,
# by its exit status, whether something is missing; with --list the packages are printed.
set -eu
core="build-essential pkg-config libssl-dev libnghttp2-dev libc-ares-dev libpcre2-dev libyaml-dev liblmdb-dev libseccomp-dev libcmocka-dev
 libjansson-dev libidn2-dev libpsl-dev nginx-light fcgiwrap git curl python3 openssl ca-certificates iproute2 procps util-linux passwd"
bench="haproxy squid-openssl"
lint="cppcheck mandoc"
fuzz() { # the sanitizers' run-time is a package of its own, named by the version that `clang` stands for
	local v
	v=$(apt-cache depends clang 2>/dev/null | sed -n 's/^ *Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)
	echo "clang ${v:+libclang-rt-$v-dev}"
}
mode=install sets=
for a in "$@"; do
	case $a in
	--check) mode=check ;;
	--list) mode=list ;;
	core | fuzz | bench | lint) sets="$sets $a" ;;
	*) echo "usage: deps.sh [--check|--list] [core|fuzz|bench|lint]..." >&2; exit 2 ;;
	esac
done
wanted=
for s in ${sets:-core}; do
	case $s in
	core)
		wanted="$wanted $core"
		command -v node >/dev/null 2>&1 || wanted="$wanted nodejs" # any Node will do
		;;
	fuzz) wanted="$wanted $(fuzz)" ;;
	bench) wanted="$wanted $bench" ;;
	lint) wanted="$wanted $lint" ;;
	esac
done
if [ $mode = list ]; then
	# shellcheck disable=SC2086
	printf '%s\n' $wanted
	exit 0
fi
if ! command -v dpkg-query >/dev/null 2>&1; then
	[ $mode = check ] && exit 0 # not our distribution: make will tell what it does not find
	echo "deps: this is no Debian; what is needed goes by these names there:" $wanted >&2
	exit 1
fi
# shellcheck disable=SC2086
present=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' $wanted 2>/dev/null | sed -n 's/^installed //p')
missing=
for p in $wanted; do
	grep -qxF -- "$p" <<<"$present" || missing="$missing $p"
done
if [ $mode = check ]; then
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
	sudo="sudo --preserve-env=DEBIAN_FRONTEND"
fi
echo "deps: installing the distribution's packages:$missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq || echo "deps: the package lists could not be refreshed; trying with those that are here" >&2
# shellcheck disable=SC2086
if ! $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null; then
	echo "deps: apt-get could not install them (see above)" >&2
	exit 1
fi
echo "deps: done"
