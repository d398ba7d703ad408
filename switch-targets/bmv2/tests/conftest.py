"""Fixtures: bmv2 with the module between two wires, and a controller. The rig is the conformance tests'."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import finsy as fy
import pytest
from gateway_authority import Authority
from gateway_entries import KEK, Site
from gateway_rig import Gateway
from gateway_target import GRPC_PORT, Launch, controller_options, infrastructure
from gateway_wires import PORTS, PREFIX, Relay, Wire, wire_switch
from target_bmv2 import Bmv2Target

SWITCH, PEERS = f"{PREFIX}-bmv2", f"{PREFIX}-bmv2-peers"

Start = Callable[..., Bmv2Target]
Connect = Callable[..., AbstractAsyncContextManager[fy.Switch]]


@pytest.fixture(scope="session")
def rig() -> Iterator[None]:
    if (why := Bmv2Target.absent()) is not None:
        pytest.skip(why)
    if os.geteuid() != 0:
        pytest.fail("needs root, for network namespaces")
    with wire_switch(SWITCH, PEERS):
        yield


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = infrastructure(tmp_path_factory.mktemp("pki") / "infrastructure")
    authority.issue("stranger", "somebody-else", None)
    return authority


@pytest.fixture
def launch(tmp_path: Path, authority: Authority) -> Launch:
    return Launch(SWITCH, PORTS, KEK, [], tmp_path, authority)


@pytest.fixture
def start(rig: None, launch: Launch) -> Iterator[Start]:
    """Starts bmv2, of a kind that a test has bent; it must still run at the end of the test."""
    with ExitStack() as stack:

        def start(kind: type[Bmv2Target] = Bmv2Target) -> Bmv2Target:
            target = kind(launch)
            stack.callback(lambda: print(target.log.read_text()))
            stack.callback(target.stop)
            return target

        yield start


@pytest.fixture
def connect(rig: None, authority: Authority) -> Iterator[Connect]:
    """A controller that pushes the program anew. Keywords are finsy's switch options."""
    relay = Relay(GRPC_PORT, SWITCH)

    @asynccontextmanager
    async def connect(**changes: Any) -> AsyncGenerator[fy.Switch]:
        options = controller_options(authority)
        async with fy.Switch("gateway", relay.address, options(**changes)) as switch:
            yield switch

    yield connect
    relay.close()


@pytest.fixture
def wires(rig: None) -> Iterator[dict[str, Wire]]:
    wires = {name: Wire(name, PEERS) for name in PORTS.values()}
    yield wires
    for wire in wires.values():
        wire.close()


@pytest.fixture
def gateway(wires: dict[str, Wire]) -> Callable[[fy.Switch], Gateway]:
    """The rig around a connected switch."""
    return lambda switch: Gateway(switch, Site(), **wires)
