/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cases of tests/cases/http1 (tests/cases/README.md), through proxy/http and without any I/O: what clients and origins
 * send is read whole, cut at every offset and one octet at a time. Every split has to give the same events (A40); faults
 * are those that the case refuses; what is written anew from an accepted head is what the case's origin receives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <glob.h>

#include "common/base/must.h"
#include "proxy/http/h1.h"

#define COLUMNS 4
#define SPLIT_MAX 3000 /* longer streams are not cut at every offset */
#define HOST "origin.test"

enum party { CLIENT,
	     ORIGIN,
	     EXPECT,
	     REFUSE };
struct step {
	enum party party;
	char *verb;	  /* rest of the directive's line */
	struct buf block; /* raw lines as one text; NULL mem: none */
	bool has_block;
};
struct variant {
	char *value[COLUMNS];
};
struct tcase {
	char *name;
	char *column[COLUMNS];
	unsigned columns;
	struct variant *variants;
	size_t variants_n;
	struct step steps[64];
	size_t steps_n;
	bool over_proxy, over_tunnel;
	bool over_http; /* there what is written depends on the head alone: nothing is injected */
};

static struct tcase *cases;
static size_t cases_n;

/* --- reading ------------------------------------------------------------------------------------------------------- */

static void add_variant(struct tcase *c, char *line)
{
	struct variant v = { 0 };
	char *p = line;

	for (unsigned i = 0; i < c->columns; i++) {
		char *tab = i + 1 < c->columns ? strchr(p, '\t') : NULL;

		if (tab != NULL)
			*tab = 0;
		v.value[i] = must_strdup(p);
		p = tab != NULL ? tab + 1 : p + strlen(p);
	}
	c->variants = must_realloc(c->variants, (c->variants_n + 1) * sizeof(v));
	c->variants[c->variants_n++] = v;
}

static void add_octets(struct tcase *c, char *rest)
{
	char *colon = strchr(rest, ':'), *save = NULL, text[8];

	assert_non_null(colon);
	*colon = 0;
	c->column[0] = must_strdup(rest);
	c->columns = 1;
	for (char *t = strtok_r(colon + 1, " ", &save); t != NULL; t = strtok_r(NULL, " ", &save)) {
		char *end;
		unsigned long a = strtoul(t, &end, 16), b = *end == '-' ? strtoul(end + 1, NULL, 16) : a;

		for (; a <= b; a++) {
			snprintf(text, sizeof(text), "\\x%02lx", a);
			add_variant(c, text);
		}
	}
}

static void load(const char *name)
{
	FILE *f = fopen(name, "r");
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	struct tcase *c = NULL;
	struct step *block = NULL;
	bool each = false;

	assert_non_null(f);
	while ((n = getline(&line, &cap, f)) >= 0) {
		size_t tail = 0;

		if (n > 0 && line[n - 1] == '\n')
			line[--n] = 0;
		if (line[0] == '\t') {
			if (each)
				add_variant(c, line + 1);
			if (block == NULL)
				continue;
			while (tail < (size_t)n - 1 && line[(size_t)n - 1 - tail] == '\\')
				tail++;
			buf_add(&block->block, line + 1, (size_t)n - 1 - (tail & 1));
			if (!(tail & 1))
				buf_addz(&block->block, "\\r\\n");
			continue;
		}
		block = NULL;
		each = false;
		if (strncmp(line, "== ", 3) == 0) {
			cases = must_realloc(cases, (cases_n + 1) * sizeof(*cases));
			c = &cases[cases_n++];
			memset(c, 0, sizeof(*c));
			c->name = must_strdup(line + 3);
			c->over_proxy = c->over_tunnel = c->over_http = true;
		} else if (strncmp(line, "paths: ", 7) == 0) {
			c->over_proxy = strstr(line, "proxy") != NULL;
			c->over_tunnel = strstr(line, "connect") != NULL || strstr(line, "tls") != NULL || strstr(line, "plain") != NULL;
			c->over_http = strstr(line, "proxy") != NULL || strstr(line, "plain") != NULL;
		} else if (strncmp(line, "each ", 5) == 0) {
			char *save = NULL;

			for (char *t = strtok_r(line + 5, " :", &save); t != NULL; t = strtok_r(NULL, " :", &save)) {
				assert_true(c->columns < COLUMNS);
				c->column[c->columns++] = must_strdup(t);
			}
			each = true;
		} else if (strncmp(line, "each-octet ", 11) == 0) {
			add_octets(c, line + 11);
		} else {
			static const char *const word[] = { [CLIENT] = "client", [ORIGIN] = "origin", [EXPECT] = "expect", [REFUSE] = "refuse" };

			for (unsigned i = 0; i < sizeof(word) / sizeof(word[0]); i++) {
				size_t k = strlen(word[i]);
				struct step *s;

				if (strncmp(line, word[i], k) != 0 || (line[k] != ' ' && line[k] != ':'))
					continue;
				assert_true(c->steps_n < sizeof(c->steps) / sizeof(c->steps[0]));
				s = &c->steps[c->steps_n++];
				s->party = (enum party)i;
				s->has_block = line[n - 1] == ':';
				if (s->has_block) {
					line[n - 1] = 0;
					block = s;
				}
				s->verb = must_strdup(line[k] == ' ' ? line + k + 1 : "");
			}
		}
	}
	free(line);
	fclose(f);
}

/* --- placeholders -------------------------------------------------------------------------------------------------- */

struct values {
	const struct tcase *c;
	const struct variant *v;
	const char *url;
};

static void expand(struct buf *out, const char *p, size_t n, const struct values *in);

static const char *value_of(const struct values *in, const char *name, size_t n)
{
	static const char *const fixed[][2] = { { "host", HOST }, { "secret", "sssssssssssssssssssssssssssssssssss" }, { "filler", "***********************************" }, { "trailers", "" }, { "ok", "HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok" }, { "okclose", "HTTP/1.1 200 OK\\r\\nConnection: close\\r\\nContent-Length: 2\\r\\n\\r\\nok" } };

	for (unsigned i = 0; i < in->c->columns; i++)
		if (strlen(in->c->column[i]) == n && memcmp(in->c->column[i], name, n) == 0)
			return in->v->value[i];
	if (n == 3 && memcmp(name, "url", 3) == 0)
		return in->url;
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (strlen(fixed[i][0]) == n && memcmp(fixed[i][0], name, n) == 0)
			return fixed[i][1];
	fail_msg("%s: what is {%.*s}?", in->c->name, (int)n, name);
	return "";
}

static void placeholder(struct buf *out, const char *p, size_t n, const struct values *in)
{
	if (n > 7 && memcmp(p, "repeat ", 7) == 0) {
		char *rest;
		unsigned long times = strtoul(p + 7, &rest, 10);
		struct buf once = { 0 };

		rest++;
		expand(&once, rest, n - (size_t)(rest - p), in);
		while (times-- > 0)
			buf_adds(out, buf_str(&once));
		buf_fini(&once);
	} else {
		const char *value = value_of(in, p, n);

		expand(out, value, strlen(value), in);
	}
}

static void expand(struct buf *out, const char *p, size_t n, const struct values *in)
{
	static const char from[] = "rnt0s", to[] = "\r\n\t\0 ";

	for (size_t i = 0; i < n;) {
		if (p[i] == '\\') {
			const char *e = strchr(from, p[i + 1]);

			if (p[i + 1] == 'x') {
				char hex[3] = { p[i + 2], p[i + 3], 0 };

				buf_addc(out, (char)strtoul(hex, NULL, 16));
				i += 4;
				continue;
			}
			buf_addc(out, e != NULL ? to[e - from] : p[i + 1]);
			i += 2;
		} else if (p[i] == '{') {
			size_t j = i + 1;

			for (int depth = 1; depth > 0; j += p[j] == '\\' ? 2 : 1)
				depth += p[j] == '{' ? 1 : p[j] == '}' ? -1
								       : 0;
			placeholder(out, p + i + 1, j - i - 2, in);
			i = j;
		} else {
			buf_addc(out, p[i++]);
		}
	}
}

/* --- driving the parser -------------------------------------------------------------------------------------------- */

/* A stream of which more and more is there: `first` octets at first, then step more each time it is asked. */
struct feed {
	const uint8_t *p;
	size_t n, at, have, step;
};
static bool more(struct feed *f)
{
	if (f->have == f->n)
		return false;
	f->have = f->n - f->have > f->step ? f->have + f->step : f->n;
	return true;
}

static void log_fault(struct buf *log, const struct http_fault *f) { buf_addf(log, "fault %u %s %s\n", f->status, f->code, f->reason); }

/* False: no content any more, or a fault. */
static bool content(struct feed *f, struct h1_body *b, struct buf *log)
{
	struct http_fault fault;
	struct buf got = { 0 };
	const uint8_t *data;
	size_t len;
	long k = 0;
	bool cut = false;

	while (!b->done && !cut) {
		k = h1_body_feed(b, f->p + f->at, f->have - f->at, &data, &len, &fault);
		if (k < 0)
			break;
		buf_add(&got, data, len);
		f->at += (size_t)k;
		cut = k == 0 && !b->done && !more(f);
	}
	buf_addf(log, "content %zu ", buf_len(&got));
	buf_adds(log, buf_str(&got));
	buf_addz(log, !cut ? "\n" : h1_body_eof(b) ? "\nwhole, with the connection\n"
						   : "\ncut off\n");
	if (k < 0)
		log_fault(log, &fault);
	buf_fini(&got);
	return k >= 0 && !cut;
}

static struct http_request req;
static struct http_response res;

/* Heads of what was accepted, written anew, go to `written`, NUL behind each. */
static void drive_requests(struct feed *f, struct buf *log, struct buf *written)
{
	struct http_fault fault;
	bool keep = true;

	while (keep) {
		struct arena a = { 0 };
		struct buf target = { 0 };
		struct h1_body body;
		size_t scan = 0;
		long n = 0;
		int k;

		if (f->at == f->have && !more(f))
			return;
		while ((k = h1_skip_crlf(f->p + f->at, f->have - f->at)) < 0 && more(f))
			;
		if (k > 0)
			f->at += 2;
		do
			n = h1_head_end(f->p + f->at, f->have - f->at, &scan, &h1_limits_default, &fault);
		while (n == 0 && more(f));
		if (n == 0) {
			buf_addz(log, "half a head\n");
			return;
		}
		if (n < 0 || !h1_parse_request(f->p + f->at, (size_t)n, &h1_limits_default, &a, &req, &fault) || !http_request_strip(&req, &fault)) {
			log_fault(log, &fault);
			arena_fini(&a);
			return;
		}
		f->at += (size_t)n;
		keep = req.keep_alive;
		buf_addf(log, "request %.*s %.*s framing %d %llu keep %d expect %d ws %d\n", (int)req.method.n, req.method.p, (int)req.path.n, req.path.p, req.framing,
			 (unsigned long long)req.content_length, req.keep_alive, req.expect_continue, req.upgrade_websocket);
		buf_adds(&target, req.path);
		if (req.has_query) {
			buf_addc(&target, '?');
			buf_adds(&target, req.query);
		}
		h1_write_request(written, &req, STR(HOST), buf_str(&target), req.framing, req.content_length);
		buf_addc(written, 0);
		buf_fini(&target);
		arena_fini(&a);
		h1_body_init(&body, req.framing, req.content_length);
		if (!content(f, &body, log))
			return;
	}
	buf_addz(log, "the connection ends\n");
}

static void drive_responses(struct feed *f, struct str method, struct buf *log)
{
	struct http_fault fault;

	do {
		struct arena a = { 0 };
		size_t scan = 0;
		long n;
		bool ok;

		do
			n = h1_head_end(f->p + f->at, f->have - f->at, &scan, &h1_limits_default, &fault);
		while (n == 0 && more(f));
		if (n == 0) {
			buf_addz(log, "half a head\n");
			return;
		}
		ok = n > 0 && h1_parse_response(f->p + f->at, (size_t)n, &h1_limits_default, &a, method, &res, &fault);
		if (ok)
			buf_addf(log, "response %u framing %d %llu keep %d\n", res.status, res.framing, (unsigned long long)res.content_length, res.keep_alive);
		else if (n > 0)
			log_fault(log, &fault);
		else
			buf_addf(log, "fault 502 upstream_protocol %s\n", fault.reason);
		arena_fini(&a);
		if (!ok)
			return;
		f->at += (size_t)n;
	} while (res.status < 200 && res.status != 101);
	{
		struct h1_body body;

		h1_body_init(&body, res.framing, res.content_length);
		body.response = true;
		if (!content(f, &body, log))
			return;
	}
	while (more(f))
		;
	buf_addf(log, "%zu more\n", f->n - f->at);
}

static void drive(bool requests, struct str method, const struct buf *in, size_t first, size_t step, struct buf *log, struct buf *written)
{
	struct feed f = { buf_data(in), buf_len(in), 0, first, step };

	if (requests)
		drive_requests(&f, log, written);
	else
		drive_responses(&f, method, log);
}

/* The events of a stream, the same for every split. */
static void every_split(const struct tcase *c, bool requests, struct str method, const struct buf *in, struct buf *log, struct buf *written)
{
	size_t n = buf_len(in);
	struct buf l = { 0 }, w = { 0 };

	drive(requests, method, in, n, 1, log, written);
	for (size_t k = 0; k <= n && n <= SPLIT_MAX; k++) {
		buf_clear(&l);
		buf_clear(&w);
		drive(requests, method, in, k < n ? k : 0, k < n ? n : 1, &l, &w); /* the last one: octet by octet */
		if (!str_eq(buf_str(&l), buf_str(log)) || !str_eq(buf_str(&w), buf_str(written)))
			fail_msg("%s: cut at %zu: %.*s\nwhole: %.*s", c->name, k, (int)buf_len(&l), buf_data(&l), (int)buf_len(log), buf_data(log));
	}
	buf_fini(&l);
	buf_fini(&w);
}

/* --- against the case ---------------------------------------------------------------------------------------------- */

static bool one_of(const char *pattern, const char *what)
{
	size_t n = strlen(what);

	if (strcmp(pattern, "-") == 0)
		return true;
	for (const char *p = pattern; *p != 0; p += *p != 0) {
		size_t k = strcspn(p, "/");

		if (k == n && memcmp(p, what, n) == 0)
			return true;
		p += k;
	}
	return false;
}

/* The fault in log, if any, is one that the case refuses; a refusal that names our check has its fault. */
static void check_fault(const struct tcase *c, const struct values *in, struct buf *log, bool requests)
{
	char status[8] = "", code[64] = "", reason[64] = "";
	const char *f;
	bool matches = false, wanted = false;

	buf_addc(log, 0);
	f = strstr((char *)buf_data(log), "fault ");
	if (f != NULL && sscanf(f, "fault %7s %63s %63s", status, code, reason) != 3)
		f = NULL;
	for (size_t i = 0; i < c->steps_n; i++) {
		char ws[64], wc[64], wr[64];
		struct buf b = { 0 };

		if (c->steps[i].party == EXPECT && strcmp(c->steps[i].verb, "broken") == 0)
			matches = matches || !requests;
		if (c->steps[i].party != REFUSE)
			continue;
		expand(&b, c->steps[i].verb, strlen(c->steps[i].verb), in);
		buf_addc(&b, 0);
		assert_int_equal(sscanf((char *)buf_data(&b), "%63s %63s %63s", ws, wc, wr), 3);
		buf_fini(&b);
		if (f != NULL && one_of(ws, status) && one_of(wc, code) && one_of(wr, reason))
			matches = true;
		if (requests && strcmp(wr, "-") != 0 && (strstr(wc, "malformed_request") != NULL || strstr(wc, "too_large") != NULL))
			wanted = true;
	}
	if (f != NULL ? !matches : wanted)
		fail_msg("%s: %s, which is not what the case says; of %.*s", c->name, f != NULL ? f : "no fault", (int)buf_len(log) > 2000 ? 2000 : (int)buf_len(log), buf_data(log));
}

static struct str head_of(struct str s)
{
	ptrdiff_t end = str_find(s, STR("\r\n\r\n"));

	return end < 0 ? s : str_mk(s.p, (size_t)end + 4);
}

/* What was written anew is what the origin is to receive, for each request that the case has at the origin. */
static void check_written(const struct tcase *c, const struct values *in, const struct buf *written)
{
	struct str rest = buf_str(written);

	for (size_t i = 0; i < c->steps_n; i++) {
		const struct step *s = &c->steps[i];
		struct buf want = { 0 };
		struct str w;
		bool found = false;

		if (s->party != ORIGIN || !s->has_block || (strcmp(s->verb, "") != 0 && strcmp(s->verb, "head") != 0))
			continue;
		expand(&want, (char *)buf_data(&s->block), buf_len(&s->block), in);
		w = head_of(buf_str(&want));
		for (struct str r = rest; r.n > 0 && !found;) {
			size_t k = strlen(r.p);

			found = str_eq(str_mk(r.p, k), w);
			r = str_mk(r.p + k + 1, r.n - k - 1);
		}
		if (!found)
			fail_msg("%s: written %.*s\ninstead of %.*s", c->name, (int)rest.n, rest.p, (int)w.n, w.p);
		buf_fini(&want);
	}
}

static void check_origins(const struct tcase *c, const struct values *in)
{
	char method[64] = "GET";
	struct buf stream = { 0 }, log = { 0 }, none = { 0 };

	for (size_t i = 0; i <= c->steps_n; i++) {
		const struct step *s = &c->steps[i];
		bool request = i < c->steps_n && s->party == ORIGIN && s->has_block && strcmp(s->verb, "answer") != 0 && strcmp(s->verb, "body") != 0;

		if ((request || i == c->steps_n) && buf_len(&stream) > 0) {
			every_split(c, false, str_of(method), &stream, &log, &none);
			check_fault(c, in, &log, false);
			buf_clear(&stream);
			buf_clear(&log);
		}
		if (request && strcmp(s->verb, "aborted") != 0) {
			struct buf b = { 0 };

			expand(&b, (char *)buf_data(&s->block), buf_len(&s->block), in);
			buf_addc(&b, 0);
			if (sscanf((char *)buf_data(&b), "%63s", method) != 1)
				snprintf(method, sizeof(method), "GET");
			buf_fini(&b);
		} else if (i < c->steps_n && s->party == ORIGIN && strcmp(s->verb, "answer") == 0) {
			expand(&stream, (char *)buf_data(&s->block), buf_len(&s->block), in);
		}
	}
	buf_fini(&stream);
	buf_fini(&log);
	buf_fini(&none);
}

static void run_case(void **state)
{
	const struct tcase *c = *state;
	static const struct variant none;

	for (size_t v = 0; v < (c->variants_n ? c->variants_n : 1); v++) {
		struct values in = { c, c->variants_n ? &c->variants[v] : &none, "" };

		for (int proxy = 0; proxy < 2; proxy++) {
			struct buf stream = { 0 }, log = { 0 }, written = { 0 };

			if (proxy ? !c->over_proxy : !c->over_tunnel)
				continue;
			in.url = proxy ? "http://" HOST : "";
			for (size_t i = 0; i < c->steps_n; i++)
				if (c->steps[i].party == CLIENT && c->steps[i].has_block)
					expand(&stream, (char *)buf_data(&c->steps[i].block), buf_len(&c->steps[i].block), &in);
			every_split(c, true, STR_NONE, &stream, &log, &written);
			check_fault(c, &in, &log, true);
			if (c->over_http)
				check_written(c, &in, &written);
			buf_fini(&stream);
			buf_fini(&log);
			buf_fini(&written);
		}
		check_origins(c, &in);
	}
}

int main(void)
{
	struct CMUnitTest *tests;
	int failed;
	glob_t g;

	if (glob("tests/cases/http1/*.case", 0, NULL, &g) != 0) {
		fprintf(stderr, "no cases: run from the top of the tree\n");
		return 1;
	}
	for (size_t i = 0; i < g.gl_pathc; i++)
		load(g.gl_pathv[i]);
	globfree(&g);
	tests = must_calloc(cases_n, sizeof(*tests));
	for (size_t i = 0; i < cases_n; i++)
		tests[i] = (struct CMUnitTest){ .name = cases[i].name, .test_func = run_case, .initial_state = &cases[i] };
	failed = _cmocka_run_group_tests("cases", tests, cases_n, NULL, NULL);
	free(tests);
	return failed;
}
