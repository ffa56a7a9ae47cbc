/*
 * plan.c - a call's jobs: options of a build, geometry, the finish; and their launches.
 */
#include "opencl/reduce/plan.h"

#include <stdio.h>
#include <string.h>

#include "core/arrays/half.h"

enum { FLIP = 1, VALUE = 2, SLOT = 32 }; /* bytes of an accumulator in scratch, at most */

/* ---- what is made of which dtype ---- */

static int is_whole(gop_dtype dtype)
{
    return dtype <= GOP_UINT64;
}

static int is_position(gop_reduce_op op)
{
    return op == GOP_ARGMIN || op == GOP_ARGMAX;
}

/* A reduction in the words of map.cl. */
typedef struct making {
    const char *word, *accumulator, *out;
    int bytes, pairs; /* of an accumulator's number, and numbers */
} making;

static making making_of(gop_reduce_op op, gop_dtype dtype)
{
    const gop_cl_kind *const kind = &gop_cl_kinds[dtype];
    const int parts = kind->parts, is_wide = kind->bytes == 8;
    const char *const key = is_wide ? "long" : "int";
    const char *const real = is_wide || is_whole(dtype) ? "double" : "float";
    const char *const base = kind->base;
    const char *const number = parts == 1 ? base : is_wide ? "double2" : "float2";
    const int key_bytes = is_wide ? 8 : 4, real_bytes = is_wide || is_whole(dtype) ? 8 : 4;
    switch (op) {
    case GOP_ANY:
    case GOP_ALL:
        return (making){"TRUTH", key, "uchar", key_bytes, 1};
    case GOP_MIN:
    case GOP_MAX:
        if (parts == 1) return (making){"EXTREME", key, base, key_bytes, 1};
        return (making){"BEST", key, number, key_bytes, 1};
    case GOP_ARGMIN:
    case GOP_ARGMAX:
        return (making){"BEST -DPOSITION", key, "long", key_bytes, 1};
    case GOP_SUMSQ:
        return (making){"SQUARES", real, real, real_bytes, 1};
    default:
        break;
    }
    const char *const word = op == GOP_PROD ? "PROD" : "TOTAL";
    if (is_whole(dtype) && op != GOP_MEAN)
        return (making){op == GOP_PROD ? "PROD -DWHOLE" : "TOTAL -DWHOLE", "ulong", "ulong", 8,
                        1};
    return (making){word, real, is_whole(dtype) ? "double" : number, real_bytes, parts};
}

static int needs_double(gop_reduce_op op, gop_dtype dtype)
{
    return gop_cl_is_double(dtype) || (is_whole(dtype) && (op == GOP_MEAN || op == GOP_SUMSQ));
}

/* ---- initial, as bits of the accumulator or, of extremes, of the element ---- */

static uint64_t bits_of(gop_dtype dtype, double value)
{
    uint64_t bits;
    if (dtype == GOP_FLOAT16) return gop_f16_store((float)value);
    if (dtype == GOP_BFLOAT16) return gop_bf16_store((float)value);
    if (dtype == GOP_FLOAT32 || dtype == GOP_COMPLEX64) return gop_float_bits((float)value);
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void set_initial(const gop_task *task, gop_cl_reduce_work *w)
{
    const gop_reduce_params *const p = &task->call->params.reduce;
    const int is_extreme = p->op == GOP_MIN || p->op == GOP_MAX;
    gop_dtype dtype = task->in[0].dtype;
    w->has_initial = p->has_initial;
    if (is_whole(dtype)) {
        w->initial[0] = p->initial.u;
        if (dtype == GOP_BOOL && is_extreme) w->initial[0] = p->initial.u != 0;
        return;
    }
    if (!is_extreme && (dtype == GOP_FLOAT16 || dtype == GOP_BFLOAT16)) dtype = GOP_FLOAT32;
    for (int part = 0; part < 2; part++) w->initial[part] = bits_of(dtype, p->initial.f[part]);
}

/* ---- jobs ---- */

static uint64_t magnitude(int64_t stride)
{
    return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

int gop_cl_reduce_is_across(const gop_cl_reduce_shape *s)
{
    return s->kept && s->reduced &&
           magnitude(s->axes.stride[1][s->kept - 1]) <
               magnitude(s->axes.stride[1][s->kept + s->reduced - 1]);
}

/* Of a mask itself, into dense outputs. */
static void set_counting(gop_cl_reduce_shape *s)
{
    int64_t stride = 1;
    memcpy(s->axes.stride[1], s->axes.stride[2], sizeof s->axes.stride[1]);
    memset(s->axes.stride[2], 0, sizeof s->axes.stride[2]);
    for (int64_t d = s->kept - 1; d >= 0; stride *= s->axes.extent[d--])
        s->axes.stride[0][d] = stride;
}

static void plan_job(const gop_ctx *ctx, const gop_task *task, gop_reduce_op op,
                     gop_dtype dtype, int bytes, gop_cl_reduce_share share,
                     gop_cl_reduce_job *job)
{
    const making m = making_of(op, dtype);
    const gop_cl_kind *const kind = &gop_cl_kinds[dtype];
    const int is_best = strncmp(m.word, "BEST", 4) == 0, parts = kind->parts;
    char more[96];
    job->items = bytes && !is_best ? bytes / (m.bytes * m.pairs) : 1;
    if (job->items * parts > 16) job->items = 16 / parts; /* no vector is longer */
    job->work.leaves = gop_cl_ceil(job->shape.count, LEAF);
    job->work.turns = 1;
    job->root_group = 1;
    share(ctx, task, job, more, sizeof more);
    snprintf(job->build.options, GOP_CL_OPTIONS,
             "-DBASE=%s -D%s -D%s -DACC=%s -DOUT=%s -DITEMS=%d -DLANES=%d -DRLANES=%d "
             "-DINDEX=%s -DROOT_GROUP=%d%s%s%s",
             kind->base, kind->word, m.word, m.accumulator, m.out, job->items,
             job->items * parts, job->items * m.pairs,
             job->shape.outputs < INT64_C(1) << 31 && job->shape.count < INT64_C(1) << 31
                 ? "uint"
                 : "ulong",
             job->root_group, needs_double(op, dtype) ? " -DDOUBLE" : "", gop_cl_quotients(ctx),
             more);
}

static size_t partial_bytes(const gop_cl_reduce_job *job)
{
    return job->work.nodes > 1 ? (size_t)(job->shape.outputs * job->work.nodes) * SLOT : 0;
}

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step);

gop_status gop_cl_reduce_plan_of(const gop_ctx *ctx, const gop_task *task,
                                 const gop_cl_names *names, int bytes,
                                 gop_cl_reduce_share share, gop_plan *plan)
{
    static const char *const names_of[] = {"sum", "prod", "min",    "max",    "mean",
                                           "any", "all",  "argmin", "argmax", "reduce"};
    gop_cl_reduce_plan *const p = GOP_OWN(gop_cl_reduce_plan, plan);
    const gop_reduction *const g = &task->geometry.reduction;
    const gop_reduce_params *const params = &task->call->params.reduce;
    const gop_dtype dtype = task->in[0].dtype;
    gop_cl_reduce_job *const job = &p->job;
    const int64_t *const stride[] = {g->out, g->in, g->where};
    GOP_TRY(
        gop_cl_need_double(ctx, names_of[params->op], dtype, needs_double(params->op, dtype)));
    if (params->op == GOP_MEAN) GOP_TRY(gop_cl_need_quotients(ctx, names_of[GOP_MEAN], dtype));
    memset(p, 0, sizeof *p);
    job->build.names = names;
    plan->launch = launch;
    job->shape = (gop_cl_reduce_shape){g->kept, g->reduced, g->outputs, g->count, {0}};
    GOP_TRY(gop_cl_set_axes(names, "", g->kept + g->reduced, g->extent, 3, stride,
                            &job->shape.axes));
    set_initial(task, &job->work);
    job->work.has_where = params->has_where;
    job->work.is_mean = params->op == GOP_MEAN;
    if (params->op == GOP_MAX || params->op == GOP_ARGMAX || params->op == GOP_ANY)
        job->work.flags |= FLIP;
    if (is_position(params->op) || gop_cl_kinds[dtype].parts == 2) job->work.flags |= VALUE;
    plan_job(ctx, task, params->op, dtype, bytes, share, job);
    job->work.counts = -1;
    plan->scratch = partial_bytes(job);
    if (params->op != GOP_MEAN || !params->has_where) return GOP_OK;
    p->counts = 1;
    p->counting.build.names = names;
    p->counting.shape = job->shape;
    p->counting.work.counts = -1;
    set_counting(&p->counting.shape);
    plan_job(ctx, task, GOP_SUM, GOP_BOOL, bytes, share, &p->counting);
    const size_t counting = partial_bytes(&p->counting);
    if (counting > plan->scratch) plan->scratch = counting;
    job->work.counts = (int64_t)plan->scratch / 8;
    plan->scratch += (size_t)g->outputs * 8;
    return GOP_OK;
}

/* ---- launches ---- */

/* Over out, in, where and scratch memory. */
static gop_status run_job(gop_ctx *ctx, const gop_cl_reduce_job *job, const gop_array *out,
                          const gop_array *in, const gop_array *mask, const gop_array *scratch,
                          int scratch_is_written)
{
    gop_cl_launch l = gop_cl_launch_of(&job->build, job->groups * job->group, job->group);
    l.kernel = job->kernel;
    gop_cl_give(&l, out, 1);
    gop_cl_give(&l, in, 0);
    gop_cl_give(&l, mask, 0);
    gop_cl_give(&l, scratch, scratch_is_written);
    gop_cl_say(&l, sizeof job->shape - sizeof *job->shape.axes.stride, &job->shape);
    GOP_CL_SAY(&l, job->work);
    GOP_TRY(gop_cl_run(ctx, &l));
    if (job->work.nodes <= 1) return GOP_OK;
    gop_cl_reduce_work folding = job->work;
    folding.each = 1;
    while (folding.each * job->root_group < folding.nodes) folding.each *= 2;
    l.kernel = "reduce_root_kernel";
    l.value[1].at = &folding;
    l.local[0] = (size_t)job->root_group;
    l.global[0] = (size_t)(job->shape.outputs * job->root_group);
    return gop_cl_run(ctx, &l);
}

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_cl_reduce_plan *const p = GOP_OWN(const gop_cl_reduce_plan, task->plan);
    const size_t bytes = task->plan->scratch;
    const gop_array scratch =
        gop_cl_in_scratch(task->scratch, 0, GOP_COMPLEX128, gop_cl_ceil((int64_t)bytes, 16));
    /* What a call has not is another operand, which the kernel does not read there. */
    const gop_array *const mask = &task->in[p->job.work.has_where ? 1 : 0];
    (void)step;
    if (p->counts) {
        const gop_array counts = gop_cl_in_scratch(
            task->scratch, (size_t)p->job.work.counts * 8, GOP_INT64, p->job.shape.outputs);
        GOP_TRY(run_job(ctx, &p->counting, &counts, mask, mask, &scratch, 1));
    }
    return run_job(ctx, &p->job, &task->out[0], &task->in[0], mask,
                   bytes ? &scratch : &task->in[0], bytes != 0);
}
