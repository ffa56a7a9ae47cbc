/*
 * error.c - one failure per thread: a code and a sentence.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"

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
