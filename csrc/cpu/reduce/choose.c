/*
 * choose.c - which kernel reduces: threaded, which takes every call but those of exact sums.
 *
 * The others are steps on the way to it. Included by ladder.c.
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
