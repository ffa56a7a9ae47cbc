"""sim_kernels - CUDA sources that the tests of compile start from, and what they need."""

import shutil

import numpy as np
import pytest

import gpuops

HAS_SIM = gpuops.is_available("sim") and shutil.which("c++") is not None
needs_sim = pytest.mark.skipif(not HAS_SIM, reason="needs sim and a compiler")
# Orders of turns that a kernel must stand, with their seeds.
ORDERS = [("forward", 0), ("lockstep", 0), ("reversed", 0), ("random", 1), ("random", 2)]


def line_of(source: str, text: str) -> int:
    return source[: source.index(text)].count("\n") + 1


def caught(source, launch, words, *at):
    """The sentence of a mistake, which names the lines of the texts `at`."""
    with pytest.raises(gpuops.DeviceError, match=words) as failure:
        launch(gpuops.compile(source))
    for text in at if shutil.which("addr2line") else ():
        assert f"kernel.cu:{line_of(source, text)} " in str(failure.value)
    return str(failure.value)


ADD = """
#include <cuda_runtime.h>
__global__ void add(const float *__restrict__ a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""

SUM = """
__global__ void sum(const float *a, float *out)
{
    __shared__ float part[256];
    int t = threadIdx.x;
    part[t] = a[blockIdx.x * 256 + t];
    __syncthreads();
    for (int d = 128; d > 0; d /= 2) {
        if (t < d) part[t] += part[t + d];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
"""

TRANSPOSE = """
#define SIDE 32
__global__ void transpose(const float *in, float *out, int n)
{
    __shared__ float tile[SIDE][SIDE];
    int x = blockIdx.x * SIDE + threadIdx.x, y = blockIdx.y * SIDE;
    for (int j = threadIdx.y; j < SIDE; j += 8) tile[j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * SIDE + threadIdx.x, y = blockIdx.x * SIDE;
    for (int j = threadIdx.y; j < SIDE; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][j];
}
"""


def floats(n, seed=0):
    return np.random.default_rng(seed).random(n, "f4")


def run_sum(source):
    a, out = np.ones(1024, "f4"), np.zeros(4, "f4")
    gpuops.compile(source)[4, 256](a, out)
    return out
