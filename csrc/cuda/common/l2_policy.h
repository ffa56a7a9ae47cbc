/*
 * l2_policy.h - what the L2 cache keeps of arrays that are longer than it.
 *
 * If such an array is read from end to end again and again, it evicts its own beginning each
 * time. Two policies help. Every other call reads in reverse, and first finds what the call
 * before left; the first one begins at the end, since the writer of the array left that in the
 * cache. Or a share of the lines persists for the next call, while the others are evicted
 * first.
 */
#ifndef GOP_CUDA_COMMON_L2_POLICY_H
#define GOP_CUDA_COMMON_L2_POLICY_H

#include "cuda/device.h"

/* Whether a long call reads in reverse: an operation's calls in a host thread alternate. */
template <gop_op OP> inline unsigned l2_reverse(void)
{
    static __thread unsigned calls;
    return ++calls % 2;
}

GOP_DEVICE unsigned l2_block(unsigned reverse)
{
    return reverse ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
}

/* The share of so many bytes that persists, less than half of the cache in all. 1 means the
 * default policy: for arrays that nearly fit, and for those that far exceed the cache. */
static inline float l2_persisting_share(const gop_ctx *ctx, int64_t bytes)
{
    const int64_t cache = ctx->info.l2, kept = cache / 5 * 2;
    return bytes > cache / 3 * 2 && bytes <= 8 * cache ? (float)kept / (float)bytes : 1.0f;
}

/* The address with the policy that loads through it use. */
template <typename T> GOP_DEVICE const T *l2_persist(const T *a, float share)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const uint64_t plain = UINT64_C(0x1000000000000000); /* the default policy */
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
