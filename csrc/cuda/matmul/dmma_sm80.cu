/*
 * dmma_sm80.cu - matmul of float64 by the tensor cores.
 *
 * They multiply float64 twice as fast as the arithmetic units, and with one rounding a term as
 * these. Tiles travel to shared memory by asynchronous copies, several tiles ahead; an operand
 * stands there as it lies in memory, so either order is read in whole lines. Complex products
 * are real ones (dmma.h).
 */
#include "cuda/common/mma.h"
#include "cuda/matmul/tiling.h"
#include "cuda/matmul/copied.h"
#include "cuda/matmul/dmma.h"
#include "cuda/matmul/tiles.h"

/* What a plan decides. */
struct dmma_cut {
    matmul_cut steps; /* first: matmul_plan_steps fills it */
    int64_t split, chunk;
    int a_along, b_along, wide;
    dmma_pairs pairs; /* behind the partial sums */
};

enum { DMMA_M = 128, DMMA_N = 128, DMMA_K = 16, DMMA_STAGES = 4 };
enum { DMMA_PAD = 4 };

#if GOP_SM80

enum { DMMA_THREADS = 256, WARP_M = 64, WARP_N = 32 };
enum { M_TILES = WARP_M / 16, N_TILES = WARP_N / 8 };

template <bool ALONG, int LINES, int VECTOR> using dmma_tile =
    copied_tile<double, LINES, DMMA_K, ALONG, VECTOR, DMMA_THREADS, DMMA_PAD, DMMA_PAD>;

/* A warp's fragments of eight terms, a lane's first values of which are at a and b. */
template <typename of_a, typename of_b>
GOP_DEVICE void dmma_fragments(double (&fa)[M_TILES][4], double (&fb)[N_TILES][2],
                               const double *a, const double *b)
{
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            fa[m][e] = a[(m * 16 + e % 2 * 8) * of_a::LINE + e / 2 * 4 * of_a::TERM];
#pragma unroll
    for (int n = 0; n < N_TILES; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) fb[n][e] = b[n * 8 * of_b::LINE + e * 4 * of_b::TERM];
}

template <bool A_ALONG, bool B_ALONG, int VECTOR>
__global__ void __launch_bounds__(DMMA_THREADS, 1)
    matmul_dmma_kernel(const matmul_product<double> p)
{
    typedef dmma_tile<A_ALONG, DMMA_M, VECTOR> of_a;
    typedef dmma_tile<B_ALONG, DMMA_N, VECTOR> of_b;
    extern __shared__ __align__(16) double stages[];
    double *const a_stages = stages, *const b_stages = stages + DMMA_STAGES * of_a::SIZE;
    const matmul_geometry &g = p.g;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, q = lane % 4;
    const matmul_tile<double> tile = matmul_tile_of<DMMA_M, DMMA_N, RASTER>(p);

    /* Prologue: copies run DMMA_STAGES - 1 stages ahead. */
    stage_copier<of_a, of_b> copies = {{tile.a, p.a, a_stages, g.a_row, g.a_col, tile.rows},
                                       {tile.b, p.b, b_stages, g.b_col, g.b_row, tile.columns},
                                       (int)tile.terms};
    const int steps = ((int)tile.terms + DMMA_K - 1) / DMMA_K;
    for (int s = 0; s < DMMA_STAGES - 1; s++) copies.fetch(s);

    /* Main loop: half a stage is loaded to registers while the other is multiplied. */
    const int m0 = warp % (DMMA_M / WARP_M) * WARP_M, n0 = warp / (DMMA_M / WARP_M) * WARP_N;
    const double *const a_lane = a_stages + (m0 + row) * of_a::LINE + q * of_a::TERM;
    const double *const b_lane = b_stages + (n0 + row) * of_b::LINE + q * of_b::TERM;
    double fa[2][M_TILES][4], fb[2][N_TILES][2]; /* what is multiplied, and what comes next */
    const auto load_fragments = [&](int stage, int half) {
        dmma_fragments<of_a, of_b>(fa[half], fb[half],
                                   a_lane + stage * of_a::SIZE + half * 8 * of_a::TERM,
                                   b_lane + stage * of_b::SIZE + half * 8 * of_b::TERM);
    };
    double sum[M_TILES][N_TILES][4] = {};
    cp_async_wait_group<DMMA_STAGES - 2>();
    __syncthreads();
    load_fragments(0, 0);
    int stage = 0;
    for (int step = 0; step < steps; step++) {
        const int next = stage == DMMA_STAGES - 1 ? 0 : stage + 1;
        copies.fetch(stage == 0 ? DMMA_STAGES - 1 : stage - 1);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            if (half == 0) {
                load_fragments(stage, 1);
            } else {
                cp_async_wait_group<DMMA_STAGES - 2>();
                __syncthreads();
                if (step + 1 < steps) load_fragments(next, 0);
            }
            mma_sync_each(sum, fa[half], fb[half]);
        }
        stage = next;
    }

    matmul_store_fragments(p, tile, sum, m0, n0);
}

template <bool A_ALONG, bool B_ALONG, int VECTOR>
static gop_status dmma_enqueue(gop_ctx *ctx, const matmul_product<double> &p)
{
    const size_t doubles =
        dmma_tile<A_ALONG, DMMA_M, VECTOR>::SIZE + dmma_tile<B_ALONG, DMMA_N, VECTOR>::SIZE;
    return GOP_LAUNCH(ctx, (matmul_dmma_kernel<A_ALONG, B_ALONG, VECTOR>),
                      (matmul_tile_count<DMMA_M, DMMA_N>(p)), DMMA_THREADS,
                      DMMA_STAGES * doubles * sizeof(double), p);
}

static gop_status dmma_multiply(gop_ctx *ctx, const matmul_product<double> &p,
                                const dmma_cut &cut)
{
    typedef gop_status (*enqueue)(gop_ctx *, const matmul_product<double> &);
    static const enqueue kernels[2][2][2] = {
        {{dmma_enqueue<false, false, 1>, dmma_enqueue<false, false, 2>},
         {dmma_enqueue<false, true, 1>, dmma_enqueue<false, true, 2>}},
        {{dmma_enqueue<true, false, 1>, dmma_enqueue<true, false, 2>},
         {dmma_enqueue<true, true, 1>, dmma_enqueue<true, true, 2>}}};
    return kernels[cut.a_along][cut.b_along][cut.wide](ctx, p);
}

static gop_status matmul_dmma(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const dmma_cut &cut = *GOP_OWN(const dmma_cut, task->plan);
    matmul_product<double> p;
    GOP_TRY(dmma_product(ctx, task, step, matmul_part_of(task, step), cut.pairs, &p));
    return matmul_multiply_chunks(
        ctx, task, p, cut.split, cut.chunk,
        [&](const matmul_product<double> &of) { return dmma_multiply(ctx, of, cut); });
}
#define LAUNCHES                                                                               \
    {                                                                                          \
        nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,       \
            nullptr, nullptr, nullptr, matmul_dmma, nullptr, matmul_dmma                       \
    }
#else
#define LAUNCHES                                                                               \
    {                                                                                          \
    }
#endif

static gop_status matmul_dmma_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    enum { SHORTEST = 256 }; /* terms of a chunk */
    GOP_TRY(gop_has_code(ctx, "matmul: kernel 'dmma'", 8, "whose tensor cores take float64"));
    const int64_t shared =
        DMMA_STAGES * (DMMA_M + DMMA_N) * (DMMA_K + DMMA_PAD) * sizeof(double);
    GOP_TRY(matmul_has_shared(ctx, "dmma", shared));
    const gop_gemm &of = task->geometry.gemm;
    dmma_cut *const cut = GOP_OWN(dmma_cut, plan);
    *cut = {};
    if (of.k == 0 || of.k > INT32_MAX / 4)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'dmma' takes sums of 1 to %d terms, got %lld",
                        INT32_MAX / 4, (long long)of.k);
    if (task->in[0].dtype == GOP_COMPLEX128 && of.n > 1 && of.out_col != 1)
        return gop_fail(GOP_REFUSED, "matmul: kernel 'dmma' takes complex numbers whose "
                                     "results lie side by side in a row");
    if (task->in[0].dtype == GOP_COMPLEX128) GOP_TRY(matmul_takes_batch(of, "dmma"));
    matmul_plan_steps(ctx, task, 1, plan);
    dmma_plan_pairs(task, 0, &cut->pairs);
    const gop_gemm g = dmma_geometry(task, cut->pairs);
    const int64_t tiles = blocks_for(g.m, DMMA_M) * blocks_for(g.n, DMMA_N) * g.batches;
    const int64_t wanted = ctx->info.processors / (tiles > 0 ? tiles : 1),
                  most = g.k / SHORTEST;
    cut->split = wanted < most ? wanted : most;
    if (cut->split < 2 || plan->steps > 1) cut->split = 1;
    cut->chunk = ((g.k + cut->split - 1) / cut->split + DMMA_K - 1) / DMMA_K * DMMA_K;
    cut->split = (g.k + cut->chunk - 1) / cut->chunk;
    cut->a_along = gop_magnitude(g.a_col) <= gop_magnitude(g.a_row) || g.m == 1;
    cut->b_along = gop_magnitude(g.b_row) <= gop_magnitude(g.b_col) && g.n > 1;
    const int64_t a_near = cut->a_along ? g.a_col : g.a_row,
                  b_near = cut->b_along ? g.b_row : g.b_col;
    const int64_t a_line = cut->a_along ? g.a_row : g.a_col,
                  b_line = cut->b_along ? g.b_col : g.b_row;
    int wide = a_near == 1 && b_near == 1 && a_line % 2 == 0 && b_line % 2 == 0 &&
               g.k % 2 == 0 && (cut->a_along || g.m % 2 == 0) && (cut->b_along || g.n % 2 == 0);
    for (int axis = 0; axis < g.batch_rank; axis++)
        wide &= g.a[axis] % 2 == 0 && g.b[axis] % 2 == 0;
    for (int i = 0; i < 2; i++) wide &= (uintptr_t)task->in[i].data % 16 == 0;
    cut->wide = wide;
    const int64_t partials = cut->split > 1 ? cut->split * g.batches * g.m * g.n * 8 : 0;
    plan->scratch = dmma_plan_pairs(task, (size_t)partials, &cut->pairs);
    return GOP_OK;
}

extern const gop_row matmul_dmma_row = {
    .name = "dmma",
    .note = "tensor cores multiply float64 twice as fast as the arithmetic units; tiles arrive "
            "several steps ahead, fragments one",
    .role = GOP_CONFORMING,
    .launch = LAUNCHES,
    .plan = matmul_dmma_plan,
    .imagined = 1u << GOP_FLOAT64 | 1u << GOP_COMPLEX128,
    .before = "doubles",
};
