/*
 * lecture.h - what the rows of the lecture's kernels share: the sum of a contiguous array.
 *
 * A launch makes a shorter array of partial sums, in one half of scratch or the other, until
 * one is left. int32 is summed as int64. The order of the additions depends on the groups.
 */
#ifndef GOP_OPENCL_REDUCE_LECTURE_H
#define GOP_OPENCL_REDUCE_LECTURE_H

#include "opencl/opencl.h"

#define LECTURE_DTYPES (1u << GOP_INT32 | 1u << GOP_FLOAT32 | 1u << GOP_FLOAT64)
#define LECTURE_OWN_ORDER                                                                      \
    "adds in an order of its own: the last bits of a float sum differ from those of tree/v1"
#define LECTURE_NO_ORDER                                                                       \
    "adds in whatever order groups end: the last bits of a float sum change from run to run"

/* A plan: a sum for every `each` numbers, but at most `most` sums. */
typedef struct gop_cl_lecture {
    int64_t each, most;
    int group;
} gop_cl_lecture;

/* Refuses all but the sum of a whole contiguous array. each 0: the numbers of a group. */
gop_status gop_cl_lecture_plan(const gop_ctx *ctx, const gop_task *task, int64_t each,
                               int64_t most, gop_plan *plan) GOP_MUST_CHECK;
/* One launch of a kernel of that source, from n numbers at `from` to `groups` groups' sums. */
gop_status gop_cl_lecture_launch(gop_ctx *ctx, const gop_task *task, const char *source,
                                 const char *kernel, const gop_array *to, const gop_array *from,
                                 int64_t n, int64_t groups) GOP_MUST_CHECK;
/* Launches until one sum is left. */
gop_status gop_cl_lecture_run(gop_ctx *ctx, const gop_task *task, const char *source,
                              const char *kernel) GOP_MUST_CHECK;
/* Sums of a grid that fits the device. */
int64_t gop_cl_lecture_resident(const gop_ctx *ctx);

#endif
