/*
 * swizzled.cu - transpose through a tile whose column i of row j lies at i XOR j.
 *
 * Instead of a word of padding: rows and columns both meet 32 different banks, and the tile has
 * no byte more than its items.
 */
#include "cuda/transpose/planes.h"

template <typename T> __global__ void transpose_swizzled_kernel(T *out, const T *in, planes p)
{
    __shared__ T tile[32][32];
    const tile_at t = tile_of(p, 32);
    const int i = threadIdx.x;
#pragma unroll
    for (int j = threadIdx.y; j < 32; j += 8)
        if (t.x + i < p.nx && t.y + j < p.ny)
            tile[j][i ^ j] = in[t.from + (t.x + i) * p.in_x + (t.y + j) * p.in_y];
    __syncthreads();
#pragma unroll
    for (int j = threadIdx.y; j < 32; j += 8)
        if (t.x + j < p.nx && t.y + i < p.ny)
            out[t.to + (t.x + j) * p.out_x + (t.y + i) * p.out_y] = tile[i][j ^ i];
}

template <typename T>
static gop_status transpose_swizzled(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const planes &p = *GOP_OWN(const planes, task->plan);
    return GOP_LAUNCH(ctx, transpose_swizzled_kernel<T>, dim3((unsigned)p.tiles), dim3(32, 8),
                      0, (T *)task->out[0].data, (const T *)task->in[0].data, p);
}

static gop_status transpose_swizzled_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    plan->launch = TRANSPOSE_BY_ITEM(transpose_item(task), transpose_swizzled);
    return transpose_planes(task->geometry.permutation, 32, GOP_OWN(planes, plan));
}

extern const gop_row transpose_swizzled_row = {
    .name = "swizzled",
    .note = "column i of row j lies at i XOR j: 32 different banks without a word of padding",
    .role = GOP_CONFORMING,
    .plan = transpose_swizzled_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
