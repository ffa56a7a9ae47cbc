/*
 * reduce_pack.h - elements that lie across memory, put in order before they are folded.
 *
 * The sum of a transposed array takes elements that are rows apart: one by one, each would
 * fetch a whole line of memory and use an item of it. The rest of the line is wanted too, by
 * later positions, along the reduced axis whose neighbours are neighbours in memory: the axis
 * beside. So the elements of a node are turned in registers into a buffer, whole lines at a
 * time, and folded from there.
 */
#ifndef GOP_CPU_REDUCE_PACK_H
#define GOP_CPU_REDUCE_PACK_H

#include "cpu/reduce_walk.h"
#include "cpu/turn.h"

enum {
    PACK_BYTES = 1 << 22, /* of a node, at most */
    PACK_ROWS = 64,       /* turned at a time, in tiles */
    TILE_BYTES = 1 << 14,
    FEW = 32,             /* outputs of fewer elements fold side by side */
    TURN_BYTES = 1 << 16, /* of the elements of a run that is turned for that */
};

/* Finds the axis beside, if packing serves, and makes nodes long enough to use whole lines. */
static void find_beside(reduce_job *job)
{
    const gop_reduction *g = job->g;
    const int inner = g->kept + g->reduced - 1;
    const int64_t item = (int64_t)job->item;
    job->span = 0;
    if (job->columns || job->task->nin > 1 || g->reduced < 2) return;
    if (llabs(g->in[inner]) * item < LINE) return;
    int64_t span = g->extent[inner];
    for (int axis = inner - 1; axis >= g->kept; span *= g->extent[axis], axis--) {
        if (g->in[axis] != 1 || g->extent[axis] < 4) continue;
        int64_t leaves = job->node_leaves;
        while ((LEAF << leaves) < 2 * LINE / item * span &&
               (LEAF << leaves) * item < PACK_BYTES)
            leaves++;
        if ((LEAF << leaves) < 2 * span) return;
        job->node_leaves = (int)leaves;
        job->beside = axis;
        job->span = span;
        return;
    }
}

/* Bytes of the buffer of one thread: a node's elements and the rest of its first and last
 * line. */
static size_t pack_bytes(const reduce_job *job)
{
    return job->span
               ? (size_t)(((LEAF << job->node_leaves) + 2 * job->span) * (int64_t)job->item)
               : 0;
}

/* Offsets of positions [first, first + n) along the axes inside the one beside. */
static void fill_offsets(const reduce_job *job, int64_t first, int64_t n, int64_t *offset)
{
    const gop_reduction *g = job->g;
    const int inner = g->kept + g->reduced - 1;
    int64_t x[GOP_MAX_NDIM], at = 0;
    for (int d = inner; d > job->beside; d--) {
        x[d] = first % g->extent[d];
        first /= g->extent[d];
        at += x[d] * g->in[d];
    }
    for (int64_t k = 0; k < n; k++) {
        offset[k] = at;
        for (int d = inner; d > job->beside; d--) {
            at += g->in[d];
            if (++x[d] < g->extent[d]) break;
            at -= g->extent[d] * g->in[d];
            x[d] = 0;
        }
    }
}

/* Positions from k on, at most PACK_ROWS, of neighbouring lines. They leave a tile line by
 * line: the places of one position in all lines may fall into the same cache set. */
static void pack_rows(const reduce_job *job, const char *in, int64_t lines, int64_t k, char *to)
{
    _Alignas(LINE) char tile[TILE_BYTES];
    const int64_t item = (int64_t)job->item, span = job->span,
                  room = TILE_BYTES / PACK_ROWS / item;
    const int64_t rows = span - k < PACK_ROWS ? span - k : PACK_ROWS;
    const int64_t ahead = span - k < 2 * PACK_ROWS ? span - k : 2 * PACK_ROWS;
    int64_t offset[2 * PACK_ROWS];
    fill_offsets(job, k, ahead, offset);
    for (int64_t y = PACK_ROWS; y < ahead; y++)
        for (int64_t x = 0; x < lines * item + LINE - 1; x += LINE)
            __builtin_prefetch(in + offset[y] * item + x, 0, 2);
    for (int64_t x = 0; x < lines; x += room) {
        const int64_t nx = lines - x < room ? lines - x : room;
        turn_rows(item, nx, rows, tile, PACK_ROWS, in + x * item, offset);
        for (int64_t l = 0; l < nx; l++)
            memcpy(to + (x + l) * span * item, tile + l * PACK_ROWS * item,
                   (size_t)(rows * item));
    }
}

/* Positions [begin, end) of one output in order, or NULL where nothing is to be packed. */
static const char *pack_node(const reduce_job *job, const reduce_run *run, int64_t begin,
                             int64_t end, int worker)
{
    const gop_reduction *g = job->g;
    const int64_t item = (int64_t)job->item, span = job->span;
    if (span == 0 || worker >= job->buffers || begin >= end) return NULL;
    char *const buffer = job->packed + (size_t)worker * pack_bytes(job);
    const int64_t extent = g->extent[job->beside];
    const int64_t first = begin / span, last = (end - 1) / span + 1;
    for (int64_t line = first, lines; line < last; line += lines) {
        const int64_t j = line % extent;
        lines = extent - j < last - line ? extent - j : last - line;
        const int64_t outside = locate(g, g->kept, job->beside, line / extent).in;
        const char *const in = run->in + (outside + j) * item;
        char *const to = buffer + (line - first) * span * item;
        for (int64_t k = 0; k < span; k += PACK_ROWS)
            pack_rows(job, in, lines, k, to + k * item);
    }
    return buffer + (begin - first * span) * item;
}

/* ---- many outputs of few elements each ---- */

/* Outputs of fewer elements fold faster side by side than one by one. Sums and products of
 * neighbours in place never do. */
static int64_t few_elements(const reduce_job *job)
{
    const gop_reduction *g = job->g;
    const int neighbours = g->reduced == 1 && g->in[g->kept] == 1;
    return neighbours && job->in_place && job->fold->stack ? 0 : FEW;
}

/* Whether the elements of one output are neighbours and few: many outputs are turned, so that
 * they fold side by side. */
static int is_turned(const reduce_job *job)
{
    const gop_reduction *g = job->g;
    return job->task->nin == 1 && g->kept && g->reduced == 1 && g->in[g->kept] == 1 &&
           g->count < few_elements(job) && g->count * (int64_t)job->item >= 16;
}

static void turn_run(const reduce_job *job, const reduce_run *run, char *to)
{
    int64_t in_y[ROW_ITEMS];
    for (int64_t i = 0; i < run->n; i++) in_y[i] = i * run->in_stride;
    turn_rows((int64_t)job->item, job->g->count, run->n, to, run->n, run->in, in_y);
}

#endif
