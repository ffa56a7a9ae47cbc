"""conftest - what holds for every test: a clean state before, and the record of GPU runs after.

`make test` runs two tests at a time. One that is marked `alone`, since it measures time, runs
while no other does.

With GPUOPS_TEST_RECORD=<file>, every (op, kernel, dtype) that ran on cuda is written there with
its outcome, for tests/gpu_record.py.
"""

from __future__ import annotations

import collections
import contextlib
import faulthandler
import fcntl
import gc
import importlib
import json
import os
import re
import subprocess
import time
import zlib
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
# A learner's progress in the course is not that of who runs the tests. What PoCL has compiled
# serves all tests, whatever cache of gpuops' a test has.
os.environ["XDG_DATA_HOME"] = str(Path(__file__).parent.parent / "build" / "test-data")
os.environ["POCL_CACHE_DIR"] = os.environ["XDG_DATA_HOME"] + "/pocl"
# Two tests run at a time: NumPy's threads would wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import engine
import pytest

import gpuops
from gpuops import _core

gc.disable()  # until all tests are found: it would go through them again and again
TIMEOUT = 600  # seconds, or a few less, after which a hanging test ends its process

_outcome: dict[tuple[str, str, str], str] = {}


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="whole what is else sampled")
    parser.addoption(
        "--rest", action="store_true", help="with --all: without what the last run passed"
    )
    parser.addoption(
        "--share", type=int, default=1, metavar="N", help="one test of N, others at each commit"
    )


@contextlib.contextmanager
def held(path: Path, how: int):
    with open(path, "w") as file:
        fcntl.flock(file, how)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # for the children of a fork as well


@pytest.fixture(autouse=True)
def _turn(request, tmp_path_factory):
    """The workers of pytest-xdist share a lock, a test that is `alone` has it by itself."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    folder = tmp_path_factory.getbasetemp().parent
    alone = request.node.get_closest_marker("alone")
    with contextlib.ExitStack() as stack:
        began = time.monotonic()
        # Who waits keeps the gate shut: else the others could go on taking turns for ever.
        with held(folder / "gate", fcntl.LOCK_EX):
            stack.enter_context(
                held(folder / "turn", fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            )
        if time.monotonic() - began > 1:
            watch()  # waiting is not hanging
        yield


@pytest.fixture
def everything(request) -> bool:
    """False where a test may make a sample of its calls that meets all pairs."""
    return request.config.getoption("--all")


def pairs_of(item) -> frozenset:
    """Of the test's arguments, a device and a kernel of it being one."""
    given = dict(item.callspec.params)
    row = given.pop("device", None), given.pop("kernel", None)
    name = item.nodeid.partition("[")[0]
    return frozenset((name, pair) for pair in engine.pairs(map(repr, (row, *given.values()))))


def leave_passed_out(config, items) -> None:
    """Tests that the last run without --all has passed, and that --all does not make longer."""
    file = passed_file(config)
    passed = set(file.read_text().splitlines()) if file.exists() else set()
    again = [
        item
        for item in items
        if item.nodeid in passed
        and item.get_closest_marker("sampled")
        and "everything" not in item.fixturenames
    ]
    config.hook.pytest_deselected(items=again)
    gone = {*again}
    items[:] = [item for item in items if item not in gone]


def is_in_share(nodeid: str, commit: bytes, share: int) -> bool:
    return zlib.crc32(commit + nodeid.encode()) % share == 0


def leave_other_shares(config, items, share: int) -> None:
    """One test of `share`: which, the commit decides, so that several commits run them all."""
    words = ["git", "-C", str(config.rootpath), "rev-parse", "HEAD"]
    commit = subprocess.run(words, capture_output=True, check=False).stdout
    gone = {item for item in items if not is_in_share(item.nodeid, commit, share)}
    config.hook.pytest_deselected(items=[item for item in items if item in gone])
    items[:] = [item for item in items if item not in gone]


def passed_file(config) -> Path:
    return Path(config.rootpath, "build", "passed.txt")


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config, items):
    """Of a test that is `sampled` and does not see to that itself, a pairwise cover; where it
    sees to its calls alone, `sampled(arguments=True)`, of its arguments all the same. Of one
    that is `sampled(every=3)` the first of each three, and so of the tests of a file that is;
    of `sampled(later=True)` nothing, unless it is asked for by name."""
    if config.getoption("--all"):
        if config.getoption("--rest"):
            leave_passed_out(config, items)
        if (share := config.getoption("--share")) > 1:
            leave_other_shares(config, items, share)
        return
    found, left_out, seen = [], set(), collections.Counter()
    is_asked_for = config.option.keyword or any("::" in word for word in config.args)
    for i, item in enumerate(items):
        marker = item.get_closest_marker("sampled")
        if marker and marker.kwargs.get("later"):
            if not is_asked_for:
                left_out.add(i)
            continue
        if not marker:
            continue
        if every := marker.kwargs.get("every"):
            is_own = marker in item.own_markers
            name = item.nodeid.partition("[")[0] if is_own else item.path
            if seen[name] % every:
                left_out.add(i)
            seen[name] += 1
        elif not hasattr(item, "callspec"):
            continue
        elif "everything" not in item.fixturenames or marker.kwargs.get("arguments"):
            found.append(i)
    chosen = engine.cover([pairs_of(items[i]) for i in found])
    left_out |= {*found} - {found[n] for n in chosen}
    config.hook.pytest_deselected(items=[items[i] for i in sorted(left_out)])
    items[:] = [item for i, item in enumerate(items) if i not in left_out]


def pytest_collection_finish():
    """Thousands of tests live as long as the run: the garbage collector leaves them out."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _clean_state(monkeypatch):
    """No test sees another's default device, threads or CPU level."""
    defaults = importlib.import_module("gpuops.devices").defaults
    monkeypatch.delitem(defaults, "environment", raising=False)
    yield
    gpuops.set_default_device(None)
    gpuops.set_num_threads(None)
    _core.set_cpu_level(None)
    _core.set_fault(None)


@pytest.fixture
def on_sim(monkeypatch, tmp_path_factory):
    """Kernels of a test's own: on sim, and compiled once for all tests of this run."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    with gpuops.device("sim"):
        yield


def pytest_configure():
    # While a test runs, pytest has the second descriptor for itself.
    watch.stderr = os.dup(2)


def watch() -> None:
    """For what hangs from now on: it prints where, and its process ends, which pytest-xdist
    reports with the test's name. A thread ends and another begins, which takes long where all
    cores are busy: thousands of short tests do not wait for that."""
    watch.since = time.monotonic()
    faulthandler.dump_traceback_later(TIMEOUT, file=watch.stderr, exit=True)


watch.since = -TIMEOUT


def pytest_runtest_setup(item):
    engine.ran.clear()
    engine.answered.clear()
    if time.monotonic() - watch.since > TIMEOUT / 10:
        watch()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call" and report.skipped and engine.answered:
        report.outcome = "failed"
        report.longrepr = (
            f"skipped after {len(engine.answered)} calls of its kernel were answered: what "
            f"they have shown counts for nothing ({report.longrepr[2]})"
        )
    if report.when == "call" and not report.skipped:
        for key in engine.ran:
            if report.failed or key not in _outcome:
                _outcome[key] = report.outcome
    return report


def pytest_terminal_summary(terminalreporter, config):
    """Skips by kind, a line each: a skipped test has shown nothing. All go to a file."""
    if not config.getoption("--all"):
        passed = [report.nodeid for report in terminalreporter.stats.get("passed", [])]
        passed_file(config).parent.mkdir(exist_ok=True)
        passed_file(config).write_text("\n".join(sorted(passed)) + "\n")
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped or set(config.option.reportchars) & set("saA"):  # they are listed anyway
        return
    lines = [f"{r.nodeid}: {r.longrepr[2].removeprefix('Skipped: ')}" for r in skipped]
    kinds = collections.Counter(
        (line.partition("::")[0], re.sub(r"\d+", "#", line.partition(": ")[2]))
        for line in lines
    )
    path = Path(config.rootpath, "build", "skipped.txt")
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(sorted(lines)) + "\n")
    terminalreporter.section("skipped: these have shown nothing", yellow=True)
    shown = kinds.most_common(12)
    for (file, reason), count in shown:
        terminalreporter.line(f"{count:4} of {Path(file).name}: {reason}"[:110])
    rest = len(skipped) - sum(count for _, count in shown)
    terminalreporter.line(
        (f"{rest:4} others; " if rest else "") + f"each with its reason: {path}"
    )


def pytest_sessionfinish(session):
    faulthandler.cancel_dump_traceback_later()
    path = os.environ.get("GPUOPS_TEST_RECORD")
    if path:
        rows = [[*key, outcome] for key, outcome in sorted(_outcome.items())]
        Path(path).write_text(json.dumps(rows, indent=1) + "\n")
