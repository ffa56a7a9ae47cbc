/*
 * system.h - the system of jacobi_step: the arithmetic of elements, the operands, the update.
 *
 * FMA is the fused multiply-add of the dtype's real type. The accumulator is of the dtype
 * itself.
 */
#ifdef D

/* ---- arithmetic of one element; docs/numerics.md states every rounding ---- */

#if IS_COMPLEX
static ALWAYS_INLINE T FN(plus)(T a, T b)
{
    return (T){a.re + b.re, a.im + b.im};
}
static ALWAYS_INLINE T FN(minus)(T a, T b)
{
    return (T){a.re - b.re, a.im - b.im};
}
static ALWAYS_INLINE T FN(multiply_add)(T a, T b, T c)
{
    return (T){FMA(-a.im, b.im, FMA(a.re, b.re, c.re)), FMA(a.im, b.re, FMA(a.re, b.im, c.im))};
}
/* Divides by the larger part of b first, so that |b|^2 neither overflows nor underflows. */
static ALWAYS_INLINE T FN(divide)(T a, T b)
{
    if ((b.re < 0 ? -b.re : b.re) >= (b.im < 0 ? -b.im : b.im)) {
        const PART ratio = b.im / b.re, den = FMA(b.im, ratio, b.re);
        return (T){FMA(a.im, ratio, a.re) / den, FMA(-a.re, ratio, a.im) / den};
    }
    const PART ratio = b.re / b.im, den = FMA(b.re, ratio, b.im);
    return (T){FMA(a.re, ratio, a.im) / den, FMA(a.im, ratio, -a.re) / den};
}
static inline T FN(factor)(gop_scalar s)
{
    return (T){(PART)s.f[0], (PART)s.f[1]};
}
#else
static ALWAYS_INLINE T FN(plus)(T a, T b)
{
    return a + b;
}
static ALWAYS_INLINE T FN(minus)(T a, T b)
{
    return a - b;
}
static ALWAYS_INLINE T FN(multiply_add)(T a, T b, T c)
{
    return FMA(a, b, c);
}
static ALWAYS_INLINE T FN(divide)(T a, T b)
{
    return a / b;
}
static inline T FN(factor)(gop_scalar s)
{
    return (T)s.f[0];
}
#endif

#define R T
#define TREE_ADD(a, b) FN(plus)(a, b)
#include "cpu/runtime/tree.inc"
#undef R
#undef TREE_ADD

/* ---- the system: the task's operands with their types ---- */

typedef struct FN(system) {
    gop_jacobi g;
    const T *a, *f, *x; /* a: the dense matrix, or the data of the CSR matrix */
    const void *indices, *indptr;
    int64_t stored; /* CSR terms */
    T *out, *residual;
    T factor; /* alpha or omega */
    int csr, has_alpha;
    gop_lattice grid;
    const T *diagonal; /* the stored diagonal, or NULL */
    const T *columns;  /* the columns of x, each contiguous, `column` items apart */
    int64_t column;
    const T *panels; /* a copy of x (wide.h), or NULL */
    char *scratch;   /* `room` bytes for each worker */
    size_t room;
} FN(system);

static FN(system) FN(system_of)(const gop_task *task)
{
    const gop_jacobi_step_params *params = &task->call->params.jacobi_step;
    const int csr = params->csr;
    FN(system) s = {.g = task->geometry.jacobi};
    s.a = task->in[0].data;
    s.f = task->in[csr ? 3 : 1].data;
    s.x = task->in[csr ? 4 : 2].data;
    s.indices = csr ? task->in[1].data : NULL;
    s.indptr = csr ? task->in[2].data : NULL;
    s.stored = csr ? task->in[0].shape[0] : 0;
    s.out = task->out[0].data;
    s.residual = task->nout == 2 ? task->out[1].data : NULL;
    s.factor = FN(factor)(params->has_alpha ? params->alpha : params->omega);
    s.csr = csr;
    s.has_alpha = params->has_alpha;
    s.grid = params->grid;
    s.diagonal = params->diagonal ? task->in[params->diagonal].data : NULL;
    s.columns = s.x;
    s.column = s.g.x_col;
    return s;
}

/* The diagonal of row i: duplicates are added in stored order. With alpha it is not needed. */
static inline T FN(diagonal)(const FN(system) * s, int64_t i)
{
    if (s->has_alpha) return POSITIVE_ZERO;
    if (s->diagonal) return s->diagonal[i];
    if (!s->csr) return s->a[i * (s->g.a_row + s->g.a_col)];
    T sum = NEGATIVE_ZERO;
    const csr_row row = row_of(s->indptr, s->g.index64, i, s->stored);
    for (int64_t p = row.begin; p < row.end; p++)
        if (gop_index_at(s->indices, s->g.index64, p) == i) sum = FN(plus)(sum, s->a[p]);
    return sum;
}

/* The new iterate's item from sum = (A x)[i, c]. */
static ALWAYS_INLINE T FN(step)(const FN(system) * s, T sum, T f, T x, T diagonal)
{
    const T change = s->has_alpha ? FN(minus)(sum, f) : FN(divide)(FN(minus)(f, sum), diagonal);
    return FN(multiply_add)(s->factor, change, x);
}

/* Writes item (i, c) of the outputs from sum = (A x)[i, c]. */
static inline void FN(update)(const FN(system) * s, int64_t i, int64_t c, T sum, T diagonal)
{
    const gop_jacobi *g = &s->g;
    const T f = s->f[i * g->f_row + c * g->f_col], x = s->x[i * g->x_row + c * g->x_col];
    s->out[i * g->out_row + c * g->out_col] = FN(step)(s, sum, f, x, diagonal);
    if (s->residual) s->residual[i * g->residual_row + c * g->residual_col] = FN(minus)(f, sum);
}

/* The same for rows [i, i + count) of column c, as vectors if they are contiguous. */
static inline void FN(update_rows)(const FN(system) * s, int64_t i, int64_t count, int64_t c,
                                   const T *restrict sum, const T *restrict diagonal)
{
    const gop_jacobi *g = &s->g;
    if (g->f_row != 1 || g->x_row != 1 || g->out_row != 1 ||
        (s->residual && g->residual_row != 1)) {
        for (int64_t r = 0; r < count; r++)
            FN(update)(s, i + r, c, sum[r], s->has_alpha ? POSITIVE_ZERO : diagonal[r]);
        return;
    }
    const T *restrict f = s->f + i + c * g->f_col, *restrict x = s->x + i + c * g->x_col;
    T *restrict out = s->out + i + c * g->out_col;
    const T factor = s->factor;
    if (s->residual) {
        T *restrict residual = s->residual + i + c * g->residual_col;
        for (int64_t r = 0; r < count; r++) residual[r] = FN(minus)(f[r], sum[r]);
    }
    if (s->has_alpha)
        for (int64_t r = 0; r < count; r++)
            out[r] = FN(multiply_add)(factor, FN(minus)(sum[r], f[r]), x[r]);
    else
        for (int64_t r = 0; r < count; r++)
            out[r] = FN(multiply_add)(factor, FN(divide)(FN(minus)(f[r], sum[r]), diagonal[r]),
                                      x[r]);
}

#elif !defined(GOP_CPU_JACOBI_STEP_SYSTEM_H)
#define GOP_CPU_JACOBI_STEP_SYSTEM_H

#include <stdlib.h>

#include "core/numerics.h"
#include "core/ops/csr.h"
#include "cpu/runtime/cpu.h"

enum {
    PIECE = 1 << 20, /* terms between two checks for Ctrl-C */
    SLICE = 1 << 21, /* terms of one step of a kernel that runs on one thread */
    STEPS = 1 << 20, /* at most */
};

/* ---- CSR: the stored terms of a row ---- */

/* The arrays were validated, but the caller may write to them during the call. So values out of
 * bounds are clamped here. */

typedef struct csr_row {
    int64_t begin, end;
} csr_row;

static inline int64_t column_at(const void *indices, int index64, int64_t p, int64_t n)
{
    const int64_t k = gop_index_at(indices, index64, p);
    return (uint64_t)k < (uint64_t)n ? k : 0;
}

static inline csr_row row_of(const void *indptr, int index64, int64_t i, int64_t stored)
{
    csr_row row = {gop_index_at(indptr, index64, i), gop_index_at(indptr, index64, i + 1)};
    if (row.begin < 0 || row.end > stored) row.begin = row.end = 0;
    return row;
}

/* The cost of an average row in terms, for all right-hand sides. */
static double row_terms(const gop_task *task)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const int csr = task->call->params.jacobi_step.csr;
    const int axes = task->call->params.jacobi_step.grid.axes;
    const double terms = axes  ? 2 * axes + 1
                         : csr ? (double)task->in[0].shape[0] / (double)(g->n + 1)
                               : (double)g->n;
    return (terms + 8) * (double)(g->k + 1);
}

static gop_status refuse_stencil(const gop_task *task, const char *kernel)
{
    if (task->call->params.jacobi_step.grid.axes == 0) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "jacobi_step: the %s kernel takes a matrix, got a stencil; the threaded "
                    "kernel takes both",
                    kernel);
}

/* The number of steps of a kernel that runs on the calling thread only. */
static int64_t slices(const gop_task *task)
{
    const int64_t n = task->geometry.jacobi.n;
    const double wanted = (double)n * row_terms(task) / SLICE;
    const int64_t most = n < STEPS ? n : STEPS;
    return wanted <= 1 || most <= 1 ? 1 : wanted > (double)most ? most : (int64_t)wanted;
}

/* The first row of a step: n rows in `steps` nearly equal slices. */
static inline int64_t slice(int64_t n, int64_t step, int64_t steps)
{
    return n / steps * step + n % steps * step / steps;
}

/* ---- the bodies, per dtype ---- */

#define PART_float32 float
#define PART_float64 double
#define PART_complex64 float
#define PART_complex128 double
#define FMA_float32 fmaf
#define FMA_float64 fma
#define FMA_complex64 fmaf
#define FMA_complex128 fma
#define PART GOP_PASTE(PART, D)
#define FMA GOP_PASTE(FMA, D)
#define NEGATIVE_ZERO_float32 (-0.0f)
#define NEGATIVE_ZERO_float64 (-0.0)
#define NEGATIVE_ZERO_complex64 ((gop_c64){-0.0f, -0.0f})
#define NEGATIVE_ZERO_complex128 ((gop_c128){-0.0, -0.0})
#define POSITIVE_ZERO_float32 (0.0f)
#define POSITIVE_ZERO_float64 (0.0)
#define POSITIVE_ZERO_complex64 ((gop_c64){0.0f, 0.0f})
#define POSITIVE_ZERO_complex128 ((gop_c128){0.0, 0.0})
#define NEGATIVE_ZERO GOP_PASTE(NEGATIVE_ZERO, D)
#define POSITIVE_ZERO GOP_PASTE(POSITIVE_ZERO, D)
#define TREE(name) GOP_PASTE(jacobi_##name, D)

#define GOP_TPL "cpu/jacobi_step/system.h"
#include "cpu/jacobi_step/each_inexact.inc"

#define LAUNCH(f)                                                                              \
    {                                                                                          \
        [GOP_FLOAT32] = f##_float32, [GOP_FLOAT64] = f##_float64,                              \
        [GOP_COMPLEX64] = f##_complex64, [GOP_COMPLEX128] = f##_complex128                     \
    }

#endif
