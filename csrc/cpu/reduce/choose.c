/*
 * choose.c - the choice of a kernel for reduce: threaded, which takes every call except exact
 * sums.
 *
 * The others are steps towards it. ladder.c includes this file.
 */
#include "core/choice.h"

static const gop_candidate reduce_candidates[] = {
    {.row = &reduce_threaded_row,
     .why =
         "the ladder's fastest, 256 MiB float32: 8.8 ms, simd 21.2, blocked 199: AMD EPYC, two "
         "cores, 2026-11-22"},
    {.row = &reduce_exact_row, .why = "takes every exact sum, which no other does"},
};

static const gop_choice reduce_choice = {sizeof reduce_candidates / sizeof *reduce_candidates,
                                         reduce_candidates, NULL};
