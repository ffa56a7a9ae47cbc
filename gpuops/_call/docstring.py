"""docstring - functions that share their arguments: what one says of them, the others show."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

_HEAD = re.compile(r"^([A-Z][A-Za-z ]+)\n-+\n", re.M)


def arguments(function: Callable) -> tuple[str, ...]:
    """The names that a `def` takes, in order. `inspect.signature` takes long for many."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def completed(maker: Callable, whole: Callable) -> str | None:
    """A docstring with what that of `whole` says besides of the same arguments.

    An entry that it has itself stays; one about an argument that it lacks does not come.
    """
    if not maker.__doc__ or not whole.__doc__:
        return None  # python -OO
    own, other = sections(maker.__doc__), sections(whole.__doc__)
    has = set(arguments(maker))
    lacks = set(arguments(whole)) - has
    parts = [own.pop("")]
    for head in ("Parameters", "Returns", "Raises"):
        found = entries(own.pop(head, ""))
        if not (head == "Returns" and found):
            found = {**entries(other[head]), **found}
        kept = (
            text
            for entry, text in found.items()
            if (head != "Parameters" or not has.isdisjoint(names(entry)))
            and (head != "Raises" or _subject(text) not in lacks)
        )
        parts.append(_section(head, "\n".join(kept)))
    parts += [_section(head, text) for head, text in own.items()]
    return "\n\n".join(parts) + "\n"


def _section(head: str, text: str) -> str:
    return f"{head}\n{'-' * len(head)}\n{text}"


def _subject(entry: str) -> str:
    """The argument that the text of an entry begins with."""
    said = entry.partition("\n")[2].strip()
    return said.split("`")[1] if said.startswith("`") else ""


def sections(text: str) -> dict[str, str]:
    """The parts of a docstring by their heads; "" has what stands before the first."""
    first, *rest = _HEAD.split(inspect.cleandoc(text))
    parts = {"": first, **dict(zip(rest[::2], rest[1::2], strict=True))}
    return {head: part.strip("\n") for head, part in parts.items()}


def entries(section: str) -> dict[str, str]:
    """The entries of a section, each a line and what is indented below it, by what the line
    names before its colon."""
    found = re.findall(r"^(\S[^\n]*(?:\n(?: [^\n]*|(?=\n )))*)", section, re.M)
    return {text.split("\n")[0].split(" : ")[0]: text for text in found}


def names(entry: str) -> list[str]:
    """The arguments that the first line of an entry names."""
    return [name.strip("* ") for name in entry.split(",")]
