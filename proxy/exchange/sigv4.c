/* SPDX-License-Identifier: Apache-2.0 */
#include "sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../common/base/must.h"
#include "../../common/base/utc.h"

#define ALGORITHM "AWS4-HMAC-SHA256"
#define PAIRS_MAX 256

static void hex_of(const uint8_t *p, size_t n, char *out)
{
	static const char hex[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = hex[p[i] >> 4];
		out[2 * i + 1] = hex[p[i] & 15];
	}
	out[2 * n] = 0;
}

void sigv4_hash(const void *p, size_t n, char out[65])
{
	uint8_t md[32];

	MUST(EVP_Digest(p, n, md, NULL, EVP_sha256(), NULL) == 1);
	hex_of(md, sizeof(md), out);
}

static bool is_hash(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (hex_value(s.p[i]) < 0)
			return false;
	return s.n == 64;
}

static struct str word(struct str *rest)
{
	const char *sp = rest->n ? memchr(rest->p, ' ', rest->n) : NULL;
	struct str w = str_mk(rest->p, sp != NULL ? (size_t)(sp - rest->p) : rest->n);

	*rest = sp != NULL ? str_mk(sp + 1, rest->n - w.n - 1) : STR_NONE;
	return w;
}

bool sigv4_key_read(struct str released, struct sigv4_key *k)
{
	struct str hex = word(&released);

	if (!is_hash(hex))
		return false;
	for (unsigned i = 0; i < 32; i++)
		k->key[i] = (uint8_t)(hex_value(hex.p[2 * i]) << 4 | hex_value(hex.p[2 * i + 1]));
	k->day = word(&released);
	k->key_id = word(&released);
	k->session = released;
	return k->day.n == 8 && k->key_id.n > 0;
}

static struct str field(const struct http_request *r, const char *name)
{
	struct http_field *f = http_fields_find_name((struct http_fields *)(uintptr_t)&r->fields, str_of(name));

	return f != NULL ? f->value : STR_NONE;
}

/* Whether the query has a key that begins so, in whatever spelling. */
static bool query_has(struct str q, const char *prefix)
{
	size_t n = strlen(prefix), k = 0;
	bool key = true;

	for (size_t i = 0; i < q.n; i++) {
		char c = q.p[i];

		if (c == '&' || c == ';') {
			key = true;
			k = 0;
			continue;
		}
		if (c == '%' && i + 2 < q.n && hex_value(q.p[i + 1]) >= 0 && hex_value(q.p[i + 2]) >= 0) {
			c = (char)(hex_value(q.p[i + 1]) << 4 | hex_value(q.p[i + 2]));
			i += 2;
		}
		key = key && ascii_lower(c) == prefix[k];
		if (key && ++k == n)
			return true;
	}
	return false;
}

const char *sigv4_unsignable(const struct http_request *r)
{
	struct str auth = field(r, "Authorization"), payload = field(r, "X-Amz-Content-Sha256");

	if (r->has_query && (query_has(r->query, "x-amz-algorithm") || query_has(r->query, "x-amz-signature") || query_has(r->query, "x-amz-credential") || query_has(r->query, "awsaccesskeyid")))
		return "sigv4_presigned";
	if (str_starts(auth, STR("AWS4-ECDSA")) || field(r, "X-Amz-Region-Set").n > 0)
		return "sigv4a";
	if (str_starts(payload, STR("STREAMING-")) && !str_eq(payload, STR("STREAMING-UNSIGNED-PAYLOAD-TRAILER")))
		return "sigv4_chunk_signed"; /* each chunk carries a signature that hangs on the head's */
	if (payload.n > 0 && !is_hash(payload) && !str_eq(payload, STR("UNSIGNED-PAYLOAD")) && !str_eq(payload, STR("STREAMING-UNSIGNED-PAYLOAD-TRAILER")))
		return "sigv4_payload_hash";
	return NULL;
}

bool sigv4_payload_known(const struct http_request *r, struct str *hash)
{
	*hash = field(r, "X-Amz-Content-Sha256");
	if (hash->n > 0)
		return true;
	*hash = STR("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	return r->framing == HTTP_BODY_NONE || (r->framing == HTTP_BODY_LENGTH && r->content_length == 0);
}

static bool unreserved(char c)
{
	char l = ascii_lower(c);

	return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
}

static void encode(struct buf *b, struct str s, bool decode, bool slashes)
{
	static const char hex[] = "0123456789ABCDEF";

	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (decode && c == '%' && i + 2 < s.n && hex_value(s.p[i + 1]) >= 0 && hex_value(s.p[i + 2]) >= 0) {
			c = (char)(hex_value(s.p[i + 1]) << 4 | hex_value(s.p[i + 2]));
			i += 2;
		}
		if (unreserved(c) || (slashes && c == '/')) {
			buf_addc(b, c);
		} else {
			buf_addc(b, '%');
			buf_addc(b, hex[(uint8_t)c >> 4]);
			buf_addc(b, hex[(uint8_t)c & 15]);
		}
	}
}

struct pair {
	struct str name, value;
};

static int cmp_str(struct str a, struct str b)
{
	int r = memcmp(a.n ? a.p : "", b.n ? b.p : "", a.n < b.n ? a.n : b.n);

	return r != 0 ? r : a.n < b.n ? -1 : a.n > b.n;
}

static int by_pair(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	int r = cmp_str(x->name, y->name);

	return r != 0 ? r : cmp_str(x->value, y->value);
}

static struct str encoded(struct arena *a, struct str s)
{
	struct buf b = { 0 };
	struct str out;

	encode(&b, s, true, false);
	out = arena_str(a, buf_str(&b));
	buf_fini(&b);
	return out;
}

/* Sorted by encoded key, then value. False: more keys than anybody sends. */
static bool canonical_query(struct arena *a, struct buf *b, struct str q)
{
	struct pair *p = arena_alloc(a, PAIRS_MAX * sizeof(*p));
	unsigned n = 0;

	while (q.n > 0) {
		const char *end = memchr(q.p, '&', q.n), *eq;
		struct str one = str_mk(q.p, end != NULL ? (size_t)(end - q.p) : q.n);

		q = end != NULL ? str_mk(end + 1, q.n - one.n - 1) : STR_NONE;
		if (one.n == 0)
			continue;
		if (n == PAIRS_MAX)
			return false;
		eq = memchr(one.p, '=', one.n);
		p[n].name = encoded(a, eq != NULL ? str_mk(one.p, (size_t)(eq - one.p)) : one);
		p[n++].value = eq != NULL ? encoded(a, str_mk(eq + 1, one.n - (size_t)(eq - one.p) - 1)) : STR_NONE;
	}
	qsort(p, n, sizeof(*p), by_pair);
	for (unsigned i = 0; i < n; i++) {
		if (i > 0)
			buf_addc(b, '&');
		buf_adds(b, p[i].name);
		buf_addc(b, '=');
		buf_adds(b, p[i].value);
	}
	return true;
}

/* Whether the client's own signature covers it: "...SignedHeaders=a;b;c, ..." */
static bool client_signs(struct str auth, struct str name)
{
	ptrdiff_t at = str_find(auth, STR("SignedHeaders="));
	struct str list;

	if (at < 0)
		return false;
	list = str_mk(auth.p + at + 14, auth.n - (size_t)at - 14);
	for (size_t i = 0; i < list.n && list.p[i] != ',' && list.p[i] != ' ';) {
		size_t b = i;

		while (i < list.n && list.p[i] != ';' && list.p[i] != ',' && list.p[i] != ' ')
			i++;
		if (str_ieq(str_mk(list.p + b, i - b), name))
			return true;
		i += i < list.n && list.p[i] == ';';
	}
	return false;
}

static bool signs(const struct http_field *f, struct str auth)
{
	static const char *const always[] = { "content-type", "content-md5", "date" };

	if (f->drop || f->fid == HF_AUTHORIZATION || f->fid == HF_ACCEPT_ENCODING || f->fid == HF_CONTENT_LENGTH || f->fid == HF_EXPECT)
		return false;
	if (f->name.n > 6 && str_ieq(str_mk(f->name.p, 6), STR("x-amz-")))
		return true;
	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		if (str_ieq(f->name, str_of(always[i])))
			return true;
	return client_signs(auth, f->name);
}

/* Runs of white space are one space. */
static struct str trimmed(struct arena *a, struct str s)
{
	char *p = arena_alloc(a, s.n + 1);
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++) {
		bool space = s.p[i] == ' ' || s.p[i] == '\t';

		if (!space || (n > 0 && p[n - 1] != ' '))
			p[n++] = space ? ' ' : s.p[i];
	}
	if (n > 0 && p[n - 1] == ' ')
		n--;
	return str_mk(p, n);
}

static struct str lower(struct arena *a, struct str s)
{
	char *p = arena_strz(a, s);

	for (size_t i = 0; i < s.n; i++)
		p[i] = ascii_lower(p[i]);
	return str_mk(p, s.n);
}

/* Several fields of one name are one, in the order in which they are sent: values are not sorted. */
static void canonical_fields(struct arena *a, struct buf *b, struct buf *names, const struct http_request *r, struct str host, struct str auth)
{
	struct pair *p = arena_alloc(a, (r->fields.n + 1ul) * sizeof(*p));
	unsigned n = 0;

	p[n++] = (struct pair){ STR("host"), host };
	for (unsigned i = 0; i < r->fields.n; i++) {
		const struct http_field *f = &r->fields.f[i];
		unsigned at;

		if (!signs(f, auth))
			continue;
		p[n] = (struct pair){ lower(a, f->name), trimmed(a, f->value) };
		for (at = n++; at > 0 && cmp_str(p[at - 1].name, p[at].name) > 0; at--) { /* insertion: stable */
			struct pair t = p[at];

			p[at] = p[at - 1];
			p[at - 1] = t;
		}
	}
	for (unsigned i = 0; i < n; i++) {
		bool more = i > 0 && str_eq(p[i].name, p[i - 1].name);

		if (more) {
			buf_addc(b, ',');
		} else {
			if (i > 0)
				buf_addz(b, "\n"), buf_addc(names, ';');
			buf_adds(b, p[i].name);
			buf_addc(b, ':');
			buf_adds(names, p[i].name);
		}
		buf_adds(b, p[i].value);
	}
	buf_addz(b, "\n\n");
}

bool sigv4_sign(struct arena *a, struct http_request *r, struct str host, struct str target, struct str payload_hash, const struct sigv4_key *k, struct str region, struct str service, uint64_t now_s)
{
	const char *mark = memchr(target.p, '?', target.n);
	struct str path = str_mk(target.p, mark != NULL ? (size_t)(mark - target.p) : target.n), query = mark != NULL ? str_mk(mark + 1, target.n - path.n - 1) : STR_NONE;
	struct str auth = field(r, "Authorization"), stamp;
	struct buf canonical = { 0 }, names = { 0 }, out = { 0 };
	bool s3 = str_eq(service, STR("s3")), ok = false;
	uint8_t md[32];
	unsigned len = sizeof(md);
	char text[65], when[UTC_BASIC_LEN + 1];

	utc_basic(now_s, when);
	stamp = str_of(arena_strz(a, str_of(when)));
	if (!str_eq(str_mk(stamp.p, 8), k->day))
		return false;
	auth = arena_str(a, auth);
	http_fields_drop_like(&r->fields, STR("Authorization"));
	http_fields_drop_like(&r->fields, STR("X-Amz-Date"));
	http_fields_drop_like(&r->fields, STR("X-Amz-Security-Token"));
	if (!http_fields_add(&r->fields, STR("X-Amz-Date"), stamp, HF_OTHER))
		goto out;
	if (s3 && field(r, "X-Amz-Content-Sha256").n == 0 && !http_fields_add(&r->fields, STR("X-Amz-Content-Sha256"), arena_str(a, payload_hash), HF_OTHER))
		goto out;
	if (k->session.n > 0) {
		if (!http_fields_add(&r->fields, STR("X-Amz-Security-Token"), arena_str(a, k->session), HF_OTHER))
			goto out;
		r->fields.f[r->fields.n - 1].secret = true;
	}
	buf_adds(&canonical, r->method);
	buf_addc(&canonical, '\n');
	encode(&canonical, path.n ? path : STR("/"), s3, true); /* all but S3 encode what is encoded already once more */
	buf_addc(&canonical, '\n');
	if (!canonical_query(a, &canonical, query))
		goto out;
	buf_addc(&canonical, '\n');
	canonical_fields(a, &canonical, &names, r, host, auth);
	buf_adds(&canonical, buf_str(&names));
	buf_addc(&canonical, '\n');
	buf_adds(&canonical, payload_hash);
	sigv4_hash(buf_data(&canonical), buf_len(&canonical), text);
	buf_addf(&out, ALGORITHM "\n%s\n%.8s/%.*s/%.*s/aws4_request\n%s", when, when, (int)region.n, region.p, (int)service.n, service.p, text);
	MUST(HMAC(EVP_sha256(), k->key, sizeof(k->key), buf_data(&out), buf_len(&out), md, &len) != NULL && len == sizeof(md));
	hex_of(md, sizeof(md), text);
	buf_clear(&out);
	buf_addf(&out, ALGORITHM " Credential=%.*s/%.8s/%.*s/%.*s/aws4_request, SignedHeaders=", (int)k->key_id.n, k->key_id.p, when, (int)region.n, region.p, (int)service.n, service.p);
	buf_adds(&out, buf_str(&names));
	buf_addf(&out, ", Signature=%s", text);
	ok = http_fields_add(&r->fields, STR("Authorization"), arena_str(a, buf_str(&out)), HF_AUTHORIZATION);
	if (ok)
		r->fields.f[r->fields.n - 1].secret = true;
out:
	buf_fini_secret(&canonical);
	buf_fini(&names);
	buf_fini(&out);
	return ok;
}
