/*
 * simd.c - reduce with a leaf's 128 lanes, or whole outputs, in vectors.
 *
 * A vector register holds 4 to 64 of them, and several registers hide the latency of additions.
 * rows.h is used if the elements of an output are contiguous in memory, columns.h if the
 * outputs are.
 */
#include "cpu/reduce/plan.h"

static gop_status reduce_simd(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return run_job(task, one_by_one);
}

static gop_status reduce_simd_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    (void)ctx;
    return plan_nodes(task, 1, 1, plan);
}

static const gop_row reduce_simd_row = {
    .name = "simd",
    .note = "128 lanes side by side: a vector register holds 4 to 64 of them, and several "
            "registers hide the adder's latency",
    .role = GOP_CONFORMING,
    .launch = GOP_FN_EVERY(reduce_simd),
    .plan = reduce_simd_plan,
};
