/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a table that was checked. It is mapped from its descriptor and searched where it lies: opening costs a map and
 * one record, nothing is opened by name, a look-up is a descent over two or three pages. liblmdb only writes tables.
 */
#include "table.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../base/must.h"
#include "host_pattern.h"
#include "image.h"
#include "regex.h"
#include "sandbox_spec.h"
#include "signature.h"
#include "table_record.h"

struct port_entry {
	uint8_t scheme;
	uint16_t port;
};
/* Values of all destinations by number, made when first asked for. */
struct numbered {
	struct str *values;
	struct port_entry *places;
	uint32_t n;
};
struct table {
	size_t mapped; /* octets, with a signature behind the pages */
	struct image image;
	struct header h;
	struct port_entry *ports;
	uint32_t port_n;
	bool wild_denies; /* some wildcard has deny rules */
	uint8_t port_bits[65536 / 8];
	struct numbered *dests;
	struct regexes *regexes;
	struct table *boundary; /* or NULL */
};

/* --- records ------------------------------------------------------------------------------------------------------- */

/* By depth, each once, none that says nothing. */
static bool load_wild(struct cursor *c, struct header *h)
{
	h->wild_n = get_u8(c);
	if (h->wild_n > WILD_DEPTHS)
		return false;
	for (unsigned i = 0, last = 0; i < h->wild_n; i++) {
		struct wild *w = &h->wild[i];

		w->depth = get_u8(c);
		w->flags = get_u8(c);
		w->single = get_u64(c);
		if (w->depth <= last || w->depth > WILD_DEPTHS || (w->flags & ~WILD_FLAGS_ALL) != 0 || (w->single == 0 && (w->flags & WILD_DOUBLE) == 0))
			return false;
		last = w->depth;
	}
	return !c->bad;
}

bool table_load_header(struct str v, struct header *h)
{
	struct cursor c = cursor_on(v), p;
	const uint8_t *magic = cur_take(&c, 8);

	if (magic == NULL || memcmp(magic, TABLE_MAGIC, 8) != 0 || get_u32(&c) != TABLE_FORMAT)
		return false;
	h->digest_at = c.at;
	h->digest = cur_take(&c, TABLE_DIGEST_LEN);
	h->flags = get_u8(&c);
	h->observe_until = get_u64(&c);
	h->compiler = get_str(&c);
	h->name = get_str(&c);
	h->dests = get_u32(&c);
	h->secrets = get_u32(&c);
	if (!load_wild(&c, h))
		return false;
	h->ports = p = c;
	for (uint32_t n = get_u32(&p), last = 0, now; n > 0 && !p.bad; n--, last = now) {
		now = (uint32_t)get_u8(&p) << 16;
		now |= get_u16(&p);
		if (now <= last)
			return false;
	}
	return !p.bad && p.at == p.n && (h->flags & ~TABLE_FLAG_EXPLAIN) == 0 && h->name.n > 0 && h->dests <= TABLE_DEST_MAX && h->secrets <= TABLE_SECRET_MAX;
}

bool table_load_secret(struct str v, struct secret_decl *s, struct cursor *hosts)
{
	struct cursor c = cursor_on(v);
	uint8_t source = get_u8(&c), flags, token;

	*s = (struct secret_decl){ .source = SECRET_SOURCE_NONE };
	s->name = get_str(&c);
	s->arg = get_str(&c);
	*hosts = c;
	for (uint32_t n = get_u32(&c); n > 0 && !c.bad; n--)
		get_str(&c);
	flags = get_u8(&c);
	token = get_u8(&c);
	s->refresh_s = get_u32(&c);
	if (!secret_params_load(&c, &s->params) || c.bad || c.at != c.n || source == SECRET_SOURCE_NONE || source >= SECRET_SOURCES || token >= SECRET_TOKENS || (flags & ~SECRET_FLAGS_ALL) != 0)
		return false;
	if (s->name.n == 0 || s->arg.n == 0 || memchr(s->arg.p, 0, s->arg.n) != NULL || s->refresh_s > SECRET_REFRESH_MAX_S || (token != SECRET_TOKEN_NONE) != (secret_param(&s->params, SECRET_PARAM_URL, 0).n > 0))
		return false;
	s->source = source;
	s->token = token;
	s->follow = (flags & SECRET_FLAG_FOLLOW) != 0;
	return true;
}

/* --- an open table ------------------------------------------------------------------------------------------------- */

static int load_ports(struct table *t, struct err *err)
{
	struct cursor c = t->h.ports;

	t->port_n = get_u32(&c);
	t->ports = must_calloc(t->port_n + 1ul, sizeof(*t->ports)); /* the count was compared with the octets there are */
	for (uint32_t i = 0; i < t->port_n; i++) {
		t->ports[i].scheme = get_u8(&c);
		t->ports[i].port = get_u16(&c);
		t->port_bits[t->ports[i].port / 8] |= (uint8_t)(1u << t->ports[i].port % 8);
	}
	return c.bad ? err_set(err, EBADMSG, "the table is damaged: its list of ports") : 0;
}

int table_open(struct table **out, int fd, struct err *err)
{
	struct table *t = must_calloc(1, sizeof(*t));
	static const char key[1] = { KEY_HEADER };
	struct str header;
	struct stat st;
	void *map;

	if (fstat(fd, &st) != 0) {
		err_errno(err, "the table");
		goto fail;
	}
	if (st.st_size <= 0 || (uint64_t)st.st_size > UINT32_MAX) {
		err_set(err, EBADMSG, "the table is damaged: its size");
		goto fail;
	}
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		err_errno(err, "the table");
		goto fail;
	}
	t->mapped = (size_t)st.st_size;
	if (image_open(&t->image, map, signature_body(map, t->mapped), err) < 0) {
		t->image = (struct image){ .p = map };
		goto fail;
	}
	if (image_find(&t->image, str_mk(key, 1), &header) != 1 || !table_load_header(header, &t->h)) {
		err_set(err, EBADMSG, "the table has no header, or one of another format version");
		goto fail;
	}
	if (load_ports(t, err) < 0)
		goto fail;
	for (unsigned i = 0; i < t->h.wild_n; i++)
		t->wild_denies = t->wild_denies || (t->h.wild[i].flags & WILD_DENY) != 0;
	t->dests = must_calloc(1, sizeof(*t->dests));
	t->regexes = regexes_new();
	*out = t;
	return 0;
fail:
	table_free(t);
	return -1;
}

int table_open_within(struct table **out, int fd, const int *boundary_fds, unsigned n, struct err *err)
{
	struct table *last;

	if (n > TABLE_BOUNDARIES_MAX)
		return err_set(err, EINVAL, "too many boundaries");
	if (table_open(out, fd, err) < 0)
		return -1;
	last = *out;
	for (unsigned i = 0; i < n; i++) {
		struct table *boundary;

		if (table_open(&boundary, boundary_fds[i], err) < 0) {
			table_free(*out);
			return -1;
		}
		table_bind(last, boundary);
		last = boundary;
	}
	return 0;
}

void table_free(struct table *t)
{
	if (t == NULL)
		return;
	if (t->image.p != NULL)
		munmap((void *)(uintptr_t)t->image.p, t->mapped);
	if (t->dests != NULL) {
		free(t->dests->values);
		free(t->dests->places);
	}
	free(t->dests);
	regexes_free(t->regexes);
	table_free(t->boundary);
	free(t->ports);
	free(t);
}

void table_bind(struct table *t, struct table *boundary) { t->boundary = boundary; }
const struct table *table_boundary(const struct table *t) { return t->boundary; }
struct str table_name(const struct table *t) { return t->h.name; }
const uint8_t *table_digest(const struct table *t) { return t->h.digest; }
bool table_explain_denials(const struct table *t) { return (t->h.flags & TABLE_FLAG_EXPLAIN) != 0; }
uint64_t table_observe_until(const struct table *t) { return t->h.observe_until; }
struct regexes *table_regexes(const struct table *t) { return t->regexes; }
bool table_port_speaks(const struct table *t, enum scheme scheme, uint16_t port)
{
	for (uint32_t i = 0; i < t->port_n; i++)
		if (t->ports[i].scheme == scheme && t->ports[i].port == port)
			return true;
	return false;
}

bool table_port_known(const struct table *t, uint16_t port) { return (t->port_bits[port / 8] & 1u << port % 8) != 0; }

size_t table_key(uint8_t out[TABLE_KEY_MAX], uint8_t scheme, uint16_t port, struct str host)
{
	size_t n = 4, end = host.n;

	out[0] = KEY_DEST;
	out[1] = scheme;
	out[2] = (uint8_t)(port >> 8);
	out[3] = (uint8_t)port;
	/* labels from the last to the first, so that hosts of one domain stand together; address literals alike, it does not matter */
	while (end > 0 && n + host.n + 1 < TABLE_KEY_MAX) {
		size_t b = end;

		while (b > 0 && host.p[b - 1] != '.')
			b--;
		memcpy(out + n, host.p + b, end - b);
		n += end - b;
		end = b;
		if (end > 0) {
			out[n++] = '.';
			end--;
		}
	}
	return n;
}

/* --- destinations -------------------------------------------------------------------------------------------------- */

static int load_dest(const struct table *t, enum scheme scheme, uint16_t port, struct str value, struct dest *out)
{
	struct dest_value v;
	struct str host;
	uint8_t flags;

	memset(out, 0, sizeof(*out));
	if (!dest_value_load(value, &v))
		return -1;
	flags = v.p[DEST_FLAGS];
	out->table = t;
	out->scheme = scheme;
	out->port = port;
	out->value = v.p;
	out->value_len = v.len;
	out->id = dest_value_ref(&v, v.p + DEST_ID);
	out->source = dest_value_ref(&v, v.p + DEST_SOURCE);
	out->index = le32(v.p + DEST_INDEX);
	out->tunnel = (flags & DEST_FLAG_TUNNEL) != 0;
	out->log_query = (flags & DEST_FLAG_LOG_QUERY) != 0;
	out->paths.encoded_slash_keep = (flags & DEST_FLAG_ENCODED_SLASH) != 0;
	out->paths.empty_segments_keep = (flags & DEST_FLAG_EMPTY_SEGMENTS) != 0;
	out->paths.raw = (flags & DEST_FLAG_RAW) != 0;
	host = dest_value_ref(&v, v.p + DEST_HOST);
	out->wildcard = host.n > 0 && memchr(host.p, '*', host.n) != NULL;
	dest_value_limits(&v, &out->limits);
	dest_value_ip(v.p + DEST_CONNECT_IP, &out->connect_ip);
	out->connect_port = le16(v.p + DEST_CONNECT_PORT);
	out->tls_min = v.p[DEST_TLS_MIN];
	out->has_ca = v.sect[SECT_CAS].n > 0;
	out->has_crl = v.sect[SECT_CRLS].n > 0;
	out->alpn_h1 = (flags & DEST_FLAG_ALPN_H1) != 0;
	out->alpn_h2 = (flags & DEST_FLAG_ALPN_H2) != 0;
	out->pin_n = v.sect[SECT_PINS].n;
	out->has_inject = v.sect[SECT_INJECTS].n > 0;
	out->foreign = v.p[DEST_CARE];
	out->scrub_off = v.p[DEST_CARE + 1] != 0;
	out->rate_n = v.sect[SECT_RATES].n;
	out->has_places = v.sect[SECT_PLACES].n > 0;
	return 1;
}

/*
 * What may stand for a host is tried in the order in which it decides. The key of a wildcard is the host's own key up to
 * its depth, and then its first label: "test.a." "*" for x.a.test. Only what the header says that there is gets a look-up.
 */
struct search {
	const struct table *t;
	uint8_t key[TABLE_KEY_MAX]; /* of the host */
	size_t n;
	unsigned labels;
	uint8_t end[WILD_DEPTHS + 2]; /* end[i], from the host's start in the key: of the first i labels, without a dot behind */
};

static bool search_init(struct search *s, const struct table *t, enum scheme scheme, struct str host, uint16_t port)
{
	if (host.n == 0 || host.n > CANON_HOST_MAX || memchr(host.p, '*', host.n) != NULL || !table_port_known(t, port))
		return false;
	s->t = t;
	s->n = table_key(s->key, (uint8_t)scheme, port, host);
	s->labels = 0;
	for (size_t i = 4; i < s->n && s->labels < WILD_DEPTHS; i++)
		if (s->key[i] == '.')
			s->end[++s->labels] = (uint8_t)(i - 4);
	s->end[++s->labels] = (uint8_t)(s->n - 4);
	return true;
}

/* The first `n` octets of the host's key, and what else; as image_find. */
static int search_at(const struct search *s, struct image_place *near, size_t n, const char *more, struct str *value)
{
	uint8_t key[TABLE_KEY_MAX];
	size_t k = strlen(more);

	memcpy(key, s->key, n);
	memcpy(key + n, more, k);
	return image_find_near(&s->t->image, near, str_mk(key, n + k), value);
}

/*
 * Calls fn with each value, the deciding one first, until fn returns false. denies: only wildcards of depths that have deny
 * rules. 0, or -1 damaged.
 */
static int search_each(const struct search *s, bool denies, bool (*fn)(void *arg, struct str value), void *arg)
{
	const struct header *h = &s->t->h;
	struct image_place near = { 0 };
	struct str value;
	int r = denies ? 0 : image_find_near(&s->t->image, &near, str_mk(s->key, s->n), &value);

	if (r < 0 || (r == 1 && !fn(arg, value)))
		return r < 0 ? -1 : 0;
	for (unsigned i = 0; i < h->wild_n && h->wild[i].depth < s->labels; i++) {
		const struct wild *w = &h->wild[i];
		size_t before = 4 + s->end[w->depth] + 1ul, label = s->n - before;

		if (w->depth + 1u != s->labels || (denies && (w->flags & WILD_DENY) == 0))
			continue;
		for (size_t k = label < 63 ? label + 1 : 64; k-- > 0;) {
			if ((w->single & (uint64_t)1 << k) == 0)
				continue;
			r = search_at(s, &near, before + k, "*", &value);
			if (r < 0 || (r == 1 && !fn(arg, value)))
				return r < 0 ? -1 : 0;
		}
	}
	for (unsigned i = h->wild_n; i-- > 0;) {
		const struct wild *w = &h->wild[i];

		if (w->depth >= s->labels || (w->flags & WILD_DOUBLE) == 0 || (denies && (w->flags & WILD_DENY) == 0))
			continue;
		r = search_at(s, &near, 4 + s->end[w->depth] + 1ul, "**", &value);
		if (r < 0 || (r == 1 && !fn(arg, value)))
			return r < 0 ? -1 : 0;
	}
	return 0;
}

static bool take_first(void *arg, struct str value)
{
	*(struct str *)arg = value;
	return false;
}

int table_find_unbounded(const struct table *t, enum scheme scheme, struct str host, uint16_t port, struct dest *out)
{
	struct search s;
	struct str value = STR_NONE;

	if (!search_init(&s, t, scheme, host, port))
		return 0;
	if (search_each(&s, false, take_first, &value) < 0)
		return -1;
	return value.p != NULL ? load_dest(t, scheme, port, value, out) : 0;
}

int table_find(const struct table *t, enum scheme scheme, struct str host, uint16_t port, struct dest *out)
{
	struct dest bound;
	int r = table_find_unbounded(t, scheme, host, port, out);

	for (const struct table *b = t->boundary; r == 1 && b != NULL; b = b->boundary)
		r = table_find_unbounded(b, scheme, host, port, &bound);
	return r;
}

struct broader {
	const struct dest *than;
	bool (*fn)(void *arg, const struct dest *d);
	void *arg;
	bool damaged;
};

static bool on_broader(void *arg, struct str value)
{
	struct broader *b = arg;
	struct dest d;

	if (octets(value) == b->than->value)
		return true;
	b->damaged = load_dest(b->than->table, b->than->scheme, b->than->port, value, &d) != 1;
	return !b->damaged && b->fn(b->arg, &d);
}

int table_broader_each(const struct table *t, const struct dest *d, enum scheme scheme, struct str host, uint16_t port, bool (*fn)(void *arg, const struct dest *broader), void *arg)
{
	struct broader b = { d, fn, arg, false };
	struct search s;

	if (!t->wild_denies || !search_init(&s, t, scheme, host, port))
		return 0;
	return search_each(&s, true, on_broader, &b) < 0 || b.damaged ? -1 : 0;
}

/* On some port there is a destination for the host that fn finds. */
static bool any_dest(const struct table *t, struct str host, bool (*fn)(enum scheme scheme, const struct dest *d))
{
	struct dest d;

	for (uint32_t i = 0; i < t->port_n; i++)
		if (table_find(t, t->ports[i].scheme, host, t->ports[i].port, &d) == 1 && fn(t->ports[i].scheme, &d))
			return true;
	return false;
}

static bool is_any(enum scheme scheme, const struct dest *d)
{
	(void)scheme;
	(void)d;
	return true;
}

static bool is_intercepted(enum scheme scheme, const struct dest *d) { return scheme == SCHEME_HTTPS && !d->tunnel; }

static bool is_tunnel(enum scheme scheme, const struct dest *d)
{
	(void)scheme;
	return d->tunnel;
}

bool table_host_known(const struct table *t, struct str host) { return any_dest(t, host, is_any); }
bool table_host_intercepted(const struct table *t, struct str host) { return any_dest(t, host, is_intercepted); }
bool table_host_tunnelled(const struct table *t, struct str host) { return any_dest(t, host, is_tunnel); }

static bool take_value(void *arg, struct str key, struct str value, struct err *err)
{
	struct numbered *n = arg;

	(void)err;
	if (octets(key)[0] == KEY_DEST && key.n > 4) {
		n->places[n->n] = (struct port_entry){ octets(key)[1], (uint16_t)(octets(key)[2] << 8 | octets(key)[3]) };
		n->values[n->n++] = value;
	}
	return true;
}

static bool numbered(const struct table *t)
{
	struct numbered *n = t->dests;
	struct err err = ERR_INIT;

	if (n->values != NULL)
		return true;
	n->values = must_calloc(t->h.dests + 1ul, sizeof(struct str));
	n->places = must_calloc(t->h.dests + 1ul, sizeof(*n->places));
	if (image_walk(&t->image, take_value, n, &err) == 0 && n->n == t->h.dests)
		return true;
	free(n->values);
	free(n->places);
	n->values = NULL;
	n->places = NULL;
	n->n = 0;
	return false;
}

bool table_dest_at(const struct table *t, uint32_t index, struct dest *out)
{
	return numbered(t) && index < t->dests->n && load_dest(t, (enum scheme)t->dests->places[index].scheme, t->dests->places[index].port, t->dests->values[index], out) == 1;
}

bool table_dest_each(const struct table *t, bool (*fn)(void *arg, const struct dest *d), void *arg)
{
	struct dest d;

	if (!numbered(t))
		return false;
	for (uint32_t i = 0; i < t->dests->n; i++)
		if (load_dest(t, (enum scheme)t->dests->places[i].scheme, t->dests->places[i].port, t->dests->values[i], &d) != 1 || !fn(arg, &d))
			return false;
	return true;
}

/* The value of a destination that table_find gave. */
static bool value_of(const struct dest *d, struct dest_value *v) { return dest_value_load(str_mk(d->value, d->value_len), v); }

/* One section of a value, instead of all. v is good for dest_value_ref then. No elements if it is out of bounds. */
static struct section section_of(const struct dest *d, struct dest_value *v, enum dest_section s, size_t size)
{
	struct section none = { 0, 0 }, it;

	if (d->value_len < DEST_FIXED)
		return none;
	v->p = d->value;
	v->len = d->value_len;
	it = (struct section){ le32(v->p + DEST_SECTIONS + 8 * s), le32(v->p + DEST_SECTIONS + 8 * s + 4) };
	return it.off <= v->len && it.n <= (v->len - it.off) / size ? it : none;
}

static const uint8_t *element(const struct dest *d, struct dest_value *v, enum dest_section s, size_t size, uint32_t i)
{
	struct section it = section_of(d, v, s, size);

	return i < it.n ? v->p + it.off + size * i : NULL;
}

struct str dest_host(const struct dest *d)
{
	struct dest_value v;

	return value_of(d, &v) ? dest_value_ref(&v, v.p + DEST_HOST) : STR_NONE;
}

bool dest_stands_for(const struct dest *d, struct str host) { return d->wildcard ? host_text_covers(dest_host(d), host) : str_eq(dest_host(d), host); }

bool dest_addresses_listed(const struct dest *d)
{
	struct dest_value v;

	return value_of(d, &v) && v.sect[SECT_ADDRESSES].n > 0;
}

bool dest_address_ok(const struct dest *d, const struct ip *a, const char **why)
{
	enum ip_class class = ip_classify(a, why);
	struct dest_value v;
	const uint8_t *p;
	struct ip inner;
	bool embedded = ip_embedded_v4(a, &inner);

	if (class == IP_FORBIDDEN_ALWAYS)
		return false;
	if (!value_of(d, &v)) {
		*why = "the table is damaged";
		return false;
	}
	if (v.sect[SECT_ADDRESSES].n == 0)
		return class == IP_PUBLIC;
	for (uint32_t i = 0; (p = dest_value_at(&v, SECT_ADDRESSES, ADDRESS_SIZE, i)) != NULL; i++) {
		struct cidr net = { .bits = p[17] };

		dest_value_ip(p, &net.net);
		if (cidr_has(&net, a) || (embedded && net.net.family == 4 && cidr_has(&net, &inner)))
			return true;
	}
	*why = "not among the destination's addresses";
	return false;
}

static bool der_at(const struct dest *d, enum dest_section section, size_t size, unsigned i, struct str *der)
{
	struct dest_value v;
	const uint8_t *p = element(d, &v, section, size, i);

	if (p == NULL)
		return false;
	*der = dest_value_ref(&v, p);
	return der->n > 0;
}

bool dest_ca(const struct dest *d, unsigned i, struct str *der) { return der_at(d, SECT_CAS, CA_SIZE, i, der); }
bool dest_crl(const struct dest *d, unsigned i, struct str *der) { return der_at(d, SECT_CRLS, CRL_SIZE, i, der); }

bool dest_rate(const struct dest *d, unsigned i, struct rate *out)
{
	struct dest_value v;
	const uint8_t *p;

	if ((p = element(d, &v, SECT_RATES, RATE_SIZE, i)) == NULL || p[0] >= RATE_KINDS)
		return false;
	*out = (struct rate){ p[0], le32(p + 4), le64(p + 8), le32(p + 16), le64(p + 24) };
	return true;
}

static uint64_t lesser(uint64_t a, uint64_t b) { return a == 0 || (b != 0 && b < a) ? b : a; }

struct dest_limits dest_limits_both(const struct dest_limits *a, const struct dest_limits *b)
{
	return (struct dest_limits){
		.request_body = lesser(a->request_body, b->request_body),
		.response_body = lesser(a->response_body, b->response_body),
		.head_ms = (uint32_t)lesser(a->head_ms, b->head_ms),
		.idle_ms = (uint32_t)lesser(a->idle_ms, b->idle_ms),
		.total_ms = (uint32_t)lesser(a->total_ms, b->total_ms),
	};
}

struct dest_limits dest_limits_of_rule(const struct dest *d, uint32_t rule)
{
	struct dest_limits l = d->limits;
	struct rate r;

	for (unsigned i = 0; i < d->rate_n && dest_rate(d, i, &r); i++) {
		if (r.rule != rule || r.amount == 0)
			continue;
		switch (r.kind) {
		case RATE_REQUEST_BODY:
			l.request_body = lesser(l.request_body, r.amount);
			break;
		case RATE_RESPONSE_BODY:
			l.response_body = lesser(l.response_body, r.amount);
			break;
		case RATE_HEAD:
			l.head_ms = (uint32_t)lesser(l.head_ms, r.amount);
			break;
		case RATE_IDLE:
			l.idle_ms = (uint32_t)lesser(l.idle_ms, r.amount);
			break;
		case RATE_TOTAL:
			l.total_ms = (uint32_t)lesser(l.total_ms, r.amount);
			break;
		default:
			break;
		}
	}
	return l;
}

bool dest_place(const struct dest *d, unsigned i, struct str *place)
{
	struct dest_value v;
	const uint8_t *p;

	if ((p = element(d, &v, SECT_PLACES, PLACE_SIZE, i)) == NULL)
		return false;
	*place = dest_value_ref(&v, p);
	return place->n > 0;
}

const uint8_t *dest_pin(const struct dest *d, unsigned i)
{
	struct dest_value v;

	return element(d, &v, SECT_PINS, PIN_SIZE, i);
}

unsigned dest_inject_count(const struct dest *d)
{
	struct dest_value v;

	return section_of(d, &v, SECT_INJECTS, INJECT_SIZE).n;
}

bool dest_inject(const struct dest *d, unsigned i, struct inject *out)
{
	struct dest_value v;
	const uint8_t *p;

	if ((p = element(d, &v, SECT_INJECTS, INJECT_SIZE, i)) == NULL || p[0] >= INJECT_KINDS)
		return false;
	out->kind = p[0];
	out->slashes_keep = (p[1] & INJECT_FLAG_SLASHES) != 0;
	out->scope_sandbox = (p[1] & INJECT_FLAG_SCOPE_SANDBOX) != 0;
	out->body_deny = (p[1] & INJECT_FLAG_BODY_DENY) != 0;
	out->places = le16(p + 2);
	out->secret_index = le32(p + 4);
	out->secret_name = dest_value_ref(&v, p + 8);
	out->username = dest_value_ref(&v, p + 16);
	out->name = dest_value_ref(&v, p + 24);
	out->format = dest_value_ref(&v, p + 32);
	out->service = dest_value_ref(&v, p + 40);
	out->region = dest_value_ref(&v, p + 48);
	out->env = dest_value_ref(&v, p + 56);
	out->when = dest_value_ref(&v, p + 64);
	out->template = dest_value_ref(&v, p + 72);
	out->timestamp = dest_value_ref(&v, p + 80);
	out->nonce = dest_value_ref(&v, p + 88);
	out->hash = p[96];
	out->encoding = p[97];
	out->key = p[98];
	return true;
}

bool inject_variable(const struct inject *in, unsigned i, struct str *name, struct str *template)
{
	struct cursor c = cursor_on(in->env);

	for (;; i--) {
		*name = get_str(&c);
		*template = get_str(&c);
		if (c.bad || i == 0)
			return !c.bad;
	}
}

bool inject_when(const struct inject *in, struct str rule)
{
	struct cursor c = cursor_on(in->when);

	while (c.at < c.n && !c.bad)
		if (str_eq(get_str(&c), rule))
			return !c.bad;
	return in->when.n == 0;
}

struct each_inject {
	bool (*fn)(void *arg, const struct inject *in);
	void *arg;
};

static bool injects_of(void *arg, const struct dest *d)
{
	struct each_inject *e = arg;
	struct inject in;

	for (unsigned i = 0, n = d->has_inject ? dest_inject_count(d) : 0; i < n; i++)
		if (!dest_inject(d, i, &in) || !e->fn(e->arg, &in))
			return false;
	return true;
}

bool table_inject_each(const struct table *t, bool (*fn)(void *arg, const struct inject *in), void *arg)
{
	struct each_inject e = { fn, arg };

	return table_dest_each(t, injects_of, &e);
}

/* --- secrets, sandbox ---------------------------------------------------------------------------------------------- */

static bool find_secret(const struct table *t, uint32_t i, struct secret_decl *s, struct cursor *hosts)
{
	uint8_t key[5] = { KEY_SECRET, (uint8_t)(i >> 24), (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i };
	struct str value;

	return i < t->h.secrets && image_find(&t->image, str_mk(key, sizeof(key)), &value) == 1 && table_load_secret(value, s, hosts);
}

unsigned table_secret_count(const struct table *t) { return t->h.secrets; }

bool table_secret(const struct table *t, unsigned i, struct secret_decl *out)
{
	struct cursor hosts;

	if (!find_secret(t, i, out, &hosts))
		return false;
	out->index = i;
	return true;
}

bool table_secret_host(const struct table *t, unsigned i, unsigned k, struct str *host)
{
	struct secret_decl s;
	struct cursor c;
	uint32_t n;

	if (!find_secret(t, i, &s, &c))
		return false;
	n = get_u32(&c);
	for (unsigned at = 0; k < n && at <= k; at++)
		*host = get_str(&c);
	return k < n;
}

bool table_secret_host_ok(const struct table *t, uint32_t i, struct str host)
{
	struct secret_decl s;
	struct cursor c;

	if (!find_secret(t, i, &s, &c))
		return false;
	for (uint32_t n = get_u32(&c); n > 0; n--)
		if (host_text_covers(get_str(&c), host))
			return true;
	return false;
}

bool sandbox_spec_load(const struct table *t, struct sandbox_spec *out)
{
	static const char key[1] = { KEY_SANDBOX };
	struct str value;

	return image_find(&t->image, str_mk(key, 1), &value) == 1 && sandbox_value_load(value, out);
}
