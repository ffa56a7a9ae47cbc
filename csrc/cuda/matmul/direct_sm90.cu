/*
 * direct_sm90.cu - matmul of float32 by the matrix instruction in one launch: nothing is
 * packed.
 *
 * pieces (pieces_sm90.cu) writes the operands' images to memory and reads them again, which
 * products of some hundred to some thousand rows hardly earn back. Here both operands come as
 * they lie. Four warps copy them into a ring in shared memory, four replace b's numbers there
 * by three bfloat16, and those that multiply split a's numbers in registers, from which the
 * matrix instruction takes them. Where tiles are few, the blocks of a cluster share an output's
 * sum, and read each other's part from shared memory.
 *
 * What three bfloat16 do not hold makes a sum NaN, or is seen by the lane that splits it; then
 * the block computes its outputs anew, term by term.
 */
#include "cuda/wgmma.h"

#if GOP_SM90

#include "cuda/matmul/direct.h"

enum { DIRECT_CLUSTER = 3 }; /* blocks that may share a sum */

struct direct_plan {
    direct_job job;
    int64_t chunk;
    int columns, cluster, a_along, b_along;
};

template <int N, int CLUSTER, bool A_ALONG, bool B_ALONG> __global__ void GOP_CLUSTER(CLUSTER)
    __launch_bounds__(DIRECT_THREADS, 1)
        matmul_direct_kernel(const matmul_product<float> p, const direct_job job)
{
#if GOP_WGMMA
    typedef direct_shape<N, A_ALONG> shape;
    enum { STAGES = shape::STAGES, TERMS = shape::TERMS, SUMS = shape::SUMS };
    typedef direct_factors<N, A_ALONG, B_ALONG> factors;
    extern __shared__ uint8_t memory[];
    uint8_t *const ring = memory + (-shared_address(memory) & 1023);
    uint64_t *const copied = (uint64_t *)(ring + STAGES * shape::BYTES);
    uint64_t *const full = copied + STAGES, *const empty = full + STAGES;
    float4 *const odd_here = (float4 *)(empty + STAGES + STAGES % 2);
    const gop_gemm &g = p.g;
    const int rank = CLUSTER > 1 ? cluster_rank() : 0;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(copied + s, DIRECT_GROUP);
            barrier_init(full + s, DIRECT_GROUP);
            barrier_init(empty + s, DIRECT_CONSUMERS / 32);
        }
        barrier_publish();
    }
    __syncthreads();
    const int64_t begin = rank * p.part.chunk;
    const int64_t end = begin + p.part.chunk < g.k ? begin + p.part.chunk : g.k;
    int s = 0;
    uint32_t phase = 0;
    if (threadIdx.x < DIRECT_GROUP) { /* copies */
        fewer_registers<56>();
        for (int64_t i = blockIdx.x / CLUSTER; i < job.tiles; i += gridDim.x / CLUSTER) {
            const direct_place at = direct_place_of<N>(p, job, i);
            const ring_lines<float, A_ALONG> a = {p.a + at.of.a + at.i0 * g.a_row,
                                                  g.a_row,
                                                  g.a_col,
                                                  g.m - at.i0,
                                                  end,
                                                  (bool)job.a_wide};
            const factors b = {p.b + at.of.b + at.j0 * g.b_col,
                               g.b_row,
                               g.b_col,
                               g.n - at.j0,
                               end,
                               (bool)job.b_wide};
            const bool in_eights =
                B_ALONG ? b.columns >= N : b.wide && (b.columns >= N || b.columns % 8 == 0);
            const bool by_vectors = a.wide && in_eights;
            direct_whole<N, A_ALONG, B_ALONG> whole(a, b, begin);
            for (int64_t l = begin; l < end; l += TERMS) {
                barrier_wait(empty + s, phase ^ 1);
                uint8_t *const to = ring + s * shape::BYTES;
                if (by_vectors && l + TERMS <= end) {
                    whole.fetch(to);
                } else {
                    b.fetch(to + shape::A_BYTES, l);
                    a.template fetch<DIRECT_GROUP>(to, l);
                }
                barrier_arrive_copied(copied + s);
                if (++s == STAGES) s = 0, phase ^= 1;
            }
        }
    } else if (threadIdx.x < 2 * DIRECT_GROUP) { /* splits b */
        fewer_registers<56>();
        for (int64_t i = blockIdx.x / CLUSTER; i < job.tiles; i += gridDim.x / CLUSTER)
            for (int64_t l = begin; l < end; l += TERMS) {
                barrier_wait(copied + s, phase);
                factors::split(ring + s * shape::BYTES + shape::A_BYTES);
                bulk_publish();
                barrier_arrive(full + s);
                if (++s == STAGES) s = 0, phase ^= 1;
            }
    }
    if (threadIdx.x < 2 * DIRECT_GROUP) {
        if (CLUSTER > 1) {
            cluster_sync();
            cluster_sync();
        }
        return;
    }
    more_registers<200>();
    const int t = threadIdx.x - 2 * DIRECT_GROUP, lane = t % 32;
    const int first = t / 32 * 16; /* of a warp's lines */
    const uint64_t at_b = wgmma_tile(shared_address(ring) + shape::A_BYTES, 4096, 1024, 1);
    for (int64_t i = blockIdx.x / CLUSTER; i < job.tiles; i += gridDim.x / CLUSTER) {
        const direct_place at = direct_place_of<N>(p, job, i);
        uint32_t least = ~0u;
        float sum[SUMS] = {};
        uint32_t one[2][3][4], other[2][3][4]; /* a's numbers of a stage and of the next */
        const auto take = [&](uint32_t(&fa)[2][3][4]) {
            barrier_wait(full + s, phase);
            split_lines<float, A_ALONG>(fa, ring + s * shape::BYTES, first, lane, least);
        };
        const auto multiply = [&](const uint32_t(&fa)[2][3][4], uint32_t(&next)[2][3][4],
                                  bool has_next) {
            const int now = s;
            float part[SUMS];
            multiply_lines<shape::PIECE>(part, fa, at_b, now * shape::BYTES);
            wgmma_commit();
            if (++s == STAGES) s = 0, phase ^= 1;
            if (has_next) take(next);
            wgmma_wait();
            __syncwarp(); /* all lanes have read */
            if (lane == 0) barrier_arrive(empty + now);
#pragma unroll
            for (int e = 0; e < SUMS; e++) sum[e] += part[e];
        };
        if (begin < end) take(one);
        for (int64_t l = begin; l < end; l += 2 * TERMS) {
            multiply(one, other, l + TERMS < end);
            if (l + TERMS < end) multiply(other, one, l + 2 * TERMS < end);
        }
        float odd = 0.0f; /* NaN once a sum is an infinity or NaN */
#pragma unroll
        for (int e = 0; e < SUMS; e++) odd = fmaf(sum[e], 0.0f, odd);
        bool beyond = any_of<DIRECT_CONSUMERS>(
            odd != 0.0f || least < 2 * gop_float_to_bits(IMAGE_SMALLEST) - 1);
        const int64_t row = at.i0 + first + lane / 4, column = at.j0 + lane % 4 * 2;
        if (CLUSTER == 1) {
            if (beyond) {
                direct_anew<N>(p, at, t);
                continue;
            }
#pragma unroll
            for (int v = 0; v < SUMS / 4; v++)
                direct_put<N>(
                    p, job, at, row, column + v * 8,
                    make_float4(sum[4 * v], sum[4 * v + 1], sum[4 * v + 2], sum[4 * v + 3]));
            continue;
        }
        /* Each block adds all blocks' parts, in order, of its share of the outputs. */
        float4 *const meet = (float4 *)ring + t;
#pragma unroll
        for (int v = 0; v < SUMS / 4; v++)
            meet[v * DIRECT_CONSUMERS] =
                make_float4(sum[4 * v], sum[4 * v + 1], sum[4 * v + 2], sum[4 * v + 3]);
        if (t == 0) odd_here->x = beyond;
        cluster_sync();
        for (int r = 0; r < CLUSTER; r++) beyond |= cluster_load(odd_here, r).x != 0;
        if (beyond && rank == 0) direct_anew<N>(p, at, t);
        if (!beyond)
#pragma unroll
            for (int v = 0; v < SUMS / 4; v++) {
                if (v % CLUSTER != rank) continue;
                float4 all = cluster_load(meet + v * DIRECT_CONSUMERS, 0);
#pragma unroll
                for (int r = 1; r < CLUSTER; r++) {
                    const float4 part = cluster_load(meet + v * DIRECT_CONSUMERS, r);
                    all.x += part.x, all.y += part.y, all.z += part.z, all.w += part.w;
                }
                direct_put<N>(p, job, at, row, column + v * 8, all);
            }
        cluster_sync(); /* nobody leaves whose memory another still reads */
    }
#endif
}

template <int N, int CLUSTER, bool A_ALONG, bool B_ALONG> static gop_status
direct_enqueue(gop_ctx *ctx, const matmul_product<float> &p, const direct_job &job)
{
    const int64_t most = CLUSTER > 1 ? job.tiles : ctx->info.processors;
    const int64_t clusters = job.tiles < most ? job.tiles : most;
    return GOP_LAUNCH(ctx, (matmul_direct_kernel<N, CLUSTER, A_ALONG, B_ALONG>),
                      (unsigned)(clusters * CLUSTER), DIRECT_THREADS,
                      (direct_shape<N, A_ALONG>::SHARED), p, job);
}

static gop_status matmul_direct(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef gop_status (*enqueue)(gop_ctx *, const matmul_product<float> &, const direct_job &);
#define OF(N, C)                                                                               \
    {                                                                                          \
        {direct_enqueue<N, C, 0, 0>, direct_enqueue<N, C, 0, 1>},                              \
        {                                                                                      \
            direct_enqueue<N, C, 1, 0>, direct_enqueue<N, C, 1, 1>                             \
        }                                                                                      \
    }
    static const enqueue kernels[2][DIRECT_CLUSTER][2][2] = {
        {OF(64, 1), OF(64, 2), OF(64, 3)}, {OF(128, 1), OF(128, 2), OF(128, 3)}};
    const direct_plan &plan = *GOP_OWN(const direct_plan, task->plan);
    const gop_gemm &g = task->geometry.gemm;
    const matmul_part whole = {0, g.batches, 0, g.m, 1, plan.chunk, 0};
    const matmul_product<float> p = matmul_product_of<float>(task, whole);
    direct_job job = plan.job;
    job.pairs = g.out_col == 1 && g.out_row % 2 == 0 && (uintptr_t)p.out % 8 == 0;
    for (int axis = 0; axis < g.batch_rank; axis++) job.pairs &= g.out[axis] % 2 == 0;
    return kernels[plan.columns == 128][plan.cluster - 1][plan.a_along][plan.b_along](ctx, p,
                                                                                      job);
}

/* The tile and the cluster whose blocks are done soonest, in clocks as measured on an H200. */
static void direct_cut(const gop_ctx *ctx, const gop_gemm &g, direct_plan *plan)
{
    enum { STAGE = 600, A_COLUMN = 16, AROUND = 6000, MEETING = 1500 };
    const int64_t stages = (g.k + 31) / 32;
    int64_t soonest = 0;
    for (int columns = 64; columns <= 128; columns *= 2)
        for (int cluster = 1; cluster <= DIRECT_CLUSTER; cluster++) {
            const int64_t down = blocks_for(g.m, RING_LINES), across = blocks_for(g.n, columns);
            const int64_t tiles = down * across * g.batches;
            const int64_t turns = blocks_for(tiles * cluster, ctx->info.processors);
            const int64_t each = blocks_for(stages, cluster);
            if (cluster > 1 && (turns > 1 || each < 2)) continue;
            const int64_t time = turns * (each * (STAGE + A_COLUMN * columns) + AROUND) +
                                 (cluster > 1 ? MEETING : 0);
            if (soonest && time >= soonest) continue;
            soonest = time;
            plan->job = {tiles, down, across, 0, 0, 0};
            plan->chunk = each * 32;
            plan->columns = columns, plan->cluster = cluster;
        }
}

/* Whether it is the fastest row: products of some size, not long ones, copied by vectors. */
static bool direct_is_best(const gop_ctx *ctx, const gop_task *task, const direct_plan &plan)
{
    const gop_gemm &g = task->geometry.gemm;
    const double terms = (double)g.batches * (double)g.m * (double)g.n * (double)g.k;
    const double most = g.batches == 1 ? 1.2e9 : 3e9;
    return task->call->params.matmul.precision <= GOP_HIGHEST && g.m >= 96 && g.n >= 96 &&
           g.k >= 96 && terms >= 1.6e8 && terms <= most && g.n % 8 == 0 && plan.job.a_wide &&
           (plan.b_along || plan.job.b_wide) &&
           plan.job.tiles * plan.cluster >= ctx->info.processors / 2;
}

static gop_status matmul_direct_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    GOP_TRY(gop_has_wgmma(ctx, "matmul: kernel 'direct'"));
    const gop_gemm &g = task->geometry.gemm;
    const double terms = (double)g.batches * (double)g.m * (double)g.n * (double)g.k;
    if (g.k == 0 || terms > (double)ctx->info.processors * 3.5e10)
        return gop_fail(GOP_REFUSED, "matmul: kernel 'direct' takes products of some 100 ms at "
                                     "most, as it computes one in one step, and sums of a "
                                     "term or more");
    if (of_itself(task->call))
        return gop_fail(GOP_REFUSED, "matmul: kernel 'direct' takes arrays that are not each "
                                     "other's transpose, whose product is symmetric");
    direct_plan *const p = GOP_OWN(direct_plan, plan);
    *p = {};
    direct_cut(ctx, g, p);
    p->a_along = thin_far(g.a_col) <= thin_far(g.a_row) || g.m == 1;
    p->b_along = thin_far(g.b_row) < thin_far(g.b_col) && g.n > 1;
    p->job.a_wide = thin_wide(task, g, 0, p->a_along);
    p->job.b_wide = g.b_col == 1 && g.b_row % 4 == 0 && (uintptr_t)task->in[1].data % 16 == 0;
    for (int axis = 0; axis < g.batch_rank; axis++) p->job.b_wide &= g.b[axis] % 4 == 0;
    plan->launch = matmul_direct;
    if (task->named || direct_is_best(ctx, task, *p)) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "matmul: kernel 'direct' takes products of some 600 to 1000 rows and "
                    "columns, or batches of smaller ones, whose lines are multiples of 16 "
                    "bytes, got %lld of (%lld, %lld) outputs of %lld terms",
                    (long long)g.batches, (long long)g.m, (long long)g.n, (long long)g.k);
}

#define DTYPES (1u << GOP_FLOAT32)
#else
#define DTYPES 0

static gop_status matmul_direct_plan(const gop_ctx *ctx, const gop_task *, gop_plan *)
{
    return gop_has_wgmma(ctx, "matmul: kernel 'direct'");
}
#endif

extern const gop_row matmul_direct_row = {
    .name = "direct",
    .note = "float32 as it lies, split into three bfloat16 in the multiprocessor: one launch, "
            "nothing packed, and clusters of blocks share sums where tiles are few",
    .role = GOP_CONFORMING,
    .plan = matmul_direct_plan,
    .dtypes = DTYPES,
};
