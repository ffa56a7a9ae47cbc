/*
 * small.cu - transpose of small arrays: a thread gathers 16 bytes of the output.
 *
 * A small array takes the latency of its loads; kernels with tiles first read tables and pass a
 * barrier. So this is naive again, but a thread gathers 16 bytes of the output: with several
 * loads in flight in each, the whole array is loaded at once, and the arguments fit into one or
 * two cache lines.
 */
#include "cuda/transpose/index.h"

enum {
    FEW_ITEMS = 1 << 19, /* and */
    FEW_BYTES = 1 << 21,
    FEW_AXES = 8,
    FEW_THREADS = 256,
};

/* Where an item of the output lies in the input; the fastest axis of the output first. */
struct few_axes {
    uint32_t size;
    int rank;
    fast_divisor extent[FEW_AXES];
    int64_t in[FEW_AXES];
};

GOP_DEVICE int64_t few_place(const few_axes &p, uint32_t i)
{
    int64_t from = 0;
    for (int axis = 0; axis < p.rank - 1; axis++)
        from += (int64_t)take_index(i, p.extent[axis]) * p.in[axis];
    return from + i * p.in[p.rank - 1];
}

/* Items of a thread. */
template <typename T> struct few_items {
    enum { N = sizeof(T) == 1 ? 8 : 16 / (int)sizeof(T) };
};

template <typename T> __global__ void __launch_bounds__(FEW_THREADS)
    transpose_small_kernel(T *out, const T *in, const __grid_constant__ few_axes p)
{
    enum { N = few_items<T>::N };
    const uint32_t first = (blockIdx.x * FEW_THREADS + threadIdx.x) * N;
    if (first + N > p.size) { /* the end of the output */
        for (uint32_t i = first; i < p.size; i++) out[i] = in[few_place(p, i)];
        return;
    }
    T items[N];
#pragma unroll
    for (int k = 0; k < N; k++) items[k] = in[few_place(p, first + k)];
    if constexpr (sizeof items == 8) {
        uint2 v;
        __builtin_memcpy(&v, items, 8);
        *reinterpret_cast<uint2 *>(out + first) = v;
    } else {
        uint4 v;
        __builtin_memcpy(&v, items, 16);
        *reinterpret_cast<uint4 *>(out + first) = v;
    }
}

template <typename T>
static gop_status transpose_small(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const few_axes &p = *GOP_OWN(const few_axes, task->plan);
    const dim3 grid((unsigned)blocks_for(p.size, FEW_THREADS * few_items<T>::N));
    return GOP_LAUNCH(ctx, transpose_small_kernel<T>, grid, FEW_THREADS, 0,
                      (T *)task->out[0].data, (const T *)task->in[0].data, p);
}

static gop_status transpose_small_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    const gop_permutation &g = task->geometry.permutation;
    const int item = transpose_item(task);
    few_axes &p = *GOP_OWN(few_axes, plan);
    int64_t dense = 1;
    bool is_dense = (uintptr_t)task->out[0].data % 16 == 0;
    plan->launch = TRANSPOSE_BY_ITEM(item, transpose_small);
    for (int axis = g.rank - 1; axis >= 0; axis--) {
        is_dense = is_dense && g.out[axis] == dense;
        dense *= g.extent[axis];
    }
    const bool is_small = g.size < FEW_ITEMS && g.size * item < FEW_BYTES && g.rank <= FEW_AXES;
    if (!is_small || !is_dense)
        return gop_fail(
            GOP_REFUSED,
            "transpose: the small kernel takes fewer than %d items and %d bytes, of "
            "at most %d axes, to an output without gaps at a multiple of 16 bytes, "
            "got %lld items of %d bytes, %d axes",
            FEW_ITEMS, FEW_BYTES, FEW_AXES, (long long)g.size, item, g.rank);
    p = {(uint32_t)g.size, g.rank, {}, {}};
    for (int k = 0; k < g.rank; k++) {
        p.extent[k] = make_fast_divisor(g.extent[g.rank - 1 - k]);
        p.in[k] = g.in[g.rank - 1 - k];
    }
    return GOP_OK;
}

extern const gop_row transpose_small_row = {
    .name = "small",
    .note = "small arrays, naive with 16 bytes of the output a thread: all of it is "
            "asked for at once",
    .role = GOP_CONFORMING,
    .plan = transpose_small_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
