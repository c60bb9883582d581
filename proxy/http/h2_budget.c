/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget for misbehaviour: resets of either side, frames that are refused, and frames that cost work and carry nothing.
 * It refills slowly; who spends faster is told to calm down and goes (D01, D02, D04, D07).
 *
 * WINDOW_UPDATE and PING are also how honest peers answer DATA: some send one for every few kilobytes they read. So DATA
 * that we send earns a number of them.
 */
#include "h2_int.h"

#define TOKENS_MAX 400
#define TOKENS_PER_S 20
#define EARNED_MAX 16384
#define EARN_OCTETS 512 /* of DATA for one frame of answer, and one for each DATA frame */

void h2_budget_init(struct h2_budget *b, uint64_t now_ms) { *b = (struct h2_budget){ .tokens = TOKENS_MAX, .refill_ms = now_ms }; }

bool h2_budget_spend(struct h2_budget *b, uint64_t now_ms, uint32_t cost)
{
	uint64_t step = 1000 / TOKENS_PER_S;

	if (now_ms > b->refill_ms && now_ms - b->refill_ms >= step) {
		uint64_t k = (now_ms - b->refill_ms) / step;

		b->tokens = k >= TOKENS_MAX - b->tokens ? TOKENS_MAX : b->tokens + (uint32_t)k;
		b->refill_ms += k * step;
	}
	if (b->tokens < cost) {
		b->tokens = 0;
		return false;
	}
	b->tokens -= cost;
	return true;
}

bool h2_budget_answer(struct h2_budget *b, uint64_t now_ms)
{
	if (b->earned == 0)
		return h2_budget_spend(b, now_ms, H2_COST_FRAME);
	b->earned--;
	return true;
}

void h2_budget_earn(struct h2_budget *b, size_t data_sent)
{
	size_t k = 1 + data_sent / EARN_OCTETS;

	b->earned = k >= EARNED_MAX - b->earned ? EARNED_MAX : b->earned + (uint32_t)k;
}

void h2_budget_refund(struct h2_budget *b)
{
	if (b->tokens < TOKENS_MAX)
		b->tokens++;
}
