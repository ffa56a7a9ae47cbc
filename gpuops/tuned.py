"""tuned - the file in which `python -m gpuops.tune` keeps a user's best tunables, by device.

It lies in ~/.config/gpuops (or $XDG_CONFIG_HOME/gpuops). A device is its name and its detail,
which has the driver's version: another driver, other values. The core takes no value that a
kernel does not list, so an old file does no harm.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import warnings
from pathlib import Path

from . import _core
from ._compile.cache import doubt_of

NAME = "tuned.json"
Values = dict[str, dict[str, int]]  # "add.vectorized": {"bytes": 64}


def folder() -> Path | None:
    """Where the file lies; None where nobody says whose home this is."""
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    if not base.is_absolute():
        base = Path(os.path.expanduser("~"), ".config")
    return base / "gpuops" if base.is_absolute() else None


def is_wanted() -> bool:
    return os.environ.get("GPUOPS_TUNED", "") != "0"


def key_of(name: str, detail: str) -> str:
    return f"{name}\n{detail}"


def read() -> dict[str, Values]:
    """The values of each device; nothing where there is no file, or somebody else wrote it."""
    where = folder()
    path = where and where / NAME
    if not path or not path.exists():
        return {}
    try:
        why = doubt_of(where) or ("others may write it" if path.stat().st_mode & 0o022 else "")
        if why:
            raise ValueError(why)
        kept = json.loads(path.read_text("utf-8"))
        return {
            str(device): {
                str(kernel): {str(k): int(v) for k, v in values.items()}
                for kernel, values in kernels.items()
            }
            for device, kernels in kept["devices"].items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        warnings.warn(f"{path} is not read: {error}", RuntimeWarning, stacklevel=2)
        return {}


def write(devices: dict[str, Values]) -> Path:
    """At once or not at all, into a folder that is the user's own."""
    where = folder()
    if where is None:
        raise OSError("tune: no folder to write to: set HOME or XDG_CONFIG_HOME to one")
    where.mkdir(0o700, parents=True, exist_ok=True)
    if why := doubt_of(where):
        raise OSError(f"tune: nothing is written to {where}: {why}")
    where.chmod(0o700)
    handle, temporary = tempfile.mkstemp(prefix="tmp", dir=where)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"devices": devices}, file, indent=1, sort_keys=True)
            file.write("\n")
        os.replace(temporary, where / NAME)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return where / NAME


def load(backend: str) -> None:
    """Tells the core, which has opened the backend. No device is asked for."""
    if not is_wanted():
        return
    for device, kernels in read().items():
        tell(backend, device, kernels)


def tell(backend: str, device: str, kernels: Values) -> None:
    known = _core.ops()
    for word, values in kernels.items():
        op, _, kernel = word.partition(".")
        if op in known and len(values) <= 4:
            _core.set_tuned(op, backend, device, kernel, values)
