#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Package managers against registries of our own, with packages made here; with proxy variables and with all of them unset.
# Each checks by itself, by hash, that a package of some MB came whole; the installed files are compared besides.
NAME=clients-packages
. "$(dirname "$0")/../clients/lib.sh"
can_run
has_npm= cargo=
use_tool npm && use_tool node && has_npm=1
# rustup's shim would look for its toolchain in a home that is empty inside
at=$(HOME=$HOME_WAS PATH=$PATH_WAS rustc --print sysroot 2>/dev/null) && [ -x "$at/bin/cargo" ] && cargo=$at/bin/cargo
if [ -n "$cargo" ]; then
	case $at in /usr | /usr/* | /opt/*) ;; *) READ+=("$at") ;; esac
fi
client_pki
start_origin
write_client_policy
write_unset
head -c 3000000 /dev/urandom >"$T/blob"
BLOB=$(sha "$T/blob")

make_wheel() { # a wheel and its simple index (PEP 503), by hand
	mkdir -p "$SITE/pypi.test/simple/spdemo" "$SITE/pypi.test/files"
	python3 - "$T/blob" "$SITE/pypi.test/files/spdemo-1.0-py3-none-any.whl" <<'P'
import base64, hashlib, sys, zipfile
blob = open(sys.argv[1], "rb").read()
files = {"spdemo/__init__.py": b"here = 'spdemo 1.0'\n", "spdemo/blob": blob,
         "spdemo-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: spdemo\nVersion: 1.0\n",
         "spdemo-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
record = ""
with zipfile.ZipFile(sys.argv[2], "w") as z:
    for n, b in files.items():
        z.writestr(n, b)
        record += f"{n},sha256={base64.urlsafe_b64encode(hashlib.sha256(b).digest()).rstrip(b'=').decode()},{len(b)}\n"
    z.writestr("spdemo-1.0.dist-info/RECORD", record + "spdemo-1.0.dist-info/RECORD,,\n")
P
	echo "<!DOCTYPE html><html><body><a href=\"/files/spdemo-1.0-py3-none-any.whl#sha256=$(sha "$SITE/pypi.test/files/spdemo-1.0-py3-none-any.whl")\">spdemo-1.0-py3-none-any.whl</a></body></html>" \
		>"$SITE/pypi.test/simple/spdemo/index.html"
	mkdir -p "$SITE/pypi.test/simple/spblocked"
	sed 's/spdemo/spblocked/g' "$SITE/pypi.test/simple/spdemo/index.html" >"$SITE/pypi.test/simple/spblocked/index.html"
}
try_pip() {
	local mode=$1
	fresh_log
	rm -rf "$WORK/pip"
	via "$mode" sh -c '
		python3 -m pip install -q --no-cache-dir --target pip --index-url https://pypi.test/simple/ spdemo && PYTHONPATH=pip python3 -c "import spdemo; print(spdemo.here)"
		python3 -m pip install --no-cache-dir --target pip2 --index-url https://pypi.test/simple/ spblocked
		python3 -m pip install -vv --no-cache-dir --target pip2 --index-url https://pypi.test/simple/ spdenied 2>&1 | grep simple/spdenied' >"$T/out" 2>&1
	has "pip, $mode: installed" "$T/out" "spdemo 1.0"
	check "pip, $mode: 3 MB arrive whole" test "$(sha "$WORK/pip/spdemo/blob")" = "$BLOB"
	logged "pip, $mode: the index sees the credential" "GET /simple/spdemo/ " "status=200 auth=$(basic) " "ua=pip/"
	logged "pip, $mode: the files host too" "GET /files/spdemo-1.0-py3-none-any.whl " "status=200 auth=$(basic) "
	has "pip, $mode: the refusal of a file is readable" "$T/out" "403 Client Error: sallyport policy_denied for url: https://pypi.test/files/spblocked"
	has "pip, $mode: the refusal of a page is readable under -vv" "$T/out" "403 Client Error: sallyport policy_denied for url: https://pypi.test/simple/spdenied/"
	hasnt "pip, $mode: no secret inside" "$T/out" "$SECRET"
}

make_npm() { # packages of npm's own making, and a registry of static files
	local name
	for name in @sp/demo spplain; do
		mkdir -p "$T/npm/$name" "$SITE/npm.test/$name/-" "$(dirname "$SITE/npm.test/packument/$name")"
		cp "$T/blob" "$T/npm/$name/blob"
		echo "{ \"name\": \"$name\", \"version\": \"1.0.0\", \"main\": \"index.js\" }" >"$T/npm/$name/package.json"
		echo "module.exports = '$name 1.0.0'" >"$T/npm/$name/index.js"
		(cd "$T/npm/$name" && npm pack --silent --pack-destination "$SITE/npm.test/$name/-") >"$T/npm.log" 2>&1 || return 1
		python3 - "$name" "$SITE/npm.test" <<'P' || return 1
import base64, glob, hashlib, json, os, sys
name, site = sys.argv[1:]
tarball = glob.glob(f"{site}/{name}/-/*.tgz")[0]
b = open(tarball, "rb").read()
v = {"name": name, "version": "1.0.0", "main": "index.js", "dist": {"tarball": f"https://npm.test/{name}/-/{os.path.basename(tarball)}",
     "shasum": hashlib.sha1(b).hexdigest(), "integrity": "sha512-" + base64.b64encode(hashlib.sha512(b).digest()).decode()}}
json.dump({"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": v}}, open(f"{site}/packument/{name}.json", "w"))
P
	done
	mkdir -p "$WORK/publish"
	cp "$T/blob" "$T/npm/spplain/index.js" "$WORK/publish/"
	echo '{ "name": "@sp/publish", "version": "1.0.0", "main": "index.js" }' >"$WORK/publish/package.json"
}
try_npm() {
	local mode=$1 packed
	fresh_log
	rm -rf "$WORK/npm"
	mkdir "$WORK/npm"
	echo '{ "name": "user", "version": "1.0.0", "private": true }' >"$WORK/npm/package.json"
	printf 'registry=https://npm.test/\n//npm.test/:_authToken=placeholder\nupdate-notifier=false\nfetch-retries=0\n' | tee "$WORK/npm/.npmrc" >"$WORK/publish/.npmrc"
	via "$mode" sh -c '
		cd npm
		npm install --audit=true --no-fund @sp/demo spplain && node -e "console.log(require(\"@sp/demo\"), require(\"spplain\"))"
		npm view spdenied
		cd ../publish && npm pack --silent --pack-destination ../npm && npm publish --silent --access public && echo published' >"$T/out" 2>&1
	packed=$(sha "$WORK/npm/sp-publish-1.0.0.tgz")
	has "npm install, $mode" "$T/out" "@sp/demo 1.0.0 spplain 1.0.0"
	check "npm install, $mode: 3 MB arrive whole" test "$(sha "$WORK/npm/node_modules/@sp/demo/blob")" = "$BLOB"
	logged "npm install, $mode: a scoped name keeps its encoded slash, and the registry sees the credential" "GET /@sp%2fdemo " "status=200 auth=Bearer $SECRET "
	logged "npm install, $mode: tarballs too" "GET /spplain/-/spplain-1.0.0.tgz " "status=200 auth=Bearer $SECRET "
	logged "npm audit, $mode: compressed content passes" "POST /-/npm/v1/security/" "status=201" "ce=gzip"
	has "npm, $mode: the refusal is readable" "$T/out" "403 sallyport policy_denied"
	has "npm publish, $mode" "$T/out" "published"
	check "npm publish, $mode: 3 MB are sent whole" grep -q "^npm.test PUT /@sp.*publish [0-9]* [0-9a-f]* $packed\$" "$T/uploads"
	hasnt "npm, $mode: no secret inside" "$T/out" "$SECRET"
}

make_apt() { # twelve small packages and a large one, in a repository with dists; as much again below a prefix that is denied
	local n dir=$SITE/apt.test/debian
	mkdir -p "$dir/pool" "$dir/dists/stable/main/binary-$ARCH"
	for n in $(seq 12) big; do
		mkdir -p "$T/deb/p$n/DEBIAN" "$T/deb/p$n/usr/share/sp"
		printf 'Package: sp%s\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@t.invalid>\nDescription: test\n' "$n" >"$T/deb/p$n/DEBIAN/control"
		if [ "$n" = big ]; then cp "$T/blob" "$T/deb/p$n/usr/share/sp/blob"; else echo "$n" >"$T/deb/p$n/usr/share/sp/$n"; fi
		dpkg-deb --root-owner-group -Znone --build "$T/deb/p$n" "$dir/pool/sp${n}_1.0_all.deb" >>"$T/deb.log" 2>&1 || return 1
		{
			cat "$T/deb/p$n/DEBIAN/control"
			printf 'Filename: pool/sp%s_1.0_all.deb\nSize: %s\nSHA256: %s\n\n' "$n" "$(stat -c %s "$dir/pool/sp${n}_1.0_all.deb")" "$(sha "$dir/pool/sp${n}_1.0_all.deb")"
		} >>"$dir/dists/stable/main/binary-$ARCH/Packages"
	done
	(
		cd "$dir/dists/stable" || exit 1
		printf 'Origin: test\nSuite: stable\nCodename: stable\nArchitectures: %s\nComponents: main\nDate: %s\nSHA256:\n' "$ARCH" "$(LC_ALL=C date -Ru)"
		printf ' %s %s %s\n' "$(sha "main/binary-$ARCH/Packages")" "$(stat -c %s "main/binary-$ARCH/Packages")" "main/binary-$ARCH/Packages"
	) >"$T/Release"
	mv "$T/Release" "$dir/dists/stable/Release"
}
try_apt() { # MODE SCHEME. Unpacking is left to dpkg-deb: dpkg gives files to root, which a sandbox of one user has not
	local mode=$1 scheme=$2 c="apt over $2, $1" d n
	fresh_log
	rm -rf "$WORK/apt"
	for d in state/lists/partial cache/archives/partial etc parts down log; do mkdir -p "$WORK/apt/$d"; done
	: >"$WORK/apt/status"
	echo "deb [trusted=yes arch=$ARCH] $scheme://apt.test/debian stable main" >"$WORK/apt/etc/good.list"
	echo "deb [trusted=yes arch=$ARCH] $scheme://apt.test/denied stable main" >"$WORK/apt/etc/denied.list"
	cat >"$WORK/apt/conf" <<A
Dir::State "$WORK/apt/state"; Dir::State::status "$WORK/apt/status"; Dir::Cache "$WORK/apt/cache"; Dir::Log "$WORK/apt/log";
Dir::Etc::main "-"; Dir::Etc::parts "$WORK/apt/parts"; Dir::Etc::sourceparts "$WORK/apt/parts"; Dir::Etc::trustedparts "/etc/apt/trusted.gpg.d";
APT::Sandbox::User ""; Acquire::Languages "none"; Acquire::Retries "0"; APT::Architecture "$ARCH"; APT::Architectures { "$ARCH"; }
A
	via "$mode" sh -c "
		export APT_CONFIG=$WORK/apt/conf DEBIAN_FRONTEND=noninteractive
		apt-get -q -o Dir::Etc::sourcelist=$WORK/apt/etc/good.list update && apt-get -q -o Dir::Etc::sourcelist=$WORK/apt/etc/good.list update && echo updated twice
		cd apt/down && apt-get -q -o Dir::Etc::sourcelist=$WORK/apt/etc/good.list download \$(seq -f sp%g 12) && echo downloaded
		apt-get -q -y -o Dir::Etc::sourcelist=$WORK/apt/etc/good.list --download-only install spbig && echo fetched for install && dpkg-deb -x $WORK/apt/cache/archives/spbig_1.0_all.deb $WORK/apt/root
		apt-get -q -o Dir::Etc::sourcelist=$WORK/apt/etc/denied.list update" >"$T/out" 2>&1
	has "$c: updated" "$T/out" "updated twice"
	logged "$c: the second update asks whether anything changed" "GET /debian/dists/stable/Release " "status=304"
	has "$c: twelve packages" "$T/out" "downloaded"
	n=$(cd "$SITE/apt.test/debian/pool" && sha256sum sp[0-9]*.deb | (cd "$WORK/apt/down" && sha256sum -c --status 2>&1) && echo same)
	check "$c: they arrive whole" test "$n" = same
	has "$c: fetched for install" "$T/out" "fetched for install"
	check "$c: 3 MB arrive whole" test "$(sha "$WORK/apt/root/usr/share/sp/blob")" = "$BLOB"
	has "$c: the refusal is readable" "$T/out" "403  sallyport policy_denied"
	if [ "$scheme" = https ]; then
		logged "$c: the repository sees the credential" "GET /debian/pool/spbig_1.0_all.deb " "status=200 auth=$(basic) "
	else
		check "$c: no credential goes over http" bash -c '! grep -q "auth=[^-]" "$1"' - "$T/ngx/access.log"
	fi
	hasnt "$c: no secret inside" "$T/out" "$SECRET"
}

make_cargo() { # a crate and a sparse index
	local dir=$SITE/cargo.test
	mkdir -p "$T/crate/spcrate-1.0.0/src" "$dir/index/sp/cr" "$dir/dl/spcrate/1.0.0"
	printf '[package]\nname = "spcrate"\nversion = "1.0.0"\nedition = "2021"\n' >"$T/crate/spcrate-1.0.0/Cargo.toml"
	echo 'pub const HERE: &str = "spcrate 1.0.0";' >"$T/crate/spcrate-1.0.0/src/lib.rs"
	cp "$T/blob" "$T/crate/spcrate-1.0.0/blob"
	tar -C "$T/crate" -czf "$dir/dl/spcrate/1.0.0/download" spcrate-1.0.0
	echo '{"dl":"https://cargo.test/dl/{crate}/{version}/download"}' >"$dir/index/config.json"
	echo "{\"name\":\"spcrate\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"$(sha "$dir/dl/spcrate/1.0.0/download")\",\"features\":{},\"yanked\":false}" >"$dir/index/sp/cr/spcrate"
}
try_cargo() {
	local mode=$1 dep
	fresh_log
	rm -rf "$WORK/cargo"
	for dep in spcrate spdenied; do
		mkdir -p "$WORK/cargo/$dep/src"
		printf '[package]\nname = "user"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\n%s = { version = "1", registry = "own" }\n' $dep >"$WORK/cargo/$dep/Cargo.toml"
		: >"$WORK/cargo/$dep/src/lib.rs"
	done
	via "$mode" env PATH="$(dirname "$cargo"):$PATH" CARGO_HOME="$WORK/cargo/home" CARGO_REGISTRIES_OWN_INDEX=sparse+https://cargo.test/index/ CARGO_NET_RETRY=0 sh -c '
		(cd cargo/spcrate && cargo fetch && cargo update && echo fetched)
		(cd cargo/spdenied && cargo fetch)' >"$T/out" 2>&1
	has "cargo, $mode: fetched" "$T/out" "fetched"
	check "cargo, $mode: 3 MB arrive whole" test "$(sha "$WORK"/cargo/home/registry/src/*/spcrate-1.0.0/blob)" = "$BLOB"
	logged "cargo, $mode: the index sees the credential" "GET /index/sp/cr/spcrate " "status=200 auth=Bearer $SECRET "
	logged "cargo, $mode: the crates' host too" "GET /dl/spcrate/1.0.0/download " "status=200 auth=Bearer $SECRET "
	has "cargo, $mode: the refusal is readable" "$T/out" "policy_denied"
	hasnt "cargo, $mode: no secret inside" "$T/out" "$SECRET"
}

do_pip= do_npm= do_apt= do_cargo=
if python3 -m pip --version >/dev/null 2>&1; then do_pip=1 && make_wheel; else skip "pip: python3-pip is not installed"; fi
if [ -z "$has_npm" ]; then missing npm; elif make_npm; then do_npm=1; else not_ok "npm pack" "$(cat "$T/npm.log")"; fi
if ! command -v apt-get >/dev/null 2>&1; then skip "apt: this is no Debian"; else
	ARCH=$(dpkg --print-architecture)
	if make_apt; then do_apt=1; else not_ok "dpkg-deb" "$(cat "$T/deb.log")"; fi
fi
if [ -z "$cargo" ]; then missing cargo
elif ! "$cargo" --version | awk '{split($2, v, "."); exit !(v[1] > 1 || v[2] >= 68)}'; then skip "cargo: $("$cargo" --version) knows no sparse registries"
else do_cargo=1 && make_cargo; fi
for mode in proxy transparent; do
	[ -z "$do_pip" ] || try_pip $mode
	[ -z "$do_npm" ] || try_npm $mode
	[ -z "$do_apt" ] || try_apt $mode http
	[ -z "$do_apt" ] || try_apt $mode https
	[ -z "$do_cargo" ] || try_cargo $mode
done
check_done
