/*
 * naive.cu - add, multiply_add and fma, one element a thread, any strides.
 *
 * Neighbouring threads take neighbouring elements of the output, so a warp's accesses fall into
 * few memory transactions wherever the layout allows.
 */
#include "cuda/add/element.h"
#include "cuda/add/operands.h"

template <typename Op, typename T, typename I>
__global__ void add_naive_kernel(operands<T> at, gop_elementwise e)
{
    const I i = (I)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (I)e.size) return;
    int64_t o[4];
    place<Op::INPUTS + 1, I>(e, i, o);
    const T a = at.a[o[1]], b = at.b[o[2]];
    at.out[o[0]] = Op::of(a, b, Op::INPUTS == 3 ? at.c[o[3]] : b);
}

struct naive_grid {
    unsigned blocks, threads;
    bool is_short; /* 32 bits count its elements */
};

template <typename Op, typename T>
static gop_status add_naive(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const gop_elementwise &e = task->geometry.elementwise;
    const naive_grid &own = *GOP_OWN(const naive_grid, task->plan);
    if (own.is_short)
        return GOP_LAUNCH(ctx, (add_naive_kernel<Op, T, uint32_t>), own.blocks, own.threads, 0,
                          operands_of<T>(task), e);
    return GOP_LAUNCH(ctx, (add_naive_kernel<Op, T, uint64_t>), own.blocks, own.threads, 0,
                      operands_of<T>(task), e);
}

static gop_status add_naive_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    const int64_t size = task->geometry.elementwise.size;
    naive_grid &own = *GOP_OWN(naive_grid, plan);
    own.threads = (unsigned)task->tune[0];
    own.blocks = (unsigned)blocks_for(size, own.threads);
    own.is_short = fits_32_bits(size);
    return GOP_OK;
}

#define ROW(op, launches)                                                                      \
    extern const gop_row op##_naive_row = {                                                    \
        .name = "naive",                                                                       \
        .note = "one element a thread, any strides: neighbouring threads write neighbours, "   \
                "so a warp's accesses coalesce",                                               \
        .role = GOP_CONFORMING,                                                                \
        .lecture = "vector add",                                                               \
        .launch = launches(add_naive, op_##op),                                                \
        .tunables = {ADD_THREADS},                                                             \
        .plan = add_naive_plan,                                                                \
    }
ROW(add, ADD_BY_WIDTH);
ROW(multiply_add, ADD_BY_WIDTH);
ROW(fma, ADD_BY_FLOAT);
