/*
 * system.h - the operands of one launch of jacobi_step, and the plan of its slices.
 */
#ifndef GOP_CUDA_JACOBI_STEP_SYSTEM_H
#define GOP_CUDA_JACOBI_STEP_SYSTEM_H

#include "cuda/jacobi_step/arithmetic.h"

template <typename T> struct jacobi_system {
    gop_jacobi g;
    const T *a, *f, *x; /* a: the dense matrix, or data of the CSR one */
    const void *indices, *indptr;
    int64_t stored; /* CSR terms */
    T *out, *residual;
    T factor; /* alpha or omega */
    int csr, has_alpha;
    int64_t first, last; /* the rows of this launch */
};

static inline void jacobi_factor(gop_scalar s, float *factor)
{
    *factor = (float)s.f[0];
}
static inline void jacobi_factor(gop_scalar s, double *factor)
{
    *factor = s.f[0];
}
template <typename R> static inline void jacobi_factor(gop_scalar s, complex<R> *factor)
{
    *factor = {(R)s.f[0], (R)s.f[1]};
}

template <typename T, typename I> struct csr_arrays {
    const T *data; /* for a check, or NULL: the diagonal is not looked at */
    const I *indices, *indptr;
    int64_t n, stored;
};

/* CSR was checked, but other work on the device may write to the arrays meanwhile: clamping
 * keeps a row inside them whatever they hold. */
struct csr_row {
    int64_t begin, end;
};

GOP_DEVICE int64_t index_at(const void *index, int index64, int64_t p)
{
    return index64 ? ((const int64_t *)index)[p] : ((const int32_t *)index)[p];
}

template <typename T> GOP_DEVICE csr_row row_of(const jacobi_system<T> &s, int64_t i)
{
    csr_row row = {index_at(s.indptr, s.g.index64, i), index_at(s.indptr, s.g.index64, i + 1)};
    if (row.begin < 0 || row.end > s.stored) row.begin = row.end = 0;
    return row;
}

template <typename T> GOP_DEVICE int64_t column_at(const jacobi_system<T> &s, int64_t p)
{
    const int64_t k = index_at(s.indices, s.g.index64, p);
    return (uint64_t)k < (uint64_t)s.g.n ? k : 0;
}

/* Item (i, c) of f and of x. */
template <typename T> struct jacobi_item {
    T f, x;
};
/* ARE_NEIGHBOURS: there is one column, and its items follow each other. */
template <int ARE_NEIGHBOURS = 0, typename T>
GOP_DEVICE jacobi_item<T> jacobi_item_of(const jacobi_system<T> &s, int64_t i, int64_t c)
{
    const gop_jacobi &g = s.g;
    if (ARE_NEIGHBOURS) return {s.f[i], s.x[i]};
    return {s.f[i * g.f_row + c * g.f_col], s.x[i * g.x_row + c * g.x_col]};
}

/* Writes item (i, c) of the outputs from sum = (A x)[i, c]. */
template <int ARE_NEIGHBOURS = 0, typename T>
GOP_DEVICE void jacobi_write(const jacobi_system<T> &s, int64_t i, int64_t c, T sum, T diagonal,
                             const jacobi_item<T> &item)
{
    const gop_jacobi &g = s.g;
    const T change = s.has_alpha ? minus(sum, item.f) : divide(minus(item.f, sum), diagonal);
    const int64_t to = ARE_NEIGHBOURS ? i : i * g.out_row + c * g.out_col;
    s.out[to] = multiply_add(s.factor, change, item.x);
    if (s.residual) s.residual[i * g.residual_row + c * g.residual_col] = minus(item.f, sum);
}
template <typename T> GOP_DEVICE void jacobi_update(const jacobi_system<T> &s, int64_t i,
                                                    int64_t c, T sum, T diagonal)
{
    jacobi_write(s, i, c, sum, diagonal, jacobi_item_of(s, i, c));
}

/* The diagonal of row i of a dense A. Only the step without alpha asks. */
template <typename T> GOP_DEVICE T dense_diagonal(const jacobi_system<T> &s, int64_t i)
{
    return s.has_alpha ? positive_zero<T>() : s.a[i * (s.g.a_row + s.g.a_col)];
}

/* ---- on the host ---- */

/* The plan of most rows: slices of the rows of A, each far below 100 ms, so that Ctrl-C is
 * heard. */
static inline gop_status jacobi_plan_slices(const gop_ctx *, const gop_task *task,
                                            gop_plan *plan)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const int csr = task->call->params.jacobi_step.csr;
    if (task->call->params.jacobi_step.grid.axes > 0)
        return gop_fail(GOP_REFUSED, "jacobi_step: this kernel takes a matrix, got a stencil; "
                                     "the stencil kernel takes those");
    const double terms = csr ? (double)task->in[0].shape[0] : (double)g->n * (double)g->n;
    const double steps = terms * (double)g->k / 17179869184.0;
    plan->steps = steps <= 1 ? 1 : steps > (double)g->n ? g->n : (int64_t)steps;
    return GOP_OK;
}

/* The same for those that take no CSR matrix. */
static inline gop_status jacobi_plan_dense(const gop_ctx *ctx, const gop_task *task,
                                           gop_plan *plan)
{
    if (!task->call->params.jacobi_step.csr) return jacobi_plan_slices(ctx, task, plan);
    return gop_fail(GOP_REFUSED, "jacobi_step: this kernel takes a dense A, got a CSR matrix; "
                                 "the balanced and warp kernels take those");
}

/* How many of all items come before a step. */
static inline int64_t jacobi_before(int64_t items, int64_t steps, int64_t step)
{
    return items / steps * step + items % steps * step / steps;
}

template <typename T>
static inline jacobi_system<T> jacobi_system_of(const gop_task *task, int64_t step)
{
    const gop_jacobi_step_params *params = &task->call->params.jacobi_step;
    const int csr = params->csr;
    const int64_t n = task->geometry.jacobi.n, steps = task->plan->steps;
    jacobi_system<T> s;
    s.g = task->geometry.jacobi;
    s.a = (const T *)task->in[0].data;
    s.f = (const T *)task->in[csr ? 3 : 1].data;
    s.x = (const T *)task->in[csr ? 4 : 2].data;
    s.indices = csr ? task->in[1].data : nullptr;
    s.indptr = csr ? task->in[2].data : nullptr;
    s.stored = csr ? task->in[0].shape[0] : 0;
    s.out = (T *)task->out[0].data;
    s.residual = task->nout == 2 ? (T *)task->out[1].data : nullptr;
    jacobi_factor(params->has_alpha ? params->alpha : params->omega, &s.factor);
    s.csr = csr;
    s.has_alpha = params->has_alpha;
    s.first = jacobi_before(n, steps, step);
    s.last = jacobi_before(n, steps, step + 1);
    return s;
}

#define JACOBI_LECTURE "simple iteration"

#endif
