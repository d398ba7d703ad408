"""The commands of docs/quick-start.md, by section and in their order, for a test that takes and runs each of them."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/quick-start.md"
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"(?:^ {4,}\S.*\n(?: *\n(?= {4}))?)+", re.MULTILINE)
# In a line of text, a command is a program of ours or of the release with a word after it.
_INLINE = re.compile(r"`((?:culvert|culvert-controller|culvert-gateway|journalctl|systemctl|apt) [^`]+)`")


@dataclass(frozen=True, slots=True)
class Command:
    """A block that is no shell's, as a name server's settings, is one command of several lines."""

    section: str
    text: str


class QuickStart:
    def __init__(self, page: str) -> None:
        self._ahead: list[Command] = []
        parts = _SECTION.split(page)
        for section, text in zip(parts[1::2], parts[2::2], strict=True):
            found = [(it.start(), textwrap.dedent(it[0]).strip()) for it in _BLOCK.finditer(text)]
            found += [(it.start(), it[1]) for it in _INLINE.finditer(_BLOCK.sub(_blank, text))]
            for _, block in sorted(found):
                lines = [block] if "{" in block else block.splitlines()
                self._ahead += [Command(section, line) for line in lines]

    def take(self, section: str, start: str) -> str:
        """The section's next command that starts so. Raises LookupError."""
        for command in self._ahead:
            if command.section == section and command.text.startswith(start):
                self._ahead.remove(command)
                return command.text
        raise LookupError(f"“{section}” has no command left that begins with “{start}”")

    @property
    def left(self) -> list[Command]:
        return list(self._ahead)


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def read() -> QuickStart:
    return QuickStart(PAGE.read_text())
