"""merging - reductions in parts: states of runs of terms, which merge to the whole's bits."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import _core
from . import runs as _runs
from ._call import reduction as _reduction
from ._call import road as _road
from ._call.arguments import read_axes
from ._call.dtypes import cast_host
from ._call.reduction import NO_VALUE
from .arrays import DeviceArray
from .devices import locate
from .errors import brief

__all__ = ["State", "finish", "merge", "states"]

_ACCUMULATORS = {"e": "f4", "f": "f4", "d": "f8", "F": "c8", "D": "c16"}


@dataclass(frozen=True, eq=False, repr=False)
class State:
    """What a chunk contributes to a reduction: `states` makes it, `merge` and `finish` take it.

    It lies in the host's memory and can be pickled.

    Attributes
    ----------
    op : str
        The reduction.
    dtype : dtype
        The dtype of the terms, after a cast that ``dtype=`` asked for.
    shape : tuple of int
        The shape of the result.
    exact : bool
        Whether it is an exact sum, whose order does not matter.
    start, stop : int
        The numbers of the chunk's first term, and of the first term after it. For exact sums 0
        and the number of terms.
    nbytes : int
        Bytes of its arrays.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> gpuops.states("sum", np.ones(5000), start=1000)
    State of sum over terms 1000 to 5999, float64: 23624 bytes
    """

    op: str
    dtype: np.dtype
    shape: tuple[int, ...]
    _result: np.dtype  # of what `finish` gives
    exact: bool
    _run: _runs.Tree | _runs.Value | _runs.Exact
    _count: Any  # the terms that take part: a number, or with a mask one an output

    @property
    def start(self) -> int:
        """The number of the first term."""
        return self._run.start

    @property
    def stop(self) -> int:
        """The number of the first term after the run."""
        return self._run.stop

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return self._run.nbytes

    def __repr__(self) -> str:
        shape = f" of shape {self.shape}" if self.shape else ""
        op = f"exact {self.op}" if self.exact else self.op
        return f"State of {op} over {_terms(self)}, {self.dtype}{shape}: {self.nbytes} bytes"


def _terms(s: State) -> str:
    return "no terms" if s.start == s.stop else f"terms {s.start} to {s.stop - 1}"


@_road.rounded
def states(op: str | Callable[..., Any], a: Any, axis: int | tuple[int, ...] | None = None,
           dtype: Any = None, *, start: int = 0, where: Any = NO_VALUE, exact: bool = False,
           device: Any = None) -> State:  # fmt: skip
    """Reduces one chunk of an array to a state, which `merge` joins with those of the others.

    The merged state gives what one call gives for the whole array, bit for bit, wherever the
    array is cut.

    Parameters
    ----------
    op : str or function
        As in `reduce`.
    a : array_like
        The chunk. It may be a part of the array along the first of the reduced axes; it has the
        full length along the others.
    axis, dtype : optional
        As in `reduce`.
    start : int, optional
        The number of terms of each result that come before the chunk: the elements before it
        along the first reduced axis, times the extents of the other reduced axes.
    where : array_like of bool, optional
        Broadcast against `a`; elements where it is False do not take part.
    exact : bool, optional
        As in `reduce`. Exact sums have no order: they need no `start`, any two merge, and the
        array may be cut along any axes.
    device : optional
        As in `add`. An array on a device is reduced there.

    Returns
    -------
    State
        For each result, a sum, product or mean of floats keeps a few partial sums and up to
        4094 terms; no terms if the chunk begins and ends at multiples of 2048. An exact sum
        keeps 13 integers, of float64 70. All others keep one value.

    Raises
    ------
    ValueError
        `start` is negative, or as in `reduce`.
    TypeError
        As in `reduce`.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> x = np.random.default_rng(0).random(10_000, np.float32)
    >>> s = gpuops.states("sum", x[:3000])
    >>> t = gpuops.states("sum", x[3000:], start=3000)
    >>> gpuops.finish(gpuops.merge(s, t)) == gpuops.sum(x)
    np.True_
    """
    word = _reduction.word(op, "states")
    exact = _reduction.exactness(word, exact)
    a = _road.operand(word, "a", a, native=False)
    have = a.dtype if a.dtype.isnative else a.dtype.newbyteorder("=")
    if device is not None:
        locate(device)  # a run of less than a leaf is only kept, on no device
    if isinstance(a, DeviceArray):
        a = DeviceArray(a._buffer)  # results are ours, also of other libraries' arrays
    elif word.startswith("arg") and not a.dtype.isnative:
        a = a.astype(have)
    axes = read_axes(word, axis, a.ndim, several=False)
    start = 0 if exact else _road.index("states", "start", start)
    if start < 0:
        raise ValueError(f"states: start is a number of terms, not {start}")
    if dtype is None:
        first, final = have, _reduction.result(word, have)
    else:
        first, final = _reduction.dtypes(word, have, dtype)
    core = _reduction.result(word, first)
    if word.startswith("arg") and not (_reduction.is_left_out(where) or where is True):
        _road.refuse_word(word, "where")
    mask = _reduction.mask(word, where)
    mask = DeviceArray(mask._buffer) if isinstance(mask, DeviceArray) else mask
    operands = [_road.read_as(word, "a", a, first), *([] if mask is None else [mask])]
    beyond = _runs.extreme(word, first) if word in ("min", "max") else None
    asked = {"op": word, "axes": axes, "keepdims": False, "where": mask is not None,
             "initial": beyond}  # fmt: skip
    # The core's own sentences about axes and masks; an extreme of no terms is no error yet.
    if word.startswith("arg") and 0 in a.shape:
        asked["op"] = "any"
    shape = _core.Call("reduce", operands, asked).infer()[1]
    every = range(a.ndim)
    axes = tuple(every if axes is None or not every else sorted(every[i] for i in axes))
    count = math.prod(a.shape[i] for i in axes)
    taking_part = count
    if mask is not None and word in ("mean", "min", "max") and not exact:
        spread = _runs.spread(mask, a.shape)
        taking_part = _runs.reduced("sum", [spread], axes, None, device)
    as_tree = "sum" if word == "mean" else word
    if exact and core.kind not in "iu":
        run = _runs.Exact.of(word, operands, axes, count, device)
    elif as_tree in ("sum", "prod") and core.kind not in "iu":
        run = _tree(as_tree, a, mask, axes, first, core, start, device)
    else:
        run = _runs.Value.of(word, operands, axes, count, start, first, device)
    return State(word, first, shape, final, exact, run, taking_part)


def _tree(op: str, a, mask, axes, first: np.dtype, core: np.dtype, start: int, device):
    """A run of tree/v1, read in the accumulator's dtype."""
    accumulator = np.dtype(_ACCUMULATORS.get(core.char, "f4"))  # also of bfloat16
    if isinstance(a, DeviceArray) and a.dtype != accumulator:
        # Elements of a device are not cast there: halves, and integers of a mean, by the host.
        device = device or a.device
        a, mask = a.get(), None if mask is None else _runs.host(mask)
    if first not in (a.dtype, accumulator) and first.kind not in "biu":
        a = cast_host(op, a, first)  # to a half first
    lines = _runs.Terms(a, axes)
    masked = None if mask is None else _runs.Terms(_runs.spread(mask, a.shape), axes)
    return _runs.Tree.of(op, lines, masked, start, accumulator, device)


@_road.rounded
def merge(s: State, *others: State) -> State:
    """Joins the states of neighbouring chunks into one. The order of merging does not matter.

    Parameters
    ----------
    s, *others : State
        States of neighbouring chunks: each continues the ones before it, at the end or at the
        beginning. Exact sums need not be neighbours.

    Returns
    -------
    State

    Raises
    ------
    ValueError
        Two chunks are not neighbours, or have different operations, dtypes or shapes.
    TypeError
        An argument is not a State.

    Examples
    --------
    >>> import gpuops
    >>> s = gpuops.states("max", [3, 1, 4])
    >>> t = gpuops.states("max", [1, 5], start=3)
    >>> gpuops.finish(gpuops.merge(s, t))
    np.int64(5)
    """
    return functools.reduce(_merge, others, _checked("merge", s))


def _checked(function: str, s) -> State:
    if not isinstance(s, State):
        raise TypeError(f"{function}: takes what states() gives, not {brief(s)}")
    return s


def _kind(s: State) -> str:
    return "exact" if s.exact else "not exact"


def _merge(s: State, t) -> State:
    _checked("merge", t)
    for name, of_s, of_t in (
        ("operations", s.op, t.op),
        ("dtypes", s.dtype, t.dtype),
        ("dtypes of the result", s._result, t._result),
        ("shapes", s.shape, t.shape),
        ("kinds", _kind(s), _kind(t)),
    ):
        if of_s != of_t:
            raise ValueError(
                f"merge: the states are of different {name}, {of_s} and {of_t}: make both alike"
            )
    if s.exact:
        t = replace(t, _run=replace(t._run, start=s.stop, stop=s.stop + t.stop))
    if s.stop != t.start:
        if t.stop != s.start:
            raise ValueError(
                f"merge: {_terms(s)} and {_terms(t)} are no neighbours: each run has to begin "
                "where another ends, so merge what lies between them first, and nothing twice"
            )
        s, t = t, s
    return replace(s, _run=s._run + t._run, _count=s._count + t._count)


@_road.rounded
def finish(s: State) -> Any:
    """Turns the state of all terms into the result, which one call for all terms would give.

    Parameters
    ----------
    s : State
        The state of all terms.

    Returns
    -------
    array or scalar
        A NumPy array or scalar, as `reduce` gives for host arrays.

    Raises
    ------
    ValueError
        The chunks do not begin at term 0, or there are no terms that could have a minimum or
        a maximum.
    TypeError
        An argument is not a State.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.finish(gpuops.states("mean", [1, 2, 4]))
    np.float64(2.3333333333333335)
    """
    if _checked("finish", s).start:
        raise ValueError(
            f"finish: the state begins at term {s.start}: merge it with those of the terms "
            "before it first"
        )
    # As in NumPy an extreme of nothing is an error even where there are no outputs.
    if s.op in ("min", "max", "argmin", "argmax") and not np.all(s._count):
        raise ValueError(f"finish: {s.op} of no terms has no value")
    if isinstance(s._run, _runs.Exact):
        if s.op == "mean" and not s._run.counts.all():
            warnings.warn("mean of an empty slice is NaN", RuntimeWarning, stacklevel=3)
        return s._run.rounded(s._result).reshape(s.shape)[()]
    root = s._run.root()
    if root is None:  # places of no outputs
        root = np.empty(s.shape, s._result)
    if isinstance(s._run, _runs.Tree) and s.op != "prod":
        root = root + root.dtype.type(0.0)  # -0.0 becomes 0.0, in each part
        if s.op == "mean":
            root = _divided(root, s._count)
    return cast_host(s.op, np.asarray(root), s._result).reshape(s.shape)[()]


def _divided(root: np.ndarray, count) -> np.ndarray:
    """A mean: each part by the count in the accumulator's dtype."""
    if not np.all(count):
        warnings.warn("mean of an empty slice is NaN", RuntimeWarning, stacklevel=4)
    real = np.ascontiguousarray(root)[..., None].view(root.real.dtype)
    with np.errstate(all="ignore"):
        parts = real / np.asarray(count).astype(real.dtype)[..., None]
    return np.ascontiguousarray(parts).view(root.dtype)[..., 0]
