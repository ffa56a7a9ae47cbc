"""Python's own memory runs out at one allocation after another: MemoryError, never a crash."""

import subprocess
import sys

import pytest

pytest.importorskip("_testcapi")

CALLS = [
    '_core.ladder("transpose", "cpu")',
    '_core.Call("add", (a, a), device="cpu", kernel="naive").time(0, 3, False)',
    '_core.Call("add", (a, a), device="cpu").plan()',
    '[sorted(d) for d in _core.devices("cpu")]',
    "_core.ops()",
    "_core.cpu_levels()",
    '_core.run("jacobi_step", (A, a, a), {"csr": False, "omega": 0.5}, None, CPU, None, None)',
]
PROGRAM = """
import _testcapi, numpy as np
from gpuops import _core
CPU, a, A = ("cpu", 0), np.ones(4), np.eye(4)
def call():
    return {call}
def seen(result):  # each sample is looked at: a missing one would crash
    if "total" not in result:
        return result
    return [len(result[phase]) for phase in ("kernel", "upload", "total")]
expected, failed = repr(seen(call())), 0
for n in range(400):
    _testcapi.set_nomemory(n, n + 1)
    try:
        result = call()
    except MemoryError:
        result, failed = None, failed + 1
    finally:
        _testcapi.remove_mem_hooks()
    assert result is None or repr(seen(result)) == expected, (n, result)
print(failed)
"""


@pytest.mark.parametrize("call", CALLS)
def test_each_allocation_fails_once(call):
    code = PROGRAM.format(call=call)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-800:]}"
    assert int(done.stdout) > 0
