/* SPDX-License-Identifier: Apache-2.0 */
#include "environ.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../common/base/buf.h"
#include "../common/placeholder.h"
#include "trustdir.h"

#define PROXY "http://127.0.0.1:3128"
#define LOOPBACK "localhost,127.0.0.1,::1"
#define JAVA_OPTIONS "-Djavax.net.ssl.trustStore=" TRUSTDIR_JAVA " -Djavax.net.ssl.trustStorePassword=changeit -Djavax.net.ssl.trustStoreType=PKCS12" \
	" -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128 -Dhttp.nonProxyHosts=localhost|127.*|[::1]"
#define JAVA_PROXY "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128"
#define VARIABLES_MAX 512

extern char **environ;

/* Taken over when set. Nothing here is a place for a secret. */
static const char *const kept[] = { "PATH", "LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "TZ", "SHELL", "USER", "LOGNAME", "EDITOR", "VISUAL", "PAGER",
	"PYENV_ROOT", "RUSTUP_HOME", "NVM_DIR", "GOPATH", "GOROOT", "JAVA_HOME", "VIRTUAL_ENV", NULL };

/* Where each client looks for CAs and for the proxy. A bundle of our CA alone is right: the gateway is the only exit. */
static const struct {
	const char *name, *value;
} fixed[] = {
	{ "SSL_CERT_FILE", TRUSTDIR_CA }, { "SSL_CERT_DIR", TRUSTDIR_CERTS }, { "CURL_CA_BUNDLE", TRUSTDIR_CA }, { "REQUESTS_CA_BUNDLE", TRUSTDIR_CA }, { "PIP_CERT", TRUSTDIR_CA },
	{ "CONDA_SSL_VERIFY", TRUSTDIR_CA }, { "HTTPLIB2_CA_CERTS", TRUSTDIR_CA }, { "UV_SYSTEM_CERTS", "true" }, { "UV_NATIVE_TLS", "true" }, { "NODE_EXTRA_CA_CERTS", TRUSTDIR_CA },
	{ "NODE_USE_SYSTEM_CA", "1" }, { "npm_config_cafile", TRUSTDIR_CA }, { "YARN_HTTPS_CA_FILE_PATH", TRUSTDIR_CA }, { "yarn_cafile", TRUSTDIR_CA }, { "DENO_CERT", TRUSTDIR_CA },
	{ "DENO_TLS_CA_STORE", "system" }, { "GIT_SSL_CAINFO", TRUSTDIR_CA }, { "GIT_SSL_CAPATH", TRUSTDIR_CERTS }, { "GIT_PROXY_SSL_CAINFO", TRUSTDIR_CA }, { "CARGO_HTTP_CAINFO", TRUSTDIR_CA },
	{ "JAVA_TOOL_OPTIONS", JAVA_OPTIONS }, { "AWS_CA_BUNDLE", TRUSTDIR_CA }, { "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", TRUSTDIR_CA }, { "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", TRUSTDIR_CA },
	{ "BUNDLE_SSL_CA_CERT", TRUSTDIR_CA }, { "COMPOSER_CAFILE", TRUSTDIR_CA }, { "PHP_INI_SCAN_DIR", ":" TRUSTDIR_PHP }, { "PERL_LWP_SSL_CA_FILE", TRUSTDIR_CA }, { "HTTPS_CA_FILE", TRUSTDIR_CA },
	{ "HEX_CACERTS_PATH", TRUSTDIR_CA }, { "JULIA_SSL_CA_ROOTS_PATH", TRUSTDIR_CA }, { "SYSTEM_CERTIFICATE_PATH", TRUSTDIR_CA }, { "URLSessionCertificateAuthorityInfoFile", TRUSTDIR_CA },
	{ "NIX_SSL_CERT_FILE", TRUSTDIR_CA }, { "HOMEBREW_SSL_CERT_FILE", TRUSTDIR_CA }, { "CODEX_CA_CERTIFICATE", TRUSTDIR_CA },
	{ "http_proxy", PROXY }, { "https_proxy", PROXY }, { "HTTP_PROXY", PROXY }, { "HTTPS_PROXY", PROXY }, { "all_proxy", PROXY }, { "ALL_PROXY", PROXY }, { "no_proxy", LOOPBACK }, { "NO_PROXY", LOOPBACK },
	{ "NODE_USE_ENV_PROXY", "1" }, { "npm_config_proxy", PROXY }, { "npm_config_https_proxy", PROXY }, { "npm_config_noproxy", LOOPBACK }, { "YARN_HTTP_PROXY", PROXY }, { "YARN_HTTPS_PROXY", PROXY },
	{ "CARGO_HTTP_PROXY", PROXY }, { "PIP_PROXY", PROXY }, { "grpc_proxy", PROXY }, { "CLOUDSDK_PROXY_TYPE", "http" }, { "CLOUDSDK_PROXY_ADDRESS", "127.0.0.1" }, { "CLOUDSDK_PROXY_PORT", "3128" },
	{ "GRADLE_OPTS", JAVA_PROXY }, { "MAVEN_OPTS", JAVA_PROXY },
};

struct list {
	struct arena *mem;
	char *v[VARIABLES_MAX + 1];
	unsigned n;
	bool full;
};

static bool is_source(const struct environ_secrets *s, const char *name, size_t n)
{
	for (unsigned i = 0; i < s->source_n; i++)
		if (strlen(s->source[i]) == n && memcmp(s->source[i], name, n) == 0)
			return true;
	return false;
}

/* A later value replaces an earlier one. */
static void put(struct list *l, const char *name, size_t name_n, const char *value)
{
	size_t n = strlen(value);
	char *s = arena_alloc(l->mem, name_n + n + 2);
	unsigned i;

	memcpy(s, name, name_n);
	s[name_n] = '=';
	memcpy(s + name_n + 1, value, n + 1);
	for (i = 0; i < l->n; i++)
		if (strncmp(l->v[i], s, name_n + 1) == 0)
			break;
	if (i == VARIABLES_MAX) {
		l->full = true;
		return;
	}
	l->v[i] = s;
	if (i == l->n)
		l->n++;
}

static void put_z(struct list *l, const char *name, const char *value) { put(l, name, strlen(name), value); }

static void keep(struct list *l, const struct environ_secrets *s, const char *name)
{
	const char *v = getenv(name);

	if (v != NULL && !is_source(s, name, strlen(name)))
		put_z(l, name, v);
}

static int take_options(struct list *l, const struct options *o, const struct environ_secrets *s, struct err *err)
{
	for (unsigned i = 0; i < o->env_n; i++) {
		const char *e = o->env[i], *eq = strchr(e, '=');

		if (eq != NULL) {
			put(l, e, (size_t)(eq - e), eq + 1);
			continue;
		}
		if (is_source(s, e, strlen(e)))
			return err_set(err, EPERM, "-e %s: the policy takes a secret from this variable, its value stays outside", e);
		if (getenv(e) != NULL)
			put_z(l, e, getenv(e));
	}
	return 0;
}

/* For programs that clear their environment: `. /run/sallyport/env` */
static void env_file(struct plan *p, const struct list *l)
{
	struct buf b = { 0 };

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
		for (unsigned k = 0; k < l->n; k++) {
			size_t n = strlen(fixed[i].name);

			if (strncmp(l->v[k], fixed[i].name, n) != 0 || l->v[k][n] != '=')
				continue;
			buf_addf(&b, "export %s='", fixed[i].name);
			for (const char *c = l->v[k] + n + 1; *c; c++)
				if (*c == '\'')
					buf_addz(&b, "'\\''");
				else
					buf_addc(&b, *c);
			buf_addz(&b, "'\n");
		}
	}
	plan_file(p, TRUSTDIR "/env", buf_str(&b), 0444);
	buf_fini(&b);
}

int environ_plan(struct plan *p, const struct plan_wish *w, const struct options *o, const struct environ_secrets *s, const char *sandbox_name, struct err *err)
{
	struct list *l = arena_zalloc(&p->mem, sizeof(*l));
	struct passwd *pw;
	char value[256];

	l->mem = &p->mem;
	put_z(l, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	for (unsigned i = 0; kept[i] != NULL; i++)
		keep(l, s, kept[i]);
	for (char **e = environ; *e != NULL; e++)
		if (strncmp(*e, "LC_", 3) == 0 && strchr(*e, '=') != NULL) {
			snprintf(value, sizeof(value), "%.*s", (int)(strchr(*e, '=') - *e), *e);
			keep(l, s, value);
		}
	put_z(l, "HOME", p->home);
	put_z(l, "PWD", p->cwd);
	if (p->was_root) {
		pw = getpwuid(p->uid);
		put_z(l, "USER", pw != NULL ? pw->pw_name : "sandbox");
		put_z(l, "LOGNAME", pw != NULL ? pw->pw_name : "sandbox");
	}
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		put_z(l, fixed[i].name, fixed[i].value);
	put_z(l, "SALLYPORT_SANDBOX", sandbox_name);
	for (unsigned i = 0; i < w->keep_n; i++)
		keep(l, s, w->keep[i]);
	for (unsigned i = 0; i < w->set_n; i++)
		put_z(l, w->set_name[i], w->set_value[i]);
	for (unsigned i = 0; i < s->variable_n; i++) {
		snprintf(value, sizeof(value), ENVIRON_PENDING "%s", s->secret[i]);
		put_z(l, s->variable[i], value);
	}
	if (take_options(l, o, s, err) < 0)
		return -1;
	if (l->full)
		return err_set(err, E2BIG, "more than %d environment variables", VARIABLES_MAX);
	l->v[l->n] = NULL;
	p->envp = l->v;
	env_file(p, l);
	return 0;
}

static bool find_placeholder(struct str told, const char *secret, uint8_t part, struct placeholder *p)
{
	while (placeholder_next(&told, p))
		if (p->part == part && str_eq(p->secret, str_of(secret)))
			return true;
	return false;
}

int environ_placeholders(const struct environ_secrets *s, struct str told, struct err *err)
{
	static const char *const holes[PLACEHOLDER_PARTS] = { "{}", "{key_id}", "{key}", "{session}" };
	int fd = memfd_create("sallyport-placeholders", MFD_CLOEXEC), ret = -1;
	struct buf b = { 0 };

	for (unsigned i = 0; i < s->variable_n; i++) {
		struct str text = str_of(s->template[i]);
		struct placeholder p = { 0 };
		ptrdiff_t at = -1;
		uint8_t part = 0;

		while (part < PLACEHOLDER_PARTS && (at = str_find(text, str_of(holes[part]))) < 0)
			part++;
		if (at < 0 || !find_placeholder(told, s->secret[i], part, &p)) {
			err_set(err, EPROTO, "the gateway has no placeholder for the secret %s", s->secret[i]);
			goto out;
		}
		buf_addf(&b, "%s=", s->variable[i]);
		buf_add(&b, text.p, (size_t)at);
		buf_adds(&b, p.text);
		buf_adds(&b, str_mk(text.p + at + strlen(holes[part]), text.n - (size_t)at - strlen(holes[part])));
		buf_addc(&b, 0);
	}
	if (fd < 0 || write(fd, buf_data(&b), buf_len(&b)) != (ssize_t)buf_len(&b)) {
		err_errno(err, "cannot hand the placeholders on");
		goto out;
	}
	ret = fd;
	fd = -1;
out:
	if (fd >= 0)
		close(fd);
	buf_fini(&b);
	return ret;
}

bool environ_take(char **envp, int fd)
{
	struct stat st;
	char *text;

	if (fstat(fd, &st) != 0 || st.st_size < 0 || (text = calloc(1, (size_t)st.st_size + 1)) == NULL || pread(fd, text, (size_t)st.st_size, 0) != st.st_size)
		return false;
	for (char *v = text; v < text + st.st_size; v += strlen(v) + 1) {
		size_t name = (size_t)(strchrnul(v, '=') - v) + 1;

		for (char **e = envp; *e != NULL; e++) /* what was set by hand stays */
			if (strncmp(*e, v, name) == 0 && strncmp(*e + name, ENVIRON_PENDING, sizeof(ENVIRON_PENDING) - 1) == 0)
				*e = v;
	}
	return true;
}

int environ_sources(const struct environ_secrets *s, struct err *err)
{
	int fd = memfd_create("sallyport-env", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	bool bad = fd < 0;

	for (unsigned i = 0; i < s->source_n && !bad; i++) {
		const char *v = getenv(s->source[i]);

		if (v == NULL)
			continue;
		/* Straight from where it lies: no buffer of ours keeps a copy that pid 1 inside would inherit. */
		struct iovec part[3] = { { (char *)s->source[i], strlen(s->source[i]) }, { (char *)"=", 1 }, { (char *)v, strlen(v) + 1 } };

		bad = writev(fd, part, 3) != (ssize_t)(part[0].iov_len + 1 + part[2].iov_len);
	}
	bad = bad || fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0;
	if (!bad)
		return fd;
	if (fd >= 0)
		close(fd);
	return err_errno(err, "cannot hand the secrets' variables on");
}

void environ_wipe(void)
{
	for (char **e = environ; e != NULL && *e != NULL; e++)
		explicit_bzero(*e, strlen(*e));
	if (environ != NULL)
		environ[0] = NULL;
}
