"""speed_log - the table "tried and dropped" of each page of docs/speed-log, from its entries.

A row is an entry whose verdict is not `kept`, with what it says of why; or what a kept entry
tells under `tried`, `dropped` or `not kept`. `tables.py` writes it.
"""

from __future__ import annotations

import re

_ENTRY = re.compile(r"^## (?P<what>.+?)\s+\((?P<date>\d{4}-\d\d-\d\d), (?P<verdict>[^()]+)\)$")
_FIELD = re.compile(r"^([a-z]+(?: [a-z]+)?)(?: {2,}|$)")
ASIDE = ("tried", "dropped", "not kept", "worse")


def fields(entry: str) -> dict[str, str]:
    """What stands in the fence of an entry: name -> text."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in entry.partition("```")[2].partition("```")[0].splitlines():
        if head := _FIELD.match(line):
            name = head[1]
            line = line[len(name) :]
        if name:
            found.setdefault(name, []).append(line.strip())
    return {name: " ".join(lines).strip() for name, lines in found.items()}


def entries(page: str) -> list[tuple[str, str, str, dict[str, str]]]:
    """(what, date, verdict, fields) of each entry, in the order of the page."""
    made = []
    for part in re.split(r"(?m)^(?=## )", page):
        if head := _ENTRY.match(part.splitlines()[0] if part else ""):
            made.append((head["what"], head["date"], head["verdict"], fields(part)))
    return made


def cell(text: str) -> str:
    return re.sub(r"([|*_<`])", r"\\\1", text)


def table(page: str) -> str:
    """The rows of one page; what is tried beside something kept has its entry's name first."""
    rows = ["| what was tried | date | verdict | why |", "| --- | --- | --- | --- |"]
    for what, date, verdict, said in entries(page):
        if not verdict.startswith("kept") or verdict == "kept in part":
            why = said.get("why") or said.get("after", "")
            rows.append(f"| {cell(what)} | {date} | {verdict} | {cell(why)} |")
        for name in ASIDE:
            if name in said:
                aside = f"{cell(what)}, beside it"
                rows.append(f"| {aside} | {date} | {name} | {cell(said[name])} |")
    return "\n".join(rows) if len(rows) > 2 else "Nothing so far."
