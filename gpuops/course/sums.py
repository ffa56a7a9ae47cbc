"""sums - exercises 05 and 05b: a sum by blocks, and in one launch."""

from __future__ import annotations

import numpy as np

from .task import Case, InOrder, Limit, Task, excess, unwritten, up

_BLOCKS = 16


def _integers(n: int, rng) -> np.ndarray:
    """Small ones, and 50 odd ones beyond 2^24, which a float would round: the sum of any of
    them fits an int."""
    v = rng.integers(-1000, 1000, n).astype("i4")
    if not isinstance(rng, InOrder):
        v[rng.integers(0, n, 50)] = rng.integers(1 << 23, 1 << 24, 50) * 2 + 1
    return v


def _sum(shape, rng) -> Case:
    (n,) = shape
    v = _integers(n, rng)
    total = np.array([v.sum(dtype="i8")])
    return Case(
        (v, unwritten(_BLOCKS, "i4"), n), (_BLOCKS,), (256,), {1: total}, {"n": n}, total=True
    )


def _loads(t):
    return t.sum("global", "load", "requests")


def _atomics(most: int) -> Limit:
    return Limit(
        "threads that add by atomics are",
        lambda t: t.sum("global", "atomic", "lanes") + t.sum("shared", "atomic", "lanes"),
        lambda case: most,
        "Who adds by an atomic waits for all others that do: add in registers and by the "
        "rounds in shared memory, by an atomic at most the sums of whole warps.",
    )


_SUM_LIMITS = (
    Limit(
        "requests of global loads are",
        _loads,
        lambda case: up(case.sizes["n"], 32) + 8 * _BLOCKS,
        "One load of a warp for 32 elements: a thread adds many elements, as far apart as the "
        "grid has threads.",
    ),
    Limit(
        "requests of shared memory are",
        lambda t: t.sum("shared", "load store", "requests"),
        lambda case: 48 * _BLOCKS,
        "Let the threads that work be neighbours, so that whole warps have done: "
        "s[t] += s[t + d] for t < d, with d from 128 down.",
    ),
    excess("shared", "load store", "Neighbouring threads take neighbouring words."),
    excess(
        "global",
        "load",
        "Neighbouring threads take neighbouring elements, and step by as many as the grid has "
        "threads.",
    ),
    _atomics(8 * _BLOCKS),
)

_EMPTY = -77777777  # what `part` holds before the kernel runs


def _adds_up_to(got, value) -> bool:
    """In the arithmetic of 32 bits."""
    return (int(got[1].sum(dtype="i8")) - int(value)) % (1 << 32) == 0


def _is_near(case: Case, got) -> bool:
    right = int(case.expected[1].sum())
    return 0 < abs(int(got[1].sum(dtype="i8")) - right) <= 2e-6 * abs(right)


_SUM_HINTS = (
    (
        lambda case, got: _adds_up_to(got, case.expected[1].sum() + _BLOCKS * _EMPTY),
        "part holds no 0 at the start, and nobody may set it while others add: let one thread "
        "of each block store the block's sum.",
    ),
    (
        lambda case, got: (
            len(case.args[0]) > 4096
            and not _is_near(case, got)
            and _adds_up_to(got, case.args[0][:4096].sum())
        ),
        "These are the first 4096 elements, one for each thread of the grid: each thread goes "
        "on with the element that lies as far behind as the grid has threads.",
    ),
    (
        _is_near,
        "Near, but rounded: a float has 24 bits, and a sum of ints may have 32. Add in int.",
    ),
    (
        lambda case, got: not (got[1] == _EMPTY).any(),
        "Does every element go into exactly one sum, also the last ones, where n is no "
        "multiple of the block?",
    ),
)

REDUCE = Task(
    "05",
    "reduce",
    "void sum(const int *v, int *part, int n)",
    _sum,
    limits=_SUM_LIMITS,
    hints=_SUM_HINTS,
    in_order=True,
)


def _ticket(shape, rng) -> Case:
    (n,) = shape
    v = _integers(n, rng)
    total = np.array([v.sum(dtype="i8")], "i4")
    part, ticket = unwritten(_BLOCKS, "i4"), np.zeros(1, "u4")
    args = (v, part, ticket, unwritten(1, "i4"), n)
    return Case(args, (_BLOCKS,), (256,), {3: total}, {"n": n})


TICKET = Task(
    "05b",
    "reduce in one launch",
    "void sum(const int *v, int *part, unsigned *ticket, int *out, int n)",
    _ticket,
    limits=(
        _SUM_LIMITS[0],
        Limit(
            "requests of shared memory are",
            lambda t: t.sum("shared", "load store", "requests"),
            # One meeting more, of the last block, and whether a block is it: a store, 8 loads.
            lambda case: (48 + 9) * _BLOCKS + 48,
            _SUM_LIMITS[1].hint,
        ),
        _atomics((8 + 1) * _BLOCKS + 8),  # the tickets, and the last block's warps
    ),
    hints=(
        (
            lambda case, got: got[3][0] == np.int32(case.expected[3][0]) + np.int32(_EMPTY),
            "out[0] holds no 0 at the start, and nobody may set it while others add: let one "
            "thread store the sum.",
        ),
        (
            lambda case, got: got[3][0] == _EMPTY,
            "Nobody wrote the result: the block whose ticket is the last, gridDim.x - 1, adds "
            "the parts.",
        ),
    ),
    variable="ONE_LAUNCH",
)
