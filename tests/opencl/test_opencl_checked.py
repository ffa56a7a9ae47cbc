"""Oclgrind plays the OpenCL kernels and looks for races and for reads of what nobody wrote."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from opencl_machine import OCLGRIND, needs_build, opencl, said  # noqa: F401

import gpuops
from _build.embed import embed

pytestmark = needs_build
ROOT = Path(__file__).resolve().parents[2]
OBJECTS = ROOT / "build" / "objects" / "opencl"
needs_objects = pytest.mark.skipif(not OBJECTS.is_dir(), reason="needs a build")
needs_oclgrind = pytest.mark.skipif(
    not OCLGRIND, reason="needs Oclgrind, Debian's package oclgrind"
)

CALLS = """
a = np.arange(300, dtype="f4")
c, h = np.arange(60, dtype="c8"), np.arange(100, dtype="f2")
m = np.arange(40 * 36, dtype="f4").reshape(40, 36)
calls = [("fma", (h, h, h))] + [("multiply_add", (x, x, x)) for x in (a, c, a[::2])]
calls += [("transpose", (m.astype(d),)) for d in ("u1", "f4", "f8", "c16")]
for op, arrays in calls:
    for kernel in gpuops.kernels(op, "opencl"):
        try:
            got = getattr(gpuops, op)(*arrays, device="opencl", kernel=kernel.name)
        except gpuops.KernelRefusedError:
            continue
        assert np.array_equal(got, getattr(gpuops, op)(*arrays, device="cpu")), (op, kernel)
"""

REDUCTIONS = """
a = np.arange(2048 + 300, dtype="f4") % 11 - 5
m = a[:1400].reshape(20, 70)
calls = [("sum", a, {}), ("argmax", m, {"axis": 1}), ("mean", m, {"axis": 0, "where": m > 0}),
         ("argmin", m, {"axis": 0}), ("sum", np.arange(4200.0).reshape(-1, 2), {"axis": 0})]
for op, x, more in calls:
    for kernel in gpuops.kernels("reduce", "opencl"):
        try:
            got = getattr(gpuops, op)(x, device="opencl", kernel=kernel.name, **more)
        except gpuops.KernelRefusedError:
            continue
        want = getattr(gpuops, op)(x, device="cpu", **more)
        assert np.array_equal(got, want, equal_nan=True), (op, kernel)
"""
PRODUCTS = """
a, b = np.arange(20 * 11) % 7 - 3, np.arange(18 * 11) % 5 - 2
for word in WORDS:
    x, y = a.reshape(20, 11).astype(word), b.reshape(18, 11).astype(word).T
    for kernel in gpuops.kernels("matmul", "opencl"):
        u = x[:2] if kernel.name == "thin" else x
        for z in (y, y.copy()) if kernel.name == "thin" else (y,):
            got = gpuops.matmul(u, z, device="opencl", kernel=kernel.name)
            assert np.array_equal(got, u @ z), kernel
"""

WITHOUT_OPTIMISATION = {"OCLGRIND_UNINITIALIZED": "1", "OCLGRIND_BUILD_OPTIONS": "-O0"}

# The kernels of rdf, with box, types and cells; of jacobi_step and the solver's.
MORE = """
rng = np.random.default_rng(0)
p = rng.random((150, 3))
for kernel in gpuops.kernels("rdf", "opencl"):
    for box, dtype in ((None, "f8"), ((1, 1, 1, 80, 85, 95), "f4")):
        how = {"r_max": 0.2, "bins": 8, "box": box, "types": [0, 1, 1] * 50, "norm": "none"}
        got = gpuops.rdf(p.astype(dtype), **how, device="opencl", kernel=kernel.name)
        want = gpuops.rdf(p.astype(dtype), **how, device="cpu")
        assert np.array_equal(got.counts, want.counts), (kernel, box)
A, f = rng.random((20, 20), "f4") + 9 * np.eye(20, dtype="f4"), rng.random(20, "f4")
S = gpuops.poisson((5, 6)).tocsr()
for kernel in gpuops.kernels("jacobi_step", "opencl"):
    grid = gpuops.poisson((3, 10))
    for M, n in ((A, 20), (np.asfortranarray(A), 20), (S, 30), (grid, 30)):
        x = rng.random(n).astype("f4" if n == 20 else "f8")
        try:
            got = gpuops.jacobi_step(M, x, x, device="opencl", kernel=kernel.name)
        except gpuops.KernelRefusedError:
            continue
        want = gpuops.jacobi_step(M, x, x, device="cpu")
        assert (got == want).all(), kernel
got, want = (gpuops.jacobi(A, f, maxiter=2, device=d).residuals for d in ("opencl", "cpu"))
assert (got == want).all()
"""


def oclgrind(program, tmp_path, **more):
    log = tmp_path / "log"
    env = {"OCL_ICD_VENDORS": str(OCLGRIND), "OCLGRIND_DATA_RACES": "1",
           "OCLGRIND_CHECK_API": "1", "OCLGRIND_LOG": str(log),
           "XDG_CACHE_HOME": str(tmp_path / "cache"), **more}  # fmt: skip
    said(program, **env)
    return log.read_text() if log.exists() else ""


@needs_oclgrind
@pytest.mark.sampled
@pytest.mark.parametrize("program", [CALLS, PRODUCTS], ids=["lines", "matmul"])
def test_oclgrind_finds_nothing(program, tmp_path, everything):
    words = ("f4", "i2")[: 2 if everything else 1]
    assert oclgrind(f"WORDS = {words}\n{program}", tmp_path) == ""


@needs_oclgrind
@pytest.mark.sampled(later=True)
def test_oclgrind_finds_nothing_in_pairs_and_systems(tmp_path):
    assert oclgrind(MORE, tmp_path, OCLGRIND_BUILD_OPTIONS="-O0") == ""


@needs_oclgrind
@pytest.mark.sampled(later=True)
def test_oclgrind_meets_no_uninitialised_read(tmp_path):
    """Without what sets half of a vector, which Oclgrind 21.10 takes for one, and without
    optimisation, after which it meets instructions that it does not know."""
    program = CALLS.replace("(a, c, a[::2])", "(a, a[::2])")
    program = program.replace(
        "        try:", "        if kernel.name == 'blocked': continue\n        try:"
    )
    assert oclgrind(program, tmp_path, **WITHOUT_OPTIMISATION) == ""


@needs_oclgrind
@pytest.mark.sampled(later=True)
def test_oclgrind_finds_nothing_in_reductions(tmp_path):
    """Neither races nor uninitialised reads nor wrong calls."""
    assert oclgrind(REDUCTIONS, tmp_path, **WITHOUT_OPTIMISATION) == ""


@needs_oclgrind
@pytest.mark.sampled(later=True)
def test_pairs_and_systems_meet_no_uninitialised_read(tmp_path):
    """Without chunked, whose vectors it takes for what nobody wrote."""
    some = 'if kernel.name == "chunked": continue\n    for box, dtype in'
    program = MORE.replace("for box, dtype in", some)
    assert oclgrind(program, tmp_path, **WITHOUT_OPTIMISATION) == ""


def linked(folder, sources, *more, without=()):
    """A package with the library of other sources, and of what replaces some of its objects."""
    package = folder / "gpuops"
    package.mkdir()
    for file in Path(gpuops.__file__).parent.iterdir():
        if file.name not in ("__pycache__", "_opencl.so"):
            (package / file.name).symlink_to(file)
    left_out = (OBJECTS / "sources.o", *without)
    # The folder may have objects of sources that are gone.
    words = OBJECTS.with_name("_opencl.so.cmd").read_text().split()
    objects = [ROOT / word for word in words if word.endswith(".o")]
    objects = [each for each in objects if each not in left_out]
    command = ["cc", "-std=c11", "-fPIC", "-shared", f"-I{ROOT / 'csrc'}", sources, *more]
    command += [*objects, "-o", package / "_opencl.so", "-ldl", "-pthread"]
    subprocess.run(command, check=True)


@needs_objects
@pytest.mark.usefixtures("opencl")
def test_a_kernel_is_a_file_and_an_entry_of_its_ladder(tmp_path):
    """As CONTRIBUTING says: it is listed, and runs by its name."""
    csrc, place = tmp_path / "csrc", tmp_path / "csrc" / "opencl" / "transpose"
    shutil.copytree(ROOT / "csrc" / "opencl", csrc / "opencl")
    text = (place / "naive.cl").read_text()
    (place / "plain.cl").write_text(text.replace("naive", "plain"))
    ladder = place / "ladder.c"
    first = "    ROW(op, stem, naive,"
    entry = (
        "    ROW(op, stem, plain, by_items, .tunables = {GOP_CL_GROUP}, "
        ".dtypes = GOP_EVERY_DTYPE) \\\n"
    )
    ladder.write_text(ladder.read_text().replace(first, entry + first, 1))
    sources = tmp_path / "sources.c"
    embed(csrc, sorted(csrc.glob("opencl/*/*.cl")), sources)
    linked(tmp_path, sources, ladder, without=[OBJECTS / "transpose" / "ladder.o"])
    program = (
        "a = np.arange(60, dtype='i4').reshape(5, 12)\n"
        "print('plain' in [k.name for k in gpuops.kernels('transpose', 'opencl')])\n"
        "print((gpuops.transpose(a, kernel='plain', device='opencl') == a.T).all())"
    )
    assert said(program, PYTHONPATH=str(tmp_path)) == "True\nTrue"


@needs_oclgrind
@needs_objects
def test_oclgrind_finds_a_planted_race(tmp_path):
    """The same library with a kernel of which the barrier was taken away."""
    sources = (OBJECTS / "sources.c").read_text()
    begin = sources.index('{"transpose/tiled"')
    before, tiled = sources[:begin], sources[begin:]
    barrier = '"    barrier(CLK_LOCAL_MEM_FENCE);\\n"'
    assert barrier in tiled  # the first one is its own
    planted = tmp_path / "sources.c"
    planted.write_text(before + tiled.replace(barrier, '"\\n"', 1))
    linked(tmp_path, planted)
    program = (
        "a = np.arange(4096, dtype='f4').reshape(64, 64)\n"
        "gpuops.transpose(a, kernel='tiled', device='opencl')"
    )
    log = oclgrind(program, tmp_path, PYTHONPATH=str(tmp_path))
    assert "data race" in log.lower(), log
