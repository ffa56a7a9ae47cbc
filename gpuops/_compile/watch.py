"""watch - what sim says of a kernel that takes long, and where one was when it was stopped."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

from .._show.where import with_line
from ..errors import SimWarning

PATIENCE = 10.0  # seconds that a block may take before its caller is told


class _Local(threading.local):
    raised: Warning | None = None  # where warnings are errors


_local = _Local()


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)
def _tell(text: bytes) -> int:
    try:
        # The frames between: watched, CompiledKernel._run, what it is wrapped in, its launch.
        warnings.warn(with_line(text.decode()), SimWarning, stacklevel=6)
    except Warning as error:
        _local.raised = error
        return 1
    return 0


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(Path(__file__).parents[1] / "_sim.so"))
    library.gop_sim_watch.argtypes = (ctypes.c_double, ctypes.c_void_p)
    library.gop_sim_stopped_at.restype = ctypes.c_char_p
    return library


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Around a launch on sim: tells of a block that takes long; notes where one was stopped."""
    _local.raised = None
    _library().gop_sim_watch(PATIENCE, ctypes.cast(_tell, ctypes.c_void_p))
    try:
        yield
    except BaseException as error:
        if _local.raised:
            raise _local.raised from None
        place = _library().gop_sim_stopped_at()
        if place and not isinstance(error, RuntimeError | ValueError):
            error.add_note(with_line(place.decode() + " was running when it was stopped"))
        raise
