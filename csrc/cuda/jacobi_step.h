/*
 * jacobi_step.h - what the kernels of jacobi_step share: arithmetic, operands, a warp's part of
 * tree/v1.
 *
 * A leaf of the tree is 2048 terms in 128 lanes. A warp takes a leaf: each of its threads keeps
 * 4 lanes in registers, N neighbours (one 128-bit load) at a time. docs/numerics.md states
 * every rounding.
 */
#ifndef GOP_CUDA_JACOBI_STEP_H
#define GOP_CUDA_JACOBI_STEP_H

#include "cuda/device.h"

enum { LANES = 128, LEAF = 2048, WARP = 32, PER_THREAD = LANES / WARP };
#define WHOLE_WARP 0xffffffffu

/* ---- arithmetic of one element ---- */

GOP_DEVICE float multiply_add(float a, float b, float c)
{
    return fmaf(a, b, c);
}
GOP_DEVICE double multiply_add(double a, double b, double c)
{
    return fma(a, b, c);
}
template <typename R>
GOP_DEVICE complex<R> multiply_add(complex<R> a, complex<R> b, complex<R> c)
{
    return {multiply_add(-a.im, b.im, multiply_add(a.re, b.re, c.re)),
            multiply_add(a.im, b.re, multiply_add(a.re, b.im, c.im))};
}

template <typename T> GOP_DEVICE T plus(T a, T b)
{
    return a + b;
}
template <typename R> GOP_DEVICE complex<R> plus(complex<R> a, complex<R> b)
{
    return {a.re + b.re, a.im + b.im};
}

template <typename T> GOP_DEVICE T minus(T a, T b)
{
    return a - b;
}
template <typename R> GOP_DEVICE complex<R> minus(complex<R> a, complex<R> b)
{
    return {a.re - b.re, a.im - b.im};
}

template <typename T> GOP_DEVICE T divide(T a, T b)
{
    return a / b;
}
/* By the larger part of b first, so that |b|^2 never overflows or underflows. */
template <typename R> GOP_DEVICE complex<R> divide(complex<R> a, complex<R> b)
{
    if ((b.re < 0 ? -b.re : b.re) >= (b.im < 0 ? -b.im : b.im)) {
        const R ratio = b.im / b.re, den = multiply_add(b.im, ratio, b.re);
        return {multiply_add(a.im, ratio, a.re) / den, multiply_add(-a.re, ratio, a.im) / den};
    }
    const R ratio = b.re / b.im, den = multiply_add(b.re, ratio, b.im);
    return {multiply_add(a.re, ratio, a.im) / den, multiply_add(a.im, ratio, -a.re) / den};
}

/* The same number in both parts of a complex one: -0.0, what a lane starts at, and +0.0. */
template <typename T> struct number {
    static GOP_DEVICE T of(T value) { return value; }
};
template <typename R> struct number<complex<R>> {
    static GOP_DEVICE complex<R> of(R value) { return {value, value}; }
};
template <typename T> GOP_DEVICE T negative_zero()
{
    return number<T>::of(-0.0f);
}
template <typename T> GOP_DEVICE T positive_zero()
{
    return number<T>::of(0.0f);
}

/* ---- the operands ---- */

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

/* Steps of a launch: each is far below 100 ms, so that Ctrl-C is heard. */
static inline int64_t jacobi_steps(const gop_ctx *, const gop_task *task)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const int csr = task->call->params.jacobi_step.csr;
    const double terms = csr ? (double)task->in[0].shape[0] : (double)g->n * (double)g->n;
    const double steps = terms * (double)g->k / 17179869184.0;
    return steps <= 1 ? 1 : steps > (double)g->n ? g->n : (int64_t)steps;
}

template <typename T> static inline jacobi_system<T>
jacobi_system_of(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_jacobi_step_params *params = &task->call->params.jacobi_step;
    const int csr = params->csr;
    const int64_t n = task->geometry.jacobi.n, steps = jacobi_steps(ctx, task);
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
    s.first = n / steps * step + n % steps * step / steps;
    s.last = n / steps * (step + 1) + n % steps * (step + 1) / steps;
    return s;
}

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

/* Writes item (i, c) of the outputs from sum = (A x)[i, c]. */
template <typename T> GOP_DEVICE void jacobi_update(const jacobi_system<T> &s, int64_t i,
                                                    int64_t c, T sum, T diagonal)
{
    const gop_jacobi &g = s.g;
    const T f = s.f[i * g.f_row + c * g.f_col], x = s.x[i * g.x_row + c * g.x_col];
    const T change = s.has_alpha ? minus(sum, f) : divide(minus(f, sum), diagonal);
    s.out[i * g.out_row + c * g.out_col] = multiply_add(s.factor, change, x);
    if (s.residual) s.residual[i * g.residual_row + c * g.residual_col] = minus(f, sum);
}

/* The diagonal of row i of a dense A. Only the step without alpha asks. */
template <typename T> GOP_DEVICE T dense_diagonal(const jacobi_system<T> &s, int64_t i)
{
    return s.has_alpha ? positive_zero<T>() : s.a[i * (s.g.a_row + s.g.a_col)];
}

/* ---- tree/v1 in a warp ---- */

template <typename T> GOP_DEVICE T shuffle_down(T value, int distance)
{
    return __shfl_down_sync(WHOLE_WARP, value, distance);
}
template <typename R> GOP_DEVICE complex<R> shuffle_down(complex<R> value, int distance)
{
    return {shuffle_down(value.re, distance), shuffle_down(value.im, distance)};
}
template <typename T> GOP_DEVICE T shuffle(T value, int from)
{
    return __shfl_sync(WHOLE_WARP, value, from);
}
template <typename R> GOP_DEVICE complex<R> shuffle(complex<R> value, int from)
{
    return {shuffle(value.re, from), shuffle(value.im, from)};
}

/* The fold of a leaf, in thread 0. Thread t holds lane (v*WARP + t)*N + j in lane[v*N + j]. */
template <typename T, int N> GOP_DEVICE T fold_lanes(T (&lane)[PER_THREAD])
{
#pragma unroll
    for (int d = LANES / 2; d >= WARP * N; d /= 2) /* between a thread's own registers */
        for (int l = 0; l < d / WARP; l++) lane[l] = plus(lane[l], lane[l + d / WARP]);
#pragma unroll
    for (int d = WARP / 2; d > 0; d /= 2) /* between threads: d*N lanes apart */
        for (int j = 0; j < N; j++) lane[j] = plus(lane[j], shuffle_down(lane[j], d));
#pragma unroll
    for (int d = N / 2; d > 0; d /= 2)
        for (int j = 0; j < d; j++) lane[j] = plus(lane[j], lane[j + d]);
    return lane[0];
}

/* The leaves so far of one row: thread j of the warp keeps the full subtree of 2^j leaves where
 * bit j of `leaves` is set. 32 levels are 2^43 terms. */
template <typename T> struct warp_tree {
    int64_t leaves;
    T node;
};

/* Appends the leaf that thread 0 holds: merges equal neighbours, as a binary counter carries.
 */
template <typename T> GOP_DEVICE void tree_push(warp_tree<T> &tree, T leaf)
{
    int level = 0;
    leaf = shuffle(leaf, 0);
    for (int64_t n = tree.leaves++; n & 1; n >>= 1, level++)
        leaf = plus(shuffle(tree.node, level), leaf);
    if (threadIdx.x == level) tree.node = leaf;
}

/* The root, in every thread. The padding leaves are -0.0, so what is left folds lowest first.
 */
template <typename T> GOP_DEVICE T tree_root(const warp_tree<T> &tree, T empty)
{
    T root = empty;
    int any = 0;
    for (int level = 0; tree.leaves >> level; level++)
        if (tree.leaves >> level & 1) {
            const T node = shuffle(tree.node, level);
            root = any ? plus(node, root) : node;
            any = 1;
        }
    return root;
}

/* (A x)[i, c] by one warp, in every thread of it; any strides, dense or CSR. */
template <typename T> GOP_DEVICE T warp_row(const jacobi_system<T> &s, int64_t i, int64_t c)
{
    const gop_jacobi &g = s.g;
    csr_row row = {0, g.n};
    if (s.csr) row = row_of(s, i);
    const T *x = s.x + c * g.x_col;
    warp_tree<T> tree = {0, negative_zero<T>()};
    for (int64_t begin = row.begin; begin < row.end; begin += LEAF) {
        const int64_t end = row.end - begin < LEAF ? row.end : begin + LEAF;
        T lane[PER_THREAD];
        for (int v = 0; v < PER_THREAD; v++) lane[v] = negative_zero<T>();
#pragma unroll 2
        for (int64_t chunk = begin + threadIdx.x; chunk < end; chunk += LANES)
#pragma unroll
            for (int v = 0; v < PER_THREAD; v++) {
                const int64_t p = chunk + v * WARP;
                if (p < end && s.csr)
                    lane[v] = multiply_add(s.a[p], x[column_at(s, p) * g.x_row], lane[v]);
                else if (p < end)
                    lane[v] =
                        multiply_add(s.a[i * g.a_row + p * g.a_col], x[p * g.x_row], lane[v]);
            }
        tree_push(tree, fold_lanes<T, 1>(lane));
    }
    return tree_root(tree, positive_zero<T>());
}

/* The diagonal of row i of a CSR matrix, in every thread: duplicates add up in stored order. */
template <typename T> GOP_DEVICE T warp_diagonal(const jacobi_system<T> &s, int64_t i)
{
    T sum = negative_zero<T>();
    if (s.has_alpha) return sum;
    const csr_row row = row_of(s, i);
    for (int64_t begin = row.begin; begin < row.end; begin += WARP) {
        const int64_t p = begin + threadIdx.x;
        const int found = p < row.end && index_at(s.indices, s.g.index64, p) == i;
        for (unsigned m = __ballot_sync(WHOLE_WARP, found); m; m &= m - 1)
            sum = plus(sum, s.a[begin + __ffs((int)m) - 1]);
    }
    return sum;
}

/* ---- launchers in files of their own ---- */

/* jacobi_step_csr.cu: CSR matrices of short rows. */
template <typename T>
gop_status jacobi_step_staged(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status jacobi_step_staged_accepts(const gop_ctx *ctx, const gop_task *task);

/* jacobi_step_column.cu: dense matrices with contiguous columns. */
template <typename T>
gop_status jacobi_step_column(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status jacobi_step_column_accepts(const gop_ctx *ctx, const gop_task *task);

#endif
