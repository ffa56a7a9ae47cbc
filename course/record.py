"""record - measures on a GPU what the course's notebooks show of one, into the package.

    python course/record.py       on a machine with a GPU; fails without
"""

import datetime
import json
import sys
from pathlib import Path

import gpuops
from gpuops.course.recording import MEASURES

INTO = Path(__file__).resolve().parent.parent / "gpuops" / "course" / "recorded.json"


def main() -> None:
    if not gpuops.is_available("cuda"):
        sys.exit("record: there is no GPU here, and nothing else has its clock")
    name = gpuops.devices("cuda")[0].info.name
    day = datetime.date.today().isoformat()
    found = {
        what: {"device": f"{name}, {day}", "values": measure("cuda")}
        for what, measure in MEASURES.items()
    }
    INTO.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
