/*
 * calls.h - functions of the C library that kernels compiled by Python have in another way.
 */
#ifndef GOP_SIM_CALLS_H
#define GOP_SIM_CALLS_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* printf: what is printed is on its way when the launch ends. */
__attribute__((format(printf, 1, 2))) int gop_sim_printf(const char *format, ...);
long gop_sim_clock(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

void gop_sim_printed(void); /* after a launch */

#endif
