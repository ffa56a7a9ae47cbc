"""conftest - what holds for every test: a clean state before, and the record of GPU runs after.

With GPUOPS_TEST_RECORD=<file>, every (op, kernel, dtype) that ran on cuda is written there with
its outcome, for tests/gpu_record.py.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")

import engine
import pytest

import gpuops
from gpuops import _core

TIMEOUT = 300  # seconds after which a hanging test prints where it hangs

_outcome: dict[tuple[str, str, str], str] = {}


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


def pytest_runtest_setup(item):
    engine.ran.clear()
    faulthandler.dump_traceback_later(TIMEOUT)


def pytest_runtest_teardown(item):
    faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call" and not report.skipped:
        for key in engine.ran:
            if report.failed or key not in _outcome:
                _outcome[key] = report.outcome
    return report


def pytest_sessionfinish(session):
    path = os.environ.get("GPUOPS_TEST_RECORD")
    if path:
        rows = [[*key, outcome] for key, outcome in sorted(_outcome.items())]
        Path(path).write_text(json.dumps(rows, indent=1) + "\n")
