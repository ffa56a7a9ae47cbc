/*
 * reduce_rows.h - one output after the other, leaf by leaf, where the elements of an output are
 * neighbours in memory.
 *
 * Outputs of a run take turns, a leaf each: short ones share what a run costs, and outputs
 * whose elements lie in several places walk through these side by side.
 */
#ifndef GOP_CPU_REDUCE_ROWS_H
#define GOP_CPU_REDUCE_ROWS_H

#include "cpu/reduce_pack.h"

/* The next elements along the innermost reduced axis, at most n of them; moves the cursor. */
static const char *next_line(const reduce_job *job, const reduce_run *run, reduce_cursor *c,
                             int64_t n, int64_t *line)
{
    const gop_reduction *g = job->g;
    const int inner = g->kept + g->reduced - 1;
    const char *in = run->in + c->at.in * (int64_t)job->item;
    const int64_t left = g->reduced ? g->extent[inner] - c->x[inner] : 1;
    *line = left < n ? left : n;
    if (g->reduced) cursor_move(c, g, *line);
    return in;
}

/* The next n elements, as accumulators: where they are, or gathered into the buffer. */
static const void *next_elements(const reduce_job *job, const reduce_run *run, reduce_cursor *c,
                                 int64_t n, char *buffer)
{
    const gop_reduction *g = job->g;
    const int inner = g->kept + g->reduced - 1;
    const int64_t stride = g->reduced ? g->in[inner] : 1;
    for (int64_t done = 0, line; done < n; done += line) {
        const uint8_t *where = run->where ? run->where + c->at.where : NULL;
        const char *in = next_line(job, run, c, n - done, &line);
        if (job->in_place && line == n && stride == 1) return in;
        job->gather(job, buffer + done * (int64_t)job->fold->bytes, line, in, stride, where,
                    g->reduced ? g->where[inner] : 0);
    }
    return buffer;
}

/* blocked: a leaf as it is defined, one element at a time. */
static void plain_leaf(const reduce_fold *fold, void *to, const char *x, int64_t n)
{
    _Alignas(16) char lane[LANES][16];
    for (int l = 0; l < LANES; l++) fold->fill(lane[l], 1);
    for (int64_t k = 0; k < n; k++)
        fold->merge(lane[k % LANES], x + k * (int64_t)fold->bytes, 1);
    for (int d = LANES / 2; d > 0; d /= 2)
        for (int l = 0; l < d; l++) fold->merge(lane[l], lane[l + d], 1);
    memcpy(to, lane[0], fold->bytes);
}

/* any, all: whether none of the n truths is 0; masked ones have more bits than one. */
static int8_t all_of(const int8_t *x, int64_t n)
{
    int8_t all = INT8_MAX;
    for (int64_t i = 0; i < n; i++) all &= x[i];
    return all;
}

/* Takes `value`, the minimum of the accumulators x from position k on, if it is less. */
static void take_better(const reduce_fold *fold, char *to, int64_t *number, const char *value,
                        const void *x, int64_t k)
{
    _Alignas(16) char before[16];
    memcpy(before, to, fold->bytes);
    fold->merge(to, value, 1);
    if (memcmp(before, to, fold->bytes) != 0) *number = k + fold->find(x, to);
}

/* The next n elements of one output, a leaf from position k on, into `to`, or the best of them
 * and its position. `packed` holds the elements, or is NULL. */
static void fold_leaf(const reduce_job *job, const reduce_run *run, reduce_cursor *c, int64_t k,
                      int64_t n, const char *packed, char *to, int64_t *number)
{
    const reduce_fold *fold = job->fold;
    _Alignas(64) char buffer[LEAF * 16];
    _Alignas(16) char value[16];
    const void *x = packed;
    if (!packed) x = next_elements(job, run, c, n, buffer);
    else if (!job->in_place) job->gather(job, buffer, n, packed, 1, NULL, 0), x = buffer;
    if (job->plain) plain_leaf(fold, value, x, n);
    else if (job->stops) *(int8_t *)value = all_of(x, n);
    else fold->leaves(value, x, n, 0, 1);
    if (number) take_better(fold, to, number, value, x, k);
    else memcpy(to, value, fold->bytes);
}

/* The same of elements that need no gather, line by line; the position is that of the first
 * element of the leaf. */
static void fold_lines(const reduce_job *job, const reduce_run *run, reduce_cursor *c,
                       int64_t k, int64_t n, char *to, int64_t *number)
{
    _Alignas(16) char value[16];
    if (!number) job->fold->fill(to, 1);
    for (int64_t done = 0, line; done < n; done += line) {
        const char *const x = next_line(job, run, c, n - done, &line);
        job->direct->leaves(job, value, x, line, 0, 1);
        if (number) job->fold->better(to, number, value, NULL, k + done, 1);
        else job->fold->merge(to, value, 1);
    }
}

/* Whether the next n elements of all outputs lie ready to be folded: those of the first one, or
 * NULL. Moves the cursor. */
static const char *plain_lines(const reduce_job *job, const reduce_run *run, reduce_cursor *c,
                               int64_t n)
{
    const gop_reduction *g = job->g;
    const int inner = g->kept + g->reduced - 1;
    int64_t line;
    if (run->where || job->plain || job->span) return NULL;
    if (!job->direct && (!job->in_place || job->position)) return NULL;
    if (g->reduced && (g->in[inner] != 1 || g->extent[inner] - c->x[inner] < n)) return NULL;
    return next_line(job, run, c, n, &line);
}

/* The next n elements of each output: leaves from position k on into `value`, or the best into
 * `to` and `number`. */
static void fold_turn(const reduce_job *job, const reduce_run *run, reduce_cursor *c, int64_t k,
                      int64_t n, const char *packed, char *value, char *to, int64_t *number)
{
    const reduce_fold *fold = job->fold;
    const reduce_cursor start = *c;
    const char *const x = plain_lines(job, run, c, n);
    if (x && job->direct) {
        job->direct->leaves(job, value, x, n, run->in_stride, run->n);
        if (job->position) fold->better(to, number, value, NULL, k, run->n);
    } else if (x) fold->leaves(value, x, n, run->in_stride, run->n);
    for (int64_t i = 0; !x && i < run->n; i++) {
        const reduce_run one = part_of(job, run, i, 1);
        char *const leaf = (job->position ? to : value) + i * (int64_t)fold->bytes;
        int64_t *const at = job->position ? number + i : NULL;
        *c = start;
        if (job->direct) fold_lines(job, &one, c, k, n, leaf, at);
        else fold_leaf(job, &one, c, k, n, packed, leaf, at);
    }
}

/* Leaves [first, last) of each output of the run into `to`, the positions of the best (with
 * `direct` of the leaf that has it) into `number`. */
static void fold_rows(const reduce_job *job, const reduce_run *run, int64_t first, int64_t last,
                      int worker, char *to, int64_t *number)
{
    const int64_t begin = first * LEAF;
    const int64_t end = last * LEAF < job->g->count ? last * LEAF : job->g->count;
    const int64_t step = job->direct && run->n == 1 ? DIRECT_LEAF : LEAF;
    _Alignas(64) char node[16][ROW_BYTES], value[ROW_BYTES];
    reduce_counter counter = {0, ROW_BYTES, node[0]};
    reduce_cursor cursor;
    job->fold->fill(to, run->n);
    for (int64_t i = 0; job->position && i < run->n; i++) number[i] = begin;
    if (begin >= end) return;
    const char *const packed = pack_node(job, run, begin, end, worker);
    cursor_set(&cursor, job->g, begin);
    for (int64_t k = begin, n; k < end; k += n) {
        n = end - k < step ? end - k : step;
        fold_turn(job, run, &cursor, k, n,
                  packed ? packed + (k - begin) * (int64_t)job->item : NULL, value, to, number);
        if (job->stops && run->n == 1 && value[0] == 0) {
            to[0] = 0;
            return;
        }
        if (!job->position) push(job->fold, &counter, value, run->n);
    }
    if (!job->position) root(job->fold, &counter, to, run->n);
}

#endif
