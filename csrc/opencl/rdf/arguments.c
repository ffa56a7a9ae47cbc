/*
 * arguments.c - what kernels of rdf are given, from the task.
 */
#include "opencl/rdf/arguments.h"

#include <stdio.h>
#include <string.h>

gop_status gop_cl_rdf_can(const gop_ctx *ctx, const gop_task *task, const char *kernel)
{
    const int64_t count = GOP_FRAMES(task)->count;
    const gop_pairs *p = &task->geometry.pairs;
    if (count > 1)
        return gop_fail(GOP_REFUSED, "rdf: kernel '%s' takes one frame at a time, got %lld",
                        kernel, (long long)count);
    if ((p->n > p->n2 ? p->n : p->n2) > INT32_MAX / 2 ||
        task->out[0].shape[0] * p->bins > INT32_MAX / 2)
        return gop_fail(GOP_REFUSED,
                        "rdf: kernel '%s' takes sets of up to 2^30 points and as many counters",
                        kernel);
    if (task->in[0].dtype == GOP_FLOAT64) GOP_TRY(gop_cl_need_double(ctx, "rdf", GOP_FLOAT64));
    return p->box ? gop_cl_need_quotients(ctx, "rdf", task->in[0].dtype) : GOP_OK;
}

void gop_cl_rdf_options(const gop_ctx *ctx, const gop_task *task, const char *more,
                        char options[GOP_CL_OPTIONS])
{
    const gop_pairs *p = &task->geometry.pairs;
    snprintf(options, GOP_CL_OPTIONS, "-DBASE=%s -DLANES=1 -DBOX=%d%s%s%s%s%s",
             task->in[0].dtype == GOP_FLOAT32 ? "float" : "double -DDOUBLE", p->box,
             p->types ? " -DTYPED" : "", p->uniform ? " -DEVEN" : "",
             p->box ? gop_cl_quotients(ctx) : "", *more ? " " : "", more);
}

const gop_array *gop_cl_rdf_types(const gop_task *task, int second)
{
    const gop_pairs *p = &task->geometry.pairs;
    if (p->types == 0) return &task->in[1];
    return &task->in[p->one_set ? 2 : 3 + second];
}

gop_cl_rdf_call gop_cl_rdf_call_of(const gop_task *task)
{
    const gop_pairs *p = &task->geometry.pairs;
    const gop_array *const out = &task->out[0];
    return (gop_cl_rdf_call){
        .n = p->n,
        .n2 = p->n2,
        .row = p->row,
        .col = p->col,
        .row2 = p->row2,
        .col2 = p->col2,
        .type_row = gop_cl_rdf_types(task, 0)->strides[0] / 4,
        .type_row2 = gop_cl_rdf_types(task, 1)->strides[0] / 4,
        .out_row = out->strides[0] / 8,
        .out_col = out->strides[1] / 8,
        .bins = (int32_t)p->bins,
        .types = p->types,
        .one_set = p->one_set,
        .counters = (int32_t)(out->shape[0] * p->bins),
        .scale = (float)p->guess_scale,
        .shift = (float)(-p->guess_origin * p->guess_scale),
        .slack = (float)p->guess_slack,
    };
}

/* 1 / length where that is a normal number, else infinite: kernels then divide. */
static double reciprocal_of(double length)
{
    return length > 1e-30 && length < 1e30 ? 1 / length : HUGE_VAL;
}

gop_cl_rdf_box gop_cl_rdf_box_of(const gop_task *task)
{
    const double *c = task->geometry.pairs.cell;
    const double numbers[9] = {
        c[0],
        c[3],
        c[4],
        c[6],
        c[7],
        c[8],
        reciprocal_of(c[0]),
        reciprocal_of(c[4]),
        reciprocal_of(c[8]),
    };
    gop_cl_rdf_box box;
    const int is_float = task->in[0].dtype == GOP_FLOAT32;
    for (int i = 0; i < 9; i++) {
        const float narrow = (float)numbers[i];
        memcpy(box.numbers + i * (is_float ? 4 : 8),
               is_float ? (const void *)&narrow : &numbers[i], is_float ? 4 : 8);
    }
    box.bytes = is_float ? 36 : 72;
    return box;
}

gop_status gop_cl_rdf_sum(gop_ctx *ctx, const gop_task *task, const gop_array *slots, int count)
{
    gop_cl_rdf_call call = gop_cl_rdf_call_of(task);
    gop_cl_launch launch = {.source = "rdf/sum",
                            .kernel = "rdf_sum_kernel",
                            .options = "-DBASE=float -DLANES=1 -DBOX=0",
                            .dimensions = 1,
                            .global = {(size_t)call.counters},
                            .local = {(size_t)gop_cl_group(ctx, 64)}};
    gop_cl_give(&launch, slots, 0);
    gop_cl_give(&launch, &task->out[0], 1);
    GOP_CL_SAY(&launch, call);
    GOP_CL_SAY(&launch, count);
    return call.counters ? gop_cl_run(ctx, &launch) : GOP_OK;
}

/* ---- all pairs ---- */

size_t gop_cl_rdf_counter_bytes(const gop_task *task)
{
    return (size_t)(task->out[0].shape[0] * task->geometry.pairs.bins) * sizeof(uint32_t);
}

int gop_cl_rdf_copies(const gop_task *task, int64_t most)
{
    int copies = 1;
    while (copies < 8 && 2 * copies * (int64_t)gop_cl_rdf_counter_bytes(task) <= most)
        copies *= 2;
    return copies;
}

gop_status gop_cl_rdf_fits(const gop_ctx *ctx, const gop_task *task, const char *kernel,
                           int copies, int64_t beside)
{
    const int64_t bytes = (int64_t)gop_cl_rdf_counter_bytes(task) * copies + beside;
    if (bytes <= ctx->info.shared_per_block) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "rdf: kernel '%s' needs %lld bytes of local memory for its counters, this "
                    "device has %lld",
                    kernel, (long long)bytes, (long long)ctx->info.shared_per_block);
}

static int64_t pieces(int64_t count, int64_t size)
{
    return count / size + (count % size != 0);
}

void gop_cl_rdf_cut(const gop_task *task, int64_t points, int64_t others, gop_plan *plan)
{
    const gop_pairs *p = &task->geometry.pairs;
    gop_cl_rdf_pairs *const own = GOP_OWN(gop_cl_rdf_pairs, plan);
    own->points = points;
    own->others = others;
    plan->steps = pieces(p->n, points) * pieces(p->n2, others);
    if (plan->steps < 1) plan->steps = 1; /* to clear the counters */
}

gop_status gop_cl_rdf_run_pairs(gop_ctx *ctx, const gop_task *task, int64_t step,
                                const char *source, const char *kernel)
{
    const gop_cl_rdf_pairs *const own = GOP_OWN(const gop_cl_rdf_pairs, task->plan);
    const gop_pairs *p = &task->geometry.pairs;
    const int64_t columns = pieces(p->n2, own->others);
    if (step == 0) GOP_TRY(gop_cl_rdf_clear(ctx, task));
    if (p->n == 0 || p->n2 == 0) return GOP_OK;
    gop_cl_rdf_call call = gop_cl_rdf_call_of(task);
    gop_cl_rdf_box box = gop_cl_rdf_box_of(task);
    gop_cl_rdf_range range = {.i0 = step / columns * own->points,
                              .j0 = step % columns * own->others};
    range.i1 = range.i0 + own->points < p->n ? range.i0 + own->points : p->n;
    range.j1 = range.j0 + own->others < p->n2 ? range.j0 + own->others : p->n2;
    gop_cl_launch launch = {
        .source = source,
        .kernel = kernel,
        .options = own->options,
        .dimensions = 1,
        .global = {(size_t)(pieces(range.i1 - range.i0, own->each) * own->group)},
        .local = {(size_t)own->group}};
    gop_cl_give(&launch, &task->in[0], 0);
    gop_cl_give(&launch, &task->in[p->one_set ? 0 : 2], 0);
    gop_cl_give(&launch, gop_cl_rdf_types(task, 0), 0);
    gop_cl_give(&launch, gop_cl_rdf_types(task, 1), 0);
    gop_cl_give(&launch, &task->in[1], 0);
    gop_cl_give(&launch, &task->out[0], 1);
    GOP_CL_SAY(&launch, call);
    gop_cl_say(&launch, box.bytes, box.numbers);
    GOP_CL_SAY(&launch, range);
    if (own->nearby) gop_cl_say(&launch, own->nearby, NULL);
    if (own->histogram) gop_cl_say(&launch, own->histogram, NULL);
    return gop_cl_run(ctx, &launch);
}
