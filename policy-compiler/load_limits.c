/* SPDX-License-Identifier: Apache-2.0 */
/* `limits`, of a destination and at the top: sizes and times. Rates and budgets are of a later version. */
#include "../common/policy/format.h"
#include "load.h"

struct limits_ctx {
	struct load *l;
	struct dest_limits *to;
};

static uint64_t size_of(const struct limits_ctx *c, const struct schema_row *row, const struct schema_value *v)
{
	if (v->number > 0 && v->number <= LIMIT_BYTES_MAX)
		return v->number;
	ERROR_AT(c->l, v->node, "`%s` is from 1B to 4096GiB", row->key);
	return 0;
}

static uint32_t time_of(const struct limits_ctx *c, const struct schema_row *row, const struct schema_value *v)
{
	if (v->number >= LIMIT_MS_MIN && v->number <= LIMIT_MS_MAX)
		return (uint32_t)v->number;
	ERROR_AT(c->l, v->node, "`%s` is from 100ms to 7d", row->key);
	return 0;
}

static void on_request_body(void *arg, const struct schema_row *row, const struct schema_value *v) { ((struct limits_ctx *)arg)->to->request_body = size_of(arg, row, v); }
static void on_response_body(void *arg, const struct schema_row *row, const struct schema_value *v) { ((struct limits_ctx *)arg)->to->response_body = size_of(arg, row, v); }
static void on_head(void *arg, const struct schema_row *row, const struct schema_value *v) { ((struct limits_ctx *)arg)->to->head_ms = time_of(arg, row, v); }
static void on_idle(void *arg, const struct schema_row *row, const struct schema_value *v) { ((struct limits_ctx *)arg)->to->idle_ms = time_of(arg, row, v); }
static void on_total(void *arg, const struct schema_row *row, const struct schema_value *v) { ((struct limits_ctx *)arg)->to->total_ms = time_of(arg, row, v); }

static const struct schema_row limits_rows[] = {
	{ "request_body", SCHEMA_SIZE, false, on_request_body, NULL, 0, 0 },
	{ "response_body", SCHEMA_SIZE, false, on_response_body, NULL, 0, 0 },
	{ "head", SCHEMA_TIME, false, on_head, NULL, 0, 0 },
	{ "idle", SCHEMA_TIME, false, on_idle, NULL, 0, 0 },
	{ "total", SCHEMA_TIME, false, on_total, NULL, 0, 0 },
	{ "requests", SCHEMA_LATER, false, NULL, "rates, such as 600/m", 0, 0 },
	{ "connections", SCHEMA_LATER, false, NULL, "rates, such as 600/m", 0, 0 },
	{ "upload", SCHEMA_LATER, false, NULL, "budgets, such as 100MiB/d", 0, 0 },
	{ "download", SCHEMA_LATER, false, NULL, "budgets, such as 100MiB/d", 0, 0 },
	{ "per", SCHEMA_LATER, false, NULL, "rates and budgets", 0, 0 },
};

void load_limits(struct load *l, const struct yaml_node *n, struct dest_limits *to)
{
	struct limits_ctx c = { l, to };

	schema_parse(l->d, n, "limits", SCHEMA_ROWS(limits_rows), &c);
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a == 0 || (b != 0 && b < a) ? b : a; }

struct dest_limits limits_both(const struct dest_limits *a, const struct dest_limits *b)
{
	return (struct dest_limits){
		.request_body = smaller(a->request_body, b->request_body),
		.response_body = smaller(a->response_body, b->response_body),
		.head_ms = (uint32_t)smaller(a->head_ms, b->head_ms),
		.idle_ms = (uint32_t)smaller(a->idle_ms, b->idle_ms),
		.total_ms = (uint32_t)smaller(a->total_ms, b->total_ms),
	};
}

struct schema_rows load_rows_limits(void) { return (struct schema_rows){ SCHEMA_ROWS(limits_rows) }; }
