"""systemd-resolved: the managed zones are routed to the stub over a link of their own; all other names stay with it.

The link is a TUN device of this process. When the process ends, whatever ends it, the kernel removes the device, and
resolved forgets what it was told of it: there is nothing to clean up.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import struct
from collections.abc import Iterable
from ipaddress import ip_address

from culvert_ipsec.rtnetlink import RouteSocket

from culvert_client.config import DNS_PORT, Endpoint
from culvert_client.system_dns.bus import call, system_bus
from culvert_client.system_dns.choice import RESOLVED_NAME

LINK = "culvert-dns"
# Firefox asks it before it goes around the system's resolver: the stub's answer keeps it with us.
CANARY = "use-application-dns.net"

# linux/if_tun.h
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
# resolved asks no server of a link that has no address of global scope. This one is never routed (RFC 3927).
_ADDRESS = ip_address("169.254.45.53")

_PATH, _MANAGER = "/org/freedesktop/resolve1", "org.freedesktop.resolve1.Manager"


class RoutedLink:
    """Exists while this object is open. Raises OSError when it is not to be had."""

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

    def _bring_up(self) -> None:
        with RouteSocket() as netlink:
            netlink.bring_up(self.index)
            netlink.put_address(self.index, _ADDRESS)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


async def route(link: int, stub: Endpoint, zones: Iterable[str]) -> None:
    """Tell resolved the whole of what it shall know of the link (org.freedesktop.resolve1(5)). Raises OSError."""
    address = ip_address(stub.host)
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    packed = bytes(address.packed)
    domains = [[zone, True] for zone in sorted({*zones, CANARY})]
    if stub.port == DNS_PORT:
        servers = ("SetLinkDNS", "ia(iay)", [link, [[family, packed]]])
    else:
        servers = ("SetLinkDNSEx", "ia(iayqs)", [link, [[family, packed, stub.port, ""]]])
    async with system_bus() as bus:
        for member, signature, body in (
            servers,
            ("SetLinkDomains", "ia(sb)", [link, domains]),
            ("SetLinkDefaultRoute", "ib", [link, False]),
            ("SetLinkLLMNR", "is", [link, "no"]),
            ("SetLinkMulticastDNS", "is", [link, "no"]),
            # The stub is on this computer, and what it refuses is not signed.
            ("SetLinkDNSSEC", "is", [link, "no"]),
            ("SetLinkDNSOverTLS", "is", [link, "no"]),
            # What was asked before may have come around the stub.
            ("FlushCaches", "", []),
        ):
            await call(bus, RESOLVED_NAME, _PATH, _MANAGER, member, signature, body)
