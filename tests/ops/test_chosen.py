"""test_chosen - which kernel runs where none is named, for some hundred calls, by name.

Whatever is chosen gives the right result, so nothing else fails where a constant of a choose
file, a condition or the order of a table is changed by mistake: calls would only take longer.
A line of chosen.txt is a call, the kernel that sim's ladder (CUDA's) gives it and the CPU's;
who changes a choice on purpose changes its lines. No line depends on the number of processors
or on the instruction set. CUDA's products are left out: their times are fitted anew
(benchmarks/fit_choose.py).
"""

from __future__ import annotations

import pathlib

import engine
import numpy as np
import pytest

import gpuops

LINES = [
    line
    for line in pathlib.Path(__file__).with_name("chosen.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


def numbers(word: str) -> tuple[int, ...]:
    return tuple(map(int, word.split("x")))


def operand(dtype: str, word: str) -> np.ndarray:
    """`3x5`; `3x5.T`, its transpose; `3x5/2`, every second item of lines of 5; `3x5+1`, lines
    of 5 that begin an item further in lines of 6."""
    word, turned, _ = word.partition(".T")
    word, _, step = word.partition("/")
    word, _, gap = word.partition("+")
    *rest, last = numbers(word)
    memory = np.empty((*rest, last * int(step or 1) + int(gap or 0)), dtype)
    array = memory[..., int(gap or 0) :: int(step or 1)]
    return array.T if turned else array


def transpose(dtype, shape, axes):
    return (operand(dtype, shape), tuple(map(int, axes.split(",")))), {}


def elementwise(dtype, *operands):
    out = {}
    if operands[-1].startswith("out="):
        *operands, last = operands
        out = {"out": operand(dtype, last[4:])}
    return tuple(operand(dtype, word) for word in operands), out


def matmul(dtype, a, b):
    return (operand(dtype, a), operand(dtype, b)), {}


def reduce(dtype, word, shape, axes="", more=""):
    """`sum 3x5 0`, along the first axis; `0,2`, two of them; `all`; `where`, with a mask;
    `exact`."""
    axis = None if axes in ("", "all") else tuple(map(int, axes.split(",")))
    given = {"axis": axis[0] if axis and len(axis) == 1 else axis}
    a = operand(dtype, shape)
    if more == "where":
        given["where"] = np.ones(a.shape, bool)
    if more == "exact":
        given["exact"] = True
    return (a,), given


def rdf(dtype, n, r_max, bins, *more):
    """Points of a unit cube, which is a box, `box`, or a slanted one, `skew`; `frames=2`."""
    given = dict(word.partition("=")[::2] for word in more)
    points = np.random.default_rng(5).random((*numbers(n), 3)).astype(dtype)
    options = {"r_max": float(r_max), "bins": int(bins)}
    if "edges" in given:
        options["r_min"] = float(given["edges"])
    if "box" in given:
        options["box"] = np.eye(3)
    if "skew" in given:
        options["box"] = np.array([[1, 0, 0], [0.2, 1, 0], [0.1, -0.2, 1]])
    if "types" in given:
        options["types"] = np.zeros(int(n), "i4")
    if "cross" in given:
        options["points2"] = points[: int(given["cross"])]
    return (points,), options


def matrix(dtype, word, device):
    """`dense=300`, `columns=300`, `grid=30x40`; `csr=300x7`, rows of 7 terms; `sparse=300x7`,
    the same, checked before: kernels need not look at it."""
    kind, _, shape = word.partition("=")
    if kind == "grid":
        return gpuops.poisson(numbers(shape), dtype=dtype), int(np.prod(numbers(shape)))
    if kind in ("dense", "columns"):
        n = int(shape)
        return np.eye(n, dtype=dtype, order="F" if kind == "columns" else "C"), n
    sparse = pytest.importorskip("scipy.sparse")
    n, terms = numbers(shape)
    places = (np.arange(n)[:, None] + np.arange(terms) * max(1, n // terms)) % n
    indices = np.sort(places, axis=1).astype("i4").ravel()
    indptr = np.arange(0, n * terms + 1, terms, dtype="i4")
    a = sparse.csr_array((np.ones(n * terms, dtype), indices, indptr), shape=(n, n))
    return (gpuops.sparse(a, device=device) if kind == "sparse" else a), n


def system(device, dtype, word, columns="1"):
    a, n = matrix(dtype, word, device)
    f = np.zeros((n, int(columns)), dtype) if columns != "1" else np.zeros(n, dtype)
    return a, f


def jacobi_step(device, *words):
    a, f = system(device, *words)
    return (a, f, f), {"alpha": 0.1}


def jacobi(device, *words):
    return system(device, *words), {"alpha": 0.1}


CALLS = {
    "transpose": transpose,
    "add": elementwise,
    "multiply_add": elementwise,
    "fma": elementwise,
    "matmul": matmul,
    "reduce": reduce,
    "rdf": rdf,
    "jacobi_step": jacobi_step,
    "jacobi": jacobi,
}


def chosen(call: str, device: str) -> str:
    op, *words = call.split()
    if op.startswith("jacobi"):
        words.insert(0, device)
    args, options = CALLS[op](*words)
    word = words[1] if op == "reduce" else op
    return gpuops.explain(word, *args, **options, device=device).kernel


@pytest.mark.parametrize("device", [d for d in engine.backends() if d != "cuda"])
@pytest.mark.parametrize("op", CALLS)
def test_the_chosen_kernel_is_the_one_that_was_measured(op, device):
    wrong = []
    for line in LINES:
        call, _, kernels = line.partition(" -> ")
        expected = dict(zip(("sim", "cpu"), kernels.split(), strict=True))[device]
        if call.split()[0] != op or expected == "-":
            continue
        found = chosen(call, device)
        if found != expected:
            wrong.append(f"{call}: {found} on {device}, expected {expected}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.skipif("sim" not in engine.backends(), reason="sim is not built")
def test_each_candidate_for_a_gpu_is_pinned():
    """But for the naive kernels, which take what no other does: outputs with gaps, or that
    start off 16 bytes."""
    pinned = {(line.split()[0], line.split()[-2]) for line in LINES}
    for op in CALLS:
        roles = {k.name: k.role for k in gpuops.kernels(op, "sim")}
        left = {name for name, role in roles.items() if role == "production"}
        left -= {kernel for of, kernel in pinned if of == op} | {"naive"}
        assert op == "matmul" or not left, f"{op}: no line of chosen.txt has {left}"
