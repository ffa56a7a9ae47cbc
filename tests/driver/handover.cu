/*
 * handover.cu - an order that racecheck of compute-sanitizer does not follow.
 *
 *     handover one | each
 *
 * A warp stores, another reads, and says so at a barrier in shared memory before the first
 * stores again. `each`: its lanes say so one by one. `one`: they meet, then one of them says it
 * for all; racecheck knows only that this one has read, and reports the others.
 */
#include <stdint.h>
#include <string.h>

enum { WARP = 32, ROUNDS = 4 };

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__device__ uint32_t shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}
__device__ void barrier_init(uint64_t *barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(arrivals));
}
__device__ void barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                 : "memory");
}
__device__ void barrier_wait(uint64_t *barrier, uint32_t parity)
{
    uint32_t ended = 0;
    while (!ended)
        asm volatile("{\n"
                     ".reg .pred done;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, done;\n"
                     "}"
                     : "=r"(ended)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
}
#endif

__global__ void handover_kernel(int *memory, int each)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    __shared__ int stage[WARP];
    __shared__ uint64_t full, empty;
    const int lane = threadIdx.x % WARP;
    if (threadIdx.x == 0) barrier_init(&full, WARP), barrier_init(&empty, each ? WARP : 1);
    __syncthreads();
    for (int round = 0; round < ROUNDS; round++) {
        if (threadIdx.x < WARP) {
            barrier_wait(&empty, (round & 1) ^ 1);
            stage[lane] = round + lane;
            barrier_arrive(&full);
        } else {
            barrier_wait(&full, round & 1);
            memory[lane] += stage[WARP - 1 - lane];
            __syncwarp();
            if (each || lane == 0) barrier_arrive(&empty);
        }
    }
#endif
}

int main(int argc, char **argv)
{
    int *memory = nullptr;
    if (argc != 2 || cudaMalloc(&memory, WARP * sizeof *memory) != cudaSuccess) return 2;
    cudaMemset(memory, 0, WARP * sizeof *memory);
    handover_kernel<<<1, 2 * WARP>>>(memory, strcmp(argv[1], "each") == 0);
    return cudaDeviceSynchronize() != cudaSuccess;
}
