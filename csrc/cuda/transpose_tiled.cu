/*
 * transpose_tiled.cu - the transpose rows that move a tile through shared memory, an item at a
 * time: the lecture's steps.
 *
 * All take planes of any strides. A tile has `side` items on a side; a block is `side` threads
 * wide and `rows` high, so that a thread moves side / rows items.
 */
#include "cuda/transpose.h"

/* The kernel of a tile's side; 64 by 64 items of 16 bytes are not there: a block has 48 KiB. */
#define LAUNCH_BY_SIDE(kernel)                                                                 \
    planes p;                                                                                  \
    const int side = (int)task->tune[0], rows = (int)task->tune[1];                            \
    T *const out = (T *)task->out[0].data;                                                     \
    const T *const in = (const T *)task->in[0].data;                                           \
    GOP_TRY(transpose_planes(task->geometry.permutation, side, &p));                           \
    if (p.tiles == 0) return GOP_OK;                                                           \
    const dim3 grid((unsigned)p.tiles), block(side, rows);                                     \
    if (side == 16) return GOP_LAUNCH(ctx, (kernel<T, 16>), grid, block, 0, out, in, p);       \
    if (side == 32) return GOP_LAUNCH(ctx, (kernel<T, 32>), grid, block, 0, out, in, p);       \
    return GOP_LAUNCH(ctx, (kernel < T, sizeof(T) < 16 ? 64 : 32 >), grid, block, 0, out, in, p)

/* ---- tiled ----
 * The warps of a block read rows along x and write columns along y, so both sides coalesce. But
 * the elements of a column lie `side` apart, at 32 in one bank of shared memory, and the 32
 * threads that read it take turns. */

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

template <typename T> static gop_status tiled(gop_ctx *ctx, const gop_task *task)
{
    LAUNCH_BY_SIDE(transpose_tiled_kernel);
}

gop_status transpose_tiled(gop_ctx *ctx, const gop_task *task, int64_t)
{
    TRANSPOSE_BY_ITEM(transpose_item(task), tiled, ctx, task);
}

/* ---- padded ----
 * A word more per row than the tile needs: the elements of a column then lie in 32 different
 * banks and are read at once. */

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

template <typename T> static gop_status padded(gop_ctx *ctx, const gop_task *task)
{
    LAUNCH_BY_SIDE(transpose_padded_kernel);
}

gop_status transpose_padded(gop_ctx *ctx, const gop_task *task, int64_t)
{
    TRANSPOSE_BY_ITEM(transpose_item(task), padded, ctx, task);
}

/* ---- diagonal ----
 * Blocks that run at the same time usually work on one row of tiles, and write one column of
 * them: where addresses a large power of two apart fall to the same memory partition, they
 * queue there. Numbered along the diagonals, they spread over all. GPUs that hash addresses to
 * partitions, as all do since compute capability 2.0, spread them anyway. */

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

template <typename T> static gop_status diagonal(gop_ctx *ctx, const gop_task *task)
{
    planes p;
    GOP_TRY(transpose_planes(task->geometry.permutation, 32, &p));
    if (p.tiles == 0) return GOP_OK;
    return GOP_LAUNCH(ctx, transpose_diagonal_kernel<T>, dim3((unsigned)p.tiles), dim3(32, 8),
                      0, (T *)task->out[0].data, (const T *)task->in[0].data, p);
}

gop_status transpose_diagonal(gop_ctx *ctx, const gop_task *task, int64_t)
{
    TRANSPOSE_BY_ITEM(transpose_item(task), diagonal, ctx, task);
}

/* ---- swizzled ----
 * Instead of a word of padding: column i of row j lies at i XOR j. Rows and columns both meet
 * 32 different banks, and the tile has no byte more than its items. */

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

template <typename T> static gop_status swizzled(gop_ctx *ctx, const gop_task *task)
{
    planes p;
    GOP_TRY(transpose_planes(task->geometry.permutation, 32, &p));
    if (p.tiles == 0) return GOP_OK;
    return GOP_LAUNCH(ctx, transpose_swizzled_kernel<T>, dim3((unsigned)p.tiles), dim3(32, 8),
                      0, (T *)task->out[0].data, (const T *)task->in[0].data, p);
}

gop_status transpose_swizzled(gop_ctx *ctx, const gop_task *task, int64_t)
{
    TRANSPOSE_BY_ITEM(transpose_item(task), swizzled, ctx, task);
}

/* ---- what they take ---- */

gop_status transpose_takes_planes(const gop_ctx *, const gop_task *task)
{
    planes p;
    GOP_TRY(transpose_planes(task->geometry.permutation, 32, &p));
    if (task->tune[0] == 64 && transpose_item(task) == 16)
        return gop_fail(GOP_REFUSED, "transpose: a tile of 64 by 64 takes items of up to 8 "
                                     "bytes in 48 KiB of shared memory, got items of 16");
    return GOP_OK;
}
