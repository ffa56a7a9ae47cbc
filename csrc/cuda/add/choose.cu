/*
 * choose.cu - which kernel adds: the first of these that takes the call. add, multiply_add and
 * fma have the same kernels and the same table.
 *
 * An H200 does one axis at the speed of memory whatever kernel; what differs is what several
 * axes cost: how often memory is asked for what the caches have lost, and what finding an
 * element's place takes.
 */
#include <math.h>

#include "core/choice.h"
#include "cuda/add/tiles.h"

enum {
    PIECE = 2048,        /* bytes of the output that a block without tiles has */
    FEW = 1 << 20,       /* elements of an output that are done before tiles begin */
    FEW_BYTES = 1 << 18, /* of an output of three inputs, which vectorized begins later */
};

/* What tiled and indexed take, fitted to 464 random calls in mixed orders that both take, of
 * 2^20 elements or more: H200, 2026-11-29. */
static const double INDEXED_BEGINS = 1.6e-6, /* seconds */
    INDEXED_READS = 39e12,                   /* bytes a second that the caches give, */
    INDEXED_MOVES = 0.84,                    /* and memory, of what it can */
    HELD = 0.74e6, /* bytes of an operand of which half is found in the caches again */
    TILED_BEGINS = 7.5e-6, BOX_TAKES = 0.83e-6, /* seconds of an SM for a box, */
    LINES_TAKE = 0.164e-6, /* for the places of as many lines as a block has threads, */
    WORDS_TAKE = 0.060e-6, /* and for as many words */
    MEASURED = 4.92e12;    /* bytes a second of that GPU's memory */
enum { PROCESSORS = 132 }; /* of that GPU, for a device that does not tell its memory's rate */

/* How many bytes memory gives for each that is used, where a piece of an operand is read in the
 * output's order: sectors, of which neighbours share those that lie near. */
static double bytes_fetched(const gop_elementwise &e, int o, int item)
{
    const near_axes near = nearest_first(e.rank, e.extent, e.stride[o], false);
    int64_t part[GOP_MAX_NDIM] = {}, left = PIECE / item, span = item;
    double used = item, sectors = 1;
    for (int axis = e.rank - 1; axis >= 0 && left > 1; axis--) {
        part[axis] = e.extent[axis] < left ? e.extent[axis] : left;
        left = (left + e.extent[axis] - 1) / e.extent[axis];
    }
    for (int k = 0; k < near.count; k++) {
        const int64_t n = part[near.axis[k]];
        const int64_t step = (int64_t)gop_magnitude(e.stride[o][near.axis[k]]) * item;
        if (n <= 1) continue;
        used *= (double)n;
        if (step < SECTOR + span) span += step * (n - 1);
        else sectors *= (double)n;
    }
    return sectors * (double)((span + SECTOR - 1) / SECTOR) * SECTOR / used;
}

static double bytes_of(const gop_elementwise &e, int o, int item)
{
    double bytes = item;
    for (int axis = 0; axis < e.rank; axis++)
        if (e.stride[o][axis] != 0) bytes *= (double)e.extent[axis];
    return bytes;
}

/* In the output's order, operands are asked for again when the caches have lost them. */
static double indexed_seconds(const gop_ctx *ctx, const gop_elementwise &e, int item)
{
    const double rate = ctx->info.bandwidth > 0 ? ctx->info.bandwidth : MEASURED;
    double memory = bytes_of(e, 0, item), caches = 0;
    for (int o = 1; o < e.operands; o++) {
        const double bytes = bytes_of(e, o, item), fetched = bytes_fetched(e, o, item);
        memory += bytes * (1 + (fetched - 1) / (1 + pow(HELD / bytes, 0.6)));
        caches += (double)e.size * item * fetched;
    }
    return INDEXED_BEGINS + memory / (INDEXED_MOVES * rate) +
           caches / INDEXED_READS * (MEASURED / rate);
}

/* How often a block goes over a box for an operand. */
static double turns_of(const box_walk &walk, int word)
{
    const int words = (walk.run + word - 1) / word, wide = (int)walk.wide.d;
    return (double)((words + wide - 1) / wide) * ((walk.lines + walk.high - 1) / walk.high);
}

static int are_many(const gop_ctx *, const gop_task *task)
{
    return task->geometry.elementwise.size >= FEW;
}

static int are_worth_tiles(const gop_ctx *ctx, const gop_task *task, const gop_plan *plan)
{
    const gop_elementwise &e = task->geometry.elementwise;
    const tiled_plan &own = *GOP_OWN(const tiled_plan, plan);
    const int item = item_of(task), word = item < 4 ? 4 / item : 1;
    double lines = own.p.out.lines, turns = turns_of(own.p.out, word);
    for (int o = 1; o < e.operands; o++) {
        if (own.p.by[o - 1] != THROUGH_TILE) continue;
        lines += own.p.in[o - 1].lines;
        turns += turns_of(own.p.in[o - 1], word);
    }
    const double box = BOX_TAKES + LINES_TAKE * lines / TILE_THREADS + WORDS_TAKE * turns;
    const int processors = ctx->info.bandwidth > 0 ? ctx->info.processors : PROCESSORS;
    return TILED_BEGINS + box * own.boxes / processors < indexed_seconds(ctx, e, item);
}

/* Vectorized: not few elements of 4 bytes and more of three inputs. */
static int are_worth_vectors(const gop_ctx *, const gop_task *task)
{
    const gop_elementwise &e = task->geometry.elementwise;
    const int item = item_of(task);
    return e.operands < 4 || item < 4 || e.size * item >= FEW_BYTES;
}

/* clang-format off */
#define TABLE(op)                                                                              \
    extern const gop_row op##_vectorized_row, op##_tiled_row, op##_indexed_row, op##_naive_row;\
    static const gop_candidate op##_candidates[] = {                                           \
        {.row = &op##_vectorized_row,                                                          \
         .suits = are_worth_vectors,                                                           \
         .when = "one axis; of three inputs of items of 4 bytes and more from 256 KiB on",     \
         .why = "0.997 to 1.14 of PyTorch's speed from 38 MiB on: H200, 2026-11-23; fewer of " \
                "three inputs by indexed 0.91 to 0.99 of its time in the median (81 drawn): "  \
                "H200, 2026-11-30"},                                                           \
        {.row = &op##_tiled_row,                                                               \
         .suits = are_many,                                                                    \
         .when = "2^20 elements or more in orders that differ, where boxes are expected to "   \
                 "take less time than the bytes that the caches lose in the output's order",   \
         .why = "464 random calls in mixed orders: always tiled takes 1.39 times as long as "  \
                "the better of both, always indexed 1.22, as expected 1.04: H200, 2026-11-29", \
         .pays = are_worth_tiles},                                                             \
        {.row = &op##_indexed_row,                                                             \
         .why = "operands that broadcast, are sliced or unaligned: bytes of which one "        \
                "array begins a byte further 11.5 us, PyTorch 12.6, naive 101: H200, "         \
                "2026-11-23"},                                                                 \
        {.row = &op##_naive_row,                                                               \
         .why = "takes all that is left: outputs with gaps, or that do not start at a "        \
                "multiple of 16 bytes, and are not worth tiles"},                              \
    };                                                                                         \
    extern const gop_choice op##_choice;                                                       \
    const gop_choice op##_choice = {sizeof op##_candidates / sizeof *op##_candidates,          \
                                    op##_candidates, nullptr}
/* clang-format on */
TABLE(add);
TABLE(multiply_add);
TABLE(fma);
