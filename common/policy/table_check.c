/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is looked at once, in a process that is thrown away afterwards: pages (image.c), then each record by its layout and
 * by what it says about others (an injection names a secret that there is and that may go there), then the digest.
 */
#include <openssl/evp.h>
#include <stdlib.h>

#include "../base/must.h"
#include "host_pattern.h"
#include "image.h"
#include "sandbox_spec.h"
#include "signature.h"
#include "table_record.h"

struct check {
	EVP_MD_CTX *md;
	struct header h;
	bool have_header, have_sandbox;
	uint32_t dests, secrets;
	struct str *secret_values;
	struct wild wild[WILD_DEPTHS + 1]; /* by depth: what the keys say */
	struct cursor ports;
	uint32_t ports_left, port_entry; /* the scheme and port whose destinations come now */
};

static void md_u32(EVP_MD_CTX *md, uint32_t v)
{
	uint8_t p[4] = { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) };

	MUST(EVP_DigestUpdate(md, p, 4) == 1);
}

void table_digest_record(struct evp_md_ctx_st *md, struct str key, struct str value)
{
	md_u32(md, (uint32_t)key.n);
	MUST(EVP_DigestUpdate(md, key.p, key.n) == 1);
	md_u32(md, (uint32_t)value.n);
	MUST(EVP_DigestUpdate(md, value.p, value.n) == 1);
}

static const char *check_header(struct check *k, struct str key, struct str value)
{
	static const uint8_t zeros[TABLE_DIGEST_LEN]; /* in the digest's place */

	if (!table_load_header(value, &k->h))
		return "its header, or it is of another format version";
	k->have_header = true;
	k->ports = k->h.ports;
	k->ports_left = get_u32(&k->ports);
	k->secret_values = must_calloc(k->h.secrets + 1ul, sizeof(struct str));
	md_u32(k->md, (uint32_t)key.n);
	MUST(EVP_DigestUpdate(k->md, key.p, key.n) == 1);
	md_u32(k->md, (uint32_t)value.n);
	MUST(EVP_DigestUpdate(k->md, value.p, k->h.digest_at) == 1 && EVP_DigestUpdate(k->md, zeros, sizeof(zeros)) == 1 &&
	     EVP_DigestUpdate(k->md, value.p + k->h.digest_at + sizeof(zeros), value.n - k->h.digest_at - sizeof(zeros)) == 1);
	return NULL;
}

static const char *check_secret(struct check *k, struct str key, struct str value)
{
	const uint8_t *b = octets(key);
	struct host_pattern pattern;
	struct secret_decl s;
	struct cursor hosts;

	if (((uint32_t)b[1] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 8 | b[4]) != k->secrets)
		return "a secret's number";
	if (k->secrets >= k->h.secrets || !table_load_secret(value, &s, &hosts))
		return "a secret";
	for (uint32_t n = get_u32(&hosts); n > 0; n--)
		if (!host_pattern_read(get_str(&hosts), &pattern))
			return "a secret's hosts";
	k->secret_values[k->secrets++] = value;
	return NULL;
}

/* Bound: the secret is of that name, and may go to that host, or to every host that the pattern stands for. */
static bool inject_bound(const struct check *k, const struct dest_value *d, const uint8_t *inject)
{
	struct secret_decl s;
	struct cursor hosts;
	struct str host = dest_value_ref(d, d->p + DEST_HOST);

	if (!table_load_secret(k->secret_values[le32(inject + 4)], &s, &hosts) || !str_eq(s.name, dest_value_ref(d, inject + 8)))
		return false;
	for (uint32_t n = get_u32(&hosts); n > 0; n--)
		if (host_text_covers(get_str(&hosts), host))
			return true;
	return false;
}

static void note_wildcard(struct check *k, const struct dest_value *d, const struct host_pattern *p)
{
	struct wild *w = &k->wild[host_labels(p->suffix)]; /* at most WILD_DEPTHS: a wildcard's label and its dot are there too */

	w->flags |= (uint8_t)((p->kind == HOST_DOUBLE_STAR ? WILD_DOUBLE : 0) | (dest_value_denies(d) ? WILD_DENY : 0));
	if (p->kind != HOST_DOUBLE_STAR)
		w->single |= (uint64_t)1 << p->prefix.n;
}

/* The header says of wildcards what the keys say. */
static bool wildcards_agree(const struct check *k)
{
	unsigned n = 0;

	for (unsigned depth = 1; depth <= WILD_DEPTHS; depth++) {
		const struct wild *w = &k->wild[depth], *h = &k->h.wild[n];

		if (w->flags == 0 && w->single == 0)
			continue;
		if (n == k->h.wild_n || h->depth != depth || h->flags != w->flags || h->single != w->single)
			return false;
		n++;
	}
	return n == k->h.wild_n;
}

static const char *check_dest(struct check *k, struct str key, struct str value)
{
	uint8_t want[TABLE_KEY_MAX];
	const uint8_t *b = octets(key), *inject;
	uint16_t port = (uint16_t)(b[2] << 8 | b[3]);
	uint32_t entry = (uint32_t)b[1] << 16 | port;
	const char *what = dest_value_check(value, k->secrets);
	struct host_pattern pattern;
	struct dest_value d;
	struct str host;

	if (what != NULL || !dest_value_load(value, &d))
		return what ? what : "a destination";
	if (le32(d.p + DEST_INDEX) != k->dests++ || (b[1] != SCHEME_HTTP && b[1] != SCHEME_HTTPS && b[1] != SCHEME_TCP) || port == 0)
		return "a destination's key";
	host = dest_value_ref(&d, d.p + DEST_HOST);
	if (!str_eq(str_mk(want, table_key(want, b[1], port, host)), key))
		return "a destination's key";
	if (!host_pattern_read(host, &pattern))
		return "a destination's host";
	if (pattern.kind != HOST_EXACT)
		note_wildcard(k, &d, &pattern);
	if ((d.p[DEST_FLAGS] & DEST_FLAG_TUNNEL) != 0 ? b[1] == SCHEME_HTTP || pattern.kind != HOST_EXACT || d.sect[SECT_INJECTS].n > 0 : b[1] == SCHEME_TCP)
		return "a tunnel";
	if (b[1] != SCHEME_HTTPS && (d.sect[SECT_INJECTS].n > 0 || d.sect[SECT_CAS].n > 0 || d.sect[SECT_CRLS].n > 0 || d.sect[SECT_PINS].n > 0 || (d.p[DEST_FLAGS] & (DEST_FLAG_ALPN_H1 | DEST_FLAG_ALPN_H2)) != 0))
		return "secrets or certificates without TLS";
	for (uint32_t i = 0; (inject = dest_value_at(&d, SECT_INJECTS, INJECT_SIZE, i)) != NULL; i++)
		if (!inject_bound(k, &d, inject))
			return "an injection that its secret does not allow";
	/* the header's list of schemes and ports is that of the keys */
	if (entry != k->port_entry) {
		uint8_t scheme = get_u8(&k->ports);

		if (k->ports_left-- == 0 || ((uint32_t)scheme << 16 | get_u16(&k->ports)) != entry)
			return "its list of ports";
		k->port_entry = entry;
	}
	return NULL;
}

static const char *check_record(struct check *k, struct str key, struct str value)
{
	uint8_t kind = octets(key)[0];

	if (!k->have_header)
		return key.n == 1 && kind == KEY_HEADER ? check_header(k, key, value) : "there is no header";
	table_digest_record(k->md, key, value);
	if (kind == KEY_SECRET && key.n == 5)
		return check_secret(k, key, value);
	if (kind == KEY_SANDBOX && key.n == 1) {
		k->have_sandbox = true;
		return sandbox_value_check(value) ? NULL : "the sandbox section";
	}
	if (kind == KEY_DEST && key.n > 4)
		return check_dest(k, key, value);
	return "a record of an unknown kind";
}

static bool on_record(void *arg, struct str key, struct str value, struct err *err)
{
	const char *what = check_record(arg, key, value);

	if (what == NULL)
		return true;
	err_set(err, 1, "the table is damaged: %s", what);
	return false;
}

int table_check(const uint8_t *p, size_t n, uint8_t digest[TABLE_DIGEST_LEN], struct err *err)
{
	struct check k = { .md = EVP_MD_CTX_new() };
	struct image im;
	int ret = -1;

	MUST(k.md != NULL && EVP_DigestInit_ex(k.md, EVP_sha256(), NULL) == 1);
	if (image_open(&im, p, signature_body(p, n), err) < 0 || image_walk(&im, on_record, &k, err) < 0)
		goto out;
	MUST(EVP_DigestFinal_ex(k.md, digest, NULL) == 1);
	if (!k.have_header || !k.have_sandbox || k.ports_left != 0 || k.dests != k.h.dests || k.secrets != k.h.secrets) {
		err_set(err, 1, "the table is damaged: its counts differ");
		goto out;
	}
	if (!wildcards_agree(&k)) {
		err_set(err, 1, "the table is damaged: its list of wildcards");
		goto out;
	}
	if (memcmp(digest, k.h.digest, TABLE_DIGEST_LEN) != 0) {
		err_set(err, 1, "the table is damaged: its digest differs");
		goto out;
	}
	ret = 0;
out:
	EVP_MD_CTX_free(k.md);
	free(k.secret_values);
	return ret;
}
