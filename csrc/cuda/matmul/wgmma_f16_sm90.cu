/*
 * wgmma_f16_sm90.cu - matmul of float16 and bfloat16 by the tensor cores, operands by tensor
 * maps.
 *
 * TMA fetches tiles of 64 terms into a ring in shared memory; two warpgroups multiply from
 * there without a load of a thread. Both have 64 rows, or 128, of the same tile; or each has a
 * ring and tiles of its own, and one stores while the other multiplies. A sum stays in the
 * tensor cores' registers from its first term to its last. Shared memory bounds the kernel,
 * from which each instruction reads 64 rows and all columns: the wider, the better. Where few
 * rows meet many columns, the transposed product is computed, whose tiles they fill.
 */
#include "cuda/matmul/wgmma_f16.h"
#include "cuda/common/cvt.h"
#include "cuda/common/pipeline.h"
#include "cuda/common/cluster.h"
#include "cuda/common/wgmma.h"
#include "cuda/matmul/straight_copies.h"

/* The plan: tiles, partial sums, and where copied operands lie. */
struct wgmma_f16_plan {
    straight_operand a, b, out;
    size_t b_copy, partials; /* offsets into scratch */
    matmul_schedule schedule;
    int per_step, store;
};

#if GOP_SM90

template <typename T> constexpr bool IS_HALF = false;
template <> constexpr bool IS_HALF<float16> = true;

/* Where a block is in its cluster, and what of its slots the others fetch. */
struct cluster_place {
    int rank, below, beside; /* its row and column in the cluster */
    int with_a, with_b;      /* bits of the blocks with the same rows, the same columns */

    GOP_DEVICE cluster_place(const matmul_schedule &t, bool shares)
    {
        rank = t.cluster > 1 ? cluster_rank() : 0;
        below = beside = 0;
        with_a = with_b = 1 << rank;
        if (shares) return;
        below = rank / t.beside, beside = rank % t.beside;
        with_a = ((1 << t.beside) - 1) << below * t.beside;
        with_b = 0;
        for (int i = 0; i < t.below; i++) with_b |= 1 << (i * t.beside + beside);
    }
};

/* A block's tile of an item: the first row and column, and its stages. Blocks that share a tile
 * have its parts. */
template <typename R>
GOP_DEVICE tile_item tile_of(const wgmma_f16_work &w, const cluster_place &at, int it)
{
    const matmul_schedule &t = w.schedule;
    tile_item i = tile_item_of<1, 1>(t, R::SHARES ? at.rank * t.tiles + it : it);
    if (R::SHARES) { /* one tile below and beside */
        i.i0 *= R::ROWS, i.j0 *= R::COLUMNS;
        return i;
    }
    i.i0 = (i.i0 * t.below + at.below) * R::ROWS;
    i.j0 = (i.j0 * t.beside + at.beside) * R::COLUMNS;
    return i;
}

/* The first item of a ring: blocks go on by as many items as there are clusters and rings. */
GOP_DEVICE int first_item(const wgmma_f16_work &w, int ring)
{
    return w.first + (int)(blockIdx.x + ring * gridDim.x) / w.schedule.cluster;
}

/* One thread keeps a ring full. Of rows that blocks share each fetches a part for all; of
 * transposed ones, of each box of 64, a part of the terms. */
template <typename R, bool A_TRANSPOSED, bool B_TRANSPOSED>
GOP_DEVICE void fetch_tiles(const wgmma_f16_work &w, const cluster_place at, int ring,
                            uint8_t *slots, uint64_t *full, uint64_t *empty)
{
    enum { B_SENT = B_TRANSPOSED ? +R::B_BYTES : R::COLUMNS * TILE_K * 2 };
    const matmul_schedule &t = w.schedule;
    const int clusters = (int)gridDim.x / t.cluster;
    const int below = R::SHARES ? 1 : t.below, beside = R::SHARES ? 1 : t.beside;
    const int a_part = (A_TRANSPOSED ? TILE_K : R::ROWS) / beside * at.beside;
    const int b_part = (B_TRANSPOSED ? TILE_K : R::COLUMNS) / below * at.below;
    const int with_a = beside > 1 ? at.with_a : 1, with_b = below > 1 ? at.with_b : 1;
    int slot = 0;
    uint32_t parity = 1; /* at first all slots are free */
    for (int it = first_item(w, ring); it < w.last; it += R::RINGS * clusters) {
        const tile_item i = tile_of<R>(w, at, it);
        const int za = w.a_batch ? i.batch : 0, zb = w.b_batch ? i.batch : 0;
        for (int s = i.first; s < i.last; s++) {
            const int l = s * TILE_K;
            uint8_t *const a = slots + slot * R::SLOT + a_part * 128;
            uint8_t *const b = slots + slot * R::SLOT + R::A_BYTES + b_part * 128;
            mbarrier_wait(empty + slot, parity);
            mbarrier_arrive_expect_tx(full + slot, R::A_BYTES + B_SENT);
            if (A_TRANSPOSED)
                for (int c = 0; c < R::ROWS / 64; c++)
                    tma_load(a + c * TILE_K * 128, &w.a, i.i0 + c * 64, l + a_part, za,
                             full + slot, with_a);
            else tma_load(a, &w.a, l, i.i0 + a_part, za, full + slot, with_a);
            if (B_TRANSPOSED)
                for (int c = 0; c < R::BOXES; c++)
                    tma_load(b + c * TILE_K * 128, &w.b, i.j0 + c * 64, l + b_part, zb,
                             full + slot, with_b);
            else tma_load(b, &w.b, l, i.j0 + b_part, zb, full + slot, with_b);
            pipeline_advance<R::SLOTS>(slot, parity);
        }
    }
}

/* A part of 64 x 64 results in shared memory. */
struct result_part {
    int line, lines, item, items; /* the first, and where it ends */
};

/* Its lines, a word at a time; the last of a line by itself, if it is odd. */
template <typename word, typename T> GOP_DEVICE void
store_words(T *to, const uint8_t *results, int64_t line, int64_t item, const result_part &part)
{
    enum { EACH = (int)(sizeof(word) / sizeof(T)), ACROSS = 64 / EACH };
    const int x = part.item + threadIdx.x % ACROSS * EACH;
    if (x >= part.items) return;
#pragma unroll 4
    for (int y = part.line + threadIdx.x % GROUP_THREADS / ACROSS; y < part.lines;
         y += GROUP_THREADS / ACROSS) {
        const uint8_t *const from = results + y * 128 + (x / 8 ^ y % 8) * 16 + x % 8 * 2;
        T *const here = to + y * line + x * item;
        if (x + EACH <= part.items) *(word *)here = *(const word *)from;
        else *here = *(const T *)from;
    }
}

/* The first sum of 64 columns: of 144 the last 48 leave twice. */
template <int SUMS> GOP_DEVICE constexpr int chunk_start(int chunk)
{
    return 32 * chunk + 32 > SUMS ? SUMS - 32 : 32 * chunk;
}

/* 16 of 64 columns of 64 rows of results into shared memory, as lines that are neighbours in
 * memory: j is twice which. */
template <typename T>
GOP_DEVICE void stage_columns(uint8_t *to, const float *sum, int j, bool transposed)
{
    const int thread = threadIdx.x % GROUP_THREADS, lane = thread % 32, warp = thread / 32;
    const int second = lane / 16;
    uint32_t q[4];
#pragma unroll
    for (int e = 0; e < 4; e++) q[e] = cvt_rn_two(sum[2 * e], sum[2 * e + 1], T{});
    if (transposed) {
        const int y = (j + second) * 8 + lane % 8, x = warp * 2 + lane / 8 % 2;
        stmatrix_trans(to + y * 128 + (x ^ y % 8) * 16, q);
    } else {
        const int y = warp * 16 + lane % 16, x = j + second;
        stmatrix(to + y * 128 + (x ^ y % 8) * 16, q);
    }
}

/* All columns from `first` to `last` of 64 x 64 results, whose first row is m and column n. */
template <typename T> GOP_DEVICE void store_columns(const wgmma_f16_work &w,
                                                    const uint8_t *from, int m, int n,
                                                    int batch, int first, int last)
{
    const int rows = (int)(w.m - m < 64 ? w.m - m : 64);
    const int columns = (int)(w.n - n < last ? w.n - n : last);
    T *const out = (T *)w.results + batch * w.out_batch + m * w.out_row + n * w.out_col;
    const int64_t line = w.transposed ? w.out_col : w.out_row;
    const int64_t item = w.transposed ? w.out_row : w.out_col;
    const result_part part = w.transposed ? result_part{first, columns, 0, rows}
                                          : result_part{0, rows, first, columns};
    if (w.store == 8) store_words<uint4>(out, from, line, item, part);
    else if (w.store == 2) store_words<uint32_t>(out, from, line, item, part);
    else store_words<uint16_t>(out, from, line, item, part);
}

/* 64 x 64 results from there to row m and column n. */
template <typename T> GOP_DEVICE void
store_results(const wgmma_f16_work &w, const uint8_t *from, int m, int n, int batch)
{
    if (w.store != 8) store_columns<T>(w, from, m, n, batch, 0, 64);
    else if (threadIdx.x % GROUP_THREADS == 0)
        tma_store(&w.out, w.transposed ? m : n, w.transposed ? n : m, batch, from);
}

/* Of 64 x COLUMNS results a thread has columns 8 j + 2 (lane % 4) and the next, of rows 16 warp
 * + lane / 4 and eight below, in sum[4 j ...]. They leave by way of `results`, which has two
 * chunks of 64 columns; of 64 columns one tile's are written while the next's fill the other
 * half. */
template <typename T, int SUMS>
GOP_DEVICE void write_tile(const wgmma_f16_work &w, const float (&sum)[SUMS], uint8_t *results,
                           int &half, int m, int n, int batch)
{
    enum { CHUNKS = (SUMS + 31) / 32 };
    const int thread = threadIdx.x % GROUP_THREADS, group = (int)threadIdx.x / GROUP_THREADS;
    if (CHUNKS == 1) results += half * CHUNK, half ^= 1;
#pragma unroll
    for (int first = 0; first < CHUNKS; first += 2) {
        if (w.store == 8 && thread == 0) tma_store_wait_read<CHUNKS == 1>();
        group_wait(group);
#pragma unroll
        for (int c = first; c < CHUNKS && c < first + 2; c++)
#pragma unroll
            for (int j = 0; j < 8; j += 2)
                stage_columns<T>(results + c % 2 * CHUNK, sum + chunk_start<SUMS>(c) + 4 * j, j,
                                 w.transposed);
        if (w.store == 8) fence_proxy_async();
        group_wait(group);
#pragma unroll
        for (int c = first; c < CHUNKS && c < first + 2; c++)
            store_results<T>(w, results + c % 2 * CHUNK, m, n + 2 * chunk_start<SUMS>(c),
                             batch);
    }
}

/* Into scratch, in lines that are neighbours among the results. */
template <typename R, int SUMS> GOP_DEVICE void
write_partial(float *partial, const float (&sum)[SUMS], int row, int columns, bool transposed)
{
    const int thread = threadIdx.x % GROUP_THREADS, lane = thread % 32;
    row += thread / 32 * 16 + lane / 4;
#pragma unroll
    for (int e = 0; e < SUMS; e += 2) {
        const int i = row + e / 2 % 2 * 8, j = e / 4 * 8 + lane % 4 * 2;
        if (e / 4 * 8 >= columns) break; /* the rest does not exist */
        if (transposed) {
            partial[j * R::ROWS + i] = sum[e];
            partial[(j + 1) * R::ROWS + i] = sum[e + 1];
        } else {
            *(float2 *)(partial + i * R::COLUMNS + j) = make_float2(sum[e], sum[e + 1]);
        }
    }
}

/* Columns of a chunk of 64, 16 at a time, as the blocks of a cluster have them in `meet`: the
 * slices' sums, first to last, of `count` such columns into shared memory. */
template <typename T> GOP_DEVICE void stage_slices(uint8_t *to, const float4 *meet, int slices,
                                                   int first, int count, bool transposed)
{
    enum { EACH = 8, MOST = 4, ASKED = 4 }; /* sums of a thread in 16 columns; slices at once */
    float all[MOST][EACH] = {};
    for (int s = 0; s < slices; s += ASKED) {
        float4 more[ASKED][MOST][2] = {}; /* all loads are issued before any result is used */
#pragma unroll
        for (int k = 0; k < ASKED; k++)
#pragma unroll
            for (int j = 0; j < MOST; j++) {
                if (s + k >= slices || j >= count) continue;
                const float4 *const there = map_shared_rank(meet, s + k) + j * 2 * CONSUMERS;
                more[k][j][0] = there[0], more[k][j][1] = there[CONSUMERS];
            }
#pragma unroll
        for (int k = 0; k < ASKED; k++)
#pragma unroll
            for (int j = 0; j < MOST; j++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    all[j][4 * h] += more[k][j][h].x, all[j][4 * h + 1] += more[k][j][h].y;
                    all[j][4 * h + 2] += more[k][j][h].z, all[j][4 * h + 3] += more[k][j][h].w;
                }
    }
#pragma unroll
    for (int j = 0; j < MOST; j++)
        if (j < count) stage_columns<T>(to, all[j], 2 * (first + j), transposed);
}

/* The blocks of a cluster have a slice of the same sums each, and write a share of the columns:
 * the slices' sums meet where the ring was. All threads of the block call cluster_sync once
 * meanwhile. */
template <typename T, typename R, int WAVES, int SUMS>
GOP_DEVICE void add_slices(const wgmma_f16_work &w, int rank, const tile_item &i, int mine_from,
                           const float (&sum)[WAVES][SUMS], uint8_t *ring, uint8_t *results)
{
    enum { COUNT = SUMS / 8 }; /* 16 columns each */
    const int group = (int)threadIdx.x / GROUP_THREADS, slices = w.schedule.sharing;
    float4 *const meet = (float4 *)ring + (threadIdx.x - PRODUCERS);
    any_of<CONSUMERS>(false); /* both warpgroups have read the ring */
#pragma unroll
    for (int v = 0; v < WAVES; v++)
#pragma unroll
        for (int e = 0; e < SUMS; e += 4)
            meet[(v * SUMS + e) / 4 * CONSUMERS] =
                make_float4(sum[v][e], sum[v][e + 1], sum[v][e + 2], sum[v][e + 3]);
    cluster_sync();
    const int last = WAVES * COUNT * (rank + 1) / slices;
    for (int at = WAVES * COUNT * rank / slices, next; at < last; at = next) {
        const int v = at / COUNT, first = at % COUNT, chunk = first / 4 * 4;
        const int end = chunk + 4 < COUNT ? chunk + 4 : +COUNT; /* of the chunk */
        next = v * COUNT + end < last ? v * COUNT + end : last;
        const int count = next - at, from = first - chunk;
        stage_slices<T>(results, meet + at * 2 * CONSUMERS, slices, from, count, w.transposed);
        group_wait(group);
        const int m = i.i0 + mine_from + v * 64, n = i.j0 + chunk * 16;
        if (m < w.m && n < w.n)
            store_columns<T>(w, results, m, n, i.batch, from * 16, (from + count) * 16);
        group_wait(group);
    }
}

template <typename T, typename R, bool A_TRANSPOSED, bool B_TRANSPOSED>
GOP_DEVICE void multiply_tiles(const wgmma_f16_work &w, const cluster_place at, int group,
                               uint8_t *slots, uint8_t *results, uint64_t *full,
                               uint64_t *empty)
{
    enum { WAVES = R::WAVES, SUMS = R::COLUMNS / 2 };
    const int lane = threadIdx.x % 32, size = w.schedule.cluster;
    const int clusters = (int)gridDim.x / size;
    const bool tells = ((at.with_a | at.with_b) >> lane & 1) != 0;
    const int mine_from = R::RINGS > 1 ? 0 : group * WAVES * 64;
    /* Low words of descriptors, whose addresses count 16 bytes: a sum of 32 bits takes one
     * instruction for each operand of a product, a sum of 64 bits five. */
    const uint64_t high = make_smem_desc(0, 0, 1024, 1);
    const uint32_t a = (uint32_t)make_smem_desc(shared_address(slots) + mine_from * 128,
                                                A_TRANSPOSED ? TILE_K * 128 : 16, 0, 0);
    const uint32_t b = (uint32_t)make_smem_desc(shared_address(slots) + R::A_BYTES,
                                                B_TRANSPOSED ? TILE_K * 128 : 16, 0, 0);
    int slot = 0, before = 0, half = 0; /* of `results`, from tile to tile */
    uint32_t parity = 0;
    for (int it = first_item(w, R::RINGS > 1 ? group : 0); it < w.last;
         it += R::RINGS * clusters) {
        const tile_item i = tile_of<R>(w, at, it);
        float sum[WAVES][SUMS];
#pragma unroll
        for (int v = 0; v < WAVES; v++)
#pragma unroll
            for (int e = 0; e < SUMS; e++) sum[v][e] = 0;
        for (int s = i.first; s < i.last; s++) {
            const uint32_t from = (uint32_t)slot * (R::SLOT / 16);
            mbarrier_wait(full + slot, parity);
            wgmma_fence();
#pragma unroll
            for (int v = 0; v < WAVES; v++)
#pragma unroll
                for (int l = 0; l < TILE_K / 16; l++)
                    wgmma_add<IS_HALF<T>, A_TRANSPOSED, B_TRANSPOSED>(
                        sum[v], high | (a + from + v * 512 + l * (A_TRANSPOSED ? 128 : 2)),
                        high | (b + from + l * (B_TRANSPOSED ? 128 : 2)), 1);
            wgmma_commit();
            wgmma_wait<1>(); /* the slot before has been read */
            if (tells && s > i.first) mbarrier_arrive_cluster(empty + before, lane);
            before = slot;
            pipeline_advance<R::SLOTS>(slot, parity);
        }
        wgmma_wait<0>();
        if (tells) mbarrier_arrive_cluster(empty + before, lane);
        if constexpr (R::SHARES) {
            add_slices<T, R>(w, at.rank, i, mine_from, sum, slots, results);
        } else {
#pragma unroll
            for (int v = 0; v < WAVES; v++) {
                const int row = mine_from + v * 64, m = i.i0 + row;
                if (i.part >= 0)
                    write_partial<R>(w.partials + ((int64_t)i.part * size + at.rank) * R::ROWS *
                                                      R::COLUMNS,
                                     sum[v], row, (int)(w.n - i.j0), w.transposed);
                else if (m < w.m && i.j0 < w.n)
                    write_tile<T>(w, sum[v], results, half, m, i.j0, i.batch);
            }
        }
    }
    tma_store_wait_read<0>();
}

template <typename T, int SHAPE, bool SHARES, bool A_TRANSPOSED, bool B_TRANSPOSED>
__global__ void GOP_CLUSTERS __launch_bounds__(BLOCK_THREADS, 1)
    matmul_wgmma_f16_kernel(const __grid_constant__ wgmma_f16_work w)
{
    typedef wgmma_f16_block<SHAPE, SHARES> R;
    extern __shared__ uint8_t memory[];
    uint8_t *const slots = memory + (1024 - shared_address(memory) % 1024) % 1024;
    uint8_t *const results = slots + R::RINGS * R::SLOTS * R::SLOT;
    uint64_t *const full = (uint64_t *)(results + 2 * RESULTS);
    uint64_t *const empty = full + R::RINGS * R::SLOTS;
    const int sharers = SHARES ? 1 : w.schedule.below + w.schedule.beside - 1; /* of a load */
    const cluster_place at(w.schedule, SHARES);
    if (threadIdx.x == 0) {
        pipeline_init<R::RINGS * R::SLOTS>(full, 1, empty, 4 * R::GROUPS * sharers); /* warps */
        fence_mbarrier_release();
        fence_proxy_async();
    }
    if (sharers > 1) cluster_sync();
    else __syncthreads();
    grid_dependency_sync();
    const int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0);
    const int group = warp / 4 - 1, ring = R::RINGS == 1 ? 0 : group < 0 ? warp : group;
    uint8_t *const its = slots + ring * R::SLOTS * R::SLOT;
    if (group < 0) {
        setmaxnreg_dec<40>();
        if (warp < R::RINGS && threadIdx.x % 32 == 0)
            fetch_tiles<R, A_TRANSPOSED, B_TRANSPOSED>(w, at, ring, its, full + ring * R::SLOTS,
                                                       empty + ring * R::SLOTS);
        __syncwarp();
        if (SHARES) cluster_sync(); /* add_slices */
    } else {
        setmaxnreg_inc<232>();
        multiply_tiles<T, R, A_TRANSPOSED, B_TRANSPOSED>(
            w, at, group, its, results + group * RESULTS, full + ring * R::SLOTS,
            empty + ring * R::SLOTS);
    }
    if (SHARES || sharers > 1)
        cluster_sync(); /* other blocks may still write to this one, or read it */
}

/* Adds the partial sums, first to last: a thread has four neighbours of a line. */
template <typename T> __global__ void __launch_bounds__(256)
    matmul_wgmma_f16_partials_kernel(const __grid_constant__ wgmma_f16_work w, int rows,
                                     int columns)
{
    grid_dependency_sync();
    const int size = w.schedule.cluster, tile = blockIdx.x / size;
    const int rank = blockIdx.x % size, each = rows * columns;
    const tile_item at = tile_item_of<1, 1>(w.schedule, w.schedule.whole + tile);
    const int64_t m = (at.i0 * w.schedule.below + rank / w.schedule.beside) * rows;
    const int64_t n = (at.j0 * w.schedule.beside + rank % w.schedule.beside) * columns;
    const bool transposed = w.transposed;
    const unsigned length = transposed ? rows : columns;
    const unsigned first = (blockIdx.y * 256 + threadIdx.x) * 4;
    const int y = first / length, x = first % length;
    const int64_t lines = transposed ? w.n - n : w.m - m,
                  items = transposed ? w.m - m : w.n - n;
    if (y >= lines || x >= items) return;
    const float *from = w.partials + (int64_t)blockIdx.x * each + first;
    float4 sum = *(const float4 *)from;
    for (int s = 1; s < w.schedule.slices; s++) {
        const float4 more = *(const float4 *)(from + (int64_t)s * gridDim.x * each);
        sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
    }
    const int64_t line = transposed ? w.out_col : w.out_row,
                  item = transposed ? w.out_row : w.out_col;
    T *const out = (T *)w.results + at.batch * w.out_batch + m * w.out_row + n * w.out_col +
                   y * line + x * item;
    if (w.store == 8) { /* whole groups of eight */
        *(uint2 *)out =
            make_uint2(cvt_rn_two(sum.x, sum.y, T{}), cvt_rn_two(sum.z, sum.w, T{}));
        return;
    }
    const float of[4] = {sum.x, sum.y, sum.z, sum.w};
    for (int e = 0; e < 4 && x + e < items; e++) put(out + e * item, of[e]);
}

/* Whether the second kernel ends a step. */
static bool adds_partials(const wgmma_f16_work &w)
{
    return w.schedule.sharing == 1 && w.schedule.whole < w.schedule.tiles &&
           w.last == w.schedule.items;
}

template <typename T, int SHAPE, bool SHARES = false>
static gop_status launch_tiles(gop_ctx *ctx, const gop_task *task, const wgmma_f16_plan &plan,
                               const wgmma_f16_work &w)
{
    if constexpr (wgmma_f16_shapes[SHAPE].shares && !SHARES)
        if (w.schedule.sharing > 1) return launch_tiles<T, SHAPE, true>(ctx, task, plan, w);
    typedef wgmma_f16_block<SHAPE, SHARES> R;
    const int size = w.schedule.cluster;
    const gop_cuda_grid grid = cluster_grid(w.last - w.first, ctx->info.processors, size);
    const bool copied = plan.a.copied || plan.b.copied, added = adds_partials(w);
    gop_status status = GOP_OK;
#define GO(at, bt)                                                                             \
    if (plan.a.transposed == at && plan.b.transposed == bt)                                    \
        status =                                                                               \
            copied && !added                                                                   \
                ? GOP_LAUNCH_EARLY(ctx, (matmul_wgmma_f16_kernel<T, SHAPE, SHARES, at, bt>),   \
                                   grid, BLOCK_THREADS, R::BYTES, w)                           \
                : GOP_LAUNCH_FIRST(ctx, task, added,                                           \
                                   (matmul_wgmma_f16_kernel<T, SHAPE, SHARES, at, bt>), grid,  \
                                   BLOCK_THREADS, R::BYTES, w);
    GO(false, false)
    GO(false, true)
    GO(true, false)
    GO(true, true)
#undef GO
    if (status != GOP_OK || !added) return status;
    const int rest = w.schedule.tiles - w.schedule.whole;
    return GOP_LAUNCH_EARLY(ctx, matmul_wgmma_f16_partials_kernel<T>,
                            dim3((unsigned)(rest * size), R::ROWS * R::COLUMNS / 1024), 256, 0,
                            w, (int)R::ROWS, (int)R::COLUMNS);
}

template <typename T>
static gop_status matmul_wgmma_f16(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const wgmma_f16_plan &plan = *GOP_OWN(const wgmma_f16_plan, task->plan);
    const matmul_schedule &t = plan.schedule;
    const gop_gemm g = t.swapped ? matmul_swapped(task->geometry.gemm) : task->geometry.gemm;
    char *const scratch = (char *)task->scratch;
    const void *const a_from = task->in[t.swapped].data;
    const void *const b_from = task->in[!t.swapped].data;
    const void *const a = plan.a.copied ? scratch : a_from;
    const void *const b = plan.b.copied ? scratch + plan.b_copy : b_from;
    wgmma_f16_work w = {};
    w.m = g.m, w.n = g.n;
    w.out_row = g.out_row, w.out_col = g.out_col, w.out_batch = uniform_batch(g, g.out);
    w.store = plan.store, w.transposed = t.swapped != plan.out.transposed;
    w.a_batch = plan.a.batches > 1, w.b_batch = plan.b.batches > 1;
    w.schedule = t;
    w.first = (int)step * plan.per_step;
    w.last = t.items - w.first < plan.per_step ? t.items : w.first + plan.per_step;
    w.results = task->out[0].data;
    w.partials = (float *)(scratch + plan.partials);
    const wgmma_f16_shape &shape = wgmma_f16_shapes[t.shape];
    if (w.store == 8) GOP_TRY(straight_map(&w.out, plan.out, w.results, 64));
    GOP_TRY(straight_map(&w.a, plan.a, a, plan.a.transposed ? 64 : shape.rows(), t.beside));
    GOP_TRY(straight_map(&w.b, plan.b, b, plan.b.transposed ? 64 : shape.columns, t.below));
    /* The copies and the kernel become one graph, or the kernel and what adds its parts. */
    straight_copies copies = {};
    if (plan.a.copied) copies.add(plan.a, a_from, scratch, false);
    if (plan.b.copied) copies.add(plan.b, b_from, scratch + plan.b_copy, true);
    if (copies.count && step == 0) GOP_TRY(straighten(ctx, copies, g, !adds_partials(w)));
    typedef gop_status (*launcher)(gop_ctx *, const gop_task *, const wgmma_f16_plan &,
                                   const wgmma_f16_work &);
    static const launcher launch[WGMMA_F16_SHAPES] = {
        launch_tiles<T, 0>, launch_tiles<T, 1>, launch_tiles<T, 2>, launch_tiles<T, 3>,
        launch_tiles<T, 4>, launch_tiles<T, 5>, launch_tiles<T, 6>, launch_tiles<T, 7>,
        launch_tiles<T, 8>, launch_tiles<T, 9>};
    return launch[t.shape](ctx, task, plan, w);
}
#endif

static gop_status wgmma_f16_takes(const gop_ctx *ctx, const gop_gemm &g)
{
    GOP_TRY(gop_has_wgmma(ctx, "matmul: kernel 'wgmma_f16'"));
    const int64_t most = g.m > g.n ? g.m : g.n, least = g.m < g.n ? g.m : g.n;
    if (least < 4 || most <= 32 || g.k < 16 || most > INT32_MAX / 2 || g.k > INT32_MAX / 2 ||
        g.batches > INT32_MAX / 32)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'wgmma_f16' takes products of 4 rows and columns or "
                        "more, of either more than 32, and at least 16 terms, got (%lld, %lld) "
                        "of %lld terms",
                        (long long)g.m, (long long)g.n, (long long)g.k);
    GOP_TRY(matmul_takes_batch(g, "wgmma_f16"));
    if (uniform_batch(g, g.out) < 0)
        return gop_fail(GOP_REFUSED, "matmul: kernel 'wgmma_f16' takes an output whose "
                                     "products lie one stride apart");
    const double tiles = (double)((g.m + 63) / 64) * (double)((g.n + 63) / 64);
    if (tiles * (double)g.batches > 1e8)
        return gop_fail(GOP_REFUSED, "matmul: kernel 'wgmma_f16' takes at most 10^8 tiles of "
                                     "64 x 64 results");
    return GOP_OK;
}

static gop_status matmul_wgmma_f16_plan(const gop_ctx *ctx, const gop_task *task,
                                        gop_plan *plan)
{
    GOP_TRY(wgmma_f16_takes(ctx, task->geometry.gemm));
    wgmma_f16_plan *p = GOP_OWN(wgmma_f16_plan, plan);
    matmul_schedule &t = p->schedule;
    wgmma_f16_choose(ctx, task, &t);
    const gop_gemm g = t.swapped ? matmul_swapped(task->geometry.gemm) : task->geometry.gemm;
    p->a = straight_operand_of(g, g.a, task->in[t.swapped].data, g.m, g.a_row, g.a_col);
    p->b = straight_operand_of(g, g.b, task->in[!t.swapped].data, g.n, g.b_col, g.b_row);
    p->out = straight_result(task->geometry.gemm, task->out[0].data);
    p->store = !p->out.copied ? 8 : straight_pairs(p->out, task->out[0].data) ? 2 : 1;
    p->b_copy = straight_bytes(p->a);
    p->partials = p->b_copy + straight_bytes(p->b);
    plan->scratch = p->partials + wgmma_f16_partials_bytes(t);
    /* Some 50 ms a step. */
    const wgmma_f16_shape &shape = wgmma_f16_shapes[t.shape];
    const double item_terms =
        2.0 * shape.rows() * shape.columns * t.below * t.beside * (double)g.k;
    const double fit = 2.5e13 / item_terms;
    p->per_step = fit < 1 ? 1 : fit < (double)t.items ? (int)fit : t.items;
    plan->steps = (t.items + p->per_step - 1) / p->per_step;
    plan->launch =
        GOP_NATIVE_LAUNCH(task->in[0].dtype == GOP_FLOAT16 ? matmul_wgmma_f16<float16>
                                                           : matmul_wgmma_f16<bfloat16>);
    return GOP_OK;
}

extern const gop_row matmul_wgmma_f16_row = {
    .name = "wgmma_f16",
    .note = "tensor cores multiply what TMA put into shared memory, up to 64 x 256 x 16 "
            "products an instruction, and keep whole sums",
    .role = GOP_CONFORMING,
    .plan = matmul_wgmma_f16_plan,
    GOP_NATIVE_DTYPES(1u << GOP_FLOAT16 | 1u << GOP_BFLOAT16),
    .before = "warpgroup",
};
