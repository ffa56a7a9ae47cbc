/*
 * straight_copies.h - copies operands that no tensor map can describe into scratch, for items
 * of 2 or 8 bytes. One launch copies both operands.
 */
#ifndef GOP_CUDA_MATMUL_STRAIGHT_COPIES_H
#define GOP_CUDA_MATMUL_STRAIGHT_COPIES_H

#include "cuda/common/fast_divisor.h"
#include "cuda/matmul/straight.h"

#if GOP_SM90

/* Loads eight neighbours at any even address, as the aligned words that hold them. */
GOP_DEVICE vec128<uint16_t> straight_eight(const uint16_t *from)
{
    const uint32_t *const words = (const uint32_t *)((uintptr_t)from & ~(uintptr_t)3);
    const unsigned shift = (uintptr_t)from % 4 * 8;
    uint32_t now = words[0], to[4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const uint32_t next = e < 3 || shift ? words[e + 1] : 0;
        to[e] = __funnelshift_r(now, next, shift);
        now = next;
    }
    vec128<uint16_t> v;
    __builtin_memcpy(&v, to, 16);
    return v;
}

/* Up to two operands that are copied, of one dtype. */
struct straight_copies {
    straight_operand of[2];
    const void *from[2];
    void *to[2];
    bool is_b[2];
    int count;
    fast_divisor chunks[2], outer[2]; /* of 16 bytes in a line; lines of a product */
    int64_t step[2];                  /* items from product to product; -1: it varies */

    void add(const straight_operand &o, const void *data, void *copy, bool b)
    {
        of[count] = o, from[count] = data, to[count] = copy;
        is_b[count++] = b;
    }
};

/* The source of chunk `at` of operand b; i becomes the number of its first item in its line. */
template <typename T> GOP_DEVICE const T *straight_chunk(const straight_copies &c, int b,
                                                         const matmul_geometry &g, int64_t at,
                                                         int64_t &i)
{
    const straight_operand &o = c.of[b];
    int64_t y, z;
    if (at <= INT32_MAX) { /* 64-bit divisions cost more than the copy */
        uint32_t rest = (uint32_t)at;
        i = take_index(rest, c.chunks[b]);
        y = take_index(rest, c.outer[b]);
        z = rest;
    } else {
        const int64_t chunks = o.line * (int)sizeof(T) / 16;
        i = at % chunks, y = at / chunks % o.outer, z = at / chunks / o.outer;
    }
    i *= 16 / (int)sizeof(T);
    int64_t batch = z * c.step[b];
    if (c.step[b] < 0) {
        const matmul_offsets of = matmul_batch(g, z);
        batch = c.is_b[b] ? of.b : of.a;
    }
    return (const T *)c.from[b] + batch + y * o.from_outer + i * o.from_inner;
}

/* Each thread copies four chunks of 16 bytes. All loads are issued before the first store. */
template <typename T> __global__ void __launch_bounds__(256)
    matmul_straighten_kernel(const __grid_constant__ straight_copies c, const matmul_geometry g)
{
    enum { V = 16 / sizeof(T), TIMES = 4 };
    const straight_operand &o = c.of[blockIdx.y];
    const int64_t count = o.batches * o.outer * (o.line / V);
    const int64_t first = (int64_t)blockIdx.x * 256 * TIMES + threadIdx.x;
    vec128<T> v[TIMES];
#pragma unroll
    for (int t = 0; t < TIMES; t++) {
        if (first + t * 256 >= count) break;
        int64_t i;
        const T *const from = straight_chunk<T>(c, blockIdx.y, g, first + t * 256, i);
        if (sizeof(T) == 2 && o.from_inner == 1 && i + V <= o.inner) {
            const vec128<uint16_t> eight = straight_eight((const uint16_t *)from);
            __builtin_memcpy(&v[t], &eight, 16);
        } else {
#pragma unroll
            for (int e = 0; e < V; e++)
                v[t].at[e] = i + e < o.inner ? from[e * o.from_inner] : 0;
        }
    }
#pragma unroll
    for (int t = 0; t < TIMES; t++)
        if (first + t * 256 < count)
            store128((T *)c.to[blockIdx.y] + (first + t * 256) * V, v[t]);
}

/* Launches the copies in c. A block copies 1024 chunks. */
template <typename T = uint16_t> static inline gop_status
straighten(gop_ctx *ctx, straight_copies &c, const gop_gemm &g, bool is_followed)
{
    int64_t most = 0; /* chunks of the larger operand */
    for (int i = 0; i < c.count; i++) {
        const straight_operand &o = c.of[i];
        const int64_t chunks = o.line * o.item / 16, all = o.batches * o.outer * chunks;
        c.chunks[i] = make_fast_divisor(chunks), c.outer[i] = make_fast_divisor(o.outer);
        c.step[i] = o.batches == 1 ? 0 : uniform_batch(g, c.is_b[i] ? g.b : g.a);
        if (all > most) most = all;
    }
    return GOP_LAUNCH_FOLLOWED(ctx, is_followed, matmul_straighten_kernel<T>,
                               dim3((unsigned)blocks_for(most, 1024), (unsigned)c.count), 256,
                               0, c, matmul_geometry_of(g));
}

#endif
#endif
