/*
 * folds.h - the sixteen folding operators: sums, products and minima.
 */
#ifndef GOP_CPU_REDUCE_FOLDS_H
#define GOP_CPU_REDUCE_FOLDS_H

#include "cpu/reduce/job.h"
#include "cpu/runtime/stream.h"

/* What follows later in a row, into the second-level cache: the first has no room for it where
 * all rows of a stack lie a power of two apart. */
static ALWAYS_INLINE void fetch_ahead(const void *x, size_t bytes)
{
    const char *const next = (const char *)x + STACK_AHEAD;
    for (size_t b = 0; b + LINE <= bytes; b += LINE) __builtin_prefetch(next + b, 0, 2);
}

/* ---- sums: -0.0 changes nothing, +0.0 would change -0.0 ---- */

#define TREE_ADD(a, b) ((a) + (b))
#define IDENTITY (-0.0f)
#define FOLD sum_float32
#define FOLD_VECTOR 1
#define R float
#include "cpu/reduce/fold.inc"
#define FOLD sum_float64
#define FOLD_VECTOR 1
#define R double
#include "cpu/reduce/fold.inc"
#undef IDENTITY
#define IDENTITY 0
#define FOLD sum_whole /* modulo 2^64: the same bits for signed and unsigned */
#define R uint64_t
#include "cpu/reduce/fold.inc"
#undef IDENTITY
#undef TREE_ADD

#define IDENTITY ((R){-0.0f, -0.0f})
#define TREE_ADD(a, b) ((R){(a).re + (b).re, (a).im + (b).im})
#define FOLD sum_complex64
#define FOLD_PARTS sum_float32
#define R gop_c64
#include "cpu/reduce/fold.inc"
#define FOLD sum_complex128
#define FOLD_PARTS sum_float64
#define R gop_c128
#include "cpu/reduce/fold.inc"
#undef TREE_ADD
#undef IDENTITY

/* ---- products ---- */

#define IDENTITY 1
#define TREE_ADD(a, b) ((a) * (b))
#define FOLD prod_float32
#define FOLD_VECTOR 1
#define R float
#include "cpu/reduce/fold.inc"
#define FOLD prod_float64
#define FOLD_VECTOR 1
#define R double
#include "cpu/reduce/fold.inc"
#define FOLD prod_whole
#define R uint64_t
#include "cpu/reduce/fold.inc"
#undef TREE_ADD
#undef IDENTITY

/* (-im) b is added instead of im b subtracted: the same value, and GCC 12 fuses multiplications
 * with an alternating minus and plus in spite of -ffp-contract=off (its bug 107647).
 *
 * A factor of exactly 1 + 0i changes nothing, infinities and signs of zero included: so it
 * does not matter where a product is padded. */
static inline gop_c64 multiply_complex64(gop_c64 a, gop_c64 b)
{
    if (a.re == 1 && a.im == 0) return b;
    if (b.re == 1 && b.im == 0) return a;
    return (gop_c64){a.re * b.re + (-a.im) * b.im, a.re * b.im + a.im * b.re};
}

static inline gop_c128 multiply_complex128(gop_c128 a, gop_c128 b)
{
    if (a.re == 1 && a.im == 0) return b;
    if (b.re == 1 && b.im == 0) return a;
    return (gop_c128){a.re * b.re + (-a.im) * b.im, a.re * b.im + a.im * b.re};
}

#define IDENTITY ((R){1, 0})
#define FOLD prod_complex64
#define FOLD_VECTOR 0
#define R gop_c64
#define TREE_ADD(a, b) multiply_complex64(a, b)
#include "cpu/reduce/fold.inc"
#undef TREE_ADD
#define FOLD prod_complex128
#define FOLD_VECTOR 0
#define R gop_c128
#define TREE_ADD(a, b) multiply_complex128(a, b)
#include "cpu/reduce/fold.inc"
#undef TREE_ADD
#undef IDENTITY

/* ---- minima of keys ---- */

#define FOLD_POSITIONS
#define TREE_ADD(a, b) ((b) < (a) ? (b) : (a))
#define IDENTITY INT8_MAX
#define FOLD min_int8
#define R int8_t
#include "cpu/reduce/fold.inc"
#undef IDENTITY
#define IDENTITY INT16_MAX
#define FOLD min_int16
#define R int16_t
#include "cpu/reduce/fold.inc"
#undef IDENTITY
#define IDENTITY INT32_MAX
#define FOLD min_int32
#define R int32_t
#include "cpu/reduce/fold.inc"
#undef IDENTITY
#define IDENTITY INT64_MAX
#define FOLD min_int64
#define R int64_t
#include "cpu/reduce/fold.inc"
#undef IDENTITY
#define IDENTITY ((gop_i128)(~(__extension__(unsigned __int128) 0) >> 1))
#define FOLD min_int128
#define R gop_i128
#include "cpu/reduce/fold.inc"
#undef IDENTITY
#undef TREE_ADD
#undef FOLD_POSITIONS

#endif
