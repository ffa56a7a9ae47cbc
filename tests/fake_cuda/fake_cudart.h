/*
 * fake_cudart.h - what the files of the fake runtime share.
 */
#ifndef FAKE_CUDART_H
#define FAKE_CUDART_H

#include <cuda_runtime_api.h>

/* The code that a call returns: a sticky one, once it was met. */
cudaError_t fake_result(cudaError_t code);
extern size_t fake_capacity; /* bytes of a device */
extern int fake_clusters;    /* blocks of a cluster, in the last launch; 0: none */

int fake_current(void);
void fake_make_current(int device);
/* A kernel of the fake runtime: plain C, given the address of each argument. */
typedef struct fake_kernel {
    char name[8];
    void (*run)(void **arguments);
    int count;
    size_t bytes[8];
} fake_kernel;

/* Queues a kernel with copies of its arguments. */
cudaError_t fake_enqueue_kernel(cudaStream_t stream, const fake_kernel *kernel,
                                void **arguments);

/* As in cuda/launch.h, which is C++. */
struct gop_cuda_kernel {
    const char *name;
    const void *function;
    dim3 grid, block;
    size_t shared;
    int count;
    void **arguments;
    const size_t *bytes;
    short how, cluster;
};

#endif
