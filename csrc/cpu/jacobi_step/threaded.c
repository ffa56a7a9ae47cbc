/*
 * threaded.c - jacobi_step's rows over all threads, in blocks that share x in the cache.
 *
 * One core cannot draw all that the memory gives. A dense block of 8 rows reads each leaf of x
 * once; where neighbours in memory are neighbouring rows, a strip of rows grows its lanes
 * together; a CSR row gathers its items of x.
 */
#ifdef D

/* What a worker has beside its stack, for one of three ways through A. */
typedef struct FN(block) {
    TREE(nodes) tree[ROWS][COLUMNS];
    T gathered[LEAF];
} FN(block);

typedef struct FN(strip) {
    T lane[LANES][STRIP];
    TREE(nodes) tree[STRIP];
} FN(strip);

typedef union FN(room) {
    _Alignas(64) FN(block) block;
    FN(strip) strip;
    T gathered[LEAF];
} FN(room);

/* Rows [begin, end), at most ROWS, and columns [c0, c0 + columns), at most COLUMNS, of a dense
 * A. Leaf by leaf for all rows, so that rows of any stride share cache lines. */
static void FN(dense_block)(const FN(system) * s, FN(block) * room, int64_t begin, int64_t end,
                            int64_t c0, int64_t columns)
{
    const gop_jacobi *g = &s->g;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) room->tree[r][c].leaves = 0;
    for (int64_t k = 0; k < g->n; k += LEAF) {
        const int64_t m = g->n - k < LEAF ? g->n - k : LEAF;
        for (int64_t i = begin; i < end; i++) {
            const T *a = s->a + i * g->a_row + k * g->a_col;
            if (g->a_col != 1) {
                for (int64_t l = 0; l < m; l++) room->gathered[l] = a[l * g->a_col];
                a = room->gathered;
            }
            for (int64_t c = 0; c < columns; c++) {
                const T *x = s->columns + (c0 + c) * s->column + k;
                TREE(push)(&room->tree[i - begin][c], FN(leaf)(a, x, m));
            }
        }
    }
    for (int64_t i = begin; i < end; i++)
        for (int64_t c = 0; c < columns; c++) {
            const T sum = TREE(root)(&room->tree[i - begin][c], POSITIVE_ZERO);
            FN(update)(s, i, c0 + c, sum, FN(diagonal)(s, i));
        }
}

/* Rows [begin, end), at most STRIP, of column c, where neighbours in memory are neighbouring
 * rows: the lanes of all rows grow together, a column of A at a time. */
static void FN(dense_strip)(const FN(system) * s, FN(strip) * room, int64_t begin, int64_t end,
                            int64_t c)
{
    const gop_jacobi *g = &s->g;
    const int count = (int)(end - begin);
    T(*const lane)[STRIP] = room->lane;
    TREE(nodes) *const tree = room->tree;
    for (int r = 0; r < count; r++) tree[r].leaves = 0;
    for (int64_t k0 = 0; k0 < g->n; k0 += LEAF) {
        const int m = g->n - k0 < LEAF ? (int)(g->n - k0) : LEAF;
        const T *x = s->columns + c * s->column + k0;
        for (int l = 0; l < LANES; l++)
            for (int r = 0; r < count; r++) lane[l][r] = NEGATIVE_ZERO;
        for (int k = 0; k < m; k++) {
            const T *a = s->a + begin * g->a_row + (k0 + k) * g->a_col;
            T *sum = lane[k % LANES];
            for (int r = 0; r < count; r++)
                sum[r] = FN(multiply_add)(a[r * g->a_row], x[k], sum[r]);
        }
        for (int d = LANES / 2; d > 0; d /= 2)
            for (int l = 0; l < d; l++)
                for (int r = 0; r < count; r++)
                    lane[l][r] = FN(plus)(lane[l][r], lane[l + d][r]);
        for (int r = 0; r < count; r++) TREE(push)(&tree[r], lane[0][r]);
    }
    for (int r = 0; r < count; r++) {
        const T sum = TREE(root)(&tree[r], POSITIVE_ZERO);
        FN(update)(s, begin + r, c, sum, FN(diagonal)(s, begin + r));
    }
}

static void FN(dense_rows)(void *argument, int64_t begin, int64_t end, int worker)
{
    const FN(system) *s = argument;
    FN(room) *const room = (FN(room) *)s->scratch + worker;
    if (llabs(s->g.a_row) < llabs(s->g.a_col)) {
        for (int64_t i = begin; i < end; i += STRIP)
            for (int64_t c = 0; c < s->g.k; c++)
                FN(dense_strip)(s, &room->strip, i, i + STRIP < end ? i + STRIP : end, c);
        return;
    }
    for (int64_t i = begin; i < end; i += ROWS)
        for (int64_t c = 0; c < s->g.k; c += COLUMNS) {
            const int64_t columns = s->g.k - c < COLUMNS ? s->g.k - c : COLUMNS;
            FN(dense_block)(s, &room->block, i, i + ROWS < end ? i + ROWS : end, c, columns);
        }
}

/* A CSR row of more than SHORT terms: a leaf's items of x are gathered, then it is dense. */
static T FN(csr_long_row)(const FN(system) * s, csr_row row, const T *x, T *gathered)
{
    TREE(nodes) tree;
    tree.leaves = 0;
    for (int64_t p = row.begin; p < row.end; p += LEAF) {
        const int64_t m = row.end - p < LEAF ? row.end - p : LEAF;
        for (int64_t l = 0; l < m; l++)
            gathered[l] = x[column_at(s->indices, s->g.index64, p + l, s->g.n) * s->g.x_row];
        TREE(push)(&tree, FN(leaf)(s->a + p, gathered, m));
    }
    return TREE(root)(&tree, POSITIVE_ZERO);
}

/* A row of up to 8 terms, the common one: 8 lanes in registers, the others stay at -0.0. */
static inline T FN(csr_row)(const FN(system) * s, const int index64, csr_row row, const T *x,
                            T *gathered)
{
    const int64_t count = row.end - row.begin;
    if (count <= 0) return POSITIVE_ZERO;
    if (count > SHORT) return FN(csr_long_row)(s, row, x, gathered);
    T lane[SHORT];
#pragma GCC unroll 8
    for (int l = 0; l < SHORT; l++) {
        lane[l] = NEGATIVE_ZERO;
        if (l >= count) continue;
        const int64_t k = column_at(s->indices, index64, row.begin + l, s->g.n);
        lane[l] = FN(multiply_add)(s->a[row.begin + l], x[k * s->g.x_row], lane[l]);
    }
#pragma GCC unroll 3
    for (int d = SHORT / 2; d > 0; d /= 2)
#pragma GCC unroll 4
        for (int l = 0; l < d; l++) lane[l] = FN(plus)(lane[l], lane[l + d]);
    return lane[0];
}

/* `index64` is a constant where this is inlined, so that no load asks for the index type. */
static inline void FN(csr_piece)(const FN(system) * s, const int index64, int64_t begin,
                                 int64_t end, T *gathered)
{
    for (int64_t i = begin; i < end; i++) {
        const csr_row row = row_of(s->indptr, index64, i, s->stored);
        const T diagonal = FN(diagonal)(s, i);
        for (int64_t c = 0; c < s->g.k; c++) {
            const T sum = FN(csr_row)(s, index64, row, s->x + c * s->g.x_col, gathered);
            FN(update)(s, i, c, sum, diagonal);
        }
    }
}

static void FN(csr_rows)(void *argument, int64_t begin, int64_t end, int worker)
{
    const FN(system) *s = argument;
    T *const gathered = ((FN(room) *)s->scratch)[worker].gathered;
    if (s->g.index64) FN(csr_piece)(s, 1, begin, end, gathered);
    else FN(csr_piece)(s, 0, begin, end, gathered);
}

/* Columns of x that are not contiguous are copied once, so that every row reads them fast. */
static void FN(pack_rows)(void *argument, int64_t begin, int64_t end, int worker)
{
    const FN(system) *s = argument;
    T *columns = (T *)s->columns;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        for (int64_t c = 0; c < s->g.k; c++)
            columns[c * s->column + i] = s->x[i * s->g.x_row + c * s->g.x_col];
}

static gop_status FN(jacobi_step_threaded)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    FN(system) s = FN(system_of)(task);
    const piece_plan *const p = GOP_OWN(const piece_plan, task->plan);
    const int64_t grain = p->rows;
    const int workers = p->workers;
    (void)ctx, (void)step;
    s.scratch = task->scratch;
    if (s.csr) return gop_parallel_by(workers, s.g.n, grain, FN(csr_rows), &s);
    if (s.g.x_row != 1) {
        s.columns = (T *)((FN(room) *)s.scratch + workers);
        s.column = s.g.n;
        GOP_TRY(gop_parallel(s.g.n, 1 + PIECE / (1 + s.g.k), FN(pack_rows), &s));
    }
    return gop_parallel_by(workers, s.g.n, grain, FN(dense_rows), &s);
}

#else
#include "cpu/jacobi_step/system.h"

enum {
    ROWS = 8,    /* of a block that shares the leaves of x */
    FEW = 64,    /* rows that are worth waking a thread for */
    COLUMNS = 8, /* right-hand sides that share the leaves of A */
    SHORT = 8,   /* terms of a CSR row that is summed without loops */
};

/* Rows that share columns of A where those are contiguous: 4 cache lines of a column. */
#define STRIP (256 / (int)sizeof(T))

/* The plan. */
typedef struct piece_plan {
    int64_t rows; /* of a piece */
    int workers;
} piece_plan;

#define GOP_TPL "cpu/jacobi_step/threaded.c"
#include "cpu/jacobi_step/each_inexact.inc"

/* At least 8 pieces a thread, so that a late one costs little, but none of few rows. */
static int64_t rows_per_piece(const gop_ctx *ctx, const gop_task *task)
{
    const int64_t share = task->geometry.jacobi.n / (8 * ctx->info.processors);
    int64_t rows = (int64_t)(PIECE / row_terms(task));
    if (rows > share) rows = share < FEW ? (rows < FEW ? rows : FEW) : share;
    return rows < ROWS ? ROWS : rows / ROWS * ROWS;
}

/* Threads, and no more than there are pieces. */
static int workers_of(const gop_ctx *ctx, const gop_task *task, int64_t rows)
{
    const int64_t pieces = task->geometry.jacobi.n / rows + 1;
    return pieces < ctx->info.processors ? (int)pieces : ctx->info.processors;
}

/* Room for each worker, and for the columns of x where they are not contiguous. */
static gop_status jacobi_step_threaded_plan(const gop_ctx *ctx, const gop_task *task,
                                            gop_plan *plan)
{
    static const size_t room[GOP_NDTYPES] = {
        [GOP_FLOAT32] = sizeof(room_float32),
        [GOP_FLOAT64] = sizeof(room_float64),
        [GOP_COMPLEX64] = sizeof(room_complex64),
        [GOP_COMPLEX128] = sizeof(room_complex128),
    };
    piece_plan *const p = GOP_OWN(piece_plan, plan);
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_dtype dtype = task->in[0].dtype;
    p->rows = rows_per_piece(ctx, task);
    p->workers = workers_of(ctx, task, p->rows);
    plan->scratch = (size_t)p->workers * room[dtype];
    if (!task->call->params.jacobi_step.csr && g->x_row != 1)
        plan->scratch += (size_t)(g->n * g->k * gop_dtype_size(dtype));
    return GOP_OK;
}

static const gop_row jacobi_step_threaded_row = {
    .name = "threaded",
    .note = "rows over all threads in blocks of 8 that share x in the cache; CSR, any "
            "strides: one core cannot draw all that the memory gives",
    .role = GOP_CONFORMING,
    .launch = LAUNCH(jacobi_step_threaded),
    .plan = jacobi_step_threaded_plan,
};

#endif
