/*
 * canary.cu - one planted bug per tool of compute-sanitizer, which must say so.
 *
 *     canary memcheck | racecheck | initcheck | synccheck
 */
#include <string.h>

enum { THREADS = 64 };

/* Writes past the end of its memory. */
__global__ void canary_memcheck_kernel(int *memory)
{
    memory[THREADS + threadIdx.x] = 1;
}

/* Reads what another warp writes, with no barrier in between. */
__global__ void canary_racecheck_kernel(int *memory)
{
    __shared__ int exchanged[THREADS];
    exchanged[threadIdx.x] = (int)threadIdx.x;
    memory[threadIdx.x] = exchanged[THREADS - 1 - threadIdx.x];
}

/* Reads what nothing has written. */
__global__ void canary_initcheck_kernel(int *memory)
{
    memory[threadIdx.x] += 1;
}

/* The last thread that meets the others is not among those it says it meets. */
__global__ void canary_synccheck_kernel(int *memory)
{
    if (threadIdx.x <= 16) {
        memory[threadIdx.x] = 1;
        __syncwarp(0xffff);
        memory[threadIdx.x] += memory[0];
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *tool;
        void (*kernel)(int *);
    } canaries[] = {
        {"memcheck", canary_memcheck_kernel},
        {"racecheck", canary_racecheck_kernel},
        {"initcheck", canary_initcheck_kernel},
        {"synccheck", canary_synccheck_kernel},
    };
    int *memory = nullptr;
    if (argc != 2 || cudaMalloc(&memory, THREADS * sizeof *memory) != cudaSuccess) return 2;
    for (auto &canary : canaries)
        if (strcmp(argv[1], canary.tool) == 0) canary.kernel<<<1, THREADS>>>(memory);
    return cudaDeviceSynchronize() != cudaSuccess;
}
