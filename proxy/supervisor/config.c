/* SPDX-License-Identifier: Apache-2.0 */
/* gateway.yaml: what the operator sets. Everything has a default; an unknown key is an error, never ignored. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/base/canon.h"
#include "config.h"
#include "supervisor.h"

#define CONFIG_MAX (1u << 20)
#define UID_BASE_MIN 1000


bool config_add_dns(char dns[DNS_TEXT_MAX], struct str text)
{
	struct str host = text, port = STR_NONE;
	const char *colon = memrchr(text.p, ':', text.n);
	char addr[IP_TEXT_MAX];
	uint64_t n = 53;
	struct ip ip;
	size_t used = strlen(dns);

	if (text.n > 0 && text.p[0] == '[') {
		const char *end = memchr(text.p, ']', text.n);

		if (end == NULL)
			return false;
		host = str_mk(text.p + 1, (size_t)(end - text.p) - 1);
		if (end + 1 != text.p + text.n) {
			if (end[1] != ':')
				return false;
			port = str_mk(end + 2, (size_t)(text.p + text.n - end) - 2);
			if (port.n == 0)
				return false;
		}
	} else if (colon != NULL && memchr(text.p, ':', text.n) == colon) {
		host = str_mk(text.p, (size_t)(colon - text.p));
		port = str_mk(colon + 1, (size_t)(text.p + text.n - colon) - 1);
		if (port.n == 0)
			return false;
	}
	if (!ip_parse(host, &ip) || (port.n > 0 && (!str_u64(port, 65535, &n) || n == 0)))
		return false;
	ip_format(&ip, addr);
	if (used + strlen(addr) + 8 > DNS_TEXT_MAX)
		return false;
	snprintf(dns + used, DNS_TEXT_MAX - used, "%s %u\n", addr, (unsigned)n);
	return true;
}

static void on_servers(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct config_load *l = arg;

	(void)row;
	if (v->n == 0)
		diag_error(l->d, v->node->line, v->node->col, "`servers` is a list of at least one address; leave it out for the system's name servers");
	for (unsigned i = 0; i < v->n; i++)
		if (!config_add_dns(l->c->dns, v->items[i]->text))
			diag_error(l->d, v->items[i]->line, v->items[i]->col, "a name server is ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT (an address, not a name; some 20 of them)");
}

static const struct schema_row dns_rows[] = { { "servers", SCHEMA_TEXTS, false, on_servers, NULL, 0, 0 } };

static void on_dns(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct config_load *l = arg;

	(void)row;
	schema_parse(l->d, v->node, "dns", SCHEMA_ROWS(dns_rows), l);
}

bool config_path(const struct config_load *l, struct str text, char out[4096])
{
	const char *slash = strrchr(l->file, '/');
	int dir = slash != NULL && text.p[0] != '/' ? (int)(slash - l->file) + 1 : 0;

	return snprintf(out, 4096, "%.*s%.*s", dir, l->file, (int)text.n, text.p) < 4096;
}

static void take_path(struct config_load *l, const struct schema_value *v, char to[4096])
{
	if (!config_path(l, v->text, to))
		diag_error(l->d, v->node->line, v->node->col, "the path is too long");
}

static void on_trust(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	take_path(arg, v, ((struct config_load *)arg)->c->trust);
}

static void on_boundary(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	take_path(arg, v, ((struct config_load *)arg)->c->boundary);
}

static void on_observe(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct config_load *)arg)->c->observe = v->truth;
}

static void on_ipv6(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct config_load *)arg)->c->no_ipv6 = !v->truth;
}

/* --- the proxy behind --- */

static void on_proxy_url(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	const struct str plain = STR("http://"), tls = STR("https://");
	struct config_load *l = arg;
	struct canon_host h;
	const char *reason;
	struct str at;
	uint16_t port;

	(void)row;
	l->c->proxy_tls = str_starts(v->text, tls);
	at = l->c->proxy_tls ? str_mk(v->text.p + tls.n, v->text.n - tls.n) : str_starts(v->text, plain) ? str_mk(v->text.p + plain.n, v->text.n - plain.n) : STR_NONE;
	if (at.n > 0 && at.p[at.n - 1] == '/')
		at.n--;
	if (at.n > 0 && memchr(at.p, '@', at.n) != NULL)
		diag_error(l->d, v->node->line, v->node->col, "no credentials in the URL: `credentials` names a file that holds user:password");
	else if (at.n == 0 || !canon_authority(at, 0, &h, &port, &reason))
		diag_error(l->d, v->node->line, v->node->col, "the upstream proxy is http://HOST:PORT or https://HOST:PORT");
	else
		snprintf(l->c->proxy, sizeof(l->c->proxy), "via %s %u ", h.text, port);
}

static void on_proxy_credentials(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	take_path(arg, v, ((struct config_load *)arg)->c->proxy_credentials);
}

static void on_proxy_ca(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct config_load *l = arg;

	(void)row;
	take_path(l, v, l->c->proxy_ca);
	l->proxy_ca_at = v->node;
}

static void on_proxy_names(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	((struct config_load *)arg)->proxy_resolves = str_eq(v->text, STR("proxy"));
}

static const struct schema_row proxy_rows[] = {
	{ "url", SCHEMA_TEXT, true, on_proxy_url, "http://HOST:PORT", 0, 0 },
	{ "ca", SCHEMA_TEXT, false, on_proxy_ca, NULL, 0, 0 },
	{ "credentials", SCHEMA_TEXT, false, on_proxy_credentials, NULL, 0, 0 },
	{ "names", SCHEMA_WORD, false, on_proxy_names, "gateway|proxy", 0, 0 },
};

static void on_proxy(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct config_load *l = arg;
	size_t n;

	(void)row;
	schema_parse(l->d, v->node, "upstream_proxy", SCHEMA_ROWS(proxy_rows), l);
	n = strlen(l->c->proxy);
	if (n > 0)
		snprintf(l->c->proxy + n, sizeof(l->c->proxy) - n, "%s %s\n", l->proxy_resolves ? "proxy" : "gateway", l->c->proxy_tls ? "tls" : "plain");
	if (l->proxy_ca_at != NULL && !l->c->proxy_tls)
		diag_error(l->d, l->proxy_ca_at->line, l->proxy_ca_at->col, "`ca` verifies an upstream proxy under TLS: https://HOST:PORT");
}

static void on_vault(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	(void)row;
	config_vault_load(arg, v->node);
}

static void on_uid_base(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct config_load *l = arg;

	(void)row;
	if (v->number < UID_BASE_MIN || v->number > UINT32_MAX - 2 * SANDBOXES_MAX)
		diag_error(l->d, v->node->line, v->node->col, "`uid_base` is the first of %u user numbers that nobody else has, from %u up", 100 + SANDBOXES_MAX, UID_BASE_MIN);
	else
		l->c->uid_base = (uint32_t)v->number;
}

static void on_signed(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct config_load *l = arg;

	(void)row;
	if (v->n == 0)
		diag_error(l->d, v->node->line, v->node->col, "`require_signed` is a list of at least one key; leave it out and no policy has to be signed");
	for (unsigned i = 0; i < v->n && l->c->signer_n < SIGNERS_MAX; i++)
		if (!signature_key_parse(v->items[i]->text, l->c->signers[l->c->signer_n++]))
			diag_error(l->d, v->items[i]->line, v->items[i]->col, "a key is ed25519/ and 44 characters, as `sallyport policy pubkey KEY` prints it");
}

/* --- what secrets may come from --- */

static void add_rule(struct config_load *l, const struct yaml_node *at, const char *kind, struct str pattern)
{
	struct source_rules *r = l->sources;
	size_t room = sizeof(r->text) - r->n;
	int n = snprintf(r->text + r->n, room, "%s %.*s\n", kind, (int)pattern.n, pattern.n ? pattern.p : "");

	if (n < 0 || (size_t)n >= room)
		diag_error(l->d, at->line, at->col, "more sources than there is room for");
	else
		r->n += (size_t)n;
}

/* As it will be: the policy's name in it, once. */
static const char *pattern_bad(struct config_load *l, const char *kind, struct str p)
{
	const struct str mark = STR("{policy}");
	ptrdiff_t at = str_find(p, mark);
	char text[1100];
	int n;

	if (at < 0)
		return sources_pattern_bad(str_of(kind), p);
	if (l->sources == &l->c->sources)
		return "{policy} is the name of a policy of a folder: it stands in that folder's `sources`";
	n = snprintf(text, sizeof(text), "%.*sx%.*s", (int)at, p.p, (int)(p.n - (size_t)at - mark.n), p.p + at + mark.n);
	return str_find(str_mk(text, (size_t)n), mark) >= 0 || p.n > 1000 ? "{policy} stands in it once, and it is not that long" : sources_pattern_bad(str_of(kind), str_mk(text, (size_t)n));
}

static void on_source(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct config_load *l = arg;

	add_rule(l, v->node, "only", str_of(row->key));
	for (unsigned i = 0; i < v->n; i++) {
		const char *why = pattern_bad(l, row->key, v->items[i]->text);

		if (why != NULL)
			diag_error(l->d, v->items[i]->line, v->items[i]->col, "`%.*s` is no source of kind `%s`: %s", DIAG_STR(v->items[i]->text), row->key, why);
		else
			add_rule(l, v->items[i], row->key, v->items[i]->text);
	}
}

static const struct schema_row folder_source_rows[] = {
	{ "env", SCHEMA_TEXTS, false, on_source, NULL, 0, 64 },
	{ "file", SCHEMA_TEXTS, false, on_source, NULL, 0, 64 },
	{ "credential", SCHEMA_TEXTS, false, on_source, NULL, 0, 64 },
	{ "vault", SCHEMA_TEXTS, false, on_source, NULL, 0, 64 },
	{ "exec", SCHEMA_TEXTS, false, on_source, NULL, 0, 64 },
};

static void on_folder_sources(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct config_load *l = arg;

	(void)row;
	if (v->node->kind == YAML_TEXT && str_eq(v->node->text, STR("none")))
		return;
	if (v->node->kind == YAML_MAP)
		schema_parse(l->d, v->node, "sources", SCHEMA_ROWS(folder_source_rows), l);
	else
		diag_error(l->d, v->node->line, v->node->col, "`sources` is `none`, or a map of `env`, `file`, `credential`, `vault` and `exec`");
}

static void on_dir(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct config_load *l = arg;

	(void)row;
	take_path(l, v, l->c->folders[l->c->folder_n].path);
}

static void on_folder_boundary(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct config_load *l = arg;

	(void)row;
	take_path(l, v, l->c->folders[l->c->folder_n].boundary);
}

/* The number of a user or group, which is a name or a number. */
static bool take_id(struct config_load *l, const struct yaml_node *at, bool group, uint32_t *out)
{
	const char *what = group ? "group" : "user";
	char name[256];
	uint64_t n;

	if (str_u64(at->text, UINT64_MAX, &n)) {
		if (n >= UINT32_MAX) {
			diag_error(l->d, at->line, at->col, "%.*s is no number of a %s: 0 to 4294967294", DIAG_STR(at->text), what);
			return false;
		}
		*out = (uint32_t)n;
		return true;
	}
	snprintf(name, sizeof(name), "%.*s", (int)at->text.n, at->text.p);
	if (at->text.n < sizeof(name) && strlen(name) == at->text.n) {
		const struct passwd *u = group ? NULL : getpwnam(name);
		const struct group *g = group ? getgrnam(name) : NULL;

		if (u != NULL || g != NULL) {
			*out = u != NULL ? u->pw_uid : g->gr_gid;
			return true;
		}
	}
	diag_error(l->d, at->line, at->col, "there is no %s `%.*s` on this system: correct the name, make the %s (%s), or write a number", what, DIAG_STR(at->text), what, group ? "groupadd" : "useradd");
	return false;
}

static void on_folder_users(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct config_load *l = arg;
	struct folder *f = &l->c->folders[l->c->folder_n];

	(void)row;
	f->named = true;
	for (unsigned i = 0; i < v->n && f->user_n < FOLDER_IDS_MAX; i++)
		f->user_n += take_id(l, v->items[i], false, &f->users[f->user_n]);
}

static void on_folder_groups(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct config_load *l = arg;
	struct folder *f = &l->c->folders[l->c->folder_n];

	(void)row;
	f->named = true;
	for (unsigned i = 0; i < v->n && f->group_n < FOLDER_IDS_MAX; i++)
		f->group_n += take_id(l, v->items[i], true, &f->groups[f->group_n]);
}

static const struct schema_row folder_rows[] = {
	{ "dir", SCHEMA_TEXT, true, on_dir, "a policy folder is `{ dir: DIR }`", 0, 0 },
	{ "boundary", SCHEMA_TEXT, false, on_folder_boundary, NULL, 0, 0 },
	{ "sources", SCHEMA_ANY, false, on_folder_sources, NULL, 0, 0 },
	{ "users", SCHEMA_TEXTS, false, on_folder_users, NULL, 0, FOLDER_IDS_MAX },
	{ "groups", SCHEMA_TEXTS, false, on_folder_groups, NULL, 0, FOLDER_IDS_MAX },
};

static void on_policies(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct config_load *l = arg;

	(void)row;
	for (unsigned i = 0; i < v->n; i++) {
		if (l->c->folder_n == FOLDERS_MAX) {
			diag_error(l->d, v->items[i]->line, v->items[i]->col, "at most %d policy folders", FOLDERS_MAX);
			return;
		}
		l->sources = &l->c->folders[l->c->folder_n].sources;
		l->c->folders[l->c->folder_n].boundary_fd = -1;
		l->c->folders[l->c->folder_n].line = v->items[i]->line;
		for (size_t k = 0; k < sizeof(folder_source_rows) / sizeof(folder_source_rows[0]); k++) /* nothing but what is said */
			add_rule(l, v->items[i], "only", str_of(folder_source_rows[k].key));
		schema_parse(l->d, v->items[i], "a policy folder", SCHEMA_ROWS(folder_rows), l);
		l->c->folder_n++;
	}
}

static void on_programs(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct config_load *l = arg;

	(void)row;
	for (unsigned i = 0; i < v->n; i++) {
		struct str p = v->items[i]->text;

		if (p.p[0] != '/' || l->c->programs_n + p.n + 1 > sizeof(l->c->programs)) {
			diag_error(l->d, v->items[i]->line, v->items[i]->col, "a program that policies may have run is an absolute path (some 50 of them)");
			return;
		}
		memcpy(l->c->programs + l->c->programs_n, p.p, p.n);
		l->c->programs_n += p.n + 1; /* the octet behind is zero */
	}
}

static const struct schema_row source_rows[] = {
	{ "exec", SCHEMA_TEXTS, false, on_programs, NULL, 0, 0 },
	{ "env", SCHEMA_TEXTS, false, on_source, NULL, 0, 64 },
	{ "file", SCHEMA_TEXTS, false, on_source, NULL, 0, 64 },
	{ "credential", SCHEMA_TEXTS, false, on_source, NULL, 0, 64 },
	{ "vault", SCHEMA_TEXTS, false, on_source, NULL, 0, 64 },
};

static void on_sources(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct config_load *l = arg;

	(void)row;
	l->sources = &l->c->sources;
	schema_parse(l->d, v->node, "sources", SCHEMA_ROWS(source_rows), l);
}

static const struct schema_row top_rows[] = {
	{ "dns", SCHEMA_MAP, false, on_dns, NULL, 0, 0 },
	{ "trust", SCHEMA_TEXT, false, on_trust, NULL, 0, 0 },
	{ "boundary", SCHEMA_TEXT, false, on_boundary, NULL, 0, 0 },
	{ "observe", SCHEMA_BOOL, false, on_observe, NULL, 0, 0 },
	{ "ipv6", SCHEMA_BOOL, false, on_ipv6, NULL, 0, 0 },
	{ "upstream_proxy", SCHEMA_MAP, false, on_proxy, NULL, 0, 0 },
	{ "uid_base", SCHEMA_NUMBER, false, on_uid_base, NULL, 0, 0 },
	{ "listen", SCHEMA_LATER, false, NULL, "network listeners", 0, 0 },
	{ "policies", SCHEMA_LIST, false, on_policies, NULL, 0, 0 },
	{ "require_signed", SCHEMA_TEXTS, false, on_signed, NULL, 0, SIGNERS_MAX },
	{ "audit", SCHEMA_LATER, false, NULL, "settings of the log", 0, 0 },
	{ "workers", SCHEMA_LATER, false, NULL, "settings of workers", 0, 0 },
	{ "limits", SCHEMA_LATER, false, NULL, "settings of limits", 0, 0 },
	{ "sources", SCHEMA_MAP, false, on_sources, NULL, 0, 0 },
	{ "vault", SCHEMA_MAP, false, on_vault, NULL, 0, 0 },
};

/* Whoever can write it decides which name servers and which CAs are believed. */
static int read_file(int fd, const char *file, struct buf *text, struct err *err)
{
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) != 0)
		return err_errno(err, "cannot look at %s", file);
	if (!S_ISREG(st.st_mode) || st.st_size > CONFIG_MAX)
		return err_set(err, EINVAL, "%s is not a regular file of at most 1 MiB", file);
	if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & 022))
		return err_set(err, EPERM, "%s must belong to uid %u (or root) and nobody else may write it: chown it, chmod go-w it", file, (unsigned)geteuid());
	while ((n = read(fd, buf_room(text, 8192), 8192)) > 0 && buf_len(text) <= CONFIG_MAX)
		buf_commit(text, (size_t)n);
	if (n < 0)
		return err_errno(err, "cannot read %s", file);
	return 0;
}

static bool default_file(char out[4096], bool as_root)
{
	const char *x = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n;

	if (as_root)
		n = snprintf(out, 4096, "/etc/sallyport/gateway.yaml");
	else if (x != NULL && x[0] == '/')
		n = snprintf(out, 4096, "%s/sallyport/gateway.yaml", x);
	else if (home != NULL && home[0] == '/')
		n = snprintf(out, 4096, "%s/.config/sallyport/gateway.yaml", home);
	else
		return false;
	return n < 4096;
}

int config_load(struct config *c, const char *file, bool as_root, struct err *err)
{
	char path[4096];
	bool asked = file != NULL;
	struct arena arena = { 0 };
	struct buf text = { 0 };
	struct diag d = { 0 };
	struct config_load l = { .c = c, .d = &d, .file = file };
	struct yaml_node *root;
	int fd, ret = -1;

	*c = (struct config){ .uid_base = UID_BASE_DEFAULT };
	if (!asked) {
		if (!default_file(path, as_root))
			return 0;
		file = path;
	}
	fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0) {
		if (!asked && (errno == ENOENT || errno == ENOTDIR))
			return 0;
		return err_errno(err, "cannot open the configuration %s", file);
	}
	d.file = l.file = file;
	if (read_file(fd, file, &text, err) < 0)
		goto out;
	root = yaml_parse(&arena, (const char *)buf_str(&text).p, buf_len(&text), &d);
	if (root != NULL && root->kind != YAML_NULL) /* null: nothing but comments */
		schema_parse(&d, root, "the gateway's configuration", SCHEMA_ROWS(top_rows), &l);
	if (root == NULL || d.errors > 0) {
		/* each error on a line of its own, as the compiler of policies has it */
		if (write(STDERR_FILENO, buf_str(&d.out).p, buf_len(&d.out)) < 0) {
			/* nowhere to say it; the status tells */
		}
		err_set(err, EINVAL, "the configuration %s is wrong: nothing is started", file);
		goto out;
	}
	ret = 0;
out:
	close(fd);
	buf_fini(&text);
	diag_fini(&d);
	arena_fini(&arena);
	return ret;
}
