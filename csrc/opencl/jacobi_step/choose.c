/*
 * choose.c - which kernel makes a step: the first of these that takes the call.
 */
#include "core/ops/unchecked.h"
#include "opencl/opencl.h"

enum {
    SHORT = 16,
    LONGEST = 128
}; /* terms of rows that a work-item has by itself: mean, most */

static int has_short_rows(const gop_ctx *ctx, const gop_task *task)
{
    const gop_jacobi_step_params *p = &task->call->params.jacobi_step;
    if (gop_cl_is_cpu(ctx) || p->grid.axes) return 1;
    const int64_t longest = gop_longest_row(task);
    return p->csr && task->in[0].shape[0] <= SHORT * task->geometry.jacobi.n && longest > 0 &&
           longest <= LONGEST;
}

extern const gop_row jacobi_step_rows_row, jacobi_step_group_row;
static const gop_candidate candidates[] = {
    {.row = &jacobi_step_rows_row,
     .suits = has_short_rows,
     .when = "CPU devices; on GPUs stencils, and CSR matrices of rows of 16 terms in the mean "
             "and 128 at most",
     .why = "5 points 1024², CSR: 1.1 of the cpu backend's speed in float32, 2.0 in float64; "
            "dense 4096² float32 0.61, by columns 0.46, stencils 0.57 to 0.70: PoCL 3.1 on two "
            "cores of an AMD EPYC, "
            "2026-11-29"},
    {.row = &jacobi_step_group_row,
     .why = "takes all that is left; dense 16384² float32 0.90 of the cuda backend's speed: "
            "NVIDIA's OpenCL on an H200, 2026-11-29"},
};

extern const gop_choice jacobi_step_choice;
const gop_choice jacobi_step_choice = {sizeof candidates / sizeof *candidates, candidates,
                                       NULL};
