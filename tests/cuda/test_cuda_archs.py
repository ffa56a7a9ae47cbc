"""test_cuda_archs - builds for other GPUs than those that are there, on the fake driver."""

import subprocess

import pytest
import test_cuda_runtime
from test_cuda_runtime import ROOT, link

from _build import toolkit

run = test_cuda_runtime.run


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """Whose code is for 7.5 and 9.0, without Hopper's own instructions."""
    nvcc, folder = toolkit.find_nvcc(), tmp_path_factory.mktemp("archs")
    if nvcc is None:
        pytest.skip("there is no nvcc")
    source, made = ROOT / "csrc" / "cuda" / "runtime" / "devices.cu", folder / "devices.o"
    command = [
        *nvcc,
        "-std=c++17",
        "-O1",
        f"-I{ROOT / 'csrc'}",
        "-Xcompiler",
        "-fPIC,-fno-exceptions",
    ]
    command += ['-DGOP_CUDA_ARCHS="75+PTX 90+PTX"', "-c", source, "-o", made]
    subprocess.run(list(map(str, command)), check=True)
    return link(folder / "_cuda.so", devices=made)


@pytest.mark.parametrize(
    ("capability", "wanted"), [((8, 0), "80"), ((8, 9), "89"), ((9, 0), "90a")]
)
def test_code_without_the_instructions_of_the_device_is_none(run, capability, wanted):
    """Kernels that use them would do nothing there, without a word."""
    run(
        f"""
        variable("major").value, variable("minor").value = {capability}
        error = caught(moved, np.arange(3))
        assert type(error) is gpuops.UnsupportedDeviceError, error
        assert str(error).endswith("90+PTX; build gpuops with GPUOPS_CUDA_ARCHS={wanted}")
        """
    )


@pytest.mark.parametrize("capability", [(7, 5), (10, 0), (12, 1)])
def test_code_of_an_older_generation_is_enough(run, capability):
    run(
        f"""
        variable("major").value, variable("minor").value = {capability}
        check(np.arange(3))
        """
    )
