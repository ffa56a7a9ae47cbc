/*
 * reduce_passes.cu - a grid that fits the device, and the ways its blocks end in one number.
 *
 * Once a thread adds many elements in a register the floor is memory alone: what counts is how
 * many loads are under way at a time. What remains hard is the end: blocks cannot wait for each
 * other, so that the last sum takes another launch, an atomic, or a block that knows it is
 * last.
 */
#include "cuda/reduce_lecture.h"

/* ---- shuffled: warps meet in registers --------------------------------------------------
 * A shuffle hands a register to another thread of the warp: no shared memory, no barrier.
 * Shared memory holds one sum a warp, and a block meets once. */

template <typename R> GOP_DEVICE R fold_warp(R mine)
{
#pragma unroll
    for (int d = 16; d > 0; d /= 2) mine += __shfl_down_sync(0xffffffffu, mine, d);
    return mine;
}

/* The sum of the block, in its first thread. */
template <typename R> GOP_DEVICE R fold_block(R mine)
{
    __shared__ R sum[BLOCK / 32];
    const int t = threadIdx.x % 32, warp = threadIdx.x / 32;
    mine = fold_warp(mine);
    if (t == 0) sum[warp] = mine;
    __syncthreads();
    if (warp == 0) mine = fold_warp(t < BLOCK / 32 ? sum[t] : R(0));
    return mine;
}

/* The elements of a thread, one after another. */
template <typename R, typename T> GOP_DEVICE R add_own(const T *a, int64_t n)
{
    R mine = 0;
#pragma unroll 1
    for (int64_t i = blockIdx.x * (int64_t)BLOCK + threadIdx.x; i < n;
         i += gridDim.x * (int64_t)BLOCK)
        mine += R(a[i]);
    return mine;
}

template <typename T, typename R>
__global__ void reduce_shuffled_kernel(const T *a, int64_t n, R *out)
{
    const R sum = fold_block(add_own<R>(a, n));
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

template <typename T> gop_status reduce_shuffled(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH(reduce_shuffled_kernel, BLOCK, 16 * BLOCK, resident_blocks(ctx, BLOCK));
}

/* ---- multipass: uf loads before the first addition --------------------------------------
 * The array is passed over by as many blocks as the device holds at once. A thread has `uf`
 * loads under way at a time: by Little's law their bytes, over all threads, must be what memory
 * delivers in the time that it takes to answer. Which uf is best is found by trying. What is
 * left at the end of the array, less than uf turns of the grid, is added one by one: without
 * that only multiples of uf turns come out right. */

template <typename T, typename R, int UF>
__global__ void reduce_multipass_kernel(const T *a, int64_t n, R *out)
{
    const int64_t turn = gridDim.x * (int64_t)BLOCK;
    int64_t i = blockIdx.x * (int64_t)BLOCK + threadIdx.x;
    R mine = 0;
    for (; i + (UF - 1) * turn < n; i += UF * turn) {
        T x[UF];
#pragma unroll
        for (int u = 0; u < UF; u++) x[u] = a[i + u * turn];
#pragma unroll
        for (int u = 0; u < UF; u++) mine += R(x[u]);
    }
    for (; i < n; i += turn) mine += R(a[i]);
    mine = fold_block(mine);
    if (threadIdx.x == 0) out[blockIdx.x] = mine;
}

template <typename T, int UF> static gop_status multipass(gop_ctx *ctx, const gop_task *task)
{
    if constexpr (UF < 16)
        if (task->tune[0] > UF) return multipass<T, UF + 1>(ctx, task);
    LECTURE_LAUNCH(reduce_multipass_kernel, BLOCK, UF * BLOCK, resident_blocks(ctx, BLOCK), UF);
}

template <typename T> gop_status reduce_multipass(gop_ctx *ctx, const gop_task *task, int64_t)
{
    return multipass<T, 2>(ctx, task);
}

/* ---- wide: 16 bytes a load --------------------------------------------------------------
 * One instruction brings two to four elements: as many bytes under way with fewer instructions.
 * Elements before the first multiple of 16 bytes and after the last go to the first threads. */

template <typename R, typename T> GOP_DEVICE R add_own_wide(const T *a, int64_t n)
{
    enum { N = vec128<T>::N };
    const int64_t first = blockIdx.x * (int64_t)BLOCK + threadIdx.x;
    const int64_t past = (int64_t)((uintptr_t)a / sizeof(T) % N);
    const int64_t head = past == 0 ? 0 : n < N - past ? n : N - past;
    const int64_t vectors = (n - head) / N, tail = head + vectors * N;
    R mine = 0;
    for (int64_t i = first; i < vectors; i += gridDim.x * (int64_t)BLOCK) {
        const vec128<T> v = load128(a + head + i * N);
#pragma unroll
        for (int k = 0; k < N; k++) mine += R(v.at[k]);
    }
    if (first < head) mine += R(a[first]);
    if (first < n - tail) mine += R(a[tail + first]);
    return mine;
}

template <typename T, typename R>
__global__ void reduce_wide_kernel(const T *a, int64_t n, R *out)
{
    const R sum = fold_block(add_own_wide<R>(a, n));
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

template <typename T> gop_status reduce_wide(gop_ctx *ctx, const gop_task *task, int64_t)
{
    LECTURE_LAUNCH(reduce_wide_kernel, BLOCK, 16 * BLOCK, resident_blocks(ctx, BLOCK));
}

/* ---- atomic: blocks add to one number ---------------------------------------------------
 * No second pass over partial sums: each block adds its own to the result, and memory puts the
 * additions in a row. Whoever comes first is added first, so the last bits may change from run
 * to run. */

GOP_DEVICE void atomic_add(float *sum, float value)
{
    atomicAdd(sum, value);
}
GOP_DEVICE void atomic_add(double *sum, double value)
{
    atomicAdd(sum, value);
}
GOP_DEVICE void atomic_add(int64_t *sum, int64_t value)
{
    atomicAdd(reinterpret_cast<unsigned long long *>(sum), (unsigned long long)value);
}

template <typename R> __global__ void reduce_atomic_clear_kernel(R *word)
{
    *word = 0;
}

template <typename T, typename R>
__global__ void reduce_atomic_kernel(const T *a, int64_t n, R *out)
{
    const R sum = fold_block(add_own_wide<R>(a, n));
    if (threadIdx.x == 0) atomic_add(out, sum);
}

template <typename T> gop_status reduce_atomic(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef lecture_sum_t<T> R;
    const lecture_level<R> l = lecture_first<R>(task, 16 * BLOCK, resident_blocks(ctx, BLOCK));
    GOP_TRY(GOP_LAUNCH(ctx, reduce_atomic_clear_kernel<R>, dim3(1), dim3(1), 0, l.out));
    return GOP_LAUNCH(ctx, (reduce_atomic_kernel<T, R>), dim3((unsigned)l.left), dim3(BLOCK), 0,
                      lecture_input<T>(task), l.n, l.out);
}

/* ---- ticket: the last block adds what the others left -----------------------------------
 * A block writes its sum, then draws a ticket; whoever draws the last one knows that all sums
 * are there. The fence between writing and drawing makes sure that they are seen. The order of
 * the additions depends on the grid alone: the same bits in every run on a device. */

template <typename T, typename R> __global__ void
reduce_ticket_kernel(const T *a, int64_t n, R *partial, unsigned *ticket, R *out)
{
    __shared__ bool last;
    R sum = fold_block(add_own_wide<R>(a, n));
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    sum = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += BLOCK) sum += __ldcg(partial + i);
    sum = fold_block(sum);
    if (threadIdx.x == 0) *out = sum;
}

template <typename T> gop_status reduce_ticket(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef lecture_sum_t<T> R;
    const lecture_level<R> l = lecture_first<R>(task, 16 * BLOCK, resident_blocks(ctx, BLOCK));
    unsigned *const ticket = reinterpret_cast<unsigned *>(l.half[0]);
    GOP_TRY(GOP_LAUNCH(ctx, reduce_atomic_clear_kernel<unsigned>, dim3(1), dim3(1), 0, ticket));
    return GOP_LAUNCH(ctx, (reduce_ticket_kernel<T, R>), dim3((unsigned)l.left), dim3(BLOCK), 0,
                      lecture_input<T>(task), l.n, l.half[0] + 1, ticket, l.out);
}

LECTURE_PASSES(LECTURE_DTYPES)
