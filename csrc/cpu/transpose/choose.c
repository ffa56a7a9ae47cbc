/*
 * choose.c - the choice of a kernel for transpose: threaded, which takes every call.
 *
 * The others are steps towards it. ladder.c includes this file.
 */
#include "core/choice.h"

static const gop_candidate transpose_candidates[] = {
    {.row = &transpose_threaded_row,
     .why = "the ladder's fastest, 8192² float32: 19 ms, streaming 29.7, simd 57.8: AMD EPYC, "
            "two cores, 2026-11-22"},
};

static const gop_choice transpose_choice = {
    sizeof transpose_candidates / sizeof *transpose_candidates, transpose_candidates, NULL};
