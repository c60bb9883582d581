/* SPDX-License-Identifier: Apache-2.0 */
/* smokescreen's ACL and iron-proxy's allowlist: lists of hosts, of which each that matches counts. */
#include "import_int.h"

static struct str text_of(const struct yaml_node *n) { return n != NULL && n->kind == YAML_TEXT ? n->text : STR_NONE; }
static unsigned count_of(const struct yaml_node *list) { return list != NULL && list->kind == YAML_LIST ? list->n : 0; }
static bool is_true(const struct yaml_node *n) { return str_eq(text_of(n), STR("true")); }

/* A host of a list, or "*." and one. */
struct glob {
	struct str host;
	bool below;
};
static struct glob glob_of(struct str s)
{
	bool below = str_starts(s, STR("*."));

	return (struct glob){ below ? str_mk(s.p + 2, s.n - 2) : s, below };
}

static bool in_glob(const struct import_name *n, struct str s, bool apex_too)
{
	struct glob g = glob_of(s);

	return import_name_in(n, g.host, g.below) || (g.below && apex_too && !n->below && str_eq(n->host, g.host));
}

static bool in_globs(const struct import_name *n, const struct yaml_node *list, bool apex_too)
{
	for (unsigned i = 0; i < count_of(list); i++)
		if (in_glob(n, text_of(list->items[i]), apex_too))
			return true;
	return false;
}

static void add_globs(struct import *im, struct import_names *names, const struct yaml_node *list, bool apex_too)
{
	for (unsigned i = 0; i < count_of(list); i++) {
		struct glob g = glob_of(text_of(list->items[i]));

		if (!import_name_add(im, names, g.host, g.below) || (g.below && apex_too && !import_name_add(im, names, g.host, false)))
			BAD(im, list->items[i], "`%.*s` is not a host, or *. and a host", DIAG_STR(text_of(list->items[i])));
	}
}

/* --- smokescreen --------------------------------------------------------------------------------------------------- */

static const struct yaml_node *service(struct import *im, const struct yaml_node *root)
{
	const struct yaml_node *list = yaml_get(root, "services"), *other = yaml_get(root, "default");

	for (unsigned i = 0; im->o.service != NULL && i < count_of(list); i++)
		if (list->items[i]->kind == YAML_MAP && str_eq(text_of(yaml_get(list->items[i], "name")), str_of(im->o.service)))
			return list->items[i];
	if (im->o.service != NULL)
		buf_addf(im->out, "# there is no service %s: what holds is `default`\n", im->o.service);
	return other != NULL && other->kind == YAML_MAP ? other : NULL;
}

/* Their order: the service's own list, then the global deny list, then the global allow list, then what the service's action says. */
static bool smokescreen_allows(const struct import_name *n, const struct yaml_node *own, const struct yaml_node *deny, const struct yaml_node *allow)
{
	return in_globs(n, own, false) || (!in_globs(n, deny, false) && in_globs(n, allow, false));
}

void import_smokescreen(struct import *im, const struct yaml_node *root)
{
	static const char *const top[] = { "version", "services", "default", "global_allow_list", "global_deny_list", NULL };
	static const char *const keys[] = { "name", "project", "action", "allowed_domains", "mitm_domains", "allowed_domains_mitm", "allowed_external_proxies", NULL };
	const struct yaml_node *s, *deny = yaml_get(root, "global_deny_list"), *allow = yaml_get(root, "global_allow_list"), *own;
	struct import_names names = { 0 };
	struct str action;

	import_only(im, root, "an ACL of smokescreen", top);
	buf_addz(im->out, "# From smokescreen: https on port 443, any method and path. Other ports and plain http are destinations of their own.\n");
	s = service(im, root);
	if (s == NULL) {
		buf_addz(im->out, "# without a service and a default everything is denied\n");
		return;
	}
	import_only(im, s, "a service", keys);
	action = text_of(yaml_get(s, "action"));
	if (!str_eq(action, STR("enforce"))) {
		BAD(im, yaml_get(s, "action") != NULL ? yaml_get(s, "action") : s, "action %.*s lets every other host pass: that cannot be said (`enforce` can)", DIAG_STR(action));
		return;
	}
	if (yaml_get(s, "mitm_domains") != NULL)
		buf_addz(im->out, "# mitm_domains: the headers that are added there are not carried over\n");
	own = yaml_get(s, "allowed_domains");
	add_globs(im, &names, own, false);
	add_globs(im, &names, deny, false);
	add_globs(im, &names, allow, false);
	import_names_sort(&names);
	buf_addz(im->out, "destinations:\n");
	for (unsigned i = 0; i < names.count; i++) {
		bool verdict = smokescreen_allows(&names.n[i], own, deny, allow), broader = false;

		for (unsigned k = 0; k < i; k++)
			broader = broader || (names.n[k].below && import_name_in(&names.n[i], names.n[k].host, true));
		if (!verdict && !broader)
			continue;
		import_host(im, &names.n[i]);
		buf_addz(im->out, verdict ? IMPORT_ALLOW_ALL : "    allow: [] # global_deny_list\n");
	}
}

/* --- iron-proxy ---------------------------------------------------------------------------------------------------- */

static bool plain_path(struct str s) { return s.n > 0 && s.p[0] == '/' && memchr(s.p, '?', s.n) == NULL && memchr(s.p, '[', s.n) == NULL && memchr(s.p, '\\', s.n) == NULL; }

static void put_method(struct import *im, const struct yaml_node *rule)
{
	const struct yaml_node *m = yaml_get(rule, "methods");
	unsigned n = count_of(m);

	for (unsigned i = 0; i < n; i++)
		if (str_eq(text_of(m->items[i]), STR("*")))
			n = 0;
	buf_addz(im->out, n == 0 ? "[ANY, WEBSOCKET]" : "[");
	for (unsigned i = 0; i < n; i++) {
		struct str s = text_of(m->items[i]);

		buf_addz(im->out, i > 0 ? ", " : "");
		for (size_t k = 0; k < s.n; k++)
			buf_addc(im->out, s.p[k] >= 'a' && s.p[k] <= 'z' ? (char)(s.p[k] - 32) : s.p[k]);
		if (str_ieq(s, STR("GET")))
			buf_addz(im->out, ", WEBSOCKET");
	}
	buf_addz(im->out, n == 0 ? "" : "]");
}

static void put_rule(struct import *im, const struct yaml_node *rule, struct str path)
{
	buf_addz(im->out, "      - { method: ");
	put_method(im, rule);
	buf_addz(im->out, ", path: ");
	import_quoted(im->out, path);
	buf_addz(im->out, ", body: any }\n");
}

/* A star that is the last segment of theirs is everything below, and the path itself; one elsewhere stays within its segment. */
static void put_paths(struct import *im, const struct yaml_node *rule)
{
	const struct yaml_node *paths = yaml_get(rule, "paths");

	if (count_of(paths) == 0)
		put_rule(im, rule, STR("/**"));
	for (unsigned i = 0; i < count_of(paths); i++) {
		struct str s = text_of(paths->items[i]);
		struct buf b = { 0 };

		if (!plain_path(s)) {
			BAD(im, paths->items[i], "the path `%.*s` cannot be said here", DIAG_STR(s));
			continue;
		}
		if (!str_ends(s, STR("/*"))) {
			put_rule(im, rule, s);
			continue;
		}
		buf_adds(&b, s);
		buf_addc(&b, '*');
		put_rule(im, rule, buf_str(&b));
		if (s.n > 2)
			put_rule(im, rule, str_mk(s.p, s.n - 2));
		buf_fini(&b);
	}
}

/* A pattern of theirs that is a host or "*." and one; others are comments. */
static bool usable(struct import *im, struct str s, bool tell)
{
	struct glob g = glob_of(s);

	if (g.host.n > 0 && memchr(g.host.p, '*', g.host.n) == NULL && memchr(g.host.p, '?', g.host.n) == NULL && memchr(g.host.p, '[', g.host.n) == NULL)
		return true;
	if (tell)
		buf_addf(im->out, "# %.*s: is no host and no domain: left out\n", DIAG_STR(s));
	return false;
}

static void add_host(struct import *im, struct import_names *names, const struct yaml_node *n)
{
	struct glob g;

	if (!usable(im, text_of(n), true))
		return;
	g = glob_of(text_of(n));
	if (!import_name_add(im, names, g.host, g.below) || (g.below && !import_name_add(im, names, g.host, false)))
		BAD(im, n, "`%.*s` is not a host, or *. and a host", DIAG_STR(text_of(n)));
}

static void allowlist(struct import *im, const struct yaml_node *config)
{
	static const char *const keys[] = { "domains", "cidrs", "rules", "warn", NULL }, *const rule_keys[] = { "host", "cidr", "methods", "paths", NULL };
	const struct yaml_node *domains = yaml_get(config, "domains"), *rules = yaml_get(config, "rules");
	struct import_names names = { 0 };

	import_only(im, config, "the allowlist", keys);
	if (is_true(yaml_get(config, "warn")))
		buf_addz(im->out, "# it only warned there (warn: true); here the rules hold\n");
	if (count_of(yaml_get(config, "cidrs")) > 0)
		buf_addz(im->out, "# cidrs: addresses are no hosts here: left out\n");
	for (unsigned i = 0; i < count_of(domains); i++)
		add_host(im, &names, domains->items[i]);
	for (unsigned i = 0; i < count_of(rules); i++) {
		if (rules->items[i]->kind != YAML_MAP)
			continue;
		import_only(im, rules->items[i], "a rule", rule_keys);
		if (yaml_get(rules->items[i], "cidr") != NULL)
			buf_addf(im->out, "# %.*s: addresses are no hosts here: left out\n", DIAG_STR(text_of(yaml_get(rules->items[i], "cidr"))));
		else
			add_host(im, &names, yaml_get(rules->items[i], "host") != NULL ? yaml_get(rules->items[i], "host") : rules->items[i]);
	}
	import_names_sort(&names);
	buf_addz(im->out, names.count > 0 ? "destinations:\n" : "# nothing is allowed\n");
	for (unsigned i = 0; i < names.count; i++) {
		bool open = false;

		import_host(im, &names.n[i]);
		for (unsigned k = 0; k < count_of(domains); k++)
			open = open || (usable(im, text_of(domains->items[k]), false) && in_glob(&names.n[i], text_of(domains->items[k]), true));
		buf_addz(im->out, open ? IMPORT_ALLOW_ALL : "    allow:\n");
		for (unsigned k = 0; !open && k < count_of(rules); k++) {
			struct str host = rules->items[k]->kind == YAML_MAP ? text_of(yaml_get(rules->items[k], "host")) : STR_NONE;

			if (host.n > 0 && usable(im, host, false) && in_glob(&names.n[i], host, true))
				put_paths(im, rules->items[k]);
		}
	}
}

void import_iron_proxy(struct import *im, const struct yaml_node *root)
{
	static const char *const none[] = { "annotate", "body_capture", "otel" };
	const struct yaml_node *list = yaml_get(root, "transforms"), *found = NULL;

	buf_addz(im->out, "# From iron-proxy: https on port 443; HEAD passes where GET does. Other ports and plain http are destinations of their own.\n");
	if (yaml_get(root, "domains") != NULL) { /* a list of its own, as its action for CI takes it */
		allowlist(im, root);
		return;
	}
	for (unsigned i = 0; i < count_of(list); i++) {
		struct str name = list->items[i]->kind == YAML_MAP ? text_of(yaml_get(list->items[i], "name")) : STR_NONE;
		bool harmless = false;

		for (size_t k = 0; k < sizeof(none) / sizeof(none[0]); k++)
			harmless = harmless || str_eq(name, str_of(none[k]));
		if (str_eq(name, STR("allowlist")) && found == NULL)
			found = yaml_get(list->items[i], "config");
		else if (str_eq(name, STR("secrets")))
			buf_addz(im->out, "# secrets: not carried over; write them under `secrets` and `inject`\n");
		else if (!harmless)
			BAD(im, list->items[i], "the transform `%.*s` is not known here, and leaving it out could widen", DIAG_STR(name));
	}
	if (found != NULL && found->kind == YAML_MAP)
		allowlist(im, found);
	else
		buf_addz(im->out, "# without an allowlist nothing is allowed\n");
}
