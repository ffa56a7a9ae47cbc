"""dask_cases - what gpuops.dask is asked in this process, in others, and by both planners.

Each check compares with the whole call, byte for byte.
"""

import os
import signal
import warnings

import dask.array as da
import engine
import numpy as np
import pytest

import gpuops
import gpuops.dask as gd

SHAPES = ((), (30_000,), (70, 40), (5, 20, 11))
DTYPES = ("bool", "i2", "u8", "f2", "bfloat16", "f4", "f8", "c8", "c16")


def chunked(a: np.ndarray, rng, most: int = 4):
    """The array cut at random, also into empty chunks."""
    chunks = []
    for n in a.shape:
        cuts = rng.integers(0, n + 1, rng.integers(0, most)) if n > 1 else []
        chunks.append(tuple(np.diff([0, *np.sort(cuts), n]).astype(int).tolist()))
    return da.from_array(a, chunks=tuple(chunks))


def axes_of(op: str, ndim: int) -> list:
    several = [(0, 1), (-1, 0)] if ndim > 1 and not op.startswith("arg") else []
    return [None, *range(ndim), *several]


def check_reductions(op: str, name: str, cuts: int, masks: bool = True) -> None:
    rng = np.random.default_rng(cuts)
    dtype = engine.bfloat16() if name == "bfloat16" else np.dtype(name)
    for shape in SHAPES:
        a = engine.random(shape, dtype, 5, special=len(shape) == 2)
        for axis in axes_of(op, a.ndim):
            words = {"keepdims": bool(rng.random() < 0.5)}
            if masks and op in ("sum", "prod", "mean", "any", "all") and rng.random() < 0.5:
                words["where"] = rng.random(shape[rng.integers(len(shape) + 1) :]) < 0.7
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the mean of nothing; rechunked arrays
                want = gpuops.reduce(a, op, axis, **words)
                for _ in range(cuts):
                    if "where" in words and rng.random() < 0.5:
                        words["where"] = da.asarray(words["where"])
                    lazy = gd.reduce(
                        chunked(a, rng, 4 if a.ndim > 1 else 25), op, axis, **words
                    )
                    assert lazy.dtype == np.asarray(want).dtype
                    assert lazy.shape == want.shape
                    engine.same_bits(lazy.compute(), want)
            if op in ("sum", "mean"):
                check_exact(op, a, axis, chunked(a, rng))


def check_exact(op: str, a, axis, x) -> None:
    """Nothing is rechunked, so nothing warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "mean of an empty slice")
        lazy = gd.reduce(x, op, axis, exact=True)
        engine.same_bits(lazy.compute(), gpuops.reduce(a, op, axis, exact=True))


def check_everything() -> None:
    """What the other planner is asked, in a process of its own."""
    for k, op in enumerate(engine.REDUCTIONS):
        check_reductions(op, DTYPES[k], 1)
    check_elementwise()
    check_products()
    check_rdf()
    check_jacobi()


def check_elementwise() -> None:
    rng = np.random.default_rng(0)
    a, b, c = (
        engine.random(s, d, 1) for s, d in (((40, 30), "f4"), ((30,), "f8"), ((40, 1), "f4"))
    )
    for _ in range(3):
        x, y, z = (chunked(v, rng) for v in (a, b, c))
        engine.same_bits(gd.add(x, y).compute(), gpuops.add(a, b))
        engine.same_bits(gd.add(2, x).compute(), gpuops.add(2, a))
        engine.same_bits(gd.multiply_add(x, c, 0.5).compute(), gpuops.multiply_add(a, c, 0.5))
        engine.same_bits(gd.fma(x, z, a).compute(), gpuops.fma(a, c, a))
        cube = engine.random((4, 7, 5), "i2", 2)
        for axes in (None, (2, 0, 1), (-1, 1, 0)):
            lazy = gd.transpose(chunked(cube, rng), axes)
            want = gpuops.transpose(cube, axes)
            assert lazy.shape == want.shape
            engine.same_bits(lazy.compute(), want)


def check_products() -> None:
    rng = np.random.default_rng(0)
    for name in ("bool", "i4", "u8", "f2", "f4", "f8", "c16"):
        for left, right in (
            ((60, 90), (90, 40)),
            ((3, 20, 31), (31, 8)),
            ((2, 5, 6), (2, 6, 4)),
            ((50,), (50, 3)),
            ((4, 50), (50,)),
            ((50,), (50,)),
        ):
            a, b = engine.random(left, name, 1), engine.random(right, name, 2)
            want = gpuops.matmul(a, b)
            lazy = gd.matmul(chunked(a, rng, 4), chunked(b, rng, 4))
            assert (lazy.shape, lazy.dtype) == (want.shape, want.dtype)
            got = lazy.compute()
            if a.dtype.kind in "biu":
                engine.same_bits(got, want)
                continue
            # Twice the bound of docs/numerics.md: c is 2 k at most, of complex numbers 4 k.
            unit = np.finfo("f4" if name == "f2" else name).eps / 2
            size = np.abs(a.astype("c16")) @ np.abs(b.astype("c16"))
            bound = 8 * left[-1] * unit * size.real + np.finfo(name).eps * np.abs(want)
            assert (np.abs(got.astype("c16") - want) <= bound).all()


def check_rdf() -> None:
    db = pytest.importorskip("dask.bag")
    rng = np.random.default_rng(3)
    gas = rng.random((50, 40, 3)).astype("f4")
    boxes = 1 + 0.1 * rng.random((50, 3))
    want = gpuops.rdf(gas, 0.45, 20, box=boxes)
    found = [gd.rdf(chunked(gas, rng), 0.45, 20, box=boxes).compute() for _ in range(4)]
    for chunks in (1, 3, 50):
        x = da.from_array(gas, chunks=(chunks, 40, 3))
        found.append(gd.rdf(x, 0.45, 20, box=boxes).compute())
    frames = [(p, tuple(box)) for p, box in zip(gas, boxes, strict=True)]
    for parts in (1, 9):
        bag = db.from_sequence(frames, npartitions=parts)
        found.append(gd.rdf(bag, 0.45, 20).compute())
    for f in found:
        engine.same_bits(f.counts, want.counts)
        assert f.frames == 50
        engine.same_bits(f.g, found[0].g)
        engine.same_bits(f.error, found[0].error)
        engine.same_bits(f.coordination(), found[0].coordination())
        np.testing.assert_allclose(f.g, want.g, rtol=1e-12)
        np.testing.assert_allclose(f.error, want.error, rtol=1e-9)
    types = np.array(["A", "B"] * 20)
    one = {"r_max": 0.45, "bins": 5, "box": (1, 1, 1)}
    for words, lazy in (
        ({"types": types}, {}),
        ({"points2": gas[:, :30]}, {"points2": da.from_array(gas[:, :30], chunks=7)}),
        ({"points2": gas[0]}, {}),
        ({"exclude": np.arange(40) // 2}, {}),
    ):
        want = gpuops.rdf(gas, **one, **words)
        got = gd.rdf(chunked(gas, rng), **one, **{**words, **lazy}).compute()
        engine.same_bits(got.counts, want.counts)
        assert (got.types is None) == (want.types is None)


def check_jacobi() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(2)
    varied = [rng.random((2, 300)), 4 + rng.random((1, 300)), rng.random((2, 300))]
    A = sparse.random_array((100, 100), density=0.03, rng=rng) + 5 * sparse.eye_array(100)
    for matrix in (
        gpuops.poisson((20, 17)),
        gpuops.poisson((20, 17), "neumann"),
        gpuops.poisson((8, 9), "periodic"),
        gpuops.poisson((30, 5, 6)).tocsr(),
        gpuops.sparse(gpuops.poisson(200, dtype="f4").tocsr()),
        gpuops.stencil(np.concatenate(varied).reshape(5, 20, 15), (20, 15)),
        A,
    ):
        n = matrix.shape[0]
        f, x = rng.random((n, 2)), rng.random((n, 2))
        lazy = gd.jacobi(matrix, chunked(f, rng), chunked(x, rng), omega=0.6, steps=23)
        for _ in range(23):
            x = gpuops.jacobi_step(matrix, f, x, omega=0.6)
        engine.same_bits(lazy.compute(), x)
    A, f = gpuops.poisson((20, 17)), rng.random(340)
    lazy = gd.jacobi(A, da.from_array(f, chunks=90), steps=5, sweeps=2)
    engine.same_bits(lazy.compute(), gpuops.jacobi(A, f, rtol=0, maxiter=5).x)
    with pytest.raises(TypeError, match="A is a sparse matrix or a stencil, not ndarray"):
        gd.jacobi(np.eye(3), da.ones(3))
    with pytest.raises(ValueError, match=r"A is \(340, 340\), and f has shape \(3,\)"):
        gd.jacobi(A, da.ones(3))
    with pytest.raises(ValueError, match="sweeps is a number of steps, not 0"):
        gd.jacobi(A, da.ones(340), sweeps=0)


def killed_once(block, flag: str):
    """The first task that comes here takes its process with it."""
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return block
    return os.kill(os.getpid(), signal.SIGKILL)
