/*
 * bf16x3_sm90.cu - matmul of float32 by wgmma in one launch: nothing is packed.
 *
 * bf16x3_packed writes packed copies of the operands to memory and reads them again. With a few
 * hundred to a few thousand rows that is hardly worth it. Here TMA brings both operands as they
 * lie into a ring of stages in shared memory. Producer warps split b's numbers into three
 * bfloat16 there. Consumer warps split a's in registers, from which wgmma takes them. Where
 * tiles are few, the blocks of a cluster share an output's sum, and read each other's part from
 * shared memory. Where the last wave of tiles would leave SMs idle, its sums are split along k,
 * and a second kernel adds the partial sums.
 *
 * A number that three bfloat16 cannot hold makes a sum NaN, or the lane that splits it notices.
 * Then the block computes its outputs again, term by term.
 */
#include "cuda/common/pipeline.h"
#include "cuda/common/cluster.h"
#include "cuda/common/pdl.h"
#include "cuda/common/tma.h"
#include "cuda/common/wgmma.h"

#include "cuda/matmul/bf16x3.h"
#include "cuda/matmul/straight.h"

enum { BF16X3_CLUSTER = 3 }; /* blocks that may share a sum */

struct bf16x3_plan {
    bf16x3_job job;
    straight_operand a, b;
    size_t odd; /* in the scratch memory */
    int columns, waves, cluster;
    double time;
};

#if GOP_SM90

/* Epilogue: store outputs, or a part of them where sums are cut. Blocks of a cluster put their
 * parts into the ring, and each adds all of them, in order, for its share of the outputs. */
template <int N, int W, int CLUSTER>
GOP_DEVICE void bf16x3_epilogue(const bf16x3_work &w, const tile_item &at,
                                const float (&sum)[W][bf16x3_shape<N, W>::SUMS], bool beyond,
                                uint8_t *ring, float4 *odd_here, int rank, int t)
{
    enum { SUMS = bf16x3_shape<N, W>::SUMS, CHUNKS = bf16x3_shape<N, W>::CHUNKS };
    const bf16x3_job &job = w.job;
    const auto four = [&](int v) {
        const float *const from = &sum[v / (SUMS / 4)][v % (SUMS / 4) * 4];
        return make_float4(from[0], from[1], from[2], from[3]);
    };
    const auto put = [&](int v, const float4 &sums) {
        const int2 of = bf16x3_chunk<N>(v, t);
        bf16x3_put<N, W>(w, at, of.x, of.y, sums);
    };
    if (CLUSTER == 1) {
        if (at.part >= 0) {
            float4 *const parts = job.parts + (int64_t)at.part * CHUNKS * BF16X3_CONSUMERS + t;
#pragma unroll
            for (int v = 0; v < CHUNKS; v++) parts[v * BF16X3_CONSUMERS] = four(v);
            if (t == 0) job.odd[at.part] = beyond;
        } else if (beyond) {
            bf16x3_anew<N, W>(w.p, at, t);
        } else {
#pragma unroll
            for (int v = 0; v < CHUNKS; v++) put(v, four(v));
        }
        return;
    }
    /* Each block adds all blocks' parts, in order, of its share of the outputs. */
    float4 *const meet = (float4 *)ring + t;
#pragma unroll
    for (int v = 0; v < CHUNKS; v++) meet[v * BF16X3_CONSUMERS] = four(v);
    if (t == 0) odd_here->x = beyond;
    cluster_sync();
    for (int r = 0; r < CLUSTER; r++) beyond |= map_shared_rank(odd_here, r)->x != 0;
    if (beyond && rank == 0) bf16x3_anew<N, W>(w.p, at, t);
    if (!beyond)
#pragma unroll
        for (int v = 0; v < CHUNKS; v++) {
            if (v % CLUSTER != rank) continue;
            float4 all = map_shared_rank(meet, 0)[v * BF16X3_CONSUMERS];
#pragma unroll
            for (int r = 1; r < CLUSTER; r++)
                add_part(all, map_shared_rank(meet, r)[v * BF16X3_CONSUMERS]);
            put(v, all);
        }
    cluster_sync(); /* another block may still read from this one */
}

/* Whether three bfloat16 could not hold a tile's numbers; asked by all consumers. */
template <int W, int SUMS>
GOP_DEVICE bool bf16x3_beyond(const float (&sum)[W][SUMS], uint32_t least)
{
    float odd[4] = {}; /* NaN once a sum is an infinity or NaN */
#pragma unroll
    for (int v = 0; v < W; v++)
#pragma unroll
        for (int e = 0; e < SUMS; e++) odd[e % 4] = fmaf(sum[v][e], 0.0f, odd[e % 4]);
    return any_of<BF16X3_CONSUMERS>((odd[0] + odd[1]) + (odd[2] + odd[3]) != 0.0f ||
                                    least < 2 * gop_float_to_bits(IMAGE_SMALLEST) - 1);
}

template <int N, int W, int CLUSTER, bool A_ALONG, bool B_ALONG>
__global__ void GOP_CLUSTERS __launch_bounds__(BF16X3_THREADS, 1)
    matmul_bf16x3_kernel(const __grid_constant__ bf16x3_work w)
{
#if GOP_WGMMA
    typedef bf16x3_shape<N, W> shape;
    enum { STAGES = shape::STAGES, SUMS = shape::SUMS };
    /* Shared memory: the ring of stages and its barriers. */
    extern __shared__ uint8_t memory[];
    uint8_t *const ring = memory + (-shared_address(memory) & 1023);
    uint64_t *const copied = (uint64_t *)(ring + STAGES * shape::BYTES);
    uint64_t *const full = copied + STAGES, *const empty = full + STAGES;
    uint64_t *const ping_pong = empty + STAGES; /* whose warpgroup multiplies */
    float4 *const odd_here = (float4 *)(ping_pong + 2 + STAGES % 2);
    const bf16x3_job &job = w.job;
    const int rank = CLUSTER > 1 ? cluster_rank() : 0;
    if (threadIdx.x == 0) {
        pipeline_init<STAGES>(full, BF16X3_PRODUCERS / 32, empty, BF16X3_CONSUMERS / 32);
        for (int s = 0; s < STAGES; s++) mbarrier_init(copied + s, 1);
        mbarrier_init(ping_pong, 4), mbarrier_init(ping_pong + 1, 4);
        fence_mbarrier_release();
        fence_proxy_async();
    }
    launch_dependents();
    __syncthreads();
    grid_dependency_sync();

    /* Producer: one thread issues TMA loads, the warps split b. */
    if (threadIdx.x < BF16X3_PRODUCERS) {
        setmaxnreg_dec<shape::FEED>();
        bf16x3_feed<N, W, CLUSTER, A_ALONG, B_ALONG>(w, ring, copied, full, empty, rank);
        if (CLUSTER > 1) {
            cluster_sync();
            cluster_sync();
        }
        return;
    }

    /* Consumers: two warpgroups split a and multiply, ping-pong. */
    setmaxnreg_inc<shape::MULTIPLY>();
    const int t = threadIdx.x - BF16X3_PRODUCERS, lane = t % 32;
    const int group = __shfl_sync(~0u, t / 128, 0);
    const int first = t / 32 * 16; /* of a warp's lines */
    const uint32_t pieces = shared_address(ring) + shape::RAW;
    const uint64_t at_b =
        B_ALONG ? make_smem_desc(pieces, 0, 512, 2) : make_smem_desc(pieces, 4096, 1024, 1);
    int s = 0;
    uint32_t phase = 0, mine = group == 0; /* the first group need not wait at first */
    for (int i = blockIdx.x / CLUSTER; i < job.items; i += gridDim.x / CLUSTER) {
        const tile_item at = tile_item_of<shape::LINES, N, CLUSTER>(job, i, rank);
        uint32_t least = ~0u;
        float sum[W][SUMS] = {};
        for (int l = at.first; l < at.last; l++) {
            mbarrier_wait(copied + s, phase);
#pragma unroll
            for (int v = 0; v < W; v++) {
                uint32_t fa[2][3][4];
                bf16x3_split_a<A_ALONG>(fa, ring + s * shape::BYTES, v * 128 + first, lane,
                                        least);
                if (v == 0) mbarrier_wait(full + s, phase);
                mbarrier_wait(ping_pong + group,
                              mine); /* one splits while the other multiplies */
                mine ^= 1;
                float part[SUMS];
                multiply_lines<shape::PIECE, B_ALONG>(part, fa, at_b, s * shape::BYTES);
                wgmma_commit();
                if (lane == 0) mbarrier_arrive(ping_pong + 1 - group);
                wgmma_wait();
                __syncwarp(); /* all lanes have read */
                if (v == W - 1 && lane == 0) mbarrier_arrive(empty + s);
#pragma unroll
                for (int e = 0; e < SUMS; e++) sum[v][e] += part[e];
            }
            pipeline_advance<STAGES>(s, phase);
        }
        const bool beyond = bf16x3_beyond(sum, least);
        bf16x3_epilogue<N, W, CLUSTER>(w, at, sum, beyond, ring, odd_here, rank, t);
    }
#endif
}

/* Adds the parts of sums that were cut: a block one chunk of the threads of a tile. */
template <int N, int W> __global__ void __launch_bounds__(BF16X3_CONSUMERS)
    matmul_bf16x3_parts_kernel(const __grid_constant__ bf16x3_work w)
{
    enum { CHUNKS = bf16x3_shape<N, W>::CHUNKS };
    const bf16x3_job &job = w.job;
    grid_dependency_sync();
    const int rest = job.tiles - job.whole, t = threadIdx.x;
    const int cut = blockIdx.x / CHUNKS, chunk = blockIdx.x % CHUNKS;
    const tile_item at = tile_item_of<bf16x3_shape<N, W>::LINES, N>(job, job.whole + cut);
    const float4 *const from =
        job.parts + ((int64_t)cut * CHUNKS + chunk) * BF16X3_CONSUMERS + t;
    unsigned odd = 0;
#pragma unroll
    for (int slice = 0; slice < MOST_SLICES; slice++)
        if (slice < job.slices) odd |= job.odd[cut + slice * rest];
    const float4 all =
        sum_of_parts(from, (int64_t)rest * CHUNKS * BF16X3_CONSUMERS, job.slices);
    if (odd) {
        if (chunk == 0) bf16x3_anew<N, W>(w.p, at, t);
        return;
    }
    const int2 of = bf16x3_chunk<N>(chunk, t);
    bf16x3_put<N, W>(w, at, of.x, of.y, all);
}

template <int N, int W, int CLUSTER, bool A_ALONG, bool B_ALONG>
static gop_status bf16x3_enqueue(gop_ctx *ctx, const gop_task *task, const bf16x3_work &w)
{
    typedef bf16x3_shape<N, W> shape;
    const int most = CLUSTER > 1 ? w.job.items : ctx->info.processors;
    const int clusters = w.job.items < most ? w.job.items : most;
    GOP_TRY(GOP_LAUNCH_FIRST(
        ctx, task, w.job.slices > 1, (matmul_bf16x3_kernel<N, W, CLUSTER, A_ALONG, B_ALONG>),
        gop_cuda_grid(clusters * CLUSTER, CLUSTER), BF16X3_THREADS, shape::SHARED, w));
    if (w.job.slices == 1) return GOP_OK;
    return GOP_LAUNCH_EARLY(ctx, (matmul_bf16x3_parts_kernel<N, W>),
                            (unsigned)((w.job.tiles - w.job.whole) * shape::CHUNKS),
                            BF16X3_CONSUMERS, 0, w);
}

static gop_status matmul_bf16x3(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef gop_status (*enqueue)(gop_ctx *, const gop_task *, const bf16x3_work &);
#define OF(N, W, C)                                                                            \
    {                                                                                          \
        {bf16x3_enqueue<N, W, C, 0, 0>, bf16x3_enqueue<N, W, C, 0, 1>},                        \
        {                                                                                      \
            bf16x3_enqueue<N, W, C, 1, 0>, bf16x3_enqueue<N, W, C, 1, 1>                       \
        }                                                                                      \
    }
    static const enqueue kernels[3][BF16X3_CLUSTER][2][2] = {
        {OF(64, 1, 1), OF(64, 1, 2), OF(64, 1, 3)},
        {OF(128, 1, 1), OF(128, 1, 2), OF(128, 1, 3)},
        {OF(128, 2, 1)}};
#undef OF
    const bf16x3_plan &plan = *GOP_OWN(const bf16x3_plan, task->plan);
    const gop_gemm &g = task->geometry.gemm;
    const matmul_part whole = {0, g.batches, 0, g.m, 1, g.k, 0};
    bf16x3_work w = {};
    w.p = straight_product_of(matmul_product_of<float>(task, whole));
    w.job = plan.job;
    w.job.parts = (float4 *)task->scratch;
    w.job.odd = (unsigned *)((uint8_t *)task->scratch + plan.odd);
    GOP_TRY(straight_map(&w.a, plan.a, w.p.a, plan.a.transposed ? 32 : 128 * plan.waves));
    GOP_TRY(straight_map(&w.b, plan.b, w.p.b, plan.b.transposed ? 32 : plan.columns));
    return kernels[plan.columns / 128 + plan.waves - 1][plan.cluster - 1][!plan.a.transposed]
                  [!plan.b.transposed](ctx, task, w);
}

#else
static const gop_launch matmul_bf16x3 = nullptr;
#endif

/* The time of a plan, in clocks, as measured on an H200. */
static double bf16x3_time(const gop_ctx *ctx, const bf16x3_plan &plan)
{
    enum { STAGE = 780, COLUMN = 12, TWO_WAVES = 3740, AROUND = 5000, MEETING = 1500 };
    /* Adding parts of sums: the launch, and writing and reading one of 128 columns. */
    enum { ADDING = 1000, PART = 80, PART_OF_TWO = 220 };
    const bf16x3_job &job = plan.job;
    const int64_t processors = ctx->info.processors > 1 ? ctx->info.processors : 2;
    const int64_t each = plan.waves == 2 ? TWO_WAVES : STAGE + plan.columns * COLUMN;
    const int64_t parts = job.items - job.whole;
    const int64_t computing =
        blocks_for((int64_t)job.whole * plan.cluster, processors) *
            (blocks_for(job.stages, plan.cluster) * each + AROUND) +
        blocks_for(parts, processors) * (blocks_for(job.stages, job.slices) * each + AROUND);
    const int64_t adding = parts * plan.columns * (plan.waves == 2 ? PART_OF_TWO : PART) / 128;
    return (double)(computing + adding + (parts ? ADDING : 0) +
                    (plan.cluster > 1 ? MEETING : 0));
}

/* Chooses the fastest tile and cut: if one wave has all tiles, the blocks of a cluster share
 * their sums; else the sums of the last wave are cut. */
static void bf16x3_cut(const gop_ctx *ctx, const gop_gemm &g, bf16x3_plan *best)
{
    static const int tiles[][2] = {{64, 1}, {128, 1}, {128, 2}};
    const int processors = ctx->info.processors > 1 ? ctx->info.processors : 2;
    const int64_t stages = blocks_for(g.k, BF16X3_TERMS);
    best->time = 0;
    for (const int *tile : tiles)
        for (int parts = 1; parts <= MOST_SLICES; parts++)
            for (int clusters = 0; clusters < 2; clusters++) {
                bf16x3_plan plan = *best;
                bf16x3_job &job = plan.job;
                plan.columns = tile[0], plan.waves = tile[1];
                plan.cluster = clusters ? parts : 1;
                job.down = (int)blocks_for(g.m, 128 * plan.waves);
                job.across = (int)blocks_for(g.n, plan.columns);
                job.tiles = (int)(job.down * job.across * g.batches);
                job.group = 8 / plan.waves;
                job.stages = (int)stages;
                job.slices = clusters ? 1 : parts;
                const int rest = job.slices > 1 ? job.tiles % processors : 0;
                job.whole = job.tiles - rest;
                job.items = job.whole + rest * job.slices;
                if ((parts > 1 && stages < 2 * parts) || (job.slices > 1 && rest == 0))
                    continue;
                if (plan.cluster > 1 && (plan.cluster > BF16X3_CLUSTER || plan.waves > 1 ||
                                         (int64_t)job.tiles * plan.cluster > processors))
                    continue;
                plan.time = bf16x3_time(ctx, plan);
                if (best->time == 0 || plan.time < best->time) *best = plan;
            }
}

static gop_status matmul_bf16x3_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    GOP_TRY(gop_has_wgmma(ctx, "matmul: kernel 'bf16x3'"));
    const gop_gemm &g = task->geometry.gemm;
    const double terms = (double)g.batches * (double)g.m * (double)g.n * (double)g.k;
    const int64_t most = INT64_C(1) << 29;
    if (g.k == 0 || terms > (double)ctx->info.processors * 3.5e10 || g.m > most || g.n > most ||
        g.k > most || g.batches > most)
        return gop_fail(GOP_REFUSED, "matmul: kernel 'bf16x3' takes products of some 100 ms at "
                                     "most, as it computes one in one step, and sums of a "
                                     "term or more");
    if (of_itself(task->call))
        return gop_fail(GOP_REFUSED, "matmul: kernel 'bf16x3' takes arrays that are not each "
                                     "other's transpose, whose product is symmetric");
    bf16x3_plan *const p = GOP_OWN(bf16x3_plan, plan);
    *p = {};
    p->a = straight_operand_of(g, g.a, task->in[0].data, g.m, g.a_row, g.a_col, 4);
    p->b = straight_operand_of(g, g.b, task->in[1].data, g.n, g.b_col, g.b_row, 4);
    const int64_t apart = uniform_batch(g, g.out);
    if (p->a.copied || p->b.copied || apart < 0)
        return gop_fail(GOP_REFUSED, "matmul: kernel 'bf16x3' takes operands whose rows or "
                                     "columns are contiguous and begin at multiples of 16 "
                                     "bytes, products of a batch at equal distances");
    bf16x3_cut(ctx, g, p);
    bf16x3_job &job = p->job;
    job.a_batch = p->a.batches > 1, job.b_batch = p->b.batches > 1;
    job.pairs = g.out_col == 1 && g.out_row % 2 == 0 && apart % 2 == 0 &&
                (uintptr_t)task->out[0].data % 8 == 0;
    const size_t tile = (size_t)p->waves * (size_t)p->columns * 128 * sizeof(float);
    const size_t parts = (size_t)(job.items - job.whole);
    p->odd = parts * tile;
    plan->scratch = p->odd + parts * sizeof(unsigned);
    plan->launch = matmul_bf16x3;
    return GOP_OK;
}

#define DTYPES (1u << GOP_FLOAT32)
extern const gop_row matmul_bf16x3_row = {
    .name = "bf16x3",
    .note = "float32 as it lies, split into three bfloat16 in the multiprocessor: one launch, "
            "nothing packed, and clusters of blocks share sums where tiles are few",
    .role = GOP_CONFORMING,
    .plan = matmul_bf16x3_plan,
    .dtypes = GOP_SM90 ? DTYPES : 0,
    .imagined = DTYPES,
    .before = "direct",
};
