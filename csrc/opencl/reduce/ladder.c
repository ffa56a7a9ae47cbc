/*
 * ladder.c - reduce on OpenCL: how a call becomes one or two jobs, each a launch or two; how
 * each kernel shares that work; rows, candidates.
 *
 * Floor: every element is read once. What makes it hard: an output waits for a chain of
 * additions, whose order is fixed. tree/v1 has 128 independent lanes, for work-items on a GPU
 * and for vectors on a CPU.
 */
#include <string.h>

#include "core/arrays/half.h"
#include "core/numerics.h"
#include "opencl/opencl.h"

enum { FLIP = 1, VALUE = 2, SLOT = 32 }; /* bytes of an accumulator in scratch, at most */

/* One reduction of one array. A mean with a mask is two: the first one counts. */
typedef struct reduce_job {
    gop_cl_build build;
    struct shape shape;
    struct work work;
    int64_t groups;   /* work-groups */
    int group, items; /* work-items of them; elements of a vector */
    size_t shared;    /* where the options begin that the root's build has too */
} reduce_job;

typedef struct planned {
    reduce_job job, counting; /* the second one has groups if there is one */
} planned;

/* A row's part: work and groups of a job, and what its build defines besides. */
typedef void (*sharing)(const gop_ctx *ctx, const gop_task *task, reduce_job *job);

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
    const int is_wide = kind->bytes == 8, bytes = is_wide ? 8 : 4;
    const int is_double = is_wide || is_whole(dtype), real_bytes = is_double ? 8 : 4;
    const char *const key = is_wide ? "long" : "int", *const real =
                                                          is_double ? "double" : "float";
    const char *const number = kind->parts == 1 ? kind->base : is_wide ? "double2" : "float2";
    if (op == GOP_ANY || op == GOP_ALL) return (making){"TRUTH", key, "uchar", bytes, 1};
    if (is_position(op)) return (making){"BEST -DPOSITION", key, "long", bytes, 1};
    if (op == GOP_MIN || op == GOP_MAX)
        return (making){kind->parts == 1 ? "EXTREME" : "BEST", key, number, bytes, 1};
    if (op == GOP_SUMSQ) return (making){"SQUARES", real, real, real_bytes, 1};
    if (is_whole(dtype) && op != GOP_MEAN)
        return (making){op == GOP_PROD ? "PROD -DWHOLE" : "TOTAL -DWHOLE", "ulong", "ulong", 8,
                        1};
    return (making){op == GOP_PROD ? "PROD" : "TOTAL", real,
                    is_whole(dtype) ? "double" : number, real_bytes, kind->parts};
}

/* The initial value as bits of the accumulator or, of extremes, of the element. */
static void set_initial(const gop_task *task, struct work *w)
{
    const gop_reduce_params *const p = &task->call->params.reduce;
    const int is_extreme = p->op == GOP_MIN || p->op == GOP_MAX;
    const gop_dtype dtype = task->in[0].dtype;
    w->has_initial = p->has_initial;
    memcpy(w->initial, &p->initial, sizeof w->initial); /* integers and float64 are that */
    if (dtype == GOP_BOOL && is_extreme) w->initial[0] = p->initial.u != 0;
    for (int part = 0; part < 2 && !is_whole(dtype) && !gop_cl_doubles(dtype); part++) {
        const float value = (float)p->initial.f[part];
        w->initial[part] = is_extreme && dtype == GOP_FLOAT16    ? gop_f16_store(value)
                           : is_extreme && dtype == GOP_BFLOAT16 ? gop_bf16_store(value)
                                                                 : gop_float_bits(value);
    }
}

/* ---- jobs ---- */

/* Whether neighbours in memory belong to several outputs rather than to one. */
static int is_across(const struct shape *s)
{
    return s->kept && s->reduced &&
           gop_magnitude(s->axes.stride[1][s->kept - 1]) <
               gop_magnitude(s->axes.stride[1][s->kept + s->reduced - 1]);
}

/* Of a mask itself, into dense outputs. */
static void set_counting(struct shape *s)
{
    int64_t stride = 1;
    memcpy(s->axes.stride[1], s->axes.stride[2], sizeof s->axes.stride[1]);
    memset(s->axes.stride[2], 0, sizeof s->axes.stride[2]);
    for (int64_t d = s->kept - 1; d >= 0; stride *= s->axes.extent[d--])
        s->axes.stride[0][d] = stride;
}

static gop_status plan_job(const gop_ctx *ctx, const gop_task *task, gop_reduce_op op,
                           gop_dtype dtype, int bytes, sharing share, reduce_job *job)
{
    static const char *const names_of[] = {"sum", "prod", "min",    "max",    "mean",
                                           "any", "all",  "argmin", "argmax", "reduce"};
    const making m = making_of(op, dtype);
    const struct shape *const s = &job->shape;
    const int is_best = strncmp(m.word, "BEST", 4) == 0, parts = gop_cl_kinds[dtype].parts;
    const int by_double = is_whole(dtype) && (op == GOP_MEAN || op == GOP_SUMSQ);
    job->items = bytes && !is_best ? bytes / (m.bytes * m.pairs) : 1;
    if (job->items * parts > 16) job->items = 16 / parts; /* no vector is longer */
    job->work.leaves = gop_ceil(s->count, LEAF);
    job->work.turns = 1;
    share(ctx, task, job);
    gop_cl_define(&job->build, " -DITEMS=%d -DLANES=%d -DRLANES=%d ", job->items,
                  job->items * parts, job->items * m.pairs);
    job->shared = strlen(job->build.options);
    GOP_TRY(
        gop_cl_begin(ctx, names_of[op], dtype,
                     (by_double ? GOP_CL_DOUBLE : 0) | (op == GOP_MEAN ? GOP_CL_QUOTIENTS : 0),
                     &job->build));
    gop_cl_define(&job->build, " -D%s -DACC=%s -DOUT=%s -DINDEX=%s -DROOT_GROUP=%d", m.word,
                  m.accumulator, m.out, gop_cl_index(gop_larger(s->outputs, s->count)),
                  job->group);
    if (job->work.team)
        gop_cl_define(&job->build, " -DKEPT=%d -DREDUCED=%d", (int)s->kept, (int)s->reduced);
    return GOP_OK;
}

static size_t partial_bytes(const reduce_job *job)
{
    return job->work.nodes > 1 ? (size_t)(job->shape.outputs * job->work.nodes) * SLOT : 0;
}

/* ---- launches ---- */

/* Over out, in, where and scratch memory. */
static gop_status run_job(gop_ctx *ctx, const reduce_job *job, const gop_array *out,
                          const gop_array *in, const gop_array *mask, const gop_array *scratch)
{
    enum { EACH = 8 }; /* nodes of a work-item of the root, at least */
    static const gop_cl_names names = {.source = "reduce/root", .kernel = "reduce_root_kernel"};
    gop_cl_build root = {&names, ""};
    struct work work = job->work;
    gop_cl_launch l = {
        .build = &job->build,
        .items = job->groups * job->group,
        .group = job->group,
        .operand = {GOP_CL_OF(out), GOP_CL_OF(in), GOP_CL_OF(mask), GOP_CL_OF(scratch)},
        .value = {GOP_CL_VALUE_OF_AXES(3, job->shape), GOP_CL_VALUE(work)}};
    GOP_TRY(gop_cl_run(ctx, &l));
    if (work.nodes <= 1) return GOP_OK;
    work.team = work.each = 1;
    while (2 * work.team <= job->group && work.team * EACH < work.nodes) work.team *= 2;
    while (work.each * work.team < work.nodes) work.each *= 2;
    gop_cl_define(&root, "%s", job->build.options + job->shared);
    l.build = &root;
    l.items = job->shape.outputs * work.team;
    return gop_cl_run(ctx, &l);
}

static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const planned *const p = GOP_OWN(const planned, task->plan);
    const size_t bytes = task->plan->scratch;
    const gop_array scratch =
        gop_cl_in_scratch(task->scratch, 0, GOP_COMPLEX128, gop_ceil((int64_t)bytes, 16));
    /* What a call has not is another operand, which the kernel does not read there. */
    const gop_array *const mask = &task->in[p->job.work.has_where ? 1 : 0];
    (void)step;
    if (p->counting.groups) {
        const gop_array counts = gop_cl_in_scratch(
            task->scratch, (size_t)p->job.work.counts * 8, GOP_INT64, p->job.shape.outputs);
        GOP_TRY(run_job(ctx, &p->counting, &counts, mask, mask, &scratch));
    }
    return run_job(ctx, &p->job, &task->out[0], &task->in[0], mask,
                   bytes ? &scratch : &task->out[0]);
}

/* Fills the plan of a row in vectors of `bytes`, 0: of one element. */
static gop_status plan_of(const gop_ctx *ctx, const gop_task *task, int bytes, sharing share,
                          gop_plan *plan)
{
    planned *const p = GOP_OWN(planned, plan);
    const gop_reduction *const g = &task->geometry.reduction;
    const gop_reduce_params *const params = &task->call->params.reduce;
    const gop_dtype dtype = task->in[0].dtype;
    reduce_job *const job = &p->job;
    const int64_t *const stride[] = {g->out, g->in, g->where};
    *p = (planned){.job.build = job->build, .counting.build = job->build};
    plan->launch = launch;
    job->shape = (struct shape){g->kept, g->reduced, g->outputs, g->count, {0}};
    GOP_TRY(gop_cl_set_axes(&job->build, "", g->kept + g->reduced, g->extent, 3, stride,
                            &job->shape.axes));
    set_initial(task, &job->work);
    job->work.has_where = params->has_where;
    job->work.is_mean = params->op == GOP_MEAN;
    if (params->op == GOP_MAX || params->op == GOP_ARGMAX || params->op == GOP_ANY)
        job->work.flags |= FLIP;
    if (is_position(params->op) || gop_cl_kinds[dtype].parts == 2) job->work.flags |= VALUE;
    GOP_TRY(plan_job(ctx, task, params->op, dtype, bytes, share, job));
    job->work.counts = -1;
    plan->scratch = partial_bytes(job);
    if (params->op != GOP_MEAN || !params->has_where) return GOP_OK;
    p->counting.shape = job->shape;
    p->counting.work.counts = -1;
    set_counting(&p->counting.shape);
    GOP_TRY(plan_job(ctx, task, GOP_SUM, GOP_BOOL, bytes, share, &p->counting));
    if (partial_bytes(&p->counting) > plan->scratch)
        plan->scratch = partial_bytes(&p->counting);
    job->work.counts = (int64_t)plan->scratch / 8;
    plan->scratch += (size_t)g->outputs * 8;
    return GOP_OK;
}

/* ---- the lecture's kernels, which sum a contiguous array ----
 *
 * Each group makes a sum of many numbers; a second launch adds up what the first one left in
 * scratch memory. int32 is summed as int64. The order of the additions depends on the groups.
 */

/* From n numbers at `from` to the sums of `groups` groups. */
static gop_status sum_groups(gop_ctx *ctx, const gop_task *task, const gop_array *to,
                             const gop_array *from, int64_t n, int64_t groups)
{
    const reduce_job *const own = GOP_OWN(const reduce_job, task->plan);
    gop_cl_build build = own->build;
    gop_cl_define(&build, " -DT=%s -DR=%s -DGROUP=%d", gop_cl_kinds[from->dtype].base,
                  gop_cl_kinds[to->dtype].base, own->group);
    return GOP_CL_RUN(ctx, .build = &build, .items = groups * own->group, .group = own->group,
                      .operand = {GOP_CL_OF(to), GOP_CL_OF(from)}, .value = {GOP_CL_VALUE(n)});
}

/* Sums of groups, then their sum; or, without scratch memory, one launch of groups that all add
 * to the result, after one of no numbers, which clears it. */
static gop_status launch_lesson(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const int64_t n = task->geometry.reduction.count;
    const int64_t groups = GOP_OWN(const reduce_job, task->plan)->groups;
    const gop_array *const out = &task->out[0], *const in = &task->in[0];
    const gop_array sums = gop_cl_in_scratch(task->scratch, 0, out->dtype, groups);
    const int adds = !task->plan->scratch;
    (void)step;
    if (adds) GOP_TRY(sum_groups(ctx, task, out, in, 0, 1));
    GOP_TRY(sum_groups(ctx, task, adds ? out : &sums, in, n, groups));
    return adds ? GOP_OK : sum_groups(ctx, task, out, &sums, groups, 1);
}

/* As many groups as fit the device; only for whole contiguous arrays. Tunable "group". */
static gop_status by_adding_groups(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    enum { EACH = 4096, GROUPS = 8 }; /* numbers of a group at least; groups of a unit */
    const gop_reduction *const g = &task->geometry.reduction;
    const gop_reduce_params *const params = &task->call->params.reduce;
    reduce_job *const own = GOP_OWN(reduce_job, plan);
    if (params->op != GOP_SUM || params->has_where || params->has_initial)
        return gop_cl_refuse(&own->build, "only sums, without where or initial");
    if (g->outputs != 1 || g->count == 0 || g->reduced > 1 ||
        (g->reduced == 1 && g->in[0] != 1))
        return gop_cl_refuse(&own->build, "sums one whole contiguous array that is not empty");
    GOP_TRY(gop_cl_begin(ctx, "sum", task->in[0].dtype, 0, &own->build));
    own->groups = gop_smaller(gop_ceil(g->count, EACH), ctx->info.processors * GROUPS);
    own->group = 1;
    while (own->group * 2 <= gop_cl_group(ctx, task->tune[0])) own->group *= 2;
    plan->launch = launch_lesson;
    return GOP_OK;
}

static gop_status by_groups(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    GOP_TRY(by_adding_groups(ctx, task, plan));
    plan->scratch = (size_t)GOP_OWN(const reduce_job, plan)->groups * 8;
    return GOP_OK;
}

/* ---- tree: teams of work-items ---- */

enum { LOADED = 16 }; /* bytes of accumulators that a work-item loads elements for at once */

/* Nodes of an output, of 2^node_leaves leaves. */
static void set_nodes(struct work *w, int node_leaves)
{
    w->node_leaves = node_leaves;
    w->nodes = w->leaves ? gop_ceil(w->leaves, INT64_C(1) << node_leaves) : 1;
}

/* Whether work-items may take whole vectors of neighbours, lanes or outputs. */
static int has_vectors(const gop_task *task, const reduce_job *job)
{
    const struct shape *const s = &job->shape;
    const int64_t inner = is_across(s) ? s->kept - 1 : s->kept;
    const int64_t bytes = gop_cl_item(task->in[0].dtype), *const stride = s->axes.stride[1];
    uint64_t bits = (uintptr_t)task->in[0].data / (uint64_t)bytes;
    if (job->items == 1 || s->reduced != 1 || job->work.has_where || s->count < LANES ||
        stride[inner] != 1 || (uintptr_t)task->in[0].data % (uint64_t)bytes)
        return 0;
    if (is_across(s)) bits |= (uint64_t)s->axes.extent[inner];
    for (int64_t d = 0; d <= s->kept; d++)
        if (d != inner) bits |= gop_magnitude(stride[d]);
    return bits % (uint64_t)job->items == 0;
}

/* How many lanes and outputs a team and a work-group have side by side. */
static void set_teams(const gop_task *task, reduce_job *job, int group, int across)
{
    enum { SIDE_BY_SIDE = 32 }; /* outputs that are neighbours, at most */
    const struct shape *const s = &job->shape;
    struct work *const w = &job->work;
    const int most = job->items > 1 ? (int)task->tune[1] : SIDE_BY_SIDE;
    int lanes = 1, side = 1;
    while (lanes < LANES && lanes < s->count) lanes *= 2;
    while (across && side < most && side < s->outputs) side *= 2;
    if (!across) lanes /= job->items;
    w->by_rows = !across;
    w->team = group / side < lanes ? group / side : lanes;
    w->turns = lanes / w->team;
}

/* Tasks of work-groups: the leaves of a node of 2^inner outputs, or vectors of them. Tasks are
 * as large as leaves enough of them; of rows every team has a leaf, if there are as many. */
static void set_tasks(reduce_job *job, int group, int across, int64_t wanted)
{
    enum { LEVELS = 6, SHARE = 4 }; /* 2^6 leaves of a node at most; leaves of a team */
    struct work *const w = &job->work;
    const int64_t units = job->shape.outputs / (across ? job->items : 1);
    const int side = group / w->team;
    int levels = 0;
    w->inner = 0;
    while (across && 1 << w->inner < side) w->inner++;
    while (levels < LEVELS && 2 << (levels + w->inner) <= group && 1 << levels < w->leaves)
        levels++;
    for (;; levels--) {
        set_nodes(w, levels);
        w->tasks = gop_ceil(units, INT64_C(1) << w->inner) * w->nodes;
        if (levels == 0 || 2 * w->tasks >= wanted || 1 << (levels + w->inner) <= side) break;
    }
    for (int slots = 1 << levels; !across && slots < SHARE * side && slots < group;
         slots *= 2) {
        if (slots >= side ? w->tasks <= 8 * wanted : 1 << w->inner >= units) break;
        w->tasks = gop_ceil(units, INT64_C(1) << ++w->inner) * w->nodes;
    }
}

/* Tunables "group", "side" and "units". */
static void share_tree(const gop_ctx *ctx, const gop_task *task, reduce_job *job)
{
    const struct shape *const s = &job->shape;
    struct work *const w = &job->work;
    const int across = is_across(s), is_vector = has_vectors(task, job);
    const int64_t wanted = ctx->info.processors * task->tune[2];
    int group = 32;
    if (!is_vector) job->items = 1;
    while (group * 2 <= gop_cl_group(ctx, task->tune[0])) group *= 2;
    set_teams(task, job, group, across);
    set_tasks(job, group, across, wanted);
    /* As many work-groups as there is room for, or fewer of equal shares. */
    job->groups = w->tasks > wanted ? gop_ceil(w->tasks, gop_ceil(w->tasks, wanted)) : w->tasks;
    job->group = group;
    if (is_vector)
        gop_cl_define(&job->build, "%s -DTEAM=%d -DTURNS=%d -DBY_ROWS=%d",
                      across ? " -DACROSS" : "", w->team, w->turns, w->by_rows);
}

static gop_status by_teams(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    return plan_of(ctx, task, LOADED, share_tree, plan);
}

/* ---- chunked: vectors, for CPUs ---- */

enum { VECTOR = 64 }; /* bytes of an accumulator's vector */

/* Strips of columns, whose vectors are no longer than a line, but of narrow arrays. */
static int64_t strips_of(reduce_job *job, int strip)
{
    const struct shape *const s = &job->shape;
    const int64_t inner = s->kept - 1, line = s->axes.extent[inner];
    const int is_narrow = s->count >= LEAF && s->reduced == 1 &&
                          s->axes.stride[1][inner] == 1 && s->axes.stride[1][s->kept] == line &&
                          !job->work.has_where;
    while (job->items > line && !is_narrow) job->items /= 2;
    while (job->work.turns < LANES && job->work.turns < s->count) job->work.turns *= 2;
    return s->outputs / line * gop_ceil(line, (int64_t)strip * job->items);
}

/* Whether outputs of a few elements lie together, so that registers can turn them. */
static int are_turned(const gop_task *task, const reduce_job *job)
{
    enum { MOST = 16 };
    const struct shape *const s = &job->shape;
    return s->kept == 1 && s->reduced == 1 && s->count > 1 && s->count <= MOST &&
           (s->count & (s->count - 1)) == 0 && s->axes.stride[1][1] == 1 &&
           s->axes.stride[1][0] == s->count && !job->work.has_where && job->items > 1 &&
           gop_cl_kinds[task->in[0].dtype].parts == 1;
}

static void share_chunks(const gop_ctx *ctx, const gop_task *task, reduce_job *job)
{
    enum { FEW = 64 };        /* elements of an output: many outputs then go side by side */
    enum { MOST_LEAVES = 6 }; /* a node of columns is 2^6 leaves at most */
    const struct shape *const s = &job->shape;
    struct work *const w = &job->work;
    const int64_t wanted = (int64_t)ctx->info.processors * GOP_CL_CHUNKS;
    const int of_best = job->items == 1 ? VECTOR / 4 : 1; /* no vectors, but as many numbers */
    const int strip = (int)task->tune[0] * of_best;
    const int by_rows = !s->kept || (!is_across(s) && s->count >= FEW);
    const int64_t strips = by_rows ? s->outputs : strips_of(job, strip);
    int node_leaves = by_rows ? 0 : MOST_LEAVES;
    set_nodes(w, node_leaves);
    while (by_rows && w->nodes > 1 && strips * w->nodes > wanted) set_nodes(w, ++node_leaves);
    while (!by_rows && node_leaves && strips * w->nodes < wanted) set_nodes(w, --node_leaves);
    w->each = gop_cl_chunk(ctx, strips * w->nodes,
                           gop_ceil(s->count, w->nodes) * gop_ceil(s->outputs, strips));
    job->groups = gop_ceil(strips * w->nodes, w->each);
    job->group = 1;
    if (by_rows) return;
    gop_cl_define(&job->build, " -DCOLUMNS -DSTRIP=%d", strip);
    if (are_turned(task, job)) gop_cl_define(&job->build, " -DFEW=%d", (int)s->count);
}

/* Tunable "strip". */
static gop_status by_chunks(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    GOP_TRY(gop_cl_need_cpu(ctx, GOP_OWN(gop_cl_build, plan)));
    return plan_of(ctx, task, VECTOR, share_chunks, plan);
}

/* ---- rows, and which of them runs ---- */

/* clang-format off */
#define ROWS(ROW, op, stem) \
    ROW(op, stem, cascaded, by_groups, \
        .note = "a grid that fits the device: a work-item adds many numbers before a group " \
                "meets in local memory, where neighbours are added: every bank answers once", \
        .role = GOP_TEACHING, .lecture = "opencl", .tunables = {GOP_CL_GROUP}, \
        .caveat = "adds in an order of its own: the last bits of a float sum differ from those " \
                  "of tree/v1", .dtypes = 1u << GOP_INT32 | GOP_CL_REALS) \
    ROW(op, stem, atomic, by_adding_groups, \
        .note = "work-groups add to one number: no second pass", \
        .role = GOP_TEACHING, .lecture = "opencl", .tunables = {GOP_CL_GROUP}, \
        .caveat = "adds in whatever order groups end: the last bits of a float sum change from " \
                  "run to run", .dtypes = 1u << GOP_FLOAT32) \
    ROW(op, stem, tree, by_teams, \
        .note = "lanes of a leaf a work-item, by vectors where they are aligned; teams of them " \
                "meet in local memory", \
        .tunables = {GOP_CL_GROUP, {"side", 3, {8, 16, 32}}, {"units", 4, {4, 2, 8, 16}}}, \
        .dtypes = GOP_EVERY_DTYPE) \
    ROW(op, stem, chunked, by_chunks, \
        .note = "a chunk of the array a work-item, in vectors along memory: of an output's " \
                "elements, or of several outputs", \
        .tunables = {{"strip", 3, {64, 16, 32}}}, .dtypes = GOP_EVERY_DTYPE)
#define CANDIDATES(op) \
    {.row = &op##_chunked_row, .suits = gop_cl_suits_cpu, .when = "CPU devices", \
     .why = "64 MiB float32, of the cpu backend's speed: all 0.92, rows 0.93, columns 0.83, " \
            "argmax 0.95: PoCL 3.1 on two cores of an AMD EPYC, 2026-11-29"}, \
    {.row = &op##_tree_row, \
     .why = "4 GiB float32, of the cuda backend's speed: all 0.97, rows of 32768 0.99, " \
            "columns 0.96: NVIDIA's OpenCL on an H200, 2026-11-29"},

GOP_CL_LADDER(reduce, reduce, ROWS, CANDIDATES);
