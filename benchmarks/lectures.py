"""lectures - the lectures' own figures beside ours, each as a share of its own copy.

The lectures measured on a GTX 280, whose copy reached 112.4 GB/s. These figures are at hand: of
the first kernel, of the last, and of transpose's last before blocks take diagonal order.
"""

from __future__ import annotations

COPY = 112.4
FIGURES = {
    "transpose": {"copy": COPY, "naive": 5.3, "padded": 75.1, "diagonal": 93.4},
    "reduce": {"naive": 3.77, "cascaded": 77.21},
}


def lecture_lines(op: str, ladders: list[dict]) -> list[list[str]]:
    """kernel, lecture, its GB/s and share, then GB/s and share on each device."""
    found: dict[str, list[str]] = {}
    tags = {r["name"]: r["lecture"] for results in ladders if op in results["ops"]
            for r in results["ops"][op]["rows"] if r["lecture"]}  # fmt: skip
    for name, tag in tags.items():
        figure = FIGURES[op].get(name)
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
