/*
 * dmma_sm80.cu - matmul of float64 by the tensor cores.
 *
 * They multiply float64 twice as fast as the arithmetic units, and with one rounding a term as
 * these. Tiles travel to shared memory by copies that nobody waits for, several tiles ahead; an
 * operand stands there as it lies in memory, so either order is read in whole lines. Complex
 * products are real ones (dmma.h).
 */
#include "cuda/common/mma.h"
#include "cuda/matmul/copied.h"
#include "cuda/matmul/dmma.h"

/* What a plan decides. */
struct dmma_cut {
    matmul_cut steps; /* first: matmul_plan_steps fills it */
    int64_t split, chunk;
    int a_along, b_along, wide;
    dmma_pairs pairs; /* behind the pieces */
};

enum { DOUBLES_M = 128, DOUBLES_N = 128, DOUBLES_K = 16, DOUBLES_STAGES = 4 };
enum { DOUBLES_PAD = 4 };

#if GOP_SM80

enum { DOUBLES_THREADS = 256, WARP_M = 64, WARP_N = 32, RASTER = 8 };
enum { M_TILES = WARP_M / 16, N_TILES = WARP_N / 8 };

template <bool ALONG, int LINES, int VECTOR> using dmma_tile =
    copied_tile<double, LINES, DOUBLES_K, ALONG, VECTOR, DOUBLES_THREADS, DOUBLES_PAD,
                DOUBLES_PAD>;

template <bool A_ALONG, bool B_ALONG, int VECTOR>
__global__ void __launch_bounds__(DOUBLES_THREADS, 1)
    matmul_dmma_kernel(const matmul_product<double> p)
{
    typedef dmma_tile<A_ALONG, DOUBLES_M, VECTOR> of_a;
    typedef dmma_tile<B_ALONG, DOUBLES_N, VECTOR> of_b;
    extern __shared__ __align__(16) double stages[];
    double *const a_stages = stages, *const b_stages = stages + DOUBLES_STAGES * of_a::SIZE;
    const matmul_geometry &g = p.g;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, q = lane % 4;

    /* which tile of which product, and which piece of its sum */
    const unsigned tiles_m = (unsigned)((p.part.rows + DOUBLES_M - 1) / DOUBLES_M);
    const unsigned tiles_n = (unsigned)((g.n + DOUBLES_N - 1) / DOUBLES_N);
    const unsigned group = RASTER * tiles_n, product = blockIdx.x / (tiles_m * tiles_n);
    const unsigned tile = blockIdx.x % (tiles_m * tiles_n), top = tile / group * RASTER;
    const unsigned height = tiles_m - top < RASTER ? tiles_m - top : RASTER;
    const int64_t i0 = (int64_t)(top + tile % group % height) * DOUBLES_M;
    const int64_t j0 = (int64_t)(tile % group / height) * DOUBLES_N;
    const int64_t piece = product % (unsigned)p.part.split, l0 = piece * p.part.chunk;
    const matmul_offsets of = matmul_batch(g, p.part.batch + product / (unsigned)p.part.split);

    tile_copier<of_a> a(p.a + of.a + (p.part.row + i0) * g.a_row + l0 * g.a_col, a_stages,
                        g.a_row, g.a_col, p.part.rows - i0);
    tile_copier<of_b> b(p.b + of.b + j0 * g.b_col + l0 * g.b_row, b_stages, g.b_col, g.b_row,
                        g.n - j0);
    int left = (int)(g.k - l0 < p.part.chunk ? g.k - l0 : p.part.chunk);
    const int steps = (left + DOUBLES_K - 1) / DOUBLES_K;
    const auto fetch = [&](int stage) {
        if (left > 0) {
            a.fetch(stage, left);
            b.fetch(stage, left);
            left -= DOUBLES_K;
        }
        cp_async_commit_group();
    };
    for (int s = 0; s < DOUBLES_STAGES - 1; s++) fetch(s);

    const int m0 = warp % (DOUBLES_M / WARP_M) * WARP_M,
              n0 = warp / (DOUBLES_M / WARP_M) * WARP_N;
    const double *const a_lane = a_stages + (m0 + row) * of_a::LINE + q * of_a::TERM;
    const double *const b_lane = b_stages + (n0 + row) * of_b::LINE + q * of_b::TERM;
    double fa[2][M_TILES][4], fb[2][N_TILES][2]; /* what is multiplied, and what comes next */
    const auto load_fragments = [&](int stage, int to, int l) {
        const double *const a_now = a_lane + stage * of_a::SIZE;
        const double *const b_now = b_lane + stage * of_b::SIZE;
#pragma unroll
        for (int m = 0; m < M_TILES; m++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                fa[to][m][e] =
                    a_now[(m * 16 + e % 2 * 8) * of_a::LINE + (l + e / 2 * 4) * of_a::TERM];
#pragma unroll
        for (int n = 0; n < N_TILES; n++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                fb[to][n][e] = b_now[n * 8 * of_b::LINE + (l + e * 4) * of_b::TERM];
    };
    double sum[M_TILES][N_TILES][4] = {};
    cp_async_wait_group<DOUBLES_STAGES - 2>();
    __syncthreads();
    load_fragments(0, 0, 0);
    int stage = 0;
    for (int step = 0; step < steps; step++) {
        const int next = stage == DOUBLES_STAGES - 1 ? 0 : stage + 1;
        fetch(stage == 0 ? DOUBLES_STAGES - 1 : stage - 1);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            if (half == 0) {
                load_fragments(stage, 1, 8);
            } else {
                cp_async_wait_group<DOUBLES_STAGES - 2>();
                __syncthreads();
                if (step + 1 < steps) load_fragments(next, 0, 0);
            }
#pragma unroll
            for (int m = 0; m < M_TILES; m++)
#pragma unroll
                for (int n = 0; n < N_TILES; n++) mma_sync(sum[m][n], fa[half][m], fb[half][n]);
        }
        stage = next;
    }

    double *const out = (double *)p.out + of.out + piece * p.part.split_stride;
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int n = 0; n < N_TILES; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int64_t i = i0 + m0 + m * 16 + row + e / 2 * 8;
                const int64_t j = j0 + n0 + n * 8 + q * 2 + e % 2;
                if (i < p.part.rows && j < g.n)
                    out[(p.part.row + i) * g.out_row + j * g.out_col] = sum[m][n][e];
            }
}

template <bool A_ALONG, bool B_ALONG, int VECTOR>
static gop_status dmma_enqueue(gop_ctx *ctx, const matmul_product<double> &p)
{
    const int64_t tiles_m = (p.part.rows + DOUBLES_M - 1) / DOUBLES_M;
    const int64_t tiles = tiles_m * ((p.g.n + DOUBLES_N - 1) / DOUBLES_N);
    const size_t doubles = dmma_tile<A_ALONG, DOUBLES_M, VECTOR>::SIZE +
                           dmma_tile<B_ALONG, DOUBLES_N, VECTOR>::SIZE;
    return GOP_LAUNCH(ctx, (matmul_dmma_kernel<A_ALONG, B_ALONG, VECTOR>),
                      (unsigned)(tiles * p.part.batches * p.part.split), DOUBLES_THREADS,
                      DOUBLES_STAGES * doubles * sizeof(double), p);
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
    p.part.chunk = cut.chunk;
    p.part.split = cut.split;
    p.part.split_stride = p.g.batches * p.g.m * p.g.n;
    if (cut.split == 1) return dmma_multiply(ctx, p, cut);
    GOP_TRY(dmma_multiply(ctx, matmul_partials_of(p, task->scratch), cut));
    return matmul_add_partials(ctx, p, task->scratch);
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
    enum { SHORTEST = 256 }; /* terms of a piece */
    GOP_TRY(gop_has_code(ctx, "matmul: kernel 'dmma'", 8, "whose tensor cores take float64"));
    const int64_t shared =
        DOUBLES_STAGES * (DOUBLES_M + DOUBLES_N) * (DOUBLES_K + DOUBLES_PAD) * sizeof(double);
    if (ctx->info.shared_per_block < shared)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'dmma' needs %lld bytes of shared memory, this "
                        "device has %lld for a block",
                        (long long)shared, (long long)ctx->info.shared_per_block);
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
    const int64_t tiles = blocks_for(g.m, DOUBLES_M) * blocks_for(g.n, DOUBLES_N) * g.batches;
    const int64_t wanted = ctx->info.processors / (tiles > 0 ? tiles : 1),
                  most = g.k / SHORTEST;
    cut->split = wanted < most ? wanted : most;
    if (cut->split < 2 || plan->steps > 1) cut->split = 1;
    cut->chunk = ((g.k + cut->split - 1) / cut->split + DOUBLES_K - 1) / DOUBLES_K * DOUBLES_K;
    cut->split = (g.k + cut->chunk - 1) / cut->chunk;
    const int64_t a_far = g.a_row < 0 ? -g.a_row : g.a_row;
    const int64_t b_far = g.b_col < 0 ? -g.b_col : g.b_col;
    cut->a_along = (g.a_col < 0 ? -g.a_col : g.a_col) <= a_far || g.m == 1;
    cut->b_along = (g.b_row < 0 ? -g.b_row : g.b_row) <= b_far && g.n > 1;
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
    const int64_t pieces = cut->split > 1 ? cut->split * g.batches * g.m * g.n * 8 : 0;
    plan->scratch = dmma_plan_pairs(task, (size_t)pieces, &cut->pairs);
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
