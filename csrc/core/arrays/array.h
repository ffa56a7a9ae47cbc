/*
 * array.h - what core alone asks of dtypes and layouts, beside core.h: the dtype that several
 * have in common, and the order of axes in memory.
 */
#ifndef GOP_ARRAY_H
#define GOP_ARRAY_H

#include "core/core.h"

/* The dtype of the result of one array or more: NumPy's rules, and those of docs/numerics.md
 * for bfloat16, of which NumPy has none. */
gop_dtype gop_promote_all(const gop_dtype *dtypes, int count);
/* The dtype of the result of an array and a Python int ('i'), float ('f') or complex ('c').
 * Such a number is weak: it changes the dtype only if its kind ranks above the array's. */
gop_dtype gop_promote_weak(gop_dtype dtype, char kind);

/* Sets the strides of an output whose shape and dtype are inferred: an elementwise operation
 * keeps the order of its inputs, as NumPy does; all others give C order. */
void gop_lay_out(const gop_call *call, gop_array *out);
/* Whether an array has the strides of C order, along every axis. */
int gop_is_c_order(const gop_array *array);
/* A view of an array without gaps in memory order: the axes are sorted so that `stored` is in C
 * order. */
void gop_as_stored(const gop_array *array, gop_array *stored);

#endif
