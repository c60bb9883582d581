/* SPDX-License-Identifier: Apache-2.0 */
#include "hello.h"

enum hello_sni hello_sni(const uint8_t *ext, size_t n, struct str *name)
{
	size_t list, len;

	if (n < 5)
		return HELLO_SNI_BAD;
	list = (size_t)ext[0] << 8 | ext[1];
	len = (size_t)ext[3] << 8 | ext[4];
	/* exactly one entry, of type host_name, filling the list, not empty */
	if (list != n - 2 || ext[2] != 0 || len == 0 || len != n - 5)
		return HELLO_SNI_BAD;
	*name = str_mk(ext + 5, len);
	return HELLO_SNI_OK;
}

int hello_alpn_offers(const uint8_t *ext, size_t n, struct str proto)
{
	int found = 0;

	if (n < 2 || ((size_t)ext[0] << 8 | ext[1]) != n - 2 || n == 2)
		return -1;
	for (size_t i = 2; i < n;) {
		size_t l = ext[i];

		if (l == 0 || i + 1 + l > n)
			return -1;
		if (str_eq(str_mk(ext + i + 1, l), proto))
			found = 1;
		i += 1 + l;
	}
	return found;
}

/* --- a whole one --------------------------------------------------------------------------------------------------- */

#define RECORD_HEAD 5
#define RECORD_MAX 16384
#define SNI_EXT_MAX (5 + 255)

/* Content of handshake records, one after another. */
struct records {
	const uint8_t *p;
	size_t at;
	size_t left; /* of the record that `at` stands in */
};

static void take(struct records *r, uint8_t *to, size_t n)
{
	while (n > 0) {
		size_t k;

		if (r->left == 0) {
			r->left = (size_t)r->p[r->at + 3] << 8 | r->p[r->at + 4];
			r->at += RECORD_HEAD;
		}
		k = n < r->left ? n : r->left;
		if (to != NULL) {
			memcpy(to, r->p + r->at, k);
			to += k;
		}
		r->at += k;
		r->left -= k;
		n -= k;
	}
}

/* The message's length and its records: whether they are there, from their heads alone. */
static enum hello_read complete(const uint8_t *p, size_t n, size_t *message)
{
	size_t at = 0, have = 0, want = 0;
	uint8_t head[4];

	for (unsigned i = 0; i < HELLO_RECORDS_MAX; i++) {
		size_t len;

		if ((n - at > 0 && p[at] != 22) || (n - at > 1 && p[at + 1] != 3))
			return HELLO_BAD;
		if (n - at < RECORD_HEAD)
			return HELLO_MORE;
		len = (size_t)p[at + 3] << 8 | p[at + 4];
		if (len == 0 || len > RECORD_MAX)
			return HELLO_BAD;
		for (size_t k = 0; k < len && have + k < sizeof(head) && at + RECORD_HEAD + k < n; k++) {
			head[have + k] = p[at + RECORD_HEAD + k];
			if (have + k == 0 && head[0] != 1)
				return HELLO_BAD;
		}
		if (n - at - RECORD_HEAD < len && have + (n - at - RECORD_HEAD) < sizeof(head))
			return HELLO_MORE;
		if (have < sizeof(head) && have + len >= sizeof(head)) {
			want = sizeof(head) + ((size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3]);
			if (want > HELLO_MAX)
				return HELLO_BAD;
		}
		if (n - at - RECORD_HEAD < len)
			return HELLO_MORE;
		have += len;
		at += RECORD_HEAD + len;
		if (want != 0 && have >= want) {
			*message = want - sizeof(head);
			return have == want ? HELLO_WHOLE : HELLO_BAD; /* no other message shares its last record (RFC 8446 5.1: keys change) */
		}
	}
	return HELLO_BAD;
}

/* A reader of the message that says once whether all was there. */
struct message {
	struct records r;
	size_t left;
	bool bad;
};

static bool have(struct message *m, size_t n)
{
	m->bad = m->bad || n > m->left;
	if (!m->bad)
		m->left -= n;
	return !m->bad;
}

static size_t number(struct message *m, unsigned octets)
{
	uint8_t b[2] = { 0 };

	if (!have(m, octets))
		return 0;
	take(&m->r, b, octets);
	return octets == 1 ? b[0] : (size_t)b[0] << 8 | b[1];
}

static void skip(struct message *m, size_t n)
{
	if (have(m, n))
		take(&m->r, NULL, n);
}

static void server_name(struct message *m, size_t len, struct hello *out)
{
	uint8_t ext[SNI_EXT_MAX];
	struct str name;

	if (out->sni != HELLO_SNI_NONE || len > sizeof(ext) || !have(m, len)) { /* two of them, or longer than a name can be */
		m->bad = true;
		return;
	}
	take(&m->r, ext, len);
	if (hello_sni(ext, len, &name) != HELLO_SNI_OK || memchr(name.p, 0, name.n) != NULL) {
		m->bad = true;
		return;
	}
	memcpy(out->name, name.p, name.n);
	out->name[name.n] = 0;
	out->sni = HELLO_SNI_OK;
}

enum hello_read hello_read(const uint8_t *p, size_t n, struct hello *out)
{
	struct message m = { .r = { .p = p } };
	enum hello_read got = complete(p, n, &m.left);
	size_t extensions;

	*out = (struct hello){ .sni = HELLO_SNI_NONE };
	if (got != HELLO_WHOLE)
		return got;
	take(&m.r, NULL, 4);
	skip(&m, 2 + 32); /* version, random */
	skip(&m, number(&m, 1)); /* session id */
	skip(&m, number(&m, 2)); /* cipher suites */
	skip(&m, number(&m, 1)); /* compression methods */
	if (m.bad || m.left == 0)
		return m.bad ? HELLO_BAD : HELLO_WHOLE;
	extensions = number(&m, 2);
	if (m.bad || extensions != m.left)
		return HELLO_BAD;
	while (m.left > 0 && !m.bad) {
		size_t type = number(&m, 2), len = number(&m, 2);

		if (type == 0 && !m.bad)
			server_name(&m, len, out);
		else
			skip(&m, len);
	}
	return m.bad ? HELLO_BAD : HELLO_WHOLE;
}
