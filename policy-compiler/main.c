/* SPDX-License-Identifier: Apache-2.0 */
/* sallyport-policy: the tools of the people who edit policies. Nothing here executes anything or reads a secret. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../common/base/jsonw.h"
#include "../common/base/must.h"
#include "deps.h"
#include "diff.h"
#include "explain.h"
#include "fmt.h"
#include "import.h"
#include "init.h"
#include "load.h"
#include "messages.h"
#include "revision.h"
#include "log.h"
#include "schema_json.h"
#include "store.h"
#include "try.h"
#include "trust.h"

enum { EXIT_GOOD = 0, EXIT_FOUND = 1, EXIT_USAGE = 2 };

static int usage(FILE *f)
{
	fprintf(f, "usage: sallyport policy check [--json] [--boundary FILE] FILE...\n"
		   "       sallyport policy compile [--json] [--boundary FILE] [--trusted] [--state DIR] [--sign KEY] FILE -o TABLE | --install DIR\n"
		   "       sallyport policy rollback [--list | --to DIGEST] DIR NAME\n"
		   "       sallyport policy pubkey KEY\n"
		   "       sallyport policy test [--junit] FILE\n"
		   "       sallyport policy explain [--json] [--boundary FILE] [--header 'NAME: VALUE']... [--data FILE | --content] [--at TIME] FILE METHOD URL\n"
		   "       sallyport policy fmt [--check | -w] FILE...\n"
		   "       sallyport policy diff [--json | --markdown] [--fail-on widen] OLD NEW (each FILE, or REV:FILE of git)\n"
		   "       sallyport policy replay [--json] FILE LOG...\n"
		   "       sallyport policy suggest [--json] LOG...\n"
		   "       sallyport policy import [--json] [--any-program] [--service NAME] openshell|sandbox-runtime|squid|smokescreen|iron-proxy FILE\n"
		   "       sallyport policy schema\n"
		   "       sallyport init [-o FILE] PRESET | npm|pip|cargo|go|maven|apt [URL...]\n"
		   "       sallyport trust [--check] [--state DIR] [FILE]\n");
	return EXIT_USAGE;
}

static int fail_on(FILE *f, int status, const struct err *err)
{
	fprintf(f, "sallyport: %s\n", err->text);
	return status;
}
static int fail(int status, const struct err *err) { return fail_on(stderr, status, err); }

static void put(struct str s, FILE *f)
{
	if (s.n > 0) /* nothing may be at no place at all */
		fwrite(s.p, 1, s.n, f);
}

/* Loads a policy, its messages on f. Always to be freed. */
static int load_on(FILE *f, struct policy *p, const char *file, unsigned *warnings)
{
	struct diag d = { .file = file };
	int r = revision_is(file) ? revision_load(p, file, &d) : policy_load(p, file, &d);

	put(buf_str(&d.out), f);
	if (warnings != NULL)
		*warnings = d.warnings;
	diag_fini(&d);
	return r;
}
static int load(struct policy *p, const char *file, unsigned *warnings) { return load_on(stderr, p, file, warnings); }

static const char *plural(unsigned n) { return n == 1 ? "" : "s"; }

/* Rules that let any query pass on destinations with a secret: whoever reads the summary may want to close some. */
static unsigned open_queries(const struct policy *p)
{
	unsigned n = 0;

	for (unsigned i = 0; i < p->dest_n; i++) {
		const struct pol_dest *d = &p->dests[i];

		for (unsigned k = 0; d->inject_n > 0 && k < d->rule_n; k++)
			n += !d->rules[k].deny && (d->rules[k].cond == NULL || (d->rules[k].cond->parts & COND_QUERY) == 0);
	}
	return n;
}

/* Whether the policy lies within; it is told if not. name NULL: there is no boundary. */
static bool lies_within(const struct policy *p, const char *file, const char *name, FILE *f)
{
	struct boundary b = { .fd = -1 };
	struct err err = ERR_INIT;
	int n = 0;

	if (name == NULL)
		return true;
	if (boundary_open(&b, name, f, &err) < 0 || (n = boundary_exceeded(&b, p, file, f, &err)) < 0) {
		fprintf(f, "sallyport: %s\n", err.text);
		n = -1;
	}
	boundary_close(&b);
	return n == 0;
}

/* Injections that go with every request that is allowed there, where more than one rule allows some. */
static unsigned without_when(const struct policy *p)
{
	unsigned n = 0;

	for (unsigned i = 0; i < p->dest_n; i++) {
		const struct pol_dest *d = &p->dests[i];
		unsigned allows = 0;

		for (unsigned k = 0; k < d->rule_n; k++)
			allows += !d->rules[k].deny;
		for (unsigned k = 0; allows > 1 && k < d->inject_n; k++)
			n += d->injects[k].when_n == 0;
	}
	return n;
}

/* What a tool answers with --json about a file, an object on a line: for editors and CI. */
static struct jsonw answer(struct buf *out, const char *file, bool good)
{
	struct jsonw w = jsonw_on(out);

	jsonw_open(&w, '{');
	jsonw_kz(&w, "file", file);
	jsonw_key(&w, "ok");
	jsonw_bool(&w, good);
	return w;
}

static void answer_sizes(struct jsonw *w, const struct policy *p)
{
	jsonw_ku64(w, "destinations", p->dest_n);
	jsonw_ku64(w, "rules", p->rule_n);
	jsonw_ku64(w, "secrets", p->secret_n);
}

/* Ends it with what was said, and prints it. */
static void answer_end(struct jsonw *w, struct str said, struct str more)
{
	jsonw_kopen(w, "messages", '[');
	messages_json(said, w);
	messages_json(more, w);
	jsonw_close(w, ']');
	jsonw_close(w, '}');
	buf_addc(w->out, '\n');
	put(buf_str(w->out), stdout);
	buf_fini(w->out);
}

static bool check_json(const char *file, const char *boundary)
{
	struct diag d = { .file = file };
	struct policy p;
	struct buf out = { 0 };
	struct jsonw w;
	char *said = NULL;
	size_t said_n = 0;
	FILE *words = open_memstream(&said, &said_n);
	bool good;

	MUST(words != NULL);
	good = (revision_is(file) ? revision_load(&p, file, &d) : policy_load(&p, file, &d)) == 0;
	good = good && lies_within(&p, file, boundary, words);
	fclose(words);
	w = answer(&out, file, good);
	if (good) {
		answer_sizes(&w, &p);
		jsonw_ku64(&w, "open_queries", open_queries(&p));
		jsonw_ku64(&w, "without_when", without_when(&p));
	}
	answer_end(&w, buf_str(&d.out), str_mk(said, said_n));
	free(said);
	policy_free(&p);
	diag_fini(&d);
	return good;
}

static int cmd_check(int argc, char **argv)
{
	static const struct option options[] = { { "boundary", 1, NULL, 'b' }, { "json", 0, NULL, 'j' }, { 0 } };
	const char *boundary = NULL;
	int o, ret = EXIT_GOOD;
	bool json = false;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (o == 'b')
			boundary = optarg;
		else if (o == 'j')
			json = true;
		else
			return usage(stderr);
	}
	if (optind == argc)
		return usage(stderr);
	for (int i = optind; json && i < argc; i++)
		if (!check_json(argv[i], boundary))
			ret = EXIT_FOUND;
	if (json)
		return ret;
	for (int i = optind; i < argc; i++) {
		struct policy p;
		unsigned warnings;

		if (load(&p, argv[i], &warnings) < 0 || !lies_within(&p, argv[i], boundary, stderr)) {
			ret = EXIT_FOUND;
		} else {
			unsigned open = open_queries(&p), all = without_when(&p);

			printf("%s: ok: %u destination%s, %u rule%s, %u secret%s, %u warning%s", argv[i], p.dest_n, plural(p.dest_n), p.rule_n, plural(p.rule_n), p.secret_n, plural(p.secret_n), warnings, plural(warnings));
			if (open > 0)
				printf("; %u rule%s beside a secret let%s any query pass", open, plural(open), open == 1 ? "s" : "");
			if (all > 0)
				printf("; %u injection%s without `when`", all, plural(all));
			putchar('\n');
		}
		policy_free(&p);
	}
	return ret;
}

/* Whether consent was given to what was just read; says what to do if not. */
static int trusted(const struct policy *p, const char *file, const char *state, FILE *f)
{
	char dir[TRUST_PATH_MAX];
	struct err err = ERR_INIT;
	enum trust t;

	if (trust_state_dir(state, dir, &err) < 0 || trust_look(dir, file, p->digest, &t, &err) < 0)
		return fail_on(f, EXIT_FOUND, &err);
	if (t == TRUST_GIVEN)
		return EXIT_GOOD;
	fprintf(f, "sallyport: %s %s; read it, then: sallyport trust %s\n", file, t == TRUST_CHANGED ? "has changed since it was trusted" : "is not trusted", file);
	return EXIT_FOUND;
}

/* A policy that says other things than its own tests is not handed out. */
static bool tests_pass(const struct policy *p, const char *file, FILE *f)
{
	struct err err = ERR_INIT;
	int failed = try_policy(p, file, TRY_FAILURES, f, &err);

	if (failed < 0)
		fail_on(f, EXIT_FOUND, &err);
	return failed == 0;
}

static int cmd_test(int argc, char **argv)
{
	static const struct option options[] = { { "junit", 0, NULL, 'j' }, { 0 } };
	enum try_form form = TRY_TAP;
	struct policy p;
	struct err err = ERR_INIT;
	int o, ret = EXIT_FOUND;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (o != 'j')
			return usage(stderr);
		form = TRY_JUNIT;
	}
	if (optind + 1 != argc)
		return usage(stderr);
	if (load(&p, argv[optind], NULL) == 0) {
		int failed = try_policy(&p, argv[optind], form, stdout, &err);

		ret = failed < 0 ? fail(3, &err) : failed > 0 ? EXIT_FOUND : EXIT_GOOD;
	}
	policy_free(&p);
	return ret;
}

/* Signed when there is a key; to a file, or into a folder of tables. */
static int write_out(const struct policy *p, const char *key, const char *out, const char *dir, struct err *err)
{
	int table, ret = -1;

	if (policy_image(p, &table, err) < 0)
		return -1;
	if (key == NULL || store_sign(table, key, err) == 0)
		ret = dir != NULL ? store_install(table, dir, err) : policy_put(table, out, err);
	close(table);
	return ret;
}

static int cmd_rollback(int argc, char **argv)
{
	static const struct option options[] = { { "list", 0, NULL, 'l' }, { "to", 1, NULL, 't' }, { 0 } };
	const char *to = NULL;
	bool list = false;
	struct err err = ERR_INIT;
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (o == 'l')
			list = true;
		else if (o == 't' && optarg[0] != 0)
			to = optarg;
		else
			return usage(stderr);
	}
	if (optind + 2 != argc || (list && to != NULL))
		return usage(stderr);
	if ((list ? store_list(argv[optind], argv[optind + 1], stdout, &err) : store_rollback(argv[optind], argv[optind + 1], to, &err)) < 0)
		return fail(EXIT_FOUND, &err);
	return EXIT_GOOD;
}

static int cmd_pubkey(int argc, char **argv)
{
	struct err err = ERR_INIT;

	if (argc != 2 || argv[1][0] == '-')
		return usage(stderr);
	return store_public_key(argv[1], stdout, &err) < 0 ? fail(EXIT_FOUND, &err) : EXIT_GOOD;
}

static int cmd_compile(int argc, char **argv)
{
	static const struct option options[] = { { "output", 1, NULL, 'o' }, { "trusted", 0, NULL, 't' }, { "state", 1, NULL, 's' }, { "boundary", 1, NULL, 'b' }, { "deps", 1, NULL, 'd' }, { "sign", 1, NULL, 'k' }, { "install", 1, NULL, 'i' }, { "json", 0, NULL, 'j' }, { 0 } };
	const char *out = NULL, *state = NULL, *boundary = NULL, *key = NULL, *dir = NULL;
	bool only_trusted = false, json = false;
	char *said = NULL;
	size_t said_n = 0;
	FILE *f = stderr;
	int deps = -1;
	struct policy p;
	struct err err = ERR_INIT;
	int o, ret = EXIT_FOUND;

	while ((o = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
		if (o == 'o')
			out = optarg;
		else if (o == 's')
			state = optarg;
		else if (o == 't')
			only_trusted = true;
		else if (o == 'b')
			boundary = optarg;
		else if (o == 'd')
			deps = atoi(optarg);
		else if (o == 'k')
			key = optarg;
		else if (o == 'i')
			dir = optarg;
		else if (o == 'j')
			json = true;
		else
			return usage(stderr);
	}
	if ((out == NULL) == (dir == NULL) || (out != NULL && out[0] == 0) || optind + 1 != argc)
		return usage(stderr);
	if (json)
		MUST((f = open_memstream(&said, &said_n)) != NULL);
	/* the same octets are digested, checked and compiled: nobody can change the file in between */
	if (load_on(f, &p, argv[optind], NULL) == 0 && (!only_trusted || trusted(&p, argv[optind], state, f) == EXIT_GOOD) && lies_within(&p, argv[optind], boundary, f) && tests_pass(&p, argv[optind], f))
		ret = write_out(&p, key, out, dir, &err) == 0 ? EXIT_GOOD : fail_on(f, EXIT_FOUND, &err);
	if (deps > 2 && deps_write(deps, &err) < 0)
		ret = fail_on(f, EXIT_FOUND, &err);
	if (json) {
		struct buf b = { 0 };
		struct jsonw w = answer(&b, argv[optind], ret == EXIT_GOOD);

		fclose(f);
		if (ret == EXIT_GOOD) {
			jsonw_kz(&w, dir != NULL ? "folder" : "table", dir != NULL ? dir : out);
			answer_sizes(&w, &p);
		}
		answer_end(&w, str_mk(said, said_n), STR_NONE);
		free(said);
	}
	policy_free(&p);
	return ret;
}

/* A file of at most `max` octets. 0 or -1 + err. */
static int read_file(const char *file, size_t max, struct buf *b, struct err *err)
{
	FILE *f = strcmp(file, "-") == 0 ? stdin : fopen(file, "re");
	size_t k;

	if (f == NULL)
		return err_errno(err, file);
	while (buf_len(b) <= max && (k = fread(buf_room(b, 8192), 1, 8192, f)) > 0)
		buf_commit(b, k);
	if (f != stdin)
		fclose(f);
	return buf_len(b) > max ? err_set(err, EFBIG, "%s: more than %zu octets", file, max) : 0;
}

static int cmd_explain(int argc, char **argv)
{
	static const struct option options[] = { { "json", 0, NULL, 'j' }, { "content", 0, NULL, 'c' }, { "header", 1, NULL, 'H' }, { "data", 1, NULL, 'd' }, { "at", 1, NULL, 'a' }, { "boundary", 1, NULL, 'b' }, { 0 } };
	const char *ceiling = NULL;
	struct boundary b = { .fd = -1 };
	struct explain_request r = { .now_s = (uint64_t)time(NULL) };
	bool json = false;
	struct policy p;
	struct err err = ERR_INIT;
	struct buf content = { 0 };
	struct str held;
	int o, ret = EXIT_USAGE;

	while ((o = getopt_long(argc, argv, "H:", options, NULL)) != -1) {
		if (o == 'j')
			json = true;
		else if (o == 'b')
			ceiling = optarg;
		else if (o == 'c')
			r.content = true;
		else if (o == 'H' && strchr(optarg, ':') != NULL && r.header_n < EXPLAIN_HEADERS_MAX)
			r.headers[r.header_n++] = optarg;
		else if (o == 'a' && load_time(str_of(optarg), &r.now_s))
			continue;
		else if (o == 'd' && r.held == NULL)
			r.held = &held, held = str_of(optarg);
		else
			return usage(stderr);
	}
	if (optind + 3 != argc)
		return usage(stderr);
	r.method = argv[optind + 1];
	r.url = argv[optind + 2];
	if (r.held != NULL) {
		if (read_file(held.p, BODY_HELD_MAX, &content, &err) < 0) {
			ret = fail(EXIT_USAGE, &err);
			goto out;
		}
		held = buf_str(&content);
		r.content = held.n > 0;
	}
	if (load(&p, argv[optind], NULL) < 0) {
		ret = EXIT_FOUND;
	} else {
		ret = ceiling != NULL && boundary_open(&b, ceiling, stderr, &err) < 0 ? 3 : explain(&p, ceiling != NULL ? &b : NULL, &r, json, stdout, &err);
		if (ret > 1)
			ret = fail(ret, &err);
	}
	boundary_close(&b);
	policy_free(&p);
out:
	buf_fini(&content);
	return ret;
}

/* Through a new file beside it, which takes its place and its mode. */
static int replace_file(const char *file, const struct buf *text, struct err *err)
{
	struct buf name = { 0 };
	struct stat st;
	int fd = -1, ret = -1;
	char *tmp;

	buf_addf(&name, "%s.XXXXXX", file);
	buf_addc(&name, 0);
	tmp = (char *)buf_data(&name);
	if (lstat(file, &st) != 0 || !S_ISREG(st.st_mode) || (fd = mkostemp(tmp, O_CLOEXEC)) < 0) {
		err_errno(err, file);
		goto out;
	}
	if (fchmod(fd, st.st_mode & 07777) != 0 || write(fd, buf_data(text), buf_len(text)) != (ssize_t)buf_len(text) || fsync(fd) != 0 || rename(tmp, file) != 0) {
		err_errno(err, file);
		unlink(tmp);
		goto out;
	}
	ret = 0;
out:
	if (fd >= 0)
		close(fd);
	buf_fini(&name);
	return ret;
}

static int fmt_file(const char *file, char mode)
{
	struct diag d = { .file = file };
	struct buf text = { 0 }, out = { 0 };
	struct err err = ERR_INIT;
	int ret = EXIT_FOUND;

	if (read_file(file, YAML_SIZE_MAX, &text, &err) < 0) {
		fail(EXIT_FOUND, &err);
	} else if (fmt_policy(buf_str(&text), &out, &d) < 0) {
		put(buf_str(&d.out), stderr);
	} else if (mode == 'p') {
		put(buf_str(&out), stdout);
		ret = EXIT_GOOD;
	} else if (str_eq(buf_str(&text), buf_str(&out))) {
		ret = EXIT_GOOD;
	} else if (mode == 'c') {
		printf("%s\n", file);
	} else {
		ret = replace_file(file, &out, &err) == 0 ? EXIT_GOOD : fail(EXIT_FOUND, &err);
	}
	diag_fini(&d);
	buf_fini(&text);
	buf_fini(&out);
	return ret;
}

static int cmd_fmt(int argc, char **argv)
{
	static const struct option options[] = { { "check", 0, NULL, 'c' }, { "write", 0, NULL, 'w' }, { 0 } };
	char mode = 'p';
	int o, ret = EXIT_GOOD;

	while ((o = getopt_long(argc, argv, "w", options, NULL)) != -1) {
		if (o != 'c' && o != 'w')
			return usage(stderr);
		mode = (char)o;
	}
	if (optind == argc)
		return usage(stderr);
	for (int i = optind; i < argc; i++)
		if (fmt_file(argv[i], mode) != EXIT_GOOD)
			ret = EXIT_FOUND;
	return ret;
}

static int cmd_diff(int argc, char **argv)
{
	static const struct option options[] = { { "json", 0, NULL, 'j' }, { "markdown", 0, NULL, 'm' }, { "fail-on", 1, NULL, 'f' }, { 0 } };
	enum diff_form form = DIFF_TEXT;
	bool fail_on_widen = false;
	struct policy old = { 0 }, new = { 0 };
	struct diff_result r;
	struct err err = ERR_INIT;
	int o, ret = EXIT_USAGE;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (o == 'j')
			form = DIFF_JSON;
		else if (o == 'm')
			form = DIFF_MARKDOWN;
		else if (o == 'f' && strcmp(optarg, "widen") == 0)
			fail_on_widen = true;
		else
			return usage(stderr);
	}
	if (optind + 2 != argc)
		return usage(stderr);
	if (load(&old, argv[optind], NULL) == 0 && load(&new, argv[optind + 1], NULL) == 0) {
		if (diff_policies(&old, &new, form, stdout, &r, &err) < 0)
			ret = fail(3, &err);
		else /* what was not walked may be wider too */
			ret = fail_on_widen && (r.widened > 0 || r.cut) ? EXIT_FOUND : EXIT_GOOD;
	}
	policy_free(&old);
	policy_free(&new);
	return ret;
}

static int cmd_replay(int argc, char **argv)
{
	static const struct option options[] = { { "json", 0, NULL, 'j' }, { 0 } };
	struct policy p;
	struct err err = ERR_INIT;
	bool json = false;
	int o, ret = EXIT_FOUND;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (o != 'j')
			return usage(stderr);
		json = true;
	}
	if (optind + 2 > argc)
		return usage(stderr);
	if (load(&p, argv[optind], NULL) == 0) {
		int changed = replay(&p, argv + optind + 1, argc - optind - 1, json, stdout, &err);

		ret = changed < 0 ? fail(3, &err) : changed > 0 ? EXIT_FOUND : EXIT_GOOD;
	}
	policy_free(&p);
	return ret;
}

static int cmd_suggest(int argc, char **argv)
{
	static const struct option options[] = { { "json", 0, NULL, 'j' }, { 0 } };
	struct err err = ERR_INIT;
	bool json = false;
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (o != 'j')
			return usage(stderr);
		json = true;
	}
	if (optind == argc)
		return usage(stderr);
	return suggest(argv + optind, argc - optind, json, stdout, &err) < 0 ? fail(EXIT_FOUND, &err) : EXIT_GOOD;
}

static int cmd_import(int argc, char **argv)
{
	static const struct option options[] = { { "any-program", 0, NULL, 'a' }, { "service", 1, NULL, 's' }, { "json", 0, NULL, 'j' }, { 0 } };
	struct diag d = { 0 }, again = { .file = "the imported policy" };
	struct buf text = { 0 }, out = { 0 };
	struct err err = ERR_INIT;
	struct import_options how = { 0 };
	struct str more;
	struct policy p = { 0 };
	bool json = false;
	int o, ret = EXIT_FOUND;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (o == 'j')
			json = true;
		else if (o == 'a')
			how.any_program = true;
		else if (o == 's')
			how.service = optarg;
		else
			return usage(stderr);
	}
	if (optind + 2 != argc || import_kind_of(argv[optind]) == IMPORT_NONE)
		return usage(stderr);
	d.file = argv[optind + 1];
	if (read_file(d.file, YAML_SIZE_MAX, &text, &err) < 0)
		buf_addf(&d.out, "sallyport: %s\n", err.text);
	else if (import_policy(import_kind_of(argv[optind]), buf_str(&text), &how, &out, &d) == 0) /* what comes out is a policy, or it does not come out */
		ret = policy_parse(&p, (const char *)buf_data(&out), buf_len(&out), NULL, &again) == 0 ? EXIT_GOOD : EXIT_FOUND;
	more = ret == EXIT_GOOD ? STR_NONE : buf_str(&again.out); /* its warnings are about what was meant there */
	if (json) {
		struct buf b = { 0 };
		struct jsonw w = answer(&b, d.file, ret == EXIT_GOOD);

		if (ret == EXIT_GOOD) {
			answer_sizes(&w, &p);
			jsonw_kstr(&w, "policy", buf_str(&out));
		}
		answer_end(&w, buf_str(&d.out), more);
	} else {
		if (ret == EXIT_GOOD)
			put(buf_str(&out), stdout);
		put(buf_str(&d.out), stderr);
		put(more, stderr);
	}
	policy_free(&p);
	diag_fini(&d);
	diag_fini(&again);
	buf_fini(&text);
	buf_fini(&out);
	return ret;
}

static int cmd_schema(int argc, char **argv)
{
	struct buf b = { 0 };

	(void)argv;
	if (argc != 1)
		return usage(stderr);
	schema_json(&b);
	put(buf_str(&b), stdout);
	buf_fini(&b);
	return EXIT_GOOD;
}

static int cmd_init(int argc, char **argv)
{
	static const struct option options[] = { { "output", 1, NULL, 'o' }, { 0 } };
	const char *file = "sallyport.yaml";
	struct buf text = { 0 };
	struct err err = ERR_INIT;
	int o, ret = EXIT_FOUND;

	while ((o = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
		if (o != 'o')
			return usage(stderr);
		file = optarg;
	}
	if (optind == argc)
		return usage(stderr);
	if (init_text(argv[optind], argv + optind + 1, argc - optind - 1, &text, &err) < 0) {
		ret = fail(EXIT_FOUND, &err);
	} else if (strcmp(file, "-") == 0) {
		put(buf_str(&text), stdout);
		ret = EXIT_GOOD;
	} else if (init_write(file, &text, &err) < 0) {
		ret = fail(EXIT_FOUND, &err);
	} else {
		fprintf(stderr, "sallyport: %s is written; read it, then: sallyport trust %s\n", file, file);
		ret = EXIT_GOOD;
	}
	buf_fini(&text);
	return ret;
}

static int cmd_trust(int argc, char **argv)
{
	static const struct option options[] = { { "state", 1, NULL, 's' }, { "check", 0, NULL, 'c' }, { 0 } };
	const char *state = NULL, *file;
	char dir[TRUST_PATH_MAX];
	bool check = false;
	struct policy p;
	struct err err = ERR_INIT;
	int o, ret;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (o == 's')
			state = optarg;
		else if (o == 'c')
			check = true;
		else
			return usage(stderr);
	}
	if (optind + 1 < argc)
		return usage(stderr);
	file = optind < argc ? argv[optind] : "sallyport.yaml";
	if (load(&p, file, NULL) < 0) {
		policy_free(&p);
		return EXIT_FOUND;
	}
	if (check) {
		ret = trusted(&p, file, state, stderr);
	} else if (trust_state_dir(state, dir, &err) < 0 || trust_give(dir, file, p.digest, &err) < 0) {
		ret = fail(EXIT_FOUND, &err);
	} else {
		printf("%s is trusted as it is now: %u destination%s, %u secret%s\n", file, p.dest_n, plural(p.dest_n), p.secret_n, plural(p.secret_n));
		ret = EXIT_GOOD;
	}
	policy_free(&p);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*fn)(int, char **);
	} commands[] = { { "check", cmd_check }, { "compile", cmd_compile }, { "rollback", cmd_rollback }, { "pubkey", cmd_pubkey }, { "test", cmd_test }, { "explain", cmd_explain }, { "fmt", cmd_fmt }, { "diff", cmd_diff }, { "replay", cmd_replay }, { "suggest", cmd_suggest }, { "import", cmd_import }, { "schema", cmd_schema }, { "init", cmd_init }, { "trust", cmd_trust } };

	if (argc < 2)
		return usage(stderr);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		usage(stdout);
		return EXIT_GOOD;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].fn(argc - 1, argv + 1);
	return usage(stderr);
}
