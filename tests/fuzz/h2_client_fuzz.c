/* SPDX-License-Identifier: Apache-2.0 */
/* An HTTP/2 session in the client's role: no stream of octets, however split, makes it break what h2.h promises. */
#include "h2_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz(true, data, size); }
