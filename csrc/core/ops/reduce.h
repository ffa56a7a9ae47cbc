/*
 * reduce.h - what a reduction is called where a sentence names it.
 */
#ifndef GOP_REDUCE_H
#define GOP_REDUCE_H

#include "gpuops.h"

/* The function of Python that makes it: "sum". Where there is none, "reduce". */
const char *gop_reduction_name(gop_reduce_op op);

#endif
