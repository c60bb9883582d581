/* SPDX-License-Identifier: Apache-2.0 */
#include "parent.h"

#include <openssl/evp.h>
#include <string.h>

#include "../../common/base/canon.h"

static struct str word(struct str *s)
{
	const char *space = s->n ? memchr(s->p, ' ', s->n) : NULL;
	struct str w = str_mk(s->p, space != NULL ? (size_t)(space - s->p) : s->n);

	*s = space != NULL ? str_mk(space + 1, s->n - w.n - 1) : STR_NONE;
	return w;
}

bool parent_parse(struct str line, struct parent *p)
{
	struct str via = word(&line), host = word(&line), port = word(&line), names = word(&line), form = word(&line);
	bool gateway = str_eq(names, STR("gateway"));

	*p = (struct parent){ .resolves = str_eq(names, STR("proxy")), .tls = str_eq(form, STR("tls")) };
	if (!str_eq(via, STR("via")) || line.n > 0 || host.n == 0 || host.n >= sizeof(p->host) || !canon_port(port, &p->port) || (!gateway && !p->resolves) || (!p->tls && !str_eq(form, STR("plain"))))
		return false;
	memcpy(p->host, host.p, host.n);
	if (!ip_parse(host, &p->ip))
		p->ip.family = 0;
	return true;
}

bool parent_credentials(struct str text, struct parent *p)
{
	while (text.n > 0 && (text.p[text.n - 1] == '\n' || text.p[text.n - 1] == '\r'))
		text.n--;
	if (text.n == 0 || text.n > PARENT_CREDENTIALS_MAX || memchr(text.p, ':', text.n) == NULL)
		return false;
	for (size_t i = 0; i < text.n; i++)
		if ((unsigned char)text.p[i] < 0x20 || text.p[i] == 0x7f)
			return false;
	return EVP_EncodeBlock((unsigned char *)p->authorization, (const unsigned char *)text.p, (int)text.n) > 0;
}

void parent_request(const struct parent *p, struct str target, uint16_t port, struct buf *out)
{
	bool six = memchr(target.p, ':', target.n) != NULL;
	struct buf at = { 0 };

	buf_addf(&at, six ? "[%.*s]:%u" : "%.*s:%u", (int)target.n, target.p, port);
	buf_addz(out, "CONNECT ");
	buf_adds(out, buf_str(&at));
	buf_addz(out, " HTTP/1.1\r\nHost: ");
	buf_adds(out, buf_str(&at));
	buf_addz(out, "\r\n");
	if (p->authorization[0] != 0)
		buf_addf(out, "Proxy-Authorization: Basic %s\r\n", p->authorization);
	buf_addz(out, "\r\n");
	buf_fini(&at);
}

/* "HTTP/1.1 200" and then a space or the end of the line. */
static bool status_of(const struct parent_reader *r, unsigned *status)
{
	const char *l = r->line;

	if (r->n < 13 || memcmp(l, "HTTP/1.", 7) != 0 || (l[7] != '0' && l[7] != '1') || l[8] != ' ' || (l[12] != ' ' && l[12] != '\r'))
		return false;
	*status = 0;
	for (int i = 9; i < 12; i++) {
		if (l[i] < '0' || l[i] > '9')
			return false;
		*status = *status * 10 + (unsigned)(l[i] - '0');
	}
	return *status >= 200 && *status <= 599;
}

enum parent_answer parent_read(struct parent_reader *r, const uint8_t *p, size_t n, size_t *used, unsigned *status)
{
	static const char end[] = "\r\n\r\n";

	for (*used = 0; *used < n;) {
		char c = (char)p[(*used)++];

		if (r->n < sizeof(r->line))
			r->line[r->n] = c;
		if (++r->n > PARENT_HEAD_MAX || c == 0)
			return PARENT_BAD;
		r->end = c == end[r->end] ? r->end + 1 : c == '\r';
		if (r->end == 4)
			return status_of(r, status) ? PARENT_DONE : PARENT_BAD;
	}
	return PARENT_MORE;
}
