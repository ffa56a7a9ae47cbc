/*
 * dtype.c - size, name and kind of each element type, and the one that several have in common,
 * as NumPy promotes them.
 */
#include "core/arrays/promote.h"

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

/* ---- promotion ---- */

/* Booleans, integers, floats, complex numbers. */
static int rank_of(gop_dtype dtype)
{
    const char kind = gop_dtype_kind(dtype);
    return kind == 'b' ? 0 : kind == 'c' ? 3 : kind == 'f' ? 2 : 1;
}

static gop_dtype larger(gop_dtype a, gop_dtype b)
{
    return gop_dtype_size(a) >= gop_dtype_size(b) ? a : b;
}

static gop_dtype common_of_integers(gop_dtype a, gop_dtype b)
{
    const int a_signed = gop_dtype_kind(a) == 'i';
    if (a_signed == (gop_dtype_kind(b) == 'i')) return larger(a, b);
    const gop_dtype with = a_signed ? a : b, without = a_signed ? b : a;
    const int64_t bytes = gop_dtype_size(without);
    if (gop_dtype_size(with) > bytes) return with;
    return bytes == 1   ? GOP_INT16
           : bytes == 2 ? GOP_INT32
           : bytes == 4 ? GOP_INT64
                        : GOP_FLOAT64;
}

/* The least float that holds every integer of a dtype, or float64. */
static gop_dtype float_for(gop_dtype integer)
{
    const int64_t bytes = gop_dtype_size(integer);
    return bytes == 1 ? GOP_FLOAT16 : bytes == 2 ? GOP_FLOAT32 : GOP_FLOAT64;
}

/* bfloat16 holds no other float, and of the integers those of a byte. */
static gop_dtype common_with_float(gop_dtype a, gop_dtype b)
{
    if (a == GOP_BFLOAT16 && rank_of(b) == 1 && gop_dtype_size(b) == 1) return a;
    if (a == GOP_BFLOAT16) a = GOP_FLOAT32;
    if (b == GOP_BFLOAT16) b = GOP_FLOAT32;
    return larger(a, rank_of(b) == 2 ? b : float_for(b));
}

static gop_dtype common_with_complex(gop_dtype a, gop_dtype b)
{
    const gop_dtype part = a == GOP_COMPLEX64 ? GOP_FLOAT32 : GOP_FLOAT64;
    if (rank_of(b) == 3) return larger(a, b);
    return common_with_float(part, b) == GOP_FLOAT32 ? GOP_COMPLEX64 : GOP_COMPLEX128;
}

static gop_dtype promote(gop_dtype a, gop_dtype b)
{
    if (rank_of(a) < rank_of(b)) return promote(b, a);
    if (a == b || rank_of(b) == 0) return a;
    return rank_of(a) == 3   ? common_with_complex(a, b)
           : rank_of(a) == 2 ? common_with_float(a, b)
                             : common_of_integers(a, b);
}

gop_dtype gop_promote_all(const gop_dtype *dtypes, int count)
{
    int found = 0;
    gop_dtype common = GOP_BOOL;
    for (int rank = 3; rank >= 0; rank--)
        for (int i = 0; i < count; i++)
            if (rank_of(dtypes[i]) == rank)
                common = found++ ? promote(common, dtypes[i]) : dtypes[i];
    return common;
}

gop_dtype gop_promote_weak(gop_dtype dtype, char kind)
{
    const int rank = rank_of(dtype);
    if (kind == 'i') return rank == 0 ? GOP_INT64 : dtype;
    if (kind == 'f') return rank < 2 ? GOP_FLOAT64 : dtype;
    return rank == 3                          ? dtype
           : rank < 2 || dtype == GOP_FLOAT64 ? GOP_COMPLEX128
                                              : GOP_COMPLEX64;
}
