/*
 * reduce_walk.h - walks the axes of a reduction and folds it as tree/v1, for any dtype.
 *
 * Either outputs are computed one by one, leaf after leaf (rows), or many outputs side by side,
 * row of elements after row (columns), whichever runs along memory. An output is cut into nodes
 * of 2^node_leaves leaves, whole subtrees, so that threads may share a long one: the same tree,
 * hence the same bits, however the nodes are handed out.
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

/* ---- the tree above: equal subtrees merge, as a binary counter carries ---- */

typedef struct reduce_counter {
    uint64_t pushed;
    char (*node)[ROW_BYTES]; /* a row of full subtrees of 2^j pushes, where bit j is set */
} reduce_counter;

static void push(const reduce_fold *fold, reduce_counter *c, void *row, int64_t n)
{
    char *carry = row;
    int level = 0;
    for (uint64_t bits = c->pushed++; bits & 1; bits >>= 1, level++) {
        fold->merge(c->node[level], carry, n);
        carry = c->node[level];
    }
    memcpy(c->node[level], carry, (size_t)n * fold->bytes);
}

/* Padding is the identity: what is left folds lowest first. Nothing pushed: the identity. */
static void root(const reduce_fold *fold, reduce_counter *c, void *to, int64_t n)
{
    char *carry = NULL;
    int level = 0;
    for (uint64_t bits = c->pushed; bits; bits >>= 1, level++) {
        if (!(bits & 1)) continue;
        if (carry) fold->merge(c->node[level], carry, n);
        carry = c->node[level];
    }
    if (carry) memcpy(to, carry, (size_t)n * fold->bytes);
    else fold->fill(to, n);
}

/* ---- simd, rows: one output, its elements gathered into leaves ---- */

/* The next n elements, as accumulators: where they are, or gathered into the buffer. */
static const void *next_elements(const reduce_job *job, const reduce_run *run, reduce_cursor *c,
                                 int64_t n, char *buffer)
{
    const gop_reduction *g = job->g;
    const int inner = g->kept + g->reduced - 1;
    const int64_t extent = g->reduced ? g->extent[inner] : 1;
    const int64_t stride = g->reduced ? g->in[inner] : 1;
    const int64_t where_stride = g->reduced ? g->where[inner] : 0;
    for (int64_t done = 0; done < n;) {
        const int64_t left = extent - (g->reduced ? c->x[inner] : 0);
        const int64_t line = left < n - done ? left : n - done;
        const char *in = run->in + c->at.in * (int64_t)job->item;
        const uint8_t *where = run->where ? run->where + c->at.where : NULL;
        if (g->reduced) cursor_move(c, g, line);
        if (job->in_place && line == n && stride == 1) return in;
        job->gather(job, buffer + done * (int64_t)job->fold->bytes, line, in, stride, where,
                    where_stride);
        done += line;
    }
    return buffer;
}

/* ---- simd, columns: a run of outputs, element k of each in one row ---- */

typedef struct reduce_columns {
    _Alignas(64) char row[ROWS][ROW_BYTES];
    char lane[LANES / 2][ROW_BYTES], leaves[8][ROW_BYTES];
    char value[ROW_BYTES];
} reduce_columns;

/* Element k of each output of the run, as accumulators. */
static const void *row_of(const reduce_job *job, const reduce_run *run, int64_t k, char *buffer)
{
    const gop_reduction *g = job->g;
    if (run->turned) {
        const char *in = run->turned + k * run->n * (int64_t)job->item;
        if (job->in_place) return in;
        job->gather(job, buffer, run->n, in, 1, NULL, 0);
        return buffer;
    }
    const reduce_place at = locate(g, g->kept, g->kept + g->reduced, k);
    const char *in = run->in + at.in * (int64_t)job->item;
    if (job->in_place && run->in_stride == 1) return in;
    job->gather(job, buffer, run->n, in, run->in_stride,
                run->where ? run->where + at.where : NULL, run->where_stride);
    return buffer;
}

/* One leaf of each output into s->value. Lane after lane, so that each of the sixteen rows of a
 * lane lies behind that of the lane before, and the processor fetches ahead. The upper half of
 * the lanes is folded onto the lower one as it comes. */
static void fold_column_leaf(const reduce_job *job, const reduce_run *run, int64_t first,
                             int64_t count, reduce_columns *s)
{
    const reduce_fold *fold = job->fold;
    int lanes = 1;
    while (lanes < count && lanes < LANES) lanes *= 2;
    for (int lane = 0; lane < lanes && lane < count; lane++) {
        char *const to = lane < lanes / 2 ? s->lane[lane] : s->value;
        const void *row[ROWS + 1];
        int rows = 0;
        for (int64_t k = lane; k < count; k += LANES, rows++)
            row[rows] = row_of(job, run, first + k, s->row[rows]);
        row[rows] = NULL;
        fold->stack(to, row, run->n);
        if (to == s->value && lanes > 1) fold->merge(s->lane[lane - lanes / 2], to, run->n);
    }
    if (lanes == 1) return;
    for (int d = lanes / 4; d > 0; d /= 2)
        for (int lane = 0; lane < d; lane++)
            fold->merge(s->lane[lane], s->lane[lane + d], run->n);
    memcpy(s->value, s->lane[0], (size_t)run->n * fold->bytes);
}

/* Leaves [first, last) of each output of the run into `to`. */
static void fold_columns(const reduce_job *job, const reduce_run *run, int64_t first,
                         int64_t last, void *to, int64_t *number)
{
    reduce_columns s;
    const int64_t end = last * LEAF < job->g->count ? last * LEAF : job->g->count;
    if (job->position) {
        if (first >= last) job->fold->fill(to, run->n);
        for (int64_t k = first * LEAF; k < end; k++) {
            const void *row = row_of(job, run, k, s.row[0]);
            if (k == first * LEAF) {
                memcpy(to, row, (size_t)run->n * job->fold->bytes);
                for (int64_t i = 0; i < run->n; i++) number[i] = k;
            } else job->fold->better(to, number, row, NULL, k, run->n);
        }
        return;
    }
    reduce_counter counter = {0, s.leaves};
    for (int64_t k = first * LEAF; k < end; k += LEAF) {
        fold_column_leaf(job, run, k, end - k < LEAF ? end - k : LEAF, &s);
        push(job->fold, &counter, s.value, run->n);
    }
    root(job->fold, &counter, to, run->n);
}

#endif
