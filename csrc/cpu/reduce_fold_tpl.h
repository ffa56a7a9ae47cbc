/*
 * reduce_fold_tpl.h - one folding operator: a reduce_fold named FOLD.
 *
 * Define FOLD, R (the accumulator), TREE_ADD(a, b) and IDENTITY before including; no guard.
 * With FOLD_POSITIONS the operator is a minimum and knows positions too.
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

/* A strip of accumulators stays in registers while the rows go by: eight of the vectors there
 * are. Not inlined, so that the number of rows stays unknown (see reduce.h). */
__attribute__((noinline)) static void TREE(stack)(void *to, const void *const *row, int64_t n)
{
    enum { STRIP = STRIP_BYTES / sizeof(R) };
    R *const out = to;
    const int64_t strips = n - n % STRIP;
    for (int64_t i = 0; i < strips; i += STRIP) {
        R strip[STRIP];
        memcpy(strip, (const R *)row[0] + i, sizeof strip);
        for (const void *const *r = row + 1; *r; r++) {
            const R *const x = (const R *)*r + i;
            for (int l = 0; l < STRIP; l++) strip[l] = TREE_ADD(strip[l], x[l]);
        }
        memcpy(out + i, strip, sizeof strip);
    }
    if (strips == n) return;
    memcpy(out + strips, (const R *)row[0] + strips, (size_t)(n - strips) * sizeof *out);
    for (const void *const *r = row + 1; *r; r++)
        TREE(merge)(out + strips, (const R *)*r + strips, n - strips);
}

static void TREE(leaf)(void *to, const void *elements, int64_t n)
{
    const R *const x = elements;
    R lane[LANES];
    if (n >= LANES) {
        /* Row after row, so that memory is read as it lies. */
        const R *row = x + LANES, *const end = x + n;
        memcpy(lane, x, sizeof lane);
        for (; end - row >= LANES; row += LANES) TREE(merge)(lane, row, LANES);
        TREE(merge)(lane, row, end - row);
        *(R *)to = TREE(fold_lanes)(lane);
        return;
    }
    /* Lanes without an element hold the identity: the fold begins where there are some. */
    int width = 1;
    while (width < n) width *= 2;
    memcpy(lane, x, (size_t)n * sizeof *lane);
    for (int l = (int)n; l < width; l++) lane[l] = IDENTITY;
#pragma GCC unroll 7
    for (int d = LANES / 2; d > 0; d /= 2)
        if (d < width)
            for (int l = 0; l < d; l++) lane[l] = TREE_ADD(lane[l], lane[l + d]);
    *(R *)to = lane[0];
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
    .stack = TREE(stack),
    .leaf = TREE(leaf),
#ifdef FOLD_POSITIONS
    .better = TREE(better),
    .find = TREE(find),
#endif
};
#undef TREE
#undef FOLD
#undef R
