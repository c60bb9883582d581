/* SPDX-License-Identifier: Apache-2.0 */
/* DNS questions: a reply always fits, repeats id and question, and its question reads as the same name. */
#include "common/base/must.h"
#include "proxy/http/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dns_question q, q2;
	struct ip v4, v6;
	uint8_t out[512];
	enum dns_parse r = dns_parse(data, size, &q);
	size_t n;

	if (r == DNS_DROP)
		return 0;
	MUST(ip_parse(STR("198.18.0.1"), &v4) && ip_parse(STR("fd00:5a11::1"), &v6));
	MUST(size >= 12 && q.question_end >= 12 && q.question_end <= size && q.question_end <= 12 + 255 + 4);
	MUST(q.name.len == 0 || (r == DNS_OK && strlen(q.name.text) == q.name.len && q.name.ip.family == 0));
	for (int rcode = 0; rcode < 6; rcode++) {
		n = dns_reply(data, size, &q, rcode, rcode ? NULL : &v6, 300, out);
		MUST(n == q.question_end + (rcode ? 0 : 28) + (q.edns ? 11 : 0) && n <= sizeof(out));
		MUST(memcmp(out, data, 2) == 0 && (out[2] & 0x80) && (out[3] & 15) == rcode);
		MUST(memcmp(out + 12, data + 12, q.question_end - 12) == 0);
	}
	n = dns_reply(data, size, &q, 0, &v4, 300, out);
	MUST(n == q.question_end + 16 + (q.edns ? 11 : 0));
	/* the reply without records, as a question */
	n = dns_reply(data, size, &q, 0, NULL, 300, out);
	out[2] &= 0x7f;
	if (r == DNS_OK) {
		MUST(dns_parse(out, n, &q2) == DNS_OK);
		MUST(q2.edns == q.edns && q2.qtype == q.qtype && q2.name.len == q.name.len && memcmp(q2.name.text, q.name.text, q.name.len) == 0);
	}
	return 0;
}
