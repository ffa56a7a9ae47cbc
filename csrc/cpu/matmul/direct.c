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
 * `below` is the first row's index minus the first column's: of a product that is mirrored,
 * vectors whose columns are all below the diagonal are left out. */
static void FN(direct_panels)(int64_t rows, int64_t cols, int64_t below, int64_t kc, const R *a,
                              const R *b, R *out, const direct *p, R *own, int is_first)
{
    enum { COLS = FN(LANES) / EACH };
    const int is_narrow = EACH * cols <= FN(LANES) && p->s.k >= LONG_ROW;
    const int64_t most = is_narrow ? FN(NARROW_MR) : FN(MR);
    const int64_t panels = (rows + most - 1) / most;
    for (int64_t panel = 0; panel < panels; panel++) {
        const int64_t i = rows * panel / panels, to = rows * (panel + 1) / panels;
        const R *const from = a + EACH * i * p->s.a_row;
        R *const to_row = out + EACH * i * p->s.out_row;
        const int64_t skip =
            p->is_mirrored && below + i > 0 ? EACH * ((below + i) / COLS * COLS) : 0;
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
        FN(direct_panel)
        ((int)(to - i), cols - skip / EACH, kc, from, b + skip, to_row + skip, p, is_first);
    }
}

/* The same by the way that the plan has. */
static void FN(direct_terms)(int64_t rows, int64_t cols, int64_t below, int64_t kc, const T *a,
                             const T *b, T *out, const direct *p, T *own, int is_first)
{
    if (p->is_turned)
        turned((int)cols, rows, kc, (const float *)a, &p->s, (const float *)b, (float *)out,
               is_first);
    else FN(direct_panels)
    (rows, cols, below, kc, (const R *)a, (const R *)b, (R *)out, p, (R *)own, is_first);
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
            FN(direct_terms)
            (rows, cols, i0 - j0, kc, a + l0 * p->s.a_col, b + l0 * p->s.b_row, out, p, own,
             l0 == 0);
            l0 += kc + (kc == 0);
        }
        if (piece + 1 == p->pieces) walk_on(p->gemm, &at);
    }
}

/* Computes blocks [begin, end) of KC terms of all products, for the round's values of l. Each
 * has its own sums; those of CHAINS blocks run at the same time if they are few. */
static void FN(direct_shares)(void *argument, int64_t begin, int64_t end, int worker)
{
    const direct *const p = argument;
    const int64_t m = p->s.m, n = p->s.n, vectors = gop_ceil(EACH * n, FN(LANES));
    const int is_few = m * vectors <= FN(FEW);
    direct apart = *p;
    apart.s.out_row = n;
    (void)worker;
    for (int64_t t = begin; t < end;) {
        int64_t offset[3];
        batch_offsets(p->gemm, t / p->blocks, &offset[0], &offset[1], &offset[2]);
        const int64_t l0 = p->l_begin + t % p->blocks * KC, left = p->l_end - l0;
        const T *const a = (const T *)p->a + offset[p->s.is_swapped] + l0 * p->s.a_col;
        const T *const b = (const T *)p->b + offset[!p->s.is_swapped] + l0 * p->s.b_row;
        T *const sums = (T *)p->scratch + t * p->apart;
        if (is_few && left >= CHAINS * KC && end - t >= CHAINS) {
            FN(direct_chains)
            ((int)m, (int)vectors, n, (const R *)a, (const R *)b, (R *)sums, &apart, 1);
            t += CHAINS;
        } else {
            FN(direct_terms)(m, n, 0, gop_smaller(left, KC), a, b, sums, &apart, NULL, 1);
            t++;
        }
    }
}

/* Adds the round's blocks to rows [begin, end) of all products, first to last. */
static void FN(direct_join)(void *argument, int64_t begin, int64_t end, int worker)
{
    const direct *const p = argument;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        int64_t a, b, out;
        batch_offsets(p->gemm, t / p->s.m, &a, &b, &out);
        const int64_t i = t % p->s.m, first = p->is_mirrored ? i : 0;
        const int64_t count = EACH * (p->s.n - first);
        R *const to = (R *)((T *)p->out + out + i * p->s.out_row + first);
        const T *from =
            (const T *)p->scratch + t / p->s.m * p->blocks * p->apart + i * p->s.n + first;
        for (int64_t block = 0; block < p->blocks; block++, from += p->apart)
            for (int64_t x = 0; x < count; x++)
                to[x] = p->l_begin == 0 && block == 0 ? ((const R *)from)[x]
                                                      : to[x] + ((const R *)from)[x];
    }
}
#endif

#else
#include "cpu/matmul/direct_blocks.h"

enum { DIRECT_PIECE = 1 << 20 }; /* bytes of terms that are worth a thread */

/* Transposes `lines` contiguous lines of k items to k lines that are `width` apart, a multiple
 * of a vector. */
static void lay_squares(int item, const void *from, int64_t step, int64_t lines, int64_t k,
                        int64_t width, void *to)
{
    if (item == 4) pack_squares_float32(from, step, lines, k, width, to);
    else pack_squares_float64(from, step, lines, k, width, to);
}

#define GOP_TPL "cpu/matmul/direct.c"
#include "cpu/runtime/each_dtype.inc"

#define DIRECT_ENTRY(D)                                                                        \
    {                                                                                          \
        direct_pieces_##D, direct_shares_##D, direct_join_##D                                  \
    }
static const struct {
    gop_body pieces, shares, join;
} DIRECT[GOP_NDTYPES] = {[GOP_FLOAT32] = DIRECT_ENTRY(float32),
                         [GOP_FLOAT64] = DIRECT_ENTRY(float64),
                         [GOP_COMPLEX64] = DIRECT_ENTRY(complex64),
                         [GOP_COMPLEX128] = DIRECT_ENTRY(complex128)};

/* Computes one round. If workers share sums, they have blocks of terms. */
static gop_status direct_round(direct *call, gop_dtype dtype)
{
    enum { WORTH = 1 << 15, ADDED = 1 << 15 }; /* products, and additions, worth a thread */
    const int64_t batches = call->gemm->batches;
    if (!call->apart)
        return gop_parallel_by(call->workers, batches * call->pieces, call->grain,
                               DIRECT[dtype].pieces, call);
    call->blocks = gop_ceil(call->l_end - call->l_begin, KC);
    GOP_TRY(gop_parallel_by(call->workers, batches * call->blocks,
                            1 + WORTH / (call->apart * KC), DIRECT[dtype].shares, call));
    return gop_parallel_by(call->workers, batches * call->s.m,
                           1 + ADDED / (call->s.n * call->blocks), DIRECT[dtype].join, call);
}

static gop_status matmul_direct(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    direct call = *GOP_OWN(const direct, task->plan);
    const gop_dtype dtype = task->out[0].dtype;
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
        GOP_TRY(direct_round(&call, dtype));
    } while (call.l_end < call.s.k);
    if (!call.is_mirrored) return GOP_OK;
    const product square = {.s = call.s, .workers = call.workers};
    rounds mirrored = {.plan = &square, .gemm = call.gemm, .out = call.out};
    return mirror_squares(&mirrored, &PACKINGS[dtype]);
}

enum { AS_IT_LIES = 1, SPREAD, LAID_OUT }; /* ways to multiply in place */

/* Whether b stays in the L2 cache or is read once. Long columns of b are in too many pages for
 * shorter vectors. For complex numbers the choice decides bits, so it is the same at every
 * instruction-set level. */
static int is_near(const sides *s, int64_t item, int rows, int is_complex)
{
    enum { CACHED = 256 << 10, SHORT = 64 };
    const int64_t most = VECTOR == 64 || is_complex || s->k <= SHORT ? CACHED : CACHED / 2;
    return s->m <= rows || s->n * item <= most / (gop_smaller(s->k, KC) + 1);
}

/* Whether columns of b and of the result are neighbours. */
static int is_plain(const sides *s)
{
    return s->b_col == 1 && s->out_col == 1;
}

/* Whether x's columns fill as much of their vectors as y's. */
static int is_as_full(const sides *x, const sides *y, int64_t item)
{
    return x->n * round_up(y->n, VECTOR / item) >= y->n * round_up(x->n, VECTOR / item);
}

/* How a product is multiplied in place; 0: it is not. Writes its sides. Sums are spread over
 * columns of out that are apart if b would be copied otherwise, or its vectors be less full. */
static int direct_way(const gop_gemm *g, gop_dtype dtype, sides *s)
{
    enum { SMALL = 1 << 13, LEAST_ROWS = 2, LEAST_LINE = 64, LEAST_TERMS = 16, SHORT = 64 };
    /* Where a larger b is laid out: its bytes, those of a line, and rows that use it. */
    enum { LAID = 2 << 20, NARROW = 128, REUSED = 32, COMPLEX_REUSED = 3 };
    const int64_t item = gop_dtype_size(dtype);
    const int is_complex = gop_dtype_kind(dtype) == 'c';
    const int rows = is_complex ? COMPLEX_ROWS : ROWS;
    const sides both[2] = {sides_of(g, 0), sides_of(g, 1)};
    for (int i = 0; i < 2 && !is_complex; i++) {
        *s = both[i];
        if (s->m > 1 && s->m <= 2 * rows && s->n * item >= LEAST_LINE && s->k > 1 &&
            s->b_col == 1 && s->b_row != 1 && s->out_col != 1 &&
            (s->k >= LEAST_TERMS || 2 * s->m * item <= VECTOR) &&
            is_near(s, item, rows, is_complex) &&
            !(s->k <= SHORT && is_plain(&both[!i]) &&
              is_near(&both[!i], item, rows, is_complex) &&
              (is_turned(&both[!i], dtype) || is_as_full(&both[!i], s, item))))
            return SPREAD;
    }
    for (int i = 0; i < 2; i++) {
        *s = both[i];
        if ((s->n == 1 ? s->a_col == 1 : s->b_col == 1 && s->out_col == 1) &&
            is_near(s, item, rows, is_complex))
            return AS_IT_LIES;
    }
    for (int i = 0; i < 2; i++) {
        *s = both[i];
        if (s->n == 1 && is_near(s, item, rows, is_complex)) return AS_IT_LIES;
    }
    for (int i = 0; i < 2; i++) {
        *s = both[i];
        if (s->out_col != 1 || s->m < LEAST_ROWS || s->k == 0) continue;
        if (s->n <= SMALL / s->k) return LAID_OUT;
        const int pays = is_complex ? s->m >= COMPLEX_REUSED
                                    : s->m >= REUSED && s->a_col == 1 && s->n * item <= NARROW;
        if (pays && round_up(s->n * item, 64) <= LAID / s->k && is_near(s, item, 0, is_complex))
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

/* Whether workers share sums: there are too few outputs for all of them, or, as of a times its
 * transpose, some have more work than others. */
static int shares_sums(const direct *p, int64_t batches, int64_t least)
{
    enum { MOST = 1 << 14, BLOCKS = 3 };
    const int is_uneven = batches * p->pieces < p->workers || (p->is_mirrored && batches == 1);
    return p->workers > 1 && is_uneven && !p->spreads && !p->lays_out &&
           p->s.k >= BLOCKS * KC && p->s.m <= MOST / p->s.n &&
           p->s.m * p->s.n >= least / p->s.k;
}

static gop_status matmul_direct_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    enum { LONG = 8 };                     /* panels of a for which a block of b is reused */
    enum { ROUND = 1 << 24, LOADED = 16 }; /* work of a piece in a round; cost of a term */
    enum { MOST_SUMS = 1 << 22 };          /* bytes of a round's blocks that are shared */
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
    p->is_mirrored = is_own_transpose(task->call) && s.m == s.n && s.m > 1 && !p->spreads &&
                     !p->is_turned && !p->is_half;
    plan->scratch = (size_t)(p->workers * p->own * item);
    p->pieces = (p->s.m + p->rows - 1) / p->rows * p->pieces_n;
    p->grain = 1 + (int64_t)((double)worth /
                             ((double)p->rows * (double)p->cols * (double)(p->s.k + 1) + 64));
    p->round_k = ROUND / (p->rows * gop_smaller(p->cols, p->s.n) + LOADED) / (CHAINS * KC);
    p->round_k = (p->round_k + 1) * CHAINS * KC;
    if (shares_sums(p, g->batches, 2 * worth)) {
        p->apart = s.m * s.n;
        const int64_t fit = gop_smaller(MOST_SUMS / (p->apart * item) * KC,
                                        ROUND / (p->apart + LOADED) * p->workers);
        const int64_t group = CHAINS * KC * p->workers;
        p->round_k = gop_smaller(round_up(s.k, group), (fit / group + 1) * group);
        plan->scratch = (size_t)(g->batches * (p->round_k / KC) * p->apart * item);
    }
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
