/*
 * naive.cu - add, multiply_add and fma, one element a thread, any strides.
 *
 * Neighbouring threads take neighbouring elements of the output, so a warp's accesses fall into
 * few memory transactions wherever the layout allows.
 */
#include "cuda/add/element.h"
#include "cuda/add/operands.h"
#include "cuda/common/halves.h"

template <typename Op, typename T>
__global__ void add_naive_kernel(operands<T> at, gop_elementwise e)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (uint32_t)e.size) return;
    int64_t o[4];
    place<Op::INPUTS + 1, uint32_t>(e, i, o);
    const T a = at.a[o[1]], b = at.b[o[2]];
    at.out[o[0]] = Op::of(a, b, Op::INPUTS == 3 ? at.c[o[3]] : b);
}

/* Halves the longest axis until 32 bits count the elements. */
template <typename Op, typename T> static gop_status
add_naive_of(gop_ctx *ctx, operands<T> at, const gop_elementwise &e, unsigned threads)
{
    if (fits_32_bits(e.size))
        return GOP_LAUNCH(ctx, (add_naive_kernel<Op, T>), (unsigned)blocks_for(e.size, threads),
                          threads, 0, at, e);
    gop_elementwise first, second;
    const int axis = halves_of(e, &first, &second);
    GOP_TRY((add_naive_of<Op, T>(ctx, at, first, threads)));
    at.out += first.extent[axis] * e.stride[0][axis];
    at.a += first.extent[axis] * e.stride[1][axis];
    at.b += first.extent[axis] * e.stride[2][axis];
    if (Op::INPUTS == 3) at.c += first.extent[axis] * e.stride[3][axis];
    return add_naive_of<Op, T>(ctx, at, second, threads);
}

template <typename Op, typename T>
static gop_status add_naive(gop_ctx *ctx, const gop_task *task, int64_t)
{
    return add_naive_of<Op, T>(ctx, operands_of<T>(task), task->geometry.elementwise,
                               (unsigned)task->tune[0]);
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
    }
ROW(add, ADD_BY_WIDTH);
ROW(multiply_add, ADD_BY_WIDTH);
ROW(fma, ADD_BY_FLOAT);
#undef ROW
