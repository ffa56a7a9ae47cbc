/*
 * tensor_sm80.cu - matmul by tensor cores with factors of 11 bits.
 *
 * A tensor core multiplies a 16 x 8 by an 8 x 8 matrix, spread over the registers of a warp:
 * 1024 multiply-adds for six registers a thread. Factors are rounded to TF32, which has
 * float32's range but 11 bits; so results are less accurate.
 */
#include "cuda/matmul/product.h"
#include "cuda/common/mma.h"

enum { SIDE = 64, DEPTH = 16, LINE = DEPTH + 4, TENSOR_THREADS = 128 };

/* To 11 bits, to nearest; infinities and NaNs stay. */
GOP_DEVICE float rounded(float value)
{
    const uint32_t bits = gop_float_to_bits(value);
    if ((bits & 0x7f800000u) == 0x7f800000u) return value;
    return gop_bits_to_float((bits + 0x1000u) & 0xffffe000u);
}

/* A warp has 32 x 32 outputs of a tile: 2 x 4 fragments. */
__global__ void __launch_bounds__(TENSOR_THREADS)
    matmul_tensor_kernel(const matmul_product<float> p)
{
    __shared__ float a_tile[SIDE][LINE], b_tile[SIDE][LINE];
    const matmul_geometry &g = p.g;
    const int t = threadIdx.x, warp = t / 32, row = t % 32 / 4, q = t % 4;
    const int m0 = warp % 2 * 32, n0 = warp / 2 * 32;
    const int64_t tiles_m = (p.part.rows + SIDE - 1) / SIDE, tiles_n = (g.n + SIDE - 1) / SIDE;
    const int64_t tiles = p.part.batches * tiles_m * tiles_n;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const matmul_offsets of = matmul_batch(g, p.part.batch + tile / (tiles_m * tiles_n));
        const int64_t i0 = tile / tiles_n % tiles_m * SIDE, j0 = tile % tiles_n * SIDE;
        const float *const a = p.a + of.a + (p.part.row + i0) * g.a_row;
        const float *const b = p.b + of.b + j0 * g.b_col;
        float sum[2][4][4] = {};
        for (int64_t l0 = 0; l0 < g.k; l0 += DEPTH) {
            for (int at = t; at < SIDE * DEPTH; at += TENSOR_THREADS) {
                const int i = at / DEPTH, a_l = at % DEPTH, j = at % SIDE, b_l = at / SIDE;
                const bool a_exists = i0 + i < p.part.rows && l0 + a_l < g.k;
                const bool b_exists = j0 + j < g.n && l0 + b_l < g.k;
                a_tile[i][a_l] =
                    a_exists ? rounded(a[i * g.a_row + (l0 + a_l) * g.a_col]) : 0.0f;
                b_tile[j][b_l] =
                    b_exists ? rounded(b[(l0 + b_l) * g.b_row + j * g.b_col]) : 0.0f;
            }
            __syncthreads();
#pragma unroll
            for (int l = 0; l < DEPTH; l += 8) {
                float fa[2][4], fb[4][2];
#pragma unroll
                for (int m = 0; m < 2; m++)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        fa[m][e] = a_tile[m0 + m * 16 + e % 2 * 8 + row][l + e / 2 * 4 + q];
#pragma unroll
                for (int n = 0; n < 4; n++)
#pragma unroll
                    for (int e = 0; e < 2; e++)
                        fb[n][e] = b_tile[n0 + n * 8 + row][l + e * 4 + q];
#pragma unroll
                for (int m = 0; m < 2; m++)
#pragma unroll
                    for (int n = 0; n < 4; n++) mma_sync(sum[m][n], fa[m], fb[n]);
            }
            __syncthreads();
        }
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < 4; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int64_t i = i0 + m0 + m * 16 + e / 2 * 8 + row;
                    const int64_t j = j0 + n0 + n * 8 + q * 2 + e % 2;
                    if (i < p.part.rows && j < g.n)
                        ((float *)
                             p.out)[of.out + (p.part.row + i) * g.out_row + j * g.out_col] =
                            sum[m][n][e];
                }
    }
}

static gop_status matmul_tensor(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const matmul_product<float> p = matmul_product_of<float>(task, matmul_part_of(task, step));
    const int64_t tiles_m = (p.part.rows + SIDE - 1) / SIDE;
    const int64_t tiles = p.part.batches * tiles_m * ((p.g.n + SIDE - 1) / SIDE);
    return GOP_LAUNCH(ctx, matmul_tensor_kernel, (unsigned)blocks_for(tiles, 1), TENSOR_THREADS,
                      0, p);
}

static gop_status matmul_tensor_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    if (gop_is_for_gpu(ctx))
        GOP_TRY(
            gop_has_code(ctx, "matmul: kernel 'tensor'", 8, "whose tensor cores take float32"));
    plan->precision = GOP_TF32;
    matmul_plan_steps(ctx, task, 1, plan);
    return GOP_OK;
}

extern const gop_row matmul_tensor_row = {
    .name = "tensor",
    .note = "tensor cores: an instruction of a warp multiplies 16 x 8 by 8 x 8, values in "
            "fragments over its lanes",
    .role = GOP_TEACHING,
    .caveat = "factors are rounded to 11 bits (TF32)",
    .launch = {nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
               nullptr, nullptr, matmul_tensor},
    .plan = matmul_tensor_plan,
};
