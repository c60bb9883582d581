#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# aws s3 and boto3 against an S3 that verifies every signature (J24): signed with placeholders inside, with the real key outside.
NAME=creds-aws
. "$(dirname "$0")/creds-lib.sh"
can_run
make_pki DNS:s3.eu.test,DNS:ddb.eu.test
ID=AKIAPLANTEDPLANTED00 KEY=plantedKEY/plantedKEY+plantedKEY0plantedK SESSION=planted//session+planted==
cat >"$T/app.py" <<P
import hashlib, hmac, re, urllib.parse
ID, KEY, SESSION = "$ID", "$KEY", "$SESSION"
store, parts = {}, {}
def mac(k, s): return hmac.new(k, s.encode(), hashlib.sha256).digest()
def quote(s, safe=""): return urllib.parse.quote(s, safe=safe + "-._~")
def wrong(r): # why the signature does not hold, or None
    m = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})", r.get_header("authorization"))
    if not m: return "no signature"
    id, day, region, service, signed, sig = m.groups()
    if id != ID or r.get_header("x-amz-security-token") != SESSION: return "another key " + id
    names = signed.split(";")
    have = {}
    for k, v in r.headers: have.setdefault(k.lower(), []).append(" ".join(v.split()))
    have["host"] = [r.host]
    for n in ["host"] + [k for k in have if k.startswith("x-amz-")]:
        if n not in names: return "not signed: " + n
    path, _, query = r.path.partition("?")
    pairs = sorted((quote(urllib.parse.unquote(k)), quote(urllib.parse.unquote(v))) for k, _, v in (p.partition("=") for p in query.split("&") if p))
    payload = r.get_header("x-amz-content-sha256") or hashlib.sha256(r.body).hexdigest()
    if len(payload) == 64 and payload != hashlib.sha256(r.body).hexdigest(): return "another content"
    canonical = "\n".join([r.method, quote(urllib.parse.unquote(path), "/") if service == "s3" else quote(path, "/"), "&".join(k + "=" + v for k, v in pairs),
        "".join(n + ":" + ",".join(have[n]) + "\n" for n in names), signed, payload])
    when = r.get_header("x-amz-date")
    if when[:8] != day: return "another day"
    k = mac(mac(mac(mac(("AWS4" + KEY).encode(), day), region), service), "aws4_request")
    want = hmac.new(k, "\n".join(["AWS4-HMAC-SHA256", when, "/".join([day, region, service, "aws4_request"]), hashlib.sha256(canonical.encode()).hexdigest()]).encode(), hashlib.sha256).hexdigest()
    return None if want == sig else "SignatureDoesNotMatch " + canonical
def xml(s): return [("Content-Type", "application/xml")], ('<?xml version="1.0"?>' + s).encode()
def answer(r):
    why = wrong(r)
    print(r.method, r.path, r.get_header("x-amz-content-sha256"), why, flush=True)
    if why: return (403, *xml("<Error><Code>SignatureDoesNotMatch</Code><Message>%s</Message></Error>" % why.replace("<", " ").replace("&", " ")))
    path, _, query = r.path.partition("?"); path = urllib.parse.unquote(path); q = urllib.parse.parse_qs(query, keep_blank_values=True)
    if r.host.startswith("ddb"): return 200, [("Content-Type", "application/x-amz-json-1.0")], b'{"TableNames":["a-table"]}'
    body = r.body
    if r.get_header("x-amz-content-sha256") == "STREAMING-UNSIGNED-PAYLOAD-TRAILER":
        out, rest = b"", body
        while True:
            size, _, rest = rest.partition(b"\r\n"); n = int(size, 16)
            if n == 0: break
            out += rest[:n]; rest = rest[n + 2:]
        body = out
    if r.method == "POST" and "uploads" in q: parts[path] = {}; return (200, *xml("<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>"))
    if r.method == "PUT" and "partNumber" in q: parts[path][int(q["partNumber"][0])] = body; return 200, [("ETag", '"%s"' % hashlib.md5(body).hexdigest())], b""
    if r.method == "POST" and "uploadId" in q: store[path] = b"".join(v for _, v in sorted(parts[path].items())); return (200, *xml("<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"))
    if r.method == "PUT": store[path] = body; return 200, [("ETag", '"%s"' % hashlib.md5(body).hexdigest())], b""
    if "list-type" in q:
        bucket = path.strip("/"); keys = sorted(k[len(bucket) + 2:] for k in store if k.startswith("/" + bucket + "/" + q.get("prefix", [""])[0]))
        return (200, *xml("<ListBucketResult><IsTruncated>false</IsTruncated>" + "".join("<Contents><Key>%s</Key><Size>%d</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>" % (k.replace("&", "&amp;"), len(store["/%s/%s" % (bucket, k)])) for k in keys) + "</ListBucketResult>"))
    if path not in store: return (404, *xml("<Error><Code>NoSuchKey</Code></Error>"))
    m = re.fullmatch(r"bytes=(\d+)-(\d*)", r.get_header("range"))
    if m: # aws fetches what is large in ranges, and takes no whole for a part
        a, b, n = int(m[1]), int(m[2] or len(store[path]) - 1), len(store[path]); out = store[path][a:b + 1]
        return 206, [("ETag", '"x"'), ("Content-Range", "bytes %d-%d/%d" % (a, a + len(out) - 1, n)), ("Content-Length", str(len(out)))], out
    return 200, [("ETag", '"x"'), ("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT"), ("Content-Type", "application/octet-stream"), ("Content-Length", str(len(store[path])))], store[path]
P
cred_origin "$T/app.py"
cat >"$WORK/policy.yaml" <<P
version: 1
name: aws
secrets:
  aws: { env: AWS_REAL, hosts: [s3.eu.test, ddb.eu.test] }
destinations:
$(dest s3.eu.test ', alpn: [http/1.1]')
    allow: [ "GET /bucket", "GET /bucket/**", "PUT /bucket/**", "POST /bucket/**" ]
    inject: [ { secret: aws, as: sigv4, service: s3, region: eu-west-1, env: true } ]
$(dest ddb.eu.test)
    allow: [ POST / ]
    inject: [ { secret: aws, as: sigv4, service: dynamodb, region: eu-west-1 } ]
sandbox:
  process: { environment: { set: { AWS_DEFAULT_REGION: eu-west-1, AWS_EC2_METADATA_DISABLED: "true" } } }
P
head -c 20000000 /dev/urandom >"$WORK/large"
head -c 3000 /dev/urandom >"$WORK/small"
cat >"$WORK/aws.sh" <<'S'
a() { aws --endpoint-url https://s3.eu.test --cli-read-timeout 30 "$@" 2>&1; }
echo "keys $AWS_ACCESS_KEY_ID $AWS_SECRET_ACCESS_KEY $AWS_SESSION_TOKEN"
a s3 cp --no-progress small s3://bucket/out/small
a s3 cp --no-progress "small" "s3://bucket/out/a b+c&d=é~(1).txt"
a s3 cp --no-progress large s3://bucket/out/large
a s3 ls s3://bucket/out/
a s3 cp --no-progress s3://bucket/out/large back && cmp back large && echo large is whole
a s3 cp --no-progress "s3://bucket/out/a b+c&d=é~(1).txt" back2 && cmp back2 small && echo odd is whole
a s3 cp --no-progress s3://bucket/none back3
curl -sS "$(a s3 presign s3://bucket/out/small)"; echo
S
cat >"$WORK/boto.py" <<'P'
import boto3, botocore.config, io, os, urllib.request, json
def client(**k): return boto3.client("s3", endpoint_url="https://s3.eu.test", config=botocore.config.Config(s3={"addressing_style": "path", **k}, retries={"max_attempts": 1}))
for name, k in (("unsigned", {}), ("hashed", {"payload_signing_enabled": True})):
    s3 = client(**k)
    s3.put_object(Bucket="bucket", Key="boto/" + name, Body=b"content of " + name.encode(), Metadata={"a": "  two   spaces "})
    print(name, s3.get_object(Bucket="bucket", Key="boto/" + name)["Body"].read())
print([o["Key"] for o in client().list_objects_v2(Bucket="bucket", Prefix="boto/")["Contents"]])
client().upload_fileobj(io.BytesIO(b"z" * 9000000), "bucket", "boto/parts"); print("parts", len(client().get_object(Bucket="bucket", Key="boto/parts")["Body"].read()))
ddb = boto3.client("dynamodb", endpoint_url="https://ddb.eu.test")
print(ddb.list_tables()["TableNames"])
# other ways of signing, as a client without boto3 may send them
def raw(method="PUT", path="/bucket/raw", data=b"x", **h):
    r = urllib.request.Request("https://s3.eu.test" + path, data, {k.replace("_", "-"): v for k, v in h.items()}, method=method)
    try: return urllib.request.urlopen(r).status
    except urllib.error.HTTPError as e: return e.code, json.loads(e.read())["error"] if e.headers["Content-Type"] == "application/json" else "origin"
print("chunks", raw(x_amz_content_sha256="STREAMING-AWS4-HMAC-SHA256-PAYLOAD", Authorization="AWS4-HMAC-SHA256 Credential=x"))
print("sigv4a", raw(Authorization="AWS4-ECDSA-P256-SHA256 Credential=x"))
print("trailer", raw(data=b"1\r\nx\r\n0\r\nx-amz-checksum-crc32:jNW/mQ==\r\n\r\n", x_amz_content_sha256="STREAMING-UNSIGNED-PAYLOAD-TRAILER", Content_Encoding="aws-chunked", x_amz_trailer="x-amz-checksum-crc32"))
print("nothing", raw(), raw("GET", data=None), raw(data=b"held" * 500000))
print("wrong hash", raw(x_amz_content_sha256="0" * 64))
P
in_box() { (cd "$WORK" && AWS_REAL="$ID:$KEY:$SESSION" timeout 200 "$SP" run --quiet --policy policy.yaml -- "$@"); }
if [ -x /usr/bin/aws ]; then
	in_box sh ./aws.sh >"$T/out" 2>&1
	has "aws: the three variables hold placeholders" "$T/out" "keys AKIA"
	has "aws s3 cp: up, small" "$T/out" "upload: ./small to s3://bucket/out/small"
	has "aws s3 cp: up in parts" "$T/out" "upload: ./large to s3://bucket/out/large"
	has "aws s3 ls" "$T/out" "3000 small"
	has "aws s3 cp: down, whole" "$T/out" "large is whole"
	has "aws s3 cp: a name with everything in it" "$T/out" "odd is whole"
	has "aws: what is not there is not there" "$T/out" "404"
	has "aws: presigned requests are refused" "$T/out" '"error":"placeholder_misuse"'
	hasnt "aws: no signature was wrong" "$T/origin.out" "DoesNotMatch"
	hasnt "aws: none with another key" "$T/origin.out" "another key"
	for v in "$KEY" "$SESSION" "$ID"; do nowhere "aws: $v is nowhere that it must not be" "$v" "$T/out"; done
else
	skip "aws is not installed"
fi
if /usr/bin/python3 -c 'import boto3' 2>/dev/null; then
	in_box /usr/bin/python3 boto.py >"$T/out" 2>&1
	has "boto3: put and get, unsigned payload" "$T/out" "unsigned b'content of unsigned'"
	has "boto3: put and get, hashed payload" "$T/out" "hashed b'content of hashed'"
	has "boto3: list" "$T/out" "['boto/hashed', 'boto/unsigned']"
	has "boto3: in parts" "$T/out" "parts 9000000"
	has "boto3: another service, whose content is hashed here" "$T/out" "['a-table']"
	has "signed chunks are refused" "$T/out" "chunks (403, 'policy_denied')"
	has "SigV4A is refused" "$T/out" "sigv4a (403, 'policy_denied')"
	has "unsigned chunks with a trailer pass" "$T/out" "trailer 200"
	has "without any signature: signed all the same" "$T/out" "nothing 200 200 200"
	has "a hash that is not that of the content is the origin's to refuse" "$T/out" "wrong hash (403, 'origin')"
	hasnt "boto3: no signature was wrong" "$T/origin.out" "DoesNotMatch"
	for v in "$KEY" "$SESSION"; do nowhere "boto3: $v is nowhere that it must not be" "$v" "$T/out"; done
else
	skip "boto3 is not installed"
fi
# the long-lived key is not even in the worker
(in_box sh -c 'curl -sS -o /dev/null https://s3.eu.test/bucket/out/small; touch lives; while [ ! -e stop ]; do sleep 0.1; done') >"$T/out" 2>&1 &
PIDS+=($!)
wait_for 20 test -e "$WORK/lives"
if can_scan; then
	role_pids >"$T/pids"
	# shellcheck disable=SC2046
	mem_scan "$KEY" $(awk '{print $2}' "$T/pids") >"$T/scan"
	awk 'NR == FNR {is[$1] = $2; next} {print $1 ": " is[$2]}' "$T/scan" "$T/pids" >"$T/roles"
	has "secrets holds the key: the search can find it" "$T/roles" "secrets: holds"
	if grep -v '^secrets' "$T/roles" | grep -q holds; then not_ok "no other role has it, the worker neither" "$(cat "$T/roles")"; else ok "no other role has it, the worker neither"; fi
else
	skip "the memory of other processes can only be searched by root"
fi
touch "$WORK/stop"
wait "${PIDS[-1]}"
check_done
