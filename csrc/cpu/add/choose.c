/*
 * choose.c - the choice of a kernel for add: threaded, which takes every call.
 *
 * The others are steps towards it. ladder.c includes this file.
 */
#include "core/choice.h"

/* clang-format off */
#define TABLE(op)                                                                              \
    static const gop_candidate op##_candidates[] = {                                           \
        {.row = &op##_threaded_row,                                                            \
         .why = "the ladder's fastest, 512 MiB float32: add 0.95 of a copy's speed, streaming "\
                "0.74, simd 0.57, naive 0.03: AMD EPYC, two cores, 2026-11-22"},               \
    };                                                                                         \
    static const gop_choice op##_choice = {sizeof op##_candidates / sizeof *op##_candidates,   \
                                           op##_candidates, NULL}
/* clang-format on */
TABLE(add);
TABLE(multiply_add);
TABLE(fma);
