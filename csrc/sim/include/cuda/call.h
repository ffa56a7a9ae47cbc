/*
 * call.h - for kernels that Python compiles: descriptions of their parameters, and calls from
 * Python.
 */
#ifndef GOP_CUDA_CALL_H
#define GOP_CUDA_CALL_H

#include <assert.h>
#include <initializer_list> /* nvcc includes it, too, as limits.h */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <type_traits>

#define memcpy __builtin_memcpy /* core/half.h copies a thread's own variables only */
#include "cuda/launch.h"
#undef memcpy
#include "cuda/parameters.h"
#include "sim/calls.h"

/* ---- functions that would bypass sim, or end the Python process ---- */

#define GOP_SIM_IS(name) noexcept __asm__(#name)
extern "C" {
void *memset(void *to, int value, size_t bytes) GOP_SIM_IS(gop_sim_memset);
void *memcpy(void *to, const void *from, size_t bytes) GOP_SIM_IS(gop_sim_memcpy);
void *memmove(void *to, const void *from, size_t bytes) GOP_SIM_IS(gop_sim_memmove);
void abort() GOP_SIM_IS(gop_sim_abort);
void exit(int status) GOP_SIM_IS(gop_sim_abort);
void _Exit(int status) GOP_SIM_IS(gop_sim_abort);
void quick_exit(int status) GOP_SIM_IS(gop_sim_abort);
void __assert_fail(const char *condition, const char *file, unsigned line, const char *function)
    GOP_SIM_IS(gop_sim_assert);
__attribute__((format(printf, 1, 2))) int printf(const char *format,
                                                 ...) __asm__("gop_sim_printf");
clock_t clock() GOP_SIM_IS(gop_sim_clock);
float fminf(float a, float b) GOP_SIM_IS(gop_sim_fminf);
float fmaxf(float a, float b) GOP_SIM_IS(gop_sim_fmaxf);
double fmin(double a, double b) GOP_SIM_IS(gop_sim_fmin);
double fmax(double a, double b) GOP_SIM_IS(gop_sim_fmax);

/* Does nothing, but keeps the compiler from removing an empty loop. */
static inline __attribute__((always_inline)) void gop_sim_turn()
{
    __asm__ volatile("");
}

/* Called by code that -fsanitize=bounds and similar checks, and -fstack-protector, insert. */
__attribute__((visibility("hidden"), noinline)) void
__ubsan_handle_out_of_bounds(void *array, uintptr_t index)
{
    gop_sim_overrun(array, index, __builtin_return_address(0));
}
__attribute__((visibility("hidden"), noinline)) void
__ubsan_handle_float_cast_overflow(void *cast, uintptr_t value)
{
    gop_sim_cast(cast, value, __builtin_return_address(0));
}
__attribute__((visibility("hidden"), noinline)) void
__ubsan_handle_divrem_overflow(void *division, uintptr_t value, uintptr_t by)
{
    (void)division, (void)value, (void)by; /* 0: only division by that is asked for */
    gop_sim_divide(__builtin_return_address(0));
}
__attribute__((visibility("hidden"), noinline)) void
__ubsan_handle_shift_out_of_bounds(void *shift, uintptr_t value, uintptr_t by)
{
#ifdef GOP_SIM_SHIFTS_WRAP
    (void)shift, (void)value, (void)by;
#else
    gop_sim_shift(shift, value, by, __builtin_return_address(0));
#endif
}
__attribute__((visibility("hidden"), noinline, noreturn)) void __stack_chk_fail()
{
    gop_sim_smashed(__builtin_return_address(0));
}
}

#ifdef __clang__
enum gop_sim_compiler { gcc = 0, clang = __clang_major__ };
#else
enum gop_sim_compiler { gcc = __GNUC__, clang = 0 };
#endif

#include "cuda/dialect.h"

/* ---- parameters and launches ---- */

/* The type code of parameter `i`; -1 after the last. */
template <int... codes> static int gop_sim_describe(gop_codes<codes...>, unsigned i)
{
    const int all[] = {codes..., -1};
    return i < sizeof...(codes) ? all[i] : -1;
}

template <typename T> struct gop_sim_plain {
    typedef T type;
};
template <typename T> struct gop_sim_plain<T &> {
    typedef T type;
};
template <int... numbers> struct gop_sim_numbers {
};
template <int count, int... numbers> struct gop_sim_up_to
    : gop_sim_up_to<count - 1, count - 1, numbers...> {
};
template <int... numbers> struct gop_sim_up_to<0, numbers...> {
    typedef gop_sim_numbers<numbers...> type;
};

/* Converts the arguments to the kernel's parameter types before any lane runs. */
template <typename... P, int... number>
static gop_status gop_sim_call_with(const char *name, void (*kernel)(P...),
                                    const gop_sim_place *p, void **arguments,
                                    gop_sim_numbers<number...>)
{
    const dim3 grid(p->grid[0], p->grid[1], p->grid[2]);
    const dim3 block(p->block[0], p->block[1], p->block[2]);
    (void)arguments;
    return gop_sim_launch_(
        p->device, 1, name, kernel, grid, block, p->shared,
        *static_cast<typename gop_sim_plain<P>::type *>(arguments[number])...);
}
template <typename... P> static gop_status
gop_sim_call_(const char *name, void (*kernel)(P...), const gop_sim_place *p, void **arguments)
{
    return gop_sim_call_with(name, kernel, p, arguments,
                             typename gop_sim_up_to<sizeof...(P)>::type());
}

#endif
