"""demo: reads a simulation's frame and finds its structure; `make demo` runs all of it."""

from __future__ import annotations

import numpy as np
import pytest

from gpuops import __main__ as command
from gpuops import demo


def write_gro(path, points, names, box):
    lines = ["water", str(len(points))]
    for i, (name, (x, y, z)) in enumerate(zip(names, points, strict=True)):
        lines.append(f"{i // 3 + 1:5d}{'SOL':<5}{name:>5}{i + 1:5d}{x:8.3f}{y:8.3f}{z:8.3f}")
    path.write_text("\n".join([*lines, " ".join(f"{v:.5f}" for v in box), ""]))


@pytest.fixture
def ice(tmp_path):
    """Oxygens on a cubic lattice of 0.28 nm, hydrogens near them."""
    n = 10
    oxygens = 0.28 * np.stack(np.meshgrid(*[np.arange(n)] * 3), axis=-1).reshape(-1, 3)
    shifts = np.array([(0, 0, 0), (0.1, 0, 0), (0, 0.1, 0)])
    points = (oxygens[:, None] + shifts).reshape(-1, 3)
    path = tmp_path / "ice.gro"
    write_gro(path, points, ["OW", "HW1", "HW2"] * n**3, (2.8, 2.8, 2.8))
    return path


def test_read_gro(ice, tmp_path):
    frame = demo.read_gro(ice)
    assert frame.points.shape == (3000, 3)
    assert frame.names[:4].tolist() == ["OW", "HW1", "HW2", "OW"]
    assert frame.molecules[:7].tolist() == [1, 1, 1, 2, 2, 2, 3]
    assert frame.molecules[-1] == 1000
    np.testing.assert_allclose(frame.points[1], (0.1, 0, 0), atol=1e-6)
    np.testing.assert_array_equal(frame.box, 2.8 * np.eye(3))
    write_gro(tmp_path / "a.gro", frame.points[:3], frame.names[:3], range(1, 10))
    assert demo.read_gro(tmp_path / "a.gro").box.tolist() == [[1, 4, 5], [6, 2, 7], [8, 9, 3]]


def test_water(ice, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    output = tmp_path / "demo.png"
    demo.water(ice, output, "cpu")
    said = capsys.readouterr().out
    assert "1000 molecules" in said
    peak = float(said.split("r = ")[1].split(" nm")[0])
    assert abs(peak - 0.28) < 0.005
    assert output.read_bytes().startswith(b"\x89PNG")


def test_table(capsys, monkeypatch):
    small = demo.Case(
        "add", "3 float64", (demo.gpuops.add, (np.ones(3), 1.0), {}), lambda: np.ones(3) + 1
    )
    monkeypatch.setattr(demo, "cases", lambda: [small])
    demo.print_table(["cpu"])
    said = capsys.readouterr().out
    line = said.splitlines()[1].split()
    assert line[:4] == ["add", "3", "float64", "cpu"]
    assert line[-1] == "0"
    assert said.splitlines()[0].split().count("kernel") == 1
    assert "\x1b" not in said


def test_differences_are_relative():
    assert demo.difference(np.array([1000.001, 0.0]), np.array([1000.0, 0.0])) < 2e-6
    assert demo.difference(np.array([3, 4]), np.array([3, 4])) == 0
    assert demo.difference(np.array([3, 5]), np.array([3, 4])) == 0.25
    assert demo.difference(np.zeros(2), np.zeros(2)) == 0


def test_steps_are_shown_on_a_terminal(capsys, monkeypatch):
    with demo.step("[1/6] add"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(demo.sys.stderr, "isatty", lambda: True)
    with demo.step("[1/6] add"):
        assert capsys.readouterr().err == "[1/6] add ..."
    assert capsys.readouterr().err == "\r\x1b[K"


def test_the_end_of_the_curve_is_explained(ice):
    frame = demo.read_gro(ice)
    end, why = demo.tail(frame, demo.water_rdf(frame, "cpu"))
    assert f"{end:.3f}; 1 is water without structure" in why
    names = np.where(np.arange(3000) < 300, "CA", frame.names)
    mixed = demo.Frame(names, frame.points, frame.box, frame.molecules)
    end, why = demo.tail(mixed, demo.water_rdf(mixed, "cpu"))
    assert "not 1" in why
    assert "300 other atoms" in why


def test_bonds_are_no_peak(ice):
    """Within a molecule O and H are 0.1 nm apart; the next H is 0.18 nm away."""
    result = demo.water_rdf(demo.read_gro(ice), "cpu")
    g = demo.curves(result)
    assert g["O-H"][result.r < 0.17].max() == g["H-H"][result.r < 0.17].max() == 0
    assert g["O-H"].max() > 5


def test_without_the_data(capsys, monkeypatch):
    monkeypatch.setattr(demo, "print_table", lambda devices: None)
    monkeypatch.setattr(demo, "find_water", lambda: None)
    assert demo.main([]) == 1
    assert "pip install MDAnalysisTests" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["demo", "--device", "nope"], "there is no device 'nope'"),
        (["--json", "demo"], "--json is for the configuration"),
    ],
)
def test_words_of_the_command_that_do_not_fit(words, sentence, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(words)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
