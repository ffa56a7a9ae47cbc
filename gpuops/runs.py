"""runs - the value of a run of terms, which merges with that of the run next to it.

A float sum or product has the order tree/v1 of docs/numerics.md: 2048 * 2^k terms that begin at
a multiple of that number are a node of the tree, wherever the run ends. The terms before the
first leaf and after the last one are kept as they are, until a neighbour brings the rest of
their leaf. All else has no order, and one value is enough.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from ._call import road as _road
from ._call.dtypes import cast_host
from .arrays import DeviceArray

LEAF = 2048


def host(array) -> np.ndarray:
    return array.get() if isinstance(array, DeviceArray) else np.asarray(array)


def reduced(op: str, operands, axes, initial=None, device=None, **more) -> np.ndarray:
    """One reduction by the core, its result on the host."""
    params = {"op": op, "axes": axes, "keepdims": False, "where": len(operands) == 2,
              "initial": initial, **more}  # fmt: skip
    return host(_road.Call("reduce", operands, params, name=op, device=device).run())


def nothing(op: str, dtype: np.dtype):
    """What changes no value: a term that does not take part counts as it."""
    number = 1.0 if op == "prod" else -0.0
    return complex(number, 0.0 if op == "prod" else -0.0) if dtype.kind == "c" else number


def unfinished(op: str, dtype: np.dtype):
    """The `initial` with which the core gives the root itself: a sum of -0.0 stays -0.0."""
    return nothing(op, dtype) if op == "sum" and dtype.kind in "fc" else None


def joined(op: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The reduction of two values of one dtype, by every rule of the kernels."""
    pair = np.stack((left, right))
    return reduced(op, [pair], (0,), unfinished(op, pair.dtype))


class Terms:
    """An array as lines of terms along its first axis, in C order over the reduced axes.

    The same of NumPy's arrays and of those on a device, whose parts are borrowed.
    """

    def __init__(self, a, axes: tuple[int, ...]) -> None:
        rest = tuple(i for i in range(a.ndim) if i not in axes)
        count = 1
        for i in axes:
            count *= a.shape[i]
        shape = (count, *(a.shape[i] for i in rest))
        if isinstance(a, np.ndarray):
            self.array = a.transpose(axes + rest).reshape(shape)
            return
        # One reduced axis is a line as it lies; several are one in C order.
        if len(axes) != 1:
            a = _road.run("transpose", [a], {"axes": axes + rest})
            strides = [a.dtype.itemsize]
            for n in shape[:0:-1]:
                strides.insert(0, strides[0] * n)
        else:
            strides = [a.strides[i] for i in axes + rest]
        self.array = _part(a, 0, shape, strides)

    def __len__(self) -> int:
        return self.array.shape[0]

    def part(self, first: int, last: int):
        """Terms [first, last), without a copy."""
        a = self.array
        if isinstance(a, np.ndarray):
            return a[first:last]
        return _part(a, first * a.strides[0], (last - first, *a.shape[1:]), a.strides)


def _part(a: DeviceArray, offset: int, shape, strides) -> DeviceArray:
    buffer = a._buffer
    at = (buffer.ptr or 0) + offset
    return DeviceArray(
        _core.borrow(at, tuple(shape), tuple(strides), a.dtype, buffer.device, a, True)
    )


def spread(mask, shape):
    """A mask as an array of the shape that it is broadcast to."""
    if isinstance(mask, np.ndarray):
        return np.broadcast_to(mask, shape)
    extents = (1,) * (len(shape) - mask.ndim) + mask.shape
    steps = (0,) * (len(shape) - mask.ndim) + mask.strides
    steps = tuple(0 if n == 1 else step for n, step in zip(extents, steps, strict=True))
    return _part(mask, 0, shape, steps)


# ---- what has an order ----


@dataclass(frozen=True, eq=False)
class Tree:
    """A run of tree/v1: terms before the first leaf, nodes, and terms after the last leaf.

    A node is (its leaves, a power of two; its value). All arrays have the accumulator's dtype,
    and the axes of the outputs last. A run without the end of a leaf is all `head`, or all
    `tail` if it begins with the leaf.
    """

    op: str
    start: int
    stop: int
    head: np.ndarray
    nodes: tuple[tuple[int, np.ndarray], ...]
    tail: np.ndarray

    @classmethod
    def of(cls, op: str, a: Terms, mask: Terms | None, start: int, dtype, device) -> Tree:
        """Of all terms of `a`, read as the accumulator's `dtype`."""
        stop = start + len(a)
        first = min(-(-start // LEAF) * LEAF, stop)
        last = max(stop // LEAF * LEAF, first)

        def terms(begin, end):
            raw = cast_host(op, host(a.part(begin - start, end - start)), dtype)
            if mask is not None:
                there = host(mask.part(begin - start, end - start))
                raw = np.where(there, raw, np.array(nothing(op, dtype), dtype))
            return np.array(raw, order="C")  # never a view of the caller's

        def node(begin, end):
            lines = [_road.read_as(op, "a", a.part(begin - start, end - start), dtype)]
            if mask is not None:
                lines.append(mask.part(begin - start, end - start))
            return reduced(op, lines, (0,), unfinished(op, dtype), device)

        nodes, leaf, end = [], first // LEAF, last // LEAF
        while leaf < end:
            size = 1 << (end - leaf).bit_length() - 1
            size = min(size, leaf & -leaf) if leaf else size
            nodes.append((size, node(leaf * LEAF, (leaf + size) * LEAF)))
            leaf += size
        return cls(op, start, stop, terms(start, first), tuple(nodes), terms(last, stop))

    def __add__(self, right: Tree) -> Tree:
        """With the run that begins where this one ends."""
        join = functools.partial(joined, self.op)
        nodes = Nodes(join, -(-self.start // LEAF), self.nodes)
        is_head = not self.nodes and not len(self.tail)
        # The terms between the leaves of both are of one leaf.
        between = np.concatenate((self.head if is_head else self.tail, right.head))
        head, tail = self.head, right.tail
        if is_head:
            head = between
        elif len(between) == LEAF:
            nodes.add(1, reduced(self.op, [between], (0,), unfinished(self.op, between.dtype)))
        elif len(between):
            tail = between
        for size, value in right.nodes:
            nodes.add(size, value)
        return Tree(self.op, self.start, right.stop, head, tuple(nodes.found), tail)

    def root(self) -> np.ndarray:
        """Of a run that begins at 0; missing lanes and leaves change nothing."""
        last = reduced(self.op, [self.tail], (0,), unfinished(self.op, self.tail.dtype))
        for _, value in reversed(self.nodes):
            last = joined(self.op, value, last)
        return last

    @property
    def nbytes(self) -> int:
        return self.head.nbytes + self.tail.nbytes + sum(v.nbytes for _, v in self.nodes)


class Nodes:
    """Neighbouring nodes from the left to the right; two of one parent become the parent.

    `first`: the place of the first one; None where it is not known, so that none has a parent.
    `join` makes the parent's value.
    """

    def __init__(self, join: Callable[[Any, Any], Any], first: int | None, found=()) -> None:
        self.join, self.found = join, list(found)
        self.end = None if first is None else first + sum(size for size, _ in self.found)

    def add(self, size: int, value: Any) -> None:
        if self.end is not None:
            self.end += size
            while self.found and self.found[-1][0] == size and self.end % (2 * size) == 0:
                value = self.join(self.found.pop()[1], value)
                size *= 2
        self.found.append((size, value))


# ---- what has none ----


def extreme(op: str, dtype: np.dtype):
    """The number that no number of the dtype lies beyond: the least for max."""
    sign = 1 if op == "min" else -1
    if dtype.kind == "b":
        return op == "min"
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return int(info.max if op == "min" else info.min)
    return complex(sign * np.inf, sign * np.inf) if dtype.kind == "c" else sign * np.inf


@dataclass(frozen=True, eq=False)
class Value:
    """One value an output, and of argmin and argmax its place; None of no terms."""

    op: str
    start: int
    stop: int
    value: np.ndarray | None
    place: np.ndarray | None = None

    @classmethod
    def of(cls, op: str, operands, axes: tuple[int, ...], count: int, start: int, dtype,
           device) -> Value:  # fmt: skip
        stop = start + count
        if op in ("argmin", "argmax"):
            if count == 0:
                return cls(op, start, stop, None)
            return cls._with_place(op, operands[0], axes, start, stop, device)
        needs = op in ("min", "max") and (count == 0 or len(operands) == 2)
        initial = extreme(op, dtype) if needs else None
        return cls(op, start, stop, reduced(op, operands, axes, initial, device))

    @classmethod
    def _with_place(cls, op: str, a, axes, start: int, stop: int, device) -> Value:
        whole = len(axes) != 1
        place = reduced(op, [a], None if whole else axes, None, device)
        if isinstance(a, np.ndarray):
            lines = Terms(a, axes).array
            value = np.take_along_axis(lines, place[None], axis=0)[0]
        else:
            value = reduced(op.removeprefix("arg"), [a], None if whole else axes, None, device)
        return cls(op, start, stop, value, place + start)

    def __add__(self, right: Value) -> Value:
        run = self.op, self.start, right.stop
        if self.value is None or right.value is None:
            there = right if self.value is None else self
            return Value(*run, there.value, there.place)
        if self.place is None:
            return Value(*run, joined(self.op, self.value, right.value))
        is_right = joined(self.op, self.value, right.value) == 1
        return Value(*run, np.where(is_right, right.value, self.value),
                     np.where(is_right, right.place, self.place))  # fmt: skip

    def root(self) -> Any:
        return self.value if self.place is None else self.place

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self.value, self.place) if a is not None)


# ---- exact sums ----

_SUMS = 2  # what the core calls a sum that is not rounded yet: its numbers, along a last axis
_NARROW, _WIDE = 13, 70  # how many they are; the first two are no words


@dataclass(frozen=True, eq=False)
class Exact:
    """A sum of exact/v1: its words, which have no order."""

    op: str
    start: int
    stop: int
    numbers: np.ndarray

    @classmethod
    def of(cls, op: str, operands, axes, count: int, device) -> Exact:
        return cls(op, 0, count, reduced(op, operands, axes, None, device, exact=_SUMS))

    def __add__(self, right: Exact) -> Exact:
        lines = self.numbers.reshape(-1, self._each)
        others = right.numbers.reshape(-1, self._each)
        total = lines + others
        total[:, 0] = lines[:, 0] | others[:, 0]  # which NaN and infinities there were
        for i in range(2, self._each - 1):  # carried, all words but the last are in [0, 2^32)
            total[:, i + 1] += total[:, i] >> 32
            total[:, i] &= 0xFFFFFFFF
        return Exact(self.op, self.start, right.stop, total.reshape(self.numbers.shape))

    @property
    def _each(self) -> int:
        return _WIDE if self.numbers.shape[-1] % _WIDE == 0 else _NARROW

    @property
    def counts(self) -> np.ndarray:
        """Of the terms that took part."""
        return self.numbers.reshape(-1, self._each)[:, 1]

    def rounded(self, dtype: np.dtype) -> np.ndarray:
        """The sum, or the mean of the terms that took part."""
        lines = np.array(self.numbers.reshape(-1, self._each))
        real = np.empty(len(lines), dtype.char.lower() if dtype.kind == "c" else dtype)
        if len(lines):
            _core.exact_round(lines, self.op == "mean", real)
        return real.view(dtype)

    @property
    def nbytes(self) -> int:
        return self.numbers.nbytes
