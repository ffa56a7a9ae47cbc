/*
 * bf16x3_parts.h - float32 on tensor cores: the 16-bit pieces of a number, and their products.
 */
#ifndef GOP_CUDA_MATMUL_BF16X3_PARTS_H
#define GOP_CUDA_MATMUL_BF16X3_PARTS_H

#include "cuda/matmul/product.h"
#include "cuda/common/cvt.h"
#include "cuda/common/wgmma.h"

enum { MOST_SLICES = 16 }; /* parts of a sum */

#if GOP_SM80

#include <cuda_bf16.h>

/* ---- a float32 as pieces whose sum it is, and which of their products count ---- */

/* What float32 and its pieces hold alike: below, the last piece loses bits, and above, the
 * first becomes infinite. Zero is held too. */
#define IMAGE_SMALLEST 0x1p-110f
#define IMAGE_LARGEST 3.3e38f

/* x as PIECES of 16 bits whose sum it is, the largest first: bfloat16, or two float16. */
template <int PIECES> GOP_DEVICE void split(float x, uint16_t (&piece)[PIECES])
{
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        if constexpr (PIECES == 2) {
            const float16 part = store<float16>(x);
            piece[p] = part.bits;
            x -= load(part);
        } else {
            const bfloat16 part = {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
            piece[p] = part.bits;
            x -= load(part);
        }
    }
}

/* Whether the pieces cannot hold x. */
template <int PIECES> GOP_DEVICE bool beyond_pieces(float x)
{
    const uint32_t largest = gop_float_to_bits(IMAGE_LARGEST);
    const uint32_t low = gop_float_to_bits(IMAGE_SMALLEST);
    const uint32_t bits = gop_float_to_bits(x) & 0x7fffffffu;
    return PIECES == 3 ? bits && bits - low > largest - low : bits > largest;
}

/* Eight reals that are neighbours in the image, as 16 bytes of each piece. */
template <int PIECES>
GOP_DEVICE void put_pieces(const float (&x)[8], uint8_t *to, int64_t piece_bytes)
{
    uint16_t piece[8][PIECES];
#pragma unroll
    for (int i = 0; i < 8; i++) split<PIECES>(x[i], piece[i]);
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        uint32_t word[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            word[i] = piece[2 * i][p] | (uint32_t)piece[2 * i + 1][p] << 16;
        *reinterpret_cast<uint4 *>(to + p * piece_bytes) =
            make_uint4(word[0], word[1], word[2], word[3]);
    }
}

/* The products of pieces that count, smallest first; a digit names a piece. */
GOP_DEVICE constexpr int products_of(int pieces)
{
    return pieces == 3 ? 6 : pieces == 2 ? 3 : 1;
}
GOP_DEVICE constexpr int piece_of_a(int pieces, int product)
{
    return (pieces == 3 ? "102010" : pieces == 2 ? "100" : "0")[product] - '0';
}
GOP_DEVICE constexpr int piece_of_b(int pieces, int product)
{
    return (pieces == 3 ? "120100" : pieces == 2 ? "010" : "0")[product] - '0';
}

/* ---- pieces in registers ---- */

/* Splits x and y into three bfloat16 each; a register holds the same part of both. */
GOP_DEVICE void split_two(float x, float y, uint32_t &first, uint32_t &second, uint32_t &third)
{
    const auto less = [](float value, uint32_t bits) {
        return value - gop_bits_to_float(bits);
    };
    first = cvt_rn_two(x, y, bfloat16{});
    x = less(x, first << 16), y = less(y, first & 0xffff0000u);
    second = cvt_rn_two(x, y, bfloat16{});
    x = less(x, second << 16), y = less(y, second & 0xffff0000u);
    third = cvt_rn_two(x, y, bfloat16{});
}

/* A lane's float32 of half a stage, of lines g and g + 8, as factors; `least` is lowered to the
 * least of those that are not 0, as twice its bits less 1. */
GOP_DEVICE void split_eight(const uint32_t (&low)[4], const uint32_t (&high)[4],
                            uint32_t (&piece)[3][4], uint32_t &least)
{
#pragma unroll
    for (int v = 0; v < 4; v++) {
        const uint32_t one = 2 * low[v] - 1, two = 2 * high[v] - 1;
        least = least < one ? least : one;
        least = least < two ? least : two;
    }
#pragma unroll
    for (int w = 0; w < 4; w++) {
        const uint32_t *const two = w % 2 ? high : low;
        split_two(gop_bits_to_float(two[w / 2 * 2]), gop_bits_to_float(two[w / 2 * 2 + 1]),
                  piece[0][w], piece[1][w], piece[2][w]);
    }
}

/* sum = what a stage adds: lines in registers by the other operand's pieces, which lie PIECE
 * bytes apart in shared memory, `stage` bytes behind the tile `b`: terms of 64 columns, or
 * (B_ALONG) columns of 32 terms. */
template <int PIECE, bool B_ALONG, int SUMS> GOP_DEVICE void
multiply_lines(float (&sum)[SUMS], const uint32_t (&a)[2][3][4], uint64_t b, int stage)
{
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < products_of(3); n++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            wgmma_add<!B_ALONG>(
                sum, a[half][piece_of_a(3, n)],
                b + (stage + piece_of_b(3, n) * PIECE + half * (B_ALONG ? 32 : 2048)) / 16,
                n + half > 0);
}

/* Adds a part of four sums of a thread. */
GOP_DEVICE void add_part(float4 &sum, const float4 &part)
{
    sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
}

/* All parts of them, `apart` from each other, in order: all loads are in flight before the
 * first is needed. */
GOP_DEVICE float4 sum_of_parts(const float4 *from, int64_t apart, int slices)
{
    float4 part[MOST_SLICES];
#pragma unroll
    for (int slice = 0; slice < MOST_SLICES; slice++)
        if (slice < slices) part[slice] = from[slice * apart];
#pragma unroll
    for (int slice = 1; slice < MOST_SLICES; slice++)
        if (slice < slices) add_part(part[0], part[slice]);
    return part[0];
}

#endif

#endif
