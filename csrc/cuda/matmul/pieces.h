/*
 * pieces.h - a float32 as pieces of 16 bits whose sum it is, and which of their products count.
 */
#ifndef GOP_CUDA_MATMUL_PIECES_H
#define GOP_CUDA_MATMUL_PIECES_H

#include <cuda_bf16.h>

#include "cuda/device.h"

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

/* Of the products of pieces those that count, smallest first: a digit names a piece. */
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

#endif
