#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wget, git in both directions, and large uploads as git-lfs makes them; with proxy variables and with all of them unset.
NAME=clients-transfer
. "$(dirname "$0")/../clients/lib.sh"
can_run
g() { git -c user.name=t -c user.email=t@t.invalid -c init.defaultBranch=main "$@"; }
printf '[core]\n\tbigFileThreshold = 1m\n' >"$HOME/.gitconfig" # random content: looking for deltas is a waste
git init -q --bare "$T/repo.git" && git -C "$T/repo.git" config http.receivepack true
g init -q "$T/src" && (cd "$T/src" && echo content >file && git add file && g commit -qm first && git push -q "$T/repo.git" HEAD:refs/heads/main) >"$T/git.log" 2>&1
git -C "$T/repo.git" symbolic-ref HEAD refs/heads/main
client_pki
start_origin
write_client_policy
write_unset
head -c 50000000 /dev/urandom >"$WORK/blob50"
head -c 5000000 /dev/urandom >"$WORK/blob"
DOWN=$(sha "$SITE/api.test/v1/big") UP=$(sha "$WORK/blob") UP50=$(sha "$WORK/blob50")

for mode in proxy transparent; do
	if command -v wget >/dev/null 2>&1; then
		fresh_log
		via $mode sh -c '
			wget -nv -O - "https://api.test/v1/hello?wget" 2>&1
			wget -nv -O - --method=DELETE https://api.test/v1/hello 2>&1
			wget -nv -O - --method=DELETE --content-on-error https://api.test/v1/hello 2>&1; echo
			wget -nv -O - https://elsewhere.test/ 2>&1
			wget -nv -O got-wget https://api.test/v1/big 2>&1
			wget -nv -O - --method=PUT --body-file=blob https://api.test/v1/up 2>&1' >"$T/out" 2>&1
		has "wget, $mode: allowed" "$T/out" "hello, you sent Bearer"
		has "wget, $mode: refused, in the status line" "$T/out" "ERROR 403: sallyport policy_denied"
		has "wget, $mode: refused, in the content" "$T/out" '"error":"policy_denied"'
		has "wget, $mode: refused host is explained" "$T/out" "ERROR 403: sallyport destination_denied"
		check "wget, $mode: 5 MB arrive whole" test "$(sha "$WORK/got-wget")" = "$DOWN"
		has "wget, $mode: 5 MB are sent whole" "$T/out" "$UP"
		logged "wget, $mode: the origin sees the credential" "GET /v1/hello?wget " "auth=Bearer $SECRET " "ua=Wget"
		hasnt "wget, $mode: no secret inside" "$T/out" "$SECRET"
		rm -f "$WORK/got-wget"
	else
		missing wget
	fi

	# As git-lfs uploads: one PUT, 50 MB, asking first or not; and of unknown length.
	fresh_log
	via $mode sh -c '
		curl -sS --http1.1 -m 50 -H "Expect: 100-continue" -v -T blob50 "https://api.test/v1/up?asked" 2>asked.log; echo
		curl -sS --http1.1 -m 50 -H Expect: -T blob50 "https://api.test/v1/up?plain"; echo
		curl -sS --http1.1 -m 50 -T - "https://api.test/v1/up?chunked" <blob50; echo
		curl -sS --http1.1 -m 50 -H "Expect: 100-continue" -v -T blob50 "https://api.test/v1/elsewhere" 2>refused.log' >"$T/out" 2>&1
	check "upload, $mode: three times 50 MB are sent whole" test "$(grep -cF -- "\"length\": 50000000, \"sha256\": \"$UP50\"" "$T/out")" -eq 3
	logged "upload, $mode: the origin sees the credential" "PUT /v1/up?plain " "status=201 auth=Bearer $SECRET "
	logged "upload, $mode: unknown length goes in chunks" "PUT /v1/up?chunked " "status=201" "te=chunked"
	has "upload, $mode: 100 Continue is answered" "$WORK/asked.log" "HTTP/1.1 100 Continue"
	has "upload, $mode: refused readably" "$T/out" '"error":"policy_denied"'
	hasnt "upload, $mode: refused before the content is asked for" "$WORK/refused.log" "100 Continue"

	if [ ! -S "$T/cgi.sock" ]; then
		skip "git, $mode: fcgiwrap is not installed"
		continue
	fi
	rm -rf "$WORK/clone" "$WORK/refuse"
	(cd "$T/src" && echo $mode >file && g commit -qam "before $mode" && git push -q "$T/repo.git" HEAD:refs/heads/main) >"$T/git.log" 2>&1
	fresh_log
	via $mode sh -c '
		git clone -q https://push.test/repo.git clone && cd clone && cp ../blob big && git add big &&
		git -c user.name=t -c user.email=t@t.invalid commit -qm big && git -c http.postBuffer=65536 push -q origin HEAD:refs/heads/big-'$mode >"$T/out" 2>&1
	if git -C "$T/repo.git" cat-file blob "big-$mode:big" 2>/dev/null | cmp -s - "$WORK/blob"; then ok "git push, $mode: 5 MB are there"; else not_ok "git push, $mode: 5 MB are there" "$(cat "$T/out")"; fi
	logged "git push, $mode: in chunks, with the credential" "POST /repo.git/git-receive-pack" "status=200 auth=$(basic) te=chunked"
	hasnt "git push, $mode: no secret inside" "$T/out" "$SECRET"
	# Both sides have gone on, far apart: what the clone names when it fetches is long enough for git to compress it.
	(cd "$T/src" && cp "$SITE/api.test/v1/big" big && echo $mode >>big && git add big && g commit -qm "after $mode" && git push -q "$T/repo.git" HEAD:refs/heads/main) >"$T/git.log" 2>&1
	fresh_log
	via $mode sh -c 'cd clone && i=0 && at=HEAD && while [ $i -lt 60 ]; do i=$((i+1)); at=$(git -c user.name=t -c user.email=t@t.invalid commit-tree -p $at -m $i HEAD^{tree}) || exit; done && git reset -q --soft $at && git fetch -q origin && git rev-parse origin/main' >"$T/out" 2>&1
	has "git fetch, $mode" "$T/out" "$(git -C "$T/src" rev-parse HEAD)"
	logged "git fetch, $mode: content is compressed" "POST /repo.git/git-upload-pack" "status=200" "ce=gzip"
	check "git fetch, $mode: the clone is sound" git -c safe.directory='*' -C "$WORK/clone" fsck
	via $mode sh -c 'git clone -q https://git.test/repo.git refuse && cd refuse && git push origin HEAD:refs/heads/never' >"$T/out" 2>&1
	has "git push, $mode: the refusal is readable" "$T/out" "remote: sallyport: policy_denied"
	check "git push, $mode: refused is refused" bash -c '! git -C "$1" rev-parse -q --verify refs/heads/never' - "$T/repo.git"
done
check_done
