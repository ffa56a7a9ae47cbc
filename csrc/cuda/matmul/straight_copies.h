/*
 * straight_copies.h - operands of 2-byte items that no tensor map describes are copied into
 * scratch, both by one launch.
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

/* Up to two operands that are copied. */
struct straight_copies {
    straight_operand of[2];
    const uint16_t *from[2];
    uint16_t *to[2];
    bool is_b[2];
    int count;

    void add(const straight_operand &o, const void *data, void *copy, bool b)
    {
        of[count] = o, from[count] = (const uint16_t *)data, to[count] = (uint16_t *)copy;
        is_b[count++] = b;
    }
};

/* A thread copies eight neighbours. */
static __global__ void __launch_bounds__(256)
    matmul_straighten_kernel(const __grid_constant__ straight_copies c, const matmul_geometry g)
{
    const straight_operand &o = c.of[blockIdx.y];
    const int64_t chunks = o.line / 8, count = o.batches * o.outer * chunks;
    for (int64_t at = (int64_t)blockIdx.x * 256 + threadIdx.x; at < count;
         at += (int64_t)gridDim.x * 256) {
        const int64_t i = at % chunks * 8, y = at / chunks % o.outer, z = at / chunks / o.outer;
        const matmul_offsets of = matmul_batch(g, z);
        const int64_t batch = o.batches == 1 ? 0 : c.is_b[blockIdx.y] ? of.b : of.a;
        const uint16_t *row = c.from[blockIdx.y] + batch + y * o.from_outer + i * o.from_inner;
        vec128<uint16_t> v;
        if (o.from_inner == 1 && i + 8 <= o.inner) {
            v = straight_eight(row);
        } else {
#pragma unroll
            for (int e = 0; e < 8; e++) v.at[e] = i + e < o.inner ? row[e * o.from_inner] : 0;
        }
        store128(c.to[blockIdx.y] + at * 8, v);
    }
}

static inline gop_status straighten(gop_ctx *ctx, const straight_copies &c, const gop_gemm &g,
                                    bool is_followed)
{
    int64_t most = 0; /* groups of eight, of the larger one */
    for (int i = 0; i < c.count; i++) {
        const int64_t chunks = c.of[i].batches * c.of[i].outer * (c.of[i].line / 8);
        if (chunks > most) most = chunks;
    }
    return GOP_LAUNCH_FOLLOWED(ctx, is_followed, matmul_straighten_kernel,
                               dim3((unsigned)blocks_for(most, 256), (unsigned)c.count), 256, 0,
                               c, matmul_geometry_of(g));
}

#endif
#endif
