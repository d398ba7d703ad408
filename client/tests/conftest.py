"""Fixtures that several test files use."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def place() -> Generator[Path]:
    """A directory that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="culvert-") as directory:
        path = Path(directory)
        path.chmod(0o755)
        yield path


@pytest.fixture
def gateway_address() -> Iterator[str]:
    """An address that answers a ping and that a controller may give a gateway, which 127.0.0.1 is not. Needs root."""
    # Tests run side by side, each in a process of its own.
    address = f"198.18.77.{1 + os.getpid() % 254}"
    subprocess.run(["ip", "address", "replace", f"{address}/32", "dev", "lo"], check=True)
    yield address
    subprocess.run(["ip", "address", "delete", f"{address}/32", "dev", "lo"], check=True)
