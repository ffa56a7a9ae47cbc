/*
 * threaded.c - jacobi_step's rows over all threads.
 *
 * One core cannot draw all that the memory gives. dense.h and csr.h say how a piece of rows is
 * done; here are the pieces.
 */
#ifdef D

/* Columns of x are copied once, so that every row reads them fast. */
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
    FEW = 64,              /* rows that are worth waking a thread for */
    STRIP_TERMS = 1 << 26, /* terms of a strip of columns: more than of a piece, as the rows of
                              a strip are what is read in one go */
};

/* The plan. */
typedef struct piece_plan {
    int64_t rows; /* of a piece */
    int workers;
    int64_t column; /* items from a column of x to the next where they are copied, else 0 */
    int wide;       /* CSR: whether columns go side by side */
    int panels;     /* whether they are copied for that */
    size_t room;    /* of a worker */
} piece_plan;

#define GOP_TPL "cpu/jacobi_step/threaded.c"
#include "cpu/jacobi_step/each_inexact.inc"

/* At least 8 pieces a thread, so that a late one costs little, but none of few rows. A matrix
 * whose columns are contiguous gets one piece a thread: shorter runs of memory cost more. */
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

/* Threads, and no more than there are pieces. */
static int workers_of(const gop_ctx *ctx, const gop_task *task, int64_t rows)
{
    const int64_t pieces = task->geometry.jacobi.n / rows + 1;
    return pieces < ctx->info.processors ? (int)pieces : ctx->info.processors;
}

/* Columns of x are copied where they are not contiguous, and where rows of A meet them as
 * vectors: one that lies in two lines takes the first-level cache twice as long. */
static int64_t column_of(const gop_task *task, int64_t size)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_jacobi_step_params *params = &task->call->params.jacobi_step;
    const int by_rows = !params->grid.axes && !by_columns(g) && g->n >= LANES;
    if (params->csr || (g->x_row == 1 && !by_rows)) return 0;
    if (params->grid.axes && goes_flat(g, task->nout == 2)) return 0;
    return (g->n * size + LINE - 1) / LINE * LINE / size;
}

/* Room for each worker, and for the columns of x. */
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
    /* Contiguous columns go one after the other, so that nothing is copied; but side by side
     * where they are many and eight of them stay in the second cache. */
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
