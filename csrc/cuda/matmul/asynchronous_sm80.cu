/*
 * asynchronous_sm80.cu - matmul whose tiles copy themselves to shared memory.
 *
 * An asynchronous copy needs no register, and no thread waits for it: two tiles travel while
 * one is multiplied. The threads of a warp share a patch of 4 x 8 of their own patches, so that
 * a warp asks shared memory for few different words.
 */
#include "cuda/matmul/tiles.h"
#include "cuda/common/cp_async.h"

enum { STAGES = 3, LANE_ROWS = 4, LANE_COLUMNS = 8 };

template <typename T> __global__ void __launch_bounds__(THREADS)
    matmul_asynchronous_kernel(const matmul_product<T> p)
{
    typedef block_tile<sizeof(T)> shape;
    enum { BM = shape::BM, BN = shape::BN, TM = shape::TM, TN = shape::TN, N = vec128<T>::N };
    enum { DEPTH = sizeof(T) == 16 ? 4 : 8, EACH = (BM + BN) * DEPTH / THREADS };
    enum { WARPS_N = BN / (LANE_COLUMNS * TN) };
    /* a's tile is transposed, and lines are padded: the stores of a warp meet different banks
     */
    __shared__ vec128<T> a_stages[STAGES][DEPTH][BM / N + 1];
    __shared__ vec128<T> b_stages[STAGES][DEPTH][BN / N + 1];
    const matmul_geometry &g = p.g;
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    const matmul_tile<T> tile = matmul_tile_of<BM, BN, 1>(p);

    async_copies<T, EACH * STAGES> copies;
    const auto fetch = [&](int64_t step) {
        T *const a_to = reinterpret_cast<T *>(a_stages[step % STAGES]);
        T *const b_to = reinterpret_cast<T *>(b_stages[step % STAGES]);
#pragma unroll
        for (int at = t; at < BM * DEPTH; at += THREADS) {
            const int i = at / DEPTH;
            const int64_t l = step * DEPTH + at % DEPTH;
            const bool exists = tile.i0 + i < p.part.rows && l < g.k;
            copies.copy(a_to + at % DEPTH * (BM + N) + i,
                        exists ? tile.a + i * g.a_row + l * g.a_col : p.a, exists);
        }
#pragma unroll
        for (int at = t; at < DEPTH * BN; at += THREADS) {
            const int j = at % BN;
            const int64_t l = step * DEPTH + at / BN;
            const bool exists = tile.j0 + j < g.n && l < g.k;
            copies.copy(b_to + at / BN * (BN + N) + j,
                        exists ? tile.b + l * g.b_row + j * g.b_col : p.b, exists);
        }
    };

    /* a lane has 128 bits of a line of shared memory, then come those of the other lanes */
    const int y = warp / WARPS_N * (LANE_ROWS * TM / N) + lane / LANE_COLUMNS;
    const int x = warp % WARPS_N * (LANE_COLUMNS * TN / N) + lane % LANE_COLUMNS;
    const int64_t steps = (g.k + DEPTH - 1) / DEPTH;
    T sum[TM][TN] = {};
    for (int step = 0; step < STAGES - 1; step++) {
        if (step < steps) fetch(step);
        copies.commit();
    }
    for (int64_t step = 0; step < steps; step++) {
        copies.template wait<STAGES - 2>();
        __syncthreads(); /* this tile is whole, and the one before is no longer read */
        if (step + STAGES - 1 < steps) fetch(step + STAGES - 1);
        copies.commit();
#pragma unroll
        for (int l = 0; l < DEPTH; l++) {
            vec128<T> row[TM / N], column[TN / N];
#pragma unroll
            for (int r = 0; r < TM / N; r++)
                row[r] = a_stages[step % STAGES][l][y + r * LANE_ROWS];
#pragma unroll
            for (int c = 0; c < TN / N; c++)
                column[c] = b_stages[step % STAGES][l][x + c * LANE_COLUMNS];
            add_products(sum, row, column);
        }
    }

    T *const out = (T *)p.out + tile.out;
#pragma unroll
    for (int r = 0; r < TM; r++)
#pragma unroll
        for (int c = 0; c < TN; c++) {
            const int i = (y + r / N * LANE_ROWS) * N + r % N;
            const int j = (x + c / N * LANE_COLUMNS) * N + c % N;
            if (tile.i0 + i < p.part.rows && tile.j0 + j < g.n)
                put(out + i * g.out_row + j * g.out_col, sum[r][c]);
        }
}

template <typename T>
static gop_status matmul_asynchronous(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    typedef block_tile<sizeof(T)> shape;
    const matmul_product<T> p = matmul_product_of<T>(task, matmul_part_of(task, step));
    return GOP_LAUNCH(ctx, matmul_asynchronous_kernel<T>,
                      (matmul_tile_count<shape::BM, shape::BN>(p)), THREADS, 0, p);
}

static gop_status matmul_asynchronous_plan(const gop_ctx *ctx, const gop_task *task,
                                           gop_plan *plan)
{
    if (gop_is_for_gpu(ctx))
        GOP_TRY(gop_has_code(ctx, "matmul: kernel 'asynchronous'", 8,
                             "whose memory is copied to shared memory by itself"));
    matmul_plan_steps(ctx, task, 1, plan);
    return GOP_OK;
}

/* Copies move 4, 8 or 16 bytes. */
#define LAUNCH(T) matmul_asynchronous<T>
extern const gop_row matmul_asynchronous_row = {
    .name = "asynchronous",
    .note = "tiles copy themselves to shared memory, two of them while one is multiplied; a "
            "warp's patches form one of 32 x 64",
    .role = GOP_CONFORMING,
    .launch = {nullptr, nullptr, nullptr, LAUNCH(uint32_t), LAUNCH(uint64_t), nullptr, nullptr,
               LAUNCH(uint32_t), LAUNCH(uint64_t), nullptr, nullptr, LAUNCH(float),
               LAUNCH(double), LAUNCH(complex64), LAUNCH(complex128)},
    .plan = matmul_asynchronous_plan,
};
