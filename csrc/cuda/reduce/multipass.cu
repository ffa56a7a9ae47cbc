/*
 * multipass.cu - reduce: uf loads before the first addition.
 *
 * One wave of blocks strides over the array. A thread has `uf` loads in flight at a time: by
 * Little's law, the bytes in flight must be bandwidth times latency. The best uf is found by
 * trying. The end of the array, less than uf strides of the grid, is added one by one: without
 * that only multiples would be right.
 */
#include "cuda/reduce/block.h"
#include "cuda/reduce/lecture.h"

template <typename T, typename R, int UF>
__global__ void reduce_multipass_kernel(const T *a, int64_t n, R *out)
{
    const int64_t turn = gridDim.x * (int64_t)BLOCK;
    int64_t i = blockIdx.x * (int64_t)BLOCK + threadIdx.x;
    R mine = 0;
    for (; i + (UF - 1) * turn < n; i += UF * turn) {
        T x[UF];
#pragma unroll
        for (int u = 0; u < UF; u++) x[u] = a[i + u * turn];
#pragma unroll
        for (int u = 0; u < UF; u++) mine += R(x[u]);
    }
    for (; i < n; i += turn) mine += R(a[i]);
    mine = fold_block(mine);
    if (threadIdx.x == 0) out[blockIdx.x] = mine;
}

template <typename T, int UF>
static gop_status reduce_multipass(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH((reduce_multipass_kernel<T, R, UF>), (reduce_multipass_kernel<R, R, 8>),
                   BLOCK); /* the later passes have few sums to add */
}

template <typename T, int UF = 2> static gop_launch multipass_of(int64_t uf)
{
    if constexpr (UF < 16)
        if (uf > UF) return multipass_of<T, UF + 1>(uf);
    return reduce_multipass<T, UF>;
}

static gop_status reduce_multipass_plan(const gop_ctx *ctx, const gop_task *task,
                                        gop_plan *plan)
{
    plan->launch = LECTURE_OF_DTYPE(task, multipass_of)(task->tune[0]);
    return lecture_plan(task, (int)task->tune[0] * BLOCK, resident_blocks(ctx, BLOCK), plan);
}

extern const gop_row reduce_multipass_row = {
    .name = "multipass",
    .note = "uf loads under way a thread: bytes in flight hide how long memory takes",
    .role = GOP_TEACHING,
    .caveat = LECTURE_OWN_ORDER,
    .lecture = "reduction in passes, 2012",
    .tunables = {{"uf", 15, {8, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16}}},
    .plan = reduce_multipass_plan,
    .dtypes = LECTURE_DTYPES,
};
