"""Two sites, each a gateway and a host, in network namespaces of their own; the machine's own namespace is not touched.

  host-a ───────── lan gateway-a wan ═════════ wan gateway-b lan ───────── host-b
  10.1.0.11…14     10.1.0.1      192.0.2.1     192.0.2.2     10.2.0.1      10.2.0.11…14

A host's last number says how the gateways treat what it sends to the same number at the other site (`Treatment`), so
that one set of entries serves all runs and no run waits for another's set-up.

With sluice every link has the kernel's offloads. bmv2 takes no unfinished frames: beside it, and where `plain_frames` are
asked for, the hosts segment and finish theirs themselves (no TSO, no checksum offload); GSO above that, and GRO of what
comes in, are on.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import tempfile
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import cast

import finsy as fy
import gateway_entries as entries
from crypto_front import HOST_PORT, PORT, FrontSwitch, front_entries, host_entries
from esp_peer import AES_GCM_256, LEGACY, Suite
from gateway_authority import Authority
from gateway_entries import KEK, LAN, WAN, Family, Tunnel
from gateway_target import GRPC_PORT, Launch, Target, controller_options, infrastructure
from gateway_wires import Relay, namespaces, run

MTU = 1500
# docs/crypto-port.md
CRYPTO_MTU = 1600
WAN_PORT, LAN_PORT = 1, 2
WAN_HOP, LAN_HOP = 1, 2
NULL_HMAC_SHA256 = LEGACY[0]


class Treatment(Enum):
    """The gateways' treatment of a flow; the value is the hosts' last number."""

    BYPASS = 11
    NULL = 12
    AES = 13
    # RFC 3948, as behind a NAT.
    AES_UDP = 14

    @property
    def suite(self) -> Suite:
        """The suite of a protected flow."""
        return NULL_HMAC_SHA256 if self is Treatment.NULL else AES_GCM_256

    @property
    def port(self) -> int:
        """The UDP port of the ESP packets, on both sides; 0 for ESP without UDP."""
        return 4500 if self is Treatment.AES_UDP else 0

    @property
    def inner_mtu(self) -> int:
        """The longest packet whose ESP packet, over IPv4, has MTU bytes at most: RFC 4301 section 8."""
        return {Treatment.NULL: 1454, Treatment.AES: 1446, Treatment.AES_UDP: 1438}[self]


PROTECTED = [treatment for treatment in Treatment if treatment is not Treatment.BYPASS]


@dataclass(frozen=True, slots=True)
class Site:
    """A site with its gateway. The program's MAC addresses differ from its interfaces': so the kernel beside it, which
    sees every frame too, takes none for its own."""

    number: int

    @property
    def other(self) -> Site:
        return B if self.number == 1 else A

    @property
    def prefix(self) -> str:
        return f"10.{self.number}.0.0/24"

    @property
    def lan_address(self) -> str:
        return f"10.{self.number}.0.1"

    @property
    def wan_address(self) -> str:
        return f"192.0.2.{self.number}"

    def host(self, treatment: Treatment) -> str:
        """The address whose flows are treated so."""
        return f"10.{self.number}.0.{treatment.value}"

    def mac(self, what: int) -> str:
        return f"02:00:00:00:0{self.number}:0{what}"

    def tunnel(self, treatment: Treatment, keys: dict[Site, bytes], number: int) -> Tunnel:
        """As this gateway sees it. `keys` are those of the senders; `number` sets the SA's identifiers apart."""
        far = Family(
            4, self.wan_address, "", self.other.wan_address, "", self.other.host(treatment), self.host(treatment),
            self.lan_address, "", "",
        )  # fmt: skip
        return Tunnel(
            keys[self.other], keys[self], far, far, treatment.suite, peer_port=treatment.port, number=number,
            spi_in=_spi(self.other, number), spi_out=_spi(self, number), inner_mtu=treatment.inner_mtu,
        )  # fmt: skip

    def entries(self) -> list[fy.P4TableEntry]:
        """Ports, routes and the policies of flows that are not protected."""
        there, here = self.other.host(Treatment.BYPASS), self.host(Treatment.BYPASS)
        return [
            entries.port_role(WAN_PORT, 0, "set_wan", 1, self.mac(WAN_MAC)),
            entries.port_role(LAN_PORT, 0, "set_lan", 2, self.mac(LAN_MAC)),
            entries.own_address(1, self.wan_address),
            entries.own_address(2, self.lan_address),
            entries.nexthop(WAN_HOP, WAN, WAN_PORT, 0, self.mac(WAN_MAC), self.other.mac(WAN_MAC), MTU),
            entries.nexthop(LAN_HOP, LAN, LAN_PORT, 0, self.mac(LAN_MAC), self.mac(HOST_MAC), MTU),
            entries.route(self.prefix, LAN_HOP),
            entries.route(self.other.prefix, WAN_HOP),
            entries.route("192.0.2.0/24", WAN_HOP),
            entries.bypass(LAN, here, there),
            entries.bypass(WAN, there, here),
        ]


LAN_MAC, HOST_MAC, WAN_MAC = 1, 2, 3
A, B = Site(1), Site(2)


def _spi(sender: Site, number: int) -> int:
    return 0x1000 * sender.number + number


def new_tunnel(treatment: Treatment, number: int) -> dict[Site, Tunnel]:
    """Both ends, with fresh keys."""
    keys = {site: os.urandom(treatment.suite.key_len) for site in (A, B)}
    return {site: site.tunnel(treatment, keys, number) for site in (A, B)}


@dataclass(frozen=True, slots=True)
class Pair:
    """Both gateways, running and programmed, with a host behind each."""

    switches: dict[Site, fy.Switch]
    targets: dict[Site, Target]
    hosts: dict[Site, str]
    tunnels: dict[Treatment, dict[Site, Tunnel]]
    authority: Authority
    # The crypto hosts of gateway A.
    crypto_hosts: list[Target]

    def check(self) -> None:
        """Raises RuntimeError, with its log, when a gateway or a crypto host has ended."""
        for target in (*self.targets.values(), *self.crypto_hosts):
            if not target.alive():
                raise RuntimeError(f"a gateway has ended: {target.log.read_text()[-2000:]}")


def kind(name: str) -> type[Target]:
    """`sluice` or `bmv2`."""
    return cast(type[Target], importlib.import_module(f"target_{name}").TARGET)


@contextlib.asynccontextmanager
async def gateways(
    name: str, label: str = "", *, plain_frames: bool = False, crypto_hosts: int = 0
) -> AsyncGenerator[Pair]:
    """A pair of one kind; `label` sets it apart from another one of that kind. `crypto_hosts`: so many serve the SAs of
    gateway A. Raises RuntimeError when a gateway or a link can't be made."""
    plain_frames = plain_frames or name == "bmv2"
    prefix = f"culvert-bench-{os.getpid()}-{name}{label}"
    hosts = {site: f"{prefix}-host-{site.number}" for site in (A, B)}
    spaces = {site: f"{prefix}-gateway-{site.number}" for site in (A, B)}
    behind = [f"{prefix}-crypto-{number}" for number in range(crypto_hosts)]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(_network(hosts, spaces, offloads=not plain_frames))
        stack.enter_context(namespaces(*behind))
        for number, space in enumerate(behind):
            _wire(f"crypto{number}", spaces[A], space, mtu=CRYPTO_MTU)
        authority = infrastructure(folder / "pki")
        targets: dict[Site, Target] = {}

        async def start(space: str, ports: dict[int, str]) -> Target:
            own = folder / space
            own.mkdir()
            launch = Launch(space, ports, KEK, [NULL_HMAC_SHA256.name], own, authority, plain_frames)
            target = await asyncio.to_thread(kind(name), launch)
            stack.callback(target.stop)
            return target

        for site, space in spaces.items():
            crypto = {PORT + number: f"crypto{number}" for number in range(crypto_hosts if site == A else 0)}
            targets[site] = await start(space, {WAN_PORT: "wan", LAN_PORT: "lan"} | crypto)
        served_by = [
            await start(space, {HOST_PORT: f"crypto{number}"}) for number, space in enumerate(behind)
        ]
        async with contextlib.AsyncExitStack() as connections:

            async def connect(space: str, program: str) -> fy.Switch:
                relay = Relay(GRPC_PORT, space)
                stack.callback(relay.close)
                switch = fy.Switch(space, relay.address, controller_options(authority, program))
                return await connections.enter_async_context(switch)

            switches: dict[Site, fy.Switch] = {}
            for site, space in spaces.items():
                switches[site] = await connect(space, "gateway")
                await switches[site].insert(site.entries())
            if behind:
                connected = [await connect(space, "crypto_host") for space in behind]
                for number, switch in enumerate(connected):
                    await switch.insert(host_entries())
                    await switches[A].insert(front_entries(PORT + number))
                switches[A] = cast(fy.Switch, FrontSwitch(switches[A], *connected))
            tunnels: dict[Treatment, dict[Site, Tunnel]] = {}
            for number, treatment in enumerate(PROTECTED, start=1):
                tunnels[treatment] = new_tunnel(treatment, number)
                for site, tunnel in tunnels[treatment].items():
                    made = [tunnel.sad_in(), tunnel.spd_in(), tunnel.sad_out(), tunnel.spd_out()]
                    await switches[site].insert(made)
            yield Pair(switches, targets, hosts, tunnels, authority, served_by)


@contextlib.contextmanager
def _network(hosts: dict[Site, str], spaces: dict[Site, str], *, offloads: bool) -> Generator[None]:
    with namespaces(*hosts.values(), *spaces.values()):
        _wire("wan", spaces[A], spaces[B])
        for site in (A, B):
            _wire("lan", spaces[site], hosts[site], "address", site.mac(HOST_MAC))
            for treatment in Treatment:
                run("ip", "-n", hosts[site], "addr", "add", f"{site.host(treatment)}/24", "dev", "lan")
            run("ip", "-n", hosts[site], "route", "add", "default", "via", site.lan_address)
            if not offloads:
                options = ("tx", "off", "tso", "off", "gro", "on")
                run("ip", "netns", "exec", hosts[site], "ethtool", "-K", "lan", *options)
        yield


def _wire(name: str, left: str, right: str, *right_options: str, mtu: int = MTU) -> None:
    peer = ("type", "veth", "peer", "name", name, "netns", right, "mtu", str(mtu), *right_options)
    run("ip", "link", "add", name, "netns", left, "mtu", str(mtu), *peer)
    for namespace in (left, right):
        run("ip", "-n", namespace, "link", "set", name, "up")
