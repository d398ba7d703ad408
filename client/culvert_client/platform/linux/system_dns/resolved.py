"""systemd-resolved: routes the managed zones to the stub over a separate link; resolved keeps all other names.

The link is a TUN device of this process. When the process ends, the kernel removes the device, and resolved forgets its
settings, so that no clean-up is needed even after a crash.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from culvert_ipsec.rtnetlink import RouteSocket
from culvert_proto.dns_name import canonical

from culvert_client.config import DNS_PORT, Endpoint
from culvert_client.core.dns_wire import CANARY, DESIGNATED
from culvert_client.core.short_names import SEARCHED
from culvert_client.platform.linux.system_dns.bus import call, system_bus
from culvert_client.platform.linux.system_dns.choice import RESOLVED_NAME

LINK = "culvert-dns"

# linux/if_tun.h
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
# resolved uses a link's servers only if the link has an address of global scope. This one is never routed (RFC 3927).
_ADDRESS = ip_address("169.254.45.53")

_PATH, _MANAGER = "/org/freedesktop/resolve1", "org.freedesktop.resolve1.Manager"
_LINK, _PROPERTIES = "org.freedesktop.resolve1.Link", "org.freedesktop.DBus.Properties"
# SD_RESOLVED_DNS in resolved's ScopesMask: it asks the link's servers.
_ASKED = 1


class RoutedLink:
    """Exists while this object is open. Raises OSError if it cannot be created."""

    def __init__(self) -> None:
        self._descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        try:
            request = struct.pack("16sH22x", LINK.encode(), _IFF_TUN | _IFF_NO_PI)
            fcntl.ioctl(self._descriptor, _TUNSETIFF, request)
            self.index = socket.if_nametoindex(LINK)
        except OSError:
            self.close()
            raise

    async def bring_up(self) -> None:
        try:
            await asyncio.to_thread(self._bring_up)
        except OSError as error:
            raise OSError(f"{LINK} cannot be brought up: {error}") from error

    @property
    def exists(self) -> bool:
        """Whether the device is still there: root can delete it."""
        with suppress(OSError):
            return socket.if_nametoindex(LINK) == self.index
        return False

    def _bring_up(self) -> None:
        with RouteSocket() as netlink:
            netlink.bring_up(self.index)
            netlink.put_address(self.index, _ADDRESS)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


async def route(link: int, stub: Endpoint, zones: Iterable[str]) -> None:
    """Set all of the link's settings in resolved (org.freedesktop.resolve1(5)). Raises OSError."""
    family, packed = _pack(stub)
    if stub.port == DNS_PORT:
        servers = ("SetLinkDNS", "ia(iay)", [link, [[family, packed]]])
    else:
        servers = ("SetLinkDNSEx", "ia(iayqs)", [link, [[family, packed, stub.port, ""]]])
    async with system_bus() as bus:
        for member, signature, body in (
            servers,
            ("SetLinkDomains", "ia(sb)", [link, [list(it) for it in _domains(zones)]]),
            ("SetLinkDefaultRoute", "ib", [link, False]),
            ("SetLinkLLMNR", "is", [link, "no"]),
            ("SetLinkMulticastDNS", "is", [link, "no"]),
            # No DNSSEC: the stub is on this computer, and its refusals are not signed.
            ("SetLinkDNSSEC", "is", [link, "no"]),
            ("SetLinkDNSOverTLS", "is", [link, "no"]),
            # The cache may have answers that bypassed the stub.
            ("FlushCaches", "", []),
        ):
            await call(bus, RESOLVED_NAME, _PATH, _MANAGER, member, signature, body)


async def is_routed(link: int, stub: Endpoint, zones: Iterable[str]) -> bool:
    """Whether resolved still has the settings of `route`. Raises OSError if it does not run."""
    async with system_bus() as bus:
        try:
            [path] = await call(bus, RESOLVED_NAME, _PATH, _MANAGER, "GetLink", "i", [link])
            [found] = await call(bus, RESOLVED_NAME, path, _PROPERTIES, "GetAll", "s", [_LINK])
            known = {name: it.value for name, it in found.items()}
            return (
                [tuple(it) for it in known["DNS"]] == [_pack(stub)]
                and {(canonical(name), only) for name, only in known["Domains"]} == set(_domains(zones))
                and not known["DefaultRoute"]
                and bool(known["ScopesMask"] & _ASKED)
            )
        except (KeyError, TypeError, ValueError) as error:
            raise OSError(f"systemd-resolved says nothing of {LINK} that can be read: {error!r}") from error


def uplinks(run: Path) -> Path:
    """The file with resolved's own name servers."""
    return run / "systemd/resolve/resolv.conf"


def _pack(stub: Endpoint) -> tuple[int, bytes]:
    address = ip_address(stub.host)
    return (socket.AF_INET if address.version == 4 else socket.AF_INET6), bytes(address.packed)


def _domains(zones: Iterable[str]) -> list[tuple[str, bool]]:
    """The domains, each with False if it is a search domain too."""
    names = set(map(canonical, zones))
    searched = [(SEARCHED, False)] if names else []
    return [(name, True) for name in sorted({*names, CANARY, DESIGNATED} - {SEARCHED})] + searched
