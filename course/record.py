"""record - measures on a GPU what the course's notebooks show of one, into the package.

python course/record.py [name ...]      on a machine with a GPU; fails without
"""

import datetime
import json
import sys
import time

import gpuops
from gpuops.course.measures import MEASURES
from gpuops.course.recording import RECORD


def rounded(values):
    """Four digits: more are noise."""
    if isinstance(values, dict):
        return {name: rounded(v) for name, v in values.items()}
    if isinstance(values, list):
        return [rounded(v) for v in values]
    return float(f"{values:.4g}") if isinstance(values, float) else values


def main() -> None:
    if not gpuops.is_available("cuda"):
        sys.exit("record: there is no GPU here, and nothing else has its clock")
    where = gpuops.Device("cuda")
    said = f"{where.info.name}, {datetime.date.today().isoformat()}"
    found = json.loads(RECORD.read_text())["values"] if RECORD.exists() else {}
    for name in sys.argv[1:] or MEASURES:
        start = time.monotonic()
        found[name] = rounded(MEASURES[name](where))
        print(f"{name}: {time.monotonic() - start:.1f} s")
        RECORD.write_text(json.dumps({"device": said, "values": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
