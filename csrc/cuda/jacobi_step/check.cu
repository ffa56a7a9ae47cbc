/*
 * check.cu - whether a matrix in the device's memory is one that jacobi_step takes: no row of
 * the ladder, but what comes before each.
 *
 * A thread looks at the terms of a row, a warp at those of a longer one, and a block at a long
 * one, in a second launch. What is found is written to memory of the host: nothing where all is
 * well. The words for what is wrong are found by the host, in copies.
 */
#include <string.h>

#include "cuda/jacobi_step/arithmetic.h"

enum { WARP = 32, WARPS = 8, BLOCK = 1024, ALONE = 16, LONG_ROW = 2048 };
#define WHOLE_WARP 0xffffffffu

/* A class of row lengths: the number of terms up to EXACT, from there on by powers of two. */
enum { EXACT = 16, CLASSES = EXACT + 60 };

GOP_DEVICE int class_of(int64_t terms)
{
    int c = terms < EXACT ? (int)terms : EXACT;
    for (int64_t most = EXACT; most < terms; most *= 2) c++;
    return c;
}

static int64_t most_of(int c)
{
    return c <= EXACT ? c : (int64_t)EXACT << (c - EXACT);
}

struct findings {
    int is_bad;
    int classes[CLASSES]; /* 1: a row may be of this class, and none is of those after it */
};

template <typename T, typename I> struct csr_arrays {
    const T *data; /* or NULL: the diagonal is not looked at */
    const I *indices, *indptr;
    int64_t n, stored;
};

template <typename T> GOP_DEVICE bool is_zero(T value)
{
    return value == 0;
}
template <typename R> GOP_DEVICE bool is_zero(complex<R> value)
{
    return value.re == 0 && value.im == 0;
}

/* Terms of a row, `step` apart: whether a column is none. Those of the diagonal add up. */
template <typename T, typename I>
GOP_DEVICE int look_alone(const csr_arrays<T, I> &a, int64_t i, int64_t begin, int64_t end)
{
    T sum = negative_zero<T>();
    int bad = 0;
    for (int64_t p = begin; p < end; p++) {
        const int64_t k = a.indices[p];
        bad |= (uint64_t)k >= (uint64_t)a.n;
        if (a.data && k == i) sum = plus(sum, a.data[p]);
    }
    return bad || (a.data && is_zero(sum));
}

template <typename T, typename I>
GOP_DEVICE int look_together(const csr_arrays<T, I> &a, int64_t i, int64_t begin, int64_t end)
{
    T sum = negative_zero<T>();
    int bad = 0;
    for (int64_t at = begin; at < end; at += WARP) {
        const int64_t p = at + threadIdx.x, k = p < end ? a.indices[p] : -1;
        bad |= p < end && (uint64_t)k >= (uint64_t)a.n;
        for (unsigned m = a.data ? __ballot_sync(WHOLE_WARP, k == i) : 0; m; m &= m - 1)
            sum = plus(sum, a.data[at + __ffs((int)m) - 1]);
    }
    return bad || (a.data && is_zero(sum));
}

template <typename T, typename I> __global__ void __launch_bounds__(WARP *WARPS)
    csr_check_kernel(csr_arrays<T, I> a, findings *found)
{
    const int64_t step = gridDim.x * (int64_t)(WARP * WARPS);
    __shared__ int longest;
    int bad = 0;
    int64_t most = 0;
    if (threadIdx.x == 0 && threadIdx.y == 0) longest = 0;
    __syncthreads();
    for (int64_t i0 = (blockIdx.x * (int64_t)WARPS + threadIdx.y) * WARP; i0 < a.n;
         i0 += step) {
        const int64_t i = i0 + threadIdx.x;
        int64_t begin = 0, end = 0;
        if (i < a.n) {
            begin = a.indptr[i];
            end = a.indptr[i + 1];
            bad |= (i == 0 && begin != 0) || (i == a.n - 1 && end != a.stored);
        }
        const int is_row = i < a.n && begin >= 0 && begin <= end && end <= a.stored;
        const int64_t terms = is_row ? end - begin : 0;
        bad |= i < a.n && !is_row;
        most = most > terms ? most : terms;
        if (is_row && terms <= ALONE) bad |= look_alone(a, i, begin, end);
        for (unsigned m = __ballot_sync(WHOLE_WARP, terms > ALONE && terms <= LONG_ROW); m;
             m &= m - 1) {
            const int r = __ffs((int)m) - 1;
            bad |= look_together(a, i0 + r, __shfl_sync(WHOLE_WARP, begin, r),
                                 __shfl_sync(WHOLE_WARP, end, r));
        }
    }
    if (__syncthreads_or(bad) && threadIdx.x == 0 && threadIdx.y == 0) found->is_bad = 1;
    atomicMax(&longest, class_of(most));
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) found->classes[longest] = 1;
}

/* The rows that the kernel above left out, a block each. */
template <typename T, typename I> __global__ void __launch_bounds__(BLOCK)
    csr_check_long_kernel(csr_arrays<T, I> a, findings *found)
{
    __shared__ unsigned hits[BLOCK / WARP];
    const int thread = threadIdx.x;
    int bad = 0;
    for (int64_t i = blockIdx.x; i < a.n; i += gridDim.x) {
        const int64_t begin = a.indptr[i], end = a.indptr[i + 1];
        T sum = negative_zero<T>();
        if (begin < 0 || end > a.stored || end - begin <= LONG_ROW) continue;
        for (int64_t at = begin; at < end; at += BLOCK) {
            const int64_t p = at + thread, k = p < end ? a.indices[p] : -1;
            const int hit = a.data && p < end && k == i;
            bad |= p < end && (uint64_t)k >= (uint64_t)a.n;
            if (!__syncthreads_or(hit)) continue;
            const unsigned of_warp = __ballot_sync(WHOLE_WARP, hit);
            if (thread % WARP == 0) hits[thread / WARP] = of_warp;
            __syncthreads();
            if (thread == 0) /* in stored order */
                for (int w = 0; w < BLOCK / WARP; w++)
                    for (unsigned m = hits[w]; m; m &= m - 1)
                        sum = plus(sum, a.data[at + w * WARP + __ffs((int)m) - 1]);
            __syncthreads();
        }
        bad |= thread == 0 && a.data && is_zero(sum);
    }
    if (__syncthreads_or(bad) && thread == 0) found->is_bad = 1;
}

template <typename T> __global__ void __launch_bounds__(WARP *WARPS)
    diagonal_check_kernel(const T *a, int64_t n, int64_t stride, findings *found)
{
    const int64_t step = gridDim.x * (int64_t)(WARP * WARPS);
    int bad = 0;
    for (int64_t i = blockIdx.x * (int64_t)(WARP * WARPS) + threadIdx.x; i < n; i += step)
        bad |= is_zero(plus(a[i * stride], positive_zero<T>()));
    if (__syncthreads_or(bad) && threadIdx.x == 0) found->is_bad = 1;
}

/* ---- on the host ---- */

static unsigned blocks_of(int64_t items, int64_t per_block)
{
    const int64_t blocks = blocks_for(items, per_block);
    return (unsigned)(blocks < 8192 ? blocks : 8192);
}

static int64_t longest_of(const volatile findings *found)
{
    int c = CLASSES - 1;
    while (c > 0 && !found->classes[c]) c--;
    return most_of(c);
}

template <typename T, typename I>
static gop_status look_at_csr(gop_ctx *ctx, const gop_call *call, volatile findings *found)
{
    const gop_jacobi_step_params *p = &call->params.jacobi_step;
    const csr_arrays<T, I> a = {p->has_alpha ? nullptr : (const T *)call->in[0].data,
                                (const I *)call->in[1].data, (const I *)call->in[2].data, p->n,
                                call->in[0].shape[0]};
    GOP_TRY(GOP_LAUNCH(ctx, (csr_check_kernel<T, I>), dim3(blocks_of(a.n, WARP * WARPS)),
                       dim3(WARP, WARPS), 0, a, (findings *)found));
    GOP_TRY(ctx->backend->sync(ctx));
    if (found->is_bad || longest_of(found) <= LONG_ROW) return GOP_OK;
    GOP_TRY(GOP_LAUNCH(ctx, (csr_check_long_kernel<T, I>), dim3(blocks_of(a.n, 1)), dim3(BLOCK),
                       0, a, (findings *)found));
    return ctx->backend->sync(ctx);
}

template <typename T>
static gop_status look(gop_ctx *ctx, const gop_call *call, volatile findings *found)
{
    const gop_array *a = &call->in[0];
    if (call->params.jacobi_step.csr)
        return call->in[1].dtype == GOP_INT64 ? look_at_csr<T, int64_t>(ctx, call, found)
                                              : look_at_csr<T, int32_t>(ctx, call, found);
    GOP_TRY(
        GOP_LAUNCH(ctx, diagonal_check_kernel<T>, dim3(blocks_of(a->shape[0], WARP * WARPS)),
                   dim3(WARP * WARPS), 0, (const T *)a->data, a->shape[0],
                   (a->strides[0] + a->strides[1]) / (int64_t)sizeof(T), (findings *)found));
    return ctx->backend->sync(ctx);
}

/* Called by gpuops_cuda.cu. Where there is no memory to tell by, *is_well stays 0. */
extern "C" gop_status gop_jacobi_step_look(gop_ctx *ctx, const gop_call *call, int *is_well,
                                           int64_t *longest);
gop_status gop_jacobi_step_look(gop_ctx *ctx, const gop_call *call, int *is_well,
                                int64_t *longest)
{
    const gop_dtype dtype = call->in[0].dtype;
    const int csr = call->params.jacobi_step.csr;
    if (csr ? call->params.jacobi_step.n == 0 : call->in[0].shape[0] == 0) return GOP_OK;
    volatile findings *found = (volatile findings *)ctx->backend->zero_copy(ctx, sizeof *found);
    if (!found) return GOP_OK;
    memset((void *)found, 0, sizeof *found);
    const gop_status status = dtype == GOP_FLOAT32     ? look<float>(ctx, call, found)
                              : dtype == GOP_FLOAT64   ? look<double>(ctx, call, found)
                              : dtype == GOP_COMPLEX64 ? look<complex64>(ctx, call, found)
                                                       : look<complex128>(ctx, call, found);
    *is_well = status == GOP_OK && !found->is_bad;
    *longest = *is_well && csr ? longest_of(found) : 0;
    ctx->backend->release(ctx, (void *)found);
    return status;
}
