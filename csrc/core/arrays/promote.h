/*
 * promote.h - the dtype of a result whose operands have several: NumPy's rules, and those of
 * docs/numerics.md for bfloat16, of which NumPy has none.
 */
#ifndef GOP_PROMOTE_H
#define GOP_PROMOTE_H

#include "core/core.h"

/* Of two arrays, and of one or more. */
gop_dtype gop_promote(gop_dtype a, gop_dtype b);
gop_dtype gop_promote_all(const gop_dtype *dtypes, int count);
/* Beside a number of Python's, an int, a float or a complex: 'i', 'f' or 'c'. It is weak: of
 * its kind's rank an array's dtype stays. */
gop_dtype gop_promote_weak(gop_dtype dtype, char kind);

#endif
