/*
 * turn.h - transposes squares of elements in vector registers, by the size of an item.
 *
 * turn_u8 to turn_u128 transpose as many rows as fill 16 bytes, turn_rows any number.
 */
#ifdef D /* u8 u16 u32 u64 u128, LANES of which fill 16 bytes */

/* Transposes LANES by LANES elements in registers. Zipping row k with row k + LANES/2, once for
 * every bit of the lane number, swaps that bit of the row number with one of the lane number.
 * The loops must be unrolled, otherwise the vectors would be in memory. */
static inline void FN(square)(T *restrict out, int64_t pitch, const T *restrict in,
                              const int64_t *restrict in_y)
{
#if LANES > 1
    VEC v[LANES], w[LANES];
    UNROLL for (int y = 0; y < LANES; y++) memcpy(&v[y], in + in_y[y], 16);
    UNROLL for (int bit = 1; bit < LANES; bit *= 2)
    {
        UNROLL for (int k = 0; k < LANES / 2; k++)
        {
            w[2 * k] = ZIP_LOW(v[k], v[k + LANES / 2]);
            w[2 * k + 1] = ZIP_HIGH(v[k], v[k + LANES / 2]);
        }
        UNROLL for (int k = 0; k < LANES; k++) v[k] = w[k];
    }
    UNROLL for (int x = 0; x < LANES; x++) memcpy(out + x * pitch, &v[x], 16);
#else
    (void)pitch;
    *out = in[*in_y];
#endif
}

/* Prefetches `rows` rows of the next tile, if there is one. GCC drops calls of a function that
 * only prefetches, unless it is inlined early. */
static ALWAYS_INLINE void FN(fetch)(int64_t nx, const void *next, const int64_t *restrict in_y,
                                    int rows)
{
    for (int y = 0; next && y < rows; y++) {
        const char *const row = (const char *)((const T *)next + in_y[y]);
        for (int64_t k = 0; k < nx * (int64_t)sizeof(T); k += LINE)
            __builtin_prefetch(row + k, 0, 2);
        __builtin_prefetch(row + nx * (int64_t)sizeof(T) - 1, 0, 2);
    }
}

/* Transposes LANES rows of a tile into columns of the buffer; nx is at least LANES. The last
 * squares overlap, so that none reads beyond its row. */
static inline void FN(turn)(T *restrict buffer, int64_t pitch, const T *restrict in,
                            const int64_t *restrict in_y, int64_t nx, const void *next)
{
    FN(fetch)(nx, next, in_y, LANES);
    int64_t x = 0;
    for (; x + LANES <= nx; x += LANES) FN(square)(buffer + x * pitch, pitch, in + x, in_y);
    if (x < nx) FN(square)(buffer + (nx - LANES) * pitch, pitch, in + nx - LANES, in_y);
}

/* Transposes any number of rows: element x of row y goes to out[x * pitch + y]. Items of 16
 * bytes go four at a time, which is a cache line of the output. */
static inline void FN(turn_rows)(int64_t nx, int64_t ny, void *out, int64_t pitch,
                                 const void *in, const int64_t *in_y, const void *next)
{
    T *const to = out;
    const T *const from = in;
    int64_t y = 0;
    for (; LANES == 1 && y + 4 <= ny; y += 4) {
        const T *const row[4] = {from + in_y[y], from + in_y[y + 1], from + in_y[y + 2],
                                 from + in_y[y + 3]};
        FN(fetch)(nx, next, in_y + y, 4);
        for (int64_t x = 0; x < nx; x++)
            for (int k = 0; k < 4; k++) to[x * pitch + y + k] = row[k][x];
    }
    if (LANES > 1 && nx >= LANES)
        for (; y + LANES <= ny; y += LANES) FN(turn)(to + y, pitch, from, in_y + y, nx, next);
    for (; y < ny; y++)
        for (int64_t x = 0; x < nx; x++) to[x * pitch + y] = from[in_y[y] + x];
}

#elif !defined(GOP_CPU_TURN_H)
#define GOP_CPU_TURN_H

#include "cpu/runtime/cpu.h"
#include "cpu/runtime/stream.h"

typedef struct u128 {
    uint64_t low, high;
} u128;
#define GOP_T_u8 uint8_t
#define GOP_T_u16 uint16_t
#define GOP_T_u32 uint32_t
#define GOP_T_u64 uint64_t
#define GOP_T_u128 u128

typedef uint8_t vec_u8 __attribute__((vector_size(16)));
typedef uint16_t vec_u16 __attribute__((vector_size(16)));
typedef uint32_t vec_u32 __attribute__((vector_size(16)));
typedef uint64_t vec_u64 __attribute__((vector_size(16)));

#if defined(__clang__)
#define ZIP(v, w, ...) __builtin_shufflevector(v, w, __VA_ARGS__)
#else
#define ZIP(v, w, ...) __builtin_shuffle(v, w, (VEC){__VA_ARGS__})
#endif

#define UNROLL _Pragma("GCC unroll 16")

/* A launch table in the order of the dtypes, of which only the size matters. */
#define BY_SIZE(f)                                                                             \
    {                                                                                          \
        f##_u8, f##_u8, f##_u16, f##_u32, f##_u64, f##_u8, f##_u16, f##_u32, f##_u64, f##_u16, \
            f##_u16, f##_u32, f##_u64, f##_u64, f##_u128                                       \
    }

#define GOP_TPL "cpu/transpose/turn.h"
#define D u8
#define VEC vec_u8
#define LANES 16
#define ZIP_LOW(v, w) ZIP(v, w, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ZIP_HIGH(v, w) ZIP(v, w, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#include GOP_TPL
#undef D
#undef VEC
#undef LANES
#undef ZIP_LOW
#undef ZIP_HIGH
#define D u16
#define VEC vec_u16
#define LANES 8
#define ZIP_LOW(v, w) ZIP(v, w, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_HIGH(v, w) ZIP(v, w, 4, 12, 5, 13, 6, 14, 7, 15)
#include GOP_TPL
#undef D
#undef VEC
#undef LANES
#undef ZIP_LOW
#undef ZIP_HIGH
#define D u32
#define VEC vec_u32
#define LANES 4
#define ZIP_LOW(v, w) ZIP(v, w, 0, 4, 1, 5)
#define ZIP_HIGH(v, w) ZIP(v, w, 2, 6, 3, 7)
#include GOP_TPL
#undef D
#undef VEC
#undef LANES
#undef ZIP_LOW
#undef ZIP_HIGH
#define D u64
#define VEC vec_u64
#define LANES 2
#define ZIP_LOW(v, w) ZIP(v, w, 0, 2)
#define ZIP_HIGH(v, w) ZIP(v, w, 1, 3)
#include GOP_TPL
#undef D
#undef VEC
#undef LANES
#undef ZIP_LOW
#undef ZIP_HIGH
#define D u128
#define LANES 1
#include GOP_TPL
#undef D
#undef LANES

#undef GOP_TPL

static inline void turn_rows(int64_t item, int64_t nx, int64_t ny, void *out, int64_t pitch,
                             const void *in, const int64_t *in_y)
{
    switch (item) {
    case 1:
        turn_rows_u8(nx, ny, out, pitch, in, in_y, NULL);
        break;
    case 2:
        turn_rows_u16(nx, ny, out, pitch, in, in_y, NULL);
        break;
    case 4:
        turn_rows_u32(nx, ny, out, pitch, in, in_y, NULL);
        break;
    case 8:
        turn_rows_u64(nx, ny, out, pitch, in, in_y, NULL);
        break;
    default:
        turn_rows_u128(nx, ny, out, pitch, in, in_y, NULL);
    }
}

#endif
