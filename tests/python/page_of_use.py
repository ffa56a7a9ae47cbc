"""A page of use, for type checkers: mypy and pyright read it, both strict."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import gpuops

a = np.ones((4, 3), np.float32)
o: NDArray[np.float32] = a.copy()
n = np.arange(3)
x = gpuops.to_device(a, "cpu")

# An array gives an array, scalars a scalar, a device array a device array, `out` itself.
assert_type(gpuops.add(a, a), NDArray[np.float32])
assert_type(gpuops.add(a, 1.5), NDArray[Any])
assert_type(gpuops.add([1, 2], n), NDArray[Any])
assert_type(gpuops.add(x, x), gpuops.DeviceArray)
assert_type(gpuops.add(2.0, x), gpuops.DeviceArray)
assert_type(gpuops.multiply_add(a, 2.0, a, out=o), NDArray[np.float32])
assert_type(gpuops.fma(x, x, 1.0, device="cpu", kernel="naive"), gpuops.DeviceArray)
assert_type(gpuops.transpose(a), NDArray[np.float32])
assert_type(gpuops.transpose(x, (1, 0)), gpuops.DeviceArray)
assert_type(gpuops.matmul(a, a.T), NDArray[np.float32])
total: float = gpuops.add(1.0, 2.0)
assert_type(gpuops.add(1.0, 2.0, out=...), NDArray[Any])
assert_type(gpuops.max(a, out=...), NDArray[np.float32])
assert_type(gpuops.transpose(a, range(2)), NDArray[np.float32])

# Reductions: a scalar of everything, an array along axes.
assert_type(gpuops.max(a), np.float32)
assert_type(gpuops.max(a, axis=0), NDArray[np.float32])
assert_type(gpuops.any(a), np.bool)
assert_type(gpuops.all(a, axis=(0, 1), keepdims=True), NDArray[np.bool])
assert_type(gpuops.argmin([3, 1, 2]), np.int64)
assert_type(gpuops.argmax(a, 0), NDArray[np.int64])
assert_type(gpuops.sum(x, axis=0), gpuops.DeviceArray)
assert_type(gpuops.reduce(a, "mean", 0, out=o), NDArray[np.float32])
mean = float(gpuops.mean(a, dtype="f8", where=a > 0))
least = float(gpuops.min([], initial=1.0))

# Results with names.
solved = gpuops.jacobi(np.eye(3), [1.0, 2.0, 3.0], rtol=1e-8)
steps: int = solved.iterations
assert_type(gpuops.jacobi_step(np.eye(3), n, n), NDArray[Any])
water = gpuops.rdf(np.zeros((9, 3)), 1.0, 10, box=(3, 3, 3), norm="rdf", types=list("OHH" * 3))
height = float(water.g.max())
print(water.plot(), f"{water.frames} frames")
several = gpuops.rdf([(np.zeros((9, 3)), (3, 3, 3))], exclude=np.arange(9) // 3) + water
around: NDArray[Any] = (several + water).coordination([0.1, 0.2])
end: float = water.first_shell("O", "H").end if around.size else float(several.error[0])

# Ladders.
for row in gpuops.ladder("transpose", a, device="cpu", n_repeat=1):
    if row.timing:
        print(row.name, float(row.timing.kernel), row.timing.gbps)
rungs = gpuops.ladder(gpuops.add, a, a)
names: list[str] = [row.name for row in rungs]
note: str = rungs["naive"].note
best = rungs.best
first = gpuops.kernels("sum", "cpu")[0]
named: gpuops.Kernel = gpuops.kernels("sum", "cpu")["naive"]
text: str = gpuops.source("sum", first)
swept = gpuops.sweep("transpose", a, device="sim", kernel="tiled", rows=[2, 8])
swept.plot()
timing = gpuops.benchmark(gpuops.matmul, (a, a.T), {"device": "cpu"}, n_repeat=3)
seconds: float = timing.kernel
share: float | None = timing.share
why: tuple[str, ...] = gpuops.explain("add", a, a).why
counts: dict[str, Any] = gpuops.profile("transpose", a, kernel="tiled").as_dict()

# Kernels of one's own, devices, settings.
program = gpuops.compile("__global__ void twice(float *a) { a[threadIdx.x] *= 2; }", "sim")
program[1, 12](a)
program.twice[(1, 1), 12](a)
with gpuops.device("cpu"), gpuops.Timer("a nap") as timer, gpuops.schedule("random", seed=3):
    gpuops.set_num_threads(1)
print(timer.seconds, [info.memory for info in gpuops.devices()], gpuops.get_default_device())
gpuops.set_default_device(gpuops.devices()[0])
gpuops.set_default_device(None)
gpuops.load_ipython_extension(None)
back: np.ndarray[Any, Any] = x.astype(np.float16, copy=False).get()
try:
    gpuops.add(a, a, device="cuda")
except gpuops.DeviceUnavailableError as error:
    print(error.code, error.name)
except (gpuops.DeviceMemoryError, gpuops.CompileError) as error:
    print(error)
