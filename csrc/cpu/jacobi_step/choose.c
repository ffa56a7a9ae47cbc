/*
 * choose.c - the choice of a kernel for a step: threaded, which takes every system.
 *
 * The others are steps towards it. ladder.c includes this file.
 */
#include "core/choice.h"

static const gop_candidate jacobi_step_candidates[] = {
    {.row = &jacobi_step_threaded_row,
     .why = "the only one that takes stencils, and several rows of a matrix at a time: 5 "
            "points 2048² of gpuops.sparse 0.85 to 1.25 of SciPy's time for A @ x: AMD EPYC, a "
            "thread, 2026-11-22"},
};

static const gop_choice jacobi_step_choice = {sizeof jacobi_step_candidates /
                                                  sizeof *jacobi_step_candidates,
                                              jacobi_step_candidates, NULL};
