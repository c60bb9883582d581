/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#define LINE_MAX_OCTETS (1u << 20)

static struct str member(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_string(v) ? str_mk(json_string_value(v), json_string_length(v)) : STR_NONE;
}

static uint64_t number(const json_t *o, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(o, key));

	return v > 0 ? (uint64_t)v : 0;
}

/* "k=*&l=*": how values that are not recorded look. A star that was one is sent as one too: then it is not known either. */
static bool redacted(struct str q)
{
	for (size_t i = 0; i + 1 < q.n; i++)
		if (q.p[i] == '=' && q.p[i + 1] == '*' && (i + 2 == q.n || q.p[i + 2] == '&'))
			return true;
	return false;
}

static bool read_record(const json_t *o, struct logged *l)
{
	const json_t *ours = json_object_get(json_object_get(o, "unmapped"), "sallyport"), *request = json_object_get(o, "http_request"), *url = json_object_get(request, "url");
	struct str code = member(ours, "code"), decision = member(ours, "decision");
	uint64_t port = number(url, "port");

	if (!str_eq(member(ours, "kind"), STR("request")) || url == NULL || port == 0 || port > UINT16_MAX)
		return false;
	*l = (struct logged){
		.method = member(request, "http_method"),
		.scheme = member(url, "scheme"),
		.host = member(url, "hostname"),
		.path = member(url, "path"),
		.query = member(url, "query_string"),
		.port = (uint16_t)port,
		.allowed = str_eq(decision, STR("allow")),
		.by_policy = str_eq(decision, STR("allow")) || str_eq(code, STR("policy_denied")) || str_eq(code, STR("destination_denied")),
		.destination = str_eq(code, STR("destination_denied")),
		.has_content = number(json_object_get(o, "traffic"), "bytes_in") > 0,
		.rule = member(json_object_get(o, "firewall_rule"), "uid"),
		.source = member(ours, "source"),
		.time_s = number(o, "time") / 1000,
	};
	l->redacted = redacted(l->query);
	return l->method.n > 0 && l->host.n > 0;
}

int log_read(const char *file, void (*fn)(void *, const struct logged *), void *arg, unsigned long *skipped, struct err *err)
{
	FILE *f = strcmp(file, "-") == 0 ? stdin : fopen(file, "re");
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;

	if (f == NULL)
		return err_errno(err, file);
	while ((n = getline(&line, &cap, f)) > 0) {
		json_t *o = (size_t)n <= LINE_MAX_OCTETS ? json_loadb(line, (size_t)n, JSON_REJECT_DUPLICATES, NULL) : NULL;
		struct logged l;

		if (o != NULL && read_record(o, &l))
			fn(arg, &l);
		else
			++*skipped;
		json_decref(o);
	}
	free(line);
	if (f != stdin)
		fclose(f);
	return 0;
}

void log_url(const struct logged *l, struct buf *out)
{
	bool http = str_eq(l->scheme, STR("http")), v6 = l->host.n > 0 && memchr(l->host.p, ':', l->host.n) != NULL;

	buf_addf(out, v6 ? "%s://[%.*s]" : "%s://%.*s", http ? "http" : "https", (int)l->host.n, l->host.p);
	if (l->port != (http ? 80 : 443))
		buf_addf(out, ":%u", l->port);
	buf_adds(out, l->path);
	if (l->query.n > 0) {
		buf_addc(out, '?');
		buf_adds(out, l->query);
	}
}
