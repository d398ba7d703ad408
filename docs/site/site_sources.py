"""Sources in the repository's Markdown, as a forge shows it, become the site's: links lead to pages, screens are put in."""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from site_contents import ROOT, SiteError

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^()\s]+)\)")
_FENCE = re.compile(r"^\s*(```|~~~)")
_CODE = re.compile(r"(`[^`]*`)")
_BLOCK = re.compile(r"^(?:[-*] |\d+\. |\|)")
_PICTURE = (".svg", ".png")
# `<!-- screen: NAME: description -->`: a picture that a test has made. A forge shows nothing there.
_SCREEN = re.compile(r"^<!-- screen: (?P<name>[\w-]+): (?P<text>.*?) -->$")


# A forge draws it. The site's pages run no code, so that there it is a table.
_DIAGRAM = "```mermaid"
_ARROW = re.compile(r"^\s*(?P<source>\w+) --> (?P<target>\w+): (?P<events>.+)$")


class Sources:
    """`places`: the path in the site of each source that has a page; `screens`: the folder of the tests' pictures."""

    def __init__(self, folder: Path, places: Mapping[str, str], screens: Path) -> None:
        self._folder, self._places, self._screens = folder, places, screens
        self.missing_screens: set[str] = set()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def add(self, source: str) -> None:
        """Raises SiteError for a link to a file that is not there."""
        text = (ROOT / source).read_text()
        self.write(self._places[source], "\n".join(self._lines(source, text)) + "\n")

    def write(self, path: str, text: str) -> None:
        target = self._folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def _lines(self, source: str, text: str) -> Iterator[str]:
        before, fenced = "", False
        diagram: list[str] | None = None
        for number, line in enumerate(text.splitlines(), 1):
            if diagram is not None or line.strip() == _DIAGRAM:
                diagram = [*(diagram or []), line]
                if line.strip() == "```":
                    yield from _transitions(diagram)
                    diagram = None
                continue
            if _FENCE.match(line):
                fenced = not fenced
            elif not fenced:
                # Python-Markdown wants an empty line before a list and a table; a forge does not.
                if _BLOCK.match(line) and before and not _BLOCK.match(before) and not before.startswith(" "):
                    yield ""
                if found := _SCREEN.match(line):
                    line = self._screen(source, found["name"], found["text"])
                elif not line.startswith("    "):
                    line = self._with_links(source, number, line)
            yield line
            before = line

    def _with_links(self, source: str, number: int, line: str) -> str:
        def replace(found: re.Match[str]) -> str:
            try:
                return self._link(source, found["image"], found["text"], found["target"])
            except SiteError as error:
                raise SiteError(f"{source}:{number}: {error}") from None

        # Code between backticks may look like a link.
        if "](" not in _CODE.sub("", line):
            return line
        return _LINK.sub(replace, line)

    def _link(self, source: str, image: str, text: str, target: str) -> str:
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return f"{image}[{text}]({target})"
        file, _, anchor = target.partition("#")
        aimed = posixpath.normpath(posixpath.join(posixpath.dirname(source), file))
        here = posixpath.dirname(self._places[source])
        if aimed in self._places or f"{aimed}/README.md" in self._places:
            place = self._places.get(aimed) or self._places[f"{aimed}/README.md"]
            return f"{image}[{text}]({posixpath.relpath(place, here)}{'#' if anchor else ''}{anchor})"
        if not (ROOT / aimed).exists():
            raise SiteError(f"there is no {aimed}")
        if aimed.endswith(_PICTURE):
            return f"![{text}]({posixpath.relpath(self._picture(ROOT / aimed), here)})"
        # A file of the repository has no page.
        return text

    def _screen(self, source: str, name: str, text: str) -> str:
        picture = self._screens / f"{name}.png"
        if not picture.exists():
            self.missing_screens.add(name)
            return ""
        here = posixpath.dirname(self._places[source])
        return f"![{text}]({posixpath.relpath(self._picture(picture), here)})"

    def _picture(self, file: Path) -> str:
        place = f"images/{file.name}"
        (self._folder / "images").mkdir(exist_ok=True)
        shutil.copyfile(file, self._folder / place)
        return place


def _transitions(diagram: Sequence[str]) -> Iterator[str]:
    """A Mermaid state diagram as a table of its arrows, in the diagram's order."""
    yield from ("", "| state | event | next state |", "|---|---|---|")
    for line in diagram:
        if found := _ARROW.match(line):
            yield f"| {found['source']} | {found['events']} | {found['target']} |"
    yield ""
