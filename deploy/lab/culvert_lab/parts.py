"""Culvert's own parts in the lab, each started with the command line that an operator would use.

controller ─► gateway registered ─► bundle ─► its switch ─► online
    └─► user, resource ─► dns-updater ─► BIND
    └─► invitation ─► culvert enroll ─► culvert code
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from culvert_lab import targets
from culvert_lab import topology as net
from culvert_lab.admin import Admin
from culvert_lab.bind9 import Bind9
from culvert_lab.errors import StepError
from culvert_lab.lab import Lab
from culvert_lab.process import Running
from culvert_lab.topology import Site

ROOT = targets.ROOT
PROGRAMS = Path(sys.executable).parent

GATEWAY = "gw-berlin"
USER = "alice"
RESOURCE = "wiki"
TXT = "ipsec-tunneling:yes"
WIKI_ALONE = MappingProxyType({net.WIKI_ADDRESS: net.WIKI_MAC})


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller that serves. `state` is its state directory, as this process sees it."""

    program: Running
    admin: Admin
    state: Path


async def start_controller(
    lab: Lab, settings: Mapping[str, str] | None = None, name: str = "controller"
) -> Controller:
    """Migrations, CAs, REST and agent API; on the embedded Postgres, or on $CULVERT_DATABASE_URL. `settings` are CULVERT_…
    in addition to the lab's own. Raises ProgramError."""
    env = _controller_environment() | dict(settings or {})
    argv = [str(PROGRAMS / "culvert-controller"), "serve"]
    program = await lab.start(name, Site.CONTROLLER, argv, env=env)
    # In User Mode Linux on a busy machine, a minute is not enough.
    await program.ready(r"\bready\b", 240.0)
    state = lab.run_directory(Site.CONTROLLER) / "controller"
    token = (state / "admin-token").read_text().strip()
    return Controller(
        program, Admin(lab.inside(Site.CONTROLLER), token, state / "infrastructure-ca.pem"), state
    )


async def first_owner(lab: Lab) -> str:
    """The console's path with the token for the first account, from `init`. Raises StepError."""
    argv = [str(PROGRAMS / "culvert-controller"), "init"]
    found = await lab.run(Site.CONTROLLER, argv, env=_controller_environment())
    if link := re.search(r"/console/setup#token=\S+", found.stdout):
        return link[0]
    raise StepError(f"culvert-controller init named no link: {found.stderr.strip()}")


def _controller_environment() -> dict[str, str]:
    env = {
        "CULVERT_STATE_DIR": "/run/controller",
        "CULVERT_REST_LISTEN": f"{net.CONTROLLER_ADDRESS}:{net.REST_PORT}",
        "CULVERT_AGENT_LISTEN": f"{net.CONTROLLER_ADDRESS}:{net.AGENT_PORT}",
        "CULVERT_PUBLIC_REST_URL": f"https://{net.CONTROLLER_ADDRESS}:{net.REST_PORT}",
        "CULVERT_PUBLIC_AGENT_ADDRESS": f"{net.CONTROLLER_ADDRESS}:{net.AGENT_PORT}",
        "CULVERT_MANAGED_ZONES": net.ZONE,
        "CULVERT_PROTECTED_PREFIXES": net.PROTECTED_PREFIX,
        "CULVERT_SERVER_NAMES": "127.0.0.1",
    }
    if url := os.environ.get("CULVERT_DATABASE_URL"):
        env["CULVERT_DATABASE_URL"] = url
    return env


async def register_gateway(lab: Lab, admin: Admin, neighbours: Mapping[str, str] = WIKI_ALONE) -> None:
    """Tell the controller of the gateway, and lay out its bundle. `neighbours`: the MAC of each server inside. Raises
    StepError."""
    await admin.post(
        "/gateways",
        {
            "name": GATEWAY,
            "kind": targets.choose().name,
            "address": net.GATEWAY_ADDRESS,
            "p4runtime": f"{net.MANAGEMENT_GATEWAY}:{net.P4RUNTIME_PORT}",
            "device_id": 1,
            "pool": net.INNER_POOL,
            "wan": {"port": 1, "mac": net.GATEWAY_WAN_MAC, "next_hop_mac": net.ROUTER_GATEWAY_MAC},
            "lan": {
                "port": 2,
                "mac": net.GATEWAY_LAN_MAC,
                "address": net.GATEWAY_LAN_ADDRESS,
                "prefix": net.PROTECTED_PREFIX,
                "neighbours": dict(neighbours),
            },
        },
    )
    await lay_out_bundle(lab, admin, f"/gateways/{GATEWAY}", "gateway")


async def start_crypto_hosts(lab: Lab, admin: Admin) -> dict[str, Running]:
    """Register and start the gateway's crypto hosts, if the target has any, in its site. By name. Raises StepError,
    ProgramError.
    """
    ports = targets.CRYPTO_PORTS if targets.has_crypto_hosts() else ()
    for port in ports:
        await _register_crypto_host(lab, admin, port)
    return {_crypto_host(port): await start_crypto_host(lab, _crypto_host(port)) for port in ports}


async def start_crypto_host(lab: Lab, name: str) -> Running:
    """Start a registered crypto host. Raises StepError, ProgramError."""
    port = int(name.removeprefix(_crypto_host("")))
    target = targets.crypto_host(f"/run/{name}", net.P4RUNTIME_PORT + port, port)
    program = await lab.start(name, Site.GATEWAY, target.argv, env=target.env)
    await program.ready(target.ready)
    return program


def _crypto_host(port: int | str) -> str:
    return f"crypto-{port}"


async def _register_crypto_host(lab: Lab, admin: Admin, port: int) -> None:
    near, far = targets.gateway_interface(port), targets.host_interface(port)
    # A request is up to 110 bytes longer than an inner packet of 1500 (docs/crypto-port.md).
    for command in (
        f"link add {near} mtu 1700 type veth peer name {far} mtu 1700",
        f"link set {near} up",
        f"link set {far} up",
    ):
        done = await lab.run(Site.GATEWAY, ["ip", *command.split()])
        if done.code != 0:
            raise StepError(done.stderr)
    name, path = _crypto_host(port), f"/gateways/{GATEWAY}/crypto-hosts"
    await admin.post(
        path,
        {
            "name": name,
            "p4runtime": f"{net.MANAGEMENT_GATEWAY}:{net.P4RUNTIME_PORT + port}",
            "port": port,
            "mac": f"02:00:00:00:0{port}:01",
            "host_mac": f"02:00:00:00:0{port}:02",
        },
    )
    await lay_out_bundle(lab, admin, f"{path}/{name}", name)


async def lay_out_bundle(lab: Lab, admin: Admin, path: str, directory_name: str) -> None:
    """Write the files that a gateway, or one of its crypto hosts, needs to start into its site's /run. Raises StepError."""
    bundle = await admin.post(f"{path}/bundle")
    directory = lab.run_directory(Site.GATEWAY) / directory_name
    directory.mkdir(mode=0o700)
    for file, content in (
        ("ca.pem", bundle["ca_pem"].encode()),
        ("gateway.pem", bundle["certificate_pem"].encode()),
        ("gateway.key", bundle["key_pem"].encode()),
        ("kek.bin", base64.b64decode(bundle["kek"])),
    ):
        with os.fdopen(os.open(directory / file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(content)


async def start_gateway(lab: Lab, name: str = "gateway", env: Mapping[str, str] | None = None) -> Running:
    """Start the gateway's switch with its bundle. Raises StepError, ProgramError."""
    target = targets.choose()
    program = await lab.start(name, Site.GATEWAY, target.argv, env=dict(target.env) | dict(env or {}))
    await program.ready(target.ready)
    return program


async def gateway_online(admin: Admin) -> None:
    """Wait until the controller has pushed the program and its entries. Raises StepError."""
    await admin.until(f"/gateways/{GATEWAY}", lambda answer: answer["state"] == "online", "A gateway online")
    hosts = f"/gateways/{GATEWAY}/crypto-hosts"
    await admin.until(
        hosts, lambda them: all(it["state"] == "online" for it in them), "Its crypto hosts online"
    )


async def add_zone(admin: Admin, bind: Bind9) -> None:
    """Have the zone kept equal to the resources. Raises StepError."""
    zone: dict[str, object] = {
        "name": "lab",
        "origin": bind.zone,
        "server": bind.address,
        "key": bind.tsig_file.stem,
    }
    await admin.post("/dns/zones", zone)


async def start_dns_updater(
    lab: Lab, bind: Bind9, name: str = "dns-updater", env: Mapping[str, str] | None = None
) -> Running:
    """Start the part that keeps zones. Raises ProgramError."""
    settings = dict(env or {}) | {
        "CULVERT_DNS_KEY_DIR": str(bind.tsig_file.parent),
        "CULVERT_DNS_DATABASE_URL_FILE": "/run/controller/database-url",
    }
    argv = [str(PROGRAMS / "culvert-dns-updater"), "run"]
    program = await lab.start(name, Site.CONTROLLER, argv, env=settings)
    await program.ready(r"\bready\b")
    return program


async def create_user(admin: Admin, name: str = USER) -> None:
    """Raises StepError."""
    await admin.post("/users", {"name": name, "email": f"{name}@{net.ZONE}"})


async def create_resource(admin: Admin, **fields: object) -> None:
    """The wiki behind the gateway, for alice; `fields` replace or add to its profile. Raises StepError."""
    profile: dict[str, object] = {
        "name": RESOURCE,
        "fqdn": net.WIKI_NAME,
        "address": net.WIKI_ADDRESS,
        "gateways": [GATEWAY],
        "users": [USER],
        "owner": f"bob@{net.ZONE}",
    }
    await admin.post("/resources", profile | fields)


async def wait_published(lab: Lab, bind: Bind9, name: str = net.WIKI_NAME, seconds: float = 40.0) -> None:
    """Wait until BIND answers with the resource's A and TXT. Raises StepError."""
    outside = lab.inside(Site.LAPTOP)
    deadline = time.monotonic() + seconds
    while True:
        address, text = await outside.run(bind.ask, name, "A"), await outside.run(bind.ask, name, "TXT")
        if address == [net.WIKI_ADDRESS] and text == [f'"{TXT}"']:
            return
        if time.monotonic() > deadline:
            raise StepError(
                f"{name} was not published within {seconds:g} s. BIND answers: A {address}, TXT {text}"
            )
        await asyncio.sleep(0.05)


async def invite(admin: Admin, user: str = USER) -> str:
    """A fresh invitation link; it holds a one-time token. Raises StepError."""
    answer: dict[str, Any] = await admin.post("/invitations", {"user": user})
    return str(answer["link"])
