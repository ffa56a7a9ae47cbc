/*
 * blocks.h - add where lines are short: several of the inner axes at once, as one line.
 *
 * To begin a line of a few elements costs more than to compute it. A block is a piece of the
 * inner axes that is one run of the output. An operand that lies otherwise is put in line in a
 * buffer before, by a table of its offsets, the same for every block; where it is broadcast
 * from block to block it stays there.
 */
#ifndef GOP_CPU_ADD_BLOCKS_H
#define GOP_CPU_ADD_BLOCKS_H

#include "cpu/add/lines.h"
#include "cpu/transpose/gather.h"

enum {
    BLOCK = 4096,       /* elements of a block, at most */
    BLOCK_BYTES = 8192, /* the same: a buffer for each operand stays in the first-level cache */
    SHORT = 512,        /* bytes of a line that is worth gathering into a longer one */
};

/* The plan: a block has `rows` of axis t and all of the axes within. */
typedef struct blocking {
    int t;
    int64_t within, rows, cuts; /* elements of the axes within; blocks along t */
    int64_t count;
    int64_t run[4];    /* neighbours of an operand that is gathered, negative where they are
                          one element; 0: it is where it lies */
    int64_t stride[4]; /* along a block, where it lies */
} blocking;

typedef struct blocks {
    const blocking *plan;
    walk lines;
    int32_t (*tables)[BLOCK];     /* of each input */
    char (*buffers)[BLOCK_BYTES]; /* of each worker and input */
} blocks;

/* How an operand lies along a block: fills run and stride. Returns 0 where a table cannot hold
 * its offsets. */
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

/* Fills the plan, or returns 0 where lines serve as well: then count is 0. */
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
    const char *held[4] = {0}; /* what the buffers have, and how much of it */
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
