"""The lab as an organisation that wants no single point of failure runs it; each part restarts as its unit file does.

                 vpn.corp.example                  ┌─ pg-1 ◄─ patroni-1 ─┐
 laptop ──┐    ┌─► one ─┐                          │     ▲               ├─ etcd
          ├────┤        ├─ haproxy ─► the primary ─┤     │ streaming     │
 devices ─┘    └─► two ─┘                          └─ pg-2 ◄─ patroni-2 ─┘
               one, two ── P4Runtime ──► gw-berlin, gw-paris
               dns-updater ── RFC 2136 ──► bind-1 ── NOTIFY, AXFR ──► bind-2 ◄── culvertd's questions

The simulated devices and the administrator are in this process, behind a wire of their own to the router.
"""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx
from culvert_lab import bind9, classify, intranet, laptop, parts, spare
from culvert_lab import topology as net
from culvert_lab.admin import Admin
from culvert_lab.errors import StepError
from culvert_lab.lab import Lab
from culvert_lab.process import Running
from culvert_lab.topology import Site
from culvert_proto import local_pb2, local_pb2_grpc

from . import certificates, postgres
from .supervised import Supervised

CONTROLLERS = {"one": net.CONTROLLER_ADDRESS, "two": "192.0.2.11"}
GATEWAYS = {parts.GATEWAY: net.GATEWAY_ADDRESS, spare.NAME: spare.ADDRESS}
# Their directories in the site's /run.
BUNDLES = {parts.GATEWAY: "gateway", spare.NAME: spare.NAME}
SECONDARY_ADDRESS = "192.0.2.54"
COMMON_NAME = f"vpn.{net.ZONE}"
# Addresses of the simulated devices' wire.
_OWN, _ROUTER = "203.0.114.10", "203.0.114.1"
# The servers of the names that are clicked. Each has an address of its own, by which the gateway finds the answer's tunnel.
SERVERS = {
    name: f"10.20.0.{10 + number}" for number, name in enumerate(("wiki", "git", "docs", "mail", "crm"))
}
# On the intranet, and behind no resource.
FORBIDDEN_ADDRESS = "10.20.0.66"
_NEIGHBOURS = dict.fromkeys((*SERVERS.values(), FORBIDDEN_ADDRESS), net.WIKI_MAC)
DISK_BYTES = 600 << 20
# A certificate of the usual 14 days has more left.
_SHORT_SECONDS = 3600.0
_LAG_SECONDS = 5.0
_ANSWER_SECONDS = 5.0
ALLOWED = classify.Allowed(
    gateways=frozenset(map(IPv4Address, GATEWAYS.values())),
    name_servers=frozenset(map(IPv4Address, (net.DNS_ADDRESS, SECONDARY_ADDRESS))),
    controllers=frozenset(map(IPv4Address, CONTROLLERS.values())),
    controller_ports=(net.REST_PORT, net.AGENT_PORT),
    esp_port=net.ESP_PORT,
    pool=IPv4Network("10.99.0.0/16"),
    protected=IPv4Network(net.PROTECTED_PREFIX),
    marker=net.MARKER.encode(),
)

_SECONDARY = """\
options {{
    directory "{directory}";
    pid-file none;
    session-keyfile "{directory}/session.key";
    listen-on port 53 {{ {address}; }};
    listen-on-v6 {{ none; }};
    recursion no;
    allow-transfer {{ key {key}; }};
    dnssec-validation no;
    notify no;
    max-refresh-time 10;
    max-retry-time 5;
}};
controls {{ }};
include "{tsig}";
server {primary} {{ keys {{ {key}; }}; }};
zone "{zone}" {{ type secondary; primaries {{ {primary}; }}; file "{directory}/zone"; }};
"""


class Refused(Exception):  # noqa: N818  an answer, not a fault
    """An answer of the REST API that is no success."""


class Cluster:
    """All parts, up and joined."""

    def __init__(self, lab: Lab, environment: Callable[[str], Mapping[str, str]]) -> None:
        """`environment`: of the programs of one of the `hosts`."""
        self.lab, self._environment = lab, environment
        self.postgres = postgres.Postgres(lab, environment)
        self.parts: dict[str, Supervised] = {}
        self.bind: bind9.Bind9
        self.secondary: bind9.Bind9
        self.totp_uri = ""
        self._admins: dict[str, httpx.AsyncClient] = {}

    async def up(self) -> None:
        """Raises LabError."""
        await self._database()
        await intranet.start(self.lab, address="0.0.0.0")  # noqa: S104
        await self._name_servers()
        for name in CONTROLLERS:
            self.parts[name] = await self._keep(
                name, lambda log, name=name: self._controller(name, log), "controller"
            )
        admin = self._lab_admin()
        await parts.register_gateway(self.lab, admin, _NEIGHBOURS)
        await spare.register(self.lab, admin, _NEIGHBOURS)
        for name, start in ((parts.GATEWAY, parts.start_gateway), (spare.NAME, spare.serve)):
            self.parts[name] = await self._keep(
                name,
                lambda log, name=name, start=start: start(self.lab, log, self._environment(name)),
                "gateway",
            )
        for name in GATEWAYS:
            await admin.until(f"/gateways/{name}", lambda it: it["state"] == "online", f"{name} online")
        await parts.add_zone(admin, self.bind)
        self.parts["dns-updater"] = await self._keep(
            "dns-updater",
            lambda log: parts.start_dns_updater(self.lab, self.bind, log, self._environment("updater")),
        )
        admin.close()
        await self._laptop()

    async def _database(self) -> None:
        made = self.postgres
        self.parts["etcd"] = await self._keep("etcd", made.etcd)
        for name, keeper in postgres.KEEPERS.items():
            made.make(name)
            self.parts[keeper] = await self._keep(keeper, lambda log, name=name: made.patroni(name, log))
            await made.until_running(name)
        self.parts["haproxy"] = await self._keep("haproxy", made.haproxy)
        await made.make_database()

    async def _keep(
        self, name: str, start: Callable[[str], Awaitable[Running]], kind: str = ""
    ) -> Supervised:
        return Supervised(name, await start(name), start, kind)

    async def down(self) -> None:
        for part in self.parts.values():
            await part.stop()
        for admin in self._admins.values():
            await admin.aclose()

    # --- Controllers ---

    async def _controller(self, name: str, log: str) -> Running:
        address = CONTROLLERS[name]
        settings = {
            "CULVERT_CONTROLLER_NAME": name,
            "CULVERT_REST_LISTEN": f"{address}:{net.REST_PORT}",
            "CULVERT_AGENT_LISTEN": f"{address}:{net.AGENT_PORT}",
            "CULVERT_PUBLIC_REST_URL": f"https://{COMMON_NAME}:{net.REST_PORT}",
            "CULVERT_PUBLIC_AGENT_ADDRESS": f"{COMMON_NAME}:{net.AGENT_PORT}",
            "CULVERT_DATABASE_URL": postgres.URL,
        }
        return (await parts.start_controller(self.lab, settings | dict(self._environment(name)), log)).program

    def _lab_admin(self) -> Admin:
        state = self.lab.run_directory(Site.CONTROLLER) / "controller"
        token = (state / "admin-token").read_text().strip()
        for name, address in CONTROLLERS.items():
            self._admins[name] = httpx.AsyncClient(
                base_url=f"https://{address}:{net.REST_PORT}/api/v1",
                headers={"Authorization": f"Bearer {token}"},
                verify=ssl.create_default_context(cafile=str(state / "infrastructure-ca.pem")),
                timeout=10,
                trust_env=False,
                limits=httpx.Limits(max_keepalive_connections=0),
            )
        return Admin(self.lab.inside(Site.CONTROLLER), token, state / "infrastructure-ca.pem")

    async def ask(self, path: str, *, method: str = "GET", body: object = None, at: str = "") -> Any:
        """The answer of a controller (`at`, or the first that gives it). Raises Refused, httpx.HTTPError."""
        fault: Exception = Refused("no controller")
        for name, admin in self._admins.items():
            if at not in ("", name):
                continue
            try:
                answer = await admin.request(method, path, json=body)
            except httpx.HTTPError as error:
                fault = error
                continue
            if answer.is_success:
                return answer.json() if answer.content else None
            fault = Refused(f"{name}: {method} {path}: {answer.status_code} {answer.text[:300]}")
        raise fault

    @property
    def ca_pem(self) -> bytes:
        return (self.lab.run_directory(Site.CONTROLLER) / "controller/infrastructure-ca.pem").read_bytes()

    # --- Names ---

    async def _name_servers(self) -> None:
        self.bind = await bind9.start(self.lab, (SECONDARY_ADDRESS,), self._environment("bind-1"))

        async def primary(log: str) -> Running:
            return await bind9.serve(self.lab, self.bind.tsig_file.parent, log, self._environment("bind-1"))

        self.parts["bind-1"] = Supervised("bind-1", self.bind.program, primary)
        directory = self.lab.work / "bind-2"
        for address in CONTROLLERS.values():
            self.bind_add(COMMON_NAME, address)
        text = _SECONDARY.format(
            directory=directory, address=SECONDARY_ADDRESS, key=self.bind.tsig_name, tsig=self.bind.tsig_file,
            primary=net.DNS_ADDRESS, zone=net.ZONE,
        )  # fmt: skip
        (directory / "named.conf").write_text(text)
        shutil.copy2(self.bind.tsig_file.with_name("named"), directory / "named")

        async def secondary(log: str) -> Running:
            return await bind9.serve(self.lab, directory, log, self._environment("bind-2"))

        self.parts["bind-2"] = await self._keep("bind-2", secondary)
        self.secondary = bind9.Bind9(
            self.parts["bind-2"].program, self.bind.tsig_file, self.bind.tsig_secret, SECONDARY_ADDRESS
        )

    def bind_add(self, name: str, address: str) -> None:
        code = self.bind.update(name.removesuffix(f".{net.ZONE}"), "A", address, add=True)
        if code != "NOERROR":
            raise StepError(f"{name} A {address}: {code}")

    # --- The real laptop ---

    async def _laptop(self) -> None:
        self.parts["culvertd"] = await self._keep(
            "culvertd",
            lambda log: laptop.start_daemon(
                self.lab, log, upstream=SECONDARY_ADDRESS, env=self._environment("laptop")
            ),
        )

    async def _laptop_status(self) -> local_pb2.Status:
        at = self.lab.run_directory(Site.LAPTOP) / "culvert/culvertd.sock"
        async with grpc.aio.insecure_channel(f"unix:{at}") as channel:
            stub = local_pb2_grpc.LocalServiceStub(channel)
            return (await stub.GetStatus(local_pb2.GetStatusRequest(), timeout=3)).status

    async def enrol_laptop(self) -> None:
        """Raises StepError."""
        link = (await self.ask("/invitations", method="POST", body={"user": parts.USER}))["link"]
        self.totp_uri = await laptop.enrol(self.lab, link)
        await laptop.prove_code(self.lab, self.totp_uri)

    async def prove_laptop(self) -> None:
        """A code, as the person types it when the laptop asks for one. Raises StepError."""
        await laptop.prove_code(self.lab, self.totp_uri)

    # --- All together ---

    def processes(self, name: str) -> list[int]:
        """A part's process, and a patroni's Postgres apart from it: `pg-1` is its postmaster."""
        if name in postgres.SERVERS:
            return [pid] if (pid := self.postgres.postmaster(name)) else []
        part = self.parts[name]
        return [part.program.pid] if part.program.code is None else []

    async def not_ready(self) -> str:
        """The first part that is not ready, with the reason; empty when all are ready."""
        for part in self.parts.values():
            if part.program.code is not None:
                return f"{part.name} does not run"
        try:
            for name in CONTROLLERS:
                for gateway in await self.ask("/gateways", at=name):
                    if gateway["state"] != "online":
                        return (
                            f"{name} says that {gateway['name']} is {gateway['state']}: {gateway['reason']}"
                        )
            zone = await self.ask("/dns/zones/lab")
            # Resources come and go all the time: a change may be pending for a moment.
            if zone["state"] not in ("live", "pending") or zone["lag_seconds"] > _LAG_SECONDS:
                return f"the zone is {zone['state']}: {zone['reason']} {zone['lag_seconds']}"
            found = await self._laptop_status()
        except (Refused, httpx.HTTPError, grpc.aio.AioRpcError) as error:
            return f"{type(error).__name__} {error}"
        if found.state not in (local_pb2.STATE_READY, local_pb2.STATE_CONNECTED):
            return f"the laptop is {local_pb2.State.Name(found.state)}: {found.last_error.message}"
        if certificates.laptop_left(disk(self.lab, "laptop")) < _SHORT_SECONDS:
            return "the laptop's certificate is not renewed"
        members = await self.postgres.members()
        if sorted(members) != sorted(postgres.SERVERS) or not set(members.values()) <= {
            "running",
            "streaming",
        }:
            return f"Postgres: {members}"
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                if not await self.postgres.has_standby():
                    return "Postgres: no standby follows the primary"
        except (StepError, TimeoutError) as error:
            return f"Postgres: {type(error).__name__} {error}"
        for server in (self.bind, self.secondary):
            try:
                await self.lab.inside(Site.DNS).run(server.ask, COMMON_NAME, "A")
            except Exception as error:
                return f"{server.address}: {type(error).__name__} {error}"
        return ""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _wire() -> None:
    """This process's network is a computer behind the lab's router; two hosts get their second address."""
    router, own = Site.INTERNET.value, "chaos"
    _ip("link", "add", own, "type", "veth", "peer", "name", "devices", "netns", router)
    _ip("-n", router, "address", "add", f"{_ROUTER}/24", "dev", "devices")
    _ip("-n", router, "link", "set", "devices", "up")
    _ip("address", "add", f"{_OWN}/24", "dev", own)
    _ip("link", "set", own, "up")
    _ip("route", "add", "192.0.2.0/24", "via", _ROUTER)
    _ip("route", "add", "198.51.100.0/24", "via", _ROUTER)
    for site, address in (
        (Site.CONTROLLER, f"{CONTROLLERS['two']}/24"),
        (Site.DNS, f"{SECONDARY_ADDRESS}/24"),
        *((Site.INTRANET, f"{it}/16") for it in _NEIGHBOURS if it != net.WIKI_ADDRESS),
    ):
        _ip("-n", site.value, "address", "add", address, "dev", "eth0")


# Each has a file system of its own, which can be filled.
DISKS = {
    "pg-1": (Site.CONTROLLER, "run/pg-1"),
    "pg-2": (Site.CONTROLLER, "run/pg-2"),
    "etcd": (Site.CONTROLLER, "run/etcd"),
    "controller": (Site.CONTROLLER, "run/controller"),
    "laptop": (Site.LAPTOP, "run/state"),
    "bind-1": (None, "bind"),
    "bind-2": (None, "bind-2"),
}


def disk(lab: Lab, name: str) -> Path:
    site, path = DISKS[name]
    return lab.work / path if site is None else lab.work / site.short / path


@contextmanager
def _disks(lab: Lab) -> Generator[None]:
    for name in DISKS:
        place = disk(lab, name)
        place.mkdir(parents=True, mode=0o700)
        options = f"size={DISK_BYTES},mode=0700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        for name in DISKS:
            subprocess.run(["umount", "--lazy", str(disk(lab, name))], check=False)


@asynccontextmanager
async def cluster(
    work: Path,
    logs: Path,
    environment: Callable[[str], Mapping[str, str]],
    prepare: Callable[[Lab], None],
) -> AsyncGenerator[Cluster]:
    """Up and joined; all of it gone afterwards, but for the logs. `prepare`: the files that `environment` names."""
    lab = Lab(work)
    await lab.up()
    try:
        with _disks(lab):
            _wire()
            prepare(lab)
            made = Cluster(lab, environment)
            try:
                await made.up()
                yield made
            finally:
                await made.down()
                shutil.rmtree(logs, ignore_errors=True)
                shutil.copytree(lab.work / "logs", logs)
                await lab.down()
    finally:
        await lab.down()
        shutil.rmtree(work, ignore_errors=True)
