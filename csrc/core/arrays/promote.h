/*
 * promote.h - the dtype of a result whose operands have several: NumPy's rules, and those of
 * docs/numerics.md for bfloat16, of which NumPy has none.
 */
#ifndef GOP_PROMOTE_H
#define GOP_PROMOTE_H

#include "core/core.h"

/* The dtype of the result of one array or more. */
gop_dtype gop_promote_all(const gop_dtype *dtypes, int count);
/* The dtype of the result of an array and a Python int ('i'), float ('f') or complex ('c').
 * Such a number is weak: it changes the dtype only if its kind ranks above the array's. */
gop_dtype gop_promote_weak(gop_dtype dtype, char kind);

#endif
