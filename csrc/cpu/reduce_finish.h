/*
 * reduce_finish.h - from accumulators to outputs, for any dtype; sums and extrema are finished
 * in reduce_tpl.h.
 */
#ifndef GOP_CPU_REDUCE_FINISH_H
#define GOP_CPU_REDUCE_FINISH_H

#include "cpu/reduce_walk.h"

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
        number[i] +=
            job->direct->find(job, run->in + at * (int64_t)job->item, line - number[i] % line,
                              value + (size_t)i * job->fold->bytes);
    }
}

static void complete(const reduce_job *job, const reduce_run *run, char *value, int64_t *number)
{
    const gop_reduce_op op = job->task->call->params.reduce.op;
    if (run->n > ROW_ITEMS) { /* more than there are numbers for */
        for (int64_t first = 0; first < run->n; first += ROW_ITEMS) {
            const reduce_run part = part_of(job, run, first, ROW_ITEMS);
            complete(job, &part, value + (size_t)first * job->fold->bytes, number);
        }
        return;
    }
    if (job->position && job->direct) find_best(job, run, value, number);
    if (op == GOP_MEAN && run->where) count_where(job, run, number);
    else if (op == GOP_MEAN)
        for (int64_t i = 0; i < run->n; i++) number[i] = job->g->count;
    /* The sum of nothing is +0.0; the identity is -0.0. */
    if (job->g->count == 0 && (op == GOP_SUM || op == GOP_SUMSQ || op == GOP_MEAN))
        memset(value, 0, (size_t)run->n * job->fold->bytes);
    job->finish(job, run, value, number);
}

#endif
