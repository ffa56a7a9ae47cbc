"""built - what setup.py wrote down when it built this package."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any


@functools.cache
def build_info() -> dict[str, Any]:
    """What setup.py wrote down: compilers, flags, architectures, reasons for what is absent."""
    path = Path(__file__).parents[1] / "_build_info.json"
    try:
        info = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    for facts in info.values():
        if "log" in facts:  # what the compiler said lies beside it
            facts["log"] = str(path.with_name(facts["log"]))
    return info
