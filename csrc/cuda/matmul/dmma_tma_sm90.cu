/*
 * dmma_tma_sm90.cu - matmul of float64 by the tensor cores, operands by tensor maps.
 *
 * In dmma (dmma_sm80.cu) all warps copy, and they wait for each other every 16 terms. Here TMA
 * fetches stages of tiles into shared memory, and a warp goes on as soon as its own stage has
 * come. A warp's products are issued at intervals, between which it loads the next numbers, but
 * it waits now and then, so each scheduler has two warps, one ahead of the other: while one
 * stores, the other multiplies. Where tiles are small they belong to groups, which multiply a
 * tile's stages by turns and add their sums at the end, or have a tile each.
 *
 * Blocks are persistent and take tile after tile. If the last wave would leave SMs idle, its
 * sums are split along k, and a second kernel adds the parts. dmma_schedule.cu finds tiles,
 * groups and parts. An operand that no tensor map describes is copied first.
 */
#include <math.h>
#include <type_traits>

#include "cuda/common/mma.h"
#include "cuda/matmul/dmma.h"
#include "cuda/matmul/gemm_sm90.h"
#include "cuda/matmul/straight_copies.h"

struct dmma_tma_job : dmma_tma_schedule {
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

struct dmma_tma_plan : dmma_tma_operands {
    dmma_pairs pairs;
    dmma_tma_job job;
    int chunk;             /* items of a step */
    size_t a_copy, b_copy; /* in scratch */
};

#if GOP_SM90

enum { LEAD = 3 }; /* stages that the first half of the warps is ahead */

/* A block's tile, cut into those of a group's warps. MEETING: where groups that share a tile
 * leave each other sums. */
template <int TILE_M, int TILE_N, int WARP_M, int WARP_N> struct dmma_tma_shape {
    enum { M = TILE_M, N = TILE_N, WM = WARP_M, WN = WARP_N };
    enum { WARPS_M = M / WM, GROUPS = 8 / (WARPS_M * (N / WN)), THREADS = CONSUMERS / GROUPS };
    enum { M_TILES = WM / 16, N_TILES = WN / 8, CHUNKS = M_TILES * N_TILES * 2 };
    enum { BYTES = (M + N) * 128, MEETING = (GROUPS - 1) * M * N * 8 };
    enum { STAGES = (225 * 1024 - MEETING) / BYTES / GROUPS * GROUPS };
    /* Behind the ring: where groups meet, and the barrier of those that are ahead. */
    typedef gemm_ring<STAGES, BYTES, MEETING + 16> ring;
};

/* An operand's tile: lines of 16 terms, or, 16 lines at a time, terms of 16 lines; either way
 * swizzled rows of 128 bytes. Eight lines make a fragment, in an order in which lanes that read
 * at once meet all banks. */
template <int LINES, bool ALONG> struct dmma_tma_tile {
    enum { BOXES = ALONG ? 1 : LINES / 16 };
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

/* Issues the TMA loads of a tile: each of FEEDERS threads every FEEDERS-th box from `first`. */
template <int LINES, bool ALONG, int FEEDERS>
GOP_DEVICE void dmma_tma_fetch(uint8_t *tile, const gop_cuda_tensor_map *map, int first,
                               int line, int l, int batch, uint64_t *full)
{
    enum { BOXES = dmma_tma_tile<LINES, ALONG>::BOXES };
#pragma unroll
    for (int e = 0; e < (BOXES + FEEDERS - 1) / FEEDERS; e++) {
        const int box = e * FEEDERS + first;
        if (box >= BOXES) break;
        const int from = line + box * 16;
        tma_load(tile + box * 2048, map, ALONG ? l : from, ALONG ? from : l, batch, full, 1);
    }
}

/* One of the rings that the block's is cut into, and the items whose stages go through it. */
template <typename shape, int RINGS> struct dmma_tma_ring {
    enum { STAGES = shape::STAGES / RINGS, BYTES = shape::BYTES, EACH = 1 };
    const dmma_tma_job &job;
    uint8_t *stages;
    uint64_t *full, *empty;
    int first, last, step;

    GOP_DEVICE dmma_tma_ring(const dmma_tma_job &of, const typename shape::ring &all,
                             int number)
        : job(of), stages(all.stages + number * STAGES * BYTES),
          full(all.full + number * STAGES), empty(all.empty + number * STAGES),
          first(of.first + number * gridDim.x + blockIdx.x), last(of.last),
          step(RINGS * gridDim.x)
    {
    }
    GOP_DEVICE tile_item at(int i) const { return tile_item_of<shape::M, shape::N>(job, i); }
};

/* One thread of each of four warps, which the rings have alike. */
template <typename shape, int RINGS, bool A_ALONG, bool B_ALONG>
GOP_DEVICE void dmma_tma_feed(const dmma_tma_work &w, const typename shape::ring &all)
{
    enum { M = shape::M, N = shape::N, FEEDERS = PRODUCERS / 32 / RINGS };
    const int warp = threadIdx.x / 32 % FEEDERS;
    const dmma_tma_ring<shape, RINGS> ring(w.job, all, threadIdx.x / 32 / FEEDERS);
    producer_mainloop(ring, ring, [&](const tile_item &at) {
        const int za = w.job.a_batch ? at.batch : 0, zb = w.job.b_batch ? at.batch : 0;
        return [=, &w](int k, uint8_t *tiles, uint64_t *full) {
            const int l = k * DMMA_K;
            if (warp == 0) mbarrier_arrive_expect_tx(full, shape::BYTES);
            dmma_tma_fetch<M, A_ALONG, FEEDERS>(tiles, &w.a, warp, at.i0, l, za, full);
            dmma_tma_fetch<N, B_ALONG, FEEDERS>(tiles + M * 128, &w.b, (warp ^ 1) % FEEDERS,
                                                at.j0, l, zb, full);
        };
    });
}

/* Where sums go from row r and column c of a tile on: into out, or as one of the parts that are
 * added later. */
struct dmma_tma_target {
    double *to;
    int64_t row, column;
    int rows, columns; /* that are left */
    bool pairs;
};
GOP_DEVICE dmma_tma_target dmma_tma_target_of(const dmma_tma_work &w, const tile_item &at,
                                              int m, int n, int r, int c)
{
    if (at.part >= 0)
        return {w.job.parts + ((int64_t)at.part * m + r) * n + c, n, 1, m - r, n - c, true};
    const straight_product<double> &p = w.p;
    double *const to =
        p.out + at.batch * p.out_batch + (at.i0 + r) * p.out_row + (at.j0 + c) * p.out_col;
    const int64_t rows = p.m - at.i0, columns = p.n - at.j0;
    return {to,
            p.out_row,
            p.out_col,
            (int)(rows < m ? rows : m) - r,
            (int)(columns < n ? columns : n) - c,
            w.job.pairs != 0};
}

/* Sums of row r and columns c and c + 1 from there on. */
template <bool PAIRS>
GOP_DEVICE void dmma_tma_put(const dmma_tma_target &t, int r, int c, const double2 &sums)
{
    if (r >= t.rows || c >= t.columns) return;
    double *const to = t.to + r * t.row + (PAIRS ? c : c * t.column);
    if (PAIRS) {
        *(double2 *)to = sums;
        return;
    }
    to[0] = sums.x;
    if (c + 1 < t.columns) to[t.column] = sums.y;
}

/* A lane's two sums of a fragment whose columns lie in the order of an operand along terms:
 * lanes two apart exchange one, and each has neighbours. */
GOP_DEVICE double2 dmma_tma_neighbours(const double2 &sums, int lane)
{
    const bool low = lane % 4 < 2;
    const double other = __shfl_xor_sync(~0u, low ? sums.y : sums.x, 2);
    return low ? make_double2(sums.x, other) : make_double2(other, sums.y);
}

/* Epilogue: each thread stores its sums, or, if groups share the tile, adds and stores some. */
template <typename shape, int RINGS, bool A_ALONG, bool B_ALONG>
GOP_DEVICE void dmma_tma_epilogue(const dmma_tma_work &w, const tile_item &at,
                                  const double (&sum)[shape::M_TILES][shape::N_TILES][4],
                                  double2 *meet, int t, int group)
{
    enum { M = shape::M, N = shape::N, N_TILES = shape::N_TILES, CHUNKS = shape::CHUNKS };
    enum { THREADS = shape::THREADS, GROUPS = shape::GROUPS, SHARED = GROUPS > RINGS };
    typedef dmma_tma_tile<M, A_ALONG> of_a;
    typedef dmma_tma_tile<N, B_ALONG> of_b;
    const int lane = t % 32, warp = t / 32 % (THREADS / 32), mate = t % THREADS;
    const int column = B_ALONG ? lane % 2 * 4 + lane / 2 % 2 * 2 : of_b::line(0, lane % 4 * 2);
    const dmma_tma_target to = dmma_tma_target_of(
        w, at, M, N, warp % shape::WARPS_M * shape::WM + of_a::line(0, lane / 4),
        warp / shape::WARPS_M * shape::WN + column);
    const auto two = [&](int v) {
        const double *const from = sum[v / (2 * N_TILES)][v / 2 % N_TILES] + v % 2 * 2;
        return make_double2(from[0], from[1]);
    };
    /* The place of what another group, so many after the one that adds it, has of a sum. */
    const auto place = [&](int v, int after) {
        return meet + (v * (GROUPS - 1) + after - 1) * THREADS + mate;
    };
    if (SHARED) {
        any_of<CONSUMERS>(false); /* what met there last has been read */
#pragma unroll
        for (int v = 0; v < CHUNKS; v++) {
            const int after = (group - v % GROUPS + GROUPS) % GROUPS;
            if (after) *place(v, after) = two(v);
        }
        any_of<CONSUMERS>(false);
    }
    const auto store = [&](auto pairs) {
#pragma unroll
        for (int v = 0; v < CHUNKS; v++) {
            if (SHARED && v % GROUPS != group) continue;
            double2 sums = two(v);
#pragma unroll
            for (int after = 1; SHARED && after < GROUPS; after++) {
                const double2 more = *place(v, after);
                sums = make_double2(sums.x + more.x, sums.y + more.y);
            }
            if (B_ALONG) sums = dmma_tma_neighbours(sums, lane);
            dmma_tma_put<pairs.value>(to, of_a::line(v / (2 * N_TILES) * 2 + v % 2, 0),
                                      of_b::line(v / 2 % N_TILES, 0), sums);
        }
    };
    if (to.pairs) store(std::true_type());
    else store(std::false_type());
}

/* Tells that a warp has read a stage. Its last loads may still be on their way, and would read
 * what TMA brings next: an arrival orders only accesses of its own proxy. */
GOP_DEVICE void dmma_tma_give_back(uint64_t *empty, int lane)
{
    fence_proxy_async();
    __syncwarp();
    if (lane == 0) mbarrier_arrive(empty);
}

/* One of eight warps: waits for its own stages, and multiplies. */
template <typename shape, int RINGS, bool A_ALONG, bool B_ALONG>
GOP_DEVICE void dmma_tma_multiply(const dmma_tma_work &w, const typename shape::ring &all)
{
    enum { M = shape::M, N = shape::N, GROUPS = shape::GROUPS };
    enum { SHARERS = GROUPS / RINGS, SLOTS = shape::STAGES / RINGS }; /* of a tile; of a ring */
    enum { M_TILES = shape::M_TILES, N_TILES = shape::N_TILES };
    enum { KEPT = M_TILES % 2 ? M_TILES : 2 }; /* fragments of a in registers */
    typedef dmma_tma_tile<M, A_ALONG> of_a;
    typedef dmma_tma_tile<N, B_ALONG> of_b;
    const dmma_tma_job &job = w.job;
    const int t = threadIdx.x - PRODUCERS, lane = t % 32;
    const int warp = t / 32 % (shape::THREADS / 32);
    const int group = GROUPS > 1 ? __shfl_sync(~0u, t / shape::THREADS, 0) : 0;
    const int share = SHARERS > 1 ? group : 0;
    const dmma_tma_ring<shape, RINGS> ring(job, all, RINGS > 1 ? group : 0);
    const int m0 = warp % shape::WARPS_M * shape::WM, n0 = warp / shape::WARPS_M * shape::WN;
    const uint32_t a_lane = of_a::base(lane) + m0 * 128;
    const uint32_t b_lane = of_b::base(lane) + (M + n0) * 128;
    /* A scheduler's second warp begins later, so that it multiplies while the first stores. */
    uint64_t *const ahead = (uint64_t *)(all.own + shape::MEETING);
    const bool leads = __shfl_sync(~0u, t < CONSUMERS / 2, 0);
    int until = SHARERS == 1 && leads ? +LEAD : 0;
    double fa[KEPT][8], fb[N_TILES][4];
    /* One of N_TILES parts of a fragment of a's 16 lines; a fragment of b's 8. */
    const auto load_a = [&](const uint8_t *tiles, int m, int part) {
#pragma unroll
        for (int e = part * 8 / N_TILES; e < (part + 1) * 8 / N_TILES; e++)
            fa[m % KEPT][e] = *of_a::at(tiles, a_lane, m * 2 + e % 2, e / 2);
    };
    const auto load_b = [&](const uint8_t *tiles, int n) {
#pragma unroll
        for (int e = 0; e < 4; e++) fb[n][e] = *of_b::at(tiles, b_lane, n, e);
    };
    int begin = 0; /* the slot of the next tile's first stage, and its phase */
    uint32_t begin_phase = 0;
    for (int i = ring.first; i < ring.last; i += ring.step) {
        const tile_item at = ring.at(i);
        int s = begin + share;
        uint32_t phase = begin_phase;
        if (s >= SLOTS) s -= SLOTS, phase ^= 1;
        double sum[M_TILES][N_TILES][4] = {};
        if (SHARERS == 1 && !leads && i == ring.first) mbarrier_wait(ahead, 0);
        if (at.first + share < at.last) {
            mbarrier_wait(ring.full + s, phase);
            const uint8_t *const tiles = ring.stages + s * shape::BYTES;
#pragma unroll
            for (int n = 0; n < N_TILES; n++) load_a(tiles, 0, n), load_b(tiles, n);
        }
        for (int stage = at.first + share; stage < at.last; stage += SHARERS) {
            const bool more = stage + SHARERS < at.last;
            const uint8_t *tiles = ring.stages + s * shape::BYTES;
            const int here = s;
            if ((s += SHARERS) >= SLOTS) s -= SLOTS, phase ^= 1;
#pragma unroll
            for (int m = 0; m < M_TILES; m++) {
                const bool last = m == M_TILES - 1;
                if (last) { /* all has been read; the next numbers are of the next stage */
                    dmma_tma_give_back(ring.empty + here, lane);
                    if (until && --until == 0 && lane == 0) mbarrier_arrive(ahead);
                    if (more) mbarrier_wait(ring.full + s, phase);
                    tiles = ring.stages + s * shape::BYTES;
                }
#pragma unroll
                for (int n = 0; n < N_TILES; n++) {
                    mma_sync(sum[m][n], fa[m % KEPT], fb[n]);
                    if (!last || more) load_a(tiles, last ? 0 : m + 1, n);
                    if (last && more) load_b(tiles, n);
                }
            }
        }
        if (until && lane == 0) mbarrier_arrive(ahead);
        until = 0;
        begin += at.last - at.first;
        begin_phase ^= begin / SLOTS & 1;
        begin %= SLOTS;
        dmma_tma_epilogue<shape, RINGS, A_ALONG, B_ALONG>(w, at, sum, (double2 *)all.own, t,
                                                          group);
    }
}

template <typename shape, bool A_ALONG, bool B_ALONG>
__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    matmul_dmma_tma_kernel(const __grid_constant__ dmma_tma_work w)
{
#if GOP_WGMMA
    const typename shape::ring ring;
    if (threadIdx.x == 0) {
        mbarrier_init((uint64_t *)(ring.own + shape::MEETING), CONSUMERS / 64);
        ring.init(1, CONSUMERS / 32 / shape::GROUPS);
    }
    launch_dependents();
    __syncthreads();
    grid_dependency_sync();
    const bool one = shape::GROUPS == 1 || w.job.rings == 1;
    const auto produce = [&] {
        if (threadIdx.x % 32) return;
        if (one) dmma_tma_feed<shape, 1, A_ALONG, B_ALONG>(w, ring);
        else dmma_tma_feed<shape, shape::GROUPS, A_ALONG, B_ALONG>(w, ring);
    };
    const auto consume = [&] {
        if (one) dmma_tma_multiply<shape, 1, A_ALONG, B_ALONG>(w, ring);
        else dmma_tma_multiply<shape, shape::GROUPS, A_ALONG, B_ALONG>(w, ring);
    };
    gemm_specialise(produce, consume);
#endif
}

/* Adds the parts of the sums that were cut, in their order: a block some rows of a tile, which
 * is of m x n. */
enum { DMMA_TMA_ROWS = 8 };
static __global__ void __launch_bounds__(128)
    matmul_dmma_tma_parts_kernel(const __grid_constant__ dmma_tma_work w, int m, int n)
{
    const dmma_tma_job &job = w.job;
    grid_dependency_sync();
    const int rest = job.tiles - job.whole, blocks = m / DMMA_TMA_ROWS;
    const int cut = blockIdx.x / blocks, top = blockIdx.x % blocks * DMMA_TMA_ROWS;
    const double *const from = job.parts + ((int64_t)cut * m + top) * n + threadIdx.x;
    double sum[DMMA_TMA_ROWS];
#pragma unroll
    for (int r = 0; r < DMMA_TMA_ROWS; r++) sum[r] = from[r * n];
#pragma unroll 4
    for (int slice = 1; slice < job.slices; slice++)
#pragma unroll
        for (int r = 0; r < DMMA_TMA_ROWS; r++)
            sum[r] += from[((int64_t)slice * rest * m + r) * n];
    tile_item at = tile_item_of<1, 1>(job, job.whole + cut);
    at.part = -1, at.i0 *= m, at.j0 *= n;
    const dmma_tma_target to = dmma_tma_target_of(w, at, m, n, top, threadIdx.x);
#pragma unroll
    for (int r = 0; r < DMMA_TMA_ROWS; r++)
        if (r < to.rows && to.columns > 0) to.to[r * to.row] = sum[r];
}

template <typename shape, bool A_ALONG, bool B_ALONG>
static gop_status dmma_tma_enqueue(gop_ctx *ctx, const dmma_tma_work &w)
{
    return GOP_LAUNCH_EARLY(ctx, (matmul_dmma_tma_kernel<shape, A_ALONG, B_ALONG>),
                            cluster_grid(w.job.last - w.job.first, ctx->info.processors, 1),
                            BLOCK_THREADS, shape::ring::SHARED, w);
}

/* The map of an operand, or of its copy where no map can describe it. */
static gop_status dmma_tma_operand(const gop_task *task, const dmma_tma_plan &plan, bool is_b,
                                   int lines, const double *from, straight_copies *copies,
                                   gop_cuda_tensor_map *map)
{
    const straight_operand &o = is_b ? plan.b : plan.a;
    char *const copy = (char *)task->scratch + (is_b ? plan.b_copy : plan.a_copy);
    if (o.copied) copies->add(o, from, copy, is_b);
    return straight_map(map, o, o.copied ? copy : (const void *)from,
                        o.transposed ? 16 : lines);
}

static gop_status matmul_dmma_tma(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    typedef gop_status (*enqueue)(gop_ctx *, const dmma_tma_work &);
#define ENQUEUE(M, N, WARP_M, WARP_N, SHARED, APART)                                           \
    MATMUL_BY_ORDER(dmma_tma_enqueue, dmma_tma_shape<M, N, WARP_M, WARP_N>),
    static const enqueue kernels[][2][2] = {DMMA_TMA_WAYS(ENQUEUE)};
#undef ENQUEUE
    const dmma_tma_plan &plan = *GOP_OWN(const dmma_tma_plan, task->plan);
    const dmma_tma_tiling &tiling = dmma_tma_tilings[plan.job.way];
    const gop_gemm &of = task->geometry.gemm;
    matmul_product<double> p;
    GOP_TRY(dmma_product(ctx, task, step, matmul_whole(of), plan.pairs, &p));
    dmma_tma_work w = {};
    w.p = straight_product_of(p);
    w.job = plan.job;
    dmma_tma_job &job = w.job;
    job.first = (int)step * plan.chunk;
    job.last = job.items - job.first < plan.chunk ? job.items : job.first + plan.chunk;
    job.parts = (double *)task->scratch;
    straight_copies copies = {};
    GOP_TRY(dmma_tma_operand(task, plan, false, tiling.m, w.p.a, &copies, &w.a));
    GOP_TRY(dmma_tma_operand(task, plan, true, tiling.n, w.p.b, &copies, &w.b));
    /* The copies and the kernel become one graph, or the kernel and what adds its parts. */
    if (copies.count && step == 0)
        GOP_TRY(
            straighten<double>(ctx, copies, dmma_geometry(task, plan.pairs), job.slices == 1));
    GOP_TRY(kernels[job.way][!plan.a.transposed][!plan.b.transposed](ctx, w));
    if (job.slices == 1 || job.last < job.items) return GOP_OK;
    return GOP_LAUNCH_EARLY(ctx, matmul_dmma_tma_parts_kernel,
                            (unsigned)((job.tiles - job.whole) * (tiling.m / DMMA_TMA_ROWS)),
                            tiling.n, 0, w, tiling.m, tiling.n);
}

#endif

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
    if (task->in[0].dtype == GOP_COMPLEX128 && of_itself(task->call))
        return gop_fail(GOP_REFUSED,
                        "%s takes complex arrays that are not each other's transpose, whose "
                        "product is symmetric",
                        who);
    if (task->in[0].dtype == GOP_COMPLEX128 && of.n > 1 && of.out_col != 1)
        return gop_fail(GOP_REFUSED,
                        "%s takes complex numbers whose results lie side by side in a row",
                        who);
    dmma_tma_plan *const p = GOP_OWN(dmma_tma_plan, plan);
    *p = {};
    dmma_plan_pairs(task, 0, &p->pairs);
    const gop_gemm g = dmma_geometry(task, p->pairs);
    (dmma_tma_operands &)*p = dmma_tma_operands_of(task, g, p->pairs);
    const int64_t apart = uniform_batch(g, g.out);
    if (apart < 0)
        return gop_fail(GOP_REFUSED, "%s takes batches whose results lie at equal distances",
                        who);
    dmma_tma_job &job = p->job;
    const double seconds = dmma_tma_choose(ctx, task, &job);
    if (isinf(seconds))
        return gop_fail(GOP_REFUSED,
                        "%s takes up to 10^9 tiles, got (%lld, %lld, %lld) outputs", who,
                        (long long)g.batches, (long long)g.m, (long long)g.n);
    job.a_batch = p->a.batches > 1, job.b_batch = p->b.batches > 1;
    job.pairs = g.out_col == 1 && g.n % 2 == 0 && g.out_row % 2 == 0 && apart % 2 == 0 &&
                (uintptr_t)task->out[0].data % 16 == 0;
    enum { STEP = 20000 }; /* stages of a step, some 20 ms */
    const int64_t waves = 1 + STEP / job.stages;
    const int64_t chunk = waves * ctx->info.processors;
    p->chunk = chunk < job.items ? (int)chunk : job.items > 0 ? job.items : 1;
    plan->steps = blocks_for(job.items, p->chunk);
    const dmma_tma_tiling &tiling = dmma_tma_tilings[job.way];
    const size_t outputs = (size_t)(tiling.m * tiling.n);
    const size_t parts = (size_t)(job.items - job.whole) * outputs * 8;
    p->a_copy = (dmma_plan_pairs(task, parts, &p->pairs) + 255) / 256 * 256;
    p->b_copy = p->a_copy + straight_bytes(p->a);
    plan->scratch = p->b_copy + straight_bytes(p->b);
    plan->launch = GOP_NATIVE_LAUNCH(matmul_dmma_tma);
    return GOP_OK;
}

extern const gop_row matmul_dmma_tma_row = {
    .name = "dmma_tma",
    .note = "float64 tiles arrive by TMA, and no warp waits for another; the sums "
            "of the last turn are cut",
    .role = GOP_CONFORMING,
    .plan = matmul_dmma_tma_plan,
    GOP_NATIVE_DTYPES(1u << GOP_FLOAT64 | 1u << GOP_COMPLEX128),
    .before = "mapped",
};
