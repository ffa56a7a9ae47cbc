/*
 * turn.h - small squares of items, transposed in registers.
 */
#ifndef GOP_CUDA_TRANSPOSE_TURN_H
#define GOP_CUDA_TRANSPOSE_TURN_H

#include "cuda/device.h"

/* Transposes N by N items, which together make N words: words along x become words along y. */
GOP_DEVICE void turn_words(uint32_t (&r)[2])
{
    const uint32_t low = __byte_perm(r[0], r[1], 0x5410);
    r[1] = __byte_perm(r[0], r[1], 0x7632);
    r[0] = low;
}

/* Neighbouring rows change bytes, then pairs of rows change halves. */
GOP_DEVICE void turn_words(uint32_t (&r)[4])
{
    const uint32_t a = __byte_perm(r[0], r[1], 0x5140), b = __byte_perm(r[0], r[1], 0x7362);
    const uint32_t c = __byte_perm(r[2], r[3], 0x5140), d = __byte_perm(r[2], r[3], 0x7362);
    r[0] = __byte_perm(a, c, 0x5410);
    r[1] = __byte_perm(a, c, 0x7632);
    r[2] = __byte_perm(b, d, 0x5410);
    r[3] = __byte_perm(b, d, 0x7632);
}

/* ROWS of 16 bytes, N items each: a square where there are N of them. */
template <typename T, int ROWS = 16 / (int)sizeof(T)> struct square {
    enum { N = 16 / (int)sizeof(T) };
    uint32_t word[ROWS][4];
};

/* The same transposed: N columns of ROWS items, each one word in memory. */
template <typename T, int ROWS> struct alignas(ROWS * sizeof(T)) column {
    uint32_t word[ROWS * (int)sizeof(T) / 4];
};
template <typename T, int ROWS> struct columns {
    column<T, ROWS> at[16 / (int)sizeof(T)];
};

template <typename T, int ROWS> GOP_DEVICE columns<T, ROWS> turned(const square<T, ROWS> &s)
{
    enum { N = square<T, ROWS>::N, PER_WORD = sizeof(T) < 4 ? 4 / (int)sizeof(T) : 1 };
    columns<T, ROWS> t;
    if constexpr (PER_WORD > 1) {
        /* Squares of PER_WORD words a side change places, and each is transposed. */
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < ROWS / PER_WORD; j++) {
                uint32_t words[PER_WORD];
#pragma unroll
                for (int k = 0; k < PER_WORD; k++) words[k] = s.word[j * PER_WORD + k][i];
                turn_words(words);
#pragma unroll
                for (int k = 0; k < PER_WORD; k++) t.at[i * PER_WORD + k].word[j] = words[k];
            }
    } else {
        enum { WORDS = 4 / N }; /* of an item */
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int j = 0; j < ROWS; j++)
#pragma unroll
                for (int k = 0; k < WORDS; k++)
                    t.at[i].word[j * WORDS + k] = s.word[j][i * WORDS + k];
    }
    return t;
}

#endif
