/*
 * calls.h - functions of the C library that kernels compiled by Python have in another way.
 */
#ifndef GOP_SIM_CALLS_H
#define GOP_SIM_CALLS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* printf: what is printed is on its way when the launch ends. */
__attribute__((format(printf, 1, 2))) int gop_sim_printf(const char *format, ...);
long gop_sim_clock(void);

/* What a compiler calls by itself, as for copies of structures: no access of a kernel's own. */
void *__wrap_memset(void *to, int value, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memmove(void *to, const void *from, size_t bytes);
int __wrap_memcmp(const void *a, const void *b, size_t bytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

void gop_sim_printed(void); /* after a launch */

#endif
