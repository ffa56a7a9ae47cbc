/*
 * checked.cu - a step of a stencil that also sums the squares of its residual. It is not a
 * kernel of the ladder: chains fuse a step and its check into it.
 *
 * A residual that is not read again need not be written. A block has leaves of tree/v1 that are
 * above each other on the grid, so that they find each other's points in L1. A warp has LANES
 * points of a leaf; one warp sums the squares.
 */
#include "cuda/jacobi/chain.h"
#include "cuda/jacobi/own.h"
#include "cuda/jacobi_step/lattice.h"

/* Blocks of float32 an SM, for their registers: some have 1024 threads in all. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define CHECKED_BLOCKS 2
#else
#define CHECKED_BLOCKS 3
#endif

enum {
    CHUNKS = LEAF / LANES, /* of a leaf, a warp's each */
    MOST_STACKED = 4,      /* leaves of a block */
};

template <typename T> struct checked_system {
    const T *a, *f, *x; /* the coefficients, one of each */
    T *out, *residual;
    double *sums;
    T factor;
    int has_alpha, wide; /* wide: vectors of f and x lie at multiples of 16 bytes */
    int open;            /* nothing is beyond lines, which are whole vectors */
    int64_t a_row, n, leaves, across; /* across: leaves from one to that below it */
    int64_t stacked;                  /* leaves of a block */
    gop_lattice grid;
};

/* What the points share. */
template <typename T, int AXES> struct checked_terms {
    T a[stencil_terms<AXES>::COUNT], inverse;
    bool inverts;
};

/* Where point i is; beyond the grid it is beyond its first axis. */
template <int AXES>
GOP_DEVICE void place_of(const gop_lattice &grid, int64_t i, int64_t (&at)[AXES])
{
#pragma unroll
    for (int d = AXES - 1; d > 0; d--) {
        const int64_t lines = i / grid.extent[d];
        at[d] = i - lines * grid.extent[d];
        i = lines;
    }
    at[0] = i;
}

/* OWN points from i on, which have all neighbours, but maybe before the first or after the
 * last; their residuals. */
template <typename T, int AXES>
GOP_DEVICE void checked_vector(const checked_system<T> &s, const checked_terms<T, AXES> &terms,
                               int64_t i, bool is_first, bool is_last, T (&left)[OWN])
{
    enum { COUNT = stencil_terms<AXES>::COUNT };
    const T *const x = s.x + i;
    T item[COUNT][OWN], f[OWN];
    int64_t apart[AXES];
    apart[AXES - 1] = 1;
#pragma unroll
    for (int d = AXES - 1; d > 0; d--) apart[d - 1] = apart[d] * s.grid.extent[d];
    load_own(item[AXES], x);
    if (s.wide) {
        load_own(f, s.f + i);
#pragma unroll
        for (int d = 0; d < AXES - 1; d++) {
            load_own(item[d], x - apart[d]);
            load_own(item[2 * AXES - d], x + apart[d]);
        }
    } else
#pragma unroll
        for (int u = 0; u < OWN; u++) {
            f[u] = s.f[i + u];
#pragma unroll
            for (int d = 0; d < AXES - 1; d++) {
                item[d][u] = x[u - apart[d]];
                item[2 * AXES - d][u] = x[u + apart[d]];
            }
        }
    item[AXES - 1][0] = x[is_first ? 0 : -1];
    item[AXES + 1][OWN - 1] = x[is_last ? OWN - 1 : OWN];
#pragma unroll
    for (int u = 1; u < OWN; u++) {
        item[AXES - 1][u] = item[AXES][u - 1];
        item[AXES + 1][u - 1] = item[AXES][u];
    }
    T next[OWN];
#pragma unroll
    for (int u = 0; u < OWN; u++) {
        T lane[FOLDED_TERMS];
#pragma unroll
        for (int t = 0; t < FOLDED_TERMS; t++) lane[t] = negative_zero<T>();
#pragma unroll
        for (int t = 0; t < COUNT; t++) lane[t] = multiply_add(terms.a[t], item[t][u], lane[t]);
        bool is_there[COUNT];
#pragma unroll
        for (int t = 0; t < COUNT; t++)
            is_there[t] = !(t == AXES - 1 && u == 0 && is_first) &&
                          !(t == AXES + 1 && u == OWN - 1 && is_last);
        close_up<T, COUNT>(lane, is_there);
        const T sum = fold_eight(lane);
        left[u] = minus(f[u], sum);
        next[u] = minus(sum, f[u]);
    }
    if (!s.has_alpha)
#pragma unroll
        for (int u = 0; u < OWN; u++)
            next[u] = terms.inverts ? left[u] * terms.inverse : divide(left[u], terms.a[AXES]);
#pragma unroll
    for (int u = 0; u < OWN; u++) next[u] = multiply_add(s.factor, next[u], item[AXES][u]);
    store_own_whole(s.out + i, next);
    if (s.residual) store_own_whole(s.residual + i, left);
}

/* Point i, wherever it is; its residual. */
template <typename T, int AXES> GOP_DEVICE T checked_point(const checked_system<T> &s,
                                                           const checked_terms<T, AXES> &terms,
                                                           int64_t i)
{
    enum { COUNT = stencil_terms<AXES>::COUNT };
    int64_t at[AXES];
    place_of<AXES>(s.grid, i, at);
    const stencil_terms<AXES> there = terms_of<AXES>(s.grid, at);
    T product[COUNT], diagonal = negative_zero<T>();
#pragma unroll
    for (int t = 0; t < COUNT; t++) {
        const T item = s.x[there.is_there[t] ? i + there.distance[t] : i];
        product[t] = multiply_add(terms.a[t], item, negative_zero<T>());
        if (there.is_there[t] && there.distance[t] == 0) diagonal = plus(diagonal, terms.a[t]);
    }
    const T sum = fold_terms<T, AXES>(there, product), f = s.f[i], rest = minus(f, sum);
    const T change = s.has_alpha ? minus(sum, f) : divide(rest, diagonal);
    s.out[i] = multiply_add(s.factor, change, s.x[i]);
    if (s.residual) s.residual[i] = rest;
    return rest;
}

/* The sum of the squares of the residuals of a leaf that begins at `begin`, by a warp. */
template <typename T>
GOP_DEVICE double residual_squares(const T (&residual)[CHUNKS][LANES], int64_t begin, int64_t n)
{
    const int lane = threadIdx.x * OWN;
    const int here = n - begin < LEAF ? (int)(n - begin) : LEAF;
    double sum[OWN];
#pragma unroll
    for (int u = 0; u < OWN; u++) sum[u] = -0.0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        T left[OWN];
        load_own(left, &residual[c][lane]);
#pragma unroll
        for (int u = 0; u < OWN; u++)
            if (c * LANES + lane + u < here) sum[u] += square(left[u], 1.0);
    }
    return fold_lanes<double, OWN>(sum);
}

template <typename T, int AXES>
__global__ void __launch_bounds__(WARP *CHUNKS, sizeof(T) == 4 ? CHECKED_BLOCKS : 2)
    jacobi_checked_kernel(checked_system<T> s)
{
    enum { COUNT = stencil_terms<AXES>::COUNT };
    __shared__ __align__(16) T residual[2][CHUNKS][LANES];
    checked_terms<T, AXES> terms;
#pragma unroll
    for (int t = 0; t < COUNT; t++) terms.a[t] = s.a[t * s.a_row];
    terms.inverts = has_exact_inverse(terms.a[AXES]);
    terms.inverse = 1 / terms.a[AXES];
    const int chunk = threadIdx.y, lane = threadIdx.x * OWN;
    int64_t leaf = blockIdx.x / s.across * s.stacked * s.across + blockIdx.x % s.across;
    for (int64_t l = 0; l < s.stacked && leaf < s.leaves; l++, leaf += s.across) {
        const int64_t i = leaf * LEAF + chunk * LANES + lane;
        int64_t at[AXES];
        place_of<AXES>(s.grid, i, at);
        const bool is_first = at[AXES - 1] == 0;
        const bool is_last = at[AXES - 1] + OWN >= s.grid.extent[AXES - 1];
        bool is_whole = (!is_first && !is_last) || s.open;
#pragma unroll
        for (int d = 0; d < AXES - 1; d++)
            is_whole &= at[d] > 0 && at[d] < s.grid.extent[d] - 1;
        T left[OWN] = {};
        if (is_whole) checked_vector<T, AXES>(s, terms, i, is_first, is_last, left);
        else
#pragma unroll
            for (int u = 0; u < OWN; u++)
                if (i + u < s.n) left[u] = checked_point<T, AXES>(s, terms, i + u);
        store_own(&residual[l % 2][chunk][lane], left);
        __syncthreads();
        if (chunk == (blockIdx.x + l) % CHUNKS) { /* not always of the same scheduler */
            const double squares = residual_squares(residual[l % 2], leaf * LEAF, s.n);
            if (lane == 0) s.sums[leaf] = squares;
        }
    }
}

/* ---- on the host ---- */

template <typename T, int AXES>
static gop_status jacobi_checked(gop_ctx *ctx, const gop_task *task, const checked_plan &plan,
                                 const void *from, void *to, void *residual, double *sums)
{
    const gop_jacobi_step_params *p = &task->call->params.jacobi_step;
    checked_system<T> s = {};
    s.a = (const T *)task->in[0].data;
    s.f = (const T *)task->in[1].data;
    s.x = (const T *)from;
    s.out = (T *)to;
    s.residual = (T *)residual;
    s.sums = sums;
    jacobi_factor(p->has_alpha ? p->alpha : p->omega, &s.factor);
    s.has_alpha = p->has_alpha;
    s.a_row = task->geometry.jacobi.a_row;
    s.n = task->geometry.jacobi.n;
    s.leaves = blocks_for(s.n, LEAF);
    s.grid = p->grid;
    s.across = plan.across;
    s.stacked = plan.stacked;
    s.wide = plan.wide;
    s.open = AXES > 1 && s.wide && s.grid.bc == GOP_DIRICHLET;
    return GOP_LAUNCH(ctx, (jacobi_checked_kernel<T, AXES>), dim3(plan.blocks),
                      dim3(WARP, CHUNKS), 0, s);
}

template <typename T> static void launch_by_axes(int axes, checked_plan *plan)
{
    plan->launch = axes == 1   ? jacobi_checked<T, 1>
                   : axes == 2 ? jacobi_checked<T, 2>
                               : jacobi_checked<T, 3>;
}

void gop_jacobi_plan_checked(const gop_ctx *ctx, const gop_task *task, checked_plan *plan)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_lattice *grid = &task->call->params.jacobi.step.grid;
    const gop_dtype dtype = task->in[0].dtype;
    *plan = {};
    if (grid->axes == 0 || g->a_col != 0 || g->k != 1 || g->f_row != 1) return;
    if (dtype == GOP_FLOAT32) launch_by_axes<float>(grid->axes, plan);
    else if (dtype == GOP_FLOAT64) launch_by_axes<double>(grid->axes, plan);
    else return;
    const int64_t length = grid->extent[grid->axes - 1], leaves = blocks_for(g->n, LEAF);
    plan->across = (length + LEAF / 2) / LEAF;
    if (plan->across < 1) plan->across = 1;
    plan->stacked = leaves / (16 * ctx->info.processors); /* rather more blocks than reuse */
    if (plan->stacked < 1) plan->stacked = 1;
    if (plan->stacked > MOST_STACKED) plan->stacked = MOST_STACKED;
    plan->blocks = (unsigned)(blocks_for(leaves, plan->stacked * plan->across) * plan->across);
    plan->wide =
        (uintptr_t)task->in[1].data % 16 == 0 && (grid->axes == 1 || length % OWN == 0);
}
