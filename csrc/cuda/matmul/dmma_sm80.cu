/*
 * dmma_sm80.cu - matmul of float64 by the tensor cores.
 *
 * They multiply float64 twice as fast as the arithmetic units, and with one rounding a term as
 * these. Tiles travel to shared memory by asynchronous copies, several stages ahead, and an SM
 * has several blocks where tiles are small: while one waits or stores, others multiply. Lines
 * may be unaligned and lie either way, since 8 bytes are copied at a time where 16 cannot be.
 * In shared memory a line's terms are neighbours, in an order in which copies of either order
 * and the lanes of a fragment meet all banks. Where tiles are few, the blocks of a cluster
 * share an output's sum and read each other's part from shared memory, or pieces of the sums
 * are added by a second kernel (dmma_schedule.cu). Complex products are real ones (dmma.h).
 */
#include "cuda/common/mma.h"
#include "cuda/common/cluster.h"
#include "cuda/common/cp_async.h"
#include "cuda/matmul/dmma.h"
#include "cuda/matmul/tiling.h"

/* What a plan decides. */
struct dmma_cut {
    matmul_cut steps; /* first: matmul_plan_steps fills it */
    dmma_schedule schedule;
    dmma_pairs pairs; /* behind the partial sums */
};

enum { DMMA_STAGES = 4, DMMA_SHARED = DMMA_STAGES * 160 * DMMA_LINE }; /* of the largest tile */

#if GOP_SM80

/* A block's tile, cut into those of its warps; a stage has DMMA_K terms of both operands. */
template <int TILE_M, int TILE_N, int WARP_M, int WARP_N, int HELD> struct dmma_shape {
    enum { M = TILE_M, N = TILE_N, WM = WARP_M, WN = WARP_N, BLOCKS = HELD };
    enum { WARPS_M = M / WM, THREADS = WARPS_M * (N / WN) * 32 };
    enum { STAGES = DMMA_STAGES, STAGE = (M + N) * DMMA_LINE };
};

/* What the kernel is told: besides, whether it stores two neighbours at once. */
struct dmma_way {
    int a_mode, b_mode, pairs, cluster;
    int64_t part;
};

/* What a term's place in its line, in bytes, is changed by: lanes that copy or read 16 numbers
 * at once meet all banks. Where chunks of 16 bytes are copied, their halves stay in order. */
GOP_DEVICE uint32_t dmma_swizzle(int line, int mode)
{
    const uint32_t chunk = (uint32_t)(line % 4 * 2 + line / 4 % 2) * 16;
    return chunk + (mode == DMMA_WIDE ? 0 : line / 8 % 2 * 8);
}

/* What a thread copies of an operand's LINES lines, in one of three ways (dmma_mode). Across
 * lines as many threads lie side by side as lines allow: WIDTH, a power of two. */
template <int LINES, int THREADS> struct dmma_copier {
    enum { WIDTH = LINES & -LINES, GROUPS = LINES / WIDTH };
    enum { EACH = LINES * DMMA_K / THREADS, ACROSS_STEP = THREADS / WIDTH };
    enum { ALONG_STEP = THREADS / DMMA_K, WIDE_STEP = THREADS * 2 / DMMA_K };
    const double *from;
    uint32_t to;
    int term, lines; /* its first term; lines that exist from its first on */

    GOP_DEVICE dmma_copier(const double *first, uint32_t stage, int64_t line_stride,
                           int64_t term_stride, int exist, int mode)
    {
        const int t = threadIdx.x;
        const int line = mode == DMMA_ACROSS ? t % WIDTH : mode == DMMA_ALONG ? t / 16 : t / 8;
        term = mode == DMMA_ACROSS ? t / WIDTH : mode == DMMA_ALONG ? t % 16 : t % 8 * 2;
        lines = exist - line;
        from = first + line * line_stride + term * term_stride;
        to = stage + line * DMMA_LINE + ((term * 8) ^ dmma_swizzle(line, mode));
    }
    /* Copies one of SLICES parts of a stage, of which `left` terms exist. */
    template <int SLICES> GOP_DEVICE void fetch(int slice, uint32_t stage, int left,
                                                int64_t line_stride, int64_t term_stride,
                                                int mode)
    {
        const int terms = left - term;
        const uint32_t place = to + stage;
        if (mode == DMMA_ACROSS) {
#pragma unroll
            for (int e = slice; e < EACH; e += SLICES) {
                const int l = e / GROUPS * ACROSS_STEP, line = e % GROUPS * WIDTH;
                const bool exists = lines > line && terms > l;
                const double *const at = from + l * term_stride + line * line_stride;
                cp_async<8>((place + line * DMMA_LINE) ^ (l * 8), at, exists);
            }
        } else if (mode == DMMA_ALONG) {
#pragma unroll
            for (int e = slice; e < EACH; e += SLICES) {
                const int line = e * ALONG_STEP;
                const bool exists = lines > line && terms > 0;
                cp_async<8>((place + line * DMMA_LINE) ^ (line / 8 % 2 * 8 + line / 4 % 2 * 16),
                            from + line * line_stride, exists);
            }
        } else {
#pragma unroll
            for (int e = slice; e < EACH / 2; e += SLICES) {
                const int line = e * WIDE_STEP;
                const bool exists = lines > line && terms > 0;
                cp_async<16>(place + line * DMMA_LINE, from + line * line_stride, exists);
            }
        }
        if (slice == SLICES - 1) from += DMMA_K * term_stride;
    }
};

/* A warp's fragments of eight terms; a lane's first values of the stage are at `from`, and
 * terms of every other eight lines are changed by `odd`. */
GOP_DEVICE double dmma_load(const uint8_t *ring, uint32_t from, uint32_t odd, int terms,
                            int line)
{
    const uint32_t to = from ^ (line / 8 % 2 ? odd : 0) ^ (terms * 8);
    return *(const double *)(ring + to + line * DMMA_LINE);
}
GOP_DEVICE void dmma_load_a(double (&f)[4], const uint8_t *ring, uint32_t from, uint32_t odd,
                            int half, int m)
{
#pragma unroll
    for (int e = 0; e < 4; e++)
        f[e] = dmma_load(ring, from, odd, half * 8 + e / 2 * 4, m * 16 + e % 2 * 8);
}
GOP_DEVICE void dmma_load_b(double (&f)[2], const uint8_t *ring, uint32_t from, uint32_t odd,
                            int half, int n)
{
#pragma unroll
    for (int e = 0; e < 2; e++) f[e] = dmma_load(ring, from, odd, half * 8 + e * 4, n * 8);
}

/* The sum of what the blocks of a cluster have at `at`, in their order. */
GOP_DEVICE double2 dmma_add_parts(const double2 *at, int blocks)
{
    double2 all = *map_shared_rank(at, 0);
#pragma unroll 2
    for (int rank = 1; rank < blocks; rank++) {
        const double2 more = *map_shared_rank(at, rank);
        all = make_double2(all.x + more.x, all.y + more.y);
    }
    return all;
}

/* Stores a warp's sums in rows of which some begin between two groups of 16 bytes: lanes of
 * such a row take what is one column later, so that all store two neighbours at once. */
template <int M_TILES, int N_TILES>
GOP_DEVICE void dmma_store_odd(double *out, const double (&sum)[M_TILES][N_TILES][4],
                               int64_t row, int rows, int columns)
{
    const int lane = threadIdx.x % 32, q = lane % 4;
#pragma unroll
    for (int m = 0; m < M_TILES * 2; m++) {
        double *const to = out + m * 8 * row;
        const bool exists = m * 8 < rows, odd = (uintptr_t)to / 8 % 2;
        if (exists && odd && q == 0 && columns > 0) to[0] = sum[m / 2][0][m % 2 * 2];
#pragma unroll
        for (int n = 0; n < N_TILES; n++) {
            const double *const two = sum[m / 2][n] + m % 2 * 2;
            const double *const after = sum[m / 2][n + 1 < N_TILES ? n + 1 : n] + m % 2 * 2;
            const double next =
                __shfl_sync(0xffffffffu, q == 0 ? after[0] : two[0], lane - q + (q + 1) % 4);
            const int left = columns - n * 8 - odd; /* from the first that is stored on */
            const bool last = odd && q == 3 && n + 1 == N_TILES;
            if (!exists || left <= 0) continue;
            double *const at = to + n * 8 + odd;
            const double first = odd ? two[1] : two[0], second = odd ? next : two[1];
            if (left > 1 && !last) *(double2 *)at = make_double2(first, second);
            else at[0] = first;
        }
    }
}

/* Stores a warp's sums, two neighbours at once where they are `pairs`. The blocks of a cluster
 * have parts of the sums: each adds those of some outputs first, in their order. */
template <int THREADS, int M_TILES, int N_TILES>
GOP_DEVICE void dmma_store(const matmul_product<double> &p, const matmul_tile<double> &tile,
                           const double (&sum)[M_TILES][N_TILES][4], int m0, int n0,
                           const dmma_way &way, double2 *meet)
{
    const int lane = threadIdx.x % 32, i0 = m0 + lane / 4, j0 = n0 + lane % 4 * 2;
    const int64_t row = p.g.out_row, column = p.g.out_col;
    double *const out = (double *)p.out + tile.out + i0 * row + j0 * column;
    const auto put = [&](int m, int n, double2 two) {
        const int left = tile.columns - j0 - n * 8;
        if (i0 + m * 8 >= tile.rows || left <= 0) return;
        double *const to = out + m * 8 * row + n * 8 * column;
        if (way.pairs && left > 1) {
            *(double2 *)to = two;
        } else {
            to[0] = two.x;
            if (left > 1) to[column] = two.y;
        }
    };
    const auto each = [&](auto does) {
#pragma unroll
        for (int m = 0; m < M_TILES * 2; m++)
#pragma unroll
            for (int n = 0; n < N_TILES; n++) {
                const double *const two = sum[m / 2][n] + m % 2 * 2;
                does(m, n, make_double2(two[0], two[1]));
            }
    };
    if (way.cluster == 1 && (way.pairs || column != 1)) {
        each(put);
        return;
    }
    if (way.cluster == 1) {
        dmma_store_odd(out, sum, row, tile.rows - i0, tile.columns - j0);
        return;
    }
    meet += threadIdx.x;
    cp_async_wait_group<0>();
    __syncthreads(); /* the ring has been read */
    each([&](int m, int n, double2 two) { meet[(m * N_TILES + n) * THREADS] = two; });
    cluster_sync();
    for (int at = cluster_rank(); at < M_TILES * 2 * N_TILES; at += way.cluster)
        put(at / N_TILES, at % N_TILES, dmma_add_parts(meet + at * THREADS, way.cluster));
    cluster_sync(); /* another block may still read from this one */
}

/* The tile of a block; of a cluster's blocks each has a part of the sums. */
template <int M, int N> GOP_DEVICE matmul_tile<double>
dmma_tile_of(const matmul_product<double> &p, const dmma_way &way)
{
    matmul_tile<double> tile = matmul_tile_of<M, N, RASTER>(p, blockIdx.x / way.cluster);
    if (way.cluster == 1) return tile;
    const int64_t first = (int64_t)cluster_rank() * way.part;
    tile.a += first * p.g.a_col, tile.b += first * p.g.b_row;
    tile.terms = tile.terms - first < way.part ? tile.terms - first : way.part;
    return tile;
}

/* Adds eight terms to a row of fragments. */
template <int TILES> GOP_DEVICE void
dmma_multiply(double (&sum)[TILES][4], const double (&a)[4], const double (&b)[TILES][2])
{
#pragma unroll
    for (int n = 0; n < TILES; n++) mma_sync(sum[n], a, b[n]);
}

template <typename shape> __global__ void __launch_bounds__(shape::THREADS, shape::BLOCKS)
    matmul_dmma_kernel(const matmul_product<double> p, const dmma_way way)
{
    enum { M = shape::M, N = shape::N, STAGES = shape::STAGES, STAGE = shape::STAGE };
    enum { M_TILES = shape::WM / 16, N_TILES = shape::WN / 8 };
    extern __shared__ __align__(128) uint8_t ring[]; /* of stages: a's lines, then b's */
    const matmul_geometry &g = p.g;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4;
    const matmul_tile<double> tile = dmma_tile_of<M, N>(p, way);

    /* Prologue: copies run STAGES - 1 stages ahead. */
    dmma_copier<M, shape::THREADS> a(tile.a, address_in_shared(ring), g.a_row, g.a_col,
                                     tile.rows, way.a_mode);
    dmma_copier<N, shape::THREADS> b(tile.b, address_in_shared(ring + M * DMMA_LINE), g.b_col,
                                     g.b_row, tile.columns, way.b_mode);
    int left = (int)tile.terms;
    const int steps = (left + DMMA_K - 1) / DMMA_K, eights = (left + 7) / 8;
    /* One of M_TILES parts of a stage's copies. */
    const auto fetch = [&](int slice, int stage) {
        if (left > 0) {
            a.template fetch<M_TILES>(slice, stage * STAGE, left, g.a_row, g.a_col, way.a_mode);
            b.template fetch<M_TILES>(slice, stage * STAGE, left, g.b_col, g.b_row, way.b_mode);
        }
        if (slice < M_TILES - 1) return;
        left -= DMMA_K;
        cp_async_commit_group();
    };
#pragma unroll 1
    for (int s = 0; s < STAGES - 1; s++)
#pragma unroll
        for (int m = 0; m < M_TILES; m++) fetch(m, s);

    /* Main loop: while eight terms are multiplied, the next eight are loaded to registers. */
    const int m0 = warp % shape::WARPS_M * shape::WM, n0 = warp / shape::WARPS_M * shape::WN;
    const uint32_t first = row * DMMA_LINE + ((lane % 4 * 8) ^ dmma_swizzle(row, DMMA_WIDE));
    const uint32_t a_odd = way.a_mode == DMMA_WIDE ? 0 : 8,
                   b_odd = way.b_mode == DMMA_WIDE ? 0 : 8;
    const uint32_t a_lane = m0 * DMMA_LINE + first,
                   b_lane = (M + n0) * DMMA_LINE + (first ^ (n0 / 8 % 2 ? b_odd : 0));
    double fa[M_TILES][4], fb[2][N_TILES][2]; /* of b what comes next, too */
    double sum[M_TILES][N_TILES][4] = {};
    const auto load_a = [&](int m, int stage, int half) {
        dmma_load_a(fa[m], ring, a_lane + stage * STAGE, a_odd, half, m);
    };
    /* One of M_TILES parts of b's. */
    const auto load_b = [&](int m, int stage, int half) {
#pragma unroll
        for (int n = m; n < N_TILES; n += M_TILES)
            dmma_load_b(fb[half][n], ring, b_lane + stage * STAGE, b_odd, half, n);
    };
    cp_async_wait_group<STAGES - 2>();
    __syncthreads();
#pragma unroll
    for (int m = 0; m < M_TILES; m++) load_a(m, 0, 0), load_b(m, 0, 0);
    int stage = 0;
    for (int step = 0; step < steps; step++) {
        const int next = stage == STAGES - 1 ? 0 : stage + 1;
#pragma unroll
        for (int m = 0; m < M_TILES; m++) {
            dmma_multiply(sum[m], fa[m], fb[0]);
            load_b(m, stage, 1);
            if (m > 0) load_a(m - 1, stage, 1);
            fetch(m, stage == 0 ? STAGES - 1 : stage - 1);
        }
        load_a(M_TILES - 1, stage, 1);
        cp_async_wait_group<STAGES - 2>();
        __syncthreads();
        const bool is_whole = step * 2 + 1 < eights, goes_on = step + 1 < steps;
#pragma unroll
        for (int m = 0; m < M_TILES; m++) {
            if (is_whole) dmma_multiply(sum[m], fa[m], fb[1]);
            if (!goes_on) continue;
            load_b(m, next, 0);
            if (m > 0) load_a(m - 1, next, 0);
        }
        if (goes_on) load_a(M_TILES - 1, next, 0);
        stage = next;
    }
    dmma_store<shape::THREADS>(p, tile, sum, m0, n0, way, (double2 *)ring);
}

/* Whether two neighbours of a row of the result may be stored at once. */
static bool dmma_stores_pairs(const matmul_product<double> &p)
{
    bool pairs = p.g.out_col == 1 && p.g.out_row % 2 == 0 && p.part.split_stride % 2 == 0 &&
                 (uintptr_t)p.out % 16 == 0;
    for (int axis = 0; axis < p.g.batch_rank; axis++) pairs &= p.g.out[axis] % 2 == 0;
    return pairs;
}

template <typename shape> static gop_status dmma_enqueue(gop_ctx *ctx, const dmma_schedule &of,
                                                         const matmul_product<double> &p)
{
    const dmma_way way = {of.a_mode, of.b_mode, dmma_stores_pairs(p), of.cluster, of.part};
    const int64_t stages = blocks_for(of.part, DMMA_K), all = shape::M * shape::N * 8;
    int64_t shared = (stages < shape::STAGES ? stages : shape::STAGES) * shape::STAGE;
    if (of.cluster > 1 && shared < all) shared = all;
    const unsigned tiles = matmul_tile_count<shape::M, shape::N>(p);
    const gop_cuda_grid grid(tiles * of.cluster, of.cluster > 1 ? of.cluster : 0);
    return GOP_LAUNCH_FOLLOWED(ctx, p.part.split > 1, matmul_dmma_kernel<shape>, grid,
                               shape::THREADS, (size_t)shared, p, way);
}

static gop_status dmma_multiply(gop_ctx *ctx, const matmul_product<double> &p,
                                const dmma_schedule &of)
{
    typedef gop_status (*enqueue)(gop_ctx *, const dmma_schedule &,
                                  const matmul_product<double> &);
#define ENQUEUE(M, N, WARP_M, WARP_N, HELD, SLOWER)                                            \
    dmma_enqueue<dmma_shape<M, N, WARP_M, WARP_N, HELD>>,
    static const enqueue kernels[] = {DMMA_WAYS(ENQUEUE)};
#undef ENQUEUE
    return kernels[of.way](ctx, of, p);
}

static gop_status matmul_dmma(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const dmma_cut &cut = *GOP_OWN(const dmma_cut, task->plan);
    matmul_product<double> p;
    GOP_TRY(dmma_product(ctx, task, step, matmul_part_of(task, step), cut.pairs, &p));
    return matmul_multiply_chunks(
        ctx, task, p, cut.schedule.split, cut.schedule.chunk,
        [&](const matmul_product<double> &of) { return dmma_multiply(ctx, of, cut.schedule); });
}
#endif

static gop_status matmul_dmma_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    GOP_TRY(gop_has_code(ctx, "matmul: kernel 'dmma'", 8, "whose tensor cores take float64"));
    GOP_TRY(matmul_has_shared(ctx, "dmma", DMMA_SHARED));
    const gop_gemm &of = task->geometry.gemm;
    dmma_cut *const cut = GOP_OWN(dmma_cut, plan);
    *cut = {};
    GOP_TRY(matmul_takes_sums(of, "dmma"));
    if (task->in[0].dtype == GOP_COMPLEX128 && of.n > 1 && of.out_col != 1)
        return gop_fail(GOP_REFUSED, "matmul: kernel 'dmma' takes complex numbers whose "
                                     "results lie side by side in a row");
    if (task->in[0].dtype == GOP_COMPLEX128) GOP_TRY(matmul_takes_batch(of, "dmma"));
    matmul_plan_steps(ctx, task, 1, plan, 32);
    dmma_choose(ctx, task, plan->steps > 1, &cut->schedule);
    dmma_plan_pairs(task, 0, &cut->pairs);
    const gop_gemm g = dmma_geometry(task, cut->pairs);
    const int64_t split = cut->schedule.split;
    const int64_t partials = split > 1 ? split * g.batches * g.m * g.n * 8 : 0;
    plan->scratch = dmma_plan_pairs(task, (size_t)partials, &cut->pairs);
    plan->launch = GOP_NATIVE_LAUNCH(matmul_dmma);
    return GOP_OK;
}

extern const gop_row matmul_dmma_row = {
    .name = "dmma",
    .note = "tensor cores multiply float64 twice as fast as the arithmetic units; tiles of "
            "several sizes arrive several steps ahead, fragments one",
    .role = GOP_CONFORMING,
    .plan = matmul_dmma_plan,
    GOP_NATIVE_DTYPES(1u << GOP_FLOAT64 | 1u << GOP_COMPLEX128),
    .before = "doubles",
};
