"""check - what must hold of the site that was made.

It fetches nothing from elsewhere, and every link inside it leads to a page.

    python docs/site/check.py build/docs
"""

from __future__ import annotations

import pathlib
import re
import sys
import urllib.parse

_FETCHED = re.compile(
    r'<(?:script|link|img|iframe|source|video|audio)\b[^>]*?\b(?:src|href)="([^"]+)"'
)
_IN_CSS = re.compile(
    r"url\(\s*['\"]?((?:https?:)?//[^)'\"]+)|@import\s+['\"]((?:https?:)?//[^'\"]+)"
)
_LINK = re.compile(r'<a\b[^>]*?\bhref="([^"#]*)')
_OTHER = re.compile(r"(?:https?:)?//")


def faults(site: pathlib.Path) -> list[str]:
    found = []
    for page in sorted(site.rglob("*.html")):
        name, text = page.relative_to(site).as_posix(), page.read_text()
        for tag in re.finditer(_FETCHED, text):
            if _OTHER.match(tag[1]) and 'rel="canonical"' not in tag[0]:
                found.append(f"{name} fetches {tag[1]}")
        for target in set(_LINK.findall(text)):
            if re.match(r"[a-z]+:|//", target) or not target:
                continue
            path = page.parent / urllib.parse.unquote(target)
            if not path.exists():
                found.append(f"{name} links to {target}, which is not there")
    for path in site.rglob("*.css"):
        for hit in _IN_CSS.finditer(path.read_text(errors="replace")):
            found.append(f"{path.relative_to(site)} fetches {hit[1] or hit[2]}")
    if not (site / "llms.txt").exists():
        found.append("there is no llms.txt")
    return found


def main() -> None:
    site = pathlib.Path(sys.argv[1])
    bad = faults(site)
    pages = len(list(site.rglob("*.html")))
    sys.exit("\n".join(bad)) if bad else print(
        f"{site}: {pages} pages, every link leads to one"
    )


if __name__ == "__main__":
    main()
