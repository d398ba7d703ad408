"""A controller on its embedded Postgres with sluice as its gateway, and as many devices as are wanted, in this namespace.

  device ── OpenTunnel, RenewSa, Watch ──► controller ── P4Runtime, mTLS ──► sluice (no traffic)
  (here)                                       └── Unix socket ──► Postgres, durable

Devices are rows with certificates of the controller's own authority, and a code proven just now: enrolment is not measured.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import ipaddress
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_db import Address, Device, DeviceState, bind_database, create_engine
from culvert_db.embedded import EmbeddedPostgres
from culvert_proto import agent_pb2, agent_pb2_grpc
from culvert_service.pki.authority import Authority
from gateway_wires import namespaces, run

ROOT = Path(__file__).resolve().parents[2]
SLUICE = ROOT / "target/release/sluice"
PROGRAMS = Path(sys.executable).parent
GATEWAY = "gw-berlin"
USER = "alice"
RESOURCES = 100
# Calls that are under way while many devices come.
AT_ONCE = 32
CRYPTO_PORT = 4
_CRYPTO_HOSTS = f"/gateways/{GATEWAY}/crypto-hosts"

_READY_SECONDS = 60.0
# An address of the gateway's pool, far from the first addresses that it assigns.
_HAD_BEFORE = ipaddress.IPv4Address("10.97.0.1")
_TICKS = os.sysconf("SC_CLK_TCK")


class Place:
    """The ports and the gateway's interfaces of one of the rigs in a namespace."""

    def __init__(self, number: int) -> None:
        self.rest, self.agent, self.p4runtime, self.crypto_host = (
            f"127.0.0.1:{port + 10 * number}" for port in (8443, 8444, 9559, 9560)
        )
        self.interfaces = (f"wan{number}", f"lan{number}")
        # The two ends of the wire between the gateway and its crypto host.
        self.crypto = (f"crypto{number}", f"host{number}")


class Rig:
    """A running controller, and the means to be a device."""

    def __init__(self, place: Place, folder: Path, calls_per_second: int) -> None:
        self._place = place
        self._log = folder / "log"
        self._state = folder / "state"
        self._calls_per_second = calls_per_second
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._key_pem = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self._start()

    def _start(self) -> None:
        environment = _environment(self._place, self._state, self._calls_per_second)
        with self._log.open("wb") as out:
            self._controller = subprocess.Popen(
                [PROGRAMS / "culvert-controller", "serve"], env=os.environ | environment, stderr=out
            )

    async def ready(self) -> None:
        """Raises RuntimeError when the controller does not serve in time."""
        await _until(self._serves, "controller that serves")

    async def _serves(self) -> bool:
        return b" ready " in await asyncio.to_thread(self._log.read_bytes)

    async def stop(self) -> None:
        self._controller.terminate()
        await asyncio.to_thread(self._controller.wait, _READY_SECONDS)

    async def restart(self) -> None:
        """Returns when it serves again. Raises RuntimeError."""
        await self.stop()
        self._start()
        await self.ready()

    def postmaster(self) -> int:
        """The process id of its Postgres."""
        return int((self._state / "postgres/data/postmaster.pid").read_text().split()[0])

    async def devices(
        self, count: int, *, addresses: bool = False, first_person: int | None = None
    ) -> list[Client]:
        """New ones; each connects when it first calls. With `addresses` they have inner ones already.

        They are USER's, or with `first_person` one each of the people from this id on.
        """
        authority = Authority.load(self._state, "device")
        ca_pem = (self._state / "infrastructure-ca.pem").read_bytes()
        now = datetime.datetime.now(datetime.UTC)
        rows: list[dict[str, Any]] = []
        made: list[Client] = []
        for number in range(count):
            device_id = uuid.uuid4()
            issued = authority.issue_device(self._key.public_key(), str(device_id))
            rows.append(
                {
                    "id": device_id,
                    "user_id": 1 if first_person is None else first_person + number,
                    "name": "laptop",
                    "state": DeviceState.APPROVED,
                    "fingerprint": issued.fingerprint,
                    "certificate_serial": issued.serial,
                    "certificate_expires_at": issued.expires_at,
                    "code_proven_at": now,
                    "code_valid_until": now + datetime.timedelta(hours=8),
                }
            )
            credentials = grpc.ssl_channel_credentials(ca_pem, self._key_pem, issued.pem)
            made.append(Client(self._place.agent, credentials))
        engine = create_engine(self.database_url())
        async with bind_database(engine).begin() as session:
            session.add_all(Device(**row) for row in rows)
            if addresses:
                await session.flush()
                session.add_all(
                    Address(
                        gateway_id=1,
                        device_id=row["id"],
                        address=str(_HAD_BEFORE + (first_person or 0) + number),
                    )
                    for number, row in enumerate(rows)
                )
        await engine.dispose()
        return made

    def database_url(self) -> str:
        """The URL with the rights of the database's owner."""
        return EmbeddedPostgres(self._state / "postgres").url

    def admin(self) -> httpx.AsyncClient:
        """A client of the REST API with all rights; `async with` closes it."""
        return _admin(self._place, self._state)

    def rss_mib(self) -> float:
        """Resident memory of the controller's process, in MiB."""
        status = Path(f"/proc/{self._controller.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024

    def controller_cpu_seconds(self) -> float:
        """The processor time of all its threads, so far."""
        fields = Path(f"/proc/{self._controller.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def sync_ms(self) -> float:
        """The time that the disk under Postgres takes for one page."""
        with (self._state / "page").open("r+b" if (self._state / "page").exists() else "wb") as page:
            page.write(os.urandom(8192))
            page.flush()
            began = time.perf_counter()
            os.fdatasync(page.fileno())
            return (time.perf_counter() - began) * 1000


class Client:
    """A device's connection."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials) -> None:
        self._address, self._credentials = address, credentials
        self._connect()

    def _connect(self) -> None:
        # Without it, channels with equal arguments share what they can, and that serialises them.
        options = [("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.aio.secure_channel(self._address, self._credentials, options=options)
        self.stub = agent_pb2_grpc.AgentServiceStub(self._channel)

    def again(self) -> Client:
        """The same device on another connection."""
        return Client(self._address, self._credentials)

    async def open(self, number: int) -> agent_pb2.OpenTunnelResponse:
        return await self.stub.OpenTunnel(agent_pb2.OpenTunnelRequest(fqdn=_fqdn(number), udp_port=4500))

    async def renew(self, opened: agent_pb2.OpenTunnelResponse) -> agent_pb2.RenewSaResponse:
        request = agent_pb2.RenewSaRequest(
            tunnel_id=opened.tunnel.tunnel_id, generation=opened.sas.generation
        )
        return await self.stub.RenewSa(request)

    async def watch(self) -> None:
        """Returns when the profile is there; the stream stays."""
        self._stream = self.stub.Watch(agent_pb2.WatchRequest(client_version="bench"))
        await self.profile()

    async def profile(self, resource: str | None = None) -> None:
        """Returns when the stream brings a profile, with this resource. Raises RuntimeError when it ends before."""
        async for event in self._stream:
            names = (it.name for it in event.profile.resources)
            if event.WhichOneof("event") == "profile" and (resource is None or resource in names):
                return
        raise RuntimeError("the stream has ended")

    async def reconnect(self) -> None:
        """On a new connection, after the controller's restart."""
        await self.close()
        self._connect()
        await self.watch()

    async def close(self) -> None:
        await self._channel.close()


async def each(devices: Sequence[Client], call: Callable[[Client], Awaitable[object]]) -> None:
    """Call for each device, AT_ONCE at a time."""
    waiting = iter(devices)

    async def some() -> None:
        for device in waiting:
            await call(device)

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


@asynccontextmanager
async def rig(
    number: int = 0, *, calls_per_second: int = 100_000, crypto_host: bool = False
) -> AsyncGenerator[Rig]:
    """A controller with its gateway online and RESOURCES behind the gateway.

    With the default rate a few devices can stand for thousands. `crypto_host`: one serves the gateway's SAs.

    Raises RuntimeError when a part does not start.
    """
    place = Place(number)
    with tempfile.TemporaryDirectory(prefix="culvert-bench-") as name:
        folder = Path(name)
        parts = Rig(place, folder, calls_per_second)
        switches: list[subprocess.Popen[bytes]] = []
        try:
            await parts.ready()
            async with parts.admin() as admin:
                bundle = await _describe(place, admin)
                ports = dict(enumerate(place.interfaces, start=1)) | {CRYPTO_PORT: place.crypto[0]}
                switches.append(_sluice(place.p4runtime, ports, folder / "gateway", bundle))
                await _until(lambda: _online(admin), "gateway online")
                if crypto_host:
                    bundle = await _describe_crypto_host(place, admin)
                    ports = {1: place.crypto[1]}
                    switches.append(_sluice(place.crypto_host, ports, folder / "crypto-host", bundle))
                    await _until(lambda: _host_online(admin), "crypto host online")
            yield parts
        finally:
            for process in switches:
                process.terminate()
                process.wait(_READY_SECONDS)
            await parts.stop()


def in_a_namespace(program: str, label: str, rigs: int = 1) -> dict[str, float]:
    """The JSON object that a program of this folder prints, in a namespace with the interfaces of so many rigs."""
    space = f"culvert-bench-{os.getpid()}-{label}"
    with namespaces(space):
        for place in map(Place, range(rigs)):
            for one, other in (place.interfaces, place.crypto):
                run("ip", "-n", space, "link", "add", one, "type", "veth", "peer", "name", other)
                for interface in (one, other):
                    run("ip", "-n", space, "link", "set", interface, "up")
        command = ["ip", "netns", "exec", space, sys.executable, program]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def _admin(place: Place, state: Path) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {(state / 'admin-token').read_text().strip()}"}
    tls = ssl.create_default_context(cafile=str(state / "infrastructure-ca.pem"))
    url = f"https://{place.rest}/api/v1"
    return httpx.AsyncClient(base_url=url, verify=tls, headers=headers, trust_env=False)


async def _online(admin: httpx.AsyncClient) -> bool:
    return (await admin.get(f"/gateways/{GATEWAY}")).json()["state"] == "online"


async def _host_online(admin: httpx.AsyncClient) -> bool:
    return (await admin.get(f"{_CRYPTO_HOSTS}/crypto-1")).json()["state"] == "online"


def _environment(place: Place, state: Path, calls_per_second: int) -> dict[str, str]:
    return {
        "CULVERT_STATE_DIR": str(state),
        "CULVERT_REST_LISTEN": place.rest,
        "CULVERT_AGENT_LISTEN": place.agent,
        "CULVERT_MANAGED_ZONES": "corp.example",
        "CULVERT_PROTECTED_PREFIXES": "10.20.0.0/16",
        "CULVERT_REST_CALLS_PER_SECOND": "1000",
        "CULVERT_AGENT_CALLS_PER_SECOND": str(calls_per_second),
    }


async def _describe(place: Place, admin: httpx.AsyncClient) -> dict[str, str]:
    """The gateway, the person, the resources; returns the gateway's bundle."""
    lan = {"port": 2, "mac": "02:00:00:00:02:01", "address": "10.20.0.1", "prefix": "10.20.0.0/16"}
    await _post(
        admin,
        "/gateways",
        {
            "name": GATEWAY,
            "address": "198.51.100.1",
            "p4runtime": place.p4runtime,
            "device_id": 1,
            "pool": "10.96.0.0/14",
            "wan": {"port": 1, "mac": "02:00:00:00:01:01", "next_hop_mac": "02:00:00:00:01:02"},
            "lan": lan | {"neighbours": {"10.20.0.10": "02:00:00:00:02:10"}},
        },
    )
    await _post(admin, "/users", {"name": USER, "email": f"{USER}@corp.example"})
    for number in range(RESOURCES):
        profile = {"name": f"host-{number}", "fqdn": _fqdn(number), "address": "10.20.0.10"}
        who = {"gateways": [GATEWAY], "users": [USER], "owner": "bob@corp.example"}
        await _post(admin, "/resources", profile | who)
    return await _post(admin, f"/gateways/{GATEWAY}/bundle", {})


async def _describe_crypto_host(place: Place, admin: httpx.AsyncClient) -> dict[str, str]:
    """The gateway's crypto host; returns its bundle."""
    macs = {"mac": "02:00:00:00:04:01", "host_mac": "02:00:00:00:04:02"}
    host = {"name": "crypto-1", "p4runtime": place.crypto_host, "port": CRYPTO_PORT}
    await _post(admin, _CRYPTO_HOSTS, host | macs)
    return await _post(admin, f"{_CRYPTO_HOSTS}/crypto-1/bundle", {})


async def _post(admin: httpx.AsyncClient, path: str, body: dict[str, Any]) -> Any:
    answer = await admin.post(path, json=body)
    if not answer.is_success:
        raise RuntimeError(f"{path}: {answer.text}")
    return answer.json()


def _sluice(
    p4runtime: str, ports: dict[int, str], directory: Path, bundle: dict[str, str]
) -> subprocess.Popen[bytes]:
    directory.mkdir(mode=0o700)
    for name, content in (
        ("ca.pem", bundle["ca_pem"].encode()),
        ("gateway.pem", bundle["certificate_pem"].encode()),
        ("gateway.key", bundle["key_pem"].encode()),
        ("kek.bin", base64.b64decode(bundle["kek"])),
    ):
        (directory / name).touch(mode=0o600)
        (directory / name).write_bytes(content)
    return subprocess.Popen(
        [
            *(
                str(SLUICE),
                "--device-id",
                "1",
                *(f"--port={number}={name}" for number, name in ports.items()),
            ),
            *("--grpc", p4runtime, "--client-name", "culvert-controller"),
            *("--cert", str(directory / "gateway.pem"), "--key", str(directory / "gateway.key")),
            *("--client-ca", str(directory / "ca.pem"), "--kek", str(directory / "kek.bin")),
        ],
        stderr=subprocess.DEVNULL,
    )


def _fqdn(number: int) -> str:
    """The name of one of the RESOURCES."""
    return f"host-{number}.corp.example"


async def _until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(_READY_SECONDS):
            while not await holds():  # noqa: ASYNC110  other processes' states: there is no event to wait for
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise RuntimeError(f"there is no {what} after {_READY_SECONDS:g} s") from None
