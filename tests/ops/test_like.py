"""test_like - explain(like=...): what a GPU that is not there would run, and what one did."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sim_kernels import needs_sim

import gpuops
from gpuops._show.gpus import GPUS

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import regret
from regret import there

pytestmark = needs_sim
RECORD = Path(__file__).parents[2] / "benchmarks/results/regret/nvidia-h200.json"
TENSOR = {"imma", "dmma", "bf16x3_small", "bf16x3_batch", "mma", "ring"}  # from 8.0 on
HOPPER = {
    "dmma_tma",
    "bf16x3_packed",
    "bf16x3",
    "wgmma_f16",
    "skinny_wgmma",
    "tf32",
    "fp16x2",
}  # of 9.0


# Kernels that are newer than most calls on file, which were not timed by them.
NEWER = ("bf16x3_batch", "tall", "outer", "outer_mma", "wgmma_f16", "dmma", "dmma_tma")


def test_the_choice_for_an_h200_is_what_was_fastest_there():
    rows = [row for row in regret.read(RECORD)["rows"] if row["op"] == "matmul"]
    rows = [regret.again(row, "H200") for row in rows]
    assert len(rows) == 13864
    assert [row["call"] for row in rows if row["refused"]] == []  # what ran there
    known = [row for row in rows if row["chosen"] in row["us"] or row["chosen"] not in NEWER]
    assert len(known) >= 0.99 * len(rows)
    found = np.array([regret.regret(row) for row in known])
    # The aim is 0.95 and 0.995.
    assert np.mean(found <= 1.05) >= 0.94
    assert np.mean(found <= 1.25) >= 0.988


def reduction(label: str) -> tuple | None:
    """The operation, the array and the axes of `sum float32 (3,5) (1,)`; None of views."""
    form = r"(\w+) (\w+) \(([\d,]+)\) *(?:\(([\d,]+)\))?"
    found = re.fullmatch(form, label)
    if not found:
        return None
    op, word, *texts = found.groups()
    shape, axes = (tuple(int(n) for n in (text or "").split(",") if n) for text in texts)
    return op, there(word, shape), axes or None


def test_the_choice_of_a_reduction_for_an_h200_is_what_was_fastest_there():
    """The call without a name was timed too: of the kernel that ran the less of both counts."""
    found = []
    rows = json.loads(RECORD.read_text())["rows"]
    for _, _, label, chosen, times in (row for row in rows if row[0] == "reduce"):
        if (call := reduction(label)) is None:
            continue
        op, array, axis = call
        told = gpuops.explain(op, array, axis=axis, device="sim", like="H200").kernel
        mine = min(times.get(told, np.inf), times[""] if told == chosen else np.inf)
        found.append(mine / min(mine, *(us for name, us in times.items() if name)))
    assert len(found) > 800
    assert np.mean(np.array(found) <= 1.05) >= 0.95
    assert np.mean(np.array(found) <= 1.25) >= 0.99


PINNED = (
    ("float32", (4096, 4096), (4096, 4096), "bf16x3_packed", "blocktiled"),
    ("float32", (1024, 1024), (1024, 1024), "bf16x3", "blocktiled"),
    ("float32", (256, 256), (256, 256), "bf16x3_small", "small"),
    ("float32", (64, 64), (64, 64), "small", "small"),
    ("float32", (1000, 30, 20), (1000, 20, 30), "small", "naive"),
    ("float32", (8, 4096, 40), (8, 40, 4096), "bf16x3_batch", "outer"),
    ("float32", (100000, 64), (64, 32), "small", "outer"),
    ("float32", (100000, 300), (300, 100), "bf16x3", "small"),
    ("float32", (1, 4096), (4096, 4096), "gemv_col", "gemv_col"),
    ("float32", (4096, 4096), (4096, 1), "gemv_row", "gemv_col"),
    ("float32", (2000, 2000), (2000, 8), "gemv_row", "gemv_row"),
    ("float32", (33, 100000), (100000, 31), "bf16x3_batch", "gemv_row"),
    ("float32", (1001, 1003), (1003, 1005), "bf16x3_batch", "blocktiled"),
    ("float32", (16, 512, 512), (16, 512, 512), "bf16x3", "blocktiled"),
    ("float64", (4096, 4096), (4096, 4096), "dmma_tma", "blocktiled"),
    ("float64", (256, 256), (256, 256), "dmma", "small"),
    ("float64", (1001, 1003), (1003, 1005), "dmma", "blocktiled"),
    ("float64", (30, 500), (500, 30), "dmma", "gemv_row"),
    ("float64", (100000, 64), (64, 8), "dmma", "gemv_row"),
    ("float64", (4096, 4096), (4096, 1), "gemv_row", "gemv_col"),
    ("float16", (4096, 4096), (4096, 4096), "wgmma_f16", "small"),
    ("float16", (256, 256), (256, 256), "wgmma_f16", "small"),
    ("float16", (64, 256, 256), (64, 256, 256), "wgmma_f16", "small"),
    ("float16", (100000, 64), (64, 3), "ring", "naive"),
    ("float16", (8192, 8192), (8192, 1), "gemv_row", "gemv_col"),
    ("float16", (500, 40, 40), (500, 40, 40), "mma", "small"),
    ("bfloat16", (2048, 2048), (2048, 2048), "wgmma_f16", "small"),
    ("bfloat16", (1000, 20, 20), (1000, 20, 20), "small", "naive"),
    ("bfloat16", (4096, 4096), (4096, 16), "wgmma_f16", "gemv_row"),
    ("complex64", (1024, 1024), (1024, 1024), "bf16x3_packed", "blocktiled"),
    ("complex64", (40, 40), (40, 40), "naive", "naive"),
    ("complex64", (20000, 200), (200, 4), "gemv_row", "gemv_col"),
    ("complex128", (1024, 1024), (1024, 1024), "dmma_tma", "blocktiled"),
    ("complex128", (40, 40), (40, 40), "naive", "naive"),
    ("complex128", (20000, 200), (200, 4), "ring", "gemv_col"),
    ("int32", (4096, 4096), (4096, 4096), "blocktiled", "blocktiled"),
    ("int32", (1000, 1000), (1000, 1000), "small", "small"),
    ("int32", (1000, 30, 30), (1000, 30, 30), "small", "naive"),
    ("int32", (32, 20000), (20000, 32), "splitk", "splitk"),
    ("int64", (2048, 2048), (2048, 2048), "blocktiled", "blocktiled"),
    ("int64", (5, 1), (1, 5), "naive", "naive"),
    ("int64", (100, 300), (300, 100), "small", "small"),
    ("int16", (1000, 1000), (1000, 1000), "small", "blocktiled"),
    ("int16", (64, 64), (64, 64), "naive", "naive"),
    ("int8", (4096, 4096), (4096, 4096), "imma", "blocktiled"),
    ("int8", (50, 60), (60, 70), "naive", "naive"),
    ("uint8", (1000, 999), (999, 1000), "imma", "blocktiled"),
    ("uint8", (1, 3000), (3000, 40), "gemv_row", "gemv_row"),
    ("bool", (1000, 1000), (1000, 1000), "small", "blocktiled"),
    ("bool", (30, 40), (40, 50), "naive", "naive"),
)  # fmt: skip


@pytest.mark.parametrize(("word", "a", "b", "h200", "t4"), PINNED)
def test_the_kernels_of_products_are_these(word, a, b, h200, t4):
    for like, kernel in (("H200", h200), ("T4", t4)):
        told = gpuops.explain("matmul", there(word, a), there(word, b), device="sim", like=like)
        assert told.kernel == kernel, like
        own = {c.kernel: c for c in told.candidates}
        assert told.kernel_seconds == own[kernel].seconds > 0
        assert told.like == like
        assert GPUS[like].name in repr(told)
        if like == "T4":
            assert all(own[k].refusal for k in own.keys() & (TENSOR | HOPPER))


def test_precision_is_heard():
    a = there("float32", (4096, 4096))
    for precision, kernel, gets in (
        ("fast", "fp16x2", "fast"), ("tf32", "tf32", "tf32"), ("bf16", "tf32", "tf32"),
    ):  # fmt: skip
        told = gpuops.explain("matmul", a, a, precision=precision, device="sim", like="H200")
        assert (told.kernel, told.precision) == (kernel, gets)
        told = gpuops.explain("matmul", a, a, precision=precision, device="sim", like="T4")
        assert told.precision == "highest"


OTHERS = (
    ("add", ((4096, 4096), (4096, 4096)), "vectorized", "vectorized"),
    ("transpose", ((4096, 4096),), "vectorized", "vectorized"),
    ("transpose", ((33, 3, 5000),), "sectored", "sectored"),
    ("sum", ((4096, 4096),), "vectorized", "vectorized"),
    ("multiply_add", ((100, 100), (100, 100), (100, 100)), "indexed", "indexed"),
    ("transpose", ((3000001, 3),), "boxed", "boxed"),
)  # fmt: skip


@pytest.mark.parametrize(("op", "shapes", "h200", "t4"), OTHERS)
def test_other_operations_answer_too(op, shapes, h200, t4):
    for like, kernel in (("H200", h200), ("T4", t4)):
        arrays = [there("float32", shape) for shape in shapes]
        told = gpuops.explain(op, *arrays, device="sim", like=like)
        assert told.kernel == kernel, like
        assert told.kernel_seconds is None  # its candidates have an order and no times


def test_without_like_the_simulator_says_what_it_lacks():
    told = gpuops.explain("matmul", *[there("float32", (512, 512))] * 2, device="sim")
    assert told.like is None
    refusals = {c.kernel: c.refusal for c in told.candidates}
    for kernel in refusals.keys() & (TENSOR | HOPPER):
        assert refusals[kernel].endswith(", got sim")
    with pytest.raises(gpuops.KernelRefusedError, match=r"capability 8\.0 or later.*, got sim"):
        gpuops.matmul(np.ones((64, 64), "i1"), np.ones((64, 64), "i1"), device="sim",
                      kernel="imma")  # fmt: skip


def test_a_kernel_that_is_named_refuses_as_on_that_gpu():
    a = there("float32", (4096, 64)), there("float32", (64, 64))
    told = gpuops.explain("matmul", *a, kernel="skinny_wgmma", device="sim", like="H200")
    assert told.kernel == "skinny_wgmma"
    with pytest.raises(
        gpuops.KernelRefusedError, match=r"'skinny_wgmma' takes a GPU.*got 8\.0"
    ):
        gpuops.explain("matmul", *a, kernel="skinny_wgmma", device="sim", like="A100")
    with pytest.raises(gpuops.KernelRefusedError, match=r"'tensor' takes a GPU.*got 7\.5"):
        gpuops.explain("matmul", *a, kernel="tensor", device="sim", like="T4")
    with pytest.raises(gpuops.KernelRefusedError, match="'skinny_wgmma' does not take int32"):
        gpuops.explain("matmul", there("int32", (64, 64)), there("int32", (64, 64)),
                       kernel="skinny_wgmma", device="sim", like="H200")  # fmt: skip


def test_a_gpu_has_its_drivers_name_too():
    for word, name in (("H200", "NVIDIA H200"), ("RTX 4090", "NVIDIA GeForce RTX 4090")):
        short, whole = (gpuops.explain("add", np.ones(9), 1.0, device="sim", like=like)
                        for like in (word, name))  # fmt: skip
        assert str(short) == str(whole)


@pytest.mark.parametrize(
    ("words", "error", "text"),
    [
        ({"device": "sim", "like": "H300"}, ValueError,
         "like= is 'H300', expected one of H200, H100, A100, RTX 4090, T4"),
        ({"device": "cpu", "like": "H200"}, ValueError, "needs device='sim', got device='cpu'"),
        ({"like": "H200"}, ValueError, "needs device='sim', got no device"),
        ({"device": "sim", "like": 9}, TypeError, "like is the name of a GPU, got int"),
    ],
)  # fmt: skip
def test_what_is_no_such_gpu_is_said(words, error, text):
    with pytest.raises(error, match=re.escape(text)):
        gpuops.explain("add", np.ones(3), 1.0, **words)


def test_nothing_runs_like_a_gpu():
    with pytest.raises(TypeError, match="like"):
        gpuops.matmul(np.ones((3, 3)), np.ones((3, 3)), device="sim", like="H200")
