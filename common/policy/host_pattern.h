/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_HOST_PATTERN_H
#define SP_POLICY_HOST_PATTERN_H
/*
 * Hosts as a policy names them, in canonical text: a host itself, or a wildcard as its first label. "*.x" is exactly one
 * label before x, "**.x" one or more, "pre*.x" one that begins with pre (or is pre). None of them is x itself.
 */
#include "../base/canon.h"

enum host_kind { HOST_NONE = 0, HOST_EXACT, HOST_PREFIX, HOST_STAR, HOST_DOUBLE_STAR };
struct host_pattern {
	enum host_kind kind;
	struct str prefix; /* HOST_PREFIX: what the label begins with */
	struct str suffix; /* of a wildcard: what stands behind it, without the dot; else the host */
};
/* Reads canonical text; false if it is anything else. Borrows from it. */
bool host_pattern_read(struct str text, struct host_pattern *out);
/* Whether every host that `b` stands for is one that `a` stands for. A host stands for itself. */
bool host_pattern_covers(const struct host_pattern *a, const struct host_pattern *b);
/* As covers, from texts; false if one of them is not canonical. */
bool host_text_covers(struct str a, struct str b);
/* Labels of a name: one more than its dots. */
unsigned host_labels(struct str name);
#endif
