"""test_sim - CUDA kernels on the CPU: what they count, and what the machine underneath does.

That they compute what they should is tested with every other device, in test_<op>.py. The
counts here are derived by hand, from the kernels' source.
"""

import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gpuops
from gpuops._compile import simt as _simt
from gpuops._compile.built import build_info
from gpuops.compiling import CompiledKernel

needs_sim = pytest.mark.skipif(
    not gpuops.is_available("sim"), reason="built without the sim backend"
)
N = 256
WARPS = N * N // 32  # of a kernel that gives each element a thread


def square(dtype="f4"):
    return np.arange(N * N, dtype=dtype).reshape(N, N)


# ---- counters; tests/sim/test_ladder_counters.py has those of each kernel ----


@needs_sim
@pytest.mark.parametrize(("dtype", "sectors"), [("u1", 1), ("f2", 2), ("f8", 8), ("c16", 16)])
def test_sectors_grow_with_the_item(dtype, sectors):
    if dtype == "c16" and "clang" in build_info()["sim"]["compiler"]:
        pytest.skip("clang copies structures by memcpy, which it does not report")
    a = np.zeros((N, N), dtype)
    p = gpuops.profile("transpose", a, kernel="reads")["transpose_naive"]
    assert p.counts("global", "load").per_request == sectors


@needs_sim
def test_atomics_are_counted():
    points = np.random.default_rng(0).random((64, 3)).astype("f4")
    p = gpuops.profile("rdf", points, 2, 1, kernel="naive")["rdf_naive"]
    assert p.counts("global", "atomic").lanes == 64 * 63 // 2


# ---- profile ----


@needs_sim
def test_a_profile_prints_and_exports():
    p = gpuops.profile(gpuops.transpose, square(), kernel="tiled")
    assert "shared load" in repr(p)
    assert "GB/s" not in repr(p)
    assert "<table>" in p._repr_html_()
    counts = p.as_dict()["transpose_tiled_kernel"]
    assert counts["blocks"] == (N // 32) ** 2
    assert counts["shared load"]["parts"] == 32 * WARPS
    with pytest.raises(KeyError, match="only"):
        p["matmul_naive"]


@needs_sim
@pytest.mark.skipif(not shutil.which("addr2line"), reason="addr2line is not installed")
def test_counts_name_the_line_of_the_source():
    kernel = gpuops.profile("transpose", square(), kernel="tiled")["transpose_tiled"]
    source = Path(gpuops.__file__).parent.parent / "csrc" / "cuda" / "transpose" / "tiled.cu"
    text = source.read_text().splitlines()
    lines = {(space, kind): text[n - 1] for (_, n, space, kind) in kernel.lines}
    assert re.search(r"tile\[i\]\[j\]", lines["shared", "load"])
    assert re.search(r"tile\[j\]\[i\] = in", lines["global", "load"])


@needs_sim
def test_a_profile_of_any_function_and_none_of_what_ran_before():
    a = square()
    gpuops.transpose(a, device="sim", kernel="naive")

    def twice():
        return gpuops.add(gpuops.transpose(a, kernel="naive"), a, kernel="naive")

    p = gpuops.profile(twice)
    assert [k.name for k in p.kernels] == ["transpose_naive_kernel", "add_naive_kernel"]
    assert gpuops.profile(lambda: None).kernels == ()


@needs_sim
def test_time_on_sim_is_no_rate():
    t = gpuops.benchmark("transpose", (square(),), {"device": "sim"}, n_repeat=1)
    assert t.gbps is None
    assert "GB/s" not in repr(t)


@needs_sim
def test_what_profile_refuses():
    with pytest.raises(TypeError, match="profile: f is an operation or a function"):
        gpuops.profile(3)
    with pytest.raises(ValueError, match="counted on 'sim', not on 'cpu'"):
        gpuops.profile("add", 1.0, 2.0, device="cpu")
    with pytest.raises(ValueError, match="there is no operation"):
        gpuops.profile("subtract", 1.0, 2.0)
    with pytest.raises(gpuops.KernelRefusedError):
        gpuops.profile("transpose", square(), axes=(0, 1), kernel="tiled")
    assert gpuops.profile("add", square(), 1, kernel="naive").kernels  # and it still counts


def test_a_profile_in_a_profile_is_refused():
    for inner in (
        lambda: gpuops.profile("add", square(), 1),
        lambda: gpuops.ladder("add", square(), 1, device="sim"),
    ):
        with pytest.raises(ValueError, match="profile: runs in another profile"):
            gpuops.profile(inner)
    assert gpuops.profile("add", square(), 1).kernels


@needs_sim
def test_a_kernel_compiled_for_a_gpu_is_not_counted_and_says_so():
    launched = []
    module = SimpleNamespace(
        parameters=lambda name: (), launch=lambda *how: launched.append(how)
    )
    kernel = CompiledKernel("nothing", gpuops.Device("cuda"), module)
    with pytest.raises(
        ValueError, match="counted on 'sim', and nothing was compiled for 'cuda"
    ):
        gpuops.profile(lambda: kernel[1, 32]())
    assert not launched
    kernel[1, 32]()  # outside of profile
    assert len(launched) == 1


@needs_sim
def test_threads_do_not_change_counts_or_bits():
    a = np.random.default_rng(1).random((N, N), "f4")
    seen = set()
    for threads in (1, 2, 5):
        gpuops.set_num_threads(threads)
        p = gpuops.profile("sum", a, kernel="tree")
        seen.add((repr(p), gpuops.sum(a, device="sim").tobytes()))
    assert len(seen) == 1


@needs_sim
@pytest.mark.skipif(not shutil.which("readelf"), reason="readelf is not installed")
def test_the_library_exports_what_kernels_call_and_needs_no_cxx_library():
    library = Path(gpuops.__file__).with_name("_sim.so")
    said = subprocess.run(
        ["readelf", "--wide", "--dynamic", "--dyn-syms", str(library)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    defined = re.findall(r"(?:GLOBAL|WEAK)\s+DEFAULT\s+\d+\s+(\S+)", said)
    assert "gop_backend_open" in defined
    assert all(
        re.match(r"gop_backend_open$|gop_sim_|__wrap_mem|__tsan_|__sanitizer_cov_", name)
        for name in defined
    )
    assert not re.search(r"NEEDED.*(libstdc|libtsan|libc\+\+)", said)


# ---- the rewriting of shared declarations ----


def rewritten(text: str) -> str:
    return _simt.rewrite(text, "k.cu")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("__shared__ T tile[32][33];", ["tile"]),
        ("__shared__ vec<T, 4> a[2][N / 2], b;", ["a", "b"]),
        ("__shared__ __align__(16) unsigned char bytes[64];", ["bytes"]),
        ("__shared__ __align__(sizeof(double)) char bytes[64], more;", ["bytes", "more"]),
        ("__shared__ T a[4] __attribute__((aligned(sizeof(T))));", ["a"]),
        ("volatile __shared__ int flag;", ["flag"]),
    ],
)
def test_shared_declarations_become_references(text, names):
    made = rewritten(text)
    assert "__shared__" not in made
    assert re.findall(r"&(\w+) = \*static_cast<.*?>\(gop_sim_shared", made) == names
    assert len(set(re.findall(r"gop_sim_shared\((\d+)u", made))) == len(names)


def test_dynamic_shared_memory_becomes_a_pointer():
    made = rewritten("extern __shared__ __align__(16) unsigned char memory[];")
    assert "unsigned char *memory = static_cast<unsigned char *>(gop_sim_dynamic());" in made


def test_lines_comments_and_strings_stay():
    text = '/* __shared__ int a; */\nconst char *s = "__shared__ int b;";\n'
    text += "__shared__ float\n  x[3];\nend\n"
    made = rewritten(text)
    assert made.splitlines()[0] == '#line 1 "k.cu"'
    assert made.count("\n") == text.count("\n") + 1
    assert text.splitlines()[:2] == made.splitlines()[1:3]
    assert made.splitlines()[5] == "end"


def test_a_declaration_that_is_not_understood_names_its_line():
    with pytest.raises(_simt.SharedSyntaxError, match="line 2"):
        rewritten("\n__shared__ [3];")
