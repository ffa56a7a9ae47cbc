/*
 * transpose.c - the CPU ladder of transpose: a permuted copy, by the size of an item.
 *
 * Floor: every item read once and written once. What makes it hard: neighbours in the input are
 * far apart in the output. Memory moves in lines of 64 bytes, so whatever order the loops take,
 * one side wastes most of every line, unless the elements of many lines are held together in
 * cache. Of all axes only two matter: x, the input's fastest, and y, the output's fastest.
 */
#include "cpu/cpu.h"
#include "cpu/stream.h"
#include "cpu/transpose_tiles.h"
#include "cpu/turn.h"

typedef void (*element_fn)(void *out, int64_t to, const void *in, int64_t from);
typedef void (*line_fn)(int64_t n, void *out, int64_t so, const void *in, int64_t si);
typedef void (*tile_fn)(const tiling *t, const tile *at);

/* ---- naive: the output element by element, each index taken apart axis by axis ---- */

static gop_status every_element(const gop_task *task, element_fn element)
{
    const gop_permutation *p = &task->geometry.permutation;
    for (int64_t i = 0; i < p->size; i++) {
        int64_t to = 0, from = 0, rest = i;
        for (int axis = p->rank - 1; axis >= 0; axis--) {
            const int64_t at = rest % p->extent[axis];
            rest /= p->extent[axis];
            to += at * p->out[axis];
            from += at * p->in[axis];
        }
        element(task->out[0].data, to, task->in[0].data, from);
        if (i % HEAR == HEAR - 1) GOP_TRY(gop_interrupted());
    }
    return GOP_OK;
}

/* ---- lines: for the calls whose fastest axis is the same on both sides ---- */

typedef struct lines {
    const gop_permutation *p;
    line_fn line;
    int64_t item;
    int stream; /* write past the caches */
    char *to;
    const char *from;
} lines;

/* Neighbours are streamed from where they lie; others are put side by side first. */
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

/* Elements [begin, end) in the output's order: the index is taken apart once, and then
 * advanced like an odometer. */
static void walk_lines(void *argument, int64_t begin, int64_t end, int worker)
{
    const lines *l = argument;
    const gop_permutation *p = l->p;
    const int inner = p->rank - 1;
    int64_t index[GOP_MAX_NDIM], to = 0, from = 0, rest = begin;
    (void)worker;
    for (int axis = inner; axis >= 0; axis--) {
        index[axis] = rest % p->extent[axis];
        rest /= p->extent[axis];
        to += index[axis] * p->out[axis];
        from += index[axis] * p->in[axis];
    }
    int64_t left = end - begin;
    int64_t n = p->extent[inner] - index[inner]; /* the first line may start in its middle */
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

/* ---- blocked, simd, streaming: tiles that fit the first-level cache, one thread ---- */

static gop_status alone(const gop_task *task, int64_t item, line_fn line, tile_fn copy,
                        int stream)
{
    const gop_permutation *g = &task->geometry.permutation;
    const int64_t bytes = gop_array_bytes(&task->out[0]);
    tiling t;
    lines l = {g, line, item, 0, task->out[0].data, task->in[0].data};
    const int tiled = find_tiles(task, item, &t);
    const int64_t items = tiled ? t.tiles : g->size, piece = tiled ? 32 : HEAR;
    l.stream = t.stream = stream && gop_streams(bytes);
    t.copy = copy;
    for (int64_t i = 0; i < items; i += piece) {
        if (tiled) walk_tiles(&t, i, smaller(i + piece, items), 0);
        else walk_lines(&l, i, smaller(i + piece, items), 0);
        GOP_TRY(gop_interrupted());
    }
    return GOP_OK;
}

/* ---- threaded: lines or tiles, dealt to the thread pool ----
 * Lines are dealt by whole pages of the output, so that no two threads clear the same page of
 * fresh memory. A tile touches many pages: they are cleared before. */

static gop_status threaded(const gop_task *task, int64_t item, line_fn line, tile_fn copy)
{
    const gop_permutation *g = &task->geometry.permutation;
    const int64_t bytes = gop_array_bytes(&task->out[0]);
    const int fresh = gop_is_fresh(task->out[0].data, bytes);
    tiling t;
    lines l = {g, line, item, 0, task->out[0].data, task->in[0].data};
    if (find_tiles(task, item, &t)) {
        if (fresh) GOP_TRY(gop_populate(task->out[0].data, bytes));
        t.stream = gop_streams(bytes);
        t.copy = copy;
        return gop_parallel(t.tiles, 1 + HEAR / (t.x.tile * t.y.tile), walk_tiles, &t);
    }
    l.stream = gop_streams(bytes) && !fresh;
    return gop_parallel(g->size, bytes < HUGE_FROM ? HEAR : HUGE_PAGE / item, walk_lines, &l);
}

/* ---- the bodies, once per item size ---- */

#define GOP_TPL "cpu/transpose_tpl.h"
#define D u8
#define LANES 16
#include GOP_TPL
#undef D
#undef LANES
#define D u16
#define LANES 8
#include GOP_TPL
#undef D
#undef LANES
#define D u32
#define LANES 4
#include GOP_TPL
#undef D
#undef LANES
#define D u64
#define LANES 2
#include GOP_TPL
#undef D
#undef LANES
#define D u128
#define LANES 1
#include GOP_TPL
#undef D
#undef LANES

/* ---- the table ---- */

/* In the order of the dtypes: bytes are all that counts. */
#define BY_SIZE(f)                                                                             \
    {                                                                                          \
        f##_u8, f##_u8, f##_u16, f##_u32, f##_u64, f##_u8, f##_u16, f##_u32, f##_u64, f##_u16, \
            f##_u16, f##_u32, f##_u64, f##_u64, f##_u128                                       \
    }

static const gop_row rows[] = {
    {
        .name = "naive",
        .note = "one element at a time in the output's order: reads use a few bytes of each "
                "cache line",
        .launch = BY_SIZE(transpose_naive),
    },
    {
        .name = "blocked",
        .note =
            "tile by tile: the lines of a tile stay in the first-level cache until they are "
            "used up",
        .launch = BY_SIZE(transpose_blocked),
    },
    {
        .name = "simd",
        .note = "squares of a tile turned in vector registers: 16 bytes in, 16 bytes out",
        .launch = BY_SIZE(transpose_simd),
    },
    {
        .name = "streaming",
        .note = "large outputs past the caches: a plain store would first read the line that "
                "it overwrites",
        .launch = BY_SIZE(transpose_streaming),
    },
    {
        .name = "threaded",
        .note = "tiles dealt to all cores: one core alone cannot fill the memory bus",
        .launch = BY_SIZE(transpose_threaded),
    },
};

const gop_ladder GOP_LADDER(transpose) = {sizeof rows / sizeof *rows, rows};
