/*
 * threaded.c - the rows of add on all cores.
 *
 * One core cannot keep enough loads in flight to saturate memory.
 *
 * A transposed operand is contiguous along another axis, t. It is read in tiles that are one or
 * two cache lines wide along t, and transposed into a buffer. Without that, every element of a
 * row would fetch a whole cache line. Short rows are joined to blocks (blocks.h).
 */
#ifdef D

/* Packs nt by ni elements into rows along i, reading along t. Contiguous elements are
 * transposed in registers, and those of the next tile along t are prefetched. */
static void FN(pack)(int64_t nt, int64_t ni, void *tile, int64_t pitch, const void *from,
                     int64_t st, int64_t si)
{
    T *const restrict to = tile;
    const T *const restrict a = from;
    int64_t row[TILE_I];
    for (int64_t i = 0; i < ni; i++) row[i] = i * si;
    if (st == 1) {
        for (int64_t i = 0; i < ni; i++)
            for (int64_t k = nt; k < 2 * nt; k += LINE / (int64_t)sizeof(T))
                __builtin_prefetch(a + row[i] + k, 0, 2);
        turn_rows(sizeof(T), nt, ni, to, pitch, a, row);
        return;
    }
    for (int64_t i = 0; i < ni; i++)
        for (int64_t t = 0; t < nt; t++) to[t * pitch + i] = a[row[i] + t * st];
}

#define THREADED(op)                                                                           \
    static gop_status FN(op##_threaded)(gop_ctx * ctx, const gop_task *task, int64_t step)     \
    {                                                                                          \
        (void)ctx, (void)step;                                                                 \
        return every_line_threaded(task, FN(op##_line), FN(pack));                             \
    }
EACH_OP(THREADED)
#undef THREADED

#else
#include "cpu/add/blocks.h"
#include "cpu/transpose/turn.h"

enum {
    TILE_I = 512,    /* elements of a tile's row; a tile has one cache line along t, */
    FEW_I = 256,     /* or two lines along t, if rows are no longer than this */
    LARGE = 1 << 25, /* or the arrays have more bytes than the last-level cache */
    TILE = 2 * FEW_I * LINE + 2 * LINE * LINE, /* bytes, with each row padded by a line */
    ROOM = 3 * TILE,
    LEAST = 16,            /* axes shorter than this are not tiled */
    LEAST_PIECE = 1 << 16, /* bytes of an output of one row that are worth a thread */
    MOST_PIECE = 1 << 19,
    LEAST_TABLE = 1 << 20, /* the same with tables of offsets, which each thread must load */
    HALF = 32,             /* bytes whose copy takes as long as the arithmetic of a half, */
    MOVED = 8,             /* and as gathering an element into a buffer */
};

typedef void (*pack_fn)(int64_t nt, int64_t ni, void *tile, int64_t pitch, const void *from,
                        int64_t st, int64_t si);

/* The plan. */
typedef struct tiling {
    int workers;
    int t; /* the tiles' other axis; -1: no operand is transposed */
    int64_t tile_t, tile_i;
    int64_t pitch; /* of a tile's rows, padded: a power of two would map all to one cache set */
    int turned[4]; /* operands that are contiguous along t */
    int64_t tiles_t, tiles_i, batches;
    int64_t piece;   /* elements that a thread takes at a time */
    blocking blocks; /* count 0: rows are long enough */
} tiling;

typedef struct tiles {
    const tiling *plan;
    walk lines;
    pack_fn pack;
    char *scratch; /* ROOM bytes for each worker: a tile for each operand */
} tiles;

static void walk_tiles(void *argument, int64_t begin, int64_t end, int worker)
{
    const tiles *w = argument;
    const tiling *const p = w->plan;
    const gop_elementwise *e = w->lines.e;
    const int inner = e->rank - 1, t = p->t;
    const int64_t item = w->lines.item;
    char *const room = w->scratch + (size_t)worker * ROOM;
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t rest = tile / p->tiles_i;
        const int64_t t0 = rest % p->tiles_t * p->tile_t, i0 = tile % p->tiles_i * p->tile_i;
        const int64_t nt = gop_smaller(p->tile_t, e->extent[t] - t0);
        const int64_t ni = gop_smaller(p->tile_i, e->extent[inner] - i0);
        /* Where the tile begins in each operand. */
        char *at[4] = {0};
        int64_t step[4] = {0}, stride[4] = {0}; /* from row to row; along a row */
        rest /= p->tiles_t;
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
        /* Transposed operands go through a buffer. */
        for (int o = 1; o < e->operands; o++) {
            if (!p->turned[o]) continue;
            char *const buffer = room + (size_t)(o - 1) * TILE;
            w->pack(nt, ni, buffer, p->pitch, at[o], e->stride[o][t], e->stride[o][inner]);
            at[o] = buffer;
            step[o] = p->pitch * item;
            stride[o] = 1;
        }
        /* The operation, row by row. */
        for (int64_t k = 0; k < nt; k++) {
            one_line(&w->lines, ni, at, stride);
            for (int o = 0; o < e->operands; o++) at[o] += step[o];
        }
    }
    if (w->lines.stream) stream_end();
}

/* Pieces of fresh memory are whole pages, so that no two threads zero the same page. */
static int64_t piece_of(walk *w, int64_t piece)
{
    if (!w->fresh || w->stride[0] != 1) return piece;
    w->lead = (int64_t)((uintptr_t)w->at[0] % HUGE_PAGE) / w->item;
    return HUGE_PAGE / w->item;
}

static gop_status every_line_threaded(const gop_task *task, line_fn line, pack_fn pack)
{
    const tiling *const p = GOP_OWN(const tiling, task->plan);
    if (p->blocks.count) return every_block(task, &p->blocks, p->workers, p->piece, line);
    const gop_elementwise *e = &task->geometry.elementwise;
    tiles w = {.plan = p, .lines = walk_of(task, line, 1), .pack = pack};
    if (p->t < 0) {
        const int64_t piece = piece_of(&w.lines, p->piece);
        return by_threads(&w.lines, p->workers, e->size + w.lines.lead, piece, walk_lines,
                          &w.lines);
    }
    w.scratch = task->scratch;
    return by_threads(&w.lines, p->workers, p->batches * p->tiles_t * p->tiles_i,
                      1 + p->piece / (p->tile_t * p->tile_i), walk_tiles, &w);
}

#define GOP_TPL "cpu/add/threaded.c"
#include "cpu/runtime/each_dtype.inc"

/* Fills the tiling for items of `item` bytes. Returns 0 if no operand is transposed. */
static int find_tiles(const gop_elementwise *e, int64_t item, tiling *w)
{
    const int inner = e->rank - 1;
    uint64_t least = INT64_MAX;
    w->t = -1;
    for (int o = 1; o < e->operands; o++)
        for (int axis = 0; axis < inner; axis++) {
            const uint64_t stride = gop_magnitude(e->stride[o][axis]);
            if (stride == 0 || e->extent[axis] < LEAST || e->extent[inner] < LEAST) continue;
            if (2 * stride > gop_magnitude(e->stride[o][inner]) || stride >= least) continue;
            least = stride;
            w->t = axis;
        }
    if (w->t < 0) return 0;
    for (int o = 1; o < e->operands; o++) {
        const uint64_t along = gop_magnitude(e->stride[o][w->t]);
        w->turned[o] = along != 0 && 2 * along <= gop_magnitude(e->stride[o][inner]);
    }
    const int is_wide = e->extent[inner] <= FEW_I || e->size * item > LARGE;
    w->tile_t = (is_wide ? 2 : 1) * LINE / item;
    w->tile_i = is_wide ? FEW_I : TILE_I;
    w->pitch = w->tile_i + LINE / item;
    w->tiles_t = (e->extent[w->t] + w->tile_t - 1) / w->tile_t;
    w->tiles_i = (e->extent[inner] + w->tile_i - 1) / w->tile_i;
    w->batches = 1;
    for (int axis = 0; axis < inner; axis++)
        if (axis != w->t) w->batches *= e->extent[axis];
    return 1;
}

/* The cost of an element, in bytes of plain output. */
static int64_t weight_of(const gop_task *task, const tiling *p)
{
    const gop_dtype dtype = task->in[0].dtype;
    const gop_elementwise *const e = &task->geometry.elementwise;
    int64_t weight = gop_dtype_size(dtype);
    if (dtype == GOP_FLOAT16 || dtype == GOP_BFLOAT16) weight = HALF;
    for (int o = 1; o < e->operands; o++) {
        const int64_t stride = e->stride[o][e->rank - 1];
        if (p->blocks.count ? p->blocks.run[o] != 0 : stride != 0 && stride != 1)
            weight += MOVED;
    }
    return weight;
}

/* Chooses the number of threads and the size of a piece. Each thread gets several pieces on
 * average, so that a late thread takes fewer. */
static void share_out(const gop_task *task, int64_t threads, tiling *p)
{
    const int64_t weight = weight_of(task, p);
    const int64_t bytes = task->geometry.elementwise.size * weight;
    const int64_t least = task->geometry.elementwise.rank > 1 ? 2 * LEAST_PIECE : LEAST_PIECE;
    p->workers = (int)gop_smaller(threads, 1 + bytes / (2 * least));
    if (p->blocks.count && bytes < LEAST_TABLE) p->workers = 1;
    p->piece = gop_smaller(LEAST_PIECE + bytes / (8 * p->workers), MOST_PIECE) / weight;
}

static gop_status add_threaded_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    tiling *const p = GOP_OWN(tiling, plan);
    const int64_t item = gop_dtype_size(task->in[0].dtype);
    p->blocks.count = 0;
    const int tiled = find_tiles(&task->geometry.elementwise, item, p);
    const int blocked = !tiled && find_blocks(&task->geometry.elementwise, item, &p->blocks);
    share_out(task, ctx->info.processors, p);
    if (tiled) plan->scratch = (size_t)p->workers * ROOM;
    if (blocked) plan->scratch = blocks_room(p->workers);
    return GOP_OK;
}

ADD_ROWS(threaded,
         .note = "lines, short ones joined, dealt to all cores: one core alone cannot fill the "
                 "memory bus",
         .plan = add_threaded_plan);

#endif
