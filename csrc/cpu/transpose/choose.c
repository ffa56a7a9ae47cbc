/*
 * choose.c - which kernel transposes: threaded, which takes every call.
 *
 * The others are steps on the way to it. Included by ladder.c.
 */
#include "core/choice.h"

static const gop_candidate transpose_candidates[] = {
    {.row = &transpose_threaded_row,
     .why = "the ladder's fastest, 8192² float32: 19 ms, streaming 29.7, simd 57.8: AMD EPYC, "
            "two cores, 2026-11-22"},
};

static const gop_choice transpose_choice = {
    sizeof transpose_candidates / sizeof *transpose_candidates, transpose_candidates, NULL};
