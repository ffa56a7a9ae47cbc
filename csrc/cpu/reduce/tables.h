/*
 * tables.h - joins short lines to one line by a table of its elements' offsets.
 *
 * Starting a line of a few elements costs more than folding it. So the innermost axes, and a
 * piece of the next one, are gathered as one line: outputs for columns, an output's elements
 * for rows.
 */
#ifndef GOP_CPU_REDUCE_TABLES_H
#define GOP_CPU_REDUCE_TABLES_H

#include "cpu/reduce/job.h"

enum {
    SHORT_ALONG = 32,  /* lines of fewer elements of an output are joined */
    SHORT_ACROSS = 64, /* lines of fewer outputs are joined */
    RUN_ACROSS = 12,   /* but lines of at least these outputs are read in place */
    RUN_BYTES = 1024,  /* if all their elements have at least these bytes */
};

/* Joins axes [first, last) to lines of at most `most` elements. The size is 0 if one axis is as
 * good, or if the outputs are not contiguous. */
static reduce_table find_table(const gop_reduction *g, int first, int last, int64_t most)
{
    reduce_table t = {.axis = last - 2};
    if (t.axis < first || g->outputs == 0 || g->count == 0) return t;
    t.within = g->extent[last - 1];
    while (t.axis > first && t.within * g->extent[t.axis] <= most)
        t.within *= g->extent[t.axis--];
    const int64_t extent = g->extent[t.axis];
    const int64_t rows = gop_smaller(extent, most / t.within);
    if (rows * t.within < 2 * g->extent[last - 1]) return t;
    const int64_t cuts = (extent + rows - 1) / rows;
    uint64_t furthest = 0;
    int64_t out = g->out[last - 1]; /* 0 along reduced axes */
    for (int axis = last - 1; axis >= t.axis; out *= g->extent[axis--]) {
        if (g->out[axis] != out || gop_magnitude(g->in[axis]) > INT32_MAX / LEAF) return t;
        furthest += gop_magnitude(g->in[axis]) * (uint64_t)g->extent[axis];
    }
    t.size = furthest < INT32_MAX ? (extent + cuts - 1) / cuts * t.within : 0;
    return t;
}

static void fill_table(const gop_reduction *g, int last, const reduce_table *t, int32_t *to)
{
    int64_t size = 1;
    to[0] = 0;
    for (int axis = last - 1; axis >= t->axis; axis--) {
        const int64_t extent = axis == t->axis ? t->size / t->within : g->extent[axis];
        for (int64_t k = 1; k < extent; k++)
            for (int64_t i = 0; i < size; i++)
                to[k * size + i] = to[i] + (int32_t)(k * g->in[axis]);
        size *= extent;
    }
}

/* Makes the geometry in which the table's axes are the innermost reduced axis. */
static void join_reduced(const gop_reduction *g, const reduce_table *t, gop_reduction *to)
{
    *to = *g;
    to->reduced = t->axis - g->kept + 1;
    to->extent[t->axis] *= t->within;
    to->in[t->axis] = 0;
}

#endif
