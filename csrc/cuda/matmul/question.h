/*
 * question.h - what a choice depends on, to know a call again (cuda/common/remembered.h).
 */
#ifndef GOP_CUDA_MATMUL_QUESTION_H
#define GOP_CUDA_MATMUL_QUESTION_H

#include "cuda/common/remembered.h"
#include "cuda/matmul/product.h"

struct matmul_question {
    int64_t m, n, k, a_row, a_col, b_row, b_col, out_row, out_col;
    int64_t batches, a_batch, b_batch, out_batch;
    int64_t places; /* of the arrays, within 16 bytes each */
    int64_t dtype, precision, itself, processors;
    double clock, bandwidth;
};

/* False: the batch has more axes than one. */
static inline bool matmul_question_of(const gop_ctx *ctx, const gop_task *task,
                                      matmul_question *q)
{
    const gop_gemm &g = task->geometry.gemm;
    if (g.batch_rank > 1) return false;
    const bool one = g.batch_rank == 0;
    const auto place = [](const gop_array &x) { return (int64_t)((uintptr_t)x.data % 16); };
    *q = {g.m,
          g.n,
          g.k,
          g.a_row,
          g.a_col,
          g.b_row,
          g.b_col,
          g.out_row,
          g.out_col,
          one ? -1 : g.batches,
          one ? 0 : g.a[0],
          one ? 0 : g.b[0],
          one ? 0 : g.out[0],
          place(task->in[0]) | place(task->in[1]) << 4 | place(task->out[0]) << 8,
          task->in[0].dtype,
          task->call->params.matmul.precision,
          of_itself(task->call),
          ctx->info.processors,
          ctx->info.clock,
          ctx->info.bandwidth};
    return true;
}

#endif
