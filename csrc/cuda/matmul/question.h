/*
 * question.h - what a choice depends on: the call, to know it again (cuda/common/remembered.h),
 * and the device.
 */
#ifndef GOP_CUDA_MATMUL_QUESTION_H
#define GOP_CUDA_MATMUL_QUESTION_H

#include "cuda/common/remembered.h"
#include "cuda/matmul/product.h"

struct matmul_question {
    int64_t m, n, k, a_row, a_col, b_row, b_col, out_row, out_col;
    int64_t batches, a_batch, b_batch, out_batch;
    int64_t places; /* of the arrays, within 16 bytes each */
    int64_t dtype, precision, itself, major, processors;
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
          ctx->info.major,
          ctx->info.processors,
          ctx->info.clock,
          ctx->info.bandwidth};
    return true;
}

/* The answer on record, or else what find() gives, which is kept; `anew`: neither read nor
 * kept. */
template <typename answer, typename finder>
static answer matmul_ask(remembered<matmul_question, answer, 256> *known, const gop_ctx *ctx,
                         const gop_task *task, bool anew, const finder &find)
{
    matmul_question q;
    answer found;
    if (anew || !matmul_question_of(ctx, task, &q)) return find();
    if (known->find(q, &found)) return found;
    found = find();
    known->keep(q, found);
    return found;
}

/* The device beside the H200 on which expected times were measured; 1 where it is not known. */
struct matmul_speed {
    float clock, memory;
};

static inline matmul_speed matmul_speed_of(const gop_device_info &info)
{
    const double clock = 1.98e9, bandwidth = 4.92e12; /* Hz; bytes a second */
    return {info.clock > 0 ? (float)(info.clock / clock) : 1,
            info.bandwidth > 0 ? (float)(info.bandwidth / bandwidth) : 1};
}

#endif
