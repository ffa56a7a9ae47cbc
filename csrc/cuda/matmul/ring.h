/*
 * ring.h - the kernels of ring_sm80.cu: the small operand as factors, and the product.
 *
 * A block computes 128 lines (rows of the large operand) by 8 NT columns; each of its eight
 * warps has 16 lines. A stage of the ring holds 128 bytes of each line (lines.h) and the
 * factors they meet, which lie in the order in which lanes take them.
 */
#ifndef GOP_CUDA_MATMUL_RING_H
#define GOP_CUDA_MATMUL_RING_H

#include "cuda/matmul/lines.h"

/* Writes the factors: tile by tile of columns, of this stage by stage. What pieces do not hold
 * becomes NaN, which every sum it meets will show. */
template <typename T, bool ALONG, int NT>
__global__ void matmul_ring_pack_kernel(const matmul_product<T> p, uint8_t *to, int64_t stages,
                                        int64_t each, unsigned *wanted)
{
    typedef ring_shape<T, ALONG, NT> shape;
    enum { V = shape::V };
    let_kernel_after_come();
    if (wanted && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *wanted = 0;
    const int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int lane = at % 32, n = at / 32 % NT, half = at / 32 / NT % 2;
    const int64_t stage = at / (64 * NT) % stages, tile = at / (64 * NT) / stages;
    if (at >= each) return;
    for (int64_t batch = blockIdx.y; batch < p.part.batches; batch += gridDim.y) {
        const T *const b = p.b + matmul_batch(p.g, batch).b;
        typename shape::R x[V];
#pragma unroll
        for (int v = 0; v < V; v++)
            x[v] = ring_factor(p.g, b,
                               (stage * 2 + half) * 4 * V + ring_term<T, ALONG>(lane % 4, v),
                               tile * shape::COLUMNS + n * 8 + lane / 4);
        uint8_t *const image = to + (batch * each + at) / 32 * shape::FACTORS;
        if constexpr (shape::SPLIT) {
            uint16_t piece[V][3];
#pragma unroll
            for (int v = 0; v < V; v++)
                split<3>(beyond_pieces<3>(x[v]) ? gop_bits_to_float(0x7fc00000u) : x[v],
                         piece[v]);
#pragma unroll
            for (int i = 0; i < 3; i++)
                *reinterpret_cast<uint2 *>(image + i * 256 + lane * 8) =
                    make_uint2(piece[0][i] | (uint32_t)piece[1][i] << 16,
                               piece[2][i] | (uint32_t)piece[3][i] << 16);
        } else {
            uint4 word;
            __builtin_memcpy(&word, x, 16);
            *reinterpret_cast<uint4 *>(image + lane * 16) = word;
        }
    }
}

GOP_DEVICE double ring_double(const uint32_t *words)
{
    double value;
    __builtin_memcpy(&value, words, 8);
    return value;
}

template <typename T, bool ALONG, int NT> __global__ void __launch_bounds__(THIN_THREADS, 2)
    matmul_ring_kernel(const matmul_product<T> p, const uint8_t *factors, const int64_t stages,
                       const bool wide, unsigned *wanted)
{
    typedef ring_shape<T, ALONG, NT> shape;
    typedef typename shape::R R;
    typedef sum_t<R> S;
    enum { TERMS = shape::TERMS, PARTS = shape::PARTS };
    enum { STAGES = shape::STAGES, BURST = shape::BURST };
    extern __shared__ uint8_t memory[];
    const gop_gemm &g = p.g;
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, q = lane % 4, of_8 = lane / 4;
    const int64_t across = (g.n * PARTS + shape::COLUMNS - 1) / shape::COLUMNS;
    const int64_t down = (g.m + RING_LINES - 1) / RING_LINES;
    int64_t block = blockIdx.x;
    const int64_t tile = block % across;
    block /= across;
    const int64_t i0 = block % down * RING_LINES;
    block /= down;
    const int64_t piece = block % p.part.split, batch = block / p.part.split;
    const matmul_offsets of = matmul_batch(g, batch);
    const int64_t begin = piece * p.part.chunk;
    const int64_t end = begin + p.part.chunk < g.k ? begin + p.part.chunk : g.k;
    const int count = (int)((end - begin + TERMS - 1) / TERMS);
    const ring_lines<T, ALONG> a = {
        p.a + of.a + i0 * g.a_row, g.a_row, g.a_col, g.m - i0, end, wide};
    factors += ((batch * across + tile) * stages + begin / TERMS) * shape::B_BYTES;

    const auto fetch_factors = [&](int x) {
        uint8_t *const to = memory + x % STAGES * shape::BYTES + shape::A_BYTES;
        for (int at = t * 16; at < shape::B_BYTES; at += THIN_THREADS * 16)
            copy_async<16>(address_in_shared(to + at), factors + x * shape::B_BYTES + at, true);
    };
    const auto fetch_lines = [&](int x) {
        a.template fetch<THIN_THREADS>(memory + x % STAGES * shape::BYTES,
                                       begin + (int64_t)x * TERMS);
    };
    /* Stages come and go BURST at a time: so many lines of memory that follow each other. */
    for (int x = 0; x < STAGES - BURST; x++)
        if (x < count) fetch_lines(x);
    gop_wait_for_kernel_before();
    for (int x = 0; x < STAGES - BURST; x += BURST) {
        for (int y = x; y < x + BURST; y++)
            if (y < count) fetch_factors(y);
        copies_commit();
    }

    S sum[NT][4] = {};
    uint32_t least = ~0u; /* of the numbers that are not 0: twice the bits, less 1 */
    for (int x = 0; x < count; x++) {
        if (x % BURST == 0) {
            copies_wait<STAGES / BURST - 2>();
            __syncthreads();
            for (int y = x + STAGES - BURST; y < x + STAGES; y++)
                if (y < count) {
                    fetch_lines(y);
                    fetch_factors(y);
                }
            copies_commit();
        }
        const uint8_t *const stage = memory + x % STAGES * shape::BYTES;
        const uint8_t *const of_b = stage + shape::A_BYTES;
        uint32_t low[2][4], high[2][4];
#pragma unroll
        for (int half = 0; half < 2; half++)
            ring_read<T, ALONG>(low[half], high[half], stage, warp * 16, half, lane);
        if constexpr (shape::SPLIT) {
            uint32_t fa[2][3][4];
#pragma unroll
            for (int half = 0; half < 2; half++)
                split_eight(low[half], high[half], fa[half], least);
            enum { TWO = NT > 1 ? 2 : 1 };
#pragma unroll
            for (int n = 0; n < NT; n += TWO) {
                uint2 fb[TWO][2][3];
                float few[TWO][4] = {};
#pragma unroll
                for (int c = 0; c < TWO; c++)
#pragma unroll
                    for (int half = 0; half < 2; half++)
#pragma unroll
                        for (int i = 0; i < 3; i++)
                            fb[c][half][i] = *reinterpret_cast<const uint2 *>(
                                of_b + (half * NT + n + c) * shape::FACTORS + i * 256 +
                                lane * 8);
#pragma unroll
                for (int e = 0; e < 6; e++)
#pragma unroll
                    for (int half = 0; half < 2; half++)
#pragma unroll
                        for (int c = 0; c < TWO; c++) {
                            const uint2 b = fb[c][half][piece_of_b(3, e)];
                            tensor_add(few[c], fa[half][piece_of_a(3, e)], {b.x, b.y},
                                       bfloat16());
                        }
#pragma unroll
                for (int c = 0; c < TWO; c++)
#pragma unroll
                    for (int e = 0; e < 4; e++) sum[n + c][e] += few[c][e];
            }
        } else {
#pragma unroll
            for (int n = 0; n < NT; n++) {
                S few[4] = {};
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const uint4 b = *reinterpret_cast<const uint4 *>(
                        of_b + (half * NT + n) * shape::FACTORS + lane * 16);
                    const uint32_t *const x = low[half], *const y = high[half];
                    if constexpr (sizeof(R) == 8) {
                        const double fa[4] = {ring_double(x), ring_double(y),
                                              ring_double(x + 2), ring_double(y + 2)};
                        double fb[2];
                        __builtin_memcpy(fb, &b, 16);
                        tensor_add(sum[n], fa, fb);
                    } else if constexpr (ALONG) {
                        tensor_add(few, {x[0], y[0], x[1], y[1]}, {b.x, b.y}, R());
                        tensor_add(few, {x[2], y[2], x[3], y[3]}, {b.z, b.w}, R());
                    } else {
                        tensor_add(few, {x[0], x[1], x[2], x[3]}, {b.x, b.y}, R());
                        tensor_add(few, {y[0], y[1], y[2], y[3]}, {b.z, b.w}, R());
                    }
                }
                if constexpr (sizeof(R) < 8)
#pragma unroll
                    for (int e = 0; e < 4; e++) sum[n][e] += few[e];
            }
        }
    }

    bool beyond = least < 2 * gop_float_to_bits(IMAGE_SMALLEST) - 1;
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int e = 0; e < 4; e += PARTS) {
            const int64_t i = i0 + warp * 16 + of_8 + e / 2 * 8;
            const int64_t j = (tile * shape::COLUMNS + n * 8 + q * 2 + e % 2) / PARTS;
            if constexpr (shape::SPLIT)
                for (int part = 0; part < PARTS; part++)
                    beyond |= !(fabsf(sum[n][e + part]) <= 3.4028234e38f);
            if (i >= g.m || j >= g.n) continue;
            const int64_t to = of.out + i * g.out_row + j * g.out_col;
            if constexpr (PARTS == 2) thin_put(p, to, piece, {sum[n][e], sum[n][e + 1]});
            else thin_put(p, to, piece, sum[n][e]);
        }
    if (shape::SPLIT && beyond) *wanted = 1;
}

#endif
