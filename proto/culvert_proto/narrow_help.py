"""The help of a Typer program in a narrow terminal: lists in place of tables, which would cut names; the usage wraps.

For the methods `format_help` and `format_usage` of a program's commands. `formatter`: Typer's HelpFormatter.
"""

from __future__ import annotations

import shutil
import textwrap
from functools import partial
from typing import Any, Protocol

_NARROW = 60
"""In fewer columns than this, Typer's tables would cut the names of options and variables."""


class _Command(Protocol):
    rich_markup_mode: Any


def fit(command: _Command, formatter: Any) -> None:
    """Make lists of the tables, as narrow as the terminal, where tables would not fit."""
    columns = shutil.get_terminal_size().columns
    if command.rich_markup_mode is not None and columns < _NARROW:
        command.rich_markup_mode = None
        formatter.width = columns - 1
        # Longer names have a line of their own, and the texts room beside the others.
        formatter.write_dl = partial(formatter.write_dl, col_max=columns // 3)


def write_usage(usage: str, formatter: Any) -> None:
    wrapped = textwrap.fill(usage, formatter.width, subsequent_indent=" " * 7, break_on_hyphens=False)
    formatter.write(f"{wrapped}\n")
