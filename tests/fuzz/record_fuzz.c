/* SPDX-License-Identifier: Apache-2.0 */
/* Records from a broken sender: whatever the fields are, one line of valid JSON whose chain can be read again. */
#include <jansson.h>
#include <stdlib.h>

#include "common/base/must.h"
#include "proxy/audit/chain.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const uint8_t key[CHAIN_KEY_LEN] = "a key for the fuzz target alone";
	static struct chain *chain;
	struct record_context c = { .sandbox = STR("box"), .now_ms = 1700000000000, .sequence = 7, .uid = "00000000000000010000000000000007" };
	struct chain_link k;
	struct buf out = { 0 };
	char hash[CHAIN_HEX];
	struct str line;
	json_t *o;

	if (chain == NULL)
		chain = chain_new(key);
	if (n == 0)
		return 0;
	c.origin = (enum record_origin)(p[0] & 3); /* the first octet: who sends it, and whether it comes from a slot */
	c.worker_lost = (p[0] & 4) != 0;
	c.checkpoint_mac = p[0] & 8 ? chain_zero : NULL;
	record_format(&out, &c, p + 1, n - 1, chain_zero);
	chain_hash(chain, buf_str(&out), chain_zero, hash);
	record_close(&out, hash);
	line = buf_str(&out);
	MUST(line.n > 0 && line.p[line.n - 1] == '\n' && memchr(line.p, '\n', line.n) == line.p + line.n - 1);
	line.n--;
	o = json_loadb(line.p, line.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	MUST(json_is_object(o));
	/* no text of the sender stands for a key of ours */
	MUST(json_integer_value(json_object_get(json_object_get(o, "metadata"), "sequence")) == 7);
	json_decref(o);
	MUST(chain_parse(line, &k) && k.sequence == 7 && memcmp(k.hash, hash, CHAIN_HEX) == 0);
	if (c.checkpoint_mac == NULL)
		MUST(k.checkpoint_mac.n == 0 && chain_check(chain, &k) == NULL);
	buf_fini(&out);
	return 0;
}
