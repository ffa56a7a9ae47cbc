/*
 * reduce.h - what the reductions are called.
 */
#ifndef GOP_REDUCE_H
#define GOP_REDUCE_H

#include "gpuops.h"

/* The function of Python that makes it: "sum". Where there is none, "reduce". */
const char *gop_reduction_name(gop_reduce_op op);
/* 1 and the reduction of that name, or 0. */
int gop_reduction_find(const char *name, gop_reduce_op *op);

#endif
