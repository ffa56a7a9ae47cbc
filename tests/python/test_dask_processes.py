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
import gpuops  # which each process imports before it works
import numpy as np
sys.path[:0] = {folders}

def main():
    import dask.array as da
    from distributed import Client
    import dask_cases, engine, gpuops.dask as gd

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
    subprocess.run([sys.executable, str(script)], check=True, timeout=900)
    assert flag.exists()


ON_GPUS = """
import sys
sys.path[:0] = {folders}

def chunk(a):
    import cupy
    return cupy.asarray(a)

def seen():
    import cupy, gpuops
    pci = cupy.cuda.runtime.deviceGetPCIBusId(0)
    return pci, cupy.cuda.runtime.getDeviceCount(), str(gpuops.get_default_device())

def main():
    import cupy
    import dask.array as da
    from distributed import Client, wait
    import dask_cases, engine, gpuops, gpuops.dask as gd

    every = gpuops.devices("cuda")
    with gd.cluster("cuda:*") as gpus, Client(gpus) as client:
        client.wait_for_workers(len(every))
        found = client.run(seen)
        assert len(set(found.values())) == len(found) == len(every), found
        assert all(said[1:] == (1, "cuda") for said in found.values()), found
        a = engine.random((60_000, 6), "f4", 1)
        x = da.from_array(a, chunks=(7_000, 6))
        x = x.map_blocks(dask_cases.killed_once, {flag!r}, dtype=a.dtype, meta=a[:0])
        x = x.map_blocks(chunk, dtype=a.dtype, meta=cupy.empty((0, 0), a.dtype)).persist()
        wait(x)
        if len(every) > 1:  # after the killed one's chunks were made again, all have some
            assert all(client.has_what().values()), client.has_what()
        b = a[:6, :4]
        for lazy, want in (
            (gd.sum(x, axis=0), gpuops.sum(a, axis=0)),
            (gd.sum(x, exact=True), gpuops.sum(a, exact=True)),
            (gd.mean(x, axis=1), gpuops.mean(a, axis=1)),
            (gd.argmax(x, axis=0), gpuops.argmax(a, axis=0)),
            (gd.fma(x, x, x), gpuops.fma(a, a, a)),
            (gd.transpose(x), a.T),
            (gd.matmul(x, chunk(b)), gpuops.matmul(a, b, device="cuda")),
        ):
            got = lazy.compute()
            assert isinstance(lazy._meta, cupy.ndarray), (lazy, type(lazy._meta))
            assert isinstance(got, cupy.ndarray), (lazy, type(got))
            engine.same_bits(got.get(), want)
        gas = engine.random((40, 500, 3), "f4", 2)
        words = {{"r_max": 0.4, "bins": 20, "box": (1, 1, 1)}}
        g = gd.rdf(da.from_array(gas, chunks=(7, 500, 3)), **words).compute()
        engine.same_bits(g.counts, gpuops.rdf(gas, device="cuda", **words).counts)
        print(len(every), "GPUs:", sorted(said[0] for said in found.values()))

if __name__ == "__main__":
    main()
"""


@pytest.mark.sampled(later=True)
def test_a_process_for_each_gpu_keeps_chunks_of_cupy(tmp_path):
    pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    pytest.importorskip("cupy", reason="CuPy is not installed")
    if not gpuops.is_available("cuda"):
        pytest.skip("no GPU answers")
    script, flag = tmp_path / "run.py", tmp_path / "killed"
    script.write_text(ON_GPUS.format(folders=FOLDERS, flag=str(flag)))
    subprocess.run([sys.executable, str(script)], check=True, timeout=900)
    assert flag.exists()


def test_devices_of_a_cluster_are_told():
    pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    from gpuops._dask.cluster import _places

    assert [str(p) for p in _places(["cpu", "cpu"])] == ["cpu", "cpu"]
    assert [str(p) for p in _places("cpu")] == ["cpu"]
    with pytest.raises(ValueError, match="devices are names such as"):
        _places([])
    if not gpuops.is_available("cuda"):
        with pytest.raises(gpuops.DeviceUnavailableError, match=r"cluster: cuda:\*: "):
            _places("cuda:*")


def test_a_process_sees_its_own_gpu_only(monkeypatch):
    pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    from gpuops._dask.cluster import _environment

    second = gpuops.Device("cuda", 1)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert _environment(second, 4) == {
        "GPUOPS_DEVICE": "cuda", "CUDA_VISIBLE_DEVICES": "1", "GPUOPS_NUM_THREADS": "4",
    }  # fmt: skip
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-5a")
    assert _environment(second, 4)["CUDA_VISIBLE_DEVICES"] == "GPU-5a"
    assert _environment(gpuops.Device("cpu"), 4)["GPUOPS_DEVICE"] == "cpu"
