"""The built pages become fit for the controller's Content-Security-Policy, and are judged: no page loads or runs anything
that is not a file of the site."""

from __future__ import annotations

import gzip
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

from site_contents import SiteError

_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_SCRIPTS = "assets/javascripts"
# Left out: a list for search engines, which has dates, and the address of a site that has a name of its own.
_UNWANTED = ("sitemap.xml", "sitemap.xml.gz", "objects.inv")
_CANONICAL = re.compile(r'<link[^>]*rel="?canonical"?[^>]*>')
_COMPRESSIBLE = {".html", ".css", ".js", ".json", ".svg"}
COMPRESSED = ".gz"


def finish(site: Path) -> None:
    """Raises SiteError for a page that the policy would break."""
    for name in _UNWANTED:
        (site / name).unlink(missing_ok=True)
    faults: list[str] = []
    for page in sorted(site.rglob("*.html")):
        text = _CANONICAL.sub("", _move_scripts(site, page, page.read_text()))
        page.write_text(text)
        judge = _Judge()
        judge.feed(text)
        faults += [f"{page.relative_to(site)}: {it}" for it in judge.faults]
    if faults:
        raise SiteError("\n".join(faults))


def compress(site: Path) -> None:
    """Write each text's gzip form beside it, the same in each build."""
    for file in sorted(site.rglob("*")):
        if file.suffix in _COMPRESSIBLE:
            file.with_name(file.name + COMPRESSED).write_bytes(gzip.compress(file.read_bytes(), 9, mtime=0))


def _move_scripts(site: Path, page: Path, text: str) -> str:
    """The page with each of its scripts as a file."""
    # The page for paths that are not there is shown at any depth.
    base = "/docs/" if page.name == "404.html" else "../" * len(page.relative_to(site).parent.parts)

    def move(found: re.Match[str]) -> str:
        name = f"page.{hashlib.sha256(found[1].encode()).hexdigest()[:8]}.min.js"
        (site / _SCRIPTS).mkdir(parents=True, exist_ok=True)
        (site / _SCRIPTS / name).write_text(found[1])
        return f'<script src="{base}{_SCRIPTS}/{name}"></script>'

    return _INLINE.sub(move, text)


class _Judge(HTMLParser):
    """Finds what the policy forbids in a page."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "script" and "src" not in values and values.get("type") != "application/json":
            self.faults.append("a script in the page")
        if tag == "style" or "style" in values:
            self.faults.append(f"a style in the page: {tag} {values.get('style', '')}")
        if any(name.startswith("on") for name in values):
            self.faults.append(f"a handler in the page: {tag}")
        loaded = values.get("src", "") if tag != "a" else ""
        loaded = values.get("href", "") if tag == "link" else loaded
        if re.match(r"(?:[a-z]+:)?//", loaded):
            self.faults.append(f"{tag} loads {loaded}")
