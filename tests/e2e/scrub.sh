#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Echoes of a secret, in every form, every coding and every cut, from real and hostile origins, over both versions on both
# sides: all that the sandbox receives is kept and searched (coded.py).
NAME=scrub
. "$(dirname "$0")/lib.sh"
can_run
HERE=$(cd "$(dirname "$0")" && pwd)
SECRET='planted/7Qz+Yb2~Lk9w?Xv4&Rm8' # of characters that encodings treat differently
make_pki "DNS:h1.test,DNS:h2.test,DNS:other.test,DNS:ngx.test"
H1=$(free_port) H2=$(free_port) NGX=$(free_port)
python3 "$HERE/coded.py" serve "$H1" "$H2" "$T/up.pem" "$T/up.key" "$T/origin.log" 2>"$T/origin.err" &
PIDS+=($!)
for p in "$H1" "$H2"; do wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$p" || { not_ok "the origin starts" "$(cat "$T/origin.err")"; exit 1; }; done
codings=$(sed -n 's/^codings //p' "$T/origin.log")
for c in br zstd; do case " $codings " in *" $c "*) ;; *) skip "no $c in this machine's Python" ;; esac; done
mkdir -p "$T/ngx"
brotli=/usr/lib/nginx/modules/ngx_http_brotli_filter_module.so
[ -e $brotli ] || skip "nginx has no brotli here"
cat >"$T/ngx/conf" <<C
daemon off; master_process off; pid $T/ngx/pid; error_log $T/ngx/err.log;
$([ ! -e $brotli ] || echo "load_module $brotli;")
events { worker_connections 512; }
http {
	client_body_temp_path $T/ngx/b; proxy_temp_path $T/ngx/p; fastcgi_temp_path $T/ngx/f; uwsgi_temp_path $T/ngx/u; scgi_temp_path $T/ngx/s;
	log_format ae '\$request_uri ae=\$http_accept_encoding sent=\$sent_http_content_encoding'; access_log $T/ngx/access.log ae;
	gzip on; gzip_min_length 1; gzip_types text/plain;
	$([ ! -e $brotli ] || echo "brotli on; brotli_min_length 1; brotli_types text/plain;")
	server { listen 127.0.0.1:$NGX ssl http2; ssl_certificate $T/up.pem; ssl_certificate_key $T/up.key;
		location / { default_type text/plain; add_header X-Saw \$http_authorization; return 200 "hello hello hello, you sent \$http_authorization, hello hello\n"; } }
}
C
nginx -c "$T/ngx/conf" -e "$T/ngx/err.log" >"$T/ngx/out" 2>&1 &
PIDS+=($!)
wait_for 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$NGX" || { not_ok "nginx starts" "$(cat "$T/ngx/out" "$T/ngx/err.log")"; exit 1; }
dest() { # host, port, inject or nothing
	printf '  - host: %s\n    connect: 127.0.0.1:%s\n    addresses: [127.0.0.0/8]\n    tls: { ca: ./upca.pem }\n    allow: [ GET /v1/** ]\n' "$1" "$2"
	[ -z "${3:-}" ] || printf '    inject: [ { secret: api, as: bearer, env: API_TOKEN } ]\n'
}
{
	printf 'version: 1\nname: scrub\nsecrets:\n  api: { env: E2E_SECRET, hosts: [h1.test, h2.test, ngx.test] }\ndestinations:\n'
	dest h1.test "$H1" inject; dest h2.test "$H2" inject; dest ngx.test "$NGX" inject; dest other.test "$H1"
} >"$WORK/policy.yaml"
cat >"$WORK/inside.sh" <<P
mkdir got
get() { # name, curl arguments...: head and content are kept; how curl ended
	name=\$1; shift; : >"got/\$name"
	curl -sS -m 60 --suppress-connect-headers --raw -i -o got/\$name -w '%{http_code}' "\$@" >got/\$name.code 2>got/\$name.err
	echo "\$name exit=\$? status=\$(cat got/\$name.code) \$(cat got/\$name.err)"
}
for up in h1 h2; do for v in http1.1 http2; do
	for c in $codings; do
		get \$v-\$up-\$c --\$v -H 'Accept-Encoding: gzip, deflate, br, zstd' "https://\$up.test/v1/forms?coding=\$c"
		get \$v-\$up-\$c-1 --\$v -H 'Accept-Encoding: gzip, deflate, br, zstd' "https://\$up.test/v1/forms?coding=\$c&step=1"
		get \$v-\$up-\$c-cut --\$v "https://\$up.test/v1/pieces?coding=\$c&step=3"
		get \$v-\$up-\$c-head --\$v -I "https://\$up.test/v1/forms?coding=\$c"
	done
	get \$v-\$up-plain --\$v "https://\$up.test/v1/forms?step=7"
	get \$v-\$up-plain-1 --\$v "https://\$up.test/v1/forms?step=1"
	get \$v-\$up-fields --\$v https://\$up.test/v1/head
	get \$v-\$up-trailer --\$v -H 'TE: trailers' https://\$up.test/v1/trailer
	get \$v-\$up-same --\$v -H 'If-None-Match: W/"e1"' "https://\$up.test/v1/same?coding=gzip"
	get \$v-\$up-range --\$v -H 'Range: bytes=0-20' -H 'If-Range: "e1"' "https://\$up.test/v1/forms?range"
	for how in "stacked&says=gzip,gzip" "stacked&says=gzip,br" "unknown&says=compress" "unknown&says=x-secret" part; do
		get \$v-\$up-refused-\$how --\$v "https://\$up.test/v1/broken?how=\$how"
	done
	for how in cut behind false bomb; do get \$v-\$up-broken-\$how --\$v "https://\$up.test/v1/broken?how=\$how"; done
	get \$v-\$up-broken-late --\$v "https://\$up.test/v1/broken?how=behind&step=1"
	get \$v-\$up-empty --\$v "https://\$up.test/v1/broken?how=empty"
	for c in gzip br; do
		case " $codings " in *" \$c "*) ;; *) continue ;; esac
		curl -sS -m 60 --suppress-connect-headers --\$v -D got/\$v-\$up-\$c-slow.head -H 'TE: trailers' --limit-rate 40M -o slow "https://\$up.test/v1/expand?coding=\$c"
		sha256sum <slow >got/\$v-\$up-\$c-slow
	done
	for c in "" $codings; do # the next event comes only when this one was seen
		curl -sS -m 60 -N --\$v "https://\$up.test/v1/events?coding=\$c&gate=\$v\$up\$c" 2>got/\$v-\$up-\$c-events.err | while read -r line; do
			echo "\$line"
			case \$line in data:*) curl -sS -m 20 -o go "https://\$up.test/v1/go?gate=\$v\$up\$c" ;; esac
		done >got/\$v-\$up-\$c-events
	done
done; done
curl -sS -m 60 --limit-rate 40M -o slow "https://h1.test/v1/expand?coding=gzip&length=1"
sha256sum <slow >got/length-slow
get length --http1.1 "https://h1.test/v1/forms?coding=gzip&length=1"
get close --http1.1 "https://h1.test/v1/forms?coding=gzip&close=1"
get old --no-alpn --http1.0 "https://h1.test/v1/forms?coding=gzip&length=1"
get other -H 'Accept-Encoding: gzip, compress' "https://other.test/v1/forms?coding=gzip"
get other-range -H 'Range: bytes=0-20' -H 'Accept-Encoding: gzip' "https://other.test/v1/forms?range=other"
get other-none "https://other.test/v1/forms?none=other"
curl -sS -m 120 https://h1.test/v1/big | tail -c 200 >got/big
for v in http1.1 http2; do for c in gzip br; do get ngx-\$v-\$c --\$v -H "Accept-Encoding: \$c" https://ngx.test/v1/\$v/\$c; done; done
P
(cd "$WORK" && E2E_SECRET=$SECRET timeout 280 "$SP" run --quiet --policy policy.yaml -- sh inside.sh) >"$T/out" 2>&1
G=$WORK/got
# the search can find it, in each form
python3 - "$HERE" "$SECRET" "$T/planted" <<'P'
import os, sys
sys.argv[1:] = [sys.argv[1], *sys.argv[2:]]
here, secret, to = sys.argv[1:4]
src = open(here + "/coded.py").read().split("if sys.argv[1]")[0]
exec(src)
os.mkdir(to)
for f in forms(secret): open(to + "/" + f, "wb").write(around(f, secret))
print(len(forms(secret)))
P
python3 "$HERE/coded.py" search "$SECRET" "$T/planted" | cut -d' ' -f1 | sort -u >"$T/can"
[ "$(wc -l <"$T/can")" -eq "$(ls "$T/planted" | wc -l)" ] && ok "the search knows every form" || not_ok "the search knows every form" "$(cat "$T/can")"
python3 "$HERE/coded.py" search "$SECRET" "$G" >"$T/leaks"
if [ -s "$T/leaks" ]; then not_ok "UF05 J09 J10 J12 J13 no form in anything that the sandbox received" "$(cat "$T/leaks")"; else ok "UF05 J09 J10 J12 J13 no form in anything that the sandbox received"; fi
size() { tr -d '\r' <"$1" | sed '1,/^$/d' | wc -c; }
want=$(python3 -c "
import sys; exec(open('$HERE/coded.py').read().split('if sys.argv[1]')[0])
print(len(b''.join(around(f, sys.argv[1]) + b'\n' for f in forms(sys.argv[1]))))" "$SECRET")
expanded=$(python3 -c "
import hashlib, random; exec(open('$HERE/coded.py').read().split('if sys.argv[1]')[0])
print(hashlib.sha256(expanded()).hexdigest())")
for up in h1 h2; do for v in http1.1 http2; do
	bad= n=0
	for c in $codings; do
		for f in "$G/$v-$up-$c" "$G/$v-$up-$c-1"; do
			tr -d '\r' <"$f" >"$T/one"
			grep -qiE '^(content-encoding|content-length|content-digest|repr-digest|digest|content-md5):' "$T/one" && bad="$bad $f:field"
			grep -qi '^etag: W/"e1"' "$T/one" || bad="$bad $f:etag"
			grep -qi '^vary: Accept-Encoding' "$T/one" || bad="$bad $f:vary"
			[ "$(grep -c 'you sent' "$T/one")" -ge 20 ] || bad="$bad $f:lines"
			[ $v = http1.1 ] || [ "$(size "$f")" -eq "$want" ] || bad="$bad $f:$(size "$f")/$want"
			n=$((n + 1))
		done
		tr -d '\r' <"$G/$v-$up-$c-head" >"$T/one"
		grep -qiE '^(content-encoding|content-length):' "$T/one" && bad="$bad HEAD-$c"
		grep -qi '^etag: W/"e1"' "$T/one" || bad="$bad HEAD-$c:etag"
	done
	[ -z "$bad" ] && [ $n -ge 6 ] && ok "J13 $v to $up: decoded content, without the fields of the coded one, as long as it was" || not_ok "J13 $v to $up: decoded content" "$bad" "$(head -c 600 "$G/$v-$up-gzip")"
	has "J13 $v to $up: filler stands there" "$G/$v-$up-gzip" '{"you sent":"****************************","and":"\n"}'
	has "J09 $v to $up: in base64 it is of base64" "$G/$v-$up-plain" 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'
	has "J09 $v to $up: fields" "$G/$v-$up-fields" "****"
	has "J13 $v to $up: 304 passes" "$T/out" "$v-$up-same exit=0 status=304"
	bad=
	for how in "stacked&says=gzip,gzip" "stacked&says=gzip,br" "unknown&says=compress" "unknown&says=x-secret" part; do
		grep -qF "$v-$up-refused-$how exit=0 status=502" "$T/out" && grep -q upstream_protocol "$G/$v-$up-refused-$how" && grep -q 'looked through for credentials' "$G/$v-$up-refused-$how" || bad="$bad $how"
	done
	[ -z "$bad" ] && ok "J13 $v to $up: what cannot be decoded is refused" || not_ok "J13 $v to $up: what cannot be decoded is refused" "$bad" "$(grep refused "$T/out")"
	bad=
	for how in cut behind false bomb late; do
		grep -qE -- "^$v-$up-broken-$how exit=(18|56|92) " "$T/out" || grep -q -- "^$v-$up-broken-$how exit=0 status=502" "$T/out" || bad="$bad $how"
		[ "$(wc -c <"$G/$v-$up-broken-$how")" -lt 18000000 ] || bad="$bad $how:large"
	done
	[ -z "$bad" ] && ok "D20 $v to $up: damaged content and bombs are broken off so that the client notices" || not_ok "D20 $v to $up: broken off" "$bad" "$(grep broken "$T/out")"
	has "$v to $up: no content, no coding" "$T/out" "$v-$up-empty exit=0 status=200"
	bad=
	for c in gzip br; do
		case " $codings " in *" $c "*) ;; *) continue ;; esac
		[ "$(cut -d' ' -f1 "$G/$v-$up-$c-slow")" = "$expanded" ] && grep -qi '^x-sum: 1' "$G/$v-$up-$c-slow.head" && grep -qi '^x-token: \*\*\*' "$G/$v-$up-$c-slow.head" || bad="$bad $c"
	done
	[ -z "$bad" ] && ok "$v to $up: a slow client gets all of it, and the trailer" || not_ok "$v to $up: a slow client gets all of it, and the trailer" "$bad" "$(cat "$G/$v-$up-gzip-slow" "$G/$v-$up-gzip-slow.head")"
	bad=
	for c in "" $codings; do [ "$(grep -c '^data: [0-4]' "$G/$v-$up-$c-events")" -eq 5 ] || bad="$bad [$c]"; done
	[ -z "$bad" ] && ok "J11 I11 $v to $up: each event comes before the next is sent" || not_ok "J11 I11 $v to $up: each event comes before the next is sent" "$bad" "$(cat "$G/$v-$up--events" "$G/$v-$up-gzip-events")"
done; done
grep -qi '^transfer-encoding: chunked' "$G/length" && ok "a length that was the coded one's becomes chunks" || not_ok "a length that was the coded one's becomes chunks" "$(head -c 300 "$G/length")"
has "a slow client gets all of what had a length" "$G/length-slow" "$expanded"
for n in length close old other; do has "$n: whole" "$T/out" "$n exit=0 status=200"; [ "$(grep -c 'you sent' "$G/$n")" -ge 20 ] && ok "$n: all of it" || not_ok "$n: all of it" "$(head -c 800 "$G/$n")"; done
[ "$(wc -c <"$G/big")" -eq 200 ] && grep -q '"you sent":"\*\*\*\*' "$G/big" && ok "UF05 at the end of 100 MB" || not_ok "UF05 at the end of 100 MB" "$(cat "$G/big")"
grep 'v1/forms?range ' "$T/origin.log" >"$T/one"
[ "$(grep -c 'range=- if-range=-' "$T/one")" -eq 4 ] && ok "B11 J12 no range is asked of a host that is given a secret" || not_ok "B11 J12 no range" "$(cat "$T/one")"
has "B12 codings of other hosts are narrowed too" "$T/origin.log" "GET /v1/forms?coding=gzip ae=gzip range=-"
has "UA17 ranges of other hosts stay, without codings" "$T/origin.log" "GET /v1/forms?range=other ae=identity range=bytes=0-20"
has "who asked for no coding has none asked for, elsewhere" "$T/origin.log" "GET /v1/forms?none=other ae=- "
for v in http1.1 http2; do for c in gzip br; do
	[ $c = gzip ] || [ -e $brotli ] || continue
	has "nginx, $c: was coded, $v" "$T/ngx/access.log" "/v1/$v/$c ae=$c sent=$c"
	has "nginx, $c: is decoded, $v" "$G/ngx-$v-$c" "hello hello hello, you sent Bearer ****"
done; done
records >"$T/records"
has "refused codings are recorded with the reason" "$T/records" "content_coding: its content coding is none of"
has "bombs are recorded with the reason" "$T/records" "content_coding: the compressed content expands too much"
has "cut content is recorded with the reason" "$T/records" "content_coding: the compressed content is cut short"
has "what was overwritten is counted" "$T/records" '"scrubbed":'
python3 "$HERE/coded.py" search "$SECRET" "$STATE/audit" >"$T/leaks"
if [ -s "$T/leaks" ]; then not_ok "no form in the records" "$(cat "$T/leaks")"; else ok "no form in the records"; fi
# a request that gets no value itself, of a host that is given it with others: what it has kept must not come in parts
cat >"$WORK/when.yaml" <<P
version: 1
name: when
secrets: { api: { env: E2E_SECRET, hosts: [h1.test] } }
destinations:
  - host: h1.test
    connect: 127.0.0.1:$H1
    addresses: [127.0.0.0/8]
    tls: { ca: ./upca.pem }
    allow: [ { id: given, method: GET, path: /v1/head }, { id: not, method: GET, path: /v1/forms } ]
    inject: [ { secret: api, as: bearer, when: [given] } ]
P
sed 's/^name: .*/name: seen\nmode: observe\nuntil: 2099-01-01/; s/, { id: not[^}]*}//' "$WORK/when.yaml" >"$WORK/seen.yaml"
(cd "$WORK" && E2E_SECRET=$SECRET timeout 60 "$SP" run --quiet --policy when.yaml -- curl -sS -m 20 -H 'Range: bytes=0-9' "https://h1.test/v1/forms?when") >"$T/when" 2>&1
(cd "$WORK" && E2E_SECRET=$SECRET timeout 60 "$SP" run --quiet --observe --policy seen.yaml -- curl -sS -m 20 -H 'Range: bytes=0-9' "https://h1.test/v1/forms?seen") >"$T/seen" 2>&1
for n in when seen; do has "$n: no range is asked of a host that is given a secret with other requests" "$T/origin.log" "GET /v1/forms?$n ae=identity range=- "; done
# values that cannot be kept out of responses
sed 's/ports: .*//; s/^    inject:/    scrub: off\n    inject:/' "$WORK/policy.yaml" >"$WORK/off.yaml"
for s in short-7 enough-8; do (cd "$WORK" && E2E_SECRET=$s timeout 60 "$SP" run --quiet --policy policy.yaml -- curl -sS -m 20 "https://h1.test/v1/forms?$s") >"$T/$s" 2>&1; done
(cd "$WORK" && E2E_SECRET=short-7 timeout 60 "$SP" run --quiet --policy off.yaml -- curl -sS -m 20 --raw -H 'Range: bytes=0-9' -H 'Accept-Encoding: compress' "https://h1.test/v1/forms?off") >"$T/off" 2>&1
has "a value of 7 octets is not used" "$T/short-7" credential_unavailable
hasnt "nothing of it went upstream" "$T/origin.log" "forms?short-7"
records >"$T/records"
has "the record says why" "$T/records" "fewer than 8 octets"
has "one of 8 is" "$T/enough-8" '{"you sent":"********"'
has "scrub: off: the value is used, whatever its length, and comes back" "$T/off" '{"you sent":"short-7"'
has "scrub: off: the request is as it came" "$T/origin.log" "forms?off ae=compress range=bytes=0-9"
[ ! -s "$T/origin.err" ] && ok "the origin had no trouble" || not_ok "the origin had no trouble" "$(head -c 1000 "$T/origin.err")"
check_done
