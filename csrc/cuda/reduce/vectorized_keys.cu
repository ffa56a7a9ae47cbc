/*
 * vectorized_keys.cu - reduce: the launches of `vectorized` for minima, maxima, any, all and
 * positions.
 */
#include "cuda/reduce/extremes.h"
#include "cuda/reduce/vectorized_kernel.h"

/* clang-format off */
OF_WHOLE(extreme_map) OF_REAL(extreme_map) OF(extreme_map<word128>)
OF_WHOLE(position_map) OF_REAL(position_map) OF_COMPLEX(position_map)
    /* clang-format on */
