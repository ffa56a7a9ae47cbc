/*
 * fake_ladders.c - one kernel that runs on the fake CUDA runtime: a transpose in plain C.
 */
#include <cuda_runtime_api.h>
#include <string.h>

#include "core/core.h"

cudaStream_t fake_stream_of(const gop_ctx *ctx)
{
    return ctx->backend->stream((gop_ctx *)(uintptr_t)ctx);
}

static gop_status transpose_plain(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)step;
    cudaStreamSynchronize(fake_stream_of(ctx)); /* uploads come first */
    static const unsigned char sizes[] = {
#define X(enumerator, word, bytes) bytes,
        GOP_DTYPES(X)
#undef X
    };
    const gop_permutation *p = &task->geometry.permutation;
    const int64_t item = sizes[task->in[0].dtype];
    for (int64_t i = 0; i < p->size; i++) {
        const char *from = task->in[0].data;
        char *to = task->out[0].data;
        int64_t rest = i;
        for (int d = p->rank - 1; d >= 0; d--) {
            from += rest % p->extent[d] * p->in[d] * item;
            to += rest % p->extent[d] * p->out[d] * item;
            rest /= p->extent[d];
        }
        memcpy(to, from, (size_t)item);
    }
    return GOP_OK;
}

static size_t some_scratch(const gop_ctx *ctx, const gop_task *task)
{
    (void)ctx, (void)task;
    return 100;
}

#define F transpose_plain
static const gop_row rows[] = {
    {.name = "naive",
     .note = "the fake runtime's only kernel",
     .launch = {F, F, F, F, F, F, F, F, F, F, F, F, F, F, F},
     .scratch = some_scratch},
};
const gop_ladder gop_cuda_transpose = {1, rows};
const gop_ladder gop_cuda_add, gop_cuda_multiply_add, gop_cuda_fma, gop_cuda_reduce;
const gop_ladder gop_cuda_matmul, gop_cuda_jacobi_step, gop_cuda_rdf;
