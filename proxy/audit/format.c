/* SPDX-License-Identifier: Apache-2.0 */
#include "format.h"

#include "../../common/base/jsonw.h"
#include "../../common/base/must.h"

#define OCSF_VERSION "1.3.0"
#define SECRETS_MAX 32
#define PART_TAGS_MAX 6 /* fields that a part of the line is made of */
#ifndef SP_VERSION
#define SP_VERSION "0"
#endif

enum kind { KIND_NONE = 0, KIND_REQUEST, KIND_CONNECTION, KIND_DNS, KIND_LIFECYCLE, KIND_SECRET, KIND_FINDING, KIND_CHECKPOINT, KIND_ADMIN };
#define CLASS(uid, name, category, category_name) "\"class_uid\":" #uid ",\"class_name\":\"" name "\",\"category_uid\":" #category ",\"category_name\":\"" category_name "\""
static const struct kind_row {
	const char *name;
	uint16_t class_uid;
	const char *class; /* members that name it */
	unsigned origins;  /* bit per record_origin: who may send it */
} kinds[] = {
	[KIND_NONE] = { "", 2004, CLASS(2004, "Detection Finding", 2, "Findings"), 0 },
	[KIND_REQUEST] = { "request", 4002, CLASS(4002, "HTTP Activity", 4, "Network Activity"), 1u << ORIGIN_WORKER },
	[KIND_CONNECTION] = { "connection", 4001, CLASS(4001, "Network Activity", 4, "Network Activity"), 1u << ORIGIN_WORKER },
	[KIND_DNS] = { "dns", 4003, CLASS(4003, "DNS Activity", 4, "Network Activity"), 1u << ORIGIN_WORKER },
	[KIND_LIFECYCLE] = { "lifecycle", 6002, CLASS(6002, "Application Lifecycle", 6, "Application Activity"), 1u << ORIGIN_SUPERVISOR | 1u << ORIGIN_AUDIT },
	[KIND_SECRET] = { "secret", 2004, CLASS(2004, "Detection Finding", 2, "Findings"), 1u << ORIGIN_SECRETS },
	[KIND_FINDING] = { "finding", 2004, CLASS(2004, "Detection Finding", 2, "Findings"), ~0u },
	[KIND_CHECKPOINT] = { "checkpoint", 6002, CLASS(6002, "Application Lifecycle", 6, "Application Activity"), 1u << ORIGIN_AUDIT },
	[KIND_ADMIN] = { "admin", 6002, CLASS(6002, "Application Lifecycle", 6, "Application Activity"), 1u << ORIGIN_SUPERVISOR },
};

struct fields {
	struct str s[REC_TAG_COUNT];
	uint64_t u[REC_TAG_COUNT];
	bool has[REC_TAG_COUNT];
	struct str secrets[SECRETS_MAX];
	unsigned secret_n;
	bool malformed;
};

static void load(struct fields *f, const uint8_t *p, size_t n)
{
	size_t off = 0;
	enum record_tag t;
	struct str s;
	uint64_t u;
	bool bad = false;

	memset(f, 0, offsetof(struct fields, secrets));
	f->secret_n = 0;
	while (record_next(p, n, &off, &t, &s, &u, &bad)) {
		if (t == REC_SECRET) {
			if (f->secret_n < SECRETS_MAX)
				f->secrets[f->secret_n++] = s;
			continue;
		}
		if (f->has[t])
			continue; /* the first counts: no later one can overwrite what was said */
		f->has[t] = true;
		f->s[t] = s;
		f->u[t] = u > INT64_MAX ? INT64_MAX : u; /* more than many JSON readers take */
	}
	f->malformed = bad;
}

static enum kind kind_of(const struct fields *f, enum record_origin origin)
{
	for (unsigned k = KIND_REQUEST; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		if (str_eq(f->s[REC_KIND], str_of(kinds[k].name)) && (kinds[k].origins & 1u << origin) != 0)
			return (enum kind)k;
	return KIND_NONE;
}

/* --- OCSF numbers -------------------------------------------------------------------------------------------------- */

struct activity {
	unsigned id;
	struct str name;
};

static struct activity http_activity(struct str method)
{
	static const struct {
		const char *method, *name;
	} rows[] = { { "", "Unknown" }, { "CONNECT", "Connect" }, { "DELETE", "Delete" }, { "GET", "Get" }, { "HEAD", "Head" }, { "OPTIONS", "Options" }, { "POST", "Post" }, { "PUT", "Put" }, { "TRACE", "Trace" } };

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (str_eq(method, str_of(rows[i].method)))
			return (struct activity){ i, str_of(rows[i].name) };
	return (struct activity){ 99, method }; /* other: its own name */
}

static struct activity lifecycle_activity(struct str message)
{
	if (str_ends(message, STR(" started")) || str_eq(message, STR("started")))
		return (struct activity){ 3, STR("Start") };
	if (str_find(message, STR(" ended")) >= 0 || str_find(message, STR("stopped")) >= 0 || str_find(message, STR("revoked")) >= 0)
		return (struct activity){ 4, STR("Stop") };
	return (struct activity){ 99, STR("Other") };
}

static struct activity activity_of(enum kind k, const struct fields *f, bool denied)
{
	switch (k) {
	case KIND_REQUEST:
		return http_activity(f->s[REC_METHOD]);
	case KIND_CONNECTION:
		return denied ? (struct activity){ 5, STR("Refuse") } : (struct activity){ 2, STR("Close") };
	case KIND_DNS:
		return (struct activity){ 1, STR("Query") };
	case KIND_LIFECYCLE:
		return lifecycle_activity(f->s[REC_MESSAGE]);
	case KIND_NONE:
	case KIND_SECRET:
	case KIND_FINDING:
		return (struct activity){ 1, STR("Create") };
	default:
		return (struct activity){ 99, STR("Other") };
	}
}

struct verdict_ids {
	bool denied, failed;
	const char *severity; /* members */
};

static struct verdict_ids verdict_of(enum kind k, const struct fields *f)
{
	struct verdict_ids v = { 0 };
	bool traffic = k == KIND_REQUEST || k == KIND_CONNECTION || k == KIND_DNS || k == KIND_SECRET;

	/* what says nothing of its own was not allowed */
	v.denied = traffic && !str_eq(f->s[REC_DECISION], STR("allow")) && !str_eq(f->s[REC_DECISION], STR("observe"));
	v.failed = v.denied || f->s[REC_CODE].n > 0;
	if (k == KIND_NONE || k == KIND_FINDING) {
		v.severity = "\"severity_id\":4,\"severity\":\"High\"";
	} else if (v.denied) {
		v.severity = "\"severity_id\":3,\"severity\":\"Medium\"";
	} else if (v.failed) {
		v.severity = "\"severity_id\":2,\"severity\":\"Low\"";
	} else {
		v.severity = "\"severity_id\":1,\"severity\":\"Informational\"";
	}
	return v;
}

/* Members that are always the same, as they stand in the line: our own text, no need to quote it anew for each record. */
static inline void raw(struct jsonw *w, const char *members)
{
	if (w->need_comma)
		buf_addc(w->out, ',');
	buf_addz(w->out, members);
	w->need_comma = true;
}

#define PRODUCT "\"name\":\"Sallyport\",\"vendor_name\":\"Sallyport\",\"version\":\"" SP_VERSION "\""

/* --- parts --------------------------------------------------------------------------------------------------------- */

/* inline: of a key that is a literal the length is known */
#define INLINE static inline __attribute__((always_inline))

INLINE void opt(struct jsonw *w, const char *key, const struct fields *f, enum record_tag t)
{
	if (f->s[t].n > 0)
		jsonw_kstr(w, key, f->s[t]);
}

INLINE void put_if(struct jsonw *w, const char *key, const struct fields *f, enum record_tag t)
{
	if (f->u[t] == 0)
		return;
	jsonw_key(w, key);
	jsonw_bool(w, true);
}

INLINE void optu(struct jsonw *w, const char *key, const struct fields *f, enum record_tag t)
{
	if (f->has[t])
		jsonw_ku64(w, key, f->u[t]);
}

static void metadata(struct jsonw *w, const struct record_context *c, enum kind k)
{
	jsonw_kopen(w, "metadata", '{');
	raw(w, "\"version\":\"" OCSF_VERSION "\",\"product\":{" PRODUCT "}");
	if (k == KIND_REQUEST || k == KIND_CONNECTION || k == KIND_DNS || k == KIND_SECRET)
		raw(w, "\"profiles\":[\"security_control\"]");
	jsonw_kz(w, "uid", c->uid);
	jsonw_ku64(w, "sequence", c->sequence);
	jsonw_ku64(w, "logged_time", c->now_ms);
	jsonw_close(w, '}');
}

static void http(struct jsonw *w, const struct fields *f)
{
	struct str version = f->s[REC_CLIENT_PROTOCOL];

	if (str_starts(version, STR("HTTP/")))
		version = str_mk(version.p + 5, version.n - 5);
	jsonw_kopen(w, "http_request", '{');
	opt(w, "uid", f, REC_REQUEST_ID);
	opt(w, "http_method", f, REC_METHOD);
	if (version.n > 0)
		jsonw_kstr(w, "version", version);
	jsonw_kopen(w, "url", '{');
	opt(w, "scheme", f, REC_SCHEME);
	opt(w, "hostname", f, REC_HOST);
	optu(w, "port", f, REC_PORT);
	opt(w, "path", f, REC_PATH);
	opt(w, "query_string", f, REC_QUERY);
	jsonw_close(w, '}');
	jsonw_close(w, '}');
	if (f->has[REC_STATUS]) {
		jsonw_kopen(w, "http_response", '{');
		jsonw_ku64(w, "code", f->u[REC_STATUS]);
		jsonw_close(w, '}');
	}
}

static void endpoints(struct jsonw *w, const struct fields *f, struct str sandbox)
{
	if (sandbox.n > 0) {
		jsonw_kopen(w, "src_endpoint", '{');
		jsonw_kstr(w, "name", sandbox);
		optu(w, "port", f, REC_SRC_PORT);
		jsonw_close(w, '}');
	}
	if (f->s[REC_HOST].n > 0 || f->s[REC_UPSTREAM_IP].n > 0 || f->has[REC_PORT]) {
		jsonw_kopen(w, "dst_endpoint", '{');
		opt(w, "hostname", f, REC_HOST);
		opt(w, "ip", f, REC_UPSTREAM_IP);
		optu(w, "port", f, REC_PORT);
		jsonw_close(w, '}');
	}
	if (f->has[REC_ACTOR_PID] || f->s[REC_ACTOR_NAME].n > 0 || f->s[REC_ACTOR_PATH].n > 0) {
		jsonw_kopen(w, "actor", '{');
		jsonw_kopen(w, "process", '{');
		optu(w, "pid", f, REC_ACTOR_PID);
		opt(w, "name", f, REC_ACTOR_NAME);
		if (f->s[REC_ACTOR_PATH].n > 0) {
			jsonw_kopen(w, "file", '{');
			jsonw_kstr(w, "path", f->s[REC_ACTOR_PATH]);
			jsonw_close(w, '}');
		}
		jsonw_close(w, '}');
		jsonw_close(w, '}');
	}
}

/*
 * What is the same in many records one after the other: written as it was the last time, if the fields that it is made of are
 * the same. A part stands behind others, so that it always begins with a comma.
 */
struct part {
	const enum record_tag *tags;
	size_t n;
	void (*write)(struct jsonw *w, const struct fields *f);
	struct buf from, text; /* the fields' octets, one behind the other; what was written */
	size_t len[PART_TAGS_MAX]; /* of each */
	uint64_t u[PART_TAGS_MAX];
	bool has[PART_TAGS_MAX], filled;
};

static bool part_is(const struct part *p, const struct fields *f)
{
	const uint8_t *from = buf_data(&p->from);

	if (!p->filled)
		return false;
	for (size_t i = 0; i < p->n; i++) {
		const struct str *s = &f->s[p->tags[i]];

		if (s->n != p->len[i] || f->u[p->tags[i]] != p->u[i] || f->has[p->tags[i]] != p->has[i] || (s->n > 0 && memcmp(s->p, from, s->n) != 0))
			return false;
		from += s->n;
	}
	return true;
}

static void part(struct jsonw *w, struct part *p, const struct fields *f)
{
	size_t before = buf_len(w->out);

	if (part_is(p, f)) {
		buf_adds(w->out, buf_str(&p->text));
		return;
	}
	MUST(w->need_comma);
	p->write(w, f);
	MUST(w->need_comma);
	buf_clear(&p->from);
	buf_clear(&p->text);
	for (size_t i = 0; i < p->n; i++) {
		enum record_tag t = p->tags[i];

		p->len[i] = f->s[t].n;
		p->u[i] = f->u[t];
		p->has[i] = f->has[t];
		buf_adds(&p->from, f->s[t]);
	}
	buf_add(&p->text, buf_data(w->out) + before, buf_len(w->out) - before);
	p->filled = true;
}

#define PART(name, ...) \
	static const enum record_tag name##_tags[] = { __VA_ARGS__ }; \
	_Static_assert(sizeof(name##_tags) / sizeof(name##_tags[0]) <= PART_TAGS_MAX, "room for them"); \
	static struct part name##_part = { .tags = name##_tags, .n = sizeof(name##_tags) / sizeof(name##_tags[0]), .write = name }

static void tls(struct jsonw *w, const struct fields *f)
{
	if (f->s[REC_TLS_VERSION].n == 0 && f->s[REC_SNI].n == 0 && f->s[REC_CERT_SHA256].n == 0)
		return;
	jsonw_kopen(w, "tls", '{');
	opt(w, "version", f, REC_TLS_VERSION);
	opt(w, "cipher", f, REC_TLS_CIPHER);
	opt(w, "sni", f, REC_SNI);
	if (f->s[REC_CERT_ISSUER].n > 0 || f->s[REC_CERT_SHA256].n > 0) {
		jsonw_kopen(w, "certificate", '{');
		opt(w, "issuer", f, REC_CERT_ISSUER);
		optu(w, "expiration_time", f, REC_CERT_EXPIRES_MS);
		if (f->s[REC_CERT_SHA256].n > 0) {
			jsonw_kopen(w, "fingerprints", '[');
			jsonw_open(w, '{');
			raw(w, "\"algorithm\":\"SHA-256\",\"algorithm_id\":3");
			jsonw_kstr(w, "value", f->s[REC_CERT_SHA256]);
			jsonw_close(w, '}');
			jsonw_close(w, ']');
		}
		jsonw_close(w, '}');
	}
	jsonw_close(w, '}');
}

static void upstream_tls(struct jsonw *w, const struct fields *f)
{
	if (f->s[REC_UPSTREAM_TLS].n == 0)
		return;
	jsonw_kopen(w, "upstream_tls", '{');
	opt(w, "version", f, REC_UPSTREAM_TLS);
	opt(w, "cipher", f, REC_UPSTREAM_CIPHER);
	opt(w, "group", f, REC_UPSTREAM_GROUP);
	opt(w, "spki_sha256", f, REC_CERT_SPKI_SHA256);
	opt(w, "staple", f, REC_STAPLE);
	jsonw_key(w, "resumed");
	jsonw_bool(w, f->u[REC_RESUMED] != 0);
	jsonw_close(w, '}');
}

static void firewall_rule(struct jsonw *w, const struct fields *f)
{
	if (f->s[REC_RULE].n == 0)
		return;
	jsonw_kopen(w, "firewall_rule", '{');
	jsonw_kstr(w, "uid", f->s[REC_RULE]);
	jsonw_kstr(w, "name", f->s[REC_RULE]);
	jsonw_close(w, '}');
}

static void policy(struct jsonw *w, const struct fields *f)
{
	if (f->s[REC_POLICY_NAME].n == 0 && f->s[REC_POLICY_DIGEST].n == 0)
		return;
	jsonw_kopen(w, "policy", '{');
	opt(w, "name", f, REC_POLICY_NAME);
	opt(w, "digest", f, REC_POLICY_DIGEST);
	optu(w, "generation", f, REC_POLICY_GENERATION);
	jsonw_close(w, '}');
}

/* All that the function looks at. */
PART(tls, REC_TLS_VERSION, REC_TLS_CIPHER, REC_SNI, REC_CERT_ISSUER, REC_CERT_SHA256, REC_CERT_EXPIRES_MS);
PART(upstream_tls, REC_UPSTREAM_TLS, REC_UPSTREAM_CIPHER, REC_UPSTREAM_GROUP, REC_CERT_SPKI_SHA256, REC_STAPLE, REC_RESUMED);
PART(firewall_rule, REC_RULE);
PART(policy, REC_POLICY_NAME, REC_POLICY_DIGEST, REC_POLICY_GENERATION);

static void websocket(struct jsonw *w, const struct fields *f)
{
	if (!f->has[REC_WS_CLOSE])
		return;
	jsonw_kopen(w, "websocket", '{');
	optu(w, "close_code", f, REC_WS_CLOSE);
	opt(w, "closed_by", f, REC_WS_CLOSED_BY);
	opt(w, "subprotocol", f, REC_WS_PROTOCOL);
	optu(w, "messages_in", f, REC_WS_MESSAGES_IN);
	optu(w, "messages_out", f, REC_WS_MESSAGES_OUT);
	jsonw_close(w, '}');
}

static void traffic(struct jsonw *w, const struct fields *f)
{
	if (!f->has[REC_BYTES_IN] && !f->has[REC_BYTES_OUT])
		return;
	jsonw_kopen(w, "traffic", '{');
	optu(w, "bytes_in", f, REC_BYTES_IN);
	optu(w, "bytes_out", f, REC_BYTES_OUT);
	jsonw_close(w, '}');
}

static void by_class(struct jsonw *w, enum kind k, const struct fields *f)
{
	switch (k) {
	case KIND_REQUEST:
		http(w, f);
		break;
	case KIND_CONNECTION:
		jsonw_kopen(w, "connection_info", '{');
		opt(w, "uid", f, REC_REQUEST_ID);
		raw(w, "\"protocol_name\":\"tcp\",\"direction_id\":2,\"direction\":\"Outbound\"");
		jsonw_close(w, '}');
		break;
	case KIND_DNS:
		jsonw_kopen(w, "query", '{');
		jsonw_kstr(w, "hostname", f->s[REC_HOST]);
		jsonw_close(w, '}');
		break;
	case KIND_LIFECYCLE:
	case KIND_ADMIN:
	case KIND_CHECKPOINT:
		raw(w, "\"app\":{" PRODUCT "}");
		break;
	default:
		jsonw_kopen(w, "finding_info", '{');
		jsonw_kstr(w, "title", f->s[REC_MESSAGE].n > 0 ? f->s[REC_MESSAGE] : STR("finding"));
		/* the request or connection it belongs to, where there is one */
		jsonw_kstr(w, "uid", f->s[REC_REQUEST_ID]);
		jsonw_close(w, '}');
		jsonw_key(w, "is_alert");
		jsonw_bool(w, k != KIND_SECRET);
		break;
	}
}

/* The keys of our own, the chain last. */
static void ours(struct jsonw *w, const struct record_context *c, enum kind k, const struct fields *f)
{
	static const struct {
		const char *key;
		enum record_tag tag;
	} timing[] = { { "dns_us", REC_T_DNS_US }, { "connect_us", REC_T_CONNECT_US }, { "tls_us", REC_T_TLS_US }, { "secret_us", REC_T_SECRET_US }, { "first_byte_us", REC_T_FIRST_BYTE_US } };
	bool any = false;

	jsonw_kopen(w, "unmapped", '{');
	jsonw_kopen(w, "sallyport", '{');
	jsonw_kz(w, "kind", k == KIND_NONE ? "finding" : kinds[k].name);
	opt(w, "decision", f, REC_DECISION);
	opt(w, "code", f, REC_CODE);
	opt(w, "reason", f, REC_REASON);
	if (k != KIND_REQUEST && k != KIND_CONNECTION)
		opt(w, "request_id", f, REC_REQUEST_ID);
	if (k != KIND_REQUEST)
		opt(w, "method", f, REC_METHOD);
	opt(w, "source", f, REC_SOURCE);
	part(w, &policy_part, f);
	if (f->secret_n > 0) {
		jsonw_kopen(w, "secrets", '[');
		for (unsigned i = 0; i < f->secret_n; i++)
			jsonw_str(w, f->secrets[i]);
		jsonw_close(w, ']');
	}
	for (size_t i = 0; i < sizeof(timing) / sizeof(timing[0]); i++) {
		if (!f->has[timing[i].tag])
			continue;
		if (!any)
			jsonw_kopen(w, "timing", '{');
		any = true;
		jsonw_ku64(w, timing[i].key, f->u[timing[i].tag]);
	}
	if (any)
		jsonw_close(w, '}');
	opt(w, "client_protocol", f, REC_CLIENT_PROTOCOL);
	opt(w, "upstream_protocol", f, REC_UPSTREAM_PROTOCOL);
	part(w, &upstream_tls_part, f);
	websocket(w, f);
	opt(w, "identity", f, REC_IDENTITY);
	optu(w, "scrubbed", f, REC_SCRUBBED);
	put_if(w, "boundary", f, REC_BOUNDARY);
	put_if(w, "observed", f, REC_OBSERVED);
	opt(w, "upstream_proxy", f, REC_UPSTREAM_PROXY);
	opt(w, "vetted_by", f, REC_VETTED_BY);
	if (f->u[REC_UNREAD] != 0) {
		jsonw_key(w, "inspected");
		jsonw_bool(w, false);
	}
	if (f->malformed || k == KIND_NONE) {
		jsonw_key(w, "malformed");
		jsonw_bool(w, true);
	}
	if (k == KIND_NONE)
		opt(w, "claimed_kind", f, REC_KIND);
	if (c->checkpoint_mac != NULL) {
		jsonw_kopen(w, "checkpoint", '{');
		jsonw_ku64(w, "records", c->checkpoint_records);
		jsonw_kz(w, "mac", c->checkpoint_mac);
		jsonw_close(w, '}');
	}
}

void record_format(struct buf *out, const struct record_context *c, const uint8_t *fields, size_t n, const char prev[CHAIN_HEX])
{
	struct jsonw json = jsonw_on(out), *w = &json;
	struct fields f;
	struct verdict_ids v;
	struct activity a;
	struct str sandbox = c->sandbox;
	enum kind k;

	load(&f, fields, n);
	if (c->worker_lost) {
		if (!str_eq(f.s[REC_KIND], STR("connection")))
			f.s[REC_KIND] = STR("request");
		f.s[REC_DECISION] = STR("allow"); /* a slot is taken for what was let through */
		f.s[REC_CODE] = STR("worker_lost");
		f.s[REC_REASON] = STR("the process that served the request ended before it was finished");
		if (f.has[REC_TIME_MS] && f.u[REC_TIME_MS] <= c->now_ms && !f.has[REC_DURATION_MS]) {
			f.has[REC_DURATION_MS] = true;
			f.u[REC_DURATION_MS] = c->now_ms - f.u[REC_TIME_MS];
		}
	}
	k = kind_of(&f, c->origin);
	if (k == KIND_NONE)
		f.s[REC_CODE] = STR("bad_record");
	if (c->origin != ORIGIN_WORKER && f.s[REC_SANDBOX].n > 0)
		sandbox = f.s[REC_SANDBOX];
	v = verdict_of(k, &f);
	a = activity_of(k, &f, v.denied);

	jsonw_open(w, '{');
	raw(w, kinds[k].class);
	jsonw_ku64(w, "activity_id", a.id);
	jsonw_kstr(w, "activity_name", a.name);
	jsonw_ku64(w, "type_uid", (uint64_t)kinds[k].class_uid * 100 + a.id);
	jsonw_ku64(w, "time", f.has[REC_TIME_MS] ? f.u[REC_TIME_MS] : c->now_ms);
	raw(w, v.severity);
	raw(w, v.failed ? "\"status_id\":2,\"status\":\"Failure\"" : "\"status_id\":1,\"status\":\"Success\"");
	opt(w, "status_code", &f, REC_CODE);
	opt(w, "status_detail", &f, REC_REASON);
	opt(w, "message", &f, REC_MESSAGE);
	if (k == KIND_REQUEST || k == KIND_CONNECTION || k == KIND_DNS || k == KIND_SECRET)
		raw(w, v.denied ? "\"action_id\":2,\"action\":\"Denied\",\"disposition_id\":2,\"disposition\":\"Blocked\""
		                : "\"action_id\":1,\"action\":\"Allowed\",\"disposition_id\":1,\"disposition\":\"Allowed\"");
	metadata(w, c, k);
	by_class(w, k, &f);
	endpoints(w, &f, sandbox);
	part(w, &firewall_rule_part, &f);
	part(w, &tls_part, &f);
	traffic(w, &f);
	optu(w, "duration", &f, REC_DURATION_MS);
	optu(w, "count", &f, REC_COUNT);
	ours(w, c, k, &f);
	jsonw_kopen(w, "chain", '{');
	jsonw_kstr(w, "prev", str_mk(prev, CHAIN_HEX));
}

void record_close(struct buf *out, const char hash[CHAIN_HEX])
{
	buf_addz(out, RECORD_HASH_KEY);
	buf_add(out, hash, CHAIN_HEX);
	buf_addz(out, RECORD_END);
}
