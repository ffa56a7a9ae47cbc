"""Tuning on OpenCL: sweep, `python -m gpuops.tune`, and the user's file that it writes."""

from __future__ import annotations

import json
import re
import stat

import numpy as np
import pytest
from opencl_machine import keeping, needs_build, opencl, python, said  # noqa: F401

import gpuops
from gpuops import tuned

pytestmark = [needs_build, pytest.mark.usefixtures("opencl")]

ADD = """
a = np.arange(1000, dtype="f4")
print(gpuops.add(a, a, device="opencl", kernel="vectorized")[7])
"""
TUNE = "from gpuops import tune\n"
TUNE_TWO = (
    TUNE
    + """
every = tune._calls
tune._calls = lambda *of: [call for call in every(*of) if call[0] in ("add", "sum")]
"""
)
MAIN = "tune.main(['opencl:0', '--scale', '0.001'])"


def key() -> str:
    info = gpuops.devices("opencl")[0]
    return tuned.key_of(info.name, info.detail)


@pytest.fixture
def home(tmp_path):
    """Variables of a user with a configuration of its own."""
    return {"XDG_CONFIG_HOME": str(tmp_path / "config")}


def keep(home, devices):
    folder = tuned.Path(home["XDG_CONFIG_HOME"]) / "gpuops"
    folder.mkdir(0o700, parents=True, exist_ok=True)
    (folder / tuned.NAME).write_text(
        devices if isinstance(devices, str) else json.dumps({"devices": devices})
    )
    (folder / tuned.NAME).chmod(0o600)
    return folder / tuned.NAME


def width_of(home, **more) -> int:
    """Of the vectors that a process of its own adds by: its program lies in its cache."""
    cache = tuned.Path(home["XDG_CONFIG_HOME"]).parent
    assert said(ADD, **keeping(cache), **home, **more) == "14.0"
    (program,) = (cache / "gpuops").glob("*.cl")
    options = re.search(rb"-cl-std=CL1.2[^\n]*", program.read_bytes())[0].decode()
    program.unlink()
    return int(re.search(r"LANES=(\d+)", options)[1])


def test_sweep_times_every_value():
    a = np.ones(4096, "f4")
    table = gpuops.sweep("add", a, a, device="opencl", kernel="vectorized", bytes=[8, 64])
    assert [r.params["bytes"] for r in table] == [8] * 4 + [64] * 4
    assert all(r.timing.kernel > 0 for r in table)
    assert table.best.params["group"] in (64, 128, 256, 512)


@pytest.mark.sampled
def test_the_command_writes_what_later_processes_read(home, everything):
    ran = python((TUNE if everything else TUNE_TWO) + MAIN, **home)
    assert ran.returncode == 0, ran.stderr
    assert "reduce.chunked" in ran.stdout or "reduce.tree" in ran.stdout
    path = tuned.Path(home["XDG_CONFIG_HOME"]) / "gpuops" / tuned.NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not list(path.parent.glob("tmp*"))
    assert list(json.loads(path.read_text())["devices"]) == [key()]
    shown = said("from gpuops.tune import main; main(['--show'])", **home)
    assert shown.splitlines()[0].startswith("opencl: ")
    both = python("from gpuops.tune import main; main(['--show', '--forget'])", **home)
    assert both.returncode == 2
    assert "not allowed with argument" in both.stderr
    said("from gpuops.tune import main; main(['--forget'])", **home)
    assert json.loads(path.read_text())["devices"] == {}


def test_kept_values_take_the_place_of_the_shipped_ones(home):
    shipped = width_of(home)
    assert shipped == 4
    keep(home, {key(): {"add.vectorized": {"bytes": 64}}})
    assert width_of(home) == 16
    assert width_of(home, GPUOPS_TUNED="0") == shipped


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("values", [
    {"add.vectorized": {"bytes": 63}},
    {"add.vectorized": {"width": 64}},
    {"add.nothing": {"bytes": 64}},
    {"nothing.vectorized": {"bytes": 64}},
], ids=str)  # fmt: skip
def test_what_no_kernel_has_does_nothing(home, values):
    keep(home, {key(): values})
    assert width_of(home) == 4


def test_another_driver_has_other_values(home):
    keep(home, {key() + "1": {"add.vectorized": {"bytes": 64}}})
    assert width_of(home) == 4


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("text", ["{", "[]", '{"devices": {"a": {"add.x": {"b": "c"}}}}'])
def test_a_broken_file_is_a_warning(home, text):
    keep(home, text)
    ran = python(ADD, **home)
    assert ran.stdout.strip() == "14.0"
    assert "RuntimeWarning" in ran.stderr
    assert "tuned.json is not read: " in ran.stderr


def test_a_file_that_others_may_write_is_not_read(home):
    path = keep(home, {key(): {"add.vectorized": {"bytes": 64}}})
    path.chmod(0o666)
    assert "is not read: others may write it" in python(ADD, **home).stderr
    path.chmod(0o600)
    path.parent.chmod(0o777)
    assert "others may write there" in python(ADD, **home).stderr
    path.parent.chmod(0o700)


def test_nothing_is_read_before_opencl_is_used(home):
    keep(home, "{")
    ran = python("print(gpuops.add(np.ones(3), 1.0, device='cpu')[0])", **home)
    assert (ran.stdout.strip(), ran.stderr) == ("2.0", "")


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("cpu", "only OpenCL devices are tuned, not 'cpu'"),
        ("auto", "only OpenCL devices are tuned, not 'auto'"),
        ("bogus", "there is no device 'bogus'"),
        ("opencl:99", "device 'opencl:99' is not available"),
    ],
)
def test_other_devices_are_not_tuned(home, word, sentence):
    ran = python(f"from gpuops.tune import main; main(['{word}'])", **home)
    assert ran.returncode == 2
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("scale", ["0", "-1", "nan", "inf", "1e9"])
def test_a_scale_that_is_none(home, scale):
    ran = python(f"from gpuops.tune import main; main(['--scale={scale}'])", **home)
    assert ran.returncode == 2
    assert "--scale is above 0 and at most 64, not" in ran.stderr
    assert "Traceback" not in ran.stderr
