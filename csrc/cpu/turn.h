/*
 * turn.h - squares of elements turned in vector registers, by the size of an item.
 *
 * turn_u8 to turn_u128 exchange rows and columns of so many rows as fill 16 bytes, turn_rows of
 * any number.
 */
#ifndef GOP_CPU_TURN_H
#define GOP_CPU_TURN_H

#include "cpu/cpu.h"
#include "cpu/stream.h"

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

#define GOP_TPL "cpu/turn_tpl.h"
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
        turn_rows_u8(nx, ny, out, pitch, in, in_y);
        break;
    case 2:
        turn_rows_u16(nx, ny, out, pitch, in, in_y);
        break;
    case 4:
        turn_rows_u32(nx, ny, out, pitch, in, in_y);
        break;
    case 8:
        turn_rows_u64(nx, ny, out, pitch, in, in_y);
        break;
    default:
        turn_rows_u128(nx, ny, out, pitch, in, in_y);
    }
}

#endif
