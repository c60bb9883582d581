/* SPDX-License-Identifier: Apache-2.0 */
/* YAML tree to policy, from the top: every key on a row, every error with its place, all of them in one run. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "deps.h"
#include "load.h"

struct str load_source(struct load *l, const struct yaml_node *n)
{
	struct buf b = { 0 };
	struct str s;

	buf_addf(&b, "%s:%u", l->d->file, n->line);
	s = arena_str(l->a, buf_str(&b));
	buf_fini(&b);
	return s;
}

/* --- top level ----------------------------------------------------------------------------------------------------- */

static bool policy_name_ok(struct str s)
{
	if (s.n == 0 || s.n > 63)
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= '0' && s.p[i] <= '9') || (i > 0 && s.p[i] == '-')))
			return false;
	return true;
}

static void on_version(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct load *l = arg;

	(void)row;
	if (!str_eq(v->text, STR("1")))
		ERROR_AT(l, v->node, "this version of sallyport reads `version: 1` only");
}

/* Of the files that are extended only what they are made of counts, not what they are called. */
static void on_name(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct load *l = arg;

	(void)row;
	if (!policy_name_ok(v->text))
		ERROR_AT(l, v->node, "`name` is 1 to 63 of a-z, 0-9 and -, and does not begin with -");
	else if (l->file == 0)
		l->p->name = v->text;
}

static void on_description(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct load *l = arg;

	(void)row;
	if (l->file == 0)
		l->p->description = v->text;
}

static void on_override(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct load *l = arg;

	(void)row;
	if (v->truth)
		l->over |= (uint64_t)1 << l->file;
}

static void on_explain(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct load *l = arg;
	struct policy *p = l->p;
	struct pol_place at = place_of(l, v->key);

	(void)row;
	if (l->explain_at.line == 0) {
		p->explain_denials = v->truth;
		l->explain_at = at;
	} else if (p->explain_denials != v->truth && !load_overrides(l, l->explain_at.file, (l->over & (uint64_t)1 << l->explain_at.file) != 0, l->file)) {
		load_error(l, l->explain_at, "`explain_denials` is another at %s: leave one out, or write `override: true` here", load_there(l, at, l->explain_at));
	}
}

static void on_mode(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct load *l = arg;

	(void)row;
	if (!str_eq(v->text, STR("observe")))
		return;
	l->mode = v->key;
	if (l->file > 0)
		ERROR_AT(l, v->key, "a policy that others extend does not observe: the first file says it, or none");
}

static void on_until(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct load *l = arg;

	(void)row;
	if (l->mode == NULL || l->file > 0)
		ERROR_AT(l, v->key, "`until` belongs to `mode: observe`");
	else if (!load_time(v->text, &l->p->observe_until) || l->p->observe_until == 0)
		ERROR_AT(l, v->node, "`until` is a date, 2026-11-30 (its beginning, UTC), or a time, 2026-11-30T12:00:00Z");
}

static void on_limits(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct load *l = arg;
	struct pol_limits limits = { 0 };

	(void)row;
	load_limits(l, v->node, &limits);
	load_limits_unite(l->a, &l->p->limits, &limits);
}

static void on_extends(void *arg, const struct schema_row *row, const struct schema_value *v) { (void)arg, (void)row, (void)v; /* load_files.c has done it */ }

static void on_destinations(struct load *l, const struct yaml_node *list)
{
	for (unsigned i = 0; i < list->n; i++)
		load_destination(l, list->items[i]);
}

/* A part of a policy is read of all files before the next part is: what one injects another may define. */
enum { PART_SECRETS = 0, PART_DESTINATIONS, PART_TESTS, PART_SANDBOX, PARTS };
static const char *const part_keys[PARTS] = { "secrets", "destinations", "tests", "sandbox" };

static void on_part(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct load *l = arg;

	for (unsigned i = 0; i < PARTS; i++)
		if (strcmp(row->key, part_keys[i]) == 0)
			l->source[l->file].part[i] = v->node;
	if (strcmp(row->key, part_keys[PART_TESTS]) == 0)
		l->p->files[l->file].has_tests = true;
}

static void read_part(struct load *l, unsigned which, const struct yaml_node *n)
{
	switch (which) {
	case PART_SECRETS:
		load_secrets(l, n);
		break;
	case PART_DESTINATIONS:
		on_destinations(l, n);
		break;
	case PART_TESTS:
		if (l->file == 0) /* those of the others are about them alone: try.c */
			load_tests(l, n);
		break;
	default:
		load_sandbox(l, n);
		break;
	}
}

static const struct schema_row top_rows[] = {
	{ "version", SCHEMA_TEXT, true, on_version, "the first line is `version: 1`", 0, 0 },
	{ "name", SCHEMA_TEXT, false, on_name, NULL, 0, 0 },
	{ "description", SCHEMA_PROSE, false, on_description, NULL, 0, 0 },
	{ "extends", SCHEMA_LIST, false, on_extends, NULL, 0, 0 },
	{ "override", SCHEMA_BOOL, false, on_override, NULL, 0, 0 },
	{ "explain_denials", SCHEMA_BOOL, false, on_explain, NULL, 0, 0 },
	{ "mode", SCHEMA_WORD, false, on_mode, "enforce|observe", 0, 0 },
	{ "until", SCHEMA_TEXT, false, on_until, NULL, 0, 0 },
	{ "limits", SCHEMA_MAP, false, on_limits, NULL, 0, 0 },
	{ "secrets", SCHEMA_MAP, false, on_part, NULL, 0, 0 },
	{ "destinations", SCHEMA_LIST, false, on_part, NULL, 0, 0 },
	{ "tests", SCHEMA_LIST, false, on_part, NULL, 0, 0 },
	{ "sandbox", SCHEMA_MAP, false, on_part, NULL, 0, 0 },
	{ "vars", SCHEMA_LATER, false, NULL, "variables", 0, 0 },
	{ "ask", SCHEMA_LATER, false, NULL, "asking a person", 0, 0 },
};

/* --- what only the whole tells ------------------------------------------------------------------------------------- */

/* --- what a tunnel would evade --- */

static int by_host(const void *a, const void *b)
{
	const struct pol_dest *x = *(const struct pol_dest *const *)a, *y = *(const struct pol_dest *const *)b;

	return strcmp(x->host.text, y->host.text);
}

struct beside {
	struct load *l;
	const struct pol_dest **all; /* by host */
	unsigned n;
	const struct pol_dest *tunnel;
};

/* Destinations of just this host, or pattern. True: one was reported. */
static bool beside_of(const struct beside *b, const char *text)
{
	const struct pol_dest *d = b->tunnel;
	unsigned lo = 0, hi = b->n;

	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;

		if (strcmp(b->all[mid]->host.text, text) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < b->n && strcmp(b->all[lo]->host.text, text) == 0; lo++) {
		const struct pol_dest *e = b->all[lo];

		if (e != d && e->scheme != d->scheme && e->port == d->port && (e->scheme == SCHEME_TCP || d->scheme == SCHEME_TCP) && strcmp(e->host.text, d->host.text) == 0) {
			load_error(b->l, d->at, "%s on port %u is a destination already, at %s: nothing tells a tunnel there from what is read", d->host.text, d->port, load_there(b->l, e->at, d->at));
			return true;
		}
		if (e->tunnel || d->acknowledged || e->rule_n + e->inject_n == 0)
			continue;
		load_error(b->l, d->at, "the tunnel to %s would evade the rules of %s: what passes unread cannot be held to them; say `acknowledge: unread` if that is meant", d->host.text, load_there(b->l, e->at, d->at));
		return true;
	}
	return false;
}

/* All that its host may be written as: itself, "pre*.x", "*.x", "**.x" and those above. */
static void check_beside(const struct beside *b)
{
	const char *host = b->tunnel->host.text, *dot = strchr(host, '.');
	char text[CANON_HOST_MAX + 4];

	if (beside_of(b, host) || b->tunnel->host.ip.family != 0 || dot == NULL)
		return;
	for (size_t k = 0; k <= (size_t)(dot - host); k++) {
		snprintf(text, sizeof(text), "%.*s*%s", (int)k, host, dot);
		if (beside_of(b, text))
			return;
	}
	for (; dot != NULL; dot = strchr(dot + 1, '.')) {
		snprintf(text, sizeof(text), "**%s", dot);
		if (beside_of(b, text))
			return;
	}
}

static void check_tunnels(struct load *l)
{
	const struct policy *p = l->p;
	struct beside b = { .l = l };

	for (unsigned i = 0; i < p->dest_n; i++) {
		if (!p->dests[i].tunnel)
			continue;
		if (b.all == NULL) {
			b.all = must_calloc(p->dest_n, sizeof(const struct pol_dest *));
			for (; b.n < p->dest_n; b.n++)
				b.all[b.n] = &p->dests[b.n];
			qsort(b.all, b.n, sizeof(const struct pol_dest *), by_host);
		}
		b.tunnel = &p->dests[i];
		check_beside(&b);
	}
	free(b.all);
}

/* An id and the place that it comes from. A list of hosts gives one place to several. */
struct named {
	struct str id;
	struct pol_place at;
	bool dest, given, cond;
	unsigned of; /* number of the destination */
};

static int by_id(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	size_t n = x->id.n < y->id.n ? x->id.n : y->id.n;
	int r = memcmp(x->id.p, y->id.p, n);

	if (r == 0)
		r = x->id.n < y->id.n ? -1 : x->id.n > y->id.n;
	return r ? r : load_place_order(&x->at, &y->at);
}

static void check_ids(struct load *l)
{
	const struct policy *p = l->p;
	struct named *all = must_calloc(p->dest_n + p->rule_n + 1ul, sizeof(*all));
	size_t n = 0;
	bool quiet = l->d->errors > 0; /* what an error left out would only be noise */

	for (unsigned i = 0; i < p->dest_n; i++) {
		const struct pol_dest *d = &p->dests[i];

		all[n++] = (struct named){ d->id, d->at, true, d->id_given, false, i };
		for (unsigned k = 0; k < d->rule_n; k++)
			all[n++] = (struct named){ d->rules[k].id, d->rules[k].at, false, d->rules[k].id_given, d->rules[k].cond != NULL, i };
	}
	qsort(all, n, sizeof(*all), by_id);
	for (size_t i = 1; i < n; i++) {
		const struct named *x = &all[i - 1], *y = &all[i];

		if (!str_eq(x->id, y->id) || load_place_order(&x->at, &y->at) == 0)
			continue;
		if (x->given && y->given)
			load_error(l, y->at, "the id `%.*s` is given already, at %s", DIAG_STR(y->id), load_there(l, x->at, y->at));
		else if (!quiet && !x->dest && !y->dest && x->of == y->of && (x->cond || y->cond))
			load_warning(l, y->at, "records would not tell this rule from that of %s: give it an `id`", load_there(l, x->at, y->at));
		else if (!x->dest && !y->dest && x->of == y->of && !x->cond && !y->cond && x->at.file == y->at.file)
			load_warning(l, y->at, "the same rule stands at line %u already", x->at.line);
	}
	free(all);
}

struct variable {
	struct str name, text;
	const struct pol_inject *in;
};

static int by_variable(const void *a, const void *b)
{
	const struct variable *x = a, *y = b;
	size_t n = x->name.n < y->name.n ? x->name.n : y->name.n;
	int r = memcmp(x->name.p, y->name.p, n);

	if (r == 0)
		r = x->name.n < y->name.n ? -1 : x->name.n > y->name.n;
	return r ? r : load_place_order(&x->in->at, &y->in->at);
}

/* One variable cannot hold the placeholders of two secrets, nor one in two ways. */
static void check_variables(struct load *l)
{
	const struct policy *p = l->p;
	struct variable *all;
	size_t n = 0, cap = 1;

	for (unsigned i = 0; i < p->dest_n; i++)
		for (unsigned k = 0; k < p->dests[i].inject_n; k++)
			cap += p->dests[i].injects[k].env_n / 2;
	all = must_calloc(cap, sizeof(*all));
	for (unsigned i = 0; i < p->dest_n; i++)
		for (unsigned k = 0; k < p->dests[i].inject_n; k++)
			for (unsigned e = 0; e < p->dests[i].injects[k].env_n; e += 2)
				all[n++] = (struct variable){ p->dests[i].injects[k].env[e], p->dests[i].injects[k].env[e + 1], &p->dests[i].injects[k] };
	qsort(all, n, sizeof(*all), by_variable);
	for (size_t i = 1; i < n; i++) {
		const struct variable *x = &all[i - 1], *y = &all[i];

		if (!str_eq(x->name, y->name))
			continue;
		if (x->in->secret != y->in->secret)
			load_error(l, y->in->at, "the variable %.*s stands for secret `%.*s` already, at %s", DIAG_STR(y->name), DIAG_STR(x->in->secret->name), load_there(l, x->in->at, y->in->at));
		else if (!str_eq(x->text, y->text))
			load_error(l, y->in->at, "the variable %.*s has another template already, at %s", DIAG_STR(y->name), load_there(l, x->in->at, y->in->at));
	}
	free(all);
}

/* What signs stays in the role that holds it: nothing else is done with it. */
static void check_signers(struct load *l)
{
	struct policy *p = l->p;
	const struct pol_inject **first = must_calloc(p->secret_n + 1ul, sizeof(*first));

	for (unsigned i = 0; i < p->dest_n; i++) {
		for (unsigned k = 0; k < p->dests[i].inject_n; k++) {
			const struct pol_inject *in = &p->dests[i].injects[k], *o = first[in->secret->index];

			if (o == NULL)
				first[in->secret->index] = in;
			else if (o->kind != in->kind && (inject_signs(o->kind) || inject_signs(in->kind)))
				load_error(l, in->at, "secret `%.*s` is injected as %s already, at %s: a key that signs is for that alone", DIAG_STR(in->secret->name), load_inject_kind(o->kind), load_there(l, o->at, in->at));
		}
	}
	free(first);
}

static void warn(struct load *l)
{
	const struct policy *p = l->p;
	const struct pol_place *last = NULL;

	for (unsigned i = 0; i < p->secret_n; i++)
		if (!p->secrets[i].used)
			load_warning(l, p->secrets[i].at, "secret `%.*s` is not injected anywhere", DIAG_STR(p->secrets[i].name));
	for (unsigned i = 0; i < p->dest_n; i++) {
		const struct pol_dest *d = &p->dests[i];
		/* a wildcard may be there for its denies alone */
		bool allows = false, broad = memchr(d->host.text, '*', d->host.len) != NULL;

		for (unsigned k = 0; k < d->rule_n; k++)
			allows = allows || !d->rules[k].deny || broad;
		if (!allows && (last == NULL || load_place_order(last, &d->at) != 0))
			load_warning(l, d->at, "this destination allows nothing");
		if (!allows)
			last = &d->at;
	}
}

static void check_whole(struct load *l)
{
	load_merge_dests(l);
	check_tunnels(l);
	for (unsigned i = 0; i < l->p->dest_n; i++)
		load_injects_of(l, &l->p->dests[i]);
	check_ids(l);
	check_variables(l);
	check_signers(l);
	if (l->d->errors == 0) { /* what an error left out would only be noise */
		warn(l);
		load_lint(l);
	}
}

/* --- entry --------------------------------------------------------------------------------------------------------- */

static void read_policy(struct load *l, const char *text, size_t n)
{
	struct policy *p = l->p;

	p->explain_denials = true;
	p->name = STR("unnamed");
	MUST(EVP_Digest(text, n, p->digest, NULL, EVP_sha256(), NULL) == 1);
	l->files = EVP_MD_CTX_new();
	MUST(l->files != NULL && EVP_DigestInit_ex(l->files, EVP_sha256(), NULL) == 1 && EVP_DigestUpdate(l->files, p->digest, 32) == 1);
	load_read_files(l, str_mk(text, n));
	for (unsigned i = 0; i < p->file_n; i++) {
		load_in_file(l, i);
		if (l->source[i].root != NULL)
			schema_parse(l->d, l->source[i].root, "a policy", SCHEMA_ROWS(top_rows), l);
	}
	for (unsigned part = 0; part < PARTS; part++) {
		for (unsigned i = 0; i < p->file_n; i++) {
			load_in_file(l, i);
			if (l->source[i].part[part] != NULL)
				read_part(l, part, l->source[i].part[part]);
		}
	}
	load_in_file(l, 0);
	if (l->mode != NULL && l->d->errors == 0 && p->observe_until == 0)
		ERROR_AT(l, l->mode, "`mode: observe` needs `until`, the date from which on it enforces");
	if (l->source[0].root != NULL)
		check_whole(l);
	if (l->file_n > 0)
		MUST(EVP_DigestFinal_ex(l->files, p->digest, NULL) == 1);
	EVP_MD_CTX_free(l->files);
}

int policy_read(struct policy *p, struct str text, const char *dir, const struct load_reader *reader, struct diag *d)
{
	struct load *l = must_calloc(1, sizeof(*l));
	const char *name = d->file;

	memset(p, 0, sizeof(*p));
	*l = (struct load){ .p = p, .d = d, .dir = dir, .reader = reader, .a = &p->mem };
	read_policy(l, text.n ? text.p : "", text.n);
	free(l);
	d->file = name;
	d->file_no = 0;
	return d->errors ? -1 : 0;
}

int policy_parse(struct policy *p, const char *text, size_t n, const char *dir, struct diag *d) { return policy_read(p, str_mk(text, n), dir, NULL, d); }

int policy_load(struct policy *p, const char *path, struct diag *d)
{
	struct buf b = { 0 };
	struct load_folder folder = { .fd = -1 };
	const char *slash = strrchr(path, '/');
	char *dir = NULL;
	/* not blocking: a pipe of that name is not waited for */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), ret = -1;
	struct stat st;
	ssize_t k;

	memset(p, 0, sizeof(*p));
	deps_note(path);
	if (fd < 0 || fstat(fd, &st) != 0) {
		diag_error_file(d, "cannot read it: %s", strerror(errno));
		goto out;
	}
	if (!S_ISREG(st.st_mode) || st.st_size > YAML_SIZE_MAX) {
		diag_error_file(d, S_ISREG(st.st_mode) ? "larger than a policy may be" : "not a regular file");
		goto out;
	}
	do {
		k = read(fd, buf_room(&b, 65536), 65536);
		if (k > 0)
			buf_commit(&b, (size_t)k);
	} while (k > 0 && buf_len(&b) <= YAML_SIZE_MAX);
	if (k < 0 || load_folder_open(&folder, path, fd) < 0) {
		diag_error_file(d, "cannot read it: %s", strerror(errno));
		goto out;
	}
	dir = slash == NULL ? must_strdup(".") : slash == path ? must_strdup("/") : must_strdup(path);
	if (slash != NULL && slash != path)
		dir[slash - path] = 0;
	ret = policy_read(p, buf_str(&b), dir, &folder.reader, d);
out:
	if (fd >= 0)
		close(fd);
	load_folder_close(&folder);
	free(dir);
	buf_fini(&b);
	return ret;
}

void policy_free(struct policy *p)
{
	arena_fini(&p->mem);
	memset(p, 0, sizeof(*p));
}

struct schema_rows load_rows_top(void) { return (struct schema_rows){ SCHEMA_ROWS(top_rows) }; }
