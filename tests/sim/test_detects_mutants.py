"""A mistake planted in a kernel of this package is caught and named by sim.

A file of csrc/cuda is changed in one place and compiled with a table of one row, as a backend
that lends all else from the one that is built.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sim_kernels import needs_sim

import gpuops
from gpuops._compile import simt as _simt
from gpuops._compile.built import build_info
from gpuops._show.source import folder

pytestmark = needs_sim

SIM = Path(gpuops.__file__).with_name("_sim.so")
OF_CUDA = {"launch.h"}  # which sim has of its own
# What an op's kernel files share and compile once.
HOST = {op: "device.h" for op in ("matmul", "reduce")} | {
    "rdf": "rdf/clear.cu", "transpose": "transpose/tiling.cu"
}  # fmt: skip
BACKEND = r"""
#include <dlfcn.h>
#include "core/choice.h"

const gop_host *gop_services;
static gop_backend real, mutant;
static gop_row row;
static const gop_row *const rows[] = {&row};
static const gop_candidate candidate = {&row};
static const gop_choice choice = {1, &candidate};
static const gop_ladder ladder = {1, rows, &choice};

static const gop_ladder *ladder_of(gop_op op)
{
    return op == GOP_OP_%(op)s ? &ladder : real.ladder(op);
}
static gop_status context_of(int ordinal, gop_ctx **ctx)
{
    const gop_status status = real.context(ordinal, ctx);
    if (status == GOP_OK) (*ctx)->backend = &mutant;
    return status;
}
extern "C" __attribute__((visibility("default"))) const gop_backend *
gop_backend_open(uint32_t abi, const gop_host *host)
{
    void *library = dlopen("%(library)s", RTLD_NOW | RTLD_LOCAL);
    real = *((gop_backend_open_fn)dlsym(library, "gop_backend_open"))(abi, host);
    mutant = real;
    mutant.ladder = ladder_of;
    mutant.context = context_of;
    gop_services = host;
    row = %(row)s;
    row.name = "mutant";
    row.note = "";
    row.role = GOP_CONFORMING;
    return &mutant;
}
"""
RUN = """
import sys
import numpy as np
import gpuops
from gpuops import _core
_core.load_backend("sim", sys.argv[1])
ones = np.ones
with gpuops.device("sim"):
    try:
        result = eval(sys.argv[2])
    except gpuops.DeviceError as error:
        print(error)
    else:
        print("nothing found:", result)
"""


def build(where: Path, file: str, op: str, row: str, old: str, new: str) -> Path:
    """The library of a mutant: the first `old` of the file, or of a header, becomes `new`."""
    headers = (folder() / "cuda").glob("**/*.h")
    texts = {p.relative_to(folder() / "cuda").as_posix(): p.read_text() for p in headers}
    texts[file] = (folder() / "cuda" / file).read_text()
    changed = next(name for name in (file, *texts) if old in texts[name])
    texts[changed] = texts[changed].replace(old, new, 1)
    for name in texts.keys() - OF_CUDA - {file}:
        header = where / "cuda" / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(_simt.rewrite(texts[name], f"csrc/cuda/{name}"))
    text = texts[file]
    backend = BACKEND % {"op": op, "library": SIM, "row": row}
    source, made, library = where / "mutant.cu", where / "mutant.o", where / "mutant.so"
    includes = f'#include "cuda/call.h"\n#include "{folder()}/cuda/{HOST[op]}"\n'
    kernels = _simt.rewrite(text, f"csrc/cuda/{file}")
    source.write_text(kernels + f'\n{includes}#line 1 "backend"\n' + backend)
    info = build_info()["sim"]
    flags = [f for f in shlex.split(info["flags"]) if not f.startswith("-W")]
    include = [f"-I{where}", f"-I{folder() / 'sim' / 'include'}", f"-I{folder()}"]
    command = info.get("command") or ["c++"]
    compile_ = [*command, *flags, *include, "-w", "-c", source, "-o", made]
    for step in (compile_, [*command, "-shared", made, SIM, "-ldl", "-o", library]):
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return library


def run(library: Path, call: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", RUN, str(library), call],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


MATMUL = ("matmul/tiled.cu", "matmul", "matmul_tiled_row")
TILED = ("transpose/tiled.cu", "transpose", "transpose_tiled_row")
SEQUENTIAL = ("reduce/sequential.cu", "reduce", "reduce_sequential_row")
UNROLLED = ("reduce/unrolled.cu", "reduce", "reduce_unrolled_row")
TICKET = ("reduce/ticket.cu", "reduce", "reduce_ticket_row")
ATOMIC = ("reduce/atomic.cu", "reduce", "reduce_atomic_row")
SHARED = ("rdf/shared.cu", "rdf", "rdf_shared_row")
NAIVE = ("rdf/naive.cu", "rdf", "rdf_naive_row")
CALLS = {
    "matmul": "gpuops.matmul(ones((40, 70), 'f4'), ones((70, 50), 'f4')).sum()",
    "transpose": "gpuops.transpose(ones((40, 70), 'f4')).sum()",
    "reduce": "gpuops.sum(ones(40000, 'f4'))",
    "rdf": "gpuops.rdf(np.arange(900, dtype='f4').reshape(300, 3) % 7, 0.9, 4).counts.sum()",
}
BLOCK_RACE = r"put __syncthreads\(\)"  # loads what was not stored, or a race
WARP_RACE = r"a race; put __syncthreads\(\), or __syncwarp\(\) as they are of one warp, between"
FOLD = "        if (t < d) sum[t] += sum[t + d];\n        __syncthreads();\n    }\n}\n"
FIRST = " ? R(a[i]) : R(0);\n    __syncthreads();\n    fold_sequential(sum, t, 0)"
COUNT = """atomicAdd(
                    &histogram[row_of(a.type, b.type, x.types) * bins + halve(r2, t, bins)],
                    1u);"""

MUTANTS = {
    "matmul, the barrier after loading removed": (
        *MATMUL, "            __syncthreads();\n#pragma unroll", "#pragma unroll", BLOCK_RACE,
    ),
    "matmul, the barrier before loading removed": (
        *MATMUL, "tile[l][x], sum);\n            __syncthreads();", "tile[l][x], sum);",
        BLOCK_RACE,
    ),
    "matmul, a barrier in both branches": (
        *MATMUL, "            __syncthreads();\n#pragma unroll",
        "            if (y < 20) __syncthreads();\n            else\n                "
        "__syncthreads();\n#pragma unroll",
        "waits at one __syncthreads and thread .* at another: a barrier in divergent code",
    ),
    "matmul, an index off by one": (
        *MATMUL, "b_tile[l][x], sum", "b_tile[l + 1][x], sum",
        "past the end of the block's shared memory",
    ),
    "transpose, the bounds check of the load removed": (
        *TILED, "        if (t.x + i < p.nx && t.y + j < p.ny)\n            tile", "tile",
        "past the end of an array of 11200 bytes; compare the index with the size",
    ),
    "transpose, the bounds check of the store removed": (
        *TILED, "        if (t.x + j < p.nx && t.y + i < p.ny)\n            out[", "out[",
        "loads shared memory that no thread of the block has stored to so far, though all have",
    ),
    "transpose, the barrier removed": (*TILED, "    __syncthreads();\n", "", BLOCK_RACE),
    "reduce, the barrier of a step removed": (
        *SEQUENTIAL, FOLD, FOLD.replace("        __syncthreads();\n", ""), BLOCK_RACE,
    ),
    "reduce, an index off by one": (
        *SEQUENTIAL, "i < n" + FIRST, "i <= n" + FIRST,
        "4 bytes right past the end of an array of 160000 bytes",
    ),
    "reduce, the last warp without __syncwarp before its stores": (
        *UNROLLED, "        __syncwarp();\n        sum[t] = mine;", "        sum[t] = mine;",
        WARP_RACE,
    ),
    "reduce, the last warp without __syncwarp after its stores": (
        *UNROLLED, "        sum[t] = mine;\n        __syncwarp();", "        sum[t] = mine;",
        WARP_RACE,
    ),
    "reduce, the ticket without its fence": (
        *TICKET, "        __threadfence();\n", "",
        r"and nothing orders the two blocks: a race; .* put __threadfence\(\) between",
    ),
    "reduce, the ticket drawn without an atomic": (
        *TICKET, "atomicAdd(ticket, 1u) ==", "(*ticket)++ ==", "use an atomic",
    ),
    "reduce, the ticket without the barrier behind it": (
        *TICKET, "    }\n    __syncthreads();\n    if (!last) return;",
        "    }\n    if (!last) return;", "shared memory",
    ),
    "reduce, an atomic replaced by plus": (
        *ATOMIC, "    atomicAdd(sum, value);\n}\nGOP_DEVICE void atomic_add(double",
        "    *sum += value;\n}\nGOP_DEVICE void atomic_add(double", "use an atomic",
    ),
    "rdf, an atomic on shared memory replaced by plus": (
        *SHARED, COUNT, COUNT.replace("atomicAdd(", "").replace("&h", "h").replace(
            ",\n                    1u);", " += 1u;"
        ),
        "a race",
    ),
    "rdf, an atomic on global memory replaced by plus": (
        *NAIVE, "atomicAdd(reinterpret_cast<unsigned long long *>(at), times);",
        "*at += times;", "a race",
    ),
    "rdf, counters that are not cleared": (
        *SHARED, "histogram[k] = 0;", ";", "no thread of the block has stored to so far",
    ),
}  # fmt: skip


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_mistake_is_named(name, tmp_path):
    file, op, row, old, new, words = MUTANTS[name]
    said = run(build(tmp_path, file, op, row, old, new), CALLS[op])
    assert re.search(words, said), said
    assert re.match(rf"sim: \(?{op}_\w+_kernel.*: block \(\d+, 0, 0\), thread \(", said)
    if shutil.which("addr2line"):
        assert re.search(rf"\b({file}|{op}/\w+\.h):\d+ ", said)


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize(
    "which", [MATMUL, TILED, SEQUENTIAL, UNROLLED, TICKET, ATOMIC, SHARED, NAIVE]
)
def test_and_the_kernels_without_one_run(which, tmp_path):
    said = run(build(tmp_path, *which, "", ""), CALLS[which[1]])
    assert said.startswith("nothing found:")
