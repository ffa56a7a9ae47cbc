/*
 * reduce_walk.h - where the elements of a reduction are, and the tree above their leaves.
 *
 * Either outputs are computed one by one, leaf after leaf (reduce_rows.h), or many outputs side
 * by side, row of elements after row (reduce_columns.h), whichever runs along memory. An output
 * is cut into nodes of 2^node_leaves leaves, whole subtrees, so that threads may share a long
 * one: the same tree, hence the same bits, however the nodes are handed out.
 */
#ifndef GOP_CPU_REDUCE_WALK_H
#define GOP_CPU_REDUCE_WALK_H

#include "cpu/reduce.h"

/* ---- where an element is ---- */

typedef struct reduce_place {
    int64_t in, where, out; /* offsets, in elements */
} reduce_place;

/* Of item i, in C order of axes [first, last). */
static reduce_place locate(const gop_reduction *g, int first, int last, int64_t i)
{
    reduce_place at = {0, 0, 0};
    for (int d = last - 1; d >= first; d--) {
        const int64_t x = d == first ? i : i % g->extent[d];
        i = d == first ? 0 : i / g->extent[d];
        at.in += x * g->in[d];
        at.where += x * g->where[d];
        at.out += x * g->out[d];
    }
    return at;
}

/* A position along the reduced axes that moves forward cheaply. */
typedef struct reduce_cursor {
    reduce_place at;
    int64_t x[GOP_MAX_NDIM];
} reduce_cursor;

static void cursor_set(reduce_cursor *c, const gop_reduction *g, int64_t k)
{
    c->at = locate(g, g->kept, g->kept + g->reduced, k);
    for (int d = g->kept + g->reduced - 1; d >= g->kept; d--) {
        c->x[d] = k % g->extent[d];
        k /= g->extent[d];
    }
}

/* Moves `steps` along the innermost reduced axis, not beyond its end; then to the next line. */
static void cursor_move(reduce_cursor *c, const gop_reduction *g, int64_t steps)
{
    for (int d = g->kept + g->reduced - 1; d >= g->kept; d--, steps = 1) {
        c->x[d] += steps;
        c->at.in += steps * g->in[d];
        c->at.where += steps * g->where[d];
        if (c->x[d] < g->extent[d] || d == g->kept) return;
        c->x[d] = 0;
        c->at.in -= g->extent[d] * g->in[d];
        c->at.where -= g->extent[d] * g->where[d];
    }
}

/* The run that holds outputs [first, first + n) of one innermost kept line. */
static reduce_run run_at(const reduce_job *job, int64_t first, int64_t n)
{
    const gop_reduction *g = job->g;
    const gop_task *task = job->task;
    const reduce_place at = locate(g, 0, g->kept, first);
    const int inner = g->kept - 1;
    reduce_run run = {.first = first, .n = n};
    run.in = (const char *)task->in[0].data + at.in * (int64_t)job->item;
    run.out = (char *)task->out[0].data + at.out * gop_dtype_size(task->out[0].dtype);
    run.where = task->nin > 1 ? (const uint8_t *)task->in[1].data + at.where : NULL;
    run.in_stride = inner < 0 ? 0 : g->in[inner];
    run.where_stride = inner < 0 ? 0 : g->where[inner];
    run.out_stride = inner < 0 ? 0 : g->out[inner];
    return run;
}

/* At most n outputs of a run, from number `first` on. */
static reduce_run part_of(const reduce_job *job, const reduce_run *run, int64_t first,
                          int64_t n)
{
    reduce_run part = *run;
    part.first += first;
    part.n = run->n - first < n ? run->n - first : n;
    part.in += first * run->in_stride * (int64_t)job->item;
    part.where += run->where ? first * run->where_stride : 0;
    part.out += first * run->out_stride * gop_dtype_size(job->task->out[0].dtype);
    return part;
}

/* ---- the tree above: equal subtrees merge, as a binary counter carries ---- */

typedef struct reduce_counter {
    uint64_t pushed;
    size_t room; /* bytes of a node */
    char *nodes; /* at level j a row of full subtrees of 2^j pushes, where bit j is set */
} reduce_counter;

static char *node_at(const reduce_counter *c, int level)
{
    return c->nodes + (size_t)level * c->room;
}

/* The row may be the node of level 0, while that is free: before every other push. */
static void push(const reduce_fold *fold, reduce_counter *c, void *row, int64_t n)
{
    char *carry = row;
    int level = 0;
    for (uint64_t bits = c->pushed++; bits & 1; bits >>= 1, level++) {
        fold->merge(node_at(c, level), carry, n);
        carry = node_at(c, level);
    }
    if (carry != node_at(c, level)) memcpy(node_at(c, level), carry, (size_t)n * fold->bytes);
}

/* Padding is the identity: what is left folds lowest first. Nothing pushed: the identity. */
static void root(const reduce_fold *fold, reduce_counter *c, void *to, int64_t n)
{
    char *carry = NULL;
    int level = 0;
    for (uint64_t bits = c->pushed; bits; bits >>= 1, level++) {
        if (!(bits & 1)) continue;
        if (carry) fold->merge(node_at(c, level), carry, n);
        carry = node_at(c, level);
    }
    if (carry) memcpy(to, carry, (size_t)n * fold->bytes);
    else fold->fill(to, n);
}

#endif
