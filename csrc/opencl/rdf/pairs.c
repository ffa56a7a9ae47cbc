/*
 * pairs.c - the plans of kernels that look at all pairs: naive, shared, guessed.
 */
#include "opencl/rdf/arguments.h"

#include <stdio.h>

/* Points and others of a step, the points of a work-group, bytes of local memory. */
typedef struct pairs {
    const gop_cl_names *names;
    char options[GOP_CL_OPTIONS];
    int64_t points, others, each;
    size_t nearby, histogram;
    int group;
} pairs;

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const pairs *const own = GOP_OWN(const pairs, task->plan);
    const gop_pairs *p = &task->geometry.pairs;
    const int64_t columns = gop_cl_ceil(p->n2, own->others);
    if (step == 0) GOP_TRY(gop_cl_rdf_clear(ctx, task));
    if (p->n == 0 || p->n2 == 0) return GOP_OK;
    gop_cl_rdf_call call = gop_cl_rdf_call_of(task);
    gop_cl_rdf_box box = gop_cl_rdf_box_of(task);
    gop_cl_rdf_range range = {.i0 = step / columns * own->points,
                              .j0 = step % columns * own->others};
    range.i1 = range.i0 + own->points < p->n ? range.i0 + own->points : p->n;
    range.j1 = range.j0 + own->others < p->n2 ? range.j0 + own->others : p->n2;
    gop_cl_launch l = {
        .source = own->names->source,
        .kernel = own->names->kernel,
        .options = own->options,
        .dimensions = 1,
        .global = {(size_t)(gop_cl_ceil(range.i1 - range.i0, own->each) * own->group)},
        .local = {(size_t)own->group}};
    gop_cl_give(&l, &task->in[0], 0);
    gop_cl_give(&l, &task->in[p->one_set ? 0 : 2], 0);
    gop_cl_give(&l, gop_cl_rdf_types(task, 0), 0);
    gop_cl_give(&l, gop_cl_rdf_types(task, 1), 0);
    gop_cl_give(&l, &task->in[1], 0);
    gop_cl_give(&l, &task->out[0], 1);
    GOP_CL_SAY(&l, call);
    gop_cl_say(&l, box.bytes, box.numbers);
    GOP_CL_SAY(&l, range);
    if (own->nearby) gop_cl_say(&l, own->nearby, NULL);
    if (own->histogram) gop_cl_say(&l, own->histogram, NULL);
    return gop_cl_run(ctx, &l);
}

/* What plans have in common: steps of so many points by so many others, a group of work-items
 * with `held` points each, and what a build defines besides. */
static pairs *begin(const gop_ctx *ctx, const gop_task *task, const gop_cl_names *names,
                    int64_t points, int64_t others, int group, int held, gop_plan *plan)
{
    const gop_pairs *p = &task->geometry.pairs;
    pairs *const own = GOP_OWN(pairs, plan);
    *own = (pairs){.names = names, .points = points, .others = others};
    own->group = gop_cl_group(ctx, group);
    own->each = (int64_t)own->group * held;
    plan->steps = gop_cl_ceil(p->n, points) * gop_cl_ceil(p->n2, others);
    if (plan->steps < 1) plan->steps = 1; /* to clear the counters */
    plan->launch = launch;
    return own;
}

gop_status gop_cl_rdf_naive(const gop_ctx *ctx, const gop_task *task, const gop_cl_names *names,
                            gop_plan *plan)
{
    GOP_TRY(gop_cl_rdf_can(ctx, task, names));
    pairs *const own = begin(ctx, task, names, 1 << 14, 1 << 12, (int)task->tune[0], 1, plan);
    gop_cl_rdf_options(ctx, task, "", own->options);
    return GOP_OK;
}

gop_status gop_cl_rdf_shared(const gop_ctx *ctx, const gop_task *task,
                             const gop_cl_names *names, gop_plan *plan)
{
    char more[32];
    GOP_TRY(gop_cl_rdf_can(ctx, task, names));
    pairs *const own = begin(ctx, task, names, 1 << 16, 1 << 14, (int)task->tune[0], 1, plan);
    GOP_TRY(gop_cl_rdf_fits(ctx, task, names, 1, own->group * 32));
    snprintf(more, sizeof more, "-DGROUP=%d", own->group);
    gop_cl_rdf_options(ctx, task, more, own->options);
    own->histogram = gop_cl_rdf_counter_bytes(task);
    return GOP_OK;
}

gop_status gop_cl_rdf_guessed(const gop_ctx *ctx, const gop_task *task,
                              const gop_cl_names *names, gop_plan *plan)
{
    const int copies = gop_cl_rdf_copies(task), held = (int)task->tune[0];
    char more[80];
    GOP_TRY(gop_cl_rdf_can(ctx, task, names));
    pairs *const own =
        begin(ctx, task, names, 1 << 18, 1 << 15, (int)task->tune[1], held, plan);
    own->nearby = (size_t)((task->geometry.pairs.bins + 1) * gop_cl_item(task->in[0].dtype));
    own->histogram = gop_cl_rdf_counter_bytes(task) * (size_t)copies;
    GOP_TRY(gop_cl_rdf_fits(ctx, task, names, copies, (int64_t)own->nearby + own->group * 32));
    snprintf(more, sizeof more, "-DGROUP=%d -DPOINTS=%d -DCOPIES=%d", own->group, held, copies);
    gop_cl_rdf_options(ctx, task, more, own->options);
    return GOP_OK;
}
