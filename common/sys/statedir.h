/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SYS_STATEDIR_H
#define SP_SYS_STATEDIR_H
#include "../base/err.h"
/*
 * Where the state is: arg (of --state, may be NULL), else $SALLYPORT_STATE, else /var/lib/sallyport for root or
 * $XDG_STATE_HOME/sallyport ($HOME/.local/state/sallyport). Nothing is made or opened.
 */
int state_dir(char out[4096], const char *arg, struct err *err);
#endif
