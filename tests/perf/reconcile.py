"""Seconds from a gateway's restart until it holds again what its 20,000 tunnels need: 100,000 entries, with fresh keys.

  rows of 20,000 open tunnels ─► controller ── P4Runtime, mTLS ──► sluice, which comes up empty

The clock starts when sluice listens, and stops when the last tunnel has its new pair.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import itertools
import os
import secrets
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from culvert_db import (
    Address,
    Database,
    Device,
    Direction,
    Gateway,
    Policy,
    PolicyVersion,
    Resource,
    ResourceGateway,
    SecurityAssociation,
    Tunnel,
    TunnelState,
    User,
)
from culvert_lab.free_port import free_port
from culvert_service.audit.log import CONTROLLER
from culvert_service.config import Settings
from culvert_service.controller.database import open_database
from culvert_service.controller.lifecycle import Controller
from culvert_service.gateways.schemas import BundleOut, GatewayIn
from esp import ROOT
from figures import Figure
from gateway_wires import run
from sqlalchemy import exists, insert, select

DEVICES, RESOURCES = 250, 80
# sad_in, spd_in, sad_out, spd_out, and the way back of the gateway's answers to probes.
ENTRIES = 5 * DEVICES * RESOURCES
GIVE_UP_SECONDS = 300.0
NAME = "gw-bench"


async def measure() -> list[Figure]:
    """Raises RuntimeError when the gateway does not hold them in the end."""
    with tempfile.TemporaryDirectory() as folder, _ports() as ports:
        directory = Path(folder)
        settings = Settings(
            state_dir=directory / "state",
            rest_listen=f"127.0.0.1:{free_port()}",
            agent_listen=f"127.0.0.1:{free_port()}",
            managed_zones=("corp.example",),
        )
        async with open_database(settings) as database, Controller(settings, database) as controller:
            port = free_port()
            bundle = await _register(controller, port)
            await _tunnels(database)
            async with _sluice(directory / "gateway", bundle, ports, port):
                began, cpu = time.monotonic(), time.process_time()
                await _restored(database)
                seconds, computed = time.monotonic() - began, time.process_time() - cpu
                held = (await controller.gateways.entries(NAME)).tunnel_entries
            if held != ENTRIES:
                raise RuntimeError(f"the gateway holds {held} entries of tunnels, not {ENTRIES}")
    return [Figure("reconcile_100k_s", seconds, "s", "the controller computes", computed)]


async def _register(controller: Controller, port: int) -> BundleOut:
    """The gateway, with its bundle."""
    neighbours = {f"10.20.1.{number}": "02:00:00:00:02:10" for number in range(RESOURCES)}
    asked = {
        "name": NAME,
        "address": "198.51.100.1",
        "p4runtime": f"127.0.0.1:{port}",
        "pool": "10.99.0.0/16",
        "wan": {"port": 1, "mac": "02:00:00:00:01:01", "next_hop_mac": "02:00:00:00:01:02"},
        "lan": {
            "port": 2,
            "mac": "02:00:00:00:02:01",
            "address": "10.20.0.1",
            "prefix": "10.20.0.0/16",
            "neighbours": neighbours,
        },
    }
    await controller.gateways.create(CONTROLLER, GatewayIn.model_validate(asked))
    return await controller.gateways.bundle(CONTROLLER, NAME)


async def _tunnels(database: Database) -> list[uuid.UUID]:
    """Every device has one to each resource, open since now. The devices."""
    now = datetime.datetime.now(datetime.UTC)
    later = now + datetime.timedelta(hours=8)
    devices = [uuid.uuid4() for _ in range(DEVICES)]
    async with database.begin() as session:
        gateway = await session.scalar(select(Gateway.id))
        assert gateway is not None
        user = User(name="alice", email="alice@corp.example")
        session.add(user)
        await session.flush()
        limits = {"idle_seconds": 3600, "soft_packets": 0, "soft_bytes": 0, "soft_seconds": 3600}
        resources = [
            Resource(
                name=f"r{number}",
                fqdn=f"r{number}.corp.example",
                targets=[{"prefix": f"10.20.1.{number}/32"}],
                owner="bob@corp.example",
                **limits,
            )
            for number in range(RESOURCES)
        ]
        session.add_all(resources)
        await session.flush()
        session.add_all(
            ResourceGateway(resource_id=one.id, gateway_id=gateway, position=0) for one in resources
        )
        # The policy permits all resources, so that enforcement closes no tunnel.
        session.add(Policy(name="all", user_id=user.id, conditions={}, resources=resources))
        session.add_all(
            Device(
                id=device,
                user_id=user.id,
                name=f"d{number}",
                fingerprint=secrets.token_bytes(32),
                certificate_serial=str(number),
                certificate_expires_at=later,
                code_proven_at=now,
                code_valid_until=later,
            )
            for number, device in enumerate(devices)
        )
        await session.flush()
        version = await session.scalar(select(PolicyVersion.version))
        session.add_all(
            Address(gateway_id=gateway, device_id=device, address=f"10.99.1.{number}")
            for number, device in enumerate(devices)
        )
        await session.flush()
        pairs = list(itertools.product(devices, (one.id for one in resources)))
        tunnels = [
            {
                "id": uuid.uuid4(),
                "device_id": device,
                "resource_id": resource,
                "gateway_id": gateway,
                "state": TunnelState.UP,
                "generation": 1,
                "peer_address": "203.0.113.10",
                "peer_port": 4500,
                "endpoint": number,
                "permitted_until": later,
                "policy_version": version,
            }
            for number, (device, resource) in enumerate(pairs)
        ]
        await session.execute(insert(Tunnel), tunnels)
        sas = [
            {
                "tunnel_id": tunnel["id"],
                "gateway_id": gateway,
                "device_id": tunnel["device_id"],
                "direction": direction,
                "generation": 1,
                "spi": 1000 + 2 * number + side,
                "slot": number,
                "sa_id": 1 + 2 * number + side,
                "tag": 1,
            }
            for number, tunnel in enumerate(tunnels)
            for side, direction in enumerate(Direction)
        ]
        await session.execute(insert(SecurityAssociation), sas)
    return devices


async def _restored(database: Database) -> None:
    """Until every tunnel has its next pair: a pair is in the database once the gateway has it."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while time.monotonic() < deadline:
        async with database() as session:
            if not await session.scalar(select(exists().where(Tunnel.generation == 1))):
                return
        await asyncio.sleep(0.1)
    raise RuntimeError(f"not all tunnels are restored after {GIVE_UP_SECONDS:g} s")


@contextmanager
def _ports() -> Generator[tuple[str, str]]:
    near, far = f"cvb{os.getpid() % 10**6}", f"cvc{os.getpid() % 10**6}"
    run("ip", "link", "add", near, "type", "veth", "peer", "name", far)
    try:
        for name in (near, far):
            run("ip", "link", "set", name, "up")
        yield near, far
    finally:
        run("ip", "link", "delete", near)


@asynccontextmanager
async def _sluice(
    directory: Path, bundle: BundleOut, ports: tuple[str, str], port: int
) -> AsyncGenerator[None]:
    """Listening."""
    _unpack(bundle, directory)
    process = await asyncio.create_subprocess_exec(
        ROOT / "target/release/sluice",
        *("--device-id", "1", "--port", f"1={ports[0]}", "--port", f"2={ports[1]}"),
        *("--grpc", f"127.0.0.1:{port}", "--client-name", bundle.client_name),
        *("--cert", directory / "gateway.pem", "--key", directory / "gateway.key"),
        *("--client-ca", directory / "ca.pem", "--kek", directory / "kek.bin"),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        while True:
            with suppress(ConnectionRefusedError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            await asyncio.sleep(0.01)
        yield
    finally:
        process.kill()
        await process.wait()


def _unpack(bundle: BundleOut, directory: Path) -> None:
    directory.mkdir(mode=0o700)
    for name, content in (
        ("ca.pem", bundle.ca_pem.encode()),
        ("gateway.pem", bundle.certificate_pem.encode()),
        ("gateway.key", bundle.key_pem.encode()),
        ("kek.bin", base64.b64decode(bundle.kek)),
    ):
        (directory / name).write_bytes(content)
        (directory / name).chmod(0o600)
