/*
 * simd.c - rdf by pairs of tiles: distances and bins of 128 pairs in vector registers.
 *
 * If points stay near their box, the nearest image is found by comparison with the thresholds
 * between images: a division per component would cost more than everything else (space.h).
 */
#ifdef D

static ALWAYS_INLINE void FN(count_tiles)(const sorted *s, const tile *i, const tile *j,
                                          const FN(space) * at, int space, int64_t *histogram)
{
    const T *x1 = (const T *)s->points + i->first, *y1 = x1 + s->n, *z1 = y1 + s->n;
    const T *x2 = (const T *)s->points2 + j->first, *y2 = x2 + s->n2, *z2 = y2 + s->n2;
    for (int a = 0; a < i->count; a++) {
        const T point[3] = {x1[a], y1[a], z1[a]};
        const int from = i == j ? a + 1 : 0; /* within one tile, each pair once */
        FN(count_row)
        (&s->search, point, x2 + from, y2 + from, z2 + from, j->count - from, 1, at, space, 0,
         NULL, histogram);
    }
}

static void FN(count_pair)(const void *work, int64_t item, int64_t slot, int64_t *histogram)
{
    const sorted *s = work;
    const gop_pairs *p = s->pairs;
    FN(space) at;
    const int space = FN(space_of)(p, &at);
    const tile *i, *j;
    (void)slot;
    tiles_at(s, p->one_set, item, &i, &j);
    histogram += row_of(i->type, j->type, p->types) * (p->bins + 1);
    switch (space) { /* a separate loop for each */
    case OPEN:
        FN(count_tiles)(s, i, j, &at, OPEN, histogram);
        break;
    case RIGHT:
        FN(count_tiles)(s, i, j, &at, RIGHT, histogram);
        break;
    case SKEW:
        FN(count_tiles)(s, i, j, &at, SKEW, histogram);
        break;
    case RIGHT_NEAR:
        FN(count_tiles)(s, i, j, &at, RIGHT_NEAR, histogram);
        break;
    default:
        FN(count_tiles)(s, i, j, &at, SKEW_NEAR, histogram);
    }
}

#else
#include "cpu/rdf/tiles.h"

#define GOP_TPL "cpu/rdf/simd.c"
#include "cpu/rdf/each_float.inc"

static gop_status count_all(const gop_task *task)
{
    const layout *const at = GOP_OWN(const layout, task->plan);
    const sorted points = sort_points(task, at);
    const int64_t n = points.ntiles;
    const int64_t items = points.pairs->one_set ? n * (n + 1) / 2 : n * points.ntiles2;
    return count_in_slots(task, &at->slots,
                          task->in[0].dtype == GOP_FLOAT32 ? count_pair_float32
                                                           : count_pair_float64,
                          &points, items);
}

static gop_status rdf_simd(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return count_all(task);
}

static gop_status rdf_simd_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    (void)ctx;
    return plan_tiles(task, 1, plan);
}

static const gop_row rdf_simd_row = {
    .name = "simd",
    .note = "distances and bins of 128 pairs in vector registers, then their increments",
    .role = GOP_CONFORMING,
    .launch = {[GOP_FLOAT32] = rdf_simd, [GOP_FLOAT64] = rdf_simd},
    .plan = rdf_simd_plan,
};

#endif
