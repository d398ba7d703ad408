"""The entries of one tunnel. Pure.

sad_in  (gateway's address, SPI)              → open(slot, key, limits)    ┐
spd_in  (SA, inner address → target), each    → permit                     ├ one pair of SAs
sad_out (SA)                                  → seal(slot, key, SPI, peer) ┘
spd_out (LAN, target → inner address), each   → protect(SA)                  the tunnel's outbound policy,
        (LAN, gateway → inner address, ICMP)                                 with the gateway's answers to probes

A pair that a crypto host serves has three entries for each SA (docs/crypto-port.md):

sad_in  (gateway's address, SPI)  → open_at(port, slot, SPI)       host_in  (port, slot, SPI) → open(key, limits)
crypto_in  (port, slot, SPI)      → opened(SA)                     host_out (port, slot, SPI) → seal(key, SPI, limits)
sad_out (SA)                      → seal_at(port, slot, SPI)
crypto_out (port, slot, SPI)      → sealed(SA, SPI, peer)

The gateway follows the peer by itself: it stores the source of the last authenticated packet in the tunnel's endpoint,
under the pair's tag. That source takes precedence over the peer in sad_out.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from culvert_proto.contract import MIN_REPLAY_WINDOW, NAT_T_PORT, Suite
from culvert_proto.sa import Limits, inner_length

from culvert_service.gateways import mapped
from culvert_service.gateways.entry import Entry, EntryKey, MatchValue, Update, deletes, entry, inserts
from culvert_service.gateways.sa import Endpoint, SaId, SaNumbers, Tag, compute_hard
from culvert_service.gateways.selector import Selector
from culvert_service.gateways.site import LAN, Probe

# A priority is a positive signed 32-bit number. Its high bits hold 256 mask bits of two addresses; this many are left.
_PRECEDENCE_BITS = 22
# All tunnels of a device at a gateway have the same match for answers to probes, so their priorities need more bits.
_TIE_BITS = 8
_BOTH_HOSTS = 256

_ICMP, _ICMPV6 = 1, 58

# The fields that identify the SA; the other fields can be modified.
_IDENTITY = ("sa_id", "port", "slot", "generation", "spi", "suite", "esn", "endpoint", "tag")
# The tables whose entries are lost with an SA. Those of a crypto host have its key, the others lead to it.
SA_TABLES = ("sad_in", "sad_out", "host_in", "host_out")


class TunnelParameters(Protocol):
    """The parameters of a tunnel's entries, without its SAs. `peer_port` 0: ESP without UDP."""

    @property
    def tunnel_id(self) -> uuid.UUID: ...
    @property
    def gateway_address(self) -> str: ...
    @property
    def peer_address(self) -> str: ...
    @property
    def peer_port(self) -> int: ...
    @property
    def endpoint(self) -> Endpoint: ...
    @property
    def soft(self) -> Limits: ...
    @property
    def suite(self) -> Suite: ...
    @property
    def inner_mtu(self) -> int:
        """Bytes of the largest packet that goes the whole way."""
        ...

    def inward(self) -> Iterator[dict[str, MatchValue]]:
        """Matches for packets that come out of the tunnel."""
        ...

    def outward(self) -> Iterator[dict[str, MatchValue]]:
        """Matches for packets from the LAN that go into the tunnel."""
        ...

    def answers(self) -> Iterator[dict[str, MatchValue]]:
        """Matches for the gateway's own ICMP errors about packets out of the tunnel."""
        ...


@dataclass(frozen=True, slots=True)
class Path:
    """A device's tunnel: the parameters between the device's inner addresses, one or one of each family, and a resource.

    `gateway_address`: the gateway's own outer address. `public_address`: the one that the device sends to.
    """

    tunnel_id: uuid.UUID
    gateway_address: str
    public_address: str
    inner_address: str
    selectors: tuple[Selector, ...]
    peer_address: str
    peer_port: int
    endpoint: Endpoint
    soft: Limits
    suite: Suite = Suite.AES_GCM_256
    link_mtu: int = 1500
    lan_mtu: int = 1500
    inner_address6: str | None = None
    # The path MTU in bytes that the device measured; None when it has not reported one.
    path_mtu: int | None = None
    probe: Probe | None = None

    @property
    def site_mtu(self) -> int:
        """Bytes of the largest inner packet that fits the gateway's own links."""
        return self._inner_mtu(self.link_mtu)

    @property
    def inner_mtu(self) -> int:
        """Bytes of the largest packet that goes the whole way."""
        return self._inner_mtu(min(self.link_mtu, self.path_mtu or self.link_mtu))

    def _inner_mtu(self, outer: int) -> int:
        family = mapped.family(self.gateway_address)
        sealed = inner_length(outer, family, self.suite, udp=self.peer_port != 0)
        return min(sealed, self.lan_mtu)

    @property
    def remote_prefixes(self) -> tuple[str, ...]:
        """The prefixes that the device sends into the tunnel."""
        return tuple(dict.fromkeys(selector.prefix for selector, _ in self.ends()))

    @property
    def carried(self) -> tuple[Selector, ...]:
        """The selectors in the device's grant."""
        return tuple(selector for selector, _ in self.ends())

    def ends(self) -> Iterator[tuple[Selector, str]]:
        """Each selector with the inner address of its family; selectors without such an address are left out."""
        for selector in self.selectors:
            inner = self.inner_address if selector.family == 4 else self.inner_address6
            if inner is not None:
                yield selector, inner

    def inward(self) -> Iterator[dict[str, MatchValue]]:
        return (selector.towards(inner) for selector, inner in self.ends())

    def outward(self) -> Iterator[dict[str, MatchValue]]:
        return (selector.back_to(inner) for selector, inner in self.ends())

    def answers(self) -> Iterator[dict[str, MatchValue]]:
        if self.probe is not None:
            family = mapped.family(self.probe.source)
            inner = self.inner_address if family == 4 else self.inner_address6
            if inner is not None:
                yield Selector(self.probe.source, _ICMP if family == 4 else _ICMPV6).back_to(inner)

    def with_peer(self, address: str, port: int) -> Path:
        """The same tunnel with another peer endpoint."""
        return replace(self, peer_address=address, peer_port=port)


@dataclass(frozen=True, slots=True)
class Pair:
    """A generation: the SA for decryption and the SA for encryption at the gateway.

    `crypto_port`: the gateway's port to the crypto host that serves both; None: the gateway's own engine.
    """

    generation: int
    to_gateway: SaNumbers
    to_device: SaNumbers
    tag: Tag
    crypto_port: int | None = None


@dataclass(frozen=True, slots=True)
class WrappedKeys:
    to_gateway: bytes
    to_device: bytes


def pair_entries(path: TunnelParameters, pair: Pair, keys: WrappedKeys | None = None) -> tuple[Entry, ...]:
    """sad_in, spd_in for each selector, sad_out, with those of a crypto host before the entries that lead to them.

    Entries without keys can be compared and deleted, but not written.
    """
    into, out = pair.to_gateway, pair.to_device
    esp = {"suite": path.suite.number, "esn": 1} | _limits(path.soft)
    opens, seals = esp | {"replay_window": MIN_REPLAY_WINDOW}, esp
    peer: dict[str, int] = {"endpoint": path.endpoint, "tag": pair.tag}
    opened = peer | {"sa_id": into.sa_id}
    sealed = (
        peer
        | {"spi": out.spi}
        | {"src": mapped.number(path.gateway_address), "dst": mapped.number(path.peer_address)}
        | {"sport": NAT_T_PORT if path.peer_port else 0, "dport": path.peer_port}
    )
    into_key, out_key = (keys.to_gateway, keys.to_device) if keys else (None, None)
    sad_in, sad_out = sa_keys(path, pair)[:2]
    if pair.crypto_port is None:
        return (
            _entry(sad_in, "open", opens | opened | {"slot": into.slot}, into_key),
            *inward_policy(path, pair),
            _entry(sad_out, "seal", seals | sealed | {"slot": out.slot}, out_key),
        )
    into_at, out_at = _at_host(pair.crypto_port, into), _at_host(pair.crypto_port, out)
    return (
        entry("host_in", {**into_at}, "open", opens | {"spi": into.spi}, wrapped_key=into_key),
        entry("crypto_in", {**into_at}, "opened", opened),
        _entry(sad_in, "open_at", into_at),
        *inward_policy(path, pair),
        entry("host_out", {**out_at}, "seal", seals | {"spi": out.spi}, wrapped_key=out_key),
        entry("crypto_out", {**out_at}, "sealed", sealed | {"sa_id": out.sa_id}),
        _entry(sad_out, "seal_at", out_at),
    )


def inward_policy(path: TunnelParameters, pair: Pair) -> tuple[Entry, ...]:
    """spd_in of one generation."""
    sa_id, params = pair.to_gateway.sa_id, {"inner_mtu": path.inner_mtu}
    return tuple(
        entry("spd_in", {"sa_id": sa_id, **match}, "permit", params, priority=1) for match in path.inward()
    )


def sa_keys(path: TunnelParameters, pair: Pair) -> tuple[EntryKey, ...]:
    """The keys of the pair's entries in sad_in and sad_out, then of those in host_in and host_out, if any."""
    into = (("dst", mapped.number(path.gateway_address)), ("spi", pair.to_gateway.spi))
    at_gateway = ("sad_in", into, 0), ("sad_out", (("sa_id", pair.to_device.sa_id),), 0)
    if pair.crypto_port is None:
        return at_gateway
    served = (("host_in", pair.to_gateway), ("host_out", pair.to_device))
    at_host = ((table, tuple(sorted(_at_host(pair.crypto_port, sa).items())), 0) for table, sa in served)
    return *at_gateway, *at_host


def same_sa(one: Entry, other: Entry) -> bool:
    """Whether two entries of an SA with the same key are the same SA; peer and limits may differ."""
    return one.action == other.action and _identity(one) == _identity(other)


def precedence(tunnel_id: uuid.UUID) -> int:
    """The rank among a device's tunnels with equally narrow selectors for a packet; both ends use it.

    If the gateway answered through a tunnel that the device does not send through, it would not learn the device's moves.
    """
    return 1 + tunnel_id.int % (2**_PRECEDENCE_BITS - 1)


def policy_entries(path: TunnelParameters, sa_id: SaId) -> tuple[Entry, ...]:
    """spd_out. Of overlapping targets the narrower one wins, as at the device; of equal ones the higher precedence."""
    among_equals = precedence(path.tunnel_id)
    params = {"sa_id": sa_id, "inner_mtu": path.inner_mtu}
    matches = [(_narrowness(match), {"role": LAN, **match}) for match in path.outward()]
    ranked = [((narrow << _PRECEDENCE_BITS) + among_equals, match) for narrow, match in matches]
    tie = (path.tunnel_id.int >> 64) % (1 << _TIE_BITS)
    of_answers = (_BOTH_HOSTS << _PRECEDENCE_BITS) + (among_equals << _TIE_BITS) + tie
    ranked += [(of_answers, {"role": LAN, **match}) for match in path.answers()]
    return tuple(entry("spd_out", match, "protect", params, priority=priority) for priority, match in ranked)


def install_pair(path: TunnelParameters, pair: Pair, keys: WrappedKeys) -> list[Update]:
    """Inbound before outbound."""
    return inserts(*pair_entries(path, pair, keys))


def remove_pair(path: TunnelParameters, pair: Pair) -> list[Update]:
    """Outbound before inbound."""
    return deletes(*reversed(pair_entries(path, pair)))


def _narrowness(match: dict[str, MatchValue]) -> int:
    """The number of mask bits of both addresses."""
    ternary = (value for value in (match["src"], match["dst"]) if isinstance(value, tuple))
    return sum(mask.bit_count() for _, mask in ternary)


def _entry(key: EntryKey, action: str, params: dict[str, int], wrapped_key: bytes | None = None) -> Entry:
    table, match, priority = key
    return Entry(table, match, action, tuple(sorted(params.items())), priority, wrapped_key)


def _at_host(crypto_port: int, sa: SaNumbers) -> dict[str, int]:
    """An SA's place at a crypto host. Each SA has another SPI than the slot's SA before it."""
    return {"port": crypto_port, "slot": sa.slot, "generation": sa.spi}


def _identity(item: Entry) -> tuple[int | None, ...]:
    params = dict(item.params)
    return tuple(params.get(name) for name in _IDENTITY)


def _limits(soft: Limits) -> dict[str, int]:
    ceiling = compute_hard(soft)
    return {
        "soft_packets": soft.packets,
        "soft_bytes": soft.bytes,
        "soft_seconds": soft.seconds,
        "hard_packets": ceiling.packets,
        "hard_bytes": ceiling.bytes,
        "hard_seconds": ceiling.seconds,
    }
