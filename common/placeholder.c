/* SPDX-License-Identifier: Apache-2.0 */
#include "placeholder.h"

bool placeholder_ok(const struct placeholder *p)
{
	if (p->text.n < 8 || p->text.n > PLACEHOLDER_LEN_MAX || p->part >= PLACEHOLDER_PARTS || p->secret.n == 0 || p->secret.n > 255)
		return false;
	for (size_t i = 0; i < p->text.n; i++) {
		char c = p->text.p[i], l = ascii_lower(c);

		if (!((l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~'))
			return false;
	}
	return true;
}

void placeholder_put(struct buf *b, const struct placeholder *p)
{
	buf_addc(b, (char)(p->part | (p->body_deny ? 128 : 0)));
	buf_addc(b, (char)p->secret.n);
	buf_adds(b, p->secret);
	buf_addc(b, (char)(p->text.n & 255));
	buf_addc(b, (char)(p->text.n >> 8));
	buf_adds(b, p->text);
}

bool placeholder_next(struct str *rest, struct placeholder *out)
{
	const uint8_t *p = (const uint8_t *)rest->p;
	size_t name, text;

	if (rest->n < 2)
		return false;
	name = p[1];
	if (rest->n < 4 + name)
		return false;
	text = p[2 + name] | (size_t)p[3 + name] << 8;
	if (rest->n - 4 - name < text)
		return false;
	*out = (struct placeholder){ .part = p[0] & 127, .body_deny = (p[0] & 128) != 0, .secret = str_mk(p + 2, name), .text = str_mk(p + 4 + name, text) };
	*rest = str_mk(p + 4 + name + text, rest->n - 4 - name - text);
	return placeholder_ok(out);
}
