"""A whole controller on its own Postgres, and what is at its other ends: an admin, devices, a switch."""

from __future__ import annotations

import asyncio
import base64
import copy
import functools
import gc
import os
import secrets
import ssl
import subprocess
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio
import httpx
import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_db import Database, create_engine
from culvert_db.embedded import EmbeddedPostgres
from culvert_db.migrate import upgrade
from culvert_lab import netns
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError, Reason, agent_pb2, agent_pb2_grpc, error_pb2
from culvert_proto.grpc_errors import from_rpc_error
from culvert_proto.invitation_link import Invitation, parse_invitation
from culvert_service.config import Settings
from culvert_service.controller.database import open_database
from culvert_service.controller.lifecycle import Controller
from culvert_service.pki.authority import Authority
from fastapi.dependencies import models as dependencies
from finsy.proto import p4r_grpc
from pyotp import parse_uri
from sqlalchemy import text

from . import log_watch, wire
from .left_running import connections_in_use, nothing_left
from .switch import Switch

_MIGRATED = "migrated"
# Postgres's own defence against a computer that stops, which no test does: each commit would wait for the disk, and each
# new database for hundreds of files.
_FOR_POWER_CUTS = ("fsync", "full_page_writes", "synchronous_commit")
# The longest wait for an expected event, chosen for slow machines.
PATIENCE_SECONDS = 30.0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test with a database of its own, and mostly a whole controller, is none of the fast ones."""
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


def make_csr(curve: ec.EllipticCurve | None = None) -> tuple[ec.EllipticCurvePrivateKey, str]:
    key = ec.generate_private_key(curve or ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return key, request.public_bytes(serialization.Encoding.PEM).decode()


class Device:
    """A computer's side: its key, certificate, authenticator and calls."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, enrolment: dict[str, Any]) -> None:
        self.id: str = enrolment["device_id"]
        self.use_authenticator(enrolment["totp_uri"])
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self.credentials = grpc.ssl_channel_credentials(
            enrolment["ca_pem"].encode(), pem, enrolment["certificate_pem"].encode()
        )
        self._call_at(enrolment["agent_address"])

    def connect(self) -> None:
        """Anew, without gRPC's own patience after a connection that broke."""
        self._call_at(self._address)

    def _call_at(self, address: str) -> None:
        self._address = address
        self.channel = grpc.aio.secure_channel(address, self.credentials)
        self.stub = agent_pb2_grpc.AgentServiceStub(self.channel)

    def use_authenticator(self, totp_uri: str) -> None:
        self.totp_uri = totp_uri
        self._totp = parse_uri(totp_uri)
        log_watch.met(self._totp.secret)
        self._spent = 0

    def at(self, address: str) -> Device:
        """The same device, calling another controller."""
        other = copy.copy(self)
        other._call_at(address)
        return other

    def code(self) -> str:
        """A code that has not been used: of this step, or of the next, which the drift allows."""
        self._spent = max(int(time.time()) // 30, self._spent + 1)
        return cast("Any", self._totp).generate_otp(self._spent)

    async def prove(self, code: str | None = None) -> int:
        answer = await self.call(self.stub.ProveCode(agent_pb2.ProveCodeRequest(code=code or self.code())))
        return int(answer.code_valid_until)

    async def open(
        self,
        fqdn: str = "wiki.corp.example",
        gateway: str = "",
        distances: Sequence[agent_pb2.GatewayDistance] = (),
        asked: str = "",
        attempt: bytes = b"",
    ) -> agent_pb2.OpenTunnelResponse:
        request = agent_pb2.OpenTunnelRequest(
            fqdn=fqdn, gateway=gateway, udp_port=4500, distances=distances, asked=asked, attempt=attempt
        )
        opened = await self.call(self.stub.OpenTunnel(request))
        _meet(opened.sas)
        return opened

    async def renew(self, tunnel_id: str, generation: int) -> agent_pb2.SaPair:
        request = agent_pb2.RenewSaRequest(tunnel_id=tunnel_id, generation=generation)
        sas = (await self.call(self.stub.RenewSa(request))).sas
        _meet(sas)
        return sas

    async def activate(self, tunnel_id: str, generation: int) -> None:
        request = agent_pb2.ActivateSaRequest(tunnel_id=tunnel_id, generation=generation)
        await self.call(self.stub.ActivateSa(request))

    async def close(
        self, tunnel_id: str, refused: Reason | None = None, reason: Reason = Reason.CLOSED_BY_USER
    ) -> None:
        request = agent_pb2.CloseTunnelRequest(tunnel_id=tunnel_id, reason=error_pb2.Reason.ValueType(reason))
        if refused is not None:
            request.refused = error_pb2.Reason.ValueType(refused)
        await self.call(self.stub.CloseTunnel(request))

    async def leave(self) -> None:
        await self.call(self.stub.Leave(agent_pb2.LeaveRequest()))

    async def watch(self, posture: dict[str, str] | None = None) -> AsyncGenerator[agent_pb2.WatchResponse]:
        request = agent_pb2.WatchRequest(client_version="test", posture=posture)
        try:
            async for event in self.stub.Watch(request):
                yield event
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error, peer="controller") from None

    async def call(self, call: Any) -> Any:
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error, peer="controller") from None


def _meet(sas: agent_pb2.SaPair) -> None:
    for sa in (sas.inbound, sas.outbound):
        log_watch.met(sa.key)


@dataclass
class World:
    """A controller that serves, an admin's client, and the database behind."""

    settings: Settings
    database: Database
    admin: httpx.AsyncClient
    anyone: httpx.AsyncClient
    devices: list[Device]

    async def rest(self, method: str, path: str, body: object = None) -> Any:
        # Tests of versions send their own If-Match.
        headers = {"If-Match": "*"} if method == "PUT" else {}
        answer = await self.admin.request(method, f"/api/v1{path}", json=body, headers=headers)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def invite(self, user: str = "alice") -> Invitation:
        return parse_invitation((await self.rest("POST", "/invitations", {"user": user}))["link"])

    async def enrol(self, user: str = "alice") -> Device:
        key, csr = make_csr()
        body = {"token": (await self.invite(user)).token, "device_name": "laptop", "csr_pem": csr}
        answer = await self.anyone.post("/api/v1/enrolments", json=body)
        assert answer.status_code == 201, answer.text
        device = Device(key, answer.json())
        self.devices.append(device)
        return device

    async def add_gateway(self, name: str, port: int, number: int = 1, **fields: object) -> dict[str, Any]:
        return await self.rest(
            "POST",
            "/gateways",
            {
                "name": name,
                "address": f"198.51.100.{number}",
                "p4runtime": f"127.0.0.1:{port}",
                "device_id": 1,
                "pool": f"10.99.{number}.0/24",
                "wan": {"port": 1, "mac": "02:00:00:00:01:01", "next_hop_mac": "02:00:00:00:01:02"},
                "lan": {
                    "port": 2,
                    "mac": "02:00:00:00:02:01",
                    "address": "10.20.0.1",
                    "prefix": "10.20.0.0/16",
                    "neighbours": {"10.20.0.10": "02:00:00:00:02:10"},
                },
            }
            | fields,
        )

    async def add_wiki(self, gateways: list[str], **fields: object) -> None:
        await self.add_resource("wiki", gateways, **{"address": "10.20.0.10"} | fields)

    async def add_resource(self, name: str, gateways: list[str], **fields: object) -> None:
        body = {
            "name": name,
            "fqdn": f"{name}.corp.example",
            "gateways": gateways,
            "users": ["alice"],
            "owner": "bob@corp.example",
        }
        await self.rest("POST", "/resources", body | fields)

    async def online(self, name: str, *, wanted: str = "online") -> None:
        await until(lambda: self.rest("GET", f"/gateways/{name}"), lambda found: found["state"] == wanted)


async def until(
    ask: Callable[[], Any], holds: Callable[[Any], bool], seconds: float = PATIENCE_SECONDS
) -> Any:
    """Asks until the answer is as wanted; fails with the last one."""
    deadline = time.monotonic() + seconds
    while not holds(answer := await ask()):
        assert time.monotonic() < deadline, answer
        await asyncio.sleep(0.02)
    return answer


def settings_in(directory: Path, **fields: Any) -> Settings:
    values: dict[str, Any] = {
        "state_dir": directory / "state",
        "rest_listen": f"127.0.0.1:{free_port()}",
        "agent_listen": f"127.0.0.1:{free_port()}",
        "managed_zones": ["corp.example"],
        "denial_page_zones": ["corp.example"],
        "protected_prefixes": ["10.20.0.0/16"],
        "apt_repository": directory / "repository",
    }
    return Settings(**(values | fields))


@asynccontextmanager
async def administering(settings: Settings, database: Database) -> AsyncGenerator[World]:
    """The admin of a controller that serves, or is about to."""
    state = settings.state_dir
    tls = ssl.create_default_context(cafile=str(state / "infrastructure-ca.pem"))
    token = (state / "admin-token").read_text().strip()
    log_watch.met(token)
    bearer = {"Authorization": f"Bearer {token}"}
    url = settings.rest_url
    # A connection that the server is about to end is not used again.
    limits = httpx.Limits(keepalive_expiry=2)
    asking: dict[str, Any] = {"base_url": url, "verify": tls, "trust_env": False, "timeout": 30}
    async with (
        httpx.AsyncClient(headers=bearer, limits=limits, **asking) as admin,
        httpx.AsyncClient(limits=limits, **asking) as anyone,
    ):
        world = World(settings, database, admin, anyone, [])
        try:
            yield world
        finally:
            for device in world.devices:
                await device.channel.close()


@asynccontextmanager
async def running(settings: Settings) -> AsyncGenerator[World]:
    """Fails when the controller leaves something running at its stop."""
    async with nothing_left(), open_database(settings) as database:
        async with Controller(settings, database), administering(settings, database) as world:
            yield world
        assert connections_in_use(database) == 0
    _forget_endpoints()


def _forget_endpoints() -> None:
    """FastAPI remembers each endpoint for the process's life, and with it the whole controller: 20,000 objects a test."""
    for classified in vars(dependencies).values():
        if isinstance(classified, functools._lru_cache_wrapper):
            classified.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def seldom_collected() -> None:
    """Each controller is some 20,000 objects, and the search for garbage looks through those of all modules as well."""
    gc.set_threshold(20_000, 10, 10)


@pytest.fixture(scope="session", autouse=True)
def own_network() -> None:
    """A network of its own for each process of tests: Chromium gives up what it loads when an interface comes or goes."""
    if os.geteuid() == 0:
        netns.leave()
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


@pytest.fixture(autouse=True)
def no_secret_is_logged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[log_watch.LogWatch]:
    with log_watch.watching(monkeypatch) as watch:
        yield watch
    for log in tmp_path.glob("*.log"):
        watch.read(log)
    assert watch.leaks() == []


def _database(cluster: str, name: str) -> str:
    return cluster.replace("/postgres?", f"/{name}?")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[str]:
    """A Postgres for the whole run; each test has a database of its own, a copy of one that is migrated once."""
    async with EmbeddedPostgres(tmp_path_factory.mktemp("pg")) as url:
        engine = create_engine(url).execution_options(isolation_level="AUTOCOMMIT")
        async with engine.connect() as connection:
            for setting in _FOR_POWER_CUTS:
                await connection.execute(text(f"ALTER SYSTEM SET {setting} = off"))
            await connection.execute(text("SELECT pg_reload_conf()"))
            await connection.execute(text(f"CREATE DATABASE {_MIGRATED}"))
        await engine.dispose()
        engine = create_engine(_database(url, _MIGRATED))
        await upgrade(engine)
        await engine.dispose()
        yield url


@pytest.fixture
async def database_url(cluster: str) -> AsyncGenerator[str]:
    name = f"t{secrets.token_hex(8)}"
    engine = create_engine(cluster).execution_options(isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {_MIGRATED} STRATEGY FILE_COPY"))
        yield _database(cluster, name)
        await connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    await engine.dispose()


@pytest.fixture
async def world(tmp_path: Path, database_url: str) -> AsyncGenerator[World]:
    async with running(settings_in(tmp_path, database_url=database_url)) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        yield world


@asynccontextmanager
async def serving(world: World, switch: Switch, name: str, port: int) -> AsyncGenerator[None]:
    """The switch behind the gateway's own certificate, as its bundle has it."""
    bundle = await world.rest("POST", f"/gateways/{name}/bundle")
    assert len(base64.b64decode(bundle["kek"])) == 32
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    p4r_grpc.add_P4RuntimeServicer_to_server(switch, server)
    credentials = grpc.ssl_server_credentials(
        [(bundle["key_pem"].encode(), bundle["certificate_pem"].encode())],
        root_certificates=bundle["ca_pem"].encode(),
        require_client_auth=True,
    )
    server.add_secure_port(f"127.0.0.1:{port}", credentials)
    await server.start()
    try:
        yield
    finally:
        await server.stop(0)


@pytest.fixture
async def switch(world: World) -> AsyncGenerator[Switch]:
    """The gateway gw-berlin, online, with the wiki behind it."""
    switch, port = Switch(), free_port()
    await world.add_gateway("gw-berlin", port)
    async with serving(world, switch, "gw-berlin", port):
        await world.online("gw-berlin")
        await world.add_wiki(["gw-berlin"])
        yield switch


@pytest.fixture
async def wires() -> AsyncGenerator[wire.Wires]:
    async with wire.laid() as laid:
        yield laid


async def next_event(events: AsyncGenerator[agent_pb2.WatchResponse], kind: str) -> agent_pb2.WatchResponse:
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in events:
            if event.WhichOneof("event") == kind:
                return event
    raise AssertionError("the stream ended")


async def profile_that(
    events: AsyncGenerator[agent_pb2.WatchResponse], holds: Callable[[agent_pb2.Profile], object]
) -> agent_pb2.Profile:
    """The next such profile: other news may make one before it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds(profile := (await next_event(events, "profile")).profile):
            pass
    return profile


async def refused(call: Any) -> CulvertError:
    """The refusal that a call ends with."""
    with pytest.raises(CulvertError) as caught:
        await call
    return caught.value


def authority(world: World, name: str) -> Authority:
    return Authority.load(world.settings.state_dir, name)
