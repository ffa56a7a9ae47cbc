"""scheduling - schedule: the order in which sim's threads take turns.

A GPU promises none. A kernel whose result depends on the order relies on luck.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from pathlib import Path

from ._call.road import index
from .devices import check, parse
from .errors import brief, flag

__all__ = ["schedule"]

_TURNS = ("forward", "lockstep", "reversed", "random")


class _Local(threading.local):
    def __init__(self) -> None:
        self.entered: list[contextlib.ExitStack] = []  # each undoes what a block set


_local = _Local()


class schedule(contextlib.ContextDecorator):  # a function to its callers
    """Runs the threads of kernels on `sim` in another order, inside a `with` block.

    It holds for the calls of this thread, and can be entered again. `profile` counts in
    lockstep whatever the schedule is.

    Parameters
    ----------
    turns : str, optional
        "forward" (the default): each thread runs until it must wait, the first one first.
        "lockstep": the threads of a warp go from one access to the next together, as those of
        GPUs before compute capability 7.0 did.
        "reversed": as forward, with the last thread, the last warp and the last block first.
        "random": one thread at a time, until some access, then any other; blocks in any order.
        Without it the order stays as it is.
    seed : int
        For "random", from 0 to 2**64 - 1: the same seed gives the same order.
    checks : bool, optional
        False: accesses are not checked for mistakes, so that you see what a wrong kernel
        computes. True: they are checked, whatever ``GPUOPS_SIM_CHECKS`` says.

    Returns
    -------
    context manager
        For a `with` block.

    Raises
    ------
    ValueError
        An unknown word, a seed out of range, or a seed without "random".
    TypeError
        `checks` is not True or False.
    DeviceUnavailableError
        The sim backend is not built.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> a = np.ones((64, 64), np.float32)
    >>> with gpuops.schedule("random", seed=3):    # doctest: +SKIP
    ...     b = gpuops.transpose(a, device="sim")
    """

    def __init__(
        self, turns: str | None = None, *, seed: int = 0, checks: bool | None = None
    ) -> None:
        if turns is not None and not (isinstance(turns, str) and turns in _TURNS):
            raise ValueError(
                f"schedule: turns is one of {', '.join(_TURNS)}, not {brief(turns)}"
            )
        seed = index("schedule", "seed", seed)
        if not 0 <= seed < 1 << 64:
            raise ValueError(f"schedule: seed is between 0 and 2**64 - 1, not {seed}")
        if seed and turns != "random":
            raise ValueError(f"schedule: seed is of 'random', and turns is {turns!r}")
        if checks is not None:
            checks = flag("schedule", "checks", checks)
        check(parse("sim") or parse("cpu"))
        self._wanted = f"random:{seed}" if turns == "random" else turns
        self._checks = checks

    def __enter__(self) -> None:
        library = ctypes.PyDLL(str(Path(__file__).with_name("_sim.so")))
        set_turns, set_checks = library.gop_sim_set_schedule, library.gop_sim_set_checks
        set_turns.restype = ctypes.c_char_p
        undo = contextlib.ExitStack()
        if self._wanted is not None:
            undo.callback(set_turns, set_turns(self._wanted.encode()))
        if self._checks is not None:
            undo.callback(set_checks, set_checks(int(self._checks)))
        _local.entered.append(undo)

    def __exit__(self, *_error: object) -> None:
        _local.entered.pop().close()
