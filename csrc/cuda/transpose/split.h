/*
 * split.h - 16 bytes at any address of the input, read as the two aligned pieces of 16 that
 * they lie in.
 */
#ifndef GOP_CUDA_TRANSPOSE_SPLIT_H
#define GOP_CUDA_TRANSPOSE_SPLIT_H

#include "cuda/transpose/index.h"
#include "cuda/common/window.h"

/* The aligned pieces that lie entirely in the input, whose ends may be unaligned. */
struct pieces {
    const uint4 *first, *end;
};

/* What is read for 16 bytes at any address. */
struct split {
    uint4 low, high;
    int shift;
};

GOP_DEVICE uint4 window(const split &s)
{
    return window(s.low, s.high, s.shift);
}

/* Loads bytes `begin` to `end` of 16 one by one: at the ends of the array. */
GOP_DEVICE uint4 load_bytes(const uint8_t *from, int begin, int end)
{
    uint64_t half[2] = {0, 0};
#pragma unroll 1
    for (int i = begin; i < end; i++) {
        const uint64_t byte = (uint64_t)from[i] << 8 * (i % 8);
        if (i < 8) half[0] |= byte;
        else half[1] |= byte;
    }
    return make_uint4((uint32_t)half[0], (uint32_t)(half[0] >> 32), (uint32_t)half[1],
                      (uint32_t)(half[1] >> 32));
}

/* Loads bytes `begin` to `end` of 16, where a piece may reach beyond the input. */
GOP_DEVICE split load_split(const uint8_t *from, int begin, int end, pieces whole)
{
    split s = {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0), (int)((uintptr_t)from % 16)};
    if (begin >= end) return s;
    const uint4 *const piece = reinterpret_cast<const uint4 *>(from - s.shift);
    const bool has_low = s.shift + begin<16, has_high = s.shift + end> 16;
    if (piece + !has_low >= whole.first && piece + has_high < whole.end) {
        if (has_low) s.low = piece[0];
        if (has_high) s.high = piece[1];
    } else {
        s.low = load_bytes(from, begin, end);
        s.shift = 0;
    }
    return s;
}

/* ---- on the host ---- */

/* From the first byte of the input to behind its last. */
static inline pieces pieces_of(const gop_task *task)
{
    const gop_permutation &g = task->geometry.permutation;
    const int item = transpose_item(task);
    uintptr_t first = (uintptr_t)task->in[0].data, end = first + item;
    for (int axis = 0; axis < g.rank; axis++) {
        const int64_t span = (g.extent[axis] - 1) * g.in[axis] * item;
        if (span < 0) first += span;
        else end += span;
    }
    return {reinterpret_cast<const uint4 *>((first + 15) / 16 * 16),
            reinterpret_cast<const uint4 *>(end / 16 * 16)};
}

#endif
