/*
 * blocks.h - add with short rows: several of the inner axes are processed as one row.
 *
 * Starting a row of a few elements costs more than computing it. A block is a part of the inner
 * axes that is contiguous in the output. Operands with another layout are first gathered into a
 * buffer by a table of offsets, which is the same for every block. If an operand is broadcast
 * from block to block, its buffer is reused.
 */
#ifndef GOP_CPU_ADD_BLOCKS_H
#define GOP_CPU_ADD_BLOCKS_H

#include "cpu/add/lines.h"
#include "cpu/transpose/gather.h"

enum {
    BLOCK = 4096,       /* most elements of a block */
    BLOCK_BYTES = 8192, /* most bytes of a block: buffers fit in L1 */
    SHORT = 512,        /* rows of fewer bytes are joined to blocks */
};

/* The plan: a block has `rows` indices of axis t and all of the axes inside it. */
typedef struct blocking {
    int t;
    int64_t within, rows, cuts; /* elements of the axes inside t; blocks along t */
    int64_t count;
    int64_t run[4];    /* contiguous elements of a gathered operand; negative: copies of one
                          element; 0: in place */
    int64_t stride[4]; /* stride along a block of an operand that is used in place */
} blocking;

typedef struct blocks {
    const blocking *plan;
    walk lines;
    int32_t (*tables)[BLOCK];     /* one for each input */
    char (*buffers)[BLOCK_BYTES]; /* one for each worker and input */
} blocks;

/* Fills run and stride of operand o. Returns 0 if its offsets do not fit in a table. */
static int lies(const gop_elementwise *e, int o, blocking *p)
{
    const int64_t *const stride = e->stride[o];
    int64_t size = 1, run = 1, furthest = 0;
    int is_one = 1, is_line = 1;
    for (int axis = e->rank - 1; axis >= p->t; axis--) {
        const int64_t extent = axis == p->t ? p->rows : e->extent[axis];
        if (extent == 1) continue;
        is_one &= stride[axis] == 0;
        is_line &= stride[axis] == size;
        size *= extent;
        if (is_line) run = size;
        if (is_one) run = -size;
        if (gop_magnitude(stride[axis]) >= INT32_MAX) return 0;
        furthest += (int64_t)gop_magnitude(stride[axis]) * (extent - 1);
    }
    p->stride[o] = !is_one;
    p->run[o] = is_one || is_line ? 0 : run;
    return furthest < INT32_MAX;
}

/* Fills the plan. Returns 0, with count 0, if blocks do not pay. */
static int find_blocks(const gop_elementwise *e, int64_t item, blocking *p)
{
    const int inner = e->rank - 1;
    const int64_t most = gop_smaller(BLOCK, BLOCK_BYTES / item);
    if (inner < 1 || e->extent[inner] * item >= SHORT) return 0;
    *p = (blocking){.t = inner - 1, .within = e->extent[inner], .count = 1};
    while (p->t > 0 && p->within * e->extent[p->t] <= most) p->within *= e->extent[p->t--];
    p->rows = gop_smaller(e->extent[p->t], most / p->within);
    p->cuts = (e->extent[p->t] + p->rows - 1) / p->rows;
    p->rows = (e->extent[p->t] + p->cuts - 1) / p->cuts;
    int fits = 1;
    for (int o = 0; o < e->operands; o++) fits &= lies(e, o, p);
    for (int axis = 0; axis < p->t; axis++) p->count *= e->extent[axis];
    p->count *= fits && p->stride[0] == 1 && p->run[0] == 0 ? p->cuts : 0;
    return p->count > 0;
}

/* Bytes of scratch. */
static size_t blocks_room(int workers)
{
    return 3 * ((size_t)workers * BLOCK_BYTES + BLOCK * sizeof(int32_t));
}

static void fill_table(const gop_elementwise *e, const blocking *p, int o, int32_t *table)
{
    int64_t size = 1;
    table[0] = 0;
    for (int axis = e->rank - 1; axis >= p->t; axis--) {
        const int64_t extent = axis == p->t ? p->rows : e->extent[axis];
        const int32_t step = (int32_t)e->stride[o][axis];
        for (int32_t k = 1; k < extent; k++)
            for (int64_t i = 0; i < size; i++) table[k * size + i] = table[i] + k * step;
        size *= extent;
    }
}

static void walk_blocks(void *argument, int64_t begin, int64_t end, int worker)
{
    const blocks *const w = argument;
    const blocking *const p = w->plan;
    const gop_elementwise *const e = w->lines.e;
    const int64_t item = w->lines.item;
    const char *held[4] = {0}; /* the source of each buffer, and its elements */
    int64_t holds[4] = {0}, index[GOP_MAX_NDIM];
    char *from[4] = {0};
    gop_unravel(begin / p->cuts, p->t, e->extent, index);
    index[p->t] = begin % p->cuts * p->rows;
    for (int o = 0; o < e->operands; o++)
        from[o] = w->lines.at[o] + gop_offset(p->t + 1, index, e->stride[o]) * item;
    for (int64_t block = begin; block < end; block++) {
        const int64_t rows = gop_smaller(p->rows, e->extent[p->t] - index[p->t]);
        const int64_t n = rows * p->within;
        char *at[4] = {from[0], from[1], from[2], from[3]};
        for (int o = 1; o < e->operands; o++) {
            if (p->run[o] == 0) continue;
            at[o] = w->buffers[3 * worker + o - 1];
            if (held[o] == from[o] && holds[o] >= n) continue;
            gather(item, n, p->run[o], at[o], from[o], w->tables[o - 1]);
            held[o] = from[o], holds[o] = n;
        }
        one_line(&w->lines, n, at, p->stride);
        int64_t steps = rows;
        for (int axis = p->t;; axis--) {
            index[axis] += steps;
            const int wraps = index[axis] == e->extent[axis];
            if (wraps) steps -= index[axis], index[axis] = 0;
            for (int o = 0; o < e->operands; o++) from[o] += steps * e->stride[o][axis] * item;
            if (!wraps || axis == 0) break;
            steps = 1;
        }
    }
    if (w->lines.stream) stream_end();
}

static gop_status every_block(const gop_task *task, const blocking *p, int workers,
                              int64_t piece, line_fn line)
{
    const gop_elementwise *e = &task->geometry.elementwise;
    blocks w = {.plan = p, .lines = walk_of(task, line, 1)};
    const int64_t size = p->rows * p->within;
    if (w.lines.fresh) piece = HUGE_PAGE / w.lines.item;
    w.buffers = task->scratch;
    w.tables = (void *)(w.buffers + 3 * workers);
    for (int o = 1; o < e->operands; o++)
        if (p->run[o]) fill_table(e, p, o, w.tables[o - 1]);
    return by_threads(&w.lines, workers, p->count, 1 + piece / size, walk_blocks, &w);
}

#endif
