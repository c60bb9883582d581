/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loadgen: HTTP/1.1, or HTTP/2 with some streams at a time on each connection, over TLS for tests/bench/run.sh, one thread.
 *
 * It speaks to a proxy (CONNECT) or straight to a TLS server, always verifying chain and name, and always on loopback.
 * It runs where the measured clients run (for Sallyport inside a sandbox), so it cannot see the processes that it
 * loads: it writes the line "begin" when its window opens and "end {json}" when it closes, and `meter`, at the other end
 * of the pipe, reads the processor time of the gateway at these two moments.
 *
 * Each connection is a row of conns[] that walks the states in order:
 *	DIALING -> TUNNEL (CONNECT sent, 200 awaited) -> SHAKING -> SENDING -> HEAD -> BODY -> next request, or CLOSED
 *	                                                         -> H2, in which streams follow each other
 * Only run() frees and reopens; a step never does, it returns what it wants.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNS_MAX 4096
#define HEAD_MAX 8192
#define CHUNK 65536
#define SAMPLES_MAX (8u << 20)
#define STREAMS_MAX 100

enum state { CLOSED = 0, DIALING, TUNNEL, SHAKING, SENDING, HEAD, BODY, H2, HELD };
enum step { STEP_WAIT = 0, STEP_AGAIN, STEP_FAILED, STEP_RECONNECT, STEP_DONE };

struct conn {
	enum state state;
	int fd;
	SSL *ssl;
	size_t sent, head_len;
	uint64_t body_left, started_ns;
	char head[HEAD_MAX];
	struct h2 *h2;
};
struct h2 {
	nghttp2_session *s;
	struct conn *c;
	struct stream { uint64_t started_ns; bool used, good; } streams[STREAMS_MAX];
	int open;
	bool asked, broken;
	size_t at, n;
	uint8_t out[CHUNK];
};

static struct {
	struct sockaddr_in to;
	const char *host, *path, *method, *ca, *mode;
	int port, conns, streams;
	bool tunnel, fresh, idle;
	double warm_s, window_s;
	size_t body;
} opt = { .path = "/", .method = "GET", .mode = "keepalive", .conns = 32, .warm_s = 1, .window_s = 4 };

static struct conn *conns;
static SSL_CTX *ctx;
static int ep;
static char *request, tunnel_head[600], chunk[CHUNK];
static size_t request_len;
static bool in_window, over;
static uint64_t requests, bytes, errors, bad_status, held;
static uint32_t *samples;
static size_t sample_n;
static char first_error[200];

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_us(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (uint64_t)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000u + (uint64_t)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

static void die(const char *what)
{
	fprintf(stderr, "loadgen: %s\n", what);
	exit(2);
}

static enum step failed(const char *what)
{
	errors++;
	if (first_error[0] == 0) {
		unsigned long e = ERR_peek_last_error();

		snprintf(first_error, sizeof(first_error), "%s: %s", what, e ? ERR_reason_error_string(e) : strerror(errno));
	}
	ERR_clear_error();
	return STEP_FAILED;
}

static void conn_close(struct conn *c)
{
	if (c->h2 != NULL) {
		nghttp2_session_del(c->h2->s);
		free(c->h2);
		c->h2 = NULL;
	}
	if (c->ssl != NULL) {
		SSL_shutdown(c->ssl); /* our close_notify; the peer's is not waited for */
		SSL_free(c->ssl);
		ERR_clear_error();
	}
	if (c->fd >= 0)
		close(c->fd);
	c->ssl = NULL;
	c->fd = -1;
	c->state = CLOSED;
}

static bool conn_open(struct conn *c)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c };
	int on = 1;

	c->started_ns = now_ns();
	c->sent = c->head_len = 0;
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		die("cannot make a socket (open files?)");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	c->state = DIALING;
	if (connect(c->fd, (struct sockaddr *)&opt.to, sizeof(opt.to)) != 0 && errno != EINPROGRESS) {
		failed("connect");
		conn_close(c);
		return false;
	}
	epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev);
	return true;
}

static enum step dialed(struct conn *c)
{
	int e = 0;
	socklen_t n = sizeof(e);
	struct sockaddr_in sa;
	socklen_t len = sizeof(sa);

	getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &e, &n);
	if (e != 0) {
		errno = e;
		return failed("connect");
	}
	if (getpeername(c->fd, (struct sockaddr *)&sa, &len) != 0)
		return errno == ENOTCONN ? STEP_WAIT : failed("connect");
	if (opt.tunnel) {
		if (send(c->fd, tunnel_head, strlen(tunnel_head), MSG_NOSIGNAL) != (ssize_t)strlen(tunnel_head))
			return failed("CONNECT");
		c->state = TUNNEL;
		return STEP_AGAIN;
	}
	c->state = SHAKING;
	return STEP_AGAIN;
}

/* RFC 9110 9.3.6: a 2xx to CONNECT has no content, so the head's end is the tunnel's beginning. */
static enum step tunnel(struct conn *c)
{
	ssize_t n = recv(c->fd, c->head + c->head_len, HEAD_MAX - 1 - c->head_len, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return STEP_WAIT;
	if (n <= 0)
		return failed("closed during CONNECT");
	c->head_len += (size_t)n;
	c->head[c->head_len] = 0;
	if (strstr(c->head, "\r\n\r\n") == NULL)
		return c->head_len == HEAD_MAX - 1 ? failed("CONNECT: long head") : STEP_AGAIN;
	if (strncmp(c->head, "HTTP/1.", 7) != 0 || c->head[9] != '2') {
		bad_status++;
		errno = EPROTO;
		return failed("CONNECT refused");
	}
	c->head_len = 0;
	c->state = SHAKING;
	return STEP_AGAIN;
}

static enum step wants(struct conn *c, int r, const char *what)
{
	switch (SSL_get_error(c->ssl, r)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return STEP_WAIT;
	default:
		return failed(what);
	}
}

/* --- HTTP/2 -------------------------------------------------------------------------------------------------------- */

static int h2_field(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t n, const uint8_t *value, size_t m, uint8_t flags, void *arg)
{
	struct stream *st = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);

	(void)flags;
	(void)arg;
	if (st != NULL && n == 7 && memcmp(name, ":status", 7) == 0)
		st->good = m == 3 && value[0] == '2';
	return 0;
}

static int h2_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *arg)
{
	(void)s;
	(void)flags;
	(void)id;
	(void)p;
	(void)arg;
	if (in_window)
		bytes += n;
	return 0;
}

static int h2_closed(nghttp2_session *s, int32_t id, uint32_t code, void *arg)
{
	struct h2 *h = arg;
	struct stream *st = nghttp2_session_get_stream_user_data(s, id);

	if (st == NULL)
		return 0;
	st->used = false;
	h->open--;
	if (code != 0 || !st->good) {
		bad_status += code == 0;
		h->broken = true;
		return 0;
	}
	if (in_window) {
		requests++;
		if (sample_n < SAMPLES_MAX)
			samples[sample_n++] = (uint32_t)((now_ns() - st->started_ns) / 1000);
	}
	return 0;
}

static void h2_start(struct conn *c)
{
	static nghttp2_session_callbacks *cb;
	const nghttp2_settings_entry iv[] = { { NGHTTP2_SETTINGS_ENABLE_PUSH, 0 }, { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20 } };
	struct h2 *h = calloc(1, sizeof(*h));

	if (cb == NULL && nghttp2_session_callbacks_new(&cb) == 0) {
		nghttp2_session_callbacks_set_on_header_callback(cb, h2_field);
		nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, h2_data);
		nghttp2_session_callbacks_set_on_stream_close_callback(cb, h2_closed);
	}
	if (h == NULL || cb == NULL || nghttp2_session_client_new(&h->s, cb, h) != 0 || nghttp2_submit_settings(h->s, 0, iv, 2) != 0 || nghttp2_session_set_local_window_size(h->s, 0, 0, 1 << 24) != 0)
		die("cannot set up HTTP/2");
	h->c = c;
	c->h2 = h;
}

static void h2_ask(struct h2 *h)
{
#define NV(n, v, m) { (uint8_t *)(uintptr_t)(n), (uint8_t *)(uintptr_t)(v), strlen(n), (m), NGHTTP2_NV_FLAG_NONE }
	char authority[300];
	int n = snprintf(authority, sizeof(authority), "%s:%d", opt.host, opt.port);
	const nghttp2_nv nv[] = { NV(":method", "GET", 3), NV(":scheme", "https", 5), NV(":authority", authority, (size_t)n), NV(":path", opt.path, strlen(opt.path)), NV("user-agent", "loadgen", 7), NV("accept", "*/*", 3), NV("authorization", "Bearer placeholder", 18) };

	for (int i = 0; i < opt.streams && h->open < opt.streams; i++) {
		struct stream *st = &h->streams[i];

		if (st->used || (opt.idle && h->asked))
			continue;
		*st = (struct stream){ .used = true, .started_ns = now_ns() };
		if (nghttp2_submit_request(h->s, NULL, nv, sizeof(nv) / sizeof(nv[0]), NULL, st) < 0)
			die("cannot submit");
		h->open++;
		h->asked = true;
	}
}

/* All that is there to send, in writes as large as may be. */
static enum step h2_send(struct conn *c)
{
	struct h2 *h = c->h2;

	for (;;) {
		const uint8_t *p;
		ssize_t n = 0;
		int r;

		while (h->at == 0 && h->n + 16500 < sizeof(h->out) && (n = nghttp2_session_mem_send(h->s, &p)) > 0) {
			memcpy(h->out + h->n, p, (size_t)n);
			h->n += (size_t)n;
		}
		if (n < 0)
			return failed("HTTP/2");
		if (h->n == 0)
			return STEP_DONE;
		r = SSL_write(c->ssl, h->out + h->at, (int)(h->n - h->at));
		if (r <= 0)
			return wants(c, r, "write");
		h->at += (size_t)r;
		if (h->at == h->n)
			h->at = h->n = 0;
	}
}

static enum step h2_step(struct conn *c)
{
	struct h2 *h = c->h2;

	for (;;) {
		enum step s;
		int r;

		h2_ask(h);
		s = h2_send(c);
		if (s == STEP_FAILED)
			return s;
		r = SSL_read(c->ssl, chunk, CHUNK);
		if (r <= 0)
			return wants(c, r, "read");
		if (nghttp2_session_mem_recv(h->s, (uint8_t *)chunk, (size_t)r) < 0 || h->broken) {
			errno = EPROTO;
			return failed("HTTP/2");
		}
		if (opt.idle && h->open == 0) {
			h2_send(c);
			held++;
			c->state = HELD;
			return STEP_DONE;
		}
	}
}

static enum step shake(struct conn *c)
{
	int r;

	if (c->ssl == NULL) {
		c->ssl = SSL_new(ctx);
		if (c->ssl == NULL || SSL_set_fd(c->ssl, c->fd) != 1 || SSL_set_tlsext_host_name(c->ssl, opt.host) != 1 || SSL_set1_host(c->ssl, opt.host) != 1)
			die("cannot set up TLS");
		SSL_set_connect_state(c->ssl);
	}
	r = SSL_do_handshake(c->ssl);
	if (r != 1)
		return wants(c, r, "handshake");
	if (opt.streams > 0) {
		const unsigned char *alpn;
		unsigned n;

		SSL_get0_alpn_selected(c->ssl, &alpn, &n);
		errno = EPROTO;
		if (n != 2 || memcmp(alpn, "h2", 2) != 0)
			return failed("HTTP/2 was not agreed on");
		h2_start(c);
		c->state = H2;
		return STEP_AGAIN;
	}
	c->state = SENDING;
	return STEP_AGAIN;
}

static enum step send_request(struct conn *c)
{
	int r = SSL_write(c->ssl, request, (int)request_len); /* no partial writes: all or again */

	if (r <= 0)
		return wants(c, r, "write");
	c->state = HEAD;
	c->head_len = 0;
	return STEP_AGAIN;
}

static void finished(struct conn *c)
{
	uint64_t t = now_ns();

	if (in_window) {
		requests++;
		if (sample_n < SAMPLES_MAX)
			samples[sample_n++] = (uint32_t)((t - c->started_ns) / 1000);
	}
	c->started_ns = t;
}

static enum step body_done(struct conn *c)
{
	finished(c);
	if (opt.idle) {
		held++;
		c->state = HELD;
		return STEP_DONE;
	}
	if (opt.fresh)
		return STEP_RECONNECT;
	c->state = SENDING;
	return STEP_AGAIN;
}

static enum step head_done(struct conn *c, char *end)
{
	size_t got = c->head_len - (size_t)(end - c->head);
	const char *cl = strcasestr(c->head, "\r\ncontent-length:");
	uint64_t len;

	errno = EPROTO;
	if (strncmp(c->head, "HTTP/1.1 ", 9) != 0)
		return failed("not HTTP/1.1");
	if (c->head[9] != '2') {
		bad_status++;
		c->head[strcspn(c->head, "\r")] = 0;
		return failed(c->head);
	}
	if (cl == NULL || cl > end)
		return failed("no Content-Length");
	len = strtoull(cl + 17, NULL, 10);
	if (got > len)
		return failed("more than Content-Length");
	if (in_window)
		bytes += got;
	c->body_left = len - got;
	c->state = BODY;
	return c->body_left == 0 ? body_done(c) : STEP_AGAIN;
}

static enum step read_head(struct conn *c)
{
	int r = SSL_read(c->ssl, c->head + c->head_len, (int)(HEAD_MAX - 1 - c->head_len));
	char *end;

	if (r <= 0)
		return wants(c, r, "read");
	c->head_len += (size_t)r;
	c->head[c->head_len] = 0;
	end = strstr(c->head, "\r\n\r\n");
	if (end == NULL)
		return c->head_len == HEAD_MAX - 1 ? failed("long head") : STEP_AGAIN;
	return head_done(c, end + 4);
}

static enum step read_body(struct conn *c)
{
	int r = SSL_read(c->ssl, chunk, CHUNK);

	if (r <= 0)
		return wants(c, r, "read");
	if ((uint64_t)r > c->body_left) {
		errno = EPROTO;
		return failed("more than Content-Length");
	}
	if (in_window)
		bytes += (uint64_t)r;
	c->body_left -= (uint64_t)r;
	return c->body_left == 0 ? body_done(c) : STEP_AGAIN;
}

static enum step held_step(struct conn *c)
{
	int r = SSL_read(c->ssl, chunk, CHUNK);

	if (r <= 0 && wants(c, r, "an idle connection ended") == STEP_WAIT)
		return STEP_WAIT;
	if (r > 0 && c->h2 != NULL) /* SETTINGS, and what else is of the connection */
		return STEP_AGAIN;
	held--;
	return STEP_FAILED;
}

static enum step (*const steps[])(struct conn *) = {
	[DIALING] = dialed, [TUNNEL] = tunnel, [SHAKING] = shake, [SENDING] = send_request, [HEAD] = read_head, [BODY] = read_body, [H2] = h2_step, [HELD] = held_step,
};

static void drive(struct conn *c)
{
	enum step s = STEP_AGAIN;

	while (s == STEP_AGAIN && !over && c->state != CLOSED)
		s = steps[c->state](c);
	if (s == STEP_WAIT || s == STEP_DONE || over)
		return;
	conn_close(c);
	if (!opt.idle && errors < 1000)
		conn_open(c);
}

static void run_until(uint64_t end_ns)
{
	struct epoll_event ev[256];
	uint64_t t;

	while ((t = now_ns()) < end_ns) {
		int n = epoll_wait(ep, ev, 256, (int)((end_ns - t) / 1000000 + 1));

		for (int i = 0; i < n; i++)
			drive(ev[i].data.ptr);
		if (errors >= 1000)
			die(first_error);
	}
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static uint32_t percentile(double p) { return sample_n == 0 ? 0 : samples[(size_t)(p * (double)(sample_n - 1))]; }

static void mark(const char *line)
{
	if (write(1, line, strlen(line)) < 0)
		exit(2);
}

static void setup(void)
{
	char *p;
	int n;

	ctx = SSL_CTX_new(TLS_client_method());
	if (ctx == NULL || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
		die("no TLS");
	if (opt.ca != NULL ? SSL_CTX_load_verify_locations(ctx, opt.ca, NULL) != 1 : SSL_CTX_set_default_verify_paths(ctx) != 1)
		die("cannot load the CA");
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF); /* each connection is a full handshake, for every peer */
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(ctx, 1);
	SSL_CTX_set_mode(ctx, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	if (opt.streams > 0)
		SSL_CTX_set_alpn_protos(ctx, (const unsigned char *)"\2h2", 3);
	SSL_CTX_set_default_read_buffer_len(ctx, CHUNK);
	request = malloc(1024 + opt.body);
	conns = calloc((size_t)opt.conns, sizeof(*conns));
	samples = malloc(SAMPLES_MAX * sizeof(*samples));
	if (request == NULL || conns == NULL || samples == NULL)
		die("no memory");
	for (int i = 0; i < opt.conns; i++)
		conns[i].fd = -1;
	n = snprintf(request, 1024, "%s %s HTTP/1.1\r\nHost: %s:%d\r\nUser-Agent: loadgen\r\nAccept: */*\r\nAuthorization: Bearer placeholder\r\n", opt.method, opt.path, opt.host, opt.port);
	p = request + n;
	if (opt.body > 0)
		p += sprintf(p, "Content-Type: application/json\r\nContent-Length: %zu\r\n", opt.body);
	p += sprintf(p, "\r\n");
	memset(p, 'x', opt.body);
	request_len = (size_t)(p - request) + opt.body;
	snprintf(tunnel_head, sizeof(tunnel_head), "CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n", opt.host, opt.port, opt.host, opt.port);
	ep = epoll_create1(EPOLL_CLOEXEC);
}

static void address(const char *s)
{
	char a[64];
	const char *colon = strrchr(s, ':');

	if (colon == NULL || (size_t)(colon - s) >= sizeof(a))
		die("an address is 127.x.x.x:PORT");
	memcpy(a, s, (size_t)(colon - s));
	a[colon - s] = 0;
	opt.to.sin_family = AF_INET;
	opt.to.sin_port = htons((uint16_t)atoi(colon + 1));
	if (inet_pton(AF_INET, a, &opt.to.sin_addr) != 1 || ntohl(opt.to.sin_addr.s_addr) >> 24 != 127)
		die("only loopback addresses are loaded");
}

static void options(int argc, char **argv)
{
	int o;

	while ((o = getopt(argc, argv, "x:d:u:p:m:c:w:t:b:C:2:")) != -1) {
		switch (o) {
		case 'x': address(optarg); opt.tunnel = true; break;
		case 'd': address(optarg); break;
		case 'u': {
			char *colon = strrchr(optarg, ':');

			if (colon == NULL)
				die("-u HOST:PORT");
			*colon = 0;
			opt.host = optarg;
			opt.port = atoi(colon + 1);
			break;
		}
		case 'p': opt.path = optarg; break;
		case 'm': opt.mode = optarg; break;
		case 'c': opt.conns = atoi(optarg); break;
		case 'w': opt.warm_s = atof(optarg); break;
		case 't': opt.window_s = atof(optarg); break;
		case 'b': opt.body = (size_t)atol(optarg); opt.method = "POST"; break;
		case 'C': opt.ca = optarg; break;
		case '2': opt.streams = atoi(optarg); break;
		default: die("usage: loadgen -x|-d 127.0.0.1:PORT -u HOST:PORT [-p PATH] [-m keepalive|newconn|idle] [-c N] [-w S] [-t S] [-b OCTETS | -2 STREAMS] [-C CA]");
		}
	}
	opt.fresh = strcmp(opt.mode, "newconn") == 0;
	opt.idle = strcmp(opt.mode, "idle") == 0;
	if (opt.to.sin_family == 0 || opt.host == NULL || opt.conns < 1 || opt.conns > CONNS_MAX || opt.body > 1 << 20 || opt.streams < 0 || opt.streams > STREAMS_MAX || (opt.streams > 0 && (opt.body > 0 || opt.fresh)))
		die("-x or -d, and -u, are needed; at most 4096 connections");
}

/* Idle: a few connections first, so that what is paid once is in the base; then all of them, one request each, held. */
static void run_idle(void)
{
	uint64_t end = now_ns() + 60000000000ull;
	int few = opt.conns < 4 ? opt.conns : 4;

	for (int i = 0; i < few; i++)
		conn_open(&conns[i]);
	while (held < (uint64_t)few && now_ns() < end)
		run_until(now_ns() + 20000000);
	run_until(now_ns() + (uint64_t)(opt.warm_s * 1e9));
	mark("begin\n");
	for (int i = few; i < opt.conns; i++) {
		conn_open(&conns[i]);
		while ((uint64_t)i + 1 - held > 16 && now_ns() < end && errors == 0) /* 16 at a time: a burst is another test */
			run_until(now_ns() + 1000000);
	}
	while (held < (uint64_t)opt.conns && now_ns() < end && errors == 0)
		run_until(now_ns() + 20000000);
	run_until(now_ns() + (uint64_t)(opt.window_s * 1e9));
	held -= (uint64_t)few;
}

int main(int argc, char **argv)
{
	char line[900];
	uint64_t t0, c0;

	signal(SIGPIPE, SIG_IGN);
	options(argc, argv);
	alarm((unsigned)(opt.warm_s + opt.window_s) + 90); /* nothing here may hang a run */
	setup();
	if (opt.idle) {
		t0 = now_ns();
		c0 = cpu_us();
		run_idle();
	} else {
		for (int i = 0; i < opt.conns; i++)
			conn_open(&conns[i]);
		run_until(now_ns() + (uint64_t)(opt.warm_s * 1e9));
		mark("begin\n");
		in_window = true;
		t0 = now_ns();
		c0 = cpu_us();
		run_until(t0 + (uint64_t)(opt.window_s * 1e9));
		in_window = false;
	}
	{
		double secs = (double)(now_ns() - t0) / 1e9;
		uint64_t used = cpu_us() - c0;

		qsort(samples, sample_n, sizeof(*samples), by_value);
		for (char *q = first_error; *q; q++)
			if (*q == '"' || *q == '\\' || (unsigned char)*q < ' ')
				*q = '\'';
		snprintf(line, sizeof(line),
			"end {\"mode\":\"%s\",\"seconds\":%.3f,\"requests\":%llu,\"bytes\":%llu,\"held\":%llu,\"errors\":%llu,\"bad_status\":%llu,\"p50_us\":%u,\"p99_us\":%u,"
			"\"client_cpu_us\":%llu,\"first_error\":\"%s\"}\n",
			opt.mode, secs, (unsigned long long)requests, (unsigned long long)bytes, (unsigned long long)held, (unsigned long long)errors, (unsigned long long)bad_status,
			percentile(0.5), percentile(0.99), (unsigned long long)used, first_error);
		mark(line);
	}
	over = true;
	for (int i = 0; i < opt.conns; i++)
		conn_close(&conns[i]);
	return errors > 0 && requests == 0 && !opt.idle ? 1 : 0;
}
