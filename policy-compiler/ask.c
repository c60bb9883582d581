/* SPDX-License-Identifier: Apache-2.0 */
#include "ask.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "../common/base/must.h"

int asker_init(struct asker *k, const struct policy *p, struct err *err)
{
	*k = (struct asker){ .p = p, .fd = -1 };
	if (policy_image(p, &k->fd, err) < 0 || table_open(&k->t, k->fd, err) < 0) {
		asker_fini(k);
		return -1;
	}
	k->all = must_calloc(p->dest_n + 1ul, sizeof(const struct pol_dest *));
	return 0;
}

int asker_within(struct asker *k, const struct boundary *b, struct err *err)
{
	struct table *t;

	if (table_open(&t, b->fd, err) < 0)
		return -1;
	table_bind(k->t, t);
	k->boundary = b->is_text ? &b->p : NULL;
	return 0;
}

void asker_fini(struct asker *k)
{
	table_free(k->t);
	if (k->fd >= 0)
		close(k->fd);
	free(k->all);
	*k = (struct asker){ .fd = -1 };
}

bool ask_method_ok(struct str m)
{
	static const char signs[] = "!#$%&'*+-.^_`|~"; /* RFC 9110 5.6.2 */

	for (size_t i = 0; i < m.n; i++) {
		char c = ascii_lower(m.p[i]);

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || memchr(signs, c, sizeof(signs) - 1) != NULL))
			return false;
	}
	return m.n > 0;
}

/* scheme://authority[path][?query]; what the gateway would refuse as malformed is a result, not an error. */
int ask_url(struct asker *k, struct arena *a, struct str u, struct asked *o, struct err *err)
{
	struct str url = u, authority, path, wire;
	struct canon_path_opts opts = { 0 };
	const char *q;
	size_t i = 0;

	o->malformed = NULL;
	o->all = k->all;
	o->all_n = 0;
	if (!ask_method_ok(o->f.method))
		return err_set(err, EINVAL, "`%.*s` is not a method", DIAG_STR(o->f.method));
	if (str_starts(u, STR("https://"))) {
		o->f.scheme = SCHEME_HTTPS;
		u = str_mk(u.p + 8, u.n - 8);
	} else if (str_starts(u, STR("http://"))) {
		o->f.scheme = SCHEME_HTTP;
		u = str_mk(u.p + 7, u.n - 7);
	} else if (str_starts(u, STR("tcp://"))) {
		o->f.scheme = SCHEME_TCP;
		u = str_mk(u.p + 6, u.n - 6);
	} else {
		return err_set(err, EINVAL, "`%.*s` is not an http, https or tcp URL", DIAG_STR(url));
	}
	while (i < u.n && u.p[i] != '/' && u.p[i] != '?')
		i++;
	authority = str_mk(u.p, i);
	path = str_mk(u.p + i, u.n - i);
	if (!canon_authority(authority, o->f.scheme == SCHEME_HTTPS ? 443 : o->f.scheme == SCHEME_HTTP ? 80 : 0, &o->host, &o->f.port, &o->malformed))
		return 0;
	o->malformed = NULL;
	o->f.host = str_mk(o->host.text, o->host.len);
	q = path.n ? memchr(path.p, '?', path.n) : NULL;
	if (q != NULL) {
		o->f.has_query = true;
		o->f.query = str_mk(q + 1, path.n - (size_t)(q - path.p) - 1);
		path.n = (size_t)(q - path.p);
	}
	o->all_n = ref_dests(k->p, o->f.scheme, o->f.host, o->f.port, o->all);
	if (o->all_n > 0)
		opts = o->all[0]->paths;
	if (path.n == 0 && str_eq(o->f.method, STR("TUNNEL"))) {
		o->f.path = STR("*");
		return 0;
	}
	if (path.n == 0)
		path = STR("/");
	if (str_eq(path, STR("/*")) && str_eq(o->f.method, STR("OPTIONS"))) { /* there is no other way to write OPTIONS * as a URL */
		o->f.path = STR("*");
		return 0;
	}
	if (canon_path(a, path, &opts, &wire, &o->f.path, &o->malformed) && (!o->f.has_query || canon_query(o->f.query, opts.raw, &o->malformed)))
		o->malformed = NULL;
	return 0;
}

int ask_decide(struct asker *k, const struct asked *q, struct decision *d, struct err *err)
{
	struct decision ref;
	struct dest dest;
	int found = table_find(k->t, q->f.scheme, q->f.host, q->f.port, &dest);

	if (found < 0)
		return err_set(err, EBADMSG, "the table cannot be read");
	decide(k->t, found == 1 ? &dest : NULL, &q->f, d);
	if (table_boundary(k->t) != NULL && k->boundary == NULL) /* there is no text of it to ask */
		return 0;
	if (k->boundary != NULL)
		ref_within(k->p, k->boundary, &q->f, &ref);
	else
		ref_eval(k->p, &q->f, &ref);
	if (d->verdict != ref.verdict || d->why != ref.why || d->need != ref.need || !str_eq(d->rule, ref.rule) || !str_eq(d->source, ref.source))
		return err_set(err, EPROTO, "the table and the reference evaluator differ on this request (a fault of sallyport's own; the table says %s)", d->verdict == VERDICT_ALLOW ? "allow" : "deny");
	return 0;
}

const char *ask_why(const struct asked *q, const struct decision *d)
{
	if (q->malformed != NULL)
		return "the request would be refused as malformed";
	switch (d->why) {
	case DECIDE_NO_DESTINATION:
		return "no destination has this host, port and scheme";
	case DECIDE_NO_RULE:
		return "no allow rule matches";
	case DECIDE_DENY_RULE:
		return "a deny rule matches";
	case DECIDE_CONTENT:
		return "the rule does not let the request carry content";
	case DECIDE_LOOK:
		return "it depends on the content";
	case DECIDE_ALLOWED:
		return "an allow rule matches";
	default:
		return "the table is damaged";
	}
}
