/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_ROLES_H
#define SP_ROLES_H
/* Entry points of the roles that live in sallyport-proxy. link_fd: the link to the supervisor. They return an exit status. */
int worker_main(int link_fd);
int dialer_main(int link_fd);
int audit_main(int link_fd);
int checker_main(int link_fd);
int logs_main(int argc, char **argv);
#endif
