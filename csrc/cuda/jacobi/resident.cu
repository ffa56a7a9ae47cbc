/*
 * resident.cu - jacobi of a small dense A, which stays in registers: all of a call in one
 * kernel.
 *
 * A warp keeps one or two rows throughout, a leaf of tree/v1 each, and a step reads only x. All
 * blocks meet at a grid barrier once a step. One block, the judge, makes no steps: it checks
 * the norms.
 */
#include "cuda/common/item_size.h"
#include "cuda/jacobi/together.h"
#include "cuda/jacobi_step/system.h"

/* 16-byte vectors of a row that a thread keeps; bytes of a row. */
enum { VECTORS = 16, ROW_BYTES = VECTORS * WARP * 16 };

template <typename T> struct resident_system {
    const T *a, *f;
    int64_t a_row, a_col, f_row;
    T *iterate[ITERATES], *residual[2], *out;
    int64_t out_row;
    T factor;
    int has_alpha, n;
    int64_t steps, check_every;
    int *said; /* what the judge decided at even and at odd steps: CONTINUES or STOPS */
    unsigned *arrived;
};

/* Computes the norm of a column of at most one leaf in shared memory, with all threads. */
template <typename T>
GOP_DEVICE double norm_of_leaf(const T *residual, int n, double (&part)[LANES])
{
    const int thread = threadIdx.x;
    if (thread < LANES) {
        double lane = -0.0;
        for (int k = thread; k < n; k += LANES) lane += square(residual[k], 1.0);
        part[thread] = lane;
    }
    __syncthreads();
    if (thread < WARP) {
        double squares =
            (part[thread] + part[thread + 64]) + (part[thread + 32] + part[thread + 96]);
        for (int d = WARP / 2; d > 0; d /= 2)
            squares += __shfl_down_sync(WHOLE_WARP, squares, d);
        if (thread == 0) part[0] = squares;
    }
    __syncthreads();
    double sum = part[0];
    if (!squares_were_lost<T>(sum)) return sqrt(sum);
    double largest = 0.0;
    for (int i = 0; i < n; i++) largest = larger(largest, largest_part(residual[i]));
    if (largest == 0.0 || largest > LARGEST_DOUBLE) return largest;
    const int e = exponent_of(largest);
    const columns_of<T> v = {residual, n, 1, 1, 0, 1};
    __syncthreads();
    if (thread < WARP) sum = leaf_squares(v, 0, 0, power_of_two(-e));
    if (thread == 0) part[0] = sum;
    __syncthreads();
    return sqrt(part[0]) * power_of_two(e);
}

/* Adds vector u of a row times its part of x to the lanes that they belong to. */
template <typename T, int N> GOP_DEVICE void
add_products(const vec128<T> &a, const vec128<T> &x, int u, T (&sum)[PER_THREAD])
{
#pragma unroll
    for (int j = 0; j < N; j++) {
        T &to = sum[u * N % PER_THREAD + j];
        to = multiply_add(a.at[j], x.at[j], to);
    }
}

/* Loads a thread's part of a row. `last`: the numbers after the warp's last whole vectors. */
template <typename T> GOP_DEVICE void load_row(const resident_system<T> &s, const T *row,
                                               vec128<T> (&a)[VECTORS], vec128<T> &last)
{
    enum { N = vec128<T>::N, SPAN = WARP * N };
    const int lane = threadIdx.x % WARP, full = s.n / SPAN;
#pragma unroll
    for (int u = 0; u < VECTORS; u++)
#pragma unroll
        for (int j = 0; j < N; j++)
            if (u < full) a[u].at[j] = row[(u * SPAN + lane * N + j) * s.a_col];
    for (int j = 0; j < N; j++) {
        const int k = full * SPAN + lane * N + j;
        last.at[j] = k < s.n ? row[k * s.a_col] : positive_zero<T>();
    }
}

/* Multiplies the rows by x, into the lanes of tree/v1. */
template <typename T, int ROWS>
GOP_DEVICE void multiply_rows(const vec128<T> (&a)[ROWS][VECTORS],
                              const vec128<T> (&last)[ROWS], const T *x, int n,
                              T (&sum)[ROWS][PER_THREAD])
{
    enum { N = vec128<T>::N, SPAN = WARP * N, AT_ONCE = 4 };
    const int lane = threadIdx.x % WARP, full = n / SPAN;
#pragma unroll
    for (int l = 0; l < ROWS * PER_THREAD; l++)
        sum[l / PER_THREAD][l % PER_THREAD] = negative_zero<T>();
#pragma unroll
    for (int u0 = 0; u0 < VECTORS; u0 += AT_ONCE) { /* loads, then what uses them */
        vec128<T> b[AT_ONCE];
#pragma unroll
        for (int v = 0; v < AT_ONCE; v++)
            b[v] = load128(x + (u0 + v) * SPAN + lane * N); /* past its end zeros */
#pragma unroll
        for (int v = 0; v < AT_ONCE; v++)
            if (u0 + v < full)
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    add_products<T, N>(a[r][u0 + v], b[v], u0 + v, sum[r]);
    }
    if (full * SPAN == n) return;
#pragma unroll
    for (int v = 0; v < PER_THREAD / N; v++) /* the lanes of `last` */
#pragma unroll
        for (int j = 0; j < N; j++) {
            const int k = full * SPAN + lane * N + j;
            if (full % (PER_THREAD / N) != v || k >= n) continue;
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                sum[r][v * N + j] = multiply_add(last[r].at[j], x[k], sum[r][v * N + j]);
        }
}

template <typename T, int ROWS> __global__ void __launch_bounds__(WARP *WARPS, 1)
    jacobi_resident_kernel(resident_system<T> s, jacobi_state state)
{
    enum { MOST = VECTORS * WARP * vec128<T>::N };
    __shared__ __align__(16) T x[MOST], residual[MOST];
    __shared__ double part[LANES];
    __shared__ together_room room;
    const int thread = threadIdx.x, lane = thread % WARP, n = s.n;
    const int i0 = (blockIdx.x * WARPS + thread / WARP) * ROWS;
    const bool works = blockIdx.x < workers();

    /* Prologue: rows to registers. Those past the last repeat it and are not written. */
    vec128<T> a[ROWS][VECTORS], last[ROWS];
    T f[ROWS], diagonal[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int64_t i = i0 + r < n ? i0 + r : n - 1;
        const T *row = s.a + i * s.a_row;
        f[r] = s.f[i * s.f_row];
        diagonal[r] = row[i * s.a_col];
        load_row(s, row, a[r], last[r]);
    }
    for (int k = n + thread; k < MOST; k += WARP * WARPS) x[k] = positive_zero<T>();
    together_start(room, state);

    /* Main loop: a step and a barrier; the judge looks at the step before. */
    unsigned barriers = 0;
    int64_t check = 0, m = 0;
    check_turns turns = {};
    for (;; m++) {
        turns.next(m, s.steps, s.check_every);
        const int said = turns.of(2) ? s.said[(m + 1) % 2] : CONTINUES;
        if (works) {
            const T *const from = s.iterate[m % ITERATES];
            for (int k = thread; k < n; k += WARP * WARPS) x[k] = from[k];
            __syncthreads();

            T sum[ROWS][PER_THREAD];
            multiply_rows(a, last, x, n, sum);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const T product = fold_lanes<T, vec128<T>::N>(sum[r]);
                const int i = i0 + r;
                if (lane > 0 || i >= n) continue;
                const T left = minus(f[r], product);
                const T change = s.has_alpha ? minus(product, f[r]) : divide(left, diagonal[r]);
                s.residual[m % 2][i] = left;
                s.iterate[(m + 1) % ITERATES][i] = multiply_add(s.factor, change, x[i]);
            }
        }
        if (is_judge() && turns.of(1) && said != STOPS) {
            for (int k = thread; k < n; k += WARP * WARPS)
                residual[k] = s.residual[(m + 1) % 2][k];
            __syncthreads();
            const double norm = norm_of_leaf(residual, n, part);
            const int says =
                judge_together(room, state, norm, check++, m - 1, m - 1 == s.steps);
            if (thread == 0) s.said[m % 2] = says;
        }
        if (said == STOPS) break;
        gop_grid_barrier(s.arrived, ++barriers);
    }
    /* Epilogue: the last iterate, or zeros if f is 0. */
    const T *const found = s.iterate[(m - 2) % ITERATES];
    for (int i = blockIdx.x * WARP * WARPS + thread; i < n; i += gridDim.x * WARP * WARPS)
        s.out[i * s.out_row] = room.f == 0.0 ? positive_zero<T>() : found[i];
}

/* ---- the call ---- */

struct resident_plan {
    int64_t blocks;
    int rows; /* of a warp */
};

struct resident_room {
    chained_room room;
    char *iterate[ITERATES], *residual;
    int *said;
    unsigned *arrived;
};

static resident_room resident_room_of(const gop_task *task, int64_t size)
{
    resident_room r = {};
    r.room = room_of(task, size, 0);
    const int64_t vector = task->geometry.jacobi.n * size;
    char *const base = (char *)task->scratch;
    iterates_of(r.room, base, vector, r.iterate);
    r.residual = take(&r.room, base, vector);
    r.said = (int *)take(&r.room, base, 2 * sizeof(int));
    r.arrived = r.room.state.arrived = (unsigned *)take(&r.room, base, sizeof(unsigned));
    return r;
}

template <typename T>
static gop_status jacobi_resident(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_jacobi_params *p = &task->call->params.jacobi;
    const resident_plan &plan = *GOP_OWN(const resident_plan, task->plan);
    const resident_room r = resident_room_of(task, sizeof(T));
    const dim3 grid((unsigned)plan.blocks), block(WARP * WARPS);
    resident_system<T> s = {};
    s.a = (const T *)task->in[0].data;
    s.f = (const T *)task->in[1].data;
    s.a_row = g->a_row;
    s.a_col = g->a_col;
    s.f_row = g->f_row;
    for (int i = 0; i < ITERATES; i++) s.iterate[i] = (T *)r.iterate[i];
    s.residual[0] = (T *)r.room.residual;
    s.residual[1] = (T *)r.residual;
    s.out = (T *)task->out[0].data;
    s.out_row = g->out_row;
    jacobi_factor(p->step.has_alpha ? p->step.alpha : p->step.omega, &s.factor);
    s.has_alpha = p->step.has_alpha;
    s.n = (int)g->n;
    s.steps = p->steps;
    s.check_every = p->check_every;
    s.said = r.said;
    s.arrived = r.arrived;
    GOP_TRY((start<T, 0>(ctx, task, r.room)));
    if (plan.rows == 1)
        return GOP_LAUNCH_TOGETHER(ctx, (jacobi_resident_kernel<T, 1>), grid, block, 0, s,
                                   r.room.state);
    return GOP_LAUNCH_TOGETHER(ctx, (jacobi_resident_kernel<T, 2>), grid, block, 0, s,
                               r.room.state);
}

/* The judge is a block more, unless the GPU holds only one. */
static gop_status add_judge(int64_t most, resident_plan *plan)
{
    plan->blocks += most > 1;
    return GOP_OK;
}

/* One row a warp if all warps are resident, else two. */
template <typename T>
static gop_status resident_blocks(const gop_ctx *ctx, int64_t n, resident_plan *plan)
{
    int64_t most;
    GOP_TRY(GOP_AT_ONCE(ctx, (jacobi_resident_kernel<T, 1>), WARP * WARPS, 0, &most));
    plan->rows = 1;
    plan->blocks = blocks_for(n, WARPS);
    if (plan->blocks <= most_workers(most)) return add_judge(most, plan);
    GOP_TRY(GOP_AT_ONCE(ctx, (jacobi_resident_kernel<T, 2>), WARP * WARPS, 0, &most));
    plan->rows = 2;
    plan->blocks = blocks_for(n, 2 * WARPS);
    if (plan->blocks <= most_workers(most)) return add_judge(most, plan);
    return gop_fail(GOP_REFUSED,
                    "jacobi: the resident kernel takes a dense A that fits the device's "
                    "registers, at most %lld rows here; the chained kernel takes all",
                    (long long)most_workers(most) * 2 * WARPS);
}

static gop_status jacobi_resident_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    resident_plan &own = *GOP_OWN(resident_plan, plan);
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_dtype dtype = task->in[0].dtype;
    if (task->call->params.jacobi.step.csr || task->call->params.jacobi.step.grid.axes > 0 ||
        g->k != 1 || g->n * item_size(dtype) > ROW_BYTES)
        return gop_fail(GOP_REFUSED,
                        "jacobi: the resident kernel takes one right-hand side and a dense A "
                        "of rows of at most %d bytes; the chained kernel takes all",
                        ROW_BYTES);
    GOP_TRY(JACOBI_BY_DTYPE(dtype, resident_blocks)(ctx, g->n, &own));
    plan->scratch = resident_room_of(task, item_size(dtype)).room.bytes;
    return GOP_OK;
}

extern const gop_row jacobi_resident_row = {
    .name = "resident",
    .note = "a small dense A stays in registers: all steps in one kernel, which reads x alone",
    .role = GOP_CONFORMING,
    .launch = JACOBI_LAUNCHES(jacobi_resident),
    .plan = jacobi_resident_plan,
};
