"""Importing: no driver call, nothing printed, little time; and what the package offers."""

import json
import os
import shutil
import statistics
import subprocess
import sys

import pytest

import gpuops

FAKE_DRIVER = """
#include <stdio.h>
#include <stdlib.h>
static void count(const char *name)
{
    FILE *log = fopen(getenv("FAKE_DRIVER_LOG"), "a");
    if (log) fprintf(log, "%s\\n", name), fclose(log);
}
__attribute__((constructor)) static void loaded(void) { count("loaded"); }
int cuInit(unsigned flags) { (void)flags; count("cuInit"); return 100; }
int cuDriverGetVersion(int *version) { count("version"); *version = 13000; return 0; }
int cuGetProcAddress_v2(const char *name, void **f, int version, unsigned long flags, void *s)
{
    (void)version, (void)flags, (void)s;
    count(name);
    *f = 0;
    return 500;
}
int cuGetProcAddress(const char *name, void **f, int version, unsigned long flags)
{
    return cuGetProcAddress_v2(name, f, version, flags, 0);
}
"""


def python(code: str, **environment) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A folder with a libcuda.so.1 that writes down every call and finds no device."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler on Linux")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "fake.c").write_text(FAKE_DRIVER)
    library = folder / "libcuda.so.1"
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(folder / "fake.c")]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def calls(driver, code: str) -> tuple[list[str], str]:
    log = driver / "log"
    log.write_text("")
    done = python(code, LD_LIBRARY_PATH=str(driver), FAKE_DRIVER_LOG=str(log))
    return log.read_text().split(), done.stdout + done.stderr


def test_import_and_cpu_work_touch_no_driver(driver):
    code = "import numpy as np, gpuops; gpuops.add(np.ones(9), 1); gpuops.sum([1])"
    assert calls(driver, code) == ([], "")
    code = "import gpuops; gpuops.matmul([[1.0]], [[2.0]]); gpuops.kernels('add', 'cpu')"
    assert calls(driver, code) == ([], "")


def test_asking_for_a_gpu_asks_the_driver(driver):
    """The control of the test above: the fake driver does see the calls that are made."""
    if "cuda" not in json.loads(python_config())["build"] or not built_with_cuda():
        pytest.skip("built without the cuda backend")
    seen, said = calls(driver, "import gpuops; print(gpuops.is_available('cuda'))")
    assert "loaded" in seen
    assert said.strip() == "False"


def built_with_cuda() -> bool:
    return json.loads(python_config())["build"].get("cuda", {}).get("built", False)


def python_config() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "gpuops", "--json"], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_import_is_quick():
    """At most 20 ms beyond NumPy's own import, as the median of several."""
    code = (
        "import time, numpy; start = time.perf_counter(); import gpuops;"
        "print(time.perf_counter() - start)"
    )
    python(code)  # bytecode is written once
    seconds = sorted(float(python(code).stdout) for _ in range(5))
    if seconds[0] > 0.02 and os.getloadavg()[0] > 2 * (os.cpu_count() or 1):
        pytest.skip(f"the machine is too busy to time an import ({seconds[0] * 1e3:.0f} ms)")
    assert seconds[0] < 0.02, [f"{s * 1e3:.1f} ms" for s in seconds]
    assert statistics.median(seconds) < 0.1


def test_import_loads_little():
    code = "import sys, numpy; old = set(sys.modules); import gpuops; "
    code += "print(set(sys.modules) - old)"
    loaded = python(code).stdout
    for module in ("scipy", "matplotlib", "ml_dtypes", "tqdm", "argparse", "gpuops.timing",
                   "gpuops.ladders", "gpuops.demo", "html", "json"):  # fmt: skip
        assert f"'{module}'" not in loaded, module


def test_every_public_name_is_there():
    assert len(set(gpuops.__all__)) == len(gpuops.__all__)
    for name in gpuops.__all__:
        assert getattr(gpuops, name) is not None
        assert name in dir(gpuops)
    for name in (
        "add",
        "sum",
        "benchmark",
        "kernels",
        "explain",
        "show_config",
        "jacobi",
        "rdf",
    ):
        assert callable(getattr(gpuops, name))
        assert getattr(gpuops, name).__doc__
    with pytest.raises(AttributeError, match="'gpuops' has no attribute 'nope'"):
        _ = gpuops.nope


def test_functions_stay_functions_when_modules_are_imported():
    code = (
        "import gpuops.jacobi, gpuops.rdf, gpuops.devices, gpuops;"
        "print(callable(gpuops.jacobi), callable(gpuops.rdf), callable(gpuops.devices))"
    )
    assert python(code).stdout.split() == ["True"] * 3


def test_python_m_gpuops():
    def run(*arguments):
        command = [sys.executable, "-m", "gpuops", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    text = run()
    assert text.returncode == 0
    assert text.stderr == ""
    for word in ("gpuops", "compiler", "C flags", "CUDA build", "CPU", "threads", "device"):
        assert word in text.stdout
    facts = json.loads(run("--json").stdout)
    assert facts["gpuops"] == gpuops.__version__
    assert facts["devices"][0]["device"] == "cpu"
    if not gpuops.is_available("cuda"):
        assert facts["unavailable"]["cuda"]
        assert facts["unavailable"]["cuda"] in text.stdout
    assert run("--nope").returncode == 2
    assert run("fly").returncode == 2


def test_show_config(capsys):
    gpuops.show_config()
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) <= 40
    assert gpuops.show_config("dicts")["threads"] == gpuops.get_num_threads()
    with pytest.raises(ValueError, match="mode is 'stdout' or 'dicts'"):
        gpuops.show_config("xml")


def test_a_missing_library_is_said_not_raised_at_import(monkeypatch, tmp_path):
    package = tmp_path / "gpuops"
    shutil.copytree(
        os.path.dirname(gpuops.__file__), package, ignore=shutil.ignore_patterns("_cuda.so")
    )
    code = (
        "import gpuops\n"
        "print(gpuops.is_available('cuda'), gpuops.sum([1, 2]))\n"
        "try: gpuops.add(1, 2, device='cuda')\n"
        "except gpuops.DeviceUnavailableError as e: print(e)"
    )
    done = python(code, PYTHONPATH=str(tmp_path))
    first, second = done.stdout.splitlines()
    assert first == "False 3"
    assert "no cuda backend" in second
