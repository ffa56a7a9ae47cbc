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
    transpose_bulk_row, transpose_gathered_row, transpose_boxed_row, transpose_naive_row;

enum {
    FEW_BYTES = 1 << 17,   /* items of a byte, below which naive is the fastest of all */
    PLANAR_BYTES = 1 << 19 /* below which small is faster than planar, but of small items */
};

/* Items as they move: neighbours that stay together are one. */
static int64_t moved_item(const gop_task *task)
{
    gop_permutation g = task->geometry.permutation;
    return transpose_widen(task, &g);
}

static int are_not_few_bytes(const gop_ctx *, const gop_task *task)
{
    return transpose_item(task) > 1 || task->geometry.permutation.size >= FEW_BYTES;
}

static int are_planes(const gop_ctx *, const gop_task *task)
{
    const int64_t item = transpose_item(task);
    return item <= 2 || task->geometry.permutation.size * item >= PLANAR_BYTES;
}

static int are_no_vectors(const gop_ctx *, const gop_task *task)
{
    return moved_item(task) < 16;
}

/* Shifted: threads of what is not there wait as long as the others. */
static int fill_half(const gop_ctx *, const gop_task *, const gop_plan *plan)
{
    return plan->cost >= 0.5f; /* of the tiles, what is there */
}

/* Sectored: a thread's instructions for items that are not there are slower than memory, but
 * where the array is short, or its items are so wide that memory is slower. */
static int fill_tiles(const gop_ctx *, const gop_task *task, const gop_plan *plan)
{
    return plan->cost >= 0.56f ||
           task->geometry.permutation.size * transpose_item(task) < 32 << 20 ||
           moved_item(task) > 4;
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
     .suits = are_planes,
     .when = "two to sixteen long rows of items of 1 and 2 bytes, of others from 512 KiB on",
     .why =
         "0.94 to 0.99 of copy where boxed has 0.40 to 0.90: H200, 2026-11-21; it refuses "
         "short rows, which boxes do in a tenth of the time and less: H200, 2026-11-22; less "
         "than that by small 0.76 to 1.01 of its time (17 drawn): H200, 2026-11-29"},
    {.row = &transpose_vectorized_row,
     .suits = are_no_vectors,
     .when = "items of up to 8 bytes whose rows start at multiples of 16",
     .why = "the ladder's fastest there: 16384² float32 0.972 of copy, bulk 0.966, sectored "
            "0.961, boxed 0.852: H200, 2026-11-24; items of 16 bytes by sectored 0.68 to 1.1, "
            "in the median 0.97 of its time (32 drawn): H200, 2026-11-29"},
    {.row = &transpose_pixels_row,
     .why = "three items that stay together, (3000, 3000, 3) of 1 to 8 bytes 0.80 to 0.94 of "
            "copy where boxed has 0.45 to 0.85: H200, 2026-11-22"},
    {.row = &transpose_lines_row,
     .why =
         "the fastest axis stays, (256, 512, 1024) 0.97 to 1.00 of copy where boxed has 0.83 "
         "to 0.90: H200, 2026-11-21; lines that start anywhere 0.96 to 1.14 for 0.24 to 0.80 "
         "where they are long: H200, 2026-11-24"},
    {.row = &transpose_small_row,
     .suits = are_not_few_bytes,
     .when = "small arrays, of bytes from 2^17 on",
     .why = "all of a small array on its way at once, (3, 131072) of 2 bytes 0.97 of copy for "
            "0.73 an item a thread, which beat boxed: H200, 2026-11-21"},
    {.row = &transpose_shifted_row,
     .suits = are_not_few_bytes,
     .when = "2^17 items or more, of 1 and 2 bytes, in runs that fill half of all its tiles",
     .why = "0.5 to 0.75 full 0.65 of copy, boxed 0.55; less than half full 0.46 for 0.63, 26 "
            "of 29 calls: H200, 2026-11-24",
     .pays = fill_half},
    {.row = &transpose_sectored_row,
     .when = "runs that fill 0.56 of all its tiles, items of more than 4 bytes, or less than "
             "32 MiB",
     .why = "the others of 4 bytes were 1.02 to 1.59 times as fast by boxed, ten calls: H200, "
            "2026-11-27",
     .pays = fill_tiles},
    {.row = &transpose_bulk_row,
     .why = "a step of the ladder: vectorized and sectored take nearly all that it takes, and "
            "are as fast (0.966 of copy for 0.972 and 0.961: H200, 2026-11-24)"},
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
