/*
 * balanced.cu - jacobi_step of a CSR matrix, whatever the lengths of its rows.
 *
 * A warp has 32 rows. Where they are short each thread keeps a row's terms in registers, all of
 * its loads under way at once. Longer ones pass through shared memory in groups, read as they
 * stand in memory and folded by a thread a row; rows past 128 terms are the whole warp's. Long
 * rows are put on a list, and a second kernel spreads their leaves over all warps of the
 * device.
 */
#include "cuda/jacobi_step/tree.h"

enum { WARPS = 8, ALONE = 8, LONG_ROW = 1024 };

/* A leaf of a row on the list, and the place of the row's first one. */
struct long_leaf {
    int64_t row, first;
};

/* Of a leaf's terms on the diagonal: how many, and the last of them. */
template <typename T> struct on_diagonal {
    int64_t count;
    T value;
};

template <typename T> struct long_rows {
    unsigned *count; /* of leaves on the list; NULL: there are no long rows */
    unsigned *done;  /* by row, at its first leaf */
    long_leaf *leaf;
    on_diagonal<T> *diagonal;
    T *sum; /* of leaves, k for each */
};

GOP_DEVICE int64_t leaves_of(int64_t terms)
{
    return (terms + LEAF - 1) / LEAF;
}

template <typename T, typename I> GOP_DEVICE I term_column(const jacobi_system<T> &s, int64_t p)
{
    const I k = ((const I *)s.indices)[p];
    return (uint64_t)k < (uint64_t)s.g.n ? k : 0;
}

/* The fold of at most ALONE lanes in registers; those past the last are -0.0. */
template <typename T> GOP_DEVICE T fold_few(T (&lane)[ALONE])
{
#pragma unroll
    for (int d = ALONE / 2; d > 0; d /= 2)
#pragma unroll
        for (int l = 0; l < d; l++) lane[l] = plus(lane[l], lane[l + d]);
    return lane[0];
}

/* A row of at most ALONE terms by a thread. */
template <typename T, typename I>
GOP_DEVICE void row_alone(const jacobi_system<T> &s, int64_t i, csr_row row)
{
    const int m = (int)(row.end - row.begin);
    I k[ALONE];
    T a[ALONE], diagonal = negative_zero<T>();
#pragma unroll
    for (int j = 0; j < ALONE; j++) {
        k[j] = j < m ? term_column<T, I>(s, row.begin + j) : 0;
        if (j < m) a[j] = s.a[row.begin + j];
    }
    for (int64_t c = 0; c < s.g.k; c++) {
        T lane[ALONE];
#pragma unroll
        for (int j = 0; j < ALONE; j++) {
            lane[j] = negative_zero<T>();
            if (j < m)
                lane[j] = multiply_add(a[j], s.x[k[j] * s.g.x_row + c * s.g.x_col], lane[j]);
        }
        const T sum = m > 0 ? fold_few(lane) : positive_zero<T>();
        if (c == 0)
#pragma unroll
            for (int j = 0; j < ALONE; j++)
                if (j < m && k[j] == i) diagonal = plus(diagonal, a[j]);
        jacobi_update(s, i, c, sum, diagonal);
    }
}

/* What a warp has for a group of rows. */
template <typename T, typename I> struct group_room {
    enum { TERMS = 2048 / sizeof(T) };
    T product[TERMS];
    I column[TERMS];
};

/* Rows of the warp from `first` on that are at most LANES terms long, follow each other in
 * memory and fit its room; gives the one after them. (The row of a lane that has none begins
 * and ends at 0: it ends the group, unless no term comes before it.) */
template <typename T, typename I>
GOP_DEVICE int rows_in_group(const jacobi_system<T> &s, int64_t i0, int first, csr_row row,
                             group_room<T, I> &room)
{
    const int lane = threadIdx.x;
    const int64_t begin = shuffle(row.begin, first);
    const int64_t end_before = shuffle(row.end, lane > 0 ? lane - 1 : 0);
    const int fits = lane >= first && (lane == first || row.begin == end_before) &&
                     row.end - row.begin <= LANES && row.end - begin <= group_room<T, I>::TERMS;
    const unsigned others = __ballot_sync(WHOLE_WARP, !fits) >> first;
    const int end = others ? first + __ffs((int)others) - 1 : WARP;
    const int terms = (int)(shuffle(row.end, end - 1) - begin);
    const int mine = (int)(row.begin - begin), m = (int)(row.end - row.begin);
    const int has_row = lane >= first && lane < end && i0 + lane < s.last;
    T diagonal = negative_zero<T>();
    for (int64_t c = 0; c < s.g.k; c++) {
        const T *x = s.x + c * s.g.x_col;
#pragma unroll 4
        for (int p = lane; p < terms; p += WARP) {
            const I k = term_column<T, I>(s, begin + p);
            room.column[p] = k;
            room.product[p] =
                multiply_add(s.a[begin + p], x[k * s.g.x_row], negative_zero<T>());
        }
        __syncwarp();
        if (has_row) {
            for (int j = 0; c == 0 && !s.has_alpha && j < m; j++)
                if (room.column[mine + j] == i0 + lane)
                    diagonal = plus(diagonal, s.a[begin + mine + j]);
            jacobi_update(s, i0 + lane, c,
                          m > 0 ? fold_in_place(room.product + mine, m) : positive_zero<T>(),
                          diagonal);
        }
        __syncwarp();
    }
    return end;
}

/* Puts a row's leaves on the list, by a warp. */
template <typename T>
GOP_DEVICE void put_on_list(const long_rows<T> &list, int64_t i, int64_t terms)
{
    const unsigned leaves = (unsigned)leaves_of(terms);
    unsigned first = 0;
    if (threadIdx.x == 0) first = atomicAdd(list.count, leaves);
    first = shuffle(first, 0);
    if (threadIdx.x == 0) list.done[first] = 0;
    for (unsigned l = threadIdx.x; l < leaves; l += WARP)
        list.leaf[first + l] = {i, (int64_t)first};
}

template <typename T, typename I> __global__ void __launch_bounds__(WARP *WARPS)
    jacobi_step_balanced_kernel(jacobi_system<T> s, long_rows<T> list)
{
    __shared__ group_room<T, I> rooms[WARPS];
    const int64_t i0 = s.first + (blockIdx.x * (int64_t)WARPS + threadIdx.y) * WARP;
    const int64_t i = i0 + threadIdx.x;
    if (i0 >= s.last) return;
    csr_row row = {0, 0};
    /* Read once: what was checked is what is used, whatever is written meanwhile. */
    if (i < s.last) row = {((const I *)s.indptr)[i], ((const I *)s.indptr)[i + 1]};
    if (row.begin < 0 || row.end > s.stored || row.end < row.begin) row.begin = row.end = 0;
    if (__all_sync(WHOLE_WARP, row.end - row.begin <= ALONE)) {
        if (i < s.last) row_alone<T, I>(s, i, row);
        return;
    }
    for (int r = 0; r < WARP && i0 + r < s.last;) {
        const int64_t terms = shuffle(row.end, r) - shuffle(row.begin, r);
        if (terms <= LANES) {
            r = rows_in_group<T, I>(s, i0, r, row, rooms[threadIdx.y]);
            continue;
        }
        if (terms > LONG_ROW && list.count) put_on_list(list, i0 + r, terms);
        else warp_csr_update(s, i0 + r);
        r++;
    }
}

/* Blocks that a multiprocessor has threads for. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
enum { MOST_BLOCKS = 1024 / (WARP * WARPS) };
#else
enum { MOST_BLOCKS = 1536 / (WARP * WARPS) };
#endif

/* The same where all rows are known to be short: fewer registers, so more threads at once. */
template <typename T, typename I>
__global__ void __launch_bounds__(WARP *WARPS, sizeof(T) == 4
                                                   ? (MOST_BLOCKS < 5 ? MOST_BLOCKS : 5)
                                               : sizeof(T) == 8 ? 3
                                                                : 2)
    jacobi_step_short_kernel(jacobi_system<T> s)
{
    const int64_t i = s.first + blockIdx.x * (int64_t)(WARP * WARPS) + threadIdx.x;
    if (i >= s.last) return;
    csr_row row = {((const I *)s.indptr)[i], ((const I *)s.indptr)[i + 1]};
    const int is_row = row.begin >= 0 && row.begin <= row.end && row.end <= s.stored;
    if (!is_row || row.end - row.begin > ALONE) row.begin = row.end = 0;
    row_alone<T, I>(s, i, row);
}

/* ---- long rows ---- */

__global__ void jacobi_step_clear_kernel(unsigned *count)
{
    *count = 0;
}

/* One leaf of column c, in thread 0. */
template <typename T, typename I>
GOP_DEVICE T one_leaf(const jacobi_system<T> &s, int64_t begin, int64_t end, int64_t c)
{
    const T *x = s.x + c * s.g.x_col;
    T lane[PER_THREAD];
    for (int v = 0; v < PER_THREAD; v++) lane[v] = negative_zero<T>();
#pragma unroll 4
    for (int64_t chunk = begin + threadIdx.x; chunk < end; chunk += LANES)
#pragma unroll
        for (int v = 0; v < PER_THREAD; v++) {
            const int64_t p = chunk + v * WARP;
            if (p < end)
                lane[v] = multiply_add(s.a[p], x[term_column<T, I>(s, p) * s.g.x_row], lane[v]);
        }
    return fold_lanes<T, 1>(lane);
}

/* The terms of the diagonal among [begin, end) add up in stored order, from `sum` on. */
template <typename T, typename I> GOP_DEVICE on_diagonal<T>
look_for_diagonal(const jacobi_system<T> &s, int64_t i, int64_t begin, int64_t end, T sum)
{
    on_diagonal<T> found = {0, sum};
    for (int64_t at = begin; at < end; at += WARP) {
        const int64_t p = at + threadIdx.x;
        const int hit = p < end && term_column<T, I>(s, p) == i;
        for (unsigned m = __ballot_sync(WHOLE_WARP, hit); m; m &= m - 1) {
            const T a = s.a[at + __ffs((int)m) - 1];
            found.value = plus(found.value, a);
            found.count++;
        }
    }
    return found;
}

/* What is left of a row once its leaves are known, by the warp that had the last of them. */
template <typename T, typename I>
GOP_DEVICE void finish_row(const jacobi_system<T> &s, const long_rows<T> &list, int64_t i,
                           int64_t begin, int64_t end, int64_t first)
{
    const int64_t leaves = leaves_of(end - begin), k = s.g.k;
    T diagonal = negative_zero<T>();
    for (int64_t at = 0; !s.has_alpha && at < leaves; at += WARP) {
        const int64_t l = at + threadIdx.x;
        const int64_t count = l < leaves ? list.diagonal[first + l].count : 0;
        for (unsigned m = __ballot_sync(WHOLE_WARP, count > 0); m; m &= m - 1) {
            const int64_t from = begin + (at + __ffs((int)m) - 1) * LEAF;
            const int64_t to = end - from < LEAF ? end : from + LEAF;
            diagonal = look_for_diagonal<T, I>(s, i, from, to, diagonal).value;
        }
    }
    for (int64_t c = 0; c < k; c++) {
        T *const sum = list.sum + first * k + c;
        for (int64_t w = 1; w < leaves; w *= 2) {
            for (int64_t l = threadIdx.x * 2 * w; l + w < leaves; l += 2 * w * WARP)
                sum[l * k] = plus(sum[l * k], sum[(l + w) * k]);
            __threadfence_block();
            __syncwarp();
        }
        if (threadIdx.x == 0) jacobi_update(s, i, c, sum[0], diagonal);
    }
}

template <typename T, typename I> __global__ void __launch_bounds__(WARP *WARPS)
    jacobi_step_long_kernel(jacobi_system<T> s, long_rows<T> list)
{
    const unsigned count = *list.count;
    for (unsigned at = blockIdx.x * WARPS + threadIdx.y; at < count; at += gridDim.x * WARPS) {
        const int64_t i = list.leaf[at].row, first = list.leaf[at].first;
        const int64_t begin = ((const I *)s.indptr)[i], end = ((const I *)s.indptr)[i + 1];
        const int64_t from = begin + (at - first) * LEAF;
        const int64_t to = end - from < LEAF ? end : from + LEAF;
        if (begin < 0 || end > s.stored || to <= from) continue; /* written to meanwhile */
        for (int64_t c = 0; c < s.g.k; c++) {
            const T sum = one_leaf<T, I>(s, from, to, c);
            if (threadIdx.x == 0) list.sum[at * s.g.k + c] = sum;
        }
        if (!s.has_alpha) {
            const on_diagonal<T> found =
                look_for_diagonal<T, I>(s, i, from, to, negative_zero<T>());
            if (threadIdx.x == 0) list.diagonal[at] = found;
        }
        unsigned done = 0;
        __threadfence();
        __syncwarp();
        if (threadIdx.x == 0) done = atomicAdd(&list.done[first], 1u) + 1;
        done = shuffle(done, 0);
        __threadfence();
        if (done == leaves_of(end - begin)) finish_row<T, I>(s, list, i, begin, end, first);
    }
}

/* ---- on the host ---- */

template <typename T, typename I>
static gop_status jacobi_step_short(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const jacobi_system<T> s = jacobi_system_of<T>(task, step);
    return GOP_LAUNCH(ctx, (jacobi_step_short_kernel<T, I>),
                      dim3((unsigned)blocks_for(s.last - s.first, WARP * WARPS)),
                      dim3(WARP * WARPS), 0, s);
}

/* Rows of more than LONG_ROW terms have at most so many leaves, all in all. */
static int64_t most_leaves(const gop_task *task)
{
    static_assert(2 * LONG_ROW <= LEAF, "a leaf for every LONG_ROW terms is enough");
    return task->in[0].shape[0] / LONG_ROW + 1;
}

template <typename T> static size_t place_list(const gop_task *task, long_rows<T> *list)
{
    const int64_t leaves = most_leaves(task);
    char *at = (char *)task->scratch;
    *list = {};
    list->leaf = (long_leaf *)at;
    at += leaves * (int64_t)sizeof(long_leaf);
    list->diagonal = (on_diagonal<T> *)at;
    at += leaves * (int64_t)sizeof(on_diagonal<T>);
    list->sum = (T *)at;
    at += leaves * task->geometry.jacobi.k * (int64_t)sizeof(T);
    list->done = (unsigned *)at;
    at += leaves * (int64_t)sizeof(unsigned);
    list->count = (unsigned *)at;
    return (size_t)(at + sizeof(unsigned) - (char *)task->scratch);
}

template <typename T, typename I>
static gop_status jacobi_step_balanced(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const jacobi_system<T> s = jacobi_system_of<T>(task, step);
    const dim3 block(WARP, WARPS), grid((unsigned)blocks_for(s.last - s.first, WARP * WARPS));
    const int has_long = task->plan->scratch > 0;
    long_rows<T> list = {};
    if (has_long) {
        place_list(task, &list);
        GOP_TRY(GOP_LAUNCH(ctx, jacobi_step_clear_kernel, dim3(1), dim3(1), 0, list.count));
    }
    GOP_TRY(GOP_LAUNCH(ctx, (jacobi_step_balanced_kernel<T, I>), grid, block, 0, s, list));
    if (!has_long) return GOP_OK;
    return GOP_LAUNCH(ctx, (jacobi_step_long_kernel<T, I>),
                      dim3((unsigned)(8 * ctx->info.processors)), block, 0, s, list);
}

template <typename T> static void plan_for(const gop_task *task, gop_plan *plan)
{
    long_rows<T> list;
    const int index64 = task->geometry.jacobi.index64;
    if (task->longest > 0 && task->longest <= ALONE) {
        plan->launch = index64 ? jacobi_step_short<T, int64_t> : jacobi_step_short<T, int32_t>;
        return;
    }
    plan->launch =
        index64 ? jacobi_step_balanced<T, int64_t> : jacobi_step_balanced<T, int32_t>;
    const int may_be_long = task->longest == 0 || task->longest > LONG_ROW;
    if (may_be_long && task->in[0].shape[0] > LONG_ROW) plan->scratch = place_list(task, &list);
}

static gop_status jacobi_step_balanced_plan(const gop_ctx *ctx, const gop_task *task,
                                            gop_plan *plan)
{
    const gop_dtype dtype = task->in[0].dtype;
    if (!task->call->params.jacobi_step.csr)
        return gop_fail(GOP_REFUSED,
                        "jacobi_step: the balanced kernel takes a CSR matrix, got a dense A; "
                        "the block kernel takes those");
    if (dtype == GOP_FLOAT32) plan_for<float>(task, plan);
    else if (dtype == GOP_FLOAT64) plan_for<double>(task, plan);
    else if (dtype == GOP_COMPLEX64) plan_for<complex64>(task, plan);
    else plan_for<complex128>(task, plan);
    return jacobi_plan_slices(ctx, task, plan);
}

extern const gop_row jacobi_step_balanced_row = {
    .name = "balanced",
    .note = "CSR: a row is a thread's, a warp's or the whole device's, by its length",
    .role = GOP_CONFORMING,
    .plan = jacobi_step_balanced_plan,
    .dtypes =
        1u << GOP_FLOAT32 | 1u << GOP_FLOAT64 | 1u << GOP_COMPLEX64 | 1u << GOP_COMPLEX128,
};
