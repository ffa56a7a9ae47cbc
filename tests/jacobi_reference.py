"""jacobi_reference - the arithmetic of jacobi_step in docs/numerics.md, written plainly."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np


def _fma_exact(a: float, b: float, c: float) -> float:
    """a*b + c rounded once, in float64."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return 0.0 if a * b else a * b + c  # x - x is +0.0; else the zeros' signs decide
    try:
        rounded = float(exact)
    except OverflowError:
        rounded = math.inf
    return math.copysign(rounded, exact)


_fma64 = np.frompyfunc(_fma_exact, 3, 1)


def _fma32(a, b, c):
    """The product is exact in float64; the sum is rounded to odd there, so that float32's
    rounding is the only one that counts."""
    product, c = np.float64(a) * np.float64(b), np.float64(c)
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    bits = total.view(np.int64)
    step = np.where((error > 0) == (total > 0), 1, -1)
    inexact = np.isfinite(total) & (error != 0) & np.isfinite(error) & (bits % 2 == 0)
    return np.where(inexact, bits + step, bits).view(np.float64).astype(np.float32)


def fma(a, b, c):
    a, b, c = np.broadcast_arrays(a, b, c)
    if c.dtype.kind == "c":
        out = np.empty(c.shape, c.dtype)
        out.real = fma(-a.imag, b.imag, fma(a.real, b.real, c.real))
        out.imag = fma(a.imag, b.real, fma(a.real, b.imag, c.imag))
        return out
    if c.dtype == np.float32:
        return _fma32(a, b, c)
    return np.asarray(_fma64(a, b, c), np.float64)[()]


def _negative_zeros(shape, dtype):
    zeros = np.full(shape, -0.0, dtype)
    if zeros.dtype.kind == "c":
        zeros.imag = -0.0
    return zeros


def row_sum(a, x):
    """One row of A times x."""
    if len(a) == 0:
        return a.dtype.type(0)
    leaves = []
    for begin in range(0, len(a), 2048):
        lanes = _negative_zeros(128, a.dtype)
        for k in range(begin, min(begin + 2048, len(a)), 128):
            m = min(128, len(a) - k)
            lanes[:m] = fma(a[k : k + m], x[k : k + m], lanes[:m])
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = lanes[:half] + lanes[half:]
        leaves.append(lanes)
    while len(leaves) & (len(leaves) - 1):
        leaves.append(_negative_zeros(1, a.dtype))
    while len(leaves) > 1:
        leaves = [left + right for left, right in zip(leaves[::2], leaves[1::2], strict=True)]
    return leaves[0][0]


def divide(a, d):
    if a.dtype.kind != "c":
        return a / d
    out = np.empty(a.shape, a.dtype)
    for i in np.ndindex(a.shape):
        p, q = a[i], d[i]
        if abs(q.real) >= abs(q.imag):
            r = q.imag / q.real
            e = fma(q.imag, r, q.real)
            out.real[i], out.imag[i] = fma(p.imag, r, p.real) / e, fma(-p.real, r, p.imag) / e
        else:
            r = q.real / q.imag
            e = fma(q.real, r, q.imag)
            out.real[i], out.imag[i] = fma(p.real, r, p.imag) / e, fma(p.imag, r, -p.real) / e
    return out


def terms(A, i):
    """(values, columns) of row i, in the order they are added."""
    if isinstance(A, np.ndarray):
        return A[i], np.arange(A.shape[1])
    at = slice(A.indptr[i], A.indptr[i + 1])
    return A.data[at], A.indices[at]


def reference(A, f, x, alpha=None, omega=1.0, only=None):
    """The step for the rows `only`; returns (out, residual)."""
    only = np.arange(x.shape[0]) if only is None else np.asarray(only)
    dtype = x.dtype.type
    with np.errstate(all="ignore"):
        s, d = np.empty(len(only), x.dtype), np.empty(len(only), x.dtype)
        for j, i in enumerate(only):
            a, columns = terms(A, i)
            s[j] = row_sum(a, x[columns])
            d[j] = _negative_zeros((), x.dtype)
            for value in a[columns == i]:
                d[j] += value
        f, x = f[only], x[only]
        if alpha is not None:
            return fma(dtype(alpha), s - f, x), f - s
        return fma(dtype(omega), divide(f - s, d), x), f - s
