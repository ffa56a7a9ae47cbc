/*
 * lines.h - 128 bytes of each of 128 lines of a large operand, for tensor cores.
 *
 * A warp copies whole lines of memory into shared memory (cp.async), as they lie: along the sum
 * or across. A lane's 16 bytes of a line are four terms of a float32, eight of a half and two
 * of a float64: a sum may take its terms in any order, so these are its fragments as they come.
 *
 * A float32 is the sum of three bfloat16 (pack.h), split in registers. A complex number is two
 * reals, and a row of the small operand becomes (re, im) and (-im, re).
 */
#ifndef GOP_CUDA_MATMUL_LINES_H
#define GOP_CUDA_MATMUL_LINES_H

#include <type_traits>

#include "cuda/common/cp_async.h"
#include "cuda/common/mma.h"
#include "cuda/matmul/bf16x3_parts.h"
#include "cuda/matmul/thin.h"

enum { RING_SHARED = 96 << 10 };

#if GOP_SM80

template <typename T> struct ring_real {
    typedef T type;
};
template <typename R> struct ring_real<complex<R>> {
    typedef R type;
};

/* Bytes from term to term of lines that lie across, so that lanes meet all banks. */
template <typename T> GOP_DEVICE constexpr int ring_pitch(void)
{
    return RING_LINES * (int)sizeof(T) + (sizeof(T) == 2 ? 16 : 32);
}

/* Terms are items of T, reals what they consist of. Halves of a stage: 64 bytes of a line. */
template <typename T, bool ALONG, int NT> struct ring_shape {
    typedef typename ring_real<T>::type R;
    enum { ITEM = sizeof(T), PARTS = ITEM / (int)sizeof(R), TERMS = RING_LINE_BYTES / ITEM };
    enum { V = 16 / (int)sizeof(R), ITEMS = 16 / ITEM }; /* of a lane in half a stage */
    enum { SPLIT = std::is_same<R, float>::value, PIECES = SPLIT ? 3 : 1, HALVES = ITEM == 2 };
    enum { FACTORS = SPLIT ? 768 : 512 }; /* bytes, of 8 columns in half a stage */
    enum { A_BYTES = ALONG ? RING_LINES * RING_LINE_BYTES : TERMS * ring_pitch<T>() };
    enum { B_BYTES = 2 * NT * FACTORS, BYTES = A_BYTES + B_BYTES };
    enum { STAGES = NT == 8 ? 3 : 4, COLUMNS = 8 * NT };
    /* Stages that are fetched at once: longer runs of memory, where multiplying is short. */
    enum { BLOCKS = HALVES && NT == 1 ? 4 : 2 }; /* of an SM */
    enum { BURST = SPLIT ? (NT == 1 ? 2 : 1) : ALONG && NT <= 2 ? 2 : 1 };
};

/* Which real of half a stage is lane q's number v. */
template <typename T, bool ALONG> GOP_DEVICE int ring_term(int q, int v)
{
    typedef ring_shape<T, ALONG, 1> shape;
    if (ALONG) return q * shape::V + v;
    if (shape::HALVES) return v / 4 * 16 + 2 * q + v % 2 + v / 2 % 2 * 8;
    return (v / shape::PARTS * 4 + q) * shape::PARTS + v % shape::PARTS;
}

/* A real of the small operand, 0 beyond the edges. */
template <typename T> GOP_DEVICE typename ring_real<T>::type
ring_factor(const matmul_geometry &g, const T *b, int64_t l, int64_t j)
{
    typedef typename ring_real<T>::type R;
    enum { PARTS = sizeof(T) / sizeof(R) };
    R value = {};
    if (l >= g.k * PARTS || j >= g.n * PARTS) return value;
    const R *const at = (const R *)(b + l / PARTS * g.b_row + j / PARTS * g.b_col);
    if constexpr (PARTS == 1) {
        value = *at;
    } else {
        value = at[(l ^ j) & 1];
        if ((l & 1) && !(j & 1)) value = -value;
    }
    return value;
}

/* One item into shared memory, or zeros. */
template <typename T> GOP_DEVICE void ring_copy(uint8_t *to, const T *from, bool exists)
{
    if constexpr (sizeof(T) == 2) {
        T value = {};
        if (exists) value = *from;
        *(T *)to = value;
    } else {
        cp_async<sizeof(T)>(address_in_shared(to), from, exists);
    }
}

/* A block's lines, and how its threads copy a stage of them. */
template <typename T, bool ALONG> struct ring_lines {
    typedef ring_shape<T, ALONG, 1> shape;
    const T *a; /* its first line and term */
    int64_t line, term, lines, end;
    int many; /* neighbours that are copied at once: 16 bytes, a word of two halves, or one */

    template <int THREADS> GOP_DEVICE void fetch(uint8_t *to, int64_t l0) const
    {
        enum { WORD = sizeof(T) == 2 ? 2 : 1 };
        if (many == shape::ITEMS) fetch_by<THREADS, shape::ITEMS>(to, l0);
        else if (many == WORD) fetch_by<THREADS, WORD>(to, l0);
        else fetch_by<THREADS, 1>(to, l0);
    }
    /* MANY neighbours at a time: a thread's are STEP lines, or terms, apart. */
    template <int THREADS, int MANY> GOP_DEVICE void fetch_by(uint8_t *to, int64_t l0) const
    {
        enum { ROW = (ALONG ? shape::TERMS : RING_LINES) / MANY, STEP = THREADS / ROW };
        enum { PITCH = ALONG ? RING_LINE_BYTES : ring_pitch<T>() };
        static_assert(THREADS % ROW == 0 && (!ALONG || STEP % 2 == 0), "the swizzle stays");
        const int x = threadIdx.x % ROW * MANY, y = threadIdx.x / ROW;
        const T *from = a + (ALONG ? y * line + (l0 + x) * term : x * line + (l0 + y) * term);
        const int64_t apart = STEP * (ALONG ? line : term);
        int64_t i = ALONG ? y : x, l = l0 + (ALONG ? x : y);
        to += y * PITCH + (ALONG ? x * shape::ITEM ^ (y & 1) * 64 : x * shape::ITEM);
#pragma unroll(sizeof(T) == 2 && MANY == 1 ? 4 : 2)
        for (int e = 0; e < RING_LINES * shape::TERMS / MANY / THREADS; e++) {
            const bool exists = i < lines && l < end;
            if constexpr (MANY > 1)
                cp_async<MANY *(int)sizeof(T)>(address_in_shared(to), from, exists);
            else ring_copy(to, from, exists);
            from += apart, to += STEP * PITCH;
            (ALONG ? i : l) += STEP;
        }
    }
};

/* Half a stage of a warp's 16 lines: for lines g and g + 8 the lane's 16 bytes; for halves that
 * lie across, the words as the instruction takes them. */
template <typename T, bool ALONG>
GOP_DEVICE void ring_read(uint32_t (&low)[4], uint32_t (&high)[4], const uint8_t *stage,
                          int first, int half, int lane)
{
    typedef ring_shape<T, ALONG, 1> shape;
    const int q = lane % 4, of_8 = lane / 4;
    if constexpr (ALONG) {
        const uint8_t *const at =
            stage + (first + of_8) * RING_LINE_BYTES + ((half * 4 + q) ^ (of_8 & 1) * 4) * 16;
        __builtin_memcpy(low, __builtin_assume_aligned(at, 16), 16);
        __builtin_memcpy(high, __builtin_assume_aligned(at + 8 * RING_LINE_BYTES, 16), 16);
    } else if constexpr (shape::HALVES) {
        const uint8_t *const at = stage +
                                  (half * 32 + lane / 16 * 8 + lane % 8) * ring_pitch<T>() +
                                  (first + lane / 8 % 2 * 8) * 2;
        ldmatrix_trans(low, address_in_shared(at));
        ldmatrix_trans(high, address_in_shared(at + 16 * ring_pitch<T>()));
    } else {
#pragma unroll
        for (int v = 0; v < shape::ITEMS; v++) {
            const uint8_t *const at = stage +
                                      (half * shape::TERMS / 2 + v * 4 + q) * ring_pitch<T>() +
                                      (first + of_8) * shape::ITEM;
            __builtin_memcpy(low + v * (shape::ITEM / 4),
                             __builtin_assume_aligned(at, shape::ITEM), shape::ITEM);
            __builtin_memcpy(high + v * (shape::ITEM / 4),
                             __builtin_assume_aligned(at + 8 * shape::ITEM, shape::ITEM),
                             shape::ITEM);
        }
    }
}

/* A warp's 16 lines of a stage as factors: 32 reals of each. */
template <typename T, bool ALONG> GOP_DEVICE void split_lines(uint32_t (&piece)[2][3][4],
                                                              const uint8_t *stage, int first,
                                                              int lane, uint32_t &least)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint32_t low[4], high[4];
        ring_read<T, ALONG>(low, high, stage, first, half, lane);
        split_eight(low, high, piece[half], least);
    }
}

#endif
#endif
