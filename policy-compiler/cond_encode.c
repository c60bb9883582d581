/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/policy/cond.h"
#include "model.h"

static void put_texts(struct buf *b, const struct pol_texts *t)
{
	put_u16(b, (uint16_t)t->n);
	for (unsigned i = 0; i < t->n; i++)
		put_str(b, t->s[i]);
}

static void put_values(struct buf *b, const struct pol_values *vs)
{
	put_u16(b, (uint16_t)vs->n);
	for (unsigned i = 0; i < vs->n; i++) {
		const struct pol_value *v = &vs->v[i];

		put_str(b, v->key);
		put_u8(b, (uint8_t)((v->required ? VALUE_REQUIRED : 0) | (v->any ? VALUE_ANY : 0)));
		put_texts(b, &v->patterns);
	}
}

static void put_body(struct buf *b, const struct pol_cond *c)
{
	put_u8(b, (uint8_t)c->body);
	switch (c->body) {
	case BODY_GRAPHQL:
		put_u8(b, (uint8_t)c->graphql_types);
		put_texts(b, &c->fields);
		put_texts(b, &c->names);
		break;
	case BODY_MCP:
		put_texts(b, &c->tools);
		put_texts(b, &c->methods);
		put_values(b, &c->values);
		break;
	case BODY_JSONRPC:
		put_texts(b, &c->methods);
		break;
	case BODY_JSON:
		put_values(b, &c->values);
		break;
	case BODY_GIT_PUSH:
		put_u8(b, c->git_delete ? GIT_DELETE : 0);
		put_texts(b, &c->refs);
		break;
	default:
		break;
	}
}

void cond_encode(const struct pol_cond *c, struct buf *b)
{
	put_u8(b, (uint8_t)c->parts);
	if (c->parts & COND_VALID) {
		put_u64(b, c->from_s);
		put_u64(b, c->until_s);
	}
	if (c->parts & COND_QUERY)
		put_values(b, &c->query);
	if (c->parts & COND_HEADERS)
		put_values(b, &c->headers);
	if (c->parts & COND_REGEX)
		put_str(b, c->regex);
	if (c->parts & COND_BODY)
		put_body(b, c);
	if (c->parts & COND_USES) {
		put_u64(b, c->uses_key);
		put_u64(b, c->uses);
	}
}
