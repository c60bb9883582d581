/* SPDX-License-Identifier: Apache-2.0 */
/* sallyport-secrets: the role that holds the secrets' values; only the supervisor starts it. */
#include <stdio.h>
#include <string.h>

#include "../../common/sys/child.h"
#include "secrets.h"

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--role") == 0 && strcmp(argv[2], "secrets") == 0)
		return secrets_main(ROLE_LINK_FD);
	fprintf(stderr, "sallyport-secrets is started by the gateway; see `sallyport serve`\n");
	return 2;
}
