/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_AUDIT_FORMAT_H
#define SP_AUDIT_FORMAT_H
/* Record fields to one OCSF 1.x JSON line. Pure: no clock, no I/O. */
#include "../../common/record.h"

struct record_context {
	struct str sandbox; /* from the link; empty: the gateway itself */
	uint64_t sequence;
	uint64_t now_ms;    /* for records without a time */
	bool from_supervisor; /* REC_SANDBOX is believed */
};
/*
 * Appends the object without its closing brace and without chain: {"class_uid":...,"unmapped":{"sallyport":{... . The
 * caller adds ,"chain":{...}}}} and the line break. False: the fields are malformed (a finding about the sender is
 * written by the caller). *request_id borrows from fields.
 */
bool record_format(struct buf *out, const struct record_context *c, const uint8_t *fields, size_t n, struct str *request_id, struct str *kind);
#endif
