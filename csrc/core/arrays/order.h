/*
 * order.h - the order of axes in memory of arrays that are to be made.
 */
#ifndef GOP_ORDER_H
#define GOP_ORDER_H

#include "core/core.h"

/* Sets the strides of an output whose shape and dtype are inferred: that of an elementwise
 * operation keeps the order of its inputs, as NumPy's does, all others are in C order. */
void gop_lay_out(const gop_call *call, gop_array *out);
/* Whether an array has the strides of C order, along every axis. */
int gop_is_c_order(const gop_array *array);
/* The same memory in C order, of an array without gaps: its axes as they lie. */
void gop_as_stored(const gop_array *array, gop_array *stored);

#endif
