/*
 * fake_cudart.h - what the files of the fake runtime share.
 */
#ifndef FAKE_CUDART_H
#define FAKE_CUDART_H

#include <cuda_runtime_api.h>

/* The code that a call returns: a sticky one, once it was met. */
cudaError_t fake_result(cudaError_t code);
/* Queues a copy, a memset (`from` is NULL), or a kernel that doubles the floats of `to`. */
cudaError_t fake_enqueue(cudaStream_t stream, int is_kernel, void *to, const void *from,
                         size_t bytes);

#endif
