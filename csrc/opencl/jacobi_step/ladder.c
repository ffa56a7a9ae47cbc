/*
 * ladder.c - the OpenCL kernels of jacobi_step, in the order of reading. Each is in the file
 * of its name, <kernel>.cl, which the device's driver compiles.
 *
 *     s = A x;   out = x + alpha (s - f)   or   out = x + omega (f - s) / d
 *
 * The floor is reading A once: memory decides. The bits of a row's sum must not depend on who
 * adds it up: tree/v1 fixes them, 128 lanes a leaf.
 */
#include "opencl/jacobi_step/system.h"

#define REALS (1u << GOP_FLOAT32 | 1u << GOP_FLOAT64)
#define EVERY (REALS | 1u << GOP_COMPLEX64 | 1u << GOP_COMPLEX128)

/* clang-format off */
#define ROWS(ROW, op, stem) \
    ROW(op, stem, naive, gop_cl_step_by_items, \
        .note = "a work-item per row: neighbouring work-items read a whole row apart", \
        .role = GOP_TEACHING, \
        .caveat = "adds a row's terms in column order, each product rounded, not in the order " \
                  "of tree/v1", \
        .lecture = "simple iteration", .tunables = {GOP_CL_GROUP}, .dtypes = REALS) \
    ROW(op, stem, group, gop_cl_step_by_groups, \
        .note = "a work-group per row, which reads neighbours, and folds its lanes in local " \
                "memory", \
        .tunables = {{"group", 3, {64, 32, 128}}}, .dtypes = EVERY) \
    ROW(op, stem, rows, gop_cl_step_rows, \
        .note = "a row a work-item, short ones in registers; on a CPU a chunk of them, with " \
                "vectors along dense ones, or across them where they have the same terms", \
        .tunables = {GOP_CL_GROUP}, .dtypes = EVERY)
/* clang-format on */

GOP_CL_LADDER(jacobi_step, jacobi_step, ROWS);
