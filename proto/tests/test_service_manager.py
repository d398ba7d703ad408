"""The message to a service manager, at real sockets."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from culvert_proto.service_manager import tell_ready


@pytest.mark.parametrize("is_abstract", [False, True])
def test_the_manager_hears_it(is_abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"culvert-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}" if is_abstract else name)
        manager.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}" if is_abstract else name)
        tell_ready()
        assert manager.recv(100) == b"READY=1"


def test_without_a_manager_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    tell_ready()
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    tell_ready()
