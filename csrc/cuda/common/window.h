/*
 * window.h - 16 bytes at any address, of the two aligned pieces of 16 that they lie in.
 */
#ifndef GOP_CUDA_COMMON_WINDOW_H
#define GOP_CUDA_COMMON_WINDOW_H

#include "cuda/device.h"

/* The 16 bytes that start `shift` bytes into the first of two pieces. */
GOP_DEVICE uint4 window(uint4 low, uint4 high, int shift)
{
    uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    if (shift & 8) {
#pragma unroll
        for (int i = 0; i < 6; i++) w[i] = w[i + 2];
    }
    if (shift & 4) {
#pragma unroll
        for (int i = 0; i < 5; i++) w[i] = w[i + 1];
    }
#pragma unroll
    for (int i = 0; i < 4; i++) w[i] = __funnelshift_r(w[i], w[i + 1], 8 * (shift & 3));
    return make_uint4(w[0], w[1], w[2], w[3]);
}

#endif
