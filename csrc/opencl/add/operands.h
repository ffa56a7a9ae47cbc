/*
 * operands.h - what the rows of add, multiply_add and fma share: options of a build, operands.
 */
#ifndef GOP_OPENCL_ADD_OPERANDS_H
#define GOP_OPENCL_ADD_OPERANDS_H

#include "opencl/opencl.h"

#define ADD_FLOATS                                                                             \
    (1u << GOP_FLOAT16 | 1u << GOP_BFLOAT16 | 1u << GOP_FLOAT32 | 1u << GOP_FLOAT64)

/* What sentences call it: one file is for all three. */
const char *gop_cl_add_name(const gop_task *task);
/* GOP_BAD_TYPE where the device has not the arithmetic of this dtype. */
gop_status gop_cl_add_can(const gop_ctx *ctx, const gop_task *task) GOP_MUST_CHECK;
/* The options of a build for vectors of so many numbers, and what else it defines. */
void gop_cl_add_options(const gop_task *task, int items, const char *more,
                        char options[GOP_CL_OPTIONS]);
/* The operands of a launch; of two inputs the second stands for the third as well. */
void gop_cl_add_operands(const gop_task *task, gop_cl_launch *launch);
/* One launch, or one for each index of the axes that a kernel is not told of. */
gop_status gop_cl_add_launch(gop_ctx *ctx, const gop_task *task, gop_cl_launch *launch,
                             gop_cl_axes *axes) GOP_MUST_CHECK;
/* The axes that a kernel is told of, of an output with elements. */
void gop_cl_add_axes(const gop_elementwise *e, gop_cl_axes *axes);

/* The three rows of a file, of which fma's takes floats alone. */
#define ADD_ROWS(kernel, ...)                                                                  \
    extern const gop_row add_##kernel##_row, multiply_add_##kernel##_row, fma_##kernel##_row;  \
    const gop_row add_##kernel##_row = {                                                       \
        .name = #kernel, .dtypes = GOP_EVERY_DTYPE, .role = GOP_CONFORMING, __VA_ARGS__};      \
    const gop_row multiply_add_##kernel##_row = {                                              \
        .name = #kernel, .dtypes = GOP_EVERY_DTYPE, .role = GOP_CONFORMING, __VA_ARGS__};      \
    const gop_row fma_##kernel##_row = {                                                       \
        .name = #kernel, .dtypes = ADD_FLOATS, .role = GOP_CONFORMING, __VA_ARGS__}

#endif
