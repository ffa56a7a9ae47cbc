/*
 * kept.h - which part of a long array the second-level cache keeps.
 *
 * An array that is longer than the cache, read from end to end, drives out what the call before
 * left there of it. So it is read from the end, which whoever wrote it has left in the cache;
 * and of its lines of memory only as many as fit stay, for the next call that reads them, while
 * the others leave first.
 */
#ifndef GOP_CUDA_REDUCE_KEPT_H
#define GOP_CUDA_REDUCE_KEPT_H

#include "cuda/device.h"

/* The share of the array that stays: together less than half of the cache. Or 1, where loads
 * say nothing: an array that nearly fits stays anyway, and of one that is many times as long
 * too little would. */
static inline float kept_share(const gop_ctx *ctx, const gop_task *task)
{
#define X(enumerator, word, bytes) bytes,
    static const int item[] = {GOP_DTYPES(X)};
#undef X
    const gop_reduction &g = task->geometry.reduction;
    const int64_t bytes = g.outputs * g.count * item[task->in[0].dtype];
    const int64_t cache = ctx->info.l2, kept = cache / 5 * 2;
    return bytes > cache / 3 * 2 && bytes <= 8 * cache ? (float)kept / (float)bytes : 1.0f;
}

/* The address, by which loads say whether their line stays. */
template <typename T> GOP_DEVICE const T *kept_in_part(const T *a, float share)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const uint64_t plain = UINT64_C(0x1000000000000000); /* as loads that say nothing */
    uint64_t part;
    asm("createpolicy.fractional.L2::evict_normal.L2::evict_first.b64 %0, %1;"
        : "=l"(part)
        : "f"(share));
    return static_cast<const T *>(__nv_associate_access_property(a, share < 1 ? part : plain));
#else
    return a;
#endif
}

#endif
