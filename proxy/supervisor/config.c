/* SPDX-License-Identifier: Apache-2.0 */
/* gateway.yaml: what the operator sets. Everything has a default; an unknown key is an error, never ignored. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/base/ip.h"
#include "../../common/conf/yaml.h"
#include "supervisor.h"

#define CONFIG_MAX (1u << 20)
#define UID_BASE_MIN 1000

static const struct schema_row top_rows[] = {
	{ "dns", NULL },
	{ "trust", NULL },
	{ "uid_base", NULL },
	{ "listen", "(network listeners)" },
	{ "policies", "(named policies)" },
	{ "boundary", "(a policy that no other can exceed)" },
	{ "require_signed", "(signed policies)" },
	{ "observe", "(recording without refusing)" },
	{ "upstream_proxy", "(a proxy behind the gateway)" },
	{ "audit", "(settings of the log)" },
	{ "workers", "(settings of workers)" },
	{ "limits", "(settings of limits)" },
	{ "vault", "(secrets from Vault)" },
};
static const struct schema_row dns_rows[] = { { "servers", NULL } };

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

static void take_dns(struct config *c, const struct yaml_node *n, struct diag *d)
{
	const struct yaml_node *list;

	if (n->kind != YAML_MAP) {
		diag_error(d, n, "`dns` is a map: {servers: [ADDRESS, ...]}");
		return;
	}
	if (!schema_keys(d, n, dns_rows, sizeof(dns_rows) / sizeof(dns_rows[0]), "dns"))
		return;
	list = yaml_get(n, "servers");
	if (list == NULL)
		return;
	if (list->kind != YAML_LIST || list->n == 0) {
		diag_error(d, list, "`servers` is a list of at least one address; leave it out for the system's name servers");
		return;
	}
	for (unsigned i = 0; i < list->n; i++)
		if (list->items[i]->kind != YAML_TEXT || !config_add_dns(c->dns, list->items[i]->text))
			diag_error(d, list->items[i], "a name server is ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT (an address, not a name; some 20 of them)");
}

/* A relative path is beside the configuration: it does not depend on where the gateway was started. */
static void take_trust(struct config *c, const struct yaml_node *n, const char *file, struct diag *d)
{
	const char *slash = strrchr(file, '/');
	int dir = slash != NULL ? (int)(slash - file) + 1 : 0;

	if (n->kind != YAML_TEXT || n->text.n == 0 || memchr(n->text.p, 0, n->text.n) != NULL) {
		diag_error(d, n, "`trust` is the path of a PEM file of certificates");
		return;
	}
	if (n->text.p[0] == '/')
		dir = 0;
	if (snprintf(c->trust, sizeof(c->trust), "%.*s%.*s", dir, file, (int)n->text.n, n->text.p) >= (int)sizeof(c->trust))
		diag_error(d, n, "the path is too long");
}

static void take(struct config *c, const struct yaml_node *root, const char *file, struct diag *d)
{
	const struct yaml_node *n;
	uint64_t v;

	if (root->kind == YAML_NULL)
		return; /* nothing but comments */
	if (root->kind != YAML_MAP) {
		diag_error(d, root, "the configuration is a map of keys");
		return;
	}
	if (!schema_keys(d, root, top_rows, sizeof(top_rows) / sizeof(top_rows[0]), "the gateway's configuration"))
		return;
	if ((n = yaml_get(root, "dns")) != NULL)
		take_dns(c, n, d);
	if ((n = yaml_get(root, "trust")) != NULL)
		take_trust(c, n, file, d);
	if ((n = yaml_get(root, "uid_base")) != NULL) {
		if (n->kind != YAML_TEXT || !str_u64(n->text, UINT32_MAX - 2 * SANDBOXES_MAX, &v) || v < UID_BASE_MIN)
			diag_error(d, n, "`uid_base` is the first of %u user numbers that nobody else has, from %u up", 100 + SANDBOXES_MAX, UID_BASE_MIN);
		else
			c->uid_base = (uint32_t)v;
	}
}

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
	d.file = file;
	if (read_file(fd, file, &text, err) < 0)
		goto out;
	root = yaml_parse(&arena, (const char *)buf_str(&text).p, buf_len(&text), &d);
	if (root != NULL)
		take(c, root, file, &d);
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
	buf_fini(&d.out);
	arena_fini(&arena);
	return ret;
}
