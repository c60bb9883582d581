/* SPDX-License-Identifier: Apache-2.0 */
#include "within.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../base/must.h"
#include "dest_value.h"
#include "host_pattern.h"
#include "sandbox_spec.h"

#define S(s) (int)((s).n > 200 ? 200 : (s).n), ((s).n ? (s).p : "")

struct within {
	const struct table *t, *b;
	void (*say)(void *arg, struct str source, const char *text);
	void *arg;
	unsigned n;
	const struct dest *d, *ceiling; /* that are compared */
};

static void out(struct within *w, struct str source, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void out(struct within *w, struct str source, const char *fmt, ...)
{
	char text[700];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	w->n++;
	w->say(w->arg, source, text);
}

/* `what` of the destination goes beyond the boundary's, which says it at its source. */
static void beyond(struct within *w, const char *what)
{
	struct str host = dest_host(w->d);

	out(w, w->d->source, "%s of %.*s goes beyond the boundary (%.*s)", what, S(host), S(w->ceiling->source));
}

/* --- addresses ----------------------------------------------------------------------------------------------------- */

/* All addresses of a in b. */
static bool range_in(const struct cidr *a, const struct cidr *b) { return a->net.family == b->net.family && a->bits >= b->bits && cidr_has(b, &a->net); }

static bool range_at(const struct dest *d, uint32_t i, struct cidr *out)
{
	struct dest_value v;
	const uint8_t *p;

	if (!dest_value_load(str_mk(d->value, d->value_len), &v) || (p = dest_value_at(&v, SECT_ADDRESSES, ADDRESS_SIZE, i)) == NULL)
		return false;
	dest_value_ip(p, &out->net);
	out->bits = p[17];
	return true;
}

static void addresses(struct within *w)
{
	const struct dest *d = w->d, *b = w->ceiling;
	struct cidr a, c;
	const char *why;

	if (dest_addresses_listed(b) && !dest_addresses_listed(d) && d->connect_ip.family == 0) {
		beyond(w, "`addresses` (any public one)");
		return;
	}
	for (uint32_t i = 0; range_at(d, i, &a); i++) {
		bool in = false;

		for (uint32_t k = 0; range_at(b, k, &c); k++)
			in = in || range_in(&a, &c);
		if (!in) {
			char text[IP_TEXT_MAX], what[IP_TEXT_MAX + 32];

			ip_format(&a.net, text);
			snprintf(what, sizeof(what), "`addresses` (%s/%u)", text, a.bits);
			beyond(w, what);
		}
	}
	if (d->connect_ip.family != 0 && !dest_address_ok(b, &d->connect_ip, &why))
		beyond(w, "`connect`");
}

/* --- tls ----------------------------------------------------------------------------------------------------------- */

static bool trusts(const struct dest *b, struct str der)
{
	struct str one;

	for (unsigned i = 0; dest_ca(b, i, &one); i++)
		if (str_eq(one, der))
			return true;
	return false;
}

static bool heeds(const struct dest *d, struct str der)
{
	struct str one;

	for (unsigned i = 0; dest_crl(d, i, &one); i++)
		if (str_eq(one, der))
			return true;
	return false;
}

static bool pins(const struct dest *b, const uint8_t *pin)
{
	const uint8_t *one;

	for (unsigned i = 0; (one = dest_pin(b, i)) != NULL; i++)
		if (memcmp(one, pin, PIN_SIZE) == 0)
			return true;
	return false;
}

static void tls(struct within *w)
{
	const struct dest *d = w->d, *b = w->ceiling;
	const uint8_t *pin;
	struct str der;
	bool good = d->has_ca || !b->has_ca;

	if (d->tls_min < b->tls_min)
		beyond(w, "`tls.min`");
	for (unsigned i = 0; good && dest_ca(d, i, &der); i++)
		good = trusts(b, der);
	if (!good)
		beyond(w, "`tls.ca`");
	good = true;
	for (unsigned i = 0; good && dest_crl(b, i, &der); i++)
		good = heeds(d, der);
	if (!good)
		beyond(w, "`tls.crl`");
	good = b->pin_n == 0 || d->pin_n > 0;
	for (unsigned i = 0; good && b->pin_n > 0 && (pin = dest_pin(d, i)) != NULL; i++)
		good = pins(b, pin);
	if (!good)
		beyond(w, "`tls.pin`");
}

/* --- a destination ------------------------------------------------------------------------------------------------- */

static bool more(uint64_t written, uint64_t ceiling) { return written != 0 && ceiling != 0 && written > ceiling; }

/* What is not written is not more: the boundary's own limits hold beside. */
static void limits(struct within *w)
{
	const struct dest_limits *d = &w->d->limits, *b = &w->ceiling->limits;

	if (more(d->request_body, b->request_body))
		beyond(w, "`limits.request_body`");
	if (more(d->response_body, b->response_body))
		beyond(w, "`limits.response_body`");
	if (more(d->head_ms, b->head_ms))
		beyond(w, "`limits.head`");
	if (more(d->idle_ms, b->idle_ms))
		beyond(w, "`limits.idle`");
	if (more(d->total_ms, b->total_ms))
		beyond(w, "`limits.total`");
}

/* Rates of the same kind and window, of all of the destination. */
static void rates(struct within *w)
{
	static const char *const names[RATE_KINDS] = { [RATE_REQUESTS] = "`limits.requests`", [RATE_UPLOAD] = "`limits.upload`", [RATE_DOWNLOAD] = "`limits.download`", [RATE_CONCURRENT] = "`limits.concurrent`" };
	struct rate a, c;

	for (unsigned i = 0; dest_rate(w->d, i, &a); i++)
		for (unsigned k = 0; a.rule == RATE_OF_ALL && names[a.kind] != NULL && dest_rate(w->ceiling, k, &c); k++)
			if (c.rule == RATE_OF_ALL && c.kind == a.kind && c.window_s == a.window_s && a.amount > c.amount)
				beyond(w, names[a.kind]);
}

static int strictness(enum foreign f) { return f == FOREIGN_REFUSE ? 2 : f == FOREIGN_REPLACE ? 1 : 0; }

static void compare(struct within *w)
{
	const struct dest *d = w->d, *b = w->ceiling;

	addresses(w);
	tls(w);
	limits(w);
	rates(w);
	if (d->tunnel && !b->tunnel)
		beyond(w, "a tunnel");
	if (d->scrub_off && !b->scrub_off)
		beyond(w, "`scrub: off`");
	if (strictness(d->foreign) < strictness(b->foreign))
		beyond(w, "`foreign`");
	if ((d->paths.encoded_slash_keep && !b->paths.encoded_slash_keep) || (d->paths.empty_segments_keep && !b->paths.empty_segments_keep) || (d->paths.raw && !b->paths.raw))
		beyond(w, "`paths`");
}

static bool allows(const struct dest *d)
{
	struct dest_value v;
	struct rule_value r;

	for (uint32_t i = 0; dest_value_load(str_mk(d->value, d->value_len), &v) && dest_value_rule(&v, i, &r); i++)
		if ((r.methods & METHOD_DENY) == 0)
			return true;
	return d->tunnel;
}

/* The scheme and port of a destination, from its place among the keys. */
struct placed {
	struct within *w;
	enum scheme scheme;
	uint16_t port;
};

static bool against(void *arg, const struct dest *b)
{
	struct placed *p = arg;
	struct within *w = p->w;
	struct str mine = dest_host(w->d), other = dest_host(b);

	/* patterns that have a host in common: one of them covers the other */
	if (b->scheme == p->scheme && b->port == p->port && (host_text_covers(other, mine) || host_text_covers(mine, other))) {
		w->ceiling = b;
		compare(w);
	}
	return true;
}

static bool on_dest(void *arg, const struct dest *d)
{
	struct within *w = arg;
	struct placed p = { w, d->scheme, d->port };
	struct dest b;

	if (!allows(d)) /* what it is like does not matter */
		return true;
	w->d = d;
	if (d->wildcard)
		return table_dest_each(w->b, against, &p);
	if (table_find(w->b, p.scheme, dest_host(d), p.port, &b) == 1) {
		w->ceiling = &b;
		compare(w);
	}
	return true;
}

/* --- secrets ------------------------------------------------------------------------------------------------------- */

static bool secret_named(const struct table *t, struct str name, struct secret_decl *s)
{
	for (unsigned i = 0; i < table_secret_count(t) && table_secret(t, i, s); i++)
		if (str_eq(s->name, name))
			return true;
	return false;
}

struct any_host {
	struct str host;
	bool found;
};

static bool stands_there(void *arg, const struct dest *d)
{
	struct any_host *a = arg;

	a->found = a->found || host_text_covers(dest_host(d), a->host);
	return !a->found;
}

static bool host_known(const struct table *b, struct str host)
{
	struct any_host a = { host, false };

	table_dest_each(b, stands_there, &a);
	return a.found;
}

/* A boundary that names secrets names all there may be, and where they may go; one that does not says it by its destinations. */
static void secrets(struct within *w)
{
	struct secret_decl s, c;
	struct str host;

	for (unsigned i = 0; i < table_secret_count(w->t) && table_secret(w->t, i, &s); i++) {
		if (table_secret_count(w->b) == 0) {
			for (unsigned k = 0; table_secret_host(w->t, i, k, &host); k++)
				if (!host_known(w->b, host))
					out(w, STR_NONE, "secret `%.*s` may go to %.*s, which the boundary has no destination for", S(s.name), S(host));
			continue;
		}
		if (!secret_named(w->b, s.name, &c)) {
			out(w, STR_NONE, "secret `%.*s` is not one of the boundary's", S(s.name));
			continue;
		}
		if (c.source != s.source || !str_eq(c.arg, s.arg))
			out(w, STR_NONE, "secret `%.*s` comes from elsewhere than the boundary says", S(s.name));
		for (unsigned k = 0; table_secret_host(w->t, i, k, &host); k++)
			if (!table_secret_host_ok(w->b, c.index, host))
				out(w, STR_NONE, "secret `%.*s` may go to %.*s, which the boundary does not list", S(s.name), S(host));
	}
}

/* --- the sandbox --------------------------------------------------------------------------------------------------- */

/* Without "./" before it, however many and with however many slashes; of which alone there is the working directory. */
static struct str undotted(struct str path)
{
	while (str_starts(path, STR("./"))) {
		path = str_mk(path.p + 2, path.n - 2);
		while (path.n > 0 && path.p[0] == '/')
			path = str_mk(path.p + 1, path.n - 1);
		if (path.n == 0)
			return STR(".");
	}
	return path;
}

/*
 * A path in or below another, as they are written. "." is the working directory: every relative path that does not leave it.
 * An empty name is no folder: nothing is in it.
 */
static bool path_in(struct str path, struct str folder)
{
	path = undotted(path);
	folder = undotted(folder);
	if (folder.n == 0)
		return false;
	if (str_eq(path, STR("..")) || str_starts(path, STR("../")) || str_find(path, STR("/../")) >= 0 || str_ends(path, STR("/..")))
		return str_eq(path, folder);
	if (str_eq(folder, STR(".")))
		return path.n > 0 && path.p[0] != '/' && path.p[0] != '~';
	if (str_eq(folder, STR("/")))
		return path.n > 0 && path.p[0] == '/';
	return str_starts(path, folder) && (path.n == folder.n || path.p[folder.n] == '/');
}

static bool list_has(const struct str_list *l, struct str s, bool paths)
{
	for (unsigned i = 0; i < l->n; i++)
		if (paths ? path_in(s, l->s[i]) : str_eq(s, l->s[i]))
			return true;
	return false;
}

/* Each of `a` is one of `b`, or in one. An empty name says that the list was given and is empty. */
static bool list_in(const struct str_list *a, const struct str_list *b, bool paths)
{
	for (unsigned i = 0; i < a->n; i++)
		if (a->s[i].n > 0 && !list_has(b, a->s[i], paths))
			return false;
	return true;
}

static int openness(struct str home) { return str_eq(home, STR("host")) ? 2 : str_eq(home, STR("empty")) ? 0 : 1; }

static void bounded(struct within *w, const char *key, uint64_t have, uint64_t ceiling)
{
	if (ceiling != 0 && (have == 0 || have > ceiling))
		out(w, STR_NONE, "sandbox: %s is %llu at most by the boundary", key, (unsigned long long)ceiling);
}

static void beyond_key(struct within *w, bool good, const char *key)
{
	if (!good)
		out(w, STR_NONE, "sandbox: %s goes beyond the boundary", key);
}

static void sandbox(struct within *w)
{
	struct sandbox_spec *a = must_calloc(2, sizeof(*a)), *b = a + 1;
	const struct str_list cwd = { { STR(".") }, 1 };

	if (!sandbox_spec_load(w->t, a) || !sandbox_spec_load(w->b, b)) {
		out(w, STR_NONE, "the sandbox section cannot be read");
		free(a);
		return;
	}
	if (b->write.n > 0)
		beyond_key(w, list_in(a->write.n > 0 ? &a->write : &cwd, &b->write, true), "filesystem.write");
	if (b->read.n > 0)
		beyond_key(w, list_in(&a->read, &b->read, true), "filesystem.read");
	beyond_key(w, list_in(&b->hide, &a->hide, true), "filesystem.hide");
	beyond_key(w, list_in(&b->protect, &a->protect, true), "filesystem.protect");
	beyond_key(w, list_in(&b->require, &a->require, false), "require");
	if (b->keep.n > 0)
		beyond_key(w, list_in(&a->keep, &b->keep, false), "process.environment.keep");
	if (b->home.n > 0)
		beyond_key(w, openness(a->home) <= openness(b->home), "filesystem.home");
	if (b->user.n > 0)
		beyond_key(w, str_eq(a->user, b->user), "process.user");
	if (str_eq(b->on_misuse, STR("stop_sandbox")))
		beyond_key(w, str_eq(a->on_misuse, b->on_misuse), "on_misuse");
	if (str_eq(b->on_gateway_loss, STR("stop")))
		beyond_key(w, str_eq(a->on_gateway_loss, b->on_gateway_loss), "on_gateway_loss");
	bounded(w, "filesystem.scratch", a->scratch, b->scratch);
	bounded(w, "resources.memory", a->memory, b->memory);
	bounded(w, "resources.cpus (thousandths)", a->cpus_milli, b->cpus_milli);
	bounded(w, "resources.processes", a->processes, b->processes);
	bounded(w, "resources.open_files", a->open_files, b->open_files);
	bounded(w, "resources.wall_time (ms)", a->wall_ms, b->wall_ms);
	bounded(w, "resources.idle_time (ms)", a->idle_ms, b->idle_ms);
	free(a);
}

unsigned table_within(const struct table *t, const struct table *boundary, void (*say)(void *arg, struct str source, const char *text), void *arg)
{
	struct within w = { .t = t, .b = boundary, .say = say, .arg = arg };

	if (!table_dest_each(t, on_dest, &w))
		out(&w, STR_NONE, "the table is damaged");
	secrets(&w);
	sandbox(&w);
	return w.n;
}

/* --- what only narrows --------------------------------------------------------------------------------------------- */

static bool on_narrowing(void *arg, const struct dest *d)
{
	struct within *w = arg;
	const struct {
		bool has;
		const char *what;
	} more[] = {
		{ dest_addresses_listed(d), "`addresses`" },
		{ d->connect_ip.family != 0, "`connect`" },
		{ d->has_ca, "`tls.ca`" },
		{ d->tunnel, "a tunnel" },
		{ d->has_inject, "`inject`" },
	};
	struct str host = dest_host(d);

	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		if (more[i].has)
			out(w, d->source, "%.*s has %s", S(host), more[i].what);
	return true;
}

unsigned table_narrows(const struct table *t, void (*say)(void *arg, struct str source, const char *text), void *arg)
{
	struct within w = { .t = t, .say = say, .arg = arg };
	struct secret_decl s;

	if (!table_dest_each(t, on_narrowing, &w))
		out(&w, STR_NONE, "the table is damaged");
	for (unsigned i = 0; i < table_secret_count(t) && table_secret(t, i, &s); i++)
		out(&w, STR_NONE, "it names the secret `%.*s`", S(s.name));
	if (table_observe_until(t) > 0)
		out(&w, STR_NONE, "it has `mode: observe`");
	return w.n;
}
