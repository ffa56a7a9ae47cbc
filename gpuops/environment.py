"""environment - the GPUOPS_* variables of a run: each is right, or importing says what is not.

GPUOPS_DEVICE, GPUOPS_CPU_LEVEL and GPUOPS_SIM_SCHEDULE name what may not be there: they are
looked at where they are used.
"""

from __future__ import annotations

import os
import re

from .errors import brief

_SWITCH = (r"[01]", "0 or 1")
_ACCEPTED = {
    "GPUOPS_NUM_THREADS": (r"0*([1-9]\d?|1\d\d|2[0-4]\d|25[0-6])", "a number from 1 to 256"),
    "GPUOPS_SIM_MEMORY": (r"\d{1,18}", "a whole number of bytes"),
    "GPUOPS_SIM_CHECKS": _SWITCH,
    "GPUOPS_CUDA_GRAPHS": _SWITCH,
    "GPUOPS_CUDA_POOL": _SWITCH,
    "GPUOPS_KEEP_SCRATCH": _SWITCH,
    "GPUOPS_TUNED": _SWITCH,
    "GPUOPS_FAULT": (r"[\w.]+:[1-9]\d{0,8}(:forever)?", "site:n or site:n:forever"),
}


def check() -> None:
    """ValueError for a variable with a value that would be ignored; an empty one is not set."""
    for name, (pattern, words) in _ACCEPTED.items():
        value = os.environ.get(name, "")
        if value and not re.fullmatch(pattern, value, re.ASCII):
            raise ValueError(f"{name} is {brief(value)}, expected {words}, or nothing")
