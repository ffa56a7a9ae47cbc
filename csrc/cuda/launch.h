/*
 * launch.h - launching and the few intrinsics, for nvcc; sim brings its own file of this name.
 */
#ifndef GOP_CUDA_LAUNCH_H
#define GOP_CUDA_LAUNCH_H

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "core/row.h"

#define GOP_DEVICE __device__ __forceinline__

/* The host that opened this library; set by gpuops_cuda.cu. */
extern const gop_host *gop_services;
#define gop_fail gop_services->fail

/* The blocks of a launch, and how many neighbours along x are a cluster (sm90.h); 0: none. */
struct gop_cuda_grid {
    dim3 blocks;
    int cluster;
    template <typename B> gop_cuda_grid(B blocks, int cluster = 0)
        : blocks(blocks), cluster(cluster)
    {
    }
};

/* A launch: the address and the size of each argument. */
struct gop_cuda_kernel {
    const char *name;
    const void *function;
    dim3 grid, block;
    size_t shared;
    int count;
    void **arguments;
    const size_t *bytes;
    short how, cluster; /* gop_cuda_how; blocks of a cluster, or 0 */
};
enum gop_cuda_how {
    GOP_CUDA_PLAINLY,
    GOP_CUDA_EARLY,    /* a programmatic dependent launch */
    GOP_CUDA_TOGETHER, /* all of its blocks are on the device at once */
    GOP_CUDA_FOLLOWED, /* another launch of the same step comes next */
};
extern "C" {
gop_status gop_cuda_enqueue(gop_ctx *ctx, const gop_cuda_kernel *kernel);
gop_status gop_cuda_at_once(const gop_ctx *ctx, const void *kernel, int threads, size_t shared,
                            int64_t *blocks);
gop_cuda_how gop_cuda_first(const gop_ctx *ctx, const gop_task *task, int is_followed);
}

/* GOP_LAUNCH(ctx, kernel, grid, block, shared bytes, arguments...): enqueues; a gop_status.
 * Put a kernel with several template arguments in parentheses. For clusters, the grid is
 * gop_cuda_grid(blocks, cluster). */
#define GOP_LAUNCH(ctx, kernel, grid, block, shared, ...)                                      \
    gop_cuda_launch_(ctx, GOP_CUDA_PLAINLY, #kernel, kernel, grid, block, shared, __VA_ARGS__)

/* The same; if `is_followed`, the next launch of this step is certain to follow, and both
 * become one graph once they repeat. */
#define GOP_LAUNCH_FOLLOWED(ctx, is_followed, kernel, grid, block, shared, ...)                \
    gop_cuda_launch_(ctx, (is_followed) ? GOP_CUDA_FOLLOWED : GOP_CUDA_PLAINLY, #kernel,       \
                     kernel, grid, block, shared, __VA_ARGS__)

/* The same for a kernel that is made ready while the one before runs (programmatic dependent
 * launch). Every thread calls grid_dependency_sync: at entry, or, if the kernel before has
 * triggered this one with all its inputs written, at exit, so that it does not end sooner. */
#define GOP_LAUNCH_EARLY(ctx, kernel, grid, block, shared, ...)                                \
    gop_cuda_launch_(ctx, GOP_CUDA_EARLY, #kernel, kernel, grid, block, shared, __VA_ARGS__)

/* The same for the first kernel of a call, whose threads call grid_dependency_sync before they
 * read or write: as a programmatic dependent launch if the call is memory-bound for long enough
 * to hide it, as it costs the host more than a launch as a graph; else as followed or not. */
#define GOP_LAUNCH_FIRST(ctx, task, is_followed, kernel, grid, block, shared, ...)             \
    gop_cuda_launch_(ctx, gop_cuda_first(ctx, task, is_followed), #kernel, kernel, grid,       \
                     block, shared, __VA_ARGS__)

/* The same for a kernel whose blocks wait for each other at gop_grid_barrier. A grid that the
 * device does not hold at once is refused: none waits for a block that has not begun. */
#define GOP_LAUNCH_TOGETHER(ctx, kernel, grid, block, shared, ...)                             \
    gop_cuda_launch_(ctx, GOP_CUDA_TOGETHER, #kernel, kernel, grid, block, shared, __VA_ARGS__)

/* How many blocks of that kernel may be resident, for its plan; 0: none. */
#define GOP_AT_ONCE(ctx, kernel, threads, shared, blocks)                                      \
    gop_cuda_at_once(ctx, (const void *)(kernel), threads, shared, blocks)

/* Its parameters are the kernel's, so that a call converts the arguments as a launch would. */
template <typename... P> struct gop_cuda_launcher_ {
    static gop_status enqueue(gop_ctx *ctx, gop_cuda_how how, const char *name,
                              void (*kernel)(P...), gop_cuda_grid grid, dim3 block,
                              size_t shared, P... arguments)
    {
        void *addresses[] = {(void *)&arguments..., nullptr};
        const size_t bytes[] = {sizeof(P)..., 0};
        const gop_cuda_kernel k = {name,         (const void *)kernel, grid.blocks, block,
                                   shared,       sizeof...(P),         addresses,   bytes,
                                   (short)(how), (short)grid.cluster};
        return gop_cuda_enqueue(ctx, &k);
    }
};
template <typename... P, typename... V>
static inline gop_status gop_cuda_launch_(gop_ctx *ctx, gop_cuda_how how, const char *name,
                                          void (*kernel)(P...), gop_cuda_grid grid, dim3 block,
                                          size_t shared, V... arguments)
{
    return gop_cuda_launcher_<P...>::enqueue(ctx, how, name, kernel, grid, block, shared,
                                             P(arguments)...);
}

/* Dependent kernels may be scheduled from here on (the trigger of programmatic dependent
 * launch). */
GOP_DEVICE void launch_dependents(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/* Waits until the kernel before has ended and its stores are visible. */
GOP_DEVICE void grid_dependency_sync(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

/* Adds one, with release semantics. */
GOP_DEVICE void gop_count_release(unsigned *count)
{
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(count) : "memory");
}
GOP_DEVICE unsigned gop_load_acquire(const unsigned *count)
{
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(count) : "memory");
    return value;
}

/* A barrier for all blocks of the grid; `count` numbers the caller's barriers from 1. `arrived`
 * is 0 before the launch. Stores before it are visible after it. */
GOP_DEVICE void gop_grid_barrier(unsigned *arrived, unsigned count)
{
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        const unsigned all = count * gridDim.x;
        gop_count_release(arrived);
        while ((int)(gop_load_acquire(arrived) - all) < 0) continue;
    }
    __syncthreads();
}

/* Whether this is the simulator of a GPU. */
static inline bool gop_is_sim(void)
{
    return false;
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
