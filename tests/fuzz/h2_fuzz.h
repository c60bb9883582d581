/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_H2_FUZZ_H
#define SP_H2_FUZZ_H
/*
 * An owner for HTTP/2 sessions under fuzzing. It acts on what the octets in `acts` say, and aborts when the session breaks a
 * promise of h2.h: an event for a dead stream, out of order, content beyond its length, a field that may not be there.
 */
#include <stdlib.h>

#include "common/base/must.h"
#include "proxy/http/h2.h"

enum { FREE = 0, HEAD, FINAL, ENDED };

struct slot { /* a live stream */
	struct h2_stream *st;
	uint8_t state;
	bool fin; /* our final head was sent */
	uint64_t left;
};
#define SLOTS 512

struct owner {
	struct h2 *h;
	bool client, over;
	uint64_t now;
	const uint8_t *acts;
	size_t n, at;
	struct slot slots[SLOTS];
	uint32_t last_id;
};

static struct http_request fz_req;
static struct http_response fz_res;
static struct http_fields fz_fields;

static uint8_t act(struct owner *o) { return o->at < o->n ? o->acts[o->at++] : 0; }

static struct slot *slot_of(struct owner *o, struct h2_stream *st)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (o->slots[i].state != FREE && o->slots[i].st == st)
			return &o->slots[i];
	abort(); /* an event for a stream that is dead */
}

static struct slot *slot_new(struct owner *o, struct h2_stream *st, uint8_t state)
{
	unsigned i = 0;

	while (o->slots[i].state != FREE)
		MUST(++i < SLOTS);
	o->slots[i] = (struct slot){ .st = st, .state = state };
	return &o->slots[i];
}

static void gone(struct slot *x) { x->state = FREE; }

static void fields_ok(const struct http_fields *f)
{
	MUST(f->n <= HTTP_FIELDS_MAX);
	for (unsigned i = 0; i < f->n; i++) {
		MUST(f->f[i].name.n > 0 && f->f[i].name.p[0] != ':');
		for (size_t k = 0; k < f->f[i].name.n; k++)
			MUST((unsigned char)f->f[i].name.p[k] > ' ' && !(f->f[i].name.p[k] >= 'A' && f->f[i].name.p[k] <= 'Z') && f->f[i].name.p[k] != ':');
		for (size_t k = 0; k < f->f[i].value.n; k++)
			MUST(f->f[i].value.p[k] != 0 && f->f[i].value.p[k] != '\r' && f->f[i].value.p[k] != '\n');
		MUST(f->f[i].fid != HF_CONNECTION && f->f[i].fid != HF_TRANSFER_ENCODING && f->f[i].fid != HF_UPGRADE);
	}
}

/* Something the owner may do with a live stream at any time. */
static void do_act(struct owner *o, struct slot *x)
{
	static const uint8_t body[20000];
	struct h2_stream *st = x->st;
	uint8_t c = act(o);

	fz_res.status = c & 64 ? 200 : 103;
	fz_res.has_length = c & 128;
	fz_res.fields.n = fz_fields.n = 0;
	if (c & 32) {
		http_fields_add(&fz_res.fields, STR("x-a"), STR("b"), HF_OTHER);
		http_fields_add(&fz_fields, STR("x-a"), STR("b"), HF_OTHER);
	}
	switch (c & 7) {
	case 1:
		h2_reset(st, c >> 4);
		gone(x);
		break;
	case 2:
		h2_leave(st);
		gone(x);
		break;
	case 3:
		if (o->client || x->fin)
			break;
		x->fin = fz_res.status == 200;
		h2_send_response(st, &fz_res, HTTP_BODY_CHUNKED, 0, false, false);
		break;
	case 4:
		if (o->client || !x->fin)
			break;
		h2_send_data(st, body, c & 64 ? sizeof(body) : 1);
		break;
	case 5:
		if (o->client || !x->fin)
			break;
		h2_send_data(st, body, 100);
		h2_send_trailers(st, &fz_fields);
		h2_leave(st);
		gone(x);
		break;
	case 6:
		if (o->client || x->fin)
			break;
		fz_res.status = 204;
		h2_send_response(st, &fz_res, HTTP_BODY_NONE, 0, false, true);
		h2_leave(st);
		gone(x);
		break;
	default:
		break;
	}
}

static void ev_request(void *arg, struct h2_stream *st, struct http_request *r, struct arena *a, bool end)
{
	struct owner *o = arg;
	struct slot *x;

	MUST(!o->over && !o->client && h2_stream_id(st) > o->last_id && r->version == HTTP_V_2 && r->method.n > 0 && r->host_field.n > 0 && a->used < 200000);
	MUST(str_eq(r->scheme, STR("https")) && r->path.n > 0 && (r->path.p[0] == '/' || r->path.p[0] == '*') && !str_eq(r->method, STR("CONNECT")));
	MUST(!end || r->framing == HTTP_BODY_NONE || r->content_length == 0);
	fields_ok(&r->fields);
	o->last_id = h2_stream_id(st);
	x = slot_new(o, st, FINAL);
	x->left = r->framing == HTTP_BODY_LENGTH ? r->content_length : UINT64_MAX;
	do_act(o, x);
}
static void ev_malformed(void *arg, struct h2_stream *st, struct http_request *r, struct arena *a, const struct http_fault *f)
{
	struct owner *o = arg;

	(void)r;
	(void)a;
	MUST(!o->over && !o->client && h2_stream_id(st) > o->last_id && (f->status == 400 || f->status == 414 || f->status == 431));
	o->last_id = h2_stream_id(st);
	if (f->status == 400)
		return;
	fz_res.status = f->status;
	h2_send_response(st, &fz_res, HTTP_BODY_NONE, 0, false, true);
	h2_leave(st);
}
static void ev_refused(void *arg, uint32_t id)
{
	(void)id;
	MUST(!((struct owner *)arg)->client);
}
static void ev_response(void *arg, struct h2_stream *st, struct http_response *r, struct arena *a, bool end)
{
	struct owner *o = arg;
	struct slot *x = slot_of(o, st);

	(void)a;
	MUST(!o->over && o->client && x->state == HEAD && r->status >= 100 && r->status < 600 && r->status != 101);
	MUST(!end || r->status >= 200);
	fields_ok(&r->fields);
	if (r->status >= 200) {
		x->state = FINAL;
		x->left = r->framing == HTTP_BODY_NONE ? 0 : r->framing == HTTP_BODY_LENGTH ? r->content_length : UINT64_MAX;
	}
	do_act(o, x);
}
static void ev_data(void *arg, struct h2_stream *st, const uint8_t *p, size_t n)
{
	struct owner *o = arg;
	struct slot *x = slot_of(o, st);

	(void)p;
	MUST(!o->over && x->state == FINAL && n > 0 && n <= x->left);
	if (x->left != UINT64_MAX)
		x->left -= n;
	if (act(o) & 1)
		h2_consumed(st, n);
	else
		do_act(o, x);
}
static void ev_trailers(void *arg, struct h2_stream *st, struct http_fields *f, struct arena *a)
{
	struct owner *o = arg;
	struct slot *x = slot_of(o, st);

	(void)a;
	MUST(x->state == FINAL);
	fields_ok(f);
	do_act(o, x);
}
static void ev_end(void *arg, struct h2_stream *st)
{
	struct owner *o = arg;
	struct slot *x = slot_of(o, st);

	MUST(x->state == FINAL && (x->left == 0 || x->left == UINT64_MAX));
	x->state = ENDED;
	do_act(o, x);
}
static void ev_broken(void *arg, struct h2_stream *st, const struct http_fault *f)
{
	struct owner *o = arg;
	struct slot *x = slot_of(o, st);

	MUST((x->state == FINAL || (o->client && x->state == HEAD)) && f->status == (o->client ? 502 : 400));
	gone(x);
}
static void ev_reset(void *arg, struct h2_stream *st, uint32_t code, bool unprocessed)
{
	struct owner *o = arg;
	struct slot *x = slot_of(o, st);

	(void)code; /* may come after the fault, from h2_lost */
	MUST((!unprocessed || (o->client && x->state == HEAD)));
	gone(x);
}
static void ev_writable(void *arg, struct h2_stream *st)
{
	MUST(!h2_full(st));
	do_act(arg, slot_of(arg, st));
}
static void ev_settings(void *arg) { (void)arg; }
static void ev_goaway(void *arg, uint32_t code)
{
	(void)code;
	MUST(!((struct owner *)arg)->client || !h2_may_open(((struct owner *)arg)->h));
}
static void ev_fault(void *arg, const struct http_fault *f)
{
	struct owner *o = arg;

	MUST(!o->over && f->reason != NULL);
	o->over = true;
}
static const struct h2_events fz_events = { ev_request, ev_malformed, ev_refused, ev_response, ev_data, ev_trailers, ev_end, ev_broken, ev_reset, ev_writable, ev_settings, ev_goaway, ev_fault };

/* data: how many octets of acts, the acts, the step, the stream behind the preface. */
/* What the session says that it does not need now. */
static void spoil(struct h2 *h)
{
	size_t n;
	void *p = h2_spare(h, &n);

	if (p != NULL)
		memset(p, 0xa5, n);
}

static int fuzz(bool client, const uint8_t *data, size_t size)
{
	static const char magic[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
	struct h2_config c = { .client = client, .connect_protocol = true, .scheme = STR("https"), .limits = h2_limits_default };
	struct owner *o = must_calloc(1, sizeof(*o));
	struct buf out = { 0 };
	size_t step, n, total = 0;

	if (size < 2 || size - 2 < data[0])
		goto out;
	o->client = client;
	o->acts = data + 2;
	o->n = data[0];
	step = data[1];
	data += 2 + o->n;
	n = size - 2 - o->n;
	o->now = 1000;
	c.limits.queue_high = 30000;
	o->h = h2_new(&c, &fz_events, o, o->now);
	if (client) {
		for (int i = 0; i < 3; i++) {
			fz_req.method = i == 2 ? STR("HEAD") : STR("POST");
			fz_req.upgrade_websocket = false;
			slot_new(o, h2_submit(o->h, &fz_req, STR("https"), STR("a.test"), STR("/"), HTTP_BODY_CHUNKED, 0, i == 1, NULL), HEAD);
		}
		if (act(o) & 1)
			h2_output(o->h, &out, 100000);
		MUST(h2_feed(o->h, o->now, (const uint8_t *)magic + 24, 9) == 9);
	} else {
		MUST(h2_feed(o->h, o->now, (const uint8_t *)magic, 33) == 33);
	}
	for (size_t at = 0; at < n;) {
		size_t k = step && step < n - at ? step : n - at;
		long r = h2_feed(o->h, o->now, data + at, k);

		if (r < 0)
			break;
		MUST((size_t)r <= k);
		at += (size_t)r;
		if (r == 0 || !(step & 1)) {
			size_t max = step & 2 ? 100000 : 1000;

			buf_clear(&out);
			h2_output(o->h, &out, max);
			MUST(buf_len(&out) < max + 200000);
			spoil(o->h);
		}
		if (r == 0 && ++total > 100000)
			abort(); /* no progress */
	}
	if (!o->over)
		h2_shutdown(o->h);
	for (unsigned i = 0; i < SLOTS && !o->over; i++)
		if (o->slots[i].state != FREE)
			do_act(o, &o->slots[i]);
	h2_output(o->h, &out, 1000000);
	h2_reap(o->h, o->now);
	h2_reap(o->h, o->now + 1000000);
	h2_output(o->h, &out, 1000000);
	h2_lost(o->h);
	for (unsigned i = 0; i < SLOTS; i++) /* who has a stream hears of its end */
		MUST(o->slots[i].state == FREE);
out:
	h2_free(o->h);
	buf_fini(&out);
	free(o);
	return 0;
}
#endif
