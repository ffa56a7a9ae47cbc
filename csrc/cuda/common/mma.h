/*
 * mma.h - tensor cores by mma.sync, and ldmatrix, from compute capability 8.0 on.
 *
 * A warp multiplies small matrices that are distributed over its registers as fragments. Lane l
 * of a warp is q = l % 4 of group g = l / 4. Fragments of a have rows g and g + 8, those of b
 * column g, those of the sums rows g and g + 8 and columns 2 q and 2 q + 1.
 */
#ifndef GOP_CUDA_COMMON_MMA_H
#define GOP_CUDA_COMMON_MMA_H

#include "cuda/common/sm80.h"

/* 16 x 8 by 8 x 8 of float32, of whose factors only the upper 19 bits count (TF32): a[0] and
 * a[1] are rows g and g + 8 of term q, a[2] and a[3] of term q + 4; b[0] is term q, b[1] term
 * q + 4. Sim has its own version, in which lanes exchange the factors. */
GOP_DEVICE void mma_sync(float (&sum)[4], const float (&a)[4], const float (&b)[2])
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
#elif !defined(__CUDA_ARCH__) && !GOP_SM80
    const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    for (int l = 0; l < 8; l++)
        for (int e = 0; e < 4; e++) {
            const float row = __shfl_sync(0xffffffffu, a[e / 2 + l / 4 * 2], g * 4 + l % 4);
            const float even = __shfl_sync(0xffffffffu, b[l / 4], 2 * q * 4 + l % 4);
            const float odd = __shfl_sync(0xffffffffu, b[l / 4], (2 * q + 1) * 4 + l % 4);
            sum[e] += row * (e % 2 ? odd : even);
        }
#endif
}

#if GOP_SM80

/* ---- tensor cores: sum += a * b ---- */

/* 16 x 16 by 16 x 8 halves, summed in float32: a register has terms 2 i and 2 i + 1. */
GOP_DEVICE void mma_sync(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                         float16)
{
#if GOP_CODE_SM80
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
GOP_DEVICE void mma_sync(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                         bfloat16)
{
#if GOP_CODE_SM80
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* 16 x 8 by 8 x 8 of float64: a[0] and a[1] are rows g and g + 8 of term q, a[2] and a[3] of
 * term q + 4; b[0] is term q, b[1] term q + 4. */
GOP_DEVICE void mma_sync(double (&sum)[4], const double (&a)[4], const double (&b)[2])
{
#if GOP_CODE_SM80 && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#elif GOP_CODE_SM80
#pragma unroll
    for (int i = 0; i < 4; i++) /* rows g, then g + 8, of each four terms */
        asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+d"(sum[i % 2 * 2]), "+d"(sum[i % 2 * 2 + 1])
            : "d"(a[i]), "d"(b[i / 2]));
#endif
}

/* 16 x 8 by 16 x 8 of float64: a[i] is row g, or g + 8 of odd i, of term q + i / 2 * 4, b[i]
 * term q + i * 4. The sums are read and written half as often as by eight terms. */
GOP_DEVICE void mma_sync(double (&sum)[4], const double (&a)[8], const double (&b)[4])
{
#if GOP_CODE_SM80 && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
    asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]),
          "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#elif GOP_CODE_SM80
#pragma unroll
    for (int i = 0; i < 8; i++)
        asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+d"(sum[i % 2 * 2]), "+d"(sum[i % 2 * 2 + 1])
            : "d"(a[i]), "d"(b[i / 2]));
#endif
}

/* 16 x 32 by 32 x 8 bytes, summed modulo 2^32: a register has four terms. */
GOP_DEVICE void mma_sync(int32_t (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
#if GOP_CODE_SM80
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* Loads four matrices of 8 rows of 16 bytes from shared memory: lane l gives the address of row
 * l % 8 of matrix l / 8, and gets bytes 4 q to 4 q + 3 of row g of each. */
GOP_DEVICE void ldmatrix(uint32_t (&to)[4], uint32_t row)
{
#if GOP_CODE_SM80
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row));
#endif
}

/* The same, transposed: bytes of row 2 q, then of row 2 q + 1, that are column g. */
GOP_DEVICE void ldmatrix_trans(uint32_t (&to)[4], uint32_t row)
{
#if GOP_CODE_SM80
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row));
#endif
}

#endif

#endif
