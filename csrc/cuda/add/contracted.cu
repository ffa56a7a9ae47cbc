/*
 * contracted.cu - a*b + c as compilers make it unless they are told not to.
 *
 * A multiplication and the addition after it are one instruction on every GPU, with one
 * rounding in place of two. Compilers fuse them by themselves, and the last bits of a formula
 * then depend on how it is written and on who compiles it. All other files forbid it; this one,
 * alone, is compiled with the contraction left on (setup.py). The kernel is the naive one: its
 * source rounds twice, what runs rounds once, with the bits of fma, not those of NumPy.
 */
#include "cuda/add/operands.h"

template <typename T> __global__ void add_contracted_kernel(operands<T> at, gop_elementwise e)
{
    const uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
    if (i >= (uint64_t)e.size) return;
    int64_t o[4];
    place<4, uint64_t>(e, i, o);
    const T a = at.a[o[1]], b = at.b[o[2]], c = at.c[o[3]];
    at.out[o[0]] = a * b + c;
}

template <typename T>
static gop_status add_contracted(gop_ctx *ctx, const gop_task *task, int64_t)
{
    enum { THREADS = 256 };
    const gop_elementwise &e = task->geometry.elementwise;
    return GOP_LAUNCH(ctx, add_contracted_kernel<T>,
                      dim3((unsigned)blocks_for(e.size, THREADS)), dim3(THREADS), 0,
                      operands_of<T>(task), e);
}

static gop_status add_contracted_plan(const gop_ctx *, const gop_task *task, gop_plan *)
{
    if (gop_contracts()) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "%s: the contracted kernel needs an instruction that multiplies and adds, "
                    "which this processor lacks",
                    add_name(task));
}

#define ROW(op, breaks)                                                                        \
    extern const gop_row op##_contracted_row = {                                               \
        .name = "contracted",                                                                  \
        .note = "the compiler fuses a*b + c by itself: one instruction where two stood",       \
        .role = GOP_TEACHING,                                                                  \
        .caveat = breaks,                                                                      \
        .launch = GOP_LAUNCH_REAL(add_contracted),                                             \
        .plan = add_contracted_plan,                                                           \
    }
ROW(multiply_add, "rounds once where multiply_add rounds twice: the bits of fma, not of NumPy");
ROW(fma, "rounds once because of a compiler's option: nothing in the source says so");
