/*
 * judged.h - a CSR matrix that jacobi_step looks at while it computes, in place of before.
 *
 * A look before reads what the step reads again. Here the step's kernels say what is wrong; the
 * results are the caller's only once they have said nothing (core/road/judge.c).
 */
#ifndef GOP_JUDGED_H
#define GOP_JUDGED_H

#include "core/core.h"

/* What the longest row of a task is, where nobody has looked. */
enum {
    GOP_UNCHECKED = -1,       /* any */
    GOP_UNCHECKED_SHORT = -2, /* a few terms, it is guessed: the verdict says if not */
};

/* What a step's kernels say, in memory of both host and device, at in[nin] of the task. */
typedef struct gop_verdict {
    int is_bad, is_longer;
} gop_verdict;

static inline gop_verdict *gop_verdict_of(const gop_task *task)
{
    return task->longest < 0 ? (gop_verdict *)task->in[task->nin].data : NULL;
}

#endif
