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
/* Packs `lines` lines that are contiguous along l, of which a panel takes `width`: squares are
 * transposed in registers. Missing lines are not loaded, not even with all lanes masked: on
 * some processors, masked accesses to unmapped memory take hundreds of cycles. Stores are whole
 * vectors for the same reason. What one stores too much is overwritten by a later one; behind
 * the last panel of a is the memory of b's panels, which are packed after a's. */
static void FN(pack_squares)(const T *from, int64_t step, int64_t lines, int64_t kc,
                             int64_t width, T *to)
{
    enum { N = VECTOR / (int)sizeof(T) };
    for (int64_t x0 = (width - 1) / N * N; x0 >= 0; x0 -= N) {
        const T *line = from + x0 * step;
        T *at = to + x0;
        int64_t left = kc;
        SQUARE_VECTOR square[N];
        for (; left >= N && lines - x0 >= N; left -= N, line += N, at += N * width) {
#pragma GCC unroll 16
            for (int x = 0; x < N; x++) square[x] = SQUARE(load)(line + x * step, N);
            SQUARE(square)(square);
#pragma GCC unroll 16
            for (int l = 0; l < N; l++) SQUARE(store)(at + l * width, N, square[l]);
        }
        for (; left > 0; left -= N, line += N, at += N * width) {
#pragma GCC unroll 16
            for (int x = 0; x < N; x++)
                square[x] = x < lines - x0 ? SQUARE(load)(line + x * step, gop_smaller(left, N))
                                           : (SQUARE_VECTOR){0};
            SQUARE(square)(square);
#pragma GCC unroll 16
            for (int l = 0; l < N; l++)
                if (l < left) SQUARE(store)(at + l * width, N, square[l]);
        }
    }
}
#endif

/* Packs lines that are contiguous across l into one panel of `width`: `here` of `lines` that
 * there are. Stores are whole vectors, as those of squares. The loop is short, so that many
 * loads are under way. */
static void FN(pack_across)(const T *from, int64_t l_step, int64_t here, int64_t lines,
                            int64_t kc, int64_t width, X *to)
{
#if IS_FLOAT && !IS_HALF
    enum { N = VECTOR / (int)sizeof(T) };
    (void)here;
    for (int64_t x = (width - 1) / N * N; x >= 0; x -= N) {
        const int64_t left = gop_smaller(lines - x, N);
        const T *line = from + x;
        X *at = to + x;
        if (left < N) {
            for (int64_t l = 0; l < kc && left > 0; l++, line += l_step, at += width)
                SQUARE(store)(at, N, SQUARE(load)(line, left));
            continue;
        }
        for (int64_t l = 0; l < kc; l++, line += l_step, at += width)
            SQUARE(store)(at, N, SQUARE(load)(line, N));
    }
#else
    const int planes = 1 + IS_COMPLEX;
    (void)lines;
#define ROWS_OF(n)                                                                             \
    if (here == n && width == n) { /* a constant length becomes a few moves */                 \
        for (int64_t l = 0; l < kc; l++)                                                       \
            FN(pack_line)(from + l * l_step, n, n, to + l * n * planes);                       \
        return;                                                                                \
    }
    ROWS_OF(PFN(MR));
#if IS_COMPLEX
    ROWS_OF(5);
    ROWS_OF(4);
#endif
#undef ROWS_OF
    for (int64_t l = 0; l < kc; l++)
        FN(pack_line)(from + l * l_step, (int)here, (int)width, to + l * width * planes);
#endif
}

/* Packs `count` vectors of `kc` values, of `all` that there are, into panels of `width`
 * vectors, which are interleaved for each l. The last panel is padded by 0, whose accumulators
 * are never stored. The source is read along its contiguous direction, whole cache lines at a
 * time. */
static void FN(pack)(const T *from, int64_t step, int64_t l_step, int64_t count, int64_t all,
                     int64_t kc, int64_t width, X *to)
{
    enum { LINE = 16 }; /* values of l that are read of one vector at a time */
    (void)all;
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
        for (; x < count; x += width, to += panel) FN(pack_across)
        (from + x, l_step, gop_smaller(count - x, width), all - x, kc, width, to);
        return;
    }
    for (int64_t first = 0; first < count; first += width, to += panel) {
        const int64_t here = gop_smaller(count - first, width);
        const T *source = from + first * step;
#if (IS_FLOAT && !IS_HALF) || IS_COMPLEX /* parts are lines, too */
        if (l_step == 1) {
            PACK_SQUARES((const R *)source, EACH * step, all - first, EACH * kc, width, to);
            continue;
        }
#endif
        for (int64_t l0 = 0; l0 < kc; l0 += LINE) {
            const int64_t l_end = kc - l0 < LINE ? kc : l0 + LINE;
            for (int64_t x = 0; x < here; x++)
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

/* Packs lines of real numbers; the complex dtypes come first. */
static void pack_squares_float32(const float *from, int64_t step, int64_t lines, int64_t kc,
                                 int64_t width, float *to);
static void pack_squares_float64(const double *from, int64_t step, int64_t lines, int64_t kc,
                                 int64_t width, double *to);
#define PACK_SQUARES GOP_PASTE(PACK_SQUARES, REAL)
#define PACK_SQUARES_f32 pack_squares_float32
#define PACK_SQUARES_f64 pack_squares_float64

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
