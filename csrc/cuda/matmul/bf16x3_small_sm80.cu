/*
 * bf16x3_small_sm80.cu - matmul of float32 by tensor cores in one launch: small products.
 *
 * bf16x3_packed (bf16x3_packed_sm90.cu) spends launches and memory on packing, which does not
 * pay for small products. Here asynchronous copies bring float32 tiles as they lie in memory,
 * and a thread splits its fragments into three bfloat16 in registers. Four warps share an
 * output's sum. A block notices numbers that three bfloat16 cannot hold
 * in its own tiles and results. Then it computes its outputs again, term by term.
 */
#include "cuda/matmul/copied.h"
#include "cuda/matmul/tiling.h"

enum { BF16X3_SMALL_STAGES = 3, BF16X3_SMALL_TERMS = 64 };

/* What a plan decides. */
struct bf16x3_small_cut {
    matmul_cut steps; /* first: matmul_plan_steps fills it */
    int64_t split, chunk;
    int a_along, b_along, wide;
};

#if GOP_SM80

#include "cuda/common/mma.h"
#include "cuda/matmul/bf16x3_parts.h"

/* Four warps share the sums of a block: each has a part of a stage's terms. */
enum { BF16X3_SMALL_WARPS = 4, BF16X3_SMALL_OWN = BF16X3_SMALL_TERMS / BF16X3_SMALL_WARPS };

template <bool ALONG, int VECTOR> using bf16x3_small_copied =
    copied_tile<float, BF16X3_SMALL_TILE, BF16X3_SMALL_TERMS, ALONG, VECTOR,
                32 * BF16X3_SMALL_WARPS, 4, 8>;

/* Splits x and y into factors. Lowers `least` to the smallest 2 |x| - 1, as bits; a zero wraps
 * to the largest. */
GOP_DEVICE void split_pair(float x, float y, uint32_t (&piece)[3], uint32_t &least)
{
    least = min(least, 2 * gop_float_to_bits(x) - 1);
    least = min(least, 2 * gop_float_to_bits(y) - 1);
    split_two(x, y, piece[0], piece[1], piece[2]);
}

/* Computes a block's outputs anew, term by term. */
GOP_DEVICE void bf16x3_small_anew(const matmul_product<float> &p,
                                  const matmul_tile<float> &tile, int threads)
{
    const matmul_geometry &g = p.g;
    const int terms = (int)tile.terms;
    float *const out = (float *)p.out + tile.out;
    for (int at = threadIdx.x; at < tile.rows * tile.columns; at += threads) {
        const int i = at / tile.columns, j = at % tile.columns;
        const float *x = tile.a + i * g.a_row, *y = tile.b + j * g.b_col;
        float total = 0;
        for (int l = 0; l < terms; l++, x += g.a_col, y += g.b_row) total = fmaf(*x, *y, total);
        out[i * g.out_row + j * g.out_col] = total;
    }
}

/* The first warp's sums += those of the others, in order. */
GOP_DEVICE void bf16x3_small_meet(float (&sum)[2][4][4], float *meet, int warp)
{
    __syncthreads();
    if (warp > 0)
#pragma unroll
        for (int k = 0; k < 32; k++)
            meet[((warp - 1) * 32 + k) * 32] = sum[k / 16][k / 4 % 4][k % 4];
    __syncthreads();
    if (warp == 0)
        for (int other = 0; other < BF16X3_SMALL_WARPS - 1; other++)
#pragma unroll
            for (int k = 0; k < 32; k++)
                sum[k / 16][k / 4 % 4][k % 4] += meet[(other * 32 + k) * 32];
}

/* A lane's factors of 16 terms: q, q + 4, q + 8, q + 12 of its rows at a, its columns at b. */
template <typename of_a, typename of_b>
GOP_DEVICE void bf16x3_small_fragments(uint32_t (&fa)[2][4][3], uint32_t (&fb)[4][2][3],
                                       const float *a, const float *b, uint32_t &least)
{
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float *const from =
                a + (m * 16 + e % 2 * 8) * of_a::LINE + e / 2 * 8 * of_a::TERM;
            split_pair(from[0], from[4 * of_a::TERM], fa[m][e], least);
        }
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float *const from = b + n * 8 * of_b::LINE + e * 8 * of_b::TERM;
            split_pair(from[0], from[4 * of_b::TERM], fb[n][e], least);
        }
}

/* few += 16 terms: six products of parts, small ones first. */
GOP_DEVICE void bf16x3_small_multiply(float (&few)[2][4][4], const uint32_t (&fa)[2][4][3],
                                      const uint32_t (&fb)[4][2][3])
{
#pragma unroll
    for (int product = 0; product < 6; product++) {
        const int x = 0x021010 >> (20 - 4 * product) & 3;
        const int y = 0x201100 >> (20 - 4 * product) & 3;
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const uint32_t of_x[4] = {fa[m][0][x], fa[m][1][x], fa[m][2][x], fa[m][3][x]};
                const uint32_t of_y[2] = {fb[n][0][y], fb[n][1][y]};
                mma_sync(few[m][n], of_x, of_y, bfloat16());
            }
    }
}

template <bool A_ALONG, bool B_ALONG, int VECTOR>
__global__ void __launch_bounds__(32 * BF16X3_SMALL_WARPS, 16 / BF16X3_SMALL_WARPS)
    matmul_bf16x3_small_kernel(const matmul_product<float> p)
{
    typedef bf16x3_small_copied<A_ALONG, VECTOR> of_a;
    typedef bf16x3_small_copied<B_ALONG, VECTOR> of_b;
    enum { TILE = BF16X3_SMALL_TILE, TERMS = BF16X3_SMALL_TERMS, OWN = BF16X3_SMALL_OWN };
    extern __shared__ __align__(16) float stages[];
    float *const a_stages = stages, *const b_stages = stages + BF16X3_SMALL_STAGES * of_a::SIZE;
    const matmul_geometry &g = p.g;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, q = lane % 4;
    const matmul_tile<float> tile = matmul_tile_of<TILE, TILE, 0>(p);

    /* Prologue: fill the ring. */
    stage_copier<of_a, of_b> copies = {{tile.a, p.a, a_stages, g.a_row, g.a_col, tile.rows},
                                       {tile.b, p.b, b_stages, g.b_col, g.b_row, tile.columns},
                                       (int)tile.terms};
    const int steps = ((int)tile.terms + TERMS - 1) / TERMS;
    for (int s = 0; s < BF16X3_SMALL_STAGES - 1; s++) copies.fetch(s);

    /* Main loop: wait for a stage, fetch another, split and multiply. */
    const int own = warp * OWN + q;
    const float *const a_lane = a_stages + row * of_a::LINE + own * of_a::TERM;
    const float *const b_lane = b_stages + row * of_b::LINE + own * of_b::TERM;
    float sum[2][4][4] = {};
    uint32_t least = 0xffffffffu;
    for (int step = 0, stage = 0; step < steps; step++) {
        cp_async_wait_group<BF16X3_SMALL_STAGES - 2>();
        __syncthreads();
        copies.fetch(stage == 0 ? BF16X3_SMALL_STAGES - 1 : stage - 1);
#pragma unroll
        for (int l = 0; l < OWN; l += 16) {
            uint32_t fa[2][4][3], fb[4][2][3];
            bf16x3_small_fragments<of_a, of_b>(
                fa, fb, a_lane + stage * of_a::SIZE + l * of_a::TERM,
                b_lane + stage * of_b::SIZE + l * of_b::TERM, least);
            float few[2][4][4] = {}; /* tensor cores cut sums short: 16 terms at most */
            bf16x3_small_multiply(few, fa, fb);
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int n = 0; n < 4; n++)
#pragma unroll
                    for (int e = 0; e < 4; e++) sum[m][n][e] += few[m][n][e];
        }
        stage = stage == BF16X3_SMALL_STAGES - 1 ? 0 : stage + 1;
    }

    /* Epilogue: add the warps' sums, then store them or compute the tile anew. */
    bf16x3_small_meet(sum, stages + lane, warp);
    bool beyond = least < 2 * gop_float_to_bits(IMAGE_SMALLEST) - 1;
    if (warp == 0) {
#pragma unroll
        for (int k = 0; k < 32; k++)
            beyond |= !(fabsf(sum[k / 16][k / 4 % 4][k % 4]) <= IMAGE_LARGEST);
    }
    if (__syncthreads_or(beyond)) {
        bf16x3_small_anew(p, tile, 32 * BF16X3_SMALL_WARPS);
    } else if (warp == 0) {
        matmul_store_fragments(p, tile, sum, 0, 0);
    }
}

template <int VECTOR, bool A_ALONG, bool B_ALONG>
static gop_status bf16x3_small_enqueue(gop_ctx *ctx, const matmul_product<float> &p)
{
    const size_t floats =
        bf16x3_small_copied<A_ALONG, VECTOR>::SIZE + bf16x3_small_copied<B_ALONG, VECTOR>::SIZE;
    return GOP_LAUNCH_FOLLOWED(
        ctx, p.part.split > 1, (matmul_bf16x3_small_kernel<A_ALONG, B_ALONG, VECTOR>),
        (matmul_tile_count<BF16X3_SMALL_TILE, BF16X3_SMALL_TILE>(p)), 32 * BF16X3_SMALL_WARPS,
        BF16X3_SMALL_STAGES * floats * sizeof(float), p);
}

static gop_status matmul_bf16x3_small(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    typedef gop_status (*enqueue)(gop_ctx *, const matmul_product<float> &);
    static const enqueue kernels[2][2][2] = {MATMUL_BY_ORDER(bf16x3_small_enqueue, 1),
                                             MATMUL_BY_ORDER(bf16x3_small_enqueue, 4)};
    const bf16x3_small_cut &cut = *GOP_OWN(const bf16x3_small_cut, task->plan);
    const enqueue multiply = kernels[cut.wide][cut.a_along][cut.b_along];
    const matmul_product<float> p = matmul_product_of<float>(task, matmul_part_of(task, step));
    return matmul_multiply_chunks(
        ctx, task, p, cut.split, cut.chunk,
        [&](const matmul_product<float> &of) { return multiply(ctx, of); });
}
#endif

static gop_status matmul_bf16x3_small_plan(const gop_ctx *ctx, const gop_task *task,
                                           gop_plan *plan)
{
    enum { SHARED = BF16X3_SMALL_STAGES * 2 * 64 * (32 + 8) * 4 };
    GOP_TRY(gop_has_code(ctx, "matmul: kernel 'bf16x3_small'", 8,
                         "whose tensor cores take bfloat16"));
    const gop_gemm &g = task->geometry.gemm;
    GOP_TRY(matmul_takes_sums(g, "bf16x3_small"));
    GOP_TRY(matmul_has_shared(ctx, "bf16x3_small", SHARED));
    if (of_itself(task->call))
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'bf16x3_small' does not take an array and its own "
                        "transpose, whose product is symmetric");
    matmul_plan_steps(ctx, task, 1, plan);
    bf16x3_small_cut *const cut = GOP_OWN(bf16x3_small_cut, plan);
    const tiling_of of = tiling_of_task(ctx, task);
    const matmul_tiling t = bf16x3_small_tiling(of);
    cut->split = t.split, cut->chunk = t.chunk;
    if (plan->steps > 1) cut->split = 1, cut->chunk = blocks_for(g.k, 64) * 64;
    plan->scratch = cut->split > 1 ? (size_t)(cut->split * g.batches * g.m * g.n) * 4 : 0;
    cut->a_along = of.a_along, cut->b_along = of.b_along;
    cut->wide = t.wide;
    plan->launch = GOP_NATIVE_LAUNCH(matmul_bf16x3_small);
    return GOP_OK;
}

extern const gop_row matmul_bf16x3_small_row = {
    .name = "bf16x3_small",
    .note = "pieces in one launch: tiles stay float32 until a thread splits its fragments in "
            "registers, and nothing is packed before",
    .role = GOP_CONFORMING,
    .plan = matmul_bf16x3_small_plan,
    GOP_NATIVE_DTYPES(1u << GOP_FLOAT32),
    .before = "fused",
};
