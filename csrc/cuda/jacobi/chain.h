/*
 * chain.h - the kernels between two steps of the solver, and the chain of a whole call.
 *
 * The host never waits: steps beyond the end are computed and ignored, and a chunk is only so
 * long that these cost little. A column that has ended is copied to the result before later
 * steps overwrite it.
 */
#ifndef GOP_CUDA_JACOBI_CHAIN_H
#define GOP_CUDA_JACOBI_CHAIN_H

#define GOP_JACOBI_FUNCTION GOP_DEVICE
#include "cuda/common/item_size.h"
#include "cuda/jacobi/norms.h"

#include "core/ops/jacobi.h"

/* ---- checked.cu: a step of a stencil that sums the squares of its residual on the way ---- */

/* What a plan decides of it: how it is launched, or NULL where the call has none, and its grid.
 * A launch makes the step between two iterates, the residual, where it is not NULL, and the sum
 * of its squares of each leaf. */
struct checked_plan {
    gop_status (*launch)(gop_ctx *ctx, const gop_task *task, const checked_plan &plan,
                         const void *from, void *to, void *residual, double *sums);
    int64_t across, stacked; /* leaves: from one to that below it, and of a block */
    unsigned blocks;
    int wide; /* vectors of f and x lie at multiples of 16 bytes */
};

/* There is one for real numbers, coefficients that are the same everywhere, and one right-hand
 * side whose items lie side by side. */
void gop_jacobi_plan_checked(const gop_ctx *ctx, const gop_task *task, checked_plan *plan);

/* ---- the kernels between two steps ---- */

/* Loads a value that other threads change by atomics; it may be slightly old. */
template <typename T> GOP_DEVICE T peek(T *address)
{
#ifdef __CUDACC__
    return *(volatile T *)address;
#else
    return atomicOr(address, T(0)); /* sim: a load and an atomic are a race */
#endif
}

enum { GOES_ON = 0, IS_KEPT = 1, IS_ZERO = 2 }; /* what a check says of a column */

/* What the kernels between steps know: all pointers are the device's. */
struct jacobi_state {
    double rtol, atol, dtol;
    double *work;              /* the leaves' sums, column after column */
    double *f, *first, *norm;  /* of each column */
    const double *given_first; /* or NULL */
    int64_t *ended;            /* the step after which a column ended, or -1 */
    int64_t *kept;             /* GOES_ON, IS_KEPT or IS_ZERO at this check */
    double *residuals;         /* the output, or NULL */
    int64_t last;              /* its last row */
    unsigned *arrived;         /* where the blocks of a call in one kernel meet, or NULL */
};

/* Copies x0 to the iterates' layout and, unless ALONE, sums the squares of the leaves of f. */
template <typename T, int ALONE> __global__ void __launch_bounds__(WARP *WARPS)
    jacobi_start_kernel(T *to, columns_of<T> x, columns_of<T> f, double *work)
{
    const int64_t first = blockIdx.x * (int64_t)(WARP * WARPS) + threadIdx.y * WARP;
    const int64_t step = gridDim.x * (int64_t)(WARP * WARPS), leaves = f.leaves * f.k;
    for (int64_t at = first + threadIdx.x; at < x.n * x.k; at += step)
        to[at] = x.data[at % x.n * x.row + at / x.n * x.col];
    for (int64_t at = first / WARP; !ALONE && at < leaves; at += step / WARP) {
        const double squares = leaf_squares(f, at / f.leaves, at % f.leaves, 1.0);
        if (threadIdx.x == 0) work[at] = squares;
    }
}

template <typename T> __global__ void __launch_bounds__(WARP *WARPS)
    jacobi_squares_kernel(columns_of<T> v, double *work, const int64_t *ended)
{
    const int64_t step = gridDim.x * (int64_t)WARPS;
    for (int64_t at = blockIdx.x * (int64_t)WARPS + threadIdx.y; at < v.leaves * v.k;
         at += step) {
        if (ended[at / v.leaves] >= 0) continue;
        const double squares = leaf_squares(v, at / v.leaves, at % v.leaves, 1.0);
        if (threadIdx.x == 0) work[at] = squares;
    }
}

/* Computes the norms of f, before the first step. */
template <typename T, int ALONE> __global__ void __launch_bounds__(WARP *WARPS)
    jacobi_target_kernel(columns_of<T> f, jacobi_state s)
{
    __shared__ double shared[WARP * WARPS];
    if (s.arrived && blockIdx.x == 0 && threadIdx.x == 0 && threadIdx.y == 0) *s.arrived = 0;
    for (int64_t c = blockIdx.x; c < f.k; c += gridDim.x) {
        if (ALONE) sum_leaves(f, c, 1.0, s.work + c * f.leaves);
        const double norm = norm_of(f, c, s.work + c * f.leaves, shared);
        if (threadIdx.x == 0 && threadIdx.y == 0) {
            s.f[c] = norm;
            s.ended[c] = -1;
            if (s.given_first) s.first[c] = s.given_first[c];
            if (s.residuals) s.residuals[c] = norm;
        }
        __syncthreads();
    }
}

/* Makes check number `check` (from 0), after m steps. */
template <typename T, int ALONE> __global__ void __launch_bounds__(WARP *WARPS)
    jacobi_judge_kernel(columns_of<T> v, jacobi_state s, int64_t check, int64_t m, int is_last)
{
    __shared__ double shared[WARP * WARPS];
    for (int64_t c = blockIdx.x; c < v.k; c += gridDim.x) {
        const int goes_on = s.ended[c] < 0;
        if (ALONE && goes_on) sum_leaves(v, c, 1.0, s.work + c * v.leaves);
        double norm = goes_on ? norm_of(v, c, s.work + c * v.leaves, shared) : s.norm[c];
        __syncthreads();
        if (threadIdx.x == 0 && threadIdx.y == 0) {
            const int is_zero = s.f[c] == 0.0;
            gop_column_state verdict = GOP_GOES_ON;
            if (is_zero) norm = 0.0;
            if (goes_on) {
                if (check == 0 && !s.given_first) s.first[c] = norm;
                verdict = gop_jacobi_verdict(s.rtol, s.atol, s.dtol, s.f[c], s.first[c], norm);
                s.norm[c] = norm;
                if (verdict != GOP_GOES_ON) s.ended[c] = m;
            }
            const int keep = goes_on && (verdict != GOP_GOES_ON || is_last);
            s.kept[c] = !keep ? GOES_ON : is_zero ? IS_ZERO : IS_KEPT;
            if (s.residuals) s.residuals[(1 + check) * v.k + c] = norm;
            if (s.residuals && is_last) s.residuals[s.last * v.k + c] = (double)s.ended[c];
        }
        __syncthreads();
    }
}

/* Copies columns that ended at this check to the result. */
template <typename T> __global__ void jacobi_keep_kernel(T *out, int64_t out_row,
                                                         int64_t out_col, columns_of<T> iterate,
                                                         const int64_t *kept)
{
    const int64_t step = gridDim.x * (int64_t)blockDim.x;
    for (int64_t c = 0; c < iterate.k; c++) {
        if (kept[c] == GOES_ON) continue;
        for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < iterate.n;
             i += step) {
            T value = iterate.data[i + c * iterate.n];
            if (kept[c] == IS_ZERO) memset(&value, 0, sizeof value);
            out[i * out_row + c * out_col] = value;
        }
    }
}

/* ---- the chain ---- */

/* The parts of the scratch memory, each aligned to 256 bytes. */
struct chained_room {
    char *iterate[2], *residual, *steps;
    jacobi_state state;
    size_t bytes;
};

/* What a plan decides: the steps, and those with a check where they are `checked`. */
struct chain_plan {
    gop_jacobi_steps steps;
    checked_plan checked;
};

static char *take(chained_room *room, char *base, int64_t bytes)
{
    char *const at = base + room->bytes;
    room->bytes += ((size_t)bytes + 255) / 256 * 256;
    return at;
}

static chained_room room_of(const gop_task *task, int64_t size, size_t steps)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_jacobi_params *p = &task->call->params.jacobi;
    const int64_t vector = g->n * g->k * size, each = 8 * g->k;
    char *const base = (char *)task->scratch;
    chained_room room = {};
    jacobi_state &s = room.state;
    room.iterate[0] = take(&room, base, vector);
    room.iterate[1] = take(&room, base, vector);
    room.residual = take(&room, base, vector);
    room.steps = take(&room, base, (int64_t)steps);
    s.work = (double *)take(&room, base, 8 * (g->n / LEAF + 1) * g->k);
    s.f = (double *)take(&room, base, each);
    s.first = (double *)take(&room, base, each);
    s.norm = (double *)take(&room, base, each);
    s.ended = (int64_t *)take(&room, base, each);
    s.kept = (int64_t *)take(&room, base, each);
    s.rtol = p->rtol;
    s.atol = p->atol;
    s.dtol = p->dtol;
    s.given_first = p->first ? (const double *)task->in[p->first].data : nullptr;
    s.residuals = task->nout > 1 ? (double *)task->out[1].data : nullptr;
    s.last = task->nout > 1 ? task->out[1].shape[0] - 1 : 0;
    return room;
}

static dim3 blocks_of(int64_t items, int64_t per_block)
{
    const int64_t blocks = blocks_for(items, per_block);
    return dim3((unsigned)(blocks < 1 ? 1 : blocks < 65536 ? blocks : 65536));
}

template <typename T, int ALONE>
gop_status start(gop_ctx *ctx, const gop_task *task, const chained_room &room)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const int csr = task->call->params.jacobi.step.csr;
    const dim3 warps(WARP, WARPS);
    const int64_t leaves = (g->n + LEAF - 1) / LEAF;
    const columns_of<T> f = {
        (const T *)task->in[csr ? 3 : 1].data, g->n, g->k, g->f_row, g->f_col, leaves};
    const columns_of<T> x = {
        (const T *)task->in[csr ? 4 : 2].data, g->n, g->k, g->x_row, g->x_col, leaves};
    GOP_TRY(GOP_LAUNCH(ctx, (jacobi_start_kernel<T, ALONE>),
                       blocks_of(g->n * g->k, WARP * WARPS), warps, 0, (T *)room.iterate[0], x,
                       f, room.state.work));
    return GOP_LAUNCH(ctx, (jacobi_target_kernel<T, ALONE>), blocks_of(g->k, 1), warps, 0, f,
                      room.state);
}

template <typename T>
gop_status keep(gop_ctx *ctx, const gop_task *task, const columns_of<T> &x, const int64_t *kept)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const int64_t few = 1024; /* blocks: mostly there is nothing to keep */
    return GOP_LAUNCH(ctx, jacobi_keep_kernel<T>,
                      blocks_of(g->n < few * 256 ? g->n : few * 256, 256), dim3(256), 0,
                      (T *)task->out[0].data, g->out_row, g->out_col, x, kept);
}

/* Enqueues step m + 1, and the check of the iterate that it begins with. */
template <typename T, int ALONE> gop_status step_and_check(gop_ctx *ctx, const gop_task *task,
                                                           gop_jacobi_task *t,
                                                           const chained_room &room, void *from,
                                                           void *to, int64_t check, int64_t m)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const int is_last = m == task->call->params.jacobi.steps;
    const dim3 warps(WARP, WARPS);
    const int64_t leaves = (g->n + LEAF - 1) / LEAF;
    const columns_of<T> residual = {(const T *)room.residual, g->n, g->k, 1, g->n, leaves};
    const columns_of<T> x = {(const T *)from, g->n, g->k, 1, g->n, leaves};
    const checked_plan &checked = GOP_OWN(const chain_plan, task->plan)->checked;
    if (!ALONE && checked.launch)
        GOP_TRY(checked.launch(ctx, task, checked, from, to,
                               squares_may_be_lost<T> ? room.residual : nullptr,
                               room.state.work));
    else {
        GOP_TRY(gop_jacobi_step(ctx, t, from, to, room.residual));
        if constexpr (!ALONE)
            GOP_TRY(GOP_LAUNCH(ctx, jacobi_squares_kernel<T>, blocks_of(leaves * g->k, WARPS),
                               warps, 0, residual, room.state.work,
                               (const int64_t *)room.state.ended));
    }
    GOP_TRY(GOP_LAUNCH(ctx, (jacobi_judge_kernel<T, ALONE>), blocks_of(g->k, 1), warps, 0,
                       residual, room.state, check, m, is_last));
    return keep<T>(ctx, task, x, room.state.kept);
}

/* With the norms by all of the device they are compiled once, in chained.cu. */
#define JACOBI_CHAIN(word, T)                                                                  \
    word template gop_status keep<T>(gop_ctx *, const gop_task *, const columns_of<T> &,       \
                                     const int64_t *);                                         \
    word template gop_status start<T, 0>(gop_ctx *, const gop_task *, const chained_room &);   \
    word template gop_status step_and_check<T, 0>(gop_ctx *, const gop_task *,                 \
                                                  gop_jacobi_task *, const chained_room &,     \
                                                  void *, void *, int64_t, int64_t);
#define JACOBI_CHAINED(word)                                                                   \
    JACOBI_CHAIN(word, float)                                                                  \
    JACOBI_CHAIN(word, double)                                                                 \
    JACOBI_CHAIN(word, complex64)                                                              \
    JACOBI_CHAIN(word, complex128)
#ifndef GOP_JACOBI_CHAINED
JACOBI_CHAINED(extern)
#endif

/* Enqueues all steps of a call and what is between them. `ALONE`: one block sums a column's
 * squares. */
template <typename T, int ALONE>
static inline gop_status jacobi_chain(gop_ctx *ctx, const gop_task *task)
{
    const gop_jacobi_params *p = &task->call->params.jacobi;
    const gop_jacobi_steps *steps = GOP_OWN(const gop_jacobi_steps, task->plan);
    const chained_room room = room_of(task, sizeof(T), steps->scratch);
    gop_jacobi_task t;
    gop_plan plan;
    gop_jacobi_ready(&t, task, &plan, room.steps);
    GOP_TRY((start<T, ALONE>(ctx, task, room)));
    for (int64_t m = 0, check = 0;; m++) {
        char *const from = room.iterate[m % 2], *const to = room.iterate[(m + 1) % 2];
        const int is_check = m % p->check_every == 0 || m == p->steps;
        if (is_check)
            GOP_TRY((step_and_check<T, ALONE>(ctx, task, &t, room, from, to, check++, m)));
        else GOP_TRY(gop_jacobi_step(ctx, &t, from, to, nullptr));
        if (m == p->steps) break;
    }
    return GOP_OK;
}

/* Plans a chain whose steps are those of the named kernel, or of the best one. */
static inline gop_status jacobi_chain_plan(const gop_ctx *ctx, const gop_task *task,
                                           const char *name, gop_plan *plan)
{
    GOP_TRY(gop_jacobi_plan_steps(ctx, task, name, plan));
    chain_plan &own = *GOP_OWN(chain_plan, plan);
    gop_jacobi_plan_checked(ctx, task, &own.checked);
    plan->scratch = room_of(task, item_size(task->in[0].dtype), own.steps.scratch).bytes;
    return GOP_OK;
}

#endif
