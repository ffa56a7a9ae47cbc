/*
 * reduce_lecture.cu - the classic lecture on parallel reduction, step by step.
 *
 * The floor is reading every element once, and an addition costs next to nothing. What makes it
 * hard: the threads of a block have to meet, and each step removes one thing that the meeting
 * costs: launches, idle threads, bank conflicts, barriers, loop overhead, too few loads.
 */
#include "cuda/reduce_lecture.h"

/* ---- naive: neighbours in pairs, a launch per level -------------------------------------
 * The sum as a tournament. Every level goes through global memory and waits for a launch. */

template <typename T, typename R>
__global__ void reduce_naive_kernel(const T *a, int64_t n, R *out)
{
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (2 * i + 1 < n) out[i] = R(a[2 * i]) + R(a[2 * i + 1]);
    else if (2 * i < n) out[i] = R(a[2 * i]);
}

template <typename T> gop_status reduce_naive(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef lecture_sum_t<T> R;
    lecture_level<R> l = lecture_first<R>(task, 2, INT64_MAX);
    GOP_TRY(GOP_LAUNCH(ctx, (reduce_naive_kernel<T, R>),
                       dim3((unsigned)blocks_for(l.left, BLOCK)), dim3(BLOCK), 0,
                       lecture_input<T>(task), l.n, l.to));
    while (lecture_next(&l))
        GOP_TRY(GOP_LAUNCH(ctx, (reduce_naive_kernel<R, R>),
                           dim3((unsigned)blocks_for(l.left, BLOCK)), dim3(BLOCK), 0, l.from,
                           l.n, l.to));
    return GOP_OK;
}

/* ---- interleaved: a block meets in shared memory ----------------------------------------
 * Eight levels to a launch. The threads that still work are numbers 2, 4, 8, .. apart: most of
 * every warp idles while the warp runs on. */

template <typename T, typename R>
__global__ void reduce_interleaved_kernel(const T *a, int64_t n, R *out)
{
    __shared__ R sum[BLOCK];
    const int t = threadIdx.x;
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + t;
    sum[t] = i < n ? R(a[i]) : R(0);
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2) {
        if (t % (2 * d) == 0) sum[t] += sum[t + d];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = sum[0];
}

template <typename T> gop_status reduce_interleaved(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH(reduce_interleaved_kernel, BLOCK, BLOCK, GRID_LIMIT);
}

/* ---- strided: the threads that work are the first ones ----------------------------------
 * No warp runs for a few of its threads any more. But thread t now reads word 2*d*t: with d =
 * 16 a whole warp asks one bank, which answers 32 times. */

template <typename T, typename R>
__global__ void reduce_strided_kernel(const T *a, int64_t n, R *out)
{
    __shared__ R sum[BLOCK];
    const int t = threadIdx.x;
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + t;
    sum[t] = i < n ? R(a[i]) : R(0);
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2) {
        const int at = 2 * d * t;
        if (at < blockDim.x) sum[at] += sum[at + d];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = sum[0];
}

template <typename T> gop_status reduce_strided(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH(reduce_strided_kernel, BLOCK, BLOCK, GRID_LIMIT);
}

/* ---- sequential: the words that are added are neighbours too ----------------------------
 * The second half is added to the first: whole warps retire, and no bank is asked twice. */

template <typename R> GOP_DEVICE void fold_sequential(R *sum, int t, int down_to)
{
    for (int d = blockDim.x / 2; d > down_to; d /= 2) {
        if (t < d) sum[t] += sum[t + d];
        __syncthreads();
    }
}

template <typename T, typename R>
__global__ void reduce_sequential_kernel(const T *a, int64_t n, R *out)
{
    __shared__ R sum[BLOCK];
    const int t = threadIdx.x;
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + t;
    sum[t] = i < n ? R(a[i]) : R(0);
    __syncthreads();
    fold_sequential(sum, t, 0);
    if (t == 0) out[blockIdx.x] = sum[0];
}

template <typename T> gop_status reduce_sequential(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH(reduce_sequential_kernel, BLOCK, BLOCK, GRID_LIMIT);
}

/* ---- loaded: the first addition happens while loading -----------------------------------
 * Half of the threads did nothing but load. Now every thread adds two elements on the way into
 * shared memory: half the blocks, and two loads under way instead of one. */

template <typename T, typename R>
GOP_DEVICE R load_two(const T *a, int64_t n, int64_t i, int64_t apart)
{
    const R first = i < n ? R(a[i]) : R(0);
    return first + (i + apart < n ? R(a[i + apart]) : R(0));
}

template <typename T, typename R>
__global__ void reduce_loaded_kernel(const T *a, int64_t n, R *out)
{
    __shared__ R sum[BLOCK];
    const int t = threadIdx.x;
    const int64_t i = blockIdx.x * (2 * (int64_t)blockDim.x) + t;
    sum[t] = load_two<T, R>(a, n, i, blockDim.x);
    __syncthreads();
    fold_sequential(sum, t, 0);
    if (t == 0) out[blockIdx.x] = sum[0];
}

template <typename T> gop_status reduce_loaded(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH(reduce_loaded_kernel, BLOCK, 2 * BLOCK, GRID_LIMIT);
}

/* ---- unrolled: the last warp needs no barrier of the block ------------------------------
 * As printed in the lecture the warp ran in lockstep and needed no barrier at all. Since the
 * threads of a warp are scheduled one by one, each of them must have read before any writes,
 * and have written before any reads: two barriers of the warp, which cost a few cycles. */

template <typename R> GOP_DEVICE void fold_last_warp(R *sum, int t)
{
    R mine = sum[t];
#pragma unroll
    for (int d = 32; d > 0; d /= 2) {
        mine += sum[t + d];
        __syncwarp();
        sum[t] = mine;
        __syncwarp();
    }
}

template <typename T, typename R>
__global__ void reduce_unrolled_kernel(const T *a, int64_t n, R *out)
{
    __shared__ R sum[BLOCK];
    const int t = threadIdx.x;
    const int64_t i = blockIdx.x * (2 * (int64_t)blockDim.x) + t;
    sum[t] = load_two<T, R>(a, n, i, blockDim.x);
    __syncthreads();
    fold_sequential(sum, t, 32);
    if (t < 32) fold_last_warp(sum, t);
    if (t == 0) out[blockIdx.x] = sum[0];
}

template <typename T> gop_status reduce_unrolled(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH(reduce_unrolled_kernel, BLOCK, 2 * BLOCK, GRID_LIMIT);
}

/* ---- complete: the compiler knows the size of the block ---------------------------------
 * With the number of threads a template argument nothing is left of the loop but its additions:
 * no counter, no comparison, no jump. */

template <int THREADS, typename R> GOP_DEVICE void fold_complete(R *sum, int t)
{
#pragma unroll
    for (int d = THREADS / 2; d > 32; d /= 2) {
        if (t < d) sum[t] += sum[t + d];
        __syncthreads();
    }
    if (t < 32) fold_last_warp(sum, t);
}

template <typename T, typename R, int THREADS>
__global__ void reduce_complete_kernel(const T *a, int64_t n, R *out)
{
    __shared__ R sum[THREADS];
    const int t = threadIdx.x;
    const int64_t i = blockIdx.x * (int64_t)(2 * THREADS) + t;
    sum[t] = load_two<T, R>(a, n, i, THREADS);
    __syncthreads();
    fold_complete<THREADS>(sum, t);
    if (t == 0) out[blockIdx.x] = sum[0];
}

template <typename T, int THREADS>
static gop_status complete(gop_ctx *ctx, const gop_task *task)
{
    LECTURE_LAUNCH(reduce_complete_kernel, THREADS, 2 * THREADS, GRID_LIMIT, THREADS);
}

template <typename T> gop_status reduce_complete(gop_ctx *ctx, const gop_task *task, int64_t)
{
    switch (task->tune[0]) {
    case 64:
        return complete<T, 64>(ctx, task);
    case 128:
        return complete<T, 128>(ctx, task);
    case 256:
        return complete<T, 256>(ctx, task);
    default:
        return complete<T, 512>(ctx, task);
    }
}

/* ---- cascaded: many elements a thread ---------------------------------------------------
 * A grid that fits the device strides over the array: a thread adds many elements in a register
 * before it meets anybody, so that the meeting, log n steps of it, is paid once for all of
 * them. */

template <typename T, typename R>
__global__ void reduce_cascaded_kernel(const T *a, int64_t n, R *out)
{
    __shared__ R sum[BLOCK];
    const int t = threadIdx.x;
    R mine = 0;
#pragma unroll 1
    for (int64_t i = blockIdx.x * (int64_t)(2 * BLOCK) + t; i < n;
         i += gridDim.x * (int64_t)(2 * BLOCK))
        mine += load_two<T, R>(a, n, i, BLOCK);
    sum[t] = mine;
    __syncthreads();
    fold_complete<BLOCK>(sum, t);
    if (t == 0) out[blockIdx.x] = sum[0];
}

template <typename T> gop_status reduce_cascaded(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH(reduce_cascaded_kernel, BLOCK, 16 * BLOCK, resident_blocks(ctx, BLOCK));
}

LECTURE_STEPS(LECTURE_DTYPES)
