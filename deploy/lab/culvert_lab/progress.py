"""The demo's progress for people: one line a step, with its time; plain lines when piped."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import AsyncGenerator
from typing import TextIO


class Progress:
    """Prints steps. A step that fails keeps its line, marked; the error itself is for the caller."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self.fancy = self._out.isatty()

    def head(self, text: str) -> None:
        """A heading between groups of steps."""
        bold, plain = ("\x1b[1m", "\x1b[0m") if self.fancy else ("", "")
        self._print(f"\n{bold}{text}{plain}")

    def say(self, text: str = "") -> None:
        """Text as it is."""
        self._print(text)

    @contextlib.asynccontextmanager
    async def step(self, name: str) -> AsyncGenerator[Finding]:
        """Show a step: `async with progress.step("BIND 9 serves corp.example") as finding`."""
        finding = Finding()
        began = time.monotonic()
        if self.fancy:
            self._print(f"  … {name}", end="")
        try:
            yield finding
        except BaseException:
            self._line("✗", "31", name, began, finding)
            raise
        self._line("✓", "32", name, began, finding)

    def _line(self, mark: str, colour: str, name: str, began: float, finding: Finding) -> None:
        took = time.monotonic() - began
        text = f"{name}: {finding.text}" if finding.text else name
        if self.fancy:
            line = f"\r\x1b[K  \x1b[{colour}m{mark}\x1b[0m {text}  \x1b[2m{took:.2f} s\x1b[0m"
        else:
            line = f"  {mark} {text}  ({took:.2f} s)"
        self._print(line)

    def _print(self, text: str, end: str = "\n") -> None:
        # A terminal that was closed must not keep the lab from being taken down.
        with contextlib.suppress(OSError):
            print(text, end=end, file=self._out, flush=True)


class Finding:
    """A step's finding, shown behind its name."""

    def __init__(self) -> None:
        self.text = ""
