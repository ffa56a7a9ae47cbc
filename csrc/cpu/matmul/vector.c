/*
 * vector.c - matmul with so few rows that each value of b is used once or a few times.
 *
 * Such a product is memory-bound, so b is read once, in its order in memory. If l is contiguous
 * in its lines (`dots`), an output is a sum over lanes that are folded at the end. If outputs
 * are (`sweeps`), terms are added to a row of partial sums that stays in the L1 cache.
 */
#ifdef D

#if (IS_FLOAT && !IS_HALF) || IS_COMPLEX
/* Adds `count` numbers of `lines` lines of b, each multiplied by a value of each of `rows` rows
 * of a, to `rows` rows of sums. Products with imaginary parts are summed separately first. */
static ALWAYS_INLINE void FN(sweep_vector)(const int rows, const int lines, int64_t count,
                                           V (*x)[SWEEP_LINES][EACH], const R *b,
                                           int64_t b_line, R *sums, int64_t sums_row,
                                           int is_first)
{
    V line[SWEEP_LINES];
#pragma GCC unroll 8
    for (int l = 0; l < lines; l++) line[l] = (V)UFN(load)(b + l * b_line, count);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
        R *const at = sums + i * sums_row;
        V sum = is_first ? (V){0} : (V)UFN(load)(at, count);
#pragma GCC unroll 8
        for (int l = 0; l < lines; l++) sum = VFN(fma)(x[i][l][0], line[l], sum);
#if IS_COMPLEX
        V turned = {0};
#pragma GCC unroll 8
        for (int l = 0; l < lines; l++) turned = VFN(fma)(x[i][l][1], line[l], turned);
        sum += VFN(times_i)(turned);
#endif
        UFN(store)(at, count, (U)sum);
    }
}

/* The same for lines of `width` real numbers. */
static ALWAYS_INLINE void FN(sweep_lines)(const int rows, const int lines, int64_t width,
                                          const T *a, const R *b, int64_t b_line, R *sums,
                                          int64_t sums_row, int is_first)
{
    V x[SWEEP_ROWS][SWEEP_LINES][EACH];
    int64_t j = 0;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int l = 0; l < lines; l++)
#pragma GCC unroll 2
            for (int part = 0; part < EACH; part++)
                x[i][l][part] = VECTOR_SPLAT(V, ((const R *)(a + i * KC + l))[part]);
    for (; j + FN(N) <= width; j += FN(N))
        FN(sweep_vector)(rows, lines, FN(N), x, b + j, b_line, sums + j, sums_row, is_first);
    if (j < width) FN(sweep_vector)
    (rows, lines, width - j, x, b + j, b_line, sums + j, sums_row, is_first);
}

/* Processes all lines at once if they are SWEEP_LINES, else one after the other. */
static void FN(sweep)(int rows, int lines, int64_t width, const T *a, const T *lines_of_b,
                      int64_t b_line, T *to, int64_t sums_row, int is_first)
{
    const R *const b = (const R *)lines_of_b;
    R *const sums = (R *)to;
    width *= EACH, b_line *= EACH, sums_row *= EACH;
#define CASE(r)                                                                                \
    case r:                                                                                    \
        FN(sweep_lines)(r, SWEEP_LINES, width, a, b, b_line, sums, sums_row, is_first);        \
        return;
    if (lines == SWEEP_LINES) switch (rows) {
            CASE(1) CASE(2) CASE(3) CASE(4)
        }
#undef CASE
    for (int i = 0; i < rows; i++)
        for (int l = 0; l < lines; l++) FN(sweep_lines)
    (1, 1, width, a + i * KC + l, b + l * b_line, b_line, sums + i * sums_row, sums_row,
     is_first && l == 0);
}

/* Computes `width` columns of all rows, over kc values of l. `x` is scratch for a's values. */
static void FN(sweeps)(const thin *p, int64_t kc, const T *a, const T *b, int64_t width, T *x,
                       T *sums, int64_t sums_row)
{
    for (int64_t i = 0; i < p->s.m; i++)
        for (int64_t l = 0; l < kc; l++) x[i * KC + l] = a[i * p->s.a_row + l * p->s.a_col];
    for (int64_t l = 0; l < kc; l += SWEEP_LINES)
        for (int64_t i = 0; i < p->s.m; i += SWEEP_ROWS) FN(sweep)
    ((int)gop_smaller(p->s.m - i, SWEEP_ROWS), (int)gop_smaller(kc - l, SWEEP_LINES), width,
     x + i * KC + l, b + l * p->s.b_row, p->s.b_row, sums + i * sums_row, sums_row, l == 0);
}

/* Copies a's rows, `apart` each. Those that lie across l are transposed in registers. */
static void FN(pack_rows)(const thin *p, int64_t count, const T *x, T *own, int64_t apart)
{
#if !IS_COMPLEX
    enum { N = FN(N) };
    for (int64_t l = 0; l < count && p->s.a_row == 1 && p->s.m <= N / 2; l += N) {
        U lines[N / 2];
#pragma GCC unroll 8
        for (int i = 0; i < N / 2; i++) {
            const T *const low = x + (l + i) * p->s.a_col, *const high =
                                                               low + N / 2 * p->s.a_col;
            lines[i] = UFN(join)(l + i < count ? UFN(load)(low, p->s.m) : (U){0},
                                 l + i + N / 2 < count ? UFN(load)(high, p->s.m) : (U){0}, 0);
        }
        UFN(squares)(lines);
#pragma GCC unroll 8
        for (int i = 0; i < N / 2; i++)
            if (i < p->s.m) UFN(store)(own + i * apart + l, N, lines[i]);
    }
    if (p->s.a_row == 1 && p->s.m <= N / 2) return;
    if (p->s.a_row == 1 && p->s.a_col != 1) {
        FN(pack_squares)(x, p->s.a_col, count, p->s.m, apart, own);
        return;
    }
#endif
    for (int64_t i = 0; i < p->s.m; i++)
        if (p->s.a_col == 1)
            memcpy(own + i * apart, x + i * p->s.a_row, (size_t)count * sizeof(T));
        else
            for (int64_t l = 0; l < count; l++)
                own[i * apart + l] = x[i * p->s.a_row + l * p->s.a_col];
}

/* Computes pieces [begin, end) of all products. */
static void FN(vector_pieces)(void *argument, int64_t begin, int64_t end, int worker)
{
    const thin *const p = argument;
    T *const own = (T *)(void *)(p->scratch + (size_t)worker * p->own);
    int64_t packed = -1; /* the part of a that `own` holds */
    int64_t piece = begin % p->pieces;
    walk with = walk_from(p->gemm, begin / p->pieces);
    for (int64_t t = begin; t < end; t++, piece++) {
        if (piece == p->pieces) walk_on(p->gemm, &with), piece = 0;
        const int64_t across = p->segments > 1 ? piece / p->segments : piece;
        const int64_t segment = piece - across * p->segments, l0 = segment * p->segment;
        const int64_t count = gop_smaller(p->s.k - l0, p->segment), j0 = across * p->width;
        const int64_t width = gop_smaller(p->s.n - j0, p->width);
        const int64_t part = with.batch * p->segments + segment, *const offset = with.offset;
        int64_t row = p->s.out_row, step = p->s.out_col;
        const T *x = (const T *)p->a + offset[p->s.is_swapped] + l0 * p->s.a_col;
        const T *b = (const T *)p->b + offset[!p->s.is_swapped] + j0 * p->s.b_col;
        T *out = (T *)p->out + offset[2] + j0 * step;
        b += l0 * p->s.b_row;
        if (p->segments > 1) {
            out = (T *)(void *)p->sums + part * p->s.m * p->s.n + j0;
            row = p->s.n, step = 1;
        }
        if (!p->is_dots) {
            FN(sweeps)(p, count, x, b, width, own, out, row);
            continue;
        }
        const int64_t apart = p->is_packed ? round_up(count, APART) + APART : p->s.a_row;
        if (p->is_packed) {
            if (packed != part) FN(pack_rows)(p, count, x, own, apart);
            x = own;
        }
#if !IS_COMPLEX
        if (p->across > 0) {
            FN(pack_squares)(b, p->s.b_col, width, count, p->across, own);
            FN(dots_across)(p->s.m, width, count, own, p->across, x, apart, out, row, step);
            continue;
        }
#endif
        if (p->is_few) FN(dots_of_few)
        (p->s.m, width, count, b, p->s.b_col, x, apart, out, row, step, p->is_mirrored);
        else FN(dots_of_rows)(p->s.m, width, count, b, p->s.b_col, x, apart, out, row, step);
        packed = part;
        for (int64_t i = 1; i < p->s.m && p->is_mirrored && p->segments == 1; i++)
            for (int64_t j = 0; j < i; j++) out[i * row + j * step] = out[j * row + i * step];
    }
}

/* Adds the segments of each output, first to last, for parts [begin, end) of all products. */
static void FN(vector_join)(void *argument, int64_t begin, int64_t end, int worker)
{
    const thin *const p = argument;
    const int64_t all = p->s.m * p->s.n, parts = (all + JOINED - 1) / JOINED;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        const int64_t first = t % parts * JOINED, count = gop_smaller(all - first, JOINED);
        const T *const from =
            (const T *)(const void *)p->sums + t / parts * p->segments * all + first;
        T line[JOINED];
        R *const sum = (R *)line;
        memcpy(line, from, (size_t)count * sizeof(T));
        for (int64_t s = 1; s < p->segments; s++)
            for (int64_t x = 0; x < EACH * count; x++)
                sum[x] += ((const R *)(from + s * all))[x];
        int64_t a, b, out;
        batch_offsets(p->gemm, t / parts, &a, &b, &out);
        for (int64_t x = 0; x < count; x++) {
            const int64_t i = (first + x) / p->s.n, j = (first + x) % p->s.n;
            T *const to = (T *)p->out + out;
            if (p->is_mirrored && i > j) continue;
            to[i * p->s.out_row + j * p->s.out_col] = line[x];
            if (p->is_mirrored) to[j * p->s.out_row + i * p->s.out_col] = line[x];
        }
    }
}
#endif

#else
#include "cpu/matmul/dots.h"
#include "cpu/matmul/panels.h"
#include "cpu/matmul/tiles.h"

/* dots: terms of a segment; most rows of complex numbers. sweeps: lines of b and rows of a at a
 * time; fewest columns of a piece; most rows; most bytes of sums. The last: sums that are added
 * at a time. */
enum { SEGMENT = 1 << 15, DOT_ROWS = 2 };
enum {
    SWEEP_LINES = 8,
    SWEEP_ROWS = 4,
    SWEEP_WIDTH = 512,
    SWEPT_ROWS = 8,
    SWEPT_BYTES = 1 << 14,
    JOINED = 512
};

/* The plan: a piece has `width` outputs and a segment of l (of KC terms in sweeps). */
typedef struct thin {
    sides s;
    int is_dots, is_packed;  /* a's rows are packed one after the other */
    int is_few, is_mirrored; /* few lines times few; a times its transpose */
    int64_t across; /* few lines whose columns are lanes: the distance of terms; else 0 */
    int64_t width, segment, segments, pieces;
    size_t own; /* bytes of a worker's scratch */
    int workers;
    const gop_gemm *gemm; /* this and the following belong to one call */
    const void *a, *b;
    void *out;
    char *scratch, *sums;
} thin;

#define GOP_TPL "cpu/matmul/vector.c"
#include "cpu/runtime/each_dtype.inc"

#define VECTOR_ENTRY(D)                                                                        \
    {                                                                                          \
        vector_pieces_##D, vector_join_##D                                                     \
    }
static const struct {
    gop_body pieces, join;
} VECTOR_OF[GOP_NDTYPES] = {[GOP_FLOAT32] = VECTOR_ENTRY(float32),
                            [GOP_FLOAT64] = VECTOR_ENTRY(float64),
                            [GOP_COMPLEX64] = VECTOR_ENTRY(complex64),
                            [GOP_COMPLEX128] = VECTOR_ENTRY(complex128)};

/* Multiply-adds that are worth a thread: fewer of few lines, and of complex numbers, each of
 * which is four. */
static int64_t worth_a_thread(const thin *p, gop_dtype dtype)
{
    const int64_t real = 1 << (p->is_few ? 15 : 16);
    return gop_dtype_kind(dtype) == 'c' ? real / 4 : real;
}

static gop_status matmul_vector(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    enum { ADDED = 1 << 16 }; /* additions that are worth a thread */
    thin call = *GOP_OWN(const thin, task->plan);
    const gop_dtype dtype = task->out[0].dtype;
    (void)ctx, (void)step;
    call.gemm = &task->geometry.gemm;
    call.a = task->in[call.s.is_swapped].data;
    call.b = task->in[!call.s.is_swapped].data;
    call.out = task->out[0].data;
    call.scratch = task->scratch;
    call.sums = call.scratch + (size_t)call.workers * call.own;
    const int64_t width = gop_smaller(call.width, call.s.n);
    const int64_t terms = call.s.m * gop_smaller(call.s.k, call.segment);
    const int64_t batches = call.gemm->batches, outputs = call.s.m * call.s.n;
    GOP_TRY(gop_parallel_by(call.workers, batches * call.pieces,
                            1 + worth_a_thread(&call, dtype) / (width * terms + 64),
                            VECTOR_OF[dtype].pieces, &call));
    if (call.segments == 1) return GOP_OK;
    return gop_parallel_by(call.workers, batches * ((outputs + JOINED - 1) / JOINED),
                           1 + ADDED / (call.segments * gop_smaller(outputs, JOINED)),
                           VECTOR_OF[dtype].join, &call);
}

enum { DOTS = 1, FEW_DOTS, SWEEPS }; /* ways to read b */

static int way_of(const sides *p, gop_dtype dtype)
{
    enum {
        SHORTEST = 64,
        SHORT = 8,
        DOTTED_ROWS = 8,
        LINES = 16,
        CACHED = 512 << 10,
        NARROWEST = 4,
        NARROW = 128, /* bytes; those of a line that direct spreads */
        LINE = 64,
        TALL = 1 << 16
    };
    const int64_t item = gop_dtype_size(dtype);
    const int is_real = gop_dtype_kind(dtype) != 'c';
    const int is_cached = p->n <= CACHED / item / (p->k + 1);
    const int64_t most = !is_real ? DOT_ROWS : is_cached ? MOST_ROWS : MOST_ROWS - 1;
    if (p->m <= most && p->b_row == 1 && p->k >= SHORTEST && (p->m == 1 || p->n >= LINES))
        return DOTS;
    if (p->a_col == 1 && p->b_row == 1 && p->k >= FEW_TERMS && p->k >= 2 * p->n &&
        p->m <= p->n && p->n <= (is_real ? FEW_LINES : FEW_COMPLEX))
        return FEW_DOTS;
    /* Short lines; two to four rows that are packed, times a few lines; up to eight rows. */
    if (p->b_row == 1 && p->m == 1 && p->k >= SHORT && p->n >= SHORT) return DOTS;
    if (is_real && p->b_row == 1 && p->m <= most && p->k >= FEW_TERMS &&
        (p->n >= LINES || (p->n > 1 && p->a_col != 1 && p->k >= 2 * SHORTEST &&
                           (p->k < 32 * SHORTEST || p->out_row != 1))))
        return DOTS;
    /* Few rows across l, which are packed: what direct would read, or pack, term by term. */
    const int are_askew =
        p->b_row == 1 && p->a_col != 1 && p->n > 1 && p->m * item < LINE &&
        (p->out_row != 1 || (item == 4 && p->n >= SHORT && p->k >= 64 * SHORTEST));
    if (is_real && p->b_row == 1 && p->m <= DOTTED_ROWS && p->k >= 4 * SHORTEST &&
        (p->n > FEW_LINES || are_askew))
        return DOTS;
    if (!is_real && are_askew && p->m <= DOT_ROWS && p->k >= 2 * SHORTEST) return DOTS;
    const int is_large = p->m == 1 || p->n * item > CACHED / (p->k + 1) * 4;
    /* What direct sums in registers, by at most two blocks of 8, 4, 2 or 1 vectors on AVX2;
     * only real numbers have the same bits there. */
    const int are_two = VECTOR == 32 && gop_ceil(p->n * item, VECTOR) % 8 != 7;
    const int64_t narrow = !is_real      ? NARROW / item
                           : are_two     ? SHORTEST
                           : VECTOR > 16 ? 4 * VECTOR / item
                                         : NARROWEST - 1;
    const int is_wide = p->n >= SHORTEST || (p->m == 1 && p->n > narrow && p->k >= TALL / p->n);
    return p->m <= SWEPT_ROWS && p->k >= (p->m == 1 ? 1 : SWEEP_LINES) && p->b_col == 1 &&
                   p->out_col == 1 && is_wide && is_large
               ? SWEEPS
               : 0;
}

/* The columns of a piece of sweeps: as many as keep the sums in the L1 cache, but few enough to
 * give every worker a piece. */
static int64_t swept_width(const thin *p, int64_t batches, int64_t item)
{
    enum { ENOUGH = 4, LANES = 64 }; /* pieces for each worker */
    const int64_t fit = SWEPT_BYTES / (p->s.m * item),
                  most = fit < SWEEP_WIDTH ? SWEEP_WIDTH : fit;
    int64_t across = (p->s.n + most - 1) / most;
    while (p->s.n / across > SWEEP_WIDTH && batches * p->segments * across % p->workers != 0 &&
           batches * p->segments * across < ENOUGH * p->workers)
        across++;
    return round_up((p->s.n + across - 1) / across, LANES);
}

/* The lines of a piece of dots with one row: fewer where they are so long that these are worth
 * a thread. */
static int64_t dotted_width(int64_t worth, int64_t k)
{
    enum { MOST = 64 };
    const int64_t lines = worth / k / DOT_LINES * DOT_LINES;
    return lines > MOST ? MOST : lines > DOT_LINES ? lines : DOT_LINES;
}

static gop_status matmul_vector_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    enum { ACROSS_ROWS = 4, ACROSS_TERMS = 256, ACROSS_EACH = 16 }; /* where that pays */
    thin *const p = GOP_OWN(thin, plan);
    const gop_gemm *g = &task->geometry.gemm;
    const gop_dtype dtype = task->out[0].dtype;
    const int64_t item = gop_dtype_size(dtype);
    const int is_real = gop_dtype_kind(dtype) != 'c';
    sides s = sides_of(g, 0);
    int way = way_of(&s, dtype);
    if (!way) {
        s = sides_of(g, 1);
        way = way_of(&s, dtype);
    }
    if (!way)
        return gop_fail(
            GOP_REFUSED,
            "matmul: kernel 'vector' takes a matrix times a vector, or times at most %d "
            "vectors "
            "(if neighbouring outputs read neighbouring elements of the matrix), or a few long "
            "rows times a few long columns, got (%lld, %lld) @ (%lld, %lld)",
            SWEPT_ROWS, (long long)g->m, (long long)g->k, (long long)g->k, (long long)g->n);
    *p = (thin){.s = s};
    p->is_few = way == FEW_DOTS;
    p->is_dots = way != SWEEPS;
    p->is_mirrored = p->is_few && is_own_transpose(task->call);
    p->workers = ctx->info.processors;
    const int are_fewest = is_real && s.n <= FEWEST_LINES;
    p->segment = p->is_few    ? (are_fewest ? FEWEST_BYTES : FEW_BYTES) / item
                 : p->is_dots ? SEGMENT
                              : KC;
    p->segments = (s.k + p->segment - 1) / p->segment;
    p->width = p->is_few     ? s.n
               : !p->is_dots ? swept_width(p, g->batches, item)
               : s.m == 1    ? dotted_width(worth_a_thread(p, dtype), s.k)
                             : 16 / s.m * 6;
    p->pieces = (s.n + p->width - 1) / p->width * p->segments;
    /* Rows that are a power of two apart map to one cache set, so several rows are packed. */
    const int meet = s.a_row * item % FEW_MEET == 0;
    p->is_packed =
        p->is_dots && (s.a_col != 1 || (p->is_few ? s.n > FEW_APART && meet : s.m > 1));
    /* Short lines fold more than they multiply. */
    if (VECTOR == 32 && p->is_few && is_real && !p->is_packed && s.m >= ACROSS_ROWS &&
        s.n > VECTOR / item && s.k <= gop_smaller(ACROSS_TERMS, ACROSS_EACH * s.m))
        p->across = round_up(s.n, 2 * VECTOR / item);
    p->own = (size_t)(item * s.m *
                      (!p->is_dots    ? KC
                       : p->is_packed ? round_up(gop_smaller(s.k, p->segment), APART) + APART
                                      : 0));
    if (p->across) p->own = (size_t)(item * p->across * s.k);
    plan->scratch = (size_t)p->workers * p->own;
    if (p->segments > 1) plan->scratch += (size_t)(g->batches * s.m * s.n * p->segments * item);
    return GOP_OK;
}

static const gop_row matmul_vector_row = {
    .name = "vector",
    .note = "where memory decides b is read once, line by line as it lies: sums over lanes "
            "where l runs along its lines, else terms added to a line of sums",
    .role = GOP_CONFORMING,
    .launch = {[GOP_FLOAT32] = matmul_vector,
               [GOP_FLOAT64] = matmul_vector,
               [GOP_COMPLEX64] = matmul_vector,
               [GOP_COMPLEX128] = matmul_vector},
    .plan = matmul_vector_plan,
};

#endif
