/*
 * add.c - the CPU ladders of add, multiply_add and fma.
 *
 * Floor: every input read once, the output written once. The arithmetic is free beside that, so
 * the ladder is about walking memory: an index computed per element, then whole lines that the
 * compiler turns into vector loops, then stores that do not read what they overwrite, then
 * several threads, since one core cannot keep enough loads in flight to fill the memory bus.
 * There is no blocked kernel: nothing is used twice, so no cache could help.
 */
#include "cpu/cpu.h"
#include "cpu/stream.h"
#include "cpu/turn.h"

/* No element is read after another was written: an input may be the output's own memory, but
 * then element by element. The compiler cannot know, and would check at run time instead. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* at[] and offsets or strides in elements: out, then the inputs. */
typedef void (*element_fn)(void *const at[4], const int64_t offset[4]);
typedef void (*line_fn)(int64_t n, void *const at[4], const int64_t stride[4]);

static void operands(const gop_task *task, void *at[4])
{
    at[0] = task->out[0].data;
    for (int k = 1; k < 4; k++) at[k] = k <= task->nin ? task->in[k - 1].data : NULL;
}

/* ---- naive: element by element, each index taken apart axis by axis ---- */

enum { HEAR = 1 << 16 }; /* elements between two looks for Ctrl-C */

static gop_status every_element(const gop_task *task, element_fn element)
{
    const gop_elementwise *e = &task->geometry.elementwise;
    void *at[4];
    operands(task, at);
    for (int64_t i = 0; i < e->size; i++) {
        int64_t offset[4] = {0, 0, 0, 0};
        int64_t rest = i;
        for (int axis = e->rank - 1; axis >= 0; axis--) {
            const int64_t x = rest % e->extent[axis];
            rest /= e->extent[axis];
            for (int o = 0; o < e->operands; o++) offset[o] += x * e->stride[o][axis];
        }
        element(at, offset);
        if (i % HEAR == HEAR - 1) GOP_TRY(gop_interrupted());
    }
    return GOP_OK;
}

/* ---- simd: line by line along the innermost axis ---- */

typedef struct walk {
    const gop_elementwise *e;
    line_fn line;
    int64_t item;
    int stream;   /* write past the caches */
    int64_t lead; /* elements from the output's first page to its first element */
    void *at[4];
} walk;

enum { PIECE = 256 }; /* bytes computed before they are streamed: reads hardly pause */

/* A line of neighbours, computed into a buffer that the first-level cache holds, and streamed
 * from there. */
static void stream_line(const walk *w, int64_t n, char *const at[4], const int64_t stride[4])
{
    _Alignas(LINE) char buffer[PIECE];
    int64_t m = (PIECE - (int64_t)((uintptr_t)at[0] % LINE)) / w->item;
    for (int64_t i = 0; i < n; i += m, m = PIECE / w->item) {
        void *from[4] = {buffer};
        if (m > n - i) m = n - i;
        for (int o = 1; o < w->e->operands; o++) from[o] = at[o] + i * stride[o] * w->item;
        w->line(m, from, stride);
        stream_copy(at[0] + i * w->item, buffer, (size_t)(m * w->item));
    }
}

static void one_line(const walk *w, int64_t n, char *const at[4], const int64_t stride[4])
{
    if (w->stream && stride[0] == 1 && n * w->item >= STREAM_BUFFER)
        stream_line(w, n, at, stride);
    else w->line(n, (void *const[4]){at[0], at[1], at[2], at[3]}, stride);
}

/* Elements [begin, end), counted in the order of the axes: the index is taken apart once, and
 * then advanced like an odometer. */
static void walk_lines(void *argument, int64_t begin, int64_t end, int worker)
{
    const walk *w = argument;
    const gop_elementwise *e = w->e;
    const int inner = e->rank - 1;
    int64_t index[GOP_MAX_NDIM], stride[4] = {0, 0, 0, 0};
    char *at[4] = {w->at[0], w->at[1], w->at[2], w->at[3]};
    begin = begin > w->lead ? begin - w->lead : 0;
    end -= w->lead;
    int64_t rest = begin;
    (void)worker;
    if (begin >= end) return;
    for (int axis = inner; axis >= 0; axis--) {
        index[axis] = rest % e->extent[axis];
        rest /= e->extent[axis];
        for (int o = 0; o < e->operands; o++)
            at[o] += index[axis] * e->stride[o][axis] * w->item;
    }
    for (int o = 0; o < e->operands; o++) stride[o] = e->stride[o][inner];

    int64_t left = end - begin;
    int64_t n = e->extent[inner] - index[inner]; /* the first line may start in its middle */
    for (;;) {
        if (n > left) n = left;
        one_line(w, n, at, stride);
        left -= n;
        if (left == 0) break;
        for (int o = 0; o < e->operands; o++) at[o] -= index[inner] * stride[o] * w->item;
        index[inner] = 0;
        n = e->extent[inner];
        for (int axis = inner - 1; axis >= 0; axis--) {
            const int wraps = ++index[axis] == e->extent[axis];
            const int64_t steps = wraps ? 1 - e->extent[axis] : 1;
            for (int o = 0; o < e->operands; o++) at[o] += steps * e->stride[o][axis] * w->item;
            if (!wraps) break;
            index[axis] = 0;
        }
    }
    if (w->stream) stream_end();
}

/* An output that is an input too is in the caches by the time it is written. */
static int streams(const gop_task *task)
{
    for (int k = 0; k < task->nin; k++)
        if (task->in[k].data == task->out[0].data) return 0;
    const int64_t bytes = gop_array_bytes(&task->out[0]);
    return gop_streams(bytes) && !gop_is_fresh(task->out[0].data, bytes);
}

static gop_status every_line(const gop_task *task, line_fn line, int64_t item, int stream)
{
    walk w = {.e = &task->geometry.elementwise, .line = line, .item = item};
    w.stream = stream && streams(task);
    operands(task, w.at);
    for (int64_t i = 0; i < w.e->size; i += HEAR) {
        walk_lines(&w, i, i + HEAR < w.e->size ? i + HEAR : w.e->size, 0);
        GOP_TRY(gop_interrupted());
    }
    return GOP_OK;
}

/* ---- threaded: the same lines, dealt to the thread pool ----
 * A transposed operand has its neighbours along another axis, t. It is read in tiles of TILE_T
 * by TILE_I elements, along t, and put in line in a buffer: otherwise every element that a line
 * takes from it would fetch a whole cache line. */

enum {
    TILE_I = 512,
    TILE_BYTES = 64, /* along t: a cache line */
    LEAST = 16,      /* axes shorter than this are not worth a tile */
};

typedef void (*pack_fn)(int64_t nt, int64_t ni, void *tile, const void *from, int64_t st,
                        int64_t si);

typedef struct tiles {
    walk lines;
    pack_fn pack;
    int t; /* the axis beside the innermost one */
    int64_t tile_t;
    int turned[4]; /* which operands have their neighbours along it */
    int64_t tiles_t, tiles_i, batches;
} tiles;

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Fills the tiles, or returns 0 where no operand is transposed. */
static int find_tiles(const gop_elementwise *e, tiles *w)
{
    const int inner = e->rank - 1;
    int64_t least = INT64_MAX;
    w->t = -1;
    for (int o = 1; o < e->operands; o++)
        for (int axis = 0; axis < inner; axis++) {
            const int64_t stride = magnitude(e->stride[o][axis]);
            if (stride == 0 || e->extent[axis] < LEAST || e->extent[inner] < LEAST) continue;
            if (2 * stride > magnitude(e->stride[o][inner]) || stride >= least) continue;
            least = stride;
            w->t = axis;
        }
    if (w->t < 0) return 0;
    for (int o = 1; o < e->operands; o++) {
        const int64_t along = magnitude(e->stride[o][w->t]);
        w->turned[o] = along != 0 && 2 * along <= magnitude(e->stride[o][inner]);
    }
    w->tile_t = TILE_BYTES / w->lines.item;
    w->tiles_t = (e->extent[w->t] + w->tile_t - 1) / w->tile_t;
    w->tiles_i = (e->extent[inner] + TILE_I - 1) / TILE_I;
    w->batches = 1;
    for (int axis = 0; axis < inner; axis++)
        if (axis != w->t) w->batches *= e->extent[axis];
    return 1;
}

static void walk_tiles(void *argument, int64_t begin, int64_t end, int worker)
{
    const tiles *w = argument;
    const gop_elementwise *e = w->lines.e;
    const int inner = e->rank - 1, t = w->t;
    const int64_t item = w->lines.item;
    _Alignas(64) char buffer[3][TILE_BYTES * TILE_I];
    (void)worker;
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t rest = tile / w->tiles_i;
        const int64_t t0 = rest % w->tiles_t * w->tile_t, i0 = tile % w->tiles_i * TILE_I;
        const int64_t nt = smaller(w->tile_t, e->extent[t] - t0);
        const int64_t ni = smaller(TILE_I, e->extent[inner] - i0);
        char *at[4] = {0};
        int64_t step[4] = {0}, stride[4] = {0}; /* from line to line, and along a line */
        rest /= w->tiles_t;
        for (int o = 0; o < e->operands; o++) {
            at[o] = w->lines.at[o];
            at[o] += (t0 * e->stride[o][t] + i0 * e->stride[o][inner]) * item;
            step[o] = e->stride[o][t] * item;
            stride[o] = e->stride[o][inner];
        }
        for (int axis = inner - 1; axis >= 0; axis--) {
            if (axis == t) continue;
            const int64_t x = rest % e->extent[axis];
            rest /= e->extent[axis];
            for (int o = 0; o < e->operands; o++) at[o] += x * e->stride[o][axis] * item;
        }
        for (int o = 1; o < e->operands; o++) {
            if (!w->turned[o]) continue;
            w->pack(nt, ni, buffer[o - 1], at[o], e->stride[o][t], e->stride[o][inner]);
            at[o] = buffer[o - 1];
            step[o] = TILE_I * item;
            stride[o] = 1;
        }
        for (int64_t k = 0; k < nt; k++) {
            one_line(&w->lines, ni, at, stride);
            for (int o = 0; o < e->operands; o++) at[o] += step[o];
        }
    }
    if (w->lines.stream) stream_end();
}

/* Elements of a piece. A large output may be fresh memory, whose pages are cleared when they
 * are first written: pieces of whole pages let no two threads clear the same one. */
static int64_t piece_of(walk *w)
{
    const gop_elementwise *e = w->e;
    if (e->size * w->item < HUGE_FROM || e->stride[0][e->rank - 1] != 1) return HEAR;
    w->lead = (int64_t)((uintptr_t)w->at[0] % HUGE_PAGE) / w->item;
    return HUGE_PAGE / w->item;
}

static gop_status every_line_threaded(const gop_task *task, line_fn line, pack_fn pack,
                                      int64_t item)
{
    const gop_elementwise *e = &task->geometry.elementwise;
    tiles w = {.lines = {.e = e, .line = line, .item = item}, .pack = pack};
    w.lines.stream = streams(task);
    operands(task, w.lines.at);
    if (!find_tiles(e, &w)) {
        const int64_t piece = piece_of(&w.lines);
        return gop_parallel(e->size + w.lines.lead, piece, walk_lines, &w.lines);
    }
    return gop_parallel(w.batches * w.tiles_t * w.tiles_i, HEAR / (w.tile_t * TILE_I),
                        walk_tiles, &w);
}

/* ---- the bodies, once per dtype, and the tables ---- */

#define GOP_TPL "cpu/add_tpl.h"
#include "cpu/each_dtype.h"

#define ROWS(op, table)                                                                        \
    static const gop_row op##_rows[] = {                                                       \
        {                                                                                      \
            .name = "naive",                                                                   \
            .note =                                                                            \
                "one element at a time; its place in each array by division, axis by axis",    \
            .launch = table(op##_naive),                                                       \
        },                                                                                     \
        {                                                                                      \
            .name = "simd",                                                                    \
            .note = "whole lines along the innermost axis: vector registers do 16 to 64 "      \
                    "bytes at once",                                                           \
            .launch = table(op##_simd),                                                        \
        },                                                                                     \
        {                                                                                      \
            .name = "streaming",                                                               \
            .note = "large outputs past the caches: a plain store would first read the line "  \
                    "that it overwrites",                                                      \
            .launch = table(op##_streaming),                                                   \
        },                                                                                     \
        {                                                                                      \
            .name = "threaded",                                                                \
            .note = "lines dealt to all cores: one core alone cannot fill the memory bus",     \
            .launch = table(op##_threaded),                                                    \
        },                                                                                     \
    };                                                                                         \
    const gop_ladder GOP_LADDER(op) = {sizeof op##_rows / sizeof *op##_rows, op##_rows}

ROWS(add, GOP_FN_ALL);
ROWS(multiply_add, GOP_FN_ALL);
ROWS(fma, GOP_FN_FLOATS);
