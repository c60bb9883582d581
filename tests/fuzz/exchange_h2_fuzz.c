/* SPDX-License-Identifier: Apache-2.0 */
/* Whole exchanges whose first client speaks HTTP/2; upstreams of both versions. See exchange_fuzz.h. */
#include "exchange_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_exchange(true, data, size); }
