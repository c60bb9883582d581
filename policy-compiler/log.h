/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_LOG_H
#define SP_POLICY_LOG_H
/* Records of requests, as the gateway writes them (sallyport-logs(5), one JSON object a line), for replay and suggest. */
#include <stdio.h>

#include "model.h"

struct logged {
	struct str method, scheme, host, path, query; /* path as it was sent, without the query; empty: there was none */
	uint16_t port;
	bool allowed;
	bool by_policy;      /* the verdict is policy's, not that of a limit, a credential or an upstream */
	bool destination;    /* denied since there is no destination */
	bool redacted;       /* values of the query are not there */
	bool has_content;
	struct str rule, source; /* that decided, or empty */
	uint64_t time_s;
};
/* Calls fn with each record of a request; what it gets is gone afterwards. Other lines are counted in *skipped. 0, or -1 + err. */
int log_read(const char *file, void (*fn)(void *arg, const struct logged *l), void *arg, unsigned long *skipped, struct err *err);
/* scheme://host[:port]path[?query] */
void log_url(const struct logged *l, struct buf *out);

int replay(struct policy *p, char *const *logs, int log_n, bool json, FILE *out, struct err *err);  /* how many verdicts changed, -1 + err */
int suggest(char *const *logs, int log_n, bool json, FILE *out, struct err *err);                  /* how many requests were refused, -1 + err */
#endif
