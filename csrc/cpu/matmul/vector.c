/*
 * vector.c - matmul with so few rows that each value of b is used a time or two.
 *
 * Memory decides, so b is read once, line by line as it lies. Where l runs along its lines,
 * (`dots`) an output is a sum over lanes, which fold at the end. Where outputs do (`sweeps`),
 * terms are added to a line of partial sums that stays in the first cache.
 */
#ifdef D

#if (IS_FLOAT && !IS_HALF) || IS_COMPLEX
/* Adds `lines` lines of b, each times a value of each of `rows` rows of a, to lines of `width`
 * real sums; products with imaginary parts are added apart first. */
static ALWAYS_INLINE void FN(sweep_lines)(const int rows, const int lines, int64_t width,
                                          const T *a, const R *b, int64_t b_line, R *sums,
                                          int64_t sums_row, int is_first)
{
    V x[SWEEP_ROWS][SWEEP_LINES][EACH];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int l = 0; l < lines; l++)
#pragma GCC unroll 2
            for (int part = 0; part < EACH; part++)
                x[i][l][part] = VECTOR_SPLAT(V, ((const R *)(a + i * KC + l))[part]);
    for (int64_t j = 0; j < width; j += FN(N)) {
        const int64_t count = lanes_left(width - j, FN(N));
        V line[SWEEP_LINES];
#pragma GCC unroll 8
        for (int l = 0; l < lines; l++) line[l] = (V)UFN(load)(b + l * b_line + j, count);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            R *const at = sums + i * sums_row + j;
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
}

/* All `lines` at once where they are SWEEP_LINES, else one after the other. */
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

/* `width` columns of all rows: chains of KC terms, as in the packed kernels. `own` holds KC
 * values of each row of a, then a line of sums for each. */
static void FN(sweeps)(const thin *p, const T *a, const T *b, T *out, int64_t width, T *own)
{
    T *const x = own, *const chain = own + p->s.m * KC;
    int64_t l0 = 0;
    do {
        const int64_t kc = gop_smaller(p->s.k - l0, KC);
        T *const sums = l0 == 0 ? out : chain;
        const int64_t sums_row = l0 == 0 ? p->s.out_row : p->width;
        for (int64_t i = 0; i < p->s.m; i++)
            for (int64_t l = 0; l < kc; l++)
                x[i * KC + l] = a[i * p->s.a_row + (l0 + l) * p->s.a_col];
        for (int64_t l = 0; l < kc; l += SWEEP_LINES)
            for (int64_t i = 0; i < p->s.m; i += SWEEP_ROWS) FN(sweep)
        ((int)gop_smaller(p->s.m - i, SWEEP_ROWS), (int)gop_smaller(kc - l, SWEEP_LINES), width,
         x + i * KC + l, b + (l0 + l) * p->s.b_row, p->s.b_row, sums + i * sums_row, sums_row,
         l == 0);
        if (l0 > 0)
            for (int64_t i = 0; i < p->s.m; i++)
                for (int64_t j = 0; j < EACH * width; j++)
                    ((R *)(out + i * p->s.out_row))[j] += ((R *)(chain + i * p->width))[j];
        l0 += kc;
    } while (l0 < p->s.k);
}

/* Pieces [begin, end) of all products. */
static void FN(vector_pieces)(void *argument, int64_t begin, int64_t end, int worker)
{
    const thin *const p = argument;
    T *const own = (T *)(void *)(p->scratch + (size_t)worker * p->own);
    int64_t packed = -1; /* the part of a that `own` holds */
    for (int64_t t = begin; t < end; t++) {
        int64_t offset[3];
        batch_offsets(p->gemm, t / p->pieces, &offset[0], &offset[1], &offset[2]);
        const int64_t j0 = t % p->pieces / p->segments * p->width;
        const int64_t width = gop_smaller(p->s.n - j0, p->width);
        const T *a = (const T *)p->a + offset[p->s.is_swapped];
        const T *b = (const T *)p->b + offset[!p->s.is_swapped] + j0 * p->s.b_col;
        T *out = (T *)p->out + offset[2] + j0 * p->s.out_col;
        if (!p->is_dots) {
            FN(sweeps)(p, a, b, out, width, own);
            continue;
        }
        const int64_t segment = t % p->segments, l0 = segment * SEGMENT;
        const int64_t count = gop_smaller(p->s.k - l0, SEGMENT);
        const int64_t at = t / p->pieces, part = at * p->segments + segment;
        const T *x = a + l0 * p->s.a_col;
        const int64_t apart = count + APART;
        if (p->is_packed) {
            for (int64_t i = 0; i < p->s.m && packed != part; i++)
                for (int64_t l = 0; l < count; l++)
                    own[i * apart + l] = x[i * p->s.a_row + l * p->s.a_col];
            x = own;
        }
        int64_t row = p->s.out_row, step = p->s.out_col;
        if (p->segments > 1) {
            out = (T *)(void *)p->sums + (at * p->s.m * p->s.n + j0) * p->segments + segment;
            row = p->s.n * p->segments, step = p->segments;
        }
        FN(dots_of_rows)(p->s.m, width, count, b + l0, p->s.b_col, x, apart, out, row, step);
        packed = part;
    }
}

/* Adds the segments of each output, first to last. */
static void FN(vector_join)(const thin *p)
{
    const R *sums = (const R *)(const void *)p->sums;
    for (int64_t batch = 0; batch < p->gemm->batches; batch++) {
        int64_t a, b, out;
        batch_offsets(p->gemm, batch, &a, &b, &out);
        for (int64_t at = 0; at < p->s.m * p->s.n; at++, sums += EACH * p->segments) {
            const int64_t to = at / p->s.n * p->s.out_row + at % p->s.n * p->s.out_col;
            for (int part = 0; part < EACH; part++) {
                R sum = sums[part];
                for (int64_t s = 1; s < p->segments; s++) sum += sums[EACH * s + part];
                ((R *)((T *)p->out + out + to))[part] = sum;
            }
        }
    }
}
#endif

#else
#include "cpu/matmul/dots.h"

/* dots: terms of a segment, rows of complex numbers at most. sweeps: lines of b and rows of a
 * at a time; columns of a piece; rows, columns and sums at most. */
enum { SEGMENT = 1 << 15, DOT_ROWS = 2 };
enum {
    SWEEP_LINES = 8,
    SWEEP_ROWS = 4,
    SWEEP_WIDTH = 512,
    SWEPT_ROWS = 8,
    WIDEST = 2048,
    SUMS = 4096
};

/* The plan: pieces of `width` outputs and, for dots, a segment of l. */
typedef struct thin {
    sides s;
    int is_dots, is_packed; /* a's rows are copied, one behind the other */
    int64_t width, segments, pieces;
    size_t own; /* bytes of scratch of a worker */
    int workers;
    const gop_gemm *gemm; /* from here on, of one call */
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
    gop_body pieces;
    void (*join)(const thin *p);
} VECTOR_OF[GOP_NDTYPES] = {[GOP_FLOAT32] = VECTOR_ENTRY(float32),
                            [GOP_FLOAT64] = VECTOR_ENTRY(float64),
                            [GOP_COMPLEX64] = VECTOR_ENTRY(complex64),
                            [GOP_COMPLEX128] = VECTOR_ENTRY(complex128)};

static gop_status matmul_vector(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    enum { PIECE = 1 << 17 }; /* multiply-adds that are worth handing to a thread */
    thin call = *GOP_OWN(const thin, task->plan);
    const gop_dtype dtype = task->out[0].dtype;
    (void)ctx, (void)step;
    call.gemm = &task->geometry.gemm;
    call.a = task->in[call.s.is_swapped].data;
    call.b = task->in[!call.s.is_swapped].data;
    call.out = task->out[0].data;
    call.scratch = task->scratch;
    call.sums = call.scratch + (size_t)call.workers * call.own;
    const int64_t terms = call.s.m * (call.is_dots ? gop_smaller(call.s.k, SEGMENT) : call.s.k);
    GOP_TRY(gop_parallel_by(call.workers, call.gemm->batches * call.pieces,
                            1 + PIECE / (call.width * terms + 64), VECTOR_OF[dtype].pieces,
                            &call));
    if (call.segments > 1) VECTOR_OF[dtype].join(&call);
    return GOP_OK;
}

/* Which way b is read; 0: neither. */
static int way_of(const sides *p, gop_dtype dtype)
{
    enum { DOTS = 1, SWEEPS = 2, SHORTEST = 64, LINES = 16, CACHED = 512 << 10 };
    const int64_t item = gop_dtype_size(dtype);
    const int is_real = gop_dtype_kind(dtype) != 'c';
    const int is_cached = p->n <= CACHED / item / (p->k + 1);
    const int64_t most = !is_real ? DOT_ROWS : is_cached ? MOST_ROWS : MOST_ROWS - 1;
    if (p->m <= most && p->b_row == 1 && p->k >= SHORTEST && (p->m == 1 || p->n >= LINES))
        return DOTS;
    const int is_large = p->m == 1 || p->n * item > CACHED / (p->k + 1) * 4;
    return p->m <= SWEPT_ROWS && p->k >= (p->m == 1 ? 1 : SWEEP_LINES) && p->b_col == 1 &&
                   p->out_col == 1 && p->n >= SHORTEST && is_large
               ? SWEEPS
               : 0;
}

static gop_status matmul_vector_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    thin *const p = GOP_OWN(thin, plan);
    const gop_gemm *g = &task->geometry.gemm;
    const gop_dtype dtype = task->out[0].dtype;
    const int64_t item = gop_dtype_size(dtype);
    sides s = sides_of(g, 0);
    int way = way_of(&s, dtype);
    if (!way) {
        s = sides_of(g, 1);
        way = way_of(&s, dtype);
    }
    if (!way)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'vector' takes a matrix times a vector, or times %d at "
                        "most where neighbouring outputs meet neighbouring values of it, got "
                        "(%lld, %lld) @ (%lld, %lld)",
                        SWEPT_ROWS, (long long)g->m, (long long)g->k, (long long)g->k,
                        (long long)g->n);
    *p = (thin){.s = s};
    p->is_dots = way == 1;
    p->workers = ctx->info.processors;
    p->segments = p->is_dots ? (p->s.k + SEGMENT - 1) / SEGMENT : 1;
    p->width = !p->is_dots ? SWEEP_WIDTH : p->s.m == 1 ? 64 : 16 / p->s.m * 6;
    /* Longer runs of memory, if no worker is left without and the sums stay in the cache. */
    while (!p->is_dots && p->width * p->s.m < SUMS && p->width < WIDEST &&
           p->s.n > p->width * p->workers)
        p->width *= 2;
    p->pieces = (p->s.n + p->width - 1) / p->width * p->segments;
    p->is_packed = p->is_dots && (p->s.m > 1 || p->s.a_col != 1);
    p->own = (size_t)(item * p->s.m *
                      (!p->is_dots    ? KC + p->width
                       : p->is_packed ? gop_smaller(p->s.k, SEGMENT) + APART
                                      : 0));
    plan->scratch = (size_t)p->workers * p->own;
    if (p->segments > 1)
        plan->scratch += (size_t)(g->batches * p->s.m * p->s.n * p->segments * item);
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
