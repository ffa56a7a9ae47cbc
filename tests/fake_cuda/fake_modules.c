/*
 * fake_modules.c - modules of the fake runtime: an image is the name of the one kernel it has,
 * twice(float *a, int n).
 */
#include <stdlib.h>
#include <string.h>

#include "fake_cudart.h"

int fake_modules;               /* loaded now */
unsigned fake_grid, fake_block; /* of the last launch, along x */
size_t fake_dynamic;            /* bytes of shared memory that the kernel was allowed */

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *image,
                                enum cudaJitOption *options, void **values, unsigned count,
                                enum cudaLibraryOption *more, void **more_values,
                                unsigned more_count)
{
    (void)options, (void)values, (void)count, (void)more, (void)more_values, (void)more_count;
    if (strcmp(image, "twice") != 0) return fake_result(cudaErrorNoKernelImageForDevice);
    *library = (cudaLibrary_t)(void *)strdup(image);
    fake_modules++;
    return fake_result(cudaSuccess);
}
cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    free(library);
    fake_modules--;
    return fake_result(cudaSuccess);
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    if (strcmp((char *)library, name) != 0) return fake_result(cudaErrorSymbolNotFound);
    *kernel = (cudaKernel_t)library;
    return fake_result(cudaSuccess);
}
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *kernel)
{
    (void)kernel;
    memset(a, 0, sizeof *a);
    a->maxThreadsPerBlock = 512;
    a->numRegs = 128;
    a->sharedSizeBytes = 1024;
    return fake_result(cudaSuccess);
}
cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream)
{
    (void)kernel, (void)shared;
    fake_grid = grid.x;
    fake_block = block.x;
    return fake_enqueue(stream, 1, *(void **)arguments[0], NULL,
                        (size_t) * (int *)arguments[1] * sizeof(float));
}
cudaError_t cudaFuncSetAttribute(const void *f, enum cudaFuncAttribute what, int value)
{
    (void)f, (void)what;
    fake_dynamic = (size_t)value;
    return fake_result(cudaSuccess);
}
