/*
 * judge.h - calls whose matrix nobody looks at before their kernels do.
 */
#ifndef GOP_JUDGE_H
#define GOP_JUDGE_H

#include "core/ops/judged.h"

/* What is said of the longest row of such a call (core/ops/judged.h); 0: it is checked first.
 */
int64_t gop_judge_offer(const gop_call *call, const gop_run_options *options);
/* Memory for the verdict of a task that is staged. */
gop_status gop_judge_begin(gop_ctx *ctx, gop_task *task, gop_verdict **verdict) GOP_MUST_CHECK;
/* Waits for the kernels. GOP_REFUSED, without a sentence: the results are not to be used. */
gop_status gop_judge_end(gop_ctx *ctx, const gop_verdict *verdict) GOP_MUST_CHECK;

#endif
