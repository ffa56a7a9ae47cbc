/*
 * reduce_fold_tpl.h - one folding operator: a reduce_fold named FOLD.
 *
 * Define FOLD, R (the accumulator), TREE_ADD(a, b) and IDENTITY before including; no guard.
 * With FOLD_POSITIONS the operator is a minimum and knows positions too. Where the order of the
 * additions counts, define FOLD_VECTOR (1: TREE_ADD takes vectors of R too, 0: it does not) or
 * FOLD_PARTS (the operator on the real and imaginary parts, each by itself).
 */
#define TREE(name) GOP_PASTE(FOLD, name)
#include "cpu/tree_tpl.h"

static void TREE(fill)(void *to, int64_t n)
{
    R *const out = to;
    for (int64_t i = 0; i < n; i++) out[i] = IDENTITY;
}

/* Not inlined: interleaved with the next row it would read memory out of order. */
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
#include "cpu/reduce_strip_tpl.h"
#define STRIP half
#define V TREE(vec)
#define W (STRIP_VECTORS / 2)
#include "cpu/reduce_strip_tpl.h"
#define STRIP vector
#define V TREE(vec)
#define W 1
#include "cpu/reduce_strip_tpl.h"
#endif
#define STRIP one
#define V R
#define W 1
#include "cpu/reduce_strip_tpl.h"

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

/* At least LANES elements: row after row, so that memory is read as it lies. */
static R TREE(long_leaf)(const R *x, int64_t n)
{
    R lane[LANES];
    const R *row = x + LANES, *const end = x + n;
    memcpy(lane, x, sizeof lane);
    for (; end - row >= LANES; row += LANES) TREE(merge)(lane, row, LANES);
    TREE(merge)(lane, row, end - row);
    return TREE(fold_lanes)(lane);
}

/* More than `half` elements and at most twice as many; lanes without one hold the identity.
 * With `half` a constant the loops are vectors. */
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
