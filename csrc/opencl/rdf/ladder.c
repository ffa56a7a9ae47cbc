/*
 * ladder.c - rdf on OpenCL: plans and launches, rows, candidates.
 *
 * The floor is arithmetic, about ten operations a pair. What makes it hard is the histogram:
 * all work-items increment the same few counters.
 */
#include <string.h>

#include "core/ops/rdf.h"
#include "core/ops/rdf_guess.h"
#include "opencl/opencl.h"

/* The parts of a set's memory. */
enum { KEY, RANK, START, POINTS, TYPES, SORTED_KEY, PARTS };

/* A part of a plan. */
typedef struct sorted_sets {
    gop_cl_build build; /* of the sorting */
    struct grid grid;
    struct places places;
    int cells;
    int64_t at[2][PARTS]; /* of each set, in numbers behind the begin of scratch memory */
} sorted_sets;

/* What every row has in its plan. */
typedef struct planned {
    gop_cl_build build;
    int64_t points, others; /* points of a step by others */
    int64_t each, chunk;    /* the same of a work-group */
    size_t histogram;       /* bytes of local memory, of counters */
    int group;              /* work-items of a group */
    gop_bin_guess guess;    /* without rows: kernels are not told it */
    sorted_sets sorted;
} planned;

/* ---- points sorted into the cells of a grid: the launches of sorting.cl ---- */

static const gop_cl_names sorting = {.source = "rdf/sorting", .kernel = "rdf_clear_kernel"};

enum { BEHIND = 16, SCANNED = 256 }; /* numbers behind the last; work-items of the scan */

_Static_assert(GRID_ROWS == (int)GOP_GRID_ROWS, "as kernels are told");

/* Returns what the grid costs; it is one cell without costs. */
static double plan_sorting(const gop_ctx *ctx, const gop_task *task,
                           const gop_grid_costs *costs, sorted_sets *own, size_t *end)
{
    const gop_pairs *p = &task->geometry.pairs;
    const gop_near near = gop_near_of(p, task->in[0].dtype == GOP_FLOAT32);
    gop_grid g = {.n = {1, 1, 1}, .span = 1, .cost = INFINITY};
    if (costs) g = gop_grid_choose(p, &near, costs);
    own->cells = g.n[0] * g.n[1] * g.n[2];
    gop_cl_define(&own->build, " -DGROUP=%d -DONE=%d", gop_cl_group(ctx, SCANNED),
                  own->cells == 1);
    own->grid.room[0] = (int)p->n + BEHIND;
    own->grid.room[1] = (int)(p->one_set ? p->n : p->n2) + BEHIND;
    own->places.is_box = p->box != 0;
    memcpy(own->places.row, p->cell, sizeof own->places.row);
    memcpy(own->places.most, g.most, sizeof g.most);
    memcpy(own->places.low, g.low, sizeof g.low);
    memcpy(own->places.per, g.per, sizeof g.per);
    memcpy(own->places.n, g.n, sizeof g.n);
    memcpy(own->grid.n, g.n, sizeof g.n);
    memcpy(own->grid.reach, g.reach, sizeof g.reach);
    for (int row = 0; row < GRID_ROWS; row++) {
        own->grid.first[row] = (short)g.first[row];
        own->grid.last[row] = (short)g.last[row];
    }
    for (int k = 0; k <= !p->one_set; k++) {
        const int64_t room = own->grid.room[k], n = room - BEHIND;
        const int64_t sorted = own->cells > 1 ? n : 1, types = p->types ? room : 1;
        const int64_t counts[PARTS] = {sorted, sorted, own->cells + 1, 3 * room, types, n};
        for (int part = 0; part < PARTS; part++) {
            const int64_t item = part == POINTS ? gop_cl_item(task->in[0].dtype) : 4;
            own->at[k][part] = (int64_t)*end / item;
            *end += (size_t)gop_ceil(counts[part] * item, 256) * 256;
        }
    }
    if (p->one_set) memcpy(own->at[1], own->at[0], sizeof *own->at);
    return g.cost;
}

/* ---- launches ---- */

/* Clears the counters. Of each set it finds where the points of each cell begin, and the place
 * of each point in its cell; then it brings all in this order. */
static gop_status prepare(gop_ctx *ctx, const gop_task *task, const struct call *call,
                          const gop_array *ints, const gop_array *sorted)
{
    const gop_pairs *p = &task->geometry.pairs;
    const sorted_sets *const own = &GOP_OWN(const planned, task->plan)->sorted;
    const int group = gop_cl_group(ctx, 64);
    if (call->counters > 0)
        GOP_TRY(GOP_CL_RUN(ctx, .build = &own->build, .items = call->counters, .group = group,
                           .operand = {GOP_CL_OF(&task->out[0])},
                           .value = {GOP_CL_VALUE(*call)}));
    if (p->n == 0 || p->n2 == 0) return GOP_OK;
    for (int k = 0; k <= !p->one_set; k++) {
        const int64_t *const at = own->at[k];
        /* Labels, or what stands for them where there are none. */
        const gop_array *const types = &task->in[!p->types ? 1 : p->one_set ? 2 : 3 + k];
        const struct set set = {k ? p->row2 : p->row,  k ? p->col2 : p->col,
                                types->strides[0] / 4, own->grid.room[k] - BEHIND,
                                own->grid.room[k],     own->cells};
        const gop_cl_operand points = GOP_CL_OF(&task->in[k ? 2 : 0]);
        const gop_cl_operand key = GOP_CL_AT(ints, at[KEY]);
        const gop_cl_operand rank = GOP_CL_AT(ints, at[RANK]);
        const gop_cl_operand start = GOP_CL_AT(ints, at[START]);
        const gop_cl_launch step[] = {
            {.kernel = "rdf_zero_kernel", .items = own->cells + 1, .operand = {start}},
            {.kernel = "rdf_place_kernel",
             .items = set.n,
             .operand = {points, key, rank, start},
             .value = {GOP_CL_VALUE(set), GOP_CL_VALUE(own->places)}},
            {.kernel = "rdf_scan_kernel", .items = 1, .group = SCANNED, .operand = {start}},
            {.kernel = "rdf_scatter_kernel",
             .items = set.room,
             .operand = {points, GOP_CL_OF(types), key, rank, start,
                         GOP_CL_AT(sorted, at[POINTS]), GOP_CL_AT(ints, at[TYPES]),
                         GOP_CL_AT(ints, at[SORTED_KEY])}}};
        for (int i = own->cells > 1 ? 0 : 3; i < 4; i++) {
            gop_cl_launch l = step[i];
            l.build = &own->build;
            l.group = l.group ? gop_cl_group(ctx, l.group) : group;
            l.value[0] = GOP_CL_VALUE(set);
            GOP_TRY(gop_cl_run(ctx, &l));
        }
    }
    return GOP_OK;
}

/* A launch: points of the first set that a step meets with points of the second. */
static gop_status launch(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const planned *const own = GOP_OWN(const planned, task->plan);
    const gop_pairs *p = &task->geometry.pairs;
    const gop_array *const out = &task->out[0];
    const struct call call = {p->n,
                              p->n2,
                              out->strides[0] / 8,
                              out->strides[1] / 8,
                              (int)p->bins,
                              p->types,
                              p->one_set,
                              (int)(out->shape[0] * p->bins),
                              (float)p->guess_scale,
                              (float)(-p->guess_origin * p->guess_scale),
                              (float)p->guess_slack};
    const double *c = p->cell, *const m = GOP_FRAMES(task)->middle;
    double box[12] = {c[0], c[3], c[4], c[6], c[7], c[8], 0, 0, 0, m[0], m[1], m[2]};
    for (int k = 0; k < 3; k++) /* reciprocals; kernels divide by what is not normal */
        box[6 + k] = c[4 * k] > 1e-30 && c[4 * k] < 1e30 ? 1 / c[4 * k] : HUGE_VAL;
    float narrow[12];
    const gop_dtype dtype = task->in[0].dtype;
    const int64_t bytes = (int64_t)task->plan->scratch;
    const gop_array ints = gop_cl_in_scratch(task->scratch, 0, GOP_INT32, bytes / 4);
    const gop_array sorted =
        gop_cl_in_scratch(task->scratch, 0, dtype, bytes / gop_cl_item(dtype));
    const int64_t(*const at)[PARTS] = own->sorted.at;
    const int64_t columns = gop_ceil(p->n2, own->others);
    if (step == 0) GOP_TRY(prepare(ctx, task, &call, &ints, &sorted));
    if (p->n == 0 || p->n2 == 0) return GOP_OK;
    struct range r = {.i0 = step / columns * own->points,
                      .j0 = step % columns * own->others,
                      .each = (int)own->each,
                      .others = (int)own->chunk};
    r.i1 = gop_smaller(r.i0 + own->points, p->n);
    r.j1 = gop_smaller(r.j0 + own->others, p->n2);
    r.blocks = (int)gop_ceil(r.i1 - r.i0, own->each);
    if (p->one_set && r.j1 <= r.i0 + 1) return GOP_OK; /* another step's */
    return GOP_CL_RUN(
        ctx, .build = &own->build,
        .items = r.blocks * gop_ceil(r.j1 - r.j0, own->chunk) * own->group, .group = own->group,
        .operand = {GOP_CL_AT(&sorted, at[0][POINTS]), GOP_CL_AT(&ints, at[0][TYPES]),
                    GOP_CL_AT(&ints, at[0][SORTED_KEY]), GOP_CL_AT(&sorted, at[1][POINTS]),
                    GOP_CL_AT(&ints, at[1][TYPES]), GOP_CL_AT(&ints, at[1][START]),
                    GOP_CL_OF(&task->in[1]), GOP_CL_OF(out)},
        .value = {GOP_CL_VALUE(call), gop_cl_numbers(dtype, 12, box, narrow), GOP_CL_VALUE(r),
                  GOP_CL_VALUE(own->sorted.grid), GOP_CL_VALUE_IF(own->guess.rows, own->guess),
                  GOP_CL_BYTES(own->histogram, NULL)});
}

/* ---- plans: what they have in common ---- */

/* Refuses several frames, and points that the device has no arithmetic for. Groups of so many
 * work-items, which have `held` points each; sets are sorted if there are costs. */
static gop_status begin(const gop_ctx *ctx, const gop_task *task, int64_t group, int held,
                        const gop_grid_costs *costs, gop_plan *plan)
{
    const int64_t count = GOP_FRAMES(task)->count;
    const gop_pairs *p = &task->geometry.pairs;
    planned *const own = GOP_OWN(planned, plan);
    if (count > 1)
        return gop_cl_refuse(&own->build, "takes one frame at a time, got %lld",
                             (long long)count);
    if ((p->n > p->n2 ? p->n : p->n2) > INT32_MAX / 2 ||
        task->out[0].shape[0] * p->bins > INT32_MAX / 2)
        return gop_cl_refuse(&own->build,
                             "takes sets of up to 2^30 points and as many counters");
    GOP_TRY(gop_cl_begin(ctx, "rdf", task->in[0].dtype, p->box ? GOP_CL_QUOTIENTS : 0,
                         &own->build));
    gop_cl_define(&own->build, " -DLANES=1 -DBOX=%d -DTYPED=%d", p->box, p->types > 0);
    *own = (planned){.build = own->build, .group = gop_cl_group(ctx, group)};
    own->each = (int64_t)own->group * held;
    own->sorted.build = own->build;
    own->sorted.build.names = &sorting;
    plan->launch = launch;
    plan->scratch = 0;
    plan->cost = (float)plan_sorting(ctx, task, costs, &own->sorted, &plan->scratch);
    return GOP_OK;
}

/* Steps of so many points by so many others. */
static void set_steps(const gop_task *task, int64_t points, int64_t others, gop_plan *plan)
{
    const gop_pairs *p = &task->geometry.pairs;
    planned *const own = GOP_OWN(planned, plan);
    own->points = points;
    own->others = own->chunk = others;
    plan->steps = gop_ceil(p->n, points) * gop_ceil(p->n2, others);
    if (plan->steps < 1) plan->steps = 1; /* to clear the counters */
}

/* Steps of all others; about so many. */
static void set_steps_of_points(const gop_task *task, double steps, gop_plan *plan)
{
    const gop_pairs *p = &task->geometry.pairs;
    const double n = (double)p->n;
    const int64_t count = steps < 1 ? 1 : steps > n ? p->n : (int64_t)steps;
    set_steps(task, p->n / gop_larger(count, 1) + 1, gop_larger(p->n2, 1), plan);
}

/* How kernels of GPUs name rows of counters, and the counters of a work-group of so many
 * work-items, in as many copies as are few enough for local memory. Refuses where the device's
 * has no room. */
static gop_status plan_counters(const gop_ctx *ctx, const gop_task *task, planned *own)
{
    enum {
        ROOT = 6,        /* error of a root, in 2^-24 of itself */
        COPIES = 8,      /* at most, */
        ROOM = 24 << 10, /* and bytes of all copies */
        TILE = 16,
        OWN = 256 /* bytes beside them: a work-item's, the driver's */
    };
    const gop_frames *f = GOP_FRAMES(task);
    const gop_pairs *p = &f->pairs;
    const int64_t types = p->types ? p->types : 1;
    gop_bin_guess *const g = &own->guess;
    const int is_even = p->uniform && !gop_guess_bins(f, ROOT, g);
    if (!is_even) {
        memset(g, 0, sizeof *g);
        g->rows = (int)p->bins + 1;
        g->outside = (unsigned)p->bins;
    }
    if (p->box) gop_guess_box(g, p->cell, f->guess_margin[0], f->guess_margin[1]);
    const int64_t counters =
        types < 1 << 12 ? types * types * g->rows * (int64_t)sizeof(uint32_t) : INT32_MAX;
    int copies = COPIES;
    while (copies > 1 && copies * counters > ROOM) copies /= 2;
    own->histogram = (size_t)(counters * copies);
    gop_cl_define(&own->build, " -DGROUP=%d -DCOPIES=%d -DEVEN=%d%s", own->group, copies,
                  is_even, gop_cl_has(ctx, GOP_CL_REGISTERS) ? " -DNVIDIA" : "");
    return gop_cl_need_group(ctx, &own->build, own->group,
                             counters * copies + TILE * own->group + OWN);
}

/* ---- plans of kernels ---- */

/* Tunable "group". */
static gop_status naive(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    GOP_TRY(begin(ctx, task, task->tune[0], 1, NULL, plan));
    set_steps(task, 1 << 14, 1 << 12, plan);
    return GOP_OK;
}

/* Tunables "points" and "group". */
static gop_status guessed(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    enum { MOST = 1 << 13, LEAST = 1 << 9, GROUPS = 64 }; /* points; groups of a unit */
    const gop_pairs *p = &task->geometry.pairs;
    const int held = (int)task->tune[0];
    planned *const own = GOP_OWN(planned, plan);
    GOP_TRY(begin(ctx, task, task->tune[1], held, NULL, plan));
    set_steps(task, 1 << 17, p->uniform ? 1 << 18 : 1 << 15, plan); /* a guess is faster */
    own->chunk = MOST;
    while (own->chunk > LEAST && gop_ceil(p->n, own->each) * gop_ceil(p->n2, own->chunk) <
                                     (int64_t)ctx->info.processors * GROUPS)
        own->chunk /= 2;
    gop_cl_define(&own->build, " -DPOINTS=%d", held);
    return plan_counters(ctx, task, own);
}

/* Tunable "group". The costs are the cuda backend's: a GPU has the same things to do. */
static gop_status cells(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    static const gop_grid_costs costs = {20.0, 0.0, 15.0, 0.0, 1.0, 1};
    planned *const own = GOP_OWN(planned, plan);
    if (!gop_cl_has(ctx, GOP_CL_DOUBLE))
        return gop_cl_refuse(&own->build,
                             "needs float64 for places in its grid, which %s has not; kernel "
                             "'guessed' takes all pairs",
                             ctx->info.name);
    if (task->geometry.pairs.n2 > 1 << 24)
        return gop_cl_refuse(&own->build, "takes sets of up to 2^24 points, got %lld",
                             (long long)task->geometry.pairs.n2);
    GOP_TRY(begin(ctx, task, task->tune[0], 1, &costs, plan));
    GOP_TRY(plan_counters(ctx, task, own));
    set_steps_of_points(task, plan->cost / 0x1p33, plan);
    if (own->sorted.cells == 1) plan->cost = INFINITY;
    return GOP_OK;
}

/* Tunables "cells" and "width". The costs were measured on PoCL. */
static gop_status chunked(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    static const gop_grid_costs costs = {40.0, 0.0, 15.0, 0.0, 1.5, 1};
    enum {
        CHUNKS = 16,      /* a processor: the last ones even out */
        COPIED = 1 << 14, /* counters of which there are copies, at most */
        COPIES = 4,
    };
    const gop_pairs *p = &task->geometry.pairs;
    const int64_t bytes = task->out[0].shape[0] * (p->bins + 1) * (int64_t)sizeof(uint32_t);
    const int has_cells = task->tune[0] && gop_cl_has(ctx, GOP_CL_DOUBLE);
    planned *const own = GOP_OWN(planned, plan);
    GOP_TRY(begin(ctx, task, 1, 1, has_cells ? &costs : NULL, plan));
    const int one = own->sorted.cells == 1, width = one ? 16 : 8; /* runs of cells are short */
    const int has_room = bytes <= COPIED * 4 && COPIES * bytes <= ctx->info.shared_per_block;
    const int copies = has_room ? COPIES : 1;
    own->histogram = (size_t)(bytes * copies);
    gop_cl_define(&own->build, " -DWIDTH=%d -DCOPIES=%d -DONE=%d -DEVEN=%d",
                  task->tune[1] ? (int)task->tune[1] : width, copies, one, p->uniform);
    const double all = (double)p->n * (double)p->n2;
    set_steps_of_points(task, (one ? all : plan->cost) / 0x1p27, plan);
    own->each =
        gop_ceil(gop_smaller(own->points, gop_larger(p->n, 1)), ctx->info.processors * CHUNKS);
    return gop_cl_need_group(ctx, &own->build, 1, (int64_t)own->histogram);
}

/* ---- rows, and which of them runs ---- */

/* As the cuda backend decides it. */
static int are_near_pairs_few(const gop_ctx *ctx, const gop_task *task, const gop_plan *plan)
{
    (void)ctx;
    return gop_are_near_pairs_few(&task->geometry.pairs, plan->cost);
}

/* clang-format off */
#define ROWS(ROW, op, stem) \
    ROW(op, stem, naive, naive, \
        .note = "a work-item per point; every pair adds to a counter in global memory", \
        .lecture = "radial distribution function", .tunables = {GOP_CL_GROUP}, \
        .dtypes = GOP_CL_REALS) \
    ROW(op, stem, guessed, guessed, \
        .note = "points in registers, copies of the counters in local memory; bins are guessed " \
                "in float32 and counted without a branch, and put right near an edge", \
        .lecture = "radial distribution function", \
        .tunables = {{"points", 4, {4, 2, 1, 8}}, {"group", 4, {128, 64, 256, 512}}}, \
        .dtypes = GOP_CL_REALS) \
    ROW(op, stem, cells, cells, \
        .note = "points sorted into cells on the device; a work-item looks at near cells only", \
        .tunables = {{"group", 3, {128, 64, 256}}}, .dtypes = GOP_CL_REALS) \
    ROW(op, stem, chunked, chunked, \
        .note = "for CPUs: vectors of pairs, a chunk of points and counters of its own a " \
                "work-item; near cells only where r_max is short", \
        .tunables = {{"cells", 2, {1, 0}}, {"width", 4, {0, 16, 8, 4}}}, \
        .dtypes = GOP_CL_REALS)
#define CANDIDATES(op) \
    {.row = &op##_chunked_row, .suits = gop_cl_suits_cpu, .when = "CPU devices", \
     .why = "20,000 points float32 0.81 to 0.86 of the cpu backend's speed: PoCL 3.1 on two " \
            "cores of an AMD EPYC, 2026-11-28"}, \
    {.row = &op##_cells_row, \
     .when = "r_max so short that pairs of near cells cost less than all pairs", \
     .why = "the cuda backend's rule; 1,000,000 points to a twentieth 0.58 of its speed: " \
            "NVIDIA's OpenCL on an H200, 2026-11-29", \
     .pays = are_near_pairs_few}, \
    {.row = &op##_guessed_row, \
     .why = "all pairs on GPUs; 500,000 points 1.17 of the cuda backend's speed, in a box " \
            "200,000 1.01: NVIDIA's OpenCL on an H200, 2026-11-29"}, \
    {.row = &op##_naive_row, \
     .why = "takes all that is left: counters that local memory has no room for"},

GOP_CL_LADDER(rdf, rdf, ROWS, CANDIDATES);
