/*
 * cells.c - the plan of cells.cl.
 */
#include <stdio.h>

#include "opencl/rdf/sorting.h"

/* The plan. */
typedef struct cells {
    const gop_cl_names *names;
    gop_cl_rdf_sorted sorted;
    char options[GOP_CL_OPTIONS];
    size_t nearby, histogram;
    int64_t each; /* points of a step */
    int group;
} cells;

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const cells *const own = GOP_OWN(const cells, task->plan);
    const gop_pairs *p = &task->geometry.pairs;
    if (step == 0) GOP_TRY(gop_cl_rdf_clear(ctx, task));
    if (p->n == 0 || p->n2 == 0) return GOP_OK;
    if (step == 0) GOP_TRY(gop_cl_rdf_sort(ctx, task, &own->sorted));
    const int64_t end = (step + 1) * own->each;
    gop_cl_rdf_call call = gop_cl_rdf_call_of(task);
    gop_cl_rdf_box box = gop_cl_rdf_box_of(task);
    gop_cl_rdf_grid grid = gop_cl_rdf_grid_of(&own->sorted);
    gop_cl_rdf_range range = {step * own->each, end < p->n ? end : p->n, 0, 0};
    gop_array kept[GOP_CL_OPERANDS];
    gop_cl_launch l = {.source = own->names->source,
                       .kernel = own->names->kernel,
                       .options = own->options,
                       .dimensions = 1,
                       .global = {(size_t)(range.i1 - range.i0)},
                       .local = {(size_t)own->group}};
    gop_cl_rdf_give_sorted(task, &own->sorted, kept, &l);
    gop_cl_give(&l, &task->out[0], 1);
    GOP_CL_SAY(&l, call);
    gop_cl_say(&l, box.bytes, box.numbers);
    GOP_CL_SAY(&l, range);
    GOP_CL_SAY(&l, grid);
    gop_cl_say(&l, own->nearby, NULL);
    gop_cl_say(&l, own->histogram, NULL);
    return gop_cl_run(ctx, &l);
}

/* Those of the cuda backend: a GPU that runs OpenCL has the same things to do. */
static const gop_grid_costs costs = {20.0, 0.0, 15.0, 0.0, 1.0, 1};

gop_status gop_cl_rdf_cells(const gop_ctx *ctx, const gop_task *task, const gop_cl_names *names,
                            gop_plan *plan)
{
    const gop_pairs *p = &task->geometry.pairs;
    const int copies = gop_cl_rdf_copies(task);
    cells *const own = GOP_OWN(cells, plan);
    char more[64];
    GOP_TRY(gop_cl_rdf_can(ctx, task, names));
    if (!gop_cl_has_double(ctx))
        return gop_fail(
            GOP_REFUSED,
            "rdf: kernel 'cells' needs float64 for places in its grid, which %s has "
            "not; kernel 'guessed' takes all pairs",
            gop_cl_device_name(ctx));
    if (p->n2 > 1 << 24)
        return gop_fail(GOP_REFUSED,
                        "rdf: kernel 'cells' takes sets of up to 2^24 points, got %lld",
                        (long long)p->n2);
    own->group = gop_cl_group(ctx, (int)task->tune[0]);
    own->nearby = (size_t)((p->bins + 1) * gop_cl_item(task->in[0].dtype));
    own->histogram = gop_cl_rdf_counter_bytes(task) * (size_t)copies;
    GOP_TRY(gop_cl_rdf_fits(ctx, task, names, copies, (int64_t)own->nearby));
    plan->scratch = 0;
    gop_cl_rdf_sort_plan(ctx, task, &costs, 0, &own->sorted, &plan->scratch);
    plan->cost = own->sorted.cells == 1 ? INFINITY : (float)own->sorted.grid.cost;
    snprintf(more, sizeof more, "-DGROUP=%d -DCOPIES=%d", own->group, copies);
    gop_cl_rdf_options(ctx, task, more, own->options);
    const double steps = own->sorted.grid.cost / 0x1p33; /* pairs of a step */
    plan->steps = steps < 1 ? 1 : steps > (double)p->n ? p->n : (int64_t)steps;
    own->each = p->n / plan->steps + 1;
    plan->launch = launch;
    own->names = names;
    return GOP_OK;
}
