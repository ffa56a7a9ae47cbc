/*
 * streaming.c - the simd kernel with streaming stores for large outputs.
 *
 * A plain store first reads from memory the cache line that it overwrites. A streaming store of
 * whole lines, computed into a buffer before, does not.
 */
#ifdef D

#define STREAMING(op)                                                                          \
    static gop_status FN(op##_streaming)(gop_ctx * ctx, const gop_task *task, int64_t step)    \
    {                                                                                          \
        (void)ctx, (void)step;                                                                 \
        return every_line(task, FN(op##_line), 1);                                             \
    }
EACH_OP(STREAMING)
#undef STREAMING

#else
#include "cpu/add/lines.h"

#define GOP_TPL "cpu/add/streaming.c"
#include "cpu/runtime/each_dtype.inc"

ADD_ROWS(streaming, .note = "large outputs past the caches: a plain store would first read the "
                            "line that it overwrites");

#endif
