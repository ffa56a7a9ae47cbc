/*
 * fake_modules.c - modules of the fake runtime: an image is the name of the one kernel it has,
 * twice(float *a, int n).
 */
#include <stdlib.h>
#include <string.h>

#include "fake_cudart.h"

int fake_modules;               /* loaded now */
unsigned fake_grid, fake_block; /* of the last launch, along x */
int fake_clusters;              /* blocks of a cluster, in the last launch; 0: none */
size_t fake_dynamic;            /* bytes of shared memory that the kernel was allowed */
int fake_ptx;                   /* the version that kernels were compiled for, times ten */
int fake_early_launches;        /* that may take place before the kernel before has ended */

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
    a->ptxVersion = fake_ptx;
    a->maxThreadsPerBlock = 512;
    a->numRegs = 128;
    a->sharedSizeBytes = 1024;
    return fake_result(cudaSuccess);
}
static void run_twice(void **arguments)
{
    float *a = *(float **)arguments[0];
    for (int i = 0; i < *(int *)arguments[1]; i++) a[i] *= 2;
}

static const fake_kernel twice = {"twice", run_twice, 2, {sizeof(float *), sizeof(int)}};

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream)
{
    (void)shared;
    fake_grid = grid.x;
    fake_block = block.x;
    fake_clusters = 0;
    const int of_a_module = strcmp(kernel, "twice") == 0;
    return fake_enqueue_kernel(stream, of_a_module ? &twice : kernel, arguments);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *how, const void *kernel,
                                void **arguments)
{
    fake_clusters = 0;
    for (unsigned i = 0; i < how->numAttrs; i++) {
        fake_early_launches +=
            how->attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization &&
            how->attrs[i].val.programmaticStreamSerializationAllowed;
        if (how->attrs[i].id == cudaLaunchAttributeClusterDimension)
            fake_clusters = (int)how->attrs[i].val.clusterDim.x;
    }
    return fake_enqueue_kernel(how->stream, kernel, arguments);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel,
                                                          int threads, size_t shared)
{
    (void)kernel, (void)threads, (void)shared;
    *blocks = 1;
    return fake_result(cudaSuccess);
}
cudaError_t cudaFuncSetAttribute(const void *f, enum cudaFuncAttribute what, int value)
{
    (void)f, (void)what;
    fake_dynamic = (size_t)value;
    return fake_result(cudaSuccess);
}
