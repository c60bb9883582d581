/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_SECRET_PARAM_H
#define SP_POLICY_SECRET_PARAM_H
/*
 * What a secret needs beside its name and source: a list of (tag, text) in its record, in the order of the tags; tags in
 * SECRET_PARAM_MANY may repeat. And the one form of a URL that `secrets` may speak to: https, a canonical host, a port, a
 * path. Where such a connection may lead is vetted by the dialer from this list, so it cannot be told elsewhere.
 */
#include "../base/canon.h"
#include "format.h"

enum secret_param {
	SECRET_PARAM_NONE = 0,
	SECRET_PARAM_FIELD,	  /* of a Vault secret; "*": all of them, as JSON */
	SECRET_PARAM_WORD,	  /* exec: one more argument */
	SECRET_PARAM_URL,	  /* of the token end-point */
	SECRET_PARAM_CONNECT,	  /* ADDRESS:PORT in place of resolving its name */
	SECRET_PARAM_ADDRESS,	  /* a range that its address may be in */
	SECRET_PARAM_CA,	  /* DER; in place of the public roots */
	SECRET_PARAM_CLIENT_ID,	  /* oauth2 */
	SECRET_PARAM_GRANT,	  /* oauth2: refresh_token; absent: client_credentials */
	SECRET_PARAM_CLIENT_AUTH, /* oauth2: post; absent: basic */
	SECRET_PARAM_SCOPE,
	SECRET_PARAM_AUDIENCE,
	SECRET_PARAM_APP, /* github_app: its number or client id */
	SECRET_PARAM_INSTALLATION,
	SECRET_PARAM_REPOSITORY,
	SECRET_PARAM_PERMISSION, /* NAME=read|write|admin */
	SECRET_PARAM_SUBJECT,	 /* gcp: whom it acts for */
	SECRET_PARAM_COUNT
};
#define SECRET_PARAM_TEXT_MAX 4096u
#define SECRET_PARAM_CA_MAX 65536u
#define SECRET_PARAMS_MAX 700u

struct secret_params {
	struct str list; /* as it stands in the record, behind the count */
	uint32_t n;
};
/* The nth (from 0) with this tag; an empty text when there is none. */
struct str secret_param(const struct secret_params *p, enum secret_param tag, unsigned nth);
/* Takes the list off the cursor and checks it. */
bool secret_params_load(struct cursor *c, struct secret_params *out);

struct endpoint {
	struct canon_host host;
	uint16_t port;
	struct str path; /* with its slash; borrowed; no query */
};
/* "https://HOST[:PORT][/PATH]". On false *why says what is wrong with it. */
bool endpoint_parse(struct str url, struct endpoint *out, const char **why);
#endif
