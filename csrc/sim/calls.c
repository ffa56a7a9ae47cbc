/*
 * calls.c - printf and clock of kernels, and the functions that compilers call by themselves.
 */
#include "sim/calls.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int printed; /* since the last launch that ended */

int gop_sim_printf(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int count = vprintf(format, arguments);
    va_end(arguments);
    __atomic_store_n(&printed, 1, __ATOMIC_RELAXED);
    return count;
}

/* Python's own output goes past the C library's: in order only if this is not kept back. */
void gop_sim_printed(void)
{
    if (__atomic_exchange_n(&printed, 0, __ATOMIC_RELAXED)) fflush(stdout);
}

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

int __wrap_memcmp(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes);
}
