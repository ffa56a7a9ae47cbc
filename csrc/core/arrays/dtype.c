/*
 * dtype.c - size, name and kind of each element type.
 */
#include "core/core.h"

int64_t gop_dtype_size(gop_dtype dtype)
{
    static const int8_t sizes[] = {
#define X(enumerator, word, bytes) bytes,
        GOP_DTYPES(X)
#undef X
    };
    return sizes[dtype];
}

const char *gop_dtype_name(gop_dtype dtype)
{
    static const char *const names[] = {
#define X(enumerator, word, bytes) #word,
        GOP_DTYPES(X)
#undef X
    };
    return names[dtype];
}

char gop_dtype_kind(gop_dtype dtype)
{
    if (dtype == GOP_BOOL) return 'b';
    if (dtype <= GOP_INT64) return 'i';
    if (dtype <= GOP_UINT64) return 'u';
    return dtype <= GOP_FLOAT64 ? 'f' : 'c';
}
