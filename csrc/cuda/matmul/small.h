/*
 * small.h - what a team of small.cu has: its shape, its copies, and how it reads and stores.
 */
#ifndef GOP_CUDA_MATMUL_SMALL_H
#define GOP_CUDA_MATMUL_SMALL_H

#include <type_traits>

#include "cuda/matmul/product.h"
#include "cuda/common/cp_async.h"

/* How items stand in shared memory: as they are, but integers of one and two bytes widened. */
template <typename T> struct staged {
    typedef sum_t<T> type;
    typedef vec128<T> piece; /* the most that is copied at once */
};
template <> struct staged<float16> {
    typedef float16 type;
    typedef vec128<float16> piece;
};
template <> struct staged<bfloat16> {
    typedef bfloat16 type;
    typedef vec128<bfloat16> piece;
};
template <typename T> struct staged_wider {
    typedef sum_t<T> type;
    typedef T piece;
};
template <> struct staged<boolean> : staged_wider<boolean> {
};
template <> struct staged<uint8_t> : staged_wider<uint8_t> {
};
template <> struct staged<uint16_t> : staged_wider<uint16_t> {
};
template <typename T> using staged_t = typename staged<T>::type;

/* A team of LANES threads, each with R x C outputs. A stage has DEPTH terms of their lines. */
template <typename T, int LANES, int R, int C> struct small_shape {
    typedef staged_t<T> H;
    enum { ACROSS = LANES < 32 ? 2 : LANES / 8, DOWN = LANES / ACROSS };
    enum { M = DOWN * R, N = ACROSS * C };
    enum { TEAMS = LANES > 32 ? 1 : 64 / LANES, THREADS = TEAMS * LANES };
    enum { V = vec128<H>::N, CV = C < V ? C : V, DEPTH = 64 / (int)sizeof(H) };
    /* Lines are padded, and teams of eight stand apart: fewer bank conflicts. */
    enum { A_LINE = DEPTH + V, B_LINE = N + V, A_SIZE = M * A_LINE };
    enum { STAGE = A_SIZE + DEPTH * B_LINE, APART = LANES < 32 ? 4 * V : 0 };
    enum { STAGES = R * C > 32 ? 3 : 4 }; /* of all blocks: shared memory has no more */
    enum { COPIES = ((M + N) * DEPTH / LANES + 2) * STAGES }; /* of a thread, at most */
    enum { REGISTERS = 72 + R * C * (int)sizeof(sum_t<T>) / 4 };
    enum { BLOCKS = 65536 / (REGISTERS * THREADS) }; /* of an SM */
};

/* What a plan decides, and tells the kernel. */
struct small_way {
    unsigned tiles, tiles_n; /* of a product */
    int stages;              /* there is room for */
    int a_wide, b_wide;      /* 16 bytes are neighbours wherever they are looked for */
    int out_near;            /* so many results are */
    int a_along, b_along;    /* else: whether neighbours are terms */
    int a_near, b_near;      /* of halves, how many neighbours are loaded at once */
    int a_again, b_again;    /* whether many teams copy the same */
};
struct small_plan {
    matmul_cut steps; /* first: matmul_plan_steps fills it */
    small_way way;
};

/* The warps of a team meet at the block's barrier: the block has no other team. */
template <int LANES> GOP_DEVICE void team_sync(void)
{
    if constexpr (LANES > 32) __syncthreads();
    else __syncwarp();
}

/* Two neighbours that are copied at once. */
template <typename T> struct alignas(2 * sizeof(T)) staged_pair {
    T at[2];
};

/* A thread's copies to shared memory, asynchronous (cp.async) where the GPU has them. */
template <typename T, int MOST> struct small_copies {
    typedef staged_t<T> H;
    async_copies<vec128<T>, MOST> wide;
    async_copies<T, MOST> single;
    async_copies<staged_pair<T>, sizeof(H) == 2 ? MOST : 1> pairs;
    bool again = false; /* what is copied now many teams copy */

    GOP_DEVICE void copy(H *to, const T *from, bool exists, vec128<T>)
    {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
        const vec128<T> zero = {};
        store128(to, exists ? load128(from) : zero);
#else
        wide.copy(reinterpret_cast<vec128<T> *>(to), reinterpret_cast<const vec128<T> *>(from),
                  exists, again);
#endif
    }
    GOP_DEVICE void copy(H *to, const T *from, bool exists, T)
    {
        const H zero = {};
        if constexpr (sizeof(H) != sizeof(T)) *to = exists ? widen(*from) : zero;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
        else *to = exists ? *from : zero;
#else
        else if constexpr (sizeof(T) < 4) *to = exists ? *from : zero;
        else single.copy(to, from, exists);
#endif
    }
    GOP_DEVICE void copy(H *to, const T *from, bool exists, staged_pair<T>)
    {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
        const staged_pair<T> zero = {};
        *reinterpret_cast<staged_pair<T> *>(to) =
            exists ? *reinterpret_cast<const staged_pair<T> *>(from) : zero;
#else
        pairs.copy(reinterpret_cast<staged_pair<T> *>(to),
                   reinterpret_cast<const staged_pair<T> *>(from), exists);
#endif
    }
    GOP_DEVICE void commit(void)
    {
        wide.commit();
        if (!GOP_SM80) single.commit(), pairs.commit();
    }
    template <int N> GOP_DEVICE void wait(void)
    {
        wide.template wait<N>();
        if (!GOP_SM80) single.template wait<N>(), pairs.template wait<N>();
    }
};

/* Thread t's share of a tile, piece by piece: NEAR neighbours of FAR lines or terms, some of
 * which exist; 0 stands for the others. */
template <typename piece, int LANES, int NEAR, int FAR, int NEAR_TO, int FAR_TO, typename T,
          int MOST>
GOP_DEVICE void small_fetch(small_copies<T, MOST> &copies, staged_t<T> *to, const T *from,
                            int64_t near_stride, int64_t far_stride, int near_exist,
                            int far_exist, int t)
{
    enum { V = (int)(sizeof(piece) / sizeof(T)), WIDTH = NEAR / V, ALL = WIDTH * FAR };
    enum { EACH = (ALL + LANES - 1) / LANES, EVEN = LANES % WIDTH == 0, STEP = LANES / WIDTH };
    const int64_t first = t % WIDTH * V * near_stride + t / WIDTH * far_stride;
    const int64_t step = STEP * far_stride;
#pragma unroll 8
    for (int e = 0; e < EACH; e++) {
        const int at = t + e * LANES;
        if (ALL % LANES != 0 && at >= ALL) break;
        const int near = (EVEN ? t : at) % WIDTH * V;
        const int far = EVEN ? t / WIDTH + e * STEP : at / WIDTH;
        const bool exists = near < near_exist && far < far_exist;
        const T *const place =
            from + (EVEN ? first + e * step : near * near_stride + far * far_stride);
        copies.copy(to + near * NEAR_TO + far * FAR_TO, exists ? place : from, exists, piece());
    }
}

/* The same of halves through registers, MANY neighbours at a time, of the first `far_all`. */
template <int MANY, int LANES, int NEAR, int FAR, int NEAR_TO, int FAR_TO, typename T>
GOP_DEVICE void small_bring(T *to, const T *from, int64_t near_stride, int64_t far_stride,
                            int near_exist, int far_exist, int far_all, int t)
{
    enum { WIDTH = NEAR / MANY, EACH = (WIDTH * FAR + LANES - 1) / LANES, AHEAD = 4 };
    struct alignas(MANY * sizeof(T)) group {
        T at[MANY];
    };
#pragma unroll 1
    for (int e = 0; e < EACH; e += AHEAD) {
        if ((e * LANES + t) / WIDTH >= far_all) break;
        group held[AHEAD] = {};
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const int at = t + (e + u) * LANES, near = at % WIDTH * MANY, far = at / WIDTH;
            if (near < near_exist && far < far_exist)
                held[u] = *reinterpret_cast<const group *>(from + near * near_stride +
                                                           far * far_stride);
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const int at = t + (e + u) * LANES, near = at % WIDTH * MANY, far = at / WIDTH;
            if (far >= FAR) break;
            if constexpr (NEAR_TO == 1) {
                *reinterpret_cast<group *>(to + near + far * FAR_TO) = held[u];
            } else {
#pragma unroll
                for (int v = 0; v < MANY; v++)
                    to[(near + v) * NEAR_TO + far * FAR_TO] = held[u].at[v];
            }
        }
    }
}

/* A tile of halves that are no whole 16 bytes, or lie across those of shared memory. */
template <int LANES, int LINES, int DEPTH, int LINE_TO, int TERM_TO, typename T>
GOP_DEVICE void small_bring_tile(T *to, const T *from, int64_t line, int64_t term, int lines,
                                 int terms, bool along, int near, int t)
{
    const auto bring = [&](auto many) {
        enum { MANY = decltype(many)::value };
        if (along)
            small_bring<MANY, LANES, DEPTH, LINES, TERM_TO, LINE_TO>(to, from, term, line,
                                                                     terms, lines, LINES, t);
        else
            small_bring<MANY, LANES, LINES, DEPTH, LINE_TO, TERM_TO>(
                to, from, line, term, lines, terms, (terms + 7) & ~7, t);
    };
    if (near == 8) bring(std::integral_constant<int, 8>());
    else if (near == 2) bring(std::integral_constant<int, 2>());
    else bring(std::integral_constant<int, 1>());
}

/* The same of LINES lines (rows of a, columns of b) and DEPTH terms: `wide`, by the most that
 * is copied at once, else by items, those that lie near each other by neighbouring threads. */
template <int LANES, int LINES, int DEPTH, int LINE_TO, int TERM_TO, typename T, int MOST>
GOP_DEVICE void small_fetch_tile(small_copies<T, MOST> &copies, staged_t<T> *to, const T *from,
                                 int64_t line, int64_t term, int lines, int terms, bool wide,
                                 bool along, int near, int t)
{
    typedef typename staged<T>::piece piece;
    if constexpr (sizeof(staged_t<T>) == 2) {
        if (!wide && near == 2 && along == (TERM_TO == 1)) {
            if constexpr (TERM_TO == 1)
                small_fetch<staged_pair<T>, LANES, DEPTH, LINES, 1, LINE_TO>(
                    copies, to, from, 1, line, terms, lines, t);
            else
                small_fetch<staged_pair<T>, LANES, LINES, DEPTH, 1, TERM_TO>(
                    copies, to, from, 1, term, lines, terms, t);
            return;
        }
        if (!wide) {
            small_bring_tile<LANES, LINES, DEPTH, LINE_TO, TERM_TO>(to, from, line, term, lines,
                                                                    terms, along, near, t);
            return;
        }
    }
    if (!wide && along)
        small_fetch<T, LANES, DEPTH, LINES, TERM_TO, LINE_TO>(copies, to, from, term, line,
                                                              terms, lines, t);
    else if (!wide)
        small_fetch<T, LANES, LINES, DEPTH, LINE_TO, TERM_TO>(copies, to, from, line, term,
                                                              lines, terms, t);
    else if constexpr (TERM_TO == 1)
        small_fetch<piece, LANES, DEPTH, LINES, 1, LINE_TO>(copies, to, from, 1, line, terms,
                                                            lines, t);
    else
        small_fetch<piece, LANES, LINES, DEPTH, 1, TERM_TO>(copies, to, from, 1, term, lines,
                                                            terms, t);
}

/* N items from shared memory: 16 bytes, or 8. Of halves words are kept, whose parts take one
 * instruction to widen. */
template <typename H, int N> struct small_items {
    enum { PARTS = sizeof(H) == 2 ? 2 : 1 };
    typedef std::conditional_t<PARTS == 2, uint32_t, H> word;
    word words[N / PARTS];

    GOP_DEVICE void read(const H *from)
    {
        if constexpr (N * sizeof(H) == 16) {
            const uint4 all = *reinterpret_cast<const uint4 *>(from);
            __builtin_memcpy(words, &all, 16);
        } else {
            const uint2 all = *reinterpret_cast<const uint2 *>(from);
            __builtin_memcpy(words, &all, 8);
        }
    }
    GOP_DEVICE H operator[](int n) const
    {
        if constexpr (PARTS == 2) return {(uint16_t)(words[n / 2] >> n % 2 * 16)};
        else return words[n];
    }
};

/* Neighbours of a row of the output, `near` of which are stored at once. */
template <typename T, typename S, int N>
GOP_DEVICE void small_store(T *to, int64_t step, const S *sum, int exist, int near)
{
    T item[N];
#pragma unroll
    for (int c = 0; c < N; c++) put(item + c, sum[c]);
    if (N * sizeof(T) >= 8 && near >= N && exist >= N) {
        if constexpr (N * sizeof(T) == 16) {
            uint4 word;
            __builtin_memcpy(&word, item, 16);
            *reinterpret_cast<uint4 *>(to) = word;
        } else if constexpr (N * sizeof(T) == 8) {
            uint2 word;
            __builtin_memcpy(&word, item, 8);
            *reinterpret_cast<uint2 *>(to) = word;
        }
        return;
    }
#pragma unroll
    for (int c = 0; c < N; c++)
        if (c < exist) to[c * step] = item[c];
}

#endif
