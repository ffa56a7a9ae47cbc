/*
 * add_contracted.cu - a*b + c as compilers make it unless they are told not to.
 *
 * A multiplication and the addition after it are one instruction on every GPU, with one
 * rounding in place of two. Compilers fuse them by themselves, and the last bits of a formula
 * then depend on how it is written and on who compiles it. All other files forbid it; this one,
 * alone, is compiled with the contraction left on (setup.py).
 */
#include "cuda/add.h"

/* ---- contracted: naive once more, with the compiler free to fuse ------------------------
 * The source rounds twice. What runs rounds once: the same bits as fma, not those of NumPy. */

template <typename T> __global__ void add_contracted_kernel(operands<T> at, gop_elementwise e)
{
    const uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
    if (i >= (uint64_t)e.size) return;
    int64_t o[4];
    place<4, uint64_t>(e, i, o);
    const T a = at.a[o[1]], b = at.b[o[2]], c = at.c[o[3]];
    at.out[o[0]] = a * b + c;
}

template <typename T> static gop_status add_contracted(gop_ctx *ctx, const gop_task *task)
{
    enum { THREADS = 256 };
    const gop_elementwise &e = task->geometry.elementwise;
    if (e.size == 0) return GOP_OK;
    return GOP_LAUNCH(ctx, add_contracted_kernel<T>,
                      dim3((unsigned)blocks_for(e.size, THREADS)), dim3(THREADS), 0,
                      operands_of<T>(task), e);
}

gop_status add_contracted_float(gop_ctx *ctx, const gop_task *task, int64_t)
{
    return add_contracted<float>(ctx, task);
}

gop_status add_contracted_double(gop_ctx *ctx, const gop_task *task, int64_t)
{
    return add_contracted<double>(ctx, task);
}
