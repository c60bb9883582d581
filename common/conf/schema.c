/* SPDX-License-Identifier: Apache-2.0 */
#include "schema.h"

#include <stdio.h>

#define KEY_MAX 40

/* Edit distance in which two neighbours that changed places count one. */
static unsigned distance(struct str a, struct str b)
{
	unsigned row[3][KEY_MAX + 1] = { { 0 } };

	if (a.n > KEY_MAX || b.n > KEY_MAX)
		return 99;
	for (unsigned j = 0; j <= b.n; j++)
		row[0][j] = j;
	for (unsigned i = 1; i <= a.n; i++) {
		unsigned *up = row[(i + 2) % 3], *two_up = row[(i + 1) % 3], *now = row[i % 3];

		now[0] = i;
		for (unsigned j = 1; j <= b.n; j++) {
			unsigned best = up[j - 1] + (a.p[i - 1] != b.p[j - 1]);

			if (up[j] + 1 < best)
				best = up[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1] && two_up[j - 2] + 1 < best)
				best = two_up[j - 2] + 1;
			now[j] = best;
		}
	}
	return row[a.n % 3][b.n];
}

static bool unknown_key(struct diag *d, const struct yaml_node *k, const char *where, const struct schema_row *rows, size_t n)
{
	const char *nearest = NULL;
	unsigned best = k->text.n < 4 ? 2 : 4; /* of a short key a near one is not much like it */

	for (size_t r = 0; r < n; r++) {
		unsigned dist = distance(k->text, str_of(rows[r].key));

		if (rows[r].type != SCHEMA_LATER && dist < best) {
			best = dist;
			nearest = rows[r].key;
		}
	}
	if (nearest != NULL)
		diag_error(d, k->line, k->col, "unknown key `%.*s` in %s; did you mean `%s`?", DIAG_STR(k->text), where, nearest);
	else
		diag_error(d, k->line, k->col, "unknown key `%.*s` in %s", DIAG_STR(k->text), where);
	return false;
}

static bool word_in(const char *words, struct str w)
{
	for (const char *p = words; *p;) {
		size_t n = strcspn(p, "|");

		if (n == w.n && memcmp(p, w.p, n) == 0)
			return true;
		p += n + (p[n] == '|');
	}
	return false;
}

/* DIGITS UNIT. */
static bool with_unit(struct str s, const char *const *units, const uint64_t *factors, size_t n, uint64_t *out)
{
	size_t i = 0;
	uint64_t v;

	while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
		i++;
	if (!str_u64(str_mk(s.p, i), UINT32_MAX, &v))
		return false;
	for (size_t k = 0; k < n; k++) {
		if (str_eq(str_mk(s.p + i, s.n - i), str_of(units[k]))) {
			*out = v * factors[k];
			return true;
		}
	}
	return false;
}

bool schema_size(struct str s, uint64_t *out)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "KB", "MB", "GB", "B" };
	static const uint64_t factors[] = { 1 << 10, 1 << 20, 1 << 30, 1000, 1000000, 1000000000, 1 };

	return with_unit(s, units, factors, sizeof(factors) / sizeof(factors[0]), out);
}

static bool time_value(struct str s, uint64_t *out)
{
	static const char *const units[] = { "ms", "s", "m", "h", "d" };
	static const uint64_t factors[] = { 1, 1000, 60000, 3600000, 86400000 };

	return with_unit(s, units, factors, sizeof(factors) / sizeof(factors[0]), out);
}

static bool decimal_value(struct str s, uint64_t *out)
{
	const char *dot = s.n ? memchr(s.p, '.', s.n) : NULL;
	size_t n = dot ? (size_t)(dot - s.p) : s.n;
	uint64_t whole, tenth = 0;

	if (!str_u64(str_mk(s.p, n), UINT32_MAX, &whole) || (dot && !str_u64(str_mk(dot + 1, s.n - n - 1), 9, &tenth)))
		return false;
	*out = whole * 1000 + tenth * 100;
	return true;
}

static bool one_line(struct diag *d, const struct yaml_node *n, const char *what)
{
	if (n->kind != YAML_TEXT)
		diag_error(d, n->line, n->col, "%s must be text%s", what, n->kind == YAML_MAP ? " (was it read as a map because of a `: ` in it? Then quote it)" : "");
	else if (n->text.n == 0)
		diag_error(d, n->line, n->col, "%s is empty", what);
	else if (memchr(n->text.p, '\n', n->text.n) != NULL)
		diag_error(d, n->line, n->col, "%s must be one line", what);
	else
		return true;
	return false;
}

static bool lines(struct diag *d, struct schema_value *v, const struct schema_row *r)
{
	char what[64];
	bool ok = true;

	if (v->node->kind != YAML_LIST) {
		diag_error(d, v->node->line, v->node->col, "`%s` must be a list: is a `- ` missing?", r->key);
		return false;
	}
	snprintf(what, sizeof(what), "an entry of `%s`", r->key);
	for (unsigned i = 0; i < v->node->n; i++)
		ok = one_line(d, v->node->items[i], what) && ok;
	v->n = v->node->n;
	v->items = v->node->items;
	if (r->max > 0 && v->n > r->max) {
		diag_error(d, v->node->line, v->node->col, "`%s` has more than %llu entries", r->key, (unsigned long long)r->max);
		return false;
	}
	return ok;
}

static void limit_text(char out[32], uint64_t v, bool thousandths)
{
	if (thousandths && v % 1000 != 0)
		snprintf(out, 32, "%llu.%llu", (unsigned long long)(v / 1000), (unsigned long long)(v % 1000 / 100));
	else
		snprintf(out, 32, "%llu", (unsigned long long)(thousandths ? v / 1000 : v));
}

static bool in_range(struct diag *d, const struct schema_value *v, const struct schema_row *r)
{
	char min[32], max[32];

	if (v->number >= r->min && (r->max == 0 || v->number <= r->max))
		return true;
	limit_text(min, r->min, r->type == SCHEMA_DECIMAL);
	limit_text(max, r->max, r->type == SCHEMA_DECIMAL);
	if (r->max)
		diag_error(d, v->node->line, v->node->col, "`%s` must be from %s to %s", r->key, min, max);
	else
		diag_error(d, v->node->line, v->node->col, "`%s` must be at least %s", r->key, min);
	return false;
}

/* Gives the value its type. False: reported. */
static bool typed(struct diag *d, const struct schema_row *r, struct schema_value *v)
{
	const struct yaml_node *n = v->node;
	char what[64];

	snprintf(what, sizeof(what), "`%s`", r->key);
	v->text = n->text;
	switch (r->type) {
	case SCHEMA_TEXT:
		return one_line(d, n, what);
	case SCHEMA_PROSE:
		if (n->kind == YAML_TEXT)
			return true;
		diag_error(d, n->line, n->col, "%s must be text", what);
		return false;
	case SCHEMA_BOOL:
		v->truth = str_eq(n->text, STR("true"));
		if (n->kind == YAML_TEXT && !n->quoted && (v->truth || str_eq(n->text, STR("false"))))
			return true;
		diag_error(d, n->line, n->col, "%s must be true or false, without quotes", what);
		return false;
	case SCHEMA_WORD:
		if (n->kind == YAML_TEXT && word_in(r->note, n->text))
			return true;
		if (n->kind == YAML_TEXT)
			diag_error(d, n->line, n->col, "`%s: %.*s` is not supported by this version of sallyport: possible is %s", r->key, DIAG_STR(n->text), r->note);
		else
			diag_error(d, n->line, n->col, "%s must be one of %s", what, r->note);
		return false;
	case SCHEMA_NUMBER:
		if (n->kind != YAML_TEXT || !str_u64(n->text, UINT32_MAX, &v->number)) {
			diag_error(d, n->line, n->col, "%s must be a decimal number", what);
			return false;
		}
		return in_range(d, v, r);
	case SCHEMA_DECIMAL:
		if (n->kind != YAML_TEXT || !decimal_value(n->text, &v->number)) {
			diag_error(d, n->line, n->col, "%s must be a number such as 2 or 1.5", what);
			return false;
		}
		return in_range(d, v, r);
	case SCHEMA_SIZE:
		if (n->kind != YAML_TEXT || !schema_size(n->text, &v->number)) {
			diag_error(d, n->line, n->col, "%s must be a size with its unit, such as 512MiB", what);
			return false;
		}
		return in_range(d, v, r);
	case SCHEMA_TIME:
		if (n->kind != YAML_TEXT || !time_value(n->text, &v->number)) {
			diag_error(d, n->line, n->col, "%s must be a time with its unit, such as 90s, 10m or 1h", what);
			return false;
		}
		return in_range(d, v, r);
	case SCHEMA_TEXTS:
		return lines(d, v, r);
	case SCHEMA_ONE_OR_MORE:
		if (n->kind == YAML_LIST)
			return lines(d, v, r);
		v->n = 1;
		v->items = (struct yaml_node **)(uintptr_t)&v->node; /* handed on as read-only */
		return one_line(d, n, what);
	case SCHEMA_LIST:
		if (n->kind != YAML_LIST) {
			diag_error(d, n->line, n->col, "%s must be a list: is a `- ` missing?", what);
			return false;
		}
		v->n = n->n;
		v->items = n->items;
		return true;
	case SCHEMA_MAP:
		if (n->kind != YAML_MAP) {
			diag_error(d, n->line, n->col, "%s must be a map", what);
			return false;
		}
		v->n = n->n;
		v->items = n->items;
		return true;
	case SCHEMA_ANY:
		return true;
	default:
		return false;
	}
}

bool schema_parse(struct diag *d, const struct yaml_node *map, const char *where, const struct schema_row *rows, size_t n, void *arg)
{
	bool ok = true;

	if (map->kind != YAML_MAP) {
		diag_error(d, map->line, map->col, "%s must be a map", where);
		return false;
	}
	for (unsigned i = 0; i < map->n; i++) {
		const struct yaml_node *k = map->items[2 * i];
		size_t r = 0;

		while (r < n && !str_eq(k->text, str_of(rows[r].key)))
			r++;
		if (r == n) {
			ok = unknown_key(d, k, where, rows, n);
		} else if (rows[r].type == SCHEMA_LATER) {
			diag_error(d, k->line, k->col, "`%s` (%s) is not supported by this version of sallyport", rows[r].key, rows[r].note);
			ok = false;
		}
	}
	for (size_t r = 0; r < n; r++) {
		struct schema_value v = { 0 };

		for (unsigned i = 0; rows[r].type != SCHEMA_LATER && i < map->n; i++) {
			if (str_eq(map->items[2 * i]->text, str_of(rows[r].key)) && map->items[2 * i + 1]->kind != YAML_NULL) {
				v.key = map->items[2 * i];
				v.node = map->items[2 * i + 1];
			}
		}
		if (v.node == NULL) {
			if (rows[r].required) {
				diag_error(d, map->line, map->col, "%s needs `%s`%s%s", where, rows[r].key, rows[r].note ? ": " : "", rows[r].note ? rows[r].note : "");
				ok = false;
			}
		} else if (!typed(d, &rows[r], &v)) {
			ok = false;
		} else if (rows[r].check != NULL) {
			rows[r].check(arg, &rows[r], &v);
		}
	}
	return ok;
}
