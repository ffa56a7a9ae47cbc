/*
 * transpose_tiles.h - cuts a permutation into tiles that are read and written in runs.
 *
 * Of all axes two matter: the input's fastest and the output's fastest. Where they are short,
 * the next ones join them as long as memory goes on without a gap, so that eight axes of eight
 * have tiles as good as two long ones. So a tile has two sides: x, a run of the input whose
 * elements lie anywhere in the output, and y, a run of the output whose elements lie anywhere
 * in the input. Where, is a table of offsets for each side.
 */
#ifndef GOP_CPU_TRANSPOSE_TILES_H
#define GOP_CPU_TRANSPOSE_TILES_H

#include "cpu/cpu.h"
#include "cpu/stream.h"

enum {
    HEAR = 1 << 16,       /* elements between two looks for Ctrl-C */
    TILE_BYTES = 1 << 14, /* of a tile: half of a first-level cache */
    TILE_SIDE = 1024,     /* elements of a side, at most */
    THIN_SIDE = 8,        /* elements of a whole side that tiles span */
    THIN_BYTES = 1 << 11, /* of such a tile */
    SMALL_TILE = 32,      /* tiles of fewer elements are walked line by line */
};

typedef struct side {
    int rank; /* fastest axis first */
    int64_t extent[GOP_MAX_NDIM];
    int64_t far[GOP_MAX_NDIM]; /* strides in the array where it is no run */
    int64_t near;              /* stride in the other one */
    int64_t size, tile, tiles;
    int64_t peel; /* the first tile ends where a line of memory begins; 0: nothing to peel */
} side;

typedef struct tile tile;

typedef struct tiling {
    side x, y;
    int rank; /* of the axes that no tile spans */
    int64_t extent[GOP_MAX_NDIM], in[GOP_MAX_NDIM], out[GOP_MAX_NDIM];
    int64_t tiles, item;
    int stream; /* write past the caches */
    char *to;
    const char *from;
    void (*copy)(const struct tiling *t, const tile *at);
} tiling;

struct tile {
    int64_t x, y, nx, ny;
    void *to;
    const void *from;
    const void *next; /* where the next tile is read, or NULL */
    int64_t out_x[TILE_SIDE + 16], in_y[TILE_SIDE + 16]; /* from the tile's first element */
};

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- planning ---- */

/* The input's fastest axis; one that is broadcast is read in no order at all. */
static int input_fastest(const gop_permutation *p)
{
    int x = p->rank - 1;
    for (int axis = p->rank - 1; axis >= 0; axis--)
        if (p->in[axis] != 0 && (p->in[x] == 0 || magnitude(p->in[axis]) < magnitude(p->in[x])))
            x = axis;
    return x;
}

static void join(side *s, const gop_permutation *g, int axis, const int64_t *far,
                 uint64_t *taken)
{
    s->extent[s->rank] = g->extent[axis];
    s->far[s->rank++] = far[axis];
    s->size *= g->extent[axis];
    *taken |= (uint64_t)1 << axis;
}

/* Axes that go on where the run ends, until it has so many bytes. */
static void lengthen(side *s, const gop_permutation *g, const int64_t *near, const int64_t *far,
                     int64_t elements, uint64_t *taken)
{
    for (int axis = g->rank - 1; axis >= 0 && s->size < elements; axis--) {
        if (*taken >> axis & 1 || near[axis] != s->near * s->size) continue;
        join(s, g, axis, far, taken);
        axis = g->rank; /* look again: the next one may stand anywhere */
    }
}

/* The other side of a tile that has all of a thin one. If it is one run of memory on the far
 * side as well, nothing is lost where tiles are small, and the processor writes one while it
 * reads the next. */
static void shorten(side *s, const side *thin, int64_t item)
{
    if (thin->tile < thin->size || thin->size > THIN_SIDE || s->far[0] != thin->size) return;
    s->tile = smaller(s->tile, THIN_BYTES / item / thin->size);
}

/* Tiles of whole lines, from where the run's lines begin. Tiles shorter than a line stay as
 * they are: what is peeled must not be longer than a tile. */
static void cut(side *s, const void *memory, int64_t item)
{
    const int64_t past = (int64_t)((uintptr_t)memory % LINE), line = LINE / item;
    s->peel = 0;
    if (s->tile < s->size && s->tile >= line) s->tile -= s->tile % line;
    if (s->tile >= line && 4 * s->tile < s->size && past) s->peel = (LINE - past) / item;
    s->tiles = (s->peel > 0) + (s->size - s->peel + s->tile - 1) / s->tile;
}

/* Fills the tiling, or returns 0 where lines serve better: where the fastest axis is the same
 * on both sides, or the tiles would be tiny. A side shorter than the tile's leaves its room to
 * the other: a thin array still has full tiles. */
static int find_tiles(const gop_task *task, int64_t item, tiling *t)
{
    gop_permutation g = task->geometry.permutation;
    const int x = input_fastest(&g), y = g.rank - 1;
    const int64_t line = LINE / item, elements = TILE_BYTES / item;
    int64_t run = smaller(2 * line, 32) > line ? 2 * line : line; /* lines come in pairs */
    uint64_t taken = 0;
    if (x == y) return 0;
    t->to = task->out[0].data;
    t->from = task->in[0].data;
    if (g.in[x] < 0) { /* the input backwards is the output backwards */
        t->from += (g.extent[x] - 1) * g.in[x] * item;
        t->to += (g.extent[x] - 1) * g.out[x] * item;
        g.in[x] = -g.in[x];
        g.out[x] = -g.out[x];
    }
    if (g.in[x] > 1) run = run / g.in[x] > line / 4 ? run / g.in[x] : line / 4;
    t->x = (side){.near = g.in[x], .size = 1};
    t->y = (side){.near = g.out[y], .size = 1};
    join(&t->x, &g, x, g.out, &taken);
    join(&t->y, &g, y, g.in, &taken);
    lengthen(&t->x, &g, g.in, g.out, line, &taken);
    lengthen(&t->y, &g, g.out, g.in, line, &taken);
    lengthen(&t->x, &g, g.in, g.out, run, &taken);
    lengthen(&t->y, &g, g.out, g.in, elements / run, &taken);
    if (t->x.size * t->y.size < SMALL_TILE) return 0;

    t->rank = 0;
    t->tiles = 1;
    for (int axis = 0; axis < g.rank; axis++) {
        if (taken >> axis & 1) continue;
        t->extent[t->rank] = g.extent[axis];
        t->in[t->rank] = g.in[axis];
        t->out[t->rank++] = g.out[axis];
        t->tiles *= g.extent[axis];
    }
    t->item = item;
    t->x.tile = smaller(t->x.size, run);
    t->y.tile = smaller(smaller(t->y.size, elements / t->x.tile), TILE_SIDE);
    t->x.tile = smaller(smaller(t->x.size, elements / t->y.tile), TILE_SIDE);
    shorten(&t->y, &t->x, item);
    shorten(&t->x, &t->y, item);
    cut(&t->x, t->from, item);
    cut(&t->y, t->to, item);
    t->tiles *= t->x.tiles * t->y.tiles;
    t->stream = 0;
    return 1;
}

/* ---- walking ---- */

static int64_t far_of(const side *s, int64_t i)
{
    int64_t offset = 0;
    for (int axis = 0; axis < s->rank; axis++) {
        offset += i % s->extent[axis] * s->far[axis];
        i /= s->extent[axis];
    }
    return offset;
}

/* Offsets of n elements of a side from its element `first`. */
static void fill_table(const side *s, int64_t first, int64_t n, int64_t *table)
{
    int64_t index[GOP_MAX_NDIM], at = 0, rest = first;
    for (int axis = 0; axis < s->rank; axis++) {
        index[axis] = rest % s->extent[axis];
        rest /= s->extent[axis];
    }
    for (int64_t i = 0; i < n;) {
        const int64_t left = smaller(s->extent[0] - index[0], n - i);
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

static void tile_of(const side *s, int64_t k, int64_t *first, int64_t *n)
{
    const int64_t head = s->peel ? s->peel : s->tile;
    *first = k ? head + (k - 1) * s->tile : 0;
    *n = smaller(k ? s->tile : head, s->size - *first);
}

/* Tiles along x follow each other: their rows of the input follow each other in memory. */
static void place(const tiling *t, int64_t number, tile *at)
{
    int64_t rest = number / t->x.tiles / t->y.tiles;
    tile_of(&t->x, number % t->x.tiles, &at->x, &at->nx);
    tile_of(&t->y, number / t->x.tiles % t->y.tiles, &at->y, &at->ny);
    int64_t to = far_of(&t->x, at->x) + at->y * t->y.near;
    int64_t from = at->x * t->x.near + far_of(&t->y, at->y);
    for (int axis = t->rank - 1; axis >= 0; axis--) {
        const int64_t i = rest % t->extent[axis];
        rest /= t->extent[axis];
        to += i * t->out[axis];
        from += i * t->in[axis];
    }
    at->to = t->to + to * t->item;
    at->from = t->from + from * t->item;
}

/* Tiles [begin, end). A table holds for the next tile too, if that is as long and begins at the
 * same element, or wherever there is one axis alone. */
static void walk_tiles(void *argument, int64_t begin, int64_t end, int worker)
{
    const tiling *t = argument;
    tile now, next;
    int64_t nx = 0, ny = 0; /* filled */
    (void)worker;
    now.x = now.y = -1;
    place(t, begin, &next);
    for (int64_t number = begin; number < end; number++) {
        const int64_t x = now.x, y = now.y;
        now.x = next.x, now.y = next.y, now.nx = next.nx, now.ny = next.ny;
        now.to = next.to, now.from = next.from;
        if (nx < now.nx || (t->x.rank > 1 && x != now.x))
            fill_table(&t->x, now.x, nx = now.nx, now.out_x);
        if (ny < now.ny || (t->y.rank > 1 && y != now.y))
            fill_table(&t->y, now.y, ny = now.ny, now.in_y);
        if (number + 1 < end) place(t, number + 1, &next);
        now.next = number + 1 < end && (t->y.rank == 1 || next.y == now.y) ? next.from : NULL;
        t->copy(t, &now);
    }
    if (t->stream) stream_end();
}

#endif
