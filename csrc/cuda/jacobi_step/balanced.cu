/*
 * balanced.cu - jacobi_step of a CSR matrix, whatever the lengths of its rows.
 *
 * A warp has 32 rows. If they are short, each thread keeps a row's terms in registers; rows of
 * some tens of terms come to their threads through shared memory (staged.h). Longer ones go
 * through shared memory in groups, with coalesced loads, and eight threads fold a row; the
 * whole warp takes a row of more than 128 terms. Very long rows are put on a list, and a second
 * kernel spreads their leaves over the device. A matrix that was not validated is checked
 * meanwhile (core/ops/unchecked.h).
 */
#include "core/ops/unchecked.h"
#include "cuda/jacobi_step/alone.h"
#include "cuda/jacobi_step/listed.h"
#include "cuda/jacobi_step/staged.h"

/* PAIR: warps a block if rows may differ much in length: a block stays until its last warp is
 * done. */
enum { WARPS = 8, PAIR = 2, LONG_ROW = 1024, TOGETHER = 8, AT_A_TIME = WARP / TOGETHER };
static_assert((int)LONG_ROW <= (int)LEAF, "a row of a warp is a leaf");

/* ---- rows of at most LANES terms, in groups ---- */

/* What a warp has for a group of rows. */
template <typename T, typename I> struct group_room {
    enum { TERMS = 2048 / sizeof(T) };
    T product[TERMS];
    int from[WARP], to[WARP]; /* terms of each row */
    int hits[WARP];           /* terms on its diagonal, and one of them */
    T diagonal[WARP];
};

/* The fold of `count` <= 16 N lanes, in the first of eight threads; lanes past the last are
 * -0.0 and change nothing. */
template <int N, typename T> GOP_DEVICE T fold_by_eight(const T *lane, int count)
{
    const int first = threadIdx.x % TOGETHER;
    T v[N];
#pragma unroll
    for (int u = 0; u < N; u++) {
        const int l = first + u * TOGETHER, far = l + N * TOGETHER;
        v[u] = l < count ? lane[l] : negative_zero<T>();
        if (far < count) v[u] = plus(v[u], lane[far]);
    }
#pragma unroll
    for (int d = N / 2; d > 0; d /= 2)
#pragma unroll
        for (int u = 0; u < N / 2; u++)
            if (u < d) v[u] = plus(v[u], v[u + d]);
#pragma unroll
    for (int d = TOGETHER / 2; d > 0; d /= 2) v[0] = plus(v[0], shuffle_down(v[0], d));
    return v[0];
}

/* The sums of rows [first, end) of the warp, each in the thread of its number, whose row has
 * m products from `mine` on. */
template <typename T>
GOP_DEVICE T fold_group(const T *product, int first, int end, int mine, int m)
{
    const int thread = threadIdx.x;
    T own = positive_zero<T>();
    for (int r = first; r < end; r += AT_A_TIME) {
        const int row = r + thread / TOGETHER, exists = row < end;
        const int from = shuffle(mine, row % WARP), terms = shuffle(m, row % WARP);
        const int count = exists ? terms : 0;
        T sum;
        if (__any_sync(WHOLE_WARP, count > 32)) sum = fold_by_eight<8>(product + from, count);
        else sum = fold_by_eight<2>(product + from, count);
        sum = shuffle(sum, (unsigned)(thread - r) % AT_A_TIME * TOGETHER);
        if (thread >= r && thread < r + AT_A_TIME && m > 0) own = sum;
    }
    return own;
}

/* The diagonal of a thread's row of a group, once all of the group's terms were looked at. */
template <typename T, typename I> GOP_DEVICE T diagonal_in_group(const csr_terms<T, I> &terms,
                                                                 const group_room<T, I> &room,
                                                                 int64_t i)
{
    const int thread = threadIdx.x;
    T sum = negative_zero<T>();
    if (room.hits[thread] == 0) return sum;
    if (room.hits[thread] == 1) return room.diagonal[thread];
    for (int p = room.from[thread]; p < room.to[thread]; p++)
        if (terms.column[p] == i) sum = plus(sum, terms.a[p]);
    return sum;
}

/* Rows of the warp from `first` on that are at most LANES terms long, follow each other in
 * memory and fit its room, with what comes before them in their line; gives the one after them.
 * (The row of a lane that has none begins and ends at 0: it ends the group, unless no term
 * comes before it.) `bad` becomes 1 where one is no row that a step takes. */
template <typename T, typename I>
GOP_DEVICE int rows_in_group(const jacobi_system<T> &s, int64_t i0, int first, csr_row row,
                             group_room<T, I> &room, int &bad)
{
    const int thread = threadIdx.x;
    const int64_t begin = shuffle(row.begin, first), i = i0 + thread;
    const int64_t end_before = shuffle(row.end, thread > 0 ? thread - 1 : 0);
    const int place = place_in_line(terms_of<T, I>(s, begin, begin));
    const int fits = thread > first && row.begin == end_before &&
                     place + row.end - begin <= group_room<T, I>::TERMS;
    const int joins = row.end - row.begin <= LANES && (thread == first || fits);
    const unsigned others = __ballot_sync(WHOLE_WARP, !joins) >> first;
    const int end = others ? first + __ffs((int)others) - 1 : WARP;
    const csr_terms<T, I> terms = terms_of<T, I>(s, begin, shuffle(row.end, end - 1));
    const int mine = (int)(row.begin - begin), m = (int)(row.end - row.begin);
    const int in_group = thread >= first && thread < end, has_row = in_group && i < s.last;
    T diagonal = negative_zero<T>();
    room.from[thread] = in_group ? mine : 0;
    room.to[thread] = in_group ? mine + m : 0;
    room.hits[thread] = 0;
    __syncwarp();
    for (int64_t c = 0; c < s.g.k; c++) {
        jacobi_item<T> item = {};
        if (has_row) item = jacobi_item_of(s, i, c);
        bad |= read_terms<batch_of<T>()>(
            s, terms, s.x + c * s.g.x_col, [&](int, int at, I k, T a, T x) {
                room.product[at] = multiply_add(a, x, negative_zero<T>());
                const int64_t r = k - i0;
                if (r < 0 || r >= WARP || c > 0 || s.has_alpha) return;
                if (at < room.from[r] || at >= room.to[r]) return;
                if (atomicAdd(&room.hits[r], 1) == 0) room.diagonal[r] = a;
            });
        __syncwarp();
        const T sum = fold_group(room.product, first, end, mine, m);
        if (has_row) {
            if (c == 0 && !s.has_alpha) {
                diagonal = diagonal_in_group(terms, room, i);
                bad |= is_zero(diagonal);
            }
            jacobi_write(s, i, c, sum, diagonal, item);
        }
        __syncwarp();
    }
    return end;
}

/* ---- the kernels ---- */

/* Whether row i is none of a CSR matrix's. */
template <typename T>
GOP_DEVICE int is_bad_row(const jacobi_system<T> &s, int64_t i, csr_row row)
{
    return row.begin < 0 || row.end < row.begin || row.end > s.stored ||
           (i == 0 && row.begin != 0) || (i == s.g.n - 1 && row.end != s.stored);
}

/* What a warp has: for whatever rows there are, or, if it STAGES, mostly for some tens of terms
 * each, of one column whose items are neighbours. */
template <int STAGES, typename T, typename I> union warp_room {
    group_room<T, I> group;
    staged_room<T, I> staged;
};
template <typename T, typename I> union warp_room<0, T, I> {
    group_room<T, I> group;
};

/* CHECKS: the matrix was not checked before, and `findings` is where to say that it is none. */
template <int CHECKS, int STAGES, typename T, typename I>
__global__ void __launch_bounds__(WARP *PAIR, sizeof(T) == 4 ? 12 : 8)
    jacobi_step_balanced_kernel(jacobi_system<T> s, long_rows<T> list, gop_findings *findings)
{
    __shared__ warp_room<STAGES, T, I> rooms[PAIR];
    const int64_t i0 = s.first + (blockIdx.x * (int64_t)PAIR + threadIdx.y) * WARP;
    const int64_t i = i0 + threadIdx.x;
    csr_row row = {0, 0};
    /* Read once, so that what was checked is what is used, even if another kernel writes
     * meanwhile. */
    if (i < s.last) row = {((const I *)s.indptr)[i], ((const I *)s.indptr)[i + 1]};
    int bad = i < s.last && is_bad_row(s, i, row);
    if (row.begin < 0 || row.end > s.stored || row.end < row.begin) row.begin = row.end = 0;
    if (list.count) bad |= list_long_rows(list, i0, row.end - row.begin, LONG_ROW);
    const int are_short = __all_sync(WHOLE_WARP, row.end - row.begin <= ALONE);
    if constexpr (STAGES)
        if (!are_short && are_staged(row, i, s.last)) {
            bad |= rows_staged(s, i, row, rooms[threadIdx.y].staged);
            if (CHECKS && bad) findings->is_bad = 1;
            return;
        }
    if (are_short && i < s.last) bad |= row_alone<ALONE, 0, T, I>(s, i, row, {});
    for (int r = 0; !are_short && r < WARP && i0 + r < s.last;) {
        const int64_t begin = shuffle(row.begin, r), end = shuffle(row.end, r);
        if (end - begin <= LANES) {
            r = rows_in_group<T, I>(s, i0, r, row, rooms[threadIdx.y].group, bad);
            continue;
        }
        if (end - begin <= LONG_ROW || !list.count)
            bad |= row_together<T, I>(s, i0 + r, begin, least(end, begin + LEAF));
        r++;
    }
    if (CHECKS && bad) findings->is_bad = 1;
}

/* The same where all rows have at most MOST terms, or, if it CHECKS, are thought to. */
template <int MOST, int IS_PLAIN, int CHECKS, typename T, typename I>
__global__ void __launch_bounds__(WARP *WARPS)
    jacobi_step_short_kernel(jacobi_system<T> s, gop_findings *findings)
{
    const int64_t i = s.first + blockIdx.x * (int64_t)(WARP * WARPS) + threadIdx.x;
    if (i >= s.last) return;
    jacobi_item<T> item = {}; /* asked for before anything is waited for */
    if (IS_PLAIN) item = jacobi_item_of<1>(s, i, 0);
    csr_row row = {((const I *)s.indptr)[i], ((const I *)s.indptr)[i + 1]};
    int bad = is_bad_row(s, i, row);
    const int is_longer = !bad && row.end - row.begin > MOST;
    if (bad || is_longer) row.begin = row.end = 0;
    bad |= row_alone<MOST, IS_PLAIN, T, I>(s, i, row, item);
    if (CHECKS && is_longer) findings->is_longer = 1;
    if (CHECKS && bad && !is_longer) findings->is_bad = 1;
}

/* ---- long rows ---- */

__global__ void jacobi_step_clear_kernel(unsigned *count)
{
    *count = 0;
}

template <int CHECKS, typename T, typename I>
__global__ void __launch_bounds__(WARP *WARPS, sizeof(T) == 4 ? 3 : 2)
    jacobi_step_long_kernel(jacobi_system<T> s, long_rows<T> list, gop_findings *findings)
{
    const unsigned listed = *(const volatile unsigned *)list.count;
    const unsigned count = listed < list.most ? listed : list.most;
    int bad = 0;
    for (unsigned at = blockIdx.x * WARPS + threadIdx.y; at < count; at += gridDim.x * WARPS)
        bad |= listed_leaf<T, I>(s, list, at);
    if (CHECKS && bad) findings->is_bad = 1;
    grid_dependency_sync(); /* whoever waits for this one waits for both */
}

/* ---- on the host ---- */

template <int MOST, int IS_PLAIN, int CHECKS, typename T, typename I>
static gop_status jacobi_step_short(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const jacobi_system<T> s = jacobi_system_of<T>(task, step);
    return GOP_LAUNCH(ctx, (jacobi_step_short_kernel<MOST, IS_PLAIN, CHECKS, T, I>),
                      dim3((unsigned)blocks_for(s.last - s.first, WARP * WARPS)),
                      dim3(WARP * WARPS), 0, s, gop_findings_of(task));
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
    list->most = (unsigned)leaves;
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

template <int CHECKS, int STAGES, typename T, typename I>
static gop_status jacobi_step_balanced(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const jacobi_system<T> s = jacobi_system_of<T>(task, step);
    const dim3 block(WARP, PAIR), grid((unsigned)blocks_for(s.last - s.first, WARP * PAIR));
    const int has_long = task->plan->scratch > 0;
    gop_findings *const findings = gop_findings_of(task);
    long_rows<T> list = {};
    if (has_long) {
        place_list(task, &list);
        GOP_TRY(GOP_LAUNCH(ctx, jacobi_step_clear_kernel, dim3(1), dim3(1), 0, list.count));
    }
    GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, has_long,
                                (jacobi_step_balanced_kernel<CHECKS, STAGES, T, I>), grid,
                                block, 0, s, list, findings));
    if (!has_long) return GOP_OK;
    /* It comes as soon as all rows are on the list, while the last of the short ones are
     * summed: list_long_rows. Many times as many blocks as run at once, so that few wait for
     * the last. */
    return GOP_LAUNCH_EARLY(ctx, (jacobi_step_long_kernel<CHECKS, T, I>),
                            dim3((unsigned)(24 * ctx->info.processors)), dim3(WARP, WARPS), 0,
                            s, list, findings);
}

static bool is_plain(const gop_jacobi *g)
{
    return g->k == 1 && g->x_row == 1 && g->f_row == 1 && g->out_row == 1;
}

/* For rows of at most `most` <= ALONE terms. */
template <int CHECKS, typename T, typename I>
static gop_launch short_launch(const gop_jacobi *g, int64_t most)
{
    if (!is_plain(g)) return jacobi_step_short<ALONE, 0, CHECKS, T, I>;
    if (most > FEW) return jacobi_step_short<ALONE, 1, CHECKS, T, I>;
    return jacobi_step_short<FEW, 1, CHECKS, T, I>;
}

/* For rows of any length, and of `average` terms. */
template <int CHECKS, typename T, typename I>
static gop_launch balanced_launch(const gop_jacobi *g, int64_t average)
{
    if constexpr (sizeof(T) <= 8)
        if (is_plain(g) && average < STAGED) return jacobi_step_balanced<CHECKS, 1, T, I>;
    return jacobi_step_balanced<CHECKS, 0, T, I>;
}

template <typename T, typename I> static void plan_for(const gop_task *task, gop_plan *plan)
{
    long_rows<T> list;
    const gop_jacobi *g = &task->geometry.jacobi;
    const int64_t longest = gop_longest_row(task), average = task->in[0].shape[0] / g->n;
    const int may_be_long = longest <= 0 || longest > LONG_ROW;
    if (longest == GOP_UNCHECKED_SHORT && average < ALONE) {
        plan->launch = short_launch<1, T, I>(g, average + 1);
        return;
    }
    if (longest > 0 && longest <= ALONE) plan->launch = short_launch<0, T, I>(g, longest);
    else if (longest < 0) plan->launch = balanced_launch<1, T, I>(g, average);
    else plan->launch = balanced_launch<0, T, I>(g, average);
    if (may_be_long && task->in[0].shape[0] > LONG_ROW) plan->scratch = place_list(task, &list);
}

template <typename T> static void plan_by_index(const gop_task *task, gop_plan *plan)
{
    if (task->geometry.jacobi.index64) plan_for<T, int64_t>(task, plan);
    else plan_for<T, int32_t>(task, plan);
}

static gop_status jacobi_step_balanced_plan(const gop_ctx *ctx, const gop_task *task,
                                            gop_plan *plan)
{
    if (task->call->params.jacobi_step.grid.axes > 0)
        return jacobi_plan_slices(ctx, task, plan); /* refuses it */
    if (!task->call->params.jacobi_step.csr)
        return gop_fail(GOP_REFUSED,
                        "jacobi_step: the balanced kernel takes a CSR matrix, got a dense A; "
                        "the block kernel takes those");
    JACOBI_BY_DTYPE(task->in[0].dtype, plan_by_index)(task, plan);
    return jacobi_plan_slices(ctx, task, plan);
}

extern const gop_row jacobi_step_balanced_row = {
    .name = "balanced",
    .note = "CSR: a row is a thread's, a warp's or the whole device's, by its length",
    .role = GOP_CONFORMING,
    .plan = jacobi_step_balanced_plan,
    .dtypes = JACOBI_DTYPES,
    .before = "coalesced",
};
