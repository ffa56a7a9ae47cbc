/*
 * cast.c - which casts the core makes, and by whom: the CPU backend has them for each level.
 */
#include <string.h>

#include "core/arrays/cast.h"

int gop_can_cast(gop_dtype from, gop_dtype to)
{
    static const char kinds[] = "biufc"; /* i and u become each other */
    const char *const of = strchr(kinds, gop_dtype_kind(from));
    const char *const into = strchr(kinds, gop_dtype_kind(to));
    return of <= into || (*of == 'u' && *into == 'i');
}

gop_cast gop_cast_in(int stored, gop_dtype dtype)
{
    return gop_cpu_casts()(stored, dtype, 0);
}

gop_cast gop_cast_out(int stored, gop_dtype dtype)
{
    return gop_cpu_casts()(stored, dtype, 1);
}
