/*
 * exact.c - sums and means by exact/v1: the exact sum of the terms, rounded once.
 *
 * A sum is an array of integer words, to which terms are added in any order. Blocks of terms
 * are first added in doubles without loss (exact_block.h). Every worker has its own words. A
 * long output is divided into pieces, whose words are added at the end.
 */
#ifdef D

#if IS_COMPLEX
#define R GOP_PASTE(GOP_REAL_OF, D)
#elif IS_FLOAT
#define R A
#elif IS_BOOL
#define R uint64_t
#else
#define R GOP_PASTE(GOP_WHOLE_OF, D)
#endif

static void FN(exact_gather)(void *to, int64_t n, const void *from, int64_t stride,
                             const uint8_t *where, int64_t where_stride, int64_t *count,
                             int64_t beside)
{
    R *restrict const y = to;
    const T *restrict const x = from;
#if IS_HALF
    if (!where && stride == 1) {
        FN(load_line)(y, x, n);
        return;
    }
#endif
#if IS_COMPLEX
#define TERM(i) y[2 * (i)] = (x)[(i)*stride].re, y[2 * (i) + 1] = (x)[(i)*stride].im
#define NONE(i) y[2 * (i)] = y[2 * (i) + 1] = 0
#define BESIDE(i) y[2 * (i)] = x[i].re, y[2 * (i) + 1] = x[i].im
#else
#define TERM(i) y[i] = (R)LOAD(x[(i)*stride])
#define NONE(i) y[i] = 0
#define BESIDE(i) y[i] = (R)LOAD(x[i])
#endif
    if (!where && stride == 1)
        for (int64_t i = 0; i < n; i++) BESIDE(i);
    else if (!where)
        for (int64_t i = 0; i < n; i++) TERM(i);
    else
        for (int64_t i = 0; i < n; i++) {
            const int takes = where[i * where_stride] != 0;
            count[i * beside] += takes;
            if (takes) TERM(i);
            else NONE(i);
        }
}

#undef TERM
#undef NONE
#undef BESIDE
#undef R

#elif !defined(GOP_CPU_EXACT_C)
#define GOP_CPU_EXACT_C

#include "cpu/reduce/exact_block.h"
#include "cpu/runtime/halves.h"

enum {
    ACROSS_BYTES = 1024,   /* most bytes of a row of terms */
    SHORT_RUN = 64,        /* outputs of a run if each is one contiguous block at most */
    LEAST_ACROSS = 8,      /* fewest outputs for columns */
    FEW_ALONG = 256,       /* outputs of fewer elements are computed as columns */
    LONG_LINE = 512,       /* fewest elements of a line that is read in place */
    EXACT_PIECE = 1 << 16, /* terms that are worth a thread */
    BINNED = 1 << 11,      /* fewest elements of a sum that uses bins */
    ROWS_IN_PLACE = 32,    /* fewest rows that are read in place */
};

/* clang-format off */
#define GOP_REAL_OF_complex64 float
#define GOP_REAL_OF_complex128 double
#define GOP_WHOLE_OF_int8 int64_t
#define GOP_WHOLE_OF_int16 int64_t
#define GOP_WHOLE_OF_int32 int64_t
#define GOP_WHOLE_OF_int64 int64_t
#define GOP_WHOLE_OF_uint8 uint64_t
#define GOP_WHOLE_OF_uint16 uint64_t
#define GOP_WHOLE_OF_uint32 uint64_t
#define GOP_WHOLE_OF_uint64 uint64_t
/* clang-format on */

#define GOP_TPL "cpu/reduce/exact.c"
#include "cpu/runtime/each_dtype.inc"

/* ---- terms ---- */

/* A worker's sums of a run, and a buffer of contiguous terms. */
typedef struct exact_room {
    const exact_job *job;
    int64_t *sum;
    char *terms;
    exact_bins *bins; /* or NULL */
    exact_lanes *lanes;
    int64_t *lane[ACROSS + STRIP];                    /* the sum of each lane */
    int64_t nothing[GOP_EXACT_HEAD + GOP_EXACT_WIDE]; /* the sum of lanes beyond the last */
    int64_t n;                                        /* outputs */
    int added;                                        /* terms of a sum since its carry */
    int next_in_bins; /* blocks that go to bins without a pass first */
} exact_room;

static void carry_all(exact_room *room)
{
    const exact_plan *const p = room->job->plan;
    const int each = p->numbers / p->parts;
    for (int64_t s = 0; s < room->n * p->parts; s++)
        gop_exact_carry(line_of(room->job, room->sum + s * each));
    room->added = 0;
}

/* Adds rows of STRIP terms of one output. Returns 0 if they went to bins. */
static int add_block(exact_room *room, const void *terms, int rows)
{
    const exact_plan *const p = room->job->plan;
    const int same = STRIP / p->parts; /* lanes of a sum */
    if (room->added + STRIP * (FEW_ROWS + 1) > GOP_EXACT_ADDS) carry_all(room);
    const int added =
        p->kind->block(room->job, room->lanes, 0, terms, STRIP, rows, room->lane, room->bins);
    room->added += same * added;
    return added;
}

/* Adds terms of one output with any exponents, after a pass over them. */
static void add_any(exact_room *room, const char *terms, int n)
{
    enum { NEXT = 31 };
    const exact_plan *const p = room->job->plan;
    const int whole = n / STRIP * STRIP;
    if (whole && !add_block(room, terms, whole / STRIP)) room->next_in_bins = NEXT;
    if (whole == n) return;
    _Alignas(LINE) char last[STRIP * 8] = {0};
    memcpy(last, terms + (size_t)whole * p->term, (size_t)(n - whole) * p->term);
    add_block(room, last, 1);
}

/* Adds a block of terms of one output, or the rest of one. */
static void add_terms(exact_room *room, const char *terms, int n)
{
    const exact_plan *const p = room->job->plan;
    double total[2][2];
    if (room->next_in_bins > 0) {
        room->next_in_bins--;
        p->kind->bin(room->bins, terms, n, p->parts);
        return;
    }
    const int folds =
        p->kind->total ? p->kind->total(room->lanes, terms, n, p->parts, total) : 0;
    if (!folds) {
        add_any(room, terms, n);
        return;
    }
    if (room->added + folds > GOP_EXACT_ADDS) carry_all(room);
    room->added += folds;
    for (int part = 0; part < p->parts; part++)
        for (int f = 0; f < folds; f++)
            gop_exact_add(line_of(room->job, room->lane[part]), bits_of_double(total[part][f]));
}

/* Gathers n elements, which are `stride` apart, as contiguous terms. */
static void gather_terms(exact_room *room, char *to, int64_t n, const char *from,
                         int64_t stride, const uint8_t *where, int64_t where_stride,
                         int64_t beside)
{
    enum { SOME = 128 };
    const exact_plan *const p = room->job->plan;
    _Alignas(16) char cast[SOME * 16];
    if (!p->cast.run) {
        p->gather(to, n, from, stride, where, where_stride, room->sum + 1, beside);
        return;
    }
    for (int64_t i = 0, m; i < n; i += m) {
        m = gop_smaller(n - i, SOME);
        p->cast.run(&p->cast, cast, from + i * stride * (int64_t)p->item,
                    stride * (int64_t)p->item, m);
        p->gather(to + (size_t)(i * p->parts) * p->term, m, cast, 1,
                  where ? where + i * where_stride : NULL, where_stride,
                  room->sum + 1 + i * beside, beside);
    }
}

/* Adds elements [begin, end) of one output line by line. Short lines are gathered into one
 * block. */
static void add_rows(exact_room *room, const char *in, const uint8_t *where, int64_t begin,
                     int64_t end)
{
    const exact_job *const job = room->job;
    const exact_plan *const p = job->plan;
    const gop_reduction *const g = job->g;
    const int inner = g->kept + g->reduced - 1;
    const int64_t most = BLOCK_TERMS / p->parts;
    int64_t filled = 0;
    reduce_cursor at;
    cursor_set(&at, g, begin);
    for (int64_t k = begin, n; k < end; k += n) {
        n = g->reduced ? gop_smaller(end - k, g->extent[inner] - at.x[inner]) : 1;
        const int64_t stride = g->reduced ? g->in[inner] : 1;
        const char *const from = in + at.at.in * (int64_t)p->item;
        if (p->in_place && stride == 1 && n >= LONG_LINE) {
            for (int64_t i = 0; i < n; i += most)
                add_terms(room, from + (size_t)i * p->item,
                          (int)gop_smaller(n - i, most) * p->parts);
        } else {
            n = gop_smaller(n, most - filled);
            gather_terms(room, room->terms + (size_t)(filled * p->parts) * p->term, n, from,
                         stride, where ? where + at.at.where : NULL,
                         g->reduced ? g->where[inner] : 0, 0);
            filled += n;
        }
        if (filled == most || k + n == end) {
            add_terms(room, room->terms, (int)filled * p->parts);
            filled = 0;
        }
        if (g->reduced) cursor_move(&at, g, n);
    }
}

/* Adds rows of contiguous terms, `pitch` apart, to the lanes from `first` on. */
static int add_across(exact_room *room, int first, const char *terms, int64_t pitch, int rows,
                      int n)
{
    const exact_plan *const p = room->job->plan;
    if (p->kind->across)
        return p->kind->across(room->job, room->lanes, terms, pitch, rows, n,
                               room->lane + first);
    for (int l = 0; l < n; l += STRIP)
        p->kind->block(room->job, NULL, 0, terms + (size_t)l * p->term, pitch, rows,
                       room->lane + first + l, NULL);
    return 1;
}

/* Adds at most `most` rows along the innermost axis in place, and returns their number. Lanes
 * beyond whole strips are copied. */
static int64_t add_in_place(exact_room *room, const char *from, int64_t most, int64_t pitch)
{
    const exact_plan *const p = room->job->plan;
    const int rows = (int)gop_smaller(most, BLOCK_ROWS), lanes = (int)room->n * p->parts;
    const int whole = lanes / STRIP * STRIP;
    const size_t apart = (size_t)pitch * p->item, rest = (size_t)(lanes - whole) * p->term;
    int added = 0;
    if (whole) added = add_across(room, 0, from, pitch * p->parts, rows, whole);
    if (rest) {
        memset(room->terms, 0, (size_t)rows * STRIP * p->term);
        for (int r = 0; r < rows; r++)
            memcpy(room->terms + (size_t)(r * STRIP) * p->term,
                   from + r * apart + (size_t)whole * p->term, rest);
        const int more = add_across(room, whole, room->terms, STRIP, rows, STRIP);
        if (more > added) added = more;
    }
    room->added += added;
    return rows;
}

/* Adds rows [begin, end) of a run of outputs. */
static void add_columns(exact_room *room, const char *in, const uint8_t *where, int64_t begin,
                        int64_t end)
{
    const exact_job *const job = room->job;
    const exact_plan *const p = job->plan;
    const gop_reduction *const g = job->g;
    const int inner = g->kept - 1, along = g->kept + g->reduced - 1;
    const int64_t lanes = room->n * p->parts, pitch = (lanes + STRIP - 1) / STRIP * STRIP;
    const int in_place = p->in_place && p->kind->across && g->in[inner] == 1 &&
                         g->extent[along] >= ROWS_IN_PLACE && g->in[along] > 0;
    int64_t rows = 0;
    reduce_cursor at;
    cursor_set(&at, g, begin);
    if (!in_place) memset(room->terms, 0, (size_t)(pitch * BLOCK_ROWS) * p->term);
    for (int64_t k = begin, n; k < end; k += n) {
        const char *const from = in + at.at.in * (int64_t)p->item;
        if (room->added + 2 * BLOCK_ROWS > GOP_EXACT_ADDS) carry_all(room);
        n = 1;
        if (in_place) {
            const int64_t most = gop_smaller(end - k, g->extent[along] - at.x[along]);
            n = add_in_place(room, from, most, g->in[along]);
        } else {
            gather_terms(room, room->terms + (size_t)(rows * pitch) * p->term, room->n, from,
                         g->in[inner], where ? where + at.at.where : NULL, g->where[inner],
                         p->numbers);
            if (++rows == BLOCK_ROWS || k + 1 == end) {
                room->added += add_across(room, 0, room->terms, pitch, (int)rows, (int)pitch);
                rows = 0;
            }
        }
        cursor_move(&at, g, n);
    }
}

/* ---- outputs ---- */

/* Writes an output from its sums, which are carried: the rounded sum or mean, or the words. */
static void finish_exactly(const exact_job *job, int64_t *sum, char *out)
{
    const gop_task *const task = job->task;
    const exact_plan *const p = job->plan;
    const gop_reduce_params *const params = &task->call->params.reduce;
    const gop_dtype dtype = task->out[0].dtype;
    const gop_exact_format f = gop_exact_format_of(dtype);
    const int each = p->numbers / p->parts;
    for (int part = 0; part < p->parts; part++) {
        int64_t *const own = sum + part * each;
        const int64_t count = task->nin > 1 ? sum[1] : job->g->count;
        own[1] = count;
        if (params->exact == GOP_EXACT_SUMS) {
            const int64_t apart = task->out[0].strides[task->out[0].ndim - 1];
            for (int i = 0; i < each; i++)
                memcpy(out + (part * each + i) * apart, own + i, sizeof *own);
            continue;
        }
        uint64_t initial;
        memcpy(&initial, &params->initial.f[part], sizeof initial);
        const uint64_t bits = gop_exact_finish(own[0], line_of(job, own),
                                               params->op == GOP_MEAN ? (uint64_t)count : 1,
                                               params->has_initial ? &initial : NULL, f);
        gop_exact_store(out + part * f.bits / 8, bits, f.bits);
    }
}

static void finish_run(const exact_job *job, int64_t first, int64_t n, int64_t *sum)
{
    const gop_reduction *const g = job->g;
    const gop_array *const out = &job->task->out[0];
    const int64_t item = gop_dtype_size(out->dtype);
    const reduce_place at = locate(g, 0, g->kept, first);
    const int64_t stride = g->kept ? g->out[g->kept - 1] : 0;
    for (int64_t i = 0; i < n; i++)
        finish_exactly(job, sum + i * job->plan->numbers,
                       (char *)out->data + (at.out + i * stride) * item);
}

/* Tries to sum an output's contiguous terms in doubles. Returns 1 if that was exact; then the
 * sum is stored. */
static int store_total(const exact_room *room, const char *terms, char *out)
{
    const exact_plan *const p = room->job->plan;
    double total[2][2];
    const int folds = p->kind->total(room->lanes, terms, (int)room->job->g->count * p->parts,
                                     p->parts, total);
    for (int part = 0; part < p->parts && folds; part++) {
        /* One addition of two doubles rounds their exact sum. */
        const double sum = folds == 1 ? total[part][0] : total[part][0] + total[part][1];
        const float narrow = (float)sum;
        if (p->term == 8) memcpy(out + part * 8, &sum, sizeof sum);
        else memcpy(out + part * 4, &narrow, sizeof narrow);
    }
    return folds != 0;
}

/* Computes outputs [first, first + n) of a line, each a block of contiguous terms. */
static void add_short(exact_room *room, int64_t first, int64_t n)
{
    const exact_job *const job = room->job;
    const exact_plan *const p = job->plan;
    const gop_reduction *const g = job->g;
    const gop_array *const out = &job->task->out[0];
    const int64_t item = gop_dtype_size(out->dtype);
    const reduce_place at = locate(g, 0, g->kept, first);
    const int64_t step = g->kept ? g->in[g->kept - 1] : 0,
                  apart = g->kept ? g->out[g->kept - 1] : 0;
    for (int64_t i = 0; i < n; i++) {
        const char *const in =
            (const char *)job->task->in[0].data + (at.in + i * step) * (int64_t)p->item;
        if (store_total(room, in, (char *)out->data + (at.out + i * apart) * item)) continue;
        memset(room->sum, 0, (size_t)p->numbers * sizeof *room->sum);
        add_any(room, in, (int)g->count * p->parts);
        carry_all(room);
        finish_run(job, first + i, 1, room->sum);
    }
}

static int64_t *sums_of_piece(const exact_job *job, int64_t piece, int64_t output)
{
    return (int64_t *)job->task->scratch +
           (piece * job->g->outputs + output) * job->plan->numbers;
}

/* Computes piece i: a run of outputs, and a piece of their elements. */
static void add_piece(const exact_job *job, int64_t i, exact_room *room)
{
    const exact_plan *const p = job->plan;
    const gop_reduction *const g = job->g;
    const int64_t run = i / p->pieces, piece = i % p->pieces, block = run % p->blocks;
    const int64_t first = run / p->blocks * p->line + block * p->width;
    const int64_t begin = piece * p->piece, end = gop_smaller(g->count, begin + p->piece);
    const reduce_place at = locate(g, 0, g->kept, first);
    const char *const in = (const char *)job->task->in[0].data + at.in * (int64_t)p->item;
    const uint8_t *const where =
        job->task->nin > 1 ? (const uint8_t *)job->task->in[1].data + at.where : NULL;
    const int each = p->numbers / p->parts;
    room->n = p->is_short ? 1 : gop_smaller(p->width, p->line - block * p->width);
    room->added = room->next_in_bins = 0;
    memset(room->sum, 0, (size_t)(room->n * p->numbers) * sizeof *room->sum);
    for (int64_t l = 0; l < room->n * p->parts + STRIP; l++)
        room->lane[l] = !p->columns              ? room->sum + l % p->parts * each
                        : l < room->n * p->parts ? room->sum + l * each
                                                 : room->nothing;
    if (p->is_short) {
        add_short(room, first, gop_smaller(p->width, p->line - block * p->width));
        return;
    }
    if (begin < end) (p->columns ? add_columns : add_rows)(room, in, where, begin, end);
    if (room->bins && room->bins->used) p->kind->empty(room->bins, job, room->lane);
    carry_all(room);
    if (p->pieces == 1) finish_run(job, first, room->n, room->sum);
    else
        memcpy(sums_of_piece(job, piece, first), room->sum,
               (size_t)(room->n * p->numbers) * sizeof *room->sum);
}

static void add_pieces(void *argument, int64_t begin, int64_t end, int worker)
{
    const exact_job *const job = argument;
    const exact_plan *const p = job->plan;
    char *const own = job->rooms + (size_t)worker * p->room;
    exact_lanes lanes;
    exact_room room = {.job = job, .sum = (int64_t *)(void *)own, .lanes = &lanes};
    memset(&lanes.units, 0, sizeof lanes.units);
    room.terms = own + whole_lines((size_t)(p->width * p->numbers) * 8);
    if (p->binned) {
        room.bins = (exact_bins *)(void *)(own + p->room) - 1;
        memset(room.bins, 0, sizeof *room.bins);
    }
    for (int64_t i = begin; i < end; i++) add_piece(job, i, &room);
}

static void merge_pieces(void *argument, int64_t begin, int64_t end, int worker)
{
    const exact_job *const job = argument;
    const exact_plan *const p = job->plan;
    const int each = p->numbers / p->parts;
    (void)worker;
    for (int64_t o = begin; o < end; o++) {
        int64_t *const sum = sums_of_piece(job, 0, o);
        for (int64_t piece = 1; piece < p->pieces; piece++)
            for (int part = 0; part < p->parts; part++)
                gop_exact_merge(sum + part * each, sums_of_piece(job, piece, o) + part * each,
                                job->task->in[0].dtype);
        finish_run(job, o, 1, sum);
    }
}

static gop_status reduce_exact(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    const exact_plan *const p = GOP_OWN(const exact_plan, task->plan);
    const gop_reduction *const g = &task->geometry.reduction;
    const size_t sums = (size_t)(p->pieces > 1 ? p->pieces * g->outputs * p->numbers : 0);
    exact_job job = {task, g, p, (char *)task->scratch + whole_lines(sums * sizeof(int64_t))};
    const int64_t work = p->width * gop_smaller(g->count, p->piece) + 1;
    GOP_TRY(gop_parallel_by(p->workers, p->runs * p->pieces, EXACT_PIECE / work + 1, add_pieces,
                            &job));
    if (p->pieces == 1) return GOP_OK;
    return gop_parallel_by(p->workers, g->outputs, 16, merge_pieces, &job);
}

/* ---- the plan ---- */

static void choose_terms(exact_plan *p, const gop_task *task)
{
    static const exact_gather gathers[GOP_NDTYPES] = GOP_FN_ALL(exact_gather);
    const gop_dtype dtype = task->in[0].dtype;
    const char kind = gop_dtype_kind(dtype);
    const int is_real = dtype == GOP_FLOAT32 || dtype == GOP_FLOAT64 || kind == 'c';
    p->gather = gathers[dtype];
    p->kind = kind == 'i'                  ? &exact_kind_signed
              : kind == 'u' || kind == 'b' ? &exact_kind_unsigned
              : gop_exact_is_wide(dtype)   ? &exact_kind_double
                                           : &exact_kind_float;
    p->parts = kind == 'c' ? 2 : 1;
    p->term = p->kind == &exact_kind_float ? 4 : 8;
    p->item = (size_t)gop_array_item(&task->in[0]);
    p->in_place = is_real && task->nin == 1 && !task->in[0].stored;
    if (task->in[0].stored) p->cast = gop_cast_in(task->in[0].stored, dtype);
    p->numbers = p->parts * gop_exact_numbers(dtype);
}

static gop_status reduce_exact_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    exact_plan *const p = GOP_OWN(exact_plan, plan);
    const gop_reduction *const g = &task->geometry.reduction;
    const int inner = g->kept + g->reduced - 1, threads = ctx->info.processors;
    memset(p, 0, sizeof *p);
    choose_terms(p, task);
    p->line = g->kept ? g->extent[g->kept - 1] : 1;
    p->columns = g->kept && g->reduced && p->line >= LEAST_ACROSS &&
                 (g->count < FEW_ALONG ||
                  gop_magnitude(g->in[g->kept - 1]) < gop_magnitude(g->in[inner]));
    const gop_reduce_params *const params = &task->call->params.reduce;
    p->is_short = p->in_place && p->kind->total && !params->has_initial &&
                  params->op == GOP_SUM && params->exact != GOP_EXACT_SUMS && g->reduced == 1 &&
                  g->in[inner] == 1 && g->count * p->parts <= BLOCK_TERMS;
    if (p->is_short) p->columns = 0;
    const int64_t across = ACROSS_BYTES / (int64_t)(p->parts * p->term);
    p->width = p->columns    ? gop_smaller(p->line, across)
               : p->is_short ? gop_smaller(p->line, SHORT_RUN)
                             : 1;
    p->blocks = (p->line + p->width - 1) / p->width;
    p->runs = g->outputs / p->line * p->blocks;
    const int64_t enough = 4 * (int64_t)threads;
    int64_t pieces = threads > 1 && p->runs < enough ? (enough + p->runs - 1) / p->runs : 1;
    const int64_t most = g->count * p->width / EXACT_PIECE;
    pieces = gop_smaller(pieces, most > 1 && !p->is_short ? most : 1);
    p->piece = g->count ? (g->count + pieces - 1) / pieces : 1;
    /* Ctrl-C is checked between pieces. */
    while (p->piece * p->width > 1 << 24) p->piece = (p->piece + 1) / 2;
    p->pieces = g->count ? (g->count + p->piece - 1) / p->piece : 1;
    p->workers = (int)gop_smaller(threads, p->runs * p->pieces);
    const int64_t terms = p->columns ? (p->width * p->parts + STRIP) * BLOCK_ROWS : BLOCK_TERMS;
    p->binned = p->kind->empty && !p->columns && !p->is_short && p->piece >= BINNED;
    p->room = whole_lines((size_t)(p->width * p->numbers) * sizeof(int64_t)) +
              whole_lines((size_t)terms * p->term) +
              (p->binned ? whole_lines(sizeof(exact_bins)) : 0);
    const size_t sums = (size_t)(p->pieces > 1 ? p->pieces * g->outputs * p->numbers : 0);
    plan->scratch = whole_lines(sums * sizeof(int64_t)) + (size_t)p->workers * p->room;
    return GOP_OK;
}

static const gop_row reduce_exact_row = {
    .name = "exact",
    .note = "integers that no order changes: neighbours add up exactly in a double, and are "
            "rounded once, at the end",
    .role = GOP_CONFORMING,
    .launch = GOP_FN_EVERY(reduce_exact),
    .plan = reduce_exact_plan,
    .exact = 1,
};

#endif
