/*
 * tf32_sm90.cu - matmul of float32 whose factors the tensor cores take with 11 bits (TF32).
 *
 * wgmma takes 4-byte factors from shared memory only where they lie along
 * their terms, as rows of a do and rows of b do not. It takes one operand from registers, so
 * that is b, and the product is computed transposed: 64 columns of b by 256 rows of a an
 * instruction. Lanes read b's tile as TMA stored it; which of the 64 columns a lane has is
 * free, and chosen without bank conflicts. TMA rounds what it fetches, to nearest.
 */
#include "cuda/matmul/bf16x3_parts.h"
#include "cuda/matmul/gemm_sm90.h"
#include "cuda/matmul/straight.h"

/* A block has 256 lines of the operand that is multiplied from shared memory, the wide one, and
 * 128 of the other; of the wide one each block of a cluster fetches half for both. */
enum {
    TF32_WIDE = 256,
    TF32_OTHER = 128,
    TF32_CLUSTER = 2,
    TF32_TERMS = 32, /* of a slot, 128 bytes */
    TF32_WIDE_BYTES = TF32_WIDE * 128,
    TF32_SLOT = TF32_WIDE_BYTES + TF32_OTHER * 128,
    TF32_SLOTS = 4,
    TF32_PITCH = 40, /* of 32 results of a line on their way out, without bank conflicts */
    TF32_RESULTS = 16 * TF32_PITCH,        /* of a warp */
    TF32_LINE = TF32_OTHER * TF32_CLUSTER, /* of a cluster's results */
    TF32_PARTIAL = TF32_WIDE * TF32_LINE,
};

struct tf32_work {
    gop_cuda_tensor_map wide, other;
    matmul_geometry g; /* its a is wide */
    float *out, *partials;
    int wide_batch, other_batch; /* whether the operand differs from product to product */
    int together;                /* results that are neighbours may be written as one */
    tile_schedule schedule;      /* a stage is a pair of slots, across: of clusters */
    int first, last;             /* of its items */
};

struct tf32_plan {
    straight_operand wide, other;
    gop_gemm g;
    tile_schedule schedule;
    size_t other_copy, partials; /* offsets into scratch */
    int swapped;                 /* b is the wide one */
    int per_step;
};

#if GOP_SM90

enum { TF32_COPIED = 32 }; /* lines and terms of a tile that a block copies */

static __global__ void __launch_bounds__(256)
    matmul_tf32_copy_kernel(const straight_operand o, const matmul_geometry g, bool is_b,
                            const float *from, float *to)
{
    __shared__ float tile[TF32_COPIED][TF32_COPIED + 1];
    const int x = threadIdx.x % TF32_COPIED, y = threadIdx.x / TF32_COPIED;
    const int64_t across = (o.inner + TF32_COPIED - 1) / TF32_COPIED;
    const int64_t tiles = (o.outer + TF32_COPIED - 1) / TF32_COPIED * across;
    const bool by_lines = llabs(o.from_outer) < llabs(o.from_inner);
    for (int64_t at = blockIdx.x; at < tiles * o.batches; at += gridDim.x) {
        const matmul_offsets of = matmul_batch(g, at / tiles);
        const float *const product = from + (o.batches == 1 ? 0 : is_b ? of.b : of.a);
        const int64_t line = at % tiles / across * TF32_COPIED;
        const int64_t term = at % across * TF32_COPIED;
        __syncthreads();
#pragma unroll
        for (int e = 0; e < TF32_COPIED; e += 8) {
            const int i = by_lines ? x : y + e, l = by_lines ? y + e : x;
            if (line + i < o.outer && term + l < o.inner)
                tile[i][l] = product[(line + i) * o.from_outer + (term + l) * o.from_inner];
        }
        __syncthreads();
#pragma unroll
        for (int e = 0; e < TF32_COPIED; e += 8)
            if (line + y + e < o.outer && term + x < o.inner)
                to[at / tiles * o.batch + (line + y + e) * o.line + term + x] = tile[y + e][x];
    }
}

static gop_status tf32_copy(gop_ctx *ctx, const straight_operand &o, const gop_gemm &g,
                            bool is_b, const void *from, void *to)
{
    const int64_t tiles =
        (o.inner + TF32_COPIED - 1) / TF32_COPIED * ((o.outer + TF32_COPIED - 1) / TF32_COPIED);
    return GOP_LAUNCH(ctx, matmul_tf32_copy_kernel, (unsigned)blocks_for(tiles * o.batches, 1),
                      256, 0, o, matmul_geometry_of(g), is_b, (const float *)from, (float *)to);
}

/* A pair of slots is multiplied at once; behind them results on their way out. */
typedef gemm_ring<TF32_SLOTS, TF32_SLOT, 8 * TF32_RESULTS * 4, 2> tf32_ring;
typedef persistent_tiles<TF32_WIDE, TF32_LINE, TF32_CLUSTER> tf32_tiles;

/* One thread keeps the ring full. */
template <bool ALONG> GOP_DEVICE void tf32_fetch(const tf32_work &w, const tf32_ring &ring,
                                                 const tf32_tiles &tiles, int rank)
{
    producer_mainloop(ring, tiles, [&](const tile_item &tile) {
        const int zw = w.wide_batch ? tile.batch : 0, zo = w.other_batch ? tile.batch : 0;
        const int half = TF32_WIDE / TF32_CLUSTER, n = tile.j0 + rank * TF32_OTHER;
        return [=, &w](int k, uint8_t *wide, uint64_t *full) {
            const int l = k * TF32_TERMS;
            uint8_t *const other = wide + TF32_WIDE_BYTES;
            mbarrier_arrive_expect_tx(full, TF32_SLOT);
            tma_load(wide + rank * half * 128, &w.wide, l, tile.i0 + rank * half, zw, full,
                     (1 << TF32_CLUSTER) - 1);
            if (ALONG) {
                tma_load(other, &w.other, l, n, zo, full, 1);
            } else {
#pragma unroll
                for (int c = 0; c < TF32_OTHER / 32; c++)
                    tma_load(other + c * TF32_TERMS * 128, &w.other, n + c * 32, l, zo, full,
                             1);
            }
        };
    });
}

/* Which lines of the other operand a lane has, and where in a slot they begin: two neighbours,
 * the second one first if `flipped`. */
struct tf32_lane {
    int line; /* the lesser of the two, of the block's 128 */
    bool flipped;
    uint32_t first, second;
};

/* ALONG, a slot has lines of 32 terms: of eight lanes that read a term each has another
 * remainder of its line by 8. Else it has terms of 32 lines, four times: 16 lanes read four
 * chunks of 16 bytes of each of four terms, all in different banks. */
template <bool ALONG> GOP_DEVICE tf32_lane tf32_lane_of(int thread)
{
    const int warp = thread / 32, g = thread % 32 / 4, q = thread % 4;
    tf32_lane at;
    if (ALONG) {
        at.line = warp * 16 + 2 * g;
        at.flipped = g >= 4;
        const int one = at.line + at.flipped, two = at.line + !at.flipped;
        at.first = one * 128 + one % 8 * 16 + q * 4;
        at.second = two * 128 + two % 8 * 16 + q * 4;
    } else {
        const int chunk = g / 2 % 2 * 4 + warp % 2 * 2 + g / 4;
        at.line = warp / 2 * 32 + chunk * 4 + g % 2 * 2;
        at.flipped = false;
        at.first = warp / 2 * TF32_TERMS * 128 + q * 128 + (chunk ^ q) * 16 + g % 2 * 8;
        at.second = (at.first ^ 64) + 4 * 128;
    }
    return at;
}

/* A lane's factors of a slot, four for each instruction. */
template <bool ALONG>
GOP_DEVICE void tf32_take(uint32_t (&x)[16], const uint8_t *other, const tf32_lane &at)
{
#pragma unroll
    for (int l = 0; l < 4; l++) {
        uint2 near, far; /* terms q and q + 4 */
        if (ALONG) {
            near.x = *(const uint32_t *)(other + (at.first ^ (2 * l * 16)));
            near.y = *(const uint32_t *)(other + (at.second ^ (2 * l * 16)));
            far.x = *(const uint32_t *)(other + (at.first ^ ((2 * l + 1) * 16)));
            far.y = *(const uint32_t *)(other + (at.second ^ ((2 * l + 1) * 16)));
        } else {
            near = *(const uint2 *)(other + at.first + l * 8 * 128);
            far = *(const uint2 *)(other + at.second + l * 8 * 128);
        }
        x[4 * l] = near.x, x[4 * l + 1] = near.y, x[4 * l + 2] = far.x, x[4 * l + 3] = far.y;
    }
}

/* Writes a thread's part of a warpgroup's 64 x 256 results: two neighbouring lines of the other
 * operand by lines 8 j + 2 q and the next of the wide one, in sum[4 j ...]. `to` is the place
 * of the first. PAIRS: both lines' are neighbours in memory and inside. */
template <bool PAIRS> GOP_DEVICE void put_along(const float (&sum)[128], float *to, int64_t row,
                                                int64_t col, bool flipped, int64_t rows,
                                                int64_t columns)
{
#pragma unroll
    for (int j = 0; j < 32; j++, to += 8 * row)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float one = flipped ? sum[4 * j + 2 + e] : sum[4 * j + e];
            const float two = flipped ? sum[4 * j + e] : sum[4 * j + 2 + e];
            if (PAIRS) *(float2 *)(to + e * row) = make_float2(one, two);
            if (PAIRS || j * 8 + e >= rows) continue;
            if (0 < columns) to[e * row] = one;
            if (1 < columns) to[e * row + col] = two;
        }
}

/* The same where those of a line are neighbours, as lines of 128 bytes by way of `results`.
 * `to` is the place of the warpgroup's first. */
GOP_DEVICE void put_down(const float (&sum)[128], float *results, float *to, int64_t col,
                         const tf32_lane &at)
{
    const int lane = threadIdx.x % 32, first = at.line + at.flipped,
              second = at.line + !at.flipped;
    const int own = lane / 4 * TF32_PITCH + lane % 4 * 2;
#pragma unroll
    for (int part = 0; part < 8; part++, to += 32) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float *const from = sum + 16 * part + 4 * j;
            *(float2 *)(results + own + 8 * j) = make_float2(from[0], from[1]);
            *(float2 *)(results + own + 8 * TF32_PITCH + 8 * j) = make_float2(from[2], from[3]);
        }
        __syncwarp();
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int line =
                __shfl_sync(~0u, e < 2 ? first : second, e % 2 * 16 + lane / 8 * 4);
            *(float4 *)(to + line * col + lane % 8 * 4) =
                *(const float4 *)(results + (e * 4 + lane / 8) * TF32_PITCH + lane % 8 * 4);
        }
        __syncwarp();
    }
}

/* Writes whole sums to `out`, partial ones to scratch, laid out as out. */
GOP_DEVICE void tf32_write(const tf32_work &w, const float (&sum)[128], float *results,
                           const tile_item &i, int rank, const tf32_lane &at)
{
    const bool along = w.g.out_col == 1;
    const int q = threadIdx.x % 4 * 2;
    if (i.part >= 0) {
        const int side = rank * TF32_OTHER;
        float *const to = w.partials + (int64_t)i.part * TF32_PARTIAL;
        if (along)
            put_along<true>(sum, to + q * TF32_LINE + side + at.line, TF32_LINE, 1, at.flipped,
                            0, 0);
        else put_down(sum, results, to + side * TF32_WIDE, TF32_WIDE, at);
        return;
    }
    const int64_t m = i.i0, n = i.j0 + rank * TF32_OTHER;
    const int64_t row = w.g.out_row, col = w.g.out_col;
    float *const to = w.out + matmul_batch(w.g, i.batch).out + m * row + n * col;
    float *const own = to + q * row + at.line * col;
    if (!w.together || m + TF32_WIDE > w.g.m || n + TF32_OTHER > w.g.n)
        put_along<false>(sum, own, row, col, at.flipped, w.g.m - m - q, w.g.n - n - at.line);
    else if (along) put_along<true>(sum, own, row, 1, at.flipped, 0, 0);
    else put_down(sum, results, to, col, at);
}

template <bool ALONG> GOP_DEVICE void tf32_multiply(const tf32_work &w, const tf32_ring &ring,
                                                    const tf32_tiles &tiles, int rank)
{
    const int group = threadIdx.x / GROUP_THREADS - 1, lane = threadIdx.x % 32;
    tf32_lane at = tf32_lane_of<ALONG>(threadIdx.x % GROUP_THREADS);
    at.line += group * 64;
    at.first += group * 64 * 128, at.second += group * 64 * 128;
    float *const results = (float *)ring.own + (threadIdx.x / 32 - 4) * TF32_RESULTS;
    const uint64_t wide = make_smem_desc(shared_address(ring.stages), 16, 1024, 1);
    int slot = 0, before = 0;
    uint32_t parity = 0;
    for (int it = tiles.first; it < tiles.last; it += tiles.step) {
        const tile_item i = tiles.at(it);
        float sum[128];
        uint32_t factors[2][16]; /* one is filled while the other is multiplied */
        for (int pair = i.first; pair < i.last; pair++) {
#pragma unroll
            for (int s = 0; s < 2; s++) {
                const bool begun = pair > i.first || s > 0;
                mbarrier_wait(ring.full + slot, parity);
                tf32_take<ALONG>(factors[s], ring.stages + slot * TF32_SLOT + TF32_WIDE_BYTES,
                                 at);
                wgmma_fence();
#pragma unroll
                for (int l = 0; l < 4; l++)
                    wgmma_add_tf32(sum, factors[s] + 4 * l,
                                   wide + (slot * TF32_SLOT + l * 32) / 16, begun || l > 0);
                wgmma_commit();
                wgmma_wait<1>();
                wgmma_hold(factors[1 - s]);
                if (begun && lane < TF32_CLUSTER)
                    mbarrier_arrive_cluster(ring.empty + before, lane);
                before = slot;
                pipeline_advance<TF32_SLOTS>(slot, parity);
            }
        }
        wgmma_wait();
        wgmma_hold(factors[1]);
        if (lane < TF32_CLUSTER) mbarrier_arrive_cluster(ring.empty + before, lane);
        tf32_write(w, sum, results, i, rank, at);
    }
}

template <bool ALONG> __global__ void GOP_CLUSTERS __launch_bounds__(BLOCK_THREADS, 1)
    matmul_tf32_kernel(const __grid_constant__ tf32_work w)
{
    const tf32_ring ring;
    const int rank = cluster_rank();
    const tf32_tiles tiles(w.schedule, w.first, w.last);
    if (threadIdx.x == 0) ring.init(1, 8 * TF32_CLUSTER); /* consumer warps */
    cluster_sync();
    gemm_specialise(
        [&] {
            if (threadIdx.x == 0) tf32_fetch<ALONG>(w, ring, tiles, rank);
            __syncwarp();
        },
        [&] { tf32_multiply<ALONG>(w, ring, tiles, rank); });
    cluster_sync(); /* the other block may still write to this one */
}

/* Adds the partial sums, first to last; a thread has four neighbours. */
__global__ void __launch_bounds__(256)
    matmul_tf32_partials_kernel(const __grid_constant__ tf32_work w)
{
    static_assert((int)TF32_WIDE == (int)TF32_LINE, "partials are square");
    const tile_item i =
        tile_item_of<TF32_WIDE, TF32_LINE>(w.schedule, w.schedule.whole + blockIdx.x);
    const bool along = w.g.out_col == 1;
    const int at = (blockIdx.y * 256 + threadIdx.x) * 4;
    const int slow = at / TF32_LINE, fast = at % TF32_LINE;
    const float *const from = w.partials + (int64_t)blockIdx.x * TF32_PARTIAL + at;
    const float4 sum = sum_of_parts((const float4 *)from, (int64_t)gridDim.x * TF32_PARTIAL / 4,
                                    w.schedule.slices);
    const int64_t m = i.i0 + (int64_t)(along ? slow : fast);
    const int64_t n = i.j0 + (int64_t)(along ? fast : slow);
    const int64_t step = along ? 1 : w.g.out_row;
    const int64_t left = (m < w.g.m && n < w.g.n) ? (along ? w.g.n - n : w.g.m - m) : 0;
    float *const to =
        w.out + matmul_batch(w.g, i.batch).out + m * w.g.out_row + n * w.g.out_col;
    const float each[] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (e < left) to[e * step] = each[e];
}

static gop_status matmul_tf32(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const tf32_plan &plan = *GOP_OWN(const tf32_plan, task->plan);
    const tile_schedule &t = plan.schedule;
    const gop_gemm &g = plan.g;
    char *const scratch = (char *)task->scratch;
    const void *wide = task->in[plan.swapped].data, *other = task->in[1 - plan.swapped].data;
    if (plan.wide.copied) {
        if (step == 0) GOP_TRY(tf32_copy(ctx, plan.wide, g, false, wide, scratch));
        wide = scratch;
    }
    if (plan.other.copied) {
        if (step == 0)
            GOP_TRY(tf32_copy(ctx, plan.other, g, true, other, scratch + plan.other_copy));
        other = scratch + plan.other_copy;
    }
    tf32_work w = {};
    w.g = matmul_geometry_of(g);
    w.out = (float *)task->out[0].data;
    w.partials = (float *)(scratch + plan.partials);
    w.wide_batch = plan.wide.batches > 1, w.other_batch = plan.other.batches > 1;
    const int64_t line = g.out_col == 1 ? g.out_row : g.out_col, fit = g.out_col == 1 ? 2 : 4;
    w.together = (g.out_col == 1 || g.out_row == 1) && line % fit == 0 &&
                 (uintptr_t)w.out % (size_t)(4 * fit) == 0;
    for (int axis = 0; axis < g.batch_rank; axis++) w.together &= g.out[axis] % fit == 0;
    w.schedule = t;
    w.first = (int)step * plan.per_step;
    w.last = t.items - w.first < plan.per_step ? t.items : w.first + plan.per_step;
    GOP_TRY(straight_map(&w.wide, plan.wide, wide, TF32_WIDE / TF32_CLUSTER));
    GOP_TRY(straight_map(&w.other, plan.other, other,
                         plan.other.transposed ? TF32_TERMS : TF32_OTHER));
    const gop_cuda_grid grid =
        cluster_grid(w.last - w.first, ctx->info.processors, TF32_CLUSTER);
    GOP_TRY(plan.other.transposed ? GOP_LAUNCH(ctx, matmul_tf32_kernel<false>, grid,
                                               BLOCK_THREADS, tf32_ring::SHARED, w)
                                  : GOP_LAUNCH(ctx, matmul_tf32_kernel<true>, grid,
                                               BLOCK_THREADS, tf32_ring::SHARED, w));
    const int rest = t.tiles - t.whole;
    if (rest == 0 || w.last < t.items) return GOP_OK;
    return GOP_LAUNCH(ctx, matmul_tf32_partials_kernel,
                      dim3((unsigned)rest, TF32_PARTIAL / 1024), 256, 0, w);
}

#endif

/* The operand as it lies, if a tensor map can describe it and its terms are contiguous where
 * they must be (`along`); else a copy that is laid out so. */
static straight_operand tf32_operand(const gop_gemm &g, const int64_t *batch, const void *data,
                                     int64_t lines, int64_t from_line, int64_t from_term,
                                     bool along)
{
    straight_operand o = straight_operand_of(g, batch, data, lines, from_line, from_term, 4);
    o.rounded = true;
    if (!o.copied && !(along && o.transposed)) return o;
    o.copied = true, o.transposed = false;
    o.inner = g.k, o.outer = lines;
    o.from_inner = from_term, o.from_outer = from_line;
    o.line = (g.k + 3) / 4 * 4;
    o.batch = o.line * lines;
    return o;
}

/* Fills in the operands of these roles; returns how many lines have to be copied. */
static double tf32_operands(const gop_gemm &g, const void *a, const void *b, tf32_plan *p)
{
    p->g = g;
    p->wide = tf32_operand(g, g.a, a, g.m, g.a_row, g.a_col, true);
    p->other = tf32_operand(g, g.b, b, g.n, g.b_col, g.b_row, false);
    return (p->wide.copied ? (double)g.m : 0) + (p->other.copied ? (double)g.n : 0);
}

/* ---- tiles ---- */

/* How many partial sums those of the last wave are cut into: what takes the least time, in
 * pairs of slots. `alike`: all sums are cut, or none, so that two sums with swapped factors
 * stay equal. */
static void tf32_choose_schedule(const gop_ctx *ctx, const gop_gemm &g, bool alike,
                                 tile_schedule *best)
{
    enum { AROUND = 3, ADDING = 4 }; /* a tile's start and end; the launch that adds */
    const double partial = 0.1;      /* written and read once more */
    const int slots = ctx->info.processors / TF32_CLUSTER;
    double least = 0;
    for (int split = 1; split <= MOST_SLICES && (split == 1 || 64 * split <= g.k); split++) {
        const tile_schedule t =
            tile_schedule_of(blocks_for(g.m, TF32_WIDE), blocks_for(g.n, TF32_LINE), g.batches,
                             8, blocks_for(g.k, 2 * TF32_TERMS), slots, split);
        const int parts = t.items - t.whole;
        const double time =
            tile_waves(t, 1, slots, 1, AROUND) + (parts ? ADDING + parts * partial : 0);
        if (alike && t.whole > 0 && t.whole < t.tiles) continue;
        if (split == 1 || time < least) least = time, *best = t;
    }
}

static gop_status matmul_tf32_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    GOP_TRY(gop_has_wgmma(ctx, "matmul: kernel 'tf32'"));
    enum { MOST_TERMS = 65536 }; /* more lose more by truncation than by their factors */
    const gop_gemm &g = task->geometry.gemm;
    plan->precision = GOP_TF32;
    if (task->call->params.matmul.precision < GOP_TF32)
        return GOP_OK; /* refused because of the precision */
    GOP_TRY(matmul_takes_batch(g, "tf32"));
    const double tiles = (double)((g.m + 127) / 128) * (double)((g.n + 127) / 128);
    if (g.k < 32 || g.k > MOST_TERMS || g.m > INT32_MAX / 2 || g.n > INT32_MAX / 2 ||
        tiles * (double)g.batches > 1e8)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'tf32' takes sums of 32 to %d terms and at most 10^8 "
                        "tiles of 128 x 128 results, got %lld of (%lld, %lld) of %lld terms",
                        MOST_TERMS, (long long)g.batches, (long long)g.m, (long long)g.n,
                        (long long)g.k);
    tf32_plan *const p = GOP_OWN(tf32_plan, plan);
    tf32_plan exchanged = {};
    *p = {};
    exchanged.swapped = 1;
    const void *const a = task->in[0].data, *const b = task->in[1].data;
    const double copied = tf32_operands(g, a, b, p);
    if (tf32_operands(matmul_swapped(g), b, a, &exchanged) < copied) *p = exchanged;
    tile_schedule &t = p->schedule;
    tf32_choose_schedule(ctx, p->g, of_itself(task->call), &t);
    p->other_copy = straight_bytes(p->wide);
    p->partials = p->other_copy + straight_bytes(p->other);
    plan->scratch = p->partials + (size_t)(t.items - t.whole) * TF32_PARTIAL * sizeof(float);
    /* Some 50 ms a step. */
    const double fit = 1.5e13 / (2.0 * TF32_PARTIAL * (double)g.k);
    p->per_step = fit < 1 ? 1 : fit < (double)t.items ? (int)fit : t.items;
    plan->steps = (t.items + p->per_step - 1) / p->per_step;
    plan->launch = GOP_NATIVE_LAUNCH(matmul_tf32);
    return GOP_OK;
}

extern const gop_row matmul_tf32_row = {
    .name = "tf32",
    .note = "factors of 11 bits on tensor cores, one operand from shared memory, the other by "
            "way of registers, so that rows of b need no transposing",
    .role = GOP_CONFORMING,
    .plan = matmul_tf32_plan,
    GOP_NATIVE_DTYPES(1u << GOP_FLOAT32),
    .before = "rounded",
};
