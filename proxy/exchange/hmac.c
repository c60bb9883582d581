/* SPDX-License-Identifier: Apache-2.0 */
#include "hmac.h"

#include "sigv4.h"

static void add_header(struct buf *b, struct http_fields *fs, struct str name)
{
	bool more = false;

	for (unsigned i = 0; i < fs->n; i++) {
		if (fs->f[i].drop || !str_ieq(fs->f[i].name, name))
			continue;
		if (more)
			buf_addz(b, ", ");
		buf_adds(b, fs->f[i].value);
		more = true;
	}
}

static void add_piece(struct buf *b, const struct template_piece *p, const struct hmac_facts *f, struct str signature)
{
	const char *mark = f->target.n > 0 ? memchr(f->target.p, '?', f->target.n) : NULL;
	size_t path_n = mark != NULL ? (size_t)(mark - f->target.p) : f->target.n;
	char hash[65];

	switch (p->word) {
	case TEMPLATE_TEXT:
		buf_adds(b, p->text);
		break;
	case TEMPLATE_SIGNATURE:
		buf_adds(b, signature);
		break;
	case TEMPLATE_METHOD:
		buf_adds(b, f->r->method);
		break;
	case TEMPLATE_HOST:
		buf_adds(b, f->host);
		break;
	case TEMPLATE_TARGET:
		buf_adds(b, f->target);
		break;
	case TEMPLATE_PATH:
		buf_add(b, f->target.p, path_n);
		break;
	case TEMPLATE_QUERY:
		if (mark != NULL)
			buf_add(b, mark + 1, f->target.n - path_n - 1);
		break;
	case TEMPLATE_BODY:
		buf_adds(b, f->body);
		break;
	case TEMPLATE_BODY_SHA256:
		sigv4_hash(f->body.p, f->body.n, hash);
		buf_addz(b, hash);
		break;
	case TEMPLATE_NONCE:
		buf_addz(b, f->nonce);
		break;
	case TEMPLATE_LF:
		buf_addc(b, '\n');
		break;
	case TEMPLATE_HEADER:
		add_header(b, &f->r->fields, p->text);
		break;
	default:
		template_time(b, p->word, f->wall_ms);
		break;
	}
}

static void fill(struct buf *out, struct str template, const struct hmac_facts *f, struct str signature)
{
	struct template_piece p;

	while (template_next(&template, &p) > 0)
		add_piece(out, &p, f, signature);
}

static bool add_field(struct arena *a, struct http_request *r, struct str name, struct buf *text)
{
	bool ok = http_fields_add(&r->fields, name, arena_str(a, buf_str(text)), http_fid_of(name));

	buf_fini(text);
	return ok;
}

bool hmac_prepare(struct arena *a, const struct inject *in, const struct hmac_facts *f)
{
	struct str rest = in->template;
	struct template_piece p;
	struct buf b = { 0 };

	http_fields_drop_like(&f->r->fields, in->name);
	if (in->nonce.n > 0) {
		http_fields_drop_like(&f->r->fields, in->nonce);
		buf_addz(&b, f->nonce);
		if (!add_field(a, f->r, in->nonce, &b))
			return false;
	}
	if (in->timestamp.n == 0)
		return true;
	http_fields_drop_like(&f->r->fields, in->timestamp);
	while (template_next(&rest, &p) > 0) { /* in the one form that is signed */
		if ((TEMPLATE_TIMES & 1u << p.word) == 0)
			continue;
		template_time(&b, p.word, f->wall_ms);
		return add_field(a, f->r, in->timestamp, &b);
	}
	return false;
}

void hmac_message(struct buf *out, const struct inject *in, const struct hmac_facts *f) { fill(out, in->template, f, STR_NONE); }

bool hmac_apply(struct arena *a, const struct inject *in, const struct hmac_facts *f, struct str signature)
{
	struct buf b = { 0 };

	fill(&b, in->format, f, signature);
	if (!add_field(a, f->r, in->name, &b))
		return false;
	f->r->fields.f[f->r->fields.n - 1].secret = true;
	return true;
}

bool hmac_signs_content(const struct inject *in) { return (template_words(in->template) & (1u << TEMPLATE_BODY | 1u << TEMPLATE_BODY_SHA256)) != 0; }
