"""matmul's bound on the error, in this one place, and data to hold it against.

An element of k terms is at most lost(...) u sum |a| |b| off, and what underflows besides
(docs/numerics.md, "matmul", says why)."""

from __future__ import annotations

import functools

import engine
import numpy as np

# Rows whose sums are a loop of fused multiply-adds in the order of l.
LOOPS = {
    "cpu": {"naive"},
    "cuda": {
        "naive", "strided", "tiled", "strips", "patches", "blocktiled", "small",
    },
}  # fmt: skip
LOOPS["sim"] = LOOPS["cuda"]
# Rows whose tensor cores cut sums short, for these dtypes.
CUT = {
    "bf16x3_packed",
    "fp16x2",
    "bf16x3_small",
    "bf16x3_batch",
    "bf16x3",
    "tf32",
    "mma",
    "ring",
    "skinny_wgmma",
}
CUT_DTYPES = ("float16", "bfloat16", "float32", "complex64")


def of_loop(k: int) -> float:
    return k


def of_blocks(k: int) -> float:
    """Blocks of 256 terms, added one after the other."""
    return min(k, 256) + -(-k // 256) - 1


def of_lanes(k: int, dtype: np.dtype) -> float:
    """Segments of 32768 terms, of which a lane of the fewest there are has its share."""
    lanes = {"f": 64, "c": 128}[dtype.kind] // dtype.itemsize
    return -(-min(k, 2**15) // lanes) + int(np.log2(lanes)) + -(-k // 2**15)


def of_tensor_cores(k: int) -> float:
    return min(2 * k + 4, 160 + k / 16)


def lost(device: str, kernel: str | None, k: int, dtype: np.dtype, precision=None) -> float:
    """c: of a row, or of whichever runs. Complex numbers have two terms in each part."""
    complex_, name = dtype.kind == "c", dtype.name
    terms = 2 * k if complex_ else k
    of_cpu = of_blocks(k) * (1 + complex_)
    if device == "cpu":
        if kernel in LOOPS["cpu"]:
            return of_loop(terms)
        lanes = name in ("float32", "float64", "complex64", "complex128")
        if lanes and kernel in ("vector", None):
            return max(of_cpu, of_lanes(k, dtype) * (1 + complex_))
        return of_cpu
    if device == "cuda" and name in CUT_DTYPES and (kernel is None or kernel in CUT):
        least = max(of_tensor_cores(terms), of_loop(terms) if kernel is None else 0)
        return least + 9 * (precision == "fast" or kernel == "fp16x2")
    return of_loop(terms)


def bound(device, kernel, k: int, dtype: np.dtype, precision=None) -> tuple[float, float]:
    """What |computed - exact| may be, as a part of sum |a| |b| and besides."""
    info = np.finfo(np.float32 if dtype.itemsize == 2 else dtype)
    unit, tiny = float(info.eps) / 2, k * float(info.smallest_subnormal)
    tiny *= 8 if device == "cuda" else 1
    if precision in ("tf32", "bf16") and dtype.name in ("float32", "complex64"):
        bits = 11 if precision == "tf32" else 8
        terms = k * (1 + (dtype.kind == "c"))
        rounded = 2.0 ** (2 - bits) + terms * 2.0**-24
        return max(rounded, unit * lost(device, kernel, k, dtype)), tiny
    return unit * lost(device, kernel, k, dtype, precision), tiny


# ---- data ----

KINDS = (
    "normal", "uniform", "lognormal", "graded rows", "graded columns", "graded k", "cancelling",
    "sparse", "identity", "subnormal", "underflowing", "near overflow",
    "far scales", "far apart",
)  # fmt: skip
# Made to break bounds: none of them is kept by every row within what a loop loses, or 4.
HOSTILE = (
    "cancels between chunks", "one large term", "rounds up each time", "cut each time",
    "grows", "shrinks",
)  # fmt: skip


def hostile(kind: str, m: int, k: int, n: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """In float32's u. Row i is made against sums that begin anew after 2^i terms."""
    u, a, b = 2.0**-24, np.zeros((m, k)), np.ones((k, n))
    for i, row in enumerate(a):
        chunk = min(2 ** (1 + i % 12), max(k // 2, 1))
        if kind == "cancels between chunks":  # A loop is done with -1 + 1 when the rest comes.
            row[:] = 1.5 * u
            row[: chunk + 1] = 0
            row[0], row[min(chunk, k - 1)] = -1, 1
        elif kind == "one large term":
            row[:] = rng.standard_normal(k) * 2.0**-15
            row[rng.integers(k)] = 1
        elif kind == "rounds up each time":  # 1 + u (1 + 2^-10) is 1 + 2 u
            row[:] = u * (1 + 2.0**-10)
            row[::chunk] = (1 + 2.0**-10) * u * chunk
            row[0] = 1
        elif kind == "cut each time":  # the last bits of all but the largest
            row[:] = u * (2 - 2.0**-10)
            row[0] = 1
        else:
            row[:] = np.exp2(24.0 * np.arange(k) / max(k - 1, 1) - 24) * (1 + rng.random(k))
            if kind == "shrinks":
                row[:] = row[::-1].copy()
    return a, b


@functools.cache
def operands(kind: str, m: int, k: int, n: int, dtype) -> tuple[np.ndarray, np.ndarray]:
    """Of a kind, in the reals; scaled by powers of two, which round nothing."""
    rng = np.random.default_rng(k)
    if kind in HOSTILE:
        a, b = hostile(kind, m, k, n, rng)
        if dtype == np.float64 and kind not in ("grows", "shrinks"):  # against its 53 bits
            small = (np.abs(a) > 0) & (np.abs(a) < 2.0**-12)
            a = np.where(small, a * 2.0**-29, a)
        return a.astype(dtype), b.astype(dtype)
    draw = rng.random if kind == "uniform" else rng.standard_normal
    if kind == "lognormal":

        def draw(shape):
            return np.exp(3 * rng.standard_normal(shape))

    a, b = draw((m, k)), draw((k, n))
    info = np.finfo(dtype)

    def steps(count, most=20):
        return np.exp2(rng.integers(-most, most + 1, count))

    if kind == "graded rows":
        a *= steps(m)[:, None]
    if kind == "graded columns":
        b *= steps(n)
    if kind == "graded k":
        scale = steps(k)
        a, b = a * scale, b / scale[:, None]
    if kind == "cancelling":  # every other term takes back most of the one before
        half = k // 2
        a[:, half : 2 * half] = a[:, :half]
        b[half : 2 * half] = -b[:half] * (1 + 2.0**-12)
    if kind == "sparse":
        a *= rng.random((m, k)) < 0.01
    if kind == "identity":
        b = np.eye(k, n)
    if kind == "subnormal":
        a *= float(info.smallest_subnormal) * 2.0**8
    if kind == "underflowing":  # products of half the smallest number, and more
        a, b = (x * 2.0 ** (np.log2(float(info.smallest_subnormal)) // 2) for x in (a, b))
    if kind == "far scales":
        a, b = a * 2.0**113, b * 2.0**-105
    if kind == "far apart":  # the largest number of each row meets a zero
        a *= 2.0**-40
        a[:, 0], b[0] = 2.0**127, 0
    if kind == "near overflow":  # the sum of all |a| |b| is below the largest number
        top = 2.0 ** (info.maxexp // 2 - 6) / np.sqrt(k)
        a, b = (np.clip(x, -4, 4) * top for x in (a, b))
    return a.astype(dtype), b.astype(dtype)


@functools.cache
def exact_and_size(kind: str, shape, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """a b and |a| |b|, with twice the digits of float32 at least."""
    wide = np.float64 if dtype == np.float32 else np.longdouble
    a, b = (x.astype(wide) for x in operands(kind, *shape, dtype))
    return a @ b, np.abs(a) @ np.abs(b)


def errors(got: np.ndarray, kind: str, shape) -> np.ndarray:
    """|got - a b|"""
    want = exact_and_size(kind, shape, got.dtype)[0]
    return np.abs(got.astype(want.dtype) - want)


def keeps_bound(got, kind: str, shape, device, kernel, precision=None) -> None:
    part, tiny = bound(device, kernel, shape[1], got.dtype, precision)
    assert np.isfinite(got).all()
    excess = errors(got, kind, shape) - part * exact_and_size(kind, shape, got.dtype)[1] - tiny
    assert (excess <= 0).all(), f"{kernel} {kind} {shape}: by {excess.max()}"


def rows_of_lower_precision() -> list[tuple[str, str | None]]:
    """Whichever row runs on each device, and those that CUDA has of a lower class."""
    named = [("cuda", name) for name in ("fp16x2", "tf32", "bf16x3_packed")]
    return [(d, None) for d in engine.backends()] + named * ("cuda" in engine.backends())
