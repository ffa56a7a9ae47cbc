"""product_error - how far a product is off, in units of u times the sum of |a| |b|."""

from __future__ import annotations

from typing import Any

import numpy as np

SAMPLES = 32  # rows, and columns, of the first product that are looked at
HALVES = {"float16": 2.0**-11, "bfloat16": 2.0**-8}  # u of one rounding to them


def _host(array: Any) -> np.ndarray:
    """On the host, halves as they are or, where NumPy has no such dtype, as float32."""
    if hasattr(array, "get"):
        return array.get()
    if hasattr(array, "cpu"):
        array = array.detach().cpu()
        return (array.float() if str(array.dtype) == "torch.bfloat16" else array).numpy()
    return np.asarray(array)


def _sampled(extent: int) -> slice:
    return slice(None, None, max(extent // SAMPLES, 1))


def _first(array: np.ndarray) -> np.ndarray:
    """The first matrix of a stack."""
    return array[(0,) * (array.ndim - 2)] if array.ndim > 2 else array


class ProductError:
    """Compares results of `a @ b` with a sum in extended precision, at samples."""

    def __init__(self, a: Any, b: Any) -> None:
        a_word, x, y = str(a.dtype), _first(_host(a)), _first(_host(b))
        self.halves = HALVES.get(a_word.rpartition(".")[2])
        kind = x.dtype.kind
        if (
            (kind not in "fc" and not self.halves)
            or y.dtype != x.dtype
            or not x.size
            or not y.size
        ):
            raise TypeError("no floats")
        self.vectors = (x.ndim == 1, y.ndim == 1)
        x, y = (x[None] if x.ndim == 1 else x), (y[:, None] if y.ndim == 1 else y)
        self.rows, self.columns = _sampled(x.shape[0]), _sampled(y.shape[1])
        x, y = x[self.rows], y[:, self.columns]
        wide = np.clongdouble if kind == "c" else np.longdouble
        self.exact = x.astype(wide) @ y.astype(wide)
        self.sums = abs(x).astype(np.float64) @ abs(y).astype(np.float64)
        double = not self.halves and x.dtype.itemsize // (2 if kind == "c" else 1) == 8
        self.u = 2.0**-53 if double else 2.0**-24

    def of(self, result: Any) -> float | None:
        """The largest one; None where a result is not finite or its terms are all 0."""
        out = _first(_host(result)) if not all(self.vectors) else _host(result).reshape(1, 1)
        if self.vectors == (True, False):
            out = np.atleast_2d(out if out.ndim == 1 else out[0])
        elif self.vectors == (False, True):
            out = (out if out.ndim == 1 else out[0])[:, None]
        off = abs(out[self.rows, self.columns].astype(self.exact.dtype) - self.exact)
        if self.halves:  # of the one rounding at the end nothing is said
            off = np.maximum(off - self.halves * abs(self.exact), 0)
        counted = self.sums > 0
        if not counted.any() or not np.isfinite(off).all():
            return None
        return float((off[counted] / (self.u * self.sums[counted])).max())
