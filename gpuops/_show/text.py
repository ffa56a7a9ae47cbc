"""text - tables and lists of facts as text of at most 100 columns, and as HTML.

HTML is plain, without a colour of text or paper: notebooks bring their own, dark or light.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Sequence
from html import escape

WIDTH = 100
NOTE = 36  # columns below which a note stands under its line, not at its end

Facts = Iterable[tuple[str, str]]


def writable(text: str, plain: str) -> str:
    """What standard output can write."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return plain
    return text


def wrapped(text: str, indent: int = 0, width: int = WIDTH, first: int = 0) -> list[str]:
    """Lines within the width; all but the first are indented, that by `first`."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=" " * first,
        subsequent_indent=" " * indent,
        break_long_words=False,
    ) or [""]


def facts(title: str, pairs: Facts) -> str:
    """A title, and below it a label and a text on each line."""
    pairs = list(pairs)
    wide = max((len(label) for label, _ in pairs), default=0)
    lines = wrapped(title)
    for label, text in pairs:
        lines += wrapped(f"  {label:<{wide}}  {text}", wide + 4)
    return "\n".join(lines)


def facts_html(title: str, pairs: Facts) -> str:
    lines = "".join(
        f"<tr><th style='text-align:left'>{escape(label)}</th>"
        f"<td style='text-align:left'>{escape(text)}</td></tr>"
        for label, text in pairs
    )
    return f"<table>{_caption(title)}{lines}</table>"


def grid(
    title: str,
    head: Sequence[str],
    lines: Iterable[Sequence[str]],
    notes: Sequence[str],
    sections: Sequence[str] = (),
) -> str:
    """Cells below one another, numbers to the right, and at the end of each line its note.
    Above a line stands its section, where there is one.
    """
    table = [list(head), *map(list, lines)]
    above = ["", *sections, *[""] * (len(table) - 1 - len(sections))]
    wide = [max(len(line[i]) for line in table) for i in range(len(head))]
    room = WIDTH - sum(wide) - 2 * len(wide)
    text = [line for part in title.split("\n") for line in wrapped(part)]
    notes = ["note" if room >= NOTE else "", *notes]
    for section, cells, note in zip(above, table, notes, strict=True):
        text += [f"-- {section} --"] if section else []
        line = cells[0].ljust(wide[0]) + "".join(
            f"  {cell.rjust(w)}" for cell, w in zip(cells[1:], wide[1:], strict=True)
        )
        if room >= NOTE:
            first, *rest = textwrap.wrap(note, room) or [""]
            text.append(f"{line}  {first}".rstrip())
            text += [" " * (WIDTH - room) + more for more in rest]
        else:
            text.append(line.rstrip())
            text += textwrap.wrap(
                note, WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 4
            )
    return "\n".join(text)


def grid_html(
    title: str,
    head: Sequence[str],
    lines: Iterable[Sequence[str]],
    notes: Sequence[str],
    sections: Sequence[str] = (),
) -> str:
    def row(tag: str, cells: Sequence[str], note: str) -> str:
        sides = ["left", *["right"] * (len(cells) - 1), "left"]
        return "".join(
            f"<{tag} style='text-align:{side}'>{escape(cell)}</{tag}>"
            for cell, side in zip([*cells, note], sides, strict=True)
        )

    body = [row("th", head, "note")]
    for i, (line, note) in enumerate(zip(lines, notes, strict=True)):
        if i < len(sections) and sections[i]:
            body.append(row("th", [sections[i], *[""] * (len(head) - 1)], ""))
        body.append(row("td", line, note))
    rows = "".join(f"<tr>{line}</tr>" for line in body)
    return f"<table>{_caption(title)}{rows}</table>"


SECTIONS = {"lesson": "lessons", "teaching": "lessons", "yardstick": "yardsticks"}


def sections(roles: Iterable[str]) -> list[str]:
    """The title above each row of a ladder: where a section begins, else nothing."""
    names = [SECTIONS.get(role, "production") for role in roles]
    before = ["", *names]
    return [name if name != last else "" for name, last in zip(names, before, strict=False)]


def _caption(title: str) -> str:
    said = escape(title).replace("\n", "<br>")
    return f"<caption style='text-align:left'>{said}</caption>"
