"""gpu_record - runs the CUDA kernels of all or some operations and writes down the results.

    python tests/gpu_record.py [--part tests | --part sanitizers] [op ...]

Fails where no GPU answers: a pass without one would mean nothing. What ran goes into
tests/gpu/<device>.json: per source file a hash, per (op, kernel, dtype) the outcome, and what
each tool of compute-sanitizer said after it had found a planted bug.
tests/cuda/test_gpu_record.py reads it.
"""

import argparse
import collections
import datetime
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
os.chdir(ROOT)
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "driver")]

import numpy as np  # noqa: E402

import gpuops  # noqa: E402
from gpuops import _core  # noqa: E402
from gpuops.devices import why_not  # noqa: E402

RECORDS = ROOT / "tests" / "gpu"
CUDA = ROOT / "csrc" / "cuda"
# What these test does not differ with a GPU, or is of sim or OpenCL.
NOT_FOR_A_GPU = [
    "builds/*",
    "course/*",
    "cuda/test_cuda_*.py",
    "cuda/test_gpu_record.py",
    "docs/test_docstrings.py",
    "docs/test_examples.py",
    "docs/test_notebooks.py",
    "docs/test_site.py",
    "docs/test_tables.py",
    "opencl/*",
    "ops/test_chosen.py",
    "python/test_environment.py",
    "python/test_import.py",
    "python/test_source.py",
    "python/test_typing.py",
    "sim/*",
]
# Tests of a stem's kernels that have another name.
ALSO = {"reduce": ("exact", "states")}
LONGEST = 380  # seconds that a file of tests may take
# What these test is time and threads, which neighbours would disturb.
ALONE = ["test_interrupt.py", "test_overlapping_out.py", "test_threads.py", "test_timing.py"]
WORKERS = min(12, os.cpu_count() or 1)
FIRST = "test_same_bits.py"  # takes longest; then the longest files


def of_stems(path: Path, chosen: set[str]) -> bool:
    """Whether the test file is one of the stems'; all are where none is chosen."""
    name = path.stem.removeprefix("test_")
    names = {*chosen, *(also for stem in chosen for also in ALSO.get(stem, ()))}
    return not chosen or any(name == s or name.startswith(s + "_") for s in names)


def hashes(chosen: set[str]) -> dict[str, str]:
    """SHA-256 of the CUDA sources and headers, of these stems' or all."""
    found = sorted(p for p in CUDA.rglob("*") if p.suffix in (".cu", ".h", ".inc"))
    return {
        p.relative_to(CUDA).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()[:16]
        for p in found
        if not chosen or p.parent.name in chosen
    }


def test_files(chosen: set[str]) -> list[str]:
    return [
        str(path)
        for path in sorted(Path("tests").glob("*/test_*.py"))
        if of_stems(path, chosen) and not any(path.match(left) for left in NOT_FOR_A_GPU)
    ]


def run_file(path: str, folder: str) -> tuple[list, str]:
    """The outcomes [op, kernel, dtype, outcome] of one file and pytest's closing line."""
    report = Path(folder, Path(path).stem + ".json")
    environment = {
        **os.environ,
        "GPUOPS_TEST_BACKENDS": "cuda",
        "GPUOPS_TEST_RECORD": str(report),
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "--all", "-p", "no:cacheprovider", path]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    try:
        done = subprocess.run(command, env=environment, check=False, timeout=LONGEST, **output)
    except subprocess.TimeoutExpired:
        print(f"{path} took longer than {LONGEST} s", flush=True)
        return [], "error"
    lines = done.stdout.strip().splitlines() or ["no output: error"]
    good = done.returncode in (0, 5)  # 5: no test of this file is for a GPU
    print("\n".join(lines[-1:] if good else lines), f"({path})", flush=True)
    outcomes = json.loads(report.read_text()) if report.exists() else []
    return outcomes, lines[-1].strip("= ") + ("" if good else " error")


def run_tests(chosen: set[str]) -> tuple[list, str]:
    """All outcomes, and what pytest counted, over files that run side by side."""
    files = test_files(chosen)
    alone = [f for f in files if Path(f).name in ALONE]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as pool:
        run = functools.partial(run_file, folder=folder)
        beside = [f for f in files if f not in alone]
        beside.sort(key=lambda f: (Path(f).name != FIRST, -Path(f).stat().st_size))
        done = dict(zip(beside, pool.map(run, beside), strict=True))
        # One that fails beside others may have been short of memory: by itself it tells.
        alone += [f for f in beside if done[f][1].endswith("error")]
        done |= {f: run(f) for f in alone}
    counts: collections.Counter = collections.Counter()
    for _, closing in done.values():
        for count, word in re.findall(r"(\d+) (\w+)", closing):
            counts[word.removesuffix("s") if word == "errors" else word] += int(count)
        counts["error"] += closing.endswith("error")
    words = ("passed", "skipped", "failed", "error")
    said = ", ".join(f"{counts[word]} {word}" for word in words if counts[word])
    return [row for outcomes, _ in done.values() for row in outcomes], said


def dtype_name(text: str) -> str:
    """float32 of '<f4', '>f4' and 'float32'; words that NumPy does not know stay."""
    try:
        return np.dtype(text).newbyteorder("=").name
    except TypeError:
        return text


def merge(record: dict, outcomes: list, ops: set[str]) -> None:
    """Replaces the results of these ops; one failure makes an entry failed."""
    results = {op: rows for op, rows in record.get("results", {}).items() if op not in ops}
    for op, kernel, dtype, outcome in outcomes:
        if op not in ops or not dtype:
            continue
        row = results.setdefault(op, {}).setdefault(kernel, {})
        name = dtype_name(dtype)
        row[name] = "failed" if "failed" in (row.get(name), outcome) else outcome
    record["results"] = {op: results[op] for op in sorted(results)}


def commit() -> str:
    git = ["git", "rev-parse", "--short", "HEAD"]
    known = os.environ.get("GPUOPS_COMMIT")  # where the sources came without their history
    known = known or subprocess.run(git, capture_output=True, text=True, check=False).stdout
    return known.strip() or "unknown"


def stamp() -> dict[str, str]:
    return {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "commit": commit()}


def record_tests(record: dict, chosen: set[str], ops: set[str]) -> bool:
    """Runs the tests and enters their outcomes; says whether all passed."""
    outcomes, closing = run_tests(chosen)
    for op in sorted(ops):
        record.setdefault("runs", {})[op] = {**stamp(), "pytest": closing}
    record["sources"] = (
        {**record.get("sources", {}), **hashes(chosen)} if chosen else hashes(chosen)
    )
    merge(record, outcomes, ops)
    failed = [row for row in outcomes if row[3] != "passed"]
    for row in failed:
        print("failed:", *row[:3])
    print(f"test-gpu: {len(outcomes)} (op, kernel, dtype): {closing}")
    return not failed and bool(outcomes) and "failed" not in closing and "error" not in closing


def table_of(stem: str) -> dict[str, str]:
    """The dtypes of each "op kernel" of the stem's ladders. The driver runs all, or fails."""
    return {
        f"{op} {row['name']}": " ".join(row["dtypes"])
        for op, of in _core.ops().items()
        if of == stem
        for row in _core.ladder(op, "cuda")
    }


def record_sanitizers(record: dict, chosen: set[str]) -> bool:
    """Runs compute-sanitizer and enters its summaries; says whether all are clean."""
    import sanitize

    summaries = sanitize.check_cuda(sorted(chosen), list(sanitize.TOOLS))
    for stem, tools in summaries.items():
        ran = {"kernels": table_of(stem)}
        record.setdefault("sanitizers", {})[stem] = {**stamp(), **tools, **ran}
    return all(s.startswith("clean") for tools in summaries.values() for s in tools.values())


def main() -> int:
    of = _core.ops()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ops", nargs="*", metavar="op", help=", ".join(of))
    parser.add_argument("--part", choices=("tests", "sanitizers"), help="without it, both")
    arguments = parser.parse_args()
    for op in arguments.ops:
        if op not in of:
            parser.error(f"there is no operation {op!r}, expected one of {', '.join(of)}")
    if not gpuops.is_available("cuda"):
        sys.exit(f"test-gpu: no GPU to test on: {why_not('cuda')}")
    device = _core.devices("cuda")[0]
    chosen = {of[op] for op in arguments.ops}
    ops = {op for op in of if not chosen or of[op] in chosen}

    RECORDS.mkdir(exist_ok=True)
    name = re.sub(r"\W+", "_", device["name"]).strip("_").lower()
    path = RECORDS / f"{name}.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    info = json.loads((ROOT / "gpuops" / "_build_info.json").read_text())["cuda"]
    record |= {"device": device["name"], "detail": device["detail"]}
    record |= {"nvcc": info["version"], "archs": info["archs"]}
    good = arguments.part == "sanitizers" or record_tests(record, chosen, ops)
    good = (arguments.part == "tests" or record_sanitizers(record, chosen)) and good
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"test-gpu: written {path.relative_to(ROOT)}; {'passed' if good else 'FAILED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
