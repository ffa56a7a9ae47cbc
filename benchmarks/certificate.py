"""certificate - sim's counters beside those that benchmarks/certify.py found on a GPU.

A row is exact if each of its kernels was launched as often and each counter of `EXACT` is the
same. It is stale if a kernel's source has changed since the GPU ran it: then nothing is known.
"""

from __future__ import annotations

import functools
import hashlib
import json
import pathlib
import re
import sys
from dataclasses import dataclass, field

import gpuops
from gpuops._show.counts import Counts

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from certify_rows import CAUSES, call, candidates, rows

ROOT = pathlib.Path(__file__).resolve().parent.parent
CUDA = ROOT / "csrc" / "cuda"
RESULTS = ROOT / "benchmarks" / "results" / "certificate"
ENOUGH = 0.8  # of the rows that were counted have to be exact

# sim's name of a counter -> Nsight Compute's, which are added up.
GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
EXACT = {
    "load requests": [GLOBAL.format("requests", "ld")],
    "load sectors": [GLOBAL.format("sectors", "ld")],
    "store requests": [GLOBAL.format("requests", "st")],
    "store sectors": [GLOBAL.format("sectors", "st")],
    "atomic requests": [GLOBAL.format("requests", op) for op in ("atom", "red")],
    "wavefronts": ["memory_l1_wavefronts_shared"],
    "ideal wavefronts": ["memory_l1_wavefronts_shared_ideal"],
}
# Shown and never compared.
TREND = {
    "active threads": ["smsp__thread_inst_executed_per_inst_executed.ratio"],
    "divergent branches": ["smsp__sass_branch_targets_threads_divergent.sum"],
}


# ---- sources ----


def code(path: pathlib.Path) -> str:
    """A file without its comments and line breaks: what a compiler reads."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", path.read_text(), flags=re.S)
    return " ".join(text.split())


def _pieces(text: str):
    """The definitions at the top level of a file without comments, each as one string."""
    directive = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", re.M)
    for line in directive.findall(text):
        if line.lstrip().startswith("#define"):
            yield " ".join(line.replace("\\\n", " ").split())
    depth, first, text = 0, 0, directive.sub("", text)
    for at, c in enumerate(text):
        depth += {"{": 1, "}": -1}.get(c, 0)
        # A function ends with its brace, all else with a semicolon.
        body = c == "}" and re.search(r"\)[\s\w]*\{", text[first : at + 1])
        if depth == 0 and (c == ";" or body):
            yield " ".join(text[first : at + 1].split())
            first = at + 1


def _names(piece: str) -> list[str]:
    """What a definition defines; nothing for one that is only declared."""
    if macro := re.match(r"#define (\w+)", piece):
        return [macro[1]]
    head = piece.partition("{")[0]
    if typedef := re.match(r"typedef\b.*?(\w+)(?:\[[^]]*\])?;$", piece):
        return [typedef[1], *re.findall(r"\b(?:struct|union|enum) (\w+)", head)]
    if alias := re.search(r"\busing (\w+) =", head):
        return [alias[1]]
    plain = re.sub(r"template <.*?>(?= *(?:[a-zA-Z_]|$))", "", head)
    plain = re.sub(r"(__\w+__|alignas)\((?:[^()]|\([^()]*\))*\)", "", plain)
    if kind := re.match(
        r"\s*(?:struct|union|enum)\b[^(){]*?(\w+)?(?:<.*>)?\s*(?::[^{]*)?$", plain
    ):
        inside = piece.partition("{")[2] if re.match(r"\s*enum\b", plain) else ""
        return [n for n in (kind[1], *re.findall(r"(\w+)\s*(?:=[^,}]*)?[,}]", inside)) if n]
    called = re.findall(r"(\w+)(?:<[^()]*>)? ?\(", plain)
    if called:
        return called[:1] if "{" in piece else []
    return re.findall(r"(\w+)(?:\[[^]]*\])* =", plain)[:1]


@functools.cache
def _definitions(path: pathlib.Path) -> dict[str, list[str]]:
    """Name -> its definitions in a file."""
    found: dict[str, list[str]] = {}
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", path.read_text(), flags=re.S)
    for piece in _pieces(text):
        for name in _names(piece):
            found.setdefault(name, []).append(piece)
    return found


def files_of(kernel: str) -> list[pathlib.Path]:
    """The files that define a kernel, and all of csrc/cuda that they include."""
    found = [p for p in sorted(CUDA.rglob("*.[ch]*")) if kernel in _definitions(p)]
    for path in found:  # grows
        for name in re.findall(r'#include "cuda/([\w/]+\.\w+)"', path.read_text()):
            if CUDA / name not in found and (CUDA / name).exists():
                found.append(CUDA / name)
    return found


def reached(kernel: str) -> list[str]:
    """The definitions that a kernel is made of: its own, and all that those speak of."""
    files = files_of(kernel)
    pieces, todo = set(), [kernel]
    seen = set(todo)
    while todo:
        name = todo.pop()
        for piece in (p for path in files for p in _definitions(path).get(name, ())):
            pieces.add(piece)
            words = set(re.findall(r"\w+", piece)) - seen
            seen |= words
            todo += words
    return sorted(pieces)


def source_hash(kernel: str) -> str:
    return hashlib.sha256("\n".join(reached(kernel)).encode()).hexdigest()[:16]


def needs_sm90(op: str, kernel: str) -> bool:
    """True for kernels in instructions of one generation of GPUs; sim plays few of them."""
    files = CUDA.rglob("*_sm[89]0.cu")
    return any(re.search(rf"\b{op}_{kernel}_row = ", code(p)) for p in files)


# ---- what sim counts ----


def predicted(op: str, kernel: str) -> dict[str, dict[str, int]]:
    """Kernel -> launches and counters of a row's call."""
    made: dict[str, dict[str, int]] = {}
    for k in gpuops.profile(lambda: call(op, kernel, "sim")).kernels:
        load, store, atomic = (k.counts("global", w) for w in ("load", "store", "atomic"))
        shared = sum((k.counts("shared", w) for w in ("load", "store", "atomic")), Counts())
        counts = {
            "launches": k.launches,
            "load requests": load.requests,
            "load sectors": load.parts,
            "store requests": store.requests,
            "store sectors": store.parts,
            "atomic requests": atomic.requests,
            "wavefronts": shared.parts,
            "ideal wavefronts": shared.ideal,
        }
        sums = made.setdefault(k.name, dict.fromkeys(counts, 0))
        for name, value in counts.items():
            sums[name] += value
    return made


# ---- beside each other ----


@dataclass(frozen=True)
class Row:
    """One row of a ladder on one GPU."""

    op: str
    kernel: str
    sim: dict[str, dict[str, int]]
    gpu: dict[str, dict]
    stale: bool

    @property
    def differences(self) -> dict[str, list[str]]:
        """Kernel -> "counter: sim, GPU, difference" of all that is not equal."""
        found: dict[str, list[str]] = {}
        for name in sorted({*self.sim, *self.gpu}):
            ours, theirs = self.sim.get(name, {}), self.gpu.get(name, {})
            for counter in ("launches", *EXACT):
                a, b = ours.get(counter, 0), theirs.get(counter, 0)
                if a != b:
                    found.setdefault(name, []).append(f"{counter} {b} for {a} ({b - a:+d})")
        return found

    @property
    def exact(self) -> bool:
        return not self.stale and not self.differences

    @property
    def cause(self) -> str:
        return CAUSES.get((self.op, self.kernel), "")


@dataclass(frozen=True)
class Certificate:
    golden: dict
    rows: list[Row] = field(repr=False)

    @property
    def share(self) -> float:
        """Of the rows that need no sm_90 and have not changed since, how many are exact."""
        return sum(row.exact for row in self.rows) / max(len(self.rows) - self.stale, 1)

    @property
    def stale(self) -> int:
        return sum(row.stale for row in self.rows)

    def __str__(self) -> str:
        exact = sum(row.exact for row in self.rows)
        text = f"{exact} of {len(self.rows) - self.stale} rows exact ({self.share:.0%})"
        return text + (f", {self.stale} changed since or not counted yet" if self.stale else "")


def certificates() -> list[Certificate]:
    """sim beside every GPU on file; a row that no GPU ran is stale; candidates are left out."""
    ours = {
        (op, kernel): predicted(op, kernel)
        for op, kernel in rows("sim")
        if not needs_sm90(op, kernel)
    }
    waiting = candidates("sim")
    made = []
    for path in sorted(RESULTS.glob("*.json")):
        golden = json.loads(path.read_text())
        found = []
        for (op, kernel), sim in ours.items():
            gpu = golden["rows"].get(f"{op} {kernel}", {})
            if (op, kernel) in waiting:
                continue
            stale = not gpu or any(source_hash(n) != k["source"] for n, k in gpu.items())
            found.append(Row(op, kernel, sim, gpu, stale))
        made.append(Certificate(golden, found))
    return made


# ---- the table of docs/certificate.md ----


def pair(counts: dict, *names: str) -> str:
    values = [counts.get(name, 0) for name in names]
    return " / ".join(map(str, values)) if any(values) else "-"


def lines_of(row: Row) -> list[str]:
    """A line for each kernel of a row."""
    made = []
    differ = row.differences
    for name in row.sim:
        ours, theirs = row.sim[name], row.gpu.get(name, {})
        said = "; ".join(differ.get(name, ())) or "equal"
        said = "stale" if row.stale else said
        active = theirs.get("active threads")
        cells = [
            row.op, row.kernel, f"`{name.removesuffix('_kernel')}`",
            pair(ours, "load requests", "load sectors"),
            pair(ours, "store requests", "store sectors"),
            pair(ours, "atomic requests"),
            pair(ours, "wavefronts", "ideal wavefronts"),
            said, "-" if active is None else f"{active:.1f}",
            str(theirs.get("divergent branches", "-")),
            row.cause if name in differ else "",
        ]  # fmt: skip
        made.append("| " + " | ".join(cells) + " |")
    return made


HEAD = (
    "operation", "row", "kernel", "loads: requests / sectors", "stores: requests / sectors",
    "atomics", "shared: wavefronts / ideal", "on the GPU", "active threads, GPU",
    "divergent branches, GPU", "cause",
)  # fmt: skip


def table(certificate: Certificate) -> str:
    g = certificate.golden
    about = (
        f"**{g['device']}: {certificate}** ({g['detail']}; ncu {g['ncu']}, nvcc {g['nvcc']}, "
        f"{g['date']}, commit {g['commit']})"
    )
    lines = ["| " + " | ".join(HEAD) + " |", "|" + " --- |" * len(HEAD)]
    for row in certificate.rows:
        lines += lines_of(row)
    return about + "\n\n" + "\n".join(lines)
