// canary - writes one item too many on the GPU: compute-sanitizer must say so.
__global__ void canary_kernel(int *memory)
{
    memory[threadIdx.x] = 1;
}

int main()
{
    int *memory = nullptr;
    if (cudaMalloc(&memory, 32 * sizeof *memory) != cudaSuccess) return 2;
    canary_kernel<<<1, 33>>>(memory);
    return cudaDeviceSynchronize() != cudaSuccess;
}
