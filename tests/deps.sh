#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What building and testing need from the distribution (Debian 12, 13), as root or through sudo. Says what it does.
#	deps.sh [--check] [SET...]
# Sets: core (build, check, demo), clients (what the clients' tests run), fuzz (clang with its run-time), bench (the peers),
# lint; without one, core and clients. --check only tells, by its exit status, whether something is missing; with --list the
# packages are printed.
# Of the clients nothing is required: what cannot be had is left out, with the reason in build/clients/NAME.skip, where the
# tests find it and --check takes it for done; without --check it is tried again.
set -eu
core="build-essential pkg-config libssl-dev libcurl4-openssl-dev libnghttp2-dev libc-ares-dev libpcre2-dev libyaml-dev liblmdb-dev libseccomp-dev libcmocka-dev
 libjansson-dev zlib1g-dev libbrotli-dev libzstd-dev libidn2-dev libpsl-dev nginx-light fcgiwrap git curl nghttp2-client python3 python3-h2 python3-brotli python3-zstandard python3-jsonschema python3-yaml libnss3-tools openssl ca-certificates iproute2 procps util-linux passwd"
bench="haproxy squid-openssl"
lint="cppcheck mandoc"
fuzz() { # the sanitizers' run-time is a package of its own, named by the version that `clang` stands for
	local v
	v=$(apt-cache depends clang 2>/dev/null | sed -n 's/^ *Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)
	echo "clang ${v:+libclang-rt-$v-dev}"
}
clients() { # toolchains from anywhere on the PATH; without one, the distribution's
	echo "libnginx-mod-http-brotli-filter wget python3-requests python3-httpx python3-grpcio python3-websockets python3-pip redis-server openssh-client tinyproxy gnutls-bin squid-openssl chromium firefox-esr skopeo gh awscli python3-boto3"
	command -v npm >/dev/null 2>&1 || echo npm
	command -v go >/dev/null 2>&1 || echo golang-go
	command -v java >/dev/null 2>&1 || echo default-jdk-headless
	# cargo before 1.68 knows no sparse registries: Debian 12's is no use
	command -v cargo >/dev/null 2>&1 || [ "$(sed -n 's/^VERSION_ID="*\([0-9]*\).*/\1/p' /etc/os-release)" = 12 ] || echo cargo
}
unbuilt() { # client programs that are older than their sources, or not there without a reason
	local p made from
	for p in go connect grpc h2spec rust undici sdk; do
		case $p in undici) made=$out/node_modules/undici/package.json from=$src/node ;; sdk) made=$out/sdk/made from=$src/python ;; h2spec) made=$out/h2spec from=$src/h2spec ;; *) made=$out/$p-client from=$src/$p ;; esac
		[ $mode = install ] || [ ! -e "$out/$p.skip" ] || made=$out/$p.skip
		if [ ! -e "$made" ] || [ -n "$(find "$from" -type f -newer "$made")" ]; then echo "$p"; fi
	done
}
make_go() {
	command -v go >/dev/null 2>&1 || { echo "go is not installed"; return 1; }
	(cd "$src/go" && CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-mod=readonly go build -trimpath -o "$out/go-client" .) && touch "$out/go-client"
}
make_connect() {
	command -v go >/dev/null 2>&1 || { echo "go is not installed"; return 1; }
	(cd "$src/connect" && CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-mod=readonly go build -trimpath -o "$out/connect-client" .) && touch "$out/connect-client"
}
make_grpc() { # at the versions of go.mod; go.sum has the hashes
	command -v go >/dev/null 2>&1 || { echo "go is not installed"; return 1; }
	(cd "$src/grpc" && CGO_ENABLED=0 GOTOOLCHAIN=local go build -mod=readonly -trimpath -o "$out/grpc-client" .) && touch "$out/grpc-client"
}
make_h2spec() { # at the versions of go.mod; go.sum has the hashes
	command -v go >/dev/null 2>&1 || { echo "go is not installed"; return 1; }
	(cd "$src/h2spec" && CGO_ENABLED=0 GOTOOLCHAIN=local go build -mod=readonly -trimpath -o "$out/h2spec" github.com/summerwind/h2spec/cmd/h2spec) && touch "$out/h2spec"
}
make_rust() { # the crates that cargo chose are those of crates.txt, or nothing is built
	command -v cargo >/dev/null 2>&1 || { echo "there is no cargo with sparse registries (1.68)"; return 1; }
	rm -rf "$out/rust"
	cp -r "$src/rust" "$out/rust"
	(cd "$out/rust" && cargo generate-lockfile && cargo tree --locked --prefix none -e normal,build >tree && python3 pins.py &&
		cargo build --locked --release --target-dir target && cp target/release/client "$out/rust-client") || return 1
	rm -rf "$out/rust"
	touch "$out/rust-client"
}
make_undici() { # the lock file has the hashes; npm refuses what does not match
	command -v npm >/dev/null 2>&1 || { echo "npm is not installed"; return 1; }
	cp "$src/node/package.json" "$src/node/package-lock.json" "$out/" && (cd "$out" && npm ci --ignore-scripts --no-audit --no-fund --fetch-retries=1) && touch "$out/node_modules/undici/package.json"
}
make_sdk() { # wheels alone, each by its hash
	python3 -m pip --version >/dev/null 2>&1 || { echo "there is no pip"; return 1; }
	rm -rf "$out/sdk"
	python3 -m pip install -q --disable-pip-version-check --no-deps --only-binary :all: --require-hashes --target "$out/sdk" -r "$src/python/requirements.txt" && touch "$out/sdk/made"
}
mode=install sets=
for a in "$@"; do
	case $a in
	--check) mode=check ;;
	--list) mode=list ;;
	core | clients | fuzz | bench | lint) sets="$sets $a" ;;
	*) echo "usage: deps.sh [--check|--list] [core|clients|fuzz|bench|lint]..." >&2; exit 2 ;;
	esac
done
: "${sets:=core clients}"
cd "$(dirname "$0")/.."
out=$PWD/build/clients
src=$PWD/tests/clients
wanted= extra=
for s in $sets; do
	case $s in
	core)
		wanted="$wanted $core"
		command -v node >/dev/null 2>&1 || wanted="$wanted nodejs" # any Node will do
		;;
	clients) extra=$(clients) ;;
	fuzz) wanted="$wanted $(fuzz)" ;;
	bench) wanted="$wanted $bench" ;;
	lint) wanted="$wanted $lint" ;;
	esac
done
if [ $mode = list ]; then
	# shellcheck disable=SC2086
	printf '%s\n' $wanted $extra
	exit 0
fi
if ! command -v dpkg-query >/dev/null 2>&1; then
	[ $mode = check ] && exit 0 # not our distribution: make will tell what it does not find
	echo "deps: this is no Debian; what is needed goes by these names there:" $wanted $extra >&2
	exit 1
fi
absent() { # PACKAGE...: those that are not installed
	local present p
	[ $# -gt 0 ] || return 0
	present=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p') || true
	for p in "$@"; do
		grep -qxF -- "$p" <<<"$present" || printf ' %s' "$p"
	done
}
# shellcheck disable=SC2086
missing=$(absent $wanted)
# shellcheck disable=SC2086
more=$(absent $extra)
[ $mode = install ] || [ "$more" != "$(cat "$out/packages.skip" 2>/dev/null)" ] || more= # tried before
programs=
case " $sets " in *" clients "*) programs=$(unbuilt) ;; esac
if [ $mode = check ]; then
	[ -z "$missing$more$programs" ]
	exit
fi
if [ -z "$missing$more$programs" ]; then
	echo "deps: nothing is missing"
	exit 0
fi
updated=
install_packages() { # PACKAGE...
	local sudo=
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null 2>&1 || { echo "deps: not root, and there is no sudo; as root: apt-get install $*" >&2; return 1; }
		sudo="sudo --preserve-env=DEBIAN_FRONTEND"
	fi
	echo "deps: installing the distribution's packages: $*"
	export DEBIAN_FRONTEND=noninteractive
	[ -n "$updated" ] || $sudo apt-get update -qq || echo "deps: the package lists could not be refreshed; trying with those that are here" >&2
	updated=1
	$sudo apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
if [ -n "$missing" ]; then
	# shellcheck disable=SC2086
	install_packages $missing || { echo "deps: the packages could not be installed (see above)" >&2; exit 1; }
fi
if [ -n "$more" ]; then
	mkdir -p "$out"
	# shellcheck disable=SC2086
	if ! install_packages $more; then
		for p in $more; do install_packages "$p" || echo "deps: without $p some tests of clients will be skipped" >&2; done
	fi
	# shellcheck disable=SC2086
	absent $extra >"$out/packages.skip"
	programs=$(unbuilt)
fi
for p in $programs; do
	mkdir -p "$out"
	rm -f "$out/$p.skip"
	echo "deps: making the client $p"
	if ! "make_$p" >"$out/$p.log" 2>&1; then
		(grep -v '^[[:space:]]*$' "$out/$p.log" || echo "it cannot be made") | tail -n 1 >"$out/$p.skip"
		echo "deps: its tests will be skipped: $(cat "$out/$p.skip") (more in $out/$p.log)" >&2
	fi
done
echo "deps: done"
