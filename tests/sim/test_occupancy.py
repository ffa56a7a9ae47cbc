"""test_occupancy - occupancy by hand, the roofline, and the magics of notebooks."""

import numpy as np
import pytest
from sim_kernels import needs_sim

import gpuops


@pytest.mark.parametrize(
    ("cc", "threads", "registers", "shared", "blocks", "limiting"),
    [
        ("9.0", 256, 32, 0, 8, {"warps", "registers"}),
        ("9.0", 256, 33, 0, 6, {"registers"}),  # 33 x 32 are 1280 a warp, in units of 256
        ("9.0", 1024, None, 0, 2, {"warps"}),
        ("9.0", 32, None, 0, 32, {"blocks"}),
        ("9.0", 128, None, 48 * 1024, 4, {"shared memory"}),  # with 1 KiB each of the system's
        ("8.6", 1024, 64, 0, 1, {"warps", "registers"}),
        ("2.0", 192, 21, 0, 7, {"registers"}),  # 704 a warp: 46 warps
        ("1.3", 512, 16, 0, 2, {"warps", "registers"}),
        ("1.0", 256, 10, 4096, 3, {"warps", "registers"}),
        ("1.0", 64, None, 8000, 2, {"shared memory"}),
    ],
)
def test_what_fits(cc, threads, registers, shared, blocks, limiting):
    found = gpuops.occupancy(threads, registers=registers, shared=shared, cc=cc)
    assert found.blocks == blocks
    assert set(found.limiting) == limiting
    assert found.warps == blocks * -(-threads // 32)
    assert found.share == found.warps / found.most
    assert f"{blocks} blocks" in repr(found)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"threads": 513, "cc": "1.3"}, "between 1 and 512"),
        ({"threads": 0}, "between 1 and 1024"),
        ({"threads": 32, "cc": "4.2"}, "cc is one of 1.0"),
        ({"threads": 32, "registers": 256}, "between 1 and 255"),
        ({"threads": 1024, "registers": 65}, "does not fit .* registers"),
        ({"threads": 32, "shared": 300000}, "does not fit .* shared memory"),
        ({"threads": 32, "shared": -1}, "a number of bytes"),
    ],
)
def test_what_does_not_fit_is_a_sentence(words, sentence):
    with pytest.raises(ValueError, match=f"occupancy: .*{sentence}"):
        gpuops.occupancy(**words)


def test_equal_occupancies_hash_alike():
    one, same = gpuops.occupancy(256, registers=32), gpuops.occupancy(256, registers=32)
    assert one == same
    assert len({one, same, gpuops.occupancy(128)}) == 2


def test_a_roofline_has_the_bound_of_each_kernel():
    pytest.importorskip("matplotlib")
    ax = gpuops.roofline(100, 1000, {"copy": 0.5, "product": 20})
    said = [t.get_text() for t in ax.get_legend().get_texts()]
    assert said == ["copy: at most 50 GFLOP/s", "product: at most 1e+03 GFLOP/s"]
    x, roof = ax.lines[0].get_data()
    assert np.allclose(roof, np.minimum(100 * x, 1000))
    for wrong in ((100, 0, {}), (float("inf"), 9, {}), (9, 9, {"a": float("nan")})):
        with pytest.raises(ValueError, match="roofline: expected rates"):
            gpuops.roofline(*wrong)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (("add", 9, {}), "gbps is a number, not 'add'"),
        ((9, np.ones(2), {}), "gflops is a number, not array"),
        ((9, 9, {"copy": "x"}), "copy is a number, not 'x'"),
        ((9, 9, [1]), r"kernels is a mapping of names, not \[1\]"),
    ],
)
def test_a_roofline_of_what_is_no_number(wrong, words):
    with pytest.raises(TypeError, match=f"^roofline: {words}"):
        gpuops.roofline(*wrong)


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """IPython, with the extension."""
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    made = interactive.InteractiveShell.instance()
    made.run_line_magic("load_ext", "gpuops")
    yield made
    interactive.InteractiveShell.clear_instance()


@needs_sim
@pytest.mark.filterwarnings("ignore")  # IPython's own
def test_magics(shell, capsys):
    source = "__global__ void twice(float *a)\n{\n    a[threadIdx.x] *= 2;\n}\n"
    shell.run_cell_magic("kernel", "twice sim", source)
    a = np.ones(32, "f4")
    shell.user_ns["twice"][1, 32](a)
    assert (a == 2).all()
    assert shell.user_ns["twice"].source == source
    shell.run_cell_magic("kernel", "twice sim", source.replace("a[", "b["))
    assert "line 3: 'b' was not declared" in capsys.readouterr().out
    shell.run_cell_magic("kernel", "", source)
    assert "expected a name" in capsys.readouterr().out
    shell.user_ns |= {"x": a, "gpuops": gpuops}
    timing = shell.run_line_magic(
        "gpu_timeit", "gpuops.transpose(x.reshape(4, 8), device='cpu')"
    )
    assert timing.op == "transpose"
    shell.run_line_magic("gpu_timeit", "x + 1")
    assert "expected a call" in capsys.readouterr().out
