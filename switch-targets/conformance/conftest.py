"""Fixtures: one switch for the whole run, and for each test the program pushed anew with a site's entries."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import finsy as fy
import pytest
from esp_peer import LEGACY
from gateway_authority import Authority
from gateway_entries import KEK, Site
from gateway_rig import Gateway
from gateway_target import GRPC_PORT, Launch, Target, choose, controller_options, infrastructure
from gateway_wires import PORTS, SWITCH, Relay, Wire, wire_switch


@pytest.fixture(scope="session")
def kind() -> type[Target]:
    kind = choose()
    if (why := kind.absent()) is not None:
        pytest.skip(why)
    if os.geteuid() != 0:
        pytest.fail("needs root, for network namespaces")
    return kind


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return infrastructure(tmp_path_factory.mktemp("pki") / "infrastructure")


@pytest.fixture(scope="session")
def target(
    kind: type[Target], authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """A switch with the legacy suites allowed."""
    with wire_switch():
        suites = [suite.name for suite in LEGACY]
        target = kind(Launch(SWITCH, PORTS, KEK, suites, tmp_path_factory.mktemp("switch"), authority))
        try:
            yield target
        finally:
            target.stop()


@pytest.fixture(scope="session")
def address(target: Target) -> Iterator[str]:
    relay = Relay(GRPC_PORT)
    yield relay.address
    relay.close()


@pytest.fixture(scope="session")
def wires(target: Target) -> Iterator[dict[str, Wire]]:
    wires = {name: Wire(name) for name in PORTS.values()}
    yield wires
    for wire in wires.values():
        wire.close()


@pytest.fixture
def site() -> Site:
    """Parametrize it for another one."""
    return Site()


@pytest.fixture
async def gateway(
    target: Target, address: str, authority: Authority, wires: dict[str, Wire], site: Site
) -> AsyncIterator[Gateway]:
    for wire in wires.values():
        wire.drain(0)
    async with fy.Switch("gateway", address, controller_options(authority)) as switch:
        await switch.insert(site.entries())
        yield Gateway(switch, site, **wires)
    assert target.alive(), target.log.read_text()
