/* SPDX-License-Identifier: Apache-2.0 */
#include "rotation.h"

#include <openssl/evp.h>
#include <stdlib.h>

#include "../../common/base/buf.h"
#include "../../common/base/must.h"

struct rotation {
	struct rotation *next;
	struct rotations *all;
	uint8_t name[32]; /* hash of end-point, client and first token */
	struct secret *now;
	struct rotation_use *uses, **last; /* whose turn it is, then who waits for it */
};
struct rotations {
	struct rotation *list; /* used last first */
	unsigned n;
};

struct rotations *rotations_new(void) { return must_calloc(1, sizeof(struct rotations)); }

static void free_rotation(struct rotation *o)
{
	secret_free(o->now);
	free(o);
}

void rotations_free(struct rotations *r)
{
	while (r->list != NULL) {
		struct rotation *o = r->list;

		r->list = o->next;
		free_rotation(o);
	}
	free(r);
}

static void name_of(const struct secret_decl *d, const struct secret *first, uint8_t name[32])
{
	struct buf b = { 0 };

	buf_adds(&b, secret_param(&d->params, SECRET_PARAM_URL, 0));
	buf_addc(&b, 0);
	buf_adds(&b, secret_param(&d->params, SECRET_PARAM_CLIENT_ID, 0));
	buf_addc(&b, 0);
	buf_adds(&b, secret_bytes(first));
	MUST(EVP_Digest(buf_data(&b), buf_len(&b), name, NULL, EVP_sha256(), NULL) == 1);
	buf_fini_secret(&b);
}

/* The one of that name, first in the list from now on. */
static struct rotation *find(struct rotations *r, const uint8_t name[32])
{
	struct rotation **p = &r->list, *o, **oldest = NULL;

	for (o = *p; o != NULL && memcmp(o->name, name, 32) != 0; o = *p) {
		if (o->uses == NULL)
			oldest = p;
		p = &o->next;
	}
	if (o != NULL) {
		*p = o->next;
	} else {
		if (r->n >= ROTATIONS_MAX && oldest != NULL) {
			o = *oldest;
			*oldest = o->next;
			free_rotation(o);
			r->n--;
		}
		o = must_calloc(1, sizeof(*o));
		memcpy(o->name, name, 32);
		o->all = r;
		o->last = &o->uses;
		r->n++;
	}
	o->next = r->list;
	r->list = o;
	return o;
}

void rotation_begin(struct rotations *r, struct rotation_use *u, const struct secret_decl *d, const struct secret *first, void (*turn)(struct rotation_use *u))
{
	uint8_t name[32];

	MUST(u->of == NULL);
	name_of(d, first, name);
	u->of = find(r, name);
	u->turn = turn;
	u->next = NULL;
	*u->of->last = u;
	u->of->last = &u->next;
	if (u->of->uses == u)
		turn(u);
}

/* Nobody uses it, and nothing followed it: kept, it would take the place of one that something did follow. */
static void forget(struct rotation *o)
{
	struct rotation **p = &o->all->list;

	while (*p != o)
		p = &(*p)->next;
	*p = o->next;
	o->all->n--;
	free_rotation(o);
}

const struct secret *rotation_now(const struct rotation_use *u) { return u->of->now; }

void rotation_move(struct rotation_use *from, struct rotation_use *to)
{
	struct rotation *o = from->of;

	MUST(o != NULL && o->uses == from);
	*to = *from;
	o->uses = to;
	if (o->last == &from->next)
		o->last = &to->next;
	*from = (struct rotation_use){ 0 };
}

void rotation_end(struct rotation_use *u, const struct secret *next)
{
	struct rotation *o = u->of;
	struct rotation_use **p = o != NULL ? &o->uses : NULL;
	bool had_turn = o != NULL && o->uses == u;

	if (o == NULL)
		return;
	while (*p != u)
		p = &(*p)->next;
	*p = u->next;
	if (o->last == &u->next)
		o->last = p;
	u->of = NULL;
	u->next = NULL;
	if (next != NULL) {
		struct secret *s = secret_new(secret_bytes(next).p, secret_bytes(next).n);

		if (s != NULL) { /* too long: it could not be used */
			secret_free(o->now);
			o->now = s;
		}
	}
	if (o->uses == NULL && o->now == NULL)
		forget(o);
	else if (had_turn && o->uses != NULL)
		o->uses->turn(o->uses);
}
