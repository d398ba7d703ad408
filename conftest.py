"""A run without slow tests does not load the modules that have only slow ones, which are half of all modules. No example of
Hypothesis has a time limit: a busy machine would fail it. SIGTERM ends a run as Ctrl-C does, so fixtures end programs."""

from __future__ import annotations

import re
import signal
import threading
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("culvert", deadline=None)
hypothesis.settings.load_profile("culvert")

_ONLY_SLOW = re.compile(r"^pytestmark = (\[\s*)?pytest\.mark\.slow\b", re.MULTILINE)


def pytest_configure() -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """True: the module is passed over. None: pytest decides."""
    if config.getoption("markexpr") != "not slow" or collection_path.suffix != ".py":
        return None
    return True if _ONLY_SLOW.search(collection_path.read_text("utf-8")) else None
