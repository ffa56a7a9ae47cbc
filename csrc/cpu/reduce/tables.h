/*
 * tables.h - short lines as one: a table says where each of its elements is.
 *
 * To begin a line of a few elements costs more than to fold it. So the innermost axes, and a
 * piece of the next one, are gathered as one line: of outputs side by side where columns fold,
 * of an output's elements where rows do.
 */
#ifndef GOP_CPU_REDUCE_TABLES_H
#define GOP_CPU_REDUCE_TABLES_H

#include "cpu/reduce/job.h"

enum {
    SHORT_ALONG = 32,  /* elements of an output in a line that is worth gathering */
    SHORT_ACROSS = 64, /* outputs of such a line */
    RUN_ACROSS = 12,   /* outputs of a line that is better read as it lies, */
    RUN_BYTES = 1024,  /* if all of its elements are at most this */
};

/* Axes [first, last) as lines of at most `most` elements; size 0 where one axis is as good, or
 * where the outputs are no line. */
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

/* The geometry whose innermost reduced axis is all of the table's. */
static void join_reduced(const gop_reduction *g, const reduce_table *t, gop_reduction *to)
{
    *to = *g;
    to->reduced = t->axis - g->kept + 1;
    to->extent[t->axis] *= t->within;
    to->in[t->axis] = 0;
}

#endif
