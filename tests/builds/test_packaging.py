"""test_packaging - what pip installs, and what is said where it cannot.

A copy of this clone is built by compilers that make empty files, which takes no time; what is
said by a package that was built so is asked of a copy of the one under test.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import textwrap
import types
import zipfile
from pathlib import Path

import pytest

import gpuops
from _build import levels, wheel
from _build.toolkit import RELEASE_ARCHS
from gpuops._compile import built

pytest.importorskip("setuptools")

ROOT = Path(__file__).resolve().parents[2]
UNWANTED = shutil.ignore_patterns(
    ".*", "build", "dist", "*.so", "*.egg-info", "__pycache__", "_build_*", "results"
)

CC = """#!/bin/sh
[ "$1" = --version ] && echo "cc 1.0"
while [ $# -gt 0 ]; do [ "$1" = -o ] && : >"$2"; shift; done
"""
# A GCC whose link-time optimisation does not work.
NO_LTO = """#!/bin/sh
[ "$1" = --version ] && { echo "Free Software Foundation, Inc."; exit; }
case "$*" in *-flto*) echo "ld: error: could not run lto-wrapper"; exit 1;; esac
while [ $# -gt 0 ]; do [ "$1" = -o ] && : >"$2"; shift; done
"""
# Of CUDA's files it compiles the probe alone; what it says of the others is 15 KB long.
NVCC = """#!/bin/sh
case "$1" in
--version) echo "release 13.0, V13.0.88"; exit;;
--list-gpu-arch) printf "compute_75\\ncompute_90\\n"; exit;;
esac
case "$*" in *probe.cu*) ;; *)
    for i in $(seq 150); do
        echo "ptxas /tmp/tmpxft_1-9_x.compute_75.ptx, line $i; error : Modifier '.L2::256B' no"
    done
    exit 1;;
esac
"""
CXX = """#!/bin/sh
[ "$1" = --version ] && { echo "c++ (GCC) 12"; exit; }
for i in $(seq 150); do echo "csrc/cuda/device.h:$i:1: error: 'wrong' was not declared"; done
exit 1
"""


def script(path: Path, text: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + CC.removeprefix("#!/bin/sh\n") if "probe" in text else text)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def clone(tmp_path):
    """A copy of the source, in a folder named gpuops."""
    folder = tmp_path / "gpuops"
    shutil.copytree(ROOT, folder, ignore=UNWANTED)
    return folder


def build(clone: Path, code: str, **environment: str) -> subprocess.CompletedProcess:
    """Runs `code` with setuptools' hooks as `hooks`; every compiler makes empty files."""
    tools = clone.parent / "tools"
    unset = (
        *("NVCC", "CUDA_HOME", "CFLAGS", "PYTHONPATH"),
        *("GPUOPS_CUDA_ARCHS", "GPUOPS_CUDA_QUICK", "GPUOPS_WERROR"),
    )
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"from _build import backend as hooks; {code}"],
        cwd=clone,
        env={k: v for k, v in os.environ.items() if k not in unset}
        | {"CC": script(tools / "cc", CC), "GPUOPS_CUDA": "0", "GPUOPS_SIM": "0"}
        | environment,
        capture_output=True,
        text=True,
        check=False,
    )


# ---- what is shipped ----


@pytest.mark.sampled(later=True)
def test_the_sdist_builds_and_holds_no_tests(clone, tmp_path):
    (clone / "gpuops" / "_build_info.json").write_text("{}")  # of this machine
    done = build(clone, f"hooks.build_sdist({str(tmp_path)!r})")
    assert done.returncode == 0, done.stderr
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as sdist:
        sdist.extractall(tmp_path / "sdist", filter="data")
    (source,) = (tmp_path / "sdist").iterdir()
    names = {str(path.relative_to(source)) for path in source.rglob("*")}
    assert {"csrc/ops.def", "_build/compile.py", "gpuops/_core.pyi"} <= names
    # Without the engine and what it reads they would not run.
    assert not [name for name in names if name.startswith(("tests", "gpuops/_build_"))]
    done = build(source, f"hooks.build_wheel({str(tmp_path)!r})")
    assert done.returncode == 0, done.stderr


@pytest.mark.sampled(later=True)
def test_a_wheel_holds_no_file_of_an_earlier_build(clone, tmp_path):
    old = clone / "csrc" / "cuda" / "old.cu"
    old.write_text("\n")
    assert build(clone, "hooks.build_wheel('dist')").returncode == 0
    old.unlink()
    assert build(clone, "hooks.build_wheel('dist')").returncode == 0
    with zipfile.ZipFile(next((clone / "dist").glob("*.whl"))) as made:
        names = made.namelist()
    assert "gpuops/csrc/cuda/device.h" in names
    assert "gpuops/csrc/cuda/old.cu" not in names


def test_an_editable_install_is_found_beside_a_folder_of_its_name(clone, tmp_path):
    done = build(clone, f"hooks.build_editable({str(tmp_path)!r})")
    assert done.returncode == 0, done.stderr
    site = tmp_path / "site"
    zipfile.ZipFile(next(tmp_path.glob("*.whl"))).extractall(site)
    code = f"import site, importlib.util as u; site.addsitedir({str(site)!r}); "
    code += "print(u.find_spec('gpuops').origin)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.strip() == str(clone / "gpuops" / "__init__.py"), done.stderr


LEVELS_MAIN = """#include <stdio.h>
#include "cpu/runtime/levels.h"
int main(void) { puts(gop_levels_check() == GOP_OK ? "fine" : gop_error_get()->message); }
"""


def test_a_build_for_one_processor_says_so_on_a_lesser_one(tmp_path):
    """Before any of its instructions runs."""
    if not (compiler := shutil.which("cc")) or not levels.is_x86():
        pytest.skip("needs a C compiler, on x86-64")
    source, made = tmp_path / "levels.c", tmp_path / "levels"
    source.write_text(LEVELS_MAIN)
    sources = [source, ROOT / "csrc/cpu/runtime/levels.c", ROOT / "csrc/core/host/error.c"]
    flags = [f"-I{ROOT / 'csrc'}", "-std=c11", "-D_POSIX_C_SOURCE=200809L"]
    has = levels.levels_here([compiler])
    for name, lacks in [(name, name not in has) for name in levels.LEVELS]:
        mask = f"-DGOP_LEVELS={levels.level_mask([name])}"
        subprocess.run([compiler, *flags, mask, *sources, "-o", made], check=True)
        said = subprocess.run([made], capture_output=True, text=True).stdout.strip()
        assert said == (
            f"gpuops was built for processors with {name}, and this one has less: build it "
            "here, or anywhere with GPUOPS_CPU_LEVELS=all"
            if lacks
            else "fine"
        )


def test_levels_of_a_build(monkeypatch):
    monkeypatch.setattr(levels, "is_x86", lambda: True)
    macros = [macro for _, needed in levels.LEVELS.values() for macro in needed]
    every = "".join(f"#define __{macro}__ 1\n" for macro in macros)
    monkeypatch.setattr(levels, "call", lambda _: every.replace("__AVX512VL__", "__NO__"))
    monkeypatch.delenv("GPUOPS_CPU_LEVELS", raising=False)
    assert list(levels.chosen_levels(["cc"])) == ["baseline", "avx2", "avx512"]
    monkeypatch.setenv("GPUOPS_CPU_LEVELS", "native")
    assert levels.chosen_levels(["cc"]) == {"avx2": ["-march=x86-64-v3"]}
    monkeypatch.setattr(levels, "call", lambda _: every)
    assert levels.chosen_levels(["cc"]) == {"avx512": ["-march=x86-64-v4"]}
    assert [levels.level_mask([name]) for name in levels.LEVELS] == [1, 2, 4]
    monkeypatch.setenv("GPUOPS_CPU_LEVELS", "some")
    with pytest.raises(SystemExit, match="GPUOPS_CPU_LEVELS is all or native, not 'some'"):
        levels.chosen_levels(["cc"])
    monkeypatch.setattr(levels, "is_x86", lambda: False)
    assert levels.chosen_levels(["cc"]) == {"baseline": []}


def test_a_release_without_an_architecture_fails(monkeypatch, tmp_path):
    files = [tmp_path / "gpuops.whl", tmp_path / "gpuops_cuda13.whl"]
    for file in files:
        file.write_bytes(b"")
    monkeypatch.setattr(wheel, "made", lambda _: files)
    monkeypatch.setattr(wheel, "audited", lambda _: "manylinux_2_17_x86_64")
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(wheel, "levels_here", lambda _: ["baseline", "avx2"])
    holds = {}
    build = {"sim": {"built": True}, "cuda": holds}
    facts = {"build": build, "cpu_levels": ["baseline", "avx2"]}
    monkeypatch.setattr(wheel, "installed", lambda *_: facts)
    monkeypatch.setattr(wheel, "run", lambda *_: json.dumps(["", facts]))
    with pytest.raises(SystemExit, match=r"should hold 75 90a, and it holds nothing"):
        wheel.main(["75", "90a"])
    holds["archs"] = ["90a"]
    with pytest.raises(SystemExit, match=r"should hold 75 90a, and it holds 90a"):
        wheel.main(["75", "90a"])
    holds["archs"] = RELEASE_ARCHS.split()
    wheel.main([])
    os.environ["GPUOPS_CUDA_QUICK"] = "1"
    with pytest.raises(SystemExit, match="unset GPUOPS_CUDA_QUICK"):
        wheel.main([])
    del os.environ["GPUOPS_CUDA_QUICK"]
    facts["cpu_levels"] = ["avx2"]
    with pytest.raises(SystemExit, match="find the levels baseline, avx2 here, not avx2"):
        wheel.main([])
    facts["cpu_levels"] = ["baseline", "avx2"]
    build["sim"] = {"reason": "no g++"}
    with pytest.raises(SystemExit, match=r"gpuops.whl should hold the sim backend: no g\+\+"):
        wheel.main([])


def test_a_release_is_two_wheels(monkeypatch, tmp_path):
    pytest.importorskip("wheel")
    about = "gpuops-7.1.dist-info"
    files = {
        "gpuops/__init__.py": "",
        "gpuops/_cuda.so": "kernels",
        "gpuops/_build_info.json": '{"core": {"sources": "ab"}, "cuda": {"sources": "ab"}}',
        f"{about}/METADATA": "Metadata-Version: 2.4\nName: gpuops\nVersion: 7.1\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nTag: cp311-abi3-linux_x86_64\n",
        f"{about}/RECORD": "".join(f"{name},,\n" for name in ("x", "y")),
        f"{about}/licenses/LICENSE": "as you like",
    }
    for name, text in files.items():
        path = tmp_path / "gpuops-7.1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    words = [sys.executable, "-m", "wheel", "pack", "gpuops-7.1"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dist").mkdir()
    folder = tmp_path / "opened"
    folder.mkdir()
    monkeypatch.setattr(wheel.platform, "machine", lambda: "x86_64")
    found = wheel.repacked(next(tmp_path.glob("*.whl")), folder, has_cuda=True)
    assert [path.name for path in found] == [
        "gpuops-7.1-cp311-abi3-manylinux_2_28_x86_64.whl",
        "gpuops_cuda13-7.1-py3-none-manylinux_2_28_x86_64.whl",
    ]
    with zipfile.ZipFile(found[0]) as core, zipfile.ZipFile(found[1]) as cuda:
        assert "gpuops/_cuda.so" not in core.namelist()
        assert cuda.read("gpuops_cuda13/_cuda.so") == b"kernels"
        info = json.loads(core.read("gpuops/_build_info.json"))
        assert info["cuda"]["reason"].endswith("pip install gpuops-cuda13")
        info = json.loads(cuda.read("gpuops_cuda13/_build_info.json"))
        assert info == {"cuda": {"sources": "ab"}}
        told = cuda.read("gpuops_cuda13-7.1.dist-info/METADATA").decode()
        assert "Requires-Dist: gpuops==7.1\n" in told


def test_the_cuda_package_fits_the_core_or_is_refused(monkeypatch, tmp_path):
    core, cuda = tmp_path / "gpuops", tmp_path / "gpuops_cuda13"
    for folder in (core, cuda):
        folder.mkdir()
    (core / "_build_info.json").write_text(
        '{"core": {"sources": "ab"}, "cuda": {"built": false, "reason": "it is elsewhere"}}'
    )
    monkeypatch.setattr(built, "_FOLDER", core)
    monkeypatch.setattr(built, "build_info", built.build_info.__wrapped__)
    monkeypatch.setattr(built.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(gpuops.DeviceUnavailableError, match=r"no cuda backend \(it is else"):
        built.library("cuda")
    spec = types.SimpleNamespace(origin=str(cuda / "__init__.py"))
    monkeypatch.setattr(built.importlib.util, "find_spec", lambda name: spec)
    facts = cuda / "_build_info.json"
    facts.write_text('{"cuda": {"built": true, "sources": "ab", "archs": ["90a"]}}')
    assert built.library("cuda") == str(cuda / "_cuda.so")
    assert built.build_info()["cuda"]["archs"] == ["90a"]
    facts.write_text('{"cuda": {"built": true, "sources": "cd"}}')
    with pytest.raises(
        gpuops.DeviceUnavailableError, match=r"gpuops-cuda13 was built from other sources than"
    ):
        built.library("cuda")
    (core / "_cuda.so").write_bytes(b"")  # what was built here comes first
    assert built.library("cuda") == str(core / "_cuda.so")


def test_a_compiler_without_link_time_optimisation_still_builds(clone):
    cc = script(clone.parent / "tools" / "no_lto", NO_LTO)
    done = build(clone, "hooks.build_wheel('dist')", CC=cc)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next((clone / "dist").glob("*.whl"))) as made:
        core = json.loads(made.read("gpuops/_build_info.json"))["core"]
    said = "left out, since it does not work here: no_lto failed: ld: error: could not run"
    assert core["link_time_optimisation"].startswith(said)


# ---- what is said ----


def test_the_source_folder_says_where_to_go(clone):
    done = subprocess.run(
        [sys.executable, "-S", "-m", "gpuops"], cwd=clone, capture_output=True, text=True
    )
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert "is the source of gpuops, and nothing is built in it: run `make build`" in said
    assert "circular" not in done.stderr


def test_a_build_without_numpy_is_a_sentence(clone, tmp_path):
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('none', name='numpy')\n")
    done = build(clone, "hooks.build_wheel('dist')", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "builds against NumPy >= 2.0, and this Python has none" in done.stderr
    assert "--no-build-isolation" in done.stderr


ASK = """
import gpuops, json
gpuops.show_config()
print(*gpuops.explain("matmul", [[1.0]], [[1.0]]).why, sep="; ")
for call in (lambda: gpuops.add(1, 2, device=NAME), lambda: gpuops.kernels("add", NAME),
             lambda: gpuops.to_device([1.0], NAME)):
    try:
        call()
    except gpuops.DeviceUnavailableError as error:
        print("refused:", error)
"""


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("cuda", "for 75: ptxas error : Modifier '.L2::256B' no"),
        ("sim", ".cu: csrc/cuda/device.h:1:1: error: 'wrong' was not declared"),
    ],
)
def test_a_failed_backend_is_a_sentence_and_a_log(clone, tmp_path, name, told):
    tools = {
        "NVCC": script(clone.parent / "tools" / "nvcc", NVCC),
        "CXX": script(clone.parent / "tools" / "c++", CXX),
        "GPUOPS_CUDA_ARCHS": "75 90",
    }
    wish = f"GPUOPS_{name.upper()}"
    done = build(clone, "hooks.build_wheel('dist')", **tools, **{wish: "auto"})
    assert done.returncode == 0, done.stderr
    assert f"built WITHOUT the {name} backend" in done.stderr
    assert len(done.stderr) < 8000
    package = tmp_path / "installed" / "gpuops"
    shutil.copytree(Path(gpuops.__file__).parent, package,
                    ignore=shutil.ignore_patterns(f"_{name}.so", "_build_*"))  # fmt: skip
    with zipfile.ZipFile(next((clone / "dist").glob("*.whl"))) as made:
        for file in ("_build_info.json", f"_build_{name}.log"):
            (package / file).write_bytes(made.read(f"gpuops/{file}"))
    info = json.loads((package / "_build_info.json").read_text())[name]
    assert told in info["reason"]
    assert "failed on " in info["reason"]
    assert len(info["reason"].splitlines()) <= 3
    assert len(info["reason"]) < 400
    log = package / f"_build_{name}.log"
    assert log.read_text().count("error") >= 150

    code = textwrap.dedent(ASK).replace("NAME", repr(name))
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    said = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, env=environment,
                          capture_output=True, text=True, check=True).stdout  # fmt: skip
    assert len(said) < 6000
    for line in said.splitlines():
        if line.startswith("refused: ") or f"no {name} backend" in line:
            assert info["reason"] in line
            assert str(log) in line
    assert said.count("refused: ") == 3
    assert said.count(str(log)) >= (6 if name == "cuda" else 4)

    # Asked for, it is an error, with all that the compiler said; and so it is for whoever works
    # on the sources: half of the tests would pass without it.
    for cause in ({wish: "1"}, {wish: "auto", "GPUOPS_WERROR": "1"}):
        done = build(clone, "hooks.build_wheel('dist')", **tools, **cause)
        assert done.returncode == 1
        word, value = [*cause.items()][-1]
        assert f"{word}={value}, but the {name} backend was not built: " in done.stderr
        assert done.stderr.count("error") >= 150


def test_ci_compiles_quickly_but_for_files_of_wgmma(clone):
    nvcc = NVCC.replace("*probe.cu*", "*probe.cu*|*-c*")  # makes them all
    asked = {"NVCC": script(clone.parent / "tools" / "nvcc", nvcc), "GPUOPS_CUDA": "1"}
    asked |= {"GPUOPS_CUDA_ARCHS": "75 90", "GPUOPS_CUDA_QUICK": "1"}
    done = build(clone, "hooks.build_wheel('dist')", **asked)
    assert done.returncode == 0, done.stderr
    found = {True: set(), False: set()}
    for command in clone.glob("build/objects/cuda/*/*.o.cmd"):
        found["--Ofast-compile=max" in command.read_text()].add(command.name)
    assert "columns.o.cmd" in found[True]
    assert found[False]
    assert all(name.endswith("_sm90.o.cmd") for name in found[False])
    assert not [name for name in found[True] if name.endswith("_sm90.o.cmd")]


def test_make_goes_on_without_a_compiler_that_does_not_work(clone):
    """That of the machine is no fault of the sources, and GPUOPS_WERROR=1 is about those."""
    broken = NVCC.replace("*probe.cu*", "*none*")
    nvcc = script(clone.parent / "tools" / "nvcc", broken)
    asked = {"NVCC": nvcc, "GPUOPS_CUDA": "auto", "GPUOPS_CUDA_ARCHS": "75 90"}
    done = build(clone, "hooks.build_wheel('dist')", GPUOPS_WERROR="1", **asked)
    assert done.returncode == 0, done.stderr
    assert "built WITHOUT the cuda backend. nvcc 13.0.88 fails on three lines" in done.stderr
