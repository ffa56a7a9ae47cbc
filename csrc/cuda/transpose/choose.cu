/*
 * choose.cu - which kernel transposes: the first of these that takes the call.
 *
 * Those that take few calls and are the best there come first; boxed, which takes nearly all,
 * comes last. "Of copy" is the speed beside a copy of as many bytes, measured on an H200; what
 * else was measured is in docs/speed-log.md under the date.
 */
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
    gop_permutation g = task->geometry.permutation;
    return transpose_widen(task, &g);
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
    return plan->cost >= (moved_item(task) == 8 ? 0.53f : 0.3f); /* items of a tile */
}

/* Shifted: likewise. */
static int fill_half(const gop_ctx *, const gop_task *, const gop_plan *plan)
{
    return plan->cost >= 0.5f; /* of the tiles, what is there */
}

static int are_sectors(const gop_ctx *, const gop_task *task)
{
    return bytes_of(task) >= SECTORS_FROM;
}

/* Sectored: a thread's instructions for items that are not there are slower than memory, but
 * where items are so wide that memory is slower. */
static int fill_tiles(const gop_ctx *, const gop_task *task, const gop_plan *plan)
{
    const bool may_be_small = bytes_of(task) < 2 * SECTORS_FROM;
    return plan->cost >= (may_be_small ? 0.7f : 0.61f) ||
           (!may_be_small && moved_item(task) > 4);
}

/* Gathered: warps whose items meet in few banks, and groups that are not many at once, each
 * of a few words. */
static int meet_in_few_banks(const gop_ctx *, const gop_task *, const gop_plan *plan)
{
    enum { TURNS = 3, AT_ONCE = 6 };
    return plan->cost <= TURNS && GOP_OWN(const gathered_plan, plan)->boxes.at_once <= AT_ONCE;
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
     .when = "1 MiB or more, in runs that fill 0.61 of all its tiles, 0.7 below 2 MiB; from "
             "there on items of more than 4 bytes in any",
     .why = "emptier tiles of 4-byte items by boxed 0.66 to 0.95 of its time (38 of 39 drawn), "
            "fuller ones by small 1.13 to 1.4 (6), of wider items by boxed 1.1 to 2 (120): "
            "H200, 2026-11-29",
     .pays = fill_tiles},
    {.row = &transpose_small_row,
     .suits = are_not_few_bytes,
     .when = "small arrays, of items of a byte from 2^17 on, of two with 5 axes from 2^16",
     .why = "all of a small array on its way at once, (3, 131072) of 2 bytes 0.97 of copy for "
            "0.73 an item a thread, which beat boxed: H200, 2026-11-21; fewer items of a byte "
            "by naive 0.8 to 1 of its time (53 drawn), of two with 5 axes 0.8 to 1.02 (19): "
            "H200, 2026-11-29"},
    {.row = &transpose_shifted_row,
     .suits = are_not_few_bytes,
     .when = "2^17 items or more of a byte, or of two, in runs that fill half of all its tiles",
     .why = "0.5 to 0.75 full 0.65 of copy, boxed 0.55; less than half full 0.46 for 0.63, 26 "
            "of 29 calls: H200, 2026-11-24",
     .pays = fill_half},
    {.row = &transpose_gathered_row,
     .suits = are_not_few_bytes,
     .when =
         "items of 1 and 2 bytes, 2^17 or more, of which a warp reads an item each in three "
         "turns at most, in lines of which at most 6 are written at once",
     .why = "by turns 1 to 4 of 1 byte 1.12, 1.07, 1.03, 0.92 times as fast as boxed: H200, "
            "2026-11-25; within 5 % of the better of both in 83 % of 237 drawn, 78 % where "
            "rows had to start inside words and lines were not counted: H200, 2026-11-29",
     .pays = meet_in_few_banks},
    {.row = &transpose_boxed_row,
     .suits = are_not_few_bytes,
     .when = "any axes, of bytes from 2^17 on",
     .why = "94.9 % of all calls from 4 MiB not slower than PyTorch and CuPy, 78.4 without its "
            "boxes: H200, 2026-11-23"},
    {.row = &transpose_naive_row,
     .why = "fewer than 2^17 bytes 0.72 to 1.01 of small's time (26 drawn): H200, 2026-11-29; "
            "and takes all that is left: a single item beside multiples of 16 bytes"},
};

extern const gop_choice transpose_choice;
const gop_choice transpose_choice = {sizeof candidates / sizeof *candidates, candidates,
                                     nullptr};
