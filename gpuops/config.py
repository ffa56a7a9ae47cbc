"""config - what this build is, what this machine has, and why not the GPU if not."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

from . import _core
from ._call.road import index
from ._compile.built import build_info
from .devices import devices, why_not


def config() -> dict[str, Any]:
    """Everything that show_config prints."""
    import numpy

    import gpuops

    return {
        "gpuops": gpuops.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "build": build_info(),
        "cpu_level": _core.cpu_level(),
        "cpu_levels": list(_core.cpu_levels()),
        "threads": _core.threads(),
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith("GPUOPS_")},
        "devices": [_facts(d) for d in devices()],
        "unavailable": {b: why for b in ("cuda", "sim", "opencl") if (why := why_not(b))},
    }


def _facts(info) -> dict[str, Any]:
    facts = {name: getattr(info, name) for name in info.__slots__}
    return facts | {
        "device": str(info.device),
        "compute_capability": "{}.{}".format(*info.compute_capability),
        "summary": str(info),
    }


def show_config(mode: str = "stdout") -> dict[str, Any] | None:
    """Prints how gpuops was built and what it finds here, as ``python -m gpuops`` does.

    Parameters
    ----------
    mode : {"stdout", "dicts"}
        "dicts" returns it as a dict instead of printing.

    Returns
    -------
    None or dict
        With "dicts" versions, the build, CPU levels, threads, environment, devices, and why
        backends are not available.

    Raises
    ------
    ValueError
        `mode` is another word.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.show_config("dicts")["gpuops"] == gpuops.__version__
    True
    """
    if mode == "dicts":
        return config()
    if mode != "stdout":
        raise ValueError(f"show_config: mode is 'stdout' or 'dicts', not {mode!r}")
    sys.stdout.write(text(config()))
    return None


def text(facts: dict[str, Any]) -> str:
    """The configuration as one block to paste into a report."""
    build = facts["build"]
    core, cuda = build.get("core", {}), build.get("cuda", {})
    lines = [
        ("gpuops", f"{facts['gpuops']}, {facts['python']}, NumPy {facts['numpy']}"),
        ("platform", facts["platform"]),
        ("compiler", core.get("compiler", "not recorded")),
        ("C flags", core.get("flags", "not recorded")),
    ]
    if cuda.get("built"):
        lines.append(("CUDA build", f"nvcc {cuda.get('version')}, {' '.join(cuda['archs'])}"))
        lines.append(("CUDA flags", cuda.get("flags", "not recorded")))
    else:
        lines.append(("CUDA build", "none: " + cuda.get("reason", "not recorded")))
        lines += [("CUDA log", cuda["log"])] if "log" in cuda else []
    levels = ", ".join(facts["cpu_levels"])
    lines.append(("CPU", f"level {facts['cpu_level']} of {levels}; {facts['threads']} threads"))
    lines += [("environment", f"{k}={v}") for k, v in facts["environment"].items()]
    lines += [("device", d["summary"]) for d in facts["devices"]]
    lines += [(f"not {backend}", why) for backend, why in facts["unavailable"].items()]
    return "".join(f"{name:<12} {value}\n" for name, value in lines)


def set_num_threads(threads: int | None) -> None:
    """Sets the number of CPU threads; None or 0 goes back to GPUOPS_NUM_THREADS or all cores.

    The bits of every result are the same at any number.

    Parameters
    ----------
    threads : int or None
        1 to 256. It holds for calls from all threads of this process.

    Returns
    -------
    None

    Raises
    ------
    TypeError
        `threads` is not an integer.
    ValueError
        More than 256, or a negative number.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.set_num_threads(1)
    >>> gpuops.get_num_threads()
    1
    >>> gpuops.set_num_threads(None)
    """
    count = 0 if threads is None else index("set_num_threads", "threads", threads)
    if not 0 <= count <= 256:
        raise ValueError(f"set_num_threads: threads is between 1 and 256, not {count}")
    _core.set_threads(count or None)


def get_num_threads() -> int:
    """The number of CPU threads in use; it raises nothing.

    Returns
    -------
    int
        What `set_num_threads` or GPUOPS_NUM_THREADS says, else the cores of this process.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.get_num_threads() >= 1
    True
    """
    return _core.threads()
