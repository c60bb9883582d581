/* SPDX-License-Identifier: Apache-2.0 */
#include "secret_param.h"

static bool next(struct cursor *c, uint8_t *tag, struct str *text)
{
	*tag = get_u8(c);
	/* a certificate may be longer than a str holds: u32 length */
	if (*tag == SECRET_PARAM_CA) {
		uint32_t n = get_u32(c);
		const uint8_t *p = n <= SECRET_PARAM_CA_MAX ? cur_take(c, n) : NULL;

		*text = p != NULL ? str_mk(p, n) : STR_NONE;
	} else {
		*text = get_str(c);
	}
	return !c->bad && text->n > 0;
}

struct str secret_param(const struct secret_params *p, enum secret_param wanted, unsigned nth)
{
	struct cursor c = cursor_on(p->list);
	struct str text;
	uint8_t tag;

	for (uint32_t i = 0; i < p->n && next(&c, &tag, &text); i++)
		if (tag == wanted && nth-- == 0)
			return text;
	return STR_NONE;
}

static bool may_repeat(uint8_t tag)
{
	return tag == SECRET_PARAM_WORD || tag == SECRET_PARAM_ADDRESS || tag == SECRET_PARAM_CA || tag == SECRET_PARAM_REPOSITORY || tag == SECRET_PARAM_PERMISSION;
}

bool secret_params_load(struct cursor *c, struct secret_params *out)
{
	uint32_t n = get_u32(c);
	size_t from = c->at;
	uint8_t tag, last = 0;
	struct str text;

	if (c->bad || n > SECRET_PARAMS_MAX)
		return false;
	for (uint32_t i = 0; i < n; i++, last = tag) {
		if (!next(c, &tag, &text) || tag >= SECRET_PARAM_COUNT || tag < last || tag == SECRET_PARAM_NONE || (tag == last && !may_repeat(tag)))
			return false;
		if (tag != SECRET_PARAM_CA && (text.n > SECRET_PARAM_TEXT_MAX || memchr(text.p, 0, text.n) != NULL))
			return false;
	}
	*out = (struct secret_params){ str_mk(c->p + from, c->at - from), n };
	return true;
}

bool endpoint_parse(struct str url, struct endpoint *out, const char **why)
{
	const struct str scheme = STR("https://");
	const char *slash, *reason;
	size_t n;

	*why = "it is to begin with https://";
	if (!str_starts(url, scheme))
		return false;
	url = str_mk(url.p + scheme.n, url.n - scheme.n);
	slash = memchr(url.p, '/', url.n);
	n = slash != NULL ? (size_t)(slash - url.p) : url.n;
	*why = "its host or port has no one clear reading";
	if (!canon_authority(str_mk(url.p, n), 443, &out->host, &out->port, &reason))
		return false;
	out->path = slash != NULL ? str_mk(slash, url.n - n) : STR("/");
	*why = "its path is to be plain: no query, fragment, escape, dot segment or empty segment";
	for (size_t i = 0; i < out->path.n; i++) {
		char c = out->path.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || memchr("/-_.~:@+=,", c, 10) != NULL))
			return false;
		if (c == '/' && i > 0 && out->path.p[i - 1] == '/')
			return false;
	}
	if (str_find(out->path, STR("/./")) >= 0 || str_find(out->path, STR("/../")) >= 0 || str_ends(out->path, STR("/.")) || str_ends(out->path, STR("/..")) || out->path.n > 2048)
		return false;
	return true;
}
