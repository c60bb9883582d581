/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One policy of several files: destinations that are equal unite, lists are put together, limits take the smaller, and two
 * values of one other scalar are an error unless the file that builds on the other says `override: true`. Within one file
 * equal destinations are an error.
 */
#include <stdlib.h>

#include "load.h"

bool load_overrides(const struct load *l, unsigned by, bool over, unsigned what) { return over && (l->p->files[by].below & (uint64_t)1 << what) != 0; }

/* --- destinations -------------------------------------------------------------------------------------------------- */

static int same_key(const struct pol_dest *x, const struct pol_dest *y)
{
	int r = (int)x->scheme - (int)y->scheme;

	if (r == 0)
		r = (int)x->port - (int)y->port;
	return r ? r : strcmp(x->host.text, y->host.text);
}

static int by_key(const void *a, const void *b)
{
	const struct pol_dest *x = a, *y = b;
	int r = same_key(x, y);

	if (r == 0)
		r = (int)y->port_written - (int)x->port_written;
	return r ? r : load_place_order(&x->at, &y->at);
}

/* Whether y's value of a scalar is to be taken. same: x says the same. */
static bool takes(struct load *l, struct pol_dest *x, const struct pol_dest *y, unsigned which, bool same, const char *key)
{
	unsigned bit = 1u << which;

	if ((y->said & bit) == 0)
		return false;
	if ((x->said & bit) == 0) {
		x->said |= bit;
		x->said_over |= y->said_over & bit;
		x->said_at[which] = y->said_at[which];
		return true;
	}
	if (!same && !load_overrides(l, x->said_at[which].file, (x->said_over & bit) != 0, y->said_at[which].file))
		load_error(l, x->said_at[which], "`%s` of %s is another at %s: leave one out, or give this destination `override: true`", key, x->host.text, load_there(l, y->said_at[which], x->said_at[which]));
	return false;
}

static bool same_texts(const struct str *a, unsigned n, const struct str *b, unsigned m)
{
	for (unsigned i = 0; n == m && i < n; i++)
		if (!str_eq(a[i], b[i]))
			return false;
	return n == m;
}

static void merge_scalars(struct load *l, struct pol_dest *x, const struct pol_dest *y)
{
	if (takes(l, x, y, SAID_ID, str_eq(x->id, y->id), "id")) {
		x->id = y->id;
		x->id_given = true;
	}
	if (takes(l, x, y, SAID_CONNECT, ip_eq(&x->connect_ip, &y->connect_ip) && x->connect_port == y->connect_port, "connect")) {
		x->connect_ip = y->connect_ip;
		x->connect_port = y->connect_port;
	}
	if (takes(l, x, y, SAID_TLS_MIN, x->tls_min == y->tls_min, "tls.min"))
		x->tls_min = y->tls_min;
	if (takes(l, x, y, SAID_CA, same_texts(x->cas, x->ca_n, y->cas, y->ca_n), "tls.ca")) {
		x->cas = y->cas;
		x->ca_n = y->ca_n;
	}
	if (takes(l, x, y, SAID_CRL, same_texts(x->crls, x->crl_n, y->crls, y->crl_n), "tls.crl")) {
		x->crls = y->crls;
		x->crl_n = y->crl_n;
	}
	if (takes(l, x, y, SAID_LOG_QUERY, x->log_query == y->log_query, "log_query"))
		x->log_query = y->log_query;
	if (takes(l, x, y, SAID_FOREIGN, x->foreign == y->foreign, "foreign"))
		x->foreign = y->foreign;
	if (takes(l, x, y, SAID_SCRUB, x->scrub_off == y->scrub_off, "scrub"))
		x->scrub_off = y->scrub_off;
	if (takes(l, x, y, SAID_ENCODED_SLASH, true, "paths.encoded_slash"))
		x->paths.encoded_slash_keep = y->paths.encoded_slash_keep;
	if (takes(l, x, y, SAID_EMPTY_SEGMENTS, true, "paths.empty_segments"))
		x->paths.empty_segments_keep = y->paths.empty_segments_keep;
	if (takes(l, x, y, SAID_RAW, x->paths.raw == y->paths.raw, "paths.raw"))
		x->paths.raw = y->paths.raw;
}

/* Two lists of elements of one size in new memory; b NULL: room for m more. */
static void *joined(struct load *l, const void *a, unsigned n, const void *b, unsigned m, size_t size)
{
	char *out = arena_zalloc(l->a, (n + m + 1ul) * size);

	if (n > 0)
		memcpy(out, a, n * size);
	if (m > 0 && b != NULL)
		memcpy(out + n * size, b, m * size);
	return out;
}

static void merge_lists(struct load *l, struct pol_dest *x, const struct pol_dest *y)
{
	x->addresses = joined(l, x->addresses, x->address_n, y->addresses, y->address_n, sizeof(*x->addresses));
	x->address_n += y->address_n;
	x->pins = joined(l, x->pins, x->pin_n, y->pins, y->pin_n, sizeof(*x->pins));
	x->pin_n += y->pin_n;
	x->alpn_h1 = x->alpn_h1 || y->alpn_h1;
	x->alpn_h2 = x->alpn_h2 || y->alpn_h2;
	x->places = joined(l, x->places, x->place_n, NULL, y->place_n, sizeof(*x->places));
	for (unsigned i = 0; i < y->place_n; i++) {
		bool have = false;

		for (unsigned k = 0; k < x->place_n; k++)
			have = have || str_eq(x->places[k], y->places[i]);
		if (!have)
			x->places[x->place_n++] = y->places[i];
	}
}

static void merge_injects(struct load *l, struct pol_dest *x, const struct pol_dest *y)
{
	x->injects = joined(l, x->injects, x->inject_n, NULL, y->inject_n, sizeof(*x->injects));
	for (unsigned i = 0; i < y->inject_n; i++) {
		const struct pol_inject *in = &y->injects[i], *same = NULL;
		bool there = false;

		for (unsigned k = 0; k < x->inject_n && !there; k++) {
			there = load_inject_same(&x->injects[k], in);
			if (same == NULL && load_inject_place_same(&x->injects[k], in))
				same = &x->injects[k];
		}
		if (there)
			continue;
		if (same == NULL)
			x->injects[x->inject_n++] = *in;
		else
			load_error(l, same->at, "two injections for one place on %s (the other at %s)", x->host.text, load_there(l, in->at, same->at));
	}
}

/* Rules of the file that builds on others stand before theirs; one that all of them have stands once. */
static void merge_rules(struct load *l, struct pol_dest *x, const struct pol_dest *y)
{
	struct pol_rule *all = arena_zalloc(l->a, (x->rule_n + y->rule_n + 1ul) * sizeof(*all));
	unsigned n = 0;

	for (int deny = 0; deny < 2; deny++) {
		for (unsigned i = 0; i < x->rule_n; i++)
			if (x->rules[i].deny == deny)
				all[n++] = x->rules[i];
		for (unsigned i = 0; i < y->rule_n; i++)
			if (y->rules[i].deny == deny)
				all[n++] = y->rules[i];
	}
	x->rules = all;
	x->rule_n = n;
}

static bool same_window(const struct pol_dest *x, const struct pol_dest *y)
{
	static const struct pol_cond always;
	const struct pol_cond *a = x->rule_n > 0 && x->rules[0].cond != NULL ? x->rules[0].cond : &always, *b = y->rule_n > 0 && y->rules[0].cond != NULL ? y->rules[0].cond : &always;

	return a->from_s == b->from_s && a->until_s == b->until_s;
}

static void merge(struct load *l, struct pol_dest *x, const struct pol_dest *y)
{
	if (x->tunnel != y->tunnel) {
		load_error(l, x->at, "%s on port %u is a tunnel here or at %s, and read at the other", x->host.text, x->port, load_there(l, y->at, x->at));
		return;
	}
	merge_scalars(l, x, y);
	merge_lists(l, x, y);
	merge_injects(l, x, y);
	if (!x->tunnel)
		merge_rules(l, x, y);
	else if (!same_window(x, y)) /* else both say the one rule that it has */
		load_error(l, x->at, "the tunnel to %s is open at another time (`valid`) at %s: write one of them, or the same at both", x->host.text, load_there(l, y->at, x->at));
	x->acknowledged = x->acknowledged || y->acknowledged;
	load_limits_unite(l->a, &x->limits, &y->limits);
	x->port_written = x->port_written || y->port_written;
	x->merged = true;
}

/* What the order of what matches a host leaves: of two with the same pattern, scheme and port the one decides that lists its port. */
static void check_equal(struct load *l, const struct pol_dest *x, const struct pol_dest *y)
{
	if (x->port_written != y->port_written)
		load_warning(l, y->at, "%s here never decides on port %u: the destination of line %u lists the port; only the deny rules count", y->host.text, y->port, x->at.line);
	else
		load_error(l, y->at, "%s on port %u (%s) is a destination already, at line %u: put the rules together", y->host.text, y->port, scheme_name(y->scheme), x->at.line);
}

/* Whether a file has two of the n equal ones. */
static bool twice_in_one(const struct pol_dest *d, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = i + 1; k < n; k++)
			if (d[i].at.file == d[k].at.file)
				return true;
	return false;
}

/* n > 1 destinations with one key, to `out`; how many are left. */
static unsigned unite(struct load *l, const struct pol_dest *d, unsigned n, struct pol_dest *out)
{
	unsigned left = 1;

	out[0] = d[0];
	if (!twice_in_one(d, n)) { /* one from each file: the first of the files takes the others in */
		unsigned first = 0;

		for (unsigned i = 1; i < n; i++)
			if (d[i].at.file < d[first].at.file)
				first = i;
		out[0] = d[first];
		for (unsigned file = out[0].at.file + 1; file < l->p->file_n; file++)
			for (unsigned i = 0; i < n; i++)
				if (d[i].at.file == file)
					merge(l, &out[0], &d[i]);
		return 1;
	}
	for (unsigned i = 1; i < n; i++) {
		struct pol_dest *last = &out[left - 1];

		if (last->port_written == d[i].port_written && last->at.file != d[i].at.file) {
			merge(l, last, &d[i]);
			continue;
		}
		check_equal(l, last, &d[i]);
		out[left++] = d[i];
	}
	return left;
}

void load_merge_dests(struct load *l)
{
	struct policy *p = l->p;
	struct pol_dest *d = p->dests;
	unsigned n = 0, rules = 0;

	if (p->dest_n > 1)
		qsort(d, p->dest_n, sizeof(*d), by_key);
	for (unsigned i = 0, end; i < p->dest_n; i = end) {
		for (end = i + 1; end < p->dest_n && same_key(&d[i], &d[end]) == 0; end++)
			;
		if (end == i + 1) {
			d[n++] = d[i];
			continue;
		}
		struct pol_dest *same = arena_zalloc(l->a, (end - i) * sizeof(*same));

		memcpy(same, &d[i], (end - i) * sizeof(*same));
		n += unite(l, same, end - i, &d[n]);
	}
	p->dest_n = n;
	for (unsigned i = 0; i < n; i++) {
		if (d[i].merged)
			load_name_rules(l, &d[i]);
		rules += d[i].rule_n;
	}
	p->rule_n = rules;
}

/* --- the sandbox --------------------------------------------------------------------------------------------------- */

static bool starts(struct str key, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_starts(key, str_of(list[i])))
			return true;
	return false;
}

static bool is_list(struct str key)
{
	static const char *const lists[] = { "filesystem.write", "filesystem.read", "filesystem.hide", "filesystem.protect", "process.environment.keep", "require" };

	return starts(key, lists, sizeof(lists) / sizeof(lists[0]));
}

static bool is_limit(struct str key) { return str_starts(key, STR("resources.")) || str_eq(key, STR("filesystem.scratch")); }

/* A variable that is set: its name is what is said once. */
static const struct pol_kv *set_before(const struct policy *p, unsigned n, struct str name)
{
	for (unsigned i = 0; i + 1 < n; i++)
		if (str_eq(p->sandbox[i].key, STR("process.environment.set.name")) && str_eq(p->sandbox[i].value, name))
			return &p->sandbox[i + 1];
	return NULL;
}

static const struct pol_kv *key_before(const struct policy *p, unsigned n, const struct pol_kv *kv, bool with_value)
{
	for (unsigned i = 0; i < n; i++)
		if (str_eq(p->sandbox[i].key, kv->key) && (!with_value || str_eq(p->sandbox[i].value, kv->value)))
			return &p->sandbox[i];
	return NULL;
}

static void differs(struct load *l, const struct pol_kv *first, const struct pol_kv *kv, struct str what)
{
	if (!str_eq(first->value, kv->value) && !load_overrides(l, first->at.file, first->over, kv->at.file))
		load_error(l, first->at, "`%.*s` under `sandbox` is another at %s: leave one out, or write `override: true` there", DIAG_STR(what), load_there(l, kv->at, first->at));
}

/* What stands from `first` on is a further file's. */
void load_merge_sandbox(struct load *l, unsigned first)
{
	struct policy *p = l->p;
	unsigned n = first;

	for (unsigned i = first; i < p->sandbox_n; i++) {
		struct pol_kv kv = p->sandbox[i], *before;
		uint64_t was, is;

		if (str_eq(kv.key, STR("process.environment.set.name"))) {
			const struct pol_kv *value = set_before(p, first, kv.value);

			if (value != NULL) {
				differs(l, value, &p->sandbox[++i], kv.value);
				continue;
			}
			p->sandbox[n++] = kv;
			p->sandbox[n++] = p->sandbox[++i];
			continue;
		}
		before = (struct pol_kv *)(uintptr_t)key_before(p, first, &kv, is_list(kv.key));
		if (before == NULL)
			p->sandbox[n++] = kv;
		else if (is_limit(kv.key) && str_u64(before->value, UINT64_MAX, &was) && str_u64(kv.value, UINT64_MAX, &is))
			*before = is < was ? kv : *before;
		else if (!is_list(kv.key))
			differs(l, before, &kv, kv.key);
	}
	p->sandbox_n = n;
}
