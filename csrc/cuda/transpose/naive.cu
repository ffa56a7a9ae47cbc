/*
 * naive.cu - transpose, one item a thread in the output's order.
 *
 * Neighbouring threads write neighbours, so writes coalesce. What they read lies far apart:
 * each read is a memory transaction of its own, but one that the caches may still answer.
 */
#include "cuda/common/halves.h"
#include "cuda/transpose/order.h"

template <typename T>
__global__ void transpose_naive_kernel(T *out, const T *in, gop_permutation p)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (uint32_t)p.size) return;
    int64_t to, from;
    place(p, i, &to, &from);
    out[to] = in[from];
}

/* Halves the longest axis until 32 bits count the items. */
template <typename T> static gop_status launch_in_order(gop_ctx *ctx, void *out, const void *in,
                                                        const gop_permutation &p)
{
    if (fits_32_bits(p.size))
        return GOP_LAUNCH(ctx, transpose_naive_kernel<T>,
                          dim3((unsigned)blocks_for(p.size, 256)), 256, 0, (T *)out,
                          (const T *)in, p);
    gop_permutation first, second;
    const int axis = halves_of(p, &first, &second);
    GOP_TRY(launch_in_order<T>(ctx, out, in, first));
    return launch_in_order<T>(ctx, (T *)out + first.extent[axis] * p.out[axis],
                              (const T *)in + first.extent[axis] * p.in[axis], second);
}

gop_status transpose_in_order(gop_ctx *ctx, const gop_task *task, const gop_permutation &p)
{
    return TRANSPOSE_BY_ITEM(transpose_item(task), launch_in_order)(ctx, task->out[0].data,
                                                                    task->in[0].data, p);
}

static gop_status transpose_naive(gop_ctx *ctx, const gop_task *task, int64_t)
{
    return transpose_in_order(ctx, task, task->geometry.permutation);
}

static gop_status transpose_naive_plan(const gop_ctx *, const gop_task *, gop_plan *plan)
{
    plan->launch = transpose_naive;
    return GOP_OK;
}

extern const gop_row transpose_naive_row = {
    .name = "naive",
    .note = "one element a thread in the output's order: writes coalesce, reads at least are "
            "cached",
    .role = GOP_CONFORMING,
    .lecture = TRANSPOSE_LECTURE,
    .plan = transpose_naive_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
