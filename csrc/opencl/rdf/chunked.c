/*
 * chunked.c - the plan of chunked.cl.
 */
#include <stdio.h>

#include "opencl/rdf/sorting.h"

enum {
    SLOTS = 16,         /* a processor: the last ones even out */
    COUNTED = 64 << 20, /* bytes of all slots' counters, at most */
    COPIED = 1 << 14,   /* counters of which there are copies, at most */
};

/* The plan. */
typedef struct chunked {
    const gop_cl_names *names;
    gop_cl_rdf_sorted sorted;
    char options[GOP_CL_OPTIONS];
    size_t slots;
    int64_t each, counters; /* points of a step; of all slots */
    int count, copies;      /* slots, copies of each one's counters */
} chunked;

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const chunked *const own = GOP_OWN(const chunked, task->plan);
    const gop_pairs *p = &task->geometry.pairs;
    if (p->n == 0 || p->n2 == 0) return gop_cl_rdf_clear(ctx, task);
    if (step == 0) GOP_TRY(gop_cl_rdf_sort(ctx, task, &own->sorted));
    const int64_t end = (step + 1) * own->each;
    gop_array slots = gop_cl_in_scratch(task->scratch, own->slots, GOP_INT64, own->counters);
    gop_cl_rdf_call call = gop_cl_rdf_call_of(task);
    gop_cl_rdf_box box = gop_cl_rdf_box_of(task);
    gop_cl_rdf_grid grid = gop_cl_rdf_grid_of(&own->sorted);
    gop_cl_rdf_range range = {step * own->each, end < p->n ? end : p->n, 0, step == 0};
    range.j0 = (range.i1 - range.i0 + own->count - 1) / own->count;
    gop_array kept[GOP_CL_OPERANDS];
    gop_cl_launch l = {.source = own->names->source,
                       .kernel = own->names->kernel,
                       .options = own->options,
                       .dimensions = 1,
                       .global = {(size_t)own->count},
                       .local = {1}};
    gop_cl_rdf_give_sorted(task, &own->sorted, kept, &l);
    gop_cl_give(&l, &slots, 1);
    GOP_CL_SAY(&l, call);
    gop_cl_say(&l, box.bytes, box.numbers);
    GOP_CL_SAY(&l, range);
    GOP_CL_SAY(&l, grid);
    GOP_TRY(gop_cl_run(ctx, &l));
    if (step < task->plan->steps - 1) return GOP_OK;
    return gop_cl_rdf_sum(ctx, task, &slots, own->count * own->copies);
}

/* Measured on PoCL. */
static const gop_grid_costs costs = {40.0, 0.0, 15.0, 0.0, 1.5, 1};

gop_status gop_cl_rdf_chunked(const gop_ctx *ctx, const gop_task *task,
                              const gop_cl_names *names, gop_plan *plan)
{
    const gop_pairs *p = &task->geometry.pairs;
    const int64_t size = task->out[0].shape[0] * (p->bins + 1);
    const int has_cells = task->tune[0] && gop_cl_has_double(ctx);
    chunked *const own = GOP_OWN(chunked, plan);
    char more[64];
    GOP_TRY(gop_cl_rdf_can(ctx, task, names));
    plan->scratch = 0;
    gop_cl_rdf_sort_plan(ctx, task, &costs, !has_cells, &own->sorted, &plan->scratch);
    const int one = own->sorted.cells == 1, width = one ? 16 : 8; /* runs of cells are short */
    own->copies = size <= COPIED ? 4 : 1;
    int64_t count = (int64_t)ctx->info.processors * SLOTS;
    const int64_t most = COUNTED / (8 * size * own->copies);
    if (count > most) count = most > ctx->info.processors ? most : ctx->info.processors;
    if (count > p->n && p->n > 0) count = p->n;
    own->count = (int)count;
    own->counters = count * own->copies * size;
    own->slots = gop_cl_rdf_room(&plan->scratch, 8 * own->counters);
    snprintf(more, sizeof more, "-DWIDTH=%d -DCOPIES=%d%s",
             task->tune[1] ? (int)task->tune[1] : width, own->copies, one ? " -DONE" : "");
    gop_cl_rdf_options(ctx, task, more, own->options);
    const double all = (double)p->n * (double)p->n2;
    const double steps = (one ? all : own->sorted.grid.cost) / 0x1p27;
    plan->steps = steps < 1 ? 1 : steps > (double)p->n ? p->n : (int64_t)steps;
    own->each = p->n / plan->steps + 1;
    plan->launch = launch;
    own->names = names;
    return GOP_OK;
}
