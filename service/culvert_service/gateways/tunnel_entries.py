"""The entries of one tunnel. Pure.

sad_in  (gateway's address, SPI)              → open(slot, key, limits)    ┐
spd_in  (SA, inner address → resource)        → permit                     ├ one pair of SAs
sad_out (SA)                                  → seal(slot, key, SPI, peer) ┘
spd_out (LAN, resource → inner address)       → protect(SA)                  the tunnel's outbound policy
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from culvert_service.gateways.entry import HOST_MASK, Entry, MatchValue, Update, deletes, entry, inserts
from culvert_service.gateways.limits import Limits, hard
from culvert_service.gateways.sa import SaId, SaNumbers
from culvert_service.gateways.site import ip_number

# Suite.AES_GCM_256 in p4/gateway (RFC 4106).
SUITE_AES_GCM_256 = 1
# A packet late by this many still counts (RFC 4303 section 3.4.3).
REPLAY_WINDOW = 1024
# RFC 3948.
ESP_IN_UDP_PORT = 4500
_ROLE_LAN = 2


@dataclass(frozen=True, slots=True)
class Path:
    """Everything about a tunnel that its entries need, but for its SAs."""

    tunnel_id: uuid.UUID
    gateway_address: str
    inner_address: str
    resource_address: str
    peer_address: str
    peer_port: int
    soft: Limits

    def seen_from(self, address: str, port: int) -> Path:
        """The same tunnel, its device elsewhere."""
        return replace(self, peer_address=address, peer_port=port)


@dataclass(frozen=True, slots=True)
class Pair:
    """One generation: the SA that the gateway opens with, the SA that it seals with."""

    generation: int
    to_gateway: SaNumbers
    to_device: SaNumbers


@dataclass(frozen=True, slots=True)
class WrappedKeys:
    to_gateway: bytes
    to_device: bytes


def pair_entries(path: Path, pair: Pair, keys: WrappedKeys | None = None) -> tuple[Entry, Entry, Entry]:
    """sad_in, spd_in, sad_out. Without keys they can be compared and deleted, but not written."""
    into, out = pair.to_gateway, pair.to_device
    limits = _limits(path.soft)
    sad_in = entry(
        "sad_in",
        {"dst": ip_number(path.gateway_address), "spi": into.spi},
        "open",
        {"sa_id": into.sa_id, "slot": into.slot, "suite": SUITE_AES_GCM_256, "esn": 1}
        | {"replay_window": REPLAY_WINDOW}
        | limits,
        wrapped_key=keys and keys.to_gateway,
    )
    selectors: dict[str, MatchValue] = {
        "sa_id": into.sa_id,
        "src": (ip_number(path.inner_address), HOST_MASK),
        "dst": (ip_number(path.resource_address), HOST_MASK),
    }
    sad_out = entry(
        "sad_out",
        {"sa_id": out.sa_id},
        "seal",
        {"slot": out.slot, "suite": SUITE_AES_GCM_256, "spi": out.spi, "esn": 1}
        | limits
        | {"src": ip_number(path.gateway_address), "dst": ip_number(path.peer_address)}
        | {"sport": ESP_IN_UDP_PORT, "dport": path.peer_port},
        wrapped_key=keys and keys.to_device,
    )
    return sad_in, entry("spd_in", selectors, "permit", priority=1), sad_out


def policy_entry(path: Path, sa_id: SaId) -> Entry:
    """spd_out. Two resources of one device may share an address: each tunnel's policy then needs a priority of its own."""
    match: dict[str, MatchValue] = {
        "role": _ROLE_LAN,
        "src": (ip_number(path.resource_address), HOST_MASK),
        "dst": (ip_number(path.inner_address), HOST_MASK),
    }
    return entry("spd_out", match, "protect", {"sa_id": sa_id}, priority=1 + path.tunnel_id.int % (2**31 - 2))


def install_pair(path: Path, pair: Pair, keys: WrappedKeys) -> list[Update]:
    """Inbound before outbound."""
    return inserts(*pair_entries(path, pair, keys))


def remove_pair(path: Path, pair: Pair) -> list[Update]:
    """Outbound before inbound."""
    return deletes(*reversed(pair_entries(path, pair)))


def _limits(soft: Limits) -> dict[str, int]:
    ceiling = hard(soft)
    return {
        "soft_packets": soft.packets,
        "soft_bytes": soft.bytes,
        "hard_packets": ceiling.packets,
        "hard_bytes": ceiling.bytes,
    }
