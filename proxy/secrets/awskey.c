/* SPDX-License-Identifier: Apache-2.0 */
#include "awskey.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>

#include "../../common/base/must.h"
#include "../../common/base/utc.h"

#define KEY_ID_MAX 128
#define KEY_MAX 256
#define SESSION_MAX 4096

struct parts {
	char id[KEY_ID_MAX + 1], key[KEY_MAX + 1], session[SESSION_MAX + 1];
};

/* What is neither white space nor control nor longer than that. */
static bool take(char *out, size_t max, struct str s)
{
	if (s.n == 0 || s.n > max)
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~')
			return false;
	memcpy(out, s.p, s.n);
	out[s.n] = 0;
	return true;
}

static bool from_colons(struct str v, struct parts *p)
{
	const char *a = v.n ? memchr(v.p, ':', v.n) : NULL, *b;

	if (a == NULL)
		return false;
	b = memchr(a + 1, ':', v.n - (size_t)(a + 1 - v.p));
	return take(p->id, KEY_ID_MAX, str_mk(v.p, (size_t)(a - v.p))) && take(p->key, KEY_MAX, str_mk(a + 1, (size_t)((b != NULL ? b : v.p + v.n) - a - 1))) &&
	       (b == NULL || take(p->session, SESSION_MAX, str_mk(b + 1, v.n - (size_t)(b + 1 - v.p))));
}

/* A string from its opening quote on, into out; "\/" is all that such values escape. Its length with both quotes, or 0. */
static size_t string(struct str v, char *out, size_t max, size_t *n)
{
	*n = 0;
	for (size_t i = 1; i < v.n; i++) {
		char c = v.p[i];

		if (c == '"')
			return i + 1;
		if (c == '\\') {
			if (++i == v.n || (v.p[i] != '/' && v.p[i] != '"' && v.p[i] != '\\'))
				return 0;
			c = v.p[i];
		}
		if (*n == max)
			return 0;
		out[(*n)++] = c;
	}
	return 0;
}

static bool is_key(struct str name, const char *const *names)
{
	for (; *names != NULL; names++)
		if (str_ieq(name, str_of(*names)))
			return true;
	return false;
}

/* Whatever object they stand in: of the keys that are meant each is there once. */
static bool from_json(struct str v, struct parts *p)
{
	static const char *const ids[] = { "access_key", "accesskeyid", "aws_access_key_id", NULL }, *const keys[] = { "secret_key", "secretaccesskey", "aws_secret_access_key", NULL },
			 *const sessions[] = { "security_token", "session_token", "sessiontoken", "aws_session_token", NULL };
	char name[64], text[SESSION_MAX];
	bool ok = true;
	size_t n, len;

	while (ok && v.n > 0) {
		struct str key;
		char *to = NULL;
		size_t max = 0;

		if (*v.p != '"') {
			v = str_mk(v.p + 1, v.n - 1);
			continue;
		}
		len = string(v, text, sizeof(text), &n);
		if (len == 0) {
			ok = false;
			break;
		}
		v = str_mk(v.p + len, v.n - len);
		while (v.n > 0 && (*v.p == ' ' || *v.p == '\t'))
			v = str_mk(v.p + 1, v.n - 1);
		if (v.n == 0 || *v.p != ':' || n > sizeof(name))
			continue;
		memcpy(name, text, n);
		key = str_mk(name, n);
		v = str_mk(v.p + 1, v.n - 1);
		while (v.n > 0 && (*v.p == ' ' || *v.p == '\t'))
			v = str_mk(v.p + 1, v.n - 1);
		if (is_key(key, ids))
			to = p->id, max = KEY_ID_MAX;
		else if (is_key(key, keys))
			to = p->key, max = KEY_MAX;
		else if (is_key(key, sessions))
			to = p->session, max = SESSION_MAX;
		if (to == NULL || v.n == 0 || *v.p != '"')
			continue;
		len = string(v, text, sizeof(text), &n);
		ok = len > 0 && to[0] == 0 && (n == 0 || take(to, max, str_mk(text, n)));
		v = str_mk(v.p + len, v.n - len);
	}
	explicit_bzero(text, sizeof(text));
	return ok && p->id[0] != 0 && p->key[0] != 0;
}

static void mac(uint8_t *key, size_t *key_n, struct str text)
{
	uint8_t md[32];
	unsigned n = sizeof(md);

	MUST(HMAC(EVP_sha256(), key, (int)*key_n, (const unsigned char *)text.p, text.n, md, &n) != NULL && n == sizeof(md));
	memcpy(key, md, sizeof(md));
	*key_n = sizeof(md);
	explicit_bzero(md, sizeof(md));
}

bool awskey_release(struct str value, uint64_t now_s, struct str region, struct str service, char out[AWSKEY_MAX], const char **cause)
{
	uint8_t key[4 + KEY_MAX + 1];
	struct parts p = { 0 };
	size_t n = 0, at = 0;
	char when[UTC_BASIC_LEN + 1];
	bool ok = value.n > 0 && value.p[0] == '{' ? from_json(value, &p) : from_colons(value, &p);

	*cause = "the value is not KEY_ID:KEY[:SESSION_TOKEN], nor JSON with AWS credentials";
	if (!ok)
		goto out;
	utc_basic(now_s, when);
	n = (size_t)snprintf((char *)key, sizeof(key), "AWS4%s", p.key);
	mac(key, &n, str_mk(when, 8));
	mac(key, &n, region);
	mac(key, &n, service);
	mac(key, &n, STR("aws4_request"));
	for (unsigned i = 0; i < 32; i++)
		at += (size_t)snprintf(out + at, 3, "%02x", key[i]);
	snprintf(out + at, AWSKEY_MAX - at, " %.8s %s%s%s", when, p.id, p.session[0] ? " " : "", p.session);
out:
	explicit_bzero(&p, sizeof(p));
	explicit_bzero(key, sizeof(key));
	return ok;
}
