/*
 * ladder.h - the ladder of an operation, from a list of its kernels: for ladder.cu files.
 */
#ifndef GOP_CUDA_LADDER_H
#define GOP_CUDA_LADDER_H

#include "core/row.h"

/* The ladder of an op: ROWS(ROW) lists its kernels as ROW(op, name), as a reader meets them;
 * each is the gop_row op_name_row of a file of its own. op_choice is in choose.cu. */
#define GOP_CUDA_LADDER(op, ROWS)                                                              \
    ROWS(GOP_ROW_DECLARED)                                                                     \
    extern const gop_choice op##_choice;                                                       \
    static const gop_row *const op##_rows[] = {ROWS(GOP_ROW_LISTED)};                          \
    extern "C" {                                                                               \
    extern const gop_ladder gop_cuda_##op;                                                     \
    const gop_ladder gop_cuda_##op = {sizeof op##_rows / sizeof *op##_rows, op##_rows,         \
                                      &op##_choice};                                           \
    }                                                                                          \
    static_assert(sizeof op##_rows > 0, "a ladder has rows")
#define GOP_ROW_DECLARED(op, name) extern const gop_row op##_##name##_row;
#define GOP_ROW_LISTED(op, name) &op##_##name##_row,

#endif
