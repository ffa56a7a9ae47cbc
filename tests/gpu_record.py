"""gpu_record - runs the CUDA kernels of all operations, or of one, and writes down the results.

    python tests/gpu_record.py [op]

Fails where no GPU answers: a pass without one would mean nothing. What ran goes into
tests/gpu/<device>.json: per source file a hash, per (op, kernel, dtype) the outcome, and what
compute-sanitizer said after it had found a planted bug. tests/test_gpu_record.py reads it.
"""

import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
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
# What these test does not differ with a GPU.
NOT_FOR_A_GPU = (
    "test_build.py test_cuda_runtime.py test_docs.py test_gpu_record.py test_import.py "
    "test_notebooks.py test_same_names.py"
)


def stems() -> dict[str, str]:
    """Each op's stem, from ops.def."""
    text = (ROOT / "csrc" / "ops.def").read_text()
    return dict(re.findall(r"^GOP_OP\((\w+), (\w+)\)", text, re.M))


def hashes(stem: str | None = None) -> dict[str, str]:
    """SHA-256 of the CUDA sources and headers, of one stem's or all."""
    found = sorted([*CUDA.glob("*.cu"), *CUDA.glob("*.h")])
    if stem:
        found = [p for p in found if p.stem == stem or p.stem.startswith(stem + "_")]
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest()[:16] for p in found}


def test_files(stem: str | None) -> list[str]:
    found = sorted(Path("tests").glob("test_*.py"))
    if stem:
        name = f"test_{stem}"
        found = [p for p in found if p.stem == name or p.stem.startswith(name + "_")]
    return [str(p) for p in found if p.name not in NOT_FOR_A_GPU]


def run_tests(stem: str | None) -> tuple[list, str]:
    """The outcomes [op, kernel, dtype, outcome] and pytest's closing line."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "record.json")
        environment = {
            **os.environ,
            "GPUOPS_TEST_BACKENDS": "cuda",
            "GPUOPS_TEST_RECORD": str(report),
            "PYTHONUNBUFFERED": "1",
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        process = subprocess.Popen(
            [*command, *test_files(stem)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        last = ""
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
        process.wait()
        outcomes = json.loads(report.read_text()) if report.exists() else []
        return outcomes, last.strip("= ")


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


def main() -> int:
    import sanitize

    only = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] else None
    of = stems()
    if only and only not in of:
        sys.exit(f"test-gpu: there is no operation {only!r}, expected one of {', '.join(of)}")
    if not gpuops.is_available("cuda"):
        sys.exit(f"test-gpu: no GPU to test on: {why_not('cuda')}")
    device = _core.devices("cuda")[0]
    stem = of[only] if only else None
    ops = {op for op in of if stem in (None, of[op])}

    outcomes, closing = run_tests(stem)
    summaries = sanitize.check_cuda([stem] if stem else [], ["memcheck"], every=5)

    RECORDS.mkdir(exist_ok=True)
    name = re.sub(r"\W+", "_", device["name"]).strip("_").lower()
    path = RECORDS / f"{name}.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    info = json.loads((ROOT / "gpuops" / "_build_info.json").read_text())["cuda"]
    record["device"] = device["name"]
    record["detail"] = device["detail"]
    record["nvcc"] = info["version"]
    record["archs"] = info["archs"]
    record.setdefault("runs", {})
    for op in sorted(ops):
        record["runs"][op] = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "commit": commit(),
            "pytest": closing,
            "planted_bug": "found" if summaries["memcheck"] == "clean" else "see memcheck",
            **summaries,
        }
    record["sources"] = {**record.get("sources", {}), **hashes(stem)} if stem else hashes()
    merge(record, outcomes, ops)
    path.write_text(json.dumps(record, indent=1) + "\n")

    failed = [row for row in outcomes if row[3] != "passed"]
    for row in failed:
        print("failed:", *row[:3])
    good = not failed and outcomes and "failed" not in closing and "error" not in closing
    good = good and all(summary == "clean" for summary in summaries.values())
    print(f"test-gpu: {len(outcomes)} (op, kernel, dtype) on {device['name']}: {closing}")
    print(f"test-gpu: written {path.relative_to(ROOT)}; {'passed' if good else 'FAILED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
