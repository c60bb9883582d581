/* SPDX-License-Identifier: Apache-2.0 */
/* A connection under TLS to the proxy behind: verified first, then octets both ways, whoever waits, and an end that is passed on. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "common/base/must.h"
#include "proxy/dialer/link.h"

#define MUCH (4u << 20)

static SSL_CTX *server_ctx;
static int listener, ca_fd, other_fd;
static uint16_t port;
static struct loop *loop;
static struct parent parent;

static int made(X509 **out, EVP_PKEY **key_out)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	FILE *f = tmpfile();
	X509_EXTENSION *e;
	int fd;

	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), 7);
	X509_gmtime_adj(X509_getm_notBefore(x), -60);
	X509_gmtime_adj(X509_getm_notAfter(x), 3600);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)"proxy", -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(x));
	X509_set_pubkey(x, key);
	e = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
	X509_add_ext(x, e, -1);
	X509_EXTENSION_free(e);
	assert_true(X509_sign(x, key, EVP_sha256()) > 0 && PEM_write_X509(f, x) == 1 && fflush(f) == 0);
	fd = dup(fileno(f));
	fclose(f);
	*out = x;
	*key_out = key;
	return fd;
}

enum what { ECHO = 0, SAY_AND_CLOSE, BREAK_OFF, CLOSE_LATE };

/* Takes one connection: reads five octets, answers with five, and then what it is told to do. */
static void *serve(void *arg)
{
	enum what what = *(enum what *)arg;
	int fd = accept(listener, NULL, NULL), n;
	SSL *s = SSL_new(server_ctx);
	static char b[65536];

	SSL_set_fd(s, fd);
	if (SSL_accept(s) != 1 || SSL_read(s, b, 5) != 5 || SSL_write(s, "there", 5) != 5) {
		what = BREAK_OFF;
	} else if (what == ECHO) {
		while ((n = SSL_read(s, b, sizeof(b))) > 0)
			if (SSL_write(s, b, n) != n)
				break;
		SSL_shutdown(s);
	} else if (what == SAY_AND_CLOSE) {
		memset(b, 'z', sizeof(b));
		for (unsigned at = 0; at < MUCH && SSL_write(s, b, sizeof(b)) > 0; at += sizeof(b))
			;
		SSL_shutdown(s);
	} else if (what == CLOSE_LATE) { /* reads nothing more until the other side has gone */
		struct pollfd p = { fd, POLLRDHUP, 0 };

		poll(&p, 1, 10000);
	}
	SSL_free(s);
	close(fd);
	return NULL;
}

struct seen {
	struct link *l;
	unsigned ready, failed;
	int fd; /* the worker's end */
	char cause[200];
};

static void on_link(void *arg, enum link_event event)
{
	struct seen *s = arg;

	if (event == LINK_READY) {
		s->ready++;
		link_send(s->l, "hello", 5);
	} else if (event == LINK_INPUT) {
		struct buf *in = link_input(s->l);

		if (buf_len(in) < 5)
			return;
		assert_memory_equal(buf_data(in), "there", 5);
		buf_drop(in, 5);
		s->fd = link_pass(s->l);
		assert_true(s->fd >= 0);
	} else {
		s->failed++;
		snprintf(s->cause, sizeof(s->cause), "%s", link_cause(s->l));
		link_free(s->l);
		s->l = NULL;
	}
}

/* What waits in the kernel is little beside what is sent. */
static int small(int fd)
{
	const int n = 65536;

	assert_true(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &n, sizeof(n)) == 0 && setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &n, sizeof(n)) == 0);
	return fd;
}

static int dialled(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port) };
	int fd = small(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

	assert_true(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	return fd;
}

static void turns(unsigned *a, unsigned *b)
{
	for (int i = 0; i < 1000 && *a == 0 && *b == 0; i++)
		loop_turn(loop, 100);
}

/* Verified and asked: returns the worker's end. */
static int passed(struct link_ctx *ctx, pthread_t *t, enum what *what)
{
	struct seen s = { .fd = -1 };

	assert_int_equal(pthread_create(t, NULL, serve, what), 0);
	s.l = link_new(ctx, loop, dialled(), on_link, &s);
	while (s.failed == 0 && s.fd < 0)
		loop_turn(loop, 100);
	assert_true(s.ready == 1 && s.failed == 0);
	return s.fd;
}

/* How often the loop turns in so many ms when nobody has anything to say. */
static unsigned idle_turns(unsigned ms)
{
	uint64_t end = loop_now_ms(loop) + ms;
	unsigned n = 0;

	while (loop_now_ms(loop) < end && n < 10000) {
		loop_turn(loop, 20);
		n++;
	}
	return n;
}

static void octets_both_ways(void **state)
{
	struct err err = ERR_INIT;
	struct link_ctx *ctx = link_ctx_new(&parent, ca_fd, NULL, &err);
	char *out = malloc(MUCH), *in = malloc(MUCH);
	enum what what = ECHO;
	size_t sent = 0, got = 0;
	pthread_t t;
	int fd = passed(ctx, &t, &what);
	ssize_t k;

	(void)state;
	assert_true(idle_turns(200) < 60);
	for (size_t i = 0; i < MUCH; i++)
		out[i] = (char)(i * 7 + i / 251);
	/* writes as long as anything is taken, and only then reads */
	for (int stuck = 0; sent < MUCH && stuck < 50; stuck++) {
		while ((k = send(fd, out + sent, MUCH - sent, MSG_NOSIGNAL | MSG_DONTWAIT)) > 0) {
			sent += (size_t)k;
			stuck = 0;
		}
		loop_turn(loop, 2);
	}
	assert_true(sent < MUCH); /* who does not read is not held any amount of octets for */
	assert_true(idle_turns(200) < 60);
	while (got < MUCH) {
		if (sent < MUCH && (k = send(fd, out + sent, MUCH - sent, MSG_NOSIGNAL | MSG_DONTWAIT)) > 0)
			sent += (size_t)k;
		if (sent == MUCH) {
			shutdown(fd, SHUT_WR);
			sent++;
		}
		while ((k = recv(fd, in + got, MUCH - got, MSG_DONTWAIT)) > 0)
			got += (size_t)k;
		assert_true(k != 0 || got == MUCH);
		loop_turn(loop, 2);
	}
	assert_memory_equal(in, out, MUCH);
	while ((k = recv(fd, in, 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
		loop_turn(loop, 20);
	assert_int_equal(k, 0); /* its end comes behind all of it */
	close(fd);
	assert_true(idle_turns(100) < 60);
	pthread_join(t, NULL);
	link_ctx_free(ctx);
	free(out);
	free(in);
}

/* The proxy has said all and gone before anybody reads. */
static void what_was_said_last(void **state)
{
	struct err err = ERR_INIT;
	struct link_ctx *ctx = link_ctx_new(&parent, ca_fd, NULL, &err);
	enum what what = SAY_AND_CLOSE;
	size_t got = 0;
	pthread_t t;
	int fd = passed(ctx, &t, &what);
	char b[5000];
	ssize_t k;

	(void)state;
	assert_true(idle_turns(300) < 90);
	while ((k = recv(fd, b, sizeof(b), MSG_DONTWAIT)) != 0) {
		if (k < 0)
			loop_turn(loop, 2);
		else
			got += (size_t)k;
	}
	assert_int_equal(got, MUCH);
	close(fd);
	assert_true(idle_turns(100) < 60);
	pthread_join(t, NULL);
	link_ctx_free(ctx);
}

/* It breaks off, or the worker does while it takes nothing: neither spins, and the other side's end comes. */
static void broken_off(void **state)
{
	struct err err = ERR_INIT;
	struct link_ctx *ctx = link_ctx_new(&parent, ca_fd, NULL, &err);
	enum what off = BREAK_OFF, late = CLOSE_LATE;
	char b[16];
	pthread_t t;
	ssize_t k;
	int fd;

	(void)state;
	fd = passed(ctx, &t, &off);
	while ((k = recv(fd, b, sizeof(b), MSG_DONTWAIT)) < 0 && errno == EAGAIN)
		loop_turn(loop, 20);
	assert_int_equal(k, 0);
	assert_true(idle_turns(100) < 60);
	close(fd);
	assert_true(idle_turns(100) < 60);
	pthread_join(t, NULL);
	fd = passed(ctx, &t, &late);
	assert_int_equal(send(fd, "bye", 3, MSG_NOSIGNAL), 3);
	close(fd);
	assert_true(idle_turns(300) < 90);
	pthread_join(t, NULL);
	assert_true(idle_turns(100) < 60);
	link_ctx_free(ctx);
}

static void refused(void **state)
{
	static const char *const why[] = { "certificate", "IP address mismatch" };
	struct err err = ERR_INIT;
	enum what what = ECHO;
	struct parent other = parent;

	(void)state;
	assert_true(ip_parse(STR("127.0.0.2"), &other.ip));
	for (int i = 0; i < 2; i++) {
		struct link_ctx *ctx = link_ctx_new(i == 0 ? &parent : &other, i == 0 ? other_fd : ca_fd, NULL, &err);
		struct seen s = { 0 };
		pthread_t t;

		assert_int_equal(pthread_create(&t, NULL, serve, &what), 0);
		s.l = link_new(ctx, loop, dialled(), on_link, &s);
		turns(&s.ready, &s.failed);
		assert_true(s.failed == 1 && s.ready == 0);
		assert_non_null(strstr(s.cause, why[i]));
		assert_true(idle_turns(50) < 60);
		pthread_join(t, NULL);
		link_ctx_free(ctx);
	}
	assert_null(link_ctx_new(&parent, -1, NULL, &err));
	assert_non_null(strstr(err.text, "upstream_proxy.ca"));
}

static int teardown(void **state)
{
	(void)state;
	SSL_CTX_free(server_ctx);
	loop_free(loop);
	return 0;
}

static int setup(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);
	EVP_PKEY *key, *other;
	X509 *x, *y;

	(void)state;
	ca_fd = made(&x, &key);
	other_fd = made(&y, &other);
	X509_free(y);
	EVP_PKEY_free(other);
	server_ctx = SSL_CTX_new(TLS_server_method());
	assert_true(SSL_CTX_use_certificate(server_ctx, x) == 1 && SSL_CTX_use_PrivateKey(server_ctx, key) == 1);
	X509_free(x);
	EVP_PKEY_free(key);
	listener = small(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	assert_true(bind(listener, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(listener, 8) == 0 && getsockname(listener, (struct sockaddr *)&a, &n) == 0);
	port = ntohs(a.sin_port);
	assert_true(parent_parse(STR("via 127.0.0.1 3128 gateway tls"), &parent));
	loop = loop_new();
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(octets_both_ways), cmocka_unit_test(what_was_said_last), cmocka_unit_test(broken_off), cmocka_unit_test(refused) };

	return cmocka_run_group_tests(tests, setup, teardown);
}
