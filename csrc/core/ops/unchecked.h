/*
 * unchecked.h - deferred validation: jacobi_step's kernels check a CSR matrix while they
 * compute.
 *
 * A separate check would read the matrix twice. Here the kernels report what is wrong, and
 * results go to the caller only if they reported nothing (unchecked.c).
 */
#ifndef GOP_UNCHECKED_H
#define GOP_UNCHECKED_H

#include "core/core.h"

/* The `finding` of a task whose validation is deferred: what the kernels assume of its rows. */
enum {
    GOP_UNCHECKED = -1,       /* any number of terms */
    GOP_UNCHECKED_SHORT = -2, /* a few; the kernels report if there are more */
};

/* An upper bound of the terms in a row of the task's CSR matrix. 0: not known; below 0: what
 * the kernels assume (see above). */
static inline int64_t gop_longest_row(const gop_task *task)
{
    return task->finding;
}

/* What a step's kernels find. It is in memory that host and device share, at in[nin] of the
 * task. is_longer: a row has more terms than assumed. */
typedef struct gop_findings {
    int is_bad, is_longer;
} gop_findings;

static inline gop_findings *gop_findings_of(const gop_task *task)
{
    return task->finding < 0 ? (gop_findings *)task->in[task->nin].data : NULL;
}

/* The descriptor's hooks. */
int64_t gop_csr_defer(const gop_call *call, const gop_run_options *options);
gop_status gop_csr_begin(gop_ctx *ctx, gop_task *task, void **findings) GOP_MUST_CHECK;
gop_status gop_csr_end(gop_ctx *ctx, const void *findings, int64_t *assumed) GOP_MUST_CHECK;

#endif
