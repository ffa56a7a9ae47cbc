/*
 * padded.cu - transpose through a tile whose rows are a word longer than they need to be.
 *
 * The items of a column then lie in 32 different banks of shared memory, and the 32 threads
 * that read it are answered at once.
 */
#include "cuda/transpose/planes.h"

template <typename T, int SIDE>
__global__ void transpose_padded_kernel(T *out, const T *in, planes p)
{
    enum { PAD = sizeof(T) < 4 ? 4 / (int)sizeof(T) : 1 };
    __shared__ T tile[SIDE][SIDE + PAD];
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
static gop_status transpose_padded(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const planes &p = *GOP_OWN(const planes, task->plan);
    return GOP_LAUNCH(ctx, (transpose_padded_kernel<T, SIDE>), dim3((unsigned)p.tiles),
                      dim3(SIDE, (unsigned)task->tune[1]), 0, (T *)task->out[0].data,
                      (const T *)task->in[0].data, p);
}

static gop_status transpose_padded_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    const int item = transpose_item(task), side = (int)task->tune[0];
    return transpose_plan_sides(task, TRANSPOSE_BY_SIDE(item, side, transpose_padded), plan);
}

extern const gop_row transpose_padded_row = {
    .name = "padded",
    .note = "one word more per row of the tile: a column lies in 32 different banks",
    .role = GOP_CONFORMING,
    .lecture = TRANSPOSE_LECTURE,
    .tunables = {TRANSPOSE_SIDES, TRANSPOSE_ROWS},
    .plan = transpose_padded_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
