"""Fixtures: one switch for the whole run, and for each test the program pushed anew with a site's entries."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import cast

import finsy as fy
import pytest
from crypto_front import HOST_PORT, PORT, FrontSwitch, front_entries, host_entries
from esp_peer import LEGACY
from gateway_authority import Authority
from gateway_entries import KEK, Site
from gateway_rig import Gateway
from gateway_target import GRPC_PORT, Launch, Target, choose, controller_options, infrastructure
from gateway_wires import PORTS, PREFIX, SWITCH, Relay, Wire, connect, namespaces, run, wire_switch

HOST = f"{PREFIX}-host"
SUITES = [suite.name for suite in LEGACY]
LONGEST = 1600  # docs/crypto-port.md


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
    with wire_switch(), namespaces(HOST):
        connect((SWITCH, "crypto"), (HOST, "front"))
        for namespace, interface in ((SWITCH, "crypto"), (HOST, "front")):
            run("ip", "-n", namespace, "link", "set", interface, "mtu", str(LONGEST))
        ports = {**PORTS, PORT: "crypto"}
        target = kind(Launch(SWITCH, ports, KEK, SUITES, tmp_path_factory.mktemp("switch"), authority))
        try:
            yield target
        finally:
            target.stop()


@pytest.fixture(scope="session")
def host(
    kind: type[Target], target: Target, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of the crypto host behind the switch's port."""
    host = kind(Launch(HOST, {HOST_PORT: "front"}, KEK, SUITES, tmp_path_factory.mktemp("host"), authority))
    relay = Relay(GRPC_PORT, HOST)
    try:
        yield relay.address
    finally:
        relay.close()
        host.stop()


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


@pytest.fixture(params=["engine", "host"])
async def gateway(
    request: pytest.FixtureRequest,
    target: Target,
    address: str,
    authority: Authority,
    wires: dict[str, Wire],
    site: Site,
) -> AsyncIterator[Gateway]:
    """Its SAs are served by its own engine, or by a crypto host behind a port."""
    for wire in wires.values():
        wire.drain(0)
    async with AsyncExitStack() as stack:
        switch = await stack.enter_async_context(fy.Switch("gateway", address, controller_options(authority)))
        await switch.insert(site.entries())
        if request.param == "host":
            options = controller_options(authority, "crypto_host")
            behind = fy.Switch("host", request.getfixturevalue("host"), options)
            host = await stack.enter_async_context(behind)
            await host.insert(host_entries())
            await switch.insert(front_entries())
            switch = cast(fy.Switch, FrontSwitch(switch, host))
        yield Gateway(switch, site, **wires)
    assert target.alive(), target.log.read_text()
