/*
 * columns.h - reduces many outputs at a time: element k of each is in one row of memory.
 *
 * Each row that is being read is a stream of memory. If the order of the fold is free, rows are
 * read one after the other. In a leaf of tree/v1, the sixteen rows of a lane are
 * 128 rows apart. So there are sixteen streams, which the next lane continues if rows are whole
 * cache lines; otherwise rows are read in long pieces.
 */
#ifndef GOP_CPU_REDUCE_COLUMNS_H
#define GOP_CPU_REDUCE_COLUMNS_H

#include "cpu/reduce/job.h"
#include "cpu/transpose/turn.h"

/* Buffers in the worker's scratch: rows that are gathered, and two groups of lanes. */
typedef struct reduce_columns {
    char *row, *group, *lanes;
} reduce_columns;

/* Transposes the elements of a run: row k of `to` is element k of each output. */
static void turn_run(const reduce_job *job, const reduce_run *run, char *to)
{
    int64_t in_y[ROW_ITEMS];
    for (int64_t i = 0; i < run->n; i++) in_y[i] = i * run->in_stride;
    turn_rows((int64_t)job->plan->item, job->g->count, run->n, to, run->n, run->in, in_y);
}

/* Transposes the elements if needed. If the rows are at equal distances and need no gather,
 * sets run->rows. */
static void find_rows(const reduce_job *job, reduce_run *run, char *turned)
{
    const reduce_plan *const p = job->plan;
    const gop_reduction *g = job->g;
    if (p->turned) {
        turn_run(job, run, turned);
        run->turned = turned;
    }
    if (!p->in_place && !p->direct) return;
    if (run->turned) {
        run->rows = run->turned;
        run->pitch = run->n * (int64_t)p->item;
    } else if (run->in_stride == 1 && g->reduced == 1) {
        run->rows = run->in;
        run->pitch = g->in[g->kept] * (int64_t)p->item;
    }
}

/* Returns element k of each output of the run: in place, or gathered into the buffer as
 * accumulators. */
static const void *row_of(const reduce_job *job, const reduce_run *run, int64_t k, char *buffer)
{
    const reduce_plan *const p = job->plan;
    const gop_reduction *g = job->g;
    if (run->rows) return run->rows + k * run->pitch;
    if (run->turned) {
        const char *in = run->turned + k * run->n * (int64_t)p->item;
        p->gather(job, buffer, run->n, in, 1, NULL, NULL, 0);
        return buffer;
    }
    const reduce_place at = locate(g, g->kept, g->kept + g->reduced, k);
    const char *in = run->in + at.in * (int64_t)p->item;
    if ((p->in_place || p->direct) && run->in_stride == 1) return in;
    p->gather(job, buffer, run->n, in, run->in_stride, run->table,
              run->where ? run->where + at.where : NULL, run->where_stride);
    return buffer;
}

/* ---- sums and products of floats: lanes and leaves of the tree ---- */

/* The bits of i in reverse order; `count` is a power of two above i. */
static int reversed(int i, int count)
{
    int r = 0;
    for (int bit = 1; bit < count; bit *= 2) r = 2 * r + (i / bit & 1);
    return r;
}

/* Folds a group of lanes: `lane`, lane + step, ..., `side` lanes in the tree's order, and the
 * same for `beside` consecutive lanes. */
static void stack_lanes(const reduce_job *job, const reduce_run *run, int64_t first,
                        int64_t count, int lane, int step, int side, int64_t rows, int beside,
                        reduce_columns *s, char *to)
{
    const reduce_fold *fold = job->plan->fold;
    const int64_t lanes = (int64_t)step * side, n = beside * run->n;
    const void *row[ROWS];
    int used = 0;
    for (int j = 0; j < side; j++)
        for (int64_t r = 0; r < rows; r++) {
            const int64_t k = lane + reversed(j, side) * step + r * lanes;
            char *const buffer = s->row + (size_t)used * job->plan->room.pitch;
            row[used++] = k < count ? row_of(job, run, first + k, buffer) : NULL;
        }
    if (used <= STACK_ROWS) fold->stack(to, row, side, used / side, n);
    else {
        fold->stack(to, row, 1, STACK_ROWS, n);
        row[STACK_ROWS - 1] = to;
        fold->stack(to, row + STACK_ROWS - 1, 1, used - STACK_ROWS + 1, n);
    }
}

/* Casts the short rows of a leaf into one contiguous buffer, which the fold sees as one long
 * row. */
static void cast_rows(const reduce_job *job, reduce_run *run, int64_t first, int64_t count,
                      char *buffer)
{
    const reduce_plan *const p = job->plan;
    const gop_reduction *g = job->g;
    const int64_t step = g->in[g->kept] * (int64_t)p->item, item = (int64_t)p->item;
    const int is_run = step == run->n * item;
    const char *const in = run->in + first * step;
    run->pitch = run->n * (int64_t)p->fold->bytes;
    run->rows = buffer - first * run->pitch;
    for (int64_t k = 0; k < (is_run ? 1 : count); k++)
        p->cast.run(&p->cast, buffer + k * run->pitch, in + k * step, item,
                    is_run ? run->n * count : run->n);
}

/* Computes one leaf of each output. Groups consist of neighbouring lanes, so that streams
 * continue from one group to the next, but are limited to the L2 cache. */
static void fold_column_leaf(const reduce_job *job, const reduce_run *outputs, int64_t first,
                             int64_t count, reduce_columns *s, char *to)
{
    const reduce_fold *fold = job->plan->fold;
    reduce_run cast = *outputs, *const run = &cast;
    if (job->plan->room.cast_rows && run->in_stride == 1)
        cast_rows(job, run, first, count, s->row);
    const int64_t bytes = run->n * (int64_t)fold->bytes;
    int lanes = 1, side = 1, beside = 1;
    while (2 * lanes <= count && lanes < LANES)
        lanes *= 2; /* two rows: the tree's first level */
    const int64_t rows = (count + lanes - 1) / lanes;
    while (side < lanes && 2 * side * rows <= STACK_ROWS) side *= 2;
    const int stacks = lanes / side;
    while (beside < stacks && 2 * beside * bytes <= WIDE_BYTES) beside *= 2;
    const int groups = stacks / beside;
    /* Contiguous rows: the rows of a group are one long row. */
    const int joined = run->rows && run->pitch == bytes && count % lanes == 0 ? beside : 1;
    reduce_counter counter = {0, job->plan->room.group_size, s->lanes};
    for (int i = 0; i < groups; i++) {
        char *const group = i % 2 ? s->group : s->lanes;
        for (int j = 0; j < beside; j += joined)
            stack_lanes(job, run, first, count, reversed(i, groups) * beside + j, stacks, side,
                        rows, joined, s, group + j * bytes);
        push(fold, &counter, group, beside * run->n);
    }
    root(fold, &counter, s->group, beside * run->n);
    for (int d = beside / 2; d > 0; d /= 2)
        fold->merge(s->group, s->group + d * bytes, d * run->n);
    memcpy(to, s->group, (size_t)bytes);
}

/* Folds elements [begin, end), which are whole leaves but for the last, of each output. */
static void fold_column_leaves(const reduce_job *job, const reduce_run *run, int64_t begin,
                               int64_t end, char *room, char *to)
{
    const reduce_plan *const p = job->plan;
    reduce_columns s = {room + p->room.gathered, room + p->room.group, room + p->room.lanes};
    reduce_counter counter = {0, p->room.pitch, room + p->room.node};
    char *const leaf = room + p->room.leaf;
    if (end - begin <= LEAF) {
        fold_column_leaf(job, run, begin, end - begin, &s, to);
        return;
    }
    /* Only narrow runs have nodes of several leaves, so ROW_BYTES hold one. */
    for (int64_t k = begin; k < end; k += LEAF) {
        fold_column_leaf(job, run, k, end - k < LEAF ? end - k : LEAF, &s, leaf);
        push(p->fold, &counter, leaf, run->n);
    }
    root(p->fold, &counter, to, run->n);
}

/* ---- integers and minima: row after row ---- */

/* Whether no later row can change any output. */
static int is_decided(const reduce_plan *p, const int8_t *value, int64_t n)
{
    int8_t differ = 0;
    if (!p->stops) return 0;
    for (int64_t i = 0; i < n; i++) differ |= (int8_t)(value[i] ^ p->least);
    return !differ;
}

/* Folds rows [begin, end) of all outputs of the run. A row's position is its number. */
static void fold_column_rows(const reduce_job *job, const reduce_run *run, int64_t begin,
                             int64_t end, int64_t step, char *buffer, char *to, int64_t *number)
{
    const reduce_plan *const p = job->plan;
    const size_t pitch = whole_lines((size_t)run->n * p->fold->bytes);
    const void *row[ROWS];
    for (int64_t k = begin; k < end;) {
        int rows = 0;
        for (; rows < ROWS && k < end; k += step, rows++) {
            row[rows] = row_of(job, run, k, buffer + (size_t)rows * pitch);
            if (number) p->fold->better(to, number, row[rows], NULL, k, run->n);
            else if (!p->direct) p->fold->merge(to, row[rows], run->n);
        }
        if (p->direct) p->direct->rows(job, to, row, rows, run->n);
        if (is_decided(p, (const int8_t *)to, run->n)) return;
    }
}

/* Folds narrow contiguous rows, `joint` at a time as one row; the remaining ones singly. */
static void fold_joint_rows(const reduce_job *job, const reduce_run *run, int64_t begin,
                            int64_t end, char *room, char *to, int64_t *number)
{
    const reduce_plan *const p = job->plan;
    const reduce_fold *const fold = p->fold;
    const int64_t n = run->n, joint = p->joint, whole = end - (end - begin) % joint;
    const size_t bytes = (size_t)n * fold->bytes;
    char *const all = room + p->room.joint, *const buffer = room + p->room.gathered;
    int64_t *const numbers = number ? (int64_t *)(room + p->room.numbers) : NULL;
    reduce_run wide = *run;
    wide.n = joint * n;
    fold->fill(all, wide.n);
    for (int64_t i = 0; number && i < wide.n; i++) numbers[i] = INT64_MAX;
    fold_column_rows(job, &wide, begin, whole, joint, buffer, all, numbers);
    fold_column_rows(job, run, whole, end, 1, buffer, to, number);
    for (int64_t j = 0; j < joint; j++) {
        char *const row = all + (size_t)j * bytes;
        for (int64_t i = 0; number && i < n; i++) {
            int64_t *const at = numbers + j * n + i;
            const size_t here = (size_t)i * fold->bytes;
            if (*at < INT64_MAX) *at += j; /* the first of equal ones */
            if (memcmp(to + here, row + here, fold->bytes) == 0 && *at < number[i])
                number[i] = *at;
        }
        if (number) fold->better(to, number, row, numbers + j * n, 0, n);
        else fold->merge(to, row, n);
    }
}

/* Folds leaves [first, last) of each output of the run into `to`. */
static void fold_columns(const reduce_job *job, const reduce_run *outputs, int64_t first,
                         int64_t last, char *room, char *to, int64_t *number)
{
    const reduce_plan *const p = job->plan;
    char *const buffer = room + p->room.gathered;
    reduce_run run = *outputs;
    const int64_t begin = first * p->leaf;
    const int64_t end = gop_smaller(last * p->leaf, job->g->count);
    if (begin >= end) {
        p->fold->fill(to, run.n);
        return;
    }
    find_rows(job, &run, room + p->room.turned);
    if (p->fold->stack) {
        fold_column_leaves(job, &run, begin, end, room, to);
        return;
    }
    p->fold->fill(to, run.n);
    for (int64_t i = 0; p->position && i < run.n; i++) number[i] = begin;
    if (p->joint > 1)
        fold_joint_rows(job, &run, begin, end, room, to, p->position ? number : NULL);
    else fold_column_rows(job, &run, begin, end, 1, buffer, to, p->position ? number : NULL);
}

#endif
