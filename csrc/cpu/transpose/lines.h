/*
 * lines.h - calls with the same fastest axis in the input and output, row by row; and the loop
 * of one thread for any call.
 */
#ifdef D

/* Copies n elements along one axis. */
static void FN(line)(int64_t n, void *restrict out, int64_t so, const void *restrict in,
                     int64_t si)
{
    T *restrict const to = out;
    const T *restrict const from = in;
    if (so == 1 && si == 1) {
        if (n * (int64_t)sizeof(T) >= 64) memcpy(to, from, (size_t)n * sizeof(T));
        else
            for (int64_t i = 0; i < n; i++) to[i] = from[i];
    } else if (so == 1) FN(pick)(n, to, from, si);
    else
        for (int64_t i = 0; i < n; i++) to[i * so] = from[i * si];
}

#elif !defined(GOP_CPU_TRANSPOSE_LINES_H)
#define GOP_CPU_TRANSPOSE_LINES_H

#include "cpu/transpose/tiles.h"
#include "cpu/transpose/gather.h"
#include "cpu/transpose/turn.h"

#define GOP_TPL "cpu/transpose/lines.h"
#include "cpu/transpose/each_item.inc"

typedef void (*line_fn)(int64_t n, void *out, int64_t so, const void *in, int64_t si);

typedef struct lines {
    const gop_permutation *p;
    line_fn line;
    int64_t item;
    int stream; /* use streaming stores */
    char *to;
    const char *from;
    const blocking *blocks;
    const int32_t *table; /* a block's offsets */
} lines;

/* Streams a row. A strided row is gathered first. */
static void stream_line(const lines *l, int64_t n, char *to, const char *from, int64_t si)
{
    _Alignas(LINE) char buffer[STREAM_BUFFER];
    int64_t m = (STREAM_BUFFER - (int64_t)((uintptr_t)to % LINE)) / l->item;
    if (si == 1) {
        stream_copy(to, from, (size_t)(n * l->item));
        return;
    }
    for (int64_t i = 0; i < n; i += m, m = STREAM_BUFFER / l->item) {
        if (m > n - i) m = n - i;
        l->line(m, buffer, 1, from + i * si * l->item, si);
        stream_copy(to + i * l->item, buffer, (size_t)(m * l->item));
    }
}

/* Copies elements [begin, end) in the output's order. The index is decomposed once, and then
 * advanced like an odometer. */
static void walk_lines(void *argument, int64_t begin, int64_t end, int worker)
{
    const lines *l = argument;
    const gop_permutation *p = l->p;
    const int inner = p->rank - 1;
    int64_t index[GOP_MAX_NDIM];
    (void)worker;
    gop_unravel(begin, p->rank, p->extent, index);
    int64_t to = gop_offset(p->rank, index, p->out), from = gop_offset(p->rank, index, p->in);
    int64_t left = end - begin;
    int64_t n = p->extent[inner] - index[inner]; /* the first row may start in its middle */
    for (;;) {
        if (n > left) n = left;
        char *const line_to = l->to + to * l->item;
        const char *const line_from = l->from + from * l->item;
        if (l->stream && p->out[inner] == 1 && n * l->item >= STREAM_BUFFER)
            stream_line(l, n, line_to, line_from, p->in[inner]);
        else l->line(n, line_to, p->out[inner], line_from, p->in[inner]);
        left -= n;
        if (left == 0) break;
        to -= index[inner] * p->out[inner];
        from -= index[inner] * p->in[inner];
        index[inner] = 0;
        n = p->extent[inner];
        for (int axis = inner - 1; axis >= 0; axis--) {
            const int wraps = ++index[axis] == p->extent[axis];
            const int64_t steps = wraps ? 1 - p->extent[axis] : 1;
            to += steps * p->out[axis];
            from += steps * p->in[axis];
            if (!wraps) break;
            index[axis] = 0;
        }
    }
    if (l->stream) stream_end();
}

/* Copies blocks [begin, end). */
static void walk_blocks(void *argument, int64_t begin, int64_t end, int worker)
{
    const lines *const l = argument;
    const blocking *const b = l->blocks;
    const gop_permutation *const p = l->p;
    _Alignas(LINE) char buffer[BLOCK_BYTES];
    int64_t index[GOP_MAX_NDIM];
    (void)worker;
    gop_unravel(begin / b->cuts, b->t, p->extent, index);
    index[b->t] = begin % b->cuts * b->rows;
    int64_t to = gop_offset(b->t + 1, index, p->out), from = gop_offset(b->t + 1, index, p->in);
    for (int64_t block = begin; block < end; block++) {
        int64_t steps = gop_smaller(b->rows, p->extent[b->t] - index[b->t]);
        const int64_t n = steps * b->within;
        char *const line = l->to + to * l->item;
        gather(l->item, n, b->run, l->stream ? buffer : line, l->from + from * l->item,
               l->table);
        if (l->stream) stream_copy(line, buffer, (size_t)(n * l->item));
        for (int axis = b->t;; axis--) {
            index[axis] += steps;
            const int wraps = index[axis] == p->extent[axis];
            if (wraps) steps -= index[axis], index[axis] = 0;
            to += steps * p->out[axis];
            from += steps * p->in[axis];
            if (!wraps || axis == 0) break;
            steps = 1;
        }
    }
    if (l->stream) stream_end();
}

static lines lines_of(const gop_task *task, line_fn line)
{
    const tiling *const t = GOP_OWN(const tiling, task->plan);
    if (t->blocks.count) fill_block(&task->geometry.permutation, &t->blocks, task->scratch);
    return (lines){&task->geometry.permutation,
                   line,
                   t->item,
                   t->stream,
                   task->out[0].data,
                   task->in[0].data,
                   &t->blocks,
                   task->scratch};
}

/* Runs a call on one thread, which checks for Ctrl-C between pieces. */
static gop_status alone(const gop_task *task, line_fn line, tile_fn copy)
{
    if (GOP_OWN(const tiling, task->plan)->tiled) {
        tiles t = tiles_of(task, copy);
        for (int64_t i = 0; i < t.count; i += 32) {
            walk_tiles(&t, i, gop_smaller(i + 32, t.count), 0);
            GOP_TRY(gop_interrupted());
        }
        return GOP_OK;
    }
    lines l = lines_of(task, line);
    for (int64_t i = 0, some = 32; i < l.blocks->count; i += some) {
        walk_blocks(&l, i, gop_smaller(i + some, l.blocks->count), 0);
        GOP_TRY(gop_interrupted());
    }
    for (int64_t i = 0; l.blocks->count == 0 && i < l.p->size; i += GOP_HEAR) {
        walk_lines(&l, i, gop_smaller(i + GOP_HEAR, l.p->size), 0);
        GOP_TRY(gop_interrupted());
    }
    return GOP_OK;
}

static gop_status plan_alone(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    (void)ctx;
    plan_tiles(task, 1, 0, plan);
    return GOP_OK;
}

#endif
