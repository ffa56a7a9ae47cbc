"""plots - a bar for every kernel of a ladder, as docs/plots/<op>-<device>.svg; and a point for
every call of the zoo, as docs/plots/zoo-<device>.svg.

The same results give the same bytes, and each picture carries a hash of what it shows.
"""

from __future__ import annotations

import hashlib
import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs" / "plots"
# Words stay words, so that no font changes the file.
SETTINGS = {"svg.hashsalt": "gpuops", "svg.fonttype": "none", "font.size": 9}
COLORS = {
    "production": "#1f77b4",
    "lesson": "#6baed6",
    "candidate": "#74c476",
    "teaching": "#9ecae1",
    "yardstick": "#a0a0a0",
}


def picture_path(device: str, op: str) -> pathlib.Path:
    return FOLDER / f"{op}-{device}.svg"


def digest(results: dict, op: str) -> str:
    text = json.dumps([results["device"], results["ops"][op]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def zoo_digest(results: dict) -> str:
    text = json.dumps([results["device"], results["rows"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_fresh_zoo(results: dict, device: str) -> bool:
    path = picture_path(device, "zoo")
    return path.exists() and zoo_digest(results) in path.read_text()


def is_fresh(results: dict, device: str, op: str) -> bool:
    path = picture_path(device, op)
    return path.exists() and digest(results, op) in path.read_text()


def rates(ladder: dict) -> tuple[str, list[tuple[str, str, float]]]:
    """The unit, and (name, role, rate) of every kernel that ran."""
    ran = [row for row in ladder["rows"] if "seconds" in row]
    work, unit = (
        (ladder["bytes"], "GB/s") if "copy_seconds" in ladder else (ladder["flops"], "")
    )
    unit = unit or "10⁹ operations a second"
    return unit, [(r["name"], r["role"], work / r["seconds"] / 1e9) for r in ran]


def draw(results: dict, device: str, op: str) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    ladder = results["ops"][op]
    unit, bars = rates(ladder)
    with matplotlib.rc_context(SETTINGS):
        height = 1.1 + 0.26 * len(bars)
        figure = plt.figure(figsize=(7, height))
        axes = figure.add_axes((0.17, 0.55 / height, 0.78, 1 - 0.95 / height))
        colors = [COLORS[role] for _, role, _ in bars]
        places = range(len(bars))
        axes.barh(places, [rate for _, _, rate in bars], color=colors)
        axes.set_yticks(places, [name for name, _, _ in bars])
        axes.invert_yaxis()
        axes.set_xlabel(unit)
        if "copy_seconds" in ladder:
            copy = ladder["bytes"] / ladder["copy_seconds"] / 1e9
            axes.axvline(copy, color="black", linestyle="--", linewidth=1)
            above = axes.get_xaxis_transform()  # the frame's upper edge is 1
            axes.text(copy, 1.01, "copy", transform=above, ha="center", va="bottom")
        title = f"{op}, {ladder['call']}, {results['device']}, {ladder['date']}"
        axes.set_title(title, pad=14, fontsize=9)
        FOLDER.mkdir(parents=True, exist_ok=True)
        about = {"Date": None, "Creator": None, "Description": digest(results, op)}
        figure.savefig(picture_path(device, op), metadata=about)
        plt.close(figure)


def draw_zoo(results: dict, device: str) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    ops = list(dict.fromkeys(row["op"] for row in results["rows"]))
    with matplotlib.rc_context(SETTINGS):
        figure, panels = plt.subplots(1, len(ops), figsize=(2.6 * len(ops), 2.6), sharey=True,
                                      squeeze=False, layout="tight")  # fmt: skip
        for axes, op in zip(panels[0], ops, strict=True):
            rows = [row for row in results["rows"] if row["op"] == op]
            shares = [row["seconds"]["copy"] / row["seconds"]["gpuops"] for row in rows]
            axes.plot([row["bytes"] / 2**20 for row in rows], shares, ",", color="#1f77b4")
            axes.plot([4, 4], [0, 1.2], color="black", linewidth=0.5)
            axes.set(xscale="log", ylim=(0, 1.3), xlabel="MiB", title=op)
        panels[0][0].set_ylabel("share of copy's speed")
        FOLDER.mkdir(parents=True, exist_ok=True)
        about = {"Date": None, "Creator": None, "Description": zoo_digest(results)}
        figure.savefig(picture_path(device, "zoo"), metadata=about)
        plt.close(figure)
