/*
 * diagonal.cu - transpose with the blocks numbered along the diagonals of the tiles.
 *
 * Blocks that run at the same time usually work on one row of tiles, and write one column of
 * them: where addresses a large power of two apart fall to the same memory partition, they
 * queue there. Numbered along the diagonals, they spread over all. GPUs that hash addresses to
 * partitions, as all do since compute capability 2.0, spread them anyway.
 */
#include "cuda/transpose/planes.h"

/* The block's tile: diagonal by diagonal. */
GOP_DEVICE tile_at diagonal_tile_of(const planes &p, int side)
{
    const uint32_t batch = quotient(blockIdx.x, p.plane);
    const uint32_t tile = blockIdx.x - batch * p.plane.d;
    const uint32_t diagonal = quotient(tile, p.up), y = tile - diagonal * p.up.d;
    const uint32_t x = diagonal + y, wraps = quotient(x, p.across);
    return tile_in_batch(p, x - wraps * p.across.d, y, batch, side);
}

template <typename T> __global__ void transpose_diagonal_kernel(T *out, const T *in, planes p)
{
    enum { PAD = sizeof(T) < 4 ? 4 / (int)sizeof(T) : 1 };
    __shared__ T tile[32][32 + PAD];
    const tile_at t = diagonal_tile_of(p, 32);
    const int i = threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += blockDim.y)
        if (t.x + i < p.nx && t.y + j < p.ny)
            tile[j][i] = in[t.from + (t.x + i) * p.in_x + (t.y + j) * p.in_y];
    __syncthreads();
    for (int j = threadIdx.y; j < 32; j += blockDim.y)
        if (t.x + j < p.nx && t.y + i < p.ny)
            out[t.to + (t.x + j) * p.out_x + (t.y + i) * p.out_y] = tile[i][j];
}

template <typename T>
static gop_status transpose_diagonal(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const planes &p = *GOP_OWN(const planes, task->plan);
    return GOP_LAUNCH(ctx, transpose_diagonal_kernel<T>, dim3((unsigned)p.tiles), dim3(32, 8),
                      0, (T *)task->out[0].data, (const T *)task->in[0].data, p);
}

static gop_status transpose_diagonal_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    plan->launch = TRANSPOSE_BY_ITEM(transpose_item(task), transpose_diagonal);
    return transpose_planes(task->geometry.permutation, 32, GOP_OWN(planes, plan));
}

extern const gop_row transpose_diagonal_row = {
    .name = "diagonal",
    .note =
        "blocks numbered along diagonals: no queue at one memory partition, where addresses "
        "are not hashed",
    .role = GOP_CONFORMING,
    .lecture = TRANSPOSE_LECTURE,
    .plan = transpose_diagonal_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
