/*
 * reduce_cut.h - cuts a reduction into runs of outputs and nodes of leaves.
 */
#ifndef GOP_CPU_REDUCE_CUT_H
#define GOP_CPU_REDUCE_CUT_H

#include "cpu/reduce_pack.h"

enum { PIECE = 1 << 16 }; /* elements worth handing to a thread */

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t leaves_of(const gop_reduction *g)
{
    return g->count / LEAF + (g->count % LEAF != 0);
}

/* How many outputs side by side make a column run: as wide as caches take the accumulators,
 * where elements are read in place, less where they are gathered first. */
static int64_t column_width(const reduce_job *job, int in_place)
{
    const int64_t bytes = (int64_t)job->fold->bytes;
    int64_t width = in_place ? WIDE_BYTES / bytes : smaller(ROW_BYTES / bytes, ROW_ITEMS);
    if (!job->turned) return width;
    width = smaller(width, ROW_ITEMS);
    while (width * job->g->count * (int64_t)job->item > TURN_BYTES) width /= 2;
    return width;
}

/* How many outputs take turns: short ones, and those whose neighbours in memory lie between one
 * line of elements and the next. */
static int64_t row_width(const reduce_job *job, int64_t across)
{
    const gop_reduction *g = job->g;
    const int inner = g->kept + g->reduced - 1;
    const int64_t most = smaller(ROW_BYTES / (int64_t)job->fold->bytes, ROW_ITEMS);
    int64_t width = 1;
    if (g->reduced == 0 || magnitude(g->in[inner]) * (int64_t)job->item >= LINE) return 1;
    if (g->count <= LEAF)
        while (2 * width <= most && width * g->count < PIECE) width *= 2;
    else if (g->reduced > 1 && across < magnitude(g->in[inner - 1]))
        while (2 * width <= most && width * g->extent[inner] < LEAF * ROWS) width *= 2;
    return width;
}

/* Rows or columns, how wide, and how many nodes to an output. */
static void cut(reduce_job *job, int columns, int threads)
{
    const gop_reduction *g = job->g;
    const int64_t line = g->kept ? g->extent[g->kept - 1] : 1;
    const int64_t across = g->kept ? magnitude(g->in[g->kept - 1]) : 0;
    const int64_t along = g->reduced ? magnitude(g->in[g->kept + g->reduced - 1]) : 0;
    job->turned = columns && line >= 4 && across >= along && is_turned(job);
    job->columns =
        columns && line >= 4 && (g->count < few_elements(job) || across < along || job->turned);
    const int near = job->columns ? g->in[g->kept - 1] == 1 || job->turned
                                  : g->reduced == 0 || g->in[g->kept + g->reduced - 1] == 1;
    if (!columns || job->task->nin > 1 || !near || (job->columns && job->position))
        job->direct = NULL;
    job->width = 1;
    if (job->columns)
        job->width =
            column_width(job, near && !job->position && (job->in_place || job->direct));
    else if (columns) job->width = row_width(job, across);
    while (job->width > 1 && job->width / 2 >= line) job->width /= 2; /* powers of two */
    /* A node holds about 2^18 elements of its run, and at most 64 leaves. */
    const int64_t leaves = leaves_of(g);
    while (job->node_leaves < 6 && job->width * LEAF << job->node_leaves < 1 << 18)
        job->node_leaves++;
    find_beside(job);
    job->nodes = (leaves >> job->node_leaves) + ((leaves & ((1 << job->node_leaves) - 1)) != 0);
    if (job->nodes == 0) job->nodes = 1; /* nothing to fold is one empty node */

    /* Narrower runs, where wide ones would leave threads idle; but whole rows of memory, which
     * go on one behind the other, are worth some waiting. Scratch does not depend on it. */
    const int64_t wanted = threads == 1 ? 1 : (job->columns ? 2 : 4) * (int64_t)threads;
    const int64_t least = job->columns ? 256 : 2;
    while (job->width >= least && g->outputs / job->width * job->nodes < wanted)
        job->width /= 2;
    job->blocks = line / job->width + (line % job->width != 0);
    job->runs = g->outputs / line * job->blocks;
}

/* Run number i: a block of an innermost kept line. */
static reduce_run run_of(const reduce_job *job, int64_t i)
{
    const gop_reduction *g = job->g;
    const int64_t line = g->kept ? g->extent[g->kept - 1] : 1;
    const int64_t first = i % job->blocks * job->width;
    const int64_t left = line - first;
    return run_at(job, i / job->blocks * line + first, left < job->width ? left : job->width);
}

#endif
