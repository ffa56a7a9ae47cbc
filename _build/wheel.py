"""wheel - the wheels of a release in dist/, installed by themselves and asked what they hold.

    python -m _build.wheel [ARCH ...]    all architectures of a release without any

Two wheels: gpuops (core, CPU and sim, for Python 3.11 and later) and gpuops-cuda13 (the CUDA
backend, without Python's interface); with GPUOPS_CUDA=0 the first alone, as a class grades by.
Zig links both for glibc 2.28, and auditwheel says which systems they load on: a wheel linked by
this machine's compiler would ask for this machine's C library.
"""

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from _build import backend
from _build.levels import levels_here
from _build.toolkit import RELEASE_ARCHS

GLIBC = (2, 28)
ASK = "import json, gpuops; print(json.dumps([gpuops.__file__, gpuops.show_config('dicts')]))"
CUDA = '''"""The CUDA backend of gpuops {version}: `import gpuops` finds it by itself."""

__version__ = "{version}"
'''
METADATA = """Metadata-Version: 2.4
Name: gpuops-cuda13
Version: {version}
Summary: The CUDA backend of gpuops, for drivers of CUDA 13
License-Expression: BSD-3-Clause
License-File: LICENSE
Requires-Python: >=3.11
Requires-Dist: gpuops=={version}

The kernels of gpuops for NVIDIA GPUs, which it loads on first use where both are of the same
version: `pip install gpuops gpuops-cuda13`.
"""
WHEEL = """Wheel-Version: 1.0
Generator: gpuops
Root-Is-Purelib: false
Tag: py3-none-{system}
"""


def run(*words, **options) -> str:
    """What the command prints."""
    return subprocess.run(
        list(map(str, words)), check=True, stdout=subprocess.PIPE, text=True, **options
    ).stdout


def system() -> str:
    return f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{platform.machine()}"


def repacked(built: Path, folder: Path, has_cuda: bool) -> list[Path]:
    """The wheels of the release, made of the one that setuptools has built."""
    run(sys.executable, "-m", "wheel", "unpack", built, "-d", folder)
    (opened,) = (path for path in folder.iterdir() if path.is_dir())
    version = opened.name.partition("-")[2]
    (about,) = opened.glob("*.dist-info")
    facts = about / "WHEEL"
    facts.write_text(re.sub(r"(?m)^(Tag: .*-)linux_\w+$", rf"\1{system()}", facts.read_text()))
    folders = [opened]
    Path("dist").mkdir(exist_ok=True)
    if has_cuda:
        folders.append(cuda_package(opened, about, version))
    for made in folders:
        run(sys.executable, "-m", "wheel", "pack", made, "-d", "dist")
    found = (Path("dist").resolve().glob(f"{made.name}-*{system()}.whl") for made in folders)
    return [compressed(next(wheels)) for wheels in found]


def compressed(wheel: Path) -> Path:
    """The wheel, deflated as far as zlib can, which `wheel pack` does not ask for."""
    with ZipFile(wheel) as packed:
        files = [(info, packed.read(info)) for info in packed.infolist()]
    with ZipFile(wheel, "w") as packed:
        for info, data in files:
            packed.writestr(info, data, ZIP_DEFLATED, compresslevel=9)
    return wheel


def cuda_package(opened: Path, about: Path, version: str) -> Path:
    """The CUDA backend, taken out of an opened wheel, as a package of its own."""
    made = opened.parent / f"gpuops_cuda13-{version}"
    package, its_about = made / "gpuops_cuda13", made / f"gpuops_cuda13-{version}.dist-info"
    package.mkdir(parents=True)
    shutil.copytree(about / "licenses", its_about / "licenses")
    shutil.move(opened / "gpuops" / "_cuda.so", package)
    kept = opened / "gpuops" / "_build_info.json"
    info = json.loads(kept.read_text())
    (package / "_build_info.json").write_text(json.dumps({"cuda": info["cuda"]}, indent=2))
    info["cuda"] = {
        "built": False,
        "reason": "it is a package of its own: pip install gpuops-cuda13",
    }
    kept.write_text(json.dumps(info, indent=2) + "\n")
    (package / "__init__.py").write_text(CUDA.format(version=version))
    (its_about / "METADATA").write_text(METADATA.format(version=version))
    (its_about / "WHEEL").write_text(WHEEL.format(system=system()))
    return made


def audited(wheel: Path) -> str:
    """The oldest systems that a wheel loads on, as auditwheel finds; an error if too new."""
    said = run(sys.executable, "-m", "auditwheel", "show", wheel)
    found = re.search(
        r'the\s+following\s+platform\s+tag:\s+"(manylinux_(\d+)_(\d+)_\w+)"', said
    )
    if not found or (int(found[2]), int(found[3])) > GLIBC:
        sys.exit(f"{wheel} should load on {system()}, and auditwheel says:\n{said}")
    return found[1]


def installed(wheels: list[Path], folder: Path) -> dict:
    """show_config() of the wheels in a new environment, where nothing else of this clone is."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-I", "-m", "pip", "install", "--quiet", *wheels], check=True)
    path, facts = json.loads(run(python, "-I", "-c", ASK, cwd=folder))
    assert Path(path).is_relative_to(folder), f"asked another gpuops: {path}"
    subprocess.run([python, "-I", "-m", "gpuops"], cwd=folder, check=True)
    return facts


def made(has_cuda: bool) -> list[Path]:
    target = f"{platform.machine()}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
    os.environ["GPUOPS_LINKER"] = f"{sys.executable} -m ziglang cc -target {target}"
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder, backend.build_wheel(folder, {"--global-option": "-q"}))
        return repacked(built, Path(folder), has_cuda)


def main(archs: list[str]) -> None:
    has_cuda = os.environ.get("GPUOPS_CUDA") != "0"
    if has_cuda:
        if archs in ([], ["all"]):
            archs = RELEASE_ARCHS.split()
            if os.environ.get("GPUOPS_CUDA_QUICK") == "1":
                sys.exit("a release's kernels are fast: unset GPUOPS_CUDA_QUICK, which is CI's")
        os.environ |= {"GPUOPS_CUDA": "1", "GPUOPS_CUDA_ARCHS": " ".join(archs)}
    wheels = made(has_cuda)
    with tempfile.TemporaryDirectory() as folder:
        facts = installed(wheels, Path(folder).resolve())
    build = facts["build"]
    here = levels_here(shlex.split(os.environ.get("CC", "cc")))
    if facts["cpu_levels"] != here:
        found = ", ".join(facts["cpu_levels"])
        sys.exit(f"{wheels[0]} should find the levels {', '.join(here)} here, not {found}")
    if not build["sim"].get("built"):
        sys.exit(f"{wheels[0]} should hold the sim backend: {build['sim'].get('reason')}")
    found = build["cuda"].get("archs", [])
    if has_cuda and found != archs:
        held = " ".join(found) or "nothing"
        sys.exit(f"{wheels[1]} should hold {' '.join(archs)}, and it holds {held}")
    for wheel, holds in zip(
        wheels, ["CPU and sim", f"CUDA for {' '.join(found)}"], strict=False
    ):
        size = wheel.stat().st_size / 2**20
        print(f"{wheel}: {size:.1f} MiB, {holds}; loads on {audited(wheel)} and later")


if __name__ == "__main__":
    main(sys.argv[1:])
