/*
 * bf16x3.h - what a block of bf16x3_sm90.cu fetches, splits and writes.
 */
#ifndef GOP_CUDA_MATMUL_BF16X3_H
#define GOP_CUDA_MATMUL_BF16X3_H

#include "cuda/common/pipeline.h"
#include "cuda/matmul/bf16x3_parts.h"
#include "cuda/matmul/straight.h"
#include "cuda/common/tile_scheduler.h"

/* A block has 128 producers, which fetch b and split it, and 256 consumers, which multiply. */
enum { BF16X3_THREADS = 384, BF16X3_PRODUCERS = 128, BF16X3_CONSUMERS = 256 };
enum { BF16X3_TERMS = 32 }; /* of a stage */

/* A block: 128 W lines of a by N columns of b. A stage is a's numbers, b's, and b's pieces. */
template <int N, int W> struct bf16x3_shape {
    enum { LINES = 128 * W, SUMS = N / 2, CHUNKS = W * SUMS / 4, PIECE = N * 64 };
    enum { A_BYTES = LINES * 128, RAW = A_BYTES + N * 128, BYTES = RAW + 3 * PIECE };
    enum { STAGES = N == 64 ? 6 : W == 1 ? 4 : 3, SHARED = STAGES * (BYTES + 24) + 64 + 1024 };
    /* Stages that are fetched ahead. A stage is split once all stages before it, but one, have
     * been multiplied. */
    enum { AHEAD = N == 64 ? 3 : STAGES - 2 };
    enum { FEED = W == 2 ? 40 : 56, MULTIPLY = W == 2 ? 232 : 224 }; /* registers */
};

struct bf16x3_job : tile_schedule {
    int a_batch, b_batch; /* whether the operand differs from product to product */
    int pairs;
    float4 *parts; /* of sums that were cut */
    unsigned *odd;
};

struct bf16x3_work {
    gop_cuda_tensor_map a, b;
    straight_product<float> p;
    bf16x3_job job;
};

#if GOP_SM90

/* ---- a's numbers: lines of 32 terms, or terms of 32 lines, in swizzled rows of 128 bytes ----
 */

/* Row lane / 4 of a fragment is this line of eight: so lanes that read at once meet all banks.
 */
GOP_DEVICE int bf16x3_line(int lane)
{
    return lane / 4 % 4 * 2 + lane / 16;
}

/* A warp's 16 lines of a stage from `first` on, as factors. */
template <bool ALONG> GOP_DEVICE void bf16x3_split_a(uint32_t (&piece)[2][3][4],
                                                     const uint8_t *a, int first, int lane,
                                                     uint32_t &least)
{
    const int q = lane % 4, line = bf16x3_line(lane);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint32_t low[4], high[4];
#pragma unroll
        for (int pair = 0; pair < 2; pair++) {
            if (ALONG) {
                const uint8_t *const at = a + (first + line) * 128 + q % 2 * 8 +
                                          ((half * 4 + pair * 2 + q / 2) ^ line) * 16;
                __builtin_memcpy(low + pair * 2, __builtin_assume_aligned(at, 8), 8);
                __builtin_memcpy(high + pair * 2, __builtin_assume_aligned(at + 1024, 8), 8);
            } else {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int l = half * 16 + pair * 8 + q * 2 + i;
                    const uint8_t *const at = a + first / 32 * 4096 + l * 128 + line % 4 * 4;
                    const int chunk = (first % 32 + line) / 4 ^ (q * 2 + i);
                    __builtin_memcpy(low + pair * 2 + i,
                                     __builtin_assume_aligned(at + chunk * 16, 4), 4);
                    __builtin_memcpy(high + pair * 2 + i,
                                     __builtin_assume_aligned(at + (chunk ^ 2) * 16, 4), 4);
                }
            }
        }
        split_eight(low, high, piece[half], least);
    }
}

/* ---- b's numbers: terms of 32 columns, or columns of 32 terms ---- */

/* Writes the pieces of a stage, as wgmma wants them: terms of 64 columns, or
 * columns of 32 terms. A number that pieces cannot hold becomes NaN. A thread splits eight
 * neighbours at a time; those that read or write at once meet all banks. */
template <int N, bool ALONG> GOP_DEVICE void bf16x3_split_b(const uint8_t *b, uint8_t *pieces)
{
    const int t = threadIdx.x;
#pragma unroll 2
    for (int e = 0; e < N / 32; e++) {
        int from, odd, to;
        if (ALONG) {
            const int column = t % N, eight = N == 64 ? t / N * 2 + e : e;
            from = column * 128 + eight * 32;
            odd = column % 8 * 16;
            to = column * 64 + ((eight ^ column / 2) & 3) * 16;
        } else {
            const int q = t % 4, l = t / 8 * 2 ^ t / 4 % 2 * 5;
            from = e * 4096 + l * 128 + q * 32;
            odd = l % 8 * 16;
            to = e / 2 * 4096 + l * 128 + (((e % 2 * 4 + q) ^ l) & 7) * 16;
        }
        float x[8];
        uint32_t least = ~0u, piece[3][4];
#pragma unroll
        for (int i = 0; i < 8; i += 4) {
            const vec128<float> v = load128((const float *)(b + ((from + i * 4) ^ odd)));
#pragma unroll
            for (int c = 0; c < 4; c++) x[i + c] = v.at[c];
        }
#pragma unroll
        for (int i = 0; i < 8; i++) least = min(least, 2 * gop_float_to_bits(x[i]) - 1);
        if (least < 2 * gop_float_to_bits(IMAGE_SMALLEST) - 1)
            x[0] = gop_bits_to_float(0x7fc00000u);
#pragma unroll
        for (int i = 0; i < 4; i++)
            split_two(x[2 * i], x[2 * i + 1], piece[0][i], piece[1][i], piece[2][i]);
#pragma unroll
        for (int n = 0; n < 3; n++)
            *reinterpret_cast<uint4 *>(pieces + n * N * 64 + to) =
                make_uint4(piece[n][0], piece[n][1], piece[n][2], piece[n][3]);
    }
}

/* Four warps: each issues the TMA loads of every fourth box of a stage, and splits a part of
 * what has come of b. A box is an operand's lines, or terms of 32 lines. */
template <int N, int W, int CLUSTER, bool A_ALONG, bool B_ALONG>
GOP_DEVICE void bf16x3_feed(const bf16x3_work &w, uint8_t *ring, uint64_t *copied,
                            uint64_t *full, uint64_t *empty, int rank)
{
    typedef bf16x3_shape<N, W> shape;
    enum { BOXES_A = A_ALONG ? 1 : shape::LINES / 32, BOXES_B = B_ALONG ? 1 : N / 32 };
    enum { BOXES = BOXES_A + BOXES_B };
    const bf16x3_job &job = w.job;
    const int step = gridDim.x / CLUSTER;
    int next = blockIdx.x / CLUSTER, to = 0, s = 0;
    uint32_t to_phase = 1, phase = 0;
    tile_item at = tile_item_of<shape::LINES, N, CLUSTER>(job, next, rank);
    int stage = at.first;
    const auto fetch = [&]() {
        if (next >= job.items) return;
        if (threadIdx.x % 32 == 0) {
            mbarrier_wait(empty + to, to_phase);
            if (threadIdx.x == 0) mbarrier_arrive_expect_tx(copied + to, shape::RAW);
            const int l = stage * BF16X3_TERMS;
#pragma unroll
            for (int e = 0; e < (BOXES + 3) / 4; e++) {
                const int box = e * 4 + threadIdx.x / 32;
                if (box >= BOXES) break;
                const bool of_a = box < BOXES_A, along = of_a ? A_ALONG : B_ALONG;
                const int i = of_a ? box : box - BOXES_A;
                const int line = (of_a ? at.i0 : at.j0) + i * 32;
                tma_load(ring + to * shape::BYTES + (of_a ? 0 : shape::A_BYTES) + i * 4096,
                         of_a ? &w.a : &w.b, along ? l : line, along ? line : l,
                         (of_a ? job.a_batch : job.b_batch) ? at.batch : 0, copied + to, 1);
            }
        }
        __syncwarp();
        pipeline_advance<shape::STAGES>(to, to_phase);
        if (++stage < at.last) return;
        next += step;
        if (next >= job.items) return;
        at = tile_item_of<shape::LINES, N, CLUSTER>(job, next, rank);
        stage = at.first;
    };
    for (int i = 0; i < shape::AHEAD; i++) fetch();
    for (int i = blockIdx.x / CLUSTER; i < job.items; i += step) {
        const tile_item now = tile_item_of<shape::LINES, N, CLUSTER>(job, i, rank);
        for (int l = now.first; l < now.last; l++) {
            fetch();
            mbarrier_wait(copied + s, phase);
            uint8_t *const raw = ring + s * shape::BYTES;
            bf16x3_split_b<N, B_ALONG>(raw + shape::A_BYTES, raw + shape::RAW);
            fence_proxy_async();
            __syncwarp();
            if (threadIdx.x % 32 == 0) mbarrier_arrive(full + s);
            pipeline_advance<shape::STAGES>(s, phase);
        }
    }
}

/* ---- where sums go ---- */

/* Four sums of a lane: two neighbours, and those eight rows below. */
template <int N, int W> GOP_DEVICE void bf16x3_put(const bf16x3_work &w, const tile_item &at,
                                                   int row, int column, const float4 &four)
{
    const straight_product<float> &p = w.p;
    float *const up = p.out + at.batch * p.out_batch + (at.i0 + row) * p.out_row +
                      (at.j0 + column) * p.out_col;
    float *const down = up + 8 * p.out_row;
    if (w.job.pairs && at.i0 + bf16x3_shape<N, W>::LINES <= p.m && at.j0 + N <= p.n) {
        *reinterpret_cast<float2 *>(up) = make_float2(four.x, four.y);
        *reinterpret_cast<float2 *>(down) = make_float2(four.z, four.w);
        return;
    }
    const bool left = at.j0 + column < p.n, right = at.j0 + column + 1 < p.n;
    if (at.i0 + row < p.m && left) up[0] = four.x;
    if (at.i0 + row < p.m && right) up[p.out_col] = four.y;
    if (at.i0 + row + 8 < p.m && left) down[0] = four.z;
    if (at.i0 + row + 8 < p.m && right) down[p.out_col] = four.w;
}

/* Row and column of chunk v of four sums of thread t of those that multiply. */
template <int N> GOP_DEVICE int2 bf16x3_chunk(int v, int t)
{
    enum { EACH = N / 8 };
    const int lane = t % 32;
    return make_int2(v / EACH * 128 + t / 32 * 16 + bf16x3_line(lane),
                     v % EACH * 8 + lane % 4 * 2);
}

/* A tile term by term. */
template <int N, int W>
GOP_DEVICE void bf16x3_anew(const straight_product<float> &p, const tile_item &at, int thread)
{
    const float *const a = p.a + at.batch * p.a_batch, *const b = p.b + at.batch * p.b_batch;
    float *const out = p.out + at.batch * p.out_batch;
    const int64_t left = p.m - at.i0, lines = bf16x3_shape<N, W>::LINES;
    const int64_t rows = left < lines ? left : lines;
    const int columns = (int)(p.n - at.j0 < N ? p.n - at.j0 : N);
    for (int64_t e = thread; e < rows * columns; e += BF16X3_CONSUMERS) {
        const int64_t i = at.i0 + e / columns, j = at.j0 + e % columns;
        const float *x = a + i * p.a_row, *y = b + j * p.b_col;
        float total = 0;
        for (int64_t l = 0; l < p.k; l++, x += p.a_col, y += p.b_row)
            total = fmaf(*x, *y, total);
        out[i * p.out_row + j * p.out_col] = total;
    }
}

#endif
#endif
