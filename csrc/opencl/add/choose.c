/*
 * choose.c - which kernel adds: the first of these that takes the call. add, multiply_add and
 * fma have the same kernels and the same table.
 */
#include "opencl/opencl.h"

#define WHY_CHUNKED                                                                            \
    "64 MiB float32: 0.67 to 0.92 of the cpu backend's speed in three runs, naive 0.03: PoCL " \
    "3.1 on two cores of an AMD EPYC, 2026-11-28"

/* clang-format off */
#define TABLE(op)                                                                              \
    extern const gop_row op##_chunked_row, op##_vectorized_row, op##_naive_row;                \
    static const gop_candidate op##_candidates[] = {                                           \
        {.row = &op##_chunked_row,                                                             \
         .suits = gop_cl_suits_cpu,                                                                   \
         .when = "CPU devices",                                                                \
         .why = WHY_CHUNKED},                                                                  \
        {.row = &op##_vectorized_row,                                                          \
         .why = "one axis on GPUs: 1 GiB float32 1.01 of the cuda backend's speed: NVIDIA's "  \
                "OpenCL on an H200, 2026-11-29"},                                             \
        {.row = &op##_naive_row,                                                               \
         .why = "takes all that is left: operands that broadcast or are strided"},             \
    };                                                                                         \
    extern const gop_choice op##_choice;                                                       \
    const gop_choice op##_choice = {sizeof op##_candidates / sizeof *op##_candidates,          \
                                    op##_candidates, NULL}
/* clang-format on */
TABLE(add);
TABLE(multiply_add);
TABLE(fma);
