/*
 * direct.h - what a block of direct_sm90.cu copies, splits and writes.
 */
#ifndef GOP_CUDA_MATMUL_DIRECT_H
#define GOP_CUDA_MATMUL_DIRECT_H

#include "cuda/matmul/lines.h"

/* Of a block: 128 threads that copy, 128 that split b, 256 that multiply. */
enum { DIRECT_THREADS = 512, DIRECT_GROUP = 128, DIRECT_CONSUMERS = 256 };

/* A block: 128 lines of a by N columns of b, 32 terms a stage. */
template <int N, bool A_ALONG> struct direct_shape {
    enum { LINES = RING_LINES, TERMS = 32, SUMS = N / 2 };
    enum { A_BYTES = A_ALONG ? LINES * RING_LINE_BYTES : TERMS * ring_pitch<float>() };
    enum { PIECE = N / 64 * 4096, BYTES = A_BYTES + 3 * PIECE, STAGES = N == 64 ? 6 : 5 };
    enum { SHARED = STAGES * (BYTES + 24) + 16 + 1024 };
    static_assert(BYTES % 1024 == 0, "an image begins at a multiple of 1024 bytes");
};

struct direct_job {
    int64_t tiles, down, across; /* tiles: of all products */
    int a_wide, b_wide, pairs;
};

/* b's part of a stage: a thread has EACH times eight neighbouring columns of a term. One of the
 * copiers brings them as float32 to where their pieces will be, one of the splitters replaces
 * them. Lanes stand along the direction in which b is contiguous. */
template <int N, bool A_ALONG, bool ALONG> struct direct_factors {
    enum { GROUPS = N / 8, EACH = N / 32, PIECE = N / 64 * 4096 };
    const float *b; /* the tile's first column */
    int64_t row, column, columns, end;
    bool wide;

    static GOP_DEVICE int line_of(int e) /* of the image */
    {
        const int t = threadIdx.x % DIRECT_GROUP;
        return ALONG ? t % 32 : t / GROUPS + e * (DIRECT_GROUP / GROUPS);
    }
    static GOP_DEVICE int group_of(int e)
    {
        const int t = threadIdx.x % DIRECT_GROUP;
        return ALONG ? t / 32 + e * 4 : t % GROUPS;
    }
    static GOP_DEVICE int term_of(int e)
    {
        const int line = line_of(e), r = line % 16;
        return line / 16 * 16 + ring_term<float, A_ALONG>(r % 8 / 2, r / 8 * 2 + r % 2);
    }
    static GOP_DEVICE int place_of(int e)
    {
        const int line = line_of(e), group = group_of(e);
        return group / 8 * 4096 + line * 128 + ((group ^ line) & 7) * 16;
    }
    GOP_DEVICE void fetch(uint8_t *image, int64_t l0) const
    {
        const uint32_t to = address_in_shared(image);
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int j = group_of(e) * 8;
            const int64_t l = l0 + term_of(e);
            const float *at = b + l * row + j * column;
            if (!ALONG && wide) {
#pragma unroll
                for (int i = 0; i < 2; i++)
                    copy_async<16>(to + place_of(e) + i * PIECE, at + i * 4,
                                   l < end && j + i * 4 < columns);
            } else {
#pragma unroll
                for (int i = 0; i < 8; i++, at += column)
                    copy_async<4>(to + place_of(e) + i / 4 * PIECE + i % 4 * 4, at,
                                  l < end && j + i < columns);
            }
        }
    }
    static GOP_DEVICE void split(uint8_t *image)
    {
        float x[EACH][8];
#pragma unroll
        for (int e = 0; e < EACH; e++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const vec128<float> v =
                    load128((const float *)(image + place_of(e) + half * PIECE));
#pragma unroll
                for (int i = 0; i < 4; i++) x[e][half * 4 + i] = v.at[i];
            }
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            uint32_t least = ~0u, piece[3][4];
#pragma unroll
            for (int i = 0; i < 8; i++) least = min(least, 2 * gop_float_to_bits(x[e][i]) - 1);
            if (least < 2 * gop_float_to_bits(IMAGE_SMALLEST) - 1)
                x[e][0] = gop_bits_to_float(0x7fc00000u);
#pragma unroll
            for (int i = 0; i < 4; i++)
                split_two(x[e][2 * i], x[e][2 * i + 1], piece[0][i], piece[1][i], piece[2][i]);
#pragma unroll
            for (int n = 0; n < 3; n++)
                *reinterpret_cast<uint4 *>(image + place_of(e) + n * PIECE) =
                    make_uint4(piece[n][0], piece[n][1], piece[n][2], piece[n][3]);
        }
    }
};

/* What a copier brings of whole stages of operands that 16 bytes hold neighbours of: where it
 * reads next. Lines beyond the edges are other ones of the same array, whose sums nobody wants.
 */
template <int N, bool A_ALONG, bool B_ALONG> struct direct_whole {
    typedef direct_factors<N, A_ALONG, B_ALONG> factors;
    enum { A_EACH = 8, B_EACH = factors::EACH, PITCH = A_ALONG ? 128 : ring_pitch<float>() };
    enum { A_APART = A_ALONG ? 16 * PITCH : 4 * PITCH };
    const float *a[A_EACH], *b[B_EACH];
    int64_t a_step, b_step, b_column;
    int a_place, b_place[B_EACH];

    GOP_DEVICE direct_whole(const ring_lines<float, A_ALONG> &of_a, const factors &of_b,
                            int64_t begin)
    {
        const int t = threadIdx.x, near = A_ALONG ? t % 8 * 4 : t % 32 * 4;
        const int far = A_ALONG ? t / 8 : t / 32;
        a_step = 32 * of_a.term;
        b_step = 32 * of_b.row;
        b_column = of_b.column;
        a_place = far * PITCH + (A_ALONG ? near * 4 ^ (far & 1) * 64 : near * 4);
#pragma unroll
        for (int e = 0; e < A_EACH; e++) {
            int64_t line = A_ALONG ? far + 16 * e : near;
            const int64_t l = begin + (A_ALONG ? near : far + 4 * e);
            if (line >= of_a.lines) line = 0;
            a[e] = of_a.a + line * of_a.line + l * of_a.term;
        }
#pragma unroll
        for (int e = 0; e < B_EACH; e++) {
            int64_t j = factors::group_of(e) * 8;
            if (j >= of_b.columns) j = 0;
            b[e] = of_b.b + (begin + factors::term_of(e)) * of_b.row + j * of_b.column;
            b_place[e] = factors::place_of(e);
        }
    }
    GOP_DEVICE void fetch(uint8_t *stage)
    {
        const uint32_t to_a = address_in_shared(stage) + a_place;
        const uint32_t to_b = address_in_shared(stage) + direct_shape<N, A_ALONG>::A_BYTES;
#pragma unroll
        for (int e = 0; e < B_EACH; e++) {
            const float *at = b[e];
#pragma unroll
            for (int i = 0; i < 8; i += B_ALONG ? 1 : 4, at += b_column) {
                const uint32_t to = to_b + b_place[e] + i / 4 * factors::PIECE + i % 4 * 4;
                if (B_ALONG) copy_async<4>(to, at, true);
                else copy_async<16>(to, b[e] + i, true);
            }
            b[e] += b_step;
        }
#pragma unroll
        for (int e = 0; e < A_EACH; e++) {
            copy_async<16>(to_a + e * A_APART, a[e], true);
            a[e] += a_step;
        }
    }
};

/* Where a tile's outputs and operands are. */
struct direct_place {
    int64_t i0, j0;
    matmul_offsets of;
};
template <int N> GOP_DEVICE direct_place direct_place_of(const matmul_product<float> &p,
                                                         const direct_job &job, int64_t tile)
{
    direct_place at;
    at.j0 = tile % job.across * N;
    tile /= job.across;
    at.i0 = tile % job.down * RING_LINES;
    at.of = matmul_batch(p.g, tile / job.down);
    return at;
}

/* Four sums of a lane: two neighbours, and those eight rows below. */
template <int N> GOP_DEVICE void direct_put(const matmul_product<float> &p,
                                            const direct_job &job, const direct_place &at,
                                            int64_t row, int64_t column, const float4 &four)
{
    float *const up = (float *)p.out + at.of.out + row * p.g.out_row + column * p.g.out_col;
    float *const down = up + 8 * p.g.out_row;
    if (job.pairs && at.i0 + RING_LINES <= p.g.m && at.j0 + N <= p.g.n) {
        *reinterpret_cast<float2 *>(up) = make_float2(four.x, four.y);
        *reinterpret_cast<float2 *>(down) = make_float2(four.z, four.w);
        return;
    }
    const bool left = column < p.g.n, right = column + 1 < p.g.n;
    if (row < p.g.m && left) up[0] = four.x;
    if (row < p.g.m && right) up[p.g.out_col] = four.y;
    if (row + 8 < p.g.m && left) down[0] = four.z;
    if (row + 8 < p.g.m && right) down[p.g.out_col] = four.w;
}

/* A tile term by term. */
template <int N>
GOP_DEVICE void direct_anew(const matmul_product<float> &p, const direct_place &at, int thread)
{
    const gop_gemm &g = p.g;
    const int64_t rows = g.m - at.i0 < RING_LINES ? g.m - at.i0 : RING_LINES;
    const int columns = (int)(g.n - at.j0 < N ? g.n - at.j0 : N);
    for (int64_t e = thread; e < rows * columns; e += DIRECT_CONSUMERS) {
        const int64_t i = at.i0 + e / columns, j = at.j0 + e % columns;
        const float *x = p.a + at.of.a + i * g.a_row, *y = p.b + at.of.b + j * g.b_col;
        float total = 0;
        for (int64_t l = 0; l < g.k; l++, x += g.a_col, y += g.b_row)
            total = fmaf(*x, *y, total);
        ((float *)p.out)[at.of.out + i * g.out_row + j * g.out_col] = total;
    }
}

#endif
