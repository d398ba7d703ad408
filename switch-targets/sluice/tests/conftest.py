"""Fixtures: the namespaces, the certificates, a running sluice, and a controller."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import finsy as fy
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import sluice_entries as entries
from gateway_authority import Authority
from gateway_entries import KEK, Site
from gateway_rig import Gateway
from gateway_target import CLIENT_NAME, GRPC_PORT, P4INFO, PROGRAM
from gateway_target import infrastructure as make_infrastructure
from gateway_wires import Relay, Wire, wire_switch
from sluice_rig import PEERS, SWITCH, Controller, Sluice, binary, credentials, flat


@pytest.fixture(scope="session")
def program() -> Path:
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("needs root and iproute2, for network namespaces")
    return binary()


@pytest.fixture(scope="session")
def rig(program: Path) -> Iterator[None]:
    with wire_switch(SWITCH, PEERS):
        yield


@pytest.fixture(scope="session")
def infrastructure(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_infrastructure(tmp_path_factory.mktemp("pki") / "infrastructure")


@pytest.fixture
def arguments(infrastructure: Authority, tmp_path: Path) -> dict[str, str]:
    """The command line, to be bent by tests."""
    kek = tmp_path / "kek.bin"
    kek.write_bytes(KEK)
    kek.chmod(0o600)
    return {
        "--device-id": "1",
        "--grpc": f"127.0.0.1:{GRPC_PORT}",
        "--cert": str(infrastructure.folder / "gateway.pem"),
        "--key": str(infrastructure.folder / "gateway.key"),
        "--client-ca": str(infrastructure.certificate),
        "--client-name": CLIENT_NAME,
        "--kek": str(kek),
    }


@pytest.fixture
def sluice(rig: None, program: Path, arguments: dict[str, str], tmp_path: Path) -> Iterator[Sluice]:
    switch = Sluice(program, flat(arguments), tmp_path / "sluice.log")
    yield switch
    try:
        assert switch.stop() == 0
    finally:
        print(switch.log.read_text())


@pytest.fixture
def address(sluice: Sluice) -> Iterator[str]:
    relay = Relay(GRPC_PORT, SWITCH)
    yield relay.address
    relay.close()


@pytest.fixture
def controller(address: str, infrastructure: Authority) -> Controller:
    """A controller that has pushed gateway.p4. Keywords are finsy's switch options."""
    certificate, key = infrastructure.folder / "controller.pem", infrastructure.folder / "controller.key"
    options = fy.SwitchOptions(
        p4info=P4INFO, p4blob=PROGRAM, channel_credentials=credentials(infrastructure, certificate, key)
    )

    @asynccontextmanager
    async def connect(**changes: Any) -> AsyncGenerator[fy.Switch]:
        async with fy.Switch("gateway", address, options(**changes)) as switch:
            yield switch

    return connect


@pytest.fixture
async def gateway(controller: Controller) -> AsyncIterator[fy.Switch]:
    """A gateway with its static entries."""
    async with controller() as switch:
        await switch.insert(entries.site())
        yield switch


@pytest.fixture
def wan(sluice: Sluice) -> Iterator[Wire]:
    wire = Wire("wan", PEERS)
    yield wire
    wire.close()


@pytest.fixture
def lan(sluice: Sluice) -> Iterator[Wire]:
    wire = Wire("lan", PEERS)
    yield wire
    wire.close()


@pytest.fixture
async def wired(gateway: fy.Switch, wan: Wire, lan: Wire) -> Gateway:
    """The gateway with its wires."""
    return Gateway(gateway, Site(), wan, lan, lan)
