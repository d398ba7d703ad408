"""Table entries of p4/gateway.p4 for one gateway and one tunnel."""

from __future__ import annotations

from collections.abc import AsyncIterator
from ipaddress import IPv4Address
from typing import Any, cast

import finsy as fy
from cryptography.hazmat.primitives.keywrap import aes_key_wrap_with_padding

GATEWAY = "198.51.100.2"
PEER = "203.0.113.10"
INNER = "10.99.0.5"
SERVER = "10.20.0.10"
WAN_MAC = "02:00:00:00:01:01"
ROUTER_MAC = "02:00:00:00:01:02"
LAN_MAC = "02:00:00:00:02:01"
SERVER_MAC = "02:00:00:00:02:10"
PEER_PORT = 40123
SPI_IN = 0x1001
SPI_OUT = 0x2002
KEK = bytes(range(32))
KEY_IN = bytes(range(36))
KEY_OUT = bytes(range(36, 72))
ANY = 2**32 - 1


async def read(switch: fy.Switch, *asked: Any) -> list[Any]:
    """Everything that the switch answers."""
    answers = cast(AsyncIterator[Any], switch.read(asked))
    return [entity async for entity in answers]


def ip(address: str) -> int:
    return int(IPv4Address(address))


def wrapped(key: bytes, kek: bytes = KEK) -> int:
    """RFC 5649 under a gateway's key-encryption key."""
    return int.from_bytes(aes_key_wrap_with_padding(kek, key))


def ports() -> list[fy.P4TableEntry]:
    return [
        fy.P4TableEntry("port_role", match=fy.Match(port=1), action=fy.Action("set_wan")),
        fy.P4TableEntry("port_role", match=fy.Match(port=2), action=fy.Action("set_lan")),
        fy.P4TableEntry(
            "arp_responder",
            match=fy.Match(port=1, operation=1, target=ip(GATEWAY)),
            action=fy.Action("reply", mac=WAN_MAC),
        ),
    ]


def routes() -> list[fy.P4TableEntry]:
    return [
        fy.P4TableEntry("route", match=fy.Match(dst="0.0.0.0/1"), action=fy.Action("via", nexthop_id=2)),
        fy.P4TableEntry("route", match=fy.Match(dst="128.0.0.0/1"), action=fy.Action("via", nexthop_id=1)),
        fy.P4TableEntry(
            "nexthop",
            match=fy.Match(id=1),
            action=fy.Action("set_nexthop", port=1, src_mac=WAN_MAC, dst_mac=ROUTER_MAC),
        ),
        fy.P4TableEntry(
            "nexthop",
            match=fy.Match(id=2),
            action=fy.Action("set_nexthop", port=2, src_mac=LAN_MAC, dst_mac=SERVER_MAC),
        ),
    ]


def sad_in(sa_id: int = 7, spi: int = SPI_IN, slot: int = 0, key: bytes = KEY_IN) -> fy.P4TableEntry:
    limits = dict.fromkeys(("soft_packets", "soft_bytes", "hard_packets", "hard_bytes"), 0)
    action = fy.Action(
        "open", sa_id=sa_id, slot=slot, suite=1, wrapped_key=wrapped(key), esn=1, replay_window=1024, **limits
    )
    return fy.P4TableEntry("sad_in", match=fy.Match(dst=ip(GATEWAY), spi=spi), action=action)


def sad_out(sa_id: int = 8, kek: bytes = KEK) -> fy.P4TableEntry:
    limits = dict.fromkeys(("soft_packets", "soft_bytes", "hard_packets", "hard_bytes"), 0)
    outer = {"src": ip(GATEWAY), "dst": ip(PEER), "sport": 4500, "dport": PEER_PORT}
    action = fy.Action(
        "seal", slot=0, suite=1, wrapped_key=wrapped(KEY_OUT, kek), spi=SPI_OUT, esn=1, **limits, **outer
    )
    return fy.P4TableEntry("sad_out", match=fy.Match(sa_id=sa_id), action=action)


def spd_in(sa_id: int = 7) -> fy.P4TableEntry:
    match = fy.Match(sa_id=sa_id, src=(ip(INNER), ANY), dst=(ip(SERVER), ANY))
    return fy.P4TableEntry("spd_in", match=match, priority=10, action=fy.Action("permit"))


def spd_out(sa_id: int = 8) -> fy.P4TableEntry:
    match = fy.Match(role=2, src=(ip(SERVER), ANY), dst=(ip(INNER), ANY))
    return fy.P4TableEntry("spd_out", match=match, priority=10, action=fy.Action("protect", sa_id=sa_id))


def tunnel() -> list[fy.P4TableEntry]:
    return [sad_in(), spd_in(), sad_out(), spd_out()]
