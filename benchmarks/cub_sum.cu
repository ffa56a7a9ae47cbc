// CUB's sums of a whole array: with the same bits on every GPU, or only from run to run.
#include <cub/device/device_reduce.cuh>
#include <cuda/std/execution>

template <class T, class Guarantee>
int sum(const void *a, void *out, long long n, Guarantee guarantee)
{
    auto env = cuda::std::execution::env{cuda::execution::require(guarantee)};
    return cub::DeviceReduce::Reduce(static_cast<const T *>(a), static_cast<T *>(out), n,
                                     cuda::std::plus<>{}, T(0), env);
}

extern "C" int cub_sum_f4(const void *a, void *out, long long n, int every_gpu)
{
    using namespace cuda::execution::determinism;
    return every_gpu ? sum<float>(a, out, n, gpu_to_gpu) : sum<float>(a, out, n, run_to_run);
}

extern "C" int cub_sum_f8(const void *a, void *out, long long n, int every_gpu)
{
    using namespace cuda::execution::determinism;
    return every_gpu ? sum<double>(a, out, n, gpu_to_gpu) : sum<double>(a, out, n, run_to_run);
}
