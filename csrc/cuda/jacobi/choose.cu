/*
 * choose.cu - which kernel solves: the first of these that takes the system.
 *
 * What stays on the chip between steps need not be read again, and steps of one kernel wait for
 * each other in less time than a launch takes. How chained makes a step says the choice of
 * jacobi_step.
 */
#include "core/choice.h"

extern const gop_row jacobi_resident_row, jacobi_regular_row, jacobi_blocked_row,
    jacobi_chained_row;
static const gop_candidate candidates[] = {
    {.row = &jacobi_resident_row,
     .why = "a dense A that fits the registers of the device is read once, and x alone at each "
            "step"},
    {.row = &jacobi_regular_row,
     .why = "CSR with short rows, 5 points float32, 200 iterations: 512² 0.98 ms, 2048² 18.0, "
            "by chained 7.2 and 45: H200, 2026-11-22"},
    {.row = &jacobi_blocked_row,
     .why = "a stencil of two axes, 8192² float32, 200 iterations with ten between checks: "
            "47.6 ms, by chained 174: H200, 2026-11-23"},
    {.row = &jacobi_chained_row, .why = "takes all that is left"},
};

extern const gop_choice jacobi_choice;
const gop_choice jacobi_choice = {sizeof candidates / sizeof *candidates, candidates, nullptr};
