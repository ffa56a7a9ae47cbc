"""profiling - profile: what the warps of a CUDA kernel do to memory, counted on `sim`.

The counts follow from the addresses that each warp touches, by the rules of the device: on
`sim` those of compute capability 7.0 and later, on `sim:cc10`, `sim:cc13` and `sim:cc20` those
of older GPUs. They are no times, and sim's own time says nothing of a GPU's.
"""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import _core
from ._call.registry import OPS, name_of
from ._call.road import index
from ._show.counts import Profile, read
from .devices import check, device, get_default_device, parse
from .errors import SimWarning, brief

__all__ = ["Profile", "profile"]

LONG = 20.0  # seconds that a launch may take before its caller is warned

_running = threading.Lock()


def _renew() -> None:
    global _running
    _running = threading.Lock()  # the parent's may be held by a thread that the child has not


os.register_at_fork(after_in_child=_renew)


class _Local(threading.local):
    counting = False  # this thread is in a call of profile


_local = _Local()
_Warn = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_double, ctypes.c_int64)


class _Wish(ctypes.Structure):
    """gop_sim_wish of csrc/sim/counters.h."""

    _fields_ = (
        ("device", ctypes.c_int),
        ("blocks", ctypes.c_int64),
        ("seconds", ctypes.c_double),
        ("warn", _Warn),
    )


def _where(asked):
    """The sim device that is asked for, or chosen by `with device(...)`, or `sim`."""
    found = get_default_device() if asked is None else parse(asked)
    if found is None or (asked is None and found.backend != "sim"):
        found = parse("sim")
    if found is None or found.backend != "sim":
        raise ValueError(f"profile: kernels are counted on 'sim', not on {str(found)!r}")
    return check(found)


def is_counting() -> bool:
    """Whether the caller runs in a call of `profile`."""
    return _local.counting


def _sample(blocks) -> int:
    """Blocks of each launch that run; 0: all."""
    if isinstance(blocks, str) and blocks == "all":
        return 0
    count = index("profile", "blocks", blocks)
    if count < 1:
        raise ValueError(f"profile: blocks is a number above 0 or 'all', not {count}")
    return count


def profile(
    f: Callable[..., Any] | str, *args: Any, blocks: int | str = "all", **kwargs: Any
) -> Profile:
    """Runs a call on `sim` and counts what the warps of its kernels do to memory.

    Parameters
    ----------
    f : function or str
        An operation or its name, or any function that calls operations. Kernels of `compile`
        that it runs have to be compiled for sim.
    *args, **kwargs
        Its arguments, also ``kernel=``. ``device=`` says by whose rules to count: ``"sim"``,
        ``"sim:cc10"``, ``"sim:cc13"`` or ``"sim:cc20"``. Each access of each thread is looked
        at, so take small arrays: they show the same pattern as large ones, sooner.
    blocks : int or "all"
        Runs only a sample of that many blocks of each launch, spread over its grid. What the
        call computes is then incomplete. Where memory partitions are counted, a sample is made
        of whole waves: the blocks that such a GPU has at work together.

    Returns
    -------
    Profile
        Prints as a table; `as_dict()` gives the numbers; a notebook shows the source with its
        counts, banks and sectors.

    Raises
    ------
    ValueError
        A device other than sim's, `blocks` below 1, or an unknown operation.
    TypeError
        `f` is neither an operation nor a function.
    DeviceUnavailableError
        The sim backend is not built.

    Warns
    -----
    SimWarning
        A launch will take more than 20 seconds. It comes after the first blocks, with the
        estimate.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> a = np.ones((64, 64), np.float32)
    >>> p = gpuops.profile("transpose", a, kernel="tiled")    # doctest: +SKIP
    >>> p["transpose_tiled"].counts("shared", "load").per_request    # doctest: +SKIP
    32.0
    """
    name = name_of(f) if isinstance(f, str) else None
    function = OPS[name][1] if name else f
    if not callable(function):
        raise TypeError(f"profile: f is an operation or a function, not {brief(f)}")
    where, sample = _where(kwargs.pop("device", None)), _sample(blocks)
    if is_counting():
        raise ValueError(
            "profile: runs in another profile, which counts all that is called in it, or in a "
            "ladder or sweep on sim, which do so: call it by itself"
        )
    raised: list[Warning] = []

    def warn(kernel: bytes, seconds: float, count: int) -> int:
        try:
            warnings.warn(
                f"profile: {kernel.decode()} will take some {seconds:.0f} s more for {count} "
                "blocks; a smaller array or blocks=64, a sample, shows the same pattern",
                SimWarning,
                stacklevel=2,
            )
        except Warning as error:  # where warnings are errors
            raised.append(error)
        return len(raised)

    wish = _Wish(where.ordinal, sample, LONG, _Warn(warn))
    library = ctypes.CDLL(str(Path(__file__).with_name("_sim.so")))
    with _running, device(where):
        library.gop_sim_profile_wish(ctypes.byref(wish))
        _core.profile("sim", True)
        _local.counting = True
        try:
            function(*args, **kwargs)
        finally:
            _local.counting = False
            text = _core.profile("sim", False)
            if raised:
                raise raised[0] from None
    return read(text)
