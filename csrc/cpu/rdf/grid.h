/*
 * grid.h - the points of a call in a grid of cells, and the cells near a group of points.
 */
#ifndef GOP_CPU_RDF_GRID_H
#define GOP_CPU_RDF_GRID_H

#include "cpu/rdf/slots.h"

enum {
    VECTOR = 16,   /* numbers that are copied and processed at a time */
    COPIED = 1024, /* points near a group that are copied at a time: they fit in a cache */
    ITEM = 64,     /* points of a work item */
};

/* A set of points, sorted by cell. */
typedef struct cell_set {
    int64_t n, room; /* room: numbers from x[0] to y[0] */
    void *points;    /* x, y, z */
    int32_t *types;
    int32_t *key;   /* the cell of each point */
    int64_t *start; /* the first point of each cell, and the end */
} cell_set;

typedef struct cells {
    const gop_pairs *pairs;
    gop_grid grid;
    int64_t count;       /* number of cells */
    int one_set, second; /* second: the set that points are paired with */
    int space;
    cell_set sets[2];
    bin_search search;
    char *copies; /* one buffer for each slot */
    size_t copy_bytes;
} cells;

/* Points that are consecutive in the order of cells, and the copied points near them. */
typedef struct group {
    int64_t begin, end; /* points of the first set */
    int at[3], width;   /* the first point's cell; further cells along a */
    int met;            /* points in `copied` */
    int itself;         /* 1: the copied points start with the group itself */
    void *copied;       /* x[COPIED], y, z */
    int32_t *types;
    void *space;
    int64_t *histogram;
} group;

typedef struct box_of_cells {
    int low[3], high[3]; /* offsets along b and c; those along a depend on the row */
} box_of_cells;

/* The plan. */
typedef struct cells_layout {
    gop_grid grid;
    int fixed; /* the offset of two cells determines the image */
    int64_t count;
    struct {
        size_t points, types, key, start;
    } sets[2];
    size_t copies, copy_bytes;
    slots slots;
} cells_layout;

/* Finds the next group: points in a few cells of one row of cells, before `end`. */
static void next_group(const cells *c, group *g, int64_t end)
{
    const int32_t *key = c->sets[0].key;
    const int n0 = c->grid.n[0], n1 = c->grid.n[1];
    const int32_t first = key[g->end], row = first / n0;
    const int32_t most =
        (int32_t)gop_smaller((int64_t)first + c->grid.span, ((int64_t)row + 1) * n0);
    g->begin = g->end;
    while (g->end < end && key[g->end] < most) g->end++;
    g->at[0] = first % n0, g->at[1] = row % n1, g->at[2] = row / n1;
    g->width = key[g->end - 1] - first;
    g->met = g->itself = 0;
}

/* Finds the offsets of near cells in an image. Returns 0 if there are none. */
static int cells_of_image(const cells *c, const group *g, const int image[3],
                          box_of_cells *near)
{
    for (int k = 0; k < 3; k++) {
        const int n = c->grid.n[k], reach = c->grid.reach[k], before = image[k] * n - g->at[k];
        near->low[k] = before > -reach ? before : -reach;
        near->high[k] = before + n - 1 < reach ? before + n - 1 : reach;
        if (k == 0) near->high[k] = gop_smaller(before + n - 1, reach + g->width);
        if (near->low[k] > near->high[k]) return 0;
    }
    return 1;
}

/* Finds the points [*begin, *end) of the second set that are in the near cells of a row, in an
 * image. */
static void row_of_cells(const cells *c, const group *g, const int image[3], int oz, int oy,
                         int64_t *begin, int64_t *end)
{
    const gop_grid *grid = &c->grid;
    const int row = gop_grid_row(grid, oz, oy), n = grid->n[0], shift = image[0] * n;
    const int64_t y = g->at[1] + oy - image[1] * grid->n[1];
    const int64_t z = g->at[2] + oz - image[2] * grid->n[2], base = (z * grid->n[1] + y) * n;
    const int64_t *start = c->sets[c->second].start;
    int low = g->at[0] + grid->first[row] - shift;
    int high = g->at[0] + grid->last[row] + g->width - shift;
    low = low > 0 ? low : 0;
    high = high < n - 1 ? high : n - 1;
    *begin = *end = 0;
    if (grid->first[row] > grid->last[row] || low > high) return;
    *begin = start[base + low];
    *end = start[base + high + 1];
}

static cells cells_of(const gop_task *task, const cells_layout *at)
{
    const gop_pairs *p = &task->geometry.pairs;
    char *scratch = task->scratch;
    cells c = {.pairs = p,
               .grid = at->grid,
               .count = at->count,
               .one_set = p->one_set,
               .second = !p->one_set,
               .search = search_of(task, &at->slots),
               .copies = scratch + at->copies,
               .copy_bytes = at->copy_bytes};
    space_float32 narrow;
    space_float64 wide;
    c.space = task->in[0].dtype == GOP_FLOAT32 ? space_of_float32(p, &narrow)
                                               : space_of_float64(p, &wide);
    if (at->fixed) c.space = p->box == 1 ? RIGHT_FIXED : SKEW_FIXED;
    for (int k = 0; k <= c.second; k++) {
        cell_set *set = &c.sets[k];
        set->n = k ? p->n2 : p->n;
        set->room = set->n + VECTOR;
        set->points = scratch + at->sets[k].points;
        set->types = (int32_t *)(scratch + at->sets[k].types);
        set->key = (int32_t *)(scratch + at->sets[k].key);
        set->start = (int64_t *)(scratch + at->sets[k].start);
    }
    return c;
}

#endif
