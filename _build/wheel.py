"""wheel - a wheel as a release has it, installed by itself and asked what it holds.

    python -m _build.wheel [ARCH ...]    all architectures of a release without any

A wheel without the CUDA backend works, on the CPU: nothing else would tell. With
GPUOPS_CUDA=0 it is meant so: a wheel for the CPU and sim, as a class grades by.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from _build import backend
from _build.toolkit import RELEASE_ARCHS

ASK = "import json, gpuops; print(json.dumps([gpuops.__file__, gpuops.show_config('dicts')]))"


def installed(wheel: Path, folder: Path) -> dict:
    """show_config() of the wheel in a new environment, where nothing else of this clone is."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-I", "-m", "pip", "install", "--quiet", wheel], check=True)
    asked = subprocess.run(
        [python, "-I", "-c", ASK], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
    )
    path, facts = json.loads(asked.stdout)
    assert Path(path).is_relative_to(folder), f"asked another gpuops: {path}"
    subprocess.run([python, "-I", "-m", "gpuops"], cwd=folder, check=True)
    return facts


def without_cuda() -> None:
    wheel = Path("dist", backend.build_wheel("dist", {"--global-option": "-q"})).resolve()
    with tempfile.TemporaryDirectory() as folder:
        build = installed(wheel, Path(folder).resolve())["build"]
    if not build["sim"].get("built"):
        sys.exit(f"{wheel} should hold the sim backend: {build['sim'].get('reason')}")
    print(f"{wheel}: {wheel.stat().st_size / 2**20:.1f} MiB, CPU and sim")


def main(archs: list[str]) -> None:
    if os.environ.get("GPUOPS_CUDA") == "0":
        without_cuda()
        return
    if archs in ([], ["all"]):
        archs = RELEASE_ARCHS.split()
    os.environ |= {"GPUOPS_CUDA": "1", "GPUOPS_CUDA_ARCHS": " ".join(archs)}
    wheel = Path("dist", backend.build_wheel("dist", {"--global-option": "-q"})).resolve()
    with tempfile.TemporaryDirectory() as folder:
        found = installed(wheel, Path(folder).resolve())["build"]["cuda"].get("archs", [])
    if found != archs:
        held = " ".join(found) or "nothing"
        sys.exit(f"{wheel} should hold {' '.join(archs)}, and it holds {held}")
    print(f"{wheel}: {wheel.stat().st_size / 2**20:.1f} MiB, CUDA for {' '.join(found)}")


if __name__ == "__main__":
    main(sys.argv[1:])
