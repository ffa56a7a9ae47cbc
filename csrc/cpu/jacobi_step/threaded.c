/*
 * threaded.c - the rows of jacobi_step on all threads.
 *
 * One core cannot saturate memory. dense.h, csr.h, wide.h and stencil.h compute a piece of
 * rows; this file makes the pieces.
 */
#ifdef D

/* Copies the columns of x once, so that every row reads them contiguous and aligned. */
static void FN(pack_rows)(void *argument, int64_t begin, int64_t end, int worker)
{
    const FN(system) *s = argument;
    T *columns = (T *)s->columns;
    (void)worker;
    if (s->g.x_row == 1) {
        for (int64_t c = 0; c < s->g.k; c++)
            memcpy(columns + c * s->column + begin, s->x + c * s->g.x_col + begin,
                   (size_t)(end - begin) * sizeof(T));
        return;
    }
    for (int64_t i = begin; i < end; i++)
        for (int64_t c = 0; c < s->g.k; c++)
            columns[c * s->column + i] = s->x[i * s->g.x_row + c * s->g.x_col];
}

static size_t FN(room_of)(const gop_task *task)
{
    if (task->call->params.jacobi_step.grid.axes) return 64;
    if (task->call->params.jacobi_step.csr) return (LEAF + BLOCK) * sizeof(T);
    return FN(dense_room)(&task->geometry.jacobi);
}

static gop_status FN(jacobi_step_threaded)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    FN(system) s = FN(system_of)(task);
    const piece_plan *const p = GOP_OWN_OF_STEP(const piece_plan, task->plan);
    const int64_t grain = p->rows;
    const int workers = p->workers;
    (void)ctx, (void)step;
    s.scratch = task->scratch;
    s.room = p->room;
    char *const copy = s.scratch + (size_t)workers * s.room;
    if (p->panels) {
        s.panels = (T *)copy;
        GOP_TRY(gop_parallel(s.g.n, 1 + PIECE / (1 + s.g.k), FN(copy_panels), &s));
    }
    if (s.csr)
        return gop_parallel_by(workers, s.g.n, grain, p->wide ? FN(wide_rows) : FN(csr_rows),
                               &s);
    if (p->column) {
        s.columns = (T *)copy;
        s.column = p->column;
        GOP_TRY(gop_parallel(s.g.n, 1 + PIECE / (1 + s.g.k), FN(pack_rows), &s));
    }
    return gop_parallel_by(workers, s.g.n, grain,
                           s.grid.axes ? FN(stencil_rows) : FN(dense_rows), &s);
}

#else
#include "core/ops/jacobi.h"
#include "cpu/jacobi_step/csr.h"
#include "cpu/jacobi_step/dense.h"
#include "cpu/jacobi_step/stencil.h"
#include "cpu/jacobi_step/wide.h"

enum {
    FEW = 64,              /* fewest rows that are worth waking a thread */
    STRIP_TERMS = 1 << 26, /* terms of a strip; more than PIECE, so that reads are long */
};

/* The plan. */
typedef struct piece_plan {
    int64_t rows; /* rows of a piece */
    int workers;
    int64_t column; /* items between the copied columns of x; 0: not copied */
    int wide;       /* CSR: several columns of x at a time */
    int panels;     /* x is copied to panels */
    size_t room;    /* bytes of a worker's scratch */
} piece_plan;

#define GOP_TPL "cpu/jacobi_step/threaded.c"
#include "cpu/jacobi_step/each_inexact.inc"

/* At least 8 pieces per thread, so that a late thread costs little, but no piece of few rows. A
 * column-major matrix gets one piece per thread, because shorter runs of memory cost more. */
static int64_t rows_per_piece(const gop_ctx *ctx, const gop_task *task)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const int64_t share = g->n / (8 * ctx->info.processors);
    int64_t rows = (int64_t)(PIECE / row_terms(task));
    if (!task->call->params.jacobi_step.csr && !task->call->params.jacobi_step.grid.axes &&
        by_columns(g)) {
        const int64_t size = gop_dtype_size(task->in[0].dtype);
        rows = gop_smaller(STRIP_TERMS / (g->n * g->k + 1), g->n / ctx->info.processors);
        rows = gop_smaller(rows / FEW * FEW, STRIP_BYTES / size);
        return rows < 256 / size ? 256 / size : rows;
    }
    if (rows > share) rows = share < FEW ? (rows < FEW ? rows : FEW) : share;
    return rows < 8 ? 8 : rows / 8 * 8;
}

/* The number of threads, at most that of the pieces. */
static int workers_of(const gop_ctx *ctx, const gop_task *task, int64_t rows)
{
    const int64_t pieces = task->geometry.jacobi.n / rows + 1;
    return pieces < ctx->info.processors ? (int)pieces : ctx->info.processors;
}

/* The distance of the copied columns of x; 0: no copy. They are copied if they are not
 * contiguous, and for dot products with contiguous rows of A: an unaligned vector that crosses
 * a cache line takes twice the time in the L1 cache. */
static int64_t column_of(const gop_task *task, int64_t size)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_jacobi_step_params *params = &task->call->params.jacobi_step;
    const int by_rows = !params->grid.axes && !by_columns(g) && g->n >= LANES;
    if (params->csr || (g->x_row == 1 && !by_rows)) return 0;
    if (params->grid.axes && goes_flat(g, task->nout == 2)) return 0;
    return (g->n * size + LINE - 1) / LINE * LINE / size;
}

/* Plans the pieces, and scratch for each worker and for the copy of x. */
static gop_status jacobi_step_threaded_plan(const gop_ctx *ctx, const gop_task *task,
                                            gop_plan *plan)
{
    static size_t (*const room_of[GOP_NDTYPES])(const gop_task *) = LAUNCH(room_of);
    piece_plan *const p = GOP_OWN_OF_STEP(piece_plan, plan);
    const gop_jacobi *const g = &task->geometry.jacobi;
    const gop_jacobi_step_params *const params = &task->call->params.jacobi_step;
    const gop_dtype dtype = task->in[0].dtype;
    const int64_t size = gop_dtype_size(dtype);
    p->rows = rows_per_piece(ctx, task);
    p->workers = workers_of(ctx, task, p->rows);
    p->room = room_of[dtype](task);
    p->column = column_of(task, size);
    /* Contiguous columns are computed one after the other, without a copy. But they are
     * interleaved if there are many and eight of them fit in the L2 cache. */
    const int is_small = g->n * size <= INT64_C(1) << 17;
    p->wide = params->csr && g->k > 1 && (g->x_row != 1 || (g->k >= 8 && is_small));
    p->panels = p->wide && g->x_col != 1;
    plan->scratch =
        (size_t)p->workers * p->room + (size_t)((p->panels ? g->n : p->column) * g->k * size);
    return GOP_OK;
}

static const gop_row jacobi_step_threaded_row = {
    .name = "threaded",
    .note = "rows over all threads, four at once or a strip of columns; CSR, any strides: one "
            "core cannot draw all that the memory gives",
    .role = GOP_CONFORMING,
    .launch = LAUNCH(jacobi_step_threaded),
    .plan = jacobi_step_threaded_plan,
};

#endif
