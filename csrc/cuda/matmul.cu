/*
 * matmul - out[batch, i, j] = sum over l of a[batch, i, l] b[batch, l, j].
 *
 * Floor: 2 m n k flops; memory must be read only once. The hardware fact that makes it hard: a
 * multiprocessor multiplies far faster than any memory delivers factors, so each loaded value
 * must be used many times, first from shared memory, then from registers.
 *
 * Every kernel here adds the terms of an output in the order of l, one fused multiply-add each.
 */
#include "cuda/matmul.h"

/* ---- naive: a thread an output ---- */

/* Neighbouring threads take neighbouring columns, so that a warp reads a row of b in whole
 * sectors and one element of a for all. Still two loads for every multiply-add. */
template <typename T> __global__ void matmul_naive_kernel(const matmul_product<T> p)
{
    const int64_t count = p.part.batches * p.part.rows * p.g.n;
    const int64_t threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at < count;
         at += threads) {
        const int64_t j = at % p.g.n, row = at / p.g.n;
        const int64_t i = p.part.row + row % p.part.rows;
        const matmul_offsets of = matmul_batch(p.g, p.part.batch + row / p.part.rows);
        const T *a = p.a + of.a + i * p.g.a_row;
        const T *b = p.b + of.b + j * p.g.b_col;
        sum_t<T> sum = {};
        for (int64_t l = 0; l < p.g.k; l++, a += p.g.a_col, b += p.g.b_row)
            sum = accumulate(widen(*a), widen(*b), sum);
        put((T *)p.out + of.out + i * p.g.out_row + j * p.g.out_col, sum);
    }
}

enum { NAIVE_SLOWER = 16, TILED_SLOWER = 8 }; /* than the best kernel, cautiously */

static int64_t matmul_naive_steps(const gop_ctx *ctx, const gop_task *task)
{
    matmul_part part;
    return matmul_cut(ctx, task, NAIVE_SLOWER, 0, &part);
}

template <typename T>
static gop_status matmul_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    matmul_part part;
    matmul_cut(ctx, task, NAIVE_SLOWER, step, &part);
    const matmul_product<T> p = matmul_product_of<T>(task, part);
    const int64_t count = part.batches * part.rows * p.g.n;
    if (count == 0) return GOP_OK;
    return GOP_LAUNCH(ctx, matmul_naive_kernel<T>, (unsigned)blocks_for(count, 256), 256, 0, p);
}

/* ---- tiled: tiles of a and b in shared memory ---- */

/* The threads of a block load a TILE x TILE tile of a and one of b together; each value then
 * serves TILE threads from shared memory instead of being fetched by each of them. Beyond the
 * edges a tile holds zeros, and a zero of a only ever meets a zero of b or an output that is
 * not written. */
template <typename T, int TILE> __global__ void matmul_tiled_kernel(const matmul_product<T> p)
{
    __shared__ sum_t<T> a_tile[TILE][TILE];
    __shared__ sum_t<T> b_tile[TILE][TILE];
    const gop_gemm &g = p.g;
    const int x = threadIdx.x, y = threadIdx.y;
    const int64_t row_end = p.part.row + p.part.rows;
    const int64_t tiles_m = (p.part.rows + TILE - 1) / TILE, tiles_n = (g.n + TILE - 1) / TILE;
    const int64_t tiles = p.part.batches * tiles_m * tiles_n;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const matmul_offsets of = matmul_batch(g, p.part.batch + tile / (tiles_m * tiles_n));
        const int64_t i = p.part.row + tile / tiles_n % tiles_m * TILE + y;
        const int64_t j = tile % tiles_n * TILE + x;
        const T *a = p.a + of.a + i * g.a_row + x * g.a_col;
        const T *b = p.b + of.b + j * g.b_col + y * g.b_row;
        sum_t<T> sum = {};
        for (int64_t l0 = 0; l0 < g.k; l0 += TILE, a += TILE * g.a_col, b += TILE * g.b_row) {
            const sum_t<T> zero = {};
            a_tile[y][x] = i < row_end && l0 + x < g.k ? widen(*a) : zero;
            b_tile[y][x] = j < g.n && l0 + y < g.k ? widen(*b) : zero;
            __syncthreads();
#pragma unroll
            for (int l = 0; l < TILE; l++) sum = accumulate(a_tile[y][l], b_tile[l][x], sum);
            __syncthreads();
        }
        if (i < row_end && j < g.n)
            put((T *)p.out + of.out + i * g.out_row + j * g.out_col, sum);
    }
}

static int64_t matmul_tiled_steps(const gop_ctx *ctx, const gop_task *task)
{
    matmul_part part;
    return matmul_cut(ctx, task, TILED_SLOWER, 0, &part);
}

template <typename T, int TILE>
static gop_status matmul_tiled_of(gop_ctx *ctx, const gop_task *task, const matmul_part &part)
{
    const matmul_product<T> p = matmul_product_of<T>(task, part);
    const int64_t tiles_m = (part.rows + TILE - 1) / TILE, tiles_n = (p.g.n + TILE - 1) / TILE;
    const int64_t tiles = part.batches * tiles_m * tiles_n;
    if (tiles == 0) return GOP_OK;
    return GOP_LAUNCH(ctx, (matmul_tiled_kernel<T, TILE>), (unsigned)blocks_for(tiles, 1),
                      dim3(TILE, TILE), 0, p);
}

template <typename T>
static gop_status matmul_tiled(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    matmul_part part;
    matmul_cut(ctx, task, TILED_SLOWER, step, &part);
    return task->tune[0] == 16 ? matmul_tiled_of<T, 16>(ctx, task, part)
                               : matmul_tiled_of<T, 32>(ctx, task, part);
}

/* ---- the ladder ---- */

#define NO_TUNABLES                                                                            \
    {                                                                                          \
    }

static const gop_row rows[] = {
    {"naive", "a thread an output, neighbours in a row: two loads for every multiply-add",
     GOP_CONFORMING, nullptr, "matrix multiplication", MATMUL_LAUNCHES(matmul_naive), nullptr,
     nullptr, matmul_naive_steps, NO_TUNABLES},
    {"tiled",
     "tiles of a and b pass through shared memory: a value is fetched once for a whole row or "
     "column of threads",
     GOP_CONFORMING,
     nullptr,
     "matrix multiplication",
     MATMUL_LAUNCHES(matmul_tiled),
     nullptr,
     nullptr,
     matmul_tiled_steps,
     {{"tile", 2, {32, 16}}}},
    {"blocktiled",
     "a thread keeps 8 x 8 outputs in registers: 16 values from shared memory feed 64 "
     "multiply-adds, and the next tile loads meanwhile",
     GOP_CONFORMING, nullptr, nullptr, MATMUL_LAUNCHES(matmul_blocktiled), nullptr, nullptr,
     matmul_blocktiled_steps, NO_TUNABLES},
    {"splitk",
     "where outputs are few and sums long, blocks share a sum: its pieces are added in a fixed "
     "order afterwards",
     GOP_CONFORMING, nullptr, nullptr, MATMUL_LAUNCHES(matmul_splitk), matmul_splitk_accepts,
     matmul_splitk_scratch, nullptr, NO_TUNABLES},
};

extern "C" {
extern const gop_ladder gop_cuda_matmul;
const gop_ladder gop_cuda_matmul = {sizeof rows / sizeof rows[0], rows};
}
