/*
 * tiles.h - cuts a permutation into tiles that are read and written in contiguous runs.
 *
 * Two axes matter: the fastest of the input and of the output. If one is short, further axes
 * that continue it without a gap join it, so that eight axes of eight have tiles as good as two
 * long axes. So a tile has two sides: x, a run that is contiguous in the input, and y, a run
 * that is contiguous in the output. A table for each side holds the offsets in the other array.
 */
#ifndef GOP_CPU_TRANSPOSE_TILES_H
#define GOP_CPU_TRANSPOSE_TILES_H

#include "cpu/runtime/cpu.h"
#include "cpu/runtime/stream.h"
#include "cpu/transpose/blocks.h"

enum {
    TILE_BYTES = 1 << 14,   /* bytes of a tile: half of an L1 cache */
    TILE_SIDE = 1024,       /* most elements of a side */
    SMALL_BYTES = 1 << 17,  /* bytes of an output that L2 holds beside the input, */
    CACHED_BYTES = 1 << 19, /* and of one that it holds if rows fall into different sets */
    THIN_SIDE = 8,          /* elements of a whole side that tiles span */
    THIN_BYTES = 1 << 11,   /* of such a tile */
    SMALL_TILE = 32,        /* elements of a tile, below which lines are copied instead, */
    BLOCK_TILE = 256,       /* or blocks, if there are any (is_thin) */
    THIN = 4,               /* elements of a run of the input, below which blocks are */
    CRUMB = 16,             /* bytes of a row of the output, below which blocks are */
    SIDE_AXES = 16,         /* most axes of a side; axes of one element do not count */
    ONE_BYTES = 1 << 12,    /* of a tile that is all of a call, with its room on the stack */
    ONE_SIDE = 128,         /* elements of its sides */
};

typedef struct side {
    int rank; /* axes, fastest first */
    int64_t extent[SIDE_AXES];
    int64_t far[SIDE_AXES]; /* strides in the array in which it is not contiguous */
    int64_t near;           /* stride in the other array */
    int64_t size, tile;
} side;

/* A kernel's plan. */
typedef struct tiling {
    int tiled;  /* 0: blocks or lines serve better */
    int one;    /* there is one tile, and it is small */
    int stream; /* write past the caches */
    int small;  /* the L2 cache holds both arrays: tiles need no buffer */
    int cached; /* so it does if the output's rows fall into different cache sets */
    int workers;
    int64_t piece; /* elements that a thread takes at a time */
    side x, y;
    int rank; /* number of the axes outside tiles */
    int64_t extent[GOP_MAX_NDIM], in[GOP_MAX_NDIM], out[GOP_MAX_NDIM];
    int64_t outer, item; /* elements of these axes; bytes of an item */
    int64_t to, from;    /* byte offsets of the first tile in the arrays */
    blocking blocks;     /* used instead of tiles and rows */
} tiling;

/* Scratch of a worker. Offsets are relative to the tile's first element. */
typedef struct room {
    _Alignas(LINE) char buffer[2 * TILE_BYTES + 2 * LINE]; /* a transposed tile */
    int64_t out_x[TILE_SIDE + 16], in_y[TILE_SIDE + 16];
} room;

typedef struct tile {
    int64_t x, y, nx, ny; /* the first element of each side; elements of each side */
    void *to;
    const void *from;
    const void *next; /* where the next tile is read, or NULL */
    const int64_t *out_x, *in_y;
    char *buffer;
} tile;

typedef void (*tile_fn)(const tiling *t, const tile *at);

/* A call: the plan and its memory. The first tile of a side may be shorter, so that the others
 * start at a cache line. */
typedef struct tiles {
    const tiling *t;
    tile_fn copy;
    char *to;
    const char *from;
    room *rooms;            /* one for each worker */
    int64_t head_x, head_y; /* elements of the shorter first tile; 0: there is none */
    int64_t tiles_x, tiles_y, count;
    int64_t groups, wide; /* groups of tiles along x; tiles of a group, the last has the rest */
} tiles;

/* ---- planning ---- */

/* The input's fastest axis, not counting broadcast axes. */
static int input_fastest(const gop_permutation *p)
{
    int x = p->rank - 1;
    for (int axis = p->rank - 1; axis >= 0; axis--)
        if (p->in[axis] != 0 &&
            (p->in[x] == 0 || gop_magnitude(p->in[axis]) < gop_magnitude(p->in[x])))
            x = axis;
    return x;
}

/* Appends an axis to a side. `far`: the strides in the array in which it is not contiguous. */
static void join(side *s, const gop_permutation *g, int axis, const int64_t *far,
                 uint64_t *taken)
{
    s->extent[s->rank] = g->extent[axis];
    s->far[s->rank++] = far[axis];
    s->size *= g->extent[axis];
    *taken |= (uint64_t)1 << axis;
}

/* Adds axes that continue the run in memory, until it has `elements` elements. */
static void lengthen(side *s, const gop_permutation *g, const int64_t *near, const int64_t *far,
                     int64_t elements, uint64_t *taken)
{
    for (int axis = g->rank - 1; axis >= 0 && s->size < elements; axis--) {
        if (*taken >> axis & 1 || near[axis] != s->near * s->size) continue;
        join(s, g, axis, far, taken);
        axis = g->rank; /* start again: the next one may be anywhere */
    }
}

/* Shortens the other side of a tile that spans all of a thin side. If the thin side is
 * contiguous in both arrays, small tiles lose nothing, and the processor writes one while it
 * reads the next. */
static void shorten(side *s, const side *thin, int64_t item)
{
    if (thin->tile < thin->size || thin->size > THIN_SIDE || s->far[0] != thin->size) return;
    s->tile = gop_smaller(s->tile, THIN_BYTES / item / thin->size);
}

/* Rounds a tile down to whole cache lines, unless it is shorter than a line. */
static void whole_lines(side *s, int64_t item)
{
    const int64_t line = LINE / item;
    if (s->tile < s->size && s->tile >= line) s->tile -= s->tile % line;
}

/* Fills the tiling. Returns 0 if rows are faster: if the fastest axis is the same in both
 * arrays, or tiles would be tiny. If one side is short, the other is longer, so a thin array
 * has full tiles. */
static int find_tiles(const gop_task *task, int64_t item, tiling *t)
{
    const gop_permutation *const p = &task->geometry.permutation;
    const int x = input_fastest(p), y = p->rank - 1;
    const size_t axes = (size_t)p->rank * sizeof *p->extent;
    gop_permutation g; /* of its long arrays only what is used */
    const int64_t line = LINE / item, elements = TILE_BYTES / item;
    int64_t run = gop_smaller(2 * line, 32) > line ? 2 * line : line; /* pairs of lines */
    uint64_t taken = 0;
    if (x == y) return 0;
    g.rank = p->rank;
    memcpy(g.extent, p->extent, axes);
    memcpy(g.in, p->in, axes);
    memcpy(g.out, p->out, axes);
    if (g.in[x] < 0) { /* the input backwards is the output backwards */
        t->from = (g.extent[x] - 1) * g.in[x] * item;
        t->to = (g.extent[x] - 1) * g.out[x] * item;
        g.in[x] = -g.in[x];
        g.out[x] = -g.out[x];
    }
    if (g.in[x] > 1) run = run / g.in[x] > line / 4 ? run / g.in[x] : line / 4;
    t->x = (side){.near = g.in[x], .size = 1};
    t->y = (side){.near = g.out[y], .size = 1};
    join(&t->x, &g, x, g.out, &taken);
    join(&t->y, &g, y, g.in, &taken);
    if (t->y.size < t->x.size) lengthen(&t->y, &g, g.out, g.in, line, &taken);
    lengthen(&t->x, &g, g.in, g.out, line, &taken);
    lengthen(&t->y, &g, g.out, g.in, line, &taken);
    lengthen(&t->x, &g, g.in, g.out, run, &taken);
    lengthen(&t->y, &g, g.out, g.in, elements / run, &taken);
    if (t->x.size * t->y.size < SMALL_TILE) return 0;

    t->outer = 1;
    for (int axis = 0; axis < g.rank; axis++) {
        if (taken >> axis & 1) continue;
        t->extent[t->rank] = g.extent[axis];
        t->in[t->rank] = g.in[axis];
        t->out[t->rank++] = g.out[axis];
        t->outer *= g.extent[axis];
    }
    t->x.tile = gop_smaller(t->x.size, run);
    t->y.tile = gop_smaller(gop_smaller(t->y.size, elements / t->x.tile), TILE_SIDE);
    t->x.tile = gop_smaller(gop_smaller(t->x.size, elements / t->y.tile), TILE_SIDE);
    shorten(&t->y, &t->x, item);
    shorten(&t->x, &t->y, item);
    whole_lines(&t->x, item);
    whole_lines(&t->y, item);
    return 1;
}

/* Whether the call is one tile that is small enough for buffers on the stack. */
static int is_one(const tiling *t)
{
    return t->outer == 1 && t->x.tile == t->x.size && t->y.tile == t->y.size &&
           t->x.size <= ONE_SIDE && t->y.size <= ONE_SIDE &&
           t->x.size * t->y.size * t->item <= ONE_BYTES;
}

/* Whether blocks, if there are any, are faster than tiles. They are if a tile has few elements
 * or a short run of the input, unless these runs follow each other in memory (parts). And they
 * are if the output's rows have a few bytes each and do not follow each other (crumbs). */
static int is_thin(const tiling *t)
{
    const int parts = t->y.rank == 1 && t->y.far[0] == t->x.tile && t->x.tile <= THIN;
    const int crumbs = t->y.tile * t->item < CRUMB && t->x.far[0] != t->y.tile;
    if (t->one && t->x.near == 1 && t->x.tile > THIN && t->y.tile > THIN) return 0;
    return crumbs || (!parts && (t->x.tile < THIN || t->x.tile * t->y.tile < BLOCK_TILE));
}

/* Plans a call for `workers` workers, each with a room if there are tiles. */
static void plan_tiles(const gop_task *task, int workers, int stream, gop_plan *plan)
{
    tiling *const t = GOP_OWN(tiling, plan);
    t->item = gop_dtype_size(task->in[0].dtype);
    t->workers = workers;
    t->rank = 0;
    t->to = t->from = 0;
    t->small = gop_array_bytes(&task->out[0]) <= SMALL_BYTES;
    t->cached = gop_array_bytes(&task->out[0]) <= CACHED_BYTES;
    t->stream = stream && gop_streams(gop_array_bytes(&task->out[0]));
    t->tiled = find_tiles(task, t->item, t);
    t->one = t->tiled && is_one(t);
    t->blocks.count = 0;
    if (!t->tiled || is_thin(t)) find_blocks(&task->geometry.permutation, t->item, &t->blocks);
    t->tiled &= t->blocks.count == 0;
    t->one &= t->tiled;
    plan->scratch = t->tiled          ? (size_t)workers * sizeof(room)
                    : t->blocks.count ? BLOCK * sizeof(int32_t)
                                      : 0;
}

/* ---- walking ---- */

/* The offset of element i of a side in the array in which the side is not contiguous. */
static int64_t far_of(const side *s, int64_t i)
{
    int64_t offset = 0;
    for (int axis = 0; axis < s->rank; axis++) {
        offset += i % s->extent[axis] * s->far[axis];
        i /= s->extent[axis];
    }
    return offset;
}

/* Fills the table with the offsets of n elements of a side, relative to its element `first`. */
static void fill_table(const side *s, int64_t first, int64_t n, int64_t *table)
{
    int64_t index[GOP_MAX_NDIM], at = 0, rest = first;
    for (int axis = 0; axis < s->rank; axis++) {
        index[axis] = rest % s->extent[axis];
        rest /= s->extent[axis];
    }
    for (int64_t i = 0; i < n;) {
        const int64_t left = gop_smaller(s->extent[0] - index[0], n - i);
        for (int64_t k = 0; k < left; k++) table[i + k] = at + k * s->far[0];
        i += left;
        at -= index[0] * s->far[0];
        index[0] = 0;
        for (int axis = 1; axis < s->rank; axis++) {
            at += s->far[axis];
            if (++index[axis] < s->extent[axis]) break;
            at -= s->extent[axis] * s->far[axis];
            index[axis] = 0;
        }
    }
}

/* Sets the first element and the length of tile k of a side. */
static void tile_of(const side *s, int64_t head, int64_t k, int64_t *first, int64_t *n)
{
    const int64_t front = head ? head : s->tile;
    *first = k ? front + (k - 1) * s->tile : 0;
    *n = gop_smaller(k ? s->tile : front, s->size - *first);
}

/* Elements of a shorter first tile, after which the next one starts at a cache line. Sides with
 * tiles shorter than a line have none, because the first tile must not be longer than a tile.
 */
static int64_t head_of(const side *s, const void *memory, int64_t item)
{
    const int64_t past = (int64_t)((uintptr_t)memory % LINE);
    const int has_one = s->tile >= LINE / item && 4 * s->tile < s->size && past;
    return has_one ? (LINE - past) / item : 0;
}

/* The number of tiles of a side. */
static int64_t count_of(const side *s, int64_t head)
{
    return (head > 0) + (s->size - head + s->tile - 1) / s->tile;
}

static tiles tiles_of(const gop_task *task, tile_fn copy)
{
    const tiling *const t = GOP_OWN(const tiling, task->plan);
    tiles call = {.t = t, .copy = copy, .rooms = task->scratch};
    call.to = (char *)task->out[0].data + t->to;
    call.from = (const char *)task->in[0].data + t->from;
    call.head_x = head_of(&t->x, call.from, t->item);
    call.head_y = head_of(&t->y, call.to, t->item);
    call.tiles_x = count_of(&t->x, call.head_x);
    call.tiles_y = count_of(&t->y, call.head_y);
    call.count = t->outer * call.tiles_x * call.tiles_y;
    call.groups = 1;
    call.wide = call.tiles_x;
    return call;
}

/* A call of one tile: sharing it out costs more than the tile itself. */
static void copy_one(const gop_task *task, tile_fn copy)
{
    const tiling *const t = GOP_OWN(const tiling, task->plan);
    _Alignas(LINE) char buffer[2 * ONE_BYTES + 2 * LINE];
    int64_t out_x[ONE_SIDE + 16], in_y[ONE_SIDE + 16];
    tile at = {.nx = t->x.size, .ny = t->y.size, .out_x = out_x, .in_y = in_y};
    at.to = (char *)task->out[0].data + t->to;
    at.from = (const char *)task->in[0].data + t->from;
    at.buffer = buffer;
    fill_table(&t->x, 0, at.nx, out_x);
    fill_table(&t->y, 0, at.ny, in_y);
    copy(t, &at);
}

static uint64_t longest_stride(int rank, const int64_t *stride)
{
    uint64_t found = 0;
    for (int axis = 0; axis < rank; axis++)
        if (gop_magnitude(stride[axis]) > found) found = gop_magnitude(stride[axis]);
    return found;
}

/* Groups tiles so that threads write distant parts of the output: if its outermost axis is in
 * x, each thread gets a group of tiles along x. */
static void split(tiles *call)
{
    const tiling *const t = call->t;
    const int outside = longest_stride(t->x.rank, t->x.far) > longest_stride(t->rank, t->out);
    call->groups = outside ? gop_smaller(t->workers, call->tiles_x) : 1;
    call->wide = call->tiles_x / call->groups;
}

/* Finds tile `number` of the call. Consecutive tiles go along x, so that their rows in the
 * input are contiguous. */
static void place(const tiles *call, int64_t number, tile *at)
{
    const tiling *const t = call->t;
    const int64_t last = call->groups - 1, each = call->wide * call->tiles_y * t->outer;
    const int64_t group = last > 0 ? gop_smaller(number / each, last) : 0;
    const int64_t wide = group < last ? call->wide : call->tiles_x - last * call->wide;
    int64_t rest = number - group * each;
    tile_of(&t->x, call->head_x, group * call->wide + rest % wide, &at->x, &at->nx);
    rest /= wide;
    tile_of(&t->y, call->head_y, rest % call->tiles_y, &at->y, &at->ny);
    rest /= call->tiles_y;
    int64_t index[GOP_MAX_NDIM];
    gop_unravel(rest, t->rank, t->extent, index);
    const int64_t to =
        far_of(&t->x, at->x) + at->y * t->y.near + gop_offset(t->rank, index, t->out);
    const int64_t from =
        at->x * t->x.near + far_of(&t->y, at->y) + gop_offset(t->rank, index, t->in);
    at->to = call->to + to * t->item;
    at->from = call->from + from * t->item;
}

/* Runs tiles [begin, end). A table is reused for the next tile if that is not longer and starts
 * at the same element; or anywhere, if the side has only one axis. */
static void walk_tiles(void *argument, int64_t begin, int64_t end, int worker)
{
    const tiles *const call = argument;
    const tiling *const t = call->t;
    room *const own = call->rooms + worker;
    tile now, next = {.out_x = own->out_x, .in_y = own->in_y, .buffer = own->buffer};
    int64_t nx = 0, ny = 0; /* entries that are filled */
    now.x = now.y = -1;
    place(call, begin, &next);
    for (int64_t number = begin; number < end; number++) {
        const int64_t x = now.x, y = now.y;
        now = next;
        if (nx < now.nx || (t->x.rank > 1 && x != now.x))
            fill_table(&t->x, now.x, nx = now.nx, own->out_x);
        if (ny < now.ny || (t->y.rank > 1 && y != now.y))
            fill_table(&t->y, now.y, ny = now.ny, own->in_y);
        if (number + 1 < end) place(call, number + 1, &next);
        now.next = number + 1 < end && (t->y.rank == 1 || next.y == now.y) ? next.from : NULL;
        call->copy(t, &now);
    }
    if (t->stream) stream_end();
}

#endif
