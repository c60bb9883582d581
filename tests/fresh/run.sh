#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The first command on a fresh machine: run.sh SUITE [COMMAND...] makes a minimal root of that Debian release (debootstrap, from
# the mirror that this machine uses), puts a clean checkout of HEAD and `make` into it, and nothing else, and runs COMMAND there
# (`make demo && make check`), in mount and pid namespaces of its own: pivot_root, since user namespaces fail under chroot.
# As root. FRESH_DIR (default /var/tmp/sallyport-fresh) holds the roots; one that is there is used again only with KEEP=1.
set -eu
suite=${1:?usage: run.sh SUITE [COMMAND...]}
shift
[ $# -gt 0 ] || set -- make demo '&&' make check
top=$(cd "$(dirname "$0")/../.." && pwd)
root=${FRESH_DIR:-/var/tmp/sallyport-fresh}/$suite
[ "$(id -u)" -eq 0 ] || { echo "fresh: a root file system is made by root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "fresh: debootstrap is not installed" >&2; exit 1; }
if [ ! -e "$root/.made" ] || [ -z "${KEEP:-}" ]; then
	rm -rf "$root"
	mkdir -p "$root"
	debootstrap --variant=minbase --include=make "$suite" "$root" ${FRESH_MIRROR:+"$FRESH_MIRROR"} >"$root.log" 2>&1 || { tail -n 5 "$root.log" >&2; exit 1; }
	touch "$root/.made"
fi
rm -rf "$root/src"
mkdir -p "$root/src"
git -C "$top" -c tar.umask=0022 archive HEAD | tar -x -C "$root/src"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
echo "$*" >"$root/command"
cat >"$root/inside" <<'I'
set -eu
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mkdir -p old proc sys dev run tmp
mount --rbind /dev dev
mount --rbind /sys sys
mount -t proc proc proc
mount -t tmpfs tmpfs run
pivot_root . old
cd /src
umount -l /old
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TMPDIR=/tmp
exec bash -c "$(cat /command)"
I
exec env -i TERM="${TERM:-dumb}" PATH="$PATH" unshare --mount --pid --fork --kill-child bash "$root/inside" "$root"
