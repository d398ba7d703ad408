"""Connects Qt's signals with a type for the slot, which PyQt's stubs leave unknown."""

from __future__ import annotations

from collections.abc import Callable

from PyQt6.QtCore import pyqtBoundSignal


def connect(signal: pyqtBoundSignal, slot: Callable[..., object]) -> None:
    signal.connect(slot)  # pyright: ignore[reportUnknownMemberType]
