"""Reads DNS packets on every interface with Scapy's packet sockets and a filter of libpcap (package libpcap0.8).

Scapy is imported only when a sniffer opens, because it takes 0.3 s and many megabytes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from culvert_client.config import Endpoint
from culvert_client.core.client_events import Event
from culvert_client.core.dns_watch import DnsWatch
from culvert_client.platform.linux.system_dns.choice import upstreams

# Our tunables: seconds between checks of the interfaces, bytes of a DNS message with its headers, messages per read.
LOOK_AGAIN = 2.0
LONGEST = 4096
AT_ONCE = 64

FILTER = "udp port 53"
# linux/if_packet.h; RFC 894.
_OUTGOING = 4
_ETHERNET_HEADER = 14

log = logging.getLogger("culvert_client.watch.sniffer")


def sniffer(post: Callable[[Event], None], use: Callable[[tuple[Endpoint, ...]], None] | None) -> Sniffer:
    """As DnsSniffers."""
    return Sniffer(post, use)


class Sniffer:
    """Conforms to QuerySource. `use`: as of DnsSniffers."""

    def __init__(
        self, post: Callable[[Event], None], use: Callable[[tuple[Endpoint, ...]], None] | None
    ) -> None:
        self._post, self._use = post, use
        self._watch = DnsWatch()
        self._sockets: dict[str, Any] = {}
        self._looking: asyncio.Task[None] | None = None

    async def open(self, _: Endpoint) -> None:
        """Raises OSError without Scapy, libpcap or CAP_NET_RAW."""
        self._look()
        self._looking = asyncio.create_task(self._look_forever())

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        for name in list(self._sockets):
            self._forget(name)

    async def _look_forever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            # An interface may disappear while it is opened.
            with suppress(OSError):
                self._look()

    def _look(self) -> None:
        there = {name for _, name in socket.if_nameindex()}
        for name in self._sockets.keys() - there:
            self._forget(name)
        for name in there - self._sockets.keys():
            opened = self._sockets[name] = _listen_on(name)
            opened.ins.setblocking(False)
            asyncio.get_running_loop().add_reader(opened.ins, self._read, name)
        if self._use is not None:
            with suppress(OSError):
                self._use(upstreams([Path("/etc/resolv.conf").read_text()], ""))

    def _read(self, name: str) -> None:
        opened = self._sockets[name]
        # By Scapy's link-layer class: Ethernet frames, or IP packets only.
        start = _ETHERNET_HEADER if opened.LL.__name__ == "Ether" else 0
        for _ in range(AT_ONCE):
            try:
                frame, (_, _, kind, _, _) = opened.ins.recvfrom(LONGEST)
            except BlockingIOError:
                return
            except OSError as error:
                log.info("DNS on %s is no longer watched: %s", name, error)
                self._forget(name)
                return
            event = self._watch.take_packet(frame[start:], leaves=kind == _OUTGOING)
            if event is not None:
                self._post(event)

    def _forget(self, name: str) -> None:
        opened = self._sockets.pop(name)
        asyncio.get_running_loop().remove_reader(opened.ins)
        opened.close()


def _listen_on(interface: str) -> Any:
    try:
        from scapy.arch.linux import L2ListenSocket
        from scapy.error import Scapy_Exception
    except ImportError as error:
        raise OSError(f"watching DNS needs Scapy: {error}") from error
    try:
        return L2ListenSocket(iface=interface, filter=FILTER, promisc=False)
    except Scapy_Exception as error:
        raise OSError(f"watching DNS needs libpcap: {error}") from error
