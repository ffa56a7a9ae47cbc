/*
 * dmma_tma_sm90.cu - matmul of float64 by the tensor cores, operands by tensor maps.
 *
 * In dmma (dmma_sm80.cu) all warps copy, and they wait for each other every 16 terms. Here TMA
 * fetches tiles into a ring in shared memory, and a warp goes on as soon as its own stage has
 * come: while one waits or stores, the other warp of its scheduler multiplies. Large products:
 * blocks are persistent and take tile after tile. If the last wave would leave SMs idle, its
 * sums are split along k, and a second kernel adds the parts. Where tiles are few, the blocks
 * of a cluster share an output's sum, and two groups of a block's warps where tiles are small;
 * they read each other's part from shared memory.
 */
#include "cuda/common/cluster.h"
#include "cuda/common/mma.h"
#include "cuda/common/pipeline.h"
#include "cuda/common/tile_scheduler.h"
#include "cuda/common/tma.h"
#include "cuda/common/wgmma.h"
#include "cuda/matmul/dmma.h"
#include "cuda/matmul/straight.h"

enum { DMMA_TMA_TERMS = 16 };  /* of a stage: 128 bytes */
enum { DMMA_TMA_SLICES = 64 }; /* parts of a sum, at most */

/* The warps of a group multiply a stage; two groups take stages by turns. */
template <int TILE> struct dmma_tma_shape {
    enum { WARP_M = TILE / 2, WARP_N = 32, GROUPS = 128 / TILE };
    enum { M_TILES = WARP_M / 16, N_TILES = WARP_N / 8, BYTES = 2 * TILE * 128 };
    enum { STAGES = TILE == 128 ? 6 : 12, SHARED = STAGES * (BYTES + 16) + 1024 };
};

struct dmma_tma_job : tile_schedule {
    int first, last;      /* items of this step */
    int a_batch, b_batch; /* whether the operand differs from product to product */
    int pairs;            /* whether two neighbours of out are stored at once */
    double *parts;        /* of sums that were cut, a tile each */
};

struct dmma_tma_work {
    gop_cuda_tensor_map a, b;
    straight_product<double> p;
    dmma_tma_job job;
};

struct dmma_tma_plan {
    dmma_pairs pairs;
    straight_operand a, b;
    dmma_tma_job job;
    int chunk; /* items of a step */
    int tile, cluster;
};

#if GOP_SM90

/* An operand's tile: lines of 16 terms, or, 16 lines at a time, terms of 16 lines; either way
 * swizzled rows of 128 bytes. Eight lines make a fragment, in an order in which lanes that read
 * at once meet all banks. */
template <int TILE, bool ALONG> struct dmma_tma_tile {
    enum { BOXES = ALONG ? 1 : TILE / 16 };
    /* Where row r of fragment f lies. */
    static GOP_DEVICE int line(int f, int r)
    {
        if (ALONG) return f * 8 + r % 4 * 2 + r / 4;
        return f / 2 * 16 + f % 2 * 4 + r % 2 + r / 2 % 2 * 8 + r / 4 * 2;
    }
    /* The byte offset of the lane's row and term in fragment 0. */
    static GOP_DEVICE uint32_t base(int lane)
    {
        const int r = lane / 4, q = lane % 4;
        if (ALONG) return line(0, r) * 128 + (q / 2 ^ line(0, r)) * 16 + q % 2 * 8;
        return q * 128 + (line(0, r) / 2 ^ q) * 16 + r % 2 * 8;
    }
    /* The same of fragment f, four * 4 terms on. */
    static GOP_DEVICE const double *at(const uint8_t *tile, uint32_t base, int f, int four)
    {
        const uint32_t to =
            ALONG ? (base ^ four * 32) + f * 1024
                  : (base ^ f % 2 * 32 ^ four % 2 * 64) + f / 2 * 2048 + four * 512;
        return (const double *)(tile + to);
    }
};

/* Issues the TMA loads of a tile: each of four warps every fourth box of it. */
template <int TILE, bool ALONG>
GOP_DEVICE void dmma_tma_fetch(uint8_t *tile, const gop_cuda_tensor_map *map, int warp,
                               int line, int l, int batch, uint64_t *full)
{
    enum { BOXES = dmma_tma_tile<TILE, ALONG>::BOXES };
#pragma unroll
    for (int e = 0; e < (BOXES + 3) / 4; e++) {
        const int box = e * 4 + warp;
        if (box >= BOXES) break;
        const int from = line + box * 16;
        tma_load(tile + box * 2048, map, ALONG ? l : from, ALONG ? from : l, batch, full, 1);
    }
}

/* One thread of each of four warps. */
template <int TILE, int CLUSTER, bool A_ALONG, bool B_ALONG> GOP_DEVICE void
dmma_tma_feed(const dmma_tma_work &w, uint8_t *ring, uint64_t *full, uint64_t *empty, int rank)
{
    typedef dmma_tma_shape<TILE> shape;
    const dmma_tma_job &job = w.job;
    const int warp = threadIdx.x / 32;
    int s = 0;
    uint32_t phase = 1; /* at first all slots are free */
    for (int i = job.first + blockIdx.x / CLUSTER; i < job.last; i += gridDim.x / CLUSTER) {
        const tile_item at = tile_item_of<TILE, TILE, CLUSTER>(job, i, rank);
        for (int stage = at.first; stage < at.last; stage++) {
            uint8_t *const tiles = ring + s * shape::BYTES;
            const int l = stage * DMMA_TMA_TERMS;
            mbarrier_wait(empty + s, phase);
            if (warp == 0) mbarrier_arrive_expect_tx(full + s, shape::BYTES);
            dmma_tma_fetch<TILE, A_ALONG>(tiles, &w.a, warp, at.i0, l,
                                          job.a_batch ? at.batch : 0, full + s);
            dmma_tma_fetch<TILE, B_ALONG>(tiles + shape::BYTES / 2, &w.b, warp ^ 1, at.j0, l,
                                          job.b_batch ? at.batch : 0, full + s);
            pipeline_advance<shape::STAGES>(s, phase);
        }
    }
}

/* Where a tile's sums go: into out, or as one of the parts that are added later. */
struct dmma_tma_target {
    double *to;
    int64_t row, column;
    int rows, columns;
    bool pairs;
};
template <int TILE>
GOP_DEVICE dmma_tma_target dmma_tma_target_of(const dmma_tma_work &w, const tile_item &at)
{
    if (at.part >= 0)
        return {w.job.parts + (int64_t)at.part * TILE * TILE, TILE, 1, TILE, TILE, true};
    const straight_product<double> &p = w.p;
    double *const to = p.out + at.batch * p.out_batch + at.i0 * p.out_row + at.j0 * p.out_col;
    const int64_t rows = p.m - at.i0, columns = p.n - at.j0;
    return {to,
            p.out_row,
            p.out_col,
            (int)(rows < TILE ? rows : TILE),
            (int)(columns < TILE ? columns : TILE),
            w.job.pairs != 0};
}

/* Sums of row r and columns c and d, which may be neighbours. */
template <bool NEIGHBOURS>
GOP_DEVICE void dmma_tma_put(const dmma_tma_target &t, int r, int c, int d, const double2 &sums)
{
    if (r >= t.rows) return;
    double *const to = t.to + r * t.row;
    if (NEIGHBOURS && t.pairs && d < t.columns) {
        *(double2 *)(to + c) = sums;
        return;
    }
    if (c < t.columns) to[c * t.column] = sums.x;
    if (d < t.columns) to[d * t.column] = sums.y;
}

/* The sum of the parts that groups of warps, and blocks of a cluster, have at `at`, in order.
 */
template <int GROUPS, int CLUSTER> GOP_DEVICE double2 dmma_tma_add_parts(double2 *meet, int at)
{
    double2 all = {};
#pragma unroll
    for (int part = 0; part < GROUPS * CLUSTER; part++) {
        const double2 *const one = meet + part % GROUPS * (CONSUMERS / GROUPS);
        const double2 *const there = CLUSTER > 1 ? map_shared_rank(one, part / GROUPS) : one;
        const double2 more = there[at];
        all = part ? make_double2(all.x + more.x, all.y + more.y) : more;
    }
    return all;
}

/* A warp's fragments of half a stage. */
template <typename of_a, typename of_b, int M_TILES, int N_TILES>
GOP_DEVICE void dmma_tma_fragments(double (&fa)[M_TILES][4], double (&fb)[N_TILES][2],
                                   const uint8_t *tiles, uint32_t a_lane, uint32_t b_lane,
                                   int half)
{
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            fa[m][e] = *of_a::at(tiles, a_lane, m * 2 + e % 2, half * 2 + e / 2);
#pragma unroll
    for (int n = 0; n < N_TILES; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) fb[n][e] = *of_b::at(tiles, b_lane, n, half * 2 + e);
}

/* Epilogue: store the sums, or add those of all groups and blocks first. */
template <int TILE, int CLUSTER, bool A_ALONG, bool B_ALONG, int M_TILES, int N_TILES>
GOP_DEVICE void dmma_tma_epilogue(const dmma_tma_work &w, const tile_item &at,
                                  const double (&sum)[M_TILES][N_TILES][4], uint8_t *ring,
                                  int m0, int n0, int t, int group, int rank)
{
    typedef dmma_tma_tile<TILE, A_ALONG> of_a;
    typedef dmma_tma_tile<TILE, B_ALONG> of_b;
    enum { GROUPS = dmma_tma_shape<TILE>::GROUPS, PARTS = GROUPS * CLUSTER };
    enum { CHUNKS = M_TILES * N_TILES * 2 };
    const int lane = t % 32, warp = t / 32 % (8 / GROUPS);
    const dmma_tma_target to = dmma_tma_target_of<TILE>(w, at);
    const auto two = [&](int v) {
        const double *const from = sum[v / (2 * N_TILES)][v / 2 % N_TILES] + v % 2 * 2;
        return make_double2(from[0], from[1]);
    };
    const auto put = [&](int v, double2 sums) {
        const int m = v / (2 * N_TILES), n = v / 2 % N_TILES;
        dmma_tma_put<!B_ALONG>(to, m0 + of_a::line(m * 2 + v % 2, lane / 4),
                               n0 + of_b::line(n, lane % 4 * 2),
                               n0 + of_b::line(n, lane % 4 * 2 + 1), sums);
    };
    if (PARTS == 1) {
#pragma unroll
        for (int v = 0; v < CHUNKS; v++) put(v, two(v));
        return;
    }
    /* Each thread adds all parts, in order, of its share of the outputs. */
    double2 *const meet = (double2 *)ring;
    any_of<CONSUMERS>(false); /* the ring has been read */
#pragma unroll
    for (int v = 0; v < CHUNKS; v++) meet[v * CONSUMERS + t] = two(v);
    if (CLUSTER > 1) cluster_sync();
    else any_of<CONSUMERS>(false);
#pragma unroll
    for (int v = 0; v < CHUNKS; v++) {
        if (v % PARTS != rank * GROUPS + group) continue;
        const double2 all =
            dmma_tma_add_parts<GROUPS, CLUSTER>(meet + warp * 32 + lane, v * CONSUMERS);
        put(v, all);
    }
    if (CLUSTER > 1) cluster_sync(); /* another block may still read from this one */
}

template <int TILE, int CLUSTER, bool A_ALONG, bool B_ALONG>
__global__ void GOP_CLUSTERS __launch_bounds__(BLOCK_THREADS, 1)
    matmul_dmma_tma_kernel(const __grid_constant__ dmma_tma_work w)
{
#if GOP_WGMMA
    typedef dmma_tma_shape<TILE> shape;
    typedef dmma_tma_tile<TILE, A_ALONG> of_a;
    typedef dmma_tma_tile<TILE, B_ALONG> of_b;
    enum { STAGES = shape::STAGES, GROUPS = shape::GROUPS };
    enum { M_TILES = shape::M_TILES, N_TILES = shape::N_TILES };
    /* Shared memory: the ring of stages and its barriers. */
    extern __shared__ uint8_t memory[];
    uint8_t *const ring = memory + (-shared_address(memory) & 1023);
    uint64_t *const full = (uint64_t *)(ring + STAGES * shape::BYTES);
    uint64_t *const empty = full + STAGES;
    const int rank = CLUSTER > 1 ? cluster_rank() : 0;
    if (threadIdx.x == 0) {
        pipeline_init<STAGES>(full, 1, empty, CONSUMERS / 32 / GROUPS);
        fence_proxy_async();
    }
    launch_dependents();
    __syncthreads();
    grid_dependency_sync();

    /* Producer: one thread of each warp issues TMA loads. */
    if (threadIdx.x < PRODUCERS) {
        setmaxnreg_dec<24>();
        if (threadIdx.x % 32 == 0)
            dmma_tma_feed<TILE, CLUSTER, A_ALONG, B_ALONG>(w, ring, full, empty, rank);
        if (CLUSTER > 1) {
            __syncwarp();
            cluster_sync();
            cluster_sync();
        }
        return;
    }

    /* Consumers: each warp waits for its own stage and multiplies. */
    setmaxnreg_inc<240>();
    const dmma_tma_job &job = w.job;
    const int t = threadIdx.x - PRODUCERS, lane = t % 32;
    const int warp = t / 32 % (8 / GROUPS);
    const int group = GROUPS > 1 ? __shfl_sync(~0u, t / 128, 0) : 0;
    const int m0 = warp % 2 * shape::WARP_M, n0 = warp / 2 * shape::WARP_N;
    const uint32_t a_lane = of_a::base(lane) + m0 * 128;
    const uint32_t b_lane = of_b::base(lane) + n0 * 128 + shape::BYTES / 2;
    double fa[2][M_TILES][4], fb[2][N_TILES][2]; /* what is multiplied, and what comes next */
    const auto load_fragments = [&](int stage, int half) {
        dmma_tma_fragments<of_a, of_b>(fa[half], fb[half], ring + stage * shape::BYTES, a_lane,
                                       b_lane, half);
    };
    int s = group;
    uint32_t phase = 0;
    for (int i = job.first + blockIdx.x / CLUSTER; i < job.last; i += gridDim.x / CLUSTER) {
        const tile_item at = tile_item_of<TILE, TILE, CLUSTER>(job, i, rank);
        double sum[M_TILES][N_TILES][4] = {};
        if (at.first + group < at.last) {
            mbarrier_wait(full + s, phase);
            load_fragments(s, 0);
        }
        for (int stage = at.first + group; stage < at.last; stage += GROUPS) {
            const int here = s;
            if ((s += GROUPS) >= STAGES) s -= STAGES, phase ^= 1;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                if (half == 0) load_fragments(here, 1);
                else if (stage + GROUPS < at.last) {
                    mbarrier_wait(full + s, phase);
                    load_fragments(s, 0);
                }
                mma_sync_each(sum, fa[half], fb[half]);
            }
            __syncwarp(); /* all lanes have read */
            if (lane == 0) mbarrier_arrive(empty + here);
        }
        dmma_tma_epilogue<TILE, CLUSTER, A_ALONG, B_ALONG>(w, at, sum, ring, m0, n0, t, group,
                                                           rank);
    }
#endif
}

/* Adds the parts of the sums that were cut, in their order: a block some rows of a tile. */
enum { DMMA_TMA_ROWS = 8 };
template <int TILE> __global__ void __launch_bounds__(TILE)
    matmul_dmma_tma_parts_kernel(const __grid_constant__ dmma_tma_work w)
{
    const dmma_tma_job &job = w.job;
    grid_dependency_sync();
    const int rest = job.tiles - job.whole, blocks = TILE / DMMA_TMA_ROWS;
    const int cut = blockIdx.x / blocks, top = blockIdx.x % blocks * DMMA_TMA_ROWS;
    const double *const from = job.parts + ((int64_t)cut * TILE + top) * TILE + threadIdx.x;
    double sum[DMMA_TMA_ROWS];
#pragma unroll
    for (int r = 0; r < DMMA_TMA_ROWS; r++) sum[r] = from[r * TILE];
#pragma unroll 4
    for (int slice = 1; slice < job.slices; slice++)
#pragma unroll
        for (int r = 0; r < DMMA_TMA_ROWS; r++)
            sum[r] += from[((int64_t)slice * rest * TILE + r) * TILE];
    tile_item at = tile_item_of<TILE, TILE>(job, job.whole + cut);
    at.part = -1;
    const dmma_tma_target to = dmma_tma_target_of<TILE>(w, at);
#pragma unroll
    for (int r = 0; r < DMMA_TMA_ROWS; r++)
        if (top + r < to.rows && (int)threadIdx.x < to.columns)
            to.to[(top + r) * to.row + threadIdx.x * to.column] = sum[r];
}

template <int TILE> static gop_status dmma_tma_add_parts(gop_ctx *ctx, const dmma_tma_work &w)
{
    return GOP_LAUNCH_EARLY(ctx, matmul_dmma_tma_parts_kernel<TILE>,
                            (unsigned)((w.job.tiles - w.job.whole) * (TILE / DMMA_TMA_ROWS)),
                            TILE, 0, w);
}

template <int TILE, int CLUSTER, bool A_ALONG, bool B_ALONG>
static gop_status dmma_tma_enqueue(gop_ctx *ctx, const dmma_tma_work &w)
{
    typedef dmma_tma_shape<TILE> shape;
    const int items = w.job.last - w.job.first;
    const int most = CLUSTER * shape::GROUPS > 1 ? items : ctx->info.processors;
    return GOP_LAUNCH_EARLY(ctx, (matmul_dmma_tma_kernel<TILE, CLUSTER, A_ALONG, B_ALONG>),
                            gop_cuda_grid((items < most ? items : most) * CLUSTER, CLUSTER),
                            BLOCK_THREADS, shape::SHARED, w);
}

static gop_status matmul_dmma_tma(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    typedef gop_status (*enqueue)(gop_ctx *, const dmma_tma_work &);
#define OF(TILE, C)                                                                            \
    {                                                                                          \
        {dmma_tma_enqueue<TILE, C, 0, 0>, dmma_tma_enqueue<TILE, C, 0, 1>},                    \
        {                                                                                      \
            dmma_tma_enqueue<TILE, C, 1, 0>, dmma_tma_enqueue<TILE, C, 1, 1>                   \
        }                                                                                      \
    }
    static const enqueue kernels[2][3][2][2] = {{OF(64, 1), OF(64, 2), OF(64, 4)},
                                                {OF(128, 1), OF(128, 2)}};
#undef OF
    const dmma_tma_plan &plan = *GOP_OWN(const dmma_tma_plan, task->plan);
    const gop_gemm &of = task->geometry.gemm;
    const matmul_part whole = {0, of.batches, 0, of.m, 1, of.k, 0};
    matmul_product<double> p;
    GOP_TRY(dmma_product(ctx, task, step, whole, plan.pairs, &p));
    dmma_tma_work w = {};
    w.p = straight_product_of(p);
    w.job = plan.job;
    dmma_tma_job &job = w.job;
    job.first = (int)step * plan.chunk;
    job.last = job.items - job.first < plan.chunk ? job.items : job.first + plan.chunk;
    job.parts = (double *)task->scratch;
    GOP_TRY(straight_map(&w.a, plan.a, w.p.a, plan.a.transposed ? 16 : plan.tile));
    GOP_TRY(straight_map(&w.b, plan.b, w.p.b, plan.b.transposed ? 16 : plan.tile));
    GOP_TRY(kernels[plan.tile / 128][plan.cluster / 2][!plan.a.transposed][!plan.b.transposed](
        ctx, w));
    if (job.slices == 1 || job.last < job.items) return GOP_OK;
    return plan.tile == 64 ? dmma_tma_add_parts<64>(ctx, w) : dmma_tma_add_parts<128>(ctx, w);
}

#else
static const gop_launch matmul_dmma_tma = nullptr;
#endif

/* The time of a plan, in clocks, as measured on an H200. */
static double dmma_tma_time(const gop_ctx *ctx, const dmma_tma_plan &plan)
{
    /* Clocks of a stage, of a tile beside its stages, and of adding a cluster's parts. */
    enum { LARGE = 2080, SMALL = 516, AROUND = 5900, MEETING = 3200 };
    /* Adding parts of sums: the launch, a part of each sum, and one for each SM. */
    enum { ADDING = 7000, SLICE = 150, PART = 6000 };
    const dmma_tma_job &job = plan.job;
    const int64_t processors = ctx->info.processors > 1 ? ctx->info.processors : 2;
    const bool small = plan.tile == 64;
    const int64_t each = small ? SMALL : LARGE, parts = job.items - job.whole;
    const int64_t around = AROUND + (plan.cluster > 1 ? MEETING * (small ? 1 : 2) : 0);
    const int64_t computing = tile_waves(job, plan.cluster, processors, each, around);
    const int64_t adding =
        ADDING + job.slices * SLICE + parts * PART / (small ? 4 : 1) / processors;
    return (double)(computing + (parts ? adding : 0));
}

/* Chooses the fastest tile and cut of sums. */
static void dmma_tma_cut(const gop_ctx *ctx, const gop_gemm &g, dmma_tma_plan *best)
{
    enum { SHORTEST = 4 }; /* stages of a part */
    const int64_t stages = blocks_for(g.k, DMMA_TMA_TERMS);
    const int processors = ctx->info.processors > 1 ? ctx->info.processors : 2;
    double least = 0;
    for (int tile = 64; tile <= 128; tile *= 2)
        for (int cluster = 1; cluster <= (tile == 64 ? 4 : 2); cluster *= 2)
            for (int slices = 1; slices <= DMMA_TMA_SLICES; slices++) {
                dmma_tma_plan plan = *best;
                dmma_tma_job &job = plan.job;
                if (cluster * slices > 1 && stages < SHORTEST * cluster * slices) break;
                plan.tile = tile, plan.cluster = cluster;
                (tile_schedule &)job =
                    tile_schedule_of(blocks_for(g.m, tile), blocks_for(g.n, tile), g.batches, 8,
                                     stages, processors, slices);
                if (slices > 1 && (cluster > 1 || job.whole == job.tiles)) break;
                const double time = dmma_tma_time(ctx, plan);
                if (least == 0 || time < least) least = time, *best = plan;
            }
}

static gop_status matmul_dmma_tma_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const char *const who = "matmul: kernel 'dmma_tma'";
    GOP_TRY(gop_has_sm90(ctx, who, "whose Tensor Memory Accelerator fetches tiles"));
    const gop_gemm &of = task->geometry.gemm;
    GOP_TRY(matmul_takes_batch(of, "dmma_tma"));
    const int64_t most = INT64_C(1) << 28;
    if (of.k == 0 || of.m > most || of.n > most || of.k > most || of.batches > most)
        return gop_fail(GOP_REFUSED,
                        "%s takes sums of a term or more and extents up to %lld, got %lld of "
                        "(%lld, %lld) outputs of %lld terms",
                        who, (long long)most, (long long)of.batches, (long long)of.m,
                        (long long)of.n, (long long)of.k);
    if (of_itself(task->call))
        return gop_fail(GOP_REFUSED,
                        "%s takes arrays that are not each other's transpose, whose product is "
                        "symmetric",
                        who);
    if (task->in[0].dtype == GOP_COMPLEX128 && of.n > 1 && of.out_col != 1)
        return gop_fail(GOP_REFUSED,
                        "%s takes complex numbers whose results lie side by side in a row",
                        who);
    dmma_tma_plan *const p = GOP_OWN(dmma_tma_plan, plan);
    *p = {};
    dmma_plan_pairs(task, 0, &p->pairs);
    const gop_gemm g = dmma_geometry(task, p->pairs);
    const void *const aligned = (const void *)(uintptr_t)256; /* as copies in scratch are */
    const bool is_complex = p->pairs.complex_kind;
    p->a = straight_operand_of(g, g.a, p->pairs.a_copied ? aligned : task->in[0].data, g.m,
                               g.a_row, g.a_col, 8);
    p->b = straight_operand_of(g, g.b, is_complex ? aligned : task->in[1].data, g.n, g.b_col,
                               g.b_row, 8);
    const int64_t apart = uniform_batch(g, g.out);
    if (p->a.copied || p->b.copied || apart < 0)
        return gop_fail(GOP_REFUSED,
                        "%s takes operands whose rows or columns are contiguous and begin at "
                        "multiples of 16 bytes, products of a batch at equal distances",
                        who);
    dmma_tma_job &job = p->job;
    const double tiles = (double)blocks_for(g.m, 64) * (double)blocks_for(g.n, 64);
    if (tiles * (double)g.batches > 1e9)
        return gop_fail(GOP_REFUSED, "%s takes up to 10^9 tiles of 64 x 64 outputs, got %g",
                        who, tiles * (double)g.batches);
    job.a_batch = p->a.batches > 1, job.b_batch = p->b.batches > 1;
    job.pairs = g.out_col == 1 && g.out_row % 2 == 0 && apart % 2 == 0 &&
                (uintptr_t)task->out[0].data % 16 == 0;
    dmma_tma_cut(ctx, g, p);
    enum { STEP = 20000 }; /* stages of a step, some 20 ms */
    const int64_t waves = 1 + STEP / job.stages;
    const int64_t chunk = waves * ctx->info.processors;
    p->chunk = chunk < job.items ? (int)chunk : job.items > 0 ? job.items : 1;
    plan->steps = blocks_for(job.items, p->chunk);
    const size_t parts = (size_t)(job.items - job.whole) * p->tile * p->tile * 8;
    plan->scratch = dmma_plan_pairs(task, parts, &p->pairs);
    plan->launch = matmul_dmma_tma;
    return GOP_OK;
}

#define DTYPES (1u << GOP_FLOAT64 | 1u << GOP_COMPLEX128)
extern const gop_row matmul_dmma_tma_row = {
    .name = "dmma_tma",
    .note = "float64 tiles arrive by TMA, and no warp waits for another; the sums "
            "of the last turn are cut",
    .role = GOP_CONFORMING,
    .plan = matmul_dmma_tma_plan,
    .dtypes = GOP_SM90 ? DTYPES : 0,
    .imagined = DTYPES,
    .before = "mapped",
};
