/*
 * calls.h - replacements of functions of the C library for kernels that Python compiles.
 */
#ifndef GOP_SIM_CALLS_H
#define GOP_SIM_CALLS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* printf: the output is flushed when the launch ends. */
__attribute__((format(printf, 1, 2))) int gop_sim_printf(const char *format, ...);
long gop_sim_clock(void);
/* As in PTX: a NaN operand is ignored, and -0 is less than 0. */
float gop_sim_fminf(float a, float b);
float gop_sim_fmaxf(float a, float b);
double gop_sim_fmin(double a, double b);
double gop_sim_fmax(double a, double b);

/* Called by -fsanitize=float-cast-overflow, integer-divide-by-zero and shift-exponent. */
void gop_sim_cast(const void *cast, uintptr_t value, const void *pc);
void gop_sim_divide(const void *pc);
void gop_sim_shift(const void *shift, uintptr_t value, uintptr_t by, const void *pc);

/* Says that the running lane has left a statement whose barriers are in these lines. */
void gop_sim_done_with(int first, int last, int in_kernel);

/* Python calls these by name: gpuops/_compile/watch.py. gop_sim_watch sets the function that is
 * told of a block that runs longer than `seconds`, and that returns 1 to stop.
 * gop_sim_stopped_at says where this thread's last launch was stopped, or NULL. */
typedef int gop_sim_tell(const char *text);
void gop_sim_watch(double seconds, gop_sim_tell *told);
const char *gop_sim_stopped_at(void);

/* Calls that the compiler inserts, as to copy structures. They are no accesses of the kernel.
 */
void *__wrap_memset(void *to, int value, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memmove(void *to, const void *from, size_t bytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

void gop_sim_printed(void); /* called after a launch */
/* Where the printf in which the running lane failed returns to; NULL: it was in none. */
const void *gop_sim_printing(void);

#endif
