"""registry - the operations by name; their strings and functions both work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops, reductions
from ..errors import brief
from ..jacobi import jacobi, jacobi_step
from ..rdf import rdf
from .road import Call, calls

Op = str | Callable[..., Any]

# Public name -> (name in the core, function).
OPS = {
    **{name: (name, getattr(ops, name)) for name in ops.__all__},
    **{name: ("reduce", getattr(reductions, name)) for name in reductions.__all__},
    "jacobi_step": ("jacobi_step", jacobi_step),
    "jacobi": ("jacobi", jacobi),
    "rdf": ("rdf", rdf),
}


def call_of(name: str, args, kwargs) -> Call:
    """What the operation would ask of the core, of several Calls the first."""
    return calls[name](*args, **kwargs)


def name_of(op) -> str | None:
    """The public name of an operation; None for another function; ValueError for a word."""
    if isinstance(op, str):
        if op in OPS:
            return op
        raise ValueError(f"there is no operation {op!r}, only {', '.join(OPS)}")
    return next((name for name, (_, function) in OPS.items() if function is op), None)


def resolve(caller: str, op) -> str:
    """The public name of an operation, or an exception that lists them."""
    name = name_of(op)
    if name is None:
        raise TypeError(
            f"{caller}: op is the name or function of an operation, not {brief(op)}"
        )
    return name
