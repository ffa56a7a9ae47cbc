"""recording - what needs a GPU's clock: measured on the reader's, or by course/record.py.

Nothing of it is made up: without a GPU and without a record there is a sentence.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..devices import Device, is_available
from ..errors import Error
from .measures import MEASURES

RECORD = Path(__file__).with_name("recorded.json")


def recorded(name: str) -> dict[str, Any] | None:
    """`{"device": ..., "values": ...}` of this machine's GPU, else of a record; or None.

    `device` says which: the GPU's name, or "recorded on ..." and the day. Without either it
    prints so.
    """
    if name not in MEASURES:
        raise KeyError(f"recorded: there is no {name!r}, only {', '.join(MEASURES)}")
    if is_available("cuda"):
        where = Device("cuda")
        try:
            return {"device": where.info.name, "values": MEASURES[name](where)}
        except (Error, OSError) as error:  # no compiler for it, too little memory
            print(f"recorded: not measured on the GPU here: {error}")
    found = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if name in found.get("values", {}):
        return {"device": f"recorded on {found['device']}", "values": found["values"][name]}
    print(
        f"recorded: no GPU told it here, and {name!r} has not been recorded on one yet "
        "(course/record.py does that): there is nothing to show"
    )
    return None
