/*
 * choose.c - which kernel reduces: of those that keep tree/v1's bits one for each kind of
 * device.
 */
#include "opencl/opencl.h"

extern const gop_row reduce_chunked_row, reduce_tree_row;

static const gop_candidate candidates[] = {
    {.row = &reduce_chunked_row,
     .suits = gop_cl_suits_cpu,
     .when = "CPU devices",
     .why = "64 MiB float32, of the cpu backend's speed: all 0.92, rows 0.93, columns 0.83, "
            "rows of 8 0.31, argmax 0.95; tree 0.06: PoCL 3.1 on two cores of an AMD EPYC, "
            "2026-11-29"},
    {.row = &reduce_tree_row,
     .why = "4 GiB float32, of the cuda backend's speed: all 0.87, rows of 32768 0.88, columns "
            "0.79; chunked was not tried there: NVIDIA's OpenCL on an H200, 2026-11-29"},
};

extern const gop_choice reduce_choice;
const gop_choice reduce_choice = {sizeof candidates / sizeof *candidates, candidates, NULL};
