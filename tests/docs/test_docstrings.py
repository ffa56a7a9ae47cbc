"""The docstrings are the reference: each public name has the sections, all its arguments and
members, and an example."""

import dataclasses
import inspect
import re
from typing import Any

import pytest

import gpuops
from gpuops._call.docstring import completed, entries, names, sections

PUBLIC = {name: getattr(gpuops, name) for name in gpuops.__all__}
FUNCTIONS = {
    name: thing
    for name, thing in {
        **PUBLIC,
        "load_ipython_extension": gpuops.load_ipython_extension,
    }.items()
    if callable(thing) and not isinstance(thing, type)
}
CLASSES = {name: thing for name, thing in PUBLIC.items() if isinstance(thing, type)}
RAISES_NOTHING = {"get_num_threads", "is_available"}  # as they say


def test_no_name_is_left_out():
    named = {*FUNCTIONS, *CLASSES, "course", "errors"}
    assert named == {*gpuops.__all__, "load_ipython_extension"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    function = FUNCTIONS[name]
    found = sections(function.__doc__)
    assert found[""][:1].isupper()
    parameters = inspect.signature(function).parameters
    assert ("Parameters" in found) == bool(parameters)
    told = {n for entry in entries(found.get("Parameters", "")) for n in names(entry)}
    assert told == set(parameters)
    assert found["Returns"]
    if name in RAISES_NOTHING:
        assert "raises nothing" in found[""]
    else:
        assert found["Raises"]
    assert re.search(r"^>>> .*\bgpuops\b", found["Examples"], re.M)
    heads = [head for head in found if head]
    order = ["Parameters", "Returns", "Raises", "Warns", "See Also", "Notes", "Examples"]
    assert heads == sorted(heads, key=order.index)


def members(kind: type) -> set[str]:
    """What a class of ours has beyond those of Python's that it is made of."""
    ours = [c for c in kind.__mro__ if c.__module__.startswith("gpuops")]
    names = {name for c in ours for name in vars(c)}
    if dataclasses.is_dataclass(kind):
        names |= {field.name for field in dataclasses.fields(kind)}
    names |= set(getattr(kind, "_fields", ())) if not issubclass(kind, tuple) else set()
    return {name for name in names if name[0] != "_"}


def has_a_word(kind: type, name: str, told: dict[str, Any]) -> bool:
    if any(name in names(entry) for entry in told):
        return True
    member = inspect.getattr_static(kind, name, None)
    is_code = inspect.isroutine(member) or isinstance(member, (property, classmethod))
    return is_code and bool(getattr(kind, name).__doc__)


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    kind = CLASSES[name]
    if issubclass(kind, Exception):  # raised, never made: fields in its first sentence
        assert kind.__doc__
        assert all(f"`{field}`" in kind.__doc__ for field in vars(kind).get("_fields", ()))
        return
    found = sections(kind.__doc__)
    assert re.search(r"^>>> .*\bgpuops\b", found["Examples"], re.M)
    told = entries(found.get("Attributes", ""))
    assert [m for m in sorted(members(kind)) if not has_a_word(kind, m, told)] == []


def test_instances_have_nothing_that_is_not_told():
    """Of classes that are no dataclasses: what __init__ sets."""
    made = [
        gpuops.poisson(4),
        gpuops.sparse(pytest.importorskip("scipy.sparse").eye_array(3)),
        gpuops.ladder("add", [1.0], 1.0, device="cpu", n_repeat=1),
        gpuops.Timer(),
    ]
    for one in made:
        told = entries(sections(type(one).__doc__).get("Attributes", ""))
        own = {name for name in vars(one) if name[0] != "_"}
        assert [n for n in own if not has_a_word(type(one), n, told)] == [], type(one)


def test_what_reduce_says_its_functions_show():
    told = sections(gpuops.sum.__doc__)["Parameters"]
    assert told == sections(gpuops.reduce.__doc__)["Parameters"].replace(
        'op : str or function\n    "sum", "prod", "min", "max", "mean", "any", "all", '
        '"argmin" or "argmax"; or a function\n    such as `max` or ``np.add``. It is the '
        "second argument; the axis comes third.\n",
        "",
    )
    assert "initial" not in gpuops.mean.__doc__
    assert "OverflowError" not in gpuops.any.__doc__
    assert gpuops.argmax.__doc__.count("axis : ") == 1


def test_without_docstrings_there_is_none_to_complete():
    def f(a):
        pass

    assert completed(f, gpuops.reduce) is None  # as with python -OO
