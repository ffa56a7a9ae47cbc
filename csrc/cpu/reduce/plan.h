/*
 * plan.h - divides a reduction into runs of outputs and nodes of leaves, and runs it: first all
 * nodes, then the fold of each output's nodes.
 *
 * A node is 2^node_leaves leaves of an output, a whole subtree, so that threads may share a
 * long output. The tree, and so the bits, do not depend on the threads.
 */
#ifndef GOP_CPU_REDUCE_PLAN_H
#define GOP_CPU_REDUCE_PLAN_H

#include "cpu/reduce/columns.h"
#include "cpu/reduce/parts.h"
#include "cpu/reduce/room.h"
#include "cpu/reduce/rows.h"
#include "cpu/reduce/tables.h"

enum {
    PACK_BYTES = 1 << 22, /* most bytes of a packed node */
    FEW = 32,             /* outputs of fewer elements are folded many at a time */
    TURN_BYTES = 1 << 16, /* most bytes of a run that is transposed for that */
    JOINT = 256,          /* rows are joined up to this many outputs */
    LEAST_ROWS = 64,      /* fewest rows of a node if the order is free */
    LONG_RUN = 1 << 13,   /* bytes of a row that are read as fast as a longer row */
    NODE_LEAVES = 6,      /* log2 of the leaves of a node, at most */
};

/* ---- dividing the work ---- */

/* Finds the contiguous reduced axis `beside` if packing pays, and makes nodes long enough to
 * use whole cache lines. */
static void find_beside(reduce_plan *plan, const gop_reduction *g, int masked)
{
    const int inner = g->kept + g->reduced - 1;
    const int64_t item = (int64_t)plan->item;
    plan->span = 0;
    if (plan->columns || masked || g->reduced < 2) return;
    if (llabs(g->in[inner]) * item < LINE) return;
    int64_t span = g->extent[inner];
    for (int axis = inner - 1; axis >= g->kept; span *= g->extent[axis], axis--) {
        if (g->in[axis] != 1 || g->extent[axis] < 4) continue;
        int64_t leaves = plan->node_leaves;
        while ((LEAF << leaves) < 2 * LINE / item * span &&
               (LEAF << leaves) * item < PACK_BYTES)
            leaves++;
        if ((LEAF << leaves) < 2 * span) return;
        plan->node_leaves = (int)leaves;
        plan->beside = axis;
        plan->span = span;
        return;
    }
}

/* Outputs of fewer elements fold faster many at a time than one by one. Sums and products of
 * contiguous elements in place never do. */
static int64_t few_elements(const reduce_plan *plan, const gop_reduction *g)
{
    const int neighbours = g->reduced == 1 && g->in[g->kept] == 1;
    return neighbours && plan->in_place && plan->fold->stack ? 0 : FEW;
}

/* Whether outputs have few, contiguous elements: they are transposed, so that many outputs fold
 * at a time. */
static int is_turned(const reduce_plan *plan, const gop_reduction *g)
{
    return g->kept && g->reduced == 1 && g->in[g->kept] == 1 &&
           g->count < few_elements(plan, g) && g->count * (int64_t)plan->item >= 16;
}

/* The outputs of a column run: as many as the accumulators fit in the caches if elements are
 * read in place, fewer if they are gathered. */
static int64_t column_width(const reduce_plan *plan, const gop_reduction *g, int in_place)
{
    const int64_t bytes = (int64_t)plan->fold->bytes;
    const int64_t wide = g->count < ROWS && !plan->fold->stack ? THIN_BYTES : WIDE_BYTES;
    int64_t width = in_place ? wide / bytes : gop_smaller(ROW_BYTES / bytes, ROW_ITEMS);
    if (!plan->turned) return width;
    width = gop_smaller(width, ROW_ITEMS);
    while (width * g->count * (int64_t)plan->item > TURN_BYTES) width /= 2;
    return width;
}

/* Whether each output is a row of bytes that ends at the first that decides: rows go to a run
 * by many, since most of what such a row costs is to come to it. */
static int is_scanned(const reduce_plan *plan, const gop_reduction *g)
{
    return plan->bytes && plan->direct && g->reduced == 1 && g->count <= LEAF << NODE_LEAVES;
}

/* How many outputs take turns: short ones, and those whose neighbours in memory lie between one
 * line of elements and the next. */
static int64_t row_width(const reduce_plan *plan, const gop_reduction *g, uint64_t across)
{
    const int inner = g->kept + g->reduced - 1;
    const int64_t most = gop_smaller(ROW_BYTES / (int64_t)plan->fold->bytes, ROW_ITEMS);
    int64_t width = 1;
    if (g->reduced == 0 || gop_magnitude(g->in[inner]) * plan->item >= LINE) return 1;
    if (g->count <= LEAF || is_scanned(plan, g))
        while (2 * width <= most && width * gop_smaller(g->count, LEAF) < PIECE) width *= 2;
    else if (g->reduced > 1 && across < gop_magnitude(g->in[inner - 1]))
        while (2 * width <= most && width * g->extent[inner] < LEAF * ROWS) width *= 2;
    return width;
}

/* Whether lines of outputs are contiguous and long enough to be read without a table, which
 * would jump from line to line for every row. */
static int runs_across(const reduce_plan *plan, const gop_reduction *g, int64_t line)
{
    const int64_t least = plan->fold->stack ? 2 * LINE : 0;
    const int quick = plan->in_place || (plan->direct && !plan->position);
    return quick && g->kept && g->in[g->kept - 1] == 1 && line >= RUN_ACROSS &&
           line * g->count * (int64_t)plan->item >= RUN_BYTES &&
           line * (int64_t)plan->fold->bytes >= least;
}

/* Chooses columns or rows, and tables. If lines are short both along and across, columns are
 * faster. Returns whether rows should have a table. */
static int choose(reduce_plan *plan, const gop_task *task, int columns)
{
    const gop_reduction *const g = &task->geometry.reduction;
    const int inner = g->kept + g->reduced - 1;
    const int whole = columns && task->nin == 1 &&
                      !(plan->position && plan->finish != finish_position); /* no mask */
    const int64_t line = g->kept ? g->extent[g->kept - 1] : 1;
    const uint64_t across = g->kept ? gop_magnitude(g->in[g->kept - 1]) : 0;
    const uint64_t along = g->reduced ? gop_magnitude(g->in[inner]) : 0;
    const int short_along = whole && g->reduced > 1 && g->extent[inner] < SHORT_ALONG;
    const int64_t most = gop_smaller(ROW_BYTES / (int64_t)plan->fold->bytes, ROW_ITEMS);
    int64_t few = few_elements(plan, g);
    plan->turned =
        columns && line >= 4 && task->nin == 1 && across >= along && is_turned(plan, g);
    if (whole && line < (plan->turned ? SHORT_ALONG : SHORT_ACROSS) &&
        !runs_across(plan, g, line))
        plan->table = find_table(g, 0, g->kept, most);
    if (plan->table.size) plan->turned = 0, few = FEW;
    const int64_t wide = plan->table.size ? plan->table.size : line;
    plan->columns = columns && wide >= 4 &&
                    (g->count < few || across < along || plan->turned ||
                     (short_along && wide >= SHORT_ALONG));
    if (!plan->columns) plan->table.size = 0;
    return short_along && !plan->columns;
}

static int64_t nodes_of(const reduce_plan *plan, const gop_reduction *g)
{
    const int64_t leaves = leaves_of(plan, g), whole = INT64_C(1) << plan->node_leaves;
    return leaves ? leaves / whole + (leaves % whole != 0) : 1; /* else one empty node */
}

/* Makes runs narrower, and nodes shorter if the order is free, when otherwise threads would be
 * idle. Long contiguous rows are worth some idle time, so nodes are shortened before rows are
 * cut into short pieces. */
static void share_out(reduce_plan *plan, const gop_reduction *g, int64_t within, int threads)
{
    const int64_t wanted = threads == 1 ? 1 : (plan->columns ? 2 : 4) * (int64_t)threads;
    const int64_t least = within > 128 || !plan->columns ? 2 * within : 256;
    const int is_free = plan->columns && !plan->fold->stack;
    const int64_t wide = is_free ? 2 * LONG_RUN / (int64_t)plan->item : least;
    while (plan->width >= least && plan->width >= wide &&
           g->outputs / plan->width * plan->nodes < wanted)
        plan->width = plan->width / within / 2 * within;
    while (is_free && g->outputs / plan->width * plan->nodes < wanted &&
           plan->width * (plan->leaf << plan->node_leaves) > PIECE && plan->leaf > LEAST_ROWS) {
        if (plan->node_leaves) plan->node_leaves--;
        else plan->leaf /= 2;
        plan->nodes = nodes_of(plan, g);
    }
    while (plan->width >= least && g->outputs / plan->width * plan->nodes < wanted)
        plan->width = plan->width / within / 2 * within;
}

/* Chooses rows or columns, the width of runs, and the nodes of an output. */
static void cut(reduce_plan *plan, const gop_task *task, int columns, int threads)
{
    const gop_reduction *const g = &task->geometry.reduction;
    const reduce_table *const table = &plan->table;
    const int masked = task->nin > 1;
    const int short_along = choose(plan, task, columns), tabled = table->size > 0;
    const int64_t within = tabled ? table->within : 1;
    const uint64_t across = g->kept ? gop_magnitude(g->in[g->kept - 1]) : 0;
    plan->line = tabled    ? g->extent[table->axis] * within
                 : g->kept ? g->extent[g->kept - 1]
                           : 1;
    const int near = plan->columns ? (g->in[g->kept - 1] == 1 || plan->turned) && !tabled
                                   : g->reduced == 0 || g->in[g->kept + g->reduced - 1] == 1;
    if (!columns || masked || !near || g->reduced == 0 || (plan->columns && plan->position))
        plan->direct = NULL;
    plan->width = 1;
    if (tabled) plan->width = table->size;
    else if (plan->columns)
        plan->width =
            column_width(plan, g, near && !plan->position && (plan->in_place || plan->direct));
    else if (columns) plan->width = row_width(plan, g, across);
    while (!tabled && plan->width > 1 && plan->width / 2 >= plan->line)
        plan->width /= 2; /* powers of two */
    /* A node holds about 2^18 elements of its run. */
    plan->leaf = LEAF;
    while (plan->node_leaves < NODE_LEAVES && plan->width * LEAF << plan->node_leaves < 1 << 18)
        plan->node_leaves++;
    if (plan->width > 1 && is_scanned(plan, g)) plan->node_leaves = NODE_LEAVES;
    find_beside(plan, g, masked);
    if (short_along && !plan->span)
        plan->table = find_table(g, g->kept, g->kept + g->reduced, LEAF);
    if (!plan->columns && table->size) {
        plan->direct = NULL;
        join_reduced(g, table, &plan->joined);
    }
    plan->nodes = nodes_of(plan, g);
    share_out(plan, g, within, threads);
    plan->joint = 1;
    if (plan->columns && !masked && !plan->fold->stack && !plan->turned && !tabled &&
        g->reduced == 1 && g->in[g->kept - 1] == 1 && g->in[g->kept] == plan->line)
        while (2 * plan->joint * plan->line <= JOINT && 16 * plan->joint <= g->count)
            plan->joint *= 2;
    plan->blocks = plan->line / plan->width + (plan->line % plan->width != 0);
    plan->runs = g->outputs / plan->line * plan->blocks;
}

/* The plan of a kernel that works in nodes; `columns`: many outputs at a time are allowed. */
static gop_status plan_nodes(const gop_task *task, int columns, int threads, gop_plan *row)
{
    const gop_reduction *const g = &task->geometry.reduction;
    reduce_plan *const plan = GOP_OWN(reduce_plan, row);
    assemble(plan, task);
    cut(plan, task, columns, threads);
    lay_out(plan, g);
    plan->workers = (int)gop_smaller(threads, plan->runs * plan->nodes);
    plan->node_bytes = node_bytes(plan, g);
    plan->table_bytes = whole_lines((size_t)plan->table.size * sizeof(int32_t));
    plan->small = plan->runs * plan->nodes == 1 && plan->table.size == 0 &&
                  plan->room.bytes <= SMALL_ROOM;
    if (!plan->small)
        row->scratch =
            plan->node_bytes + plan->table_bytes + (size_t)plan->workers * plan->room.bytes;
    return GOP_OK;
}

/* ---- running: nodes are kept in scratch if an output has several ---- */

static char *node_values(const reduce_job *job, int64_t node, int64_t output)
{
    return (char *)job->task->scratch +
           (size_t)(node * job->g->outputs + output) * job->plan->fold->bytes;
}

static int64_t *node_numbers(const reduce_job *job, int64_t node, int64_t output)
{
    const reduce_plan *const p = job->plan;
    if (!p->position) return NULL;
    return (int64_t *)((char *)job->task->scratch +
                       ((size_t)(p->nodes * job->g->outputs) * p->fold->bytes + 15) / 16 * 16) +
           node * job->g->outputs + output;
}

/* Run i: a block of a line. */
static reduce_run run_of(const reduce_job *job, int64_t i)
{
    const reduce_plan *const p = job->plan;
    const int64_t first = i % p->blocks * p->width;
    return run_at(job, i / p->blocks * p->line + first, gop_smaller(p->line - first, p->width));
}

/* ---- the two phases ---- */

static void lower(int64_t *last, int64_t node)
{
    int64_t now = __atomic_load_n(last, __ATOMIC_RELAXED);
    while (node < now && !__atomic_compare_exchange_n(last, &now, node, 0, __ATOMIC_RELAXED,
                                                      __ATOMIC_RELAXED)) {
    }
}

static void fold_nodes(void *argument, int64_t begin, int64_t end, int worker)
{
    const reduce_job *job = argument;
    const reduce_plan *const p = job->plan;
    const int64_t leaves = leaves_of(p, job->g);
    char *const room = job->rooms + (size_t)worker * p->room.bytes;
    char *const value = room + p->room.value;
    int64_t *const number = (int64_t *)(room + p->room.number);
    for (int64_t i = begin; i < end; i++) {
        const reduce_run run = run_of(job, i / p->nodes);
        const int64_t node = i % p->nodes;
        const int64_t first = node << p->node_leaves;
        const int64_t after = (node + 1) << p->node_leaves;
        int64_t last = gop_smaller(after, leaves);
        if (job->last && node > __atomic_load_n(job->last, __ATOMIC_RELAXED))
            last = first; /* an earlier node has decided */
        if (p->columns && job->g->reduced == 0 && !p->position) { /* nothing to fold */
            complete(job, &run, (char *)row_of(job, &run, 0, value), number);
            continue;
        }
        if (p->columns) fold_columns(job, &run, first, last, room, value, number);
        else fold_rows(job, &run, first, last, room, value, number);
        if (p->nodes == 1) {
            complete(job, &run, value, number);
            continue;
        }
        if (job->last && (int8_t)*value == p->least) lower(job->last, node);
        memcpy(node_values(job, node, run.first), value, (size_t)run.n * p->fold->bytes);
        if (p->position)
            memcpy(node_numbers(job, node, run.first), number, (size_t)run.n * sizeof *number);
    }
}

static void fold_run(const reduce_job *job, const reduce_run *run, char *room)
{
    const reduce_plan *const p = job->plan;
    const reduce_fold *fold = p->fold;
    char *const value = room + p->room.value;
    int64_t *const number = (int64_t *)(room + p->room.number);
    reduce_counter counter = {0, p->room.pitch, room + p->room.node};
    for (int64_t j = 0; j < p->nodes; j++) {
        char *from = node_values(job, j, run->first);
        const int64_t *at = node_numbers(job, j, run->first);
        if (!p->position) push(fold, &counter, from, run->n);
        else if (j > 0) fold->better(value, number, from, at, 0, run->n);
        else {
            memcpy(value, from, (size_t)run->n * fold->bytes);
            memcpy(number, at, (size_t)run->n * sizeof *number);
        }
    }
    if (!p->position) root(fold, &counter, value, run->n);
    complete(job, run, value, number);
}

static void fold_roots(void *argument, int64_t begin, int64_t end, int worker)
{
    const reduce_job *job = argument;
    const int64_t piece = gop_smaller(ROW_BYTES / (int64_t)job->plan->fold->bytes, ROW_ITEMS);
    char *const room = job->rooms + (size_t)worker * job->plan->room.bytes;
    for (int64_t i = begin; i < end; i++) {
        const reduce_run run = run_of(job, i);
        for (int64_t first = 0; first < run.n; first += piece) {
            const reduce_run part = part_of(job, &run, first, piece);
            fold_run(job, &part, room);
        }
    }
}

/* Runs all items on the calling thread, which checks for Ctrl-C between pieces. */
static gop_status one_by_one(int workers, int64_t items, int64_t grain, gop_body body,
                             void *argument)
{
    (void)workers;
    for (int64_t i = 0; i < items; i += grain) {
        body(argument, i, items - i < grain ? items : i + grain, 0);
        GOP_TRY(gop_interrupted());
    }
    return GOP_OK;
}

/* Folds the first leaf of the only output. Returns 1 if it decides; then the output is
 * complete. */
static int first_leaf_decides(const reduce_job *job)
{
    const reduce_plan *const p = job->plan;
    const reduce_run run = run_of(job, 0);
    char *const value = job->rooms + p->room.value;
    int64_t *const number = (int64_t *)(job->rooms + p->room.number);
    fold_rows(job, &run, 0, 1, job->rooms, value, number);
    if ((int8_t)*value != p->least) return 0;
    complete(job, &run, value, number);
    return 1;
}

static gop_status run_job(const gop_task *task,
                          gop_status (*each)(int, int64_t, int64_t, gop_body, void *))
{
    reduce_job call = job_of(task), *const job = &call;
    int64_t last = INT64_MAX;
    const reduce_plan *const p = job->plan;
    _Alignas(LINE) char small[SMALL_ROOM];
    job->rooms = p->small ? small : (char *)task->scratch + p->node_bytes + p->table_bytes;
    if (p->table.size) {
        const gop_reduction *const g = &task->geometry.reduction;
        int32_t *const table = (int32_t *)(void *)((char *)task->scratch + p->node_bytes);
        fill_table(g, p->columns ? g->kept : g->kept + g->reduced, &p->table, table);
        job->table = table;
    }
    if (p->stops && job->g->outputs == 1) job->last = &last;
    if (job->last && p->nodes > 1 && first_leaf_decides(job)) return GOP_OK;
    const int64_t whole = p->leaf << p->node_leaves;
    const int64_t work = p->width * (job->g->count < whole ? job->g->count : whole);
    GOP_TRY(each(p->workers, p->runs * p->nodes, PIECE / (work + 1) + 1, fold_nodes, job));
    if (p->nodes == 1) return GOP_OK;
    const int64_t nodes = p->width * p->nodes;
    return each(p->workers, p->runs, PIECE / (nodes + 1) + 1, fold_roots, job);
}

#endif
