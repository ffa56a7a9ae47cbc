"""test_build - what the build leaves behind, and how it finds nvcc and its architectures."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import gpuops
from _build import backend, times, toolkit
from _build.compile import CompileError, Step, run_steps
from _build.together import together

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(gpuops.__file__).parent
CUDA = PACKAGE / "_cuda.so"

needs_cuda = pytest.mark.skipif(not CUDA.exists(), reason="built without the cuda backend")


def python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


def dynamic(library: Path, *arguments: str) -> str:
    if not shutil.which("readelf"):
        pytest.skip("readelf is not installed")
    return subprocess.run(
        ["readelf", "--wide", *arguments, str(library)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


# ---- what was built ----


def test_build_info_tells_what_was_built():
    info = json.loads((PACKAGE / "_build_info.json").read_text())
    assert info["core"]["built"]
    assert "-ffp-contract=off" in info["core"]["flags"]
    assert re.match("-flto|left out|not asked", info["core"]["link_time_optimisation"])
    if CUDA.exists():
        assert info["cuda"]["archs"]
        assert "-fmad=false" in info["cuda"]["flags"]
    else:
        assert info["cuda"]["reason"]


@pytest.mark.skipif("site-packages" in str(PACKAGE), reason="built elsewhere")
def test_nothing_that_was_built_names_the_folder_it_was_built_in():
    for made in [*PACKAGE.glob("*.so"), PACKAGE / "_build_info.json"]:
        assert str(ROOT).encode() not in made.read_bytes(), made.name


@needs_cuda
def test_cuda_needs_neither_driver_nor_cxx_library():
    needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic(CUDA, "--dynamic"))
    assert needed
    assert not [name for name in needed if re.match(r"libcuda|libstdc|libcudart", name)]


@needs_cuda
def test_cuda_exports_one_symbol():
    table = dynamic(CUDA, "--dyn-syms")
    defined = re.findall(r"(?:GLOBAL|WEAK)\s+DEFAULT\s+\d+\s+(\S+)", table)
    assert defined == ["gop_backend_open"]


def test_core_exports_its_init_alone():
    core = next(PACKAGE.glob("_core*.so"))
    table = dynamic(core, "--dyn-syms")
    defined = re.findall(r"(?:GLOBAL|WEAK)\s+DEFAULT\s+\d+\s+(\S+)", table)
    assert defined == ["PyInit__core"]


# ---- import ----


def test_import_prints_nothing_and_opens_no_driver():
    loaded = python(
        """
        import gpuops
        print(any("libcuda" in l or "_cuda.so" in l for l in open("/proc/self/maps")))
        """
    )
    assert loaded == "False"


FAKE_DRIVER = """
#include <stdio.h>
#include <stdlib.h>
/* Every entry point of a driver starts here; the file counts. */
__attribute__((constructor)) static void count(void)
{
    FILE *file = fopen(getenv("FAKE_DRIVER_LOG"), "a");
    fputs("loaded\\n", file);
    fclose(file);
}
int cuInit(unsigned flags) { (void)flags; count(); return 100; }
int cuDriverGetVersion(int *version) { *version = 13000; count(); return 0; }
"""


@needs_cuda
def test_import_and_cpu_calls_load_no_driver(tmp_path):
    """A library named libcuda.so.1 counts its loads and calls: importing makes none."""
    source, log = tmp_path / "fake.c", tmp_path / "log"
    source.write_text(FAKE_DRIVER)
    driver = tmp_path / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(driver)], check=True)
    environment = {"LD_LIBRARY_PATH": str(tmp_path), "FAKE_DRIVER_LOG": str(log)}
    python("import gpuops; gpuops.add([1], [2], device='cpu')", **environment)
    assert not log.exists()
    python("import gpuops; assert not gpuops.is_available('cuda')", **environment)
    assert log.exists()  # so the fake is found where a driver would be


@pytest.mark.alone
def test_import_costs_little_beyond_numpy(tmp_path):
    """Processor time with bytecode made, as of an installed package: a quarter of NumPy's own.

    A slow machine changes both, a busy one adds to either: of each the least counts, of as many
    runs as it takes, up to 36. tests/python/test_import.py says which modules have to wait.
    """
    code = """
        import time
        start = time.process_time()
        import numpy
        middle = time.process_time()
        import gpuops
        print(middle - start, time.process_time() - middle)
        """
    cache = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    numpys, ours = [], []
    for run in range(36):
        numpy_s, our_s = map(float, python(code, **cache).split())
        numpys.append(numpy_s)
        ours.append(our_s)
        if run >= 5 and min(ours) < min(numpys) / 4:
            return
    raise AssertionError((min(ours), min(numpys)))


@needs_cuda
def test_without_a_driver_the_reason_names_cause_and_cure():
    if toolkit.has_driver():
        pytest.skip("this machine has a driver")
    with pytest.raises(gpuops.DeviceUnavailableError, match=r"no NVIDIA driver .* --gpus all"):
        gpuops.add([1.0], [2.0], device="cuda")


# ---- finding nvcc ----


@pytest.fixture
def no_nvcc(monkeypatch, tmp_path):
    """A machine without a CUDA toolkit: find_nvcc looks at nothing but what a test sets."""
    for name in ("NVCC", "CUDA_HOME", "CUDA_PATH", "GPUOPS_CUDA", "GPUOPS_CUDA_ARCHS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolkit, "SYSTEM_NVCC", tmp_path / "nowhere")
    monkeypatch.setattr(toolkit, "wheel_nvcc", lambda: iter(()))
    return tmp_path


KNOWN = (75, 80, 90, 100, 120)


def fake_nvcc(folder: Path, version="13.0.88", archs=KNOWN, fails=False) -> Path:
    """A script that answers as nvcc does; it compiles nothing unless `fails` says so."""
    nvcc = folder / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True, exist_ok=True)
    known = "\\n".join(f"compute_{arch}" for arch in archs)
    nvcc.write_text(
        "#!/bin/sh\n"
        f'case "$1" in --version) echo "release, V{version}";;\n'
        f'--list-gpu-arch) printf "{known}\\n";;\n'
        f"*) {'echo no such header; exit 1' if fails else 'exit 0'};; esac\n"
    )
    nvcc.chmod(0o755)
    return nvcc


def test_nvcc_is_found_in_the_order_of_the_documentation(no_nvcc, monkeypatch):
    assert toolkit.find_nvcc() is None
    on_path = fake_nvcc(no_nvcc / "path")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert toolkit.find_nvcc() == [str(on_path)]
    home = fake_nvcc(no_nvcc / "home")
    monkeypatch.setenv("CUDA_HOME", str(no_nvcc / "home"))
    assert toolkit.find_nvcc() == [str(home)]
    monkeypatch.setenv("NVCC", "ccache /opt/nvcc")
    assert toolkit.find_nvcc() == ["ccache", "/opt/nvcc"]
    monkeypatch.setenv("NVCC", "")
    monkeypatch.setenv("CUDA_HOME", "")  # empty means unset
    assert toolkit.find_nvcc() == [str(on_path)]


def test_wheels_are_asked_for_where_a_driver_is_and_nvcc_is_not(no_nvcc, monkeypatch):
    monkeypatch.setattr(backend, "has_driver", lambda: False)
    assert backend.nvcc_wheels() == []
    monkeypatch.setenv("GPUOPS_CUDA", "1")
    assert backend.nvcc_wheels() == backend.NVCC_WHEELS
    monkeypatch.setenv("GPUOPS_CUDA", "auto")
    monkeypatch.setattr(backend, "has_driver", lambda: True)
    assert backend.nvcc_wheels() == backend.NVCC_WHEELS
    monkeypatch.setenv("GPUOPS_CUDA", "0")
    assert backend.nvcc_wheels() == []
    monkeypatch.delenv("GPUOPS_CUDA")
    monkeypatch.setenv("NVCC", "nvcc")
    assert backend.nvcc_wheels() == []


def test_wheels_are_pinned_to_one_minor():
    assert all("==13.0." in wheel for wheel in backend.NVCC_WHEELS)


# ---- architectures and the probe ----


def open_toolkit(folder: Path, linker=("true",)) -> toolkit.Toolkit:
    return toolkit.Toolkit(folder / "probe", [], list(linker))


def test_architectures(no_nvcc, monkeypatch):
    monkeypatch.setenv("NVCC", str(fake_nvcc(no_nvcc)))
    monkeypatch.setattr(toolkit, "archs_here", list)
    monkeypatch.setattr(toolkit, "run_steps", lambda steps: 0)
    release = ["75", "80", "90a", "100+PTX", "120"]
    assert open_toolkit(no_nvcc).archs == release
    monkeypatch.setattr(toolkit, "archs_here", lambda: ["90a"])
    assert open_toolkit(no_nvcc).archs == ["90a"]
    monkeypatch.setenv("GPUOPS_CUDA_ARCHS", "all")
    assert open_toolkit(no_nvcc).archs == release
    monkeypatch.setenv("NVCC", str(fake_nvcc(no_nvcc, archs=KNOWN[:3])))
    assert open_toolkit(no_nvcc).archs == release[:3]  # those it knows
    monkeypatch.setenv("NVCC", str(fake_nvcc(no_nvcc)))
    monkeypatch.setenv("GPUOPS_CUDA_ARCHS", "8.0;90a+PTX")
    made = open_toolkit(no_nvcc)
    assert made.archs == ["80", "90a+PTX"]
    monkeypatch.setenv("GPUOPS_CUDA_ARCHS", "9.0 90+PTX")
    assert open_toolkit(no_nvcc).archs == ["90a", "90+PTX"]  # Hopper's own instructions
    monkeypatch.setenv("GPUOPS_CUDA_ARCHS", "70")
    with pytest.raises(
        toolkit.NoToolkit, match=r"asks for 70, which nvcc 13.0.88 does not know"
    ):
        open_toolkit(no_nvcc)


def test_architectures_of_a_generation_share_their_ptx():
    def made(archs: str) -> list[str]:
        return toolkit.gencode(archs.split())[1::2]

    assert made("80 90a+PTX") == [
        "arch=compute_80,code=[sm_80]",
        "arch=compute_90a,code=[sm_90a,compute_90a]",
    ]
    assert made("89 80 86") == ["arch=compute_80,code=[sm_80,sm_86,sm_89]"]
    assert made("120 90 90a 100+PTX") == [
        "arch=compute_90,code=[sm_90,sm_100,sm_120,compute_90]",
        "arch=compute_90a,code=[sm_90a]",
    ]


def test_files_are_compiled_for_gpus_that_have_their_instructions():
    every = toolkit.RELEASE_ARCHS.split()
    assert toolkit.archs_of("tree", every) == ["75", "80", "90", "100+PTX", "120"]
    assert toolkit.archs_of("tree", ["80", "90a"]) == ["80", "90a"]
    assert toolkit.archs_of("bf16x3_sm90", every) == ["90a"]
    assert toolkit.archs_of("ring_sm80", every) == every[1:]
    assert toolkit.archs_of("bf16x3_sm90", ["75", "80"]) == ["75", "80"]  # rows refuse there
    assert toolkit.archs_of("ring_sm80", ["75"]) == ["75"]


def asks_of_80(source: Path, csrc: Path, found: set) -> bool:
    """Whether a file, or a header of it, has other code from 8.0 on."""
    if source in found or not source.exists():
        return False
    found.add(source)
    text = source.read_text()
    names = re.findall(r'^#include "(.+)"', text, re.M)
    return bool(re.search(r"__CUDA_ARCH__ (<|>=) 800|GOP_(CODE_)?SM80", text)) or any(
        asks_of_80(csrc / name, csrc, found) for name in names
    )


def test_ptx_of_older_gpus_is_made_once_where_no_kernel_differs():
    csrc, every = ROOT / "csrc", toolkit.archs_of("planar", toolkit.RELEASE_ARCHS.split())
    assert asks_of_80(csrc / "cuda/reduce/tree.cu", csrc, set())  # by a header
    for name in toolkit.ALIKE:
        source = csrc / "cuda" / f"{name}.cu"
        assert source.exists()
        assert toolkit.is_alike(source)
        assert not asks_of_80(source, csrc, set()), name
    made = toolkit.gencode(every, alike=True)[1::2]
    assert made[0] == "arch=compute_75,code=[sm_75,sm_80]"
    assert made[1:] == toolkit.gencode(every)[5::2]
    assert toolkit.gencode(["80", "90a"], alike=True) == toolkit.gencode(["80", "90a"])


def test_every_cuda_file_is_compiled_once(tmp_path):
    """Alone, or among short ones of its folder if it needs no flags of its own."""
    csrc, groups, made = ROOT / "csrc", [], []
    for path in together(csrc, tmp_path):
        if path.is_relative_to(csrc):
            made.append(path)
        else:
            groups += [csrc / name for name in re.findall(r'"(.+)"', path.read_text())]
    assert sorted(made + groups) == sorted(csrc.glob("cuda/*/*.cu"))
    archs = ["75", "90a", "120"]
    assert {tuple(toolkit.archs_of(path.stem, archs)) for path in groups} == {
        tuple(toolkit.archs_of("tree", archs))
    }
    assert "contracted" not in [path.stem for path in groups]


def test_an_nvcc_that_fails_is_a_reason_not_a_crash(no_nvcc, monkeypatch):
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setenv("NVCC", str(fake_nvcc(no_nvcc, fails=True)))
    monkeypatch.setattr(toolkit, "archs_here", list)
    broken = toolkit.BrokenToolkit
    with pytest.raises(broken, match=r"fails on three lines.*no such header") as failed:
        open_toolkit(no_nvcc)
    assert failed.value.log.endswith("no such header\n")
    monkeypatch.setenv("NVCC", str(no_nvcc / "missing"))
    with pytest.raises(toolkit.NoToolkit, match="nvcc does not run"):
        open_toolkit(no_nvcc)


# ---- compiling only what changed ----


def test_a_step_runs_again_when_source_header_or_command_change(tmp_path):
    source, header, made = (tmp_path / name for name in ("a.c", "a.h", "a.o"))
    header.write_text("#define A 1\n")
    source.write_text('#include "a.h"\nint a = A;\n')
    command = ["cc", "-MMD", "-MF", f"{made}.d", "-c", str(source), "-o", str(made)]

    def run(*more: str) -> int:
        return run_steps([Step(made, (*command, *more), (source,))])

    assert run() == 1
    assert run() == 0
    assert run("-Werror") == 0  # changes no object
    later = made.stat().st_mtime + 5
    os.utime(header, (later, later))
    assert run() == 1
    assert run("-O2") == 1
    header.unlink()
    with pytest.raises(CompileError, match=r"a\.h"):
        run("-O2")


def test_a_clone_may_be_moved_with_its_objects():
    made = ROOT / "build/objects/a.o"
    step = Step(made, ("cc", "-c", "csrc/a.c", "-o", str(made)), ())
    assert step.signature() == "cc -c csrc/a.c -o build/objects/a.o"
    mapped = Step(made, ("cc", f"-ffile-prefix-map={ROOT}=gpuops"), ())
    assert mapped.signature() == "cc -ffile-prefix-map==gpuops"


def test_an_edit_while_a_file_compiles_is_not_lost(tmp_path):
    source, made = tmp_path / "a.c", tmp_path / "a.o"
    source.write_text("int a;\n")
    compiler = tmp_path / "cc"
    compiler.write_text(
        f"#!/bin/sh\nread=$(cat $1); sleep 0.05; echo 'int b;' >>{source}; sleep 0.05\n"
        'echo "$read" >$2\n'
    )
    compiler.chmod(0o755)
    steps = [Step(made, (str(compiler), str(source), str(made)), (source,))]
    assert run_steps(steps) == 1
    assert made.read_text() == "int a;\n"
    compiler.write_text("#!/bin/sh\ncp $1 $2\n")
    assert run_steps(steps) == 1
    assert made.read_text() == "int a;\nint b;\n"
    assert run_steps(steps) == 0


def test_what_failed_names_file_architecture_and_first_error():
    nvcc = ("/opt/cuda/bin/nvcc", *("-gencode", "arch=compute_75,code=[sm_75]"))
    both = (*nvcc, "-gencode", "arch=compute_90a,code=[sm_90a]", "-c", str(ROOT / "csrc/x.cu"))
    said = "note\nptxas /tmp/tmpxft_1_x.compute_90a.ptx, line 9; error   : No .foo\nfatal: more"
    error = CompileError(both, said)
    assert str(error) == "nvcc failed on csrc/x.cu for 90a: ptxas error : No .foo"
    assert said in error.log
    assert shlex.join(both) in error.log
    error = CompileError(both, "csrc/x.cu(3): error: no b")
    assert str(error) == "nvcc failed on csrc/x.cu for one of 75 90a: csrc/x.cu(3): error: no b"
    error = CompileError((*nvcc, "-c", "csrc/x.cu"), "killed")
    assert str(error) == "nvcc failed on csrc/x.cu for 75: killed"
    assert str(CompileError(("cc", "-shared", "a.o"), "")) == "cc failed: it said nothing"
    assert len(str(CompileError(("cc",), "error: " + "long " * 1000))) < 400


def test_functions_are_short_and_words_are_plain():
    if not shutil.which("make") or not (ROOT / ".git").exists():
        pytest.skip("needs make and a checkout")
    subprocess.run(["make", "-s", "-C", str(ROOT), "style"], check=True)


def test_what_compiling_took_is_kept(tmp_path, monkeypatch, capsys):
    """`make build-times`: seconds of the processor, and kernels by what launches them."""
    source, made = tmp_path / "a.c", tmp_path / "objects" / "cuda" / "a.o"
    stub = "__device_stub__Z3oneIfEvPT_E5__f"
    source.write_text(f"int {stub}(void) {{ return 1; }}\n")
    run_steps([Step(made, ("cc", "-c", str(source), "-o", str(made)), (source,))])
    monkeypatch.setattr(times, "OBJECTS", tmp_path / "objects")
    ((name, seconds, kernels, size),) = times.rows()
    assert (name, kernels, size) == ("cuda/a", 1, made.stat().st_size)
    assert 0 < seconds < 60
    assert times.main() == 0
    assert "cuda: 1 files" in capsys.readouterr().out
    monkeypatch.setattr(times, "OBJECTS", tmp_path / "none")
    assert times.main() == 1
    assert "make build" in capsys.readouterr().out
