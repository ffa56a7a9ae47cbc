"""test_dependent_launches - kernels that are there before the kernel ahead of them has ended.

Ahead of each stands one that lets the next begin at once, and writes the operand much later:
who reads before that one has ended reads what was there before. On a real GPU.
"""

import numpy as np
import pytest
from engine import ladder

import gpuops

ONES = {"float32": 0x3F800000, "float16": 0x3C003C00, "uint8": 0x01010101}  # in a word
LATE = """
extern "C" __global__ void late(unsigned *x, long long words, unsigned value, long long cycles)
{
    asm volatile("griddepcontrol.launch_dependents;");
    const long long begin = clock64();
    while (clock64() - begin < cycles)
        ;
    for (long long i = threadIdx.x; i < words; i += blockDim.x) x[i] = value;
}
"""
CYCLES = 1_000_000  # half a millisecond

# Of 80 MiB and more: dtype, shape; where its elements come from, or axes.
SUMS = [
    ("float32", (3000, 8000), np.s_[:]),
    ("float32", (3000, 8000), np.s_[:, :-1]),
    ("float32", (6000000, 4), np.s_[:, :3]),
    ("uint8", (24000000, 4), np.s_[:, :3]),
]
TRANSPOSES = [
    ("float32", (2, 5301, 2048), (1, 0, 2)),
    ("float32", (70, 101, 3001), (1, 0, 2)),
    ("uint8", (4096, 8192, 3), (1, 0, 2)),
    ("float32", (8388608, 3), (1, 0)),
    ("float32", (5000, 5001), (1, 0)),
    ("float32", (4096, 6144), (1, 0)),
    ("float16", (7001, 7002), (1, 0)),
    ("float16", (70, 1001, 7, 102), (3, 1, 2, 0)),
]
REDUCTIONS = [
    ("float32", (4096, 6144), (1,)),
    ("float32", (6144, 4096), (0,)),
    ("float32", (2, 12000000), (0,)),
    ("float32", (1048576, 24), (1,)),
    ("float32", (8000000, 3), (0,)),
    ("float32", (700, 33, 1056), (0, 2)),
    ("uint8", (100, 1000, 1001), (0, 1, 2)),
]
CASES = {"add": SUMS, "transpose": TRANSPOSES, "reduce": REDUCTIONS}
EARLY = {
    "add": ("indexed", "vectorized"),
    "transpose": ("lines", "pixels", "planar", "sectored", "vectorized", "shifted", "boxed",
                  "gathered"),
    "reduce": ("tree", "short", "thin", "columns", "indexed", "vectorized", "rows"),
}  # fmt: skip


def called(op, kernel, x, how):
    """The call, and what its results are where x is all ones."""
    if op == "add":
        return gpuops.add(x[how], x[how], kernel=kernel), 2
    if op == "transpose":
        return gpuops.transpose(x, how, kernel=kernel), 1
    return gpuops.sum(x, how, kernel=kernel), np.prod([x.shape[d] for d in how])


@pytest.mark.parametrize(("op", "kernel"), [(op, k) for op in EARLY for k in EARLY[op]])
def test_nothing_is_read_before_the_kernel_ahead_has_ended(op, kernel):
    if not gpuops.is_available("cuda"):
        pytest.skip("there is no GPU")
    cupy = pytest.importorskip("cupy")
    if int(cupy.cuda.Device().compute_capability) < 90:
        pytest.skip("kernels are launched early from compute capability 9.0 on")
    assert kernel in [row["name"] for row in ladder(op, "cuda")]
    late = cupy.RawKernel(LATE, "late")
    taken = 0
    for dtype, shape, how in CASES[op]:
        x = cupy.zeros(shape, dtype)
        try:
            called(op, kernel, x, how)
        except gpuops.KernelRefusedError:
            continue
        taken += 1
        cupy.cuda.Device().synchronize()
        words = np.int64(x.nbytes // 4)
        late((1,), (1024,), (x, words, np.uint32(ONES[dtype]), np.int64(CYCLES)))
        got, want = called(op, kernel, x, how)
        assert bool((got == want).all()), (dtype, shape)
    assert taken
