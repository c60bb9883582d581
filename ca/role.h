/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_CA_ROLE_H
#define SP_CA_ROLE_H
int ca_main(int link_fd);
#endif
