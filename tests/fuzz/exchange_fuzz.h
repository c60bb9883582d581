/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_EXCHANGE_FUZZ_H
#define SP_EXCHANGE_FUZZ_H
/*
 * Whole exchanges under fuzzing: octets of clients and of upstreams, of both versions, cut and mixed as the input says, through
 * everything that the worker does with them but sockets and TLS (exchange_world.h), against what must hold whatever they are
 * (exchange_check.h).
 *
 * The input: an octet of flags, then steps. A step is an octet (kind in its low half, which connection in its high half), and what
 * its kind asks for. Octets that come as such are as the fuzzer makes them; whole requests, responses and frames can be had by
 * their number, so that it need not find lengths, field compression and stream ids before anything happens.
 */
#include "exchange_check.h"

enum step { STEP_CLIENT = 0,
	    STEP_UPSTREAM,
	    STEP_CLIENT_FRAME,
	    STEP_UPSTREAM_FRAME,
	    STEP_REQUEST,
	    STEP_RESPONSE,
	    STEP_TIME,
	    STEP_CLIENT_ROOM,
	    STEP_UPSTREAM_ROOM,
	    STEP_CLIENT_END,
	    STEP_UPSTREAM_END,
	    STEP_DIALS,
	    STEP_SECRETS,
	    STEP_AUDIT,
	    STEP_CONNECT,
	    STEP_SPLIT };
enum { FLAG_H1_A = 1,
       FLAG_H1_B = 2,
       FLAG_PROXY = 4,
       FLAG_PLAIN = 8,
       FLAG_RAW = 16,
       FLAG_DIALS_WAIT = 32,
       FLAG_NAME_B = 64 };
#define CLIENTS_MAX 8

struct input {
	const uint8_t *p;
	size_t n;
};
static struct {
	struct input in;
	int clients[CLIENTS_MAX];
	unsigned clients_n;
	uint8_t flags;
	unsigned requests;
	bool split; /* what comes next is given octet by octet */
} F;

static uint8_t octet(void)
{
	if (F.in.n == 0)
		return 0;
	F.in.n--;
	return *F.in.p++;
}

static struct str run_of_octets(void)
{
	size_t n = octet();
	struct str s;

	if (n >= 240) /* long ones, from little input */
		n = (n - 239) * 64;
	n = n < F.in.n ? n : F.in.n;
	s = str_mk(F.in.p, n);
	F.in.p += n;
	F.in.n -= n;
	return s;
}

static void give(struct pipe *p, const void *d, size_t n)
{
	const uint8_t *o = d;

	if (!F.split || n > 600) {
		world_give(p, d, n);
		world_settle();
		return;
	}
	for (size_t i = 0; i < n; i++) {
		world_give(p, o + i, 1);
		world_settle();
	}
}

/* --- HTTP/2, as peers write it --------------------------------------------------------------------------------------- */

static void frame(struct buf *b, uint8_t type, uint8_t flags, uint32_t id, const void *p, size_t n)
{
	uint8_t h[9] = { (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n, type, flags, (uint8_t)(id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id };

	buf_add(b, h, sizeof(h));
	buf_add(b, p, n);
}

/* A field as a literal without indexing, name and value not compressed; less than 127 octets each. */
static void literal(struct buf *b, const char *name, const char *value)
{
	buf_addc(b, 0);
	buf_addc(b, (char)strlen(name));
	buf_addz(b, name);
	buf_addc(b, (char)strlen(value));
	buf_addz(b, value);
}

static void h2_head(struct buf *b, uint8_t flags, uint32_t id, struct buf *block)
{
	frame(b, NGHTTP2_HEADERS, flags | NGHTTP2_FLAG_END_HEADERS, id, buf_data(block), buf_len(block));
	buf_fini(block);
}

/* --- what clients send ----------------------------------------------------------------------------------------------- */

static const struct request {
	const char *method, *path, *content;
	long length;		  /* as told; -1: not told, in chunks; content NULL: none */
	const char *name, *value; /* one field more */
} requests[] = {
	{ "GET", "/ok/", NULL, 0, NULL, NULL },
	{ "GET", "/no/", NULL, 0, NULL, NULL },
	{ "POST", "/ok/", "hello", 5, NULL, NULL },
	{ "POST", "/ok/", "hello", -1, NULL, NULL },
	{ "POST", "/ok/", "half", 100, NULL, NULL },
	{ "POST", "/graphql/", "{\"query\":\"query { a }\"}", 23, "content-type", "application/json" },
	{ "POST", "/graphql/", "{\"query\":\"mutation { a }\"}", 26, "content-type", "application/json" },
	{ "POST", "/graphql/", "{\"query\":\"qu", 600, "content-type", "application/json" },
	{ "HEAD", "/ok/", NULL, 0, NULL, NULL },
	{ "POST", "/ok/", NULL, 5, "expect", "100-continue" },
	{ "GET", "/ok/no/", NULL, 0, "authorization", "Bearer mine" },
	{ "PUT", "/put/", "x", 1, NULL, NULL },
	{ "PUT", "/put/", NULL, 0, "te", "trailers" },
	{ "POST", "/ok/rpc", "\0\0\0\0\0", -1, "content-type", "application/grpc" },
	{ "POST", "/no/", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}", 38, "content-type", "application/json" },
	{ "OPTIONS", "/ok/", NULL, 0, "cookie", "a=1" },
};

static const char *host_of(const struct pipe *p) { return p->name == NAME_A ? "a.test" : p->name == NAME_B ? "b.test"
													   : "p.test"; }

static void request_h1(struct buf *b, const struct pipe *p, const struct request *r, const char *path)
{
	bool absolute = (F.flags & FLAG_PROXY) && p->name == NAME_P;
	size_t n = r->content != NULL ? strlen(r->content) : 0;

	buf_addf(b, "%s %s%s%s HTTP/1.1\r\nHost: %s\r\n", r->method, absolute ? "http://" : "", absolute ? host_of(p) : "", path, host_of(p));
	if (r->name != NULL)
		buf_addf(b, "%s: %s\r\n", r->name, r->value);
	if (r->length < 0)
		buf_addf(b, "Transfer-Encoding: chunked\r\n\r\n%zx\r\n%s\r\n0\r\n\r\n", n ? n : 5, n ? r->content : "abcde");
	else if (r->length > 0)
		buf_addf(b, "Content-Length: %ld\r\n\r\n%s", r->length, n ? r->content : "");
	else
		buf_addz(b, "\r\n");
}

static void request_h2(struct buf *b, struct pipe *p, const struct request *r, const char *path)
{
	size_t n = r->content != NULL ? strlen(r->content) : 0;
	struct buf block = { 0 };
	char length[24];
	uint32_t id = p->next_id;

	p->next_id += 2;
	literal(&block, ":method", r->method);
	literal(&block, ":scheme", "https");
	literal(&block, ":authority", host_of(p));
	literal(&block, ":path", path);
	if (r->name != NULL)
		literal(&block, r->name, r->value);
	snprintf(length, sizeof(length), "%ld", r->length);
	if (r->length > 0)
		literal(&block, "content-length", length);
	h2_head(b, r->length == 0 ? NGHTTP2_FLAG_END_STREAM : 0, id, &block);
	if (r->length != 0 && (n > 0 || r->length < 0))
		frame(b, NGHTTP2_DATA, r->length < 0 || (long)n == r->length ? NGHTTP2_FLAG_END_STREAM : 0, id, n ? r->content : "\0\0\0\0", n ? n : 5);
}

static void greet(struct pipe *p)
{
	if (p->greeted || !p->h2 || (F.flags & FLAG_RAW))
		return;
	p->greeted = true;
	if (p->client)
		world_give(p, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
	else
		world_give(p, "\0\0\6\4\0\0\0\0\0\0\x8\0\0\0\1", 15); /* extended CONNECT is taken (RFC 8441) */
	world_give(p, "\0\0\0\4\0\0\0\0\0\0\0\0\4\1\0\0\0", 18);      /* SETTINGS, and that ours are taken */
}

static void websocket_request(struct pipe *p)
{
	struct buf b = { 0 }, block = { 0 };
	char path[32];

	snprintf(path, sizeof(path), "/ws/%u", F.requests++);
	if (!p->h2) {
		buf_addf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", path, host_of(p));
	} else {
		literal(&block, ":method", "CONNECT");
		literal(&block, ":protocol", "websocket");
		literal(&block, ":scheme", "https");
		literal(&block, ":authority", host_of(p));
		literal(&block, ":path", path);
		literal(&block, "sec-websocket-version", "13");
		h2_head(&b, 0, p->next_id, &block);
		p->next_id += 2;
	}
	give(p, buf_data(&b), buf_len(&b));
	buf_fini(&b);
}

static void step_request(struct pipe *p, uint8_t which)
{
	const struct request *r = &requests[which % (sizeof(requests) / sizeof(requests[0]))];
	struct buf b = { 0 };
	char path[64];

	if (which & 64) {
		websocket_request(p);
		return;
	}
	snprintf(path, sizeof(path), "%s%s%u%s", r->path, r->path[strlen(r->path) - 1] == '/' ? "" : "/", F.requests++, which & 128 ? "?q=1" : "");
	if (p->h2)
		request_h2(&b, p, r, path);
	else
		request_h1(&b, p, r, path);
	give(p, buf_data(&b), buf_len(&b));
	buf_fini(&b);
}

/* --- what upstreams answer ------------------------------------------------------------------------------------------- */

static const char big[40000];
static const struct response {
	unsigned status;
	long length; /* as told; -1: not told */
	const char *content, *more;
	const char *name, *value, *trailer; /* one field; one behind the content */
} responses[] = {
	{ 200, 2, "ok", NULL, NULL, NULL, NULL },
	{ 200, -1, "you sent Bearer s3cr3t-cana", "ry-0123456789abcdef-XYZ, did you?", NULL, NULL, NULL },
	{ 200, 4, "echo", NULL, "x-auth", SECRET_TEXT, NULL },
	{ 103, 0, NULL, NULL, "link", "</a>", NULL },
	{ 100, 0, NULL, NULL, NULL, NULL, NULL },
	{ 204, 0, NULL, NULL, NULL, NULL, NULL },
	{ 304, 500, NULL, NULL, "etag", "\"x\"", NULL },
	{ 200, -1, "hello", NULL, NULL, NULL, SECRET_TEXT },
	{ 101, 0, NULL, NULL, "upgrade", "websocket", NULL },
	{ 200, 100, "part of it", NULL, NULL, NULL, NULL },
	{ 200, 0, NULL, NULL, "grpc-status", "5", NULL },
	{ 500, 6, "no way", NULL, "content-encoding", "gzip", NULL },
	{ 200, sizeof(big), big, NULL, NULL, NULL, NULL },
	{ 200, -1, big, NULL, "content-type", "text/event-stream", NULL },
	{ 302, 0, NULL, NULL, "location", "https://b.test/?k=" SECRET_TEXT, NULL },
	{ 200, -1, SECRET_TEXT SECRET_TEXT, "s3cr3t-canary-0123456789abcdef-XY", "connection", "close", NULL },
};

static size_t content_length(const char *c) { return c == NULL ? 0 : c == big ? sizeof(big)
									      : strlen(c); }

static void chunk(struct buf *b, const char *c)
{
	if (c == NULL)
		return;
	buf_addf(b, "%zx\r\n", content_length(c));
	buf_add(b, c, content_length(c));
	buf_addz(b, "\r\n");
}

static void response_h1(struct buf *b, const struct response *r, bool close_delimited)
{
	buf_addf(b, "HTTP/1.1 %u X\r\n", r->status);
	if (r->name != NULL)
		buf_addf(b, "%s: %s\r\n", r->name, r->value);
	if (r->length > 0 || (r->length == 0 && r->status == 200))
		buf_addf(b, "Content-Length: %ld\r\n\r\n", r->length);
	else
		buf_addz(b, r->length < 0 && !close_delimited ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
	if (r->length >= 0 || close_delimited) {
		buf_add(b, r->content != NULL ? r->content : "", content_length(r->content));
		return;
	}
	chunk(b, r->content);
	chunk(b, r->more);
	buf_addz(b, "0\r\n");
	if (r->trailer != NULL)
		buf_addf(b, "x-sum: %s\r\n", r->trailer);
	buf_addz(b, "\r\n");
}

static void response_h2(struct buf *b, uint32_t id, const struct response *r, bool open)
{
	size_t n = content_length(r->content), at = 0;
	struct buf block = { 0 };
	char text[24];

	snprintf(text, sizeof(text), "%u", r->status);
	literal(&block, ":status", text);
	if (r->name != NULL)
		literal(&block, r->name, r->value);
	snprintf(text, sizeof(text), "%ld", r->length);
	if (r->length > 0)
		literal(&block, "content-length", text);
	h2_head(b, r->content == NULL && r->status >= 200 && !open ? NGHTTP2_FLAG_END_STREAM : 0, id, &block);
	while (at < n) {
		size_t k = n - at < 16384 ? n - at : 16384;

		frame(b, NGHTTP2_DATA, at + k == n && r->more == NULL && r->trailer == NULL && !open ? NGHTTP2_FLAG_END_STREAM : 0, id, r->content + at, k);
		at += k;
	}
	if (r->more != NULL)
		frame(b, NGHTTP2_DATA, open ? 0 : NGHTTP2_FLAG_END_STREAM, id, r->more, strlen(r->more));
	if (r->trailer != NULL) {
		literal(&block, "x-sum", r->trailer);
		h2_head(b, NGHTTP2_FLAG_END_STREAM, id, &block);
	}
}

static void step_response(struct pipe *p, uint8_t which, uint8_t back)
{
	const struct response *r = &responses[which % (sizeof(responses) / sizeof(responses[0]))];
	static const char frames[] = "\x81\x05hello\x01\x22" SECRET_TEXT "\x80\x02ok\x89\x01p";
	struct buf b = { 0 }, block = { 0 };

	greet(p);
	if ((which & 64) && p->h2) {
		literal(&block, ":status", "200");
		h2_head(&b, 0, p->last_id ? p->last_id : 1, &block);
		frame(&b, NGHTTP2_DATA, which & 1 ? NGHTTP2_FLAG_END_STREAM : 0, p->last_id ? p->last_id : 1, frames, sizeof(frames) - 1);
	} else if (which & 64) {
		buf_addz(&b, "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: " WS_ACCEPT "\r\n\r\n");
		buf_add(&b, frames, sizeof(frames) - 1);
	} else if (p->h2)
		response_h2(&b, p->last_id > 2u * (back & 15) ? p->last_id - 2 * (back & 15) : 1, r, which & 128);
	else {
		response_h1(&b, r, which & 128);
	}
	give(p, buf_data(&b), buf_len(&b));
	buf_fini(&b);
}

/* --- steps ----------------------------------------------------------------------------------------------------------- */

static struct pipe *client(uint8_t which) { return F.clients_n ? &W->pipe[F.clients[which % F.clients_n]] : NULL; }

static struct pipe *upstream(uint8_t which)
{
	int n = 0;

	for (int i = 0; i < W->pipe_n; i++)
		n += !W->pipe[i].client && W->pipe[i].open;
	for (int i = 0, k = n ? n - 1 - which % n : 0; i < W->pipe_n && n; i++)
		if (!W->pipe[i].client && W->pipe[i].open && k-- == 0)
			return &W->pipe[i];
	return NULL;
}

static void connect_client(bool h2)
{
	enum name name = F.flags & FLAG_PLAIN ? NAME_P : F.flags & FLAG_NAME_B ? NAME_B
									       : NAME_A;
	bool proxy = F.flags & FLAG_PROXY;
	struct pipe *p;
	int fd;

	if (F.clients_n == CLIENTS_MAX || W->w.id_next >= IDS_MAX - 8)
		return;
	fd = pipe_new(true, h2 && name != NAME_P, name);
	if (fd < 0)
		return;
	p = &W->pipe[fd];
	W->local = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(proxy ? 3128 : name == NAME_P ? 80
														: 443),
					 .sin_addr.s_addr = htonl(proxy ? 0x7f000001 : 0x0a000000 + (uint32_t)name) };
	F.clients[F.clients_n++] = fd;
	C->connection[W->w.id_next] = true;
	client_accept(&W->w, fd);
	p->c = W->w.clients.head;
	if (F.flags & FLAG_RAW)
		return;
	if (proxy && name != NAME_P) {
		char text[64];

		snprintf(text, sizeof(text), "CONNECT %s:443 HTTP/1.1\r\nHost: %s\r\n\r\n", host_of(p), host_of(p));
		world_give(p, text, strlen(text));
		world_settle();
	}
	if (name != NAME_P)
		world_give(p, "\x16", 1);
	greet(p);
	world_settle();
}

/* The secret stands where these two octets do: what the fuzzer makes can echo it too. */
static void give_upstream(struct pipe *p, struct str s)
{
	struct buf b = { 0 };

	for (size_t i = 0; i < s.n; i++) {
		if (i + 1 < s.n && (uint8_t)s.p[i] == 0xf5 && (uint8_t)s.p[i + 1] == 0xec) {
			buf_addz(&b, SECRET_TEXT);
			i++;
		} else {
			buf_addc(&b, s.p[i]);
		}
	}
	give(p, buf_data(&b), buf_len(&b));
	buf_fini(&b);
}

static void step_frame(struct pipe *p)
{
	uint8_t type = octet(), flags = octet(), id = octet();
	struct str s = run_of_octets();
	struct buf b = { 0 };

	frame(&b, type, flags, id >= 0xf0 ? (uint32_t)(id - 0xf0) << 28 | 0xfffffff : id, s.p, s.n);
	greet(p);
	if (p->client)
		give(p, buf_data(&b), buf_len(&b));
	else
		give_upstream(p, buf_str(&b));
	buf_fini(&b);
}

static bool one_step(bool h2)
{
	static const size_t room[] = { 0, 1, 10, 100, 1000, 20000, 100000, SIZE_MAX };
	uint8_t s = octet(), which = s >> 4;
	struct pipe *c = client(which), *u = upstream(which);
	struct str o;

	switch ((enum step)(s & 15)) {
	case STEP_CLIENT:
		o = run_of_octets();
		if (c != NULL)
			give(c, o.p, o.n);
		break;
	case STEP_UPSTREAM:
		o = run_of_octets();
		if (u != NULL)
			give_upstream(u, o);
		break;
	case STEP_CLIENT_FRAME:
		if (c != NULL)
			step_frame(c);
		break;
	case STEP_UPSTREAM_FRAME:
		if (u != NULL)
			step_frame(u);
		break;
	case STEP_REQUEST:
		s = octet();
		if (c != NULL)
			step_request(c, s);
		break;
	case STEP_RESPONSE:
		s = octet();
		if (u != NULL)
			step_response(u, s, which);
		break;
	case STEP_TIME:
		world_pass((uint64_t)1 << (octet() % 21));
		break;
	case STEP_CLIENT_ROOM:
		s = octet();
		if (c != NULL)
			world_room(c, room[s & 7]);
		world_settle();
		break;
	case STEP_UPSTREAM_ROOM:
		s = octet();
		if (u != NULL)
			world_room(u, room[s & 7]);
		world_settle();
		break;
	case STEP_CLIENT_END:
		if (c != NULL)
			world_end(c, octet() & 1);
		world_settle();
		break;
	case STEP_UPSTREAM_END:
		if (u != NULL)
			world_end(u, octet() & 1);
		world_settle();
		break;
	case STEP_DIALS:
		if (which & 8)
			world_policy(which & 1);
		else
			answer_dials(which & 1 ? DIAL_UNREACHABLE : DIAL_OK);
		world_settle();
		break;
	case STEP_SECRETS:
		W->secret = which % 3 == 0 ? SECRET_READY : which % 3 == 1 ? SECRET_WAIT
									   : SECRET_UNAVAILABLE;
		wake_secrets();
		world_settle();
		break;
	case STEP_AUDIT:
		W->must_wait = which & 1;
		W->audit_down = which & 2;
		clients_slots_freed(&W->w);
		world_settle();
		break;
	case STEP_CONNECT:
		connect_client(h2 != (which & 1));
		break;
	case STEP_SPLIT:
		F.split = !F.split;
		break;
	}
	return F.in.n > 0;
}

static inline int fuzz_exchange(bool h2, const uint8_t *data, size_t size)
{
	/* a client that knows the value may send it, and it is recorded */
	if (size < 2 || memmem(data, size, SECRET_TEXT, 16) != NULL)
		return 0;
	memset(&F, 0, sizeof(F));
	F.in = (struct input){ data, size };
	world_start();
	check_start();
	F.flags = octet();
	W->upstream_h2[NAME_A] = !(F.flags & FLAG_H1_A);
	W->upstream_h2[NAME_B] = !(F.flags & FLAG_H1_B);
	W->dials_wait = F.flags & FLAG_DIALS_WAIT;
	connect_client(h2);
	for (unsigned i = 0; i < 2000 && one_step(h2); i++)
		;
	/* Nobody sends or reads any more: everything that was begun comes to its end, and is recorded. */
	W->secret = SECRET_UNAVAILABLE;
	wake_secrets();
	W->must_wait = W->audit_down = false;
	clients_slots_freed(&W->w);
	W->dials_fail = true;
	W->dials_wait = false;
	world_settle();
	for (unsigned i = 0, most = 200 + 80 * check_open(); check_open() > 0; i++) { /* pipelined ones wait for each other */
		MUST(i < most);
		world_pass(10000);
	}
	world_stop();
	MUST(check_open() == 0);
	check_stop();
	world_free();
	return 0;
}
#endif
