/*
 * item_size.h - host code: bytes of an item of a dtype.
 */
#ifndef GOP_CUDA_COMMON_ITEM_SIZE_H
#define GOP_CUDA_COMMON_ITEM_SIZE_H

#include "gpuops.h"

static inline int item_size(gop_dtype dtype)
{
    static const uint8_t bytes_of[] = {
#define X(enumerator, word, bytes) bytes,
        GOP_DTYPES(X)
#undef X
    };
    return bytes_of[dtype];
}

#endif
