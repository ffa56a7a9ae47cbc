"""A backend is a library beside the package: core and Python know its name from there alone."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpuops

ROOT = Path(__file__).resolve().parents[2]
CC = os.environ.get("CC", "cc").split()

pytestmark = [
    pytest.mark.skipif(not (ROOT / "csrc").is_dir(), reason="needs the sources"),
    pytest.mark.skipif(not shutil.which(CC[0]), reason="needs a C compiler"),
]


@pytest.fixture
def package(tmp_path):
    """A folder that has all of the package but its name; its own libraries may lie in it."""
    here = tmp_path / "gpuops"
    here.mkdir()
    for file in Path(gpuops.__file__).parent.iterdir():
        if file.name != "__pycache__":
            (here / file.name).symlink_to(file)
    return here


def build(package, *flags, source=ROOT / "tests" / "python" / "dummy_backend.c"):
    flags = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-fPIC", "-shared", "-Wall", *flags]
    command = [*CC, *flags, f"-I{ROOT / 'csrc'}", source, "-o", package / "_dummy.so"]
    subprocess.run(command, check=True)


def python(package, program):
    env = {**os.environ, "PYTHONPATH": str(package.parent)}
    ran = subprocess.run(
        [sys.executable, "-c", "import numpy as np, gpuops\n" + program],
        env=env, cwd=package.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout.splitlines()


def test_a_backend_is_registered_by_lying_there(package):
    build(package)
    said = python(package, """
a, b = np.arange(5, dtype="f4"), np.ones(5, "f4")
print(gpuops.is_available("dummy"))
print(*(d.device for d in gpuops.devices()))
print(gpuops.devices("dummy")[0].name)
print(*(k.name for k in gpuops.kernels("add", "dummy")))
print(gpuops.add(a, b, device="dummy"))
print(gpuops.add(a[::-2], 1, kernel="dumb", device="dummy"))
e = gpuops.explain("add", a, b, device="dummy")
print(e.kernel, e.upload_bytes, e.download_bytes)
for call in (
    lambda: gpuops.add(a[:, None], b, device="dummy", kernel="dumb"),
    lambda: gpuops.sum(a, device="dummy"),
    lambda: gpuops.add(a, b, device="dummy:1"),
):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error)
print(gpuops.benchmark("add", (a, b), {"device": "dummy"}, n_repeat=1).kernel)
""")  # fmt: skip
    assert said[0] == "True"
    assert re.fullmatch("cpu .*dummy", said[1])
    assert said[2:6] == ["Dummy", "dumb", "[1. 2. 3. 4. 5.]", "[5. 3. 1.]"]
    assert said[6] == "dumb 40 20"
    assert said[7] == "KernelRefusedError add: the dummy takes lines alone"
    assert said[8].startswith("UnsupportedDeviceError sum: dummy has no kernels of this")
    assert said[9].startswith("DeviceUnavailableError device 'dummy:1' is not available")
    assert said[10] == "1 µs"


def test_a_refusal_without_a_name_has_the_kernels_reason(package):
    build(package)
    said = python(package, """
a = np.arange(5, dtype="f4")
try:
    gpuops.add(a[:, None], a, device="dummy")
except gpuops.UnsupportedDeviceError as error:
    print(error)
""")  # fmt: skip
    assert said[0] == (
        "add: no kernel on dummy takes this call of float32: the dummy takes lines alone"
    )


def test_operands_are_cast_on_their_way(package):
    build(package)
    said = python(package, """
a, b = np.arange(5, dtype="f4"), np.arange(5, dtype="i2")
for out in (None, np.zeros(5), np.zeros(5, ">f4"), np.zeros(10, "f4")[::-2]):
    print(gpuops.add(a.astype(">f4"), b, out, device="dummy"))
    print(gpuops.add(a[::-1], b.astype(">i2"), out, kernel="dumb", device="dummy"))
print(gpuops.matmul(a.astype(">f4"), b, device="dummy"))
""")  # fmt: skip
    assert said[:8] == ["[0. 2. 4. 6. 8.]", "[4. 4. 4. 4. 4.]"] * 4
    assert said[8] == "30.0"


def test_a_candidate_runs_by_name_alone(package):
    build(package, "-DROLE=GOP_CANDIDATE")
    said = python(package, """
a = np.arange(3, dtype="f4")
print(gpuops.kernels("add", "dummy")[0].role)
print(gpuops.add(a, a, kernel="dumb", device="dummy"))
try:
    gpuops.add(a, a, device="dummy")
except gpuops.Error as error:
    print(error)
""")  # fmt: skip
    assert said[:2] == ["candidate", "[0. 2. 4.]"]
    assert "no kernel on dummy takes this call" in said[2]


PRECISIONS = """
a = np.eye(3, dtype="f4")
for kernel in (None, "fine", "coarse"):
    for precision in (None, "highest", "fast", "tf32", "bf16"):
        how = {"kernel": kernel, "precision": precision, "device": "dummy"}
        try:
            assert (gpuops.matmul(a, a, **how) == a).all()
            e = gpuops.explain("matmul", a, a, **how)
            print(e.kernel, e.precision)
        except gpuops.KernelRefusedError as error:
            print(error)
"""


def test_precision_is_lowered_only_where_asked(package):
    build(package)
    said = python(package, PRECISIONS)
    fine, coarse = ["fine highest"], ["coarse tf32"]
    assert said[:10] == [*fine * 3, *coarse * 2, *fine * 5]
    for least, sentence in zip(("highest", "highest", "fast"), said[10:13], strict=True):
        assert sentence == (
            "matmul: kernel 'coarse' gives precision 'tf32', "
            f"but '{least}' or better was asked for"
        )
    assert said[13:] == coarse * 2


@pytest.mark.parametrize(("role", "by_name"), [("CANDIDATE", 2), ("TEACHING", 5)])
def test_precision_of_a_row_that_runs_by_name_alone(package, role, by_name):
    """A teaching row's caveat says what it gives: its name is enough, no class chooses it."""
    build(package, f"-DROLE=GOP_{role}")
    said = python(package, PRECISIONS)
    assert said[:10] == ["fine highest"] * 10
    assert said.count("coarse tf32") == by_name


REFUSED = "is of another version of gpuops, expected interface"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["-DINTERFACE=GOP_ABI+1"], REFUSED),
        (["-Dgop_backend_open=other"], REFUSED),
        (["-Dsnprintf=no_such_function"], "did not open"),
    ],
    ids=["interface", "symbol", "link"],
)
def test_a_library_that_does_not_fit_is_refused(package, flags, words):
    build(package, *flags)
    said = python(package, """
print(gpuops.is_available("dummy"))
for _ in range(2):
    try:
        gpuops.add(np.ones(3, "f4"), 1, device="dummy")
    except gpuops.DeviceUnavailableError as error:
        print(error)
print(gpuops.sum(np.ones(3)))
""")  # fmt: skip
    assert (said[0], said[3]) == ("False", "3.0")
    assert said[1] == said[2]
    assert re.match(f"dummy: .*{words}", said[1])


def test_core_names_no_device():
    named = re.compile(r"GOP_(CUDA|SIM)\b|\b(cuda|sim)\b")
    sources = sorted((ROOT / "csrc" / "core").rglob("*.[ch]"))
    assert len(sources) > 20
    for source in sources:
        code = re.sub(r"/\*.*?\*/", "", source.read_text(), flags=re.S)
        assert not named.search(code), f"{source.name}: {named.search(code)[0]}"
