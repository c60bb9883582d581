/* SPDX-License-Identifier: Apache-2.0 */
#include "coding.h"

/* The next element of a list, without optional white space around it; false at the end. */
static bool next_element(struct str *list, struct str *element)
{
	while (list->n > 0) {
		const char *comma = memchr(list->p, ',', list->n);
		size_t n = comma != NULL ? (size_t)(comma - list->p) : list->n;
		struct str e = str_mk(list->p, n);

		n += comma != NULL;
		*list = str_mk(list->p + n, list->n - n);
		while (e.n > 0 && (e.p[0] == ' ' || e.p[0] == '\t'))
			e = str_mk(e.p + 1, e.n - 1);
		while (e.n > 0 && (e.p[e.n - 1] == ' ' || e.p[e.n - 1] == '\t'))
			e.n--;
		if (e.n > 0) {
			*element = e;
			return true;
		}
	}
	return false;
}

static enum coding named(struct str name)
{
	static const struct {
		const char *name;
		enum coding coding;
	} rows[] = {
		{ "identity", CODING_NONE },
		{ "gzip", CODING_GZIP },
		{ "x-gzip", CODING_GZIP },
		{ "deflate", CODING_DEFLATE },
		{ "br", CODING_BR },
		{ "zstd", CODING_ZSTD },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (str_ieq(name, str_of(rows[i].name)))
			return rows[i].coding;
	return CODING_UNKNOWN;
}

/* Codings inside of the content, which we do not take off. */
static void narrow_inner(struct http_fields *fs)
{
	struct str grpc = STR("grpc-accept-encoding");
	bool asked = http_fields_find_name(fs, grpc) != NULL;

	http_fields_drop_like(fs, grpc);
	http_fields_drop_like(fs, STR("Connect-Accept-Encoding"));
	http_fields_drop_like(fs, STR("A-IM")); /* RFC 3229: differences, also compressed */
	if (asked)
		http_fields_add(fs, grpc, STR("identity"), HF_OTHER);
}

void coding_narrow(struct arena *a, struct http_request *r, bool injects)
{
	struct http_fields *fs = &r->fields;
	struct str list, e, range = STR_NONE;
	size_t all = 0, n = 0;
	bool asked = false;
	char *kept;

	narrow_inner(fs);
	for (unsigned i = 0; i < fs->n; i++) {
		struct http_field *f = &fs->f[i];

		if (injects && (f->fid == HF_RANGE || f->fid == HF_IF_RANGE))
			f->drop = true;
		if (f->fid == HF_RANGE && !f->drop)
			range = f->value;
		if (f->fid == HF_ACCEPT_ENCODING && !f->drop) {
			asked = true;
			all += f->value.n + 2;
		}
	}
	if (!asked && !injects)
		return;
	kept = arena_alloc(a, all + 1);
	for (unsigned i = 0; i < fs->n; i++) {
		if (fs->f[i].fid != HF_ACCEPT_ENCODING || fs->f[i].drop)
			continue;
		fs->f[i].drop = true;
		list = fs->f[i].value;
		while (range.n == 0 && next_element(&list, &e)) { /* a part of coded content cannot be decoded */
			size_t name = 0;

			while (name < e.n && e.p[name] != ';' && e.p[name] != ' ' && e.p[name] != '\t')
				name++;
			if (named(str_mk(e.p, name)) == CODING_UNKNOWN)
				continue;
			if (n > 0) {
				kept[n++] = ',';
				kept[n++] = ' ';
			}
			memcpy(kept + n, e.p, e.n);
			n += e.n;
		}
	}
	http_fields_add(fs, STR("Accept-Encoding"), n > 0 ? str_mk(kept, n) : STR("identity"), HF_ACCEPT_ENCODING);
}

enum coding coding_of(struct http_fields *fs)
{
	enum coding c = CODING_NONE, one;
	struct str list, e;

	for (unsigned i = 0; i < fs->n; i++) {
		if (fs->f[i].fid != HF_CONTENT_ENCODING || fs->f[i].drop)
			continue;
		list = fs->f[i].value;
		while (next_element(&list, &e)) {
			one = named(e);
			if (one != CODING_NONE)
				c = c == CODING_NONE ? one : CODING_UNKNOWN;
		}
	}
	return c;
}

void coding_remove(struct arena *a, struct http_response *r)
{
	static const char *const of_the_coded[] = { "Content-MD5", "Digest", "Content-Digest", "Repr-Digest" };
	struct http_field *f;

	for (unsigned i = 0; i < r->fields.n; i++)
		if (r->fields.f[i].fid == HF_CONTENT_ENCODING)
			r->fields.f[i].drop = true;
	for (size_t i = 0; i < sizeof(of_the_coded) / sizeof(of_the_coded[0]); i++)
		http_fields_drop_like(&r->fields, str_of(of_the_coded[i]));
	f = http_fields_find_name(&r->fields, STR("ETag"));
	if (f != NULL && !str_starts(f->value, STR("W/"))) {
		char *weak = arena_alloc(a, f->value.n + 2);

		memcpy(weak, "W/", 2);
		memcpy(weak + 2, f->value.p, f->value.n);
		f->value = str_mk(weak, f->value.n + 2);
	}
	r->has_length = false;
}
