/*
 * staged.cu - a yardstick of transpose: a copy that goes through shared memory.
 *
 * Block by block of 32 by 32, and back to where it came from: what the detour and its barrier
 * cost, without a transpose.
 */
#include "cuda/transpose/dense.h"
#include "cuda/transpose/planes.h"

template <typename T> __global__ void transpose_staged_kernel(T *out, const T *in, planes p)
{
    __shared__ T tile[32][32];
    const tile_at t = tile_of(p, 32);
    const int64_t x = t.x + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += blockDim.y)
        if (x < p.nx && t.y + j < p.ny)
            tile[j][threadIdx.x] = in[t.from + x * p.in_x + (t.y + j) * p.in_y];
    __syncthreads();
    for (int j = threadIdx.y; j < 32; j += blockDim.y)
        if (x < p.nx && t.y + j < p.ny)
            out[t.from + x * p.in_x + (t.y + j) * p.in_y] = tile[j][threadIdx.x];
}

template <typename T>
static gop_status transpose_staged(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const planes &p = *GOP_OWN(const planes, task->plan);
    return GOP_LAUNCH(ctx, transpose_staged_kernel<T>, dim3((unsigned)p.tiles), dim3(32, 8), 0,
                      (T *)task->out[0].data, (const T *)task->in[0].data, p);
}

static gop_status transpose_staged_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    plan->launch = TRANSPOSE_BY_ITEM(transpose_item(task), transpose_staged);
    GOP_TRY(transpose_planes(task->geometry.permutation, 32, GOP_OWN(planes, plan)));
    return transpose_is_dense(task);
}

extern const gop_row transpose_staged_row = {
    .name = "staged",
    .note = "copy through shared memory by blocks: the price of the detour and its barrier",
    .role = GOP_YARDSTICK,
    .lecture = TRANSPOSE_LECTURE,
    .plan = transpose_staged_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
