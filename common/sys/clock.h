/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_SYS_CLOCK_H
#define SP_SYS_CLOCK_H
#include <stddef.h>
#include <stdint.h>
uint64_t clock_wall_ms(void); /* since 1970 */
uint64_t clock_mono_us(void);
/* Random octets from the kernel; ends the process when there are none. */
void random_fill(void *p, size_t n);
#endif
