/* SPDX-License-Identifier: Apache-2.0 */
#include "format.h"

#include "../../common/base/jsonw.h"

#define SECRETS_MAX 16

struct got {
	struct str s[REC_TAG_COUNT];
	uint64_t u[REC_TAG_COUNT];
	bool have[REC_TAG_COUNT];
	struct str secrets[SECRETS_MAX];
	unsigned secret_n;
};

/* OCSF HTTP Activity: the activity is the method. */
static unsigned http_activity(struct str m)
{
	static const char *const names[] = { "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT", "TRACE", "PATCH" };

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (str_eq(m, str_of(names[i])))
			return i + 1;
	return 99;
}

static void kstr(struct jsonw *w, const struct got *g, enum record_tag t, const char *key)
{
	if (g->have[t])
		jsonw_kstr(w, key, g->s[t]);
}

static void ku64(struct jsonw *w, const struct got *g, enum record_tag t, const char *key)
{
	if (g->have[t])
		jsonw_ku64(w, key, g->u[t]);
}

static void http(struct jsonw *w, const struct got *g)
{
	jsonw_kopen(w, "http_request", '{');
	kstr(w, g, REC_METHOD, "http_method");
	kstr(w, g, REC_CLIENT_PROTOCOL, "version");
	kstr(w, g, REC_REQUEST_ID, "uid");
	jsonw_kopen(w, "url", '{');
	kstr(w, g, REC_SCHEME, "scheme");
	kstr(w, g, REC_HOST, "hostname");
	ku64(w, g, REC_PORT, "port");
	kstr(w, g, REC_PATH, "path");
	kstr(w, g, REC_QUERY, "query_string");
	jsonw_close(w, '}');
	jsonw_close(w, '}');
	if (g->have[REC_STATUS]) {
		jsonw_kopen(w, "http_response", '{');
		ku64(w, g, REC_STATUS, "code");
		jsonw_close(w, '}');
	}
}

static void common_objects(struct jsonw *w, const struct got *g, struct str sandbox)
{
	jsonw_kopen(w, "src_endpoint", '{');
	jsonw_kstr(w, "name", sandbox.n ? sandbox : STR("gateway"));
	ku64(w, g, REC_SRC_PORT, "port");
	jsonw_close(w, '}');
	if (g->have[REC_HOST]) {
		jsonw_kopen(w, "dst_endpoint", '{');
		kstr(w, g, REC_HOST, "hostname");
		kstr(w, g, REC_UPSTREAM_IP, "ip");
		ku64(w, g, REC_PORT, "port");
		jsonw_close(w, '}');
	}
	if (g->have[REC_ACTOR_PID]) {
		jsonw_kopen(w, "actor", '{');
		jsonw_kopen(w, "process", '{');
		ku64(w, g, REC_ACTOR_PID, "pid");
		kstr(w, g, REC_ACTOR_NAME, "name");
		jsonw_kopen(w, "file", '{');
		kstr(w, g, REC_ACTOR_PATH, "path");
		jsonw_close(w, '}');
		jsonw_close(w, '}');
		jsonw_close(w, '}');
	}
	if (g->have[REC_RULE]) {
		jsonw_kopen(w, "firewall_rule", '{');
		kstr(w, g, REC_RULE, "uid");
		kstr(w, g, REC_RULE, "name");
		jsonw_close(w, '}');
	}
	if (g->have[REC_TLS_VERSION] || g->have[REC_SNI] || g->have[REC_CERT_SHA256]) {
		jsonw_kopen(w, "tls", '{');
		kstr(w, g, REC_TLS_VERSION, "version");
		kstr(w, g, REC_TLS_CIPHER, "cipher");
		kstr(w, g, REC_SNI, "sni");
		if (g->have[REC_CERT_SHA256]) {
			jsonw_kopen(w, "certificate", '{');
			kstr(w, g, REC_CERT_ISSUER, "issuer");
			jsonw_kopen(w, "fingerprints", '[');
			jsonw_open(w, '{');
			jsonw_kz(w, "algorithm", "SHA-256");
			jsonw_ku64(w, "algorithm_id", 3);
			kstr(w, g, REC_CERT_SHA256, "value");
			jsonw_close(w, '}');
			jsonw_close(w, ']');
			jsonw_close(w, '}');
		}
		jsonw_close(w, '}');
	}
	if (g->have[REC_BYTES_IN] || g->have[REC_BYTES_OUT]) {
		jsonw_kopen(w, "traffic", '{');
		ku64(w, g, REC_BYTES_IN, "bytes_in");
		ku64(w, g, REC_BYTES_OUT, "bytes_out");
		jsonw_close(w, '}');
	}
	ku64(w, g, REC_DURATION_MS, "duration");
	if (g->have[REC_COUNT])
		ku64(w, g, REC_COUNT, "count");
}

static void own_object(struct jsonw *w, const struct got *g)
{
	static const struct {
		enum record_tag t;
		const char *key;
	} timing[] = { { REC_T_DNS_US, "dns_us" }, { REC_T_CONNECT_US, "connect_us" }, { REC_T_TLS_US, "tls_us" }, { REC_T_SECRET_US, "secret_us" }, { REC_T_FIRST_BYTE_US, "first_byte_us" } };
	bool any = false;

	jsonw_kopen(w, "unmapped", '{');
	jsonw_kopen(w, "sallyport", '{');
	kstr(w, g, REC_KIND, "kind");
	kstr(w, g, REC_DECISION, "decision");
	kstr(w, g, REC_CODE, "code");
	kstr(w, g, REC_REASON, "reason");
	kstr(w, g, REC_SOURCE, "source");
	if (g->have[REC_POLICY_NAME]) {
		jsonw_kopen(w, "policy", '{');
		kstr(w, g, REC_POLICY_NAME, "name");
		kstr(w, g, REC_POLICY_DIGEST, "digest");
		ku64(w, g, REC_POLICY_GENERATION, "generation");
		jsonw_close(w, '}');
	}
	if (g->secret_n > 0) {
		jsonw_kopen(w, "secrets", '[');
		for (unsigned i = 0; i < g->secret_n; i++)
			jsonw_str(w, g->secrets[i]);
		jsonw_close(w, ']');
	}
	for (size_t i = 0; i < sizeof(timing) / sizeof(timing[0]); i++)
		any = any || g->have[timing[i].t];
	if (any) {
		jsonw_kopen(w, "timing", '{');
		for (size_t i = 0; i < sizeof(timing) / sizeof(timing[0]); i++)
			ku64(w, g, timing[i].t, timing[i].key);
		jsonw_close(w, '}');
	}
	kstr(w, g, REC_CLIENT_PROTOCOL, "client_protocol");
	kstr(w, g, REC_UPSTREAM_PROTOCOL, "upstream_protocol");
	kstr(w, g, REC_IDENTITY, "identity");
	ku64(w, g, REC_SCRUBBED, "scrubbed");
}

bool record_format(struct buf *out, const struct record_context *c, const uint8_t *fields, size_t n, struct str *request_id, struct str *kind)
{
	struct got g;
	struct jsonw w = jsonw_on(out);
	size_t off = 0;
	enum record_tag t;
	struct str s, sandbox = c->sandbox;
	uint64_t u, time;
	bool bad = false, denied;
	unsigned class, activity, category, severity = 1;

	memset(g.have, 0, sizeof(g.have));
	g.secret_n = 0;
	while (record_next(fields, n, &off, &t, &s, &u, &bad)) {
		if (t == REC_SECRET) {
			if (g.secret_n < SECRETS_MAX)
				g.secrets[g.secret_n++] = s;
			continue;
		}
		g.have[t] = true;
		g.s[t] = s;
		g.u[t] = u > INT64_MAX ? INT64_MAX : u; /* readers of JSON take numbers as signed 64 bit */
	}
	if (bad || !g.have[REC_KIND])
		return false;
	*kind = g.s[REC_KIND];
	*request_id = g.have[REC_REQUEST_ID] ? g.s[REC_REQUEST_ID] : STR_NONE;
	if (c->from_supervisor && g.have[REC_SANDBOX])
		sandbox = g.s[REC_SANDBOX];
	denied = g.have[REC_DECISION] && str_eq(g.s[REC_DECISION], STR("deny"));
	if (str_eq(*kind, STR("request"))) {
		class = 4002;
		activity = g.have[REC_METHOD] ? http_activity(g.s[REC_METHOD]) : 0;
	} else if (str_eq(*kind, STR("connection"))) {
		class = 4001;
		activity = denied ? 5 : 2; /* refuse, close */
	} else if (str_eq(*kind, STR("dns"))) {
		class = 4003;
		activity = 1;
	} else if (str_eq(*kind, STR("finding"))) {
		class = 2004;
		activity = 1;
		severity = 4;
	} else if (str_eq(*kind, STR("lifecycle"))) {
		class = 6002;
		activity = 99;
	} else {
		class = 6003; /* API Activity: secret, admin, checkpoint */
		activity = 99;
	}
	category = class / 1000;
	time = g.have[REC_TIME_MS] ? g.u[REC_TIME_MS] : c->now_ms;
	jsonw_open(&w, '{');
	jsonw_ku64(&w, "class_uid", class);
	jsonw_ku64(&w, "category_uid", category);
	jsonw_ku64(&w, "activity_id", activity);
	jsonw_ku64(&w, "type_uid", class * 100u + activity);
	jsonw_ku64(&w, "time", time);
	jsonw_ku64(&w, "severity_id", denied && severity < 2 ? 2 : severity);
	jsonw_ku64(&w, "status_id", denied || (g.have[REC_CODE]) ? 2 : 1);
	if (g.have[REC_DECISION]) {
		jsonw_ku64(&w, "action_id", denied ? 2 : 1);
		jsonw_ku64(&w, "disposition_id", denied ? 2 : 1);
	}
	if (g.have[REC_MESSAGE])
		kstr(&w, &g, REC_MESSAGE, "message");
	jsonw_kopen(&w, "metadata", '{');
	jsonw_kz(&w, "version", "1.3.0");
	jsonw_kopen(&w, "product", '{');
	jsonw_kz(&w, "name", "Sallyport");
	jsonw_kz(&w, "vendor_name", "Sallyport");
	jsonw_kz(&w, "version", SP_VERSION);
	jsonw_close(&w, '}');
	kstr(&w, &g, REC_REQUEST_ID, "uid");
	jsonw_ku64(&w, "sequence", c->sequence);
	jsonw_close(&w, '}');
	if (class == 4002)
		http(&w, &g);
	if (class == 4003) {
		jsonw_kopen(&w, "query", '{');
		kstr(&w, &g, REC_HOST, "hostname");
		jsonw_close(&w, '}');
	}
	if (class == 2004) {
		jsonw_kopen(&w, "finding_info", '{');
		kstr(&w, &g, REC_CODE, "title");
		kstr(&w, &g, REC_REQUEST_ID, "uid");
		jsonw_close(&w, '}');
	}
	common_objects(&w, &g, sandbox);
	own_object(&w, &g);
	return true;
}
