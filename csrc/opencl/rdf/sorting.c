/*
 * sorting.c - points sorted into the cells of a grid: the launches of sorting.cl.
 */
#include <stdio.h>
#include <string.h>

#include "opencl/rdf/rdf.h"

enum { BEHIND = 16, SCANNED = 256 }; /* numbers behind the last; work-items of the scan */
/* The parts of a set's memory. */
enum { KEY, RANK, START, POINTS, TYPES, SORTED_KEY, PARTS = GOP_CL_RDF_PARTS };

void gop_cl_rdf_sort_plan(const gop_ctx *ctx, const gop_task *task, const gop_grid_costs *costs,
                          int one, gop_cl_rdf_sorted *own, size_t *end)
{
    const gop_pairs *p = &task->geometry.pairs;
    const gop_near near = gop_near_of(p, task->in[0].dtype == GOP_FLOAT32);
    char more[32];
    if (one) own->grid = (gop_grid){.n = {1, 1, 1}, .span = 1, .cost = INFINITY};
    else own->grid = gop_grid_choose(p, &near, costs);
    own->cells = own->grid.n[0] * own->grid.n[1] * own->grid.n[2];
    snprintf(more, sizeof more, "-DGROUP=%d%s", gop_cl_group(ctx, SCANNED),
             own->cells == 1 ? " -DONE" : "");
    gop_cl_rdf_options(ctx, task, more, own->options);
    for (int k = 0; k <= !p->one_set; k++) {
        const int64_t n = k ? p->n2 : p->n, sorted = own->cells > 1 ? n : 1;
        const int64_t counts[PARTS] = {sorted,
                                       sorted,
                                       (int64_t)own->cells + 1,
                                       3 * (n + BEHIND),
                                       p->types ? n + BEHIND : 1,
                                       n};
        own->set[k].room = (int)n + BEHIND;
        for (int part = 0; part < PARTS; part++) {
            const int64_t item = part == POINTS ? gop_cl_item(task->in[0].dtype) : 4;
            own->set[k].part[part].at = gop_cl_rdf_room(end, counts[part] * item);
            own->set[k].part[part].count = counts[part];
        }
    }
    if (p->one_set) own->set[1] = own->set[0];
}

gop_cl_rdf_grid gop_cl_rdf_grid_of(const gop_cl_rdf_sorted *own)
{
    gop_cl_rdf_grid grid = {.room = {own->set[0].room, own->set[1].room}};
    for (int k = 0; k < 3; k++) {
        grid.n[k] = own->grid.n[k];
        grid.reach[k] = own->grid.reach[k];
    }
    for (int row = 0; row < GOP_GRID_ROWS; row++) {
        grid.first[row] = (int16_t)own->grid.first[row];
        grid.last[row] = (int16_t)own->grid.last[row];
    }
    return grid;
}

static gop_array part_of(const gop_task *task, const gop_cl_rdf_sorted *own, int k, int part)
{
    return gop_cl_in_scratch(task->scratch, own->set[k].part[part].at,
                             part == POINTS ? task->in[0].dtype : GOP_INT32,
                             own->set[k].part[part].count);
}

void gop_cl_rdf_give_sorted(const gop_task *task, const gop_cl_rdf_sorted *own,
                            gop_array kept[GOP_CL_OPERANDS], gop_cl_launch *launch)
{
    static const int in_order[][2] = {{0, POINTS}, {0, TYPES}, {0, SORTED_KEY},
                                      {1, POINTS}, {1, TYPES}, {1, START}};
    for (int o = 0; o < (int)(sizeof in_order / sizeof *in_order); o++) {
        kept[o] = part_of(task, own, in_order[o][0], in_order[o][1]);
        gop_cl_give(launch, &kept[o], 0);
    }
    gop_cl_give(launch, &task->in[1], 0);
}

/* ---- launches ---- */

/* As sorting.cl has it. */
typedef struct places {
    double row[9], low[3], per[3], most[3];
    int32_t n[3], is_box;
} places;

static places places_of(const gop_task *task, const gop_grid *g)
{
    const gop_pairs *p = &task->geometry.pairs;
    places at = {.is_box = p->box != 0};
    memcpy(at.row, p->cell, sizeof at.row);
    for (int k = 0; k < 3; k++) {
        at.low[k] = g->low[k], at.per[k] = g->per[k], at.most[k] = g->most[k];
        at.n[k] = g->n[k];
    }
    return at;
}

/* Of names and options that live as long. */
static gop_cl_launch launch_of(gop_ctx *ctx, const gop_cl_rdf_sorted *own, const char *kernel,
                               int64_t items, int group)
{
    return (gop_cl_launch){.source = "rdf/sorting",
                           .kernel = kernel,
                           .options = own->options,
                           .dimensions = 1,
                           .global = {(size_t)items},
                           .local = {(size_t)gop_cl_group(ctx, group)}};
}

/* Where points of a set begin, and the place of each in its cell. */
static gop_status place_set(gop_ctx *ctx, const gop_task *task, const gop_cl_rdf_sorted *own,
                            int k, const gop_array part[PARTS])
{
    const gop_pairs *p = &task->geometry.pairs;
    const int64_t row = k ? p->row2 : p->row, col = k ? p->col2 : p->col;
    const int n = own->set[k].room - BEHIND, cells = own->cells;
    const places at = places_of(task, &own->grid);
    gop_cl_launch zero = launch_of(ctx, own, "rdf_zero_kernel", cells + 1, 64);
    gop_cl_launch place = launch_of(ctx, own, "rdf_place_kernel", n, 64);
    gop_cl_launch scan = launch_of(ctx, own, "rdf_scan_kernel", 1, SCANNED);
    gop_cl_give(&zero, &part[START], 1);
    GOP_CL_SAY(&zero, cells);
    gop_cl_give(&place, &task->in[k ? 2 : 0], 0);
    for (int i = KEY; i <= START; i++) gop_cl_give(&place, &part[i], 1);
    GOP_CL_SAY(&place, at);
    GOP_CL_SAY(&place, row);
    GOP_CL_SAY(&place, col);
    GOP_CL_SAY(&place, n);
    gop_cl_give(&scan, &part[START], 1);
    GOP_CL_SAY(&scan, cells);
    GOP_TRY(gop_cl_run(ctx, &zero));
    GOP_TRY(gop_cl_run(ctx, &place));
    return gop_cl_run(ctx, &scan);
}

static gop_status sort_set(gop_ctx *ctx, const gop_task *task, const gop_cl_rdf_sorted *own,
                           int k)
{
    const gop_pairs *p = &task->geometry.pairs;
    const int64_t row = k ? p->row2 : p->row, col = k ? p->col2 : p->col;
    const int64_t type_row = gop_cl_rdf_types(task, k)->strides[0] / 4;
    const int room = own->set[k].room, n = room - BEHIND;
    gop_cl_launch scatter = launch_of(ctx, own, "rdf_scatter_kernel", room, 64);
    gop_array part[PARTS];
    for (int i = 0; i < PARTS; i++) part[i] = part_of(task, own, k, i);
    if (own->cells > 1) GOP_TRY(place_set(ctx, task, own, k, part));
    gop_cl_give(&scatter, &task->in[k ? 2 : 0], 0);
    gop_cl_give(&scatter, gop_cl_rdf_types(task, k), 0);
    for (int i = KEY; i < PARTS; i++) gop_cl_give(&scatter, &part[i], i >= START);
    GOP_CL_SAY(&scatter, row);
    GOP_CL_SAY(&scatter, col);
    GOP_CL_SAY(&scatter, type_row);
    GOP_CL_SAY(&scatter, n);
    GOP_CL_SAY(&scatter, room);
    return gop_cl_run(ctx, &scatter);
}

gop_status gop_cl_rdf_sort(gop_ctx *ctx, const gop_task *task, const gop_cl_rdf_sorted *own)
{
    GOP_TRY(sort_set(ctx, task, own, 0));
    return task->geometry.pairs.one_set ? GOP_OK : sort_set(ctx, task, own, 1);
}
