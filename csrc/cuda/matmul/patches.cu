/*
 * patches.cu - matmul with a patch of outputs, TM x TN of them, in a thread's registers.
 *
 * A strip of eight outputs takes nine values from shared memory for eight multiply-adds; a
 * patch of 8 x 8 takes sixteen for sixty-four. Its rows and columns are spread over the tile,
 * so that neighbouring threads want neighbouring columns: no bank is met twice.
 */
#include "cuda/matmul/product.h"
#include "cuda/matmul/tiles.h"

template <typename T> __global__ void __launch_bounds__(THREADS)
    matmul_patches_kernel(const matmul_product<T> p)
{
    typedef sum_t<T> S;
    typedef block_tile<sizeof(S)> shape;
    enum { BM = shape::BM, BN = shape::BN, TM = shape::TM, TN = shape::TN };
    enum { ROWS = BM / TM, COLUMNS = BN / TN }; /* of threads */
    __shared__ S a_tile[BM][BK];
    __shared__ S b_tile[BK][BN];
    const matmul_geometry &g = p.g;
    const int t = threadIdx.x, x = t % COLUMNS, y = t / COLUMNS;
    const int64_t tiles_m = (p.part.rows + BM - 1) / BM, tiles_n = (g.n + BN - 1) / BN;
    const int64_t tiles = p.part.batches * tiles_m * tiles_n;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const matmul_offsets of = matmul_batch(g, p.part.batch + tile / (tiles_m * tiles_n));
        const int64_t i0 = tile / tiles_n % tiles_m * BM, j0 = tile % tiles_n * BN;
        const T *const a = p.a + of.a + (p.part.row + i0) * g.a_row;
        const T *const b = p.b + of.b + j0 * g.b_col;
        S sum[TM][TN] = {};
        for (int64_t l0 = 0; l0 < g.k; l0 += BK) {
            const S zero = {};
            for (int at = t; at < BM * BK; at += THREADS) {
                const int64_t i = at / BK, l = l0 + at % BK;
                a_tile[at / BK][at % BK] = i0 + i < p.part.rows && l < g.k
                                               ? widen(a[i * g.a_row + l * g.a_col])
                                               : zero;
            }
            for (int at = t; at < BK * BN; at += THREADS) {
                const int64_t l = l0 + at / BN, j = at % BN;
                b_tile[at / BN][at % BN] =
                    j0 + j < g.n && l < g.k ? widen(b[l * g.b_row + j * g.b_col]) : zero;
            }
            __syncthreads();
#pragma unroll
            for (int l = 0; l < BK; l++) {
                S row[TM];
#pragma unroll
                for (int r = 0; r < TM; r++) row[r] = a_tile[r * ROWS + y][l];
#pragma unroll
                for (int c = 0; c < TN; c++) {
                    const S value = b_tile[l][c * COLUMNS + x];
#pragma unroll
                    for (int r = 0; r < TM; r++)
                        sum[r][c] = accumulate(row[r], value, sum[r][c]);
                }
            }
            __syncthreads();
        }
        T *const out = (T *)p.out + of.out + (p.part.row + i0) * g.out_row + j0 * g.out_col;
#pragma unroll
        for (int r = 0; r < TM; r++)
#pragma unroll
            for (int c = 0; c < TN; c++) {
                const int64_t i = r * ROWS + y, j = c * COLUMNS + x;
                if (i0 + i < p.part.rows && j0 + j < g.n)
                    put(out + i * g.out_row + j * g.out_col, sum[r][c]);
            }
    }
}

template <typename T>
static gop_status matmul_patches(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    typedef block_tile<sizeof(sum_t<T>)> shape;
    const matmul_product<T> p = matmul_product_of<T>(task, matmul_part_of(task, step));
    const int64_t tiles_m = (p.part.rows + shape::BM - 1) / shape::BM;
    const int64_t tiles_n = (p.g.n + shape::BN - 1) / shape::BN;
    return GOP_LAUNCH(ctx, matmul_patches_kernel<T>,
                      (unsigned)blocks_for(p.part.batches * tiles_m * tiles_n, 1), THREADS, 0,
                      p);
}

extern const gop_row matmul_patches_row = {
    .name = "patches",
    .note = "a patch of outputs in a thread's registers, not a strip: 16 values from shared "
            "memory feed 64 multiply-adds, where strips loads 72",
    .role = GOP_CONFORMING,
    .launch = MATMUL_LESSONS(matmul_patches),
    .plan = matmul_steps_plan<2>,
};
