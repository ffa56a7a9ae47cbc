"""test_gpu_record - every conforming CUDA kernel has run on a GPU and passed."""

import json
import sys
import warnings

import gpu_record
import pytest

import gpuops
from gpuops import _core
from gpuops.devices import open_backend

sys.path.insert(0, str(gpu_record.ROOT / "tests" / "driver"))
import sanitize

RECORDS = sorted(gpu_record.RECORDS.glob("*.json"))


def of_role(*roles: str):
    """(op, kernel, dtype) of every row of these roles; none where cuda is not built."""
    try:
        open_backend("cuda")
    except gpuops.DeviceUnavailableError:  # not built here: another machine checks the record
        return
    for op in _core.ops():
        for row in _core.ladder(op, "cuda"):
            if row["role"] in roles:
                for dtype in row["dtypes"]:
                    yield op, row["name"], dtype


@pytest.fixture(scope="module")
def records():
    return [json.loads(path.read_text()) for path in RECORDS]


def kernels_of(stem: str) -> set[tuple[str, str, str]]:
    """(op, kernel, dtype) of the stem's ladders, teaching rows and yardsticks included,
    candidates not: they wait for their first GPU."""
    roles = ("lesson", "production", "teaching", "yardstick")
    return {row for row in of_role(*roles) if _core.ops()[row[0]] == stem}


def seen_under(records, stem: str, tool: str) -> set[tuple[str, str, str]]:
    """(op, kernel, dtype) of the stem that the driver ran under a tool that was clean."""
    found = set()
    for record in records:
        run = record["sanitizers"].get(stem, {})
        if run.get(tool, "no run").startswith("clean: "):
            for row, dtypes in run.get("kernels", {}).items():  # older runs kept no names
                found |= {(*row.split(" "), dtype) for dtype in dtypes.split()}
    return found


def named(rows: set[tuple[str, str, str]]) -> str:
    """The kernels, each with its dtypes."""
    kernels: dict[str, list[str]] = {}
    for op, kernel, dtype in sorted(rows):
        kernels.setdefault(f"{op} {kernel}", []).append(dtype)
    return "; ".join(f"{row} of {' '.join(dtypes)}" for row, dtypes in kernels.items())


def driven(records, op: str) -> bool:
    """Whether the driver saw all kernels of the operation: then every conforming one gave the
    bits of the first: see tests/driver/driver.c."""
    stem = _core.ops()[op]
    return all(kernels_of(stem) <= seen_under(records, stem, tool) for tool in sanitize.TOOLS)


def test_every_conforming_kernel_has_passed_on_a_gpu(records):
    """By its own tests, or by the bits of a kernel that has, for every dtype."""
    passed = {
        (op, kernel, dtype)
        for record in records
        for op, kernels in record["results"].items()
        for kernel, dtypes in kernels.items()
        for dtype, outcome in dtypes.items()
        if outcome == "passed"
    }
    tested = {(op, dtype) for op, _, dtype in passed}
    missing = [
        row
        for row in of_role("lesson", "production")
        if row not in passed and not ((row[0], row[2]) in tested and driven(records, row[0]))
    ]
    assert not missing, f"no GPU run on record for {missing}: make test-gpu on a GPU"


@pytest.mark.filterwarnings("default")
def test_candidates_are_told():
    """A new row runs by name until the commit that brings its record."""
    names = sorted({f"{op} {kernel}" for op, kernel, _ in of_role("candidate")})
    if names:
        text = (
            f"no GPU record yet, so by name alone: {', '.join(names)}: make test-gpu on a GPU"
        )
        warnings.warn(text, stacklevel=1)


def test_nothing_on_record_failed(records):
    for record in records:
        for op, rows in record["results"].items():
            for kernel, dtypes in rows.items():
                bad = [dtype for dtype, outcome in dtypes.items() if outcome != "passed"]
                assert not bad, f"{op} {kernel} failed on {record['device']} for {bad}"
        for stem, run in record["sanitizers"].items():
            said = {k: v for k, v in run.items() if k not in ("date", "commit", "kernels")}
            bad = {tool: text for tool, text in said.items() if not text.startswith("clean")}
            assert not bad, f"{stem} on {record['device']}: {bad}"


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("tool", sanitize.TOOLS)
@pytest.mark.parametrize("stem", ["add", "transpose", "reduce"])
def test_each_tool_was_clean_over_every_kernel(records, stem, tool):
    """What ran under a tool, after it found its planted bug; what did not is told by name."""
    seen = seen_under(records, stem, tool)
    assert seen, f"{tool} was not clean over {stem}: tests/gpu_record.py --part sanitizers"
    unseen = kernels_of(stem) - seen
    if unseen:
        warnings.warn(f"{tool} has not seen {named(unseen)}", stacklevel=1)


@pytest.mark.filterwarnings("default")
def test_stale_sources_are_told(records):
    for record in records:
        now = gpu_record.hashes(set())
        stale = sorted(name for name in now if record["sources"].get(name) != now[name])
        if stale:
            warnings.warn(
                f"changed since the run on {record['device']}: {', '.join(stale)}", stacklevel=1
            )
