/*
 * cpu.h - what a CPU kernel file includes.
 *
 * A kernel is a file cpu/<op>/<kernel>.c, with its idea, kernel, plan, launch and row. It is
 * not a translation unit: cpu/<op>/ladder.c lists the kernels and includes their files. It is
 * compiled once per instruction-set level, with -DGOP_LEVEL=baseline, avx2 or avx512 and that
 * level's -march. So a kernel is plain C, and the same source gives the same bits at every
 * level: there is an fma only where the source says fma().
 *
 * A kernel that is written per dtype includes itself: `#define GOP_TPL "cpu/add/naive.c"`, then
 * `#include "cpu/runtime/each_dtype.inc"` includes it once per dtype with D defined. It uses
 * the macros of cpu/runtime/dtypes.h:
 *   D        the dtype's name
 *   T        the element type as stored (uint16_t bits for float16 and bfloat16)
 *   A        the type for arithmetic (float for float16 and bfloat16; T otherwise)
 *   LOAD(t)  converts from T to A, STORE(a) back (one rounding)
 *   FN(name) name_<dtype>
 *   IS_BOOL IS_INT IS_FLOAT IS_COMPLEX IS_HALF   for #if
 */
#ifndef GOP_CPU_H
#define GOP_CPU_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "core/core.h"
#include "core/counts.h"
#include "core/arrays/axes.h"
#include "core/arrays/half.h"
#include "core/arrays/index.h"
#include "cpu/runtime/dtypes.h"

#ifndef GOP_LEVEL
#define GOP_LEVEL baseline
#endif
#define GOP_PASTE_(a, b) a##_##b
#define GOP_PASTE(a, b) GOP_PASTE_(a, b)
#define GOP_LADDER(op) GOP_PASTE(GOP_PASTE(gop_cpu, op), GOP_LEVEL)

/* Defines the ladder of an op from the rows <op>_<kernel>_row of the kernels in KERNELS, and
 * from op_choice of choose.c, which ladder.c includes after the kernels. */
#define GOP_CPU_LADDER(op, KERNELS)                                                            \
    static const gop_row *const op##_rows[] = {KERNELS(GOP_ROW_LISTED, op)};                   \
    const gop_ladder GOP_LADDER(op) = {sizeof op##_rows / sizeof *op##_rows, op##_rows,        \
                                       &op##_choice}
#define GOP_ROW_LISTED(op, kernel) &op##_##kernel##_row,

#define ALWAYS_INLINE inline __attribute__((always_inline))

typedef struct gop_c64 {
    float re, im;
} gop_c64;
typedef struct gop_c128 {
    double re, im;
} gop_c128;

/* Launch tables, indexed by dtype, for the groups of dtypes that kernels support. */
#define GOP_FN_ALL(f)                                                                          \
    {                                                                                          \
        f##_bool, f##_int8, f##_int16, f##_int32, f##_int64, f##_uint8, f##_uint16,            \
            f##_uint32, f##_uint64, f##_float16, f##_bfloat16, f##_float32, f##_float64,       \
            f##_complex64, f##_complex128                                                      \
    }
/* The same function for every dtype. */
#define GOP_FN_EVERY(f)                                                                        \
    {                                                                                          \
        f, f, f, f, f, f, f, f, f, f, f, f, f, f, f                                            \
    }
#define GOP_FN_FLOATS(f)                                                                       \
    {                                                                                          \
        [GOP_FLOAT16] = f##_float16, [GOP_BFLOAT16] = f##_bfloat16,                            \
        [GOP_FLOAT32] = f##_float32, [GOP_FLOAT64] = f##_float64                               \
    }

#endif
