/*
 * engine.h - the kernel that multiplies images by wgmma, and the one that adds parts of sums.
 *
 * A block of three warpgroups computes 128 W rows by 128 columns: the first fetches tiles into
 * a ring of stages, the others multiply, 64 W rows each. Tensor cores truncate the sum at each
 * addition. So they add at most 128 terms, a stage or two, and the result is added to sums in
 * float32 registers, which round. Within a stage the products of the smallest pieces come
 * first. Two blocks side by side (C = 2) share each tile of a, of which each fetches one half
 * for both.
 *
 * A block takes tile after tile. The tiles of a last, partial wave are cut along l, and the
 * second kernel adds the parts in the order of l.
 */
#ifndef GOP_CUDA_MATMUL_ENGINE_H
#define GOP_CUDA_MATMUL_ENGINE_H

#include "cuda/matmul/gemm_sm90.h"
#include "cuda/matmul/image.h"

enum {
    ENGINE_SHARED = 232448, /* bytes a block may have */
    ENGINE_COPY = 4096,     /* bytes of a copy: one thread could not issue them all */
};

template <int PIECES, int W> struct engine_stage {
    enum {
        BLOCKS = PIECES == 1 ? 2 : 1,   /* of terms */
        PROMOTED = PIECES == 1 ? 2 : 1, /* stages that the tensor cores add by themselves */
        ROWS = 128 * W,
        A_PIECE = ROWS * IMAGE_TERMS * 2,
        B_PIECE = IMAGE_COLUMNS * IMAGE_TERMS * 2,
        A_BYTES = PIECES * A_PIECE, /* of a block of terms */
        B_BYTES = PIECES * B_PIECE,
        BYTES = BLOCKS * (A_BYTES + B_BYTES),
        FIT = (ENGINE_SHARED - 2048) / BYTES,
        COUNT = (FIT < 8 ? FIT : 8) / PROMOTED * PROMOTED,
    };
    typedef gemm_ring<COUNT, BYTES, 0, PROMOTED> ring;
};

/* The place of tile t of a product. */
GOP_DEVICE int2 engine_place(const engine_job &p, int t)
{
    if (p.mirrored != 1) return tile_coordinates(t, p.down, p.across, p.group);
    /* Row m of tiles ends at the diagonal. */
    int m = (int)((sqrtf(8.0f * (float)t + 1.0f) - 1.0f) * 0.5f);
    while ((int64_t)m * (m + 1) / 2 > t) m--;
    while ((int64_t)(m + 1) * (m + 2) / 2 <= t) m++;
    return make_int2(m, t - (int)((int64_t)m * (m + 1) / 2));
}

/* The cluster's items, whose i0 and j0 count tiles. */
template <int ROWS, int C> struct engine_tiles {
    const engine_job &p;
    int first, last, step;

    GOP_DEVICE engine_tiles(const engine_job &job)
        : p(job), first(blockIdx.x / C), last(job.items), step(gridDim.x / C)
    {
    }
    GOP_DEVICE tile_item at(int i) const
    {
        tile_item item;
        const int tile = tile_slice_of(p, i, 0, item);
        const int2 place = engine_place(p, tile % p.each);
        item.batch = tile / p.each, item.i0 = place.x, item.j0 = place.y;
        if (is_above(item)) item.last = item.first;
        return item;
    }
    /* Whether a tile of complex numbers lies above the diagonal, whose results are others'. */
    GOP_DEVICE bool is_above(const tile_item &item) const
    {
        return p.mirrored == 2 && (item.i0 + 1) * ROWS <= item.j0 * C * (IMAGE_COLUMNS / 2);
    }
};

/* ---- what a thread has of a tile: four sums for each 64 of its rows and each eight columns:
 * two neighbours in a row, and the two eight rows below ---- */

template <typename O>
GOP_DEVICE void write_pair(const engine_job &p, O *out, int64_t at, bool both, float x, float y)
{
    if (p.pairs && both) {
        struct alignas(2 * sizeof(O)) pair {
            O x, y;
        };
        *reinterpret_cast<pair *>(out + at) = {store<O>(x), store<O>(y)};
        return;
    }
    out[at] = store<O>(x);
    if (both) out[at + p.g.out_col] = store<O>(y);
}

template <typename O>
GOP_DEVICE void write_sums(const engine_job &p, O *out, int row, int column, const float *sum)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int i = row + 8 * h;
        const float x = sum[2 * h], y = sum[2 * h + 1];
        if (i >= p.rows || column >= p.columns) continue;
        if constexpr (sizeof(O) == sizeof(complex64)) {
            const int j = column / 2;
            if (p.mirrored && i < j) continue;
            out[i * p.g.out_row + j * p.g.out_col] = {x, y};
            if (p.mirrored) out[j * p.g.out_row + i * p.g.out_col] = {x, y};
        } else {
            const bool both = column + 1 < p.columns;
            if (!p.mirrored) {
                write_pair(p, out, i * p.g.out_row + column * p.g.out_col, both, x, y);
                continue;
            }
            if (i < column) continue;
            out[i * p.g.out_row + column * p.g.out_col] = store<O>(x);
            out[column * p.g.out_row + i * p.g.out_col] = store<O>(x);
            if (i <= column) continue;
            out[i * p.g.out_row + (column + 1) * p.g.out_col] = store<O>(y);
            out[(column + 1) * p.g.out_row + i * p.g.out_col] = store<O>(y);
        }
    }
}

template <typename O> GOP_DEVICE O *engine_out_of(const engine_job &p, int64_t product)
{
    return (O *)p.out + matmul_batch(p.g, p.batch + product).out + p.row * p.g.out_row;
}

/* Where chunk c of thread t of a block lies among the parts: neighbours lie side by side. */
template <int W, int C> GOP_DEVICE int64_t part_index(int64_t part, int rank, int chunk, int t)
{
    return (((part * C + rank) * W * 16 + chunk) * CONSUMERS + t) * 4;
}

/* Whether the pack met what pieces cannot hold; asked by all threads of a block. */
GOP_DEVICE bool met_bad(const engine_job &p)
{
    unsigned bad = 0;
    for (int i = threadIdx.x; i < p.bad_words; i += blockDim.x) bad |= p.bad[i];
    return __syncthreads_or((int)bad) != 0;
}

/* Undoes the scaling of four sums of a thread, given the scales of their columns. True if one
 * of them is doubtful. */
GOP_DEVICE bool unscale(const engine_job &p, const line_scale *rows, float4 two, int row,
                        int column, float *sum)
{
    bool doubtful = false;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const line_scale line = rows[row + 8 * h];
        float &x = sum[2 * h], &y = sum[2 * h + 1];
        const bool inside = row + 8 * h < p.rows;
        doubtful |= inside && column < p.columns && fabsf(x) - two.y < line.doubt;
        doubtful |= inside && column + 1 < p.columns && fabsf(y) - two.w < line.doubt;
        x = unscaled(x, line.undo, two.x);
        y = unscaled(y, line.undo, two.z);
    }
    return doubtful;
}

/* The scales of two neighbouring columns. */
GOP_DEVICE float4 two_scales(const line_scale *columns, int column)
{
    return *reinterpret_cast<const float4 *>(columns + column);
}

GOP_DEVICE void list_doubtful(const engine_job &p, int64_t product, int row, int column,
                              int chunks)
{
    const unsigned at = atomicAdd(&p.guard->doubtful, 1u);
    if (at < p.most_doubtful) p.list[at] = {product, row, column, chunks};
}

/* Whether halves are not accurate enough; all threads of a block ask. */
GOP_DEVICE bool hopeless(const engine_job &p)
{
    return met_bad(p) || (p.guard && p.guard->tiny > p.most_tiny);
}

/* ---- the kernels ---- */

/* One warp loads the packed images of a block's tiles into the ring. */
template <typename stage, int C, typename TILES> GOP_DEVICE void
engine_feed(const engine_job &p, const typename stage::ring &ring, const TILES &tiles, int rank)
{
    enum { A_BYTES = stage::BLOCKS * stage::A_BYTES, A_SHARE = A_BYTES / C };
    enum { B_BYTES = stage::BLOCKS * stage::B_BYTES };
    const int copy = threadIdx.x * ENGINE_COPY;
    producer_mainloop(ring, tiles, [&](const tile_item &item) {
        const uint8_t *const a = p.a + item.batch * p.a_product + rank * A_SHARE +
                                 (int64_t)item.i0 * p.blocks * stage::A_BYTES;
        const uint8_t *const b = p.b + item.batch * p.b_product +
                                 (int64_t)(item.j0 * C + rank) * p.blocks * stage::B_BYTES;
        return [=](int k, uint8_t *to, uint64_t *full) {
            const uint8_t *const from_a = a + (int64_t)k * A_BYTES;
            const uint8_t *const from_b = b + (int64_t)k * B_BYTES;
            if (threadIdx.x == 0) mbarrier_arrive_expect_tx(full, stage::BYTES);
            __syncwarp();
            for (int at = copy; at < A_SHARE; at += 32 * ENGINE_COPY) {
                uint8_t *const to_a = to + rank * A_SHARE + at;
                if (C == 2) cp_async_bulk_load_multicast(to_a, from_a + at, ENGINE_COPY, full);
                else cp_async_bulk_load(to_a, from_a + at, ENGINE_COPY, full);
            }
            for (int at = copy; at < B_BYTES; at += 32 * ENGINE_COPY)
                cp_async_bulk_load(to + A_BYTES + at, from_b + at, ENGINE_COPY, full);
        };
    });
}

/* Epilogue: undo the scales of halves, then store outputs or partial sums. */
template <bool HALF, int W, int C, typename O>
GOP_DEVICE void engine_store(const engine_job &p, const tile_item &item, O *out, int row,
                             int column, int rank, int t, float (&sum)[W][64])
{
    if (HALF && item.part < 0) {
        const line_scale *rows = p.row_scale + item.batch * p.row_scales;
        const line_scale *columns = p.column_scale + item.batch * p.column_scales;
        bool doubtful[W] = {};
#pragma unroll
        for (int c = 0; c < 16; c++) {
            const float4 two = two_scales(columns, column + c * 8);
#pragma unroll
            for (int w = 0; w < W; w++)
                doubtful[w] |=
                    unscale(p, rows, two, row + w * 64, column + c * 8, sum[w] + 4 * c);
        }
#pragma unroll
        for (int w = 0; w < W; w++)
            if (doubtful[w]) list_doubtful(p, item.batch, row + w * 64, column, 16);
    }
#pragma unroll
    for (int w = 0; w < W; w++)
#pragma unroll
        for (int c = 0; c < 16; c++) {
            const float *const four = sum[w] + 4 * c;
            if (item.part < 0) write_sums(p, out, row + w * 64, column + c * 8, four);
            else
                *reinterpret_cast<float4 *>(p.parts +
                                            part_index<W, C>(item.part, rank, w * 16 + c, t)) =
                    make_float4(four[0], four[1], four[2], four[3]);
        }
}

/* part = the products of stage s and those that are promoted with it, for rows w * 64. */
template <int PIECES, bool HALF, typename stage>
GOP_DEVICE void engine_multiply(float (&part)[64], uint64_t at_a, uint64_t at_b, int w,
                                uint64_t *full, int s, uint32_t phase)
{
    enum { EACH = products_of(PIECES) * 2 };
    if (w == 0) mbarrier_wait(full + s, phase);
    wgmma_fence();
#pragma unroll
    for (int q = 0; q < stage::PROMOTED; q++) {
        if (w == 0 && q > 0) mbarrier_wait(full + s + q, phase);
#pragma unroll
        for (int n = 0; n < stage::BLOCKS * EACH; n++) {
            const int block = n / EACH, product = n % EACH / 2, half = n % 2;
            const int a = (s + q) * stage::BYTES + block * stage::A_BYTES +
                          piece_of_a(PIECES, product) * stage::A_PIECE + w * 4096 + half * 32;
            const int b = (s + q) * stage::BYTES + block * stage::B_BYTES +
                          piece_of_b(PIECES, product) * stage::B_PIECE + half * 2048;
            wgmma_add<HALF>(part, at_a + a / 16, at_b + b / 16, q + n > 0);
        }
    }
}

template <int PIECES, bool HALF, typename O, int W, int C>
__global__ void GOP_CLUSTERS __launch_bounds__(BLOCK_THREADS, 1)
    matmul_engine_kernel(const __grid_constant__ engine_job p)
{
#if GOP_WGMMA
    typedef engine_stage<PIECES, W> stage;
    const typename stage::ring ring;
    const engine_tiles<stage::ROWS, C> tiles(p);
    const int rank = C == 2 ? cluster_rank() : 0;
    if (threadIdx.x == 0) ring.init(1, C * CONSUMERS / 32);

    /* Leave if another kernel computes this step. */
    launch_dependents();
    grid_dependency_sync();
    const bool on = !p.only_if || *p.only_if;
    const bool bad = on && hopeless(p);
    if (blockIdx.x == 0 && threadIdx.x == 0 && p.wanted) *p.wanted = bad;
    if (bad || !on) return;
    gemm_sync<C>();

    /* One warp copies the packed operands; two warpgroups multiply, 64 W rows each. */
    const auto produce = [&] {
        if (threadIdx.x < 32) engine_feed<stage, C>(p, ring, tiles, rank);
    };
    const auto consume = [&] {
        const int t = threadIdx.x - PRODUCERS, lane = t % 32;
        const int group = __shfl_sync(~0u, t / 128, 0), warp = t / 32 % 4;
        const uint32_t stages = shared_address(ring.stages);
        const uint64_t at_a = make_smem_desc(stages + group * W * 4096, 0, 512, 2);
        const uint64_t at_b =
            make_smem_desc(stages + stage::BLOCKS * stage::A_BYTES, 4096, 1024, 1);
        const auto multiply = [&](float(&sum)[W][64], int s, uint32_t phase) {
#pragma unroll
            for (int w = 0; w < W; w++) {
                float part[64];
                engine_multiply<PIECES, HALF, stage>(part, at_a, at_b, w, ring.full, s, phase);
                wgmma_finish();
                if (w == W - 1 && lane < C)
#pragma unroll
                    for (int q = 0; q < stage::PROMOTED; q++)
                        mbarrier_arrive_cluster(ring.empty + s + q, lane);
                promote(sum[w], part);
            }
        };
        consumer_mainloop<typename stage::ring, W, 64>(
            tiles, multiply, [&](const tile_item &item, float(&sum)[W][64]) {
                if (tiles.is_above(item)) return;
                const int row = item.i0 * stage::ROWS + group * W * 64 + warp * 16 + lane / 4;
                const int column = (item.j0 * C + rank) * IMAGE_COLUMNS + lane % 4 * 2;
                O *const out = engine_out_of<O>(p, item.batch);
                engine_store<HALF, W, C>(p, item, out, row, column, rank, t, sum);
            });
    };
    gemm_specialise(produce, consume);
    if (C == 2) cluster_sync(); /* the other block may still write to this one */
#endif
}

/* Adds the parts of the tiles that were cut: a block one chunk of the threads of a tile. */
template <bool HALF, typename O, int W, int C> __global__ void __launch_bounds__(CONSUMERS)
    matmul_parts_kernel(const __grid_constant__ engine_job p)
{
    grid_dependency_sync();
    if (p.only_if && *p.only_if == 0) return;
    if (hopeless(p)) return;
    enum { CHUNKS = W * 16 };
    const int rest = p.tiles - p.whole, t = threadIdx.x;
    const int chunk = blockIdx.x % CHUNKS, rank = blockIdx.x / CHUNKS % C;
    const int cut = blockIdx.x / CHUNKS / C;
    const engine_tiles<128 * W, C> tiles(p);
    const tile_item item = tiles.at(p.whole + cut);
    if (tiles.is_above(item)) return;
    const int row =
        item.i0 * 128 * W + t / 128 * W * 64 + chunk / 16 * 64 + t / 32 % 4 * 16 + t % 32 / 4;
    const int column = (item.j0 * C + rank) * IMAGE_COLUMNS + chunk % 16 * 8 + t % 4 * 2;
    const float4 sum = sum_of_parts(
        reinterpret_cast<const float4 *>(p.parts + part_index<W, C>(cut, rank, chunk, t)),
        (int64_t)rest * C * CHUNKS * CONSUMERS, p.slices);
    float four[4] = {sum.x, sum.y, sum.z, sum.w};
    O *const out = engine_out_of<O>(p, item.batch);
    if (HALF && unscale(p, p.row_scale + item.batch * p.row_scales,
                        two_scales(p.column_scale + item.batch * p.column_scales, column), row,
                        column, four))
        list_doubtful(p, item.batch, row, column, 1);
    write_sums(p, out, row, column, four);
}

#endif
