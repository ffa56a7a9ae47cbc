/*
 * jacobi_step_tpl.h - rows of A times x through the lanes of tree/v1, and the update.
 *
 * Included once per dtype by jacobi_step.c, which defines FMA, the fused multiply-add of the
 * dtype's real part type. The accumulator is the dtype itself.
 */

/* ---- arithmetic of one element; docs/numerics.md states every rounding ---- */

#if IS_COMPLEX
#define NEGATIVE_ZERO ((T){-0.0f, -0.0f})
#define POSITIVE_ZERO ((T){0.0f, 0.0f})

static inline T FN(plus)(T a, T b)
{
    return (T){a.re + b.re, a.im + b.im};
}
static inline T FN(minus)(T a, T b)
{
    return (T){a.re - b.re, a.im - b.im};
}
static inline T FN(multiply_add)(T a, T b, T c)
{
    return (T){FMA(-a.im, b.im, FMA(a.re, b.re, c.re)), FMA(a.im, b.re, FMA(a.re, b.im, c.im))};
}
/* Divides by the larger part of b first, so that |b|^2 never overflows or underflows. */
static inline T FN(divide)(T a, T b)
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
#define NEGATIVE_ZERO ((T)-0.0)
#define POSITIVE_ZERO ((T)0.0)

static inline T FN(plus)(T a, T b)
{
    return a + b;
}
static inline T FN(minus)(T a, T b)
{
    return a - b;
}
static inline T FN(multiply_add)(T a, T b, T c)
{
    return FMA(a, b, c);
}
static inline T FN(divide)(T a, T b)
{
    return a / b;
}
static inline T FN(factor)(gop_scalar s)
{
    return (T)s.f[0];
}
#endif

/* Rows that share columns of A where those are contiguous: 4 cache lines of a column. */
#define STRIP (256 / (int)sizeof(T))

#define R T
#define TREE(name) GOP_PASTE(jacobi_##name, D)
#define TREE_ADD(a, b) FN(plus)(a, b)
#include "cpu/tree_tpl.h"

/* ---- the system: the task's operands with their types ---- */

typedef struct FN(system) {
    gop_jacobi g;
    const T *a, *f, *x; /* a: the dense matrix, or data of the CSR one */
    const void *indices, *indptr;
    int64_t stored; /* CSR terms */
    T *out, *residual;
    T factor; /* alpha or omega */
    int csr, has_alpha;
    const T *columns; /* the columns of x, each contiguous, `column` items apart */
    int64_t column;
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
    s.columns = s.x;
    s.column = s.g.x_col;
    return s;
}

/* The diagonal of row i: duplicates add up in stored order. Only the step without alpha asks.
 */
static inline T FN(diagonal)(const FN(system) * s, int64_t i)
{
    if (s->has_alpha) return POSITIVE_ZERO;
    if (!s->csr) return s->a[i * (s->g.a_row + s->g.a_col)];
    T sum = NEGATIVE_ZERO;
    const csr_row row = row_of(s->indptr, s->g.index64, i, s->stored);
    for (int64_t p = row.begin; p < row.end; p++)
        if (index_at(s->indices, s->g.index64, p) == i) sum = FN(plus)(sum, s->a[p]);
    return sum;
}

/* Writes item (i, c) of the outputs from sum = (A x)[i, c]. */
static inline void FN(update)(const FN(system) * s, int64_t i, int64_t c, T sum, T diagonal)
{
    const gop_jacobi *g = &s->g;
    const T f = s->f[i * g->f_row + c * g->f_col], x = s->x[i * g->x_row + c * g->x_col];
    const T change = s->has_alpha ? FN(minus)(sum, f) : FN(divide)(FN(minus)(f, sum), diagonal);
    s->out[i * g->out_row + c * g->out_col] = FN(multiply_add)(s->factor, change, x);
    if (s->residual) s->residual[i * g->residual_row + c * g->residual_col] = FN(minus)(f, sum);
}

/* ---- naive: one row after the other, term by term ---- */

static T FN(naive_row)(const FN(system) * s, int64_t i, int64_t c)
{
    const gop_jacobi *g = &s->g;
    const csr_row row =
        s->csr ? row_of(s->indptr, g->index64, i, s->stored) : (csr_row){0, g->n};
    TREE(nodes) tree;
    tree.leaves = 0;
    for (int64_t begin = row.begin; begin < row.end; begin += LEAF) {
        const int64_t end = row.end - begin < LEAF ? row.end : begin + LEAF;
        T lane[LANES];
        for (int l = 0; l < LANES; l++) lane[l] = NEGATIVE_ZERO;
        for (int64_t p = begin; p < end; p++) {
            const int64_t l = (p - begin) % LANES;
            const int64_t k = s->csr ? column_at(s->indices, g->index64, p, g->n) : p;
            const T a = s->csr ? s->a[p] : s->a[i * g->a_row + k * g->a_col];
            lane[l] = FN(multiply_add)(a, s->x[k * g->x_row + c * g->x_col], lane[l]);
        }
        TREE(push)(&tree, TREE(fold_lanes)(lane));
    }
    return TREE(root)(&tree, POSITIVE_ZERO);
}

static gop_status FN(jacobi_step_naive)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const FN(system) s = FN(system_of)(task);
    const int64_t steps = slices(ctx, task);
    for (int64_t i = slice(s.g.n, step, steps); i < slice(s.g.n, step + 1, steps); i++) {
        const T diagonal = FN(diagonal)(&s, i);
        for (int64_t c = 0; c < s.g.k; c++)
            FN(update)(&s, i, c, FN(naive_row)(&s, i, c), diagonal);
    }
    return GOP_OK;
}

/* ---- simd: a leaf's 128 lanes are one array, and its inner loop is vector instructions ----
 */

/* One leaf of m <= 2048 terms. A leaf of fewer than 128 leaves its upper lanes at -0.0, which
 * adding does not change: the fold starts at the lanes that are in use. */
static inline T FN(leaf)(const T *restrict a, const T *restrict x, int64_t m)
{
    T lane[LANES];
    int width = LANES;
    if (m <= LANES / 2)
        for (width = 1; width < m;) width *= 2;
    for (int l = 0; l < width; l++) lane[l] = NEGATIVE_ZERO;
    for (; m >= LANES; m -= LANES, a += LANES, x += LANES)
        for (int l = 0; l < LANES; l++) lane[l] = FN(multiply_add)(a[l], x[l], lane[l]);
    for (int l = 0; l < m; l++) lane[l] = FN(multiply_add)(a[l], x[l], lane[l]);
    if (width == LANES) return TREE(fold_lanes)(lane);
    for (int d = width / 2; d > 0; d /= 2)
        for (int l = 0; l < d; l++) lane[l] = FN(plus)(lane[l], lane[l + d]);
    return lane[0];
}

static gop_status FN(jacobi_step_simd)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const FN(system) s = FN(system_of)(task);
    const int64_t steps = slices(ctx, task), n = s.g.n;
    for (int64_t i = slice(n, step, steps); i < slice(n, step + 1, steps); i++)
        for (int64_t c = 0; c < s.g.k; c++) {
            TREE(nodes) tree;
            tree.leaves = 0;
            for (int64_t k = 0; k < n; k += LEAF) {
                const T *a = s.a + i * s.g.a_row + k, *x = s.x + c * s.g.x_col + k;
                TREE(push)(&tree, FN(leaf)(a, x, n - k < LEAF ? n - k : LEAF));
            }
            FN(update)(&s, i, c, TREE(root)(&tree, POSITIVE_ZERO), FN(diagonal)(&s, i));
        }
    return GOP_OK;
}

/* ---- threaded: rows over the threads, in blocks that share the leaves of x in the cache ----
 */

/* Rows [begin, end), at most ROWS, and columns [c0, c0 + columns), at most COLUMNS, of a dense
 * A. Leaf by leaf for all rows, so that rows of any stride share cache lines. */
static void FN(dense_block)(const FN(system) * s, int64_t begin, int64_t end, int64_t c0,
                            int64_t columns)
{
    const gop_jacobi *g = &s->g;
    TREE(nodes) tree[ROWS][COLUMNS];
    T gathered[LEAF];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) tree[r][c].leaves = 0;
    for (int64_t k = 0; k < g->n; k += LEAF) {
        const int64_t m = g->n - k < LEAF ? g->n - k : LEAF;
        for (int64_t i = begin; i < end; i++) {
            const T *a = s->a + i * g->a_row + k * g->a_col;
            if (g->a_col != 1) {
                for (int64_t l = 0; l < m; l++) gathered[l] = a[l * g->a_col];
                a = gathered;
            }
            for (int64_t c = 0; c < columns; c++) {
                const T *x = s->columns + (c0 + c) * s->column + k;
                TREE(push)(&tree[i - begin][c], FN(leaf)(a, x, m));
            }
        }
    }
    for (int64_t i = begin; i < end; i++)
        for (int64_t c = 0; c < columns; c++) {
            const T sum = TREE(root)(&tree[i - begin][c], POSITIVE_ZERO);
            FN(update)(s, i, c0 + c, sum, FN(diagonal)(s, i));
        }
}

/* Rows [begin, end), at most STRIP, of column c, where neighbours in memory are neighbouring
 * rows: the lanes of all rows grow together, a column of A at a time. */
static void FN(dense_strip)(const FN(system) * s, int64_t begin, int64_t end, int64_t c)
{
    const gop_jacobi *g = &s->g;
    const int count = (int)(end - begin);
    T lane[LANES][STRIP];
    TREE(nodes) tree[STRIP];
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
    (void)worker;
    if (llabs(s->g.a_row) < llabs(s->g.a_col)) {
        for (int64_t i = begin; i < end; i += STRIP)
            for (int64_t c = 0; c < s->g.k; c++)
                FN(dense_strip)(s, i, i + STRIP < end ? i + STRIP : end, c);
        return;
    }
    for (int64_t i = begin; i < end; i += ROWS)
        for (int64_t c = 0; c < s->g.k; c += COLUMNS) {
            const int64_t columns = s->g.k - c < COLUMNS ? s->g.k - c : COLUMNS;
            FN(dense_block)(s, i, i + ROWS < end ? i + ROWS : end, c, columns);
        }
}

/* A CSR row of more than SHORT terms: a leaf's items of x are gathered, then it is dense. */
static T FN(csr_long_row)(const FN(system) * s, csr_row row, const T *x)
{
    TREE(nodes) tree;
    T gathered[LEAF];
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
static inline T FN(csr_row)(const FN(system) * s, const int index64, csr_row row, const T *x)
{
    const int64_t count = row.end - row.begin;
    if (count <= 0) return POSITIVE_ZERO;
    if (count > SHORT) return FN(csr_long_row)(s, row, x);
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
                                 int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const csr_row row = row_of(s->indptr, index64, i, s->stored);
        const T diagonal = FN(diagonal)(s, i);
        for (int64_t c = 0; c < s->g.k; c++)
            FN(update)(s, i, c, FN(csr_row)(s, index64, row, s->x + c * s->g.x_col), diagonal);
    }
}

static void FN(csr_rows)(void *argument, int64_t begin, int64_t end, int worker)
{
    const FN(system) *s = argument;
    (void)worker;
    if (s->g.index64) FN(csr_piece)(s, 1, begin, end);
    else FN(csr_piece)(s, 0, begin, end);
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
    const int64_t grain = rows_per_piece(task);
    (void)ctx;
    (void)step;
    if (s.csr) return gop_parallel(s.g.n, grain, FN(csr_rows), &s);
    if (s.g.x_row != 1) {
        s.columns = task->scratch;
        s.column = s.g.n;
        GOP_TRY(gop_parallel(s.g.n, 1 + PIECE / (1 + s.g.k), FN(pack_rows), &s));
    }
    return gop_parallel(s.g.n, grain, FN(dense_rows), &s);
}

#undef STRIP
#undef R
#undef TREE
#undef TREE_ADD
#undef NEGATIVE_ZERO
#undef POSITIVE_ZERO
