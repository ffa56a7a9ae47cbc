/*
 * panels.h - the panels that matmul's packed kernels read, and how they are packed.
 *
 * PFN, X and WIDE stay defined for the kernel that includes this.
 */
#ifdef D

static inline void FN(put)(T value, X *to, int plane)
{
#if IS_COMPLEX
    to[0] = value.re;
    to[plane] = value.im;
#else
    (void)plane;
    *to = (X)LOAD(value);
#endif
}

static inline T FN(get)(const X *from, int plane)
{
#if IS_COMPLEX
    return (T){from[0], from[plane]};
#else
    (void)plane;
    return (T)STORE(*from);
#endif
}

/* Packs `here` contiguous values of one l into a panel of `width`. */
static ALWAYS_INLINE void FN(pack_line)(const T *from, int here, int width, X *to)
{
    if (WIDE) memcpy(to, from, (size_t)here * sizeof(T));
    else
        for (int x = 0; x < here; x++) FN(put)(from[x], to + x, width);
}

#if IS_FLOAT && !IS_HALF
/* Packs `here` lines that are contiguous along l into one panel: squares are transposed in
 * registers. Missing lines are not loaded, not even with all lanes masked: on some processors,
 * masked accesses to unmapped memory take hundreds of cycles. Stores are whole vectors for the
 * same reason. What one stores too much is overwritten by a later one; behind the last panel of
 * a is the memory of b's panels, which are packed after a's. */
static void FN(pack_squares)(const T *from, int64_t step, int here, int64_t kc, int width,
                             X *to)
{
    enum { N = VECTOR / (int)sizeof(T) };
    for (int x0 = (width - 1) / N * N; x0 >= 0; x0 -= N) {
        const int lines = here - x0;
        for (int64_t l0 = 0; l0 < kc; l0 += N) {
            const int64_t left = gop_smaller(kc - l0, N);
            SQUARE_VECTOR square[N];
#pragma GCC unroll 16
            for (int x = 0; x < N; x++)
                square[x] = x < lines ? SQUARE(load)(from + (x0 + x) * step + l0, left)
                                      : (SQUARE_VECTOR){0};
            SQUARE(square)(square);
#pragma GCC unroll 16
            for (int l = 0; l < N; l++)
                if (l < left) SQUARE(store)(to + (l0 + l) * width + x0, N, square[l]);
        }
    }
}
#endif

/* Packs `count` vectors of `kc` values into panels of `width` vectors, which are interleaved
 * for each l. The last panel is padded by 0, whose accumulators are never stored. The source is
 * read along its contiguous direction, whole cache lines at a time. */
static void FN(pack)(const T *from, int64_t step, int64_t l_step, int64_t count, int64_t kc,
                     int width, X *to)
{
    enum { LINE = 16 }; /* values of l that are read of one vector at a time */
    const int planes = 1 + IS_COMPLEX;
    const int64_t panel = kc * width * planes, full = count / width * width;
    if (full < count) memset(to + full / width * panel, 0, sizeof(X) * (size_t)panel);
    if (step == 1) {
        enum {
            SIDE =
                VECTOR == 64 ? 4 : 8, /* panels that are filled together: 512 bytes of a line */
            NEXT = 6,                 /* lines between what is packed and what is asked for */
        };
        int64_t x = 0;
        if (width == PFN(NR)) /* a constant length becomes a few moves */
            for (; x + SIDE * PFN(NR) <= full; x += SIDE * PFN(NR), to += SIDE * panel)
                for (int64_t l = 0; l < kc; l++)
#pragma GCC unroll 8
                    for (int s = 0; s < SIDE; s++) {
                        const T *const line = from + x + l * l_step + s * PFN(NR);
                        if (VECTOR == 32) __builtin_prefetch(line + NEXT * l_step);
                        FN(pack_line)
                        (line, PFN(NR), PFN(NR), to + s * panel + l * PFN(NR) * planes);
                    }
        else if (width == PFN(MR))
            for (; x < full; x += PFN(MR), to += panel)
                for (int64_t l = 0; l < kc; l++) FN(pack_line)
        (from + x + l * l_step, PFN(MR), PFN(MR), to + l * PFN(MR) * planes);
        for (; x < count; x += width, to += panel)
            for (int64_t l = 0; l < kc; l++) FN(pack_line)
        (from + x + l * l_step, (int)(count - x < width ? count - x : width), width,
         to + l * width * planes);
        return;
    }
    for (int64_t first = 0; first < count; first += width, to += panel) {
        const int here = (int)(count - first < width ? count - first : width);
        const T *source = from + first * step;
#if IS_FLOAT && !IS_HALF
        if (l_step == 1) {
            FN(pack_squares)(source, step, here, kc, width, to);
            continue;
        }
#endif
        for (int64_t l0 = 0; l0 < kc; l0 += LINE) {
            const int64_t l_end = kc - l0 < LINE ? kc : l0 + LINE;
            for (int x = 0; x < here; x++)
                for (int64_t l = l0; l < l_end; l++)
                    FN(put)(source[x * step + l * l_step], to + l * width * planes + x, width);
        }
    }
}

#elif !defined(GOP_CPU_MATMUL_PANELS_H)
#define GOP_CPU_MATMUL_PANELS_H

#include "cpu/matmul/registers.h"

/* The type of a panel's numbers: one for the integers of a width. Bytes multiply as 16-bit
 * numbers, because there is no vector product of bytes. */
#define PACKED_bool logic
#define PACKED_int8 u16
#define PACKED_int16 u16
#define PACKED_int32 u32
#define PACKED_int64 u64
#define PACKED_uint8 u16
#define PACKED_uint16 u16
#define PACKED_uint32 u32
#define PACKED_uint64 u64
#define PACKED_float16 f32
#define PACKED_bfloat16 f32
#define PACKED_float32 f32
#define PACKED_float64 f64
#define PACKED_complex64 c32
#define PACKED_complex128 c64

/* Whether panels hold the dtype itself, so that sums can be kept in out. */
#define WIDE_bool 0
#define WIDE_int8 0
#define WIDE_uint8 0
#define WIDE_int16 1
#define WIDE_uint16 1
#define WIDE_int32 1
#define WIDE_uint32 1
#define WIDE_int64 1
#define WIDE_uint64 1
#define WIDE_float16 0
#define WIDE_bfloat16 0
#define WIDE_float32 1
#define WIDE_float64 1
#define WIDE_complex64 0
#define WIDE_complex128 0

#define SQUARE_VECTOR GOP_PASTE(SQUARE_VECTOR, D)
#define SQUARE_VECTOR_float32 vector_u32
#define SQUARE_VECTOR_float64 vector_u64
#define SQUARE(name) GOP_PASTE(GOP_PASTE(vector, name), GOP_PASTE(SQUARE, D))
#define SQUARE_float32 u32
#define SQUARE_float64 u64

#define P logic
#define P_FLOAT 0
#define P_SCALAR uint8_t
#define P_COMPLEX 0
#define P_MADD(a, b, c) ((c) | ((b) & (a)))
#define P_ADD(a, b) ((a) | (b))
#include "cpu/matmul/kernel.inc"
#define P u16
#define P_FLOAT 0
#define P_SCALAR uint16_t
#define P_COMPLEX 0
#define P_MADD(a, b, c) ((b) * (a) + (c))
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul/kernel.inc"
#define P u32
#define P_FLOAT 0
#define P_SCALAR uint32_t
#define P_COMPLEX 0
#define P_MADD(a, b, c) ((b) * (a) + (c))
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul/kernel.inc"
#define P u64
#define P_FLOAT 0
#define P_SCALAR uint64_t
#define P_COMPLEX 0
#define P_MADD(a, b, c) ((b) * (a) + (c))
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul/kernel.inc"
#define P f32
#define P_FLOAT 1
#define P_SCALAR float
#define P_COMPLEX 0
#define P_MADD(a, b, c) vector_fma_f32(VECTOR_SPLAT(vector_f32, a), b, c)
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul/kernel.inc"
#define P f64
#define P_FLOAT 1
#define P_SCALAR double
#define P_COMPLEX 0
#define P_MADD(a, b, c) vector_fma_f64(VECTOR_SPLAT(vector_f64, a), b, c)
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul/kernel.inc"
#define P c32
#define P_FLOAT 0
#define P_SCALAR float
#define P_COMPLEX 1
#define P_MADD(a, b, c) vector_fma_f32(VECTOR_SPLAT(vector_f32, a), b, c)
#define P_NMADD(a, b, c) vector_fnma_f32(VECTOR_SPLAT(vector_f32, a), b, c)
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul/kernel.inc"
#define P c64
#define P_FLOAT 0
#define P_SCALAR double
#define P_COMPLEX 1
#define P_MADD(a, b, c) vector_fma_f64(VECTOR_SPLAT(vector_f64, a), b, c)
#define P_NMADD(a, b, c) vector_fnma_f64(VECTOR_SPLAT(vector_f64, a), b, c)
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul/kernel.inc"

#define PFN(name) GOP_PASTE(name, GOP_PASTE(PACKED, D))
#define X PFN(packed)
#define WIDE GOP_PASTE(WIDE, D)
#define GOP_TPL "cpu/matmul/panels.h"
#include "cpu/runtime/each_dtype.inc"

#endif
