/*
 * choose.cu - which kernel transposes: the first of these that takes the call.
 *
 * Those that take few calls and are the best there come first; boxed, which takes nearly all,
 * comes last. "Of copy" is the speed beside a copy of as many bytes, measured on an H200; what
 * else was measured is in docs/speed-log.md under the date.
 */
#include "core/choice.h"
#include "cuda/transpose/tiling.h"

extern const gop_row transpose_planar_row, transpose_vectorized_row, transpose_pixels_row,
    transpose_lines_row, transpose_small_row, transpose_shifted_row, transpose_sectored_row,
    transpose_bulk_row, transpose_gathered_row, transpose_boxed_row, transpose_naive_row;

/* Shifted: threads of what is not there wait as long as the others. */
static int fill_half(const gop_ctx *, const gop_task *, const gop_plan *plan)
{
    return plan->cost >= 0.5f; /* of the tiles, what is there */
}

/* Sectored: a thread's instructions for items that are not there are slower than memory, but
 * where the array is short, or its items are so wide that memory is slower. */
static int fill_tiles(const gop_ctx *, const gop_task *task, const gop_plan *plan)
{
    gop_permutation g = task->geometry.permutation;
    return plan->cost >= 0.56f || g.size * transpose_item(task) < 32 << 20 ||
           transpose_widen(task, &g) > 4;
}

/* Gathered: squares of words cannot be turned as they lie, but items of bytes, or neighbours in
 * the input, can be read as words. */
static int start_inside_words(const gop_ctx *, const gop_task *task)
{
    if (transpose_item(task) > 2) return 0;
    gop_permutation g = task->geometry.permutation;
    const int item = transpose_widen(task, &g);
    int64_t offsets = (int64_t)((uintptr_t)task->in[0].data | (uintptr_t)task->out[0].data);
    bool has_words = item == 1;
    for (int axis = 0; axis < g.rank; axis++) {
        if (g.in[axis] == 1) has_words = true;
        else offsets |= g.in[axis] * item;
        if (g.out[axis] != 1) offsets |= g.out[axis] * item;
    }
    return item <= 2 && has_words && offsets % 4 != 0;
}

static int meet_in_few_banks(const gop_ctx *, const gop_task *, const gop_plan *plan)
{
    return plan->cost <= 3; /* turns that a warp takes to read an item each */
}

static const gop_candidate candidates[] = {
    {.row = &transpose_planar_row,
     .why =
         "two to sixteen long rows, 0.94 to 0.99 of copy where boxed has 0.40 to 0.90: H200, "
         "2026-11-21; it refuses short rows, which boxes do in a tenth of the time and less: "
         "H200, 2026-11-22"},
    {.row = &transpose_vectorized_row,
     .why = "rows that start at multiples of 16 bytes, the ladder's fastest there: 16384² "
            "float32 0.972 of copy, bulk 0.966, sectored 0.961, boxed 0.852: H200, 2026-11-24"},
    {.row = &transpose_pixels_row,
     .why = "three items that stay together, (3000, 3000, 3) of 1 to 8 bytes 0.80 to 0.94 of "
            "copy where boxed has 0.45 to 0.85: H200, 2026-11-22"},
    {.row = &transpose_lines_row,
     .why =
         "the fastest axis stays, (256, 512, 1024) 0.97 to 1.00 of copy where boxed has 0.83 "
         "to 0.90: H200, 2026-11-21; lines that start anywhere 0.96 to 1.14 for 0.24 to 0.80 "
         "where they are long: H200, 2026-11-24"},
    {.row = &transpose_small_row,
     .why = "all of a small array on its way at once, (3, 131072) of 2 bytes 0.97 of copy for "
            "0.73 an item a thread, which beat boxed: H200, 2026-11-21"},
    {.row = &transpose_shifted_row,
     .when = "items of 1 and 2 bytes in runs that fill half of all its tiles",
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
     .suits = start_inside_words,
     .when = "items of 1 and 2 bytes whose rows start inside words, where a warp reads an item "
             "each in three turns at most",
     .why =
         "1.12 (1 byte) and 1.06 (2 bytes) times as fast as boxed; by turns 1 to 4 of 1 byte "
         "1.12, 1.07, 1.03, 0.92: H200, 2026-11-25",
     .pays = meet_in_few_banks},
    {.row = &transpose_boxed_row,
     .why = "any axes: 94.9 % of all calls from 4 MiB not slower than PyTorch and CuPy, 78.4 "
            "without its boxes: H200, 2026-11-23"},
    {.row = &transpose_naive_row,
     .why = "takes all that is left: a single item beside multiples of 16 bytes"},
};

extern const gop_choice transpose_choice;
const gop_choice transpose_choice = {sizeof candidates / sizeof *candidates, candidates,
                                     nullptr};
