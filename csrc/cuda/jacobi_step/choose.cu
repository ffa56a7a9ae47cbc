/*
 * choose.cu - which kernel makes a step: the first of these that takes the call.
 *
 * A stencil, a CSR matrix, columns and rows have a kernel each. Only of CSR matrices there is
 * something to weigh: balanced gives a warp 32 rows, which it takes one group after the other,
 * so that a few thousand rows leave most of the device idle; warp gives it one.
 */
#include "core/choice.h"
#include "core/ops/unchecked.h"
#include "cuda/jacobi_step/alone.h"
#include "cuda/jacobi_step/staged.h"

enum {
    LONGEST = 1024,   /* terms of a row: balanced has longer ones by warps of all the device */
    WARPS = 7,        /* of balanced, an SM: fewer wait for themselves */
    STAGED_WARPS = 1, /* the same where a thread has a row by itself */
};

/* Balanced: many rows or short ones, and any that was not checked, as it checks. */
static int fill_warps(const gop_ctx *ctx, const gop_task *task)
{
    const gop_jacobi &g = task->geometry.jacobi;
    if (!task->call->params.jacobi_step.csr) return 0;
    const int64_t terms = task->in[0].shape[0], warps = g.n / WARP;
    const int64_t longest = gop_longest_row(task);
    if (longest <= 0 || longest > LONGEST || terms <= ALONE * g.n) return 1;
    const bool is_staged = g.k == 1 && terms <= STAGED * g.n;
    return warps > (is_staged ? STAGED_WARPS : WARPS) * (int64_t)ctx->info.processors;
}

extern const gop_row jacobi_step_stencil_row, jacobi_step_balanced_row, jacobi_step_column_row,
    jacobi_step_block_row, jacobi_step_warp_row;
static const gop_candidate candidates[] = {
    {.row = &jacobi_step_stencil_row,
     .why = "a stencil, of which no matrix is read; no other kernel takes it"},
    {.row = &jacobi_step_balanced_row,
     .suits = fill_warps,
     .when = "CSR matrices of rows of 8 terms at most in the mean, of more than 224 rows a "
             "processor (32, of up to 32 terms and one column), with rows of over 1024 terms, "
             "or that were not checked",
     .why = "the others were faster by warp, 92 calls: always balanced 63 % within 1.05 of the "
            "best, geometric mean 1.49, worst 8.6; by this condition 96 %, 1.01, 1.65: H200, "
            "2026-11-28"},
    {.row = &jacobi_step_column_row,
     .why = "a dense A by columns: 16384² float32 270 us, 3973 GB/s: H200, 2026-11-22"},
    {.row = &jacobi_step_block_row,
     .why = "a dense A: 16384² float32 0.261 ms, 0.979 of copy, warp 0.911 ms: the H200's "
            "ladder"},
    {.row = &jacobi_step_warp_row,
     .why =
         "takes all that is left: CSR matrices of few rows, 3.4 times as fast as balanced in "
         "the median of 30 of 92 calls: H200, 2026-11-28"},
};

extern const gop_choice jacobi_step_choice;
const gop_choice jacobi_step_choice = {sizeof candidates / sizeof *candidates, candidates,
                                       nullptr};
