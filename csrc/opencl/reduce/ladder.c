/*
 * ladder.c - the OpenCL kernels of reduce: how each shares its work, the rows in the order of
 * reading, and which of them runs. Each kernel is in the file of its name, <kernel>.cl, which
 * the device's driver compiles.
 *
 * Floor: every element is read once. What makes it hard: an output waits for a chain of
 * additions, whose order is fixed. tree/v1 has 128 independent lanes, for work-items on a GPU
 * and for vectors on a CPU.
 */
#include <stdio.h>

#include "opencl/reduce/plan.h"

/* ---- the lecture's kernels, which sum a contiguous array ----
 *
 * A launch makes a shorter array of partial sums, in one half of scratch or the other, until
 * one is left. int32 is summed as int64. The order of the additions depends on the groups. */

/* A sum for every `each` numbers, but at most `most` sums. */
typedef struct lesson {
    gop_cl_names names;
    int64_t each, most;
    int group;
} lesson;

/* From n numbers at `from` to the sums of `groups` groups. */
static gop_status launch_once(gop_ctx *ctx, const gop_task *task, const char *kernel,
                              const gop_array *to, const gop_array *from, int64_t n,
                              int64_t groups)
{
    const lesson *const own = GOP_OWN(const lesson, task->plan);
    gop_cl_build build = {.names = &own->names};
    snprintf(build.options, sizeof build.options, "-DT=%s -DR=%s -DGROUP=%d%s",
             gop_cl_kinds[from->dtype].base, gop_cl_kinds[to->dtype].base, own->group,
             to->dtype == GOP_FLOAT64 ? " -DDOUBLE" : "");
    gop_cl_launch l = gop_cl_launch_of(&build, groups * own->group, own->group);
    l.kernel = kernel;
    gop_cl_give(&l, to, 1);
    gop_cl_give(&l, from, 0);
    GOP_CL_SAY(&l, n);
    return gop_cl_run(ctx, &l);
}

/* Launches until one sum is left. */
static gop_status launch_lesson(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const lesson *const own = GOP_OWN(const lesson, task->plan);
    const size_t half[2] = {0, (size_t)(task->geometry.reduction.count + 1) / 2 * 8};
    gop_array from = task->in[0], to;
    int64_t n = task->geometry.reduction.count, left = 0;
    (void)step;
    for (int level = 0; left != 1; level ^= 1, n = left, from = to) {
        left = gop_cl_ceil(n, own->each);
        if (left > own->most) left = own->most;
        to = left == 1
                 ? task->out[0]
                 : gop_cl_in_scratch(task->scratch, half[level], task->out[0].dtype, left);
        GOP_TRY(launch_once(ctx, task, own->names.kernel, &to, &from, n, left));
    }
    return GOP_OK;
}

/* Refuses all but the sum of a whole contiguous array. Tunable "group". */
static gop_status by_groups(const gop_ctx *ctx, const gop_task *task, const gop_cl_names *names,
                            gop_plan *plan)
{
    const gop_reduction *const g = &task->geometry.reduction;
    const gop_reduce_params *const params = &task->call->params.reduce;
    lesson *const own = GOP_OWN(lesson, plan);
    if (params->op != GOP_SUM || params->has_where || params->has_initial)
        return gop_fail(GOP_REFUSED, "reduce: this kernel only sums, without where or initial");
    if (g->outputs != 1 || g->count == 0 || g->reduced > 1 ||
        (g->reduced == 1 && g->in[0] != 1))
        return gop_fail(GOP_REFUSED, "reduce: this kernel sums one whole contiguous array that "
                                     "is not empty");
    GOP_TRY(gop_cl_need_double(ctx, "sum", GOP_FLOAT64, task->in[0].dtype == GOP_FLOAT64));
    *own = (lesson){.names = *names, .group = 1, .most = INT64_MAX};
    while (own->group * 2 <= gop_cl_group(ctx, task->tune[0])) own->group *= 2;
    own->each = own->group;
    const size_t n = (size_t)g->count;
    plan->launch = launch_lesson;
    plan->scratch = ((n + 1) / 2 + (n + 3) / 4 + 2) * 8; /* what the first two launches leave */
    return GOP_OK;
}

/* As many groups as fit the device. */
static gop_status by_resident_groups(const gop_ctx *ctx, const gop_task *task,
                                     const gop_cl_names *names, gop_plan *plan)
{
    enum { EACH = 4096, GROUPS = 8 }; /* numbers of a group at least; groups of a unit */
    lesson *const own = GOP_OWN(lesson, plan);
    GOP_TRY(by_groups(ctx, task, names, plan));
    own->each = EACH;
    own->most = (int64_t)ctx->info.processors * GROUPS;
    return GOP_OK;
}

/* One launch of groups that all add to the result, after one that clears it. */
static gop_status launch_atomic(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const lesson *const own = GOP_OWN(const lesson, task->plan);
    const int64_t n = task->geometry.reduction.count, groups = gop_cl_ceil(n, own->each);
    (void)step;
    GOP_TRY(launch_once(ctx, task, "reduce_atomic_clear_kernel", &task->out[0], &task->in[0], n,
                        1));
    return launch_once(ctx, task, own->names.kernel, &task->out[0], &task->in[0], n,
                       groups < own->most ? groups : own->most);
}

static gop_status by_adding_groups(const gop_ctx *ctx, const gop_task *task,
                                   const gop_cl_names *names, gop_plan *plan)
{
    GOP_TRY(by_resident_groups(ctx, task, names, plan));
    plan->launch = launch_atomic;
    return GOP_OK;
}

/* ---- tree: teams of work-items ---- */

/* Nodes of an output, of 2^node_leaves leaves. */
static void set_nodes(gop_cl_reduce_work *w, int node_leaves)
{
    w->node_leaves = node_leaves;
    w->nodes = w->leaves ? gop_cl_ceil(w->leaves, INT64_C(1) << node_leaves) : 1;
}

static void share_tree(const gop_ctx *ctx, const gop_task *task, gop_cl_reduce_job *job,
                       char *options, size_t room)
{
    enum {
        GROUPS_PER_UNIT = 16, /* more would be long queues of short work-groups */
        MOST_LEAVES = 5,      /* a node is 2^5 leaves at most */
        SIDE_BY_SIDE = 32,    /* outputs of a work-group, where they are neighbours */
    };
    const gop_cl_reduce_shape *const s = &job->shape;
    gop_cl_reduce_work *const w = &job->work;
    int group = 32, lanes = 1, side = 1;
    while (group * 2 <= gop_cl_group(ctx, task->tune[0])) group *= 2;
    while (lanes < LANES && lanes < s->count) lanes *= 2;
    w->by_rows = !gop_cl_reduce_is_across(s);
    if (w->by_rows) /* no more than there are lanes of all outputs */
        while (group > 32 && group / 2 >= lanes * s->outputs) group /= 2;
    else
        while (side < SIDE_BY_SIDE && side < s->outputs) side *= 2;
    w->team = group / side < lanes ? group / side : lanes;
    w->turns = lanes / w->team;
    const int64_t sides = gop_cl_ceil(s->outputs, group / w->team);
    const int64_t wanted = (int64_t)ctx->info.processors * GROUPS_PER_UNIT;
    set_nodes(w, 0);
    while (w->node_leaves < MOST_LEAVES && w->nodes > 1 && sides * w->nodes > wanted)
        set_nodes(w, w->node_leaves + 1);
    job->kernel = "reduce_tree_kernel";
    job->group = job->root_group = group;
    job->groups = sides * w->nodes;
    snprintf(options, room, " -DKEPT=%d -DREDUCED=%d", (int)s->kept, (int)s->reduced);
}

static gop_status by_teams(const gop_ctx *ctx, const gop_task *task, const gop_cl_names *names,
                           gop_plan *plan)
{
    return gop_cl_reduce_plan_of(ctx, task, names, 0, share_tree, plan);
}

/* ---- chunked: vectors, for CPUs ---- */

enum {
    VECTOR = 64,          /* bytes of an accumulator's vector */
    CHUNKS_PER_UNIT = 16, /* as gop_cl_chunk has it */
};

/* How many of `all` pieces a work-item takes. */
static void deal(const gop_ctx *ctx, gop_cl_reduce_job *job, int64_t all, int64_t elements)
{
    job->work.each = gop_cl_chunk(ctx, all, elements);
    job->groups = gop_cl_ceil(all, job->work.each);
    job->group = 1;
}

static void share_rows(const gop_ctx *ctx, gop_cl_reduce_job *job, int64_t wanted)
{
    const int64_t outputs = job->shape.outputs;
    int node_leaves = 0;
    set_nodes(&job->work, 0);
    while (job->work.nodes > 1 && outputs * job->work.nodes > wanted)
        set_nodes(&job->work, ++node_leaves);
    job->kernel = "reduce_chunked_kernel";
    deal(ctx, job, outputs * job->work.nodes, gop_cl_ceil(job->shape.count, job->work.nodes));
}

static void share_columns(const gop_ctx *ctx, gop_cl_reduce_job *job, int64_t wanted, int strip)
{
    enum { MOST_LEAVES = 6 }; /* a node of columns is 2^6 leaves at most */
    const gop_cl_reduce_shape *const s = &job->shape;
    const int64_t inner = s->kept - 1, line = s->axes.extent[inner];
    const int is_narrow = s->count >= LEAF && s->reduced == 1 &&
                          s->axes.stride[1][inner] == 1 && s->axes.stride[1][s->kept] == line &&
                          !job->work.has_where;
    while (job->items > line && !is_narrow) job->items /= 2;
    const int64_t across = (int64_t)strip * job->items;
    const int64_t strips = s->outputs / line * gop_cl_ceil(line, across);
    int node_leaves = MOST_LEAVES;
    while (job->work.turns < LANES && job->work.turns < s->count) job->work.turns *= 2;
    set_nodes(&job->work, node_leaves);
    while (node_leaves > 0 && strips * job->work.nodes < wanted)
        set_nodes(&job->work, --node_leaves);
    job->kernel = "reduce_chunked_columns_kernel";
    deal(ctx, job, strips * job->work.nodes,
         gop_cl_ceil(s->count, job->work.nodes) * (line < across ? line : across));
}

/* Whether outputs of a few elements lie one after the other, and vectors of them can be turned
 * in registers. */
static int are_turned(const gop_task *task, const gop_cl_reduce_job *job)
{
    enum { MOST = 16 };
    const gop_cl_reduce_shape *const s = &job->shape;
    return s->kept == 1 && s->reduced == 1 && s->count > 1 && s->count <= MOST &&
           (s->count & (s->count - 1)) == 0 && s->axes.stride[1][1] == 1 &&
           s->axes.stride[1][0] == s->count && !job->work.has_where && job->items > 1 &&
           gop_cl_kinds[task->in[0].dtype].parts == 1;
}

static void share_chunks(const gop_ctx *ctx, const gop_task *task, gop_cl_reduce_job *job,
                         char *options, size_t room)
{
    enum { FEW = 64 }; /* elements of an output: many outputs then go side by side */
    const gop_cl_reduce_shape *const s = &job->shape;
    const int64_t wanted = (int64_t)ctx->info.processors * CHUNKS_PER_UNIT;
    const int of_best = job->items == 1 ? VECTOR / 4 : 1; /* no vectors, but as many numbers */
    const int strip = (int)task->tune[0] * of_best;
    if (s->kept && (gop_cl_reduce_is_across(s) || s->count < FEW))
        share_columns(ctx, job, wanted, strip);
    else share_rows(ctx, job, wanted);
    const int used = snprintf(options, room, " -DSTRIP=%d", strip);
    if (are_turned(task, job))
        snprintf(options + used, room - (size_t)used, " -DFEW=%d", (int)s->count);
}

/* Tunable "strip". */
static gop_status by_chunks(const gop_ctx *ctx, const gop_task *task, const gop_cl_names *names,
                            gop_plan *plan)
{
    return gop_cl_reduce_plan_of(ctx, task, names, VECTOR, share_chunks, plan);
}

/* ---- rows, and which of them runs ---- */

#define OWN_ORDER                                                                              \
    "adds in an order of its own: the last bits of a float sum differ from those of tree/v1"
#define NO_ORDER                                                                               \
    "adds in whatever order groups end: the last bits of a float sum change from run to run"
#define SUMMED (1u << GOP_INT32 | 1u << GOP_FLOAT32 | 1u << GOP_FLOAT64)

/* clang-format off */
#define LESSON(said) \
    .role = GOP_TEACHING, .caveat = said, .lecture = "opencl", .tunables = {GOP_CL_GROUP}
#define ROWS(ROW, op, stem) \
    ROW(op, stem, interleaved, by_groups, \
        .note = "a work-group meets in local memory: many levels a launch, but a GPU runs on " \
                "for a few work-items", \
        LESSON(OWN_ORDER), .dtypes = SUMMED) \
    ROW(op, stem, cascaded, by_resident_groups, \
        .note = "a grid that fits the device: a work-item adds many numbers before a group " \
                "meets, and the words that are added are neighbours: every bank answers once", \
        LESSON(OWN_ORDER), .dtypes = SUMMED) \
    ROW(op, stem, atomic, by_adding_groups, \
        .note = "work-groups add to one number: no second pass", \
        LESSON(NO_ORDER), .dtypes = 1u << GOP_FLOAT32) \
    ROW(op, stem, tree, by_teams, \
        .note = "a lane of a leaf a work-item, in private memory; teams of them meet in local " \
                "memory", \
        .tunables = {GOP_CL_GROUP}, .dtypes = GOP_EVERY_DTYPE) \
    ROW(op, stem, chunked, by_chunks, \
        .note = "a chunk of the array a work-item, in vectors along memory: of an output's " \
                "elements, or of several outputs", \
        .tunables = {{"strip", 3, {64, 16, 32}}}, .dtypes = GOP_EVERY_DTYPE)
#define CANDIDATES(op) \
    {.row = &op##_chunked_row, .suits = gop_cl_suits_cpu, .when = "CPU devices", \
     .why = "64 MiB float32, of the cpu backend's speed: all 0.92, rows 0.93, columns 0.83, " \
            "rows of 8 0.31, argmax 0.95; tree 0.06: PoCL 3.1 on two cores of an AMD EPYC, " \
            "2026-11-29"}, \
    {.row = &op##_tree_row, \
     .why = "4 GiB float32, of the cuda backend's speed: all 0.87, rows of 32768 0.88, columns " \
            "0.79; chunked was not tried there: NVIDIA's OpenCL on an H200, 2026-11-29"},
/* clang-format on */

GOP_CL_LADDER(reduce, reduce, ROWS, CANDIDATES);
