/*
 * choose.c - which kernel transposes: the first of these that takes the call.
 */
#include "opencl/opencl.h"

extern const gop_row transpose_blocked_row, transpose_chunked_row, transpose_words_row,
    transpose_padded_row, transpose_naive_row;

static const gop_candidate candidates[] = {
    {.row = &transpose_blocked_row,
     .suits = gop_cl_suits_cpu,
     .when = "CPU devices",
     .why =
         "64 MiB float32: 0.56 to 1.25 of the cpu backend's speed in three runs, padded 0.4, "
         "naive 0.1: PoCL 3.1 on two cores of an AMD EPYC, 2026-11-28"},
    {.row = &transpose_chunked_row,
     .suits = gop_cl_suits_cpu,
     .when = "CPU devices",
     .why = "what leaves the fastest axis in its place: lines are copied"},
    {.row = &transpose_words_row,
     .why = "32768² bytes 2801 GB/s, padded 561; 23168² items of 2 bytes 2585 for 1039: "
            "NVIDIA's OpenCL on an H200, 2026-11-29"},
    {.row = &transpose_padded_row,
     .why = "16384² float32 3262 GB/s by 2 rows of work-items, 2395 by 8, tiled 1524: NVIDIA's "
            "OpenCL on an H200, 2026-11-29"},
    {.row = &transpose_naive_row,
     .why =
         "takes all that is left: where the fastest axis stays, its accesses are neighbours"},
};

extern const gop_choice transpose_choice;
const gop_choice transpose_choice = {sizeof candidates / sizeof *candidates, candidates, NULL};
