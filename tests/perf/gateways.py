"""Two sites, each a gateway and a host, in network namespaces of their own; the machine's own namespace is not touched.

  host-a ───────── lan gateway-a wan ═════════ wan gateway-b lan ───────── host-b
  10.1.0.11…13     10.1.0.1      192.0.2.1     192.0.2.2     10.2.0.1      10.2.0.11…13

A host's last number says how the gateways treat what it sends to the same number at the other site (`Treatment`), so
that one set of entries serves all runs and no run waits for another's set-up.

The hosts segment and finish their frames before these reach a gateway (no TSO, no checksum offload), because a switch
takes no unfinished frames; GSO above that and GRO on the way in are the hosts' own affair, and are on.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import socket
import struct
import subprocess
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from culvert_lab import netns

T = TypeVar("T")

SIOCETHTOOL = 0x8946
# linux/ethtool.h
STSO, STXCSUM, SGRO = 0x1F, 0x17, 0x2C
MTU = 1500


class Treatment(Enum):
    """What the gateways do with a flow; the value is the hosts' last number."""

    BYPASS = 11
    NULL = 12
    AES = 13


@dataclass(frozen=True, slots=True)
class Site:
    """One side. The gateway's MAC addresses are the program's alone, not its interfaces': so the kernel beside it, which
    sees every frame too, takes none for its own."""

    number: int

    @property
    def letter(self) -> str:
        return "ab"[self.number - 1]

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

    @property
    def lan_mac(self) -> str:
        return f"02:00:00:00:0{self.number}:01"

    @property
    def host_mac(self) -> str:
        return f"02:00:00:00:0{self.number}:02"

    @property
    def wan_mac(self) -> str:
        return f"02:00:00:00:0{self.number}:03"


A, B = Site(1), Site(2)


@dataclass(frozen=True, slots=True)
class Network:
    """The namespaces of one pair of gateways."""

    name: str

    def host(self, site: Site) -> str:
        return f"{self.name}-host-{site.letter}"

    def gateway(self, site: Site) -> str:
        return f"{self.name}-gateway-{site.letter}"

    def namespaces(self) -> list[str]:
        return [each(site) for site in (A, B) for each in (self.host, self.gateway)]


@contextlib.contextmanager
def network(label: str) -> Generator[Network]:
    """The topology without gateways in it. Raises CalledProcessError, OSError."""
    net = Network(f"culvert-bench-{os.getpid()}-{label}")
    try:
        for namespace in net.namespaces():
            ip("netns", "add", namespace)
            # Neighbour discovery would put frames on the wires that no measurement has sent.
            ip("netns", "exec", namespace, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
            ip("-n", namespace, "link", "set", "lo", "up")
        _wire(net.gateway(A), net.gateway(B), "wan")
        for site in (A, B):
            _wire(net.gateway(site), net.host(site), "lan", site.host_mac)
            for treatment in Treatment:
                ip("-n", net.host(site), "addr", "add", f"{site.host(treatment)}/24", "dev", "lan")
            ip("-n", net.host(site), "route", "add", "default", "via", site.lan_address)
            inside(net.host(site), _offloads)
        yield net
    finally:
        for namespace in net.namespaces():
            subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)


def ip(*arguments: str) -> None:
    """iproute2; raises CalledProcessError."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def inside(namespace: str, action: Callable[[], T]) -> T:
    """Run `action` in a namespace; a socket that it returns stays there."""
    worker = netns.Inside(namespace)
    try:
        return worker.call(action)
    finally:
        worker.close()


def _wire(left: str, right: str, name: str, right_mac: str | None = None) -> None:
    mac = ["address", right_mac] if right_mac else []
    ip("link", "add", name, "netns", left, "mtu", str(MTU), "type", "veth",
       "peer", "name", name, "netns", right, "mtu", str(MTU), *mac)  # fmt: skip
    for namespace in (left, right):
        ip("-n", namespace, "link", "set", name, "up")


def _offloads() -> None:
    for command, on in ((STSO, 0), (STXCSUM, 0), (SGRO, 1)):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            value = array.array("B", struct.pack("=II", command, on))
            request = struct.pack("16sP", b"lan", value.buffer_info()[0])
            fcntl.ioctl(control, SIOCETHTOOL, request + bytes(40 - len(request)))
