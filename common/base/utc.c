/* SPDX-License-Identifier: Apache-2.0 */
#include "utc.h"

#define DAYS_400 146097u /* of 400 years, which repeat */

static void digits(char *out, unsigned n, unsigned value)
{
	while (n-- > 0) {
		out[n] = (char)('0' + value % 10);
		value /= 10;
	}
}

/* Years begin in March here, so that the day that is not always there is the last. */
void utc_basic(uint64_t seconds, char out[UTC_BASIC_LEN + 1])
{
	uint64_t days = seconds / 86400 + 719468; /* since 0000-03-01 */
	unsigned rest = (unsigned)(seconds % 86400), day = (unsigned)(days % DAYS_400);
	unsigned year = (day - day / 1460 + day / 36524 - day / 146096) / 365, month;

	day -= 365 * year + year / 4 - year / 100;
	month = (5 * day + 2) / 153;
	day -= (153 * month + 2) / 5;
	year += (unsigned)(days / DAYS_400) * 400 + (month >= 10);
	digits(out, 4, year);
	digits(out + 4, 2, month < 10 ? month + 3 : month - 9);
	digits(out + 6, 2, day + 1);
	out[8] = 'T';
	digits(out + 9, 2, rest / 3600);
	digits(out + 11, 2, rest / 60 % 60);
	digits(out + 13, 2, rest % 60);
	out[15] = 'Z';
	out[16] = 0;
}
