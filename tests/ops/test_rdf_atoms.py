"""rdf of MDAnalysis' and ASE's atoms: the same as of their coordinates, boxes and labels."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from engine import same_bits
from test_rdf import cloud

import gpuops

# What these packages and their readers warn of is theirs.
pytestmark = pytest.mark.filterwarnings("default")


# ---- MDAnalysis ----


@pytest.fixture(scope="module")
def mda():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("MDAnalysis")


NAMES = ["OW", "HW1", "HW2"] * 10 + ["NA"]


@pytest.fixture
def universe(mda):
    """Ten waters and an ion, three frames, each in a box of its own."""
    n = len(NAMES)
    residues = np.arange(n) // 3
    made = mda.Universe.empty(
        n, 11, 2, atom_resindex=residues, residue_segindex=[0] * 10 + [1], trajectory=True
    )
    made.add_TopologyAttr("names", NAMES)
    made.add_TopologyAttr("elements", [name[0].replace("N", "Na") for name in NAMES])
    made.add_TopologyAttr("chainIDs", list("AB" * 15 + "C"))
    made.add_TopologyAttr("resnames", ["SOL"] * 10 + ["NA"])
    frames = np.stack([cloud(n, np.float32, s) for s in range(3)])
    boxes = np.array([[2, 2.5, 3, 90, 90, 90], [2.2, 2, 3, 90, 80, 70], [2.1] * 3 + [60.0] * 3])
    return made.load_new(frames, dimensions=boxes.astype(np.float32), order="fac")


def pairs(universe, atoms, chosen=slice(None)):
    """The same without MDAnalysis' part in it."""
    return [
        (atoms.positions.copy(), universe.dimensions.copy())
        for _ in universe.trajectory[chosen]
    ]


def test_a_group_and_its_trajectory(universe):
    oxygens, all_ = universe.select_atoms("name OW"), universe.atoms
    universe.trajectory[1]
    before = universe.trajectory.frame
    got = gpuops.rdf(all_, 0.7, 20)
    assert universe.trajectory.frame == before
    want = gpuops.rdf(pairs(universe, all_), 0.7, 20)
    assert (got.frames, got.norm) == (3, "rdf")
    same_bits(got.counts, want.counts)
    same_bits(got.g, want.g)
    for given in (universe, universe.residues, universe.segments, universe.trajectory):
        same_bits(gpuops.rdf(given, 0.7, 20).counts, want.counts)
    for chosen in (slice(1, None), slice(None, None, 2), [2, 0], np.array([1])):
        got = gpuops.rdf(oxygens, 0.7, 20, frames=chosen)
        want = gpuops.rdf(pairs(universe, oxygens, chosen), 0.7, 20)
        same_bits(got.counts, want.counts)
    thin = gpuops.rdf(universe.trajectory[::2], 0.7, 20)
    same_bits(
        thin.counts, gpuops.rdf(pairs(universe, all_, slice(None, None, 2)), 0.7, 20).counts
    )


def test_two_groups(universe):
    one, other = universe.select_atoms("name OW"), universe.select_atoms("name HW*")
    got = gpuops.rdf(one, 0.7, 20, points2=other, exclude="residue")
    frames = pairs(universe, one)
    want = gpuops.rdf(frames, 0.7, 20, points2=[p for p, _ in pairs(universe, other)],
                      exclude=(one.resindices, other.resindices))  # fmt: skip
    same_bits(got.counts, want.counts)
    same_bits(got.g, want.g)
    # Groups that overlap: an atom is no pair with itself.
    got = gpuops.rdf(one, 0.7, 20, points2=universe.atoms, exclude="atom")
    both = gpuops.rdf(one, 0.7, 20).counts * 2 + gpuops.rdf(one, 0.7, 20, points2=(
        universe.atoms - one)).counts  # fmt: skip
    same_bits(got.counts, both)


@pytest.mark.parametrize(
    ("word", "attribute"),
    [("residue", "resindices"), ("segment", "segindices"), ("atom", "indices")],
)
def test_words_for_exclusions(universe, word, attribute):
    atoms = universe.atoms
    got = gpuops.rdf(atoms, 0.7, 20, exclude=word)
    labels = getattr(atoms, attribute)
    same_bits(got.counts, gpuops.rdf(pairs(universe, atoms), 0.7, 20, exclude=labels).counts)
    same_bits(got.counts, gpuops.rdf(atoms, 0.7, 20, exclude=labels).counts)


def test_labels_that_are_no_integers(universe):
    atoms = universe.atoms
    labels = np.unique(atoms.chainIDs, return_inverse=True)[1]
    want = gpuops.rdf(atoms, 0.7, 20, exclude=labels).counts
    same_bits(gpuops.rdf(atoms, 0.7, 20, exclude="chain").counts, want)
    one, other = universe.select_atoms("chainID B"), universe.select_atoms("chainID A B")
    got = gpuops.rdf(one, 0.7, 20, points2=other, exclude="chain").counts
    want = gpuops.rdf(one, 0.7, 20, points2=universe.select_atoms("chainID A")).counts
    same_bits(got, want)


def test_words_for_types(universe):
    atoms = universe.atoms
    for word in ("element", "elements", "name", "resname"):
        labels = {"element": atoms.elements, "name": atoms.names, "resname": atoms.resnames}
        got = gpuops.rdf(atoms, 0.7, 20, types=word)
        want = gpuops.rdf(pairs(universe, atoms), 0.7, 20, types=labels[word.rstrip("s")])
        assert got.types.tolist() == want.types.tolist()
        same_bits(got.counts, want.counts)
    assert gpuops.rdf(atoms, 0.7, 20, types="element").types.tolist() == ["H", "Na", "O"]
    with pytest.raises(ValueError, match=r"exclude='fragment': the atoms .* no fragindices"):
        gpuops.rdf(atoms, 0.7, 20, exclude="fragment")
    with pytest.raises(
        ValueError, match=r"types='colour': the atoms of this topology have no 'colour'$"
    ):
        gpuops.rdf(atoms, 0.7, 20, types="colour")


def test_a_group_that_changes(universe):
    near = universe.select_atoms("around 0.9 name NA", updating=True)
    sizes = [len(near) for _ in universe.trajectory]
    assert len(set(sizes)) > 1
    got = gpuops.rdf(near, 0.7, 20, exclude="residue", types="element")
    want = 0
    for step in universe.trajectory:
        each = gpuops.rdf(near.positions, 0.7, 20, exclude=near.resindices, types=near.elements,
                          box=step.dimensions)  # fmt: skip
        want = want + each.counts
        assert each.types.tolist() == got.types.tolist()
    same_bits(got.counts, want)


def test_boxes_of_a_trajectory(universe):
    atoms = universe.atoms
    limits = [gpuops.rdf(atoms, frames=[k]).edges[-1] for k in range(3)]
    assert len(set(limits)) == 3
    assert gpuops.rdf(atoms).edges[-1] == min(limits)
    got = gpuops.rdf(atoms, 0.7, 20, box=(2, 2, 2))
    want = gpuops.rdf([p for p, _ in pairs(universe, atoms)], 0.7, 20, box=(2, 2, 2))
    same_bits(got.counts, want.counts)
    same_bits(got.g, want.g)
    universe.trajectory[0].dimensions = None
    assert gpuops.rdf(atoms, 0.7, 20, frames=[0]).norm == "density"


def test_a_trajectory_stands_where_it_stood_after_an_error(universe):
    universe.trajectory[2]
    with pytest.raises(
        ValueError, match=r"faces of the box of frame 1, .* leave r_max out"
    ) as caught:
        gpuops.rdf(universe.atoms, 0.95)
    assert universe.trajectory.frame == 2
    assert caught.value.partial.frames == 1


def test_bad_atoms(mda, universe):
    atoms = universe.atoms
    with pytest.raises(ValueError, match="different universes"):
        gpuops.rdf(atoms, 1, points2=mda.Universe.empty(3, trajectory=True).atoms)
    with pytest.raises(
        TypeError, match=r"MDAnalysis' atoms, and points2 a ndarray: give atoms"
    ):
        gpuops.rdf(atoms, 1, points2=np.ones((3, 3)))
    with pytest.raises(ValueError, match=r"types must hold 31 labels, not shape \(3,\)"):
        gpuops.rdf(atoms, 0.7, types=[1, 2, 3])
    for one, words in (
        (atoms[0], r"single Atom, .* universe\.atoms\[\[atom\.index"),
        (atoms.residues[0], r"single Residue, .* pass residue\.atoms"),
    ):
        with pytest.raises(TypeError, match=f"rdf: points is a {words}"):
            gpuops.rdf(one, 0.7, frames=[0])
        with pytest.raises(TypeError, match=f"rdf: points2 is a {words}"):
            gpuops.rdf(atoms, 0.7, points2=one)
    with pytest.raises(ValueError, match="exclude='bond': the atoms of this topology have no"):
        gpuops.rdf(atoms, 0.7, exclude="bond")
    with pytest.raises(ValueError, match="the universe of points has no trajectory, and so no"):
        gpuops.rdf(mda.Universe.empty(3).atoms, 0.7)


def test_groups_are_no_frames(universe):
    """Two groups were counted as two frames, each with itself."""
    for points in ([universe.atoms[:9], universe.atoms[9:]], iter([universe.atoms])):
        with pytest.raises(TypeError, match="a sequence of MDAnalysis' groups, each of which"):
            gpuops.rdf(points, 0.7)


# ---- beside InterRDF ----


@pytest.fixture(scope="module")
def real(mda):
    """Ten frames of a protein in water, in a rhombic dodecahedron."""
    files = pytest.importorskip("MDAnalysisTests.datafiles")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mda.Universe(files.GRO, files.XTC)


def near_an_edge(first, second, dimensions, edges):
    """How many pairs are so near to an edge that float32's box decides about their bin."""
    from MDAnalysis.lib.distances import capped_distance

    r = capped_distance(first, second, edges[-1] + 0.1, box=dimensions)[1]
    gap = abs(r / edges[1] - np.rint(r / edges[1]))
    return int((gap * edges[1] < 1e-4).sum())


@pytest.mark.sampled(later=True)
def test_interrdf_counts_the_same(real):
    """But for pairs on an edge: both round, and neither as the other."""
    InterRDF = pytest.importorskip("MDAnalysis.analysis.rdf").InterRDF
    water = real.select_atoms("resname SOL")[: 4 * 1500]
    oxygens, hydrogens = water.select_atoms("name OW"), water.select_atoms("name HW1 HW2")
    for other, twice in ((None, 2), (hydrogens, 1)):
        theirs = InterRDF(oxygens, oxygens if other is None else other, nbins=60, range=(0, 12),
                          exclude_same="residue").run(stop=3)  # fmt: skip
        got = gpuops.rdf(oxygens, 12.0, 60, points2=other, exclude="residue", frames=slice(3))
        doubtful = 0
        for step in real.trajectory[:3]:
            second = oxygens if other is None else other
            doubtful += near_an_edge(oxygens.positions, second.positions, step.dimensions,
                                     got.edges)  # fmt: skip
        apart = abs(got.counts * twice - theirs.results.count).sum()
        assert apart <= 2 * doubtful
        assert apart < 1e-4 * theirs.results.count.sum()
        # InterRDF normalises with the excluded pairs too, and by the mean volume.
        n, n2 = len(oxygens), len(oxygens if other is None else other)
        excluded = n if other is None else 2 * n
        np.testing.assert_allclose(
            got.g, theirs.results.rdf * (n * n2) / (n * n2 - excluded), rtol=2e-3, atol=2e-3
        )


def test_interrdfs_own_test_data(mda):
    """Two waters, all distances known: eight pairs of O and H, four without the bonds."""
    files = pytest.importorskip("MDAnalysisTests.datafiles")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        two = mda.Universe(files.two_water_gro, in_memory=True)
    for atom, (x, y) in zip(two.atoms, zip([1] * 3 + [2] * 3, [2, 1, 3] * 2, strict=True),
                            strict=True):  # fmt: skip
        atom.position = x, y, 0.0
    two.trajectory.dimensions_array = np.full((1, 6), 90.0)
    oxygens, hydrogens = two.select_atoms("name OW"), two.select_atoms("name HW1 HW2")
    every = gpuops.rdf(oxygens, 15.0, 75, points2=hydrogens)
    assert every.counts.sum() == 8
    assert (every.counts == 4).sum() == 2
    assert gpuops.rdf(oxygens, 15.0, 75, points2=hydrogens, exclude="residue").counts.sum() == 4
    # Within one set a pair counts once, where InterRDF has it twice, and each atom with itself.
    assert gpuops.rdf(hydrogens, 15.0, 75, exclude="residue").counts.sum() == 8 // 2


def test_water(real):
    """O-O, O-H and H-H of a real frame: nothing is left of the molecules themselves."""
    water = real.select_atoms("resname SOL and not name MW")
    got = gpuops.rdf(water, 9.0, 180, types="name", exclude="residue", frames=[0])
    assert got.types.tolist() == ["HW1", "HW2", "OW"]
    near = got.r < 1.4
    assert got.g[..., near].max() == 0
    shell = got.first_shell("OW", "OW")
    assert abs(shell.r - 2.78) < 0.05
    assert abs(got.coordination(3.4)[2, 2] - 4.66) < 0.1
    everything = gpuops.rdf(water, 9.0, 180, types="name", frames=[0])
    assert everything.g[..., near].max() > 10


# ---- ASE ----


@pytest.fixture(scope="module")
def ase():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("ase.build")
        return pytest.importorskip("ase")


@pytest.fixture
def salt(ase):
    crystal = ase.build.bulk("NaCl", "rocksalt", a=5.64, cubic=True).repeat(3)
    crystal.rattle(0.05, seed=1)
    return crystal


def test_atoms(ase, salt):
    got = gpuops.rdf(salt, types="element")
    assert got.types.tolist() == ["Cl", "Na"]
    assert got.edges[-1] == pytest.approx(5.64 * 3 / 2)
    want = gpuops.rdf(salt.positions, 5.64 * 1.5, types=salt.get_chemical_symbols(),
                      box=salt.cell.array)  # fmt: skip
    same_bits(got.counts, want.counts)
    assert abs(got.first_shell("Na", "Cl").coordination - 6) < 0.1
    for axes in ((True, True, False), (False, True, True), (True, False, False)):
        salt.pbc = axes
        got = gpuops.rdf(salt, 8.0)
        assert got.norm == "density"
        lengths = np.where(axes, 3 * 5.64, np.inf)
        same_bits(got.counts, gpuops.rdf(salt.positions, 8.0, box=lengths).counts)
    salt.pbc = False
    same_bits(gpuops.rdf(salt, 8.0).counts, gpuops.rdf(salt.positions, 8.0).counts)
    same_bits(gpuops.rdf(salt, 8.0, box=salt.cell.array).counts,
              gpuops.rdf(salt.positions, 8.0, box=salt.cell.array).counts)  # fmt: skip


def test_slabs_of_any_cell(ase):
    slab = ase.build.fcc111("Cu", (4, 4, 3), a=3.6)  # its third row is all zeros
    assert not slab.pbc[2]
    assert not slab.cell.array[2].any()
    slab.rattle(0.01, seed=2)
    slab.rotate(33, "y", rotate_cell=True)
    got = gpuops.rdf(slab, 4.0, 40)
    wide = slab.copy()
    wide.cell[2] = np.cross(*slab.cell.array[:2]) * 10
    want = gpuops.rdf(wide.positions, 4.0, 40, box=wide.cell.array)
    same_bits(got.counts, want.counts)


def test_lists_of_atoms(ase, salt):
    frames = []
    for k in range(4):
        frame = salt.copy()
        frame.rattle(0.1, seed=k)
        frame.set_cell(frame.cell * (1 + 0.01 * k), scale_atoms=True)
        frames.append(frame[: len(frame) - 5 * k])
    frames[3].symbols[0] = "K"
    got = gpuops.rdf(frames, types="element")
    assert got.types.tolist() == ["Cl", "K", "Na"]
    assert got.frames == 4
    assert got.edges[-1] == pytest.approx(5.64 * 1.5)
    want = 0
    for frame in frames:
        symbols = np.array(frame.get_chemical_symbols())
        sodium = frame.positions[symbols == "Na"]
        want = want + gpuops.rdf(sodium, bins=got.edges, box=frame.cell.array).counts
    same_bits(got.counts[2, 2], want)
    same_bits(gpuops.rdf(iter(frames[:3]), 8.0, types="element").counts,
              gpuops.rdf(frames[:3], 8.0, types="element").counts)  # fmt: skip
    with pytest.raises(
        ValueError, match=r"types has 'K', which the first frame lacks.* frame 3"
    ):
        gpuops.rdf(iter(frames), 8.0, types="element")


def test_exclusions_and_two_sets(ase):
    water = ase.build.molecule("H2O")
    box = ase.Atoms(cell=(9, 9, 9), pbc=True)
    rng = np.random.default_rng(4)
    for _ in range(40):
        one = water.copy()
        one.translate(rng.random(3) * 9)
        box += one
    box.new_array("residuenumbers", np.arange(120) // 3)
    box.set_tags(np.arange(120) // 3)
    want = gpuops.rdf(box.positions, 4.0, 40, box=(9, 9, 9), exclude=np.arange(120) // 3)
    for word in ("residue", "tags", "residuenumbers"):
        same_bits(gpuops.rdf(box, 4.0, 40, exclude=word).counts, want.counts)
    oxygen, rest = box[box.symbols == "O"], box[box.symbols == "H"]
    got = gpuops.rdf(oxygen, 4.0, 40, points2=rest, exclude="residue", types="element")
    assert [t.tolist() for t in got.types] == [["O"], ["H"]]
    by_type = gpuops.rdf(box, 4.0, 40, exclude="residue", types="element")
    same_bits(got.counts[0, 0], by_type.counts[1, 0])
    both = gpuops.rdf([oxygen] * 2, 4.0, 40, points2=rest, exclude="residue")
    same_bits(both.counts, 2 * got.counts[0, 0])
    with pytest.raises(
        ValueError, match=r"exclude='colour': these Atoms have only numbers, pos"
    ):
        gpuops.rdf(box, 4.0, exclude="colour")
    with pytest.raises(TypeError, match=r"ASE's Atoms, and points2 a ndarray"):
        gpuops.rdf(box, 4.0, points2=box.positions)


def test_ases_own_distribution(ase, salt):
    """get_rdf divides by N where an ideal gas has N - 1 other atoms."""
    get_rdf = pytest.importorskip("ase.geometry.rdf").get_rdf
    got = gpuops.rdf(salt, 8.0, 40)
    theirs, r = get_rdf(salt, 8.0, 40)
    np.testing.assert_allclose(got.r, r)
    n = len(salt)
    np.testing.assert_allclose(got.g * (n - 1) / n, theirs, rtol=2e-3, atol=1e-9)


# ---- neither is needed ----


def test_nothing_is_imported():
    code = (
        "import sys, numpy as np, gpuops\n"
        "gpuops.rdf(np.ones((4, 3)), 1)\n"
        "gpuops.rdf(iter([np.ones((4, 3))]), 1)\n"
        "print([name for name in ('MDAnalysis', 'ase') if name in sys.modules])"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "[]"
