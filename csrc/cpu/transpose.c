/*
 * transpose.c - the CPU ladder of transpose: a permuted copy, by the size of an item.
 *
 * Floor: every item read once and written once. What makes it hard: neighbours in the input are
 * far apart in the output. Memory moves in lines of 64 bytes, so whatever order the loops take,
 * one side wastes most of every line, unless the elements of many lines are held together in
 * cache. Of all axes only two matter: x, the input's fastest, and y, the output's fastest.
 */
#include "cpu/cpu.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    HEAR = 1 << 16,         /* elements between two looks for Ctrl-C */
    LINE = 64,              /* bytes of a cache line */
    TILE_BYTES = 1 << 14,   /* of a tile: half of a first-level cache */
    SMALL_PLANE = 32,       /* planes of fewer elements are walked line by line */
    STREAM_BYTES = 1 << 23, /* outputs this large would only drive useful data out of caches */
};

typedef void (*element_fn)(void *out, int64_t to, const void *in, int64_t from);
typedef void (*line_fn)(int64_t n, void *out, int64_t so, const void *in, int64_t si);

/* The two axes that matter, cut into tiles, and the rest as a batch. */
typedef struct plane {
    int64_t nx, ny, in_x, in_y, out_x, out_y;
    int64_t tile_x, tile_y; /* elements of a tile */
    int64_t peel;           /* the first tile in y ends where the output's lines begin */
    int64_t tiles_x, tiles_y, batches;
    int rank; /* of the batch */
    int64_t extent[GOP_MAX_NDIM], in[GOP_MAX_NDIM], out[GOP_MAX_NDIM];
    int stream; /* write past the caches */
    int64_t item;
    char *to;
    const char *from;
    void (*copy)(const struct plane *p, void *out, const void *in, int64_t nx, int64_t ny);
} plane;

typedef void (*tile_fn)(const plane *p, void *out, const void *in, int64_t nx, int64_t ny);

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
    char *to;
    const char *from;
} lines;

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
        l->line(n, l->to + to * l->item, p->out[inner], l->from + from * l->item, p->in[inner]);
        left -= n;
        if (left == 0) return;
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
}

/* ---- tiles ---- */

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The input's fastest axis; one that is broadcast is read in no order at all. */
static int input_fastest(const gop_permutation *p)
{
    int x = p->rank - 1;
    for (int axis = p->rank - 1; axis >= 0; axis--)
        if (p->in[axis] != 0 && (p->in[x] == 0 || magnitude(p->in[axis]) < magnitude(p->in[x])))
            x = axis;
    return x;
}

/* Fills the plane, or returns 0 where lines serve better. A side shorter than the tile's leaves
 * its room to the other: a thin plane still has full tiles. */
static int find_plane(const gop_task *task, int64_t item, int64_t elements, plane *p)
{
    const gop_permutation *g = &task->geometry.permutation;
    const int x = input_fastest(g), y = g->rank - 1;
    if (x == y || g->extent[x] * g->extent[y] < SMALL_PLANE) return 0;
    p->nx = g->extent[x], p->in_x = g->in[x], p->out_x = g->out[x];
    p->ny = g->extent[y], p->in_y = g->in[y], p->out_y = g->out[y];
    p->rank = 0;
    p->batches = 1;
    for (int axis = 0; axis < y; axis++) {
        if (axis == x) continue;
        p->extent[p->rank] = g->extent[axis];
        p->in[p->rank] = g->in[axis];
        p->out[p->rank++] = g->out[axis];
        p->batches *= g->extent[axis];
    }
    p->item = item;
    p->to = task->out[0].data;
    p->from = task->in[0].data;

    int64_t side = 128;
    while (side * side > elements) side /= 2;
    p->tile_x = smaller(p->nx, side);
    p->tile_y = smaller(p->ny, elements / p->tile_x);
    if (p->tile_y < side) p->tile_x = smaller(p->nx, elements / p->tile_y);
    else p->tile_y -= p->tile_y % (LINE / item);

    const int64_t past = (int64_t)((uintptr_t)p->to % LINE);
    p->peel = past && p->ny > p->tile_y ? (LINE - past) / item : 0;
    p->tiles_x = (p->nx + p->tile_x - 1) / p->tile_x;
    p->tiles_y = (p->peel > 0) + (p->ny - p->peel + p->tile_y - 1) / p->tile_y;
    p->stream = g->size * item >= STREAM_BYTES;
    return 1;
}

/* Tiles [begin, end), those of one stripe along x after each other: their rows of the input
 * follow each other in memory, and the processor fetches ahead. */
static void walk_tiles(void *argument, int64_t begin, int64_t end, int worker)
{
    const plane *p = argument;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        int64_t rest = t / p->tiles_x;
        const int64_t x = t % p->tiles_x * p->tile_x;
        const int64_t k = rest % p->tiles_y;
        rest /= p->tiles_y;
        const int64_t first = p->peel ? p->peel : p->tile_y;
        const int64_t y = k ? first + (k - 1) * p->tile_y : 0;
        const int64_t ny = smaller(k ? p->tile_y : first, p->ny - y);
        int64_t to = x * p->out_x + y * p->out_y, from = x * p->in_x + y * p->in_y;
        for (int axis = p->rank - 1; axis >= 0; axis--) {
            const int64_t at = rest % p->extent[axis];
            rest /= p->extent[axis];
            to += at * p->out[axis];
            from += at * p->in[axis];
        }
        p->copy(p, p->to + to * p->item, p->from + from * p->item,
                smaller(p->tile_x, p->nx - x), ny);
    }
#if defined(__SSE2__)
    if (p->stream) _mm_sfence(); /* streamed bytes are seen by all before the piece is done */
#endif
}

/* Copies a row of a tile out; past the caches where it is made of whole lines, since a line
 * that is written partly would have to be read first. */
static inline void copy_out(void *restrict to, const void *restrict from, size_t bytes,
                            int stream)
{
#if defined(__SSE2__)
    if (stream && ((uintptr_t)to | bytes) % LINE == 0) {
        for (size_t i = 0; i < bytes; i += 16) {
            const __m128i *word = (const __m128i *)(const void *)((const char *)from + i);
            _mm_stream_si128((__m128i *)(void *)((char *)to + i), _mm_loadu_si128(word));
        }
        return;
    }
#endif
    (void)stream;
    memcpy(to, from, bytes);
}

/* ---- blocked: tiles that fit the first-level cache, one thread ---- */

static gop_status blocked(const gop_task *task, int64_t item, line_fn line, tile_fn tile)
{
    const gop_permutation *g = &task->geometry.permutation;
    plane p = {.copy = tile};
    lines l = {g, line, item, task->out[0].data, task->in[0].data};
    if (g->size == 0) return GOP_OK;
    const int tiled = find_plane(task, item, TILE_BYTES / item / 4, &p);
    const int64_t items = tiled ? p.batches * p.tiles_x * p.tiles_y : g->size;
    const int64_t piece = tiled ? 64 : HEAR;
    p.stream = 0;
    for (int64_t i = 0; i < items; i += piece) {
        if (tiled) walk_tiles(&p, i, smaller(i + piece, items), 0);
        else walk_lines(&l, i, smaller(i + piece, items), 0);
        GOP_TRY(gop_interrupted());
    }
    return GOP_OK;
}

/* ---- threaded: tiles turned in registers, dealt to the thread pool ---- */

static gop_status threaded(const gop_task *task, int64_t item, line_fn line, tile_fn tile,
                           tile_fn turned)
{
    const gop_permutation *g = &task->geometry.permutation;
    plane p;
    lines l = {g, line, item, task->out[0].data, task->in[0].data};
    if (g->size == 0) return GOP_OK;
    if (!find_plane(task, item, TILE_BYTES / item, &p))
        return gop_parallel(g->size, HEAR, walk_lines, &l);
    p.copy = p.in_x == 1 && p.out_y == 1 ? turned : tile;
    return gop_parallel(p.batches * p.tiles_x * p.tiles_y, 1 + HEAR / (p.tile_x * p.tile_y),
                        walk_tiles, &p);
}

/* ---- the bodies, once per item size ---- */

typedef struct u128 {
    uint64_t low, high;
} u128;
#define GOP_T_u8 uint8_t
#define GOP_T_u16 uint16_t
#define GOP_T_u32 uint32_t
#define GOP_T_u64 uint64_t
#define GOP_T_u128 u128

typedef uint8_t vec_u8 __attribute__((vector_size(16)));
typedef uint16_t vec_u16 __attribute__((vector_size(16)));
typedef uint32_t vec_u32 __attribute__((vector_size(16)));
typedef uint64_t vec_u64 __attribute__((vector_size(16)));

#if defined(__clang__)
#define ZIP(v, w, ...) __builtin_shufflevector(v, w, __VA_ARGS__)
#else
#define ZIP(v, w, ...) __builtin_shuffle(v, w, (VEC){__VA_ARGS__})
#endif

#define GOP_TPL "cpu/transpose_tpl.h"
#define D u8
#define VEC vec_u8
#define LANES 16
#define ZIP_LOW(v, w) ZIP(v, w, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ZIP_HIGH(v, w) ZIP(v, w, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#include GOP_TPL
#undef D
#undef VEC
#undef LANES
#undef ZIP_LOW
#undef ZIP_HIGH
#define D u16
#define VEC vec_u16
#define LANES 8
#define ZIP_LOW(v, w) ZIP(v, w, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_HIGH(v, w) ZIP(v, w, 4, 12, 5, 13, 6, 14, 7, 15)
#include GOP_TPL
#undef D
#undef VEC
#undef LANES
#undef ZIP_LOW
#undef ZIP_HIGH
#define D u32
#define VEC vec_u32
#define LANES 4
#define ZIP_LOW(v, w) ZIP(v, w, 0, 4, 1, 5)
#define ZIP_HIGH(v, w) ZIP(v, w, 2, 6, 3, 7)
#include GOP_TPL
#undef D
#undef VEC
#undef LANES
#undef ZIP_LOW
#undef ZIP_HIGH
#define D u64
#define VEC vec_u64
#define LANES 2
#define ZIP_LOW(v, w) ZIP(v, w, 0, 2)
#define ZIP_HIGH(v, w) ZIP(v, w, 1, 3)
#include GOP_TPL
#undef D
#undef VEC
#undef LANES
#undef ZIP_LOW
#undef ZIP_HIGH
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
        .name = "threaded",
        .note = "tiles turned in vector registers, whole lines written past the caches, all "
                "cores",
        .launch = BY_SIZE(transpose_threaded),
    },
};

const gop_ladder GOP_LADDER(transpose) = {sizeof rows / sizeof *rows, rows};
