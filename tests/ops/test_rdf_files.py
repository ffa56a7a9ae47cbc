"""rdf on MDAnalysis' own test files: XTC, TRR, DCD, NetCDF; docs/rdf.md's examples."""

from __future__ import annotations

import contextlib
import shutil
import signal
import warnings
from pathlib import Path

import pytest

import gpuops

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.filterwarnings("default")  # those packages' own


@pytest.fixture(scope="module")
def mda():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("MDAnalysis")


@pytest.fixture(scope="module")
def files():
    return pytest.importorskip("MDAnalysisTests.datafiles")


@pytest.mark.parametrize(
    ("topology", "coordinates"),
    [("GRO", "XTC"), ("GRO", "TRR"), ("PSF", "DCD"), ("PRMncdf", "NCDF")],
)
def test_readers_of_files(mda, files, topology, coordinates, capsys):
    u = mda.Universe(getattr(files, topology), getattr(files, coordinates))
    some, count = u.atoms[:200], len(u.trajectory)
    at = min(4, count - 1)
    u.trajectory[at]
    box = None if u.dimensions is not None else (90, 90, 90)
    for options in ({"r_max": 1000}, {"r_max": 5, "types": "colour"},
                    {"r_max": 5, "exclude": "colour"}):  # fmt: skip
        with pytest.raises(ValueError, match="rdf: ") as caught:
            gpuops.rdf(some, **options, box=box)
        assert u.trajectory.frame == at
        for i in range(count):
            assert u.trajectory[i].frame == i
        u.trajectory[at]
        del caught
    heard = []

    def stop(*_):
        heard.append(True)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with contextlib.suppress(KeyboardInterrupt):
            while not heard:  # Python drops what is raised amid a finalizer or by a gc callback
                gpuops.rdf(u.atoms, r_max=5, box=box)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len([step for step in u.trajectory]) == count
    u.trajectory[at]
    assert gpuops.rdf(some, r_max=5, box=box).frames == count
    assert u.trajectory.frame == at
    assert capsys.readouterr().err == ""


def test_the_page_runs(mda, files, tmp_path, monkeypatch):
    """docs/rdf.md's MDAnalysis examples, on the files that they name."""
    text = (ROOT / "docs" / "rdf.md").read_text()
    block = text.split("## MDAnalysis")[1].split("```python\n")[1].split("```")[0]
    results, rdf = [], gpuops.rdf
    shutil.copy(files.GRO, tmp_path / "adk.gro")
    whole = mda.Universe(files.GRO, files.XTC)
    whole.atoms.write(tmp_path / "adk.xtc", frames=whole.trajectory[:2])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gpuops, "rdf", lambda *a, **b: results.append(rdf(*a, **b)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(block, {})
    assert [result.frames for result in results] == [2, 2, 1]
    assert results[-1].types.tolist() == ["H", "O"]
    shell = results[0].first_shell()
    assert abs(shell.r - 2.8) < 0.1
    assert abs(shell.g - 2.8) < 0.6


def test_what_to_do_without_elements(mda, files):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        u = mda.Universe(files.GRO, files.XTC)
    oxygens = u.select_atoms("name OW")[:50]
    hint = r'have no .element.: take types="type", or call universe.guess_TopologyAttrs\('
    with pytest.raises(ValueError, match=hint):
        gpuops.rdf(oxygens, 10, types="element")
    assert gpuops.rdf(oxygens, 10, types="type", frames=0).types.tolist() == ["O"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        u.guess_TopologyAttrs(to_guess=["elements"])
    assert gpuops.rdf(oxygens, 10, types="element", frames=0).types.tolist() == ["O"]
    assert gpuops.rdf(oxygens, 10, types="mass", frames=0).types.shape == (1,)
    with pytest.raises(ValueError, match=r"no 'colour'$"):
        gpuops.rdf(oxygens, 10, types="colour")
