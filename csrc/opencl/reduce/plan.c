/*
 * plan.c - a call's jobs: options of a build, geometry, the finish; and their launches.
 */
#include "opencl/reduce/plan.h"

#include <stdio.h>
#include <string.h>

#include "core/arrays/half.h"

enum { FLIP = 1, VALUE = 2, SLOT = 32 }; /* bytes of an accumulator in scratch, at most */

/* ---- what is made of which dtype ---- */

static const struct {
    const char *base, *kind;
    int parts, bytes; /* numbers of an element, and bytes of one */
} kinds[GOP_NDTYPES] = {
    [GOP_BOOL] = {"uchar", "BOOLEAN", 1, 1},
    [GOP_INT8] = {"char", "SIGNED", 1, 1},
    [GOP_INT16] = {"short", "SIGNED", 1, 2},
    [GOP_INT32] = {"int", "SIGNED", 1, 4},
    [GOP_INT64] = {"long", "SIGNED", 1, 8},
    [GOP_UINT8] = {"uchar", "UNSIGNED", 1, 1},
    [GOP_UINT16] = {"ushort", "UNSIGNED", 1, 2},
    [GOP_UINT32] = {"uint", "UNSIGNED", 1, 4},
    [GOP_UINT64] = {"ulong", "UNSIGNED", 1, 8},
    [GOP_FLOAT16] = {"ushort", "HALF -DINFINITE=0x7c00 -DNOT_A_NUMBER=0x7e00", 1, 2},
    [GOP_BFLOAT16] = {"ushort", "BFLOAT -DINFINITE=0x7f80 -DNOT_A_NUMBER=0x7fc0", 1, 2},
    [GOP_FLOAT32] = {"float", "FLOAT -DNOT_A_NUMBER=0x7fc00000", 1, 4},
    [GOP_FLOAT64] = {"double", "FLOAT -DNOT_A_NUMBER=0x7ff8000000000000", 1, 8},
    [GOP_COMPLEX64] = {"float", "COMPLEX", 2, 4},
    [GOP_COMPLEX128] = {"double", "COMPLEX", 2, 8},
};

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
    const int parts = kinds[dtype].parts, is_wide = kinds[dtype].bytes == 8;
    const char *const key = is_wide ? "long" : "int";
    const char *const real = is_wide || is_whole(dtype) ? "double" : "float";
    const char *const base = kinds[dtype].base;
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

static gop_status can(const gop_ctx *ctx, gop_reduce_op op, gop_dtype dtype)
{
    static const char *const names[] = {"sum", "prod", "min",    "max",    "mean",
                                        "any", "all",  "argmin", "argmax", "reduce"};
    const int of_double = dtype == GOP_FLOAT64 || dtype == GOP_COMPLEX128;
    const int makes_double = is_whole(dtype) && (op == GOP_MEAN || op == GOP_SUMSQ);
    return of_double || makes_double ? gop_cl_need_double(ctx, names[op], dtype) : GOP_OK;
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
           magnitude(s->in[s->kept - 1]) < magnitude(s->in[s->kept + s->reduced - 1]);
}

static void set_shape(const gop_reduction *g, gop_cl_reduce_shape *s)
{
    memset(s, 0, sizeof *s);
    s->kept = g->kept;
    s->reduced = g->reduced;
    s->outputs = g->outputs;
    s->count = g->count;
    for (int d = 0; d < g->kept + g->reduced; d++) {
        s->extent[d] = g->extent[d];
        s->in[d] = g->in[d];
        s->where[d] = g->where[d];
        s->out[d] = g->out[d];
    }
}

/* Of a mask itself, into dense outputs. */
static void set_counting(gop_cl_reduce_shape *s)
{
    int64_t stride = 1;
    memcpy(s->in, s->where, sizeof s->in);
    memset(s->where, 0, sizeof s->where);
    for (int64_t d = s->kept - 1; d >= 0; stride *= s->extent[d--]) s->out[d] = stride;
}

static void plan_job(const gop_ctx *ctx, const gop_task *task, gop_reduce_op op,
                     gop_dtype dtype, int bytes, gop_cl_reduce_share share,
                     gop_cl_reduce_job *job)
{
    const making m = making_of(op, dtype);
    const int is_best = strncmp(m.word, "BEST", 4) == 0, parts = kinds[dtype].parts;
    char more[96];
    job->items = bytes && !is_best ? bytes / (m.bytes * m.pairs) : 1;
    if (job->items * parts > 16) job->items = 16 / parts; /* no vector is longer */
    job->work.leaves = gop_cl_ceil(job->shape.count, REDUCE_LEAF);
    job->work.turns = 1;
    job->root_group = 1;
    share(ctx, task, job, more, sizeof more);
    snprintf(job->options, sizeof job->options,
             "-DBASE=%s -D%s -D%s -DACC=%s -DOUT=%s -DITEMS=%d -DLANES=%d -DRLANES=%d "
             "-DINDEX=%s -DROOT_GROUP=%d%s%s%s",
             kinds[dtype].base, kinds[dtype].kind, m.word, m.accumulator, m.out, job->items,
             job->items * parts, job->items * m.pairs,
             job->shape.outputs < INT64_C(1) << 31 && job->shape.count < INT64_C(1) << 31
                 ? "uint"
                 : "ulong",
             job->root_group, gop_cl_has_double(ctx) ? " -DDOUBLE" : "", gop_cl_quotients(ctx),
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
    gop_cl_reduce_plan *const p = GOP_OWN(gop_cl_reduce_plan, plan);
    const gop_reduction *const g = &task->geometry.reduction;
    const gop_reduce_params *const params = &task->call->params.reduce;
    const gop_dtype dtype = task->in[0].dtype;
    gop_cl_reduce_job *const job = &p->job;
    if (g->kept + g->reduced > REDUCE_AXES)
        return gop_fail(
            GOP_REFUSED,
            "reduce: kernel '%s' takes %d axes that cannot be merged, this call has "
            "%d",
            names->row, REDUCE_AXES, g->kept + g->reduced);
    GOP_TRY(can(ctx, params->op, dtype));
    memset(p, 0, sizeof *p);
    p->names = names;
    plan->launch = launch;
    set_shape(g, &job->shape);
    set_initial(task, &job->work);
    job->work.has_where = params->has_where;
    job->work.is_mean = params->op == GOP_MEAN;
    if (params->op == GOP_MAX || params->op == GOP_ARGMAX || params->op == GOP_ANY)
        job->work.flags |= FLIP;
    if (is_position(params->op) || kinds[dtype].parts == 2) job->work.flags |= VALUE;
    plan_job(ctx, task, params->op, dtype, bytes, share, job);
    job->work.counts = -1;
    plan->scratch = partial_bytes(job);
    if (params->op != GOP_MEAN || !params->has_where) return GOP_OK;
    p->counts = 1;
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

static gop_status run_job(gop_ctx *ctx, const gop_cl_reduce_job *job, gop_cl_launch *l)
{
    l->kernel = job->kernel;
    l->options = job->options;
    l->values = 2;
    l->value[0] = (gop_cl_value){sizeof job->shape, &job->shape};
    l->value[1] = (gop_cl_value){sizeof job->work, &job->work};
    l->dimensions = 1;
    l->local[0] = (size_t)job->group;
    l->global[0] = (size_t)(job->groups * job->group);
    GOP_TRY(gop_cl_run(ctx, l));
    if (job->work.nodes <= 1) return GOP_OK;
    gop_cl_reduce_work folding = job->work;
    folding.each = 1;
    while (folding.each * job->root_group < folding.nodes) folding.each *= 2;
    l->kernel = "reduce_root_kernel";
    l->value[1].at = &folding;
    l->local[0] = (size_t)job->root_group;
    l->global[0] = (size_t)(job->shape.outputs * job->root_group);
    return gop_cl_run(ctx, l);
}

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_cl_reduce_plan *const p = GOP_OWN(const gop_cl_reduce_plan, task->plan);
    const size_t bytes = task->plan->scratch;
    const gop_array scratch =
        gop_cl_in_scratch(task->scratch, 0, GOP_COMPLEX128, gop_cl_ceil((int64_t)bytes, 16));
    /* What a call has not is another operand, which the kernel does not read there. */
    const gop_array *const mask = p->job.work.has_where ? &task->in[1] : &task->in[0];
    const gop_array *const memory = bytes ? &scratch : &task->in[0];
    gop_cl_launch l = {.source = p->names->source, .operands = 4};
    (void)step;
    if (p->counts) {
        const gop_array counts = gop_cl_in_scratch(
            task->scratch, (size_t)p->job.work.counts * 8, GOP_INT64, p->job.shape.outputs);
        l.operand[0] = (gop_cl_operand){&counts, 1};
        l.operand[1] = l.operand[2] = (gop_cl_operand){&task->in[1], 0};
        l.operand[3] = (gop_cl_operand){&scratch, 1};
        GOP_TRY(run_job(ctx, &p->counting, &l));
    }
    l.operand[0] = (gop_cl_operand){&task->out[0], 1};
    l.operand[1] = (gop_cl_operand){&task->in[0], 0};
    l.operand[2] = (gop_cl_operand){mask, 0};
    l.operand[3] = (gop_cl_operand){memory, bytes != 0};
    return run_job(ctx, &p->job, &l);
}
