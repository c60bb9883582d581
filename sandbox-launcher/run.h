/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_LAUNCH_RUN_H
#define SP_LAUNCH_RUN_H
/* The verbs. argv[0] is the verb; each returns the exit status. */
int run_main(int argc, char **argv);
int stop_main(int argc, char **argv);
int doctor_main(int argc, char **argv);
#endif
