"""stage - writes build/docs-src, what Sphinx reads: docs/, notebooks, and what is generated.

    python docs/site/stage.py [FOLDER]

Pages stay as they are, but for links out of docs/: those to the changelog, to CONTRIBUTING,
to notebooks and to folders of kernels lead to their pages here, those to other files become
plain words.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT)]
import ladder_pages  # noqa: E402
import sentences  # noqa: E402
from tree import API, GUIDES, LADDERS, STEMS, TREE  # noqa: E402

import gpuops  # noqa: E402

DOCS = ROOT / "docs"
EXERCISES = ROOT / "gpuops" / "course" / "notebooks"
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|mailto:|#)([^)\s]+)\)")


def link(text: str, target: str, up: str) -> str:
    """A link as the site has it; `up` leads from the page to the top of the site."""
    path, _, anchor = target.partition("#")
    anchor = f"#{anchor}" if anchor else ""
    name = pathlib.PurePosixPath(path).name
    if re.fullmatch(r"(\.\./)*(CHANGELOG|CONTRIBUTING|README)\.md", path):
        page = {"CHANGELOG.md": "changes", "CONTRIBUTING.md": "contributing"}.get(name, "index")
        return f"[{text}]({up}{page}.md{anchor})"
    if up and path in ("cuda-words.md", "glossary.md"):  # beside a notebook that was copied
        return f"[{text}]({up}{path}{anchor})"
    if path.startswith("../docs/") or path.startswith("docs/"):
        return f"[{text}]({up}{path.split('docs/', 1)[1]}{anchor})"
    if found := re.fullmatch(r"\.\./csrc/(cpu|cuda|opencl)(?:/(\w+))?", path):
        return f"[{text}]({up}{f'ladders/{found[2]}-{found[1]}' if found[2] else 'ladders'}.md)"
    if "gpuops/course/notebooks/" in path:
        return f"[{text}]({up}course/{name}{anchor})"
    if re.match(r"(\.\./)*notebooks/", path) and path.endswith(".ipynb"):
        return f"[{text}]({up}notebooks/{name}{anchor})"
    if path.startswith("../") or path.rstrip("/") in ("notebooks", "LICENSE", "CITATION.cff"):
        return text
    return f"[{text}]({target})"


def moved(text: str, up: str = "") -> str:
    return _LINK.sub(lambda m: link(m[1], m[2], up), text)


def pages(folder: pathlib.Path) -> None:
    for path in DOCS.rglob("*.md"):
        to = folder / path.relative_to(DOCS)
        to.parent.mkdir(exist_ok=True)
        depth = len(path.relative_to(DOCS).parts) - 1
        # Of a page in a folder what leads out of that folder leads to the page beside it.
        text = path.read_text()
        to.write_text(moved(text) if not depth else text)
    shutil.copytree(DOCS / "plots", folder / "plots")
    log = (ROOT / "CHANGELOG.md").read_text().replace("# Changelog\n", _CHANGES, 1)
    (folder / "changes.md").write_text(moved(log))
    (folder / "contributing.md").write_text(moved((ROOT / "CONTRIBUTING.md").read_text()))


_CHANGES = """# Changes

For those who upgrade: what is new, what changed, and where the bits of a result did.
"""


def notebooks(folder: pathlib.Path) -> None:
    (folder / "notebooks").mkdir()
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        write_notebook(json.loads(path.read_text()), folder / "notebooks" / path.name)
    (folder / "course").mkdir()
    for path in sorted(EXERCISES.glob("*.ipynb")):
        book, ran = json.loads(path.read_text()), DOCS / "outputs" / path.name
        if ran.exists():
            seen = {
                "".join(cell["source"]): cell["outputs"]
                for cell in json.loads(ran.read_text())["cells"] if cell["cell_type"] == "code"
            }  # fmt: skip
            for cell in book["cells"]:
                if cell["cell_type"] == "code":
                    cell["outputs"] = seen.get("".join(cell["source"]), [])
        write_notebook(book, folder / "course" / path.name)


def write_notebook(book: dict, to: pathlib.Path) -> None:
    for cell in book["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            cell["source"] = moved(text, "../")
    to.write_text(json.dumps(book))


def toctree(children: list[str]) -> list[str]:
    return ["```{toctree}", ":hidden:", "", *children, "```", ""]


def first_words(folder: pathlib.Path, page: str) -> tuple[str, str]:
    """The title of a page, and its first sentence where it says for whom."""
    path = folder / f"{page}.md"
    if not path.exists():
        book = json.loads((folder / f"{page}.ipynb").read_text())
        text = "".join(book["cells"][0]["source"])
        return text.splitlines()[0].strip("# "), ""
    title, _, rest = path.read_text().partition("\n")
    found = re.match(r"For .+?\.(?= |$)", " ".join(rest.split()))
    return title.strip("# "), moved(found[0]) if found else ""


def sections(folder: pathlib.Path) -> None:
    for name, (title, said, children) in TREE.items():
        lines = [f"# {title}", "", said, ""]
        for page in children:
            heading, words = first_words(folder, page)
            ending = "md" if (folder / f"{page}.md").exists() else "ipynb"
            words = words or "A notebook, with its outputs."
            lines.append(f"- [{heading}]({page}.{ending}). {words}")
        lines += ["", *toctree(children)]
        (folder / f"{name}.md").write_text("\n".join(lines))
    index = folder / "index.md"
    index.write_text(index.read_text() + "\n" + "\n".join(toctree(list(TREE))))
    below(folder, "course", sorted(p.stem for p in (folder / "course").iterdir()))
    below(folder, "speed-log", sorted(p.stem for p in (folder / "speed-log").glob("*.md")))


def below(folder: pathlib.Path, page: str, children: list[str]) -> None:
    path = folder / f"{page}.md"
    tree = toctree([f"{page}/{child}" for child in children])
    path.write_text(path.read_text() + "\n" + "\n".join(tree))


def api(folder: pathlib.Path) -> None:
    (folder / "api").mkdir()
    lines = [_API]
    for subject, names in API.items():
        lines += [f"## {subject}", "", "| name | what it is |", "|---|---|"]
        for name in names:
            thing = getattr(gpuops, name)
            said = (thing.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
            said = re.sub(r"\s+", " ", said).replace("|", "\\|").replace("``", "`")
            lines.append(f"| [{name}](api/{name}.md) | {said} |")
            (folder / "api" / f"{name}.md").write_text(api_page(name, thing))
        lines.append("")
    names = [f"api/{name}" for group in API.values() for name in group]
    (folder / "api.md").write_text("\n".join([*lines, *toctree(names)]))


_API = """# API

For those who know what they look for: every public name, by subject. In Python,
`help(gpuops.sum)` says the same.
"""


def api_page(name: str, thing: object) -> str:
    full = f"gpuops.{name}"
    if isinstance(thing, type):
        what = [f".. autoclass:: {full}", "   :members:"]
    elif callable(thing):
        what = [f".. autofunction:: {full}"]
    else:
        what = [f".. automodule:: {full}", "   :members:", "   :imported-members:"]
    return "\n".join([f"# {full}", "", *also(name), "```{eval-rst}", *what, "```", ""])


def also(name: str) -> list[str]:
    """The guide, the ladders and the notebook of a name."""
    found = [f"[guide](../{page}.md)" for page, names in GUIDES.items() if name in names]
    if stem := STEMS.get(name):
        made = [b for b in LADDERS if ladder_pages.listed(stem, b)]
        found += [
            f"[kernels on {ladder_pages.NAMES[b]}](../ladders/{stem}-{b}.md)" for b in made
        ]
        found.append(f"[notebook](../notebooks/{stem}.ipynb)")
    return ["See also: " + ", ".join(found) + ".", ""] if found else []


def symptoms(text: str) -> list[tuple[str, str, str]]:
    """(what is seen, page, title) of the tables of troubleshooting.md."""
    found = []
    for part in text.split("\n## ")[1:]:
        title, _, rest = part.partition("\n")
        title = title.replace("`", "")
        page = f"troubleshooting.md#{title.lower().replace(' ', '-')}"
        cells = re.findall(r"^\| (.+?) \|", rest, re.M)[1:]  # the first is the table's head
        found += [(seen.replace("`", ""), page, title) for c in cells for seen in c.split("; ")]
    return found


_BOX = """\
<input id="error-search" type="search" placeholder="Paste the sentence of an error here"
  aria-label="The sentence of an error">
<ul id="error-found"></ul>
<script src="_static/errors.js"></script>
<script src="_static/search_errors.js"></script>"""


def errors(folder: pathlib.Path) -> None:
    """The catalogue behind the search of troubleshooting.md, and as a list below it."""
    path = folder / "troubleshooting.md"
    found, seen = sentences.catalogue(), symptoms(path.read_text())
    titles = {page: title for _, page, title in seen}
    for page in {page for _, page in found} - titles.keys():
        titles[page] = first_words(folder, page.removesuffix(".md"))[0]
    data = [*seen, *((text, page, titles[page]) for text, page in found)]
    data = [(text, page.replace(".md", ".html"), title) for text, page, title in data]
    static = folder / "static"
    static.mkdir()
    (static / "errors.js").write_text(f"const SENTENCES = {json.dumps(data)};\n")
    rows = [f"| {ladder_pages.cell(text)} | [{titles[page]}]({page}) |" for text, page in found]
    table = "\n".join(["| sentence | page that helps |", "|---|---|", *rows])
    text = path.read_text().replace("<!-- catalogue -->", table)
    path.write_text(text.replace("<!-- box -->", _BOX))


def main(folder: pathlib.Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages(folder)
    notebooks(folder)
    ladder_pages.write(folder)
    api(folder)
    errors(folder)
    sections(folder)
    (folder / "llms.head").write_text(
        f"# gpuops {gpuops.__version__}\n\n> Six array operations for NumPy, CuPy, PyTorch, "
        "JAX and Numba with specified bits, each a ladder of CPU, CUDA and OpenCL kernels, and "
        "a simulator that runs, checks and counts CUDA kernels without a GPU.\n"
    )
    for path in HERE.glob("static/*"):
        shutil.copy(path, folder / "static" / path.name)
    for name in ("conf.py", "extras.py"):
        shutil.copy(HERE / name, folder / name)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if sys.argv[1:] else ROOT / "build" / "docs-src"))
