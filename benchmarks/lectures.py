"""lectures - the lectures' own figures beside ours, of memory each as a share of its own copy.

Of the lectures on transpose and reduction one names its GPU, a GTX 280, whose copy reached
112.4 GB/s. Its plain transpose reads rows and writes columns, which is `reads` here; what the
lectures speak of without a figure is None.
"""

from __future__ import annotations

COPY = 112.4
FIGURES = {
    "transpose": {"strided": 2.7, "copy": COPY, "staged": 94.9, "reads": 5.3, "naive": None,
                  "tiled": 75.1, "padded": 93.4, "diagonal": None},
    "reduce": {"naive": None, "interleaved": 3.77, "strided": 8.33, "sequential": 16.34,
               "loaded": 27.16, "unrolled": 37.68, "complete": 50.64, "cascaded": 77.21,
               "multipass": None},
}  # fmt: skip


def lecture_lines(op: str, ladders: list[dict]) -> list[list[str]]:
    """kernel, lecture, its GB/s and share, then GB/s and share on each device."""
    found: dict[str, list[str]] = {}
    tags = {r["name"]: r["lecture"] for results in ladders if op in results["ops"]
            for r in results["ops"][op]["rows"] if r["lecture"]}  # fmt: skip
    for name, figure in FIGURES[op].items():
        if name not in tags:
            continue
        tag = tags[name]
        found[name] = [name, tag, f"{figure:g}", f"{figure / COPY:.0%}"] if figure else [
            name, tag, "–", "–"]  # fmt: skip
        for results in ladders:
            found[name] += ours(results["ops"].get(op), name)
    return list(found.values())


def ours(ladder: dict | None, name: str) -> list[str]:
    row = next((r for r in ladder["rows"] if r["name"] == name), {}) if ladder else {}
    if "seconds" not in row:
        return ["–", "–"]
    rate = ladder["bytes"] / row["seconds"] / 1e9
    return [f"{rate:.4g}", f"{ladder['copy_seconds'] / row['seconds']:.0%}"]


# ---- rdf: seconds, by the number of points ----

POINTS = 44028
# (backend, kernel): what the lecture did, and how long it took. Its first GPU kernels are
# launched once for each distance between the numbers of two points; ours take all pairs.
SECONDS = {
    ("cpu", "naive"): ("the double loop on one core", "58.23 s"),
    ("cpu", "rotated"): ("the same over the distance d of two numbers", "–"),
    ("cuda", "naive"): ("counters in global memory", "16.3 s"),
    ("cuda", "shared"): ("counters in shared memory; the whole problem in one launch",
                         "1.9 s; below 1 s"),
}  # fmt: skip


def lecture_seconds(ladders: list[dict]) -> list[list[str]]:
    """device, kernel, the lecture's step, its time, ours on one CPU thread and on all."""
    lines = []
    for results in ladders:
        backend = "cuda" if "CUDA" in results["detail"] else "cpu"
        for row in results["ops"]["rdf"]["rows"]:
            if "seconds" in row:
                step, figure = SECONDS.get((backend, row["name"]), ("–", "–"))
                cells = [results["device"], row["name"], step, figure]
                one = f"{row['one_thread']:.4g} s" if "one_thread" in row else "–"
                lines.append([*cells, one, f"{row['seconds']:.4g} s"])
    return lines
