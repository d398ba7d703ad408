"""What several files' tests stand on."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.fixture
def place() -> Generator[Path]:
    """A directory that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="culvert-") as directory:
        path = Path(directory)
        path.chmod(0o755)
        yield path
