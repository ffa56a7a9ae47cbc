/*
 * straight_copies.h - operands of 2 or 8 bytes an item that no tensor map describes are copied
 * into scratch, both by one launch.
 */
#ifndef GOP_CUDA_MATMUL_STRAIGHT_COPIES_H
#define GOP_CUDA_MATMUL_STRAIGHT_COPIES_H

#include "cuda/matmul/straight.h"

#if GOP_SM90

/* Eight neighbours, by the words that they lie in. */
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

    void add(const straight_operand &o, const void *data, void *copy, bool b)
    {
        of[count] = o, from[count] = data, to[count] = copy;
        is_b[count++] = b;
    }
};

/* A thread copies 16 bytes of neighbours. */
template <typename T> __global__ void __launch_bounds__(256)
    matmul_straighten_kernel(const __grid_constant__ straight_copies c, const matmul_geometry g)
{
    enum { V = 16 / sizeof(T) };
    const straight_operand &o = c.of[blockIdx.y];
    const int64_t chunks = o.line / V, count = o.batches * o.outer * chunks;
    for (int64_t at = (int64_t)blockIdx.x * 256 + threadIdx.x; at < count;
         at += (int64_t)gridDim.x * 256) {
        const int64_t i = at % chunks * V, y = at / chunks % o.outer, z = at / chunks / o.outer;
        const matmul_offsets of = matmul_batch(g, z);
        const int64_t batch = o.batches == 1 ? 0 : c.is_b[blockIdx.y] ? of.b : of.a;
        const T *const row =
            (const T *)c.from[blockIdx.y] + batch + y * o.from_outer + i * o.from_inner;
        vec128<T> v;
        if (sizeof(T) == 2 && o.from_inner == 1 && i + V <= o.inner) {
            const vec128<uint16_t> eight = straight_eight((const uint16_t *)row);
            __builtin_memcpy(&v, &eight, 16);
        } else {
#pragma unroll
            for (int e = 0; e < V; e++) v.at[e] = i + e < o.inner ? row[e * o.from_inner] : 0;
        }
        store128((T *)c.to[blockIdx.y] + at * V, v);
    }
}

template <typename T = uint16_t> static inline gop_status
straighten(gop_ctx *ctx, const straight_copies &c, const gop_gemm &g, bool is_followed)
{
    int64_t most = 0; /* groups of 16 bytes, of the larger one */
    for (int i = 0; i < c.count; i++) {
        const straight_operand &o = c.of[i];
        const int64_t chunks = o.batches * o.outer * (o.line * o.item / 16);
        if (chunks > most) most = chunks;
    }
    return GOP_LAUNCH_FOLLOWED(ctx, is_followed, matmul_straighten_kernel<T>,
                               dim3((unsigned)blocks_for(most, 256), (unsigned)c.count), 256, 0,
                               c, matmul_geometry_of(g));
}

#endif
#endif
