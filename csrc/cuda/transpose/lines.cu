/*
 * lines.cu - transpose of arrays whose fastest axis stays where it is.
 *
 * Lines stay lines: 16 bytes of one side are 16 bytes of the other, and so, mostly, are the 512
 * that a warp moves. Nothing has to change places, so the detour through shared memory is
 * saved; what is left is a copy whose lines come from elsewhere.
 */
#include "cuda/transpose/index.h"

enum {
    LINE_AXES = 8,
    LINE_THREADS = 256,
    LEAST_LINE = 3, /* pieces of 16 bytes; shorter lines are faster in boxes */
};

/* Where 16 bytes lie on both sides; the fastest axis first. */
struct line_axes {
    uint32_t size;
    int rank;
    divisor extent[LINE_AXES];
    int64_t out[LINE_AXES], in[LINE_AXES];
};

__global__ void __launch_bounds__(LINE_THREADS)
    transpose_lines_kernel(uint4 *out, const uint4 *in, const __grid_constant__ line_axes p)
{
    uint32_t left = blockIdx.x * LINE_THREADS + threadIdx.x;
    if (left >= p.size) return;
    int64_t to = 0, from = 0;
    for (int axis = 0; axis < p.rank - 1; axis++) {
        const uint32_t outer = quotient(left, p.extent[axis]);
        const int64_t at = left - outer * p.extent[axis].d;
        to += at * p.out[axis];
        from += at * p.in[axis];
        left = outer;
    }
    out[to + left * p.out[p.rank - 1]] = in[from + left * p.in[p.rank - 1]];
}

static gop_status transpose_lines(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const line_axes &p = *GOP_OWN(const line_axes, task->plan);
    return GOP_LAUNCH(ctx, transpose_lines_kernel,
                      dim3((unsigned)blocks_for(p.size, LINE_THREADS)), LINE_THREADS, 0,
                      (uint4 *)task->out[0].data, (const uint4 *)task->in[0].data, p);
}

static gop_status transpose_lines_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    gop_permutation g = task->geometry.permutation;
    const int item = transpose_widen(task, &g), last = g.rank - 1;
    line_axes &p = *GOP_OWN(line_axes, plan);
    plan->launch = transpose_lines;
    const bool takes = item == 16 && g.rank <= LINE_AXES && fits_32_bits(g.size) &&
                       g.in[last] == 1 && g.out[last] == 1 && g.extent[last] >= LEAST_LINE;
    if (!takes)
        return gop_fail(GOP_REFUSED,
                        "transpose: the lines kernel takes at most %d axes of which the "
                        "fastest stays, in lines of at least %d bytes that start and end at "
                        "multiples of 16, got others",
                        LINE_AXES, 16 * LEAST_LINE);
    p = {(uint32_t)g.size, g.rank, {}, {}, {}};
    for (int k = 0; k < g.rank; k++) {
        const int axis = g.rank - 1 - k;
        p.extent[k] = divisor_of(g.extent[axis]);
        p.out[k] = g.out[axis];
        p.in[k] = g.in[axis];
    }
    return GOP_OK;
}

extern const gop_row transpose_lines_row = {
    .name = "lines",
    .note = "the fastest axis stays: lines are copied 16 bytes a thread, past shared "
            "memory",
    .role = GOP_CONFORMING,
    .plan = transpose_lines_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
