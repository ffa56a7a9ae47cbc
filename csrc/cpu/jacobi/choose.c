/*
 * choose.c - which kernel solves: threaded, which takes every system. How it makes a step says
 * the choice of jacobi_step. Included by ladder.c.
 */
#include "core/choice.h"

static const gop_candidate jacobi_candidates[] = {
    {.row = &jacobi_threaded_row, .why = "the steps of jacobi_step's choice, on all cores"},
};

static const gop_choice jacobi_choice = {sizeof jacobi_candidates / sizeof *jacobi_candidates,
                                         jacobi_candidates, NULL};
