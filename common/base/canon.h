/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_CANON_H
#define SP_CANON_H
/*
 * The one canonical form of host, port and path. Everything that names a destination (CONNECT, absolute-form, Host,
 * :authority, SNI, DNS questions, policy files, records) passes through here and nowhere else.
 */
#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "ip.h"
#include "str.h"

#define CANON_HOST_MAX 253
#define CANON_PATH_MAX 16384

struct canon_host {
	char text[CANON_HOST_MAX + 1]; /* lower case, no trailing dot; IPv6 without brackets, RFC 5952 */
	uint8_t len;
	struct ip ip; /* family != 0: the host is an address literal */
};

/*
 * Host of a URI authority or SNI or DNS name in presentation form (attacks E05-E16): LDH and underscore labels, one
 * trailing dot stripped, lower-cased; IPv4 strict dotted quad only, any other name with a numeric last label (or 0x…)
 * refused; "[v6]" when allow_brackets (IPv4-mapped stays v6 text; classification handles embedding). No percent-decoding.
 * On false *reason is a static short code such as "host_label", "host_empty", "host_numeric", "host_character".
 */
bool canon_host(struct str in, bool allow_brackets, struct canon_host *out, const char **reason);
/* 1-65535, digits only, no leading zero. */
bool canon_port(struct str in, uint16_t *out);
/* "host:port" or "host" (then *port = default_port; 0 = a port is required). Userinfo is refused. */
bool canon_authority(struct str in, uint16_t default_port, struct canon_host *host, uint16_t *port, const char **reason);

struct canon_path_opts { /* `paths:` of a destination in the policy */
	bool encoded_slash_keep, empty_segments_keep, raw;
	bool pattern; /* in is a rule: a raw star stays one in the match form; in a request it becomes %2A */
};
/*
 * Path without query, of a request or of a rule. `wire` is what is sent (escapes of unreserved characters decoded,
 * everything else unchanged); `match` is what rules compare with (escapes of sub-delims, ':' and '@' decoded too, other
 * escapes upper-case hex). Both in the arena. On false *reason: "dot_segment", "empty_segment", "encoded_slash",
 * "backslash", "control", "double_encoding", "bad_escape", "bad_utf8", "raw_character", "fragment", "path_too_long",
 * "path_form".
 */
bool canon_path(struct arena *a, struct str in, const struct canon_path_opts *o, struct str *wire, struct str *match, const char **reason);
/*
 * Query: only checked, never changed: escapes well formed, no control, space, '#', and unless raw no '"', '<', '>' or octet
 * above 127. Brackets, braces and the like, which browsers and curl send raw in a query, pass.
 */
bool canon_query(struct str in, bool raw, const char **reason);
#endif
