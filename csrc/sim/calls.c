/*
 * calls.c - printf, clock, minimum and maximum for kernels, and functions that compilers call
 * implicitly.
 */
#define _GNU_SOURCE /* clock_gettime */
#include "sim/calls.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int printed; /* since the last launch that ended */
static __thread const void
    *printing; /* where the kernel's printf, which runs now, returns to */

/* The text is made first: a bad pointer ends the lane there, with no lock of stdout held. */
int gop_sim_printf(const char *format, ...)
{
    char text[1024], *all = text;
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    printing = __builtin_return_address(0);
    const int count = vsnprintf(text, sizeof text, format, arguments);
    if (count >= (int)sizeof text && (all = malloc((size_t)count + 1)))
        vsnprintf(all, (size_t)count + 1, format, again);
    printing = NULL;
    va_end(again);
    va_end(arguments);
    if (all && count > 0) fwrite(all, 1, (size_t)count, stdout);
    if (all != text) free(all);
    __atomic_store_n(&printed, 1, __ATOMIC_RELAXED);
    return count;
}

const void *gop_sim_printing(void)
{
    const void *place = printing;
    printing = NULL;
    return place;
}

/* Flushes the C library's output, so that it comes before what Python prints later. */
void gop_sim_printed(void)
{
    if (__atomic_exchange_n(&printed, 0, __ATOMIC_RELAXED)) fflush(stdout);
}

#define LEAST(name, type)                                                                      \
    type name(type a, type b)                                                                  \
    {                                                                                          \
        if (a != a || b != b) return a != a ? b : a;                                           \
        if (a == b) return signbit(a) ? a : b;                                                 \
        return a < b ? a : b;                                                                  \
    }
#define MOST(name, type)                                                                       \
    type name(type a, type b)                                                                  \
    {                                                                                          \
        if (a != a || b != b) return a != a ? b : a;                                           \
        if (a == b) return signbit(a) ? b : a;                                                 \
        return a > b ? a : b;                                                                  \
    }
LEAST(gop_sim_fminf, float)
LEAST(gop_sim_fmin, double)
MOST(gop_sim_fmaxf, float)
MOST(gop_sim_fmax, double)

long gop_sim_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long)(t.tv_sec * INT64_C(1000000000) + t.tv_nsec);
}

void *__wrap_memset(void *to, int value, size_t bytes)
{
    return memset(to, value, bytes);
}

void *__wrap_memcpy(void *to, const void *from, size_t bytes)
{
    return memcpy(to, from, bytes);
}

void *__wrap_memmove(void *to, const void *from, size_t bytes)
{
    return memmove(to, from, bytes);
}
