/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where connections of secrets may lead. Two kinds: Vault, by the addresses that the operator (or, in a user's own run, the
 * caller) said, wherever those are but on a metadata service; and the token end-point of a secret, by that secret's record
 * in the table of the sandbox, vetted like any destination.
 */
#include <stdlib.h>

#include "../../common/base/must.h"
#include "../../common/msg.h"
#include "../../common/policy/table.h"
#include "dialer.h"

#define SOURCE_URLS_MAX 8

struct vaults { /* of one sandbox; 0: the gateway's */
	struct vaults *next;
	uint32_t sandbox;
	unsigned n;
	char *text; /* the end-points borrow from it */
	struct endpoint to[SOURCE_URLS_MAX];
};
struct sources {
	struct vaults *head;
};

struct sources *sources_new(void) { return must_calloc(1, sizeof(struct sources)); }

static void drop(struct vaults **at)
{
	struct vaults *v = *at;

	*at = v->next;
	free(v->text);
	free(v);
}

void sources_free(struct sources *s)
{
	while (s->head != NULL)
		drop(&s->head);
	free(s);
}

void sources_set(struct sources *s, uint32_t sandbox, struct str lines)
{
	struct vaults *v;
	const char *why;

	for (struct vaults **p = &s->head; *p != NULL; p = &(*p)->next) {
		if ((*p)->sandbox == sandbox) {
			drop(p);
			break;
		}
	}
	if (lines.n == 0)
		return;
	v = must_calloc(1, sizeof(*v));
	v->sandbox = sandbox;
	v->text = must_malloc(lines.n);
	memcpy(v->text, lines.p, lines.n);
	for (size_t at = 0; at < lines.n && v->n < SOURCE_URLS_MAX;) {
		const char *end = memchr(v->text + at, '\n', lines.n - at);
		size_t n = end != NULL ? (size_t)(end - v->text) - at : lines.n - at;

		if (!endpoint_parse(str_mk(v->text + at, n), &v->to[v->n], &why))
			v->to[v->n] = (struct endpoint){ 0 }; /* keeps its number */
		v->n++;
		at += n + 1;
	}
	v->next = s->head;
	s->head = v;
}

static void from_table(struct source *o, const struct table *t, uint32_t index)
{
	struct secret_decl d;
	const char *why;
	struct str text;

	if (t == NULL || !table_secret(t, index, &d) || d.token == SECRET_TOKEN_NONE || !endpoint_parse(secret_param(&d.params, SECRET_PARAM_URL, 0), &o->to, &why))
		return;
	text = secret_param(&d.params, SECRET_PARAM_CONNECT, 0);
	if (text.n > 0) {
		struct canon_host h;

		if (!canon_authority(text, 0, &h, &o->connect_port, &why) || h.ip.family == 0)
			return;
		o->connect_ip = h.ip;
	}
	for (unsigned n = 0; (text = secret_param(&d.params, SECRET_PARAM_ADDRESS, n)).n > 0; n++) {
		o->addresses = must_realloc(o->addresses, (n + 1) * sizeof(*o->addresses));
		if (!cidr_parse(text, &o->addresses[n]))
			return;
		o->address_n++;
	}
	o->found = true;
}

struct source *source_new(const struct sources *s, const struct msg_dial_source *q, const struct table *t)
{
	struct source *o = must_calloc(1, sizeof(*o));
	uint32_t n = q->secret_index & ~MSG_SOURCE_VAULT;

	if (!(q->secret_index & MSG_SOURCE_VAULT)) {
		from_table(o, t, q->secret_index);
		return o;
	}
	for (const struct vaults *v = s->head; v != NULL; v = v->next) {
		if (v->sandbox != q->sandbox || n >= v->n || v->to[n].port == 0)
			continue;
		o->found = o->operators = true;
		o->to = v->to[n];
	}
	return o;
}

void source_free(const struct source *s)
{
	if (s == NULL)
		return;
	free(s->addresses);
	free((void *)(uintptr_t)s);
}

bool source_addresses_listed(const struct source *s) { return s->operators || s->address_n > 0; }

bool source_address_ok(const struct source *s, const struct ip *a, const char **why)
{
	enum ip_class class = ip_classify(a, why);
	bool embedded;
	struct ip inner;

	if (class == IP_FORBIDDEN_ALWAYS)
		return false;
	if (s->operators)
		return true;
	if (s->address_n == 0)
		return class == IP_PUBLIC;
	embedded = ip_embedded_v4(a, &inner);
	for (unsigned i = 0; i < s->address_n; i++)
		if (cidr_has(&s->addresses[i], a) || (embedded && s->addresses[i].net.family == 4 && cidr_has(&s->addresses[i], &inner)))
			return true;
	*why = "not among the addresses of the secret's end-point";
	return false;
}
