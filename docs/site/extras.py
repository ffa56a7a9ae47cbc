"""extras - what the site needs beside Sphinx: formulas without a network, names that are links,
words that the glossary explains, tables that scroll by themselves, and llms.txt."""

from __future__ import annotations

import pathlib
import re

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

import gpuops

_NAME = re.compile(r"gpuops\.(\w+)(\(.*)?$", re.DOTALL)


# ---- formulas: MathML, which browsers draw by themselves ----


# Commands that docutils lacks, by ones that it has.
SAME = {r"\dots": r"\ldots", r"\arg\max": r"\operatorname{arg\,max}", r"\lVert": r"\Vert ",
        r"\rVert": r"\Vert "}  # fmt: skip


def _mathml(translator, node, block: bool) -> None:
    text = node.astext()
    for command, known in SAME.items():
        text = text.replace(command, known)
    translator.body.append(latex2mathml.tex2mathml(text, as_block=block))
    raise nodes.SkipNode


def _inline(translator, node):
    _mathml(translator, node, False)


def _displayed(translator, node):
    _mathml(translator, node, True)


# ---- `gpuops.sum(a)` leads to the page of gpuops.sum ----


class Names(SphinxPostTransform):
    default_priority = 5  # before references are resolved

    def run(self, **_) -> None:
        here = self.env.docname
        for node in list(self.document.findall(nodes.literal)):
            found = _NAME.match(node.astext())
            if not found or found[1] not in gpuops.__all__ or here == f"api/{found[1]}":
                continue
            if any(isinstance(p, nodes.title | nodes.reference) for p in _parents(node)):
                continue
            ref = nodes.reference("", "", node.deepcopy(), internal=True)
            builder = self.app.builder
            ref["refuri"] = builder.get_relative_uri(here, f"api/{found[1]}")
            node.replace_self(ref)


# ---- a word of the glossary has its meaning where it is first met on a page ----

# Those of the glossary that mean nothing else in plain English.
WORDS = (
    "occupancy", "coalescing", "sector", "wavefront", "bank conflict", "divergence",
    "pinned memory", "zero-copy", "CUDA graph", "register tile", "grid-stride loop", "roofline",
    "ulp", "yardstick", "tunable", "leaf", "ladder", "rung", "warp", "panel", "staging",
)  # fmt: skip
SECTIONS = ("api/", "ladders/", "course/", "notebooks/", "speed-log", "glossary", "changes")


def glossary(folder: pathlib.Path) -> dict[str, str]:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", (folder / "glossary.md").read_text(), re.M)
    return {word: re.sub(r"[*`]", "", meaning) for word, meaning in rows}


class Words(SphinxPostTransform):
    default_priority = 6

    def run(self, **_) -> None:
        here = self.env.docname
        if here.startswith(SECTIONS):
            return
        meanings = glossary(pathlib.Path(self.env.srcdir))
        left = {
            word: re.compile(rf"\b{re.escape(word)}s?\b") for word in WORDS if word in meanings
        }
        where = self.app.builder.get_relative_uri(here, "glossary")
        for text in list(self.document.findall(nodes.Text)):
            if not left:
                return
            parents = list(_parents(text))
            if not any(isinstance(p, nodes.paragraph | nodes.list_item) for p in parents):
                continue
            kinds = (
                nodes.literal
                | nodes.reference
                | nodes.title
                | nodes.literal_block
                | nodes.entry
            )
            if any(isinstance(p, kinds | addnodes.desc) for p in parents):
                continue
            for word, pattern in list(left.items()):
                found = pattern.search(text)
                if found:
                    del left[word]
                    before, after = text[: found.start()], text[found.end() :]
                    ref = nodes.reference("", found[0], internal=True, refuri=where)
                    ref["classes"].append("glossary-word")
                    ref["reftitle"] = meanings[word]
                    text.parent.replace(text, [nodes.Text(before), ref, nodes.Text(after)])
                    break


def _parents(node):
    while node.parent is not None:
        node = node.parent
        yield node


# ---- pages that a docstring names as files ----


def _pages(app: Sphinx, what, name, thing, options, lines: list[str]) -> None:
    lines[:] = [re.sub(r"\bdocs/([\w-]+)\.md", r":doc:`docs/\1.md </\1>`", x) for x in lines]


# ---- a list of the pages for programs that read: llmstxt.org ----


def _llms(app: Sphinx, exception: Exception | None) -> None:
    if exception or app.builder.name != "html":
        return
    source = pathlib.Path(app.srcdir)
    lines = [(source / "llms.head").read_text()]
    for section, pages in _tree(app).items():
        lines.append(f"## {section}\n")
        for page in pages:
            title = app.env.titles[page].astext()
            path = pathlib.Path(app.env.doc2path(page)).relative_to(source).as_posix()
            first = next(app.env.get_doctree(page).findall(nodes.paragraph), None)
            said = first.astext().replace("\n", " ") if first and page.count("/") == 0 else ""
            lines.append(f"- [{title}](_sources/{path})" + (f": {said}" if said else ""))
        lines.append("")
    (pathlib.Path(app.outdir) / "llms.txt").write_text("\n".join(lines))


def _tree(app: Sphinx) -> dict[str, list[str]]:
    """Section -> its pages, in their order."""
    inside = app.env.toctree_includes

    def below(page: str) -> list[str]:
        return [page, *(p for child in inside.get(page, ()) for p in below(child))]

    return {app.env.titles[top].astext(): below(top) for top in inside.get("index", ())}


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None),
                               block_renderers=(_displayed, None))  # fmt: skip
    app.add_post_transform(Names)
    app.add_post_transform(Words)
    app.connect("autodoc-process-docstring", _pages)
    app.connect("build-finished", _llms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
