"""The connection to the controller, when it comes back."""

from __future__ import annotations

import asyncio

import pytest
from culvert_client.controller import agent as agents
from culvert_client.controller.agent import Agent
from culvert_client.state_dir import Identity
from culvert_proto import CulvertError, Reason

from .controller import Controller, serving
from .pki import Authority
from .running import free_port


async def test_at_a_new_place_nobody_waits_for_the_next_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "RECONNECT_FIRST", 3600.0)
    monkeypatch.setattr(agents, "RECONNECT_CAP", 3600.0)
    infrastructure, devices, port = Authority("infrastructure"), Authority("devices"), free_port()
    certificate, key = devices.issue("laptop")
    identity = Identity(
        "https://c", f"127.0.0.1:{port}", "d1", "alice", 0, certificate, infrastructure.pem, key
    )
    agent = Agent(identity, "1")
    events = agent.watch()
    async with asyncio.timeout(20):
        lost = await anext(events)
        assert isinstance(lost, CulvertError)
        assert lost.reason is Reason.CONTROLLER_UNREACHABLE
        back = asyncio.ensure_future(anext(events))
        async with serving(Controller(), infrastructure, devices, port):
            await asyncio.sleep(0)
            agent.reconnect()
            first = await back
            assert not isinstance(first, CulvertError)
            assert first.profile.user == "alice"
            await agent.close()
