/* SPDX-License-Identifier: Apache-2.0 */
#include "inject.h"

#include <openssl/evp.h>

static const struct str credential_places[] = { STR_INIT("Authorization"), STR_INIT("Cookie"), STR_INIT("X-Api-Key"), STR_INIT("Api-Key"), STR_INIT("X-Goog-Api-Key"), STR_INIT("Private-Token") };

bool inject_is_place(const struct dest *d, struct str field)
{
	struct inject in;
	struct str place;

	for (size_t i = 0; i < sizeof(credential_places) / sizeof(credential_places[0]); i++)
		if (str_alike(field, credential_places[i]))
			return true;
	for (unsigned i = 0; d->has_places && dest_place(d, i, &place); i++)
		if (str_alike(field, place))
			return true;
	for (unsigned i = 0; d->has_inject && dest_inject(d, i, &in); i++) {
		if ((in.kind == INJECT_HEADER || in.kind == INJECT_HMAC || (in.kind == INJECT_PLACEHOLDER && (in.places & PLACE_HEADER))) && in.name.n > 0 && str_alike(field, in.name))
			return true;
		if (in.kind == INJECT_HMAC && ((in.timestamp.n > 0 && str_alike(field, in.timestamp)) || (in.nonce.n > 0 && str_alike(field, in.nonce))))
			return true;
		if (in.kind == INJECT_SIGV4 && str_alike(field, STR("X-Amz-Security-Token")))
			return true;
	}
	return false;
}

struct str inject_basic_value(struct arena *a, struct str plain)
{
	char *out = arena_alloc(a, 6 + 4 * ((plain.n + 2) / 3) + 1);

	memcpy(out, "Basic ", 6);
	return str_mk(out, 6 + (size_t)EVP_EncodeBlock((unsigned char *)out + 6, (const unsigned char *)plain.p, (int)plain.n));
}

struct str inject_basic_plain(struct arena *a, struct str value)
{
	unsigned char *out;
	size_t pad = 0;
	int n;

	if (value.n < 6 || !str_ieq(str_mk(value.p, 6), STR("Basic ")))
		return STR_NONE;
	value = str_mk(value.p + 6, value.n - 6);
	while (value.n > 0 && *value.p == ' ')
		value = str_mk(value.p + 1, value.n - 1);
	if (value.n == 0 || value.n % 4 != 0 || value.n > 65536)
		return STR_NONE;
	for (size_t i = 0; i < value.n; i++) { /* the library skips white space */
		char c = value.p[i], l = ascii_lower(c);

		pad += c == '=';
		if ((pad > 0 && c != '=') || pad > 2 || !((l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/' || c == '='))
			return STR_NONE;
	}
	out = arena_alloc(a, value.n);
	n = EVP_DecodeBlock(out, (const unsigned char *)value.p, (int)value.n);
	return n < 0 || (size_t)n < pad ? STR_NONE : str_mk(out, (size_t)n - pad);
}

/* The next piece of a query up to '&' or ';', which is left at its end; false: there is none. */
static bool query_piece(struct str q, size_t *at, struct str *piece)
{
	size_t i = *at;

	if (i > q.n || q.n == 0)
		return false;
	while (i < q.n && q.p[i] != '&' && q.p[i] != ';')
		i++;
	*piece = str_mk(q.p + *at, i - *at);
	*at = i + 1;
	return true;
}

static bool piece_is(struct str piece, struct str key)
{
	size_t k = 0;

	for (size_t i = 0; i < piece.n && piece.p[i] != '='; i++) {
		char c = piece.p[i];

		if (c == '%' && i + 2 < piece.n && hex_value(piece.p[i + 1]) >= 0 && hex_value(piece.p[i + 2]) >= 0) {
			c = (char)(hex_value(piece.p[i + 1]) << 4 | hex_value(piece.p[i + 2]));
			i += 2;
		}
		if (k == key.n || ascii_lower(c) != ascii_lower(key.p[k++]))
			return k == key.n && c == '['; /* "key[]", an array to some frameworks */
	}
	return k == key.n;
}

bool inject_query_has(struct str q, struct str key)
{
	struct str piece;

	for (size_t at = 0; query_piece(q, &at, &piece);)
		if (piece_is(piece, key))
			return true;
	return false;
}

struct str inject_query_without(struct arena *a, struct str q, struct str key)
{
	char *p = arena_alloc(a, q.n + 1), sep = '&';
	struct str piece;
	size_t n = 0;

	for (size_t at = 0; query_piece(q, &at, &piece);) {
		if (!piece_is(piece, key)) {
			if (n > 0)
				p[n++] = sep;
			if (piece.n)
				memcpy(p + n, piece.p, piece.n);
			n += piece.n;
		}
		sep = at <= q.n ? q.p[at - 1] : '&';
	}
	return str_mk(p, n);
}

struct str inject_query_with(struct arena *a, struct str q, struct str key, struct str value)
{
	struct buf b = { 0 };
	struct str out;

	buf_adds(&b, q);
	if (q.n > 0)
		buf_addc(&b, '&');
	buf_adds(&b, key);
	buf_addc(&b, '=');
	placeholder_encode(&b, value, PLACEHOLDER_PERCENT);
	out = arena_str(a, buf_str(&b));
	buf_fini_secret(&b);
	return out;
}

bool inject_is_own(struct arena *a, struct str v, struct str placeholder)
{
	struct str plain = inject_basic_plain(a, v), rest = v;
	const char *sep;

	if (plain.n > 0) { /* one half is it */
		sep = memchr(plain.p, ':', plain.n);
		return sep != NULL && (str_eq(str_mk(plain.p, (size_t)(sep - plain.p)), placeholder) || str_eq(str_mk(sep + 1, plain.n - (size_t)(sep + 1 - plain.p)), placeholder));
	}
	if (str_starts(v, STR("AWS4-HMAC-SHA256 "))) {
		ptrdiff_t at = str_find(v, STR("Credential="));

		return at >= 0 && str_starts(str_mk(v.p + at + 11, v.n - (size_t)at - 11), placeholder);
	}
	sep = v.n ? memchr(v.p, ' ', v.n) : NULL;
	if (sep != NULL)
		rest = str_mk(sep + 1, v.n - (size_t)(sep + 1 - v.p));
	else if ((sep = v.n ? memchr(v.p, '=', v.n) : NULL) != NULL) /* a cookie */
		rest = str_mk(sep + 1, v.n - (size_t)(sep + 1 - v.p));
	return str_eq(rest, placeholder);
}

struct str inject_wire_form(struct arena *a, const struct inject *in, struct str value)
{
	unsigned char *plain;
	char *out;
	size_t n;

	if (in->kind != INJECT_BASIC)
		return STR_NONE;
	n = in->username.n + 1 + value.n;
	plain = arena_alloc(a, n);
	if (in->username.n)
		memcpy(plain, in->username.p, in->username.n);
	plain[in->username.n] = ':';
	memcpy(plain + in->username.n + 1, value.p, value.n);
	out = arena_alloc(a, 4 * ((n + 2) / 3) + 1);
	n = (size_t)EVP_EncodeBlock((unsigned char *)out, plain, (int)n);
	explicit_bzero(plain, in->username.n + 1 + value.n);
	return str_mk(out, n);
}

static struct str join(struct arena *a, struct str x, struct str y, struct str z)
{
	char *p = arena_alloc(a, x.n + y.n + z.n + 1);

	if (x.n)
		memcpy(p, x.p, x.n);
	if (y.n)
		memcpy(p + x.n, y.p, y.n);
	if (z.n)
		memcpy(p + x.n + y.n, z.p, z.n);
	return str_mk(p, x.n + y.n + z.n);
}

bool inject_apply(struct arena *a, struct http_request *r, const struct inject *in, struct str value)
{
	struct str name = STR("Authorization"), text;
	ptrdiff_t hole;

	switch (in->kind) {
	case INJECT_BEARER:
		text = join(a, STR("Bearer "), value, STR_NONE);
		break;
	case INJECT_BASIC:
		text = join(a, STR("Basic "), inject_wire_form(a, in, value), STR_NONE);
		break;
	case INJECT_HEADER:
		name = in->name;
		hole = in->format.n ? str_find(in->format, STR("{}")) : -1;
		text = hole < 0 ? value : join(a, str_mk(in->format.p, (size_t)hole), value, str_mk(in->format.p + hole + 2, in->format.n - (size_t)hole - 2));
		break;
	default:
		return false;
	}
	http_fields_drop_like(&r->fields, name);
	if (!http_fields_add(&r->fields, name, text, http_fid_of(name)))
		return false;
	r->fields.f[r->fields.n - 1].secret = true;
	return true;
}

struct str inject_redact_query(struct arena *a, struct str q, bool keep)
{
	char *p;
	size_t n = 0;
	bool in_value = false;

	if (keep || q.n == 0)
		return q;
	p = arena_alloc(a, q.n + 1);
	for (size_t i = 0; i < q.n; i++) {
		if (q.p[i] == '&') {
			in_value = false;
			p[n++] = '&';
		} else if (q.p[i] == '=' && !in_value) {
			in_value = true;
			p[n++] = '=';
			if (i + 1 < q.n && q.p[i + 1] != '&')
				p[n++] = '*';
		} else if (!in_value) {
			p[n++] = q.p[i];
		}
	}
	return str_mk(p, n);
}
