/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_EXCHANGE_CHECK_H
#define SP_EXCHANGE_CHECK_H
/*
 * What must hold of all that a worker writes, whatever its peers send:
 *   - each request has exactly one terminal record (its id was given out, and is recorded once);
 *   - an upstream sees no request but such as the policy allows, none more often than it was recorded as allowed (twice, for one
 *     may be tried again), each with one credential and that never-indexed, and framed so that it can be read in one way only;
 *   - the secret's value is in nothing that goes to a client, also not across frames.
 */
#include "exchange_world.h"

#define IDS_MAX 65536
#define KEYS_MAX 4096
#define STREAMS_MAX 512

struct tail { /* the end of an octet stream, in which a value may have begun */
	uint32_t id;
	uint8_t n, octets[sizeof(SECRET_TEXT) - 2];
};
struct check {	       /* of one pipe */
	struct buf in; /* not looked at yet */
	/* HTTP/1.1 of requests */
	size_t scan;
	bool in_body, opaque; /* opaque: a WebSocket is asked for, and what follows is not HTTP */
	struct h1_body body;
	/* HTTP/2 */
	bool preface;
	nghttp2_hd_inflater *hd;
	struct buf block;
	uint32_t block_id;
	struct tail tail[STREAMS_MAX]; /* [0]: of the octets as they are, for HTTP/1.1 */
	unsigned tail_n;
};
struct key { /* of requests that are the same to the policy */
	uint64_t hash;
	unsigned recorded, forwarded;
};
static struct {
	uint8_t state[IDS_MAX]; /* of a request id: 0 not given out (or of a connection), 1 recorded */
	bool connection[IDS_MAX];
	unsigned records;
	char code[32]; /* of the last one */
	struct key keys[KEYS_MAX];
	unsigned keys_n;
	int mark;       /* an octet that stands at the end of each response's content only; 0: none does */
	unsigned whole; /* how many of them have reached a client: each has its record by then */
} * C;

static struct key *key_of(struct str method, struct str path)
{
	uint64_t h = hash_bytes(method.p, method.n) * 31 + hash_bytes(path.p, path.n < 1000 ? path.n : 1000);

	for (unsigned i = 0; i < C->keys_n; i++)
		if (C->keys[i].hash == h)
			return &C->keys[i];
	MUST(C->keys_n < KEYS_MAX);
	C->keys[C->keys_n] = (struct key){ .hash = h };
	return &C->keys[C->keys_n++];
}

/* --- records --------------------------------------------------------------------------------------------------------- */

static void no_secret(const void *p, size_t n) { MUST(memmem(p, n, SECRET_TEXT, sizeof(SECRET_TEXT) - 1) == NULL); }

static void check_record(const struct buf *fields)
{
	struct str s, kind = STR_NONE, id = STR_NONE, code = STR_NONE, reason = STR_NONE, method = STR_NONE, path = STR_NONE;
	enum record_tag t;
	size_t off = 0;
	uint64_t u;
	bool bad = false;
	char text[9] = "";
	unsigned long i;

	no_secret(buf_data(fields), buf_len(fields));
	while (record_next(buf_data(fields), buf_len(fields), &off, &t, &s, &u, &bad)) {
		if (t == REC_KIND)
			kind = s;
		else if (t == REC_REQUEST_ID)
			id = s;
		else if (t == REC_CODE)
			code = s;
		else if (t == REC_REASON)
			reason = s;
		else if (t == REC_METHOD)
			method = s;
		else if (t == REC_PATH)
			path = s;
	}
	MUST(!bad && kind.n > 0);
	if (!str_eq(kind, STR("request")))
		return;
	MUST(id.n == 24);
	memcpy(text, id.p + 16, 8);
	i = strtoul(text, NULL, 16);
	MUST(i < W->w.id_next && i < IDS_MAX && !C->connection[i] && C->state[i] == 0);
	C->state[i] = 1;
	C->records++;
	snprintf(C->code, sizeof(C->code), "%.*s", (int)code.n, code.n ? code.p : "");
	if (str_eq(reason, STR("policy_changed"))) /* a WebSocket that was allowed, until its rule went */
		code = STR_NONE;
	if (!str_eq(code, STR("policy_denied")) && !str_eq(code, STR("destination_denied")) && !str_eq(code, STR("identity_mismatch")))
		key_of(method, path)->recorded++;
}

/* --- what upstreams see ---------------------------------------------------------------------------------------------- */

static void check_request(const struct pipe *p, struct str method, struct str target, struct str host, unsigned credentials)
{
	ptrdiff_t q = str_find(target, STR("?"));
	struct str path = q < 0 ? target : str_mk(target.p, (size_t)q);
	bool ok = str_starts(path, STR("/ok/")) || str_eq(path, STR("/ok"));

	if (p->name == NAME_A && str_starts(path, STR("/ws")) && (str_eq(method, STR("GET")) || str_eq(method, STR("CONNECT")))) {
		ok = true;
		method = STR("WEBSOCKET");
	}
	if (p->name == NAME_A) {
		MUST(!str_starts(path, STR("/ok/no/")) && !str_eq(path, STR("/ok/no")));
		ok = ok || (str_eq(method, STR("POST")) && str_starts(path, STR("/graphql"))) || (str_eq(method, STR("PUT")) && str_starts(path, STR("/put")));
	}
	MUST(ok && str_find(path, STR("/../")) < 0 && str_find(path, STR("//")) < 0);
	MUST(str_eq(host, p->name == NAME_A ? STR("a.test") : p->name == NAME_B ? STR("b.test")
										: STR("p.test")));
	MUST(credentials == (p->name == NAME_P ? 0 : 1));
	MUST(!str_eq(method, STR("TRACE")) && !str_eq(method, STR("CONNECT")));
	key_of(method, path)->forwarded++;
}

static unsigned credential(const struct pipe *p, struct str name, struct str value)
{
	bool is = p->name == NAME_B ? str_ieq(name, STR("x-api-key")) : str_ieq(name, STR("authorization"));

	if (!is)
		return 0;
	if (p->name == NAME_P) /* nothing is injected there: what the client sent itself */
		return 0;
	MUST(str_eq(value, p->name == NAME_B ? STR(SECRET_TEXT) : STR("Bearer " SECRET_TEXT)));
	return 1;
}

static void upstream_h1_wrote(struct pipe *p)
{
	static const struct h1_limits lim = { 1 << 20, 1 << 20, 1 << 20, HTTP_FIELDS_MAX };
	static struct http_request r;
	struct check *k = p->check;
	struct http_fault f;
	const uint8_t *data;
	size_t len;
	long n;

	if (k->opaque)
		buf_clear(&k->in);
	while (buf_len(&k->in) > 0 && !k->opaque) {
		struct arena a = { 0 };
		unsigned credentials = 0;
		struct str target;
		uint8_t *line, *end;

		if (k->in_body) {
			n = h1_body_feed(&k->body, buf_data(&k->in), buf_len(&k->in), &data, &len, &f);
			MUST(n >= 0);
			buf_drop(&k->in, (size_t)n);
			k->in_body = !k->body.done;
			if (n == 0 && k->in_body)
				return;
			continue;
		}
		n = h1_head_end(buf_data(&k->in), buf_len(&k->in), &k->scan, &lim, &f);
		MUST(n >= 0);
		if (n == 0)
			return;
		k->scan = 0;
		line = memchr(buf_data(&k->in), ' ', (size_t)n);
		MUST(line != NULL);
		line++;
		end = memchr(line, ' ', (size_t)(buf_data(&k->in) + n - line));
		MUST(end != NULL);
		target = str_mk(line, (size_t)(end - line));
		MUST(h1_parse_request(buf_data(&k->in), (size_t)n, &lim, &a, &r, &f));
		for (unsigned i = 0; i < r.fields.n; i++)
			credentials += credential(p, r.fields.f[i].name, r.fields.f[i].value);
		check_request(p, r.method, target, r.host_field, credentials);
		h1_body_init(&k->body, r.framing, r.content_length);
		k->in_body = r.framing != HTTP_BODY_NONE && !(r.framing == HTTP_BODY_LENGTH && r.content_length == 0);
		k->opaque = r.upgrade_websocket;
		arena_fini(&a);
		buf_drop(&k->in, (size_t)n);
	}
}

/* --- HTTP/2, of either side ------------------------------------------------------------------------------------------ */

/* Whether the value, or the end of it behind what came before, is in p. */
static void no_secret_across(struct check *k, uint32_t id, const uint8_t *p, size_t n)
{
	uint8_t both[2 * sizeof(SECRET_TEXT)];
	struct tail *t = NULL;
	size_t m, keep = sizeof(t->octets);

	for (unsigned i = 0; i < k->tail_n && t == NULL; i++)
		if (k->tail[i].id == id)
			t = &k->tail[i];
	if (t == NULL) {
		t = &k->tail[k->tail_n < STREAMS_MAX ? k->tail_n++ : id % STREAMS_MAX];
		*t = (struct tail){ .id = id };
	}
	no_secret(p, n);
	m = n < keep ? n : keep;
	memcpy(both, t->octets, t->n);
	memcpy(both + t->n, p, m);
	no_secret(both, t->n + m);
	if (n >= keep) {
		memcpy(t->octets, p + n - keep, keep);
		t->n = (uint8_t)keep;
	} else {
		size_t all = t->n + n, skip = all > keep ? all - keep : 0;

		memcpy(t->octets, both + skip, all - skip);
		t->n = (uint8_t)(all - skip);
	}
}

static void block_whole(struct pipe *p)
{
	struct check *k = p->check;
	struct str method = STR_NONE, path = STR_NONE, host = STR_NONE;
	struct arena a = { 0 };
	const uint8_t *in = buf_data(&k->block);
	size_t left = buf_len(&k->block);
	unsigned credentials = 0;
	int flags = 0;

	if (k->hd == NULL)
		MUST(nghttp2_hd_inflate_new(&k->hd) == 0);
	while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
		nghttp2_nv nv;
		ssize_t n = nghttp2_hd_inflate_hd2(k->hd, &nv, &flags, in, left, 1);
		struct str name, value;

		MUST(n >= 0 && (n > 0 || flags != 0));
		in += n;
		left -= (size_t)n;
		if (!(flags & NGHTTP2_HD_INFLATE_EMIT))
			continue;
		name = str_of(arena_strz(&a, str_mk(nv.name, nv.namelen)));
		value = str_of(arena_strz(&a, str_mk(nv.value, nv.valuelen)));
		MUST(name.n == nv.namelen && name.n > 0);
		for (size_t i = 0; i < name.n; i++)
			MUST(name.p[i] < 'A' || name.p[i] > 'Z');
		MUST(memchr(nv.value, '\r', nv.valuelen) == NULL && memchr(nv.value, '\n', nv.valuelen) == NULL && memchr(nv.value, 0, nv.valuelen) == NULL);
		MUST(!str_eq(name, STR("connection")) && !str_eq(name, STR("transfer-encoding")) && !str_eq(name, STR("upgrade")) && !str_eq(name, STR("keep-alive")));
		if (p->client) {
			no_secret(nv.name, nv.namelen);
			no_secret(nv.value, nv.valuelen);
			continue;
		}
		if (str_eq(name, STR(":method")))
			method = value;
		else if (str_eq(name, STR(":path")))
			path = value;
		else if (str_eq(name, STR(":authority")))
			host = value;
		if (memmem(nv.value, nv.valuelen, SECRET_TEXT, sizeof(SECRET_TEXT) - 1) != NULL)
			MUST(nv.flags & NGHTTP2_NV_FLAG_NO_INDEX); /* J15 */
		credentials += credential(p, name, value);
	}
	nghttp2_hd_inflate_end_headers(k->hd);
	if (!p->client && method.n > 0) {
		p->last_id = k->block_id;
		check_request(p, method, path, host, credentials);
	}
	arena_fini(&a);
	buf_clear(&k->block);
}

static void h2_wrote(struct pipe *p)
{
	struct check *k = p->check;

	if (!p->client && !k->preface) {
		if (buf_len(&k->in) < NGHTTP2_CLIENT_MAGIC_LEN)
			return;
		MUST(memcmp(buf_data(&k->in), NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN) == 0);
		buf_drop(&k->in, NGHTTP2_CLIENT_MAGIC_LEN);
		k->preface = true;
	}
	for (;;) {
		const uint8_t *h = buf_data(&k->in), *d = h + 9;
		size_t n, pad = 0;
		uint32_t id;

		if (buf_len(&k->in) < 9)
			return;
		n = (size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2];
		MUST(n <= 16384 && h[3] <= NGHTTP2_PRIORITY_UPDATE);
		if (buf_len(&k->in) < 9 + n)
			return;
		id = (uint32_t)(h[5] & 0x7f) << 24 | (uint32_t)h[6] << 16 | (uint32_t)h[7] << 8 | h[8];
		MUST(buf_len(&k->block) == 0 || (h[3] == NGHTTP2_CONTINUATION && id == k->block_id));
		MUST(!(h[3] <= NGHTTP2_HEADERS && id == 0) && (!p->client || h[3] != NGHTTP2_PUSH_PROMISE));
		if (h[3] <= NGHTTP2_HEADERS && (h[4] & NGHTTP2_FLAG_PADDED)) {
			pad = d[0] + 1u;
			MUST(pad <= n);
			d++;
		}
		if (h[3] == NGHTTP2_DATA && p->client)
			no_secret_across(k, id, d, n - pad);
		if (h[3] == NGHTTP2_HEADERS || h[3] == NGHTTP2_CONTINUATION) {
			k->block_id = id;
			buf_add(&k->block, d, n - pad);
			if (h[4] & NGHTTP2_FLAG_END_HEADERS)
				block_whole(p);
		}
		buf_drop(&k->in, 9 + n);
	}
}

static void check_wrote(struct pipe *p, const uint8_t *d, size_t n)
{
	struct check *k = p->check;
	bool h2 = p->h2 && p->c != NULL && p->c->ssl != NULL;

	if (k == NULL)
		k = p->check = must_calloc(1, sizeof(*k));
	if (!p->client)
		h2 = p->h2 && p->name != NAME_P;
	if (p->client && C->mark != 0 && memchr(d, C->mark, n) != NULL)
		MUST(++C->whole == C->records);
	if (p->client && !h2) {
		no_secret_across(k, 0, d, n);
		return;
	}
	buf_add(&k->in, d, n);
	if (h2)
		h2_wrote(p);
	else
		upstream_h1_wrote(p);
}

/* --- in all ---------------------------------------------------------------------------------------------------------- */

static void check_start(void) { C = must_calloc(1, sizeof(*C)); }

/* Requests that were begun and have no record yet. */
static unsigned check_open(void)
{
	unsigned begun = 0;

	for (uint32_t i = 0; i < W->w.id_next; i++)
		begun += !C->connection[i];
	return begun - W->connects - C->records;
}

static void check_stop(void)
{
	for (unsigned i = 0; i < C->keys_n; i++)
		MUST(C->keys[i].forwarded <= 2 * C->keys[i].recorded);
	for (int i = 0; i < W->pipe_n; i++) {
		struct check *k = W->pipe[i].check;

		if (k == NULL)
			continue;
		buf_fini(&k->in);
		buf_fini(&k->block);
		if (k->hd != NULL)
			nghttp2_hd_inflate_del(k->hd);
		free(k);
	}
	free(C);
	C = NULL;
}
#endif
