/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SYS_LOG_H
#define SP_SYS_LOG_H
/*
 * The diagnostic log: standard error, one line each, "sallyport[role]: text". Not the audit record. No header value, body
 * octet or query ever goes here. What an attacker can trigger is written through log_limited.
 */
#include <stdbool.h>
#include <stdint.h>

void log_title(const char *title); /* the role's name; static */
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
struct log_limit { uint64_t since_ms; uint32_t n; }; /* at most 5 lines in 10 s each */
void log_limited(struct log_limit *lim, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#endif
