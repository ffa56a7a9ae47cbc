/*
 * simd.c - jacobi_step with a row's 128 lanes in vector registers.
 *
 * A leaf's lanes are an array, and the inner loop is vector instructions: 128 sums at once keep
 * the vector units and several cache lines busy.
 */
#ifdef D

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
#include "cpu/jacobi_step/leaf.h"

#define GOP_TPL "cpu/jacobi_step/simd.c"
#include "cpu/jacobi_step/each_inexact.inc"

static gop_status jacobi_step_simd_plan(const gop_ctx *ctx, const gop_task *task,
                                        gop_plan *plan)
{
    (void)ctx;
    const gop_jacobi *g = &task->geometry.jacobi;
    GOP_TRY(refuse_stencil(task, "simd"));
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
