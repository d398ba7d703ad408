"""The controller accepts a computer's report of its posture."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from culvert_client.controller.agent import posture
from culvert_proto import local_pb2

from .running import PLATFORM
from .test_daemon import Lab


def test_posture_is_short_text() -> None:
    found = posture(PLATFORM.posture)
    assert {"kernel", "architecture"} <= set(found)
    assert all(name and 0 < len(value) <= 256 and value.isprintable() for name, value in found.items())


async def test_a_changed_posture_is_reported_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path)
    monkeypatch.setattr("culvert_client.controller.agent.POSTURE_EVERY", 0.05)
    async with lab.serving() as controller, lab.daemon() as daemon:
        encrypted = "culvert_client.platform.linux.posture.root_is_encrypted"
        monkeypatch.setattr(encrypted, lambda: bool(controller.said))
        await lab.enroll(daemon)
        async with asyncio.timeout(30):
            while len(controller.said) < 2:  # noqa: ASYNC110  the status does not change with it
                await asyncio.sleep(0.01)
        assert [one["disk_encryption"] for one in controller.said] == ["off", "on"]
        # The person notices nothing.
        assert (await daemon.status()).state == local_pb2.STATE_NEEDS_CODE
