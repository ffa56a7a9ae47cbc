/*
 * modules.cu - kernels that are compiled while the program runs: load, launch, unload.
 *
 * The limits of a launch are checked first: for a block that is too large the driver only says
 * "invalid argument" or "too many resources requested", without the limit or what to do.
 */
#include <stdio.h>

#include "cuda/runtime/runtime.h"

gop_status gop_cuda_load(gop_ctx *ctx, const void *image, void **module)
{
    const gop_cuda_current current(ctx->device.ordinal);
    GOP_TRY(current.status);
    cudaLibrary_t library = NULL;
    const gop_status status =
        GOP_CUDA("cuda.module", "loading compiled kernels",
                 cudaLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    *module = library;
    return status;
}

void gop_cuda_unload(void *module)
{
    if (gop_cuda_in_forked_child()) return; /* it belongs to the parent */
    cudaLibraryUnload((cudaLibrary_t)module);
    cudaGetLastError();
}

static gop_status check_limits(const gop_ctx *ctx, const gop_kernel_launch *l,
                               const cudaFuncAttributes *kernel)
{
    const uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    const uint64_t most = (uint64_t)kernel->maxThreadsPerBlock;
    const uint64_t shared = kernel->sharedSizeBytes + l->shared;
    if (l->block[0] > 1024 || l->block[1] > 1024 || l->block[2] > 64 || threads > most)
        return gop_fail(
            GOP_DEVICE_FAILED,
            "cuda: %s: a block of (%u, %u, %u) threads, expected at most (1024, 1024, 64) and "
            "%llu together with the %d registers that each takes; make blocks smaller and the "
            "grid larger, or say __launch_bounds__(threads) in the source",
            l->name, l->block[0], l->block[1], l->block[2], (unsigned long long)most,
            kernel->numRegs);
    if (l->grid[0] > 0x7fffffffu || l->grid[1] > 65535 || l->grid[2] > 65535)
        return gop_fail(GOP_DEVICE_FAILED,
                        "cuda: %s: a grid of (%u, %u, %u) blocks, expected at most "
                        "(2147483647, 65535, 65535); put the long axis first, or let each "
                        "thread do several elements",
                        l->name, l->grid[0], l->grid[1], l->grid[2]);
    if (shared > (uint64_t)ctx->info.shared_per_block)
        return gop_fail(GOP_DEVICE_FAILED,
                        "cuda: %s: %llu bytes of shared memory a block, expected at most %lld "
                        "on this device; take a smaller tile",
                        l->name, (unsigned long long)shared,
                        (long long)ctx->info.shared_per_block);
    return GOP_OK;
}

/* With the device current. */
static gop_status start_module(gop_ctx *ctx, cudaLibrary_t library, const gop_kernel_launch *l)
{
    /* An error may surface after the module is gone: the name it is told by stays. */
    static __thread char name[128];
    cudaKernel_t kernel;
    cudaFuncAttributes attributes;
    GOP_TRY(gop_cuda_check(cudaLibraryGetKernel(&kernel, library, l->symbol),
                           "looking for a kernel in its module"));
    GOP_TRY(gop_cuda_check(cudaFuncGetAttributes(&attributes, (const void *)kernel),
                           "asking for a kernel's limits"));
    GOP_TRY(check_limits(ctx, l, &attributes));
    if (l->shared + attributes.sharedSizeBytes > 48 * 1024)
        GOP_TRY(gop_cuda_allow_shared((const void *)kernel, l->shared));
    snprintf(name, sizeof name, "%s", l->name);
    const dim3 grid(l->grid[0], l->grid[1], l->grid[2]);
    const dim3 block(l->block[0], l->block[1], l->block[2]);
    const cudaError_t code = cudaLaunchKernel((const void *)kernel, grid, block, l->arguments,
                                              l->shared, thread_of(ctx)->stream);
    return gop_cuda_launched(name, code);
}

gop_status gop_cuda_launch(gop_ctx *ctx, void *module, const gop_kernel_launch *launch)
{
    const gop_cuda_current current(ctx->device.ordinal);
    GOP_TRY(current.status);
    return start_module(ctx, (cudaLibrary_t)module, launch);
}
