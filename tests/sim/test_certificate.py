"""test_certificate - what sim counts is what Nsight Compute counted on a GPU.

benchmarks/certify.py collects on a GPU; here, on any machine, sim is compared with its files.
"""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import gpuops

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import certificate  # noqa: E402
import certify  # noqa: E402
import certify_rows  # noqa: E402

needs_sim = pytest.mark.skipif(
    not gpuops.is_available("sim"), reason="built without the sim backend"
)


@pytest.fixture(scope="module")
def certificates():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpuops.SimWarning)  # of a machine that is busy
        return certificate.certificates()


def described(row):
    said = [f"{name}: {d}" for name, some in row.differences.items() for d in some]
    return f"{row.op} {row.kernel}: {'stale' if row.stale else '; '.join(said)}"


@needs_sim
def test_most_rows_are_exact(certificates):
    assert certificates, "no GPU on record: python benchmarks/certify.py --collect"
    for c in certificates:
        others = "\n".join(described(row) for row in c.rows if not row.exact)
        assert c.share >= certificate.ENOUGH, f"{c.golden['device']}: {c}\n{others}"


@needs_sim
def test_the_page_shows_what_was_counted(certificates):
    page = (BENCHMARKS.parent / "docs" / "certificate.md").read_text()
    begin, end = (f"<!-- certificate: {word} -->\n" for word in ("begin", "end"))
    shown = page.partition(begin)[2].partition(end)[0]
    counted = "\n\n".join(map(certificate.table, certificates))
    assert shown.strip() == counted.strip(), "run python benchmarks/tables.py"


@needs_sim
def test_what_differs_has_a_cause_and_what_is_equal_has_none(certificates):
    for c in certificates:
        for row in c.rows:
            if not row.stale:
                assert bool(row.cause) == bool(row.differences), described(row)
    known = set(certify_rows.rows("sim"))
    assert set(certify_rows.CAUSES) <= known, "a cause names a row that is in no table"


@needs_sim
@pytest.mark.filterwarnings("default")
def test_stale_rows_are_told(certificates):
    for c in certificates:
        stale = [f"{row.op} {row.kernel}" for row in c.rows if row.stale]
        if stale:
            warnings.warn(
                f"changed since they were counted on {c.golden['device']}: {', '.join(stale)}",
                stacklevel=1,
            )


@needs_sim
def test_a_candidate_waits_for_its_gpu(monkeypatch, tmp_path):
    """A row that is chosen by itself and that no GPU ran is told; a candidate is left out."""
    (tmp_path / "gpu.json").write_text('{"rows": {}}')
    monkeypatch.setattr(certificate, "RESULTS", tmp_path)
    monkeypatch.setattr(certificate, "rows", lambda backend: [("transpose", "tiled")])
    assert [row.stale for c in certificate.certificates() for row in c.rows] == [True]
    monkeypatch.setattr(certificate, "candidates", lambda backend: {("transpose", "tiled")})
    assert [c.rows for c in certificate.certificates()] == [[]]


# ---- banks, as Nsight Compute counted them on an H200 ----

LANES = range(32)
MEASURED = [  # bytes, the words that the lanes want, wavefronts and ideal of a load, of a store
    (4, [i for i in LANES], (1, 1), (1, 1)),
    (4, [2 * i for i in LANES], (2, 1), (2, 1)),
    (4, [32 * i for i in LANES], (32, 1), (32, 1)),
    (8, [i for i in LANES], (2, 2), (2, 2)),
    (8, [0 for i in LANES], (1, 1), (2, 2)),
    (8, [i // 2 for i in LANES], (1, 1), (2, 2)),
    (8, [i % 2 for i in LANES], (1, 1), (2, 2)),
    (8, [i % 4 for i in LANES], (2, 2), (2, 2)),
    (8, [i // 16 * 16 for i in LANES], (2, 2), (2, 2)),
    (8, [2 * i for i in LANES], (4, 2), (4, 2)),
    (8, [32 * i for i in LANES], (32, 2), (32, 2)),
    (16, [i for i in LANES], (4, 4), (4, 4)),
    (16, [0 for i in LANES], (2, 2), (4, 4)),
    (16, [i // 4 for i in LANES], (2, 2), (4, 4)),
    (16, [i % 4 for i in LANES], (4, 4), (4, 4)),
    (16, [2 * i for i in LANES], (8, 4), (8, 4)),
]


@pytest.mark.sampled(every=3)
@needs_sim
@pytest.mark.parametrize(("size", "words", "load", "store"), MEASURED)
def test_banks_are_counted_as_on_a_gpu(size, words, load, store):
    word = {4: "float", 8: "float2", 16: "float4"}[size]
    kernel = gpuops.compile(f"""
    __global__ void banks(float *data, const int *words)
    {{
        __shared__ {word} a[1024];
        {word} *const out = reinterpret_cast<{word} *>(data);
        const int at = words[threadIdx.x];
        a[at] = out[threadIdx.x];
        __syncthreads();
        out[threadIdx.x] = a[at];
    }}
    """)
    out = np.zeros(32 * size // 4, np.float32)
    p = gpuops.profile(lambda: kernel[1, 32](out, np.array(words, np.int32)))["banks"]
    for kind, (wavefronts, ideal) in (("load", load), ("store", store)):
        counts = p.counts("shared", kind)
        assert (counts.requests, counts.parts, counts.ideal) == (1, wavefronts, ideal), kind


# ---- what is known of a row depends on its source ----


def row(**kernels):
    sim = {"k": {"launches": 1, "load requests": 10, "load sectors": 40}}
    return certificate.Row("add", "naive", sim, kernels, stale=False)


def test_a_row_is_exact_only_if_each_counter_is_equal():
    equal = {"launches": 1, "load requests": 10, "load sectors": 40, "active threads": 3.0}
    assert row(k=equal).exact
    assert row(k={**equal, "load sectors": 41}).differences == {
        "k": ["load sectors 41 for 40 (+1)"]
    }
    assert not row(k={**equal, "launches": 2}).exact
    assert not row(k=equal, other={"launches": 1}).exact
    assert not row().exact
    stale = certificate.Row("add", "naive", {}, {}, stale=True)
    assert not stale.exact
    assert certificate.Certificate({}, [row(k=equal), stale]).share == 1.0


def test_a_source_is_known_by_the_code_that_its_kernel_reaches(tmp_path, monkeypatch):
    monkeypatch.setattr(certificate, "CUDA", tmp_path)
    source, header = tmp_path / "op" / "k.cu", tmp_path / "op" / "k.h"
    source.parent.mkdir()

    def hashed(n=1, helper="return N;", kernel="*a = help();", more=""):
        certificate._definitions.cache_clear()
        header.write_text(f"enum {{ N = {n} }};\nint declared(int);\n{more}\n")
        source.write_text(
            f'#include "cuda/op/k.h"\n#define TWICE(x) (2 * (x))\n'
            f"/* said */ static int help() {{ {helper} }}\n"
            f"template <int I> struct pair {{ int i; }};\n"
            f"template <int I>\n__global__ void __launch_bounds__(32) k_kernel(int *a)\n"
            f"{{ {kernel} }}\nint launcher() {{ return 0; }}\n"
        )
        return certificate.source_hash("k_kernel")

    before = hashed()
    assert certificate.reached("k_kernel")
    assert hashed(more="int other(float); // said") == before
    assert hashed(more="int other() { return N; }\n#define M 2") == before
    assert hashed(n=2) != before
    assert hashed(helper="return N + 1;") != before
    assert hashed(kernel="*a = TWICE(help());") != before
    certificate._definitions.cache_clear()


# ---- reading what Nsight Compute writes ----


def test_launches_are_told_apart_by_the_mark_before_each_row():
    metrics = [m for some in {**certificate.EXACT, **certificate.TREND}.values() for m in some]
    head = ["ID", "Kernel Name", "Block Size", "Grid Size", *metrics]
    mark, block = f"({certify.MARK}, 1, 1)", "(256, 1, 1)"
    lines = [
        head,
        ["", "", "", "", *("unit" for _ in metrics)],
        ["0", "rdf_clear_kernel", block, "(1, 1, 1)", *("5" for _ in metrics)],
        ["1", "add_naive_kernel", mark, "(1, 1, 1)", *("5" for _ in metrics)],
        ["2", "add_naive_kernel", block, "(4, 1, 1)", *("1,000" for _ in metrics)],
        ["3", "add_naive_kernel", mark, "(2, 1, 1)", *("5" for _ in metrics)],
        ["4", "transpose_naive_kernel", block, "(4, 1, 1)", *("7" for _ in metrics)],
        ["5", "transpose_naive_kernel", block, "(4, 1, 1)", *("9" for _ in metrics)],
    ]
    report = "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines)
    made = certify.by_row(certify.launches(report), [("add", "naive"), ("transpose", "reads")])
    first = made["add naive"]["add_naive_kernel"]
    assert (first["launches"], first["load requests"]) == (1, 1000)
    second = made["transpose reads"]["transpose_naive_kernel"]
    assert (second["launches"], second["load sectors"], second["active threads"]) == (
        2,
        16,
        8.0,
    )
    assert second["source"] == certificate.source_hash("transpose_naive_kernel")


@pytest.mark.skipif(gpuops.is_available("cuda"), reason="there is a GPU to count on")
def test_without_a_gpu_nothing_is_collected():
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "certify.py", "--collect"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("certify: no GPU to count on: ")
