/*
 * simd.c - add line by line along the innermost axis.
 *
 * Whole lines have no index to take apart, and their loops become vector instructions: 16 to 64
 * bytes at once.
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
