/*
 * reduce.h - names and dtypes of the reductions, and calls that do not fit a device.
 */
#ifndef GOP_REDUCE_H
#define GOP_REDUCE_H

#include "core/core.h"

/* Those that are functions of Python: X(op, word). */
/* clang-format off */
#define GOP_REDUCTIONS(X)                                                                      \
    X(GOP_SUM, sum) X(GOP_PROD, prod) X(GOP_MIN, min) X(GOP_MAX, max) X(GOP_MEAN, mean)        \
    X(GOP_ANY, any) X(GOP_ALL, all) X(GOP_ARGMIN, argmin) X(GOP_ARGMAX, argmax)
/* clang-format on */

/* ---- reductions.c ---- */

/* Also of those that are no functions: "sumsq". */
extern const char *const gop_reductions[GOP_NREDUCE];
/* The function of Python that makes it: "sum". Where there is none, "reduce". */
const char *gop_reduction_name(gop_reduce_op op);
/* 1 and the reduction of that name, or 0. */
int gop_reduction_find(const char *name, gop_reduce_op *op);
gop_dtype gop_reduction_dtype(gop_reduce_op op, gop_dtype in);

/* ---- reduce_terms.c and reduce_exact.c: the descriptor's by_terms, and an exact sum's ---- */

gop_status gop_reduce_by_terms(const gop_call *call, const gop_run_options *options,
                               gop_runner run) GOP_MUST_CHECK;
gop_status gop_reduce_exactly_by_terms(const gop_call *call, const gop_run_options *options,
                                       gop_runner run) GOP_MUST_CHECK;

#endif
