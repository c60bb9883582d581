/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. A placeholder is no secret, but where it goes tells what the sandbox tries: sent to where its secret is
 * not bound, or in a place where it is not filled, it ends the request (in content it is told, and ends it only if the
 * secret says so). Where it is bound and declared it stays until the upstream is verified; then the head is made: what the
 * sandbox sent in places of credentials goes, placeholders are filled, entries are injected, a signature comes last.
 *
 * The head is made from a copy of what the client sent, so that a second try of the request makes it anew.
 */
#include "credential.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../common/base/must.h"
#include "../../common/msg.h"
#include "../../common/sys/clock.h"
#include "hmac.h"
#include "inject.h"
#include "sigv4.h"

#define SIGNATURE_AGE_MS 60000 /* origins take a time that is a few minutes old */
#define CONTENT_MISUSE "the content carries the placeholder of a secret whose policy does not let it go there"

/*
 * A signature is made by another role, over the head as it is sent: NONE -> ASKED -> HAVE, and then, when the head is made
 * once more from the same values, it is the same message. One that went out is not used again.
 */
enum signature_state { SIGNATURE_NONE = 0, SIGNATURE_ASKED, SIGNATURE_HAVE, SIGNATURE_FAILED };
struct signature {
	enum signature_state state;
	bool begun, sent;
	uint64_t wall_ms;
	char nonce[HMAC_NONCE_LEN + 1], of[65]; /* hash of the message */
	char text[200];			      /* the signature, or the cause */
};
struct credential {
	struct signature signatures[INJECT_HMAC_MAX];
	struct http_field *sent; /* the client's fields: a copy in the exchange's arena */
	unsigned sent_n;
	enum http_framing sent_framing;
	uint64_t sent_length;
	struct str sent_target;
	bool watching, filling;
	struct placeholder_watch watch;
	struct placeholder_fill fill;
	struct placeholder_value *values; /* in the arena, room for all: for the content */
	unsigned value_n;
	struct buf mem, out; /* of values; content on its way */
	uint8_t told[PLACEHOLDERS_MAX / 8]; /* findings in the content */
	bool ended;
};

static struct credential *state_of(struct exchange *x)
{
	if (x->credential == NULL)
		x->credential = must_calloc(1, sizeof(*x->credential));
	return x->credential;
}

void credential_free(struct exchange *x)
{
	struct credential *c = x->credential;

	if (c == NULL)
		return;
	placeholder_fill_fini(&c->fill);
	buf_fini_secret(&c->mem);
	buf_fini_secret(&c->out);
	free(c);
	x->credential = NULL;
}

int credential_next(const struct exchange *x, unsigned *i, struct inject *in)
{
	unsigned n = x->has_dest && x->dest.has_inject && !x->observed ? dest_inject_count(&x->dest) : 0; /* what no rule allows gets no credential */

	while (*i < n) {
		if (!dest_inject(&x->dest, (*i)++, in))
			return -1;
		if (inject_when(in, x->decision.rule))
			return 1;
	}
	return 0;
}

bool credential_goes_there(const struct exchange *x)
{
	struct inject in;

	/* whether this request gets one or not: what the origin was sent with another it may have kept */
	for (unsigned i = 0, n = x->has_dest && x->dest.has_inject ? dest_inject_count(&x->dest) : 0; i < n; i++)
		if (!dest_inject(&x->dest, i, &in) || (in.kind != INJECT_SIGV4 && !inject_signs(in.kind)))
			return true;
	return false;
}

static const struct placeholders *set_of(const struct exchange *x) { return x->host->placeholders(x->host_arg); }

/* --- the tripwire -------------------------------------------------------------------------------------------------- */

struct trip {
	struct exchange *x;
	const struct placeholders *set;
	const struct placeholder *p; /* the first that is wrong */
	unsigned places;             /* where it would be right to stand exactly: enum inject_place, 0: nowhere */
	bool credentials;            /* or in any form, of a secret that is bound here, if the field is a place of credentials */
	bool decided;                /* the rule counts */
	struct str field;            /* whose value is looked at */
};

static void on_trip(void *arg, const struct placeholder_hit *h)
{
	struct trip *t = arg;
	const struct placeholder *p = placeholders_at(t->set, h->which);
	struct inject in;

	for (unsigned i = 0; t->x->has_dest && t->x->dest.has_inject && dest_inject(&t->x->dest, i, &in); i++) {
		if (!str_eq(in.secret_name, p->secret) || (t->decided && !inject_when(&in, t->x->decision.rule)))
			continue;
		if ((t->credentials && inject_is_place(&t->x->dest, t->field)) || (h->exact && in.kind == INJECT_PLACEHOLDER && (in.places & t->places)))
			return;
	}
	if (t->p == NULL)
		t->p = p;
}

void credential_tell(struct exchange *x, const struct placeholder *p, const char *where, bool deny)
{
	struct buf b = { 0 }, text = { 0 };

	buf_addf(&text, "the placeholder of the secret %.*s stands in the %s", (int)p->secret.n, p->secret.p, where);
	record_s(&b, REC_KIND, STR("finding"));
	record_s(&b, REC_DECISION, deny ? STR("deny") : STR("allow"));
	record_s(&b, REC_CODE, STR("placeholder_misuse"));
	record_s(&b, REC_METHOD, x->req.method);
	record_s(&b, REC_HOST, str_mk(x->chost.text, x->chost.len));
	record_u(&b, REC_PORT, x->port);
	record_s(&b, REC_SECRET, p->secret);
	record_s(&b, REC_MESSAGE, buf_str(&text));
	record_s(&b, REC_REQUEST_ID, str_of(x->request_id));
	record_u(&b, REC_TIME_MS, clock_wall_ms());
	x->host->event(x->host_arg, &b);
	if (deny)
		x->host->misuse(x->host_arg, p->secret);
	buf_fini(&b);
	buf_fini(&text);
}

static void tripped(struct exchange *x, const struct placeholder *p, const char *where)
{
	char text[400];

	credential_tell(x, p, where, true);
	snprintf(x->reason, sizeof(x->reason), "%.*s in the %s", (int)(p->secret.n > 63 ? 63 : p->secret.n), p->secret.p, where);
	snprintf(text, sizeof(text), "the request carries the placeholder of the secret %.*s in the %s, where it is not filled; it goes only where the policy of this sandbox puts it", (int)(p->secret.n > 63 ? 63 : p->secret.n), p->secret.p, where);
	exchange_refuse(x, REFUSAL_PLACEHOLDER_MISUSE, text);
}

/* where: NULL for the value of a field. */
static bool look(struct trip *t, struct str text, unsigned places, bool credentials, const char *where)
{
	char field[80];

	t->places = places;
	t->credentials = credentials;
	placeholders_find(t->set, text, on_trip, t);
	if (t->p == NULL)
		return true;
	if (where == NULL) {
		snprintf(field, sizeof(field), "field %.*s", (int)(t->field.n > 60 ? 60 : t->field.n), t->field.p);
		where = field;
	}
	tripped(t->x, t->p, where);
	return false;
}

/* A name may carry it in several labels. */
static bool look_host(struct trip *t)
{
	char joined[CANON_HOST_MAX + 1];
	size_t n = 0;

	for (size_t i = 0; i < t->x->chost.len; i++)
		if (t->x->chost.text[i] != '.')
			joined[n++] = t->x->chost.text[i];
	return look(t, str_mk(t->x->chost.text, t->x->chost.len), 0, false, "host") && look(t, str_mk(joined, n), 0, false, "host");
}

/* Keys that are injected, or are places of credentials, may hold what they stand for: it is taken out. */
static struct str query_rest(struct exchange *x)
{
	struct str q = x->req.query, place;
	struct inject in;

	for (unsigned i = 0; x->has_dest && x->dest.has_inject && dest_inject(&x->dest, i, &in); i++)
		if (in.kind == INJECT_QUERY)
			q = inject_query_without(&x->arena, q, in.name);
	for (unsigned i = 0; x->has_dest && x->dest.has_inject && dest_place(&x->dest, i, &place); i++)
		if (place.p[0] == '?')
			q = inject_query_without(&x->arena, q, str_mk(place.p + 1, place.n - 1));
	return q;
}

static bool look_all(struct exchange *x, bool decided)
{
	struct trip t = { .x = x, .set = set_of(x), .decided = decided };

	if (placeholders_count(t.set) == 0)
		return true;
	if (!look_host(&t) || !look(&t, x->req.method, 0, false, "method") || !look(&t, x->req.path, PLACE_PATH, false, "path") || (x->req.has_query && !look(&t, query_rest(x), PLACE_QUERY, false, "query")))
		return false;
	for (unsigned i = 0; i < x->req.fields.n; i++) {
		struct http_field *f = &x->req.fields.f[i];

		if (f->drop)
			continue;
		t.field = f->name;
		if (!look(&t, f->name, 0, false, "name of a field") || !look(&t, f->value, 0, true, NULL))
			return false;
	}
	return true;
}

bool credential_trip(struct exchange *x) { return look_all(x, false); }

/* --- what the decision needs --------------------------------------------------------------------------------------- */

/* The field holds just a placeholder of this destination, as a client puts it there. */
static bool own(struct exchange *x, struct str value)
{
	const struct placeholders *set = set_of(x);
	struct inject in;

	for (size_t k = 0; k < placeholders_count(set); k++)
		for (unsigned i = 0; dest_inject(&x->dest, i, &in); i++)
			if (str_eq(in.secret_name, placeholders_at(set, k)->secret) && inject_is_own(&x->arena, value, placeholders_at(set, k)->text))
				return true;
	return false;
}

static bool foreign(struct exchange *x, struct str *where)
{
	for (unsigned i = 0; i < x->req.fields.n; i++) {
		struct http_field *f = &x->req.fields.f[i];

		if (f->drop || f->value.n == 0 || !inject_is_place(&x->dest, f->name) || own(x, f->value))
			continue;
		*where = f->name;
		return true;
	}
	for (unsigned i = 0; dest_place(&x->dest, i, where); i++) {
		struct str key = str_mk(where->p + 1, where->n - 1);

		if (where->p[0] == '?' && inject_query_has(x->req.query, key))
			return true;
	}
	return false;
}

bool credential_allowed(struct exchange *x)
{
	const char *why = NULL;
	struct str where;
	struct inject in;
	bool when = false;
	int more;

	if (!x->dest.has_inject)
		return true;
	if (x->dest.foreign == FOREIGN_REFUSE && foreign(x, &where)) {
		snprintf(x->reason, sizeof(x->reason), "%.*s", (int)(where.n > 100 ? 100 : where.n), where.p);
		exchange_refuse(x, REFUSAL_FOREIGN_CREDENTIAL, "the request carries a credential of its own; this destination takes only those that the policy of this sandbox puts there");
		return false;
	}
	for (unsigned i = 0; (more = credential_next(x, &i, &in)) > 0;)
		if (in.kind == INJECT_SIGV4 && why == NULL)
			why = sigv4_unsignable(&x->req);
	if (more < 0) {
		exchange_refuse(x, REFUSAL_NO_POLICY, "the policy in force could not be read");
		return false;
	}
	if (why != NULL) {
		snprintf(x->reason, sizeof(x->reason), "%s", why);
		exchange_refuse(x, REFUSAL_POLICY_DENIED, "the request is presigned, or signed in pieces or by SigV4A: it cannot be signed anew; sign it in the Authorization field with an unsigned or hashed payload");
		return false;
	}
	for (unsigned i = 0; dest_inject(&x->dest, i, &in); i++)
		when = when || in.when.n > 0;
	return !when || look_all(x, true);
}

static bool starts(struct str type, const char *what)
{
	size_t n = strlen(what);

	return type.n >= n && str_ieq(str_mk(type.p, n), str_of(what)) && (type.n == n || type.p[n] == ';' || type.p[n] == ' ' || what[n - 1] == '/');
}

/* What the content is, if placeholders may be filled in it; 0: nothing of that kind, or compressed. */
static unsigned content_place(struct exchange *x)
{
	struct http_field *t = http_fields_find(&x->req.fields, HF_CONTENT_TYPE), *e = http_fields_find(&x->req.fields, HF_CONTENT_ENCODING);
	struct str type;
	size_t n = 0;

	if (t == NULL || (e != NULL && !str_ieq(e->value, STR("identity"))))
		return 0;
	type = t->value;
	while (n < type.n && type.p[n] != ';' && type.p[n] != ' ')
		n++;
	if (starts(type, "application/json") || starts(type, "application/x-ndjson") || (n > 5 && str_ieq(str_mk(type.p + n - 5, 5), STR("+json"))))
		return PLACE_JSON;
	if (starts(type, "application/x-www-form-urlencoded"))
		return PLACE_FORM;
	if (starts(type, "text/") || starts(type, "multipart/form-data") || starts(type, "application/xml") || starts(type, "application/graphql") || starts(type, "application/yaml") || (n > 4 && str_ieq(str_mk(type.p + n - 4, 4), STR("+xml"))))
		return PLACE_TEXT;
	return 0;
}

bool credential_wants_content(struct exchange *x)
{
	bool content = x->req.framing == HTTP_BODY_CHUNKED || (x->req.framing == HTTP_BODY_LENGTH && x->req.content_length > 0);
	struct str hash;
	struct inject in;
	bool wants = false;

	if (!x->dest.has_inject || !content || x->request_ended)
		return false;
	for (unsigned i = 0; credential_next(x, &i, &in) > 0;) {
		/* a length that was told stays one, as long as the content is not too long to wait for */
		if (in.kind == INJECT_PLACEHOLDER && (in.places & content_place(x)) && x->req.framing == HTTP_BODY_LENGTH && x->req.content_length <= CREDENTIAL_CONTENT_MAX)
			wants = true;
		wants = wants || (in.kind == INJECT_HMAC && hmac_signs_content(&in));
		wants = wants || (in.kind == INJECT_SIGV4 && !sigv4_payload_known(&x->req, &hash));
	}
	return wants;
}

/* --- the head ------------------------------------------------------------------------------------------------------ */

/* Room for the values of all: none is left out, or it would go out as it is. */
static struct placeholder_value *values_room(struct exchange *x) { return arena_alloc(&x->arena, placeholders_count(set_of(x)) * sizeof(struct placeholder_value)); }

static bool has_value(const struct placeholder_value *v, unsigned n, unsigned which)
{
	for (unsigned i = 0; i < n; i++)
		if (v[i].which == which)
			return true;
	return false;
}

/* What is filled where one encoding holds: for each placeholder of the entry's secret its value, behind the n that there are. */
static unsigned values_for(struct exchange *x, const struct inject *in, struct str value, enum placeholder_encoding e, struct placeholder_value *v, unsigned n, struct buf *mem)
{
	const struct placeholders *set = set_of(x);
	struct str text;

	for (unsigned k = 0; k < placeholders_count(set); k++) {
		if (!str_eq(placeholders_at(set, k)->secret, in->secret_name) || has_value(v, n, k))
			continue;
		buf_clear(mem);
		placeholder_encode(mem, value, e);
		text = arena_str(&x->arena, buf_str(mem));
		v[n++] = (struct placeholder_value){ k, text };
	}
	return n;
}

/* Whole texts. The text itself if nothing was filled. */
static struct str filled(struct exchange *x, const struct inject *in, struct str value, enum placeholder_encoding e, struct str text, bool *any)
{
	struct credential *c = x->credential;
	struct placeholder_value *v;
	struct placeholder_fill f;
	struct buf out = { 0 };
	unsigned n;

	if (text.n == 0)
		return text;
	v = values_room(x);
	n = values_for(x, in, value, e, v, 0, &c->mem);
	if (n == 0)
		return text;
	placeholder_fill_init(&f, set_of(x), v, n);
	placeholder_fill_feed(&f, text, &out);
	*any = f.filled > 0;
	placeholder_fill_end(&f, &out);
	if (*any)
		text = arena_str(&x->arena, buf_str(&out));
	buf_fini_secret(&out);
	return text;
}

/*
 * Whether a place of credentials holds nothing beside this entry's placeholder: what the sandbox might add to it would go along.
 * A field that the entry names has its own form, and cookies stand together.
 */
static bool alone(struct exchange *x, const struct inject *in, const struct http_field *f)
{
	const struct placeholders *set = set_of(x);

	if (in->name.n > 0 || f->fid == HF_COOKIE)
		return true;
	for (size_t k = 0; k < placeholders_count(set); k++)
		if (str_eq(placeholders_at(set, k)->secret, in->secret_name) && inject_is_own(&x->arena, f->value, placeholders_at(set, k)->text))
			return true;
	return false;
}

static void fill_fields(struct exchange *x, const struct inject *in, struct str value)
{
	for (unsigned i = 0; i < x->req.fields.n; i++) {
		struct http_field *f = &x->req.fields.f[i];
		struct str plain = STR_NONE;
		bool any = false;

		if (f->drop)
			continue;
		if ((in->places & PLACE_BASIC) && f->fid == HF_AUTHORIZATION && (plain = inject_basic_plain(&x->arena, f->value)).n > 0) {
			plain = filled(x, in, value, PLACEHOLDER_RAW, plain, &any);
			if (any)
				f->value = inject_basic_value(&x->arena, plain);
		} else if ((in->places & PLACE_HEADER) && (in->name.n > 0 ? str_ieq(f->name, in->name) : inject_is_place(&x->dest, f->name)) && alone(x, in, f)) {
			f->value = filled(x, in, value, PLACEHOLDER_RAW, f->value, &any);
		}
		f->secret = f->secret || any;
	}
}

/* Places of credentials that hold nothing of ours are emptied, unless the destination says that they pass. */
static void drop_foreign(struct exchange *x)
{
	for (unsigned i = 0; i < x->req.fields.n; i++) {
		struct http_field *f = &x->req.fields.f[i];

		if (!f->secret && inject_is_place(&x->dest, f->name) && x->dest.foreign != FOREIGN_PASS)
			f->drop = true;
	}
}

struct target {
	struct str path, query;
	bool changed;
};

static void fill_target(struct exchange *x, const struct inject *in, struct str value, struct target *t)
{
	bool any = false;

	if (in->places & PLACE_PATH)
		t->path = filled(x, in, value, in->slashes_keep ? PLACEHOLDER_PATH : PLACEHOLDER_PERCENT, t->path, &any);
	t->changed = t->changed || any;
	any = false;
	if (in->places & PLACE_QUERY)
		t->query = filled(x, in, value, PLACEHOLDER_PERCENT, t->query, &any);
	t->changed = t->changed || any;
}

static void drop_query_places(struct exchange *x, struct target *t)
{
	struct str place;

	if (x->dest.foreign == FOREIGN_PASS || t->query.n == 0)
		return;
	for (unsigned i = 0; dest_place(&x->dest, i, &place); i++) {
		struct str key = str_mk(place.p + 1, place.n - 1);

		if (place.p[0] != '?' || !inject_query_has(t->query, key))
			continue;
		t->query = inject_query_without(&x->arena, t->query, key);
		t->changed = true;
	}
}

static void put_target(struct exchange *x, const struct target *t)
{
	struct buf b = { 0 };

	if (!t->changed)
		return;
	buf_adds(&b, t->path);
	if (t->query.n > 0) {
		buf_addc(&b, '?');
		buf_adds(&b, t->query);
	}
	x->target_wire = arena_str(&x->arena, buf_str(&b));
	x->req.secret_target = true;
	buf_fini_secret(&b);
}

/* As the client sent it: the first time it is kept, then restored. */
static void original_head(struct exchange *x)
{
	struct credential *c = x->credential;
	struct http_fields *fs = &x->req.fields;

	if (c->sent == NULL) {
		c->sent_n = fs->n;
		c->sent = arena_alloc(&x->arena, (fs->n + 1ul) * sizeof(*c->sent));
		memcpy(c->sent, fs->f, fs->n * sizeof(*c->sent));
		c->sent_framing = x->req.framing;
		c->sent_length = x->req.content_length;
		c->sent_target = x->target_wire;
		return;
	}
	fs->n = c->sent_n;
	memcpy(fs->f, c->sent, fs->n * sizeof(*c->sent));
	x->req.framing = c->sent_framing;
	x->req.content_length = c->sent_length;
	x->target_wire = c->sent_target;
}

static bool sign(struct exchange *x, const struct inject *in, struct str value, struct str host)
{
	struct sigv4_key k;
	char text[65];
	struct str hash;

	if (!sigv4_key_read(value, &k))
		return false;
	if (!sigv4_payload_known(&x->req, &hash)) {
		sigv4_hash(buf_data(&x->content_held), buf_len(&x->content_held), text);
		hash = str_of(text);
	}
	return sigv4_sign(&x->arena, &x->req, host, x->target_wire, hash, &k, in->region, in->service, clock_wall_ms() / 1000);
}

/* --- hmac ---------------------------------------------------------------------------------------------------------- */

static void begin_signature(struct signature *g)
{
	static const char hex[] = "0123456789abcdef";
	uint8_t r[HMAC_NONCE_LEN / 2];

	if (g->begun && !g->sent && clock_wall_ms() - g->wall_ms < SIGNATURE_AGE_MS)
		return;
	random_fill(r, sizeof(r));
	for (unsigned i = 0; i < sizeof(r); i++) {
		g->nonce[2 * i] = hex[r[i] >> 4];
		g->nonce[2 * i + 1] = hex[r[i] & 15];
	}
	g->begun = true;
	g->sent = false;
	g->state = SIGNATURE_NONE;
	g->wall_ms = clock_wall_ms();
}

static enum secret_state sign_one(struct exchange *x, struct signature *g, const struct inject *in, unsigned number, struct str host, struct str *cause)
{
	struct hmac_facts f = { .r = &x->req, .host = host, .target = x->target_wire, .body = buf_str(&x->content_held) };
	struct buf message = { 0 };
	char of[65];

	*cause = STR("the request could not be signed");
	begin_signature(g);
	f.wall_ms = g->wall_ms;
	f.nonce = g->nonce;
	if (!hmac_prepare(&x->arena, in, &f))
		return SECRET_UNAVAILABLE;
	hmac_message(&message, in, &f);
	if (buf_len(&message) > MSG_SIGN_MAX) {
		buf_fini_secret(&message);
		return SECRET_UNAVAILABLE;
	}
	sigv4_hash(buf_data(&message), buf_len(&message), of);
	if (g->state == SIGNATURE_HAVE && memcmp(of, g->of, sizeof(of)) == 0) {
		buf_fini_secret(&message);
		return hmac_apply(&x->arena, in, &f, str_of(g->text)) ? SECRET_READY : SECRET_UNAVAILABLE;
	}
	if (g->state == SIGNATURE_FAILED) {
		buf_fini_secret(&message);
		*cause = str_of(g->text);
		return SECRET_UNAVAILABLE;
	}
	if (g->state == SIGNATURE_ASKED) { /* the head is not made while one is under way */
		buf_fini_secret(&message);
		return SECRET_UNAVAILABLE;
	}
	memcpy(g->of, of, sizeof(of));
	g->state = SIGNATURE_ASKED;
	if (x->host->sign(x->host_arg, x, number, &message, cause))
		return SECRET_WAIT;
	buf_fini_secret(&message);
	return SECRET_UNAVAILABLE;
}

/* All of them are asked for at once. */
static enum secret_state sign_all(struct exchange *x, struct str host, struct str *cause)
{
	enum secret_state all = SECRET_READY, s;
	struct inject in;
	unsigned n = 0;

	for (unsigned i = 0; credential_next(x, &i, &in) > 0;) {
		if (in.kind != INJECT_HMAC)
			continue;
		s = n < INJECT_HMAC_MAX ? sign_one(x, &x->credential->signatures[n++], &in, i - 1, host, cause) : SECRET_UNAVAILABLE;
		if (s == SECRET_UNAVAILABLE)
			return s;
		all = s == SECRET_WAIT ? s : all;
	}
	for (unsigned i = 0; i < n && all == SECRET_READY; i++)
		x->credential->signatures[i].sent = true;
	return all;
}

bool credential_signing(const struct exchange *x)
{
	for (unsigned i = 0; x->credential != NULL && i < INJECT_HMAC_MAX; i++)
		if (x->credential->signatures[i].state == SIGNATURE_ASKED)
			return true;
	return false;
}

bool credential_signed(struct exchange *x, unsigned inject, bool ok, struct str text)
{
	bool waits = false;
	struct inject in;
	unsigned n = 0;

	for (unsigned i = 0; x->credential != NULL && n < INJECT_HMAC_MAX && credential_next(x, &i, &in) > 0;) {
		struct signature *g = &x->credential->signatures[n];

		if (in.kind != INJECT_HMAC)
			continue;
		n++;
		if (i - 1 == inject && g->state == SIGNATURE_ASKED) {
			g->state = ok ? SIGNATURE_HAVE : SIGNATURE_FAILED;
			if (ok)
				snprintf(g->text, sizeof(g->text), "%.*s", (int)text.n, text.p);
			else
				snprintf(g->text, sizeof(g->text), "%.*s: %.*s", (int)in.secret_name.n, in.secret_name.p, (int)text.n, text.p);
		}
		waits = waits || g->state == SIGNATURE_ASKED;
	}
	return !waits;
}

/* --- content ------------------------------------------------------------------------------------------------------- */

static enum placeholder_encoding content_encoding(unsigned place)
{
	return place == PLACE_JSON ? PLACEHOLDER_JSON : place == PLACE_FORM ? PLACEHOLDER_PERCENT : PLACEHOLDER_RAW;
}

struct found_in_content {
	struct exchange *x;
	bool deny;
};

static void on_content(void *arg, const struct placeholder_hit *h)
{
	struct found_in_content *f = arg;
	struct credential *c = f->x->credential;
	const struct placeholder *p = placeholders_at(set_of(f->x), h->which);

	for (unsigned i = 0; h->plain && i < c->value_n; i++)
		if (c->values[i].which == h->which)
			return; /* it is filled there */
	f->deny = f->deny || p->body_deny;
	if (c->told[h->which / 8] & 1u << h->which % 8)
		return;
	c->told[h->which / 8] |= (uint8_t)(1u << h->which % 8);
	credential_tell(f->x, p, "content", p->body_deny);
}

/* False: it must not go on. */
static bool watched(struct exchange *x, const uint8_t *p, size_t n)
{
	struct found_in_content f = { .x = x };

	if (x->credential != NULL && x->credential->watching)
		placeholder_watch_feed(&x->credential->watch, set_of(x), str_mk(p, n), on_content, &f);
	return !f.deny;
}

/* What is there already is filled and has a length; what is still to come gets one only if none was told. */
static void begin_content(struct exchange *x)
{
	struct credential *c = x->credential;
	struct buf out = { 0 };

	placeholder_fill_fini(&c->fill);
	placeholder_fill_init(&c->fill, set_of(x), c->values, c->value_n);
	c->filling = c->value_n > 0;
	if (!c->filling || x->req.framing == HTTP_BODY_NONE)
		return;
	if (!x->request_ended) {
		x->req.framing = HTTP_BODY_CHUNKED;
		return;
	}
	placeholder_fill_feed(&c->fill, buf_str(&x->content_held), &out);
	placeholder_fill_end(&c->fill, &out);
	buf_fini_secret(&x->content_held);
	x->content_held = out;
	x->req.framing = HTTP_BODY_LENGTH;
	x->req.content_length = buf_len(&out);
	c->filling = false;
}

/* Content that is all there is looked at before it is filled. */
static bool held_watched(struct exchange *x, struct str *cause, enum refusal_code *code)
{
	if (!x->request_ended || watched(x, buf_data(&x->content_held), buf_len(&x->content_held)))
		return true;
	*cause = STR(CONTENT_MISUSE);
	*code = REFUSAL_PLACEHOLDER_MISUSE;
	return false;
}

enum secret_state credential_head(struct exchange *x, struct str host, struct str *cause, enum refusal_code *code)
{
	struct target t = { .query = x->req.has_query ? x->req.query : STR_NONE };
	struct inject in, signer = { 0 };
	struct str value, signer_value = STR_NONE;
	enum secret_state s;
	struct credential *c;
	unsigned place = content_place(x);
	int more;

	*cause = STR_NONE;
	*code = REFUSAL_CREDENTIAL_UNAVAILABLE;
	x->secret_n = 0;
	if (placeholders_count(set_of(x)) > 0)
		state_of(x)->watching = true;
	if (!x->dest.has_inject)
		return held_watched(x, cause, code) ? SECRET_READY : SECRET_UNAVAILABLE;
	c = state_of(x);
	original_head(x);
	c->values = NULL;
	c->value_n = 0;
	t.path = x->req.has_query ? str_mk(x->target_wire.p, x->target_wire.n - x->req.query.n - 1) : x->target_wire;
	for (unsigned i = 0; (more = credential_next(x, &i, &in)) > 0;) { /* what stands where the client put it, before all else there is dropped */
		if (in.kind != INJECT_PLACEHOLDER)
			continue;
		s = x->host->secret(x->host_arg, x, &x->dest, &in, &value, cause);
		if (s != SECRET_READY)
			return s;
		fill_fields(x, &in, value);
		fill_target(x, &in, value, &t);
		if ((in.places & place) && c->values == NULL)
			c->values = values_room(x);
		if (in.places & place)
			c->value_n = values_for(x, &in, value, content_encoding(place), c->values, c->value_n, &c->mem);
	}
	drop_foreign(x);
	drop_query_places(x, &t);
	for (unsigned i = 0; more >= 0 && (more = credential_next(x, &i, &in)) > 0;) {
		if (x->secret_n < sizeof(x->secret_names) / sizeof(x->secret_names[0]))
			x->secret_names[x->secret_n++] = in.secret_name;
		if (in.kind == INJECT_PLACEHOLDER || inject_signs(in.kind))
			continue;
		s = x->host->secret(x->host_arg, x, &x->dest, &in, &value, cause);
		if (s != SECRET_READY)
			return s;
		if (in.kind == INJECT_QUERY) {
			t.query = inject_query_with(&x->arena, inject_query_without(&x->arena, t.query, in.name), in.name, value);
			t.changed = true;
		} else if (in.kind == INJECT_SIGV4) {
			signer = in;
			signer_value = value;
		} else if (!inject_apply(&x->arena, &x->req, &in, value)) {
			return SECRET_UNAVAILABLE;
		}
	}
	if (more < 0)
		return SECRET_UNAVAILABLE;
	put_target(x, &t);
	if (!held_watched(x, cause, code))
		return SECRET_UNAVAILABLE;
	begin_content(x);
	if (signer_value.n > 0 && !sign(x, &signer, signer_value, host)) {
		*cause = STR("the request could not be signed");
		return SECRET_UNAVAILABLE;
	}
	return sign_all(x, host, cause);
}

bool credential_content(struct exchange *x, const uint8_t **p, size_t *n)
{
	struct credential *c = x->credential;

	if (c == NULL || *n == 0)
		return true;
	if (!watched(x, *p, *n)) {
		snprintf(x->reason, sizeof(x->reason), "a placeholder in the content");
		exchange_content_refused(x, REFUSAL_PLACEHOLDER_MISUSE, CONTENT_MISUSE);
		return false;
	}
	if (c->filling) {
		explicit_bzero(buf_data(&c->out), buf_len(&c->out));
		buf_clear(&c->out);
		placeholder_fill_feed(&c->fill, str_mk(*p, *n), &c->out);
		*p = buf_data(&c->out);
		*n = buf_len(&c->out);
	}
	return true;
}

void credential_content_end(struct exchange *x, const uint8_t **p, size_t *n)
{
	struct credential *c = x->credential;

	*n = 0;
	if (c == NULL || !c->filling)
		return;
	buf_clear(&c->out);
	placeholder_fill_end(&c->fill, &c->out);
	*p = buf_data(&c->out);
	*n = buf_len(&c->out);
}

void credential_trailer(struct exchange *x, struct http_fields *fs)
{
	struct trip t = { .x = x, .set = set_of(x), .decided = true };

	for (unsigned i = 0; i < fs->n; i++) {
		struct http_field *f = &fs->f[i];

		f->drop = f->drop || f->fid == HF_FORWARDING || f->fid == HF_METHOD_OVERRIDE || inject_is_place(&x->dest, f->name);
		if (f->drop || placeholders_count(t.set) == 0)
			continue;
		placeholders_find(t.set, f->name, on_trip, &t);
		placeholders_find(t.set, f->value, on_trip, &t);
		if (t.p == NULL)
			continue;
		credential_tell(x, t.p, "trailer section", true);
		t.p = NULL;
		f->drop = true;
	}
}
