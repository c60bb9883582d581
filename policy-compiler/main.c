/* SPDX-License-Identifier: Apache-2.0 */
/* sallyport-policy: the tools of the people who edit policies. Nothing here executes anything or reads a secret. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/base/jsonw.h"
#include "model.h"

static int usage(FILE *f)
{
	fprintf(f, "usage: sallyport policy check FILE...\n"
		   "       sallyport policy compile FILE -o TABLE\n"
		   "       sallyport policy explain [--json] FILE METHOD URL\n"
		   "       sallyport trust [--check] [--state DIR] [FILE]\n");
	return 2;
}

static int load(struct policy *p, const char *file, struct diag *d)
{
	int r;

	*d = (struct diag){ .file = file };
	r = policy_load(p, file, d);
	fwrite(buf_data(&d->out), 1, buf_len(&d->out), stderr);
	buf_fini(&d->out);
	return r;
}

static int cmd_check(int argc, char **argv)
{
	int bad = 0;

	if (argc < 2)
		return usage(stderr);
	for (int i = 1; i < argc; i++) {
		struct policy p;
		struct diag d;

		if (load(&p, argv[i], &d) < 0)
			bad = 1;
		else
			printf("%s: ok: %u destinations, %u secrets\n", argv[i], p.dest_n, p.secret_n);
		policy_free(&p);
	}
	return bad;
}

static int cmd_compile(int argc, char **argv)
{
	const char *out = NULL, *in;
	struct policy p;
	struct diag d;
	struct err err = ERR_INIT;
	int o, ret = 1;

	while ((o = getopt(argc, argv, "o:")) != -1) {
		if (o != 'o')
			return usage(stderr);
		out = optarg;
	}
	if (out == NULL || optind + 1 != argc)
		return usage(stderr);
	in = argv[optind];
	if (load(&p, in, &d) == 0) {
		if (policy_write(&p, out, &err) < 0)
			fprintf(stderr, "sallyport: %s\n", err.text);
		else
			ret = 0;
	}
	policy_free(&p);
	return ret;
}

/* --- explain ------------------------------------------------------------------------------------------------------- */

struct url {
	struct facts f;
	struct canon_host host;
	struct canon_path_opts opts;
	struct str raw_path;
};

static int parse_url(struct arena *a, const struct policy *p, const char *text, struct url *u)
{
	struct str s = str_of(text), auth, rest;
	const char *reason, *q;
	size_t i;
	struct str wire;
	const struct pol_dest *d;

	if (str_starts(s, STR("https://"))) {
		u->f.scheme = SCHEME_HTTPS;
		s = str_mk(s.p + 8, s.n - 8);
	} else if (str_starts(s, STR("http://"))) {
		u->f.scheme = SCHEME_HTTP;
		s = str_mk(s.p + 7, s.n - 7);
	} else {
		fprintf(stderr, "sallyport: `%s` is not an http or https URL\n", text);
		return -1;
	}
	for (i = 0; i < s.n && s.p[i] != '/' && s.p[i] != '?'; i++)
		;
	auth = str_mk(s.p, i);
	rest = str_mk(s.p + i, s.n - i);
	if (!canon_authority(auth, u->f.scheme == SCHEME_HTTPS ? 443 : 80, &u->host, &u->f.port, &reason)) {
		fprintf(stderr, "sallyport: the host of %s would be refused as malformed: %s\n", text, reason);
		return -1;
	}
	u->f.host = str_mk(u->host.text, u->host.len);
	q = rest.n ? memchr(rest.p, '?', rest.n) : NULL;
	u->raw_path = q ? str_mk(rest.p, (size_t)(q - rest.p)) : rest;
	if (u->raw_path.n == 0)
		u->raw_path = STR("/");
	if (q != NULL) {
		u->f.has_query = true;
		u->f.query = str_mk(q + 1, rest.n - (size_t)(q - rest.p) - 1);
	}
	d = ref_dest(p, u->f.scheme, u->f.host, u->f.port);
	if (d != NULL)
		u->opts = (struct canon_path_opts){ .encoded_slash_keep = d->encoded_slash, .empty_segments_keep = d->empty_segments, .raw = d->raw };
	if (!canon_path(a, u->raw_path, &u->opts, &wire, &u->f.path, &reason)) {
		fprintf(stderr, "sallyport: the path would be refused as malformed: %s\n", reason);
		return -1;
	}
	return 0;
}

static const char *why_text(enum decide_why w)
{
	switch (w) {
	case DECIDE_NO_DESTINATION:
		return "no destination matches host, port and scheme";
	case DECIDE_NO_RULE:
		return "no allow rule matches";
	case DECIDE_DENY_RULE:
		return "a deny rule matches";
	case DECIDE_CONTENT:
		return "the rule does not let the request carry content";
	case DECIDE_ALLOWED:
		return "an allow rule matches";
	default:
		return "the table is damaged";
	}
}

static int with_table(const struct policy *p, const struct facts *f, struct arena *a, struct decision *o)
{
	char tmp[] = "/tmp/sallyport-explain-XXXXXX";
	struct err err = ERR_INIT;
	struct table *t = NULL;
	struct dest d;
	uint8_t digest[32];
	struct stat st;
	void *map;
	int fd = mkstemp(tmp), found, ret = -1;

	if (fd < 0)
		return -1;
	close(fd);
	fd = -1;
	if (policy_write(p, tmp, &err) < 0 || (fd = open(tmp, O_RDONLY | O_CLOEXEC)) < 0 || fstat(fd, &st) != 0)
		goto out;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED || table_check(map, (size_t)st.st_size, digest, &err) < 0 || table_open(&t, fd, &err) < 0)
		goto out;
	munmap(map, (size_t)st.st_size);
	found = table_find(t, f->scheme, f->host, f->port, &d);
	decide(t, found == 1 ? &d : NULL, f, o);
	o->rule = arena_str(a, o->rule);
	o->source = arena_str(a, o->source);
	for (unsigned i = 0; i < o->allowed_n; i++)
		o->allowed[i] = arena_str(a, o->allowed[i]);
	ret = 0;
out:
	if (ret != 0)
		fprintf(stderr, "sallyport: %s\n", err.text);
	table_free(t);
	if (fd >= 0)
		close(fd);
	unlink(tmp);
	return ret;
}

static void print_near(const struct policy *p, const struct pol_dest *d, const struct facts *f)
{
	struct policy one = *p;

	for (unsigned i = 0; i < d->rule_n; i++) {
		struct pol_rule r = d->rules[i];
		struct pol_dest dd = *d;
		struct facts g = *f;
		struct decision o, o2;

		if (r.deny)
			continue;
		dd.rules = &r;
		dd.rule_n = 1;
		one.dests = &dd;
		one.dest_n = 1;
		ref_eval(&one, f, &o);
		if (o.verdict == VERDICT_ALLOW)
			continue;
		/* same rule with any method: was it the method alone? */
		r.any = true;
		g.has_content = false;
		ref_eval(&one, &g, &o2);
		if (o.why == DECIDE_CONTENT)
			printf("  near: %.*s (%.*s): the request carries content\n", (int)r.id.n, r.id.p, (int)r.source.n, r.source.p);
		else if (o2.verdict == VERDICT_ALLOW)
			printf("  near: %.*s (%.*s): its methods do not include %.*s\n", (int)r.id.n, r.id.p, (int)r.source.n, r.source.p, (int)f->method.n, f->method.p);
		else
			printf("  near: %.*s (%.*s): its path does not match\n", (int)r.id.n, r.id.p, (int)r.source.n, r.source.p);
	}
}

static int cmd_explain(int argc, char **argv)
{
	bool json = false;
	struct policy p;
	struct diag d;
	struct url u = { 0 };
	struct decision table = { 0 }, ref = { 0 };
	const struct pol_dest *dest;
	int i = 1, ret = 1;

	if (i < argc && strcmp(argv[i], "--json") == 0) {
		json = true;
		i++;
	}
	if (argc - i != 3)
		return usage(stderr);
	if (load(&p, argv[i], &d) < 0) {
		policy_free(&p);
		return 1;
	}
	u.f.method = str_of(argv[i + 1]);
	if (parse_url(&p.mem, &p, argv[i + 2], &u) < 0 || with_table(&p, &u.f, &p.mem, &table) < 0)
		goto out;
	ref_eval(&p, &u.f, &ref);
	if (table.verdict != ref.verdict || table.why != ref.why || !str_eq(table.rule, ref.rule)) {
		fprintf(stderr, "sallyport: internal error: the table and the reference evaluator differ on this request; please report it\n");
		ret = 3;
		goto out;
	}
	dest = ref_dest(&p, u.f.scheme, u.f.host, u.f.port);
	if (json) {
		struct buf b = { 0 };
		struct jsonw w = jsonw_on(&b);

		jsonw_open(&w, '{');
		jsonw_kz(&w, "verdict", table.verdict == VERDICT_ALLOW ? "allow" : "deny");
		jsonw_kz(&w, "why", why_text(table.why));
		jsonw_kstr(&w, "rule", table.rule);
		jsonw_kstr(&w, "source", table.source);
		jsonw_kopen(&w, "allowed", '[');
		for (unsigned k = 0; k < table.allowed_n; k++)
			jsonw_str(&w, table.allowed[k]);
		jsonw_close(&w, ']');
		jsonw_kopen(&w, "inject", '[');
		for (unsigned k = 0; dest != NULL && table.verdict == VERDICT_ALLOW && k < dest->inject_n; k++)
			jsonw_str(&w, dest->injects[k].secret->name);
		jsonw_close(&w, ']');
		jsonw_close(&w, '}');
		buf_addc(&b, '\n');
		fwrite(buf_data(&b), 1, buf_len(&b), stdout);
		buf_fini(&b);
	} else {
		printf("%s: %s\n", table.verdict == VERDICT_ALLOW ? "allow" : "deny", why_text(table.why));
		if (table.rule.n)
			printf("  rule: %.*s (%.*s)\n", (int)table.rule.n, table.rule.p, (int)table.source.n, table.source.p);
		else if (table.source.n)
			printf("  destination at %.*s\n", (int)table.source.n, table.source.p);
		if (table.verdict != VERDICT_ALLOW && dest != NULL)
			print_near(&p, dest, &u.f);
		for (unsigned k = 0; dest != NULL && table.verdict == VERDICT_ALLOW && k < dest->inject_n; k++)
			printf("  inject: %.*s\n", (int)dest->injects[k].secret->name.n, dest->injects[k].secret->name.p);
	}
	ret = table.verdict == VERDICT_ALLOW ? 0 : 1;
out:
	policy_free(&p);
	return ret;
}

/* --- trust --------------------------------------------------------------------------------------------------------- */

static bool state_dir(char out[4096], const char *arg)
{
	const char *env = getenv("SALLYPORT_STATE"), *x = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (arg != NULL)
		snprintf(out, 4096, "%s", arg);
	else if (env != NULL && env[0])
		snprintf(out, 4096, "%s", env);
	else if (geteuid() == 0)
		snprintf(out, 4096, "/var/lib/sallyport");
	else if (x != NULL && x[0] == '/')
		snprintf(out, 4096, "%s/sallyport", x);
	else if (home != NULL && home[0] == '/')
		snprintf(out, 4096, "%s/.local/state/sallyport", home);
	else
		return false;
	return true;
}

static int digest_file(const char *path, char hex[65])
{
	uint8_t md[32], buf[65536];
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || c == NULL) {
		EVP_MD_CTX_free(c);
		return -1;
	}
	EVP_DigestInit_ex(c, EVP_sha256(), NULL);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		EVP_DigestUpdate(c, buf, (size_t)n);
	close(fd);
	EVP_DigestFinal_ex(c, md, NULL);
	EVP_MD_CTX_free(c);
	for (int i = 0; i < 32; i++)
		snprintf(hex + 2 * i, 3, "%02x", md[i]);
	return n < 0 ? -1 : 0;
}

static void mkdirs(char *path)
{
	for (char *p = path + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		mkdir(path, 0700);
		*p = '/';
	}
}

/* A line "DIGEST PATH" in STATE/policies/trusted is consent to that content at that place. */
static int cmd_trust(int argc, char **argv)
{
	static const struct option options[] = { { "state", 1, NULL, 's' }, { "check", 0, NULL, 'c' }, { NULL, 0, NULL, 0 } };
	const char *state = NULL, *file = "sallyport.yaml";
	char dir[4096], list[4200], tmp[4300], real[4096], hex[65], line[4400];
	bool check = false, found = false, known = false;
	struct policy p;
	struct diag d;
	FILE *f, *o;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's')
			state = optarg;
		else if (c == 'c')
			check = true;
		else
			return usage(stderr);
	}
	if (optind + 1 < argc)
		return usage(stderr);
	if (optind < argc)
		file = argv[optind];
	if (!state_dir(dir, state)) {
		fprintf(stderr, "sallyport: neither --state, SALLYPORT_STATE, XDG_STATE_HOME nor HOME says where the state directory is\n");
		return 2;
	}
	if (realpath(file, real) == NULL || digest_file(real, hex) < 0) {
		fprintf(stderr, "sallyport: cannot read %s: %s\n", file, strerror(errno));
		return 1;
	}
	snprintf(list, sizeof(list), "%s/policies/trusted", dir);
	f = fopen(list, "re");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		line[strcspn(line, "\n")] = 0;
		if (strlen(line) < 66 || strcmp(line + 65, real) != 0)
			continue;
		known = true;
		found = strncmp(line, hex, 64) == 0;
	}
	if (check) {
		if (f != NULL)
			fclose(f);
		if (!found)
			fprintf(stderr, "sallyport: %s %s; read it, then: sallyport trust %s\n", real, known ? "has changed since it was trusted" : "is not trusted", file);
		return found ? 0 : 1;
	}
	if (load(&p, file, &d) < 0) {
		policy_free(&p);
		if (f != NULL)
			fclose(f);
		return 1;
	}
	snprintf(tmp, sizeof(tmp), "%s.%d.tmp", list, (int)getpid());
	umask(077);
	mkdirs(tmp);
	o = fopen(tmp, "we");
	if (o == NULL) {
		fprintf(stderr, "sallyport: cannot write %s: %s\n", list, strerror(errno));
		return 1;
	}
	if (f != NULL) {
		rewind(f);
		while (fgets(line, sizeof(line), f) != NULL) {
			line[strcspn(line, "\n")] = 0;
			if (strlen(line) > 65 && strcmp(line + 65, real) != 0)
				fprintf(o, "%s\n", line);
		}
		fclose(f);
	}
	fprintf(o, "%s %s\n", hex, real);
	if (fflush(o) != 0 || fsync(fileno(o)) != 0 || fclose(o) != 0 || rename(tmp, list) != 0) {
		fprintf(stderr, "sallyport: cannot write %s: %s\n", list, strerror(errno));
		unlink(tmp);
		return 1;
	}
	printf("%s is trusted as it is now (%u destinations, %u secrets)\n", real, p.dest_n, p.secret_n);
	policy_free(&p);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*fn)(int, char **);
	} commands[] = { { "check", cmd_check }, { "compile", cmd_compile }, { "explain", cmd_explain }, { "trust", cmd_trust } };

	if (argc < 2)
		return usage(stderr);
	if (strcmp(argv[1], "--help") == 0) {
		usage(stdout);
		return 0;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].fn(argc - 1, argv + 1);
	return usage(stderr);
}
