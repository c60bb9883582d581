/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/base/must.h"

#define IDS_MAX 100   /* calls of one batch that are answered */
#define ID_TEXT_MAX 256

void rpc_warm(void) { json_object_seed(0); }

/* The media type without its parameters. */
static struct str media_type(struct http_request *r)
{
	struct http_field *type = http_fields_find(&r->fields, HF_CONTENT_TYPE);
	struct str t = type != NULL ? type->value : STR_NONE;

	for (size_t i = 0; i < t.n; i++)
		if (t.p[i] == ';' || t.p[i] == ' ' || t.p[i] == '\t')
			t.n = i;
	return t;
}

static bool has_parameter(struct str query, struct str want)
{
	for (size_t i = 0, end; i < query.n; i = end + 1) {
		for (end = i; end < query.n && query.p[end] != '&'; end++)
			;
		if (str_eq(str_mk(query.p + i, end - i), want))
			return true;
	}
	return false;
}

bool rpc_connect(struct http_request *r, struct refusal *to)
{
	const struct str stream = STR("application/connect+");
	struct http_field *version = http_fields_find_name(&r->fields, STR("Connect-Protocol-Version"));
	struct str t = media_type(r);

	if (str_eq(r->method, STR("GET")))
		return has_parameter(r->query, STR("connect=v1"));
	if (!str_eq(r->method, STR("POST")))
		return false;
	if (t.n > stream.n && str_ieq(str_mk(t.p, stream.n), stream)) {
		to->content_type = t;
		return true;
	}
	return version != NULL && str_eq(version->value, STR("1")) && (str_ieq(t, STR("application/json")) || str_ieq(t, STR("application/proto")));
}

bool rpc_compressed(struct http_response *r)
{
	static const struct str names[] = { STR_INIT("Grpc-Encoding"), STR_INIT("Connect-Content-Encoding") };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		for (unsigned k = 0; k < r->fields.n; k++)
			if (str_ieq(r->fields.f[k].name, names[i]) && !str_ieq(r->fields.f[k].value, STR("identity")))
				return true;
	return false;
}

bool rpc_expected(struct http_request *r)
{
	struct str t = media_type(r);
	struct refusal other = { 0 };

	if (!str_eq(r->method, STR("POST")) || t.n == 0 || r->expect_continue || http_fields_find(&r->fields, HF_CONTENT_ENCODING) != NULL || rpc_connect(r, &other))
		return false;
	if (!str_ieq(t, STR("application/json")) && !str_ieq(t, STR("application/json-rpc")) && !str_ieq(t, STR("application/graphql+json")))
		return false;
	return r->framing == HTTP_BODY_CHUNKED || (r->framing == HTTP_BODY_LENGTH && r->content_length > 0 && r->content_length <= RPC_CONTENT_MAX);
}

/* The id of one call as JSON text; STR_NONE for a notification, or what is no call. */
static struct str id_text(struct arena *a, const json_t *o)
{
	const char *version = json_string_value(json_object_get(o, "jsonrpc"));
	json_t *id = json_object_get(o, "id");
	struct str s = STR_NONE;
	char *t;

	if (version == NULL || strcmp(version, "2.0") != 0 || !(json_is_string(id) || json_is_number(id) || json_is_null(id)))
		return s;
	t = json_dumps(id, JSON_ENCODE_ANY | JSON_COMPACT);
	MUST(t != NULL);
	if (strlen(t) <= ID_TEXT_MAX)
		s = str_of(arena_strz(a, str_of(t)));
	free(t);
	return s;
}

static void calls(struct arena *a, const json_t *o, struct refusal *r)
{
	size_t n = json_is_array(o) ? json_array_size(o) : 1;
	struct str *ids = arena_alloc(a, (n < IDS_MAX ? n : IDS_MAX) * sizeof(*ids) + 1);

	r->id_n = 0;
	for (size_t i = 0; i < n && r->id_n < IDS_MAX; i++) {
		struct str t = id_text(a, json_is_array(o) ? json_array_get(o, i) : o);

		if (t.n > 0)
			ids[r->id_n++] = t;
	}
	if (r->id_n == 0)
		return;
	r->ids = ids;
	r->batch = json_is_array(o);
	r->shape = REFUSAL_JSONRPC;
}

void rpc_shape(struct arena *a, struct str path, struct str content, struct refusal *r)
{
	json_error_t e;
	json_t *o = json_loadb(content.n ? content.p : "", content.n, JSON_REJECT_DUPLICATES, &e);

	if (o == NULL)
		return;
	calls(a, o, r);
	if (r->shape != REFUSAL_JSONRPC && json_is_string(json_object_get(o, "query")) && str_ends(path, STR("graphql")))
		r->shape = REFUSAL_GRAPHQL;
	json_decref(o);
}
