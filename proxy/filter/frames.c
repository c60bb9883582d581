/* SPDX-License-Identifier: Apache-2.0 */
#include "frames.h"

void frames_init(struct frames *f, bool to_upstream) { f->in.masked = to_upstream; }

void frames_fini(struct frames *f)
{
	if (f->scrubbing)
		scrub_fini(&f->scrub);
	f->scrubbing = false;
	buf_fini_secret(&f->released);
	buf_fini(&f->unit);
	buf_fini_secret(&f->filled);
	buf_fini(&f->rest);
}

size_t frames_held(const struct frames *f) { return f->unit.cap + f->filled.cap + f->rest.cap; }

void frames_renew(struct frames *f, const struct scrub_set *set)
{
	if (f->set == NULL)
		return;
	f->set = set;
	if (f->scrubbing)
		f->scrub.set = set;
}

static void header(struct frames *f, uint8_t opcode, bool fin, uint64_t length)
{
	uint8_t h[WS_HEADER_MAX];

	if (f->in.masked)
		f->random(f->key, sizeof(f->key));
	f->key_at = 0;
	f->out_left = length;
	f->emit(f->arg, h, ws_header(h, opcode, fin, length, f->in.masked ? f->key : NULL));
}

static void payload(struct frames *f, uint8_t *p, size_t n)
{
	if (n == 0)
		return;
	if (f->in.masked)
		ws_mask(p, n, f->key, f->key_at);
	f->key_at = (f->key_at + n) & 3;
	f->out_left -= n;
	f->emit(f->arg, p, n);
}

static void data_header(struct frames *f, bool fin, uint64_t length)
{
	header(f, f->begun ? WS_CONTINUATION : f->opcode, fin, length);
	f->begun = !fin;
}

/* Octets of the message that wait for what follows: scrubbing keeps the length. */
static uint64_t waiting(const struct frames *f) { return f->scrub_in - f->scrub_out; }

/* Payload that scrubbing lets go: in the message's last frame, whose length is told already, or in a fragment of its own. */
static void released(struct frames *f, uint8_t *p, size_t n, bool fin)
{
	if (n == 0)
		return;
	f->scrub_out += n;
	if (!fin)
		data_header(f, false, n);
	payload(f, p, n);
}

static void scrub_piece(struct frames *f, const struct ws_piece *in)
{
	f->scrub_in += in->n;
	if (!scrub_holds(&f->scrub)) {
		released(f, in->p, scrub_feed_inplace(&f->scrub, in->p, in->n), in->fin);
		return;
	}
	scrub_feed(&f->scrub, in->p, in->n, &f->released);
	released(f, buf_data(&f->released), buf_len(&f->released), in->fin);
	buf_clear(&f->released);
}

static void scrub_over(struct frames *f)
{
	scrub_end(&f->scrub, &f->released);
	f->hits += f->scrub.hits;
	f->scrubbing = false;
	released(f, buf_data(&f->released), buf_len(&f->released), true);
	buf_fini_secret(&f->released);
}

/* --- what is filled -------------------------------------------------------------------------------------------------- */

static bool refused(struct ws_fault *fault)
{
	*fault = (struct ws_fault){ FRAMES_REFUSED_REASON, WS_CLOSE_POLICY };
	return false;
}

/* The unit goes on, or waits. */
static bool unit_goes(struct frames *f, struct ws_fault *fault)
{
	struct frames_unit u = { buf_str(&f->unit), f->opcode == WS_TEXT, f->first, f->unit_fin };

	f->waits = false;
	switch (f->fill(f->arg, &u, &f->filled)) {
	case FRAMES_WAIT:
		f->waits = true;
		return true;
	case FRAMES_FILLED:
		break;
	default:
		return refused(fault);
	}
	f->first = false;
	buf_clear(&f->unit);
	if (f->unit_fin || buf_len(&f->filled) > 0)
		data_header(f, f->unit_fin, buf_len(&f->filled));
	payload(f, buf_data(&f->filled), buf_len(&f->filled));
	buf_fini_secret(&f->filled);
	if (f->unit_fin && f->unit.cap > 4096) /* between messages nothing large is kept */
		buf_fini(&f->unit);
	return true;
}

/* Payload of a data frame, or its end. */
static bool collect(struct frames *f, const uint8_t *p, size_t n, bool end, bool fin, struct ws_fault *fault)
{
	if (n > 0 && f->look != NULL && !f->look(f->arg, str_mk(p, n), f->first && buf_len(&f->unit) == 0, false))
		return refused(fault);
	if (f->fill == NULL) {
		f->first = false;
		return true;
	}
	buf_add(&f->unit, p, n);
	if (!end && buf_len(&f->unit) < FRAMES_UNIT)
		return true;
	f->unit_fin = end && fin;
	return unit_goes(f, fault);
}

/* --- frames ---------------------------------------------------------------------------------------------------------- */

static void begin(struct frames *f, const struct ws_piece *in)
{
	if (in->opcode != WS_CONTINUATION) {
		f->opcode = in->opcode;
		f->messages++;
		f->first = true;
	}
	if (f->fill != NULL)
		return;
	if (f->set == NULL) {
		data_header(f, in->fin, in->length);
		return;
	}
	if (!f->scrubbing) {
		scrub_init(&f->scrub, f->set);
		f->scrubbing = true;
		f->scrub_in = f->scrub_out = 0;
	}
	if (!in->fin)
		return; /* each piece of it that may go is a fragment */
	data_header(f, true, waiting(f) + in->length);
	if (in->length == 0)
		scrub_over(f);
}

static void control(struct frames *f, const struct ws_piece *in)
{
	if (in->opcode == WS_CLOSE) {
		f->close_seen = true;
		f->close_code = ws_close_code(in->p, in->n);
		f->closed = true;
	}
	if (f->set != NULL)
		f->hits += scrub_inplace(f->set, (char *)in->p, in->n);
	header(f, in->opcode, true, in->n);
	payload(f, in->p, in->n);
}

/* One piece. False: *fault. */
static bool piece(struct frames *f, const struct ws_piece *in, struct ws_fault *fault)
{
	bool end = in->kind == WS_FRAME ? in->length == 0 : in->end;

	switch (in->kind) {
	case WS_NOTHING:
		break;
	case WS_FRAME:
		begin(f, in);
		if (f->fill != NULL && end && in->fin)
			return collect(f, NULL, 0, true, true, fault);
		break;
	case WS_DATA:
		if ((f->look != NULL || f->fill != NULL) && !collect(f, in->p, in->n, end, in->fin, fault))
			return false;
		if (f->set != NULL)
			scrub_piece(f, in);
		else if (f->fill == NULL)
			payload(f, in->p, in->n);
		if (end && in->fin && f->set != NULL)
			scrub_over(f);
		break;
	case WS_CONTROL:
		if (in->n > 0 && f->look != NULL && !f->look(f->arg, str_mk(in->p, in->n), false, true))
			return refused(fault);
		control(f, in);
		break;
	}
	return true;
}

bool frames_feed(struct frames *f, uint8_t *p, size_t n, struct ws_fault *fault)
{
	while (n > 0 && !f->waits) {
		struct ws_piece in;
		long k = ws_feed(&f->in, p, n, &in, fault);

		if (k < 0 || !piece(f, &in, fault))
			return false;
		p += k;
		n -= (size_t)k;
	}
	buf_add(&f->rest, p, n);
	return true;
}

bool frames_resume(struct frames *f, struct ws_fault *fault)
{
	struct buf rest;
	bool good;

	if (!f->waits)
		return true;
	if (!unit_goes(f, fault))
		return false;
	if (f->waits)
		return true;
	rest = f->rest;
	f->rest = (struct buf){ 0 };
	good = frames_feed(f, buf_data(&rest), buf_len(&rest), fault);
	buf_fini(&rest);
	return good;
}

bool frames_between(const struct frames *f) { return f->out_left == 0; }

void frames_close(struct frames *f, uint16_t code, struct str reason)
{
	uint8_t p[WS_CONTROL_MAX];
	size_t n = reason.n < sizeof(p) - 2 ? reason.n : sizeof(p) - 2;

	if (f->closed || !frames_between(f))
		return;
	f->closed = true;
	p[0] = (uint8_t)(code >> 8);
	p[1] = (uint8_t)code;
	if (n > 0)
		memcpy(p + 2, reason.p, n);
	header(f, WS_CLOSE, true, n + 2);
	payload(f, p, n + 2);
}
