/*
 * choose.c - which kernel multiplies: the first of these that takes the call.
 */
#include "opencl/opencl.h"

extern const gop_row matmul_packed_row, matmul_thin_row, matmul_naive_row,
    matmul_blocktiled_row;

static int is_wide(const gop_ctx *ctx, const gop_task *task)
{
    enum { LEAST = 16 }; /* with fewer a tile would mostly be empty */
    (void)ctx;
    return task->geometry.gemm.m >= LEAST && task->geometry.gemm.n >= LEAST;
}

static const gop_candidate candidates[] = {
    {.row = &matmul_packed_row,
     .suits = gop_cl_suits_cpu,
     .when = "CPU devices",
     .why = "1024 float32: 110 to 130 GF/s, 0.87 to 1.01 of the cpu backend's speed in three "
            "runs, "
            "the others 2: PoCL 3.1 on two cores of an AMD EPYC, 2026-11-28"},
    {.row = &matmul_thin_row,
     .suits = gop_cl_suits_cpu,
     .when = "CPU devices",
     .why =
         "4096 x 4096 float32 times a vector 0.74 of the cpu backend's speed, with contiguous "
         "columns 0.71: PoCL 3.1 on two cores of an AMD EPYC, 2026-11-29"},
    {.row = &matmul_blocktiled_row,
     .suits = is_wide,
     .when = "16 rows and columns or more",
     .why = "few loads for each multiply-add; 4096² float32 18 to 20 Tflop/s, cuBLAS 51: "
            "NVIDIA's OpenCL on an H200, 2026-11-29"},
    {.row = &matmul_naive_row, .why = "takes all that is left: thin products"},
};

extern const gop_choice matmul_choice;
const gop_choice matmul_choice = {sizeof candidates / sizeof *candidates, candidates, NULL};
