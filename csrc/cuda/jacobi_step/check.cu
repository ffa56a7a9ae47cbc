/*
 * check.cu - validates a matrix in device memory, before any kernel of jacobi_step.
 *
 * If all rows of a warp are short, a thread checks a row. Else the warp checks its rows' terms
 * in memory order, and a second launch checks long rows, a block each. Few blocks write
 * findings to host memory. The host then finds the exact error in a copy.
 */
#include <string.h>

#include "core/core.h"
#include "cuda/jacobi_step/alone.h"

enum { WARPS = 8, BLOCK = 1024, LONG_ROW = 2048, BATCH = 8 };
/* Blocks that an SM is to hold. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
enum { AT_ONCE = 4 };
#else
enum { AT_ONCE = 6 };
#endif

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

template <typename I> GOP_DEVICE int is_bad_column(I k, int64_t n)
{
    return column_of(k, n) != k;
}

/* A row of at most ALONE terms. Those past its end are its last one again. */
template <typename T, typename I>
GOP_DEVICE int look_alone(const csr_arrays<T, I> &a, int64_t i, int64_t begin, int m)
{
    const I *const column = a.indices + begin, own = column_or_none<I>(i);
    T sum = negative_zero<T>();
    I k[ALONE];
    int bad = 0;
    if (m == 0) return a.data != nullptr;
#pragma unroll
    for (int j = 0; j < ALONE; j++) k[j] = column[j < m ? j : m - 1];
#pragma unroll
    for (int j = 0; j < ALONE; j++) bad |= is_bad_column(k[j], a.n);
    if (!a.data) return bad;
#pragma unroll
    for (int j = 0; j < ALONE; j++)
        if (j < m && k[j] == own) sum = plus(sum, a.data[begin + j]);
    return bad || is_zero(sum);
}

/* For each row of a warp: where its terms begin and end, and what is on the diagonal. */
struct warp_rows {
    int64_t from[WARP], to[WARP];
    int hits[WARP];
    unsigned long long last[WARP]; /* of the hits */
};

/* Terms [begin, end) of rows that follow each other: whether a column is none. */
template <typename T, typename I> GOP_DEVICE int look_together(const csr_arrays<T, I> &a,
                                                               int64_t i0, int64_t begin,
                                                               int64_t end, warp_rows &rows)
{
    int bad = 0;
    for (int64_t at = begin + threadIdx.x; at < end; at += BATCH * WARP) {
        I k[BATCH];
#pragma unroll
        for (int j = 0; j < BATCH; j++)
            k[j] = a.indices[at + j * WARP < end ? at + j * WARP : end - 1];
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            const int64_t p = at + j * WARP, r = k[j] - i0;
            bad |= is_bad_column(k[j], a.n);
            if (r < 0 || r >= WARP || p >= end || !a.data) continue;
            if (p < rows.from[r] || p >= rows.to[r]) continue;
            atomicAdd(&rows.hits[r], 1);
            atomicMax(&rows.last[r], (unsigned long long)p);
        }
    }
    return bad;
}

/* Whether the diagonal of row i, terms [begin, end), of which that many are on it, is zero. */
template <typename T, typename I> GOP_DEVICE int has_zero(const csr_arrays<T, I> &a, int64_t i,
                                                          int64_t begin, int64_t end, int hits,
                                                          int64_t last)
{
    T sum = negative_zero<T>();
    if (hits == 1) return is_zero(a.data[last]);
    for (int64_t p = begin; hits > 0 && p < end; p++)
        if (a.indices[p] == i) sum = plus(sum, a.data[p]);
    return is_zero(sum);
}

/* 32 rows by a warp, but not the long ones among them. */
template <typename T, typename I> GOP_DEVICE int
look_at_rows(const csr_arrays<T, I> &a, int64_t i0, int64_t begin, int64_t end, warp_rows &rows)
{
    const int thread = threadIdx.x, is_row = i0 + thread < a.n;
    const unsigned long_rows = __ballot_sync(WHOLE_WARP, end - begin > LONG_ROW);
    int bad = 0;
    if (__all_sync(WHOLE_WARP, end - begin <= ALONE))
        return is_row && look_alone(a, i0 + thread, begin, (int)(end - begin));
    rows.from[thread] = begin;
    rows.to[thread] = end;
    rows.hits[thread] = 0;
    rows.last[thread] = 0;
    __syncwarp();
    for (int r = 0; r < WARP;) {
        const unsigned later = long_rows >> r;
        const int stop = later ? r + __ffs((int)later) - 1 : WARP;
        const int64_t from = shuffle(begin, r), to = shuffle(end, stop > r ? stop - 1 : r);
        if (stop > r) bad |= look_together(a, i0, from, to, rows);
        r = stop + 1;
    }
    __syncwarp();
    if (a.data && is_row && end - begin <= LONG_ROW)
        bad |=
            has_zero(a, i0 + thread, begin, end, rows.hits[thread], (int64_t)rows.last[thread]);
    __syncwarp();
    return bad;
}

struct row_ends {
    int64_t begin, end;
};

/* The ends of the thread's row of group g. Rows past the last one have no terms. */
template <typename T, typename I>
GOP_DEVICE row_ends row_ends_of(const csr_arrays<T, I> &a, int64_t g)
{
    const int64_t i = (g > 0 ? g : 0) * WARP + threadIdx.x;
    return {a.indptr[i < a.n ? i : a.n], a.indptr[i + 1 < a.n ? i + 1 : a.n]};
}

/* Goes from the last row to the first: the step begins with the first rows and finds them in
 * the cache. */
template <typename T, typename I> __global__ void __launch_bounds__(WARP *WARPS, AT_ONCE)
    csr_check_kernel(csr_arrays<T, I> a, findings *found)
{
    const int64_t groups = (a.n + WARP - 1) / WARP, step = gridDim.x * (int64_t)WARPS;
    __shared__ warp_rows rows[WARPS];
    __shared__ int longest;
    int bad = 0;
    int64_t most = 0;
    if (threadIdx.x == 0 && threadIdx.y == 0) longest = 0;
    __syncthreads();
    int64_t g = groups - 1 - (blockIdx.x * (int64_t)WARPS + threadIdx.y);
    row_ends next = row_ends_of(a, g);
    for (; g >= 0; g -= step) {
        const int64_t i = g * WARP + threadIdx.x;
        const row_ends row = next;
        next = row_ends_of(a, g - step); /* asked for before this one is looked at */
        const int is_row = row.begin >= 0 && row.begin <= row.end && row.end <= a.stored;
        bad |= !is_row || (i == 0 && row.begin != 0) || (i == a.n - 1 && row.end != a.stored);
        if (!__all_sync(WHOLE_WARP, is_row)) continue;
        most = most > row.end - row.begin ? most : row.end - row.begin;
        bad |= look_at_rows(a, g * WARP, row.begin, row.end, rows[threadIdx.y]);
    }
    if (__syncthreads_or(bad) && threadIdx.x == 0 && threadIdx.y == 0) found->is_bad = 1;
    atomicMax(&longest, class_of(most));
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) found->classes[longest] = 1;
}

/* A long row by a block. */
template <typename T, typename I>
GOP_DEVICE int look_at_long_row(const csr_arrays<T, I> &a, int64_t i, unsigned *hits)
{
    const int thread = threadIdx.x;
    const int64_t begin = a.indptr[i], end = a.indptr[i + 1];
    T sum = negative_zero<T>();
    int bad = 0;
    if (begin < 0 || end > a.stored) return 1;
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
    return bad || (thread == 0 && a.data && is_zero(sum));
}

/* The rows that the kernel above left out. */
template <typename T, typename I> __global__ void __launch_bounds__(BLOCK)
    csr_check_long_kernel(csr_arrays<T, I> a, findings *found)
{
    __shared__ unsigned hits[BLOCK / WARP], long_rows[BLOCK / WARP];
    const int thread = threadIdx.x;
    int bad = 0;
    for (int64_t i0 = blockIdx.x * (int64_t)BLOCK; i0 < a.n; i0 += gridDim.x * (int64_t)BLOCK) {
        const int64_t i = i0 + thread;
        const int is_long = i < a.n && a.indptr[i + 1] - a.indptr[i] > LONG_ROW;
        const unsigned of_warp = __ballot_sync(WHOLE_WARP, is_long);
        if (thread % WARP == 0) long_rows[thread / WARP] = of_warp;
        __syncthreads();
        for (int w = 0; w < BLOCK / WARP; w++)
            for (unsigned m = long_rows[w]; m; m &= m - 1)
                bad |= look_at_long_row(a, i0 + w * WARP + __ffs((int)m) - 1, hits);
        __syncthreads();
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

/* At most one wave of blocks: each of them writes over the bus. */
static unsigned blocks_of(const gop_ctx *ctx, int64_t items, int64_t per_block)
{
    const int64_t blocks = blocks_for(items, per_block);
    const int64_t most = (ctx->info.major < 8 ? 4 : 6) * ctx->info.processors;
    return (unsigned)(blocks < most ? blocks : most);
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
    GOP_TRY(GOP_LAUNCH(ctx, (csr_check_kernel<T, I>), dim3(blocks_of(ctx, a.n, WARP * WARPS)),
                       dim3(WARP, WARPS), 0, a, (findings *)found));
    GOP_TRY(ctx->backend->sync(ctx));
    if (found->is_bad || longest_of(found) <= LONG_ROW) return GOP_OK;
    GOP_TRY(GOP_LAUNCH(ctx, (csr_check_long_kernel<T, I>), dim3(blocks_of(ctx, a.n, BLOCK)),
                       dim3(BLOCK), 0, a, (findings *)found));
    return ctx->backend->sync(ctx);
}

template <typename T>
static gop_status look(gop_ctx *ctx, const gop_call *call, volatile findings *found)
{
    const gop_array *a = &call->in[0];
    if (call->params.jacobi_step.csr)
        return call->in[1].dtype == GOP_INT64 ? look_at_csr<T, int64_t>(ctx, call, found)
                                              : look_at_csr<T, int32_t>(ctx, call, found);
    GOP_TRY(GOP_LAUNCH(
        ctx, diagonal_check_kernel<T>, dim3(blocks_of(ctx, a->shape[0], WARP * WARPS)),
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
    const int csr = call->params.jacobi_step.csr;
    if (csr ? call->params.jacobi_step.n == 0 : call->in[0].shape[0] == 0) return GOP_OK;
    volatile findings *found = (volatile findings *)ctx->backend->zero_copy(ctx, sizeof *found);
    if (!found) return GOP_OK;
    memset((void *)found, 0, sizeof *found);
    const gop_status status = JACOBI_BY_DTYPE(call->in[0].dtype, look)(ctx, call, found);
    *is_well = status == GOP_OK && !found->is_bad;
    *longest = *is_well && csr ? longest_of(found) : 0;
    ctx->backend->release(ctx, (void *)found);
    return status;
}
