/* SPDX-License-Identifier: Apache-2.0 */
/* sallyport-secrets: the secrets role, an executable of its own (it alone will link the client libraries of vaults). */
#include <stdio.h>
#include <string.h>

#include "../../common/sys/child.h"
#include "role.h"

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--role") == 0 && strcmp(argv[2], "secrets") == 0)
		return secrets_main(ROLE_LINK_FD);
	fprintf(stderr, "sallyport-secrets is started by sallyport-proxy, not by people\n");
	return 2;
}
