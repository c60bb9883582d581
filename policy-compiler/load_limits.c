/* SPDX-License-Identifier: Apache-2.0 */
/* `limits`, of a rule, of a destination and at the top: sizes, times, rates and budgets. */
#include "../common/policy/format.h"
#include "load.h"

#define RATES_MAX 16 /* of one place */

struct limits_ctx {
	struct load *l;
	struct pol_limits *to;
};

static uint64_t size_of(const struct limits_ctx *c, const struct schema_row *row, const struct schema_value *v)
{
	if (v->number > 0 && v->number <= LIMIT_BYTES_MAX)
		return v->number;
	ERROR_AT(c->l, v->node, "`%s` is from 1B to 4096GiB", row->key);
	return 0;
}

static uint32_t time_of(const struct limits_ctx *c, const struct schema_row *row, const struct schema_value *v)
{
	if (v->number >= LIMIT_MS_MIN && v->number <= LIMIT_MS_MAX)
		return (uint32_t)v->number;
	ERROR_AT(c->l, v->node, "`%s` is from 100ms to 7d", row->key);
	return 0;
}

static void on_request_body(void *arg, const struct schema_row *row, const struct schema_value *v) { ((struct limits_ctx *)arg)->to->sizes.request_body = size_of(arg, row, v); }
static void on_response_body(void *arg, const struct schema_row *row, const struct schema_value *v) { ((struct limits_ctx *)arg)->to->sizes.response_body = size_of(arg, row, v); }
static void on_head(void *arg, const struct schema_row *row, const struct schema_value *v) { ((struct limits_ctx *)arg)->to->sizes.head_ms = time_of(arg, row, v); }
static void on_idle(void *arg, const struct schema_row *row, const struct schema_value *v) { ((struct limits_ctx *)arg)->to->sizes.idle_ms = time_of(arg, row, v); }
static void on_total(void *arg, const struct schema_row *row, const struct schema_value *v) { ((struct limits_ctx *)arg)->to->sizes.total_ms = time_of(arg, row, v); }

/* --- rates and budgets --------------------------------------------------------------------------------------------- */

static bool window_of(struct str s, uint32_t *seconds)
{
	static const struct {
		const char *unit;
		uint32_t seconds;
	} windows[] = { { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 } };

	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
		if (str_eq(s, str_of(windows[i].unit))) {
			*seconds = windows[i].seconds;
			return true;
		}
	}
	return false;
}

/* AMOUNT/s|m|h|d. */
static bool rate_of(struct str s, bool octets, struct pol_rate *to)
{
	const char *slash = s.n ? memchr(s.p, '/', s.n) : NULL;
	struct str amount;

	if (slash == NULL || !window_of(str_mk(slash + 1, s.n - (size_t)(slash - s.p) - 1), &to->window_s))
		return false;
	amount = str_mk(s.p, (size_t)(slash - s.p));
	return (octets ? schema_size(amount, &to->amount) : str_u64(amount, 1000000000, &to->amount)) && to->amount > 0 && to->amount <= LIMIT_BYTES_MAX;
}

/* The smaller of two that are counted alike. */
static void add_rate(struct arena *a, struct pol_limits *to, const struct pol_rate *r)
{
	struct pol_rate *more;

	for (unsigned i = 0; i < to->rate_n; i++) {
		if (to->rates[i].kind == r->kind && to->rates[i].window_s == r->window_s) {
			if (r->amount < to->rates[i].amount)
				to->rates[i].amount = r->amount;
			return;
		}
	}
	more = arena_alloc(a, (to->rate_n + 1ul) * sizeof(*more));
	if (to->rate_n > 0)
		memcpy(more, to->rates, to->rate_n * sizeof(*more));
	more[to->rate_n++] = *r;
	to->rates = more;
}

static void on_rate(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct limits_ctx *c = arg;
	bool octets = row->key[0] != 'r';

	if (v->n > RATES_MAX)
		ERROR_AT(c->l, v->node, "`%s` has more than %d entries", row->key, RATES_MAX);
	for (unsigned i = 0; i < v->n && i < RATES_MAX; i++) {
		struct pol_rate r = { .kind = !octets ? RATE_REQUESTS : row->key[0] == 'u' ? RATE_UPLOAD : RATE_DOWNLOAD };

		if (rate_of(v->items[i]->text, octets, &r))
			add_rate(c->l->a, c->to, &r);
		else
			ERROR_AT(c->l, v->items[i], octets ? "`%s` is a size in a time, such as 100MiB/d (of s, m, h, d)" : "`%s` is a number in a time, such as 600/m (of s, m, h, d)", row->key);
	}
}

static void on_concurrent(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct limits_ctx *c = arg;
	struct pol_rate r = { RATE_CONCURRENT, v->number, 0 };

	(void)row;
	add_rate(c->l->a, c->to, &r);
}

static const struct schema_row limits_rows[] = {
	{ "request_body", SCHEMA_SIZE, false, on_request_body, NULL, 0, 0 },
	{ "response_body", SCHEMA_SIZE, false, on_response_body, NULL, 0, 0 },
	{ "head", SCHEMA_TIME, false, on_head, NULL, 0, 0 },
	{ "idle", SCHEMA_TIME, false, on_idle, NULL, 0, 0 },
	{ "total", SCHEMA_TIME, false, on_total, NULL, 0, 0 },
	{ "requests", SCHEMA_ONE_OR_MORE, false, on_rate, NULL, 0, 0 },
	{ "upload", SCHEMA_ONE_OR_MORE, false, on_rate, NULL, 0, 0 },
	{ "download", SCHEMA_ONE_OR_MORE, false, on_rate, NULL, 0, 0 },
	{ "concurrent", SCHEMA_NUMBER, false, on_concurrent, NULL, 1, 1000000 },
	{ "connections", SCHEMA_LATER, false, NULL, "rates of connections", 0, 0 },
	{ "per", SCHEMA_LATER, false, NULL, "rates by what is asked for", 0, 0 },
};

void load_limits(struct load *l, const struct yaml_node *n, struct pol_limits *to)
{
	struct limits_ctx c = { l, to };

	schema_parse(l->d, n, "limits", SCHEMA_ROWS(limits_rows), &c);
}

void load_limits_unite(struct arena *a, struct pol_limits *to, const struct pol_limits *from)
{
	to->sizes = dest_limits_both(&to->sizes, &from->sizes);
	for (unsigned i = 0; i < from->rate_n; i++)
		add_rate(a, to, &from->rates[i]);
}

/* FNV-1a over what names the limit. */
static uint64_t mix(uint64_t h, const void *p, size_t n)
{
	const unsigned char *s = p;

	for (size_t i = 0; i < n; i++)
		h = (h ^ s[i]) * 1099511628211u;
	return h;
}

uint64_t limit_key(const struct pol_dest *d, const struct pol_rule *r, enum rate_kind kind, uint32_t window_s)
{
	struct buf b = { 0 };
	uint64_t h;

	buf_addf(&b, "%u %u ", (unsigned)kind, window_s);
	if (d != NULL)
		buf_addf(&b, "%u %u %s ", (unsigned)d->scheme, d->port, d->host.text);
	if (r != NULL)
		buf_adds(&b, r->id);
	h = mix(14695981039346656037u, buf_data(&b), buf_len(&b));
	buf_fini(&b);
	return h != 0 ? h : 1;
}

struct schema_rows load_rows_limits(void) { return (struct schema_rows){ SCHEMA_ROWS(limits_rows) }; }
