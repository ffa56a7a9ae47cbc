"""gpuops.dask in other processes: clusters, workers that are killed, Dask's query planning, and
Python without Dask."""

import subprocess
import sys
from pathlib import Path

import pytest

import gpuops

pytest.importorskip("dask", reason="Dask is not installed: pip install 'gpuops[dask]'")
pytest.importorskip("dask.array")

HERE = Path(__file__).parent
FOLDERS = [str(HERE), str(HERE.parent)]  # of dask_cases and of engine


def test_with_query_planning():
    code = (
        "import dask, sys\n"
        "dask.config.set({'array.query-planning': True, 'scheduler': 'sync'})\n"
        f"sys.path[:0] = {FOLDERS}\n"
        "import dask.array as da\n"
        "assert da.array_expr_enabled()\n"
        "import dask_cases\n"
        "dask_cases.check_everything()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_dask_only_the_module_is_missing():
    code = (
        "import sys\nsys.modules['dask'] = None\nimport gpuops\n"
        "assert gpuops.sum([1.0, 2.0]) == 3\n"
        "try:\n    import gpuops.dask\nexcept ImportError as error:\n    print(error)\n"
    )
    words = [sys.executable, "-c", code]
    said = subprocess.run(words, check=True, capture_output=True, text=True)
    assert said.stdout.startswith("gpuops.dask needs Dask: pip install 'gpuops[dask]'")


PROCESSES = """
import sys
import numpy as np
sys.path[:0] = {folders}

def main():
    import dask.array as da
    from distributed import Client
    import dask_cases, engine, gpuops, gpuops.dask as gd

    with gd.cluster(["cpu", "cpu"]) as two, Client(two) as client:
        client.wait_for_workers(2)
        devices = client.run(lambda: str(gpuops.get_default_device()))
        assert len(devices) == 2 and set(devices.values()) == {{"cpu"}}, devices
        a = engine.random((60_000, 3), "f4", 1)
        x = da.from_array(a, chunks=(7_000, 3))
        x = x.map_blocks(dask_cases.killed_once, {flag!r}, dtype=a.dtype, meta=a[:0])
        engine.same_bits(gd.sum(x, axis=0).compute(), gpuops.sum(a, axis=0))
        dask_cases.check_elementwise()
        dask_cases.check_products()
        dask_cases.check_rdf()
        for k, op in enumerate(engine.REDUCTIONS):
            dask_cases.check_reductions(op, dask_cases.DTYPES[k], 1)

if __name__ == "__main__":
    main()
"""


@pytest.mark.sampled(later=True)
def test_two_processes_of_which_one_is_killed(tmp_path):
    pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    script = tmp_path / "run.py"
    flag = tmp_path / "killed"
    script.write_text(PROCESSES.format(folders=FOLDERS, flag=str(flag)))
    subprocess.run([sys.executable, str(script)], check=True, timeout=240)
    assert flag.exists()


def test_devices_of_a_cluster_are_told():
    pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    from gpuops._call.dask_cluster import _places

    assert [str(p) for p in _places(["cpu", "cpu"])] == ["cpu", "cpu"]
    assert [str(p) for p in _places("cpu")] == ["cpu"]
    with pytest.raises(ValueError, match="devices are names such as"):
        _places([])
    if not gpuops.is_available("cuda"):
        with pytest.raises(gpuops.DeviceUnavailableError, match=r"cluster: cuda:\*: "):
            _places("cuda:*")


def test_a_process_sees_its_own_gpu_only(monkeypatch):
    pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    from gpuops._call.dask_cluster import _environment

    second = gpuops.Device("cuda", 1)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert _environment(second, 4) == {
        "GPUOPS_DEVICE": "cuda", "CUDA_VISIBLE_DEVICES": "1", "GPUOPS_NUM_THREADS": "4",
    }  # fmt: skip
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-5a")
    assert _environment(second, 4)["CUDA_VISIBLE_DEVICES"] == "GPU-5a"
    assert _environment(gpuops.Device("cpu"), 4)["GPUOPS_DEVICE"] == "cpu"
