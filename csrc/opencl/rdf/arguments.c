/*
 * arguments.c - what kernels of rdf are given, from the task.
 */
#include "opencl/rdf/arguments.h"

#include <stdio.h>
#include <string.h>

gop_status gop_cl_rdf_can(const gop_ctx *ctx, const gop_task *task, const gop_cl_names *names)
{
    const int64_t count = GOP_FRAMES(task)->count;
    const gop_pairs *p = &task->geometry.pairs;
    if (count > 1)
        return gop_fail(GOP_REFUSED, "rdf: kernel '%s' takes one frame at a time, got %lld",
                        names->row, (long long)count);
    if ((p->n > p->n2 ? p->n : p->n2) > INT32_MAX / 2 ||
        task->out[0].shape[0] * p->bins > INT32_MAX / 2)
        return gop_fail(GOP_REFUSED,
                        "rdf: kernel '%s' takes sets of up to 2^30 points and as many counters",
                        names->row);
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

size_t gop_cl_rdf_counter_bytes(const gop_task *task)
{
    return (size_t)(task->out[0].shape[0] * task->geometry.pairs.bins) * sizeof(uint32_t);
}

int gop_cl_rdf_copies(const gop_task *task)
{
    enum { MOST = 16 << 10 }; /* bytes of all of them */
    int copies = 1;
    while (copies < 8 && 2 * copies * (int64_t)gop_cl_rdf_counter_bytes(task) <= MOST)
        copies *= 2;
    return copies;
}

gop_status gop_cl_rdf_fits(const gop_ctx *ctx, const gop_task *task, const gop_cl_names *names,
                           int copies, int64_t beside)
{
    const int64_t bytes = (int64_t)gop_cl_rdf_counter_bytes(task) * copies + beside;
    if (bytes <= ctx->info.shared_per_block) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "rdf: kernel '%s' needs %lld bytes of local memory for its counters, this "
                    "device has %lld",
                    names->row, (long long)bytes, (long long)ctx->info.shared_per_block);
}
