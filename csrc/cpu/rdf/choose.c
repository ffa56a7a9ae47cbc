/*
 * choose.c - the choice of a kernel for rdf: the first of the table that takes the call.
 *
 * If few pairs are near enough to count, most need not be visited. ladder.c includes this file.
 */
#include "core/choice.h"

/* Whether the grid with the least predicted cost has several cells: then the plan's cost is
 * finite. */
static int has_cells(const gop_ctx *ctx, const gop_task *task, const gop_plan *plan)
{
    (void)ctx, (void)task;
    return plan->cost < INFINITY;
}

static const gop_candidate rdf_candidates[] = {
    {.row = &rdf_cells_row,
     .when = "r_max so short that looking at near cells is predicted to cost less than all "
             "pairs",
     .why =
         "r_max a twentieth of the box, 5000 points 0.9 to 1.1 ms, all pairs 13, 20,000 3.3 "
         "and 181 to 206; level with all pairs at 0.36 to 0.42 of the box of 5000 points, at "
         "0.3 of 1000: AMD EPYC, a core, 2026-11-22",
     .pays = has_cells},
    {.row = &rdf_threaded_row,
     .why = "all pairs, 44,028 points float32 512 ms, simd 1020, naive 20,000: AMD EPYC, two "
            "cores, 2026-11-23"},
};

static const gop_choice rdf_choice = {sizeof rdf_candidates / sizeof *rdf_candidates,
                                      rdf_candidates, NULL};
