/*
 * simd.c - rdf by pairs of tiles: distances and bins of 128 pairs in vector registers.
 *
 * The increments that follow do not vectorise, since their addresses depend on data; and an
 * increment of a counter waits for the previous one of the same counter, so that neighbours go
 * to different copies of the histogram.
 */
#ifdef D

/* r2 from one point to each of a chunk: no branch inside, so that it becomes vector code. */
static ALWAYS_INLINE void FN(squares)(const T *restrict x, const T *restrict y,
                                      const T *restrict z, int count, const T a[3],
                                      const T *restrict cell, int box, T *restrict r2)
{
    for (int j = 0; j < count; j++)
        r2[j] = FN(square)(a[0] - x[j], a[1] - y[j], a[2] - z[j], cell, box);
}

/*
 * Bins of a chunk by the guess of core/ops/rdf.c: x is the position among the edges to within
 * slack. Adding `magic` rounds it to the nearest edge, an integer in the low bits. Outside the
 * edges: bin number `bins`, which nobody reads. Returns 1 if some x lies within slack of an
 * edge: then the thresholds must decide.
 */
static ALWAYS_INLINE int FN(guess)(const T *restrict r2, int count, T first, T last,
                                   const guess *g, int32_t *restrict bin)
{
    const float magic = 0x1.8p23f, scale = g->scale, shift = g->shift, slack = g->slack;
    const int32_t bins = g->bins;
    int32_t doubtful = 0;
    for (int j = 0; j < count; j++) {
        const int32_t inside = (r2[j] >= first) & (r2[j] < last);
        const float r = sqrtf((float)(inside ? r2[j] : first));
        const float x = r * scale + shift;
        const float edge = (x + magic) - magic;
        const float past = x - edge;
        const int32_t k = (int32_t)edge - (past < 0);
        doubtful |= inside & ((past < 0 ? -past : past) <= slack);
        bin[j] = inside ? k : bins;
    }
    return doubtful;
}

/* Makes every bin of a chunk exact. */
static void FN(settle)(const T *r2, int count, const T *t, int32_t bins, int32_t *bin)
{
    for (int j = 0; j < count; j++) {
        int32_t k = bin[j];
        if (!(r2[j] >= t[0] && r2[j] < t[bins])) continue;
        k = k < 0 ? 0 : k >= bins ? bins - 1 : k;
        while (r2[j] < t[k]) k--;
        while (r2[j] >= t[k + 1]) k++;
        bin[j] = k;
    }
}

/* Counts the pairs of one point with a tile. */
static ALWAYS_INLINE void FN(count_row)(const sorted *s, const T a[3], const T *x, const T *y,
                                        const T *z, int count, const T *cell, int box,
                                        int64_t *histogram)
{
    const T *t = s->thresholds;
    const int32_t bins = s->guess.bins;
    const int64_t copy = s->copy;
    const int mask = s->copy_mask;
    T r2[CHUNK];
    int32_t bin[CHUNK];
    for (int first = 0; first < count; first += CHUNK) {
        const int length = count - first < CHUNK ? count - first : CHUNK;
        FN(squares)(x + first, y + first, z + first, length, a, cell, box, r2);
        if (s->uniform) {
            if (FN(guess)(r2, length, t[0], t[bins], &s->guess, bin))
                FN(settle)(r2, length, t, bins, bin);
        } else {
            for (int j = 0; j < length; j++) {
                const int64_t k = FN(bin_of)(r2[j], t, bins);
                bin[j] = k < 0 ? bins : (int32_t)k;
            }
        }
        /* Neighbours go to different copies: a counter is not waited for by the next pair. */
        for (int j = 0; j < length; j++) histogram[(j & mask) * copy + bin[j]]++;
    }
}

static ALWAYS_INLINE void FN(count_tiles)(const sorted *s, const tile *i, const tile *j,
                                          int box, int64_t *histogram)
{
    const T *x1 = (const T *)s->points + i->first, *y1 = x1 + s->n, *z1 = y1 + s->n;
    const T *x2 = (const T *)s->points2 + j->first, *y2 = x2 + s->n2, *z2 = y2 + s->n2;
    T cell[9];
    for (int c = 0; c < 9; c++) cell[c] = (T)s->cell[c];
    for (int a = 0; a < i->count; a++) {
        const T point[3] = {x1[a], y1[a], z1[a]};
        const int from = i == j ? a + 1 : 0; /* of one tile, each pair once */
        FN(count_row)
        (s, point, x2 + from, y2 + from, z2 + from, j->count - from, cell, box, histogram);
    }
}

static void FN(tiles_open)(const sorted *s, const tile *i, const tile *j, int64_t *histogram)
{
    FN(count_tiles)(s, i, j, 0, histogram);
}

static void FN(tiles_right)(const sorted *s, const tile *i, const tile *j, int64_t *histogram)
{
    FN(count_tiles)(s, i, j, 1, histogram);
}

static void FN(tiles_triclinic)(const sorted *s, const tile *i, const tile *j,
                                int64_t *histogram)
{
    FN(count_tiles)(s, i, j, 2, histogram);
}

#else
#include <stdatomic.h>

#include "cpu/rdf/tiles.h"

enum { CHUNK = 128 }; /* distances held between the two passes over them */

#define GOP_TPL "cpu/rdf/simd.c"
#include "cpu/rdf/each_float.inc"

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

static gop_status count_all(const gop_task *task)
{
    const layout *const at = GOP_OWN(const layout, task->plan);
    const sorted points = sort_points(task, at);
    const int64_t n = points.ntiles;
    work w = {.task = task, .points = &points, .at = at, .count = counter_of(task)};
    w.items = task->geometry.pairs.one_set ? n * (n + 1) / 2 : n * points.ntiles2;
    if (at->slots == 1) count_slot(&w, 0, 1, 0);
    else GOP_TRY(gop_parallel(at->slots, 1, count_slot, &w));
    if (atomic_load(&w.status) != GOP_OK) return GOP_INTERRUPTED; /* its sentence is kept */
    add_slots(task, at);
    return GOP_OK;
}

static gop_status rdf_simd(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return count_all(task);
}

static gop_status rdf_simd_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    (void)ctx;
    return plan_slots(task, 1, plan);
}

static const gop_row rdf_simd_row = {
    .name = "simd",
    .note = "distances and bins of 128 pairs in vector registers, then their increments",
    .role = GOP_CONFORMING,
    .launch = {[GOP_FLOAT32] = rdf_simd, [GOP_FLOAT64] = rdf_simd},
    .plan = rdf_simd_plan,
};

#endif
