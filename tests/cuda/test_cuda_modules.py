"""test_cuda_modules - loading and launching compiled kernels, on the fake driver."""

import pytest
import test_cuda_runtime

library = test_cuda_runtime.library
run = test_cuda_runtime.run

LAUNCH = """
a = np.arange(1000, dtype="f4")
def load(device="cuda", image=b"twice"):
    return _core.load_module((device, 0), image)
def launch(module, grid=(4, 1, 1), block=(256, 1, 1), shared=0, symbol="twice"):
    x = gpuops.to_device(a, "cuda")
    _core.launch(module, "double", symbol, grid, block, shared,
                 (x._buffer, np.array(a.size, "i4")))
    return x.get()
"""


def test_a_module_is_loaded_launched_and_unloaded(run):
    run(
        LAUNCH
        + """
module = load()
assert np.array_equal(launch(module), 2 * a)
assert variable("grid").value == 4 and variable("block").value == 256
launch(module, shared=50000)
assert variable("dynamic", ctypes.c_size_t).value == 50000
assert variable("modules").value == 1
del module
assert variable("modules").value == 0
assert variable("blocks").value == 1  # is kept for the next array
error = caught(load, image=b"other")
assert type(error) is gpuops.UnsupportedDeviceError and "loading compiled kernels" in str(error)
_core.set_fault("cuda.module:1")
assert type(caught(load)) is gpuops.DeviceError
module = load()
_core.set_fault("cuda.launch:1")
assert "double failed" in str(caught(launch, module))
assert "looking for a kernel" in str(caught(launch, module, symbol="thrice"))
assert np.array_equal(launch(module), 2 * a)
assert "loads no compiled kernels" in str(caught(load, "cpu"))
"""
    )


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("block=(1025, 1, 1)", "a block of (1025, 1, 1) threads, expected at most (1024,"),
        ("block=(32, 32, 1)", "and 512 together with the 128 registers that each takes"),
        ("grid=(1, 65536, 1)", "a grid of (1, 65536, 1) blocks, expected at most (2147483647,"),
        ("shared=98977", "100001 bytes of shared memory a block, expected at most 100000"),
    ],
)
def test_a_launch_beyond_the_device(run, place, words):
    said = run(
        LAUNCH
        + f"""
module = load()
error = caught(launch, module, {place})
assert type(error) is gpuops.DeviceError, error
assert np.array_equal(launch(module), 2 * a)
print(error)
"""
    )
    assert words in said
    assert "double" in said


def test_a_compiled_kernel_that_loses_the_device_is_named(run):
    run(
        LAUNCH
        + """
module = load()
launch(module)
x = gpuops.to_device(a, "cuda")
variable("work_error").value = 700
error = caught(_core.launch, module, "double", "twice", (1, 1, 1), (32, 1, 1), 0,
               (x._buffer, np.array(1, "i4")))
assert type(error) is gpuops.DeviceLostError, error
assert "this thread: double" in str(error) and "device='sim'" in str(error), error
del module
"""
    )
