/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../common/base/must.h"
#include "credential.h"
#include "inject.h"
#include "websocket.h"

void messages_fini(struct messages *m) { placeholder_fill_fini(&m->fill); }

/* The next entry that is filled in messages; -1: damaged, 0: no more. */
static int next_entry(const struct exchange *x, unsigned *i, struct inject *in)
{
	int more;

	while ((more = credential_next(x, i, in)) > 0)
		if (in->kind == INJECT_PLACEHOLDER && (in->places & PLACE_WEBSOCKET))
			return 1;
	return more;
}

bool messages_fill_any(const struct exchange *x)
{
	struct inject in;

	for (unsigned i = 0; next_entry(x, &i, &in) > 0;)
		return true;
	return false;
}

static bool filled_here(const struct exchange *x, const struct placeholder *p)
{
	struct inject in;

	for (unsigned i = 0; next_entry(x, &i, &in) > 0;)
		if (str_eq(in.secret_name, p->secret))
			return true;
	return false;
}

static void want_none(struct messages *m)
{
	m->wants = false;
	memset(m->wanted, 0, sizeof(m->wanted));
}

struct seen {
	struct exchange *x;
	bool control, deny;
};

static void refuse(struct messages *m, enum refusal_code code, uint16_t close, struct str secret, const char *why, struct str more)
{
	m->code = code;
	m->close = close;
	snprintf(m->reason, sizeof(m->reason), "%.*s%s%.*s", (int)(secret.n > 63 ? 63 : secret.n), secret.p, why, (int)(more.n > 120 ? 120 : more.n), more.n ? more.p : "");
}

static void on_hit(void *arg, const struct placeholder_hit *h)
{
	struct seen *s = arg;
	struct messages *m = &s->x->ws->messages;
	const struct placeholder *p = placeholders_at(m->set, h->which);

	if (h->plain && !s->control && filled_here(s->x, p)) {
		m->wants = true;
		m->wanted[h->which / 8] |= (uint8_t)(1u << h->which % 8);
		return;
	}
	if (p->body_deny && !s->deny) {
		s->deny = true;
		refuse(m, REFUSAL_PLACEHOLDER_MISUSE, WS_CLOSE_POLICY, p->secret, s->control ? " in a control frame" : " in a message", STR_NONE);
	}
	if (m->told[h->which / 8] & 1u << h->which % 8)
		return;
	m->told[h->which / 8] |= (uint8_t)(1u << h->which % 8);
	credential_tell(s->x, p, s->control ? "control frame of a WebSocket" : "message of a WebSocket", p->body_deny);
}

bool message_look(void *arg, struct str octets, bool begins, bool control)
{
	struct exchange *x = arg;
	struct messages *m = &x->ws->messages;
	struct seen s = { .x = x, .control = control };

	if (x->finished) /* meanwhile, by what went out before it */
		return false;
	if (begins || m->set == NULL) {
		m->set = x->host->placeholders(x->host_arg);
		m->watch = (struct placeholder_watch){ 0 };
		want_none(m);
	}
	if (placeholders_count(m->set) == 0)
		return true;
	if (control) /* apart from the message that it may stand within */
		placeholders_find(m->set, octets, on_hit, &s);
	else
		placeholder_watch_feed(&m->watch, m->set, octets, on_hit, &s);
	return !s.deny;
}

/* An object, an array or a text, also behind the number that Socket.IO and its like put before it. */
static bool begins_json(struct str s)
{
	size_t i = 0;

	while (i < s.n && (s.p[i] == ' ' || s.p[i] == '\t' || s.p[i] == '\r' || s.p[i] == '\n' || (s.p[i] >= '0' && s.p[i] <= '9')))
		i++;
	return i < s.n && (s.p[i] == '{' || s.p[i] == '[' || s.p[i] == '"');
}

struct values { /* room for those of all placeholders: none is left out, or it would go out as it is */
	struct placeholder_value *v;
	size_t *end;
	unsigned n;
	struct buf mem; /* one behind the other; wiped when they are in */
};

static void values_fini(struct values *v)
{
	buf_fini_secret(&v->mem);
	free(v->v);
	free(v->end);
}

static bool has_value(const struct values *v, unsigned which)
{
	for (unsigned i = 0; i < v->n; i++)
		if (v->v[i].which == which)
			return true;
	return false;
}

/* Of one entry, for each placeholder of its secret. */
static void add_values(struct exchange *x, struct values *to, const struct inject *in, struct str value, bool json)
{
	const struct placeholders *set = x->ws->messages.set;

	for (unsigned k = 0; k < placeholders_count(set); k++) {
		if (!str_eq(placeholders_at(set, k)->secret, in->secret_name) || has_value(to, k))
			continue;
		placeholder_encode(&to->mem, value, json ? PLACEHOLDER_JSON : PLACEHOLDER_RAW);
		to->v[to->n].which = k;
		to->end[to->n++] = buf_len(&to->mem);
	}
}

static bool is_wanted(const struct messages *m, const struct inject *in)
{
	for (size_t k = 0; k < placeholders_count(m->set); k++)
		if ((m->wanted[k / 8] & 1u << k % 8) && str_eq(placeholders_at(m->set, k)->secret, in->secret_name))
			return true;
	return false;
}

/* Of those that stand there, and all of them are asked for at once. */
static enum frames_filled have_values(struct exchange *x, struct values *to, bool text)
{
	struct messages *m = &x->ws->messages;
	struct str value, cause;
	struct inject in;
	bool wait = false;
	int more;

	if (m->old) {
		refuse(m, REFUSAL_CREDENTIAL_UNAVAILABLE, WS_CLOSE_RESTART, STR("policy_changed"), "", STR_NONE);
		return FRAMES_REFUSED;
	}
	to->v = must_calloc(placeholders_count(m->set) + 1, sizeof(*to->v));
	to->end = must_calloc(placeholders_count(m->set) + 1, sizeof(*to->end));
	for (unsigned i = 0; (more = next_entry(x, &i, &in)) > 0;) {
		if (!is_wanted(m, &in))
			continue;
		switch (x->host->secret(x->host_arg, x, &x->dest, &in, &value, &cause)) {
		case SECRET_READY:
			break;
		case SECRET_WAIT:
			wait = true;
			continue;
		default:
			refuse(m, REFUSAL_CREDENTIAL_UNAVAILABLE, WS_CLOSE_AGAIN, in.secret_name, ": ", cause);
			return FRAMES_REFUSED;
		}
		if (text && !ws_is_utf8(value)) {
			refuse(m, REFUSAL_CREDENTIAL_UNAVAILABLE, WS_CLOSE_POLICY, in.secret_name, ": the value is not UTF-8, and cannot stand in a text message", STR_NONE);
			return FRAMES_REFUSED;
		}
		add_values(x, to, &in, value, text && m->json);
	}
	if (more < 0) {
		refuse(m, REFUSAL_NO_POLICY, WS_CLOSE_AGAIN, STR("the policy could not be read"), "", STR_NONE);
		return FRAMES_REFUSED;
	}
	for (size_t i = 0, at = 0; i < to->n; at = to->end[i++])
		to->v[i].text = str_mk(buf_data(&to->mem) + at, to->end[i] - at);
	return wait ? FRAMES_WAIT : FRAMES_FILLED;
}

enum frames_filled message_fill(void *arg, const struct frames_unit *unit, struct buf *out)
{
	struct exchange *x = arg;
	struct messages *m = &x->ws->messages;
	enum frames_filled r = FRAMES_FILLED;
	struct values values = { 0 };

	if (unit->first) {
		if (unit->octets.n == 0) /* nothing was looked at */
			m->set = x->host->placeholders(x->host_arg);
		placeholder_fill_fini(&m->fill);
		placeholder_fill_init(&m->fill, m->set, NULL, 0);
		m->json = begins_json(unit->octets);
	}
	if (m->wants)
		r = have_values(x, &values, unit->text);
	if (r == FRAMES_FILLED && placeholders_count(m->set) == 0) {
		buf_adds(out, unit->octets);
	} else if (r == FRAMES_FILLED) {
		want_none(m);
		m->fill.v = values.v;
		m->fill.n = values.n;
		placeholder_fill_feed(&m->fill, unit->octets, out);
		m->fill.v = NULL;
		m->fill.n = 0;
		if (unit->last)
			placeholder_fill_end(&m->fill, out);
	}
	values_fini(&values);
	return r;
}
