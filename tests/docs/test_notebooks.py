"""Every notebook runs from top to bottom on this machine."""

import shutil
from pathlib import Path

import pytest

import gpuops

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
@pytest.mark.filterwarnings("default")
def test_runs(path, tmp_path, monkeypatch):
    if path.stem == "sim" and not (gpuops.is_available("sim") and shutil.which("c++")):
        pytest.skip("needs sim and a compiler")
    if path.stem == "libraries":
        pytest.importorskip("torch")
        pytest.importorskip("jax")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(path.parent.parent), prepend=":")
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    client = nbclient.NotebookClient(book, timeout=180, kernel_name="python3", resources={
        "metadata": {"path": str(tmp_path)}
    })  # fmt: skip
    client.execute()
