/*
 * choose.c - the choice of a kernel for the solver: threaded, which takes every system.
 * jacobi_step's choice picks the kernel of a step. ladder.c includes this file.
 */
#include "core/choice.h"

static const gop_candidate jacobi_candidates[] = {
    {.row = &jacobi_threaded_row, .why = "the steps of jacobi_step's choice, on all cores"},
};

static const gop_choice jacobi_choice = {sizeof jacobi_candidates / sizeof *jacobi_candidates,
                                         jacobi_candidates, NULL};
