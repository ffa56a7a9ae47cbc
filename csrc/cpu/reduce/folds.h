/*
 * folds.h - the fifteen folding operators: sums, products and minima.
 *
 * Their list is at the end. It includes this file once for each operator, and that includes it
 * for each width of its strips: a strip is a few vectors of each of several rows, folded in
 * registers.
 */
#if defined(STRIP)
/* ---- a strip of W vectors V ----
 * It is written with vector types: in a loop over an array the compiler would keep the strip in
 * memory. */

/* Folds the items from i on of `lanes` lanes, each of `rows` consecutive entries of `row`. NULL
 * entries, never the first of a lane, are skipped. The lanes come in the order in which the
 * tree adds them: neighbours first, as a binary counter carries. */
static ALWAYS_INLINE void TREE(STRIP)(R *to, const void *const *row, int lanes, int rows,
                                      int64_t i)
{
    enum { ITEMS = sizeof(V) / sizeof(R) };
    V node[STACK_LEVELS][W];
    for (int lane = 0; lane < lanes; lane++) {
        V strip[W];
        const R *x = (const R *)*row++ + i;
        fetch_ahead(x, sizeof strip);
        STRIP_UNROLL for (int k = 0; k < W; k++) strip[k] = *(const V *)(x + k * ITEMS);
        for (int r = 1; r < rows; r++) {
            if (!*row++) continue;
            x = (const R *)row[-1] + i;
            fetch_ahead(x, sizeof strip);
            STRIP_UNROLL for (int k = 0; k < W; k++)
            {
                strip[k] = TREE_ADD(strip[k], *(const V *)(x + k * ITEMS));
            }
        }
        int level = 0;
        for (int bits = lane; bits & 1; bits >>= 1, level++)
            STRIP_UNROLL for (int k = 0; k < W; k++)
            {
                strip[k] = TREE_ADD(node[level][k], strip[k]);
            }
        V *const left = lane == lanes - 1 ? (V *)(to + i) : node[level];
        STRIP_UNROLL for (int k = 0; k < W; k++) left[k] = strip[k];
    }
}
#undef STRIP
#undef V
#undef W

#elif defined(FOLD)
/* ---- one operator: a reduce_fold named FOLD ----
 * It folds accumulators of type R by TREE_ADD(a, b), from IDENTITY. With FOLD_POSITIONS it is a
 * minimum that also finds positions. If the order of additions matters, define FOLD_VECTOR (1:
 * TREE_ADD also takes vectors of R, 0: it does not) or FOLD_PARTS (the operator for the real
 * and imaginary parts separately). */

#define TREE(name) GOP_PASTE(FOLD, name)
#include "cpu/runtime/tree.inc"

static void TREE(fill)(void *to, int64_t n)
{
    R *const out = to;
    for (int64_t i = 0; i < n; i++) out[i] = IDENTITY;
}

/* Not inlined, because interleaved with the next row it would read memory out of order. */
__attribute__((noinline)) static void TREE(merge)(void *left, const void *right, int64_t n)
{
    R *const restrict a = left;
    const R *const restrict b = right;
    for (int64_t i = 0; i < n; i++) a[i] = TREE_ADD(a[i], b[i]);
}

#if defined(FOLD_PARTS)
static void TREE(stack)(void *to, const void *const *row, int lanes, int rows, int64_t n)
{
    GOP_PASTE(FOLD_PARTS, stack)(to, row, lanes, rows, 2 * n);
}
#elif defined(FOLD_VECTOR)
#if FOLD_VECTOR
typedef R TREE(vec)
    __attribute__((vector_size(STRIP_BYTES / STRIP_VECTORS), aligned(sizeof(R)), may_alias));
#define STRIP strip
#define V TREE(vec)
#define W STRIP_VECTORS
#include "cpu/reduce/folds.h"
#define STRIP half
#define V TREE(vec)
#define W (STRIP_VECTORS / 2)
#include "cpu/reduce/folds.h"
#define STRIP vector
#define V TREE(vec)
#define W 1
#include "cpu/reduce/folds.h"
#endif
#define STRIP one
#define V R
#define W 1
#include "cpu/reduce/folds.h"

static void TREE(stack)(void *to, const void *const *row, int lanes, int rows, int64_t n)
{
    int64_t i = 0;
#if FOLD_VECTOR
    enum { ITEMS = sizeof(TREE(vec)) / sizeof(R), MANY = STRIP_VECTORS * ITEMS };
    for (; i + MANY <= n; i += MANY) TREE(strip)(to, row, lanes, rows, i);
    if (i + MANY / 2 <= n) TREE(half)(to, row, lanes, rows, i), i += MANY / 2;
    for (; i + ITEMS <= n; i += ITEMS) TREE(vector)(to, row, lanes, rows, i);
#endif
    for (; i < n; i++) TREE(one)(to, row, lanes, rows, i);
}
#endif

/* Folds a leaf of at least LANES elements, row after row, so that memory is read sequentially.
 */
static R TREE(long_leaf)(const R *x, int64_t n)
{
    R lane[LANES];
    const R *row = x + LANES, *const end = x + n;
    memcpy(lane, x, sizeof lane);
    for (; end - row >= LANES; row += LANES) TREE(merge)(lane, row, LANES);
    TREE(merge)(lane, row, end - row);
    return TREE(fold_lanes)(lane);
}

/* Folds a leaf of more than `half` elements and at most twice as many; lanes without one hold
 * the identity. `half` is a constant, so that the loops are vectorized. */
static ALWAYS_INLINE R TREE(short_leaf)(const R *x, int n, int half)
{
    R lane[LANES / 2];
    if (n == 2 * half)
        KEEP_LOOP for (int l = 0; l < half; l++) lane[l] = TREE_ADD(x[l], x[half + l]);
    else KEEP_LOOP for (int l = 0; l < half; l++)
        {
            const R upper = l < n - half ? x[half + l] : IDENTITY;
            lane[l] = TREE_ADD(x[l], upper);
        }
#pragma GCC unroll 6
    for (int d = LANES / 4; d > 0; d /= 2)
        if (d < half)
            KEEP_LOOP for (int l = 0; l < d; l++) lane[l] = TREE_ADD(lane[l], lane[l + d]);
    return lane[0];
}

static void TREE(leaves)(void *to, const void *elements, int64_t n, int64_t pitch,
                         int64_t outputs)
{
#define EACH_OUTPUT(leaf)                                                                      \
    for (int64_t i = 0; i < outputs; i++, x += pitch) out[i] = leaf
    R *const out = to;
    const R *x = elements;
    if (n == 1) {
        EACH_OUTPUT(*x);
        return;
    }
    if (n >= LANES) {
        EACH_OUTPUT(TREE(long_leaf)(x, n));
        return;
    }
    switch (31 - __builtin_clz((unsigned)n - 1)) {
    case 0:
        EACH_OUTPUT(TREE(short_leaf)(x, (int)n, 1));
        break;
    case 1:
        EACH_OUTPUT(TREE(short_leaf)(x, (int)n, 2));
        break;
    case 2:
        EACH_OUTPUT(TREE(short_leaf)(x, (int)n, 4));
        break;
    case 3:
        EACH_OUTPUT(TREE(short_leaf)(x, (int)n, 8));
        break;
    case 4:
        EACH_OUTPUT(TREE(short_leaf)(x, (int)n, 16));
        break;
    case 5:
        EACH_OUTPUT(TREE(short_leaf)(x, (int)n, 32));
        break;
    case 6:
        EACH_OUTPUT(TREE(short_leaf)(x, (int)n, 64));
        break;
    }
#undef EACH_OUTPUT
}

#ifdef FOLD_POSITIONS
static void TREE(better)(void *best, int64_t *position, const void *keys, const int64_t *at,
                         int64_t k, int64_t n)
{
    R *const b = best;
    const R *const x = keys;
    for (int64_t i = 0; i < n; i++) {
        position[i] = x[i] < b[i] ? (at ? at[i] : k) : position[i];
        b[i] = TREE_ADD(b[i], x[i]);
    }
}

static int64_t TREE(find)(const void *keys, const void *value)
{
    const R *const x = keys;
    int64_t i = 0;
    while (x[i] != *(const R *)value) i++;
    return i;
}
#endif

static const reduce_fold FOLD = {
    .bytes = sizeof(R),
    .fill = TREE(fill),
    .merge = TREE(merge),
#if defined(FOLD_PARTS) || defined(FOLD_VECTOR)
    .stack = TREE(stack),
#endif
    .leaves = TREE(leaves),
#ifdef FOLD_POSITIONS
    .better = TREE(better),
    .find = TREE(find),
#endif
};
#undef TREE
#undef FOLD
#undef FOLD_VECTOR
#undef FOLD_PARTS
#undef R

#elif !defined(GOP_CPU_REDUCE_FOLDS_H)
#define GOP_CPU_REDUCE_FOLDS_H
/* ---- the operators ---- */

#include "cpu/reduce/job.h"
#include "cpu/runtime/stream.h"

/* Prefetches a later part of a row into the L2 cache. The L1 cache has no room for it if all
 * rows of a stack are a power of two apart. */
static ALWAYS_INLINE void fetch_ahead(const void *x, size_t bytes)
{
    const char *const next = (const char *)x + STACK_AHEAD;
    for (size_t b = 0; b + LINE <= bytes; b += LINE) __builtin_prefetch(next + b, 0, 2);
}

/* Sums. Their identity is -0.0; +0.0 would change -0.0. */

#define TREE_ADD(a, b) ((a) + (b))
#define IDENTITY (-0.0f)
#define FOLD sum_float32
#define FOLD_VECTOR 1
#define R float
#include "cpu/reduce/folds.h"
#define FOLD sum_float64
#define FOLD_VECTOR 1
#define R double
#include "cpu/reduce/folds.h"
#undef IDENTITY
#define IDENTITY 0
#define FOLD sum_whole /* modulo 2^64: the same bits for signed and unsigned */
#define R uint64_t
#include "cpu/reduce/folds.h"
#undef IDENTITY
#undef TREE_ADD

#define IDENTITY ((R){-0.0f, -0.0f})
#define TREE_ADD(a, b) ((R){(a).re + (b).re, (a).im + (b).im})
#define FOLD sum_complex64
#define FOLD_PARTS sum_float32
#define R gop_c64
#include "cpu/reduce/folds.h"
#define FOLD sum_complex128
#define FOLD_PARTS sum_float64
#define R gop_c128
#include "cpu/reduce/folds.h"
#undef TREE_ADD
#undef IDENTITY

/* Products. */

#define IDENTITY 1
#define TREE_ADD(a, b) ((a) * (b))
#define FOLD prod_float32
#define FOLD_VECTOR 1
#define R float
#include "cpu/reduce/folds.h"
#define FOLD prod_float64
#define FOLD_VECTOR 1
#define R double
#include "cpu/reduce/folds.h"
#define FOLD prod_whole
#define R uint64_t
#include "cpu/reduce/folds.h"
#undef TREE_ADD
#undef IDENTITY

/* They add (-im) b instead of subtracting im b, with the same result: GCC 12 fuses
 * multiplications with an alternating minus and plus in spite of -ffp-contract=off (its bug
 * 107647). A factor of 1 + 0i or 1 - 0i changes nothing, not even infinities, and 1 + 0i no
 * sign of a zero. So the place of a product's padding does not matter. */
static inline gop_c64 multiply_complex64(gop_c64 a, gop_c64 b)
{
    const int one = a.re == 1 && a.im == 0;
    if (b.re == 1 && b.im == 0) return one ? (gop_c64){1, -(-a.im - b.im)} : a;
    if (one) return b;
    return (gop_c64){a.re * b.re + (-a.im) * b.im, a.re * b.im + a.im * b.re};
}

static inline gop_c128 multiply_complex128(gop_c128 a, gop_c128 b)
{
    const int one = a.re == 1 && a.im == 0;
    if (b.re == 1 && b.im == 0) return one ? (gop_c128){1, -(-a.im - b.im)} : a;
    if (one) return b;
    return (gop_c128){a.re * b.re + (-a.im) * b.im, a.re * b.im + a.im * b.re};
}

#define IDENTITY ((R){1, 0})
#define FOLD prod_complex64
#define FOLD_VECTOR 0
#define R gop_c64
#define TREE_ADD(a, b) multiply_complex64(a, b)
#include "cpu/reduce/folds.h"
#undef TREE_ADD
#define FOLD prod_complex128
#define FOLD_VECTOR 0
#define R gop_c128
#define TREE_ADD(a, b) multiply_complex128(a, b)
#include "cpu/reduce/folds.h"
#undef TREE_ADD
#undef IDENTITY

/* Minima of keys. */

#define FOLD_POSITIONS
#define TREE_ADD(a, b) ((b) < (a) ? (b) : (a))
#define IDENTITY INT8_MAX
#define FOLD min_int8
#define R int8_t
#include "cpu/reduce/folds.h"
#undef IDENTITY
#define IDENTITY INT16_MAX
#define FOLD min_int16
#define R int16_t
#include "cpu/reduce/folds.h"
#undef IDENTITY
#define IDENTITY INT32_MAX
#define FOLD min_int32
#define R int32_t
#include "cpu/reduce/folds.h"
#undef IDENTITY
#define IDENTITY INT64_MAX
#define FOLD min_int64
#define R int64_t
#include "cpu/reduce/folds.h"
#undef IDENTITY
#define IDENTITY ((gop_i128)(~(__extension__(unsigned __int128) 0) >> 1))
#define FOLD min_int128
#define R gop_i128
#include "cpu/reduce/folds.h"
#undef IDENTITY
#undef TREE_ADD
#undef FOLD_POSITIONS
#endif
