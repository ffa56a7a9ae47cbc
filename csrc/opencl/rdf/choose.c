/*
 * choose.c - which kernel counts pairs: the first of these that takes the call.
 */
#include "opencl/rdf/arguments.h"

extern const gop_row rdf_chunked_row, rdf_cells_row, rdf_guessed_row, rdf_naive_row;

/* As the cuda backend decides it. */
static int are_near_pairs_few(const gop_ctx *ctx, const gop_task *task, const gop_plan *plan)
{
    const gop_pairs *p = &task->geometry.pairs;
    const double n = (double)p->n, few = n < 8e4 ? 8e4 / n : 1;
    const double pairs = n * (double)p->n2 / (p->one_set ? 2 : 1);
    (void)ctx;
    return (double)plan->cost * few * (p->box ? 4 : 2) + 4e7 <= pairs;
}

static const gop_candidate candidates[] = {
    {.row = &rdf_chunked_row,
     .suits = gop_cl_suits_cpu,
     .when = "CPU devices",
     .why = "20,000 points float32: 0.81 to 0.86 of the cpu backend's speed with and without a "
            "box, 0.4 with r_max a twentieth of it: PoCL 3.1 on two cores of an AMD EPYC, "
            "2026-11-28"},
    {.row = &rdf_cells_row,
     .when = "r_max so short that pairs of near cells cost less than all pairs",
     .why = "the cuda backend's rule; 1,000,000 points to a twentieth 0.47 of its speed: "
            "NVIDIA's OpenCL on an H200, 2026-11-29",
     .pays = are_near_pairs_few},
    {.row = &rdf_guessed_row,
     .why = "all pairs on GPUs; 500,000 points 0.30 of the cuda backend's speed: NVIDIA's "
            "OpenCL on an H200, 2026-11-29"},
    {.row = &rdf_naive_row,
     .why = "takes all that is left: counters that local memory has no room for"},
};

extern const gop_choice rdf_choice;
const gop_choice rdf_choice = {sizeof candidates / sizeof *candidates, candidates, NULL};
