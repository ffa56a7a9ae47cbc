/*
 * wide.cu - reduce: 16 bytes a load.
 *
 * One instruction loads two to four elements: as many bytes in flight with fewer instructions.
 * Elements before the first multiple of 16 bytes and after the last go to the first threads.
 */
#include "cuda/reduce/block.h"
#include "cuda/reduce/lecture.h"

template <typename T, typename R>
__global__ void reduce_wide_kernel(const T *a, int64_t n, R *out)
{
    const R sum = fold_block(add_own_wide<R>(a, n));
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

template <typename T> static gop_status reduce_wide(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH((reduce_wide_kernel<T, R>), (reduce_wide_kernel<R, R>), BLOCK);
}

static gop_status reduce_wide_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    return lecture_plan(task, 16 * BLOCK, resident_blocks(ctx, BLOCK), plan);
}

extern const gop_row reduce_wide_row = {
    .name = "wide",
    .note = "16 bytes a load: the same bytes under way with a quarter of the instructions",
    .role = GOP_TEACHING,
    .caveat = LECTURE_OWN_ORDER,
    .launch = GOP_LAUNCH_TEACHING(reduce_wide),
    .plan = reduce_wide_plan,
};
