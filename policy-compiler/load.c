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

static void on_name(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct load *l = arg;

	(void)row;
	if (!policy_name_ok(v->text))
		ERROR_AT(l, v->node, "`name` is 1 to 63 of a-z, 0-9 and -, and does not begin with -");
	else
		l->p->name = v->text;
}

static void on_description(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct load *)arg)->p->description = v->text;
}

static void on_explain(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct load *)arg)->p->explain_denials = v->truth;
}

static void on_limits(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct load *l = arg;

	(void)row;
	load_limits(l, v->node, &l->p->limits);
}

static void on_secrets(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	load_secrets(arg, v->node);
}

static void on_destinations(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	for (unsigned i = 0; i < v->n; i++)
		load_destination(arg, v->items[i]);
}

static void on_tests(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	load_tests(arg, v->node);
}

static void on_sandbox(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	load_sandbox(arg, v->node);
}

static const struct schema_row top_rows[] = {
	{ "version", SCHEMA_TEXT, true, on_version, "the first line is `version: 1`", 0, 0 },
	{ "name", SCHEMA_TEXT, false, on_name, NULL, 0, 0 },
	{ "description", SCHEMA_PROSE, false, on_description, NULL, 0, 0 },
	{ "explain_denials", SCHEMA_BOOL, false, on_explain, NULL, 0, 0 },
	{ "limits", SCHEMA_MAP, false, on_limits, NULL, 0, 0 },
	{ "secrets", SCHEMA_MAP, false, on_secrets, NULL, 0, 0 },
	{ "destinations", SCHEMA_LIST, false, on_destinations, NULL, 0, 0 },
	{ "tests", SCHEMA_LIST, false, on_tests, NULL, 0, 0 },
	{ "sandbox", SCHEMA_MAP, false, on_sandbox, NULL, 0, 0 },
	{ "extends", SCHEMA_LATER, false, NULL, "policies that build on others", 0, 0 },
	{ "mode", SCHEMA_LATER, false, NULL, "observing", 0, 0 },
	{ "until", SCHEMA_LATER, false, NULL, "observing", 0, 0 },
	{ "vars", SCHEMA_LATER, false, NULL, "variables", 0, 0 },
	{ "ask", SCHEMA_LATER, false, NULL, "asking a person", 0, 0 },
};

/* --- what only the whole tells ------------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
	const struct pol_dest *x = a, *y = b;
	int r = (int)x->scheme - (int)y->scheme;

	if (r == 0)
		r = (int)x->port - (int)y->port;
	if (r == 0)
		r = strcmp(x->host.text, y->host.text);
	if (r == 0)
		r = (int)y->port_written - (int)x->port_written;
	if (r == 0)
		r = x->at.line < y->at.line ? -1 : x->at.line > y->at.line ? 1 : x->at.col < y->at.col ? -1 : x->at.col > y->at.col;
	return r;
}

/*
 * The order of what matches a host is total but for equals: of two with the same pattern, scheme and port the one decides
 * that lists its port; if both do, or neither, nothing tells them apart.
 */
static void check_equal_dests(struct load *l)
{
	struct policy *p = l->p;

	if (p->dest_n > 1)
		qsort(p->dests, p->dest_n, sizeof(*p->dests), by_key);
	for (unsigned i = 1; i < p->dest_n; i++) {
		const struct pol_dest *x = &p->dests[i - 1], *y = &p->dests[i];

		if (x->scheme != y->scheme || x->port != y->port || strcmp(x->host.text, y->host.text) != 0)
			continue;
		if (x->port_written != y->port_written)
			diag_warning(l->d, y->at.line, y->at.col, "%s here never decides on port %u: the destination of line %u lists the port; only the deny rules count", y->host.text, y->port, x->at.line);
		else
			diag_error(l->d, y->at.line, y->at.col, "%s on port %u (%s) is a destination already, at line %u: put the rules together", y->host.text, y->port,
				   scheme_name(y->scheme), x->at.line);
	}
}

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
			diag_error(b->l->d, d->at.line, d->at.col, "%s on port %u is a destination already, at line %u: nothing tells a tunnel there from what is read", d->host.text, d->port, e->at.line);
			return true;
		}
		if (e->tunnel || d->acknowledged || e->rule_n + e->inject_n == 0)
			continue;
		diag_error(b->l->d, d->at.line, d->at.col, "the tunnel to %s would evade the rules of line %u: what passes unread cannot be held to them; say `acknowledge: unread` if that is meant", d->host.text, e->at.line);
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
	return r ? r : x->at.line < y->at.line ? -1 : x->at.line > y->at.line ? 1 : x->at.col < y->at.col ? -1 : x->at.col > y->at.col;
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

		if (!str_eq(x->id, y->id) || (x->at.line == y->at.line && x->at.col == y->at.col))
			continue;
		if (x->given && y->given)
			diag_error(l->d, y->at.line, y->at.col, "the id `%.*s` is given already, at line %u", DIAG_STR(y->id), x->at.line);
		else if (!quiet && !x->dest && !y->dest && x->of == y->of && (x->cond || y->cond))
			diag_warning(l->d, y->at.line, y->at.col, "records would not tell this rule from that of line %u: give it an `id`", x->at.line);
		else if (!x->dest && !y->dest && x->of == y->of && !x->cond && !y->cond)
			diag_warning(l->d, y->at.line, y->at.col, "the same rule stands at line %u already", x->at.line);
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
	return r ? r : x->in->at.line < y->in->at.line ? -1 : x->in->at.line > y->in->at.line;
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
			diag_error(l->d, y->in->at.line, y->in->at.col, "the variable %.*s stands for secret `%.*s` already, at line %u", DIAG_STR(y->name), DIAG_STR(x->in->secret->name), x->in->at.line);
		else if (!str_eq(x->text, y->text))
			diag_error(l->d, y->in->at.line, y->in->at.col, "the variable %.*s has another template already, at line %u", DIAG_STR(y->name), x->in->at.line);
	}
	free(all);
}

static void warn(struct load *l)
{
	const struct policy *p = l->p;
	const struct pol_place *last = NULL;

	for (unsigned i = 0; i < p->secret_n; i++)
		if (!p->secrets[i].used)
			diag_warning(l->d, p->secrets[i].at.line, p->secrets[i].at.col, "secret `%.*s` is not injected anywhere", DIAG_STR(p->secrets[i].name));
	for (unsigned i = 0; i < p->dest_n; i++) {
		const struct pol_dest *d = &p->dests[i];
		/* a wildcard may be there for its denies alone */
		bool allows = false, broad = memchr(d->host.text, '*', d->host.len) != NULL;

		for (unsigned k = 0; k < d->rule_n; k++)
			allows = allows || !d->rules[k].deny || broad;
		if (!allows && (last == NULL || last->line != d->at.line || last->col != d->at.col))
			diag_warning(l->d, d->at.line, d->at.col, "this destination allows nothing");
		if (!allows)
			last = &d->at;
	}
}

static void check_whole(struct load *l)
{
	check_equal_dests(l);
	check_tunnels(l);
	check_ids(l);
	check_variables(l);
	if (l->d->errors == 0) /* what an error left out would only be noise */
		warn(l);
}

/* --- entry --------------------------------------------------------------------------------------------------------- */

static void sha256(const void *p, size_t n, uint8_t out[32]) { MUST(EVP_Digest(p, n, out, NULL, EVP_sha256(), NULL) == 1); }

int policy_parse(struct policy *p, const char *text, size_t n, const char *dir, struct diag *d)
{
	struct load l = { .p = p, .d = d, .dir = dir, .a = &p->mem, .files = EVP_MD_CTX_new() };
	struct yaml_node *root;

	memset(p, 0, sizeof(*p));
	p->explain_denials = true;
	p->name = STR("unnamed");
	sha256(text, n, p->digest);
	MUST(l.files != NULL && EVP_DigestInit_ex(l.files, EVP_sha256(), NULL) == 1 && EVP_DigestUpdate(l.files, p->digest, 32) == 1);
	root = yaml_parse(&p->mem, text, n, d);
	if (root != NULL && root->kind == YAML_NULL) {
		ERROR_AT(&l, root, "the policy is empty; the least one is `version: 1`, which denies everything");
	} else if (root != NULL) {
		schema_parse(d, root, "a policy", SCHEMA_ROWS(top_rows), &l);
		check_whole(&l);
	}
	if (l.file_n > 0)
		MUST(EVP_DigestFinal_ex(l.files, p->digest, NULL) == 1);
	EVP_MD_CTX_free(l.files);
	return d->errors ? -1 : 0;
}

int policy_load(struct policy *p, const char *path, struct diag *d)
{
	struct buf b = { 0 };
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
	if (k < 0) {
		diag_error_file(d, "cannot read it: %s", strerror(errno));
		goto out;
	}
	dir = slash == NULL ? must_strdup(".") : slash == path ? must_strdup("/") : must_strdup(path);
	if (slash != NULL && slash != path)
		dir[slash - path] = 0;
	ret = policy_parse(p, (const char *)buf_str(&b).p, buf_len(&b), dir, d);
out:
	if (fd >= 0)
		close(fd);
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
