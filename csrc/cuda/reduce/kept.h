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

/* The share of the array that stays: together less than half of the cache. */
static inline float kept_share(const gop_ctx *ctx, const gop_task *task)
{
#define X(enumerator, word, bytes) bytes,
    static const int item[] = {GOP_DTYPES(X)};
#undef X
    const gop_reduction &g = task->geometry.reduction;
    const int64_t bytes = g.outputs * g.count * item[task->in[0].dtype];
    const int64_t kept = ctx->info.l2 / 5 * 2;
    return kept > 0 && kept < bytes ? (float)kept / (float)bytes : 1.0f;
}

/* The address, by which loads say whether their line stays. */
template <typename T> GOP_DEVICE const T *kept_in_part(const T *a, float share)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_normal.L2::evict_first.b64 %0, %1;"
        : "=l"(policy)
        : "f"(share));
    return static_cast<const T *>(__nv_associate_access_property(a, policy));
#else
    return a;
#endif
}

#endif
