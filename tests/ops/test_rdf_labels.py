"""Labels of rdf that are missing, in every spelling: their points are left out."""

from __future__ import annotations

import contextlib

import engine
import numpy as np
import pytest
from engine import same_bits
from test_rdf import cloud

import gpuops

DEVICES = engine.backends()


class NAType:
    """As pandas' NA, which is neither equal to itself nor not."""

    def __ne__(self, other):
        return self

    __hash__ = None

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


NA = NAType()
NAN = float("nan")


def without(n: int, labels, there):
    points = cloud(n, np.float64, 3)
    return points, gpuops.rdf(points[there], 1, 8, types=labels, box=(2, 2, 2))


class Column:
    """A column of a table: a name, an index, and its values behind __array__."""

    def __init__(self, values):
        self.values = np.asanyarray(values)

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __len__(self):
        return len(self.values)


WORDS = ["A", "B", "A", "B", "A", "B"]
NUMBERS = [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]


@pytest.mark.parametrize("missing", [None, NAN, np.nan, np.float32("nan"), NA],
                         ids=["None", "float", "np.nan", "float32", "NA"])  # fmt: skip
@pytest.mark.parametrize("labels", [WORDS, NUMBERS], ids=["words", "numbers"])
def test_a_missing_label_leaves_its_point_out(labels, missing):
    there = np.array([1, 0, 1, 1, 0, 1], bool)
    points, want = without(6, np.array(labels)[there], there)
    given = [label if is_there else missing for label, is_there in
             zip(labels, there, strict=True)]  # fmt: skip
    objects = np.array(given, dtype=object)
    for spelled in (given, tuple(given), objects, Column(objects)):
        got = gpuops.rdf(points, 1, 8, types=spelled, box=(2, 2, 2))
        assert got.types.tolist() == sorted(set(labels))
        same_bits(got.counts, want.counts)
        same_bits(got.g, want.g)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "M8[D]", "m8[s]"])
def test_numbers_and_times_that_are_none(dtype):
    there = np.array([1, 0, 1, 1, 0, 1], bool)
    labels = np.array([1, 0, 2, 1, 0, 2]).astype(dtype)
    labels[~there] = "NaT" if dtype[0] in "Mm" else np.nan
    points, want = without(6, labels[there], there)
    got = gpuops.rdf(points, 1, 8, types=labels, box=(2, 2, 2))
    assert got.types.tolist() == np.unique(labels[there]).tolist()
    same_bits(got.counts, want.counts)


def test_masked_labels_and_strings_of_variable_length():
    there = np.array([1, 0, 1, 1, 0, 1], bool)
    points, want = without(6, np.array(WORDS)[there], there)
    strings = np.array([w if t else NAN for w, t in zip(WORDS, there, strict=True)],
                       np.dtypes.StringDType(na_object=NAN))  # fmt: skip
    for labels in (np.ma.array(WORDS, mask=~there), strings):
        got = gpuops.rdf(points, 1, 8, types=labels, box=(2, 2, 2))
        assert got.types.tolist() == ["A", "B"]
        same_bits(got.counts, want.counts)
    mixed = np.ma.array([1.0, 9, np.nan, 2], mask=[0, 1, 0, 0])
    for labels in (mixed, Column(mixed)):
        assert gpuops.rdf(points[:4], 1, 8, types=labels).types.tolist() == [1.0, 2.0]


def test_the_word_nan_is_a_label():
    points = cloud(4, np.float64, 3)
    assert gpuops.rdf(points, 1, 8, types=["nan", "A", "A", None]).types.tolist() == [
        "A",
        "nan",
    ]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_points_that_are_left_out_may_be_anywhere(device, bad):
    """As if they were not there: of arrays, of frames, beside a second set, turned, open."""
    rng = np.random.default_rng(2)
    points, labels = rng.random((40, 3)), np.array(["A", "B"] * 20, dtype=object)
    labels[[3, 11]] = None
    there = np.array([label is not None for label in labels])
    wrong = points.copy()
    wrong[[3, 11], [0, 2]] = bad
    skew = ((0, 1.0, 0.1), (1.0, 0.1, 0), (0.1, 0, 1))
    for options in ({}, {"box": (1, 1, 1)}, {"box": skew}, {"box": (1, np.inf, 1)},
                    {"exclude": np.arange(40) // 2}):  # fmt: skip
        kept = {**options}
        if "exclude" in kept:
            kept["exclude"] = kept["exclude"][there]
        want = gpuops.rdf(points[there], 0.4, 9, types=labels[there], **kept, device="cpu")
        for given in (wrong, [wrong], iter([wrong]), wrong[None],
                      gpuops.to_device(wrong, device)):  # fmt: skip
            got = gpuops.rdf(given, 0.4, 9, types=labels, **options, device=device)
            same_bits(got.counts, want.counts)
    two = gpuops.rdf(points, 0.4, 9, points2=wrong, types=(labels, labels), device=device)
    want = gpuops.rdf(points[there], 0.4, 9, points2=points[there],
                      types=(labels[there], labels[there]))  # fmt: skip
    same_bits(two.counts, want.counts)
    wrong[7, 1] = bad
    for given in (wrong, [wrong], wrong[None], gpuops.to_device(wrong, device)):
        with pytest.raises(ValueError, match=r"must be finite, but points\[7, 1\]"):
            gpuops.rdf(given, 0.4, 9, types=labels, device=device)


def test_what_would_run_is_without_them():
    points = cloud(40, np.float64, 1)
    labels = [None, *"AB" * 19, None]
    assert gpuops.explain("rdf", points, 1, 8, types=labels, device="cpu").kernel


def test_labels_of_a_table():
    """Of pandas too, where it is: strings, floats, nullable integers, categories."""
    points, there = cloud(3, np.float64, 3), [True, False, True]
    columns = [Column(np.array(["A", NA, "B"], dtype=object))]
    with contextlib.suppress(ImportError):
        import pandas

        columns += [
            pandas.Series(["A", None, "B"]), pandas.Series(["A", None, "B"], dtype="string"),
            pandas.Series([1, 2, 3], dtype="Int64").mask([False, True, False]),
            pandas.Series([1.0, NAN, 2.0]), pandas.Categorical(["A", None, "B"]),
        ]  # fmt: skip
    for labels in columns:
        got = gpuops.rdf(points, 4, 8, types=labels)
        assert got.counts.shape == (2, 2, 8)
        same_bits(got.counts[0, 1], gpuops.rdf(points[there], 4, 8).counts)
