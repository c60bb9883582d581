/* SPDX-License-Identifier: Apache-2.0 */
#include "inject.h"

#include <openssl/evp.h>

static const char *const credential_places[] = { "Authorization", "Cookie", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Private-Token" };

void inject_prepare(struct http_request *r)
{
	for (size_t i = 0; i < sizeof(credential_places) / sizeof(credential_places[0]); i++)
		http_fields_drop_like(&r->fields, str_of(credential_places[i]));
}

void inject_prepare_trailer(struct http_fields *fs, const struct dest *d)
{
	struct inject in;

	for (size_t i = 0; i < sizeof(credential_places) / sizeof(credential_places[0]); i++)
		http_fields_drop_like(fs, str_of(credential_places[i]));
	for (unsigned i = 0; d->has_inject && dest_inject(d, i, &in); i++)
		if (in.kind == INJECT_HEADER)
			http_fields_drop_like(fs, in.name);
	for (unsigned i = 0; i < fs->n; i++)
		fs->f[i].drop = fs->f[i].drop || fs->f[i].fid == HF_FORWARDING || fs->f[i].fid == HF_METHOD_OVERRIDE;
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
