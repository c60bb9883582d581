/* SPDX-License-Identifier: Apache-2.0 */
#include "init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/base/must.h"
#include "load.h"

#define FILE_MAX (1u << 20)
#define URLS_MAX 32

struct urls {
	char at[URLS_MAX][512];
	unsigned n;
	char from[4200]; /* where the first was found */
};

static void add_url(struct urls *u, struct str s, const char *from)
{
	while (s.n > 0 && (s.p[s.n - 1] == '/' || s.p[s.n - 1] == ' '))
		s.n--;
	if (u->n == URLS_MAX || s.n >= sizeof(u->at[0]) || !(str_starts(s, STR("https://")) || str_starts(s, STR("http://"))))
		return;
	for (unsigned i = 0; i < u->n; i++)
		if (str_eq(str_of(u->at[i]), s))
			return;
	memcpy(u->at[u->n], s.p, s.n);
	u->at[u->n++][s.n] = 0;
	if (u->n == 1)
		snprintf(u->from, sizeof(u->from), "%s", from);
}

/* --- the clients' own configuration -------------------------------------------------------------------------------- */

static bool slurp(const char *path, struct buf *b)
{
	FILE *f = fopen(path, "re");
	size_t k;

	buf_clear(b);
	if (f == NULL)
		return false;
	while (buf_len(b) < FILE_MAX && (k = fread(buf_room(b, 4096), 1, 4096, f)) > 0)
		buf_commit(b, k);
	fclose(f);
	return true;
}

static struct str trim(struct str s)
{
	while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
		s = str_mk(s.p + 1, s.n - 1);
	while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t' || s.p[s.n - 1] == '\r'))
		s.n--;
	return s;
}

/* Of go: NAME, NAME+KEY, or one of them and a URL. Unset it is a default that we do not know. */
static void add_sumdb(struct urls *u, struct str s, const char *from)
{
	const char *blank = s.n ? memchr(s.p, ' ', s.n) : NULL, *plus = s.n ? memchr(s.p, '+', s.n) : NULL;
	char url[300];

	if (blank != NULL) {
		add_url(u, trim(str_mk(blank, s.n - (size_t)(blank - s.p))), from);
	} else if (s.n > 0 && s.n < 250 && !str_eq(s, STR("off"))) {
		snprintf(url, sizeof(url), "https://%.*s", (int)(plus != NULL ? (size_t)(plus - s.p) : s.n), s.p);
		add_url(u, str_of(url), from);
	}
}

/* A list: of go, of pip's further indexes. */
static void add_urls(struct urls *u, struct str value, const char *from)
{
	if (value.n > 1 && (value.p[0] == '"' || value.p[0] == '\'')) {
		const char *end = memchr(value.p + 1, value.p[0], value.n - 1);

		value = str_mk(value.p + 1, end ? (size_t)(end - value.p - 1) : 0);
	}
	if (str_starts(value, STR("sparse+")))
		value = str_mk(value.p + 7, value.n - 7);
	for (size_t i = 0; i < value.n; i++)
		if (value.p[i] == ',' || value.p[i] == '|' || value.p[i] == ' ') {
			add_url(u, str_mk(value.p, i), from);
			value = str_mk(value.p + i + 1, value.n - i - 1);
			i = (size_t)-1;
		}
	add_url(u, value, from);
}

/* A line `key = "value"` for which `wanted` says yes. Comments begin with # or ;. goes_on: a value may go on in lines that begin with a blank. */
static void from_lines_of(struct urls *u, const char *path, bool (*wanted)(struct str key), bool goes_on)
{
	struct buf b = { 0 };
	struct str text, rest;
	bool within = false;

	if (!slurp(path, &b))
		goto out;
	text = buf_str(&b);
	for (rest = text; rest.n > 0;) {
		const char *nl = memchr(rest.p, '\n', rest.n), *eq;
		struct str line = str_mk(rest.p, nl ? (size_t)(nl - rest.p) : rest.n), key;
		bool blank = line.n > 0 && (line.p[0] == ' ' || line.p[0] == '\t');

		rest = nl ? str_mk(nl + 1, rest.n - line.n - 1) : STR_NONE;
		line = trim(line);
		if (line.n == 0 || line.p[0] == '#' || line.p[0] == ';')
			continue;
		if (goes_on && blank) {
			if (within)
				add_urls(u, line, path);
			continue;
		}
		eq = memchr(line.p, '=', line.n);
		key = eq != NULL ? trim(str_mk(line.p, (size_t)(eq - line.p))) : STR_NONE;
		within = eq != NULL && wanted(key);
		if (!within)
			continue;
		line = trim(str_mk(eq + 1, line.n - (size_t)(eq - line.p) - 1));
		if (str_eq(key, STR("GOSUMDB")))
			add_sumdb(u, line, path);
		else
			add_urls(u, line, path);
	}
out:
	buf_fini(&b);
}

static void from_lines(struct urls *u, const char *path, bool (*wanted)(struct str key)) { from_lines_of(u, path, wanted, false); }

static void from_home_of(struct urls *u, const char *name, bool (*wanted)(struct str key), bool goes_on)
{
	const char *home = getenv("HOME");
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", home ? home : "", name);
	from_lines_of(u, path, wanted, goes_on);
}

static void from_home(struct urls *u, const char *name, bool (*wanted)(struct str key)) { from_home_of(u, name, wanted, false); }

static void from_variable(struct urls *u, const char *name)
{
	const char *v = getenv(name);
	struct str s = str_of(v ? v : "");

	for (size_t i = 0; i <= s.n; i++) {
		if (i < s.n && s.p[i] != ',' && s.p[i] != '|' && s.p[i] != ' ')
			continue;
		add_url(u, str_mk(s.p, i), name);
		if (i == s.n)
			break;
		s = str_mk(s.p + i + 1, s.n - i - 1);
		i = (size_t)-1;
	}
}

static bool npm_key(struct str k) { return str_eq(k, STR("registry")) || (k.n > 10 && k.p[0] == '@' && str_ends(k, STR(":registry"))); }
static bool pip_key(struct str k) { return str_eq(k, STR("index-url")) || str_eq(k, STR("extra-index-url")) || str_eq(k, STR("index_url")); }
static bool cargo_key(struct str k) { return str_eq(k, STR("registry")) || str_eq(k, STR("index")); }
static bool go_key(struct str k) { return str_eq(k, STR("GOPROXY")) || str_eq(k, STR("GOSUMDB")); }

static void npm(struct urls *u)
{
	from_variable(u, "npm_config_registry");
	from_variable(u, "NPM_CONFIG_REGISTRY");
	from_lines(u, ".npmrc", npm_key);
	from_home(u, ".npmrc", npm_key);
	from_lines(u, "/etc/npmrc", npm_key);
	from_lines(u, "/usr/etc/npmrc", npm_key);
}

static void pip(struct urls *u)
{
	from_variable(u, "PIP_INDEX_URL");
	from_variable(u, "PIP_EXTRA_INDEX_URL");
	from_home_of(u, ".config/pip/pip.conf", pip_key, true);
	from_home_of(u, ".pip/pip.conf", pip_key, true);
	from_lines_of(u, "/etc/pip.conf", pip_key, true);
}

static void cargo(struct urls *u)
{
	from_lines(u, ".cargo/config.toml", cargo_key);
	from_home(u, ".cargo/config.toml", cargo_key);
	from_home(u, ".cargo/config", cargo_key);
}

static void go(struct urls *u)
{
	const char *sumdb = getenv("GOSUMDB");

	from_variable(u, "GOPROXY");
	add_sumdb(u, str_of(sumdb != NULL ? sumdb : ""), "GOSUMDB");
	from_home(u, ".config/go/env", go_key);
}

/* What stands in comments is not configured. */
static void without_comments(struct buf *b)
{
	struct str s = buf_str(b);
	struct buf out = { 0 };
	ptrdiff_t at, end;

	for (; (at = str_find(s, STR("<!--"))) >= 0; s = str_mk(s.p + end + 3, s.n - (size_t)end - 3)) {
		buf_add(&out, s.p, (size_t)at);
		s = str_mk(s.p + at, s.n - (size_t)at);
		end = str_find(s, STR("-->"));
		if (end < 0) {
			s = STR_NONE;
			break;
		}
	}
	buf_adds(&out, s);
	buf_fini(b);
	*b = out;
}

/* <url>...</url> of Maven's settings. */
static void maven(struct urls *u)
{
	const char *home = getenv("HOME");
	struct buf b = { 0 };
	char path[4096];
	struct str s;
	ptrdiff_t at, end;

	snprintf(path, sizeof(path), "%s/.m2/settings.xml", home ? home : "");
	if (slurp(path, &b)) {
		without_comments(&b);
		for (s = buf_str(&b); (at = str_find(s, STR("<url>"))) >= 0; s = str_mk(s.p + end, s.n - (size_t)end)) {
			s = str_mk(s.p + at + 5, s.n - (size_t)at - 5);
			end = str_find(s, STR("</url>"));
			if (end < 0)
				break;
			add_url(u, trim(str_mk(s.p, (size_t)end)), path);
		}
	}
	buf_fini(&b);
}

/* URLs in lines that begin with deb, or URIs:. */
static void apt_file(struct urls *u, const char *path)
{
	struct buf b = { 0 };
	struct str rest;

	if (slurp(path, &b)) {
		for (rest = buf_str(&b); rest.n > 0;) {
			const char *nl = memchr(rest.p, '\n', rest.n);
			struct str line = trim(str_mk(rest.p, nl ? (size_t)(nl - rest.p) : rest.n));
			ptrdiff_t at = str_find(line, STR("http"));
			size_t n = 0;

			rest = nl ? str_mk(nl + 1, rest.n - (size_t)(nl - rest.p) - 1) : STR_NONE;
			if (at < 0 || !(str_starts(line, STR("deb ")) || str_starts(line, STR("deb-src ")) || str_starts(line, STR("URIs:"))))
				continue;
			line = str_mk(line.p + at, line.n - (size_t)at);
			while (n < line.n && line.p[n] != ' ' && line.p[n] != '\t')
				n++;
			add_url(u, str_mk(line.p, n), path);
		}
	}
	buf_fini(&b);
}

static void apt(struct urls *u)
{
	static const char dir[] = "/etc/apt/sources.list.d";
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[512];

	apt_file(u, "/etc/apt/sources.list");
	while (d != NULL && (e = readdir(d)) != NULL) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (str_ends(str_of(e->d_name), STR(".list")) || str_ends(str_of(e->d_name), STR(".sources")))
			apt_file(u, path);
	}
	if (d != NULL)
		closedir(d);
}

static const struct manager {
	const char *name;
	void (*read)(struct urls *u);
	const char *keys; /* lines of the destination beside its rules */
} managers[] = {
	{ "npm", npm, "    paths: { encoded_slash: keep } # @scope%2fname\n" },
	{ "pip", pip, "" },
	{ "cargo", cargo, "" },
	{ "go", go, "" },
	{ "maven", maven, "" },
	{ "apt", apt, "" },
};

/* --- the policy ---------------------------------------------------------------------------------------------------- */

struct registry {
	bool http;
	struct canon_host host;
	uint16_t port;
	struct str path;
};

static int read_registry(const char *url, struct registry *r, struct err *err)
{
	struct str s, authority;
	const char *slash, *reason;

	*r = (struct registry){ .http = strncmp(url, "http://", 7) == 0, .path = STR("") };
	s = authority = str_of(url + (r->http ? 7 : 8));
	slash = s.n ? memchr(s.p, '/', s.n) : NULL;
	if (slash != NULL) {
		authority.n = (size_t)(slash - s.p);
		r->path = str_mk(slash, s.n - authority.n);
	}
	if (!canon_authority(authority, r->http ? 80 : 443, &r->host, &r->port, &reason))
		return err_set(err, EINVAL, "the registry's URL is not one that a sandbox could use (%s); a user and password in it belong into a secret: see sallyport-policy(5)", reason);
	for (size_t i = 0; i < r->path.n; i++)
		if (memchr("\"\\*?#", r->path.p[i], 5) != NULL || (unsigned char)r->path.p[i] <= 0x20 || (unsigned char)r->path.p[i] >= 0x7f)
			return err_set(err, EINVAL, "the registry's URL has signs in its path that no rule is made of");
	return 0;
}

static bool same_server(const struct registry *a, const struct registry *b) { return a->http == b->http && a->port == b->port && strcmp(a->host.text, b->host.text) == 0; }

/* One destination, with a rule for each registry on it. */
static void put_server(const struct manager *m, const struct registry *r, unsigned n, struct buf *out)
{
	buf_addf(out, r->host.ip.family == 6 ? "  - host: \"[%s]\"\n" : "  - host: \"%s\"\n", r->host.text);
	if (r->http)
		buf_addz(out, "    scheme: http # the packages come as anyone on the way lets them come\n");
	if (r->port != (r->http ? 80 : 443))
		buf_addf(out, "    ports: [%u]\n", r->port);
	buf_addz(out, m->keys);
	buf_addz(out, "    allow:\n");
	for (unsigned i = 0; i < n; i++)
		if (same_server(r, &r[i]))
			buf_addf(out, "      - \"GET %.*s/**\"\n", (int)r[i].path.n, r[i].path.p);
}

/* What is handed out is a policy. */
static int proven(const struct buf *text, struct err *err)
{
	struct diag d = { .file = "the new policy" };
	struct policy p;
	int ret = policy_parse(&p, (const char *)text->mem, text->len, NULL, &d);

	if (ret < 0)
		err_set(err, EINVAL, "%.*s", DIAG_STR(buf_str(&d.out)));
	policy_free(&p);
	diag_fini(&d);
	return ret;
}

static int registry(const struct manager *m, char *const *urls, int url_n, struct buf *out, struct err *err)
{
	struct urls *u = must_calloc(1, sizeof(*u));
	struct registry r[URLS_MAX];
	int ret = -1;

	for (int i = 0; i < url_n; i++)
		add_url(u, str_of(urls[i]), "the command line");
	if (url_n == 0)
		m->read(u);
	if (u->n == 0) {
		err_set(err, ENOENT, url_n ? "`%s` is not an http or https URL" : "%s is not configured for any registry here, and none is known by itself: say its URL, sallyport init %s https://...", url_n ? urls[0] : m->name, m->name);
		goto out;
	}
	buf_addf(out, "# Reading packages with %s, from where this machine's configuration says (%s); nothing can be published.\n", m->name, u->from);
	buf_addf(out, "# Registries may send clients on to other hosts for the packages themselves: `sallyport logs --denied` shows them.\nversion: 1\nname: %s\ndestinations:\n", m->name);
	for (unsigned i = 0; i < u->n; i++)
		if (read_registry(u->at[i], &r[i], err) < 0)
			goto out;
	for (unsigned i = 0; i < u->n; i++) {
		bool first = true;

		for (unsigned k = 0; k < i; k++)
			first = first && !same_server(&r[k], &r[i]);
		if (first)
			put_server(m, &r[i], u->n - i, out);
	}
	ret = proven(out, err);
out:
	free(u);
	return ret;
}

static int installed(const char *preset, struct buf *out, struct err *err)
{
	if (preset[0] == 0 || strspn(preset, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(preset))
		return err_set(err, EINVAL, "`%s` is not the name of a policy", preset);
	if (load_library(preset, out))
		return 0;
	return err_set(err, ENOENT, "no policy `%s` is installed; the names are those of the files in share/sallyport/policies, and npm, pip, cargo, go, maven, apt", preset);
}

int init_text(const char *preset, char *const *urls, int url_n, struct buf *out, struct err *err)
{
	for (size_t i = 0; i < sizeof(managers) / sizeof(managers[0]); i++)
		if (strcmp(preset, managers[i].name) == 0)
			return registry(&managers[i], urls, url_n, out, err);
	if (url_n > 0)
		return err_set(err, EINVAL, "a URL goes with npm, pip, cargo, go, maven and apt");
	return installed(preset, out, err);
}

int init_write(const char *file, const struct buf *text, struct err *err)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		return errno == EEXIST ? err_set(err, EEXIST, "%s is there already; it is left as it is", file) : err_errno(err, file);
	for (size_t at = 0; at < text->len;) {
		ssize_t n = write(fd, text->mem + at, text->len - at);

		if (n <= 0) {
			err_errno(err, file);
			close(fd);
			unlink(file);
			return -1;
		}
		at += (size_t)n;
	}
	close(fd);
	return 0;
}
