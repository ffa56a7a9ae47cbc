/*
 * choose.cu - which kernel counts pairs: the first of these that takes the call.
 *
 * Where few pairs are near enough to count, most of them need not be looked at; else a pair
 * takes the fewest instructions where its bin can be guessed.
 */
#include <math.h>

#include "core/choice.h"
#include "cuda/rdf/arguments.h"

static int are_near_pairs_few(const gop_ctx *, const gop_task *task, const gop_plan *plan)
{
    return gop_are_near_pairs_few(&task->geometry.pairs, plan->cost);
}

extern const gop_row rdf_cells_row, rdf_guessed_row, rdf_persistent_row;
static const gop_candidate candidates[] = {
    {.row = &rdf_cells_row,
     .when = "r_max so short that pairs of near cells cost less than all pairs by guessed",
     .why = "1,000,000 points, r_max a twentieth of the box, 1.41 to 2.88 ms, where all pairs "
            "at 889 to 1527 Gpairs/s would take 327 ms and more: H200, 2026-11-22",
     .pays = are_near_pairs_few},
    {.row = &rdf_guessed_row,
     .why = "edges that are even in r or in log r: 44,028 points 0.65 to 2.16 ms, persistent "
            "1.54 to 3.95: H200, 2026-11-22"},
    {.row = &rdf_persistent_row,
     .why = "any edges: 1.5 ms where shared takes 28.1 and naive 191: the H200's ladder"},
};

extern const gop_choice rdf_choice;
const gop_choice rdf_choice = {sizeof candidates / sizeof *candidates, candidates, nullptr};
