/*
 * sm90.h - the gate of compute capability 9.0.
 *
 * Files that use its instructions (pipeline.h, cluster.h, tma.h, wgmma.h) are named *_sm90.cu,
 * and the build compiles them for 9.0 only: their rows refuse on every other GPU, by
 * gop_has_sm90. GOP_SM90 is 0 where no such code can be made: on sim, whose rows refuse too.
 */
#ifndef GOP_CUDA_COMMON_SM90_H
#define GOP_CUDA_COMMON_SM90_H

#include "cuda/device.h"

#ifdef __CUDACC__
#define GOP_SM90 1
#else
#define GOP_SM90 0
#endif

/* Refuses, for `who`, where code for compute capability 9.0 does not run. */
static inline gop_status gop_has_sm90(const gop_ctx *ctx, const char *who, const char *why)
{
    GOP_TRY(gop_has_code(ctx, who, 9, why));
    if (ctx->info.major == 9) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "%s takes a GPU of compute capability 9.0, for which alone it is compiled, "
                    "got %d.%d",
                    who, ctx->info.major, ctx->info.minor);
}

#if GOP_SM90

/* Whether the code that is compiled right now is for such a GPU. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define GOP_CODE_SM90 1
#else
#define GOP_CODE_SM90 0
#endif

/* An address in shared memory, as instructions take it. */
GOP_DEVICE uint32_t shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

#endif
#endif
