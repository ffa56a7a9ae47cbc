/*
 * engine.h - the kernel that multiplies images by wgmma, and the one that adds parts of sums.
 *
 * A block of three warpgroups computes 128 W rows by 128 columns: the first fetches tiles into
 * a ring of stages, the others multiply, 64 W rows each. Tensor cores cut the low bits of a sum
 * at each addition; so theirs go no further than one stage, over at most 64 terms, and are then
 * added to sums in float32 registers, which round. Within a stage the products of the
 * smallest pieces come first. Two blocks side by side (C = 2) share each tile of a, of which
 * each fetches one half for both.
 *
 * A block takes tile after tile. Those that would fill the device only partly in the end are
 * cut along l, and the second kernel adds the parts in the order of l.
 */
#ifndef GOP_CUDA_MATMUL_ENGINE_H
#define GOP_CUDA_MATMUL_ENGINE_H

#include "cuda/matmul/sums.h"
#include "cuda/wgmma.h"

template <int PIECES, bool HALF, typename O, int W, int C> __global__ void GOP_CLUSTER(C)
    __launch_bounds__(ENGINE_THREADS, 1)
        matmul_engine_kernel(const __grid_constant__ engine_job p)
{
#if GOP_WGMMA
    typedef engine_stage<PIECES, W> stage;
    extern __shared__ uint8_t memory[];
    uint8_t *const ring = (uint8_t *)(((uintptr_t)memory + 1023) & ~(uintptr_t)1023);
    uint64_t *const full = (uint64_t *)(ring + stage::COUNT * stage::BYTES);
    uint64_t *const empty = full + stage::COUNT;
    const int rank = C == 2 ? cluster_rank() : 0;
    if (threadIdx.x == 0) {
        for (int s = 0; s < stage::COUNT; s++) {
            barrier_init(full + s, 1);
            barrier_init(empty + s, C * ENGINE_CONSUMERS / 32);
        }
        barrier_publish();
    }
    let_kernel_after_come();
    gop_wait_for_kernel_before();
    const bool on = !p.only_if || *p.only_if;
    const bool bad = on && hopeless(p);
    if (blockIdx.x == 0 && threadIdx.x == 0 && p.wanted) *p.wanted = bad;
    if (bad || !on) return;
    if (C == 2) cluster_sync();
    else __syncthreads();

    int s = 0;
    uint32_t phase = 0;
    if (threadIdx.x < ENGINE_THREADS - ENGINE_CONSUMERS) {
        fewer_registers<40>();
        enum { A_SHARE = stage::BLOCKS * stage::A_BYTES / C };
        const int copy = threadIdx.x * ENGINE_COPY;
        if (threadIdx.x < 32)
            for (int i = blockIdx.x / C; i < p.items; i += gridDim.x / C) {
                const engine_item item = item_of<stage::BLOCKS>(p, i);
                const uint8_t *a =
                    p.a + item.product * p.a_product + rank * A_SHARE +
                    ((int64_t)item.tile_m * p.blocks + item.first) * stage::A_BYTES;
                const uint8_t *b = p.b + item.product * p.b_product +
                                   ((int64_t)(item.tile_n * C + rank) * p.blocks + item.first) *
                                       stage::B_BYTES;
                for (int l = item.first; l < item.last; l += stage::BLOCKS) {
                    barrier_wait(empty + s, phase ^ 1);
                    uint8_t *const to = ring + s * stage::BYTES;
                    uint8_t *const to_a = to + rank * A_SHARE;
                    uint8_t *const to_b = to + stage::BLOCKS * stage::A_BYTES;
                    if (threadIdx.x == 0) barrier_expect(full + s, stage::BYTES);
                    __syncwarp();
                    for (int at = copy; at < A_SHARE; at += 32 * ENGINE_COPY) {
                        if (C == 2) bulk_fetch_both(to_a + at, a + at, ENGINE_COPY, full + s);
                        else bulk_fetch(to_a + at, a + at, ENGINE_COPY, full + s);
                    }
                    for (int at = copy; at < stage::BLOCKS * stage::B_BYTES;
                         at += 32 * ENGINE_COPY)
                        bulk_fetch(to_b + at, b + at, ENGINE_COPY, full + s);
                    a += stage::BLOCKS * stage::A_BYTES;
                    b += stage::BLOCKS * stage::B_BYTES;
                    if (++s == stage::COUNT) s = 0, phase ^= 1;
                }
            }
    } else {
        more_registers<232>();
        const int t = threadIdx.x - (ENGINE_THREADS - ENGINE_CONSUMERS), lane = t % 32;
        const int group = __shfl_sync(~0u, t / 128, 0), warp = t / 32 % 4;
        const uint64_t at_a = wgmma_tile(shared_address(ring) + group * W * 4096, 0, 512, 2);
        const uint64_t at_b =
            wgmma_tile(shared_address(ring) + stage::BLOCKS * stage::A_BYTES, 4096, 1024, 1);
        for (int i = blockIdx.x / C; i < p.items; i += gridDim.x / C) {
            const engine_item item = item_of<stage::BLOCKS>(p, i);
            float sum[W][64];
#pragma unroll
            for (int w = 0; w < W; w++)
#pragma unroll
                for (int e = 0; e < 64; e++) sum[w][e] = 0.0f;
            for (int l = item.first; l < item.last; l += stage::BLOCKS) {
                barrier_wait(full + s, phase);
#pragma unroll
                for (int w = 0; w < W; w++) {
                    float part[64];
                    wgmma_fence();
#pragma unroll
                    for (int block = 0; block < stage::BLOCKS; block++)
#pragma unroll
                        for (int n = 0; n < products_of(PIECES); n++)
#pragma unroll
                            for (int half = 0; half < 2; half++) {
                                const int a = s * stage::BYTES + block * stage::A_BYTES +
                                              piece_of_a(PIECES, n) * stage::A_PIECE +
                                              w * 4096 + half * 32;
                                const int b = s * stage::BYTES + block * stage::B_BYTES +
                                              piece_of_b(PIECES, n) * stage::B_PIECE +
                                              half * 2048;
                                wgmma_add<HALF>(part, at_a + a / 16, at_b + b / 16,
                                                block + n + half > 0);
                            }
                    wgmma_finish();
                    if (w == W - 1 && lane < C) barrier_arrive_at(empty + s, lane);
#pragma unroll
                    for (int e = 0; e < 64; e++) sum[w][e] += part[e];
                }
                if (++s == stage::COUNT) s = 0, phase ^= 1;
            }
            const int row = item.tile_m * stage::ROWS + group * W * 64 + warp * 16 + lane / 4;
            const int column = (item.tile_n * C + rank) * IMAGE_COLUMNS + lane % 4 * 2;
            O *const out = out_of<O>(p, item.product);
            if (HALF && item.part < 0) {
                const line_scale *rows = p.row_scale + item.product * p.row_scales;
                const line_scale *columns = p.column_scale + item.product * p.column_scales;
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
                    if (doubtful[w]) list_doubtful(p, item.product, row + w * 64, column, 16);
            }
#pragma unroll
            for (int w = 0; w < W; w++)
#pragma unroll
                for (int c = 0; c < 16; c++) {
                    const float *const four = sum[w] + 4 * c;
                    if (item.part < 0) write_sums(p, out, row + w * 64, column + c * 8, four);
                    else
                        *reinterpret_cast<float4 *>(
                            p.parts + part_index<W, C>(item.part, rank, w * 16 + c, t)) =
                            make_float4(four[0], four[1], four[2], four[3]);
                }
        }
    }
    if (C == 2) cluster_sync(); /* nobody leaves whose memory the other still writes to */
#endif
}

/* Adds the parts of the tiles that were cut: a block one chunk of the threads of a tile. All
 * parts of a sum are on their way before the first is needed. */
template <bool HALF, typename O, int W, int C>
__global__ void __launch_bounds__(ENGINE_CONSUMERS)
    matmul_parts_kernel(const __grid_constant__ engine_job p)
{
    gop_wait_for_kernel_before();
    if (p.only_if && *p.only_if == 0) return;
    if (hopeless(p)) return;
    enum { CHUNKS = W * 16 };
    const int rest = (p.items - p.whole) / p.slices, t = threadIdx.x;
    const int chunk = blockIdx.x % CHUNKS, rank = blockIdx.x / CHUNKS % C;
    const int cut = blockIdx.x / CHUNKS / C;
    const int64_t product = (p.whole + cut) / p.tiles;
    engine_item item;
    place_tile(p, (p.whole + cut) % p.tiles, item);
    const int row = item.tile_m * 128 * W + t / 128 * W * 64 + chunk / 16 * 64 +
                    t / 32 % 4 * 16 + t % 32 / 4;
    const int column = (item.tile_n * C + rank) * IMAGE_COLUMNS + chunk % 16 * 8 + t % 4 * 2;
    float4 part[MOST_SLICES];
#pragma unroll
    for (int slice = 0; slice < MOST_SLICES; slice++)
        if (slice < p.slices)
            part[slice] = *reinterpret_cast<const float4 *>(
                p.parts + part_index<W, C>(cut + (int64_t)slice * rest, rank, chunk, t));
    float4 sum = part[0];
#pragma unroll
    for (int slice = 1; slice < MOST_SLICES; slice++)
        if (slice < p.slices) {
            sum.x += part[slice].x, sum.y += part[slice].y;
            sum.z += part[slice].z, sum.w += part[slice].w;
        }
    float four[4] = {sum.x, sum.y, sum.z, sum.w};
    O *const out = out_of<O>(p, product);
    if (HALF && unscale(p, p.row_scale + product * p.row_scales,
                        two_scales(p.column_scale + product * p.column_scales, column), row,
                        column, four))
        list_doubtful(p, product, row, column, 1);
    write_sums(p, out, row, column, four);
}

#endif
