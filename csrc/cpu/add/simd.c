/*
 * simd.c - add row by row along the innermost axis.
 *
 * Within a row no index is decomposed, so the loop becomes vector instructions of 16 to 64
 * bytes.
 */
#ifdef D

#define SIMD(op)                                                                               \
    static gop_status FN(op##_simd)(gop_ctx * ctx, const gop_task *task, int64_t step)         \
    {                                                                                          \
        (void)ctx, (void)step;                                                                 \
        return every_line(task, FN(op##_line), 0);                                             \
    }
EACH_OP(SIMD)
#undef SIMD

#else
#include "cpu/add/lines.h"

#define GOP_TPL "cpu/add/simd.c"
#include "cpu/runtime/each_dtype.inc"

ADD_ROWS(
    simd,
    .note = "whole lines along the innermost axis: vector registers do 16 to 64 bytes at once");

#endif
