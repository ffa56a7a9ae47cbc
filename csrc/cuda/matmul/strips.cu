/*
 * strips.cu - matmul with a strip of a column, eight outputs of it, in a thread's registers.
 *
 * In tiled a multiply-add takes two loads from shared memory, which delivers 32 words a clock
 * to four times as many arithmetic units. Here a value of b, once loaded, serves eight
 * multiply-adds, and the values of a are the same for all threads of a warp.
 */
#include "cuda/matmul/product.h"

enum { SIDE = 64, DEPTH = 8, STRIP = 8, STRIP_THREADS = SIDE * SIDE / STRIP };

template <typename T> __global__ void __launch_bounds__(STRIP_THREADS)
    matmul_strips_kernel(const matmul_product<T> p)
{
    __shared__ sum_t<T> a_tile[SIDE][DEPTH];
    __shared__ sum_t<T> b_tile[DEPTH][SIDE];
    const matmul_geometry &g = p.g;
    const int t = threadIdx.x, x = t % SIDE, y = t / SIDE * STRIP;
    const int64_t tiles_m = (p.part.rows + SIDE - 1) / SIDE, tiles_n = (g.n + SIDE - 1) / SIDE;
    const int64_t tiles = p.part.batches * tiles_m * tiles_n;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const matmul_offsets of = matmul_batch(g, p.part.batch + tile / (tiles_m * tiles_n));
        const int64_t row = tile / tiles_n % tiles_m * SIDE, j0 = tile % tiles_n * SIDE;
        const int64_t i0 = p.part.row + row;
        const bool a_inside = row + t / DEPTH < p.part.rows, b_inside = j0 + x < g.n;
        const T *a = p.a + of.a + (i0 + t / DEPTH) * g.a_row + t % DEPTH * g.a_col;
        const T *b = p.b + of.b + (j0 + x) * g.b_col + t / SIDE * g.b_row;
        sum_t<T> sum[STRIP] = {};
        for (int64_t l0 = 0; l0 < g.k;
             l0 += DEPTH, a += DEPTH * g.a_col, b += DEPTH * g.b_row) {
            const sum_t<T> zero = {};
            a_tile[t / DEPTH][t % DEPTH] = a_inside && l0 + t % DEPTH < g.k ? widen(*a) : zero;
            b_tile[t / SIDE][x] = b_inside && l0 + t / SIDE < g.k ? widen(*b) : zero;
            __syncthreads();
#pragma unroll
            for (int l = 0; l < DEPTH; l++) {
                const sum_t<T> value = b_tile[l][x];
#pragma unroll
                for (int s = 0; s < STRIP; s++)
                    sum[s] = accumulate(a_tile[y + s][l], value, sum[s]);
            }
            __syncthreads();
        }
#pragma unroll
        for (int s = 0; s < STRIP; s++)
            if (row + y + s < p.part.rows && b_inside)
                put((T *)p.out + of.out + (i0 + y + s) * g.out_row + (j0 + x) * g.out_col,
                    sum[s]);
    }
}

template <typename T>
static gop_status matmul_strips(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const matmul_product<T> p = matmul_product_of<T>(task, matmul_part_of(task, step));
    const int64_t tiles_m = (p.part.rows + SIDE - 1) / SIDE;
    const int64_t tiles = p.part.batches * tiles_m * ((p.g.n + SIDE - 1) / SIDE);
    return GOP_LAUNCH(ctx, matmul_strips_kernel<T>, (unsigned)blocks_for(tiles, 1),
                      STRIP_THREADS, 0, p);
}

extern const gop_row matmul_strips_row = {
    .name = "strips",
    .note = "a thread keeps eight outputs of a column in registers: a value of b from shared "
            "memory feeds eight multiply-adds, where tiled loads it for each",
    .role = GOP_CONFORMING,
    .launch = MATMUL_LESSONS(matmul_strips),
    .plan = matmul_steps_plan<4>,
};
