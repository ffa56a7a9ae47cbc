/*
 * choose.cu - which kernel transposes: the first of these that takes the call.
 *
 * Those that take few calls and are the best there come first; boxed, which takes nearly all,
 * comes last. "Of copy" is the speed beside a copy of as many bytes, measured on an H200; what
 * else was measured is in docs/speed-log.md under the date.
 */
#include <math.h>

#include "core/choice.h"
#include "cuda/transpose/gathers.h"
#include "cuda/transpose/tiling.h"

extern const gop_row transpose_planar_row, transpose_vectorized_row, transpose_pixels_row,
    transpose_lines_row, transpose_small_row, transpose_shifted_row, transpose_sectored_row,
    transpose_gathered_row, transpose_boxed_row, transpose_naive_row;

enum {
    FEW = 1 << 16,         /* items of 4 bytes and more, all of which small asks for at once */
    FEW_ROWS = 1 << 18,    /* the same where rows meet in a thread of planar */
    FEW_BYTES = 160 << 10, /* items of a byte, below which naive is the fastest of all, */
    FEW_PAIRS = 1 << 16,   /* and of two, if there are so many axes: a thread of small finds */
    MANY_AXES = 5,         /* the places of 8 items one after another */
    SECTORS_FROM = 1 << 20 /* bytes from which on sectored may be faster than small */
};

static int64_t items_of(const gop_task *task)
{
    return task->geometry.permutation.size;
}

static int64_t bytes_of(const gop_task *task)
{
    return items_of(task) * transpose_item(task);
}

/* Items as they move: neighbours that stay together are one. */
static int64_t moved_item(const gop_task *task)
{
    const gop_permutation &g = task->geometry.permutation;
    if (g.in[g.rank - 1] != 1 || g.out[g.rank - 1] != 1) return transpose_item(task);
    gop_permutation moved = g;
    return transpose_widen(task, &moved);
}

static int are_not_few(const gop_ctx *, const gop_task *task)
{
    return transpose_item(task) < 4 || items_of(task) >= FEW;
}

static int are_not_few_bytes(const gop_ctx *, const gop_task *task)
{
    const int item = transpose_item(task);
    if (item == 2 && task->geometry.permutation.rank >= MANY_AXES)
        return items_of(task) >= FEW_PAIRS;
    return item > 1 || items_of(task) >= FEW_BYTES;
}

static int are_long_rows(const gop_ctx *, const gop_task *task)
{
    return transpose_item(task) < 4 || items_of(task) >= FEW_ROWS;
}

static int are_no_vectors(const gop_ctx *ctx, const gop_task *task)
{
    return are_not_few(ctx, task) && moved_item(task) < 16;
}

/* Vectorized: threads of what is not there wait as long as the others. */
static int fill_threads(const gop_ctx *, const gop_task *task, const gop_plan *plan)
{
    const float there = plan->cost; /* of its tiles, as below */
    return there >= 0.53f || (there >= 0.3f && moved_item(task) != 8);
}

/* Shifted: likewise; but pairs of bytes where rows of the output start anywhere, as lines of
 * boxes then do. */
static int fill_half(const gop_ctx *, const gop_task *task, const gop_plan *plan)
{
    if (plan->cost >= 0.5f || plan->cost < 0.45f) return plan->cost >= 0.5f;
    const int64_t rows = transpose_offsets_out(GOP_OWN(const tiling_plan, plan)->all);
    return moved_item(task) == 2 && rows % 4 != 0;
}

static int are_sectors(const gop_ctx *, const gop_task *task)
{
    return transpose_item(task) < 4 ? moved_item(task) >= 4 : bytes_of(task) >= SECTORS_FROM;
}

/* Sectored: a thread's instructions for items that are not there are slower than memory, but
 * where items are so wide that memory is slower. */
static int fill_tiles(const gop_ctx *, const gop_task *task, const gop_plan *plan)
{
    if (plan->cost >= 0.7f) return 1;
    const bool may_be_small = transpose_item(task) >= 4 && bytes_of(task) < 2 * SECTORS_FROM;
    return !may_be_small && (plan->cost >= 0.61f || moved_item(task) > 4);
}

/* ---- gathered or boxed ---- */

/* What they take of items of 1 and 2 bytes, fitted to 961 random calls that both take: H200,
 * 2026-11-29. Instructions overlap with memory, and an array that the L2 cache holds is not
 * waited for. */
static const double MEMORY = 3.28e12, /* bytes a second, */
    HELD = 115e6,                     /* of both arrays, of which about half is in the cache, */
    MEASURED = 4.92e12;               /* of that GPU's memory by its clock */
static const double GATHERED_BEGINS = 2.84e-6, /* seconds, */
    READ_TAKES = 6.25e-9,                      /* of an SM, an item a thread and turn, */
    CUT_MOVES = 43 * 32; /* and bytes as which a line counts that ends within a sector: they
                          * are written in parts */
static const double BOXED_BEGINS = 2.03e-6, /* seconds, */
    PIECES_TAKE = 209e-9,                   /* of an SM, a piece of 16 bytes a thread, */
    ODD_OUT_TAKES = 56e-9, /* and for four items a thread where they lie anywhere in words of */
    ODD_IN_TAKES = 35e-9;  /* the output, or of the input */
enum { PROCESSORS = 132, FOUR = 4 };

/* Of an array of so many bytes, with all that either moves and a share of its instructions. */
static double overlapped(const gop_ctx *ctx, double bytes, double moved, double instructions)
{
    const double rate = ctx->info.bandwidth > 0 ? ctx->info.bandwidth : MEASURED;
    const double held = 2 * bytes / HELD, far = 1 - 1 / (1 + held * held * held);
    const double memory = moved * far / (MEMORY * rate / MEASURED);
    const double one = instructions * instructions, other = memory * memory;
    return sqrt(sqrt(one * one + other * other));
}

/* The boxes of the SM that has the most, of all. */
static double share_of_one(const gop_ctx *ctx, const gathered_plan &own)
{
    const int64_t boxes = own.boxes.boxes;
    const int64_t at_once = blocks_for(own.blocks, ctx->info.processors); /* blocks of an SM */
    const int processors = ctx->info.bandwidth > 0 ? ctx->info.processors : PROCESSORS;
    if (boxes <= at_once * processors) return 1.0 / processors;
    return (double)(blocks_for(boxes, at_once * processors) * at_once) / (double)boxes;
}

/* The share of a sector by which lines of the output end within one. */
static double cut_of(const gop_permutation &g, int item, int64_t line)
{
    int64_t bits = line;
    for (int axis = 0; axis < g.rank; axis++) {
        const int64_t bytes = g.out[axis] * item;
        if (bytes >= line) bits |= bytes;
    }
    const int64_t multiple = bits & -bits;
    return multiple < 32 ? 1 - (double)multiple / 32 : 0;
}

/* Whether no items are neighbours, or lines begin elsewhere than at multiples of four items. */
static bool are_odd(const gop_permutation &g, const int64_t *stride, int item, int moved)
{
    int64_t bits = 0;
    bool is_line = false;
    for (int axis = 0; axis < g.rank; axis++)
        if (stride[axis] * item <= moved) is_line = true;
        else bits |= stride[axis] * item;
    return !is_line || bits % (FOUR * moved) != 0;
}

static int is_sooner_gathered(const gop_ctx *ctx, const gop_task *task, const gop_plan *plan)
{
    const gop_permutation &g = task->geometry.permutation;
    const gathered_plan &own = *GOP_OWN(const gathered_plan, plan);
    const gathering &p = own.boxes;
    const int item = transpose_item(task), kinds = FOUR / p.apart;
    const double bytes = (double)g.size * item, share = share_of_one(ctx, own);
    const int rows = (p.groups + kinds * p.at_once - 1) / (kinds * p.at_once);
    const int reads = kinds / p.teams * ((p.words + p.team - 1) / p.team) * rows *
                      (FOUR / own.item); /* a thread's of a box */
    const double cut = bytes / p.line_bytes * cut_of(g, item, p.line_bytes);
    const double odd = ODD_OUT_TAKES * are_odd(g, g.out, item, own.item) +
                       ODD_IN_TAKES * are_odd(g, g.in, item, own.item);
    const double pieces = bytes / 16 / BOX_THREADS,
                 words = bytes / own.item / FOUR / BOX_THREADS;
    return GATHERED_BEGINS +
               overlapped(ctx, bytes, 2 * bytes + CUT_MOVES * cut,
                          READ_TAKES * reads * plan->cost * (double)p.boxes * share) <
           BOXED_BEGINS +
               overlapped(ctx, bytes, 2 * bytes, (PIECES_TAKE * pieces + odd * words) * share);
}

static const gop_candidate candidates[] = {
    {.row = &transpose_planar_row,
     .suits = are_long_rows,
     .when = "two to sixteen long rows of items of 1 and 2 bytes, of others from 2^18 on",
     .why =
         "0.94 to 0.99 of copy where boxed has 0.40 to 0.90: H200, 2026-11-21; it refuses "
         "short rows, which boxes do in a tenth of the time and less: H200, 2026-11-22; fewer "
         "than 2^18 items by small 0.80 to 1.0 of its time (47 drawn): H200, 2026-11-29"},
    {.row = &transpose_vectorized_row,
     .suits = are_no_vectors,
     .when = "items of up to 8 bytes whose rows start at multiples of 16, of 4 and 8 bytes "
             "2^16 or more, in runs that fill tiles with more than 544 items",
     .why = "the ladder's fastest there: 16384² float32 0.972 of copy, bulk 0.966, sectored "
            "0.961, boxed 0.852: H200, 2026-11-24; items of 16 bytes by sectored 0.68 to 1.1, "
            "in the median 0.97 of its time (32 drawn); fewer than 2^16 by small 0.77 to 1.05 "
            "(27); emptier tiles by boxed 0.72 to 1.02 (18): H200, 2026-11-29",
     .pays = fill_threads},
    {.row = &transpose_pixels_row,
     .why = "three items that stay together, (3000, 3000, 3) of 1 to 8 bytes 0.80 to 0.94 of "
            "copy where boxed has 0.45 to 0.85: H200, 2026-11-22"},
    {.row = &transpose_lines_row,
     .suits = are_not_few,
     .when = "lines that stay, of items of 4 bytes and more 2^16 or more",
     .why =
         "the fastest axis stays, (256, 512, 1024) 0.97 to 1.00 of copy where boxed has 0.83 "
         "to 0.90: H200, 2026-11-21; lines that start anywhere 0.96 to 1.14 for 0.24 to 0.80 "
         "where they are long: H200, 2026-11-24; fewer than 2^16 by small 0.72 to 1.1 of its "
         "time (17 drawn): H200, 2026-11-29"},
    {.row = &transpose_sectored_row,
     .suits = are_sectors,
     .when = "1 MiB or more, in runs that fill 0.61 of all its tiles, 0.7 below 2 MiB, from "
             "there on items of more than 4 bytes in any; of items of 1 and 2 bytes those that "
             "move together so",
     .why = "emptier tiles of 4-byte items by boxed 0.66 to 0.95 of its time (38 of 39 drawn), "
            "fuller ones by small 1.13 to 1.4 (6), of wider items by boxed 1.1 to 2 (120): "
            "H200, 2026-11-29",
     .pays = fill_tiles},
    {.row = &transpose_small_row,
     .suits = are_not_few_bytes,
     .when = "small arrays, of items of a byte from 160 KiB on, of two with 5 axes from 2^16",
     .why = "all of a small array on its way at once, (3, 131072) of 2 bytes 0.97 of copy for "
            "0.73 an item a thread, which beat boxed: H200, 2026-11-21; fewer items of a byte "
            "by naive 0.8 to 1 of its time (53 drawn), of two with 5 axes 0.8 to 1.02 (19): "
            "H200, 2026-11-29"},
    {.row = &transpose_shifted_row,
     .suits = are_not_few_bytes,
     .when = "items of a byte, 160 KiB or more, and of two, in runs that fill half of all its "
             "tiles, 0.45 of two bytes where rows of the output do not start at multiples of 8",
     .why = "0.5 to 0.75 full 0.65 of copy, boxed 0.55; less than half full 0.46 for 0.63, 26 "
            "of 29 calls: H200, 2026-11-24; 0.45 to 0.5 full 0.82 to 0.95 of boxed's and "
            "gathered's time (6 drawn): H200, 2026-11-29",
     .pays = fill_half},
    {.row = &transpose_gathered_row,
     .suits = are_not_few_bytes,
     .when = "items of 1 and 2 bytes, where the turns in which a warp reads its items and the "
             "lines of the output that it cuts are expected to take less time than boxed's "
             "stores",
     .why = "of 494 drawn calls that none of those above takes boxed loses 5 % in 234, "
            "gathered in 154, up to three turns by gathered in 85, as expected in 49: H200, "
            "2026-11-29",
     .pays = is_sooner_gathered},
    {.row = &transpose_boxed_row,
     .suits = are_not_few_bytes,
     .when = "any axes; of bytes from 160 KiB on, of two with 5 axes from 2^16",
     .why = "94.9 % of all calls from 4 MiB not slower than PyTorch and CuPy, 78.4 without its "
            "boxes: H200, 2026-11-23"},
    {.row = &transpose_naive_row,
     .why = "fewer bytes 0.72 to 1.01 of small's time (26 drawn): H200, 2026-11-29; "
            "and takes all that is left: a single item beside multiples of 16 bytes"},
};

extern const gop_choice transpose_choice;
const gop_choice transpose_choice = {sizeof candidates / sizeof *candidates, candidates,
                                     nullptr};
