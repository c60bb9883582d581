/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SECRETS_ROLE_H
#define SP_SECRETS_ROLE_H
int secrets_main(int link_fd);
#endif
