"""The parts of a controller: the order of their starts and stops."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from culvert_service.controller import lifecycle
from culvert_service.controller.lifecycle import run_parts, until_signal


class _Part:
    def __init__(self, name: str, log: list[str], *, fails: bool = False, hangs: bool = False) -> None:
        self._name = name
        self._log = log
        self._fails = fails
        self._hangs = hangs

    async def start(self) -> None:
        self._log.append(f"start {self._name}")
        if self._fails:
            raise OSError(self._name)

    async def stop(self) -> None:
        self._log.append(f"stop {self._name}")
        if self._hangs:
            await asyncio.Event().wait()


async def test_parts_start_forwards_and_stop_backwards() -> None:
    log: list[str] = []
    async with run_parts([_Part("a", log), _Part("b", log)]):
        log.append("ready")
    assert log == ["start a", "start b", "ready", "stop b", "stop a"]


async def test_a_failed_start_stops_backwards_from_there() -> None:
    log: list[str] = []
    with pytest.raises(OSError, match="b"):
        async with run_parts([_Part("a", log), _Part("b", log, fails=True), _Part("c", log)]):
            pass
    assert log == ["start a", "start b", "stop b", "stop a"]


async def test_a_part_that_does_not_stop_is_named_and_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lifecycle, "_STOP_SECONDS", 0.01)
    log: list[str] = []
    with caplog.at_level(logging.ERROR):
        async with run_parts([_Part("a", log), _Part("b", log, hangs=True)]):
            pass
    assert log == ["start a", "start b", "stop b", "stop a"]
    assert "a part did not stop in 0 s: _Part" in caplog.text


async def test_a_signal_ends_a_start_that_waits() -> None:
    """As for a migration that another controller runs (Kludex/uvicorn issue 2751)."""
    log: list[str] = []

    @asynccontextmanager
    async def process() -> AsyncGenerator[None]:
        async with run_parts([_Part("a", log)]):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
            yield

    async with asyncio.timeout(5):
        await until_signal(process())
    assert log == ["start a", "stop a"]


async def test_a_signal_stops_a_process_that_runs() -> None:
    log: list[str] = []

    @asynccontextmanager
    async def process() -> AsyncGenerator[None]:
        async with run_parts([_Part("a", log)]):
            asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), signal.SIGINT)
            yield
            log.append("left")

    async with asyncio.timeout(5):
        await until_signal(process())
    assert log == ["start a", "left", "stop a"]
