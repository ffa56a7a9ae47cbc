/*
 * nodes.h - a reduction in two phases: nodes of leaves, then what they fold to; and how an
 * output is finished. Sums and extrema are finished in dtype.inc.
 *
 * An output is cut into nodes of 2^node_leaves leaves, whole subtrees, so that threads may
 * share a long one: the same tree, hence the same bits, however the nodes are handed out.
 */
#ifndef GOP_CPU_REDUCE_NODES_H
#define GOP_CPU_REDUCE_NODES_H

#include "cpu/reduce/columns.h"
#include "cpu/reduce/rows.h"

/* ---- from accumulators to outputs ---- */

static void finish_position(const reduce_job *job, const reduce_run *run, const void *from,
                            const int64_t *number)
{
    (void)job, (void)from;
    for (int64_t i = 0; i < run->n; i++) ((int64_t *)run->out)[i * run->out_stride] = number[i];
}

/* any: the minimum of complemented truth is 0. all: the minimum of truth is not. */
static void finish_truth(const reduce_job *job, const reduce_run *run, const void *from,
                         const int64_t *number)
{
    const int any = job->task->call->params.reduce.op == GOP_ANY;
    (void)number;
    for (int64_t i = 0; i < run->n; i++)
        ((uint8_t *)run->out)[i * run->out_stride] = (((const int8_t *)from)[i] == 0) == any;
}

/* How many elements the mask lets into each output of a run. */
static void count_where(const reduce_job *job, const reduce_run *run, int64_t *number)
{
    const gop_reduction *g = job->g;
    const int inner = g->kept + g->reduced - 1;
    const int64_t line = g->reduced ? g->extent[inner] : 1;
    reduce_cursor cursor;
    memset(number, 0, (size_t)run->n * sizeof *number);
    if (g->count == 0) return;
    cursor_set(&cursor, g, 0);
    for (int64_t k = 0; k < g->count;) {
        const uint8_t *where = run->where + cursor.at.where;
        const int64_t steps = run->n == 1 ? line : 1;
        if (run->n == 1)
            for (int64_t i = 0; i < line; i++)
                number[0] += where[g->reduced ? i * g->where[inner] : 0] != 0;
        else
            for (int64_t i = 0; i < run->n; i++) number[i] += where[i * run->where_stride] != 0;
        if (g->reduced) cursor_move(&cursor, g, steps);
        k += steps;
    }
}

/* From where a leaf begins that has the best element, on to that element. */
static void find_best(const reduce_job *job, const reduce_run *run, const char *value,
                      int64_t *number)
{
    const gop_reduction *g = job->g;
    const int64_t line = g->reduced ? g->extent[g->kept + g->reduced - 1] : 1;
    for (int64_t i = 0; i < run->n; i++) {
        const int64_t at = i * run->in_stride + offset_of(g, number[i]);
        number[i] += job->plan->direct->find(job, run->in + at * (int64_t)job->plan->item,
                                             line - number[i] % line,
                                             value + (size_t)i * job->plan->fold->bytes);
    }
}

static void complete(const reduce_job *job, const reduce_run *run, char *value, int64_t *number)
{
    const gop_reduce_op op = job->task->call->params.reduce.op;
    if (run->n > ROW_ITEMS) { /* more than there are numbers for */
        for (int64_t first = 0; first < run->n; first += ROW_ITEMS) {
            const reduce_run part = part_of(job, run, first, ROW_ITEMS);
            complete(job, &part, value + (size_t)first * job->plan->fold->bytes, number);
        }
        return;
    }
    if (job->plan->position && job->plan->direct) find_best(job, run, value, number);
    if (op == GOP_MEAN && run->where) count_where(job, run, number);
    else if (op == GOP_MEAN)
        for (int64_t i = 0; i < run->n; i++) number[i] = job->g->count;
    job->plan->finish(job, run, value, number);
}

/* ---- nodes, kept in scratch when an output has several ---- */

static char *node_values(const reduce_job *job, int64_t node, int64_t output)
{
    return (char *)job->task->scratch +
           (size_t)(node * job->g->outputs + output) * job->plan->fold->bytes;
}

static int64_t *node_numbers(const reduce_job *job, int64_t node, int64_t output)
{
    if (!job->plan->position) return NULL;
    return (int64_t *)((char *)job->task->scratch +
                       ((size_t)(job->plan->nodes * job->g->outputs) * job->plan->fold->bytes +
                        15) /
                           16 * 16) +
           node * job->g->outputs + output;
}

/* Run number i: a block of an innermost kept line. */
static reduce_run run_of(const reduce_job *job, int64_t i)
{
    const gop_reduction *g = job->g;
    const int64_t line = g->kept ? g->extent[g->kept - 1] : 1;
    const int64_t first = i % job->plan->blocks * job->plan->width;
    const int64_t left = line - first;
    return run_at(job, i / job->plan->blocks * line + first,
                  left < job->plan->width ? left : job->plan->width);
}

/* ---- the two phases ---- */

static void fold_nodes(void *argument, int64_t begin, int64_t end, int worker)
{
    const reduce_job *job = argument;
    const int64_t leaves = leaves_of(job->g);
    char *const room = job->rooms + (size_t)worker * job->plan->room.bytes;
    char *const value = room + job->plan->room.value;
    int64_t *const number = (int64_t *)(room + job->plan->room.number);
    for (int64_t i = begin; i < end; i++) {
        const reduce_run run = run_of(job, i / job->plan->nodes);
        const int64_t node = i % job->plan->nodes;
        const int64_t first = node << job->plan->node_leaves;
        const int64_t after = (node + 1) << job->plan->node_leaves;
        const int64_t last = after < leaves ? after : leaves;
        if (job->plan->columns) fold_columns(job, &run, first, last, room, value, number);
        else fold_rows(job, &run, first, last, room, value, number);
        if (job->plan->nodes == 1) {
            complete(job, &run, value, number);
            continue;
        }
        memcpy(node_values(job, node, run.first), value,
               (size_t)run.n * job->plan->fold->bytes);
        if (job->plan->position)
            memcpy(node_numbers(job, node, run.first), number, (size_t)run.n * sizeof *number);
    }
}

static void fold_run(const reduce_job *job, const reduce_run *run, char *room)
{
    const reduce_fold *fold = job->plan->fold;
    char *const value = room + job->plan->room.value;
    int64_t *const number = (int64_t *)(room + job->plan->room.number);
    reduce_counter counter = {0, job->plan->room.pitch, room + job->plan->room.node};
    for (int64_t j = 0; j < job->plan->nodes; j++) {
        char *from = node_values(job, j, run->first);
        const int64_t *at = node_numbers(job, j, run->first);
        if (!job->plan->position) push(fold, &counter, from, run->n);
        else if (j > 0) fold->better(value, number, from, at, 0, run->n);
        else {
            memcpy(value, from, (size_t)run->n * fold->bytes);
            memcpy(number, at, (size_t)run->n * sizeof *number);
        }
    }
    if (!job->plan->position) root(fold, &counter, value, run->n);
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

/* The calling thread alone, listening for Ctrl-C between pieces. */
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

static gop_status run_job(const gop_task *task,
                          gop_status (*each)(int, int64_t, int64_t, gop_body, void *))
{
    reduce_job call = job_of(task), *const job = &call;
    const reduce_plan *const p = job->plan;
    _Alignas(LINE) char small[SMALL_ROOM];
    job->rooms = p->small ? small : (char *)task->scratch + p->node_bytes;
    const int64_t whole = LEAF << p->node_leaves;
    const int64_t work = p->width * (job->g->count < whole ? job->g->count : whole);
    GOP_TRY(each(p->workers, p->runs * p->nodes, PIECE / (work + 1) + 1, fold_nodes, job));
    if (p->nodes == 1) return GOP_OK;
    const int64_t nodes = p->width * p->nodes;
    return each(p->workers, p->runs, PIECE / (nodes + 1) + 1, fold_roots, job);
}

#endif
