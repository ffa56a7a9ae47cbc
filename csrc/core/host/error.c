/*
 * error.c - what each thread has of its own: its last failure, a code and a sentence, and how
 * it rounds. And failures that tests ask for.
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/host/memory.h"
#include "core/host/threads.h"

/* ---- failures ---- */

static _Thread_local gop_error last;
static _Thread_local int quiet; /* the sentence will not be read */

gop_status gop_fail(gop_status code, const char *format, ...)
{
    va_list arguments;
    if (quiet) return code;
    memset(&last, 0, sizeof last);
    last.code = code;
    va_start(arguments, format);
    vsnprintf(last.message, sizeof last.message, format, arguments);
    va_end(arguments);
    return code;
}

void gop_fail_quietly(int on)
{
    quiet = on;
}

const gop_error *gop_error_get(void)
{
    return &last;
}
gop_error *gop_error_slot(void)
{
    return &last;
}

gop_status gop_named(const char *op, gop_status status)
{
    if (status == GOP_NO_MEMORY || status == GOP_NO_DEVICE_MEMORY) {
        gop_error *error = gop_error_slot();
        char said[900];
        snprintf(said, sizeof said, "%.899s", error->message);
        snprintf(error->message, sizeof error->message, "%s: %s", op, said);
    }
    return status;
}

/* ---- failures that tests ask for ---- */

/* GPUOPS_FAULT=<site>:<n>[:forever] makes the n-th attempt at a site fail (or all from the
 * n-th), so that tests can walk through every failing allocation. */
static char fault_site[64];
static long fault_at; /* 0: off */
static int fault_forever;
static atomic_long fault_count;

void gop_fault_set(const char *spec)
{
    const char *colon = spec ? strchr(spec, ':') : NULL;
    fault_at = 0;
    atomic_store(&fault_count, 0);
    if (!colon || (size_t)(colon - spec) >= sizeof fault_site) return;
    memcpy(fault_site, spec, (size_t)(colon - spec));
    fault_site[colon - spec] = 0;
    fault_at = strtol(colon + 1, NULL, 10);
    fault_forever = strstr(colon + 1, ":forever") != NULL;
}

int gop_fault(const char *site)
{
    if (fault_at == 0 || strcmp(site, fault_site) != 0) return 0;
    const long count = atomic_fetch_add(&fault_count, 1) + 1;
    return fault_forever ? count >= fault_at : count == fault_at;
}

/* ---- rounding ---- */

#if defined(__x86_64__)
#include <immintrin.h>
unsigned gop_float_environment(const unsigned *restore)
{
    const unsigned before = _mm_getcsr();
    const unsigned want =
        restore ? *restore : 0x1f80; /* nearest even, no trap, FTZ and DAZ off */
    if (before != want) _mm_setcsr(want);
    return before;
}
#else
unsigned gop_float_environment(const unsigned *restore)
{
    (void)restore; /* other processors start with subnormals on */
    return 0;
}
#endif
