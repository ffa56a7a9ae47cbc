/*
 * launch.h - launching and the few intrinsics, for nvcc; sim brings its own file of this name.
 */
#ifndef GOP_CUDA_LAUNCH_H
#define GOP_CUDA_LAUNCH_H

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "core/core.h"

#define GOP_DEVICE __device__ __forceinline__

/* The host that opened this library; set by gpuops_cuda.cu. */
extern const gop_host *gop_lent;
#define gop_fail gop_lent->fail

/* A CUDA context: core's, then the stream. */
struct gop_cuda_ctx {
    gop_ctx base;
    cudaStream_t stream;
    cudaEvent_t events[GOP_EVENTS];
};

/* Makes a device current, and puts the one before it back. */
gop_status gop_cuda_enter(int ordinal, int *previous);
void gop_cuda_leave(int ordinal, int previous);
/* GOP_OK, or the failure of the launch just made, naming the kernel. */
gop_status gop_cuda_launched(const char *kernel);
/* Allows a kernel more than 48 KiB of shared memory. */
gop_status gop_cuda_allow_shared(const void *kernel, size_t bytes);

/* GOP_LAUNCH(ctx, kernel, grid, block, shared bytes, arguments...): enqueues; a gop_status.
 * Put a kernel with several template arguments in parentheses. */
#define GOP_LAUNCH(ctx, kernel, grid, block, shared, ...)                                      \
    gop_cuda_launch_(ctx, #kernel, kernel, grid, block, shared, __VA_ARGS__)

template <typename... P, typename... V>
static inline gop_status gop_cuda_launch_(gop_ctx *ctx, const char *name, void (*kernel)(P...),
                                          dim3 grid, dim3 block, size_t shared, V... arguments)
{
    gop_status status = GOP_OK;
    int previous;
    GOP_TRY(gop_cuda_enter(ctx->device.ordinal, &previous));
    if (shared > 48 * 1024) status = gop_cuda_allow_shared((const void *)kernel, shared);
    if (status == GOP_OK) {
        kernel<<<grid, block, shared, reinterpret_cast<gop_cuda_ctx *>(ctx)->stream>>>(
            P(arguments)...);
        status = gop_cuda_launched(name);
    }
    gop_cuda_leave(ctx->device.ordinal, previous);
    return status;
}

/* Whether a*b + c may become one instruction here. */
static inline bool gop_contracts(void)
{
    return true;
}

GOP_DEVICE float gop_bits_to_float(uint32_t bits)
{
    return __uint_as_float(bits);
}
GOP_DEVICE uint32_t gop_float_to_bits(float value)
{
    return __float_as_uint(value);
}
GOP_DEVICE float gop_f16_to_float(uint16_t bits)
{
    return __half2float(__ushort_as_half(bits));
}
GOP_DEVICE uint16_t gop_float_to_f16(float value)
{
    return __half_as_ushort(__float2half_rn(value));
}

#endif
