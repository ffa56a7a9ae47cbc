/*
 * shuffled.cu - reduce: warps fold in registers.
 *
 * A shuffle hands a register to another thread of the warp: no shared memory, no barrier.
 * Shared memory holds one sum a warp, and a block has one barrier.
 */
#include "cuda/reduce/block.h"
#include "cuda/reduce/lecture.h"

template <typename T, typename R>
__global__ void reduce_shuffled_kernel(const T *a, int64_t n, R *out)
{
    const R sum = fold_block(add_own<R>(a, n));
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

template <typename T>
static gop_status reduce_shuffled(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH((reduce_shuffled_kernel<T, R>), (reduce_shuffled_kernel<R, R>), BLOCK);
}

static gop_status reduce_shuffled_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    return lecture_plan(task, 16 * BLOCK, resident_blocks(ctx, BLOCK), plan);
}

extern const gop_row reduce_shuffled_row = {
    .name = "shuffled",
    .note = "warps meet in registers: shuffles need neither shared memory nor a barrier",
    .role = GOP_TEACHING,
    .caveat = LECTURE_OWN_ORDER,
    .launch = GOP_LAUNCH_TEACHING(reduce_shuffled),
    .plan = reduce_shuffled_plan,
};
