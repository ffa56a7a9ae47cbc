/*
 * choose.c - which kernel multiplies: the first of these that takes the call.
 *
 * Packing pays where what is packed is used often: vector and direct take the products of
 * which it is not, and say so in their plans. Included by ladder.c.
 */
#include "core/choice.h"

static const gop_candidate matmul_candidates[] = {
    {.row = &matmul_vector_row,
     .why = "a matrix times a vector or a few, and few long lines times few: (2, 1e5) @ (1e5, "
            "2) float32 5.4 times NumPy's speed, packed 0.01; of 16 lines 1.1 to 1.5, packed "
            "0.09: AMD EPYC, a thread, 2026-11-28"},
    {.row = &matmul_direct_row,
     .why = "small and thin products where they lie, (100, 1000) @ (1000, 4) float32 20.8 us: "
            "AMD EPYC, a thread, 2026-11-24"},
    {.row = &matmul_threaded_row, .why = "all others, packed, on all cores"},
};

static const gop_choice matmul_choice = {sizeof matmul_candidates / sizeof *matmul_candidates,
                                         matmul_candidates, NULL};
