"""source: that a kernel can be read, whole, with its launch."""

import re
import subprocess
from pathlib import Path

import engine
import pytest

import gpuops
from gpuops import _core
from gpuops._compile import built
from gpuops._show import source

PLACES = engine.backends()


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("op", _core.ops())
def test_every_kernel_has_its_source(op):
    """All of it: no definition is cut, and the launcher that the table names is there."""
    for backend in PLACES:
        for kernel in gpuops.kernels(op, backend):
            text = gpuops.source(op, kernel)
            folder = "cuda" if backend == "sim" else backend  # the very same files
            assert f"csrc/{folder}/" in text, kernel.name
            assert len(text) < 20000
            plain = re.sub(r"/\*.*?\*/|'.'", "", text, flags=re.S)
            for left, right in ("{}", "()"):
                assert plain.count(left) == plain.count(right), (backend, kernel.name)
            name = rf"(?:{op}|add|op##)_{kernel.name}"  # multiply_add and fma are in add's
            assert re.search(rf"\b{name}\w*\)?\(gop_ctx ?\*", plain), (backend, kernel.name)


@pytest.mark.sampled(later=True)
def test_most_sources_fit_a_screen():
    places = {"cpu", *PLACES}
    rows = [
        (op, k) for op in _core.ops() for place in places for k in gpuops.kernels(op, place)
    ]
    longer = {k for op, k in rows if len(gpuops.source(op, k).splitlines()) > source.LONG}
    assert len(longer) <= 0.1 * len(rows), longer


def test_source_of_a_launcher_has_what_it_calls():
    text = gpuops.source("rdf", "threaded", "cpu")
    assert "rdf_threaded(gop_ctx" in text
    assert "static gop_status count_all(" in text
    assert "FN(direct_pieces)(void" in gpuops.source("matmul", "direct", "cpu")
    assert "jacobi_step_short(gop_ctx" in gpuops.source("jacobi_step", "balanced", "cuda")


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("op", _core.ops())
def test_source_has_the_kernel_of_the_name(op):
    """Whichever file of the folder it is in, and whichever other kernels its launch has."""
    if "sim" not in PLACES:
        pytest.skip("sim tells the names of the GPU kernels")
    stem = _core.ops()[op]
    folder = source.folder() / "cuda" / stem
    written = "".join(path.read_text() for path in folder.glob("*.*"))
    for kernel in gpuops.kernels(op, "sim"):
        text = gpuops.source(op, kernel)
        definition = re.compile(rf"__global__[^;{{}}]*\b{stem}_{kernel.name}_kernel\(")
        assert "__global__" in text, kernel.name
        assert bool(definition.search(text)) == bool(definition.search(written)), kernel.name


def seen_by_the_compiler(files: list) -> dict[str, set[str]]:
    """The files of csrc that the preprocessor reads for each of these, by the file's stem."""
    csrc = source.folder()
    command = [*built.build_info()["sim"]["command"], "-x", "c++", "-std=c++17", "-MM"]
    # As nvcc reads them; CUDA's own headers, which -MM does not name, need not be there.
    command += ["-MG", "-D__CUDACC__", f"-I{csrc}", *map(str, files)]
    rules = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = {}
    for rule in rules.replace("\\\n", " ").splitlines():
        target, _, read = rule.partition(": ")
        inside = [Path(name) for name in read.split() if Path(name).is_relative_to(csrc)]
        found[Path(target).stem] = {f"{path.relative_to(csrc.parent)}" for path in inside}
    return found


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("stem", sorted({*_core.ops().values()}, reverse=True))
def test_source_shows_what_the_compiler_sees(stem):
    """A function of a header that the kernel does not include is another one of that name."""
    if "sim" not in PLACES:
        pytest.skip("needs the compiler that sim was built with")
    files = sorted((source.folder() / "cuda" / stem).glob("*.cu"))
    seen = seen_by_the_compiler(files)
    shown = 0
    for op in (op for op, of in _core.ops().items() if of == stem):
        for kernel in gpuops.kernels(op, "sim"):
            text = gpuops.source(op, kernel)
            own, *others = re.findall(r"^// (csrc/\S+):\d+$", text, re.M)
            if kernel.name == "reads":  # it launches the kernel of naive.cu
                others = [path for path in others if not path.endswith("/naive.cu")]
            assert {*others} <= seen[Path(own).stem], kernel.name
            shown += 1 + len(others)
    assert shown > len(files)
    if stem == "transpose":
        assert "box_step" not in gpuops.source("transpose", "tiled", "cuda")


def test_source_names_what_it_leaves_out():
    """Functions that only plan the launch, and what is called but too long to show."""
    text = gpuops.source("transpose", "planar", "cuda")
    assert re.search(r"// left out, as it plans: .*\bfind_rows\b", text)
    assert "find_rows(const" not in text
    text = gpuops.source("transpose", "boxed", "cuda")
    line = text.replace("\n//", "")
    assert re.search(r"it uses, in boxed\.cu: .*\bload_box\b.*; in boxes\.h: ", line)
    text = gpuops.source("matmul", "imma", "cuda")
    assert "gop_status matmul_imma(gop_ctx" in text
    assert "LAUNCHES" not in text, (
        "the table of launches, and what stands in for them elsewhere"
    )
    assert re.search(r"// it uses, in imma_sm80\.cu: .*\bimma_turn\b", text)


def test_source_follows_the_rule_of_kernels():
    """That of the CPU where nobody says; of a GPU what the CPU's ladder lacks."""
    assert "csrc/cpu/" in gpuops.source("transpose", "naive")
    assert "csrc/cuda/" in gpuops.source("transpose", "tiled")
    if "sim" in PLACES:
        with gpuops.device("sim"):
            assert "csrc/cuda/" in gpuops.source("transpose", "naive")


def test_source_needs_no_backend():
    text = gpuops.source("transpose", "tiled", "cuda")
    assert "__global__" in text
    assert "csrc/cuda/transpose" in text
    short = gpuops.source("reduce", "sequential", "cuda")
    assert "void fold_sequential(" in short, "what it calls of its folder's headers"
    long = gpuops.source("reduce", "vectorized", "cuda")
    assert "gop_status reduce_vectorized(gop_ctx" in long
    assert 80 < len(long.splitlines()) < 140
    there = ", ".join(k.name for k in gpuops.kernels("transpose", "cpu"))
    with pytest.raises(ValueError, match=f"no kernel 'warp9' of transpose .* cpu has {there}"):
        gpuops.source("transpose", "warp9")
    with pytest.raises(TypeError, match="kernel is a name"):
        gpuops.source("transpose", 3)
