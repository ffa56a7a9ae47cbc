"""What type checkers see: a page of use is clean, a misspelt name is not."""

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import gpuops

api = pytest.importorskip("mypy.api")
HERE = Path(__file__).parent
STUB = Path(gpuops.__file__).with_name("__init__.pyi")


def checked(path: Path, cache: Path) -> str:
    """mypy's words on one file; what gpuops does inside is not the question."""
    said, failure, _ = api.run([
        "--strict", "--follow-imports=silent", "--hide-error-context", "--no-error-summary",
        f"--python-executable={sys.executable}", f"--cache-dir={cache}", str(path),
    ])  # fmt: skip
    assert not failure
    return said


@pytest.fixture(scope="module")
def cache(request):
    return request.config.cache.mkdir("mypy")


@pytest.fixture(autouse=True)
def _this_gpuops(monkeypatch):
    monkeypatch.setenv("MYPYPATH", str(Path(gpuops.__file__).parent.parent))


def test_a_page_of_use_is_clean(cache):
    assert checked(HERE / "page_of_use.py", cache) == ""


@pytest.mark.sampled(later=True)
def test_a_page_of_use_is_clean_for_pyright(tmp_path):
    pytest.importorskip("pyright")
    root = Path(gpuops.__file__).parent.parent
    page = HERE / "page_of_use.py"
    (tmp_path / page.name).write_text(page.read_text())
    facts = {"typeCheckingMode": "strict", "include": [page.name], "extraPaths": [str(root)]}
    config = tmp_path / "pyrightconfig.json"
    config.write_text(json.dumps(facts))
    asked = [sys.executable, "-m", "pyright", "--outputjson", "-p", str(config),
             "--pythonpath", sys.executable]  # fmt: skip
    said = json.loads(subprocess.run(asked, capture_output=True, text=True).stdout)
    assert said["summary"]["filesAnalyzed"] == 1
    assert said["generalDiagnostics"] == []


MISTAKES = """\
import numpy as np
import gpuops
a = np.ones((3, 3))
gpuops.trnaspose(a)
gpuops.add(a, a, kernels="naive")
gpuops.add(a)
gpuops.ladder("add", a, a).bset
gpuops.ladder("add", a, a)["naive"].tining
gpuops.jacobi(a, a[0]).iteration
gpuops.transpose(a, 1, 0)
gpuops.reduce(a, "summ")
gpuops.rdf(a, 1.0, norm="g")
gpuops.benchmrak
gpuops.set_default_device(3)
"""


def test_mistakes_are_found(cache, tmp_path):
    page = tmp_path / "mistakes.py"
    page.write_text(MISTAKES)
    said = checked(page, cache)
    lines = {int(line.split(":")[1]) for line in said.splitlines() if ": error: " in line}
    assert lines == set(range(4, len(MISTAKES.splitlines()) + 1)), said


def stubs() -> dict[str, list[ast.FunctionDef]]:
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


@pytest.mark.parametrize("name", [n for n in stubs() if n != "load_ipython_extension"])
def test_the_stub_has_the_parameters_of_the_function(name):
    """In order, with the defaults; each overload has them all."""
    last = ["device", "kernel", "params"]
    real = inspect.signature(getattr(gpuops, name)).parameters.values()
    wanted = [p.name for p in real if p.kind is not p.VAR_POSITIONAL]
    optional = {p.name for p in real if p.default is not p.empty}
    for node in stubs()[name]:
        given = [*node.args.args, *node.args.kwonlyargs]
        assert [a.arg for a in given] + last == wanted
        assert node.args.kwarg
        assert all(a.annotation for a in given)
        count = len(node.args.args) - len(node.args.defaults)
        has_default = {a.arg for a in node.args.args[count:]}
        has_default |= {
            a.arg
            for a, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            if default
        }
        assert optional - has_default <= {*last, "out", "axis"}  # what an overload is about
        assert has_default <= optional


def test_the_stub_has_every_public_name():
    names = {
        alias.asname or alias.name
        for node in ast.parse(STUB.read_text()).body
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }
    assert names | set(stubs()) == {*gpuops.__all__, "load_ipython_extension"}


def public_functions():
    for name in gpuops.__all__:
        thing = getattr(gpuops, name)
        if name in stubs() or inspect.ismodule(thing):
            continue
        if not isinstance(thing, type):
            yield name, thing
            continue
        for key, value in vars(thing).items():
            if inspect.isfunction(value) and (key[0] != "_" or key in ("__init__", "__call__")):
                yield f"{name}.{key}", value


@pytest.mark.parametrize(("name", "function"), [*public_functions()])
def test_what_is_not_in_the_stub_is_annotated(name, function):
    for p in inspect.signature(function).parameters.values():
        assert p.name == "self" or p.annotation is not p.empty, f"{name}: {p.name}"
    if not name.endswith("__init__"):
        assert inspect.signature(function).return_annotation is not inspect.Signature.empty
