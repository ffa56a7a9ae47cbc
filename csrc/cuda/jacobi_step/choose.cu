/*
 * choose.cu - which kernel makes a step: the first of these that takes the call.
 *
 * A stencil, a CSR matrix, columns and rows have a kernel each. Of CSR matrices balanced gives
 * a warp 32 rows, which it takes one group after the other, so that a few thousand rows leave
 * most of the device idle, the more of it the longer the rows are; warp gives it one. Of a
 * dense A by columns the column kernel reads all for every x where it reads item by item.
 */
#include "core/choice.h"
#include "core/ops/unchecked.h"
#include "cuda/jacobi_step/alone.h"
#include "cuda/jacobi_step/staged.h"

enum {
    LONGEST = 1024,   /* terms of a row: balanced has longer ones by warps of all the device */
    WARPS = 7,        /* of balanced, an SM: fewer wait for themselves, */
    WARP_TERMS = 9,   /* but of short rows a warp and one for so many terms are enough */
    STAGED_WARPS = 1, /* the same where a thread has a row by itself */
    ONCE = 4,         /* columns of x that are worth reading A less often */
};

/* Balanced: many rows or short ones, and any that was not checked, as it checks. */
static int fill_warps(const gop_ctx *ctx, const gop_task *task)
{
    const gop_jacobi &g = task->geometry.jacobi;
    if (!task->call->params.jacobi_step.csr) return 0;
    const int64_t terms = task->in[0].shape[0], warps = g.n / WARP;
    const int64_t longest = gop_longest_row(task);
    if (longest <= ALONE || longest > LONGEST) return 1;
    const bool is_staged = g.k == 1 && terms <= STAGED * g.n;
    const double wanted = 1 + (double)terms / ((double)g.n * WARP_TERMS);
    const double least = is_staged ? STAGED_WARPS : wanted < WARPS ? wanted : WARPS;
    return (double)warps > least * (double)ctx->info.processors;
}

/* Column: few columns of x, or 16 bytes of a column of A at once, for four x each. */
static int reads_once(const gop_ctx *, const gop_task *task)
{
    const gop_jacobi &g = task->geometry.jacobi;
    const gop_dtype dtype = task->in[0].dtype;
    const int64_t item = dtype == GOP_FLOAT32 ? 4 : dtype == GOP_COMPLEX128 ? 16 : 8;
    return g.k < ONCE || (g.a_col * item % 16 == 0 && g.n * item % 16 == 0 &&
                          (uintptr_t)task->in[0].data % 16 == 0);
}

extern const gop_row jacobi_step_stencil_row, jacobi_step_balanced_row, jacobi_step_column_row,
    jacobi_step_block_row, jacobi_step_warp_row;
static const gop_candidate candidates[] = {
    {.row = &jacobi_step_stencil_row,
     .why = "a stencil, of which no matrix is read; no other kernel takes it"},
    {.row = &jacobi_step_balanced_row,
     .suits = fill_warps,
     .when = "CSR matrices of rows of 8 terms at most, of more than 32 rows a processor and 32 "
             "for every 9 terms of a row in the mean, at most 224 (32, of up to 32 terms and "
             "one column), with rows of over 1024 terms, or that were not checked",
     .why = "the others were faster by warp, 151 calls: by this condition 99 % within 1.05 of "
            "the best, worst 1.08; with 224 rows a processor for all 1.9: H200, 2026-11-29"},
    {.row = &jacobi_step_column_row,
     .suits = reads_once,
     .when = "fewer than 4 columns of x, or columns of A of whole groups of 16 bytes",
     .why = "a dense A by columns: 16384² float32 270 us, 3973 GB/s: H200, 2026-11-22; 3571² "
            "float32, 4 columns 88 us, block 67; 4096² 32, block 104: 2026-11-29"},
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
