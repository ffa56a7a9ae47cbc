"""jacobi_step of large and odd systems; on the CPU by `threaded`, bit for bit as by `naive`."""

from __future__ import annotations

import numpy as np
import pytest
from engine import attempt, random, same_bits, taken
from test_jacobi_step import EVERY_ROW, compare, reference

import gpuops
from gpuops import _core

sparse = pytest.importorskip("scipy.sparse")

DTYPES = ("f4", "f8", "c8", "c16")


def as_naive(A, f, x, **options):
    want = gpuops.jacobi_step(A, f, x, **options, device="cpu", kernel="naive")
    for level in _core.cpu_levels():
        _core.set_cpu_level(level)
        try:
            y = gpuops.jacobi_step(A, f, x, **options, device="cpu", kernel="threaded")
        finally:
            _core.set_cpu_level(None)
        same_bits(y, want)


LAYOUTS = {
    "rows": lambda row, n: np.broadcast_to(row[:n], (n, n)),
    "columns": lambda row, n: np.broadcast_to(row[:n], (n, n)).T,
    "a band of rows": lambda row, n: np.lib.stride_tricks.as_strided(
        row, (n, n), (row.itemsize * 2, row.itemsize)
    ),
    "a band of columns": lambda row, n: np.lib.stride_tricks.as_strided(
        row, (n, n), (row.itemsize, row.itemsize * 2)
    ),
    "columns, upside down": lambda row, n: np.lib.stride_tricks.as_strided(
        row, (n, n), (row.itemsize, row.itemsize * 2)
    )[::-1],
    "steps": lambda row, n: np.lib.stride_tricks.as_strided(
        row, (n, n), (row.itemsize * 2, row.itemsize * 3)
    ),
}


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "k"), [(515, 0), (515, 11), (2050, 0), (4300, 0)])
def test_dense_layouts(n, k, dtype, name):
    """The matrices lie in little memory, so that a large one costs nothing to make."""
    A = LAYOUTS[name](random(5 * n, dtype, 1), n)
    if n > 3000 and (dtype != "f4" or name == "steps"):
        A = A[-2100:, -2100:]
    rows = len(A)
    f, x = (random((rows, k) if k else (rows,), dtype, seed) for seed in (2, 3))
    as_naive(A, f, x, alpha=0.25)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", ["i4", "i8"])
@pytest.mark.parametrize("k", [0, 1, 5])
def test_csr_rows_of_every_length(k, index, dtype):
    """Short rows of each length, long ones, the diagonal in each place, several times too."""
    rng = np.random.default_rng(3)
    even = np.repeat([3, 7, 4, 5], [100, 100, 100, 600])
    lengths = np.array([*rng.integers(1, 14, 900), 129, 0, 2049, 1, 5000, *even])
    n = len(lengths)
    lengths[n - 600] = 4
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(index)
    indices = rng.integers(0, n, indptr[-1]).astype(index)
    filled = np.flatnonzero(lengths)
    place = indptr[filled] + rng.integers(0, 9, len(filled)) % lengths[filled]
    indices[place] = filled
    A = sparse.csr_matrix((random(len(indices), dtype, 1), indices, indptr), shape=(n, n))
    A.indptr, A.indices = indptr, indices
    f, x = (random((n, k) if k else (n,), dtype, seed) for seed in (2, 3))
    as_naive(A, f, x, alpha=0.25)
    as_naive(A[1000:, 1000:], f[1000:], x[1000:], omega=0.75)
    if k:
        as_naive(A, f[:, ::-1], np.asfortranarray(x), alpha=-1.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [2, 3, 8, 13, 16])
def test_columns_side_by_side_in_every_order(k, dtype):
    """Panels of eight columns, four, two and one; operands of either order each."""
    rng = np.random.default_rng(4)
    lengths = np.array([*rng.integers(1, 20, 140), 129, 128, 2049, 1, 4100])
    n = len(lengths)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = rng.integers(0, n, indptr[-1])
    indices[indptr[:-1]] = np.arange(n)
    A = sparse.csr_matrix((random(len(indices), dtype, 1), indices, indptr), shape=(n, n))
    f, x = random((n, k), dtype, 2), random((n, k), dtype, 3)
    for turn, (a, b) in enumerate([(f, x), (np.asfortranarray(f), x), (f, np.asfortranarray(x)),
                                   (f[::-1], x[:, ::-1])]):  # fmt: skip
        as_naive(A, a, b, **({"omega": 0.75} if turn % 2 else {"alpha": 0.25}))
    out = np.empty((n, k), dtype, order="F")
    gpuops.jacobi_step(A, f, np.asfortranarray(x), out=out, device="cpu")
    same_bits(out, gpuops.jacobi_step(A, f, x, device="cpu", kernel="naive"))


def tridiagonal(n):
    e = np.ones(n)
    return sparse.diags([e[1:], 4 * e, e[1:]], [-1, 0, 1], format="csr")


@pytest.mark.parametrize("index", ["i4", "i8"])
@pytest.mark.parametrize(
    ("spoil", "error", "sentence"),
    [
        (lambda A: A.indices.__setitem__(150_000, 90_000), ValueError,
         r"indices\[150000\] is 90000, expected 0 <= index < 90000"),
        (lambda A: A.indices.__setitem__([200_000, 9], -1), ValueError, r"indices\[9\] is -1"),
        (lambda A: A.indptr.__setitem__([80_000, 70_000], 2**31 - 1), ValueError,
         r"decreases: indptr\[70001\]"),
        (lambda A: A.indptr.__setitem__(50_000, -7), ValueError, r"decreases: indptr\[50000\]"),
        (lambda A: A.data.__setitem__(3 * 60_000, 0.0), np.linalg.LinAlgError,
         "zero in row 60000"),
        (lambda A: A.indices.__setitem__(3 * 60_000, 1), np.linalg.LinAlgError,
         "missing in row 60000"),
    ],
    ids=["last", "first of two", "too far", "negative", "zero", "missing"],
)  # fmt: skip
def test_what_is_wrong_is_named_wherever_it_is(spoil, error, sentence, index):
    """Several threads look, and the first place that is wrong is named."""
    A = tridiagonal(90_000)
    A.indices, A.indptr = A.indices.astype(index), A.indptr.astype(index)
    spoil(A)
    out = np.full(90_000, 7.0)
    with pytest.raises(error, match=sentence):
        gpuops.jacobi_step(A, out.copy(), out.copy(), out=out, device="cpu")
    assert (out == 7.0).all()


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("offset", [0, 1, 4])
@pytest.mark.parametrize("n", [1024, 1152, 1160])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_abreast_and_strips_wherever_they_begin(dtype, n, offset, order):
    """Whole leaves and others, columns that begin a line and columns that do not."""
    A = random(n * n + offset, dtype, 1)[offset:].reshape(n, n, order=order)
    as_naive(A, random(n, dtype, 2), random(n, dtype, 3), alpha=0.5)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("how", [{"alpha": 0.5}, {"omega": 0.7}], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_where_columns_begin(dtype, how):
    n = 1040  # columns of whole lines, and lanes of eight terms and of nine
    A = random((n, n), dtype, 1) + n * np.eye(n, dtype=dtype)
    f, x = random((n,), dtype, 2), random((n,), dtype, 3)
    for first in (0, 1, 3):
        columns = random((n * n + 64,), dtype)[first : first + n * n].reshape(n, n).T
        columns[...] = A
        as_naive(columns, f, x, **how)
    as_naive(A, f, random((n + 1,), dtype, 3)[1:], **how)


@pytest.mark.sampled(every=7)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2048, 2049, 4300, 13000])
@EVERY_ROW
def test_dense_with_several_leaves(device, kernel, n, dtype):
    """All rows are the same memory, so a large A costs nothing; the diagonal is A[0]."""
    row, f, x = random(n, dtype, 1), random(n, dtype, 2), random(n, dtype, 3)

    def call(case):
        A = case[0]
        return attempt(gpuops.jacobi_step, A, f, x, alpha=0.5, device=device, kernel=kernel)

    cases = [(np.broadcast_to(row, (n, n)), [0, n - 1])]
    cases += [(np.broadcast_to(row[:, None], (n, n)), [3])]
    for (A, only), y in taken(cases, call):
        compare(device, kernel, y[only], reference(A, f, x, alpha=0.5, only=only)[0])
