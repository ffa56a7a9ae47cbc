/*
 * tiles.h - gathers points by type into x[], y[], z[], and cuts them into tiles.
 */
#ifdef D

static void FN(gather)(const gop_array *points, int64_t row, int64_t col,
                       const gop_array *types, int64_t *next, void *to)
{
    const int64_t n = points->shape[0];
    const T *from = points->data;
    T *x = to, *y = x + n, *z = y + n;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = types ? next[type_at(types, i)]++ : i;
        x[at] = from[i * row];
        y[at] = from[i * row + col];
        z[at] = from[i * row + 2 * col];
    }
}

#elif !defined(GOP_CPU_RDF_TILES_H)
#define GOP_CPU_RDF_TILES_H

#include "cpu/rdf/slots.h"

#define GOP_TPL "cpu/rdf/tiles.h"
#include "cpu/rdf/each_float.inc"

enum {
    TILE = 512, /* points of a tile: two tiles fit in the L1 cache */
};

typedef struct tile {
    int64_t first;
    int32_t count, type;
} tile;

/* The points of both sets, sorted by type and cut into tiles of one type each. With one set,
 * the second is the first. */
typedef struct sorted {
    const gop_pairs *pairs;
    int64_t n, n2;
    const void *points, *points2; /* x[n], y[n], z[n] */
    const tile *tiles, *tiles2;
    int64_t ntiles, ntiles2;
    bin_search search;
} sorted;

/* The plan: the layout of scratch. */
typedef struct layout {
    size_t points, points2, tiles, tiles2, next; /* byte offsets */
    slots slots;
} layout;

/* The plan of a kernel with `count` slots. */
static gop_status plan_tiles(const gop_task *task, int64_t count, gop_plan *plan)
{
    const gop_pairs *p = &task->geometry.pairs;
    const size_t point = (size_t)(3 * gop_dtype_size(task->in[0].dtype));
    const size_t types = (size_t)p->types, n = (size_t)p->n, n2 = (size_t)p->n2;
    layout *at = GOP_OWN(layout, plan);
    GOP_TRY(plan_one_frame(NULL, task, plan));
    size_t end = 0;
    at->points = room_for(&end, n * point);
    at->points2 = p->one_set ? at->points : room_for(&end, n2 * point);
    at->tiles = room_for(&end, (n / TILE + types + 1) * sizeof(tile));
    at->tiles2 =
        p->one_set ? at->tiles : room_for(&end, (n2 / TILE + types + 1) * sizeof(tile));
    at->next = room_for(&end, (types + 1) * sizeof(int64_t));
    at->slots = plan_histograms(task, count, &end);
    plan->scratch = end;
    return GOP_OK;
}

/* Sorts one set by type and cuts it into tiles. Returns their number. */
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
        next[type] = first; /* replaces the count by the place of the next point */
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
    sorted s = {.pairs = p,
                .n = p->n,
                .n2 = p->n2,
                .points = scratch + at->points,
                .points2 = scratch + at->points2,
                .tiles = (tile *)(scratch + at->tiles),
                .tiles2 = (tile *)(scratch + at->tiles2),
                .search = search_of(task, &at->slots)};
    int64_t *next = (int64_t *)(scratch + at->next);
    s.ntiles = gather(task, 0, next, scratch + at->points, (tile *)(scratch + at->tiles));
    s.ntiles2 = p->one_set ? s.ntiles
                           : gather(task, 1, next, scratch + at->points2,
                                    (tile *)(scratch + at->tiles2));
    return s;
}

/* Finds the tiles of work item w. With one set, these are the pairs i <= j, row by row. */
static void tiles_at(const sorted *s, int one_set, int64_t w, const tile **i, const tile **j)
{
    int64_t row = w / (s->ntiles2 ? s->ntiles2 : 1), column = w % s->ntiles2;
    if (one_set) {
        /* From the last row up, rows have 1, 2, 3, ... items: count from the end. */
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

#endif
