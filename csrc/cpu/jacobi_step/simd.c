/*
 * simd.c - jacobi_step with the 128 lanes of a row side by side.
 *
 * A leaf's lanes are one array, and its inner loop is vector instructions: 128 sums at once
 * keep the vector units and several cache lines busy.
 */
#ifdef D

/* One leaf of m <= 2048 terms. A leaf of fewer than 128 leaves its upper lanes at -0.0, which
 * adding does not change: the fold starts at the lanes that are in use. */
static ALWAYS_INLINE T FN(leaf)(const T *restrict a, const T *restrict x, int64_t m)
{
    T lane[LANES];
    int width = LANES;
    if (m <= LANES / 2)
        for (width = 1; width < m;) width *= 2;
    for (int l = 0; l < width; l++) lane[l] = NEGATIVE_ZERO;
    for (; m >= LANES; m -= LANES, a += LANES, x += LANES)
        for (int l = 0; l < LANES; l++) lane[l] = FN(multiply_add)(a[l], x[l], lane[l]);
    for (int l = 0; l < m; l++) lane[l] = FN(multiply_add)(a[l], x[l], lane[l]);
    if (width == LANES) return TREE(fold_lanes)(lane);
    for (int d = width / 2; d > 0; d /= 2)
        for (int l = 0; l < d; l++) lane[l] = FN(plus)(lane[l], lane[l + d]);
    return lane[0];
}

static gop_status FN(jacobi_step_simd)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx;
    const FN(system) s = FN(system_of)(task);
    const int64_t steps = task->plan->steps, n = s.g.n;
    for (int64_t i = slice(n, step, steps); i < slice(n, step + 1, steps); i++)
        for (int64_t c = 0; c < s.g.k; c++) {
            TREE(nodes) tree;
            tree.leaves = 0;
            for (int64_t k = 0; k < n; k += LEAF) {
                const T *a = s.a + i * s.g.a_row + k, *x = s.x + c * s.g.x_col + k;
                TREE(push)(&tree, FN(leaf)(a, x, n - k < LEAF ? n - k : LEAF));
            }
            FN(update)(&s, i, c, TREE(root)(&tree, POSITIVE_ZERO), FN(diagonal)(&s, i));
        }
    return GOP_OK;
}

#else
#include "cpu/jacobi_step/system.h"

#define GOP_TPL "cpu/jacobi_step/simd.c"
#include "cpu/jacobi_step/each_inexact.inc"

static gop_status jacobi_step_simd_plan(const gop_ctx *ctx, const gop_task *task,
                                        gop_plan *plan)
{
    (void)ctx;
    const gop_jacobi *g = &task->geometry.jacobi;
    if (task->call->params.jacobi_step.csr)
        return gop_fail(GOP_REFUSED, "jacobi_step: the simd kernel takes a dense A, got a CSR "
                                     "matrix; the threaded kernel takes both");
    if (g->n > 1 && (g->a_col != 1 || g->x_row != 1))
        return gop_fail(
            GOP_REFUSED,
            "jacobi_step: the simd kernel takes rows of A and columns of x that are "
            "contiguous; the threaded kernel takes any strides");
    plan->steps = slices(task);
    return GOP_OK;
}

static const gop_row jacobi_step_simd_row = {
    .name = "simd",
    .note = "the 128 lanes of a row are one array: 128 sums at once keep the vector units "
            "and several cache lines busy",
    .role = GOP_CONFORMING,
    .launch = LAUNCH(jacobi_step_simd),
    .plan = jacobi_step_simd_plan,
};

#endif
