"""built - what setup.py wrote down when it built this package, and where its backends lie."""

from __future__ import annotations

import functools
import importlib.util
import json
from pathlib import Path
from typing import Any

from ..errors import DeviceUnavailableError

_FOLDER = Path(__file__).parents[1]
# Of a release: the package that holds a backend, by its import name.
PACKAGES = {"cuda": "gpuops_cuda13"}


@functools.cache
def build_info() -> dict[str, Any]:
    """What setup.py wrote down: compilers, flags, architectures, reasons for what is absent."""
    info = _read(_FOLDER)
    for name in PACKAGES:
        folder = _package(name)
        if folder and not info.get(name, {}).get("built"):
            info[name] = _read(folder).get(name, {})
    return info


def _read(folder: Path) -> dict[str, Any]:
    try:
        info = json.loads((folder / "_build_info.json").read_text())
    except (OSError, ValueError):
        return {}
    for facts in info.values():
        if "log" in facts:  # what the compiler said lies beside it
            facts["log"] = str(folder / facts["log"])
    return info


def _package(name: str) -> Path | None:
    """The folder of a backend's own package, where that is installed."""
    spec = importlib.util.find_spec(PACKAGES[name]) if name in PACKAGES else None
    return Path(spec.origin).parent if spec and spec.origin else None


def library(name: str) -> str:
    """The path of a backend's library, or DeviceUnavailableError with why there is none."""
    path = _FOLDER / f"_{name}.so"
    if path.exists():
        return str(path)
    info, folder = build_info(), _package(name)
    facts = info.get(name, {})
    if folder is None:
        said = [facts[fact] for fact in ("reason", "log") if fact in facts]
        raise DeviceUnavailableError(
            f"device {name!r} is not available: this build of gpuops has no {name} backend"
            + (f" ({'; see '.join(said)})" if said else "")
        )
    if facts.get("sources") != info["core"]["sources"]:
        from .. import __version__

        package = PACKAGES[name].replace("_", "-")
        raise DeviceUnavailableError(
            f"device {name!r} is not available: the package {package} was built from other "
            f"sources than gpuops {__version__}; pip install {package}=={__version__}"
        )
    return str(folder / path.name)
