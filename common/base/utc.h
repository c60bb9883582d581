/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_UTC_H
#define SP_UTC_H
/* A date without the C library's, which looks for the system's time zone: a role that opens no files has none. */
#include <stdint.h>

#define UTC_BASIC_LEN 16
/* ISO 8601 in basic form, "20150830T123600Z", of seconds since 1970; terminated. Good until 9999. */
void utc_basic(uint64_t seconds, char out[UTC_BASIC_LEN + 1]);
#endif
