/*
 * reductions.c - the reductions' names and the dtypes of their results.
 */
#include <string.h>

#include "core/ops/reduce.h"

#define X(op, word) [op] = #word,
const char *const gop_reductions[GOP_NREDUCE] = {GOP_REDUCTIONS(X)[GOP_SUMSQ] = "sumsq"};
#undef X

const char *gop_reduction_name(gop_reduce_op op)
{
    return (unsigned)op < GOP_SUMSQ ? gop_reductions[op] : "reduce";
}

int gop_reduction_find(const char *name, gop_reduce_op *op)
{
    for (int i = 0; i < GOP_NREDUCE; i++)
        if (strcmp(name, gop_reductions[i]) == 0) {
            *op = (gop_reduce_op)i;
            return 1;
        }
    return 0;
}

gop_dtype gop_reduction_dtype(gop_reduce_op op, gop_dtype in)
{
    const char kind = gop_dtype_kind(in);
    const int whole = kind == 'b' || kind == 'i' || kind == 'u';
    switch (op) {
    case GOP_SUM:
    case GOP_PROD:
        return !whole ? in : kind == 'u' ? GOP_UINT64 : GOP_INT64;
    case GOP_MEAN:
        return whole ? GOP_FLOAT64 : in;
    case GOP_ANY:
    case GOP_ALL:
        return GOP_BOOL;
    case GOP_ARGMIN:
    case GOP_ARGMAX:
        return GOP_INT64;
    case GOP_SUMSQ:
        return whole || in == GOP_FLOAT64 || in == GOP_COMPLEX128 ? GOP_FLOAT64 : GOP_FLOAT32;
    default:
        return in;
    }
}
