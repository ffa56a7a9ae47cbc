/*
 * blocks.h - for short tiles or rows: blocks of several inner axes, contiguous in the output. A
 * block is gathered by a table of offsets, which is the same for every block.
 */
#ifndef GOP_CPU_TRANSPOSE_BLOCKS_H
#define GOP_CPU_TRANSPOSE_BLOCKS_H

#include "cpu/runtime/cpu.h"

enum {
    BLOCK = 2048,       /* most elements of a block */
    BLOCK_BYTES = 8192, /* most bytes of a block */
    SHORT = 512,        /* rows of fewer bytes are joined to blocks */
};

/* A block has `rows` indices of axis t and all of the axes inside it. */
typedef struct blocking {
    int t;
    int64_t within, rows, cuts; /* elements of the axes inside t; blocks along t */
    int64_t count;              /* 0: there are no blocks */
    int64_t run;                /* elements that are contiguous in the input too */
} blocking;

/* Fills the plan. Its count stays 0 if blocks do not pay. */
static void find_blocks(const gop_permutation *g, int64_t item, blocking *p)
{
    const int inner = g->rank - 1;
    const int64_t most = gop_smaller(BLOCK, BLOCK_BYTES / item);
    int64_t size = 1, furthest = 0, count = 1;
    int is_line = 1;
    if (inner < 1 || g->size == 0 || g->extent[inner] * item >= SHORT) return;
    *p = (blocking){.t = inner - 1, .within = g->extent[inner], .run = 1};
    while (p->t > 0 && p->within * g->extent[p->t] <= most) p->within *= g->extent[p->t--];
    p->rows = gop_smaller(g->extent[p->t], most / p->within);
    p->cuts = (g->extent[p->t] + p->rows - 1) / p->rows;
    p->rows = (g->extent[p->t] + p->cuts - 1) / p->cuts;
    for (int axis = inner; axis >= p->t; axis--) {
        const int64_t extent = axis == p->t ? p->rows : g->extent[axis];
        if (g->out[axis] != size || gop_magnitude(g->in[axis]) >= INT32_MAX / BLOCK) return;
        is_line &= g->in[axis] == size;
        furthest += (int64_t)gop_magnitude(g->in[axis]) * (extent - 1);
        size *= extent;
        if (is_line) p->run = size;
    }
    for (int axis = 0; axis < p->t; axis++) count *= g->extent[axis];
    if (furthest < INT32_MAX) p->count = count * p->cuts;
}

static void fill_block(const gop_permutation *g, const blocking *p, int32_t *table)
{
    int64_t size = 1;
    table[0] = 0;
    for (int axis = g->rank - 1; axis >= p->t; axis--) {
        const int64_t extent = axis == p->t ? p->rows : g->extent[axis];
        for (int64_t k = 1; k < extent; k++)
            for (int64_t i = 0; i < size; i++)
                table[k * size + i] = table[i] + (int32_t)(k * g->in[axis]);
        size *= extent;
    }
}

#endif
