/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_POLICY_SCHEMA_JSON_H
#define SP_POLICY_SCHEMA_JSON_H
#include "../common/base/buf.h"

void schema_json(struct buf *out);
#endif
