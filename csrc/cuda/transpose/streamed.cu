/*
 * streamed.cu - a yardstick of transpose: a copy of 16 bytes a thread and access.
 *
 * Four accesses are in flight at once, with streaming hints: fewer instructions for the same
 * bytes, and more bytes in flight to hide memory's latency.
 */
#include "cuda/transpose/dense.h"

enum { STREAMED = 4 };

__global__ void transpose_streamed_kernel(uint4 *out, const uint4 *in, int64_t size, int tail)
{
    const int64_t first = (int64_t)blockIdx.x * blockDim.x * STREAMED + threadIdx.x;
    uint4 v[STREAMED];
#pragma unroll
    for (int k = 0; k < STREAMED; k++) {
        const int64_t i = first + k * (int64_t)blockDim.x;
        if (i < size) v[k] = __ldcs(in + i);
    }
#pragma unroll
    for (int k = 0; k < STREAMED; k++) {
        const int64_t i = first + k * (int64_t)blockDim.x;
        if (i < size) __stcs(out + i, v[k]);
    }
    if (first < tail) ((uint8_t *)(out + size))[first] = ((const uint8_t *)(in + size))[first];
}

static gop_status transpose_streamed(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const int64_t bytes = task->geometry.permutation.size * transpose_item(task);
    const int64_t blocks = blocks_for(bytes, 16 * STREAMED * 256);
    return GOP_LAUNCH(ctx, transpose_streamed_kernel, dim3((unsigned)blocks), 256, 0,
                      (uint4 *)task->out[0].data, (const uint4 *)task->in[0].data, bytes / 16,
                      (int)(bytes % 16));
}

static gop_status transpose_streamed_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    const uintptr_t places = (uintptr_t)task->out[0].data | (uintptr_t)task->in[0].data;
    plan->launch = transpose_streamed;
    if (places % 16 != 0)
        return gop_fail(GOP_REFUSED,
                        "transpose: a copy of 16 bytes a thread takes arrays at multiples of "
                        "16 bytes, got a multiple of %d",
                        (int)(places & -places));
    return transpose_is_dense(task);
}

extern const gop_row transpose_streamed_row = {
    .name = "streamed",
    .note = "copy 16 bytes a thread, four accesses at once: more bytes in flight hide "
            "the latency",
    .role = GOP_YARDSTICK,
    .plan = transpose_streamed_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
