/*
 * copied.h - tiles of both operands in shared memory, as asynchronous copies bring them there.
 */
#ifndef GOP_CUDA_MATMUL_COPIED_H
#define GOP_CUDA_MATMUL_COPIED_H

#include "cuda/matmul/product.h"
#include "cuda/common/cp_async.h"

#if GOP_SM80

/* An operand's tile of LINES lines (rows of a, columns of b) and DEPTH terms in shared memory,
 * and which of it a thread copies, VECTOR items at a time. ALONG: terms are contiguous, and the
 * tile is stored line by line; else term by term. Lines are padded so that the lanes of a
 * fragment meet different banks. */
template <typename T, int LINES, int DEPTH, bool ALONG, int VECTOR, int THREADS, int PAD_ALONG,
          int PAD_ACROSS>
struct copied_tile {
    typedef T item;
    enum { TERMS = DEPTH, ITEMS = VECTOR };
    enum { PITCH = ALONG ? DEPTH + PAD_ALONG : LINES + PAD_ACROSS };
    enum { SIZE = ALONG ? LINES * PITCH : DEPTH * PITCH };
    enum { LINE = ALONG ? PITCH : 1, TERM = ALONG ? 1 : PITCH };
    enum { ACROSS = (ALONG ? DEPTH : LINES) / VECTOR, STEP = THREADS / ACROSS };
    enum { EACH = LINES * DEPTH / VECTOR / THREADS };
    enum { LINE_STEP = ALONG ? STEP : 0, TERM_STEP = ALONG ? 0 : STEP };
};

/* What a thread copies of an operand, whose tile says how many items at a time. */
template <typename T> struct copied_share {
    const T *from, *none;
    int64_t step, next;
    uint32_t to;
    unsigned lines; /* a bit for each of its copies whose line exists */
    int term;

    /* `some` is a valid address for copies that read nothing. */
    template <typename tile> GOP_DEVICE void begin(const T *first, const T *some, T *stage,
                                                   int64_t line_stride, int64_t term_stride,
                                                   int exist)
    {
        const int t = threadIdx.x, near = t % tile::ACROSS * tile::ITEMS,
                  far = t / tile::ACROSS;
        const bool along = tile::TERM == 1;
        const int line = along ? far : near;
        term = along ? near : far;
        none = some;
        from = first + line * line_stride + term * term_stride;
        step = tile::LINE_STEP * line_stride + tile::TERM_STEP * term_stride;
        next = tile::TERMS * term_stride;
        to = address_in_shared(stage) +
             (line * tile::LINE + term * tile::TERM) * (uint32_t)sizeof(T);
        lines = 0;
#pragma unroll
        for (int e = 0; e < tile::EACH; e++)
            lines |= (unsigned)(line + e * tile::LINE_STEP < exist) << e;
    }
    template <typename tile> GOP_DEVICE void copy(int stage, int left, int e)
    {
        const bool exists = (lines >> e & 1) && term + e * tile::TERM_STEP < left;
        cp_async<(int)sizeof(T) * tile::ITEMS>(
            to + (stage * tile::SIZE +
                  e * (tile::LINE_STEP * tile::LINE + tile::TERM_STEP * tile::TERM)) *
                     (uint32_t)sizeof(T),
            exists ? from + e * step : none, exists);
    }
    template <typename tile> GOP_DEVICE void fetch(int stage, int left)
    {
#pragma unroll
        for (int e = 0; e < tile::EACH; e++) copy<tile>(stage, left, e);
        from += next;
    }
    /* The first `many` of its copies: the others' lines do not exist. */
    template <typename tile> GOP_DEVICE void fetch(int stage, int left, int many)
    {
#pragma unroll 1
        for (int e = 0; e < many; e++) copy<tile>(stage, left, e);
        from += next;
    }
};

/* The same of a tile that is known. */
template <typename tile> struct tile_copier : copied_share<typename tile::item> {
    typedef typename tile::item T;

    GOP_DEVICE tile_copier(const T *first, const T *some, T *stage, int64_t line_stride,
                           int64_t term_stride, int exist)
    {
        this->template begin<tile>(first, some, stage, line_stride, term_stride, exist);
    }
    GOP_DEVICE void fetch(int stage, int left)
    {
        copied_share<T>::template fetch<tile>(stage, left);
    }
};

/* What a thread copies of both operands: a stage of each, while there are terms. */
template <typename of_a, typename of_b> struct stage_copier {
    tile_copier<of_a> a;
    tile_copier<of_b> b;
    int left;

    GOP_DEVICE void fetch(int stage)
    {
        if (left > 0) {
            a.fetch(stage, left);
            b.fetch(stage, left);
            left -= of_a::TERMS;
        }
        cp_async_commit_group();
    }
};

#endif
#endif
