"""What importing brings, what the package offers, and what it says of itself.

tests/builds/test_build.py shows that it calls no driver, prints nothing and costs little.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpuops

PACKAGE = Path(gpuops.__file__).parent


def python(code: str, **environment) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-P", "-c", code],  # -P: not the folder we are in
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )


def test_import_loads_little():
    code = "import sys, numpy; old = set(sys.modules); import gpuops; "
    code += "print(set(sys.modules) - old)"
    loaded = python(code).stdout
    for module in ("scipy", "matplotlib", "ml_dtypes", "tqdm", "argparse", "gpuops.timing",
                   "gpuops.ladders", "gpuops.demo", "html", "json", "pathlib",
                   "gpuops._rdf.run", "gpuops.solver", "gpuops._show",
                   ):  # fmt: skip
        assert f"'{module}'" not in loaded, module


def test_a_subinterpreter_gets_a_sentence():
    interpreters = pytest.importorskip("_xxsubinterpreters")
    said = python(f"""
import {interpreters.__name__} as them
try:
    them.run_string(them.create(), "import gpuops._core")
except Exception as error:
    print(error)
""")
    assert "gpuops: cannot be imported in a subinterpreter" in said.stdout


def test_every_public_name_is_there():
    assert len(set(gpuops.__all__)) == len(gpuops.__all__)
    for name in gpuops.__all__:
        assert getattr(gpuops, name) is not None
        assert name in dir(gpuops)
    for name in (
        "add",
        "sum",
        "benchmark",
        "kernels",
        "explain",
        "show_config",
        "jacobi",
        "rdf",
    ):
        assert callable(getattr(gpuops, name))
        assert getattr(gpuops, name).__doc__
    with pytest.raises(AttributeError, match="'gpuops' has no attribute 'nope'"):
        _ = gpuops.nope


def test_a_file_that_is_called_as_numpy_is(tmp_path):
    """Of a learner's own, beside what they run: the import named no file."""
    (tmp_path / "numpy.py").write_text("")
    code = "try: import gpuops\nexcept ImportError as error: print(error)"
    said = python(code, PYTHONPATH=str(tmp_path)).stdout
    assert said.endswith(f"found {tmp_path}/numpy.py in its place: rename that file\n")


def test_functions_stay_functions_when_modules_are_imported():
    code = (
        "import gpuops.jacobi, gpuops.rdf, gpuops.devices, gpuops;"
        "print(callable(gpuops.jacobi), callable(gpuops.rdf), callable(gpuops.devices))"
    )
    assert python(code).stdout.split() == ["True"] * 3


def test_python_m_gpuops():
    def run(*arguments):
        command = [sys.executable, "-m", "gpuops", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    text = run()
    assert text.returncode == 0
    assert text.stderr == ""
    for word in ("gpuops", "compiler", "C flags", "CUDA build", "CPU", "threads", "device"):
        assert word in text.stdout
    facts = json.loads(run("--json").stdout)
    assert facts["gpuops"] == gpuops.__version__
    assert facts["devices"][0]["device"] == "cpu"
    if not gpuops.is_available("cuda"):
        assert facts["unavailable"]["cuda"]
        assert facts["unavailable"]["cuda"] in text.stdout
    assert run("--version").stdout == f"gpuops {gpuops.__version__}\n"
    assert run("--nope").returncode == 2
    assert run("fly").returncode == 2


def test_show_config(capsys):
    gpuops.show_config()
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) <= 40
    assert gpuops.show_config("dicts")["threads"] == gpuops.get_num_threads()
    with pytest.raises(ValueError, match="mode is 'stdout' or 'dicts'"):
        gpuops.show_config("xml")


def test_a_missing_library_is_said_not_raised_at_import(monkeypatch, tmp_path):
    package = tmp_path / "gpuops"
    shutil.copytree(
        os.path.dirname(gpuops.__file__), package, ignore=shutil.ignore_patterns("_cuda.so")
    )
    code = (
        "import gpuops\n"
        "print(gpuops.is_available('cuda'), gpuops.sum([1, 2]))\n"
        "try: gpuops.add(1, 2, device='cuda')\n"
        "except gpuops.DeviceUnavailableError as e: print(e)"
    )
    done = python(code, PYTHONPATH=str(tmp_path))
    first, second = done.stdout.splitlines()
    assert first == "False 3"
    assert "no cuda backend" in second


def imported_by(path: Path) -> set[str]:
    """Modules of the package that a file imports, also inside functions; not for types only."""
    folder, found = path.parent, set()
    todo: list[ast.AST] = [ast.parse(path.read_text())]
    for node in todo:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        todo += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom) and node.level:
            base = folder if node.level == 1 else folder.parents[node.level - 2]
            base = base.joinpath(*(node.module or "").split(".")) if node.module else base
            files = [base.with_suffix(".py"), *(base / f"{a.name}.py" for a in node.names)]
            found |= {str(file) for file in files if file.is_file()}
    return found


def test_no_circle_of_imports():
    files = [p for p in PACKAGE.rglob("*.py") if "notebooks" not in p.parts]
    imports = {str(p): imported_by(p) for p in files}
    while free := [name for name, needed in imports.items() if not needed & imports.keys()]:
        for name in free:
            del imports[name]
    assert not imports
