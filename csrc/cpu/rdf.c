/*
 * rdf.c - pair-distance histograms on the CPU: count, per bin, the pairs of points whose
 * distance falls into it.
 *
 * The floor is arithmetic: about ten operations and one increment per pair, n(n-1)/2 pairs.
 * What makes it hard is the increment: its address depends on data, so it does not vectorise,
 * and an increment of a counter waits for the previous one of the same counter.
 */
#include <stdatomic.h>

#include "cpu/cpu.h"

enum {
    TILE = 512,  /* points of a tile: x, y and z of two tiles stay in the first-level cache */
    CHUNK = 128, /* distances held between the two passes over them */
};

/* The guess of core/rdf.c, in the float it is computed in. */
typedef struct guess {
    float scale, shift, slack;
    int32_t bins;
} guess;

typedef struct tile {
    int64_t first;
    int32_t count, type;
} tile;

/* The points of both sets, by type, cut into tiles of one type each; s2 is s for one set. */
typedef struct sorted {
    int64_t n, n2;
    const void *points, *points2; /* x[n], y[n], z[n] */
    const tile *tiles, *tiles2;
    int64_t ntiles, ntiles2;
    const void *thresholds;
    const double *cell;
    guess guess;
    int uniform;
    int64_t copy; /* counters of one copy of the histogram */
    int copy_mask;
} sorted;

/* ---- the output and the types, for both ways of counting ---- */

static int64_t *count_at(const gop_task *task, int64_t row, int64_t k)
{
    const gop_array *out = &task->out[0];
    return (int64_t *)((char *)out->data + row * out->strides[0] + k * out->strides[1]);
}

static void clear_counts(const gop_task *task)
{
    for (int64_t row = 0; row < task->out[0].shape[0]; row++)
        for (int64_t k = 0; k < task->geometry.pairs.bins; k++) *count_at(task, row, k) = 0;
}

static int32_t type_at(const gop_array *types, int64_t i)
{
    return *(const int32_t *)((const char *)types->data + i * types->strides[0]);
}

/* The labels of the first and the second set; NULL without types. */
static const gop_array *types_of(const gop_task *task, int second)
{
    const gop_pairs *p = &task->geometry.pairs;
    if (p->types == 0) return NULL;
    return &task->in[p->one_set ? 2 : 3 + second];
}

/* Row of the unordered pair of types (s, t) in the order (0,0) (0,1) .. (1,1) .. */
static int64_t row_of(int64_t s, int64_t t, int64_t types)
{
    const int64_t low = s < t ? s : t, high = s < t ? t : s;
    return low * types - low * (low - 1) / 2 + high - low;
}

static int64_t pair_row(const gop_task *task, int64_t i, int64_t j)
{
    const gop_array *types = types_of(task, 0), *types2 = types_of(task, 1);
    if (!types) return 0;
    return row_of(type_at(types, i), type_at(types2, j), task->geometry.pairs.types);
}

#define D float32
#include "cpu/rdf_tpl.h"
#undef D
#define D float64
#include "cpu/rdf_tpl.h"
#undef D

/* ---- tiles and their scratch ---- */

typedef struct layout {
    size_t points, points2, tiles, tiles2, next, histograms, end; /* byte offsets */
    int64_t copy, copies, slots; /* counters of a copy, copies of a slot, slots */
} layout;

static size_t room(size_t *end, size_t bytes)
{
    const size_t at = *end;
    *end = (at + bytes + 63) / 64 * 64;
    return at;
}

static layout layout_of(const gop_task *task, int64_t slots)
{
    const gop_pairs *p = &task->geometry.pairs;
    const size_t point = (size_t)(3 * gop_dtype_size(task->in[0].dtype));
    const size_t types = (size_t)p->types, n = (size_t)p->n, n2 = (size_t)p->n2;
    layout at = {0};
    at.points = room(&at.end, n * point);
    at.points2 = p->one_set ? at.points : room(&at.end, n2 * point);
    at.tiles = room(&at.end, (n / TILE + types + 1) * sizeof(tile));
    at.tiles2 = p->one_set ? at.tiles : room(&at.end, (n2 / TILE + types + 1) * sizeof(tile));
    at.next = room(&at.end, (types + 1) * sizeof(int64_t));
    at.slots = slots;
    at.copy = task->out[0].shape[0] * (p->bins + 1); /* one more: pairs outside the edges */
    at.copies = at.copy <= 1 << 14 ? 4 : 1;
    at.histograms = room(&at.end, (size_t)(slots * at.copies * at.copy) * sizeof(int64_t));
    return at;
}

/* Sorts one set by type and cuts it into tiles; returns their number. */
static int64_t gather(const gop_task *task, int second, int64_t *next, void *to, tile *tiles)
{
    const gop_pairs *p = &task->geometry.pairs;
    const gop_array *points = &task->in[second ? 2 : 0], *types = types_of(task, second);
    const int64_t n = points->shape[0], kinds = types ? p->types : 1;
    const int64_t row = second ? p->row2 : p->row, col = second ? p->col2 : p->col;
    int64_t count = 0, first = 0;
    memset(next, 0, (size_t)kinds * sizeof *next);
    if (!types) next[0] = n;
    for (int64_t i = 0; types && i < n; i++) next[type_at(types, i)]++;
    for (int64_t type = 0; type < kinds; type++) {
        const int64_t end = first + next[type];
        next[type] = first; /* from a number of points to the place of the next one */
        for (; first < end; first += tiles[count++].count)
            tiles[count] = (tile){first, (int32_t)(end - first < TILE ? end - first : TILE),
                                  (int32_t)type};
    }
    if (points->dtype == GOP_FLOAT32) gather_float32(points, row, col, types, next, to);
    else gather_float64(points, row, col, types, next, to);
    return count;
}

static sorted sort_points(const gop_task *task, const layout *at)
{
    const gop_pairs *p = &task->geometry.pairs;
    char *scratch = task->scratch;
    sorted s = {.n = p->n,
                .n2 = p->n2,
                .points = scratch + at->points,
                .points2 = scratch + at->points2,
                .tiles = (tile *)(scratch + at->tiles),
                .tiles2 = (tile *)(scratch + at->tiles2),
                .thresholds = task->in[1].data,
                .cell = p->cell,
                .uniform = p->uniform,
                .copy = at->copy,
                .copy_mask = (int)at->copies - 1};
    int64_t *next = (int64_t *)(scratch + at->next);
    s.guess.scale = (float)p->guess_scale;
    s.guess.shift = (float)(-p->guess_origin * p->guess_scale);
    s.guess.slack = (float)p->guess_slack;
    s.guess.bins = (int32_t)p->bins;
    s.ntiles = gather(task, 0, next, scratch + at->points, (tile *)(scratch + at->tiles));
    s.ntiles2 = p->one_set ? s.ntiles
                           : gather(task, 1, next, scratch + at->points2,
                                    (tile *)(scratch + at->tiles2));
    return s;
}

/* The tiles of work item w: of one set, those with i <= j, row after row. */
static void tiles_at(const sorted *s, int one_set, int64_t w, const tile **i, const tile **j)
{
    int64_t row = w / (s->ntiles2 ? s->ntiles2 : 1), column = w % s->ntiles2;
    if (one_set) {
        /* Rows from the last one up have 1, 2, 3, ... items: count from the end. */
        const int64_t n = s->ntiles, back = n * (n + 1) / 2 - 1 - w;
        int64_t up = (int64_t)((sqrt(8.0 * (double)back + 1) - 1) / 2);
        while (up * (up + 1) / 2 > back) up--;
        while ((up + 1) * (up + 2) / 2 <= back) up++;
        row = n - 1 - up;
        column = n - 1 - (back - up * (up + 1) / 2);
    }
    *i = &s->tiles[row];
    *j = &s->tiles2[column];
}

/* ---- counting: each slot takes pairs of tiles until none is left ---- */

typedef void (*count_tiles)(const sorted *s, const tile *i, const tile *j, int64_t *histogram);

static count_tiles counter_of(const gop_task *task)
{
    static const count_tiles f32[] = {tiles_open_float32, tiles_right_float32,
                                      tiles_triclinic_float32};
    static const count_tiles f64[] = {tiles_open_float64, tiles_right_float64,
                                      tiles_triclinic_float64};
    const int box = task->geometry.pairs.box;
    return task->in[0].dtype == GOP_FLOAT32 ? f32[box] : f64[box];
}

typedef struct work {
    const gop_task *task;
    const sorted *points;
    const layout *at;
    count_tiles count;
    int64_t items;
    _Atomic int64_t next;
    atomic_int status; /* of the calling thread, which alone hears Ctrl-C */
} work;

static void count_slot(void *argument, int64_t begin, int64_t end, int worker)
{
    work *w = argument;
    const gop_pairs *p = &w->task->geometry.pairs;
    const size_t size = (size_t)(w->at->copies * w->at->copy);
    for (int64_t slot = begin; slot < end; slot++) {
        int64_t *histogram =
            (int64_t *)((char *)w->task->scratch + w->at->histograms) + slot * (int64_t)size;
        memset(histogram, 0, size * sizeof *histogram);
        while (atomic_load_explicit(&w->status, memory_order_relaxed) == GOP_OK) {
            const int64_t item = atomic_fetch_add(&w->next, 1);
            const tile *i, *j;
            if (item >= w->items) break;
            tiles_at(w->points, p->one_set, item, &i, &j);
            w->count(w->points, i, j,
                     histogram + row_of(i->type, j->type, p->types) * (p->bins + 1));
            if (worker == 0 && gop_interrupted() != GOP_OK)
                atomic_store(&w->status, GOP_INTERRUPTED);
        }
    }
}

/* Adds the copies of all slots: whole numbers, so the order does not matter. */
static void add_slots(const gop_task *task, const layout *at)
{
    const int64_t *all = (const int64_t *)((const char *)task->scratch + at->histograms);
    const int64_t bins = task->geometry.pairs.bins;
    for (int64_t row = 0; row < task->out[0].shape[0]; row++)
        for (int64_t k = 0; k < bins; k++) {
            int64_t sum = 0;
            for (int64_t c = 0; c < at->slots * at->copies; c++)
                sum += all[c * at->copy + row * (bins + 1) + k];
            *count_at(task, row, k) = sum;
        }
}

static gop_status count_all(const gop_task *task, int64_t slots)
{
    const layout at = layout_of(task, slots);
    const sorted points = sort_points(task, &at);
    const int64_t n = points.ntiles;
    work w = {.task = task, .points = &points, .at = &at, .count = counter_of(task)};
    w.items = task->geometry.pairs.one_set ? n * (n + 1) / 2 : n * points.ntiles2;
    if (slots == 1) count_slot(&w, 0, 1, 0);
    else GOP_TRY(gop_parallel(slots, 1, count_slot, &w));
    if (atomic_load(&w.status) != GOP_OK) return GOP_INTERRUPTED; /* its sentence is kept */
    add_slots(task, &at);
    return GOP_OK;
}

static gop_status rdf_simd(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return count_all(task, 1);
}

static size_t simd_scratch(const gop_ctx *ctx, const gop_task *task)
{
    (void)ctx;
    return layout_of(task, 1).end;
}

static gop_status rdf_threaded(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)step;
    return count_all(task, ctx->info.processors);
}

static size_t threaded_scratch(const gop_ctx *ctx, const gop_task *task)
{
    return layout_of(task, ctx->info.processors).end;
}

static const gop_row rows[] = {
    {
        .name = "naive",
        .note = "the double loop: every pair finds its bin by halving the thresholds",
        .role = GOP_CONFORMING,
        .lecture = "radial distribution function",
        .launch = {[GOP_FLOAT32] = rdf_naive_float32, [GOP_FLOAT64] = rdf_naive_float64},
    },
    {
        .name = "simd",
        .note = "distances and bins of 128 pairs in vector registers, then their increments",
        .role = GOP_CONFORMING,
        .launch = {[GOP_FLOAT32] = rdf_simd, [GOP_FLOAT64] = rdf_simd},
        .scratch = simd_scratch,
    },
    {
        .name = "threaded",
        .note = "all cores take pairs of tiles, each with a histogram of its own",
        .role = GOP_CONFORMING,
        .launch = {[GOP_FLOAT32] = rdf_threaded, [GOP_FLOAT64] = rdf_threaded},
        .scratch = threaded_scratch,
    },
};

const gop_ladder GOP_LADDER(rdf) = {sizeof rows / sizeof *rows, rows};
