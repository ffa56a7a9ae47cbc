/*
 * direct.c - matmul of small and thin products, without packing a and b.
 *
 * Packing pays if a packed value is used many times. Here b fits in the L2 cache, or has so few
 * rows of a to multiply that it is read once. The register kernel follows the strides and masks
 * lanes past the last column, so nothing is copied before or after. The exception is a small b
 * with strided columns: it is copied to contiguous rows.
 */
#ifdef D

#if (IS_FLOAT && !IS_HALF) || IS_COMPLEX
enum {
    FN(LANES) = VECTOR / (int)sizeof(R),
    FN(MR) = !IS_COMPLEX    ? ROWS
             : VECTOR == 32 ? 3
                            : COMPLEX_ROWS,
    FN(NV) = IS_COMPLEX && VECTOR == 16 ? 1 : 2,
    FN(NARROW_MR) = FN(MR) < 8 ? FN(MR) : 7,
    FN(FEW) = (VECTOR == 64 ? 4 : 3) / EACH,      /* most vectors of sums of direct_chains */
    FN(WIDEST) = VECTOR > 16 ? 8 / EACH : FN(NV), /* most vectors of a block, which has one */
    FN(WIDE_ROWS) = VECTOR == 64 ? 6 : 2,         /* row, and half of them up to this many */
};

/* Computes `rows` x (vectors - 1 whole vectors and `last` lanes) outputs, over `chains` times
 * kc values of l. For complex numbers, the products with the real part of a are one chain,
 * those with the imaginary part another. */
static ALWAYS_INLINE void FN(direct_block)(const int rows, const int vectors, const int chains,
                                           int64_t last, int64_t kc, const R *a, const R *b,
                                           R *out, const direct *p, int is_first)
{
    V sum[CHAINS][FN(MR)][FN(WIDEST)];
    const int64_t a_row = EACH * p->s.a_row, a_col = EACH * p->s.a_col,
                  b_row = EACH * p->s.b_row;
#if IS_COMPLEX
    V turned[CHAINS][FN(MR)][FN(WIDEST)];
#endif
#pragma GCC unroll 16
    for (int c = 0; c < chains; c++)
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++) {
                sum[c][i][v] = (V){0};
#if IS_COMPLEX
                turned[c][i][v] = (V){0};
#endif
            }
    for (int64_t l = 0; l < kc; l++, a += a_col, b += b_row)
#pragma GCC unroll 16
        for (int c = 0; c < chains; c++) {
            V line[FN(WIDEST)];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++)
                line[v] = (V)UFN(load)(b + c * KC * b_row + v * FN(LANES),
                                       v == vectors - 1 ? last : FN(LANES));
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                const R *const x = a + c * KC * a_col + i * a_row;
#pragma GCC unroll 8
                for (int v = 0; v < vectors; v++) {
                    sum[c][i][v] = VFN(fma)(VECTOR_SPLAT(V, x[0]), line[v], sum[c][i][v]);
#if IS_COMPLEX
                    turned[c][i][v] = VFN(fma)(VECTOR_SPLAT(V, x[1]), line[v], turned[c][i][v]);
#endif
                }
            }
        }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            R *const to = out + i * EACH * p->s.out_row + v * FN(LANES);
            const int64_t count = v == vectors - 1 ? last : FN(LANES);
            V all = is_first ? (V){0} : (V)UFN(load)(to, count);
#pragma GCC unroll 16
            for (int c = 0; c < chains; c++) {
                V one = sum[c][i][v];
#if IS_COMPLEX
                one += VFN(times_i)(turned[c][i][v]);
#endif
                all = is_first && c == 0 ? one : all + one;
            }
            UFN(store)(to, count, (U)all);
        }
}

/* Computes `rows` rows and all columns, over kc values of l. The fewer the rows, the wider the
 * blocks: a sum waits for its last term, so there should be many. */
static ALWAYS_INLINE void FN(direct_rows)(const int rows, int64_t cols, int64_t kc, const R *a,
                                          const R *b, R *out, const direct *p, int is_first)
{
    enum { N = FN(LANES) };
    const int most = rows == 1 ? FN(WIDEST) : rows <= FN(WIDE_ROWS) ? FN(WIDEST) / 2 : 1;
#define BLOCK(v)                                                                               \
    if (v <= most || v <= FN(NV))                                                              \
        for (; left > (v - 1) * N; left -= v * N, b += v * N, out += v * N) FN(direct_block)   \
    (rows, v <= FN(WIDEST) ? v : 1, 1, gop_smaller(left - (v - 1) * N, N), kc, a, b, out, p,   \
     is_first)
    int64_t left = EACH * cols;
    BLOCK(8);
    BLOCK(4);
    BLOCK(2);
    BLOCK(1);
#undef BLOCK
}

/* Each number of rows has its own loop, because a padding row costs as much as another row. */
static void FN(direct_panel)(int rows, int64_t cols, int64_t kc, const R *a, const R *b, R *out,
                             const direct *p, int is_first)
{
#define CASE(r)                                                                                \
    case r:                                                                                    \
        if (r <= FN(MR)) FN(direct_rows)(r, cols, kc, a, b, out, p, is_first);                 \
        break;
    switch (rows) {
        EACH_ROWS(CASE)
    }
#undef CASE
}

#if !IS_COMPLEX
/* The same as direct_block, for columns that fit in half a vector. */
static ALWAYS_INLINE void FN(half_block)(const int rows, int64_t cols, int64_t kc, const R *a,
                                         const R *b, R *out, const direct *p, int is_first)
{
    H sum[FN(MR)];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) sum[i] = (H){0};
    for (int64_t l = 0; l < kc; l++, a += p->s.a_col, b += p->s.b_row) {
        const V line = (V)UFN(load)(b, cols);
        H here;
        memcpy(&here, &line, sizeof here);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
            sum[i] = HFN(fma)(VECTOR_SPLAT(H, a[i * p->s.a_row]), here, sum[i]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        R *const to = out + i * p->s.out_row;
        V all = {0};
        memcpy(&all, &sum[i], sizeof sum[i]);
        if (!is_first) all = (V)UFN(load)(to, cols) + all;
        UFN(store)(to, cols, (U)all);
    }
}

static void FN(half_panel)(int rows, int64_t cols, int64_t kc, const R *a, const R *b, R *out,
                           const direct *p, int is_first)
{
#define CASE(r)                                                                                \
    case r:                                                                                    \
        FN(half_block)(r, cols, kc, a, b, out, p, is_first);                                   \
        break;
    switch (rows) {
        EACH_ROWS(CASE)
    }
#undef CASE
}
#endif

/* A few sums would each wait for their last term. So CHAINS segments of l run at the same time,
 * with the same bits as one after the other. */
static void FN(direct_chains)(int rows, int vectors, int64_t cols, const R *a, const R *b,
                              R *out, const direct *p, int is_first)
{
    const int64_t last = EACH * cols - (vectors - 1) * FN(LANES);
#define CASE(r, v)                                                                             \
    case 8 * r + v:                                                                            \
        if (r * v <= FN(FEW))                                                                  \
            FN(direct_block)(r, v, CHAINS, last, KC, a, b, out, p, is_first);                  \
        break;
    switch (8 * rows + vectors) {
        CASE(1, 1) CASE(2, 1) CASE(3, 1) CASE(4, 1) CASE(1, 2) CASE(2, 2) CASE(1, 3) CASE(1, 4)
    }
#undef CASE
}

/* Copies b to rows that begin at multiples of a vector, which all rows of a use. */
static void FN(lay_out)(const direct *p, const T *b, T *rows)
{
    const int64_t width = p->s.b_row;
    if (p->apart_row == 1 && sizeof(T) <= 8) {
        lay_squares((int)sizeof(T), b, p->apart_col, p->s.n, p->s.k, width, rows);
        return;
    }
    for (int64_t l = 0; l < p->s.k; l++)
        for (int64_t j = 0; j < p->s.n; j++)
            rows[l * width + j] = b[l * p->apart_row + j * p->apart_col];
}

/* Adds a block of sums, or moves it, to rows of out whose columns are apart. */
static void FN(spread)(int64_t rows, int64_t cols, const R *block, R *out, const direct *p,
                       int is_first)
{
    enum { N = FN(LANES) };
    const int is_square = VECTOR == 64 && !IS_COMPLEX && p->s.out_row == 1;
    for (int64_t j = 0; j < cols && is_square && rows <= N / 2; j += N) {
        const int64_t wide = gop_smaller(cols - j, N);
        U lines[N / 2];
#pragma GCC unroll 8
        for (int x = 0; x < N / 2; x++)
            lines[x] = x < rows ? UFN(load)(block + x * p->tile_row + j, wide) : (U){0};
        UFN(squares)(lines);
#pragma GCC unroll 16
        for (int x = 0; x < N; x++) {
            R *const to = out + (j + x) * p->s.out_col;
            U sum = x < N / 2 ? lines[x] : UFN(join)(lines[x - N / 2], (U){0}, 1);
            if (x >= wide) break;
            if (!is_first) sum = (U)((V)UFN(load)(to, rows) + (V)sum);
            UFN(store)(to, rows, sum);
        }
    }
    if (is_square && rows <= N / 2) return;
    for (int64_t i = 0; i < rows && is_square; i += N)
        for (int64_t j = 0; j < cols; j += N) {
            const int64_t high = gop_smaller(rows - i, N), wide = gop_smaller(cols - j, N);
            U square[N];
#pragma GCC unroll 16
            for (int x = 0; x < N; x++)
                square[x] =
                    x < high ? UFN(load)(block + (i + x) * p->tile_row + j, wide) : (U){0};
            UFN(square)(square);
#pragma GCC unroll 16
            for (int x = 0; x < N; x++) {
                R *const to = out + i + (j + x) * p->s.out_col;
                if (x >= wide) break;
                if (!is_first) square[x] = (U)((V)UFN(load)(to, high) + (V)square[x]);
                UFN(store)(to, high, square[x]);
            }
        }
    for (int64_t j = 0; j < cols && !is_square; j++)
        for (int64_t i = 0; i < rows; i++) {
            R *const to = out + i * p->s.out_row + j * p->s.out_col;
            const R sum = block[i * p->tile_row + j];
            *to = is_first ? sum : *to + sum;
        }
}

/* Computes rows x cols outputs over kc values of l, as many rows at a time as registers allow.
 */
static void FN(direct_panels)(int64_t rows, int64_t cols, int64_t kc, const R *a, const R *b,
                              R *out, const direct *p, R *own, int is_first)
{
    const int is_narrow = EACH * cols <= FN(LANES) && p->s.k >= LONG_ROW;
    const int64_t most = is_narrow ? FN(NARROW_MR) : FN(MR);
    const int64_t panels = (rows + most - 1) / most;
    for (int64_t panel = 0; panel < panels; panel++) {
        const int64_t i = rows * panel / panels, to = rows * (panel + 1) / panels;
        const R *const from = a + EACH * i * p->s.a_row;
        R *const to_row = out + EACH * i * p->s.out_row;
        if (p->spreads) {
            direct apart = *p; /* whose sums `own` holds before they are spread */
            apart.s.out_row = p->tile_row;
            FN(direct_panel)((int)(to - i), cols, kc, from, b, own, &apart, 1);
            FN(spread)(to - i, cols, own, to_row, p, is_first);
            continue;
        }
#if !IS_COMPLEX
        if (p->is_half) {
            FN(half_panel)((int)(to - i), cols, kc, from, b, to_row, p, is_first);
            continue;
        }
#endif
        FN(direct_panel)((int)(to - i), cols, kc, from, b, to_row, p, is_first);
    }
}

/* Computes pieces [begin, end) of all products, over the round's values of l. */
static void FN(direct_pieces)(void *argument, int64_t begin, int64_t end, int worker)
{
    const direct *const p = argument;
    walk at = walk_from(p->gemm, begin / p->pieces);
    T *const own = (T *)p->scratch + (size_t)worker * (size_t)p->own;
    const T *laid_out = NULL;
    for (int64_t t = begin; t < end; t++) {
        const int64_t piece = t % p->pieces;
        const int64_t i0 = piece / p->pieces_n * p->rows, j0 = piece % p->pieces_n * p->cols;
        const int64_t rows = gop_smaller(p->s.m - i0, p->rows);
        const int64_t cols = gop_smaller(p->s.n - j0, p->cols);
        const int vectors = (int)((EACH * cols + FN(LANES) - 1) / FN(LANES));
        const int is_few = !p->spreads && rows * vectors <= FN(FEW);
        const T *const a = (const T *)p->a + at.offset[p->s.is_swapped] + i0 * p->s.a_row;
        const T *b = (const T *)p->b + at.offset[!p->s.is_swapped];
        T *const out = (T *)p->out + at.offset[2] + i0 * p->s.out_row + j0 * p->s.out_col;
        int64_t l0 = p->l_begin;
        if (p->lays_out) {
            if (laid_out != b) FN(lay_out)(p, laid_out = b, own);
            b = own;
        }
        b += j0;
        for (; is_few && p->l_end - l0 >= CHAINS * KC; l0 += CHAINS * KC) FN(direct_chains)
        ((int)rows, vectors, cols, (const R *)(a + l0 * p->s.a_col),
         (const R *)(b + l0 * p->s.b_row), (R *)out, p, l0 == 0);
        while (l0 < p->l_end || l0 == 0) {
            const int64_t kc = gop_smaller(p->l_end - l0, KC);
            const R *const from = (const R *)(a + l0 * p->s.a_col);
            const R *const with = (const R *)(b + l0 * p->s.b_row);
            if (p->is_turned)
                turned((int)cols, rows, kc, (const float *)from, &p->s, (const float *)with,
                       (float *)out, l0 == 0);
            else FN(direct_panels)(rows, cols, kc, from, with, (R *)out, p, (R *)own, l0 == 0);
            l0 += kc + (kc == 0);
        }
        if (piece + 1 == p->pieces) walk_on(p->gemm, &at);
    }
}
#endif

#else
#include "cpu/matmul/panels.h"
#include "cpu/matmul/tiles.h"
#include "cpu/matmul/turned.h"

/* Rows of LONG_ROW terms that are a power of two apart map to one set of the L1 cache, which
 * has 8 ways. So with one vector of b, seven rows are computed at a time. Wider blocks reuse
 * what they load more often. */
enum { CHAINS = 4, LONG_ROW = 128 };
enum { DIRECT_PIECE = 1 << 20 }; /* bytes of terms that are worth a thread */

/* The plan: each product has `pieces` of rows x cols outputs. */
typedef struct direct {
    sides s;
    int64_t apart_row, apart_col; /* strides of b if it is copied (`lays_out`) */
    int64_t rows, cols, pieces_n, pieces, grain;
    int64_t round_k;       /* values of l between two checks for Ctrl-C */
    int64_t own, tile_row; /* elements of a worker's scratch, and of a row of sums there */
    int workers;
    int lays_out; /* b is copied */
    int spreads;  /* sums go to scratch, and from there to columns of out that are apart */
    int is_turned, is_half; /* a lane is a row of a; the columns fit in half a vector */
    const gop_gemm *gemm;   /* this and the following belong to one call */
    const void *a, *b;
    void *out, *scratch;
    int64_t l_begin, l_end;
} direct;

/* Transposes `lines` contiguous lines of k items to k lines that are `width` apart, a multiple
 * of a vector. */
static void lay_squares(int item, const void *from, int64_t step, int64_t lines, int64_t k,
                        int64_t width, void *to)
{
    if (item == 4) pack_squares_float32(from, step, (int)lines, k, (int)width, to);
    else pack_squares_float64(from, step, (int)lines, k, (int)width, to);
}

#define GOP_TPL "cpu/matmul/direct.c"
#include "cpu/runtime/each_dtype.inc"

static const gop_body DIRECT[GOP_NDTYPES] = {
    [GOP_FLOAT32] = direct_pieces_float32,
    [GOP_FLOAT64] = direct_pieces_float64,
    [GOP_COMPLEX64] = direct_pieces_complex64,
    [GOP_COMPLEX128] = direct_pieces_complex128,
};

static gop_status matmul_direct(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    direct call = *GOP_OWN(const direct, task->plan);
    (void)ctx, (void)step;
    call.gemm = &task->geometry.gemm;
    call.a = task->in[call.s.is_swapped].data;
    call.b = task->in[!call.s.is_swapped].data;
    call.out = task->out[0].data;
    call.scratch = task->scratch;
    do {
        call.l_begin = call.l_end;
        call.l_end += gop_smaller(call.s.k - call.l_end, call.round_k);
        if (call.l_begin > 0) GOP_TRY(gop_interrupted());
        GOP_TRY(gop_parallel_by(call.workers, call.gemm->batches * call.pieces, call.grain,
                                DIRECT[task->out[0].dtype], &call));
    } while (call.l_end < call.s.k);
    return GOP_OK;
}

enum { AS_IT_LIES = 1, SPREAD, LAID_OUT }; /* ways to multiply in place */

/* Whether b stays in the L2 cache or is read once. */
static int is_near(const sides *s, int64_t item, int rows)
{
    enum { CACHED = 256 << 10 };
    return s->m <= rows || s->n * item <= CACHED / (gop_smaller(s->k, KC) + 1);
}

/* How a product is multiplied in place; 0: it is not. Writes its sides. Sums are spread over
 * columns of out that are apart if else a would be read across its lines, or b be copied. */
static int direct_way(const gop_gemm *g, gop_dtype dtype, sides *s)
{
    enum { SMALL = 1 << 13, LEAST_ROWS = 2, LEAST_LINE = 64, LEAST_TERMS = 16 };
    const int64_t item = gop_dtype_size(dtype);
    const int is_complex = gop_dtype_kind(dtype) == 'c';
    const int rows = is_complex ? COMPLEX_ROWS : ROWS;
    const sides both[2] = {sides_of(g, 0), sides_of(g, 1)};
    for (int i = 0; i < 2 && !is_complex; i++) {
        *s = both[i];
        if (s->m > 1 && s->m <= 2 * rows && s->n * item >= LEAST_LINE && s->k > 1 &&
            s->b_col == 1 && s->b_row != 1 && s->out_col != 1 &&
            (s->k >= LEAST_TERMS || 2 * s->m * item <= VECTOR) && is_near(s, item, rows))
            return SPREAD;
    }
    for (int i = 0; i < 2; i++) {
        *s = both[i];
        if ((s->n == 1 ? s->a_col == 1 : s->b_col == 1 && s->out_col == 1) &&
            is_near(s, item, rows))
            return AS_IT_LIES;
    }
    for (int i = 0; i < 2; i++) {
        *s = both[i];
        if (s->n == 1 && is_near(s, item, rows)) return AS_IT_LIES;
    }
    for (int i = 0; i < 2; i++) {
        *s = both[i];
        if (s->out_col == 1 && s->m >= LEAST_ROWS && s->k > 0 && s->n <= SMALL / s->k)
            return LAID_OUT;
    }
    return 0;
}

/* Whether the columns of b fit in half a vector, and multiply-adds dominate. */
static int is_half(const sides *s, gop_dtype dtype)
{
    enum { LEAST = 16 };
    return VECTOR == 64 && gop_dtype_kind(dtype) != 'c' && s->k >= LEAST &&
           s->n * gop_dtype_size(dtype) <= VECTOR / 2;
}

/* The rows of a piece: p->rows, or fewer so that workers have about equal work. */
static int64_t even_rows(const direct *p, int64_t batches, int mr, int64_t worth)
{
    enum { EVEN = 8 }; /* pieces per worker from which an uneven end does not matter */
    const int64_t m = p->s.m, pieces = (m + p->rows - 1) / p->rows;
    const int is_small = (double)m * (double)p->s.n * (double)(p->s.k + 1) <= (double)worth;
    if (is_small || batches * pieces >= EVEN * p->workers) return p->rows;
    const int64_t even =
        (batches * pieces + p->workers - 1) / p->workers * p->workers / batches;
    return even * mr > m ? p->rows : (m + even - 1) / even;
}

static gop_status matmul_direct_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    enum { LONG = 8 };                     /* panels of a for which a block of b is reused */
    enum { ROUND = 1 << 24, LOADED = 16 }; /* work of a piece in a round; cost of a term */
    direct *const p = GOP_OWN(direct, plan);
    const gop_gemm *g = &task->geometry.gemm;
    const int64_t item = gop_dtype_size(task->out[0].dtype);
    const int mr = gop_dtype_kind(task->out[0].dtype) == 'c' ? COMPLEX_ROWS : ROWS;
    sides s;
    const int way = direct_way(g, task->out[0].dtype, &s);
    if (!way)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'direct' takes products whose b fits into a cache, or "
                        "whose a has at most %d rows; the columns of the result, and of b "
                        "unless it is small, have to be neighbours in memory, got (%lld, %lld) "
                        "@ (%lld, %lld)",
                        mr, (long long)g->m, (long long)g->k, (long long)g->k, (long long)g->n);
    *p = (direct){.s = s};
    p->workers = ctx->info.processors;
    p->spreads = way == SPREAD;
    p->lays_out = way == LAID_OUT;
    if (p->lays_out) {
        p->apart_row = s.b_row, p->apart_col = s.b_col;
        p->s.b_row = round_up(s.n, VECTOR / gop_smaller(item, VECTOR)), p->s.b_col = 1;
        p->own = s.k * p->s.b_row;
    }
    p->is_turned = is_turned(&p->s, task->out[0].dtype);
    p->is_half = is_half(&p->s, task->out[0].dtype);
    const int is_complex = gop_dtype_kind(task->out[0].dtype) == 'c';
    const int64_t worth = DIRECT_PIECE / (item << is_complex);
    const double each = (double)p->s.n * (double)(p->s.k + 1);
    const double rows = (double)worth / each,
                 cols = (double)worth / ((double)p->s.k + 1) / (double)p->s.m;
    const int64_t least = p->s.k > KC ? LONG * mr : mr;
    p->rows = rows >= (double)p->s.m ? p->s.m : (int64_t)rows / mr * mr;
    if (p->rows < least) p->rows = least;
    p->rows = even_rows(p, g->batches, mr, worth);
    p->cols = !p->spreads && (p->s.m > mr || cols >= (double)p->s.n) ? p->s.n
              : cols < 512                                           ? 512
                                                                     : (int64_t)cols / 64 * 64;
    p->pieces_n = (p->s.n + p->cols - 1) / p->cols;
    if (p->pieces_n > 1 && p->pieces_n < LONG * p->workers) { /* as much for each worker */
        p->pieces_n = round_up(p->pieces_n, p->workers);
        p->cols = round_up((p->s.n + p->pieces_n - 1) / p->pieces_n, 64);
        p->pieces_n = (p->s.n + p->cols - 1) / p->cols;
    }
    if (p->spreads) {
        p->tile_row = p->cols + VECTOR / item; /* not a power of two, which maps to one set */
        p->own = mr * p->tile_row;
    }
    plan->scratch = (size_t)(p->workers * p->own * item);
    p->pieces = (p->s.m + p->rows - 1) / p->rows * p->pieces_n;
    p->grain = 1 + (int64_t)((double)worth /
                             ((double)p->rows * (double)p->cols * (double)(p->s.k + 1) + 64));
    p->round_k = ROUND / (p->rows * gop_smaller(p->cols, p->s.n) + LOADED) / (CHAINS * KC);
    p->round_k = (p->round_k + 1) * CHAINS * KC;
    return GOP_OK;
}

static const gop_row matmul_direct_row = {
    .name = "direct",
    .note =
        "small and thin products are multiplied where they lie: nothing is packed but a small "
        "b that lies askew, and lanes past the last column are masked",
    .role = GOP_CONFORMING,
    .launch = {[GOP_FLOAT32] = matmul_direct,
               [GOP_FLOAT64] = matmul_direct,
               [GOP_COMPLEX64] = matmul_direct,
               [GOP_COMPLEX128] = matmul_direct},
    .plan = matmul_direct_plan,
};

#endif
