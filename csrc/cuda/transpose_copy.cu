/*
 * transpose_copy.cu - the yardsticks of transpose: copies of the same bytes, not permuted.
 *
 * Each does one thing that a transpose has to do too, so that the distance from one to the next
 * is the price of that one thing.
 */
#include "cuda/transpose.h"

/* ---- copy ----
 * One element a thread. */

template <typename T> __global__ void transpose_copy_kernel(T *out, const T *in, int64_t size)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) out[i] = in[i];
}

template <typename T> static gop_status copy(gop_ctx *ctx, const gop_task *task)
{
    const int64_t size = task->geometry.permutation.size;
    if (size == 0) return GOP_OK;
    return GOP_LAUNCH(ctx, transpose_copy_kernel<T>, dim3((unsigned)blocks_for(size, 256)), 256,
                      0, (T *)task->out[0].data, (const T *)task->in[0].data, size);
}

gop_status transpose_copy(gop_ctx *ctx, const gop_task *task, int64_t)
{
    TRANSPOSE_BY_ITEM(transpose_item(task), copy, ctx, task);
}

/* ---- streamed ----
 * 16 bytes a thread and access, four of them on the way at once, past the caches: fewer
 * instructions for the same bytes, and more bytes in flight to hide memory's latency. */

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

gop_status transpose_streamed(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const int64_t bytes = task->geometry.permutation.size * transpose_item(task);
    const int64_t blocks = blocks_for(bytes, 16 * STREAMED * 256);
    if (bytes == 0) return GOP_OK;
    return GOP_LAUNCH(ctx, transpose_streamed_kernel, dim3((unsigned)blocks), 256, 0,
                      (uint4 *)task->out[0].data, (const uint4 *)task->in[0].data, bytes / 16,
                      (int)(bytes % 16));
}

/* ---- staged ----
 * Block by block of 32 by 32 through shared memory, and back to where it came from: what the
 * detour and its barrier cost, without a transpose. */

template <typename T> __global__ void transpose_staged_kernel(T *out, const T *in, planes p)
{
    __shared__ T tile[32][32];
    const tile_at t = tile_of(p, 32);
    const int64_t x = t.x + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += blockDim.y)
        if (x < p.nx && t.y + j < p.ny)
            tile[j][threadIdx.x] = in[t.from + x * p.in_x + (t.y + j) * p.in_y];
    __syncthreads();
    for (int j = threadIdx.y; j < 32; j += blockDim.y)
        if (x < p.nx && t.y + j < p.ny)
            out[t.from + x * p.in_x + (t.y + j) * p.in_y] = tile[j][threadIdx.x];
}

template <typename T> static gop_status staged(gop_ctx *ctx, const gop_task *task)
{
    planes p;
    GOP_TRY(transpose_planes(task->geometry.permutation, 32, &p));
    if (p.tiles == 0) return GOP_OK;
    return GOP_LAUNCH(ctx, transpose_staged_kernel<T>, dim3((unsigned)p.tiles), dim3(32, 8), 0,
                      (T *)task->out[0].data, (const T *)task->in[0].data, p);
}

gop_status transpose_staged(gop_ctx *ctx, const gop_task *task, int64_t)
{
    TRANSPOSE_BY_ITEM(transpose_item(task), staged, ctx, task);
}

/* ---- strided ----
 * One element a thread in the output's order, but written where it is read: neighbouring
 * threads are far apart on both sides, and each access is a memory transaction of its own. */

template <typename T>
__global__ void transpose_strided_kernel(T *out, const T *in, gop_permutation p)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.size) return;
    int64_t to, from;
    place(p, (uint64_t)i, &to, &from);
    out[from] = in[from];
}

template <typename T> static gop_status strided(gop_ctx *ctx, const gop_task *task)
{
    const gop_permutation &p = task->geometry.permutation;
    if (p.size == 0) return GOP_OK;
    return GOP_LAUNCH(ctx, transpose_strided_kernel<T>, dim3((unsigned)blocks_for(p.size, 256)),
                      256, 0, (T *)task->out[0].data, (const T *)task->in[0].data, p);
}

gop_status transpose_strided(gop_ctx *ctx, const gop_task *task, int64_t)
{
    TRANSPOSE_BY_ITEM(transpose_item(task), strided, ctx, task);
}

/* ---- what they take ---- */

gop_status transpose_is_dense(const gop_ctx *, const gop_task *task)
{
    const gop_permutation &p = task->geometry.permutation;
    int64_t in = 1, out = 1; /* elements from the first to the last */
    for (int axis = 0; axis < p.rank; axis++) {
        if (p.in[axis] < 0 || p.out[axis] < 0) in = -1;
        in += (p.extent[axis] - 1) * p.in[axis];
        out += (p.extent[axis] - 1) * p.out[axis];
    }
    if (p.size == 0 || (in == p.size && out == p.size)) return GOP_OK;
    return gop_fail(GOP_REFUSED, "transpose: a copy as a yardstick takes arrays without gaps, "
                                 "got strides that leave some");
}

gop_status transpose_is_dense_vectors(const gop_ctx *ctx, const gop_task *task)
{
    const uintptr_t places = (uintptr_t)task->out[0].data | (uintptr_t)task->in[0].data;
    if (places % 16 != 0)
        return gop_fail(GOP_REFUSED,
                        "transpose: a copy of 16 bytes a thread takes arrays at multiples of "
                        "16 bytes, got a multiple of %d",
                        (int)(places & -places));
    return transpose_is_dense(ctx, task);
}

gop_status transpose_is_dense_planes(const gop_ctx *ctx, const gop_task *task)
{
    planes p;
    GOP_TRY(transpose_planes(task->geometry.permutation, 32, &p));
    return transpose_is_dense(ctx, task);
}
