/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SUPERVISOR_CONFIG_H
#define SP_SUPERVISOR_CONFIG_H
/* What the parts of gateway.yaml's reader share. */
#include "../../common/conf/schema.h"
#include "supervisor.h"

struct config_load {
	struct config *c;
	struct diag *d;
	const char *file;
	bool proxy_resolves;
	const struct yaml_node *proxy_ca_at;
	struct source_rules *sources; /* that are being read */
};
/* A relative path is beside the configuration: it does not depend on where the gateway was started. False: too long. */
bool config_path(const struct config_load *l, struct str text, char out[4096]);
void config_vault_load(struct config_load *l, const struct yaml_node *n);
#endif
