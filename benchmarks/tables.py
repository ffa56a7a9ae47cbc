"""tables - writes what the documents say of benchmarks/results; nothing is typed.

python benchmarks/tables.py          rewrites what stands between the marks
python benchmarks/tables.py --check  fails if that would change something

README.md has a picture, three figures and a row for each operation, docs/benchmarks.md the
targets, all rows of every device, the ladders and the zoo with their plots, docs/lectures.md
the lectures' kernels, docs/rdf.md and docs/matmul.md some of these, docs/speed-log what was
dropped, docs/conformance.md the matrix, docs/certificate.md the certificate, which stands
beside what sim counts and so needs that backend.
"""

from __future__ import annotations

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import certificate
import conformance
import fronts
import plots
from lectures import FIGURES, POINTS, lecture_lines, lecture_seconds
from results import (
    RESULTS,
    ROOT,
    all_ladders,
    all_results,
    copy_ratio,
    is_met,
    markdown,
    number,
    peers_of,
    rate,
    reached,
    rows_of,
    target_cell,
    time_text,
)
from zoo import read, summary

import gpuops


def runs_of(results: dict) -> str:
    """A line a run: when, from which commit and beside what its operations were timed."""
    runs: dict[str, list[str]] = {}
    for op, run in results["ops"].items():
        said = f"{run['date']}, commit {run['commit']}"
        said += "".join(f", {name} {version}" for name, version in run["versions"].items())
        if "seeds" in run:
            said += f", seeds {', '.join(map(str, run['seeds']))}"
        runs.setdefault(said, []).append(op)
    return "  \n".join(f"{', '.join(ops)}: {said}." for said, ops in runs.items())


def about(results: dict) -> str:
    """The device, and how its operations were timed."""
    return f"**{results['device']}** ({results['detail']})  \n{runs_of(results)}"


def scoreboard(results: dict) -> str:
    """Every target with what was reached, of the cases that stand for it."""
    words = {True: "yes", False: "**no**", None: "not measured"}
    lines = []
    for row in rows_of(results):
        for beside, least in row.get("targets", ()) if row.get("headline") else ():
            value = reached(row, beside)
            is_there = words[is_met(row, beside, least)]
            got = "" if value is None else number(value)
            lines.append([row["op"], row["case"], beside, number(least), got, is_there])
    met = sum(cells[-1] == "yes" for cells in lines)
    head = ["operation", "case", "beside", "at least", "reached", "met"]
    said = f"**{results['device']}**: {met} of {len(lines)} met."
    return f"{said}\n\n{markdown(head, lines)}"


def speed_table(results: dict) -> str:
    """Our rate, and how many times as long the copy and each peer take."""
    rows = rows_of(results)
    peers = sorted({name for row in rows for name in peers_of(row)})
    lines = []
    for row in rows:
        copy, others = copy_ratio(row), peers_of(row)
        lines.append([
            row["op"],
            row["case"],
            row["kernel"],
            time_text(row["seconds"]["gpuops"]),
            rate(row),
            number(copy) if copy else "",
            *(number(others[name]) if name in others else "" for name in peers),
            target_cell(row),
        ])  # fmt: skip
    head = ["operation", "case", "kernel", "time", "rate", "copy", *peers, "at least"]
    return f"{about(results)}\n\n{markdown(head, lines)}"


def ladder_section(results: dict, device: str, op: str) -> str:
    """The picture and the table of one ladder."""
    ladder = results["ops"][op]
    unit, bars = plots.rates(ladder)
    rate_of = {name: rate for name, _, rate in bars}
    lines = []
    for row in ladder["rows"]:
        cells = [row["name"], row["role"], row["note"]]
        if "seconds" in row:
            share = ladder.get("copy_seconds", 0) / row["seconds"]
            cells += [time_text(row["seconds"]), f"{rate_of[row['name']]:.4g}"]
            cells.append(f"{share:.1%}" if share else "")
        else:
            cells += ["refused", "", ""]
        lines.append(cells)
    head = ["kernel", "role", "what is new", "time", unit, "of copy"]
    said = (
        f"{ladder['call']}, {results['device']}, {ladder['date']}, commit {ladder['commit']}."
    )
    picture = f"![{op} on {results['device']}](plots/{op}-{device}.svg)"
    return f"### {op} on {results['device']}\n\n{said}\n\n{picture}\n\n{markdown(head, lines)}"


def lecture_section(op: str, ladders: dict[str, dict]) -> str:
    """One table for all GPUs; nothing where no kernel of a lecture was timed."""
    gpus = [r for r in ladders.values() if op in r["ops"] and "CUDA" in r["detail"]]
    lines = lecture_lines(op, gpus)
    head = ["kernel", "lecture", "GTX 280, GB/s", "of its copy"]
    for results in gpus:
        head += [f"{results['device']}, GB/s", "of its copy"]
    said = f"## {op}\n\n"
    said += "\n".join(
        f"{r['device']}: {r['ops'][op]['call']}, {r['ops'][op]['date']}, commit "
        f"{r['ops'][op]['commit']}." for r in gpus
    )  # fmt: skip
    return f"{said}\n\n{markdown(head, lines)}" if lines else ""


def lecture_pairs(ladders: dict[str, dict]) -> str:
    """rdf in seconds, for there is no copy to compare with; only of the lecture's problem."""
    call = f"{POINTS} points f4"
    timed = [r for r in ladders.values() if r["ops"].get("rdf", {}).get("call") == call]
    said = "\n".join(
        f"{r['device']} ({r['detail']}): {r['ops']['rdf']['call']}, "
        f"{r['ops']['rdf']['date']}, commit {r['ops']['rdf']['commit']}." for r in timed
    )  # fmt: skip
    head = ["device", "kernel", "the lecture's step", "lecture", "ours, one thread", "ours"]
    return f"## rdf\n\n{said}\n\n{markdown(head, lecture_seconds(timed))}" if timed else ""


def rdf_peers(results: dict) -> str:
    """What other programs take for the same points, as a multiple of gpuops' time."""
    names = ["Corrfunc", "freud", "MDAnalysis"]
    versions = ", ".join(f"{name} {v}" for name, v in results["versions"].items())
    commits = ", ".join(dict.fromkeys(row["commit"] for row in results["rows"]))
    said = (
        f"{results['device']}, {results['bins']} bins, until {results['date']}, commits "
        f"{commits}, beside {versions}. A dash: predicted to take more than "
        f"{results['limit']:.0f} s or 8 GiB."
    )
    lines = []
    for row in results["rows"]:
        took, ours = row["seconds"], row["seconds"]["gpuops"]
        times = [f"{took[n] / ours:,.1f}" if n in took else "–" for n in names]
        exact = [str(row["differ"][n]) if n in row["differ"] else "–" for n in names]
        size = [str(row["threads"]), f"{row['points']:,}"]
        label = [*size, row["dtype"], row["r_max"], row["kernel"]]
        lines.append([*label, f"{ours * 1e3:,.1f} ms", *times, " / ".join(exact)])
    head = ["threads", "points", "dtype", "r_max", "kernel", "gpuops", *names]
    return f"{said}\n\n{markdown([*head, 'pairs elsewhere'], lines)}"


def all_zoos() -> dict[str, dict]:
    """Device -> the calls that nobody chose."""
    return {p.stem: read(p) for p in sorted((RESULTS / "zoo").glob("*.json"))}


def zoo_section(results: dict, device: str) -> str:
    """The picture and the table of one device's zoo."""
    said = f"{results['device']} ({results['detail']}), {len(results['rows'])} calls.  \n"
    said += runs_of(results)
    picture = f"![a share of copy for each call](plots/zoo-{device}.svg)"
    table = summary(results["rows"], "kind")
    return f"### {results['device']}\n\n{said}\n\n{picture}\n\n{table}"


def between(text: str, name: str, generated: str) -> str:
    """The text with what stands between the marks of this name replaced."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if begin not in text or end not in text:
        sys.exit(f"a document has no marks {begin} and {end}")
    before, _, rest = text.partition(begin)
    return before + begin + "\n" + generated + "\n" + end + rest.partition(end)[2]


def documents() -> dict[pathlib.Path, str]:
    """Each document as it should be."""
    import speed_log

    docs = ROOT / "docs"
    results, ladders = all_results(), all_ladders()
    steps = [ladder_section(r, device, op) for device, r in ladders.items() for op in r["ops"]]
    lectures = [lecture_section(op, ladders) for op in FIGURES] + [lecture_pairs(ladders)]
    zoos = [zoo_section(r, device) for device, r in all_zoos().items()]
    peers = [json.loads(p.read_text()) for p in sorted((RESULTS / "rdf").glob("*.json"))]
    parts = {
        ROOT / "README.md": {
            "figures": fronts.first_screen(results),
            "speed": fronts.speed(results),
        },
        docs / "benchmarks.md": {
            "targets": "\n\n".join(map(scoreboard, results)),
            "speed": "\n\n".join(map(speed_table, results)),
            "zoo": "\n\n".join(zoos),
            "ladders": "\n\n".join(steps),
            "peers": "\n\n".join(map(rdf_peers, peers)),
        },
        docs / "conformance.md": {"conformance": conformance.page()},
        docs / "lectures.md": {"lectures": "\n\n".join(filter(None, lectures))},
        docs / "matmul.md": {"precisions": fronts.precisions(results)},
        docs / "rdf.md": {"peers": fronts.few_pairs()},
        **{
            path: {"dropped": speed_log.table(path.read_text())}
            for path in sorted((docs / "speed-log").glob("*.md"))
        },
    }
    if gpuops.is_available("sim"):
        tables = "\n\n".join(map(certificate.table, certificate.certificates()))
        parts[docs / "certificate.md"] = {"certificate": tables}
    made = {}
    for path, pieces in parts.items():
        made[path] = path.read_text()
        for name, generated in pieces.items():
            made[path] = between(made[path], name, generated)
    return made


def stale_pictures() -> list[tuple[dict, str, str]]:
    return [
        (results, device, op)
        for device, results in all_ladders().items()
        for op in results["ops"]
        if not plots.is_fresh(results, device, op)
    ]


def stale_zoos() -> list[tuple[dict, str]]:
    zoos = all_zoos().items()
    return [(r, device) for device, r in zoos if not plots.is_fresh_zoo(r, device)]


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = {path: text for path, text in documents().items() if path.read_text() != text}
    for path, text in stale.items():
        if check:
            print(f"{path.relative_to(ROOT)} is stale; run python benchmarks/tables.py")
        else:
            path.write_text(text)
    pictures = stale_pictures()
    for results, device, op in pictures:
        if check:
            print(f"the plot of {op} on {device} is stale; run python benchmarks/tables.py")
        else:
            plots.draw(results, device, op)
    zoos = stale_zoos()
    for results, device in zoos:
        if check:
            print(f"the zoo's plot on {device} is stale; run python benchmarks/tables.py")
        else:
            plots.draw_zoo(results, device)
    return int(check and bool(stale or pictures or zoos))


if __name__ == "__main__":
    sys.exit(main())
