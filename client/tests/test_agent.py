"""The connection to the controller, when it comes back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest
from culvert_client.controller import agent as agents
from culvert_client.controller.agent import Agent
from culvert_client.state_dir import Identity
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError, Reason, agent_pb2
from culvert_proto.backoff import Backoff

from .controller import Controller, serving
from .pki import Authority
from .running import PLATFORM

# Seconds that a packet takes over a satellite, one way.
ONE_WAY = 0.35


def identity(port: int, infrastructure: Authority, devices: Authority) -> Identity:
    certificate, key = devices.issue("laptop")
    return Identity("https://c", f"127.0.0.1:{port}", "d1", "alice", 0, certificate, infrastructure.pem, key)


async def test_a_network_change_ends_the_wait_for_the_next_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "RECONNECT", Backoff(3600.0, 3600.0))
    infrastructure, devices, port = Authority("infrastructure"), Authority("devices"), free_port()
    agent = Agent(identity(port, infrastructure, devices), "1", PLATFORM.posture)
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


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            asyncio.get_running_loop().call_later(ONE_WAY, sink.write, data)


@pytest.mark.slow
async def test_a_controller_behind_a_satellite_is_reached_at_the_first_try() -> None:
    infrastructure, devices, port = Authority("infrastructure"), Authority("devices"), free_port()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_carry(reader, far_writer), _carry(far_reader, writer))
        far_writer.close()
        writer.close()

    near = free_port()
    agent = Agent(identity(near, infrastructure, devices), "1", PLATFORM.posture)
    async with (
        serving(Controller(), infrastructure, devices, port),
        await asyncio.start_server(relay, "127.0.0.1", near),
        asyncio.timeout(30),
    ):
        first = await anext(agent.watch())
        await agent.close()
    assert not isinstance(first, CulvertError)


async def test_a_call_on_a_closed_connection_raises_unreachable() -> None:
    agent = Agent(
        identity(free_port(), Authority("infrastructure"), Authority("devices")), "1", PLATFORM.posture
    )
    await agent.close()
    for call in (
        agent.open_tunnel(agent_pb2.OpenTunnelRequest(fqdn="wiki.corp.example")),
        agent.renew_sa("t1", 1),
        agent.close_tunnel("t1", Reason.CLOSED_BY_USER),
        agent.prove_code("123456"),
    ):
        with pytest.raises(CulvertError) as refused:
            await call
        assert refused.value.reason is Reason.CONTROLLER_UNREACHABLE


class Hung:
    """A way to a controller that, once `stopped`, accepts connections and answers nothing, as a stopped process does."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._stopped: list[asyncio.Event] = []
        self.connections = 0

    def stop(self) -> None:
        """Connections up to now carry nothing more. A new one leads to the name's next address."""
        for each in self._stopped:
            each.set()

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        stopped = asyncio.Event()
        self._stopped.append(stopped)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)

        async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(1 << 16):
                    if not stopped.is_set():
                        sink.write(data)

        await asyncio.gather(carry(reader, far_writer), carry(far_reader, writer))
        far_writer.close()
        writer.close()


async def test_a_controller_that_hangs_is_left_for_the_next_at_a_click() -> None:
    infrastructure, devices, port = Authority("infrastructure"), Authority("devices"), free_port()
    controller, near = Controller(), free_port()
    controller.profile.code_valid_until = 1
    hung = Hung(port)
    agent = Agent(identity(near, infrastructure, devices), "1", PLATFORM.posture)
    async with (
        serving(controller, infrastructure, devices, port),
        await asyncio.start_server(hung.relay, "127.0.0.1", near),
        asyncio.timeout(30),
    ):
        events = agent.watch()
        assert not isinstance(await anext(events), CulvertError)
        again = asyncio.ensure_future(anext(events))
        hung.stop()
        began = asyncio.get_running_loop().time()
        request = agent_pb2.OpenTunnelRequest(fqdn="wiki.corp.example")
        both = await asyncio.gather(agent.open_tunnel(request), agent.open_tunnel(request))
        # The DNS answer is held that long.
        assert asyncio.get_running_loop().time() - began < 4
        assert {it.tunnel.resource for it in both} == {"wiki"}
        # The stream is at the new connection, too.
        assert not isinstance(await again, CulvertError)
        assert hung.connections == 2
        await agent.close()


@pytest.mark.slow
async def test_a_call_without_an_answer_is_the_last_of_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agents, "CALL_TIMEOUT", 1.0)
    infrastructure, devices, port = Authority("infrastructure"), Authority("devices"), free_port()
    controller, near = Controller(), free_port()
    controller.open["t1"] = 1
    hung = Hung(port)
    agent = Agent(identity(near, infrastructure, devices), "1", PLATFORM.posture)
    async with (
        serving(controller, infrastructure, devices, port),
        await asyncio.start_server(hung.relay, "127.0.0.1", near),
        asyncio.timeout(30),
    ):
        await agent.renew_sa("t1", 1)
        hung.stop()
        with pytest.raises(CulvertError) as late:
            await agent.renew_sa("t1", 2)
        assert late.value.reason is Reason.TIMEOUT
        await agent.renew_sa("t1", 2)
        assert hung.connections == 2
        await agent.close()


class HangsUp:
    """A server that ends each connection."""

    def __init__(self) -> None:
        self.port = free_port()
        self.connections = 0

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncGenerator[Agent]:
        """An agent of it."""
        agent = Agent(
            identity(self.port, Authority("infrastructure"), Authority("devices")), "1", PLATFORM.posture
        )
        async with await asyncio.start_server(self._end, "127.0.0.1", self.port), asyncio.timeout(30):
            yield agent

    async def _end(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.close()


@pytest.mark.slow
async def test_between_two_tries_nothing_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 devices must not call each second at a controller that comes back."""
    monkeypatch.setattr(agents, "RECONNECT", Backoff(3600.0, 3600.0))
    server = HangsUp()
    async with server.serving() as agent:
        events = agent.watch()
        assert isinstance(await anext(events), CulvertError)
        next_try = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.5)
        before = server.connections
        await asyncio.sleep(4)
        assert server.connections == before > 0
        next_try.cancel()
        await agent.close()


@pytest.mark.slow
async def test_a_closed_connection_connects_no_more_though_its_errors_are_kept() -> None:
    """As with an expired certificate: the device must not go on calling the controller after it has a new one."""
    server = HangsUp()
    kept: list[CulvertError | agent_pb2.WatchResponse] = []
    async with server.serving() as agent:

        async def watch() -> None:
            async for event in agent.watch():
                kept.append(event)

        watching = asyncio.create_task(watch())
        opening = agent.open_tunnel(agent_pb2.OpenTunnelRequest(fqdn="wiki.corp.example"))
        for call in (opening, agent.renew_sa("t1", 1), agent.prove_code("123456")):
            with pytest.raises(CulvertError) as refused:
                await call
            kept.append(refused.value)
            del call, refused
        del opening
        agent.reconnect(0)
        await asyncio.sleep(1)
        watching.cancel()
        await agent.close()
        await asyncio.sleep(0.5)
        before = server.connections
        assert min(before, len(kept)) > 3
        await asyncio.sleep(3)
        assert server.connections == before


async def test_a_call_on_a_connection_that_closes_ends_with_a_refusal() -> None:
    infrastructure, devices = Authority("infrastructure"), Authority("devices")
    controller = Controller()
    controller.answers.clear()
    async with serving(controller, infrastructure, devices) as served, asyncio.timeout(20):
        agent = Agent(identity(served.port, infrastructure, devices), "1", PLATFORM.posture)
        opening = asyncio.create_task(
            agent.open_tunnel(agent_pb2.OpenTunnelRequest(fqdn="wiki.corp.example"))
        )
        while not controller.calls:  # noqa: ASYNC110  of another program
            await asyncio.sleep(0.01)
        await agent.close()
        with pytest.raises(CulvertError) as refused:
            await opening
        assert refused.value.reason is Reason.CONTROLLER_UNREACHABLE
