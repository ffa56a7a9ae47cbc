/*
 * units.cu - a yardstick of matmul: as many multiply-adds on registers alone.
 *
 * Sixteen independent sums a thread keep every arithmetic unit busy; nothing is loaded. No
 * kernel that multiplies on these units can be faster.
 */
#include "cuda/matmul/product.h"

enum { SUMS = 16, UNITS_THREADS = 256, UNITS_BLOCKS = 4 }; /* of an SM */

template <typename T> __global__ void __launch_bounds__(UNITS_THREADS)
    matmul_units_kernel(const matmul_product<T> p, int64_t rounds)
{
    typedef sum_t<T> S;
    const S factor = widen(p.a[0]), other = widen(p.b[0]);
    S sum[SUMS];
#pragma unroll
    for (int s = 0; s < SUMS; s++) sum[s] = widen(p.a[0]);
    for (int64_t round = 0; round < rounds; round++) {
#pragma unroll
        for (int s = 0; s < SUMS; s++) sum[s] = accumulate(factor, sum[s], other);
    }
    S total = sum[0];
#pragma unroll
    for (int s = 1; s < SUMS; s++) total = plus(total, sum[s]);
    if (rounds < 0) put((T *)p.out, total); /* so that the compiler keeps the sums */
}

template <typename T>
static gop_status matmul_units(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const matmul_product<T> p = matmul_product_of<T>(task, matmul_part_of(task, step));
    const int64_t processors = ctx->info.processors > 0 ? ctx->info.processors : 1;
    const int64_t blocks = processors * UNITS_BLOCKS;
    const double terms = (double)p.part.batches * p.part.rows * p.g.n * p.g.k;
    const int64_t rounds = (int64_t)(terms / ((double)blocks * UNITS_THREADS * SUMS)) + 1;
    return GOP_LAUNCH(ctx, matmul_units_kernel<T>, (unsigned)blocks, UNITS_THREADS, 0, p,
                      rounds);
}

static gop_status matmul_units_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    if (task->geometry.gemm.k == 0)
        return gop_fail(GOP_REFUSED, "matmul: kernel 'units' takes sums of at least one term");
    matmul_plan_steps(ctx, task, 1, plan);
    return GOP_OK;
}

extern const gop_row matmul_units_row = {
    .name = "units",
    .note = "as many multiply-adds on registers alone: what kernels that multiply on the "
            "arithmetic units could reach",
    .role = GOP_YARDSTICK,
    .launch = MATMUL_LESSONS(matmul_units),
    .plan = matmul_units_plan,
};
