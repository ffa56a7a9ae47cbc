/*
 * cells.c - rdf that visits only near cells: points are sorted into a grid (core/ops/rdf.h).
 *
 * Points of neighbouring cells, a group, share the points that are near. Those are gathered
 * cell by cell, with their original coordinates, and each point of the group is paired with
 * them in full vectors. A pair within one set belongs to the point that is first in the order
 * of cells.
 *
 * If no axis is a single cell and the points span at most one period, the offset between two
 * cells determines by which image a pair can be near. Then the copies are sorted by image, and
 * a constant replaces the search for the nearest image. That is exact: let k be the images of a
 * pair's only visit (no cell is visited twice). If the pair counts, the offset of its nearest
 * images n is visited, so k = n. If k gives an r2 below the last threshold, the difference by k
 * is at most `radius` long, and radius + error is less than half of each height. So the
 * quotients are less than 1/2 from k, and n = k. So a pair visited by k other than n does not
 * count, neither here nor by the definition. Along an open axis n is 0, and k is taken as 0. (1
 * times a row of the box is exact, and subtracting 0 changes nothing.)
 */
#ifdef D

/* Sorts a set by cell, stable within a cell. The arrays have room for one more vector at the
 * end. */
static gop_status FN(sort_cells)(const gop_task *task, const cells *c, const cell_set *set,
                                 int second)
{
    const gop_pairs *p = &task->geometry.pairs;
    const gop_array *types = types_of(task, second);
    const double *box = p->box ? p->cell : NULL;
    const T *from = task->in[second ? 2 : 0].data;
    const int64_t row = second ? p->row2 : p->row, col = second ? p->col2 : p->col;
    T *x = set->points, *y = x + set->room, *z = y + set->room;
    int64_t *start = set->start;
    memset(start, 0, (size_t)(c->count + 1) * sizeof *start);
    for (int64_t i = 0; i < set->n; i++) {
        const T *at = from + i * row;
        double s[3];
        if (i % GOP_HEAR == GOP_HEAR - 1) GOP_TRY(gop_interrupted());
        gop_fractions(box, at[0], at[col], at[2 * col], s);
        set->key[i] = (int32_t)gop_grid_cell(&c->grid, s);
        start[set->key[i]]++;
    }
    int64_t sum = 0;
    for (int64_t k = 0; k <= c->count; k++) { /* the end of each cell, to be counted down */
        sum += start[k];
        start[k] = sum;
    }
    for (int64_t i = set->n - 1; i >= 0; i--) {
        const T *at = from + i * row;
        const int64_t to = --start[set->key[i]];
        if (i % GOP_HEAR == GOP_HEAR - 1) GOP_TRY(gop_interrupted());
        x[to] = at[0], y[to] = at[col], z[to] = at[2 * col];
        if (types) set->types[to] = type_at(types, i);
    }
    for (int64_t k = 0; k < c->count; k++)
        for (int64_t i = start[k]; i < start[k + 1]; i++) set->key[i] = (int32_t)k;
    memset(x + set->n, 0, VECTOR * sizeof(T));
    memset(y + set->n, 0, VECTOR * sizeof(T));
    memset(z + set->n, 0, VECTOR * sizeof(T));
    return GOP_OK;
}

/* Counts the pairs of all points of the group with the copied points. */
static ALWAYS_INLINE void FN(meet)(const cells *c, const group *g, int space, int typed)
{
    const cell_set *set = &c->sets[0];
    const T *x1 = set->points, *y1 = x1 + set->room, *z1 = y1 + set->room;
    T *x = g->copied, *y = x + COPIED, *z = y + COPIED;
    const FN(space) at = *(const FN(space) *)g->space;
    for (int k = g->met; k % VECTOR; k++) x[k] = y[k] = z[k] = (T)NAN; /* NaN is in no bin */
    for (int64_t i = g->begin; i < g->end; i++) {
        const T a[3] = {x1[i], y1[i], z1[i]};
        int from = 0;
        if (g->itself) { /* only the points after point i */
            from = (int)(i - g->begin);
            x[from] = (T)NAN;
            from = from / VECTOR * VECTOR;
        }
        FN(count_row)
        (&c->search, a, x + from, y + from, z + from, g->met - from, VECTOR, &at, space,
         typed ? set->types[i] : 0, typed ? g->types + from : NULL, g->histogram);
    }
}

static void FN(meet_all)(const cells *c, group *g)
{
    if (g->met == 0) return;
#define EACH(space)                                                                            \
    case space:                                                                                \
        if (c->search.types) FN(meet)(c, g, space, 1);                                         \
        else FN(meet)(c, g, space, 0);                                                         \
        break
    switch (c->space) {
        EACH(OPEN);
        EACH(RIGHT);
        EACH(SKEW);
        EACH(RIGHT_NEAR);
        EACH(SKEW_NEAR);
        EACH(RIGHT_FIXED);
        EACH(SKEW_FIXED);
    }
#undef EACH
    g->met = g->itself = 0;
}

/* Copies points [begin, end) of the second set to the buffer. */
static void FN(copy)(const cells *c, group *g, int64_t begin, int64_t end)
{
    const cell_set *set = &c->sets[c->second];
    const T *from = set->points;
    T *to = g->copied;
    while (begin < end) {
        const int count = (int)gop_smaller(end - begin, COPIED - VECTOR - g->met);
        for (int k = 0; k < count; k += VECTOR) /* any excess is overwritten */
            for (int axis = 0; axis < 3; axis++)
                memcpy(to + axis * COPIED + g->met + k, from + axis * set->room + begin + k,
                       VECTOR * sizeof(T));
        if (c->search.types)
            memcpy(g->types + g->met, set->types + begin, (size_t)count * sizeof(int32_t));
        g->met += count;
        begin += count;
        if (g->met == COPIED - VECTOR) FN(meet_all)(c, g);
    }
}

/* Sets the images of the points copied from now on: what the definition subtracts, in its
 * order. */
static void FN(fix)(const cells *c, group *g, const int image[3])
{
    FN(space) *at = g->space;
    const int *open = c->grid.open;
    const T na = (T)(open[0] ? 0 : image[0]), nb = (T)(open[1] ? 0 : image[1]);
    const T nc = (T)(open[2] ? 0 : image[2]);
    if (c->space != RIGHT_FIXED && c->space != SKEW_FIXED) return;
    FN(meet_all)(c, g);
    at->shift[0] = nc * at->cell[6], at->shift[1] = nb * at->cell[3];
    at->shift[2] = na * at->cell[0];
    at->shift[3] = nc * at->cell[7], at->shift[4] = nb * at->cell[4];
    at->shift[5] = nc * at->cell[8];
}

static void FN(count_cells)(const void *work, int64_t item, int64_t slot, int64_t *histogram)
{
    const cells *c = work;
    FN(space) space;
    group g = {.histogram = histogram, .space = &space};
    FN(space_of)(c->pairs, &space);
    g.copied = c->copies + (size_t)slot * c->copy_bytes;
    g.types = (int32_t *)((T *)g.copied + 3 * COPIED);
    const int64_t end = gop_smaller((item + 1) * ITEM, c->sets[0].n);
    for (g.end = item * ITEM; g.end < end;) {
        next_group(c, &g, end);
        for (int k = 0; k < 27; k++) { /* the image 0, 0, 0 first */
            static const int order[3] = {0, -1, 1};
            const int image[3] = {order[k % 3], order[k / 3 % 3], order[k / 9]};
            box_of_cells near;
            if (!cells_of_image(c, &g, image, &near)) continue;
            FN(fix)(c, &g, image);
            if (c->one_set && k == 0) { /* its own row first, with the pairs within the group */
                int64_t begin, last;
                row_of_cells(c, &g, image, 0, 0, &begin, &last);
                g.itself = 1;
                FN(copy)(c, &g, g.begin, last);
            }
            for (int oz = near.low[2]; oz <= near.high[2]; oz++)
                for (int oy = near.low[1]; oy <= near.high[1]; oy++) {
                    int64_t begin, last;
                    if (c->one_set && k == 0 && oz == 0 && oy == 0) continue;
                    row_of_cells(c, &g, image, oz, oy, &begin, &last);
                    if (c->one_set && begin < g.begin) begin = g.begin;
                    FN(copy)(c, &g, begin, last);
                }
        }
        FN(meet_all)(c, &g);
    }
}

#else
#include "cpu/rdf/grid.h"

#define GOP_TPL "cpu/rdf/cells.c"
#include "cpu/rdf/each_float.inc"

static gop_status rdf_cells(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const cells_layout *const at = GOP_OWN(const cells_layout, task->plan);
    const int is_float = task->in[0].dtype == GOP_FLOAT32;
    const cells c = cells_of(task, at);
    (void)ctx, (void)step;
    for (int k = 0; k <= c.second; k++)
        GOP_TRY((is_float ? sort_cells_float32 : sort_cells_float64)(task, &c, &c.sets[k], k));
    return count_in_slots(task, &at->slots,
                          is_float ? count_cells_float32 : count_cells_float64, &c,
                          (c.sets[0].n + ITEM - 1) / ITEM);
}

/* Measured costs; vectors are not always full. */
static const gop_grid_costs cpu_costs = {40.0, 60.0, 8.0, 0.3, 1.15, 64};

static gop_status rdf_cells_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_pairs *p = &task->geometry.pairs;
    const int is_float = task->in[0].dtype == GOP_FLOAT32;
    const gop_near near = gop_near_of(p, is_float);
    cells_layout *at = GOP_OWN(cells_layout, plan);
    size_t end = 0;
    GOP_TRY(plan_one_frame(ctx, task, plan));
    at->grid = gop_grid_choose(p, &near, &cpu_costs);
    const gop_grid *g = &at->grid;
    at->count = (int64_t)g->n[0] * g->n[1] * g->n[2];
    plan->cost = at->count == 1 ? INFINITY : (float)g->cost; /* in pairs of a double loop */
    at->fixed = p->box && !g->wide;
    for (int k = 0; k < 3; k++)
        at->fixed = at->fixed && p->high[k] - p->low[k] <= 1 &&
                    near.radius + near.error < 0.4999 * near.height[k];
    for (int k = 0; k <= !p->one_set; k++) {
        const size_t count = (size_t)(k ? p->n2 : p->n), item = is_float ? 4 : 8;
        at->sets[k].points = room_for(&end, 3 * (count + VECTOR) * item);
        at->sets[k].types = p->types ? room_for(&end, count * sizeof(int32_t)) : 0;
        at->sets[k].key = room_for(&end, count * sizeof(int32_t));
        at->sets[k].start = room_for(&end, (size_t)(at->count + 1) * sizeof(int64_t));
    }
    at->slots = plan_histograms(task, ctx->info.processors, &end);
    at->copy_bytes = COPIED * (3 * (is_float ? 4 : 8) + sizeof(int32_t));
    at->copies = room_for(&end, (size_t)at->slots.count * at->copy_bytes);
    plan->scratch = end;
    return GOP_OK;
}

static const gop_row rdf_cells_row = {
    .name = "cells",
    .note = "points sorted into cells: only cells that can hold a near pair are looked at",
    .role = GOP_CONFORMING,
    .launch = {[GOP_FLOAT32] = rdf_cells, [GOP_FLOAT64] = rdf_cells},
    .plan = rdf_cells_plan,
};

#endif
