"""opencl_words - which device "opencl:word" means: OpenCL numbers what many makers bring."""

from __future__ import annotations

from . import _core
from .errors import brief


def number(word: str) -> int:
    """The number of the first device that is of this type, "gpu" or "cpu", or has the word in
    its own name, its platform's or its version, however it is written."""
    found = _core.devices("opencl")
    wanted = word.lower()
    for i, facts in enumerate(found):
        kind, _, rest = facts["detail"].partition(" of ")
        names = f"{facts['name']}, {rest}".lower()
        if wanted == kind.lower() or (wanted not in ("", "cpu", "gpu") and wanted in names):
            return i
    names = ", ".join(
        f"'opencl:{i}' ({facts['name']}, {facts['detail']})" for i, facts in enumerate(found)
    )
    raise ValueError(
        f"there is no device {brief(f'opencl:{word}')}; expected a number, 'gpu', 'cpu' or a "
        f"part of a name of {names}"
    )
