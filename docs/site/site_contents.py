"""The table of contents: contents.toml, and the place of each source in the site."""

from __future__ import annotations

import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_README = "/README.md"
_DEVELOPER = "Developer"


class SiteError(Exception):
    """A fault of a source, named with its place."""


@dataclass(frozen=True, slots=True)
class Page:
    """`source`: its path in the repository, or a folder of generated pages; `path`: its path in the site, both Markdown."""

    title: str
    source: str
    path: str

    @property
    def generated(self) -> bool:
        return self.source.endswith("/")


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    pages: tuple[Page, ...]


def read_contents() -> tuple[Section, ...]:
    """Raises SiteError for a page that is missing. A page of docs/ that no section names is the developer's."""
    table = tomllib.loads((ROOT / "docs/site/contents.toml").read_text())
    sections = tuple(
        Section(it["title"], tuple(Page(title, source, _place(source)) for title, source in it["pages"]))
        for it in table["section"]
    )
    named = {page.source for section in sections for page in section.pages if not page.generated}
    named |= set(table["hidden"])
    tracked = set(_git("ls-files", "--cached", "--others", "--exclude-standard").split())
    if missing := sorted(named - tracked):
        raise SiteError(f"docs/site/contents.toml names what is not there: {', '.join(missing)}")
    unnamed = sorted(it for it in tracked - named if it.startswith("docs/") and it.endswith(".md"))
    others = tuple(Page(_read_title(it), it, _place(it)) for it in unnamed)
    return tuple(Section(it.title, it.pages + others) if it.title == _DEVELOPER else it for it in sections)


def _read_title(source: str) -> str:
    return (ROOT / source).read_text().partition("\n")[0].removeprefix("# ")


def _place(source: str) -> str:
    """docs/dns.md: dns.md; docs/decisions/README.md: decisions.md; service/README.md: parts/service.md."""
    if source.endswith("/"):
        return f"{source}index.md"
    within = source.removeprefix("docs/")
    if within.endswith(_README):
        folder = within.removesuffix(_README)
        return f"{folder}.md" if source.startswith("docs/") else f"parts/{folder.replace('/', '-')}.md"
    return within if source.startswith("docs/") else f"project/{within.lower()}"


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True
    ).stdout
