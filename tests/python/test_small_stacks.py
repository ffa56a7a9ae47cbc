"""Every operation, by every CPU kernel, in threads with small stacks: a program may give its
threads few bytes, and no frame of ours may ask for many.

A stack that is overrun kills the process, so the calls are made by this file as a program.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import gpuops
from gpuops import _core

# A loop of Python alone lives in 32 KiB.
STACKS = (128, 256)
DTYPES = ("bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
REDUCTIONS = ("sum", "prod", "min", "max", "mean", "any", "all", "argmin", "argmax")


def array(shape, dtype, seed=0):
    values = np.random.default_rng(seed).integers(0, 2, shape).astype(dtype)
    return values + values.T if len(shape) == 2 and shape[0] == shape[1] else values


def add_calls(dtype):
    a, b = array((70, 90), dtype), array((90, 70), dtype).T
    yield "add", (a, b)
    yield "add", (a[0], a[1])
    yield "multiply_add", (a, b, b)
    if dtype.startswith("float"):
        yield "fma", (b, a, b)


def transpose_calls(dtype):
    for shape, axes in (((90, 70), None), ((3, 500), None), ((9, 10, 11, 12), (2, 0, 3, 1))):
        yield "transpose", (array(shape, dtype), axes)


def reduce_calls(dtype):
    a = array((2100, 70), dtype)
    cube = array((5, 70, 130), dtype).transpose(2, 0, 1)
    for name in REDUCTIONS:
        if name in ("argmin", "argmax") and dtype in COMPLEX:
            continue
        for x, axis in ((a, 0), (a, 1), (a, None), (a[0], 0), (a[:, :7], 1), (a.T, 0)):
            yield name, (x, axis)
        if name not in ("argmin", "argmax"):
            yield name, (cube, (0, 2))


def matmul_calls(dtype):
    yield "matmul", (array((150, 140), dtype), array((140, 130), dtype))
    yield "matmul", (array((20, 30), dtype), array((30,), dtype))


def jacobi_step_calls(dtype):
    n = 300
    a, f, x = np.eye(n, dtype=dtype) + 1, array((n, 9), dtype), array((n, 9), dtype)
    csr = sparse.csr_matrix(a)
    for matrix in (a, np.asfortranarray(a), csr):
        yield "jacobi_step", (matrix, f, x)
        yield "jacobi_step", (matrix, f.copy("F"), x.copy("F"))


def rdf_calls(dtype):
    yield "rdf", (np.random.default_rng(1).random((700, 3)).astype(dtype), 0.3)


CALLS = {
    "add": (add_calls, DTYPES + COMPLEX),
    "transpose": (transpose_calls, DTYPES + COMPLEX),
    "reduce": (reduce_calls, DTYPES + COMPLEX),
    "matmul": (matmul_calls, DTYPES + COMPLEX),
    "jacobi_step": (jacobi_step_calls, ("float32", "float64", *COMPLEX)),
    "rdf": (rdf_calls, ("float32", "float64")),
}


def run_all(op, every):
    """Each call by each kernel, in a thread of its own; says before what it will do."""
    calls, dtypes = CALLS[op]
    done = 0
    for dtype in dtypes[::every]:
        for name, args in calls(dtype):
            ladder = _core.ladder("reduce" if op == "reduce" else name, "cpu")
            for kernel in [row["name"] for row in ladder]:
                print(name, kernel, dtype, [getattr(a, "shape", a) for a in args], flush=True)
                errors = []

                def call(name=name, args=args, kernel=kernel, errors=errors):
                    try:
                        getattr(gpuops, name)(*args, kernel=kernel, device="cpu")
                    except gpuops.KernelRefusedError:
                        pass
                    except BaseException as error:
                        errors.append(error)

                thread = threading.Thread(target=call)
                thread.start()
                thread.join()
                if errors:
                    raise errors[0]
                done += 1
    print("all", done)


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("kib", STACKS)
@pytest.mark.parametrize("op", CALLS)
def test_small_stack(op, kib, everything):
    root = str(Path(gpuops.__file__).parents[1])
    command = [sys.executable, __file__, op, str(kib), "1" if everything else "3"]
    env = {**os.environ, "PYTHONPATH": root}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{ran.returncode} at {ran.stdout[-200:]} {ran.stderr[-800:]}"
    assert ran.stdout.splitlines()[-1].startswith("all ")


if __name__ == "__main__":
    threading.stack_size(int(sys.argv[2]) << 10)
    run_all(sys.argv[1], int(sys.argv[3]))
