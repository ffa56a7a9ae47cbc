/*
 * tiled.cu - transpose through a tile in shared memory.
 *
 * The warps of a block read rows along x and write columns along y, so both sides coalesce. But
 * the items of a column lie `side` apart: with 32, in one bank of shared memory, and the 32
 * threads that read it are served one after another. A block is `side` threads wide and `rows`
 * high: a thread moves side / rows items.
 */
#include "cuda/transpose/planes.h"

template <typename T, int SIDE>
__global__ void transpose_tiled_kernel(T *out, const T *in, planes p)
{
    __shared__ T tile[SIDE][SIDE];
    const tile_at t = tile_of(p, SIDE);
    const int i = threadIdx.x;
    for (int j = threadIdx.y; j < SIDE; j += blockDim.y)
        if (t.x + i < p.nx && t.y + j < p.ny)
            tile[j][i] = in[t.from + (t.x + i) * p.in_x + (t.y + j) * p.in_y];
    __syncthreads();
    for (int j = threadIdx.y; j < SIDE; j += blockDim.y)
        if (t.x + j < p.nx && t.y + i < p.ny)
            out[t.to + (t.x + j) * p.out_x + (t.y + i) * p.out_y] = tile[i][j];
}

template <typename T, int SIDE>
static gop_status transpose_tiled(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const planes &p = *GOP_OWN(const planes, task->plan);
    return GOP_LAUNCH(ctx, (transpose_tiled_kernel<T, SIDE>), dim3((unsigned)p.tiles),
                      dim3(SIDE, (unsigned)task->tune[1]), 0, (T *)task->out[0].data,
                      (const T *)task->in[0].data, p);
}

static gop_status transpose_tiled_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    const int item = transpose_item(task), side = (int)task->tune[0];
    return transpose_plan_sides(task, TRANSPOSE_BY_SIDE(item, side, transpose_tiled), plan);
}

extern const gop_row transpose_tiled_row = {
    .name = "tiled",
    .note = "a tile through shared memory: both sides coalesce, but a column is one bank",
    .role = GOP_CONFORMING,
    .lecture = TRANSPOSE_LECTURE,
    .tunables = {TRANSPOSE_SIDES, TRANSPOSE_ROWS},
    .plan = transpose_tiled_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
