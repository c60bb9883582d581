/* SPDX-License-Identifier: Apache-2.0 */
#include "shape.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>

#include "../../common/base/must.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT "0123456789"
static const char hex_low[] = DIGIT "abcdef", hex_up[] = DIGIT "ABCDEF", digits[] = DIGIT, base32[] = UPPER "234567", low36[] = DIGIT LOWER, up36[] = DIGIT UPPER, letters[] = UPPER LOWER,
		  base62[] = DIGIT UPPER LOWER, base64url[] = UPPER LOWER DIGIT "-_";

/*
 * Tokens whose makers publish how they look. template: a letter is a character of the alphabet it stands for (b base62, u
 * base64url, d digit, h hex, l letter, s base32), "!" six characters of base62, CRC-32 of the random part (GitHub's and npm's
 * check); a number in front repeats; what is between ' stands as it is. "*" repeats up to the value's length.
 */
static const struct known {
	const char *prefix, *template;
} known[] = {
	{ "github_pat_", "22b'_'59b" }, { "ghp_", "30b!" }, { "gho_", "30b!" }, { "ghu_", "30b!" }, { "ghs_", "30b!" }, { "ghr_", "30b!" }, { "npm_", "30b!" },
	{ "glpat-", "20u" }, { "sk-ant-api03-", "93u'AA'" }, { "sk-ant-oat01-", "93u'AA'" }, { "sk-ant-", "*u" }, { "sk-proj-", "*u" }, { "sk-or-v1-", "64h" }, { "sk-", "*b" },
	{ "xoxb-", "12d'-'13d'-'24b" }, { "xoxp-", "12d'-'13d'-'24b" }, { "xapp-", "'1-A'10b'-'13d'-'64h" }, { "sk_live_", "*b" }, { "sk_test_", "*b" }, { "rk_live_", "*b" }, { "rk_test_", "*b" },
	{ "whsec_", "*b" }, { "pypi-", "'AgEIcHlwaS5vcmc'*u" }, { "hf_", "34l" }, { "AKIA", "16s" }, { "ASIA", "16s" }, { "AIza", "35u" }, { "ya29.", "*u" }, { "GOCSPX-", "28u" }, { "hvs.", "*u" }, { "dckr_pat_", "27u" },
	{ "SG.", "22u'.'43u" }, { "glsa_", "32b'_'8h" }, { "dop_v1_", "64h" }, { "lin_api_", "40b" }, { "nvapi-", "*u" }, { "gsk_", "52b" }, { "r8_", "37b" }, { "tvly-", "32b" },
};
/* What goes to a host is shaped like this as long as no value is known. */
static const struct {
	const char *suffix, *prefix;
} hosts[] = {
	{ "github.com", "ghp_" }, { "gitlab.com", "glpat-" }, { "openai.com", "sk-" }, { "anthropic.com", "sk-ant-api03-" }, { "slack.com", "xoxb-" }, { "stripe.com", "sk_test_" }, { "huggingface.co", "hf_" },
};

struct stream { /* octets of HMAC(key, what it is for, counter) */
	const uint8_t *key;
	uint8_t seed[32], block[32];
	uint32_t counter;
	unsigned left;
};

static void mac(const uint8_t *key, const void *p, size_t n, uint8_t out[32])
{
	unsigned len = 32;

	MUST(HMAC(EVP_sha256(), key, SHAPE_KEY_LEN, p, n, out, &len) != NULL && len == 32);
}

void shape_warm(void)
{
	uint8_t key[SHAPE_KEY_LEN] = { 0 }, out[32];

	mac(key, key, sizeof(key), out);
}

static uint8_t next_octet(struct stream *s)
{
	if (s->left == 0) {
		uint8_t in[36];

		memcpy(in, s->seed, 32);
		for (unsigned i = 0; i < 4; i++)
			in[32 + i] = (uint8_t)(s->counter >> 8 * i);
		s->counter++;
		mac(s->key, in, sizeof(in), s->block);
		s->left = 32;
	}
	return s->block[32 - s->left--];
}

static char pick(struct stream *s, const char *alphabet)
{
	unsigned n = (unsigned)strlen(alphabet), top = 256 - 256 % n, c;

	do
		c = next_octet(s);
	while (c >= top);
	return alphabet[c % n];
}

static uint32_t crc32(const char *p, size_t n)
{
	uint32_t c = ~0u;

	for (size_t i = 0; i < n; i++) {
		c ^= (uint8_t)p[i];
		for (unsigned k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
	}
	return ~c;
}

struct text {
	char *p;
	size_t n;
};

static void put(struct text *t, char c)
{
	if (t->n < PLACEHOLDER_LEN_MAX)
		t->p[t->n++] = c;
}

static void put_random(struct text *t, struct stream *s, const char *alphabet, size_t n)
{
	while (n-- > 0)
		put(t, pick(s, alphabet));
}

static const char *alphabet_of(char c)
{
	switch (c) {
	case 'u':
		return base64url;
	case 'd':
		return digits;
	case 'h':
		return hex_low;
	case 'l':
		return letters;
	case 's':
		return base32;
	default:
		return base62;
	}
}

/* len: of the whole, where the template leaves it open. */
static void put_template(struct text *t, struct stream *s, const char *template, size_t len)
{
	size_t begin = t->n;

	for (const char *c = template; *c != 0; c++) {
		size_t n = 0;
		uint32_t check;

		if (*c == '\'') {
			for (c++; *c != '\''; c++)
				put(t, *c);
			continue;
		}
		if (*c == '!') {
			check = crc32(t->p + begin, t->n - begin);
			for (uint32_t k = 916132832u; k > 0; k /= 62) /* 62^5 */
				put(t, base62[check / k % 62]);
			continue;
		}
		for (; *c >= '0' && *c <= '9'; c++)
			n = n * 10 + (size_t)(*c - '0');
		if (*c == '*') {
			n = len > t->n + 24 ? len - t->n : 24;
			c++;
		}
		put_random(t, s, alphabet_of(*c), n);
	}
}

static bool only(struct str v, const char *alphabet)
{
	for (size_t i = 0; i < v.n; i++)
		if (v.p[i] == 0 || strchr(alphabet, v.p[i]) == NULL)
			return false;
	return v.n > 0;
}

static bool is_uuid(struct str v)
{
	for (size_t i = 0; i < v.n && i < 36; i++)
		if ((i == 8 || i == 13 || i == 18 || i == 23) ? v.p[i] != '-' : hex_value(v.p[i]) < 0)
			return false;
	return v.n == 36;
}

static bool is_jwt(struct str v)
{
	unsigned dots = 0;

	for (size_t i = 0; i < v.n; i++)
		dots += v.p[i] == '.';
	return dots == 2 && str_starts(v, STR("eyJ")) && v.n > 40;
}

/* Readable as a token by whoever looks into it without the key to its signature. */
static void put_jwt(struct text *t, struct stream *s)
{
	static const char head[] = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."; /* {"alg":"HS256","typ":"JWT"} */
	char claims[80];
	unsigned char encoded[120];
	int n;

	for (const char *c = head; *c; c++)
		put(t, *c);
	n = snprintf(claims, sizeof(claims), "{\"sub\":\"");
	while (n < 32) /* a multiple of three octets in all: no padding */
		claims[n++] = pick(s, base62);
	n += snprintf(claims + n, sizeof(claims) - (size_t)n, "\",\"exp\":4102444800}");
	while (n % 3 != 0)
		claims[n++] = ' ';
	n = EVP_EncodeBlock(encoded, (unsigned char *)claims, n);
	for (int i = 0; i < n; i++)
		put(t, encoded[i] == '+' ? '-' : encoded[i] == '/' ? '_' : (char)encoded[i]);
	put(t, '.');
	put_random(t, s, base64url, 43);
}

static void put_like(struct text *t, struct stream *s, struct str v)
{
	static const char *const alphabets[] = { digits, hex_low, hex_up, low36, up36, base62 };
	const char *alphabet = base64url;
	size_t n = v.n < 24 ? 24 : v.n > 128 ? 128 : v.n;

	if (is_uuid(v)) {
		for (size_t i = 0; i < 36; i++)
			put(t, v.p[i] == '-' ? '-' : i == 14 ? '4' : pick(s, hex_low));
		return;
	}
	if (is_jwt(v)) {
		put_jwt(t, s);
		return;
	}
	for (size_t i = 0; i < sizeof(alphabets) / sizeof(alphabets[0]); i++) {
		if (!only(v, alphabets[i]))
			continue;
		alphabet = alphabets[i];
		break;
	}
	put(t, pick(s, alphabet == base64url ? base62 : alphabet)); /* nothing that a command line takes for an option */
	put_random(t, s, alphabet, n - 1);
}

static void put_whole(struct text *t, struct stream *s, const struct shape_for *f)
{
	const struct known *k = NULL;
	const char *prefix = NULL;
	size_t len = f->value.n;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && k == NULL && len > 0; i++)
		if (str_starts(f->value, str_of(known[i].prefix)) && len >= strlen(known[i].prefix) + 12)
			k = &known[i];
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]) && len == 0; i++) {
		struct str suffix = str_of(hosts[i].suffix);

		if (str_ends(f->host, suffix) && (f->host.n == suffix.n || f->host.p[f->host.n - suffix.n - 1] == '.'))
			prefix = hosts[i].prefix;
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && k == NULL && prefix != NULL; i++)
		if (strcmp(known[i].prefix, prefix) == 0)
			k = &known[i];
	if (k == NULL) {
		put_like(t, s, len > 0 ? f->value : STR("0000000000000000000000000000000aZ"));
		return;
	}
	for (const char *c = k->prefix; *c; c++)
		put(t, *c);
	put_template(t, s, k->template, len > 0 ? len : 51);
}

size_t shape_placeholder(const uint8_t key[SHAPE_KEY_LEN], const struct shape_for *f, char out[PLACEHOLDER_LEN_MAX + 1])
{
	struct text t = { out, 0 };
	struct stream s = { .key = key };
	struct buf b = { 0 };

	buf_addz(&b, "sallyport placeholder 1");
	buf_addc(&b, 0);
	buf_adds(&b, f->secret);
	buf_addc(&b, 0);
	buf_addc(&b, f->sandbox ? 's' : 'p');
	buf_adds(&b, f->scope);
	buf_addc(&b, 0);
	buf_addc(&b, (char)f->part);
	mac(key, buf_data(&b), buf_len(&b), s.seed);
	buf_fini(&b);
	switch (f->part) {
	case PLACEHOLDER_KEY_ID:
		put_template(&t, &s, "'AKIA'16s", 0);
		break;
	case PLACEHOLDER_KEY:
		put_random(&t, &s, base62, 40);
		break;
	case PLACEHOLDER_SESSION:
		put_template(&t, &s, "'IQoJb3JpZ2luX2Vj'120b", 0);
		break;
	default:
		put_whole(&t, &s, f);
		break;
	}
	out[t.n] = 0;
	explicit_bzero(&s, sizeof(s));
	return t.n;
}
