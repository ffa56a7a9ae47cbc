/*
 * jacobi_step.c - one step of a stationary iteration on the CPU, for dense and CSR matrices.
 *
 *     s = A x;   out = x + alpha (s - f)   or   out = x + omega (f - s) / d
 *
 * The floor is reading A once: two flops for every 4 or 8 bytes, so memory decides. What makes
 * it hard is that a row's sum has a fixed order, tree/v1: 128 lanes are 128 independent sums,
 * which is what vector instructions and memory latency want anyway.
 */
#include <stdlib.h>

#include "cpu/cpu.h"

enum {
    LANES = 128,
    LEAF = 2048,
    ROWS = 8,        /* of a block that shares the leaves of x */
    FEW = 64,        /* rows that are worth waking a thread for */
    COLUMNS = 8,     /* right-hand sides that share the leaves of A */
    SHORT = 8,       /* terms of a CSR row that is summed without loops */
    PIECE = 1 << 20, /* terms between two looks at Ctrl-C */
    SLICE = 1 << 21, /* terms of one step of a row that runs on one thread */
    STEPS = 1 << 20,
};

/* ---- CSR: the stored terms of a row. Checked before, but the caller may write to the arrays
 * meanwhile: clamping keeps a row inside them whatever they hold. ---- */

typedef struct csr_row {
    int64_t begin, end;
} csr_row;

static inline int64_t index_at(const void *index, int index64, int64_t p)
{
    return index64 ? ((const int64_t *)index)[p] : ((const int32_t *)index)[p];
}

static inline int64_t column_at(const void *indices, int index64, int64_t p, int64_t n)
{
    const int64_t k = index_at(indices, index64, p);
    return (uint64_t)k < (uint64_t)n ? k : 0;
}

static inline csr_row row_of(const void *indptr, int index64, int64_t i, int64_t stored)
{
    csr_row row = {index_at(indptr, index64, i), index_at(indptr, index64, i + 1)};
    if (row.begin < 0 || row.end > stored) row.begin = row.end = 0;
    return row;
}

/* ---- cutting the rows into pieces ---- */

/* Terms of an average row, all right-hand sides together. */
static double row_terms(const gop_task *task)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const int csr = task->call->params.jacobi_step.csr;
    const double terms = csr ? (double)task->in[0].shape[0] / (double)(g->n + 1) : (double)g->n;
    return (terms + 8) * (double)(g->k + 1);
}

/* At least 8 pieces a thread, so that a late one costs little, but none of few rows. */
static int64_t rows_per_piece(const gop_task *task)
{
    const int64_t share = task->geometry.jacobi.n / (8 * gop_threads());
    int64_t rows = (int64_t)(PIECE / row_terms(task));
    if (rows > share) rows = share < FEW ? (rows < FEW ? rows : FEW) : share;
    return rows < ROWS ? ROWS : rows / ROWS * ROWS;
}

/* Steps of the rows that run on the calling thread alone. */
static int64_t slices(const gop_ctx *ctx, const gop_task *task)
{
    (void)ctx;
    const int64_t n = task->geometry.jacobi.n;
    const double wanted = (double)n * row_terms(task) / SLICE;
    const int64_t most = n < STEPS ? n : STEPS;
    return wanted <= 1 || most <= 1 ? 1 : wanted > (double)most ? most : (int64_t)wanted;
}

/* First row of a step: n rows in `steps` nearly equal slices. */
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

#define D float32
#include "cpu/jacobi_step_tpl.h"
#undef D
#define D float64
#include "cpu/jacobi_step_tpl.h"
#undef D
#define D complex64
#include "cpu/jacobi_step_tpl.h"
#undef D
#define D complex128
#include "cpu/jacobi_step_tpl.h"
#undef D

/* ---- the ladder ---- */

static gop_status simd_accepts(const gop_ctx *ctx, const gop_task *task)
{
    (void)ctx;
    const gop_jacobi *g = &task->geometry.jacobi;
    if (task->call->params.jacobi_step.csr)
        return gop_fail(GOP_REFUSED, "jacobi_step: the simd kernel takes a dense A, got a CSR "
                                     "matrix; the threaded kernel takes both");
    if (g->n > 1 && (g->a_col != 1 || g->x_row != 1))
        return gop_fail(
            GOP_REFUSED,
            "jacobi_step: the simd kernel takes rows of A and columns of x that are "
            "contiguous; the threaded kernel takes any strides");
    return GOP_OK;
}

/* Room for the columns of x, where they are not contiguous. */
static size_t threaded_scratch(const gop_ctx *ctx, const gop_task *task)
{
    (void)ctx;
    const gop_jacobi *g = &task->geometry.jacobi;
    if (task->call->params.jacobi_step.csr || g->x_row == 1) return 0;
    return (size_t)(g->n * g->k * gop_dtype_size(task->in[0].dtype));
}

#define LAUNCH(f)                                                                              \
    {                                                                                          \
        [GOP_FLOAT32] = f##_float32, [GOP_FLOAT64] = f##_float64,                              \
        [GOP_COMPLEX64] = f##_complex64, [GOP_COMPLEX128] = f##_complex128                     \
    }

static const gop_row rows[] = {
    {
        .name = "naive",
        .note = "one row after the other, one term after the other, on one thread",
        .role = GOP_CONFORMING,
        .lecture = "simple iteration",
        .launch = LAUNCH(jacobi_step_naive),
        .steps = slices,
    },
    {
        .name = "simd",
        .note = "the 128 lanes of a row are one array: 128 sums at once keep the vector units "
                "and several cache lines busy",
        .role = GOP_CONFORMING,
        .launch = LAUNCH(jacobi_step_simd),
        .accepts = simd_accepts,
        .steps = slices,
    },
    {
        .name = "threaded",
        .note = "rows over all threads in blocks of 8 that share x in the cache; CSR, any "
                "strides: one core cannot draw all that the memory gives",
        .role = GOP_CONFORMING,
        .launch = LAUNCH(jacobi_step_threaded),
        .scratch = threaded_scratch,
    },
};

const gop_ladder GOP_LADDER(jacobi_step) = {sizeof rows / sizeof rows[0], rows};
