/*
 * tiled.cu - matmul with tiles of a and b in shared memory.
 *
 * The threads of a block load a TILE x TILE tile of a and one of b together; each value then
 * serves TILE threads from shared memory instead of being fetched by each of them. Beyond the
 * edges a tile holds zeros, and a zero of a only ever meets a zero of b or an output that is
 * not written.
 */
#include "cuda/matmul/product.h"

template <typename T, int TILE> __global__ void matmul_tiled_kernel(const matmul_product<T> p)
{
    __shared__ sum_t<T> a_tile[TILE][TILE];
    __shared__ sum_t<T> b_tile[TILE][TILE];
    const matmul_geometry &g = p.g;
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

template <typename T, int TILE>
static gop_status matmul_tiled(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const matmul_product<T> p = matmul_product_of<T>(task, matmul_part_of(task, step));
    const int64_t tiles_m = (p.part.rows + TILE - 1) / TILE;
    const int64_t tiles_n = (p.g.n + TILE - 1) / TILE;
    const int64_t tiles = p.part.batches * tiles_m * tiles_n;
    return GOP_LAUNCH(ctx, (matmul_tiled_kernel<T, TILE>), (unsigned)blocks_for(tiles, 1),
                      dim3(TILE, TILE), 0, p);
}

static gop_status matmul_tiled_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    static const gop_launch of_16[] = MATMUL_LESSONS(matmul_tiled, 16);
    static const gop_launch of_32[] = MATMUL_LESSONS(matmul_tiled, 32);
    enum { SLOWER = 8 }; /* times the best kernel's time, at most */
    plan->launch = (task->tune[0] == 16 ? of_16 : of_32)[task->in[0].dtype];
    matmul_plan_steps(ctx, task, SLOWER, plan);
    return GOP_OK;
}

extern const gop_row matmul_tiled_row = {
    .name = "tiled",
    .note = "tiles of a and b pass through shared memory: a value is fetched once for a whole "
            "row or column of threads",
    .role = GOP_CONFORMING,
    .lecture = "matrix multiplication",
    .tunables = {{"tile", 2, {32, 16}}},
    .plan = matmul_tiled_plan,
    .dtypes = 1u << GOP_INT32 | 1u << GOP_FLOAT32 | 1u << GOP_FLOAT64,
};
