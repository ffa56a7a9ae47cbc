/*
 * strided.cu - a yardstick of transpose: a copy whose neighbouring threads are far apart.
 *
 * One item a thread in the output's order, but written where it is read: on both sides each
 * access is a memory transaction of its own.
 */
#include "cuda/transpose/dense.h"
#include "cuda/transpose/order.h"

template <typename T>
__global__ void transpose_strided_kernel(T *out, const T *in, gop_permutation p)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.size) return;
    int64_t to, from;
    place(p, (uint64_t)i, &to, &from);
    out[from] = in[from];
}

template <typename T>
static gop_status transpose_strided(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const gop_permutation &p = task->geometry.permutation;
    return GOP_LAUNCH(ctx, transpose_strided_kernel<T>, dim3((unsigned)blocks_for(p.size, 256)),
                      256, 0, (T *)task->out[0].data, (const T *)task->in[0].data, p);
}

static gop_status transpose_strided_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    plan->launch = TRANSPOSE_BY_ITEM(transpose_item(task), transpose_strided);
    return transpose_is_dense(task);
}

extern const gop_row transpose_strided_row = {
    .name = "strided",
    .note = "copy an element a thread, neighbours far apart on both sides: every access "
            "is a memory transaction",
    .role = GOP_YARDSTICK,
    .lecture = TRANSPOSE_LECTURE,
    .plan = transpose_strided_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
