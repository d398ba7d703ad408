"""Qt's signals with a type: PyQt's own stubs leave the slot's unknown."""

from __future__ import annotations

from collections.abc import Callable

from PyQt6.QtCore import pyqtBoundSignal


def connect(signal: pyqtBoundSignal, slot: Callable[..., object]) -> None:
    signal.connect(slot)  # pyright: ignore[reportUnknownMemberType]
