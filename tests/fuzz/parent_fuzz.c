/* SPDX-License-Identifier: Apache-2.0 */
/* The answer of the proxy behind to CONNECT, whole and cut at each place: the same end is found, and no octet behind it is taken. */
#include "common/base/must.h"
#include "proxy/dialer/parent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct parent_reader whole = { 0 };
	unsigned status = 0, again = 0;
	size_t used, end;
	enum parent_answer a = parent_read(&whole, data, size, &end, &status);

	MUST(end <= size && (a != PARENT_MORE || end == size));
	MUST(a != PARENT_DONE || (status >= 200 && status <= 599 && end >= 16 && memcmp(data + end - 4, "\r\n\r\n", 4) == 0));
	for (size_t cut = 0; cut <= size && cut < 64; cut++) {
		struct parent_reader r = { 0 };
		enum parent_answer b = parent_read(&r, data, cut, &used, &again);

		if (b == PARENT_MORE) {
			MUST(used == cut);
			b = parent_read(&r, data + cut, size - cut, &used, &again);
			used += cut;
		}
		MUST(b == a && used == end && (a != PARENT_DONE || again == status));
	}
	return 0;
}
