/*
 * copy.cu - a yardstick of transpose: a copy of the same bytes, one item a thread.
 *
 * Both sides coalesce: this is what a transpose could reach.
 */
#include "cuda/transpose/dense.h"

template <typename T> __global__ void transpose_copy_kernel(T *out, const T *in, int64_t size)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) out[i] = in[i];
}

template <typename T>
static gop_status transpose_copy(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const int64_t size = task->geometry.permutation.size;
    return GOP_LAUNCH(ctx, transpose_copy_kernel<T>, dim3((unsigned)blocks_for(size, 256)), 256,
                      0, (T *)task->out[0].data, (const T *)task->in[0].data, size);
}

static gop_status transpose_copy_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    plan->launch = TRANSPOSE_BY_ITEM(transpose_item(task), transpose_copy);
    return transpose_is_dense(task);
}

extern const gop_row transpose_copy_row = {
    .name = "copy",
    .note = "copy an element a thread: both sides coalesce, so this is what a transpose "
            "could reach",
    .role = GOP_YARDSTICK,
    .lecture = TRANSPOSE_LECTURE,
    .plan = transpose_copy_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
