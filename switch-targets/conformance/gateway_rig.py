"""A gateway under test: its controller, its wires, frames for it, and what it counts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, cast

import finsy as fy
import gateway_entries as entries
from esp_peer import AES_GCM_256, Association
from gateway_entries import Family, Site, Tunnel
from gateway_wires import Wire
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

QUIET = 0.1  # seconds without a frame that are taken for none


class Drop(IntEnum):
    """p4/gateway/metadata.p4."""

    MALFORMED = 1
    NO_ROLE = 2
    FRAGMENT = 3
    NOT_ESP = 4
    BAD_SPI = 5
    ESP_MALFORMED = 6
    REPLAY = 7
    ICV = 8
    DUMMY = 9
    HARD_LIMIT = 10
    KEY = 11
    SELECTOR = 12
    POLICY = 13
    NO_SA = 14
    TTL = 15
    NO_ROUTE = 16
    NO_NEXTHOP = 17
    NOT_IP = 18
    ARP_NOT_OURS = 19
    NOT_OUR_MAC = 20
    MARTIAN = 21
    IP_OPTIONS = 22
    NOT_OFFERED = 23
    TOO_BIG = 24
    ECN = 25
    LEAK = 26
    CRYPTO_FRAME = 27
    CRYPTO_ANSWER = 28
    NO_HOST = 29


def new_tunnel(**changes: Any) -> Tunnel:
    """A tunnel with fresh keys."""
    size = changes.get("suite", AES_GCM_256).key_len
    return Tunnel(os.urandom(size), os.urandom(size), **changes)


def ip_header(family: Family, source: str, destination: str, **fields: Any) -> Packet:
    """`ttl` and `tos` for both versions."""
    if family.version == 4:
        return IP(src=source, dst=destination, **fields)
    renamed = {"ttl": "hlim", "tos": "tc"}
    return IPv6(src=source, dst=destination, **{renamed.get(name, name): it for name, it in fields.items()})


def with_protocol(header: Packet, protocol: int) -> Packet:
    """The same IP header with this protocol said."""
    header.setfieldval("proto" if IP in header else "nh", protocol)
    return header


def to_server(family: Family, payload: Packet | bytes = b"", **fields: Any) -> Packet:
    """The inner packet that the peer sends."""
    return build(ip_header(family, family.inner, family.server, **fields), payload)


def to_inner(family: Family, payload: Packet | bytes = b"", **fields: Any) -> Packet:
    """The inner packet that the server answers with."""
    return build(ip_header(family, family.server, family.inner, **fields), payload)


def build(header: Packet, payload: Packet | bytes) -> Packet:
    if isinstance(payload, bytes):
        payload = UDP(sport=5000, dport=6000) / Raw(payload)
    return type(header)(bytes(header / payload))


@dataclass
class Gateway:
    """`site` with its entries already in the switch."""

    switch: fy.Switch
    site: Site
    wan: Wire
    lan: Wire
    lan2: Wire

    async def insert(self, *inserted: fy.P4TableEntry | list[fy.P4TableEntry]) -> None:
        flat = [it for one in inserted for it in (one if isinstance(one, list) else [one])]
        await self.switch.insert(flat)

    async def read(self, *asked: Any) -> list[Any]:
        answers = cast(AsyncIterator[Any], self.switch.read(asked))
        return [entity async for entity in answers]

    async def drops(self) -> dict[Drop, int]:
        """The causes that have been counted."""
        cells = await self.read(fy.P4CounterEntry("drops"))
        return {Drop(it.index): it.packet_count for it in cells if it.packet_count}

    @contextlib.asynccontextmanager
    async def expect_drops(self, *causes: Drop) -> AsyncGenerator[None]:
        """Expect that the frames sent meanwhile are dropped under these causes, one each, and that nothing comes out."""
        before = await self.drops()
        yield
        deadline = time.monotonic() + 10
        after = await self.drops()
        while sum(after.values()) < sum(before.values()) + len(causes) and time.monotonic() < deadline:
            await asyncio.sleep(0.002)
            after = await self.drops()
        assert (self.wan.receive(0.005), self.lan.receive(0), self.lan2.receive(0)) == (None, None, None)
        changed = {it: after.get(it, 0) - before.get(it, 0) for it in Drop}
        expected = {it: causes.count(it) for it in causes}
        assert {it: count for it, count in changed.items() if count} == expected

    def on_wan(self, packet: Packet, **ether: Any) -> Packet:
        """A frame from the router."""
        return _frame(
            {"src": entries.ROUTER_MAC, "dst": entries.WAN_MAC, **ether}, self.site.wan_vlan, packet
        )

    def on_lan(self, packet: Packet, **ether: Any) -> Packet:
        """A frame from the server."""
        return _frame(
            {"src": entries.SERVER_MAC, "dst": entries.LAN_MAC, **ether}, self.site.lan_vlan, packet
        )

    def esp(
        self, tunnel: Tunnel, esp: bytes, source: str = "", port: int | None = None, **fields: Any
    ) -> Packet:
        """ESP bytes in the peer's outer headers; `port` 0 is ESP without UDP."""
        port = tunnel.peer_port if port is None else port
        outer = tunnel.outer
        header = ip_header(outer, source or outer.peer, outer.gateway, **fields)
        if port:
            udp = UDP(sport=port, dport=4500)
            if outer.version == 4:
                udp.chksum = 0
            return self.on_wan(header / udp / Raw(esp))
        return self.on_wan(with_protocol(header, 50) / Raw(esp))

    def seal(self, tunnel: Tunnel, inner: Packet, sequence: int, **outer: Any) -> Packet:
        """A packet of the peer's, sealed by scapy."""
        return self.esp(tunnel, seal(tunnel, inner, sequence), **outer)

    async def opens(self, tunnel: Tunnel, sequence: int, **outer: Any) -> Packet:
        """A packet goes through from the peer to the server."""
        self.wan.send(self.seal(tunnel, to_server(tunnel.inner, b"request"), sequence, **outer))
        arrived = self.lan.receive()
        assert arrived is not None, await self.drops()
        return arrived

    async def seals(self, tunnel: Tunnel, inner: Packet | None = None) -> Packet:
        """A packet of the server's leaves on the WAN: the frame."""
        self.lan.send(self.on_lan(inner or to_inner(tunnel.inner, b"answer")))
        left = self.wan.receive()
        assert left is not None, await self.drops()
        return left

    @contextlib.asynccontextmanager
    async def digests(
        self, name: str, ack_timeout_ns: int = 1_000_000
    ) -> AsyncGenerator[asyncio.Queue[dict[str, int]]]:
        """Messages of one digest. After `ack_timeout_ns` the switch says the same again."""
        entry = fy.P4DigestEntry(name, max_list_size=1, max_timeout_ns=0, ack_timeout_ns=ack_timeout_ns)
        await self.switch.insert([entry])
        queue: asyncio.Queue[dict[str, int]] = asyncio.Queue()

        async def collect() -> None:
            async for digests in self.switch.read_digests(name):
                for message in digests.data:
                    queue.put_nowait(cast(dict[str, int], message))
                # A write that is cancelled takes the whole stream with it.
                await asyncio.shield(self.switch.write([digests.ack()]))

        collecting = asyncio.create_task(collect())
        await asyncio.sleep(0)
        try:
            yield queue
        finally:
            collecting.cancel()
            await self.switch.delete([entry])


def seal(tunnel: Tunnel, inner: Packet, sequence: int) -> bytes:
    return Association(tunnel.suite, tunnel.key_in, tunnel.spi_in, tunnel.esn).seal(inner, sequence)


def open_frame(tunnel: Tunnel, frame: Packet) -> Packet:
    """The inner packet of a frame that the gateway sealed."""
    return Association(tunnel.suite, tunnel.key_out, tunnel.spi_out, tunnel.esn).open(esp_bytes(frame))


def esp_bytes(frame: Packet) -> bytes:
    header = frame[IP] if IP in frame else frame[IPv6]
    carried = bytes(header)[: header.len if IP in frame else header.plen + 40][20 if IP in frame else 40 :]
    protocol = header.proto if IP in frame else header.nh
    return carried[8:] if protocol == 17 else carried


def _frame(ether: dict[str, Any], vlan: int, packet: Packet) -> Packet:
    tag = Dot1Q(vlan=vlan) if vlan else None
    return Ether(**ether) / tag / packet if tag else Ether(**ether) / packet
