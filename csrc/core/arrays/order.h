/*
 * order.h - the order of axes in memory, for arrays that are to be made.
 */
#ifndef GOP_ORDER_H
#define GOP_ORDER_H

#include "core/core.h"

/* Sets the strides of an output whose shape and dtype are inferred: an elementwise operation
 * keeps the order of its inputs, as NumPy does; all others give C order. */
void gop_lay_out(const gop_call *call, gop_array *out);
/* Whether an array has the strides of C order, along every axis. */
int gop_is_c_order(const gop_array *array);
/* A view of an array without gaps in memory order: the axes are sorted so that `stored` is in C
 * order. */
void gop_as_stored(const gop_array *array, gop_array *stored);

#endif
